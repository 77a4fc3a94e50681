//! Objects that are written in parts.

use crate::Result;
use std::fmt::Debug;
use std::time::SystemTime;

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

    /// What the store calls the upload; nothing if it has no name there.
    fn id(&self) -> &str {
        ""
    }
}

/// An object that was written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stored {
    /// How many bytes it has.
    pub size: u64,
    /// Its ETag, with the quotes; `None` if the store tells none.
    pub etag: Option<String>,
}

/// An object that is in a list.
#[derive(Debug, Clone)]
pub(crate) struct Listed {
    /// Its name, without what the others have in common with it.
    pub(crate) name: String,
    /// How many bytes it has.
    pub(crate) size: u64,
    /// When it was written, by the store's clock.
    pub(crate) modified: SystemTime,
}

/// What became of an object that was to be new.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(not(feature = "cloud"), expect(dead_code, reason = "without object stores there is none"))]
pub(crate) enum Made {
    /// It is.
    New,
    /// There is one of that name.
    There,
    /// There is one, which may be this one: the answer to an earlier attempt was lost.
    Unsure,
}
