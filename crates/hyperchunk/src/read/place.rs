//! CPU affinity of worker threads. When all processors are busy with other programs, Linux starts a thread
//! on its parent's processor and lets the two take turns there, for longer than a read takes.

/// The processor that a thread runs on.
#[derive(Clone, Copy)]
pub(super) struct Place(
    #[cfg_attr(not(target_os = "linux"), expect(dead_code, reason = "always None"))] Option<usize>,
);

impl Place {
    /// Returns this thread's processor.
    pub(super) fn here() -> Self {
        // SAFETY: the call only returns a number.
        #[cfg(target_os = "linux")]
        return Self(usize::try_from(unsafe { libc::sched_getcpu() }).ok());
        #[cfg(not(target_os = "linux"))]
        Self(None)
    }

    /// Moves this thread to another processor, if it runs on this one and may use others.
    #[cfg(target_os = "linux")]
    pub(super) fn leave(self) {
        let (Some(number), Self(Some(here))) = (self.0, Self::here()) else { return };
        if number != here {
            return;
        }
        let size = size_of::<libc::cpu_set_t>();
        // SAFETY: a set of bits that is all zeros.
        let mut all: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        // SAFETY: 0 is this thread; the set has the size that is given.
        if unsafe { libc::sched_getaffinity(0, size, &raw mut all) } != 0 || number >= size * 8 {
            return;
        }
        let mut others = all;
        // SAFETY: the number is below the set's number of bits.
        unsafe { libc::CPU_CLR(number, &mut others) };
        // SAFETY: as above. An empty set is refused.
        unsafe {
            if libc::sched_setaffinity(0, size, &raw const others) == 0 {
                libc::sched_setaffinity(0, size, &raw const all);
            }
        }
    }

    #[cfg(not(target_os = "linux"))]
    pub(super) fn leave(self) {}
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::thread::available_parallelism;

    #[test]
    fn a_thread_keeps_its_processors() {
        let before = available_parallelism().unwrap();
        Place::here().leave();
        assert_eq!(available_parallelism().unwrap(), before);
    }
}
