//! The guard around every entry from C: panics are caught, and errors are kept for `hc_error`.

use hyperchunk::Result;
use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};

thread_local! {
    /// The last error on this thread.
    static LAST: RefCell<CString> = RefCell::default();
}

/// Runs `body`; if it fails, keeps the error and returns -1.
pub(crate) fn guard<T: From<i8>>(body: impl FnOnce() -> Result<T>) -> T {
    let message = match catch_unwind(AssertUnwindSafe(body)) {
        Ok(Ok(value)) => return value,
        Ok(Err(error)) => error.to_string(),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
            format!("a defect in hyperchunk, please report it: {text}")
        }
    };
    // A name from C has no NUL in it; any other text is truncated there.
    let text = message.split('\0').next().unwrap_or_default();
    LAST.with_borrow_mut(|last| *last = CString::new(text).unwrap_or_default());
    T::from(-1)
}

/// Returns the text for `hc_error`: valid until the next failure on this thread.
pub(crate) fn last() -> *const c_char {
    LAST.with_borrow(|last| CStr::as_ptr(last))
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyperchunk::Error;

    fn told() -> String {
        LAST.with_borrow(|last| last.to_str().unwrap().to_owned())
    }

    #[test]
    fn failures_are_kept() {
        assert_eq!(guard(|| Ok(5_i64)), 5);
        assert_eq!(guard::<i32>(|| Err(Error::invalid("no\0such"))), -1);
        assert!(told().ends_with("no\\u{0}such"), "{}", told());
        assert_eq!(guard::<i64>(|| panic!("oh {}", 1)), -1);
        assert_eq!(told(), "a defect in hyperchunk, please report it: oh 1");
        assert_eq!(guard(|| Ok(0)), 0);
        assert!(told().ends_with("oh 1"), "a success keeps it");
    }
}
