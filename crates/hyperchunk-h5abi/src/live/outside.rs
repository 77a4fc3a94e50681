//! Which other files the inputs of a live dataset may come from, of those that libhdf5 would open for them.
//!
//! The file says what its inputs are, by external links, sources of virtual datasets and names of raw data; who reads it may have files
//! that are not meant for who made it.

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

/// No name of raw data is longer, in bytes.
const LONGEST: usize = 4096;

/// What may be an input of the live datasets of one open file.
pub(super) struct Outside {
    library: &'static Library,
    allowed: InputFiles,
    /// The library's number of the file.
    instance: u64,
    /// The folder that it is in, without links.
    folder: Option<PathBuf>,
}

impl Outside {
    pub(super) fn new(library: &'static Library, file: &Handle, allowed: InputFiles) -> Result<Self> {
        let folder = real_path(library, file).and_then(|path| path.parent().map(Path::to_owned));
        Ok(Outside { library, allowed, instance: library.instance(file)?, folder })
    }

    /// Fails where an open object lies in a file that it may not come from.
    pub(super) fn check_object(&self, object: Hid) -> Result<()> {
        let file = self.library.file_of(object)?;
        if self.library.instance(&file)? == self.instance {
            return Ok(());
        }
        let name = PathBuf::from(self.library.name_of(file.id, self.library.f.file_name));
        self.check(&real_path(self.library, &file).unwrap_or(name))
    }

    /// Fails where the raw data of a dataset, whose properties these are, lie in a file that they may not come from.
    pub(super) fn check_raw(&self, dataset: Hid, plist: Hid) -> Result<()> {
        type External =
            unsafe extern "C" fn(Hid, u32, usize, *mut std::ffi::c_char, *mut i64, *mut u64) -> i32;
        // SAFETY: an open list.
        let count = unsafe { (self.library.f.plist_external_count)(plist) };
        let Some(count) = u32::try_from(count).ok().filter(|count| *count > 0) else { return Ok(()) };
        let symbol = self.library.optional(c"H5Pget_external");
        if symbol.is_null() || is_absent(symbol.cast_const().cast::<c_void>()) {
            fail!(
                Unsupported,
                "its data are in other files, and which those are cannot be asked in this statically linked program"
            )
        }
        // SAFETY: the symbol is libhdf5's, whose headers give it this type.
        let external: External = unsafe { std::mem::transmute(symbol) };
        for number in 0..count {
            let mut name = vec![0_u8; LONGEST + 1];
            let (mut offset, mut size) = (0, 0);
            // SAFETY: an open list, and live buffers of the sizes that are told.
            let told = unsafe {
                external(plist, number, LONGEST, name.as_mut_ptr().cast(), &raw mut offset, &raw mut size)
            };
            let end = name.iter().position(|byte| *byte == 0).unwrap_or(LONGEST);
            if told < 0 || end >= LONGEST {
                fail!(Invalid, "it does not tell which files its data are in")
            }
            name.truncate(end);
            self.check(&self.raw_place(dataset, &OsString::from_vec(name)))?;
        }
        Ok(())
    }

    /// Where libhdf5 looks for a file of raw data.
    fn raw_place(&self, dataset: Hid, name: &OsStr) -> PathBuf {
        const ORIGIN: &[u8] = b"${ORIGIN}";
        type Prefix = unsafe extern "C" fn(Hid, *mut std::ffi::c_char, usize) -> isize;
        let symbol = self.library.optional(c"H5Pget_efile_prefix");
        let list = self.library.dataset_access_plist(dataset).ok().filter(|_| !symbol.is_null());
        let own = list.and_then(|list| {
            // SAFETY: the symbol is libhdf5's, whose headers give it this type.
            let prefix: Prefix = unsafe { std::mem::transmute(symbol) };
            // SAFETY: an open list, and a buffer of the size that is told.
            text(&|to, size| unsafe { prefix(list.id, to, size) })
        });
        let file = self.library.file_of(dataset).ok();
        let folder = file.and_then(|file| real_path(self.library, &file)?.parent().map(Path::to_owned));
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

    /// Fails for a file that is there and that no input may come from.
    pub(super) fn check(&self, path: &Path) -> Result<()> {
        let Ok(real) = std::fs::canonicalize(path) else { return Ok(()) };
        let shown = escape(&path.display().to_string(), 200);
        let made_up = ["/proc", "/sys", "/dev"].iter().any(|folder| real.starts_with(folder));
        if made_up || !std::fs::metadata(&real).is_ok_and(|metadata| metadata.is_file()) {
            fail!(
                Refused,
                "it leads to `{shown}`, which is no regular file, or one of the system's, and so no input"
            )
        }
        let allowed = match self.allowed {
            InputFiles::Any => true,
            InputFiles::Beside => self.folder.as_ref().is_some_and(|folder| real.starts_with(folder)),
            InputFiles::File => false,
        };
        if !allowed {
            let what = match self.allowed {
                InputFiles::File => "another file",
                _ => "outside this file's folder",
            };
            fail!(
                Refused,
                "it leads to the file `{shown}`, {what}, from where functions get no inputs (profile, `inputs`)"
            )
        }
        Ok(())
    }
}

/// The path of an open file without links.
fn real_path(library: &'static Library, file: &Handle) -> Option<PathBuf> {
    plan::on_disk(library, file)
        .and_then(|disk| disk.path())
        .or_else(|| std::fs::canonicalize(library.name_of(file.id, library.f.file_name)).ok())
}
