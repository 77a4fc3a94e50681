//! Error type of this crate.

use std::{fmt, io};

/// Error of the sandbox: a layer that cannot be applied, or a call of the operating system that failed.
#[derive(Debug)]
pub struct Error {
    message: String,
    source: Option<io::Error>,
}

/// Result of this crate's functions.
pub type Result<T, E = Error> = std::result::Result<T, E>;

impl Error {
    /// Creates an error.
    pub fn new(message: impl Into<String>) -> Self {
        Error { message: message.into(), source: None }
    }

    /// Creates an error of the operating system during `what`.
    pub fn io(what: impl fmt::Display, source: &io::Error) -> Self {
        let copy = source
            .raw_os_error()
            .map_or_else(|| io::Error::new(source.kind(), source.to_string()), io::Error::from_raw_os_error);
        Error { message: what.to_string(), source: Some(copy) }
    }

    /// Creates an error from this thread's `errno`.
    pub fn last_os(what: impl fmt::Display) -> Self {
        Error { message: what.to_string(), source: Some(io::Error::last_os_error()) }
    }

    /// Returns the message, without the operating system's.
    pub fn message(&self) -> &str {
        &self.message
    }

    /// Returns the operating system's error, if one is the cause.
    pub fn os_error(&self) -> Option<&io::Error> {
        self.source.as_ref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)?;
        self.source.as_ref().map_or(Ok(()), |source| write!(f, ": {source}"))
    }
}

impl std::error::Error for Error {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.source.as_ref().map(|source| source as _)
    }
}

/// Returns an `Err` with a formatted message from the calling function.
#[cfg(target_os = "linux")]
macro_rules! fail {
    ($($arg:tt)*) => {
        return Err($crate::error::Error::new(format!($($arg)*)))
    };
}
#[cfg(target_os = "linux")]
pub(crate) use fail;
