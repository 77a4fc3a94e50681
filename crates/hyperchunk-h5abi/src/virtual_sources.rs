//! The search path of libhdf5 for source files of virtual datasets.

use std::ffi::{OsStr, OsString, c_char};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};

/// `H5D_VIRTUAL`.
pub(crate) const VIRTUAL: i32 = 3;

/// Returns the text that `ask` writes: a function that takes a buffer and its size, and returns the length.
pub(crate) fn text(ask: &dyn Fn(*mut c_char, usize) -> isize) -> Option<OsString> {
    let length = usize::try_from(ask(std::ptr::null_mut(), 0)).ok().filter(|length| *length > 0)?;
    let mut bytes = vec![0_u8; length.saturating_add(1)];
    ask(bytes.as_mut_ptr().cast(), bytes.len());
    bytes.truncate(length);
    Some(OsString::from_vec(bytes))
}

/// Returns the paths at which libhdf5 looks for a source file, in its order: it uses the first that it can
/// open. `folder` contains the virtual dataset's file, `prefix` is from its access list.
pub(crate) fn places(folder: &Path, prefix: Option<&OsStr>, name: &Path) -> Vec<PathBuf> {
    const ORIGIN: &[u8] = b"${ORIGIN}";
    let environment = std::env::var_os("HDF5_VDS_PREFIX");
    let split = environment.iter().flat_map(|list| list.as_bytes().split(|byte| *byte == b':'));
    let prefixes = split.map(OsStr::from_bytes).chain(prefix).filter(|prefix| !prefix.is_empty());
    let prefixes = prefixes.map(|prefix| match prefix.as_bytes().strip_prefix(ORIGIN) {
        Some(rest) => folder.join(OsStr::from_bytes(rest.strip_prefix(b"/").unwrap_or(rest))),
        None => PathBuf::from(prefix),
    });
    let folders: Vec<_> = prefixes.chain([folder.to_owned(), PathBuf::new()]).collect();
    let mut found: Vec<PathBuf> = Vec::new();
    // If an absolute path does not exist, its last component is searched for.
    for name in [Some(name.as_os_str()), name.file_name()].into_iter().flatten() {
        for place in folders.iter().map(|folder| folder.join(name)) {
            if !found.contains(&place) {
                found.push(place);
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_those_of_libhdf5() {
        let check = |folder: &str, prefix: Option<&str>, name: &str, expected: &[&str]| {
            let found = places(Path::new(folder), prefix.map(OsStr::new), Path::new(name));
            assert_eq!(found, expected.iter().map(PathBuf::from).collect::<Vec<_>>());
        };
        check("/data", None, "b.h5", &["/data/b.h5", "b.h5"]);
        check("/data", None, "/x/b.h5", &["/x/b.h5", "/data/b.h5", "b.h5"]);
        check(
            "/data",
            Some("/p"),
            "s/b.h5",
            &["/p/s/b.h5", "/data/s/b.h5", "s/b.h5", "/p/b.h5", "/data/b.h5", "b.h5"],
        );
        check("/data", Some("${ORIGIN}/p"), "b.h5", &["/data/p/b.h5", "/data/b.h5", "b.h5"]);
    }
}
