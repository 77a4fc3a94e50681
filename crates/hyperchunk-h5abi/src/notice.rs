//! Messages on standard error about failed reads, one line each, for programs and libraries that drop HDF5's
//! error stack: netCDF reports "HDF error", PyTables "can't read data", VTK nothing.

use crate::errors::PREFIX;
use crate::library::Library;
use std::cell::Cell;
use std::io::Write as _;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The environment variable that disables these lines, and its value.
const SETTING: (&str, &str) = ("HYPERCHUNK_ERRORS", "quiet");
/// Period within which a line is not repeated, and at most `MAX_LINES` lines are written.
const NOTICE_INTERVAL: Duration = Duration::from_secs(60);
const MAX_LINES: usize = 10;

/// Lines written within the last period.
static SAID: Mutex<Vec<(Instant, String)>> = Mutex::new(Vec::new());

thread_local! {
    /// Number of nested calls in this thread: a live dataset may read another.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
}

/// Guard for a call of the filter plugin, which computes a live dataset. Only the outermost call of a thread
/// reports its failure.
pub(crate) struct Evaluation;

impl Evaluation {
    pub(crate) fn begin() -> Self {
        DEPTH.set(DEPTH.get().saturating_add(1));
        Evaluation
    }

    /// Prints the failure, unless the program shows it itself: HDF5 prints its error stack unless that is
    /// switched off, and h5py puts the reason into its exceptions.
    pub(crate) fn failed(&self, library: &'static Library, error: &dyn std::fmt::Display) {
        let (mut function, mut data) = (std::ptr::null_mut(), std::ptr::null_mut());
        // SAFETY: 0 is the default stack; both pointers are live.
        let known = unsafe { (library.f.error_get_auto)(0, &raw mut function, &raw mut data) } >= 0;
        let prints = known && !function.is_null();
        let is_h5py = library.path().to_string_lossy().contains("h5py");
        let is_off = std::env::var_os(SETTING.0).is_some_and(|value| value == SETTING.1);
        if DEPTH.get() > 1 || prints || is_h5py || is_off {
            return;
        }
        let line = format!("{PREFIX}{error}").replace(['\n', '\r'], " ");
        if is_due(&line, Instant::now()) {
            // If this fails, there is no other way to report the failure.
            let _ = writeln!(std::io::stderr(), "{line}");
        }
    }
}

impl Drop for Evaluation {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get().saturating_sub(1));
    }
}

/// Returns whether a line may be written now, and records it.
fn is_due(line: &str, now: Instant) -> bool {
    // After a fork, the lock may be held by a thread that no longer exists; waiting would never end.
    let Ok(mut said) = SAID.try_lock() else { return false };
    said.retain(|(at, _)| now.saturating_duration_since(*at) < NOTICE_INTERVAL);
    if said.len() >= MAX_LINES || said.iter().any(|(_, known)| known == line) {
        return false;
    }
    said.push((now, line.to_owned()));
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_said_once_in_a_while_and_few_of_them() {
        let start = Instant::now();
        assert!(is_due("one", start) && !is_due("one", start));
        let others = (0..20).filter(|n| is_due(&format!("line {n}"), start)).count();
        assert_eq!(others, MAX_LINES - 1);
        assert!(is_due("one", start + NOTICE_INTERVAL) && is_due("another", start + NOTICE_INTERVAL));
    }
}
