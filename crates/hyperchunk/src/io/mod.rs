//! Sources of a file's bytes: local files, memory, object stores and web servers.

mod beside;
mod blocks;
pub(crate) mod interrupt;
pub(crate) mod local;
mod lock;
mod memory;
#[cfg(feature = "cloud")]
mod object_store;
#[cfg(not(feature = "cloud"))]
#[path = "no_object_store.rs"]
mod object_store;
mod pages;
mod per_process;
mod percent;
pub(crate) mod ranges;
mod reach;
mod remote;
pub(crate) mod rounds;
mod schemes;
mod stamp;
pub(crate) mod together;
pub(crate) mod upload;
mod view;
pub(crate) mod without_symlinks;

pub use blocks::set_metadata_cache_bytes;
pub(crate) use blocks::{MAX_GAP_BYTES, forget, metadata_cache_bytes, structure_requests};
pub use interrupt::{
    Ask, current_interrupt, is_wanted as is_interrupted, set_interrupt, with_interrupt,
    with_process_interrupt,
};
pub use local::LocalFile;
pub use local::now;
pub(crate) use local::{journal_path, with_suffix};
pub use lock::Locking;
pub(crate) use lock::{ExclusiveLock, Lock};
pub use memory::Memory;
#[cfg(feature = "cloud")]
pub(crate) use object_store::NAMED_BY;
pub use per_process::PerProcess;
pub(crate) use reach::{FilePages, Reach, around};
pub use remote::{Counters, Land, Remote, RemoteOptions, RequestCost};
pub use schemes::{Opener, set_schemes};
pub(crate) use view::FileView;

use crate::Result;
use std::io::IoSliceMut;
use std::path::PathBuf;
use std::sync::Arc;

/// Opens a file by its path or URL: `s3://`, `gs://`, `az://`, `abfs://`, `http://`, `https://`, `file://`,
/// or a scheme registered with [`set_schemes`].
///
/// # Errors
/// NotFound or Io from the system, the network or the store; Invalid for invalid URLs and settings;
/// Unsupported if this build has no object stores (feature `cloud`).
pub fn open(name: &str, options: &RemoteOptions) -> Result<Arc<dyn Source>> {
    match local_path(name) {
        Some(path) => Ok(Arc::new(LocalFile::open(&path)?)),
        None => schemes::open(name, options).unwrap_or_else(|| object_store::open(name, options)),
    }
}

/// Starts to write an object.
///
/// # Errors
/// As [`open`]; Exists if the object exists and may not be replaced.
pub fn start_upload(url: &str, options: &RemoteOptions, replace: bool) -> Result<Arc<dyn upload::Upload>> {
    object_store::start_upload(url, options, replace)
}

/// Lists the objects directly below a name.
///
/// # Errors
/// As [`open`]; Unsupported for web servers.
pub fn list(url: &str, options: &RemoteOptions) -> Result<Vec<upload::ListedObject>> {
    object_store::list(url, options)
}

/// Writes an object in one request and replaces an existing one.
///
/// # Errors
/// As [`list`].
pub fn put(url: &str, options: &RemoteOptions, bytes: Vec<u8>) -> Result<()> {
    object_store::put(url, options, bytes)
}

/// Writes an object in one request, unless it exists.
///
/// # Errors
/// As [`list`]; Unsupported if the store cannot check this condition.
pub fn put_new(url: &str, options: &RemoteOptions, bytes: Vec<u8>) -> Result<upload::CreateOutcome> {
    object_store::put_new(url, options, bytes)
}

/// Deletes an object if it exists.
///
/// # Errors
/// As [`list`].
pub fn delete(url: &str, options: &RemoteOptions) -> Result<()> {
    object_store::delete(url, options)
}

/// Aborts an unfinished upload, if there is one.
///
/// # Errors
/// As [`list`].
pub fn abort_upload(url: &str, options: &RemoteOptions, id: &str) -> Result<()> {
    object_store::abort_upload(url, options, id)
}

/// Opens a URL whose size and version are known, without a request. `None` if requests cannot be made
/// conditional on that version.
pub(crate) fn open_known(
    name: &str,
    options: &RemoteOptions,
    size: u64,
    version: &str,
) -> Option<Result<Arc<dyn Source>>> {
    let etag = version.strip_prefix("etag:").filter(|etag| !etag.starts_with("W/"))?;
    object_store::open_known(name, options, size, etag)
}

/// Returns the path of a local file from its path or `file://` URL; `None` for other URLs.
pub fn local_path(name: &str) -> Option<PathBuf> {
    let Some((scheme, rest)) = name.split_once("://") else { return Some(name.into()) };
    let is_scheme = scheme.bytes().enumerate().all(|(place, byte)| {
        byte.is_ascii_alphabetic() || (place > 0 && (byte.is_ascii_digit() || b"+-.".contains(&byte)))
    });
    if scheme.is_empty() || !is_scheme {
        return Some(name.into());
    }
    let path = scheme.eq_ignore_ascii_case("file").then(|| rest.strip_prefix("localhost").unwrap_or(rest));
    path.map(|path| PathBuf::from(percent::decode(path).unwrap_or_else(|| path.to_owned())))
}

