//! Error type of this crate.

use std::fmt;

/// Kind of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Expression that cannot be parsed, or has no type for its inputs.
    Syntax,
    /// Exceeded limit on length, depth, number of datasets or memory.
    Limit,
    /// Element without a value.
    Failed,
    /// Memory of the wrong size: an error of the caller, or of this crate.
    Internal,
}

/// Error of an expression: a [kind](ErrorKind) and a message that says what to do.
#[derive(Clone, Debug)]
pub struct Error {
    kind: ErrorKind,
    message: String,
}

/// Result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    pub(crate) fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Error { kind, message: message.into() }
    }

    /// Returns the kind.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns the message.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// Returns an `Err` of `kind` with a formatted message from the calling function.
macro_rules! fail {
    ($kind:ident, $($arg:tt)*) => {
        return Err($crate::error::Error::new($crate::error::ErrorKind::$kind, format!($($arg)*)))
    };
}
pub(crate) use fail;
