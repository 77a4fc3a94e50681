//! Reports of failures while the process ends.
//!
//! libhdf5's exit handler closes the files that a program leaves open. At that time, the program no longer
//! reads the error stack.

use super::super::failure::Failure;
use super::OpenStore;
use std::io::Write as _;

thread_local! {
    /// Sentinel with a destructor: it is destroyed before exit handlers run.
    static SENTINEL: Box<u8> = Box::default();
}

/// Initialises the sentinel in this thread, which [`is_ending`] needs.
pub(super) fn watch() {
    SENTINEL.try_with(|_| ()).unwrap_or_default();
}

/// Returns whether this thread's values are destroyed: the process, or the thread, is ending.
fn is_ending() -> bool {
    SENTINEL.try_with(|_| ()).is_err()
}

/// Guard that reports a failure to close an object of a store at exit to standard error, also after a panic.
pub(in crate::vol) struct Report<'a> {
    file: Option<&'a OpenStore>,
}

/// Begins the closing of an object of `file`.
pub(in crate::vol) fn report_at_exit(file: Option<&OpenStore>) -> Report<'_> {
    Report { file: file.filter(|_| is_ending()) }
}

impl Report<'_> {
    /// Records that the object is closed.
    pub(in crate::vol) fn succeeded(&mut self) {
        self.file = None;
    }

    /// Reports that the object or its store could not be closed.
    pub(in crate::vol) fn failed(&mut self, failure: &Failure) {
        self.say(failure.text().unwrap_or("libhdf5 could not close the file"));
    }

    fn say(&mut self, reason: &str) {
        if let Some(file) = self.file.take() {
            let path = file.store.path.display();
            // If standard error is closed, there is no other way to report it.
            drop(writeln!(
                std::io::stderr(),
                "hyperchunk: cannot commit {path} while the process ends: {reason}; the data written are in its logs: run hyperchunk store status {path}, then hyperchunk store commit or recover"
            ));
        }
    }
}

impl Drop for Report<'_> {
    fn drop(&mut self) {
        self.say(if std::thread::panicking() {
            "a defect in hyperchunk, please report it"
        } else {
            "libhdf5 could not close the file"
        });
    }
}
