//! New memory for large results. A page that is written for the first time stops the thread until the kernel has cleared one;
//! asked for many at once, the kernel takes two thirds of the time. Large pages take a third of it (NumPy wants them for large
//! arrays), but where a virtual machine's host takes free memory back, it is large pages that it takes, and getting them again
//! takes ten times as long: then small ones are asked for.

use std::sync::atomic::{AtomicUsize, Ordering};

/// How many bytes are asked for at once.
const STEP: usize = 1 << 20;
/// Results of fewer bytes are left as they are.
const LARGE: usize = 4 * STEP;
/// A multiple of every system's page size.
const ALIGNMENT: usize = 64 << 10;

/// How far a buffer has been asked for, by all threads together.
#[derive(Debug)]
pub(super) struct Fresh {
    /// In bytes from the start; beyond it, nothing has been asked for.
    asked: AtomicUsize,
    /// The last whole page's end.
    end: usize,
}

impl Fresh {
    pub(super) fn new(start: *const u8, length: usize) -> Self {
        let first = start.align_offset(ALIGNMENT);
        let end = (start.addr() + length) / ALIGNMENT * ALIGNMENT;
        let end = if length < LARGE { 0 } else { end.saturating_sub(start.addr()) };
        Self { asked: AtomicUsize::new(first), end }
    }

    /// Asks for the memory of the first `needed` bytes of the buffer at `start`. Other threads may be about to get some of
    /// it: nothing depends on it.
    ///
    /// # Safety
    /// The buffer must be the one that this was made for.
    #[inline]
    pub(super) unsafe fn ask(&self, start: *mut u8, needed: usize) {
        let needed = needed.min(self.end);
        while self.asked.load(Ordering::Relaxed) < needed {
            let from = self.asked.fetch_add(STEP, Ordering::Relaxed);
            if from < self.end {
                // SAFETY: inside the buffer, as the caller promises.
                unsafe { populate(start.add(from), STEP.min(self.end - from)) };
            }
        }
    }
}

/// Makes pages writable that never were; a hint.
///
/// # Safety
/// All of the bytes must be in one buffer. Their contents stay as they are.
#[cfg(target_os = "linux")]
unsafe fn populate(start: *mut u8, length: usize) {
    let small = large::left_out(length);
    if small {
        // SAFETY: the caller's promise; this changes no contents.
        unsafe { libc::madvise(start.cast(), length, libc::MADV_NOHUGEPAGE) };
    }
    let before = large::worked();
    // SAFETY: as above. A kernel before 5.14 refuses it.
    unsafe { libc::madvise(start.cast(), length, libc::MADV_POPULATE_WRITE) };
    if !small && large::worked().saturating_sub(before) > large::SLOW {
        large::leave_out();
    }
}

/// Whether large pages are worth having now.
#[cfg(target_os = "linux")]
mod large {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    /// One that is at hand takes a tenth of this, one that a host has to bring twice as much.
    pub(super) const SLOW: Duration = Duration::from_millis(2);
    /// After a slow one, so many bytes are small pages: those at hand were used up.
    const AFTER: usize = 256 << 20;

    static LEFT_OUT: AtomicUsize = AtomicUsize::new(0);

    /// Whether the next bytes are to be small pages.
    pub(super) fn left_out(bytes: usize) -> bool {
        let take = |left: usize| if left == 0 { None } else { Some(left.saturating_sub(bytes)) };
        LEFT_OUT.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok()
    }

    /// A large page was slow.
    pub(super) fn leave_out() {
        LEFT_OUT.store(AFTER, Ordering::Relaxed);
    }

    /// How long this thread has worked.
    pub(super) fn worked() -> Duration {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the place for the time is there; a clock that is not leaves it as it is.
        unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
        let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
        Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or(0))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        #[test]
        fn a_slow_page_is_followed_by_small_ones() {
            leave_out();
            let mut bytes = 0;
            while left_out(1 << 20) {
                bytes += 1 << 20;
                assert!(bytes <= 2 * AFTER, "they never end");
            }
            // Other tests may ask at the same time.
            assert!(bytes > 0);
            assert!(worked() > Duration::ZERO);
        }
    }
}

#[cfg(not(target_os = "linux"))]
unsafe fn populate(_: *mut u8, _: usize) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contents_stay() {
        for length in [0, 1, LARGE - 1, LARGE, 3 * LARGE + 5] {
            let mut buffer: Vec<u8> = (0..length).map(|at| u8::try_from(at % 251).unwrap()).collect();
            for skip in [0, 1, ALIGNMENT] {
                let rest = buffer.get_mut(skip..).unwrap_or_default();
                let (start, length) = (rest.as_mut_ptr(), rest.len());
                let fresh = Fresh::new(start, length);
                for needed in [0, 1, length / 2, length] {
                    // SAFETY: the same buffer.
                    unsafe { fresh.ask(start, needed) };
                }
            }
            assert!(buffer.iter().enumerate().all(|(at, byte)| usize::from(*byte) == at % 251), "{length}");
        }
    }
}
