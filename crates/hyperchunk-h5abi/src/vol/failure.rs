//! Why a callback fails.

use std::ffi::c_int;

/// What a callback does.
pub(super) type Outcome<T> = Result<T, Failure>;

/// A failure: of our own, with its reason, or one whose reason libhdf5 has told; its error stack must stay as it is.
#[derive(Debug)]
pub(super) struct Failure(Option<String>);

/// The failure whose reason is on libhdf5's error stack.
pub(super) const TOLD: Failure = Failure(None);

impl Failure {
    /// The reason as text, if libhdf5 does not have it.
    pub(super) fn text(&self) -> Option<&str> {
        self.0.as_deref()
    }

    /// The reason, if libhdf5 does not have it.
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
    /// With the system's number where there is one, in the words by which h5py chooses its exceptions.
    fn from(error: hyperchunk::Error) -> Self {
        let text = error.to_string();
        let number =
            text.rsplit_once("(os error ").and_then(|(_, rest)| rest.split(')').next()?.parse::<i32>().ok());
        match number {
            Some(number) => {
                let reason = std::io::Error::from_raw_os_error(number).to_string();
                let reason = reason.split(" (os error").next().unwrap_or_default();
                Failure(Some(format!("{text}, errno = {number}, error message = '{reason}'")))
            }
            None => Failure(Some(text)),
        }
    }
}

/// `Err` with a formatted message.
macro_rules! refuse {
    ($($arg:tt)*) => {
        return Err($crate::vol::failure::Failure::from(format!($($arg)*)))
    };
}
pub(super) use refuse;

/// HDF5's status as an outcome.
pub(super) fn done(status: c_int) -> Outcome<c_int> {
    if status < 0 { Err(TOLD) } else { Ok(status) }
}
