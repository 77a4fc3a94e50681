//! Where the bytes of a file come from.

mod blocks;
mod local;
mod memory;
#[cfg(feature = "cloud")]
mod object_store;
#[cfg(not(feature = "cloud"))]
#[path = "no_object_store.rs"]
mod object_store;
mod pages;
mod remote;
pub(crate) mod rounds;
mod view;

pub use blocks::set_metadata_cache_bytes;
pub use local::LocalFile;
pub use memory::Memory;
pub use remote::{Counters, Land, Remote, RemoteOptions, RequestCost};
pub(crate) use view::FileView;

use crate::Result;
use std::path::PathBuf;
use std::sync::Arc;

/// Opens a file by its path or URL: `s3://`, `gs://`, `az://`, `abfs://`, `http://`, `https://` or `file://`.
///
/// # Errors
/// NotFound or Io from the system, the network or the store; Invalid for URLs and settings that make no sense;
/// Unsupported if this build has no object stores (feature `cloud`).
pub fn open(name: &str, options: &RemoteOptions) -> Result<Arc<dyn Source>> {
    match local_path(name) {
        Some(path) => Ok(Arc::new(LocalFile::open(&path)?)),
        None => object_store::open(name, options),
    }
}

/// The path that a name stands for, if it names a file of this machine.
pub(crate) fn local_path(name: &str) -> Option<PathBuf> {
    let Some((scheme, rest)) = name.split_once("://") else { return Some(name.into()) };
    let is_scheme = scheme.bytes().enumerate().all(|(place, byte)| {
        byte.is_ascii_alphabetic() || (place > 0 && (byte.is_ascii_digit() || b"+-.".contains(&byte)))
    });
    if scheme.is_empty() || !is_scheme {
        return Some(name.into());
    }
    let path = scheme.eq_ignore_ascii_case("file").then(|| rest.strip_prefix("localhost").unwrap_or(rest));
    path.map(PathBuf::from)
}

/// The bytes of one file. Reads may come from many threads at once.
pub trait Source: Send + Sync + std::fmt::Debug {
    /// How many bytes it has.
    fn size(&self) -> u64;

    /// Fills `buffer` with the bytes from `offset` on.
    ///
    /// # Errors
    /// Truncated if the file ends before, Io if the system refuses.
    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()>;

    /// It as a source whose reads are requests; `None` for files of this machine and memory.
    fn remote(&self) -> Option<&dyn Remote> {
        None
    }
}

/// The error for a read beyond the end.
pub(crate) fn ends_before(size: u64, offset: u64, length: usize) -> crate::Error {
    let message = format!("the file ends at byte {size}, before the {length} bytes that should be here");
    crate::Error::new(crate::ErrorKind::Truncated, message).at(offset)
}
