//! Per-thread state that can also be used while a process exits.
//!
//! libhdf5 closes files in an exit handler, and calls filters and connectors there. The destructors of the
//! main thread's thread-local values have run by then, and [`LocalKey::with`] panics.

use std::cell::RefCell;
use std::thread::LocalKey;

/// Calls `work` with this thread's value of `key`, or with a default value if the thread's values are
/// destroyed already.
///
/// # Panics
/// If `work` uses the same key.
pub fn with_state<T: Default, R>(key: &'static LocalKey<RefCell<T>>, work: impl FnOnce(&mut T) -> R) -> R {
    if key.try_with(|_| ()).is_ok() { key.with_borrow_mut(work) } else { work(&mut T::default()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::{Sender, channel};

    thread_local! {
        static STATE: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
        static LATE: RefCell<Option<Late>> = const { RefCell::new(None) };
    }

    /// State user that runs in a thread-local destructor.
    struct Late(Sender<(bool, u32)>);

    impl Drop for Late {
        fn drop(&mut self) {
            let gone = STATE.try_with(|_| ()).is_err();
            let sum = with_state(&STATE, |state| {
                state.push(3);
                state.iter().sum()
            });
            self.0.send((gone, sum)).unwrap();
        }
    }

    #[test]
    fn test_state_is_usable_after_its_destruction() {
        let (sender, receiver) = channel();
        let thread = std::thread::spawn(move || {
            // Thread-local values are destroyed in reverse order of first use.
            LATE.set(Some(Late(sender)));
            with_state(&STATE, |state| state.push(4));
        });
        thread.join().unwrap();
        let (gone, sum) = receiver.recv().unwrap();
        // Windows has its own order.
        assert_eq!((gone || cfg!(windows), sum), (true, 3));
    }
}
