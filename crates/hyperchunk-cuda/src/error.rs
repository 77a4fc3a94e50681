//! The one error type of this crate.

use std::fmt;

/// What went wrong, as a stable code. New kinds are added at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A library, a driver or a GPU is not there.
    Missing,
    /// It is there, but cannot do this.
    Unsupported,
    /// The request makes no sense: a place outside the memory, arguments that a kernel does not take.
    Invalid,
    /// CUDA refused or failed; the message has its name for it, or its log.
    Failed,
    /// Too little memory, or a bound of ours was reached.
    Limit,
    /// What a file stores is not what its filters say.
    Damaged,
    /// The operating system refused something.
    Io,
}

#[derive(Clone, Debug)]
struct Inner {
    kind: ErrorKind,
    code: Option<i32>,
    message: String,
}

/// An error: a [kind](ErrorKind) and a message that says what is missing or wrong and what to do.
#[derive(Clone, Debug)]
pub struct Error(Box<Inner>);

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// A new error of `kind`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error(Box::new(Inner { kind, code: None, message: message.into() }))
    }

    /// The same error, with the number that the library gave.
    pub(crate) fn with_code(mut self, code: i32) -> Self {
        self.0.code = Some(code);
        self
    }

    /// The same error, with what was being done before it.
    #[must_use]
    pub fn within(mut self, what: impl fmt::Display) -> Self {
        self.0.message = format!("{what}: {}", self.0.message);
        self
    }

    /// The kind of this error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The library's number for it (a `CUresult`, say), where one was given.
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        self.0.code
    }

    /// The message.
    #[must_use]
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for Error {}

impl From<hyperchunk_format::Error> for Error {
    fn from(error: hyperchunk_format::Error) -> Self {
        use hyperchunk_format::ErrorKind as Kind;
        let kind = match error.kind() {
            Kind::Limit => ErrorKind::Limit,
            Kind::Unsupported | Kind::MissingFilter => ErrorKind::Unsupported,
            _ => ErrorKind::Damaged,
        };
        Error::new(kind, error.to_string())
    }
}

/// `Err` of `kind` with a formatted message.
macro_rules! fail {
    ($kind:ident, $($arg:tt)*) => {
        return Err($crate::Error::new($crate::ErrorKind::$kind, format!($($arg)*)))
    };
}
pub(crate) use fail;
