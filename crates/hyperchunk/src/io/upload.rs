//! Objects that are written in parts.

use crate::Result;
use std::fmt::Debug;

/// Told, on any thread, whether a part is there for good.
pub(crate) type Done = Box<dyn FnOnce(Result<()>) + Send>;

/// An object that is being written. It is there when it is completed, and not before.
pub(crate) trait Upload: Send + Sync + Debug {
    /// Starts to send a part.
    fn send(&self, number: usize, bytes: Vec<u8>, done: Done);

    /// All parts were sent: makes the object of them.
    ///
    /// # Errors
    /// Io from the network or the store; then there is no object.
    fn complete(&self, parts: usize, size: u64) -> Result<Stored>;

    /// Gives the parts up.
    fn abort(&self);
}

/// An object that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// How many bytes it has.
    pub size: u64,
    /// Its ETag, with the quotes; `None` if the store tells none.
    pub etag: Option<String>,
}
