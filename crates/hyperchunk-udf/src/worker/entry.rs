//! Entry point of the workers' programs. It replaces Rust's own start-up code, which installs a stack
//! overflow handler that the lock-down removes again, and reads the process's mappings for that.

use std::ffi::{CStr, OsStr, OsString, c_char, c_int};
use std::os::unix::ffi::OsStrExt as _;

/// Implements C's `main`: `program` gets the arguments after the first and returns the exit status.
///
/// # Safety
/// `arguments` points to `count` NUL-terminated strings that live as long as the process, as for `main`.
pub unsafe fn run(
    count: c_int,
    arguments: *const *const c_char,
    program: impl FnOnce(&[OsString]) -> c_int,
) -> c_int {
    let words: Vec<OsString> = (1..usize::try_from(count).unwrap_or(0))
        .map(|at| {
            // SAFETY: one of the strings, by the caller's promise.
            let word = unsafe { CStr::from_ptr(*arguments.add(at)) };
            OsStr::from_bytes(word.to_bytes()).to_owned()
        })
        .collect();
    // Writing to a closed pipe is an error and no signal, as in all Rust programs.
    // SAFETY: no handler is involved.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    let status = program(&words);
    // Flushes Rust's streams.
    std::process::exit(status)
}

/// Makes `$program`, which gets the arguments after the first and returns the exit status, the `main` of a
/// worker's program.
#[macro_export]
macro_rules! worker_main {
    ($program:path) => {
        // SAFETY: the C library calls it, and nothing else here has its name.
        #[cfg(not(test))]
        #[unsafe(no_mangle)]
        extern "C" fn main(
            count: ::std::ffi::c_int,
            arguments: *const *const ::std::ffi::c_char,
        ) -> ::std::ffi::c_int {
            // SAFETY: the arguments that the C library passes to `main`.
            unsafe { $crate::worker::entry::run(count, arguments, $program) }
        }
    };
}

/// Prints a message to standard error.
#[expect(clippy::print_stderr, reason = "what a program is asked by hand")]
pub fn report(text: &str) {
    eprintln!("{text}");
}
