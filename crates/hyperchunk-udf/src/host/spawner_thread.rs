//! Thread that lives as long as the program: the kernel ends a worker when the thread that started it exits.
//!
//! None of the program's own threads would do: those of thread pools end earlier, and the first thread
//! survives a call of `exec`, as another program, while this thread ends.

use super::{cache, idle, keep_loaded};
use crate::error::{Result, fail};
use std::sync::Mutex;
use std::sync::mpsc::{self, Sender};
use std::time::{Duration, Instant};

type Task = Box<dyn FnOnce() + Send>;

/// Process that owns the thread, and the channel to it. After a fork, the child has no such thread.
static THREAD: Mutex<Option<(u32, Sender<Task>)>> = Mutex::new(None);
/// Size of the thread's stack, which has a shallow call depth.
const STACK_BYTES: usize = 128 << 10;
/// Time limit for the lock: after a fork, its holder may no longer exist.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// Runs `work` on the thread that lives as long as the program.
///
/// # Errors
/// `Worker` if there is no such thread and none can be started.
pub(super) fn run<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T> {
    let (tell, told) = mpsc::sync_channel(1);
    let work: Task = Box::new(move || {
        // The caller is waiting.
        let _ = tell.send(work());
    });
    let sent = sender()?.send(work);
    match (sent, told.recv()) {
        (Ok(()), Ok(result)) => Ok(result),
        _ => fail!(Worker, "the thread that starts workers has ended"),
    }
}

fn sender() -> Result<Sender<Task>> {
    let deadline = Instant::now() + LOCK_TIMEOUT;
    let mut thread = loop {
        match cache(&THREAD) {
            Some(guard) => break guard,
            None if Instant::now() > deadline => {
                fail!(Worker, "cannot start a worker: another thread has been starting one for too long")
            }
            None => std::thread::sleep(Duration::from_micros(100)),
        }
    };
    let own = std::process::id();
    if let Some((owner, sender)) = thread.as_ref()
        && *owner == own
    {
        return Ok(sender.clone());
    }
    let (sender, tasks) = mpsc::channel::<Task>();
    keep_loaded();
    let serve = move || tasks.into_iter().for_each(|work| work());
    let builder = std::thread::Builder::new().name("hyperchunk-start".into()).stack_size(STACK_BYTES);
    if let Err(error) = idle::without_signals(|| builder.spawn(serve).map(drop)) {
        fail!(Worker, "cannot start the thread that starts workers: {error}")
    }
    // State that the parent of a fork shares with its thread must not be dropped here.
    std::mem::forget(thread.replace((own, sender.clone())));
    Ok(sender)
}
