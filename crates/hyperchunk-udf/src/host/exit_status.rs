//! Error messages for workers that ended.

use super::process::Exit;
use crate::error::{Error, ErrorKind};
use crate::escape::escape;
use crate::profile::Profile;
use hyperchunk_sandbox::{StopReason, syscall_name};

/// Returns the error for a worker that ended with `exit`, and that the sandbox stopped at `stop` if it did.
/// `printed` is the function's printed text.
pub(super) fn explain_exit(
    exit: Exit,
    stop: Option<(StopReason, i32)>,
    profile: &Profile,
    printed: &str,
) -> Error {
    let name = &profile.name;
    let (kind, text) = match (stop, exit) {
        (Some((StopReason::DeniedCall, number)), _) => (
            ErrorKind::Violation,
            format!(
                "stopped: tried system call {} (not allowed by profile {name}{})",
                call(number),
                grant_hint(number, name)
            ),
        ),
        (Some((StopReason::ExecutableMemory, number)), _) => {
            let call = call(number);
            let text =
                format!("stopped: tried to make memory executable ({call}, not allowed by profile {name})");
            (ErrorKind::Violation, text)
        }
        (Some((StopReason::FineClock, _)), _) => {
            let text = format!(
                "stopped: read a fine clock (not allowed by profile {name}); for values, `lib.clock()` is the clock"
            );
            (ErrorKind::Violation, text)
        }
        (None, Exit::Signal(libc::SIGSYS)) => (
            ErrorKind::Violation,
            format!("stopped: tried a system call that is not allowed (profile {name})"),
        ),
        (None, Exit::Signal(libc::SIGXCPU)) => {
            let seconds = profile.limits.cpu_s;
            let text =
                format!("stopped: over the limit of {seconds} s of processor time (profile {name}, `cpu_s`)");
            (ErrorKind::Limit, text)
        }
        (None, Exit::Signal(libc::SIGXFSZ)) => {
            let text = format!(
                "stopped: over the limit of {} MiB for a file that it writes (profile {name}, `file`)",
                profile.limits.file >> 20
            );
            (ErrorKind::Limit, text)
        }
        (Some((StopReason::Fault, _)), _) | (None, Exit::Signal(libc::SIGSEGV)) => {
            (ErrorKind::Failed, "crashed: it accessed memory that is not its own (SIGSEGV)".into())
        }
        (None, Exit::Signal(libc::SIGBUS)) => {
            (ErrorKind::Failed, "crashed (SIGBUS): was the file cut short while it was read?".into())
        }
        (None, Exit::Signal(libc::SIGKILL)) => {
            (
                ErrorKind::Limit,
                "was killed from outside, or over the processor time of a worker's whole life; is the machine out of memory?".into(),
            )
        }
        (None, Exit::Signal(n)) => (ErrorKind::Failed, format!("crashed (signal {n})")),
        (None, Exit::Status(n)) => (ErrorKind::Failed, format!("ended without a result (exit status {n})")),
        (None, Exit::Unknown) => (ErrorKind::Failed, "ended without a result".into()),
    };
    let said =
        if printed.is_empty() { String::new() } else { format!(" [it printed: {}]", escape(printed, 300)) };
    Error::new(kind, text + &said)
}

/// Returns a hint on the grant that allows a call; empty if no grant does, and for the profile of unknown
/// signers.
fn grant_hint(number: i32, profile: &str) -> &'static str {
    if profile == "untrusted" {
        return "";
    }
    match call(number).as_str() {
        "socket" | "connect" => {
            "; for the network, `lib.connect` and `connect` below [grant] in its profile.toml"
        }
        "openat" | "open" | "stat" | "newfstatat" => "; for files, `read` below [grant] in its profile.toml",
        "clone" | "clone3" => "; for threads, `syscalls = [\"threads\"]` below [grant] in its profile.toml",
        _ => "",
    }
}

fn call(number: i32) -> String {
    syscall_name(i64::from(number)).map_or_else(|| number.to_string(), str::to_owned)
}
