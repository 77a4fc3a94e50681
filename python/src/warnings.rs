//! The engine's warnings as Python warnings.

use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use std::ffi::{CString, c_int, c_void};
use std::io::Write as _;
use std::sync::{Mutex, PoisonError};

/// Warnings pending for the main thread.
static WAITING: Mutex<Vec<String>> = Mutex::new(Vec::new());

/// Issues a warning from the main thread, the next time that it runs Python code. May be called on
/// any thread, with or without the GIL.
pub(crate) fn later(text: &str) {
    WAITING.lock().unwrap_or_else(PoisonError::into_inner).push(text.to_owned());
    // SAFETY: may be called at any time without the GIL; Python calls the function with the GIL
    // held.
    if unsafe { pyo3::ffi::Py_AddPendingCall(Some(warn), std::ptr::null_mut()) } != 0 {
        for text in take() {
            let _ = writeln!(std::io::stderr(), "hyperchunk: warning: {text}");
        }
    }
}

fn take() -> Vec<String> {
    std::mem::take(&mut *WAITING.lock().unwrap_or_else(PoisonError::into_inner))
}

/// Issues all pending warnings; returns -1 with an exception set if a warning filter raises one.
extern "C" fn warn(_: *mut c_void) -> c_int {
    Python::attach(|py| {
        for text in take() {
            let text = CString::new(text).unwrap_or_default();
            if let Err(error) = PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 1) {
                error.restore(py);
                return -1;
            }
        }
        0
    })
}
