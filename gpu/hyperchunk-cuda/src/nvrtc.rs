//! NVRTC, NVIDIA's compiler from CUDA C++ to PTX, found at run time. It needs neither a GPU nor its driver.

use crate::error::fail;
use crate::library::{Library, functions, path_from_environment};
use crate::{Error, ErrorKind, Result};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};

type Program = *mut c_void;

functions! {
    /// The functions that we call, as in CUDA 11.2 to 13.
    Functions:
    version = c"nvrtcVersion": fn(*mut c_int, *mut c_int) -> c_int;
    error_string = c"nvrtcGetErrorString": fn(c_int) -> *const c_char;
    architecture_count = c"nvrtcGetNumSupportedArchs": fn(*mut c_int) -> c_int;
    architectures = c"nvrtcGetSupportedArchs": fn(*mut c_int) -> c_int;
    create = c"nvrtcCreateProgram": fn(
        *mut Program, *const c_char, *const c_char, c_int, *const *const c_char, *const *const c_char,
    ) -> c_int;
    destroy = c"nvrtcDestroyProgram": fn(*mut Program) -> c_int;
    add_name = c"nvrtcAddNameExpression": fn(Program, *const c_char) -> c_int;
    compile = c"nvrtcCompileProgram": fn(Program, c_int, *const *const c_char) -> c_int;
    log_size = c"nvrtcGetProgramLogSize": fn(Program, *mut usize) -> c_int;
    log = c"nvrtcGetProgramLog": fn(Program, *mut c_char) -> c_int;
    ptx_size = c"nvrtcGetPTXSize": fn(Program, *mut usize) -> c_int;
    ptx = c"nvrtcGetPTX": fn(Program, *mut c_char) -> c_int;
    lowered_name = c"nvrtcGetLoweredName": fn(Program, *const c_char, *mut *const c_char) -> c_int;
}

/// The environment variable with the library's absolute path.
const VARIABLE: &str = "HYPERCHUNK_NVRTC";
/// The names under which the loader may find it, newest first.
const NAMES: [&str; 4] = ["libnvrtc.so.13", "libnvrtc.so.12", "libnvrtc.so.11.2", "libnvrtc.so"];
const COMPILATION: c_int = 6;
/// Maximum size of PTX or a log, in bytes.
const MAX_TEXT_BYTES: usize = 256 << 20;

/// A compiled program.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ptx {
    /// The PTX.
    pub text: String,
    /// Each name expression with its symbol.
    pub lowered: Vec<(String, String)>,
    /// The compiler's warnings.
    pub log: String,
}

/// The compiler.
#[allow(missing_debug_implementations, reason = "a table of function pointers")]
pub struct Nvrtc {
    f: Functions,
    library: Library,
    version: (u32, u32),
    architectures: Vec<u32>,
}

impl Nvrtc {
    /// Loads the library: the file `path`, or the library in that folder; else `HYPERCHUNK_NVRTC` (an
    /// absolute path; ignored in set-uid programs), else by the system's loader.
    ///
    /// # Errors
    /// Missing, with what to install; Unsupported if it is too old.
    pub fn load(path: Option<&Path>) -> Result<Nvrtc> {
        let candidates = match path {
            Some(folder) if folder.is_dir() => NAMES.iter().map(|name| folder.join(name)).collect(),
            Some(file) => vec![file.to_owned()],
            None => match path_from_environment(VARIABLE)? {
                Some(file) => vec![file],
                None => NAMES.iter().map(PathBuf::from).collect(),
            },
        };
        let advice = ". Get it with `pip install 'hyperchunk[cuda]'` or with CUDA's toolkit";
        let library = Library::require(&candidates, "NVRTC, the compiler for CUDA,", advice)?;
        let f = library.table(Functions::load, "NVRTC of CUDA 11.2 or newer")?;
        let mut nvrtc = Nvrtc { f, library, version: (0, 0), architectures: Vec::new() };
        let (mut major, mut minor) = (0, 0);
        // SAFETY: writes two integers.
        nvrtc.check("nvrtcVersion", unsafe { (nvrtc.f.version)(&raw mut major, &raw mut minor) })?;
        let number = |value: c_int| u32::try_from(value).unwrap_or(0);
        nvrtc.version = (number(major), number(minor));
        let mut count = 0;
        // SAFETY: writes one integer.
        nvrtc.check("nvrtcGetNumSupportedArchs", unsafe { (nvrtc.f.architecture_count)(&raw mut count) })?;
        let mut architectures = vec![0; usize::try_from(count).unwrap_or(0).min(1000)];
        if architectures.len() != number(count) as usize {
            fail!(Failed, "NVRTC reports {count} supported architectures")
        }
        // SAFETY: writes as many integers as it said.
        nvrtc.check("nvrtcGetSupportedArchs", unsafe {
            (nvrtc.f.architectures)(architectures.as_mut_ptr())
        })?;
        nvrtc.architectures = architectures.into_iter().map(number).collect();
        nvrtc.architectures.sort_unstable();
        Ok(nvrtc)
    }

    /// Returns the library's version, as (12, 9).
    #[must_use]
    pub fn version(&self) -> (u32, u32) {
        self.version
    }

