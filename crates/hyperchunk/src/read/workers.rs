//! Parallel execution of jobs on threads that exist for one read only, so that a fork between reads finds no
//! other threads.

use super::place::Place;
use crate::Result;
use crate::io::interrupt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Interval at which a thread that waits for others polls for an interrupt.
const POLL_INTERVAL: Duration = Duration::from_millis(50);

/// Runs all jobs, on up to `threads` threads, each with its own state.
///
/// # Errors
/// The error of a job; the remaining jobs are then not started. Io if the read is cancelled.
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
        let (running, ended) = mpsc::channel::<()>();
        let others: Vec<_> = (1..threads)
            .map_while(|_| {
                let running = running.clone();
                let work = move || {
                    let _running = running;
                    other()
                };
                std::thread::Builder::new().name("hyperchunk-read".into()).spawn_scoped(scope, work).ok()
            })
            .collect();
        drop(running);
        let mine = run();
        // Only the calling thread can learn of a signal, so it polls while it waits for the others.
        while ask.is_some() && ended.recv_timeout(POLL_INTERVAL) == Err(RecvTimeoutError::Timeout) {
            if interrupt::check(ask.as_ref()).is_err() {
                failed.store(true, Ordering::Relaxed);
            }
        }
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
    use std::sync::Arc;
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

    #[test]
    fn the_caller_hears_of_an_interrupt_while_it_waits() {
        let (heard, caller) = (Arc::new(AtomicBool::new(false)), std::thread::current().id());
        let signalled = Arc::new(AtomicBool::new(false));
        let (latch, signal) = (Arc::clone(&heard), Arc::clone(&signalled));
        // As with signals: only the caller learns of one, and tells the others.
        let ask: interrupt::Ask = Arc::new(move || {
            if std::thread::current().id() == caller && signal.load(Ordering::Relaxed) {
                latch.store(true, Ordering::Relaxed);
            }
            latch.load(Ordering::Relaxed)
        });
        let (sent, taken) = mpsc::channel();
        let (sent, taken) = (Mutex::new(sent), Mutex::new(taken));
        let result = interrupt::with_interrupt(Some(ask), || {
            spread(
                2,
                0..2,
                || (),
                |(), _: u64| {
                    if std::thread::current().id() == caller {
                        // Until the other thread has the last job.
                        taken.lock().unwrap().recv().unwrap();
                        return Ok(());
                    }
                    sent.lock().unwrap().send(()).unwrap();
                    signalled.store(true, Ordering::Relaxed);
                    while !heard.load(Ordering::Relaxed) {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    Err(Error::corrupt("stopped"))
                },
            )
        });
        assert_eq!(result.unwrap_err().message(), "stopped");
    }
}
