//! Where the programs of workers begin. Not with Rust's own start: what that sets up is a handler for stacks that overflow, which the
//! lock-down takes away again, and for it reads the list of the process's mappings.

use std::ffi::{CStr, OsStr, OsString, c_char, c_int};
use std::os::unix::ffi::OsStrExt as _;

/// What C's `main` does: `program` gets the arguments after the first and returns the exit status.
///
/// # Safety
/// `arguments` points to `count` NUL-terminated strings that live as long as the process, as those of `main` do.
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
    // A reader that is gone is an error of writing to it, as in all of Rust's programs.
    // SAFETY: no handler is involved.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
    let status = program(&words);
    // With what Rust's streams still hold.
    std::process::exit(status)
}

/// Makes `$program`, which gets the arguments after the first and returns the exit status, the `main` of a worker's program.
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
            // SAFETY: what the C library gives its `main`.
            unsafe { $crate::worker::entry::run(count, arguments, $program) }
        }
    };
}

/// A program's own message.
#[expect(clippy::print_stderr, reason = "what a program is asked by hand")]
pub fn report(text: &str) {
    eprintln!("{text}");
}
