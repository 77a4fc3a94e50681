//! Why a callback fails.

use std::ffi::c_int;
use std::fmt;

/// `None`: libhdf5 has said why, and its error stack must stay as it is.
pub(super) type Outcome<T> = Result<T, Option<Failure>>;

/// A failure of our own.
#[derive(Debug)]
pub(super) struct Failure(String);

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Failure(text)
    }
}

/// `Err` with a formatted message.
macro_rules! refuse {
    ($($arg:tt)*) => {
        return Err(Some($crate::vol::failure::Failure::from(format!($($arg)*))))
    };
}
pub(super) use refuse;

/// HDF5's status as an outcome.
pub(super) fn done(status: c_int) -> Outcome<c_int> {
    if status < 0 { Err(None) } else { Ok(status) }
}
