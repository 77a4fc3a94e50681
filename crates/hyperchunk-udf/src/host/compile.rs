//! Compilation of C, C++ and CUDA sources: always in the sandbox, never in this process.

use super::function_output::OutputPipe;
use super::locate::Programs;
use super::process::{self, Exit};
use crate::backend::Backend;
use crate::cache::cache;
use crate::cpp::wasm::{Language, MODULE};
use crate::cpp::{
    NARROW_DEFINITION, OBJECT, SOURCE, TARGET, WITHOUT_PREFETCH, assemble, has_wide_vectors, may_be_wide,
    rejects_prefetch_options,
};
use crate::cuda;
use crate::datatype::Datatype;
use crate::error::{Error, ErrorKind, Result, fail};
use crate::escape::escape;
use crate::record::{CompiledForm, MAX_COMPILED_BYTES, Record};
use std::ffi::OsStr;
use std::io::Read as _;
use std::os::fd::AsFd as _;
use std::os::unix::fs::DirBuilderExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::time::Duration;

const COMPILE_TIMEOUT: Duration = Duration::from_secs(90);
/// Longer than [`COMPILE_TIMEOUT`], since at first use Zig also compiles the C and C++ libraries.
const WASM_COMPILE_TIMEOUT: Duration = Duration::from_secs(600);
/// Compilers to try. All are in folders of the system, since the sandbox lets a compiler read no others.
const COMPILERS: [&str; 3] = ["/usr/bin/g++", "/usr/bin/c++", "/usr/bin/clang++"];

/// Returns the compiled form of a record's function: the record's own if it is for this machine, otherwise
/// one that is compiled here, once a process.
///
/// # Errors
/// As [`compile_cpp`].
pub fn compiled_form(record: &Record, programs: &Programs) -> Result<Arc<Vec<u8>>> {
    static COMPILED: Mutex<Vec<(String, Arc<Vec<u8>>)>> = Mutex::new(Vec::new());
    const MAX_CACHED_FORMS: usize = 16;
    let is_ours =
        |c: &&CompiledForm| c.target == TARGET || matches!(record.backend, Backend::Wasm | Backend::Cuda);
    if let Some(stored) = record.compiled.as_ref().filter(is_ours) {
        return Ok(Arc::new(stored.object.clone()));
    }
    if record.backend != Backend::Cpp {
        fail!(Invalid, "the record has no compiled form")
    }
    let slots = || record.slots().map(|s| (s.name.as_str(), &s.datatype));
    let text = assemble(&record.source, slots());
    let known = cache(&COMPILED).and_then(|list| {
        list.iter().find(|(compiled, _)| *compiled == text).map(|(_, object)| Arc::clone(object))
    });
    if let Some(object) = known {
        return Ok(object);
    }
    let object = Arc::new(compile_cpp(&record.source, slots(), programs)?.object);
    if let Some(mut list) = cache(&COMPILED) {
        if list.len() >= MAX_CACHED_FORMS {
            list.remove(0);
        }
        list.push((text, Arc::clone(&object)));
    }
    Ok(object)
}

/// Compiles `source`, which uses the datasets `slots`, for this machine.
///
/// # Errors
/// `Failed` with the compiler's first messages; `NotFound` when there is no compiler, with how to get one.
pub fn compile_cpp<'a>(
    source: &str,
    slots: impl IntoIterator<Item = (&'a str, &'a Datatype)>,
    programs: &Programs,
) -> Result<CompiledForm> {
    if TARGET == "unsupported" {
        fail!(Unsupported, "C++ functions do not run on this kind of machine yet")
    }
    let Some(compiler) = COMPILERS.iter().map(Path::new).find(|p| p.exists()) else {
        fail!(NotFound, "C++ functions need a compiler: install g++ (for example: apt-get install g++)")
    };
    let folder = Scratch::new()?;
    let path = folder.0.join(SOURCE);
    let arguments = ["compile".as_ref(), compiler.as_os_str(), folder.0.as_os_str()];
    let compile = |text: &str| {
        std::fs::write(&path, text).map_err(|e| Error::io(path.display(), &e))?;
        let object = folder.0.join(OBJECT);
        match run_with_output(programs, &arguments, COMPILE_TIMEOUT, &object) {
            Err(error)
                if error.kind() == ErrorKind::Failed && rejects_prefetch_options(&error.to_string()) =>
            {
                let without_options: Vec<_> =
                    arguments.into_iter().chain([WITHOUT_PREFETCH.as_ref()]).collect();
                run_with_output(programs, &without_options, COMPILE_TIMEOUT, &object)
            }
            done => done,
        }
    };
    let text = assemble(source, slots);
    let narrow = || compile(&format!("{NARROW_DEFINITION}{text}"));
    let (object, _) = if may_be_wide(source) {
        match compile(&text) {
            Ok((_, said)) if has_wide_vectors(&said) => narrow()?,
            // The function may be one that cannot be inlined, because it is recursive or too large. Otherwise
            // this fails in the same way.
            Err(error) if matches!(error.kind(), ErrorKind::Failed | ErrorKind::Limit) => narrow()?,
            done => done?,
        }
    } else {
        narrow()?
    };
    Ok(CompiledForm { target: TARGET.into(), object })
}

