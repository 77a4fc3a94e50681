//! The warm Python process: it has imported NumPy once and forks a worker for each session.

use super::locate::Programs;
use super::pool::cache;
use super::printed::Printed;
use super::process::{self, Exit, Process};
use crate::error::{Error, ErrorKind, Result, fail};
use crate::escape::escape;
use crate::socket::{self, Received};
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

/// Importing NumPy from a cold disk takes a while.
const START: Duration = Duration::from_secs(60);
/// Children share the layout of their addresses, so the parent is replaced now and then.
const MAX_FORKS: u32 = 1000;

struct Zygote {
    process: Process,
    socket: OwnedFd,
    printed: Printed,
    python: PathBuf,
    forks: u32,
    owner: u32,
}

static ZYGOTE: Mutex<Option<Zygote>> = Mutex::new(None);

/// Waits for other threads, but not for ever: after a fork, the thread that has the lock may not be there any more.
fn lock() -> Result<MutexGuard<'static, Option<Zygote>>> {
    let deadline = Instant::now() + START;
    loop {
        match cache(&ZYGOTE) {
            Some(guard) => return Ok(guard),
            None if Instant::now() > deadline => {
                fail!(Worker, "the Python worker is busy for another thread")
            }
            None => std::thread::sleep(Duration::from_micros(200)),
        }
    }
}

/// Forks a worker that takes over `socket` and prints to the two pipes.
pub(super) fn fork(
    programs: &Programs,
    socket: BorrowedFd<'_>,
    stdout: BorrowedFd<'_>,
    stderr: BorrowedFd<'_>,
) -> Result<Process> {
    let python = programs.python()?;
    let mut slot = lock()?;
    // After a fork of the host, the parent's zygote is not ours to talk to.
    if slot
        .as_ref()
        .is_some_and(|z| z.owner != std::process::id() || z.python != python || z.forks >= MAX_FORKS)
    {
        *slot = None;
    }
    // It ends by itself when it is idle; then a new one is started, once.
    for fresh in [false, true] {
        if slot.is_none() {
            *slot = Some(start(programs, python.clone())?);
        }
        let Some(zygote) = slot.as_mut() else { continue };
        match zygote.fork(socket, stdout, stderr) {
            Ok(process) => return Ok(process),
            Err(error) if fresh => {
                *slot = None;
                return Err(error);
            }
            Err(_) => *slot = None,
        }
    }
    fail!(Worker, "Python could not be started")
}

/// How a forked worker ended.
pub(super) fn exit_of(pid: libc::pid_t) -> Option<Exit> {
    let mut slot = lock().ok()?;
    let zygote = slot.as_mut().filter(|z| z.owner == std::process::id())?;
    let answer = zygote.ask(b'S', pid, &[]).ok()?;
    if answer == i32::MIN { None } else { Some(Exit::from_wait(answer)) }
}

/// Tells the zygote that nobody will ask how `pid` ended.
pub(super) fn forget(pid: libc::pid_t) {
    let Ok(mut slot) = lock() else { return };
    if let Some(zygote) = slot.as_mut().filter(|z| z.owner == std::process::id()) {
        // A zygote that is gone has no children left to reap.
        let _ = socket::send(zygote.socket.as_fd(), &packet(b'R', pid), &[]);
    }
}

fn packet(op: u8, pid: libc::pid_t) -> [u8; 8] {
    let p = pid.to_le_bytes();
    [op, 0, 0, 0, p[0], p[1], p[2], p[3]]
}

fn start(programs: &Programs, python: PathBuf) -> Result<Zygote> {
    let (socket, theirs) = socket::pair()?;
    let (printed, pipe) = Printed::new()?;
    let main = programs.python_main();
    let arguments: Vec<&std::ffi::OsStr> = match &main {
        Some(path) => vec!["-I".as_ref(), "-X".as_ref(), "utf8".as_ref(), path.as_os_str()],
        None => {
            vec!["-I".as_ref(), "-X".as_ref(), "utf8".as_ref(), "-m".as_ref(), "hyperchunk._zygote".as_ref()]
        }
    };
    let process = process::spawn(&python, &arguments, &[theirs.as_fd()], pipe.as_fd(), pipe.as_fd(), &[])?;
    drop((theirs, pipe));
    socket::set_timeout(socket.as_fd(), START)?;
    let mut zygote = Zygote { process, socket, printed, python, forks: 0, owner: std::process::id() };
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
    fn fork(
        &mut self,
        socket: BorrowedFd<'_>,
        stdout: BorrowedFd<'_>,
        stderr: BorrowedFd<'_>,
    ) -> Result<Process> {
        let pid = self.ask(b'F', 0, &[socket, stdout, stderr])?;
        if pid <= 0 {
            fail!(Worker, "Python could not fork (error {})", -pid)
        }
        self.forks += 1;
        Ok(Process::foreign(pid))
    }

    fn ask(&mut self, op: u8, pid: libc::pid_t, fds: &[BorrowedFd<'_>]) -> Result<i32> {
        socket::send(self.socket.as_fd(), &packet(op, pid), fds)?;
        self.receive()
    }

    fn receive(&mut self) -> Result<i32> {
        let mut buffer = [0; 4];
        match socket::receive_within(self.socket.as_fd(), &mut buffer, START)? {
            Received::Packet(4) => Ok(i32::from_le_bytes(buffer)),
            Received::Packet(n) => fail!(Worker, "the Python worker sent {n} bytes"),
            Received::Closed => fail!(Worker, "the Python worker ended"),
            Received::TimedOut | Received::Interrupted => fail!(Worker, "the Python worker does not answer"),
        }
    }
}

impl Drop for Zygote {
    fn drop(&mut self) {
        if self.owner == std::process::id() {
            self.process.kill();
            self.process.wait(Duration::from_secs(1));
        }
    }
}
