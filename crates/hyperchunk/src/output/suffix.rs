//! File name suffixes and the formats that they stand for.

use super::cannot_write;
use crate::Result;
use std::path::Path;

/// Kind of output.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An HDF5 file.
    Hdf5,
    /// A NumPy array.
    Array,
    /// An Arrow or Parquet table.
    Table,
    /// A Hyperchunk index.
    Index,
    /// A collection of files.
    Collection,
    /// References for readers of Zarr.
    References,
}

const SUFFIXES: [(Kind, &str, &[&str]); 6] = [
    (Kind::Hdf5, "HDF5", &["h5", "hdf5", "hdf", "nc", "nc4", "he5", "h5ad", "nxs", "cxi", "loom"]),
    (Kind::Array, "an array", &["npy"]),
    (Kind::Table, "a table", &["arrow", "feather", "ipc", "arrows", "parquet", "pq"]),
    (Kind::Index, "an index", &["hcindex"]),
    (Kind::Collection, "a collection", &["hcx"]),
    (Kind::References, "references", &["json"]),
];
/// Suffixes of formats that Hyperchunk does not write.
const FOREIGN: [&str; 37] = [
    "npz", "csv", "tsv", "txt", "text", "log", "md", "rst", "py", "ipynb", "c", "h", "rs", "xls", "xlsx",
    "ods", "doc", "docx", "pdf", "png", "jpg", "jpeg", "gif", "svg", "tif", "tiff", "zip", "tar", "gz",
    "bz2", "xz", "zst", "7z", "html", "xml", "yaml", "toml",
];

fn suffix(path: &Path) -> Option<String> {
    path.extension().map(|suffix| suffix.to_string_lossy().to_ascii_lowercase())
}

fn find(suffix: &str) -> Option<Kind> {
    SUFFIXES.iter().find(|(_, _, known)| known.contains(&suffix)).map(|(kind, ..)| *kind)
}

/// Lists the known suffixes of some kinds, for messages.
#[must_use]
pub fn known(kinds: &[Kind]) -> String {
    let named = SUFFIXES.iter().filter(|(kind, ..)| kinds.contains(kind));
    let named = named.map(|(_, name, suffixes)| format!(".{} ({name})", suffixes.join(", .")));
    named.collect::<Vec<_>>().join(" or ")
}

/// Returns the kind of output that a name's suffix stands for, which must be one of `kinds`.
///
/// # Errors
/// Invalid for a name with another suffix or none; the message lists the known suffixes.
pub fn choose(path: &Path, kinds: &[Kind]) -> Result<Kind> {
    let suffix = suffix(path);
    let found = suffix.as_deref().and_then(find).filter(|kind| kinds.contains(kind));
    found.ok_or_else(|| {
        let got = suffix.map_or_else(|| "one without a suffix".into(), |suffix| format!(".{suffix}"));
        cannot_write(path, &format!("expected a name that ends with {}, got {got}", known(kinds)))
    })
}

/// Checks that a name does not have another format's suffix. Unknown suffixes are accepted, because programs
/// have their own suffixes for HDF5 files, and so are names without a suffix.
///
/// # Errors
/// Invalid; the message lists the known suffixes.
pub fn accept(path: &Path, kinds: &[Kind]) -> Result<()> {
    let Some(suffix) = suffix(path) else { return Ok(()) };
    if find(&suffix).map_or(!FOREIGN.contains(&&*suffix), |found| kinds.contains(&found)) {
        return Ok(());
    }
    let known = known(kinds);
    Err(cannot_write(
        path,
        &format!("expected a name that ends with {known}, got .{suffix} of another format"),
    ))
}

/// Checks that a folder's name has no known suffix of a file: such a name was probably meant to be a file.
///
/// # Errors
/// Invalid; the message lists the suffixes of `kinds`, the files that the caller also writes.
pub fn accept_folder(path: &Path, kinds: &[Kind]) -> Result<()> {
    let Some(suffix) = suffix(path) else { return Ok(()) };
    if find(&suffix).is_none() && !FOREIGN.contains(&&*suffix) {
        return Ok(());
    }
    let known = known(kinds);
    Err(cannot_write(
        path,
        &format!("expected the name of a folder, or one that ends with {known}, got .{suffix}"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_suffix_of_another_format_is_refused() {
        for name in ["a.h5", "a.NC", "a", "run.0001", "a.mat", ".h5", "a.b/c"] {
            accept(Path::new(name), &[Kind::Hdf5]).unwrap();
        }
        for name in ["a.csv", "a.json", "a.npy", "a.TXT", "a.parquet", "a.hcindex"] {
            let error = accept(Path::new(name), &[Kind::Hdf5]).unwrap_err().to_string();
            assert!(error.contains(".hdf5"), "{error}");
        }
        assert_eq!(choose(Path::new("a.npy"), &[Kind::Array, Kind::Hdf5]).unwrap(), Kind::Array);
        for name in ["a", "a.parquet", "a.npz", "a.h6"] {
            let error = choose(Path::new(name), &[Kind::Array, Kind::Hdf5]).unwrap_err().to_string();
            assert!(error.contains(".npy (an array)") && error.contains(".hdf5"), "{error}");
        }
    }
}
