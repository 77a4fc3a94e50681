//! Parallel jobs on threads that live for one read: no threads remain that a fork could break.

use super::place::Place;
use crate::Result;
use crate::io::interrupt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};

/// Does all jobs, on up to `threads` threads, each with a state of its own.
///
/// # Errors
/// The first error of a job; the others are left undone.
pub fn spread<J: Send, S>(
    threads: usize,
    jobs: impl Iterator<Item = J> + Send,
    state: impl Fn() -> S + Sync,
    work: impl Fn(&mut S, J) -> Result<()> + Sync,
) -> Result<()> {
    let ask = interrupt::current_interrupt();
    if threads <= 1 {
        let mut state = state();
        for job in jobs {
            interrupt::check(ask.as_ref())?;
            work(&mut state, job)?;
        }
        return Ok(());
    }
    let jobs = Mutex::new(jobs.fuse());
    let failed = AtomicBool::new(false);
    let run = || {
        let mut state = state();
        while !failed.load(Ordering::Relaxed) {
            let Some(job) = jobs.lock().unwrap_or_else(PoisonError::into_inner).next() else { break };
            if let Err(error) = interrupt::check(ask.as_ref()).and_then(|()| work(&mut state, job)) {
                failed.store(true, Ordering::Relaxed);
                return Err(error);
            }
        }
        Ok(())
    };
    let place = Place::here();
    let other = || {
        place.leave();
        interrupt::with_interrupt(ask.clone(), run)
    };
    std::thread::scope(|scope| {
        let others: Vec<_> = (1..threads)
            .map_while(|_| {
                std::thread::Builder::new().name("hyperchunk-read".into()).spawn_scoped(scope, other).ok()
            })
            .collect();
        let mine = run();
        others.into_iter().fold(mine, |result, other| {
            let other = other.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            result.and(other)
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Error;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn every_job_once() {
        for threads in [1, 2, 5] {
            let sum = AtomicU64::new(0);
            spread(
                threads,
                0..1000_u64,
                || (),
                |(), job| {
                    sum.fetch_add(job, Ordering::Relaxed);
                    Ok(())
                },
            )
            .unwrap();
            assert_eq!(sum.into_inner(), 499_500);
        }
    }

    #[test]
    fn an_error_ends_it() {
        for threads in [1, 3] {
            let done = AtomicU64::new(0);
            let result = spread(
                threads,
                0..1_000_000_u64,
                || (),
                |(), job| {
                    done.fetch_add(1, Ordering::Relaxed);
                    if job == 10 { Err(Error::corrupt("ten")) } else { Ok(()) }
                },
            );
            assert_eq!(result.unwrap_err().message(), "ten");
            assert!(done.into_inner() < 1_000_000);
        }
    }
}
