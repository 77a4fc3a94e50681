//! The one error type of this crate.

use std::fmt;

/// What went wrong, as a stable code. New kinds are added at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A dataset description or a source cannot be understood.
    Syntax,
    /// A valid request for something that is not supported.
    Unsupported,
    /// A dataset, key, program or file does not exist.
    NotFound,
    /// Something of that name is there already.
    Exists,
    /// A stub or record in a file is damaged or was tampered with.
    Invalid,
    /// A trust profile does not allow it.
    Refused,
    /// The sandbox stopped the function.
    Violation,
    /// A limit on time, memory, depth or size was reached.
    Limit,
    /// The function itself failed: an exception, or a compiler's message.
    Failed,
    /// The worker could not be started or broke its protocol.
    Worker,
    /// A key file is missing, unreadable or unsafe.
    Key,
    /// The operating system refused something.
    Io,
}

#[derive(Clone, Debug)]
struct Inner {
    kind: ErrorKind,
    object: Option<String>,
    offset: Option<u64>,
    message: String,
}

/// An error of the live-dataset machinery: a [kind](ErrorKind), a message that says what to do, and,
/// where they are known, the object (a dataset, key or file) and the byte offset that it is about.
#[derive(Clone, Debug)]
pub struct Error(Box<Inner>);

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What to do about a limit of the process that was met.
fn way_out(source: &std::io::Error) -> &'static str {
    match source.raw_os_error() {
        Some(libc::EMFILE) => {
            "; this process has as many open files as it may (`ulimit -n`), and a worker takes about 20 more: close some, or raise the limit"
        }
        Some(libc::ENFILE) => "; the system has as many open files as it may",
        Some(libc::ENOMEM) => "; the limit of memory (`ulimit -v`, a container's) leaves no room: raise it",
        _ => "",
    }
}

impl Error {
    /// A new error of `kind`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error(Box::new(Inner { kind, object: None, offset: None, message: message.into() }))
    }

    /// An error of the operating system: `what` was being done.
    pub fn io(what: impl fmt::Display, source: &std::io::Error) -> Self {
        Error::new(ErrorKind::Io, format!("{what}: {source}{}", way_out(source)))
    }

    /// The last error of the operating system in this thread.
    pub fn last_os(what: impl fmt::Display) -> Self {
        Error::io(what, &std::io::Error::last_os_error())
    }

    /// The same error, about `object` unless it already names one.
    #[must_use]
    pub fn about(mut self, object: impl Into<String>) -> Self {
        self.0.object.get_or_insert_with(|| object.into());
        self
    }

    /// The same error, at a byte offset.
    #[must_use]
    pub fn at(mut self, offset: u64) -> Self {
        self.0.offset = Some(offset);
        self
    }

    /// The kind of this error.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The object that it is about, if known.
    pub fn object(&self) -> Option<&str> {
        self.0.object.as_deref()
    }

    /// The byte offset that it is about, if known.
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// The message without object and offset.
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

/// `Err` of `kind` with a formatted message.
macro_rules! fail {
    ($kind:ident, $($arg:tt)*) => {
        return Err($crate::error::Error::new($crate::error::ErrorKind::$kind, format!($($arg)*)))
    };
}
pub(crate) use fail;
