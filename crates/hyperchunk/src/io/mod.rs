//! Where the bytes of a file come from.

mod blocks;
mod local;
mod memory;
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
