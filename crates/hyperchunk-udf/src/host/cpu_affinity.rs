//! CPU affinity of host and workers.
//!
//! A short call is many times cheaper when host and worker share a processor: no idle one has to be woken,
//! and the data stay in one cache. But the kernel prefers to wake the host on an idle processor, so while it
//! sleeps in a short call, the calling thread is pinned. A long call is faster on a processor of its own.

/// Returns the processor that runs this thread.
pub(super) fn current() -> Option<usize> {
    // SAFETY: no preconditions.
    let cpu = usize::try_from(unsafe { libc::sched_getcpu() }).ok()?;
    (cpu < 8 * size_of::<libc::cpu_set_t>()).then_some(cpu)
}

/// Returns whether the AVX2 version of C++ functions runs on this machine.
pub(super) fn is_wide() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("avx2");
    #[cfg(not(target_arch = "x86_64"))]
    return false;
}

/// Returns the processors that this thread may use.
pub(super) fn allowed() -> Option<libc::cpu_set_t> {
    // SAFETY: the set is live and of that size.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        (libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &raw mut set) == 0).then_some(set)
    }
}

/// Returns the set of one processor.
pub(super) fn only(cpu: Option<usize>) -> libc::cpu_set_t {
    // SAFETY: all-zero is the empty set; `current` has checked the bound.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        if let Some(cpu) = cpu {
            libc::CPU_SET(cpu, &mut set);
        }
        set
    }
}

fn set(mask: &libc::cpu_set_t) -> bool {
    // SAFETY: the set is live and of that size.
    unsafe { libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), mask) == 0 }
}

/// Guard that pins this thread to a processor.
pub(super) struct CpuPin(libc::cpu_set_t);

impl CpuPin {
    /// Pins this thread to `cpu`. Returns `None` if `cpu` is unknown or the only processor, or pinning fails.
    pub(super) fn on(cpu: Option<usize>) -> Option<Self> {
        let before = allowed()?;
        // SAFETY: counts the bits of a live set.
        let several = unsafe { libc::CPU_COUNT(&before) } > 1;
        (cpu.is_some() && several && set(&only(cpu))).then_some(CpuPin(before))
    }
}

impl Drop for CpuPin {
    fn drop(&mut self) {
        set(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_gets_its_processors_back() {
        let bits = || {
            let set = allowed().unwrap();
            // SAFETY: the bound of a set is 1024.
            (0..1024).filter(|&n| unsafe { libc::CPU_ISSET(n, &set) }).collect::<Vec<_>>()
        };
        let before = bits();
        let stay = CpuPin::on(current());
        assert!(stay.is_none() || bits().len() == 1);
        drop(stay);
        assert_eq!(bits(), before);
    }
}