/// Compiles `source`, which uses the datasets `slots`, to a WebAssembly module.
///
/// # Errors
/// `Failed` with the compiler's first messages; `NotFound` when there is no Zig, with how to get it;
/// `Unsupported` for datasets that cannot be passed to a module.
pub fn compile_wasm<'a>(
    language: Language,
    source: &str,
    slots: impl IntoIterator<Item = (&'a str, &'a Datatype)>,
    programs: &Programs,
) -> Result<CompiledForm> {
    let text = language.assemble(source, slots)?;
    let zig = programs.zig()?;
    let cache = zig_cache()?;
    let folder = Scratch::new()?;
    let path = folder.0.join(language.file());
    std::fs::write(&path, text).map_err(|e| Error::io(path.display(), &e))?;
    let words = [zig.as_os_str(), folder.0.as_os_str(), cache.as_os_str(), language.name().as_ref()];
    let arguments: Vec<_> = std::iter::once("compile".as_ref()).chain(words).collect();
    let object = run(programs, &arguments, WASM_COMPILE_TIMEOUT, &folder.0.join(MODULE))?;
    crate::wasm::check(&object)?;
    Ok(CompiledForm { target: language.target().into(), object })
}

/// Compiles the kernels of `program`, parsed from `source`, which uses the datasets `slots`, to PTX. Requires
/// no GPU.
///
/// # Errors
/// `Failed` with the compiler's first messages; `NotFound` when there is no NVRTC, with how to get it.
pub fn compile_cuda<'a>(
    program: &cuda::Program,
    source: &str,
    slots: impl IntoIterator<Item = (&'a str, &'a Datatype)>,
    programs: &Programs,
) -> Result<CompiledForm> {
    let nvrtc = programs.nvrtc()?;
    let folder = Scratch::new()?;
    let write = |name: &str, text: &str| {
        let path = folder.0.join(name);
        std::fs::write(&path, text).map_err(|e| Error::io(path.display(), &e))
    };
    write(cuda::SOURCE, &program.assemble(source, slots))?;
    let kernels: String = program.kernels().map(|kernel| format!("{kernel}\n")).collect();
    write(cuda::KERNELS, &kernels)?;
    let words = ["compile".as_ref(), "cuda".as_ref(), nvrtc.as_os_str(), folder.0.as_os_str()];
    let object = run(programs, &words, COMPILE_TIMEOUT, &folder.0.join(cuda::RESULT))?;
    let compiled = CompiledForm { target: cuda::target(&object)?, object };
    program.ptx(&compiled.object)?;
    Ok(compiled)
}

/// Returns Zig's cache of the C and C++ libraries compiled for WebAssembly. Filling it takes a minute.
fn zig_cache() -> Result<PathBuf> {
    let path = super::disk_cache::cache_folder()?.join("zig");
    let about = |e: &std::io::Error| Error::io(path.display(), e);
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&path).map_err(|e| about(&e))?;
    std::fs::canonicalize(&path).map_err(|e| about(&e))
}

/// Runs a compiler in the worker and returns the content of `result`.
fn run(programs: &Programs, arguments: &[&OsStr], limit: Duration, result: &Path) -> Result<Vec<u8>> {
    run_with_output(programs, arguments, limit, result).map(|(object, _)| object)
}

/// As [`run`], also returning the compiler's printed text.
fn run_with_output(
    programs: &Programs,
    arguments: &[&OsStr],
    limit: Duration,
    result: &Path,
) -> Result<(Vec<u8>, String)> {
    let (mut printed, pipe) = OutputPipe::new()?;
    let worker = programs.worker()?;
    let mut process = process::spawn(&worker, arguments, &[], pipe.as_fd(), pipe.as_fd(), &[])?;
    drop(pipe);
    let exit = process.wait(limit);
    let text = printed.take();
    match exit {
        Some(Exit::Status(0)) => {}
        None => {
            process.kill();
            process.wait(Duration::from_secs(1));
            fail!(Limit, "the compiler ran longer than {} s", limit.as_secs())
        }
        Some(exit) => return Err(Error::new(ErrorKind::Failed, explain(&text, exit))),
    }
    let mut object = Vec::new();
    std::fs::File::open(result)
        .and_then(|f| f.take(MAX_COMPILED_BYTES as u64 + 1).read_to_end(&mut object))
        .map_err(|e| Error::io(result.display(), &e))?;
    if object.len() > MAX_COMPILED_BYTES {
        fail!(Limit, "the compiled form is larger than {} MiB", MAX_COMPILED_BYTES >> 20)
    }
    Ok((object, text))
}

/// Returns the first error lines of a compiler's text, without its notes.
fn explain(text: &str, exit: Exit) -> String {
    let errors: Vec<_> =
        text.lines().filter(|l| l.contains("error") || l.contains("undefined")).take(5).collect();
    if errors.is_empty() {
        return format!("the compiler failed ({exit:?}): {}", escape(text, 400));
    }
    format!("it does not compile: {}", escape(&errors.join("; "), 800))
}

/// New private folder, removed when dropped.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self> {
        let base = std::env::temp_dir();
        let mut name = [0; 8];
        for _ in 0..8 {
            getrandom::fill(&mut name)
                .map_err(|e| Error::new(ErrorKind::Io, format!("cannot get random numbers: {e}")))?;
            let path = base.join(format!("hyperchunk-compile-{:016x}", u64::from_le_bytes(name)));
            match std::fs::DirBuilder::new().mode(0o700).create(&path) {
                Ok(()) => return Ok(Scratch(path)),
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(Error::io(path.display(), &e)),
            }
        }
        fail!(Io, "cannot create a new folder in {}", base.display())
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // On failure the folder is left to the system's own cleaning.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
