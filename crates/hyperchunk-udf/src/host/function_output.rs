//! Printed output of a function: read from a non-blocking pipe, escaped and forwarded.

use super::cache;
use crate::error::{Error, Result};
use crate::escape::{escape, escape_lines};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

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

/// Silence after which a dataset whose text was dropped is shown again. Without it, a read that goes on
/// printing would show a few bytes at each poll.
const MIN_SILENCE: Duration = Duration::from_secs(2);

/// Remaining budget at a point in time.
struct RemainingBudget {
    bytes: usize,
    since: Instant,
    /// Set once text was dropped and its omission reported.
    told: bool,
}

impl RemainingBudget {
    fn new(limit: &RateLimit, now: Instant) -> Self {
        RemainingBudget { bytes: limit.0, since: now, told: false }
    }

    fn refill(&mut self, limit: &RateLimit, now: Instant) {
        let elapsed = now.saturating_duration_since(self.since);
        if self.told && elapsed < MIN_SILENCE {
            self.since = now;
            return;
        }
        let millis = usize::try_from(elapsed.as_millis()).unwrap_or(usize::MAX);
        let fresh = millis.saturating_mul(limit.1) / 1000;
        if fresh > 0 {
            self.since = now;
            self.bytes = self.bytes.saturating_add(fresh).min(limit.0);
        }
    }

    fn spend(&mut self, bytes: usize) {
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

/// Remaining budgets: of all functions, and of datasets by the prefix of their lines.
struct RemainingBudgets {
    all: Option<RemainingBudget>,
    datasets: Vec<(String, RemainingBudget)>,
}

static REMAINING: Mutex<RemainingBudgets> = Mutex::new(RemainingBudgets { all: None, datasets: Vec::new() });

impl RemainingBudgets {
    /// Cuts a dataset's text to the remaining budget, to which the prefix of each line counts, too.
    fn limit(&mut self, mut text: String, (label, prefix_bytes): (&str, usize), now: Instant) -> String {
        let all = self.all.get_or_insert_with(|| RemainingBudget::new(&PROCESS_LIMIT, now));
        if !self.datasets.iter().any(|(known, _)| known == label) {
            if self.datasets.len() >= MAX_DATASETS {
                self.datasets.remove(0);
            }
            self.datasets.push((label.to_owned(), RemainingBudget::new(&DATASET_LIMIT, now)));
        }
        let Some((_, own)) = self.datasets.iter_mut().find(|(known, _)| known == label) else {
            return text;
        };
        all.refill(&PROCESS_LIMIT, now);
        own.refill(&DATASET_LIMIT, now);
        let (cost, end) = affordable(&text, prefix_bytes, all.bytes.min(own.bytes));
        all.spend(cost);
        own.spend(cost);
        if end == text.len() {
            own.told = false;
            return text;
        }
        text.truncate(end);
        own.bytes = 0;
        if !std::mem::replace(&mut own.told, true) {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            text.push_str("(more was printed, and is not shown)\n");
        }
        text
    }
}

/// Returns the cost of as much text as a budget pays for, and its length in bytes. Each line costs its own
/// bytes and its prefix's.
fn affordable(text: &str, prefix_bytes: usize, budget: usize) -> (usize, usize) {
    let (mut cost, mut end) = (0, 0);
    for line in text.split_inclusive('\n') {
        let left = budget - cost;
        if prefix_bytes + line.len() > left {
            let room = left.saturating_sub(prefix_bytes);
            let cut = (0..=room.min(line.len())).rev().find(|cut| line.is_char_boundary(*cut)).unwrap_or(0);
            return if cut == 0 { (cost, end) } else { (cost + prefix_bytes + cut, end + cut) };
        }
        cost += prefix_bytes + line.len();
        end += line.len();
    }
    (cost, end)
}

/// Cuts a dataset's text to the remaining budget of this process.
fn within_budget(text: String, label: &str) -> String {
    let prefix_bytes = if keeps_streams() { 0 } else { label.len() + 2 };
    // The lock is only tried: after a fork, its holder may no longer exist.
    match if text.is_empty() { None } else { cache(&REMAINING) } {
        Some(mut left) => left.limit(text, (label, prefix_bytes), Instant::now()),
        None => text,
    }
}

/// Pipe from a worker.
#[derive(Debug)]
pub(super) struct OutputPipe(File);

impl OutputPipe {
    /// Creates the pipe and returns our end and the worker's. When it is full, further text of the worker is
    /// lost.
    pub(super) fn new() -> Result<(Self, OwnedFd)> {
        let mut fds = [0; 2];
        // SAFETY: the array has room for two descriptors.
        if unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) } != 0 {
            return Err(Error::last_os("cannot create a pipe"));
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
    /// Set if a signal was already pending. That one belongs to the program.
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a function that prints `part` every `step` for `seconds`, and returns what is shown with
    /// prefixes.
    fn shown(left: &mut RemainingBudgets, part: &str, start: Instant, step: Duration, count: u32) -> String {
        let texts = (0..count).map(|at| left.limit(part.to_owned(), ("f.h5:/x", 9), start + step * at));
        texts.map(|text| text.lines().map(|line| format!("f.h5:/x: {line}\n")).collect::<String>()).collect()
    }

    /// A read shows its burst, however slowly and in however small parts it prints.
    #[test]
    fn one_read_shows_one_burst() {
        for (part, step) in [("x\n", 1), ("xxxxxxxx\n", 1), ("xxx", 1), (&*"y\n".repeat(4000), 500)] {
            let mut left = RemainingBudgets { all: None, datasets: Vec::new() };
            let text = shown(&mut left, part, Instant::now(), Duration::from_millis(step), 60_000);
            let refilled = 60_000 * usize::try_from(step).unwrap() * DATASET_LIMIT.1 / 1000;
            assert!(text.len() >= DATASET_LIMIT.0 / 2, "{} bytes", text.len());
            if text.contains("more was printed") {
                assert_eq!(text.matches("more was printed").count(), 1);
                assert!(text.len() <= DATASET_LIMIT.0 + refilled + 100, "{} bytes", text.len());
            }
        }
    }

    /// After a silence, text is shown again.
    #[test]
    fn a_later_read_is_shown() {
        let mut left = RemainingBudgets { all: None, datasets: Vec::new() };
        let start = Instant::now();
        let long = "z".repeat(300_000);
        assert!(left.limit(long.clone(), ("f", 3), start).ends_with("is not shown)\n"));
        assert_eq!(left.limit("no\n".to_owned(), ("f", 3), start + Duration::from_secs(1)), "");
        assert_eq!(left.limit("yes\n".to_owned(), ("f", 3), start + Duration::from_secs(4)), "yes\n");
    }
}
