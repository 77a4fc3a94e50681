//! Interface for writing objects in parts.

use crate::Result;
use std::fmt::Debug;
use std::time::SystemTime;

/// Callback, called on any thread, with the result of storing a part.
pub type PartCallback = Box<dyn FnOnce(Result<()>) + Send>;

/// An object that is being written. It appears only when it is complete.
pub trait Upload: Send + Sync + Debug {
    /// Starts to send a part.
    fn send(&self, number: usize, bytes: Vec<u8>, done: PartCallback);

    /// Assembles the object after all parts have been sent.
    ///
    /// # Errors
    /// Io from the network or the store; then there is no object.
    fn complete(&self, parts: usize, size: u64) -> Result<StoredObject>;

    /// Discards the parts.
    fn abort(&self);

    /// Returns the store's id of the upload; empty if it has none.
    fn id(&self) -> &str {
        ""
    }
}

/// An object that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredObject {
    /// Its size in bytes.
    pub size: u64,
    /// Its ETag, with the quotes; `None` if the store does not report one.
    pub etag: Option<String>,
}

/// An entry of a list of objects.
#[derive(Debug, Clone)]
pub struct ListedObject {
    /// Its name without the listed prefix.
    pub name: String,
    /// Its size in bytes.
    pub size: u64,
    /// The time when it was written, by the store's clock.
    pub modified: SystemTime,
}

/// Outcome of a conditional write of a new object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CreateOutcome {
    /// The object was created.
    New,
    /// An object of that name exists.
    There,
    /// An object exists and may be this one, because the response to an earlier attempt was lost.
    Unsure,
}
