//! Finding the other files from which libhdf5 reads an input, through links, virtual sources and raw data
//! files.

use super::cycle_check::{named, unescaped};
use super::external_inputs;
use super::plan::absolute;
use crate::library::Library;
use crate::static_symbols::is_absent;
use crate::symbols::Hid;
use crate::virtual_sources::VIRTUAL;
use crate::{Result, fail};
use hyperchunk_udf::record::{Record, Slot};
use hyperchunk_udf::sources::{Sources, Target};
use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::OsStrExt as _;

/// Maximum nesting depth of virtual datasets.
const MAX_DEPTH: usize = 16;
/// Maximum number of sources examined for one input.
const MAX_SOURCES: usize = 1 << 16;
/// The longest value of a link, in bytes: HDF5 stores its length in 16 bits.
const MAX_LINK_BYTES: usize = 1 << 16;

type Info = unsafe extern "C" fn(Hid, *const c_char, *mut c_void, Hid) -> c_int;
type Value = unsafe extern "C" fn(Hid, *const c_char, *mut c_void, usize, Hid) -> c_int;

/// Returns the sources of the object with this name in an open file: a dataset, including its virtual
/// sources, or an object with an attribute.
pub(crate) fn find(library: &'static Library, file: Hid, name: &str) -> Result<Sources> {
    let mut walk = Walk { library, file, found: Sources::default(), remaining_sources: MAX_SOURCES };
    walk.object(absolute(name).as_bytes(), 0)?;
    Ok(walk.found)
}

/// Fails if an input comes from other files than its record says.
pub(crate) fn check(library: &'static Library, file: Hid, record: &Record, input: &Slot) -> Result<()> {
    let name = record.find_attribute(input).map_or(input.name.as_str(), |(object, _)| object);
    hyperchunk_udf::sources::check(record, input, &find(library, file, name)?)
}

struct Walk {
    library: &'static Library,
    file: Hid,
    found: Sources,
    remaining_sources: usize,
}

impl Walk {
    fn object(&mut self, path: &[u8], depth: usize) -> Result<()> {
        let library = self.library;
        let Ok(name) = CString::new(path) else { fail!(Invalid, "a name contains a NUL byte") };
        // Follow the links before opening anything: opening something other than a file may block forever.
        let links = Links::load(library);
        if let Some(links) = &links {
            let mut found = std::mem::take(&mut self.found);
            let followed = found.follow(path, |at| links.target(self.file, at));
            self.found = found;
            if followed?.is_none() {
                return Ok(());
            }
        }
        // SAFETY: a NUL-terminated name; 0 is the default access list.
        let object = unsafe { (library.f.object_open)(self.file, name.as_ptr(), 0) };
        // A missing object has no sources.
        let Ok(object) = library.wrap_object(object, "the object") else { return Ok(()) };
        let (own, other) =
            (library.instance(&library.object_file(self.file)?)?, library.object_file(object.id)?);
        if library.instance(&other)? != own {
            if links.is_none() {
                fail!(
                    Unsupported,
                    "it comes from another file, whose name cannot be determined: this statically linked program lacks H5Lget_info and H5Lget_val"
                )
            }
            // The program mounted the other file (`H5Fmount`).
            return Ok(());
        }
        let Ok(plist) = library.create_plist(object.id) else { return Ok(()) };
        for raw in external_inputs::raw_names(library, plist.id)? {
            if !external_inputs::is_of_store(library, object.id, &raw) {
                self.found.add(raw.as_bytes(), b"");
            }
        }
        // SAFETY: an open list.
        if unsafe { (library.f.plist_layout)(plist.id) } != VIRTUAL {
            return Ok(());
        }
        if depth >= MAX_DEPTH {
            fail!(Limit, "virtual datasets are nested more than {MAX_DEPTH} levels deep")
        }
        for (file, source) in named(library, plist.id, &mut self.remaining_sources)? {
            // A name with `%b` is listed as stored.
            let plain = |name: &OsStr| unescaped(name.to_owned()).unwrap_or_else(|_| name.to_owned());
            let (file, source) = (plain(&file), plain(&source));
            if file == "." {
                let path = [b"/", source.as_bytes()].concat();
                self.object(&path, depth + 1)?;
            } else {
                self.found.add(file.as_bytes(), source.as_bytes());
            }
        }
        Ok(())
    }
}

/// Functions that return the target of a link.
struct Links {
    library: &'static Library,
    info: Info,
    value: Value,
}

impl Links {
    /// Returns `None` in a statically linked program that lacks these functions.
    fn load(library: &'static Library) -> Option<Self> {
        let symbol = |names: &[&CStr]| {
            let mut found = names.iter().map(|name| library.optional(name));
            found.find(|symbol| !symbol.is_null() && !is_absent(symbol.cast_const()))
        };
        let info = symbol(&[c"H5Lget_info2", c"H5Lget_info1", c"H5Lget_info"])?;
        let value = symbol(&[c"H5Lget_val"])?;
        // SAFETY: the symbols are libhdf5's, whose headers give them these types.
        let (info, value) = unsafe {
            (std::mem::transmute::<*mut c_void, Info>(info), std::mem::transmute::<*mut c_void, Value>(value))
        };
        Some(Links { library, info, value })
    }

    /// Returns the target of the link at an absolute path. Fails if an external link leads to something other
    /// than a file, since opening it could block forever.
    fn target(&self, file: Hid, path: &[u8]) -> Result<Target> {
        const SOFT: c_int = 1;
        const EXTERNAL: c_int = 64;
        let Ok(path) = CString::new(path) else { fail!(Invalid, "a name contains a NUL byte") };
        // Each version of `H5L_info_t` begins with the link's type, and has less than 64 bytes.
        let mut told = [0_u64; 32];
        // SAFETY: a NUL-terminated name, and room for the structure.
        let rc = unsafe { (self.info)(file, path.as_ptr(), told.as_mut_ptr().cast(), 0) };
        let kind = c_int::from_ne_bytes(told[0].to_ne_bytes()[..4].try_into().unwrap_or_default());
        if rc < 0 || (kind != SOFT && kind != EXTERNAL) {
            return Ok(Target::Here);
        }
        let mut bytes = vec![0_u8; MAX_LINK_BYTES + 1];
        // SAFETY: as above, and a buffer of the size that is passed.
        let rc = unsafe { (self.value)(file, path.as_ptr(), bytes.as_mut_ptr().cast(), MAX_LINK_BYTES, 0) };
        if rc < 0 {
            fail!(Invalid, "cannot read the target of a link on its path")
        }
        // The value of an external link is a byte with version and flags, then the names of the file and of
        // the object, each followed by a zero.
        let mut texts =
            bytes.get(usize::from(kind == EXTERNAL)..).unwrap_or_default().split(|byte| *byte == 0);
        let first = texts.next().unwrap_or_default().to_vec();
        if kind == SOFT {
            return Ok(Target::Soft(first));
        }
        external_inputs::check_is_file(self.library, file, OsStr::from_bytes(&first))?;
        Ok(Target::External { file: first, path: texts.next().unwrap_or_default().to_vec() })
    }
}
