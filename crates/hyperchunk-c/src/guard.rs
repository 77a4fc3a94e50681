//! Guard around every exported function: catches panics, and keeps errors for `hc_error`.

use hyperchunk::Result;
use std::cell::RefCell;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    /// The last error on this thread.
    static LAST: RefCell<CString> = RefCell::default();
}

/// Runs `body`; if it fails, keeps the error and returns -1.
pub(crate) fn guard<T: From<i8>>(body: impl FnOnce() -> Result<T>) -> T {
    guard_with(T::from(-1), body)
}

/// Runs `body`; if it fails, keeps the error and returns `failed`.
pub(crate) fn guard_with<T>(failed: T, body: impl FnOnce() -> Result<T>) -> T {
    let message = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => return value,
        Ok(Err(error)) => error.to_string(),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            format!("a defect in hyperchunk, please report it: {text}")
        }
    };
    // A C string ends at its first NUL.
    let text = message.split('\0').next().unwrap_or_default();
    let text = CString::new(text).unwrap_or_default();
    // While the thread exits, the variable may be destroyed already.
    drop(LAST.try_with(|last| last.replace(text)));
    failed
}

/// Returns the text for `hc_error`: valid until the next failure on this thread.
pub(crate) fn last() -> *const c_char {
    let at_exit = c"the error message is lost: the thread is about to end";
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(at_exit.as_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyperchunk::Error;

    fn last_error() -> String {
        LAST.with_borrow(|last| last.to_str().unwrap().to_owned())
    }

    #[test]
    fn failures_are_kept() {
        assert_eq!(guard(|| Ok(5_i64)), 5);
        assert_eq!(guard::<i32>(|| Err(Error::invalid("no\0such"))), -1);
        assert!(last_error().ends_with("no\\u{0}such"), "{}", last_error());
        assert_eq!(guard::<i64>(|| panic!("oh {}", 1)), -1);
        assert_eq!(last_error(), "a defect in hyperchunk, please report it: oh 1");
        assert_eq!(guard(|| Ok(0)), 0);
        assert!(last_error().ends_with("oh 1"), "a success keeps it");
    }
    /// Failure that happens in a thread-local destructor.
    struct FailsOnDrop(std::sync::mpsc::Sender<Option<String>>);

    impl Drop for FailsOnDrop {
        fn drop(&mut self) {
            let told = catch_unwind(|| {
                assert_eq!(guard::<i32>(|| Err(Error::invalid("late"))), -1);
                // SAFETY: `last` returns a C string.
                unsafe { std::ffi::CStr::from_ptr(last()) }.to_str().unwrap().to_owned()
            });
            self.0.send(told.ok()).unwrap();
        }
    }

    #[test]
    fn test_failures_at_exit_do_not_panic() {
        thread_local!(static LATE: RefCell<Option<FailsOnDrop>> = const { RefCell::new(None) });
        let (sender, receiver) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            // Thread-local values are destroyed in reverse order of first use.
            LATE.set(Some(FailsOnDrop(sender)));
            guard::<i32>(|| Err(Error::invalid("early")));
        });
        thread.join().unwrap();
        let told = receiver.recv().unwrap().expect("no panic");
        assert!(told.contains("about to end"), "{told}");
    }
}
