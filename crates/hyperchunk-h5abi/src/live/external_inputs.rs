//! Access control for files outside the live dataset's own: rejects inputs that libhdf5 would open from files
//! that the profile does not permit.
//!
//! The file names its inputs: through external links, the sources of virtual datasets, and the names of raw
//! data files. The reader may have access to files that the file's author must not see.

use super::plan;
use crate::handles::Handle;
use crate::library::Library;
use crate::static_symbols::is_absent;
use crate::symbols::Hid;
use crate::virtual_sources::text;
use crate::{Result, fail};
use hyperchunk_udf::escape::escape;
use hyperchunk_udf::profile::InputFiles;
use std::ffi::{OsStr, OsString, c_void};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

/// Maximum length of the name of a raw data file, in bytes.
const MAX_NAME_BYTES: usize = 4096;

/// The files that inputs of the live datasets of one open file may come from.
pub(super) struct ExternalInputs {
    library: &'static Library,
    allowed: InputFiles,
    /// HDF5's serial number of the file.
    instance: u64,
    /// The folder of the file, with links resolved.
    folder: Option<PathBuf>,
}

impl ExternalInputs {
    pub(super) fn new(library: &'static Library, file: &Handle, allowed: InputFiles) -> Result<Self> {
        let folder = real_path(library, file).and_then(|path| path.parent().map(Path::to_owned));
        Ok(ExternalInputs { library, allowed, instance: library.instance(file)?, folder })
    }

    /// Fails if an open object is in a file from which inputs are not allowed.
    pub(super) fn check_object(&self, object: Hid) -> Result<()> {
        let file = self.library.object_file(object)?;
        if self.library.instance(&file)? == self.instance {
            return Ok(());
        }
        let name = PathBuf::from(self.library.object_name(file.id, self.library.f.file_name));
        self.check(&real_path(self.library, &file).unwrap_or(name))
    }

    /// Fails if the raw data of a dataset with these creation properties are in a file from which inputs are
    /// not allowed.
    pub(super) fn check_raw(&self, dataset: Hid, plist: Hid) -> Result<()> {
        let names = raw_names(self.library, plist)?;
        names.iter().try_for_each(|name| self.check(&raw_place(self.library, dataset, name)))
    }

    /// Fails if `path` exists and inputs from it are not allowed.
    pub(super) fn check(&self, path: &Path) -> Result<()> {
        let Ok(real) = std::fs::canonicalize(path) else { return Ok(()) };
        let shown = escape(&path.display().to_string(), 200);
        let is_system = ["/proc", "/sys", "/dev"].iter().any(|folder| real.starts_with(folder));
        if is_system || !std::fs::metadata(&real).is_ok_and(|metadata| metadata.is_file()) {
            return Err(no_file(path));
        }
        let allowed = match self.allowed {
            InputFiles::Any => true,
            InputFiles::Beside => self.folder.as_ref().is_some_and(|folder| real.starts_with(folder)),
            InputFiles::File => false,
        };
        if !allowed {
            let what = match self.allowed {
                InputFiles::File => "not the dataset's own file",
                _ => "outside this file's folder",
            };
            fail!(
                Refused,
                "cannot use the file `{shown}` as an input: it is {what} (`inputs` of the profile)"
            )
        }
        Ok(())
    }
}

/// Returns the path of an open file with links resolved.
fn real_path(library: &'static Library, file: &Handle) -> Option<PathBuf> {
    plan::on_disk(library, file)
        .and_then(|disk| disk.path())
        .or_else(|| std::fs::canonicalize(library.object_name(file.id, library.f.file_name)).ok())
}

/// Returns the raw data files that a creation list names.
pub(super) fn raw_names(library: &'static Library, plist: Hid) -> Result<Vec<OsString>> {
    type External = unsafe extern "C" fn(Hid, u32, usize, *mut std::ffi::c_char, *mut i64, *mut u64) -> i32;
    // SAFETY: an open list.
    let count = unsafe { (library.f.plist_external_count)(plist) };
    let Some(count) = u32::try_from(count).ok().filter(|count| *count > 0) else { return Ok(Vec::new()) };
    let symbol = library.optional(c"H5Pget_external");
    if symbol.is_null() || is_absent(symbol.cast_const().cast::<c_void>()) {
        fail!(
            Unsupported,
            "cannot list the files with its raw data: this statically linked program lacks H5Pget_external"
        )
    }
    // SAFETY: the symbol is libhdf5's, whose headers give it this type.
    let external: External = unsafe { std::mem::transmute(symbol) };
    let mut names = Vec::new();
    for number in 0..count {
        let mut name = vec![0_u8; MAX_NAME_BYTES + 1];
        let (mut offset, mut size) = (0, 0);
        // SAFETY: an open list, and live buffers of the sizes that are passed.
        let told = unsafe {
            external(plist, number, MAX_NAME_BYTES, name.as_mut_ptr().cast(), &raw mut offset, &raw mut size)
        };
        let end = name.iter().position(|byte| *byte == 0).unwrap_or(MAX_NAME_BYTES);
        if told < 0 || end >= MAX_NAME_BYTES {
            fail!(Invalid, "cannot read the names of the files with its raw data")
        }
        name.truncate(end);
        names.push(OsString::from_vec(name));
    }
    Ok(names)
}

