//! Job of a worker, its key, and its demands on the reader: the part that does not depend on the system.

use super::Session;
use crate::backend::Backend;
use crate::datatype::Datatype;
use crate::error::Result;
use crate::profile::Profile;
use crate::record::{Block, Needs, Slot};
use crate::stored::DecodeSupport;
use crate::stub::RecordDigest;
use std::sync::Arc;

/// Open file that a worker may read.
#[cfg(unix)]
pub type FileHandle<'a> = std::os::fd::BorrowedFd<'a>;
/// Open file that a worker may read.
#[cfg(windows)]
pub type FileHandle<'a> = std::os::windows::io::BorrowedHandle<'a>;

/// Returns the handle of a file.
pub fn handle(file: &std::fs::File) -> FileHandle<'_> {
    #[cfg(unix)]
    {
        std::os::fd::AsFd::as_fd(file)
    }
    #[cfg(windows)]
    {
        std::os::windows::io::AsHandle::as_handle(file)
    }
}

/// Identity of an evaluation: one worker may serve all evaluations with the same key. A worker never serves
/// another file or another record, since it could leak data from one to the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionKey {
    /// Device and inode of the file, or another number that is never reused.
    pub file: (u64, u64),
    /// Version of the file: its size and the time of its last change, in seconds and nanoseconds.
    pub version: (u64, i64, i64),
    /// Digest of the record.
    pub record: RecordDigest,
    /// Profile; a changed profile is a different key.
    pub profile: Profile,
    /// Path that the file was opened by, which functions can query.
    pub file_path: String,
    /// Datasets with the location of their data.
    pub slots: Vec<JobSlot>,
}

/// Input with variable-length strings, as read.
pub trait Strings {
    /// Returns the number of bytes of elements and strings together.
    fn bytes(&self) -> u64;

    /// Writes elements and strings to `to`, which the worker sees at address `at`.
    ///
    /// # Errors
    /// `Worker` if `to` is too small.
    fn place(&self, to: &mut [u8], at: u64) -> Result<()>;
}

/// Reader of the file: everything that a function needs from it.
pub trait Reader {
    /// Returns a worker, warm or new.
    ///
    /// # Errors
    /// The errors of [`Session::start`].
    fn session(&self, key: &Arc<SessionKey>) -> Result<Session>;

    /// Reads a part of an input into memory of sufficient size.
    ///
    /// # Errors
    /// Any, with the name of the input.
    fn input(&self, slot: &Slot, part: &Block, to: &mut [u8]) -> Result<()>;

    /// Copies a part of an input in its [stored](crate::stored) form, for a worker that can decode `decodes`.
    /// Returns the number of bytes, or 0 if the part has to be read instead: filters that the worker does not
    /// undo, too little memory, chunks that were never written.
    ///
    /// # Errors
    /// As [`Reader::input`].
    fn stored(&self, slot: &Slot, part: &Block, decodes: DecodeSupport, to: &mut [u8]) -> Result<u64>;

    /// Reads a part of an input with variable-length strings, of at most `left` bytes.
    ///
    /// # Errors
    /// As [`Reader::input`].
    fn strings(&self, slot: &Slot, part: &Block, left: u64) -> Result<Box<dyn Strings>>;
}

/// Source or destination of a slot's data.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Source {
    /// Written by the function; the maximum number of bytes.
    Output(u64),
    /// Copied in by the host; the maximum number of bytes.
    Copied(u64),
    /// Copied in by the host, in stored form if the worker [decodes](DecodeSupport) it and as elements otherwise; the maximum number of bytes.
    Stored(u64),
    /// Mapped by the worker from file number `file` of the job.
    Mapped {
        /// Index into [`Job::files`].
        file: usize,
        /// Offset of the first byte in the file.
        offset: u64,
        /// Length in bytes.
        bytes: u64,
    },
}

/// Dataset of a job.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct JobSlot {
    /// Name in the source.
    pub name: String,
    /// Datatype of the elements.
    pub datatype: Datatype,
    /// Source or destination of the data.
    pub source: Source,
}

/// Everything that starting a worker requires.
#[derive(Debug)]
pub struct Job<'a> {
    /// Language.
    pub backend: Backend,
    /// Source text.
    pub source: &'a str,
    /// Compiled form, for back ends that need one.
    pub compiled: Option<&'a [u8]>,
    /// Profile with the limits.
    pub profile: &'a Profile,
    /// Result of `lib.getFilePath`.
    pub file_path: &'a str,
    /// Datasets.
    pub slots: Vec<JobSlot>,
    /// Files of the mapped slots, opened read-only.
    pub files: Vec<FileHandle<'a>>,
    /// Additional requirements of the function.
    pub needs: Needs,
}
