//! Printed output of a function: read from a non-blocking pipe, escaped and forwarded.

use super::cache;
use crate::error::{Error, Result};
use crate::escape::{escape, escape_lines};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Maximum text of one evaluation: more than a thousand lines, and a small share of the pipe buffers that a
/// user may have.
const MAX_OUTPUT_BYTES: usize = 256 << 10;

/// Environment variable for HDF5-UDF's behaviour: a function's output goes to the stream of the same name,
/// without labels.
const VARIABLE: &str = "HYPERCHUNK_PRINT";

/// Returns the prefix of the lines of a dataset in a file.
pub(super) fn label(file_path: &str, name: &str) -> String {
    format!("{}:/{}", escape(file_path, 200), escape(name.trim_start_matches('/'), 80))
}

/// Number of running commands in this process whose standard output is data and must not contain a function's
/// text.
static OUTPUT_IS_DATA: AtomicUsize = AtomicUsize::new(0);

/// Guard during which this program's standard output is data.
#[derive(Debug)]
pub struct CleanOutput(());

impl Drop for CleanOutput {
    fn drop(&mut self) {
        OUTPUT_IS_DATA.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Declares that this program's standard output is data: regardless of the user's settings, functions print
/// to standard error.
#[must_use]
pub fn keep_output_clean() -> CleanOutput {
    OUTPUT_IS_DATA.fetch_add(1, Ordering::Relaxed);
    CleanOutput(())
}

fn keeps_streams() -> bool {
    OUTPUT_IS_DATA.load(Ordering::Relaxed) == 0
        && std::env::var_os(VARIABLE).is_some_and(|word| word == "streams")
}

/// Rate limit: bytes of a burst, and bytes a second.
struct RateLimit(usize, usize);

/// Limit of one dataset, however many blocks a read computes.
const DATASET_LIMIT: RateLimit = RateLimit(256 << 10, 4096);
/// Limit of all functions in this process.
const PROCESS_LIMIT: RateLimit = RateLimit(4 << 20, 65536);
/// Maximum number of datasets with separate budgets.
const MAX_DATASETS: usize = 64;

/// Remaining budget at a point in time.
struct RemainingBudget {
    bytes: usize,
    since: Instant,
    /// Set once the omission of text was reported.
    told: bool,
}

impl RemainingBudget {
    fn new(budget: &RateLimit) -> Self {
        RemainingBudget { bytes: budget.0, since: Instant::now(), told: false }
    }

    fn now(&mut self, budget: &RateLimit) -> usize {
        let millis = usize::try_from(self.since.elapsed().as_millis()).unwrap_or(usize::MAX);
        let fresh = millis.saturating_mul(budget.1) / 1000;
        if fresh > 0 {
            self.since = Instant::now();
            self.bytes = self.bytes.saturating_add(fresh).min(budget.0);
        }
        self.bytes
    }
}

/// Remaining budgets: of all functions, and of datasets by the prefix of their lines.
struct RemainingBudgets {
    all: Option<RemainingBudget>,
    datasets: Vec<(String, RemainingBudget)>,
}

static REMAINING: Mutex<RemainingBudgets> = Mutex::new(RemainingBudgets { all: None, datasets: Vec::new() });

/// Cuts a dataset's text to the remaining budget.
fn within_budget(mut text: String, label: &str) -> String {
    // The lock is only tried: after a fork, its holder may no longer exist.
    let Some(mut left) = (if text.is_empty() { None } else { cache(&REMAINING) }) else { return text };
    let RemainingBudgets { all, datasets } = &mut *left;
    let all = all.get_or_insert_with(|| RemainingBudget::new(&PROCESS_LIMIT));
    if !datasets.iter().any(|(known, _)| known == label) {
        if datasets.len() >= MAX_DATASETS {
            datasets.remove(0);
        }
        datasets.push((label.to_owned(), RemainingBudget::new(&DATASET_LIMIT)));
    }
    let Some((_, own)) = datasets.iter_mut().find(|(known, _)| known == label) else { return text };
    let most = all.now(&PROCESS_LIMIT).min(own.now(&DATASET_LIMIT));
    let whole = text.len();
    let end = (0..=most.min(whole)).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text.truncate(end);
    all.bytes = all.bytes.saturating_sub(text.len());
    own.bytes = own.bytes.saturating_sub(text.len());
    if text.len() == whole {
        own.told = false;
    } else if !std::mem::replace(&mut own.told, true) {
        own.bytes = 0;
        if !text.is_empty() && !text.ends_with('\n') {
            text.push('\n');
        }
        text.push_str("(more was printed, and is not shown)\n");
    }
    text
}

/// Pipe from a worker.
#[derive(Debug)]
pub(super) struct OutputPipe(File);

impl OutputPipe {
    /// Makes the pipe: our end and the worker's. When it is full, further text of the worker is lost.
    pub(super) fn new() -> Result<(Self, OwnedFd)> {
        let mut fds = [0; 2];
        // SAFETY: the array has room for two descriptors.
        if unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) } != 0 {
            return Err(Error::last_os("a pipe"));
        }
        // SAFETY: the kernel just gave us both.
        let (ours, theirs) = unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) };
        // If the system does not allow more, a pipe keeps its 64 KiB.
        // SAFETY: plain system call on a descriptor that this function owns.
        unsafe { libc::fcntl(ours.as_raw_fd(), libc::F_SETPIPE_SZ, MAX_OUTPUT_BYTES) };
        Ok((OutputPipe(File::from(ours)), theirs))
    }

    /// Returns the text that is waiting in the pipe.
    pub(super) fn take(&mut self) -> String {
        let mut bytes = vec![0; MAX_OUTPUT_BYTES];
        let mut filled = 0;
        while let Some(room) = bytes.get_mut(filled..).filter(|r| !r.is_empty()) {
            match self.0.read(room) {
                Ok(n @ 1..) => filled += n,
                _ => break,
            }
        }
        bytes.truncate(filled);
        escape_lines(&String::from_utf8_lossy(&bytes), MAX_OUTPUT_BYTES)
    }

    /// Writes the text in a worker's pipes to this process's standard error, each line prefixed by `label`,
    /// which names the dataset. Also returns whether a message is waiting at `socket`, which costs nothing
    /// here.
    pub(super) fn forward(pipes: &mut [OutputPipe; 2], socket: BorrowedFd<'_>, label: &str) -> bool {
        let mut polls = [socket.as_raw_fd(), pipes[0].0.as_raw_fd(), pipes[1].0.as_raw_fd()]
            .map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
        // SAFETY: three live rows, no waiting.
        if unsafe { libc::poll(polls.as_mut_ptr(), 3, 0) } <= 0 {
            return false;
        }
        let [out, err] = pipes.each_mut().map(|pipe| within_budget(pipe.take(), label));
        // A closed stream does not fail a read.
        if out.is_empty() && err.is_empty() {
        } else if keeps_streams() {
            let _ = write(libc::STDOUT_FILENO, &mut std::io::stdout().lock(), &out);
            let _ = write(libc::STDERR_FILENO, &mut std::io::stderr().lock(), &err);
        } else {
            let lines = out.lines().chain(err.lines());
            let text: String = lines.map(|line| format!("{label}: {line}\n")).collect();
            let _ = write(libc::STDERR_FILENO, &mut std::io::stderr().lock(), &text);
        }
        polls[0].revents != 0
    }
}

