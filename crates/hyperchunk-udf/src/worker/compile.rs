//! Compiling C++ in a sandbox: the compiler, too, sees a stranger's text.
//!
//! The worker locks itself down so that it can read the system's folders, write one empty folder and start programs,
//! and then becomes the compiler.

use super::lockdown;
use crate::cpp::{ARGUMENTS, OBJECT, SOURCE};
use crate::error::{Error, ErrorKind, Result, fail};
use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;

/// Locks down and becomes the compiler `arguments[0]` in the folder `arguments[1]`. Returns only when that fails.
pub fn run(arguments: &[OsString]) -> Error {
    match start(arguments) {
        Ok(never) => never,
        Err(error) => error,
    }
}

fn start(arguments: &[OsString]) -> Result<Error> {
    let [compiler, scratch] = arguments else { fail!(Worker, "usage: compile COMPILER FOLDER") };
    let scratch = Path::new(scratch);
    std::env::set_current_dir(scratch).map_err(|e| Error::io(scratch.display(), &e))?;
    let c = |bytes: &[u8]| CString::new(bytes).map_err(|_| Error::new(ErrorKind::Worker, "a NUL in a path"));
    let mut words = vec![c(compiler.as_bytes())?];
    for word in ARGUMENTS.iter().copied().chain(["-o", OBJECT, SOURCE]) {
        words.push(c(word.as_bytes())?);
    }
    let environment = [
        c(b"PATH=/usr/local/bin:/usr/bin:/bin")?,
        c(b"LC_ALL=C.UTF-8")?,
        c(&[b"TMPDIR=", scratch.as_os_str().as_bytes()].concat())?,
    ];
    let pointers =
        |list: &[CString]| list.iter().map(|w| w.as_ptr()).chain([std::ptr::null()]).collect::<Vec<_>>();
    let (argv, envp) = (pointers(&words), pointers(&environment));
    lockdown::restrict(&lockdown::Policy {
        runtime: lockdown::Runtime::Compiler,
        memory: 4 << 30,
        cpu_seconds: 60,
        file_size: 64 << 20,
        grants: crate::profile::Grants::default(),
        scratch: Some(scratch.to_owned()),
        keep_descriptors: vec![0, 1, 2],
    })?;
    // SAFETY: both lists end with a null pointer and point at live NUL-terminated strings.
    unsafe {
        libc::execve(words.first().map_or(std::ptr::null(), |w| w.as_ptr()), argv.as_ptr(), envp.as_ptr())
    };
    Ok(Error::last_os("starting the compiler"))
}
