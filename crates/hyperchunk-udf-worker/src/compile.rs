//! Compilation of C, C++ and CUDA in a sandbox, since the compiler processes untrusted text.
//!
//! The worker locks itself down so that it can read the system's folders, write one empty folder and start
//! programs, and then becomes the compiler. Zig, which compiles to WebAssembly and is used only by authors,
//! also reads its own folder and writes its cache. NVRTC, for CUDA, is a library: the worker loads and calls
//! it after the lock-down.

mod cuda;

use crate::fail;
use hyperchunk_sandbox as sandbox;
use hyperchunk_udf::cpp::wasm::Language;
use hyperchunk_udf::cpp::{ARGUMENTS, OBJECT, PREFETCH_OPTIONS, SOURCE, WITHOUT_PREFETCH};
use hyperchunk_udf::error::{Error, ErrorKind, Result};
use std::ffi::{CString, OsString};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Locks down and executes the compiler `arguments[0]` in the folder `arguments[1]`; for WebAssembly, the
/// cache and the language follow. `cuda` with NVRTC and the folder compiles in this process. Otherwise
/// returns only on failure.
///
/// # Errors
/// The reason why nothing was compiled.
pub(crate) fn run(arguments: &[OsString]) -> Result<()> {
    if let [word, nvrtc, scratch] = arguments
        && word == "cuda"
    {
        return cuda::run(Path::new(nvrtc), Path::new(scratch));
    }
    Err(start(arguments)?)
}

fn start(arguments: &[OsString]) -> Result<Error> {
    let plan = Plan::from_arguments(arguments)?;
    std::env::set_current_dir(&plan.scratch).map_err(|e| Error::io(plan.scratch.display(), &e))?;
    let words = plan.words.iter().map(|w| c(w.as_bytes())).collect::<Result<Vec<_>>>()?;
    let environment = plan.environment.iter().map(|w| c(w)).collect::<Result<Vec<_>>>()?;
    let pointers =
        |list: &[CString]| list.iter().map(|w| w.as_ptr()).chain([std::ptr::null()]).collect::<Vec<_>>();
    let (argv, envp) = (pointers(&words), pointers(&environment));
    sandbox::restrict(&sandbox::Policy {
        runtime: sandbox::Runtime::Compiler,
        memory: plan.memory,
        cpu_seconds: plan.cpu_seconds,
        file_size: 64 << 20,
        fine_clocks: true,
        rights: sandbox::Rights::default(),
        scratch: Some(plan.scratch),
        tools: plan.tools,
        cache: plan.cache,
        keep_descriptors: vec![0, 1, 2],
    })?;
    // SAFETY: both lists end with a null pointer and point at live NUL-terminated strings.
    unsafe {
        libc::execve(words.first().map_or(std::ptr::null(), |w| w.as_ptr()), argv.as_ptr(), envp.as_ptr())
    };
    Ok(Error::last_os("cannot start the compiler"))
}

fn c(bytes: &[u8]) -> Result<CString> {
    CString::new(bytes).map_err(|_| Error::new(ErrorKind::Worker, "a path contains a NUL"))
}

/// Command line, environment and limits of a compiler.
struct Plan {
    words: Vec<OsString>,
    environment: Vec<Vec<u8>>,
    scratch: PathBuf,
    tools: Option<PathBuf>,
    cache: Option<PathBuf>,
    memory: u64,
    cpu_seconds: u64,
}

impl Plan {
    fn from_arguments(arguments: &[OsString]) -> Result<Self> {
        match arguments {
            [compiler, scratch] => Ok(Plan::native(compiler, Path::new(scratch), PREFETCH_OPTIONS)),
            [compiler, scratch, word] if word == WITHOUT_PREFETCH => {
                Ok(Plan::native(compiler, Path::new(scratch), &[]))
            }
            [zig, scratch, cache, language] => {
                let Some(language) = language.to_str().and_then(Language::named) else {
                    fail!(Worker, "compile: unknown language")
                };
                Ok(Plan::wasm(zig, Path::new(scratch), Path::new(cache), language))
            }
            _ => fail!(
                Worker,
                "usage: compile COMPILER FOLDER [plainly] | compile ZIG FOLDER CACHE LANGUAGE | compile cuda NVRTC FOLDER"
            ),
        }
    }

    fn native(compiler: &OsString, scratch: &Path, more: &[&str]) -> Self {
        let arguments = ARGUMENTS.iter().chain(more).copied().chain(["-o", OBJECT, SOURCE]);
        Plan {
            words: std::iter::once(compiler.clone()).chain(arguments.map(OsString::from)).collect(),
            environment: environment(scratch),
            scratch: scratch.to_owned(),
            tools: None,
            cache: None,
            memory: 4 << 30,
            cpu_seconds: 60,
        }
    }

    fn wasm(zig: &OsString, scratch: &Path, cache: &Path, language: Language) -> Self {
        let mut environment = environment(scratch);
        environment.push([b"ZIG_GLOBAL_CACHE_DIR=", cache.as_os_str().as_bytes()].concat());
        environment.push([b"ZIG_LOCAL_CACHE_DIR=", scratch.as_os_str().as_bytes()].concat());
        Plan {
            words: std::iter::once(zig.clone()).chain(language.arguments().map(OsString::from)).collect(),
            environment,
            scratch: scratch.to_owned(),
            // Its libraries are in the same folder.
            tools: Path::new(zig).parent().map(Path::to_owned),
            cache: Some(cache.to_owned()),
            memory: 16 << 30,
            cpu_seconds: 300,
        }
    }
}

fn environment(scratch: &Path) -> Vec<Vec<u8>> {
    let temporary = [b"TMPDIR=", scratch.as_os_str().as_bytes()].concat();
    vec![b"PATH=/usr/local/bin:/usr/bin:/bin".to_vec(), b"LC_ALL=C.UTF-8".to_vec(), temporary]
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Checks the arguments passed to the compiler.
    fn check(words: &[&str], has: bool) {
        let words: Vec<OsString> = words.iter().map(OsString::from).collect();
        let plan = Plan::from_arguments(&words).unwrap();
        let told = |argument: &str| plan.words.iter().any(|word| word == argument);
        assert_eq!(plan.words[0], words[0]);
        assert!(ARGUMENTS.iter().all(|argument| told(argument)));
        assert!(PREFETCH_OPTIONS.iter().all(|argument| told(argument) == has));
    }

    #[test]
    fn a_compiler_that_rejects_an_option_is_not_told_it() {
        check(&["/usr/bin/g++", "/tmp/x"], true);
        check(&["/usr/bin/g++", "/tmp/x", WITHOUT_PREFETCH], false);
        let words = ["/usr/bin/g++", "/tmp/x", "else"].map(OsString::from);
        assert_eq!(Plan::from_arguments(&words).err().unwrap().kind(), ErrorKind::Worker);
    }
}
