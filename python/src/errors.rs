//! Conversion of the engine's errors to Python exceptions.

use hyperchunk::{Error, ErrorKind};
use pyo3::prelude::*;
use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};

/// Returns the class in `hyperchunk.exceptions` for a kind of error.
fn class_name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::NotHdf5 => "NotHdf5Error",
        ErrorKind::Truncated => "TruncatedError",
        ErrorKind::Corrupt => "CorruptError",
        ErrorKind::Unsupported => "UnsupportedError",
        ErrorKind::MissingFilter => "MissingFilterError",
        ErrorKind::Filter => "FilterError",
        ErrorKind::Locked => "LockedError",
        ErrorKind::Limit => "LimitError",
        ErrorKind::NotFound => "ObjectNotFoundError",
        ErrorKind::Exists => "NameExistsError",
        ErrorKind::Invalid => "InvalidError",
        ErrorKind::Conversion => "ConversionError",
        ErrorKind::Io => "ReadError",
        ErrorKind::Changed => "ChangedError",
        ErrorKind::Refused => "RefusedError",
        ErrorKind::Function => "UdfError",
        _ => "HyperchunkError",
    }
}

/// Creates an exception of a class of `hyperchunk.exceptions`.
pub(crate) fn exception(py: Python<'_>, class: &str, error: &dyn std::fmt::Display) -> PyErr {
    let made = py
        .import("hyperchunk.exceptions")
        .and_then(|module| module.getattr(class)?.call1((error.to_string(),)));
    match made {
        Ok(value) => PyErr::from_value(value),
        Err(other) => other,
    }
}

thread_local! {
    /// Exception raised by a signal handler while this thread waited for a network.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

static COMMAND: AtomicBool = AtomicBool::new(false);
/// Exit status of a command that failed.
const FAILED: i32 = 1;

/// Runs a command; returns its exit status. If a signal handler raised an exception meanwhile, that is the
/// result, unless the command had done its work by then.
pub(crate) fn command(py: Python<'_>, work: impl FnOnce() -> i32) -> PyResult<i32> {
    COMMAND.store(true, Ordering::Relaxed);
    let status = work();
    COMMAND.store(false, Ordering::Relaxed);
    // Includes the exception of a signal for which no thread polled.
    let raised = RAISED.take().or_else(|| py.check_signals().err());
    match raised {
        Some(error) if [FAILED, hyperchunk_cli::INTERRUPTED].contains(&status) => Err(error),
        _ => Ok(status),
    }
}

/// Runs pending signal handlers (Ctrl-C) and returns true if one raised. Called by a waiting
/// thread; only the main thread receives signals.
pub(crate) fn interrupted() -> bool {
    // After an interrupt, a command does no more work.
    if COMMAND.load(Ordering::Relaxed) && RAISED.with_borrow(Option::is_some) {
        return true;
    }
    let raised = Python::try_attach(|py| py.check_signals().err()).flatten();
    raised.map(|error| RAISED.replace(Some(error))).is_some()
}

/// Converts an error to an exception.
#[cold]
pub(crate) fn to_python(py: Python<'_>, error: &Error) -> PyErr {
    if let Some(raised) = RAISED.take() {
        return raised;
    }
    // For an error of the operating system, `errno` selects the class, as in Python.
    let Some(code) = error.os_code() else { return exception(py, class_name(error.kind()), error) };
    let made = py.import("hyperchunk.exceptions").and_then(|module| {
        let arguments = (error.to_string(), code, error.file_name(), class_name(error.kind()));
        module.getattr("from_errno")?.call1(arguments)
    });
    made.map_or_else(|failed| failed, PyErr::from_value)
}

/// Like [`to_python`], for calls where a missing name is a file, not an object.
#[cold]
pub(crate) fn opening(py: Python<'_>, error: &Error) -> PyErr {
    match error.kind() {
        ErrorKind::NotFound if error.os_code().is_none() => exception(py, "NotFoundError", error),
        _ => to_python(py, error),
    }
}
