//! Computation of a value by a separate thread, such as the next batch.
//!
//! The thread never outlives the value that waits for it. A process that forks waits first until no such
//! thread is running ([`before_fork`]): locks held by it would stay locked in the child.

use std::cell::RefCell;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{Builder, JoinHandle};

/// Number of running threads.
static RUNNING_THREADS: Mutex<usize> = Mutex::new(0);
static THREAD_ENDED: Condvar = Condvar::new();

thread_local! {
    /// While a thread forks, it holds the lock, so that no other computation begins.
    static FORK_LOCK: RefCell<Option<MutexGuard<'static, usize>>> = const { RefCell::new(None) };
}

/// Must be called before this thread forks: waits until no computation is running, and prevents new ones
/// until [`after_fork`].
pub fn before_fork() {
    FORK_LOCK.with_borrow_mut(|forking| {
        forking.get_or_insert_with(|| {
            let working = RUNNING_THREADS.lock().unwrap_or_else(PoisonError::into_inner);
            THREAD_ENDED.wait_while(working, |working| *working > 0).unwrap_or_else(PoisonError::into_inner)
        });
    });
}

/// Must be called after this thread has forked, in both processes.
pub fn after_fork() {
    FORK_LOCK.take();
}

/// A running computation.
#[derive(Debug)]
pub(super) struct BackgroundTask<T> {
    made: Arc<Mutex<Option<T>>>,
    thread: Option<JoinHandle<()>>,
    process: u32,
}

impl<T: Send + 'static> BackgroundTask<T> {
    /// Starts the computation; `None` if no thread can be created.
    pub(super) fn start(make: impl FnOnce() -> T + Send + 'static) -> Option<Self> {
        let made = Arc::new(Mutex::new(None));
        let place = Arc::clone(&made);
        *RUNNING_THREADS.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        let working = RunningGuard;
        let ask = hyperchunk::io::current_interrupt();
        let thread = Builder::new().name("hyperchunk-ahead".into()).spawn(move || {
            let _working = working;
            let value = hyperchunk::io::with_interrupt(ask, make);
            *place.lock().unwrap_or_else(PoisonError::into_inner) = Some(value);
        });
        Some(Self { made, thread: Some(thread.ok()?), process: std::process::id() })
    }

    /// Waits for the result; `None` if there will be none.
    pub(super) fn take(mut self) -> Option<T> {
        self.wait();
        self.made.lock().unwrap_or_else(PoisonError::into_inner).take()
    }
}

impl<T> BackgroundTask<T> {
    fn wait(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        if self.process == std::process::id() {
            // A panic is noticed by the missing result.
            drop(thread.join());
        } else {
            // In a forked child, the thread does not exist and can be neither joined nor detached.
            std::mem::forget(thread);
        }
    }
}

impl<T> Drop for BackgroundTask<T> {
    fn drop(&mut self) {
        self.wait();
    }
}

/// Guard that counts a running thread.
struct RunningGuard;

impl Drop for RunningGuard {
    fn drop(&mut self) {
        let mut working = RUNNING_THREADS.lock().unwrap_or_else(PoisonError::into_inner);
        *working = working.saturating_sub(1);
        THREAD_ENDED.notify_all();
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
            BackgroundTask::start(move || {
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
