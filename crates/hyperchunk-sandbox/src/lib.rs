//! Sandbox of a process that is about to run untrusted code: the process gives up rights before it reads that
//! code.
//!
//! The language's own sandbox is never the boundary; this one is. [`restrict`] applies independent layers,
//! because each one stops attacks that the others do not:
//!
//! | Layer | Attacks that only this layer stops |
//! |---|---|
//! | no_new_privs | set-user-id programs (and without it, an unprivileged process gets neither Landlock nor seccomp) |
//! | rlimits | memory and CPU bombs, core dumps with input data in them |
//! | Landlock | access to files, where a runtime must keep `open` (loading a shared object, a compiler) |
//! | seccomp | everything that is not a file: processes, signals, sockets, `stat`, new kernel interfaces |
//! | namespaces | none: a second barrier before the network and System V IPC; best effort, since many containers refuse them |
//!
//! The first four are mandatory: [`restrict`] **fails closed** and the worker must then exit without touching
//! the function. The calling process cannot undo any of these restrictions.
//!
//! A denied system call is never run. Most denied calls end the process through a handler that records the
//! call's number ([`StatusPage`], only a hint for the error message). Calls that no legitimate function makes
//! (`calls::NEVER`), and 32-bit and x32 calls, make the kernel kill the process at once. Some calls that
//! libraries make and can do without only return an error (a few of a compiler's: success, without effect).
//!
//! This crate knows no signature, no profile and no file format: its caller describes the rights of the
//! process by a [`Policy`]. Only [`Layers`], [`UNCONTAINED`] and [`Error`] exist on systems other than Linux
//! on x86-64 and aarch64.

mod error;
mod layers;
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod linux;

pub use error::{Error, Result};
pub use layers::{Layers, UNCONTAINED};
#[cfg(all(target_os = "linux", any(target_arch = "x86_64", target_arch = "aarch64")))]
pub use linux::*;
