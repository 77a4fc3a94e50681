//! Process of a worker, with its socket and pipes.

use super::function_output::OutputPipe;
use super::locate::Programs;
use super::modules::Modules;
use super::process::{self, Process};
use super::zygote;
use crate::backend::Backend;
use crate::error::{Result, fail};
use crate::socket;
use std::os::fd::{AsFd as _, AsRawFd as _, OwnedFd};
use std::time::Duration;

/// Process that runs functions. Dropping it ends the process.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) process: Process,
    pub(super) socket: OwnedFd,
    /// Pipes for standard output and standard error.
    pub(super) printed: [OutputPipe; 2],
    owner: u32,
}

impl Worker {
    /// Starts the process. `decompresses` is set if it may receive inputs in stored form; `modules` are for
    /// Python.
    ///
    /// # Errors
    /// `Worker`, `Io`.
    pub(super) fn start(
        programs: &Programs,
        backend: Backend,
        decompresses: bool,
        modules: &Modules,
    ) -> Result<Self> {
        if !backend.has_worker() {
            fail!(Worker, "no worker runs {}", backend.short_name())
        }
        let (socket, theirs) = socket::pair()?;
        let (out, out_theirs) = OutputPipe::new()?;
        let (err, err_theirs) = OutputPipe::new()?;
        let more = match backend {
            Backend::Cuda => process::gpu_environment(programs, decompresses)?,
            _ => Vec::new(),
        };
        let process = match backend {
            Backend::Python => {
                zygote::fork(programs, modules, [theirs.as_fd(), out_theirs.as_fd(), err_theirs.as_fd()])?
            }
            backend => process::spawn(
                &if backend == Backend::Wasm { programs.wasm_worker()? } else { programs.worker()? },
                &["serve".as_ref(), std::process::id().to_string().as_ref()],
                &[theirs.as_fd()],
                out_theirs.as_fd(),
                err_theirs.as_fd(),
                &more.iter().map(|(name, value)| (name.as_str(), value.as_os_str())).collect::<Vec<_>>(),
            )?,
        };
        Ok(Worker { process, socket, printed: [out, err], owner: std::process::id() })
    }

    /// Returns whether this process started the worker. After a fork the child must start its own.
    pub(super) fn is_ours(&self) -> bool {
        self.owner == std::process::id()
    }

    /// Returns whether the worker has exited by itself, as it does after a time without calls.
    pub(super) fn is_over(&self) -> bool {
        // Readable data are ignored: they may be the message of an earlier call.
        let mut poll = libc::pollfd { fd: self.socket.as_raw_fd(), events: libc::POLLRDHUP, revents: 0 };
        // SAFETY: one live pollfd, no waiting.
        unsafe { libc::poll(&raw mut poll, 1, 0) > 0 }
    }
}

impl Worker {
    /// Replaces the process by another one, to which it handed its task over before it ended.
    ///
    /// # Errors
    /// `Worker` if the other is no child of the process that forked the first.
    pub(super) fn move_to(&mut self, pid: libc::pid_t) -> Result<()> {
        if self.process.is_child() {
            fail!(Worker, "a worker that was not forked handed over to another process")
        }
        zygote::adopt(self.process.pid, pid)?;
        self.process = Process::foreign(pid)?;
        Ok(())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        if !self.is_ours() {
            return;
        }
        self.process.kill();
        self.process.wait(Duration::from_secs(1));
        if !self.process.is_child() {
            zygote::forget(self.process.pid);
        }
    }
}