    /// Returns the path of the library.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.library.path()
    }

    /// Returns the compute capabilities for which it compiles, ascending: 70 is `compute_70`.
    #[must_use]
    pub fn architectures(&self) -> &[u32] {
        &self.architectures
    }

    /// Compiles a program. `name` is its name in messages; a name expression is a kernel in C++, such as
    /// `scale<float>`, whose symbol is returned.
    ///
    /// # Errors
    /// Failed with the compiler's log; Invalid for unsupported options or name expressions.
    pub fn compile(
        &self,
        source: &str,
        name: &str,
        options: &[&str],
        name_expressions: &[&str],
    ) -> Result<Ptx> {
        let c = |text: &str, what: &str| {
            CString::new(text)
                .map_err(|_| Error::new(ErrorKind::Invalid, format!("{what} contains a NUL byte")))
        };
        let (source, name) = (c(source, "a source")?, c(name, "a source's name")?);
        let options = options.iter().map(|option| c(option, "an option")).collect::<Result<Vec<_>>>()?;
        let names = name_expressions.iter().map(|name| c(name, "a name")).collect::<Result<Vec<_>>>()?;
        let mut program = std::ptr::null_mut();
        let none = std::ptr::null();
        // SAFETY: source and name are live strings; there are no headers; writes one handle.
        let code =
            unsafe { (self.f.create)(&raw mut program, source.as_ptr(), name.as_ptr(), 0, none, none) };
        self.check("nvrtcCreateProgram", code)?;
        let program = ProgramGuard { nvrtc: self, program };
        for name in &names {
            // SAFETY: the program is live and not compiled yet; the name is a live string.
            let code = unsafe { (self.f.add_name)(program.program, name.as_ptr()) };
            self.check("nvrtcAddNameExpression", code)?;
        }
        let pointers: Vec<*const c_char> = options.iter().map(|option| option.as_ptr()).collect();
        let Ok(count) = c_int::try_from(pointers.len()) else { fail!(Invalid, "too many options") };
        // SAFETY: the program is live; `count` options, each a live string.
        let code = unsafe { (self.f.compile)(program.program, count, pointers.as_ptr()) };
        let log = program.text("log", self.f.log_size, self.f.log)?;
        if code != 0 {
            let error = self.error("nvrtcCompileProgram", code);
            let text = match (code, log.trim()) {
                (_, "") => error.message().to_owned(),
                (COMPILATION, log) => log.to_owned(),
                (_, log) => format!("{}\n{log}", error.message()),
            };
            return Err(Error::new(error.kind(), text).with_code(code));
        }
        let text = program.text("PTX", self.f.ptx_size, self.f.ptx)?;
        let lowered = names
            .iter()
            .zip(name_expressions)
            .map(|(name, expression)| Ok(((*expression).to_owned(), program.lowered(name)?)));
        Ok(Ptx { text, lowered: lowered.collect::<Result<_>>()?, log })
    }

    fn check(&self, call: &str, code: c_int) -> Result<()> {
        if code == 0 { Ok(()) } else { Err(self.error(call, code)) }
    }

    #[cold]
    fn error(&self, call: &str, code: c_int) -> Error {
        // SAFETY: gives null or a string that is never freed.
        let text = unsafe {
            let text = (self.f.error_string)(code);
            if text.is_null() { "unknown error".into() } else { CStr::from_ptr(text).to_string_lossy() }
        };
        let kind = match code {
            1 => ErrorKind::Limit,
            3..=5 | 10 => ErrorKind::Invalid,
            _ => ErrorKind::Failed,
        };
        Error::new(kind, format!("{call}: {text}")).with_code(code)
    }
}

/// A program, destroyed on drop.
struct ProgramGuard<'a> {
    nvrtc: &'a Nvrtc,
    program: Program,
}

impl ProgramGuard<'_> {
    /// Returns a text of the program, querying its size first, which includes a NUL.
    fn text(
        &self,
        what: &str,
        size: unsafe extern "C" fn(Program, *mut usize) -> c_int,
        get: unsafe extern "C" fn(Program, *mut c_char) -> c_int,
    ) -> Result<String> {
        let mut bytes = 0;
        // SAFETY: the program is live; writes one size.
        self.nvrtc.check(what, unsafe { size(self.program, &raw mut bytes) })?;
        if bytes > MAX_TEXT_BYTES {
            fail!(Limit, "the {what} has {bytes} bytes; the limit is {MAX_TEXT_BYTES}")
        }
        let mut text = vec![0_u8; bytes.max(1)];
        // SAFETY: the program is live; writes as many bytes as it said.
        self.nvrtc.check(what, unsafe { get(self.program, text.as_mut_ptr().cast()) })?;
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(text.len());
        text.truncate(end);
        match String::from_utf8(text) {
            Ok(text) => Ok(text),
            Err(error) => Ok(String::from_utf8_lossy(error.as_bytes()).into_owned()),
        }
    }

    /// Returns the symbol of a name expression.
    fn lowered(&self, name: &CStr) -> Result<String> {
        let mut symbol = std::ptr::null();
        // SAFETY: the program is compiled and live; writes a pointer to a string that lives as long as it.
        let code = unsafe { (self.nvrtc.f.lowered_name)(self.program, name.as_ptr(), &raw mut symbol) };
        self.nvrtc.check("nvrtcGetLoweredName", code)?;
        if symbol.is_null() {
            fail!(Failed, "NVRTC has no symbol for {}", name.to_string_lossy())
        }
        // SAFETY: as above.
        Ok(unsafe { CStr::from_ptr(symbol) }.to_string_lossy().into_owned())
    }
}

impl Drop for ProgramGuard<'_> {
    fn drop(&mut self) {
        // SAFETY: the program is live and destroyed only here.
        let _ = unsafe { (self.nvrtc.f.destroy)(&raw mut self.program) };
    }
}
