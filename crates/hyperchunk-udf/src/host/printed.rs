//! What a function prints: read from a pipe that never blocks anybody, cleaned, and passed on.

use super::cache;
use crate::error::{Error, Result};
use crate::escape::{escape, escape_lines};
use std::fs::File;
use std::io::Read as _;
use std::os::fd::{AsRawFd as _, BorrowedFd, FromRawFd as _, OwnedFd, RawFd};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

/// Kept of what one evaluation prints: a thousand lines and more, and no large part of the pipes that a user may have.
const MAX_BYTES: usize = 256 << 10;

/// Switches on HDF5-UDF's way: what a function prints goes to the stream of the same name, as it is.
const VARIABLE: &str = "HYPERCHUNK_PRINT";

/// How lines of a dataset of a file begin.
pub(super) fn label(file_path: &str, name: &str) -> String {
    format!("{}:/{}", escape(file_path, 200), escape(name.trim_start_matches('/'), 80))
}

/// How many commands run in this process whose standard output is data, so that no function's text may go there.
static OUTPUT_IS_DATA: AtomicUsize = AtomicUsize::new(0);

/// As long as it lives, this program's standard output is data.
#[derive(Debug)]
pub struct CleanOutput(());

impl Drop for CleanOutput {
    fn drop(&mut self) {
        OUTPUT_IS_DATA.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Says that this program's standard output is data: whatever the user switched on, what functions print goes to standard error.
#[must_use]
pub fn keep_output_clean() -> CleanOutput {
    OUTPUT_IS_DATA.fetch_add(1, Ordering::Relaxed);
    CleanOutput(())
}

fn keeps_streams() -> bool {
    OUTPUT_IS_DATA.load(Ordering::Relaxed) == 0
        && std::env::var_os(VARIABLE).is_some_and(|word| word == "streams")
}

/// Bytes that may be printed at once, and how many come to it in a second.
struct Budget(usize, usize);

/// What one dataset may print: what one read prints is bounded, in however many blocks it is computed.
const OF_DATASET: Budget = Budget(256 << 10, 4096);
/// What all functions of this process may print.
const OF_ALL: Budget = Budget(4 << 20, 65536);
/// Datasets whose text is counted each by itself.
const DATASETS: usize = 64;

/// What is left of a budget, and when that was so.
struct Left {
    bytes: usize,
    since: Instant,
    /// Whether it was said that something is not shown.
    told: bool,
}

impl Left {
    fn new(budget: &Budget) -> Self {
        Left { bytes: budget.0, since: Instant::now(), told: false }
    }

    fn now(&mut self, budget: &Budget) -> usize {
        let millis = usize::try_from(self.since.elapsed().as_millis()).unwrap_or(usize::MAX);
        let fresh = millis.saturating_mul(budget.1) / 1000;
        if fresh > 0 {
            self.since = Instant::now();
            self.bytes = self.bytes.saturating_add(fresh).min(budget.0);
        }
        self.bytes
    }
}

/// What is left of all, and of datasets by how their lines begin.
struct Lefts {
    all: Option<Left>,
    datasets: Vec<(String, Left)>,
}

static LEFT: Mutex<Lefts> = Mutex::new(Lefts { all: None, datasets: Vec::new() });

/// What of a text of a dataset may be printed.
fn within_budget(mut text: String, label: &str) -> String {
    // A budget that another thread holds is not waited for: after a fork, it may not be there any more.
    let Some(mut left) = (if text.is_empty() { None } else { cache(&LEFT) }) else { return text };
    let Lefts { all, datasets } = &mut *left;
    let all = all.get_or_insert_with(|| Left::new(&OF_ALL));
    if !datasets.iter().any(|(known, _)| known == label) {
        if datasets.len() >= DATASETS {
            datasets.remove(0);
        }
        datasets.push((label.to_owned(), Left::new(&OF_DATASET)));
    }
    let Some((_, own)) = datasets.iter_mut().find(|(known, _)| known == label) else { return text };
    let most = all.now(&OF_ALL).min(own.now(&OF_DATASET));
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

/// A pipe from a worker.
#[derive(Debug)]
pub(super) struct Printed(File);

impl Printed {
    /// The pipe: our end and the worker's. When it is full, what the worker prints is lost.
    pub(super) fn new() -> Result<(Self, OwnedFd)> {
        let mut fds = [0; 2];
        // SAFETY: the array has room for two descriptors.
        if unsafe { libc::pipe2(fds.as_mut_ptr(), libc::O_CLOEXEC | libc::O_NONBLOCK) } != 0 {
            return Err(Error::last_os("a pipe"));
        }
        // SAFETY: the kernel just gave us both.
        let (ours, theirs) = unsafe { (OwnedFd::from_raw_fd(fds[0]), OwnedFd::from_raw_fd(fds[1])) };
        // Where the system does not allow more, a pipe keeps its 64 KiB.
        // SAFETY: plain system call on a descriptor that we own.
        unsafe { libc::fcntl(ours.as_raw_fd(), libc::F_SETPIPE_SZ, MAX_BYTES) };
        Ok((Printed(File::from(ours)), theirs))
    }

    /// The text that waits in the pipe.
    pub(super) fn take(&mut self) -> String {
        let mut bytes = vec![0; MAX_BYTES];
        let mut filled = 0;
        while let Some(room) = bytes.get_mut(filled..).filter(|r| !r.is_empty()) {
            match self.0.read(room) {
                Ok(n @ 1..) => filled += n,
                _ => break,
            }
        }
        bytes.truncate(filled);
        escape_lines(&String::from_utf8_lossy(&bytes), MAX_BYTES)
    }

    /// Writes what waits in a worker's pipes to this process's standard error, each line behind `label`, which names the dataset.
    /// Tells whether something waits at `socket`, too, which costs nothing here.
    pub(super) fn forward(pipes: &mut [Printed; 2], socket: BorrowedFd<'_>, label: &str) -> bool {
        let mut polls = [socket.as_raw_fd(), pipes[0].0.as_raw_fd(), pipes[1].0.as_raw_fd()]
            .map(|fd| libc::pollfd { fd, events: libc::POLLIN, revents: 0 });
        // SAFETY: three live rows, no waiting.
        if unsafe { libc::poll(polls.as_mut_ptr(), 3, 0) } <= 0 {
            return false;
        }
        let [out, err] = pipes.each_mut().map(|pipe| within_budget(pipe.take(), label));
        // A closed stream is no reason to fail a read.
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

/// Whether a standard descriptor is a stream that this process was given, and not a file of its own that got a number that was free:
/// what is meant for a process goes on to the programs that it starts.
fn is_standard(fd: RawFd) -> bool {
    // SAFETY: asks for the flags of a descriptor, which may be none.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFD) };
    flags >= 0 && flags & libc::FD_CLOEXEC == 0
}

/// While it is there, writing to a pipe that nobody reads is an error for this thread, and no signal that ends the program.
struct NoBrokenPipe {
    before: libc::sigset_t,
    /// One was waiting already: it is the program's.
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
        // SAFETY: the signal that waits is taken by this thread, for which it was raised; all pointers are to live values.
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
