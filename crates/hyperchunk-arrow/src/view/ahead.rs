//! Something that is made by a thread of its own while the caller does something else.
//!
//! No such thread outlives what waits for it. A process that forks first waits until none is at work ([`before_fork`]): what
//! they may have locked would stay locked in the copy.

use std::cell::RefCell;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

/// How many threads are at work.
static WORKING: Mutex<usize> = Mutex::new(0);
static ENDED: Condvar = Condvar::new();

thread_local! {
    /// As long as this thread forks, no other begins.
    static FORKING: RefCell<Option<MutexGuard<'static, usize>>> = const { RefCell::new(None) };
}

/// To be called before this thread forks: waits until nothing is made ahead, and lets nothing begin until [`after_fork`].
pub fn before_fork() {
    FORKING.with_borrow_mut(|forking| {
        forking.get_or_insert_with(|| {
            let working = WORKING.lock().unwrap_or_else(PoisonError::into_inner);
            ENDED.wait_while(working, |working| *working > 0).unwrap_or_else(PoisonError::into_inner)
        });
    });
}

/// To be called after this thread forked, in both processes.
pub fn after_fork() {
    FORKING.take();
}

/// Something that is being made.
#[derive(Debug)]
pub(super) struct Ahead<T> {
    made: Arc<Mutex<Option<T>>>,
    thread: Option<JoinHandle<()>>,
    process: u32,
}

impl<T: Send + 'static> Ahead<T> {
    /// Begins to make it; `None` if there can be no more threads.
    pub(super) fn start(make: impl FnOnce() -> T + Send + 'static) -> Option<Self> {
        let made = Arc::new(Mutex::new(None));
        let place = Arc::clone(&made);
        *WORKING.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        let working = Working;
        let ask = hyperchunk::io::current_interrupt();
        let thread = Builder::new().name("hyperchunk-ahead".into()).spawn(move || {
            let _working = working;
            let value = hyperchunk::io::with_interrupt(ask, make);
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        });
        Some(Self { made, thread: Some(thread.ok()?), process: std::process::id() })
    }

    /// What was made, as soon as it is; `None` if it never will be.
    pub(super) fn take(mut self) -> Option<T> {
        self.wait();
        self.made.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<T> Ahead<T> {
    fn wait(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if self.process == std::process::id() {
            // That it panicked is seen from what is not there.
            drop(thread.join());
        } else {
            // In a copy of the process, there is no such thread to wait for or to let go.
            std::mem::forget(thread);
        }
    }
}

impl<T> Drop for Ahead<T> {
    fn drop(&mut self) {
        self.wait();
    }
}

/// A thread that is at work.
struct Working;

impl Drop for Working {
    fn drop(&mut self) {
        let mut working = WORKING.lock().unwrap_or_else(PoisonError::into_inner);
        *working = working.saturating_sub(1);
        ENDED.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    #[test]
    fn made_and_waited_for() {
        static RUNNING: AtomicUsize = AtomicUsize::new(0);
        let start = |value: usize| {
            Ahead::start(move || {
                RUNNING.fetch_add(1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(20));
                RUNNING.fetch_sub(1, Ordering::SeqCst);
                assert!(value != 13);
                value
            })
            .unwrap()
        };
        assert_eq!(start(5).take(), Some(5));
        assert_eq!(start(13).take(), None);
        drop(start(1));
        assert_eq!(RUNNING.load(Ordering::SeqCst), 0);
        let waiting: Vec<_> = (0..4).map(start).collect();
        before_fork();
        assert_eq!(RUNNING.load(Ordering::SeqCst), 0);
        std::thread::scope(|scope| {
            let other = scope.spawn(|| start(6).take());
            std::thread::sleep(Duration::from_millis(5));
            assert_eq!(RUNNING.load(Ordering::SeqCst), 0);
            after_fork();
            assert_eq!(other.join().unwrap(), Some(6));
        });
        for (number, ahead) in waiting.into_iter().enumerate() {
            assert_eq!(ahead.take(), Some(number));
        }
    }
}
