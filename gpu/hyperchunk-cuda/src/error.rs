//! The error type of this crate.

use std::fmt;

/// The kind of an error, as a stable code. New kinds are added at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// A library, a driver or a GPU is missing.
    Missing,
    /// An existing library, driver or GPU does not support the request.
    Unsupported,
    /// The request is invalid: a place outside the memory, or arguments that do not match a kernel.
    Invalid,
    /// CUDA refused or failed; the message has its name for the error, or its log.
    Failed,
    /// Too little memory, or one of our limits was reached.
    Limit,
    /// Stored data do not match their filters.
    Damaged,
    /// An error of the operating system.
    Io,
}

#[derive(Clone, Debug)]
struct Inner {
    kind: ErrorKind,
    code: Option<i32>,
    message: String,
}

/// An error: a [kind](ErrorKind) and a message that says what is missing or wrong and how to fix it.
#[derive(Clone, Debug)]
pub struct Error(Box<Inner>);

/// The result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Creates an error of `kind`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error(Box::new(Inner { kind, code: None, message: message.into() }))
    }

    /// Adds the number that the library returned.
    pub(crate) fn with_code(mut self, code: i32) -> Self {
        self.0.code = Some(code);
        self
    }

    /// Prepends the operation that failed.
    #[must_use]
    pub fn within(mut self, what: impl fmt::Display) -> Self {
        self.0.message = format!("{what}: {}", self.0.message);
        self
    }

    /// Returns the kind of this error.
    #[must_use]
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the library's error number (for example a `CUresult`), if there is one.
    #[must_use]
    pub fn code(&self) -> Option<i32> {
        self.0.code
    }

    /// Returns the message.
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

/// Returns an `Err` of `kind` with a formatted message.
macro_rules! fail {
    ($kind:ident, $($arg:tt)*) => {
        return Err($crate::Error::new($crate::ErrorKind::$kind, format!($($arg)*)))
    };
}
pub(crate) use fail;