fn write(fd: RawFd, to: &mut dyn std::io::Write, text: &str) -> std::io::Result<()> {
    if text.is_empty() || !is_standard(fd) {
        return Ok(());
    }
    let _quiet = NoBrokenPipe::begin();
    to.write_all(text.as_bytes())?;
    to.flush()
}

/// Returns whether a standard descriptor is a stream that this process inherited, and not a file of its own
/// that got a free number: inherited streams are passed on to child processes.
fn is_standard(fd: RawFd) -> bool {
    // SAFETY: reads the flags of a descriptor, which may be invalid.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFD) };
    flags >= 0 && flags & libc::FD_CLOEXEC == 0
}

/// Guard that makes writing to a pipe without readers an error in this thread, instead of a signal that ends
/// the program.
struct NoBrokenPipe {
    before: libc::sigset_t,
    /// Set if a signal was already pending: it belongs to the program.
    waited: bool,
}

impl NoBrokenPipe {
    fn begin() -> Self {
        // SAFETY: a signal set is a plain array of integers; all are locals that the calls write to.
        unsafe {
            let mut set = NoBrokenPipe { before: std::mem::zeroed(), waited: false };
            let mut pending: libc::sigset_t = std::mem::zeroed();
            libc::sigpending(&raw mut pending);
            set.waited = libc::sigismember(&raw const pending, libc::SIGPIPE) == 1;
            libc::pthread_sigmask(libc::SIG_BLOCK, &broken_pipe(), &raw mut set.before);
            set
        }
    }
}

impl Drop for NoBrokenPipe {
    fn drop(&mut self) {
        let none = libc::timespec { tv_sec: 0, tv_nsec: 0 };
        // SAFETY: the pending signal is taken by this thread, for which it was raised; all pointers are to
        // live values.
        unsafe {
            if !self.waited {
                libc::sigtimedwait(&broken_pipe(), std::ptr::null_mut(), &raw const none);
            }
            libc::pthread_sigmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut());
        }
    }
}

fn broken_pipe() -> libc::sigset_t {
    // SAFETY: as above.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigaddset(&raw mut set, libc::SIGPIPE);
        set
    }
}
