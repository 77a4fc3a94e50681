//! Warm Python process: it imports modules such as NumPy once, and forks a worker for each session.

use super::function_output::OutputPipe;
use super::idle;
use super::locate::Programs;
use super::modules::Modules;
use super::process::{self, Exit, Process};
use crate::cache::cache;
use crate::error::{Error, ErrorKind, Result, fail};
use crate::escape::escape;
use crate::protocol::IDLE_TIMEOUT;
use crate::socket::{self, ReceiveResult};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Time limit for the start: importing NumPy from a cold disk takes a while.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Number of forks after which the parent is replaced, since its children share its address-space layout.
const MAX_FORKS: u32 = 1000;

struct Zygote {
    process: Process,
    /// Forked workers that are not yet [forgotten](forget).
    children: Vec<libc::pid_t>,
    socket: OwnedFd,
    printed: OutputPipe,
    python: PathBuf,
    forks: u32,
    /// Time at which it last forked a worker.
    used: Instant,
    owner: u32,
}

/// Current zygote, and its predecessors whose workers still run.
#[derive(Default)]
struct Zygotes {
    forks: Option<Zygote>,
    retired: Vec<Zygote>,
}

impl Zygotes {
    /// Makes a new zygote fork from now on. A worker ends with the zygote that forked it.
    fn retire(&mut self) {
        self.retired.extend(self.forks.take());
        self.retired.retain(|zygote| !zygote.children.is_empty() && zygote.is_ours());
    }

    /// Returns the zygote that forked a worker.
    fn parent(&mut self, pid: libc::pid_t) -> Option<&mut Zygote> {
        let mut all = self.retired.iter_mut().chain(&mut self.forks);
        all.find(|zygote| zygote.is_ours() && zygote.children.contains(&pid))
    }
}

static ZYGOTES: Mutex<Zygotes> = Mutex::new(Zygotes { forks: None, retired: Vec::new() });

/// Locks the zygotes, with a time limit: after a fork, the thread that holds the lock may no longer exist.
fn lock() -> Result<MutexGuard<'static, Zygotes>> {
    let deadline = Instant::now() + START_TIMEOUT;
    loop {
        match cache(&ZYGOTES) {
            Some(guard) => return Ok(guard),
            None if Instant::now() > deadline => {
                fail!(Worker, "the Python process is busy for another thread")
            }
            None => std::thread::sleep(Duration::from_micros(200)),
        }
    }
}