/// Returns a name for messages, without the user, password and query (such as a signature) of a web server's
/// URL.
pub fn without_secrets(name: &str) -> String {
    let Some((scheme, rest)) = name.split_once("://").filter(|_| local_path(name).is_none()) else {
        return name.to_owned();
    };
    let web = scheme.to_ascii_lowercase().starts_with("http");
    let end = if web { rest.find(['?', '#']) } else { None };
    let (rest, query) = end.map_or((rest, ""), |end| (&rest[..end], "?…"));
    let host_ends = rest.find('/').unwrap_or(rest.len());
    let start = rest[..host_ends].rfind('@').filter(|_| web).map_or(0, |at| at + 1);
    format!("{scheme}://{}{query}", &rest[start..])
}

/// Source of the bytes of one file. May be read from many threads at once.
pub trait Source: Send + Sync + std::fmt::Debug {
    /// Returns the file's size in bytes.
    fn size(&self) -> u64;

    /// Fills `buffer` with the bytes from `offset` on.
    ///
    /// # Errors
    /// Truncated if the file ends earlier; Io from the system.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// Fills one part after the other with the bytes from `offset` on.
    ///
    /// # Errors
    /// As [`Source::read_at`].
    fn read_parts_at(&self, mut offset: u64, parts: &mut [IoSliceMut<'_>]) -> Result<()> {
        for part in parts {
            self.read_at(offset, part)?;
            offset += part.len() as u64;
        }
        Ok(())
    }

    /// Returns the file's version: two sources of one file with equal versions have equal bytes.
    /// `time:…;changed:…` for local files, `etag:…` where there are ETags; `None` if the version is
    /// unknown.
    fn version(&self) -> Option<String> {
        self.remote().map(|remote| remote.identity().to_owned())
    }

    /// Checks that the file is unchanged since it was opened. Called after each read, so that everything that
    /// was read belongs to one version.
    ///
    /// # Errors
    /// Changed if the file was written to, or replaced by another file.
    fn check_unchanged(&self) -> Result<()> {
        Ok(())
    }

    /// Remembers the superblock, `length` bytes at `at`, to recognize writes that do not matter: Hyperchunk's
    /// writer rewrites the superblock with each commit, and before that overwrites nothing that the last
    /// commit refers to.
    fn keep_superblock(&self, at: u64, length: usize) {
        let _ = (at, length);
    }

    /// Treats the file as one that another program writes while it is read: its size may grow, and
    /// [`Source::check_unchanged`] never fails.
    fn follow_growth(&self) {}

    /// Releases the file's lock, if it has one. Later reads still detect changes.
    fn release(&self) {}

    /// Returns the local file, if its bytes are exactly those of this source.
    fn file(&self) -> Option<&std::fs::File> {
        None
    }

    /// Returns the source as a [`Remote`] if its reads are requests; `None` for local files and memory.
    fn remote(&self) -> Option<&dyn Remote> {
        None
    }
}

/// Decodes a percent-encoded part of a URL.
pub fn percent_decoded(part: &str) -> Option<String> {
    percent::decode(part)
}

/// Returns the error for a read past the end of the file.
pub fn ends_before(size: u64, offset: u64, length: usize) -> crate::Error {
    let message = format!("the file ends at byte {size}, before the {length} bytes that should be here");
    crate::Error::new(crate::ErrorKind::Truncated, message).at(offset)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(name: &str, path: Option<&str>, shown: &str) {
        assert_eq!(local_path(name), path.map(PathBuf::from), "{name}");
        assert_eq!(without_secrets(name), shown);
    }

    #[test]
    fn names() {
        for path in ["a.h5", "/a/b.h5", "a:b//c.h5", "1a://b", "://x", ""] {
            check(path, Some(path), path);
        }
        check("file:///a%20b/c.h5", Some("/a b/c.h5"), "file:///a%20b/c.h5");
        check("file://localhost/c.h5", Some("/c.h5"), "file://localhost/c.h5");
        check("s3://bucket/a?b@c", None, "s3://bucket/a?b@c");
        check("https://me:secret@host/a@b.h5?sig=secret#x", None, "https://host/a@b.h5?…");
        check("HTTP://host", None, "HTTP://host");
    }

    #[test]
    fn files_of_this_machine() {
        let options = RemoteOptions::default();
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        for name in [path.to_owned(), format!("file://{path}")] {
            assert!(open(&name, &options).unwrap().remote().is_none());
        }
        assert_eq!(open("file:///not/there", &options).unwrap_err().kind(), crate::ErrorKind::NotFound);
    }
}