/// Returns whether a raw data file is in the store folder that belongs to the dataset's own file.
pub(super) fn is_of_store(library: &'static Library, dataset: Hid, name: &OsStr) -> bool {
    let own = library.object_file(dataset).ok().and_then(|file| real_path(library, &file));
    let place = std::fs::canonicalize(raw_place(library, dataset, name)).ok();
    let (Some(mut folder), Some(place)) = (own.map(PathBuf::into_os_string), place) else { return false };
    folder.push(".d");
    place.starts_with(folder)
}

/// Returns the path at which libhdf5 looks for a raw data file.
fn raw_place(library: &'static Library, dataset: Hid, name: &OsStr) -> PathBuf {
    const ORIGIN: &[u8] = b"${ORIGIN}";
    type Prefix = unsafe extern "C" fn(Hid, *mut std::ffi::c_char, usize) -> isize;
    let symbol = library.optional(c"H5Pget_efile_prefix");
    let list = library.dataset_access_plist(dataset).ok().filter(|_| !symbol.is_null());
    let own = list.and_then(|list| {
        // SAFETY: the symbol is libhdf5's, whose headers give it this type.
        let prefix: Prefix = unsafe { std::mem::transmute(symbol) };
        // SAFETY: an open list, and a buffer of the size that is passed.
        text(&|to, size| unsafe { prefix(list.id, to, size) })
    });
    let file = library.object_file(dataset).ok();
    let folder = file.and_then(|file| real_path(library, &file)?.parent().map(Path::to_owned));
    let mut given = [std::env::var_os("HDF5_EXTFILE_PREFIX"), own].into_iter().flatten();
    let prefix = given.find(|prefix| !prefix.is_empty()).unwrap_or_default();
    match prefix.as_bytes().strip_prefix(ORIGIN) {
        Some(rest) => {
            let rest = OsStr::from_bytes(rest.strip_prefix(b"/").unwrap_or(rest));
            folder.unwrap_or_default().join(rest).join(name)
        }
        None => PathBuf::from(prefix).join(name),
    }
}

fn no_file(path: &Path) -> crate::Error {
    let shown = escape(&path.display().to_string(), 200);
    let message = format!(
        "it leads to `{shown}`, which is no regular file, or is in /proc, /sys or /dev, and so cannot be an input"
    );
    crate::Error::new(crate::ErrorKind::Refused, message)
}

/// Fails if libhdf5, following an external link to a file of this name, could open something that is neither
/// a file nor a folder: that might block.
pub(super) fn check_is_file(library: &'static Library, file: Hid, name: &OsStr) -> Result<()> {
    let file = library.object_file(file)?;
    let own = PathBuf::from(library.object_name(file.id, library.f.file_name));
    let folders = [Some(own), real_path(library, &file)];
    let folders = folders.iter().flatten().filter_map(|path| path.parent()).map(Path::to_owned);
    let prefixes = std::env::var_os("HDF5_EXT_PREFIX").unwrap_or_default();
    let prefixes = prefixes
        .as_bytes()
        .split(|byte| *byte == b':')
        .map(|prefix| PathBuf::from(OsStr::from_bytes(prefix.strip_prefix(b"${ORIGIN}").unwrap_or(prefix))));
    let names = [Some(name), Path::new(name).file_name()];
    let places: Vec<PathBuf> = prefixes
        .chain(folders)
        .chain([PathBuf::new()])
        .flat_map(|folder| names.into_iter().flatten().map(move |name| folder.join(name)).collect::<Vec<_>>())
        .collect();
    let is_special = |place: &&PathBuf| {
        std::fs::metadata(place).is_ok_and(|metadata| !metadata.is_file() && !metadata.is_dir())
    };
    places.iter().find(is_special).map_or(Ok(()), |place| Err(no_file(place)))
}
