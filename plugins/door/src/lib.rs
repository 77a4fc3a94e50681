//! Loader of the library that contains the code of all plugins.
//!
//! HDF5 asks each shared object for one plugin. So that a package contains the code only once, the plugins
//! are small libraries, which take their class from the library of the connector.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_void};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::{fs, mem, ptr};

/// Plugin type of a filter. HDF5 treats a type that it does not know as an error.
pub const H5PL_TYPE_FILTER: c_int = 0;
/// Plugin type of a VOL connector.
pub const H5PL_TYPE_VOL: c_int = 1;

/// The connector's library, relative to the folder of a plugin: in packages, and in cargo's build folder.
const PLACES: [&str; 2] = ["../connector/libhyperchunk_vol.so", "libhyperchunk_vol.so"];

/// Returns the class of a filter, by a call of the exported function `name` of the connector's library; null,
/// after a message on standard error, if the library cannot be loaded.
#[must_use]
pub fn filter_class(name: &CStr) -> *const c_void {
    let class = function(name, "the package");
    if class.is_null() {
        return ptr::null();
    }
    // SAFETY: our library exports only functions without arguments that return a pointer.
    unsafe { mem::transmute::<*const c_void, extern "C" fn() -> *const c_void>(class)() }
}

/// Returns an exported function of the connector's library; null if the library cannot be loaded, after a
/// message that ends with `reinstall REMEDY`, or with the memory limit to be raised.
#[must_use]
#[expect(clippy::print_stderr, reason = "HDF5 says only that a plugin has no class")]
pub fn function(name: &CStr, remedy: &str) -> *const c_void {
    load(name).unwrap_or_else(|reason| {
        let remedy = address_space_remedy(&reason).unwrap_or_else(|| format!("reinstall {remedy}"));
        eprintln!("hyperchunk: cannot load the HDF5 plugins: {reason}; {remedy}");
        ptr::null()
    })
}

/// Returns the remedy if the dynamic linker failed because this process's address space is limited.
fn address_space_remedy(reason: &str) -> Option<String> {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: a live place for the limits.
    let known = unsafe { libc::getrlimit(libc::RLIMIT_AS, &raw mut limit) } == 0;
    let limited = known && limit.rlim_cur != libc::RLIM_INFINITY;
    let by_memory = ["map segment", "allocate memory", "zero-fill"].iter().any(|text| reason.contains(text));
    (limited && by_memory).then(|| {
        format!(
            "the address space of this process is limited to {} KiB; raise it with `ulimit -v`",
            limit.rlim_cur >> 10
        )
    })
}

/// Loads the connector's library permanently: HDF5 keeps pointers into it.
fn load(name: &CStr) -> Result<*const c_void, String> {
    let own = own_path().ok_or("the plugin's own path is unknown")?;
    let own = fs::canonicalize(&own).map_err(|error| format!("{}: {error}", own.display()))?;
    let folder = own.parent().unwrap_or(Path::new("/"));
    let mut places = PLACES.iter().map(|place| folder.join(place));
    let found = places.find(|place| place.is_file());
    let found = found.ok_or_else(|| format!("expected {} in {}", PLACES[0], folder.display()))?;
    let path = CString::new(found.into_os_string().into_vec()).map_err(|error| error.to_string())?;
    // SAFETY: the path of a library whose constructors are ours; it is never closed.
    let library = unsafe { libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if library.is_null() {
        return Err(last_error());
    }
    // SAFETY: a library that is loaded.
    let function = unsafe { libc::dlsym(library, name.as_ptr()) };
    if function.is_null() { Err(last_error()) } else { Ok(function.cast_const()) }
}

/// Returns the path of the plugin that contains this code.
fn own_path() -> Option<PathBuf> {
    // SAFETY: all zeros is a value of this type: null pointers.
    let mut info: libc::Dl_info = unsafe { mem::zeroed() };
    let own: fn() -> Option<PathBuf> = own_path;
    // SAFETY: an address of this library, and a live place.
    let found = unsafe { libc::dladdr(own as *const c_void, &raw mut info) };
    text(info.dli_fname).filter(|_| found != 0).map(|path| PathBuf::from(OsStr::from_bytes(path.to_bytes())))
}

/// Returns the error of the last call of the dynamic linker.
fn last_error() -> String {
    // SAFETY: it takes nothing, and its text lives until the next such call of this thread.
    let message = unsafe { libc::dlerror() };
    text(message).map_or_else(String::new, |text| text.to_string_lossy().into_owned())
}

fn text<'a>(pointer: *const c_char) -> Option<&'a CStr> {
    // SAFETY: the dynamic linker's texts end with a null byte; they are read at once.
    (!pointer.is_null()).then(|| unsafe { CStr::from_ptr(pointer) })
}
