//! Errors of NVIDIA's libraries as Python exceptions.

use crate::errors::exception;
use hyperchunk_cuda::{Error, ErrorKind};
use pyo3::prelude::*;

/// Reason why a dataset could not be read to a GPU.
#[derive(Debug)]
pub(super) enum Failure {
    /// The dataset could not be read.
    Read(hyperchunk::Error),
    /// The GPU failed, or there is none.
    Cuda(Error),
}

impl From<hyperchunk::Error> for Failure {
    fn from(error: hyperchunk::Error) -> Self {
        Self::Read(error)
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Cuda(error)
    }
}

/// Converts an error to an exception.
#[cold]
pub(super) fn cuda_error(py: Python<'_>, error: &Error) -> PyErr {
    let class = match error.kind() {
        ErrorKind::Unsupported => "UnsupportedError",
        ErrorKind::Limit => "LimitError",
        ErrorKind::Damaged => "FilterError",
        ErrorKind::Invalid => "InvalidError",
        ErrorKind::Io => "ReadError",
        _ => "CudaError",
    };
    exception(py, class, error)
}
