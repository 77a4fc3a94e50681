//! Filters implemented in Python.

use hyperchunk::codec::{self, Codec, Context};
use hyperchunk::{Error, ErrorKind, Result};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use std::sync::Arc;

/// A filter decoded by a Python function.
struct PythonFilter {
    id: u16,
    name: &'static str,
    /// Called with the filtered bytes, the filter's parameters, and the expected size of the result
    /// or None.
    decode: Py<PyAny>,
}

impl std::fmt::Debug for PythonFilter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PythonFilter").field("id", &self.id).field("name", &self.name).finish_non_exhaustive()
    }
}

impl Codec for PythonFilter {
    fn id(&self) -> u16 {
        self.id
    }

    fn name(&self) -> &'static str {
        self.name
    }

    fn decode(&self, input: &[u8], output: &mut Vec<u8>, context: &Context<'_>) -> Result<()> {
        Python::attach(|py| {
            let arguments = (PyBytes::new(py, input), context.parameters.to_vec(), context.expected);
            let failed = |error: PyErr| {
                let message = format!("the function given to register_filter({}) failed: {error}", self.id);
                Error::new(ErrorKind::Filter, message)
            };
            let found = self.decode.call1(py, arguments).map_err(failed)?;
            crate::memory::look(found.bind(py), |bytes| {
                if bytes.len() > context.limit {
                    let message = format!(
                        "the function returned {} bytes; the limit is {}",
                        bytes.len(),
                        context.limit
                    );
                    return Ok(Err(Error::limit(message)));
                }
                output.extend_from_slice(bytes);
                Ok(Ok(()))
            })
            .map_err(failed)?
        })
    }
}

/// Registers a function as the decoder of a filter, for every file of this process.
#[pyfunction]
pub(crate) fn register_filter(number: u16, decode: Py<PyAny>, name: &str) -> PyResult<()> {
    if number == 0 {
        return Err(PyValueError::new_err(
            "filter 0 is not valid: expected the registered number of the filter",
        ));
    }
    // A filter is never unregistered.
    let name: &'static str = Box::leak(name.to_owned().into_boxed_str());
    codec::register_codec(Arc::new(PythonFilter { id: number, name, decode }));
    Ok(())
}
