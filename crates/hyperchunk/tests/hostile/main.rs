//! Hostile files: the corpus of the fuzz targets, damaged copies of it, and files made with cycles or
//! extreme sizes.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::cast_possible_truncation,
    clippy::print_stdout,
    clippy::print_stderr,
    missing_docs,
    unreachable_pub,
    reason = "a test may fail and say so; what is included is written for a crate of its own"
)]

#[path = "../../../../fuzz/src/blocks.rs"]
mod blocks;
#[path = "../../../../fuzz/src/dice.rs"]
mod dice;
mod made;
mod maker;
#[allow(dead_code, reason = "the runner uses more of it")]
#[path = "../../../../fuzz/src/memory.rs"]
mod memory;
#[path = "../../../../fuzz/src/mutate.rs"]
mod mutate;
mod replay;
#[allow(dead_code, reason = "the runner uses more of it")]
#[path = "../../../../fuzz/src/targets/mod.rs"]
mod targets;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

#[global_allocator]
static MEMORY: memory::CountingAllocator = memory::CountingAllocator;

/// Lets one test run at a time, since memory is counted for the whole process.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Processor time of this process, which other work on the machine does not lengthen.
struct CpuTime(Duration);

impl CpuTime {
    fn now() -> Self {
        let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the time is live.
        let told = unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
        assert_eq!(told, 0);
        Self(Duration::new(time.tv_sec.cast_unsigned(), time.tv_nsec as u32))
    }

    fn elapsed(&self) -> Duration {
        Self::now().0 - self.0
    }
}
