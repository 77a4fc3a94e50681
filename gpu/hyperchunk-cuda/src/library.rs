//! Loading a shared library, and tables of its functions.

use crate::{Error, ErrorKind, Result};
use std::ffi::{CStr, CString, OsString, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// A loaded library, which is never unloaded.
#[derive(Debug)]
pub(crate) struct Library {
    handle: *mut c_void,
    path: PathBuf,
}

// SAFETY: the handle is only given to dlsym, which any thread may call.
unsafe impl Send for Library {}
// SAFETY: as above.
unsafe impl Sync for Library {}

impl Library {
    /// Loads the first of `candidates` that exists. A bare name is searched by the loader.
    ///
    /// # Errors
    /// The loader's reason for each of them.
    pub(crate) fn open(candidates: &[PathBuf]) -> Result<Library, Vec<String>> {
        let mut reasons = Vec::new();
        for path in candidates {
            let Ok(name) = CString::new(path.as_os_str().as_bytes()) else {
                reasons.push(format!("{}: the name contains a NUL byte", path.display()));
                continue;
            };
            // SAFETY: the name is live. The library was chosen by the user, so its constructors may run.
            let handle = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
            if !handle.is_null() {
                return Ok(Library { handle, path: resolved(path, handle) });
            }
            // SAFETY: dlerror gives null or a NUL-terminated string, valid until this thread's next call of
            // the loader.
            let reason = unsafe {
                let text = libc::dlerror();
                if text.is_null() {
                    path.display().to_string()
                } else {
                    CStr::from_ptr(text).to_string_lossy().into_owned()
                }
            };
            reasons.push(reason);
        }
        Err(reasons)
    }

    /// Like [`Library::open`], for a library described by `what`; the error has the reasons, followed by
    /// `advice`.
    ///
    /// # Errors
    /// Missing.
    pub(crate) fn require(candidates: &[PathBuf], what: &str, advice: &str) -> Result<Library> {
        Library::open(candidates).map_err(|reasons| {
            let message = format!("{what} is missing ({}){advice}", reasons.join("; "));
            Error::new(ErrorKind::Missing, message)
        })
    }

    /// Returns the error for an unsuitable library: `what` is wrong with it, and `needed` is required.
    pub(crate) fn unsuitable(&self, what: impl std::fmt::Display, needed: &str) -> Error {
        let message = format!("{} {what}: {needed} is needed", self.path.display());
        Error::new(ErrorKind::Unsupported, message)
    }

    /// Loads the library's table of functions.
    ///
    /// # Errors
    /// Unsupported if one is missing.
    pub(crate) fn table<T>(
        &self,
        load: impl FnOnce(&Library) -> Result<T, &'static str>,
        needed: &str,
    ) -> Result<T> {
        load(self).map_err(|missing| self.unsuitable(format_args!("lacks {missing}"), needed))
    }

    /// Returns the address of a function; null if there is none of that name.
    pub(crate) fn symbol(&self, name: &CStr) -> *mut c_void {
        // SAFETY: the handle of a library that stays loaded; the name is live.
        unsafe { libc::dlsym(self.handle, name.as_ptr()) }
    }

    /// Returns the library's path, or the name by which it was found.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }
}

/// Returns the path of a loaded library.
fn resolved(name: &Path, handle: *mut c_void) -> PathBuf {
    let mut map: *const LinkMap = std::ptr::null();
    // SAFETY: RTLD_DI_LINKMAP (2) writes one pointer.
    let failed = unsafe { dlinfo(handle, 2, (&raw mut map).cast()) } != 0;
    if failed || map.is_null() {
        return name.to_owned();
    }
    // SAFETY: the loader's map of a loaded library, whose first fields have this shape.
    let file = unsafe { (*map).name };
    if file.is_null() {
        return name.to_owned();
    }
    // SAFETY: a NUL-terminated string of the loader, which lives as long as the library.
    let bytes = unsafe { CStr::from_ptr(file) }.to_bytes();
    if bytes.is_empty() { name.to_owned() } else { PathBuf::from(std::ffi::OsStr::from_bytes(bytes)) }
}

/// The start of the loader's `struct link_map`.
#[repr(C)]
struct LinkMap {
    _address: usize,
    name: *const std::ffi::c_char,
}

unsafe extern "C" {
    fn dlinfo(handle: *mut c_void, request: std::ffi::c_int, info: *mut c_void) -> std::ffi::c_int;
}

/// Returns the absolute path in an environment variable. Ignored in set-uid programs.
pub(crate) fn path_from_environment(variable: &str) -> Result<Option<PathBuf>> {
    // SAFETY: getauxval reads a value that the kernel gave this process.
    if unsafe { libc::getauxval(libc::AT_SECURE) } != 0 {
        return Ok(None);
    }
    let value: OsString = match std::env::var_os(variable) {
        Some(value) if !value.is_empty() => value,
        _ => return Ok(None),
    };
    let path = PathBuf::from(value);
    if !path.is_absolute() {
        let message = format!("{variable} must be an absolute path; it is {}", path.display());
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    Ok(Some(path))
}

/// Declares a table of functions of one library: the field's name, its symbol, its signature. Functions in
/// braces are optional.
macro_rules! functions {
    ($(#[$about:meta])* $table:ident:
        $($name:ident = $symbol:literal : fn($($argument:ty),* $(,)?) $(-> $result:ty)?;)*
        $({$($extra:ident = $extra_symbol:literal : fn($($extra_argument:ty),* $(,)?) $(-> $extra_result:ty)?;)*})?
    ) => {
        $(#[$about])*
        #[allow(missing_debug_implementations, reason = "a table of function pointers")]
        pub(crate) struct $table {
            $(pub(crate) $name: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            $($(pub(crate) $extra: Option<unsafe extern "C" fn($($extra_argument),*) $(-> $extra_result)?>,)*)?
        }

        impl $table {
            /// Looks up every function; the error is the name of the first missing one.
            pub(crate) fn load(library: &$crate::library::Library) -> Result<Self, &'static str> {
                $(let $name = library.symbol($symbol);
                if $name.is_null() {
                    return Err($symbol.to_str().unwrap_or_default());
                })*
                $($(let $extra = library.symbol($extra_symbol);)*)?
                // SAFETY: the symbols are functions of a library whose headers give them these types.
                Ok(unsafe { $table {
                    $($name: std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C" fn($($argument),*) $(-> $result)?>($name),)*
                    $($($extra: if $extra.is_null() { None } else {
                        Some(std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C" fn($($extra_argument),*) $(-> $extra_result)?>($extra))
                    },)*)?
                } })
            }
        }
    };
}
pub(crate) use functions;