/// Forks a worker that has these modules and takes over a socket and the two pipes that it prints to.
pub(super) fn fork(programs: &Programs, modules: &Modules, fds: [BorrowedFd<'_>; 3]) -> Result<Process> {
    let python = programs.python()?;
    let mut zygotes = lock()?;
    // After a fork of the host, the parent's zygote must not be used.
    if zygotes.forks.as_ref().is_some_and(|z| !z.is_ours() || z.python != python || z.forks >= MAX_FORKS) {
        zygotes.retire();
    }
    // The zygote exits by itself when it is idle; then a new one is started, once.
    for fresh in [false, true] {
        if zygotes.forks.is_none() {
            zygotes.forks = Some(start(programs, python.clone())?);
        }
        let Some(zygote) = zygotes.forks.as_mut() else { continue };
        match zygote.fork(modules, fds) {
            Ok(process) => return Ok(process),
            Err(error) if fresh => {
                zygotes.retire();
                return Err(error);
            }
            Err(_) => zygotes.retire(),
        }
    }
    fail!(Worker, "Python could not be started")
}

/// Returns how a forked worker ended.
pub(super) fn child_exit(pid: libc::pid_t) -> Option<Exit> {
    let answer = lock().ok()?.parent(pid)?.ask(b'S', pid).ok()?;
    if answer == i32::MIN { None } else { Some(Exit::from_wait(answer)) }
}

/// Makes the zygote reap the process `to`, to which the ended worker `from` handed its task over.
pub(super) fn adopt(from: libc::pid_t, to: libc::pid_t) -> Result<()> {
    let mut zygotes = lock()?;
    let Some(zygote) = zygotes.parent(from) else {
        fail!(Worker, "a worker without a parent process handed its task over")
    };
    if zygote.ask(b'A', to)? != 0 {
        fail!(Worker, "a worker handed its task over to a process that is not a child of the Python process")
    }
    zygote.children.retain(|child| *child != from);
    zygote.children.push(to);
    // Reaps the ended worker.
    socket::send(zygote.socket.as_fd(), &packet(b'R', from), &[])
}

/// Tells the zygote that the exit status of `pid` is no longer needed.
pub(super) fn forget(pid: libc::pid_t) {
    let Ok(mut zygotes) = lock() else { return };
    if let Some(zygote) = zygotes.parent(pid) {
        zygote.children.retain(|child| *child != pid);
        // A zygote that is gone has no children left to reap.
        let _ = socket::send(zygote.socket.as_fd(), &packet(b'R', pid), &[]);
    }
    if !zygotes.retired.is_empty() {
        zygotes.retired.retain(|zygote| !zygote.children.is_empty());
    }
    drop(zygotes);
    idle::watch();
}

/// Ends the Python process if it has no workers and has forked none for a while. If it has no workers but is
/// not yet due, returns the time at which it is.
pub(super) fn end_idle() -> Option<Instant> {
    let now = Instant::now();
    let Some(mut zygotes) = cache(&ZYGOTES) else { return now.checked_add(idle::RETRY_INTERVAL) };
    let is_idle = |zygote: &Zygote| zygote.children.is_empty();
    let due =
        zygotes.forks.take_if(|zygote| is_idle(zygote) && now.duration_since(zygote.used) >= IDLE_TIMEOUT);
    let next = zygotes.forks.as_ref().filter(|zygote| is_idle(zygote) && zygote.is_ours());
    let next = next.and_then(|zygote| zygote.used.checked_add(IDLE_TIMEOUT));
    drop(zygotes);
    drop(due);
    next
}

fn packet(op: u8, pid: libc::pid_t) -> [u8; 8] {
    let p = pid.to_le_bytes();
    [op, 0, 0, 0, p[0], p[1], p[2], p[3]]
}

fn start(programs: &Programs, python: PathBuf) -> Result<Zygote> {
    let (socket, theirs) = socket::pair()?;
    let (printed, pipe) = OutputPipe::new()?;
    let main = programs.python_main();
    let host = std::process::id().to_string();
    let mut arguments: Vec<&std::ffi::OsStr> = ["-I", "-B", "-X", "utf8"].map(std::ffi::OsStr::new).to_vec();
    match &main {
        Some(path) => arguments.push(path.as_os_str()),
        None => arguments.extend(["-m", "hyperchunk._zygote"].map(std::ffi::OsStr::new)),
    }
    arguments.push(host.as_ref());
    let process = process::spawn(&python, &arguments, &[theirs.as_fd()], pipe.as_fd(), pipe.as_fd(), &[])?;
    drop((theirs, pipe));
    socket::set_timeout(socket.as_fd(), START_TIMEOUT)?;
    let owner = std::process::id();
    let mut zygote = Zygote {
        process,
        children: Vec::new(),
        socket,
        printed,
        python,
        forks: 0,
        used: Instant::now(),
        owner,
    };
    match zygote.receive() {
        Ok(_) => Ok(zygote),
        Err(error) => {
            zygote.process.kill();
            let said = zygote.printed.take();
            let last = said.trim_end().lines().last().unwrap_or("");
            let message =
                format!("{} cannot run functions: {} {}", zygote.python.display(), error, escape(last, 300));
            Err(Error::new(ErrorKind::Worker, message))
        }
    }
}

impl Zygote {
    fn fork(&mut self, modules: &Modules, fds: [BorrowedFd<'_>; 3]) -> Result<Process> {
        let request = [&packet(b'F', 0)[..], modules.names.join("\n").as_bytes()].concat();
        socket::send(self.socket.as_fd(), &request, &fds)?;
        let pid = self.receive()?;
        if pid <= 0 {
            fail!(Worker, "Python could not fork (error {})", -pid)
        }
        self.forks += 1;
        self.used = Instant::now();
        let process = Process::foreign(pid)?;
        self.children.push(pid);
        Ok(process)
    }

    fn is_ours(&self) -> bool {
        self.owner == std::process::id()
    }

    fn ask(&mut self, op: u8, pid: libc::pid_t) -> Result<i32> {
        socket::send(self.socket.as_fd(), &packet(op, pid), &[])?;
        self.receive()
    }

    fn receive(&mut self) -> Result<i32> {
        let mut buffer = [0; 4];
        match socket::receive_within(self.socket.as_fd(), &mut buffer, START_TIMEOUT, START_TIMEOUT)? {
            ReceiveResult::Packet(4) => Ok(i32::from_le_bytes(buffer)),
            ReceiveResult::Packet(n) => fail!(Worker, "the Python process sent {n} bytes, expected 4"),
            ReceiveResult::Closed => fail!(Worker, "the Python process ended"),
            ReceiveResult::Interrupted => fail!(Failed, "interrupted"),
            ReceiveResult::TimedOut => fail!(Worker, "the Python process does not answer"),
        }
    }
}

impl Drop for Zygote {
    fn drop(&mut self) {
        if self.is_ours() {
            self.process.kill();
            self.process.wait(Duration::from_secs(1));
        }
    }
}
