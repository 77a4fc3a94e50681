//! Errors of callbacks.

use std::ffi::c_int;

/// The result of a callback.
pub(super) type Outcome<T> = Result<T, Failure>;

/// A failure: either our own, with its reason, or one whose reason is on libhdf5's error stack already, which
/// must not change.
#[derive(Debug)]
pub(super) struct Failure(Option<String>);

/// The failure whose reason is on libhdf5's error stack.
pub(super) const ON_ERROR_STACK: Failure = Failure(None);

impl Failure {
    /// Returns the reason as text, if it is not on libhdf5's stack.
    pub(super) fn text(&self) -> Option<&str> {
        self.0.as_deref()
    }

    /// Returns the reason, if it is not on libhdf5's stack.
    pub(super) fn reason(self) -> Option<String> {
        self.0
    }
}

impl From<String> for Failure {
    fn from(text: String) -> Self {
        Failure(Some(text))
    }
}

impl From<hyperchunk::Error> for Failure {
    /// Appends the system's error number, if there is one, in the form by which h5py chooses its exceptions.
    fn from(error: hyperchunk::Error) -> Self {
        let text = error.to_string();
        match error.system_code() {
            Some(number) => {
                let reason = std::io::Error::from_raw_os_error(number).to_string();
                let reason = reason.split(" (os error").next().unwrap_or_default();
                Failure(Some(format!("{text}, errno = {number}, error message = '{reason}'")))
            }
            None => Failure(Some(text)),
        }
    }
}

/// Returns an `Err` with a formatted message.
macro_rules! refuse {
    ($($arg:tt)*) => {
        return Err($crate::vol::failure::Failure::from(format!($($arg)*)))
    };
}
pub(super) use refuse;

/// Converts HDF5's status to a result.
pub(super) fn done(status: c_int) -> Outcome<c_int> {
    if status < 0 { Err(ON_ERROR_STACK) } else { Ok(status) }
}
