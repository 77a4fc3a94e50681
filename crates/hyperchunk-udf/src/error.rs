//! Error type of this crate.

use crate::os::{self, ExhaustedResource};
use std::fmt;

/// Kind of an error, as a stable code. New kinds are added at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Dataset description or source that cannot be parsed.
    Syntax,
    /// Valid request that is not supported.
    Unsupported,
    /// Missing dataset, key, program or file.
    NotFound,
    /// Name that already exists.
    Exists,
    /// Stub or record in a file that is damaged or was tampered with.
    Invalid,
    /// Denial by a trust profile.
    Refused,
    /// Stop of the function by the sandbox.
    Violation,
    /// Exceeded limit on time, memory, depth or size.
    Limit,
    /// Failure of the function itself: an exception, or a compiler's message.
    Failed,
    /// Worker that could not be started or broke its protocol.
    Worker,
    /// Key file that is missing, unreadable or unsafe.
    Key,
    /// Error of the operating system.
    Io,
}

#[derive(Clone, Debug)]
struct Inner {
    kind: ErrorKind,
    object: Option<String>,
    offset: Option<u64>,
    message: String,
}

/// Error of a live dataset: a [kind](ErrorKind), a message that says what to do, and, if known, the object (a
/// dataset, key or file) and the byte offset concerned.
#[derive(Clone, Debug)]
pub struct Error(Box<Inner>);

/// Result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Returns advice about an exceeded limit of the process.
fn limit_advice(source: &std::io::Error) -> &'static str {
    match os::exhausted(source) {
        Some(ExhaustedResource::ProcessFiles) => {
            "; this process has reached its limit of open files (`ulimit -n`), and a worker needs about 20 more: close some, or raise the limit"
        }
        Some(ExhaustedResource::SystemFiles) => "; the system has reached its limit of open files",
        Some(ExhaustedResource::Memory) => {
            "; the memory limit (`ulimit -v`, or a container's) is reached: raise it"
        }
        None => "",
    }
}

impl Error {
    /// Creates an error of `kind`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error(Box::new(Inner { kind, object: None, offset: None, message: message.into() }))
    }

    /// Creates an error of the operating system during `what`.
    pub fn io(what: impl fmt::Display, source: &std::io::Error) -> Self {
        Error::new(ErrorKind::Io, format!("{what}: {source}{}", limit_advice(source)))
    }

    /// Creates an error from this thread's `errno`.
    pub fn last_os(what: impl fmt::Display) -> Self {
        Error::io(what, &std::io::Error::last_os_error())
    }

    /// Sets the object of the error, unless it has one.
    #[must_use]
    pub fn about(mut self, object: impl Into<String>) -> Self {
        self.0.object.get_or_insert_with(|| object.into());
        self
    }

    /// Sets the byte offset of the error.
    #[must_use]
    pub fn at(mut self, offset: u64) -> Self {
        self.0.offset = Some(offset);
        self
    }

    /// Appends advice to the message, after a semicolon.
    #[must_use]
    pub fn advise(mut self, advice: impl fmt::Display) -> Self {
        self.0.message = format!("{}; {advice}", self.0.message);
        self
    }

    /// Returns the kind.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the object concerned, if known.
    pub fn object(&self) -> Option<&str> {
        self.0.object.as_deref()
    }

    /// Returns the byte offset concerned, if known.
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// Returns the message without object and offset.
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(object) = &self.0.object {
            write!(f, "{}: ", crate::escape::escape(object, 200))?;
        }
        f.write_str(&self.0.message)?;
        if let Some(offset) = self.0.offset {
            write!(f, " (at byte {offset})")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

impl From<hyperchunk_sandbox::Error> for Error {
    fn from(error: hyperchunk_sandbox::Error) -> Self {
        match error.os_error() {
            Some(source) => Error::io(error.message(), source),
            None => Error::new(ErrorKind::Worker, error.message()),
        }
    }
}

/// Returns an `Err` of `kind` with a formatted message from the calling function.
macro_rules! fail {
    ($kind:ident, $($arg:tt)*) => {
        return Err($crate::error::Error::new($crate::error::ErrorKind::$kind, format!($($arg)*)))
    };
}
pub(crate) use fail;
