//! The plugin in the filters' folder by which HDF5 finds the connector `hyperchunk` if `HDF5_VOL_CONNECTOR`
//! names it.
//!
//! HDF5 asks every connector in its plugin folders about each file that it cannot open. Programs that did not
//! name our connector must not get it: for them this library is a filter that no file can name. If the
//! connector is named, it is loaded from its own folder.

use std::ffi::{CStr, CString, OsStr, c_char, c_int, c_uint, c_void};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::{env, fs, mem, ptr};

// HDF5 treats any other plugin type as an error.
const H5PL_TYPE_FILTER: c_int = 0;
const H5PL_TYPE_VOL: c_int = 1;

/// The connector's library, relative to the folder of this one: in packages, and in cargo's build folder.
const PLACES: [&str; 2] = ["../connector/libhyperchunk_vol.so", "libhyperchunk_vol.so"];

/// `H5Z_class2_t`.
#[repr(C)]
struct FilterClass {
    version: c_int,
    id: c_int,
    has_encoder: c_uint,
    has_decoder: c_uint,
    name: *const c_char,
    functions: [*const c_void; 3],
}

// SAFETY: its pointers are null, or point to a constant string.
unsafe impl Sync for FilterClass {}

/// A filter whose number no file can have.
static NO_FILTER: FilterClass = FilterClass {
    version: 1,
    id: -1,
    has_encoder: 0,
    has_decoder: 0,
    name: c"hyperchunk: the VOL connector, which was not asked for".as_ptr(),
    functions: [ptr::null(); 3],
};

/// Returns whether the environment names the connector.
fn is_named() -> bool {
    let named = env::var_os("HDF5_VOL_CONNECTOR").unwrap_or_default();
    named.as_bytes().split(u8::is_ascii_whitespace).find(|word| !word.is_empty()) == Some(b"hyperchunk")
}

/// Returns the plugin type of a VOL connector, if the environment names it.
#[unsafe(no_mangle)]
pub extern "C" fn H5PLget_plugin_type() -> c_int {
    if is_named() { H5PL_TYPE_VOL } else { H5PL_TYPE_FILTER }
}

/// Returns the connector's class to HDF5. It jumps to the connector's own function, which identifies the
/// calling libhdf5 by the return address.
///
/// # Safety
/// Called as C calls a function without arguments that returns a pointer.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn H5PLget_plugin_info() {
    std::arch::naked_asm!("sub rsp, 8", "call {find}", "add rsp, 8", "jmp rax", find = sym connector)
}

/// Returns the connector's class to HDF5. It jumps to the connector's own function, which identifies the
/// calling libhdf5 by the return address.
///
/// # Safety
/// Called as C calls a function without arguments that returns a pointer.
#[cfg(target_arch = "aarch64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn H5PLget_plugin_info() {
    std::arch::naked_asm!(
        "stp x29, x30, [sp, -16]!",
        "bl {find}",
        "ldp x29, x30, [sp], 16",
        "br x0",
        find = sym connector
    )
}

/// Returns null, for a plugin that cannot be loaded.
extern "C" fn nothing() -> *const c_void {
    ptr::null()
}

/// Returns the filter's class, when HDF5 searches for a filter.
extern "C" fn no_filter() -> *const c_void {
    (&raw const NO_FILTER).cast()
}

/// Returns the function that answers HDF5: the one in the connector's library, which returns its class, or
/// one of this library.
#[expect(clippy::print_stderr, reason = "HDF5 says only that a plugin has no class")]
extern "C" fn connector() -> *const c_void {
    if !is_named() {
        return no_filter as *const c_void;
    }
    match load() {
        Ok(function) => function,
        Err(reason) => {
            eprintln!(
                "hyperchunk: cannot load the VOL connector: {reason}; reinstall the package, or unset HDF5_VOL_CONNECTOR"
            );
            nothing as *const c_void
        }
    }
}

/// Loads the connector's library permanently: HDF5 keeps pointers into it.
fn load() -> Result<*const c_void, String> {
    let own = own_path().ok_or("this library does not know where it lies")?;
    let own = fs::canonicalize(&own).map_err(|error| format!("{}: {error}", own.display()))?;
    let folder = own.parent().unwrap_or(Path::new("/"));
    let mut places = PLACES.iter().map(|place| folder.join(place));
    let found = places.find(|place| place.is_file());
    let found = found.ok_or_else(|| format!("expected {} in {}", PLACES[0], folder.display()))?;
    let name = CString::new(found.into_os_string().into_vec()).map_err(|error| error.to_string())?;
    // SAFETY: the name of a library whose constructors are ours; it is never closed.
    let library = unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL) };
    if library.is_null() {
        return Err(last_error());
    }
    // SAFETY: a library that is loaded.
    let function = unsafe { libc::dlsym(library, c"H5PLget_plugin_info".as_ptr()) };
    if function.is_null() { Err(last_error()) } else { Ok(function.cast_const()) }
}

/// Returns the path from which this library was loaded.
fn own_path() -> Option<PathBuf> {
    // SAFETY: all zeros is a value of this type: null pointers.
    let mut info: libc::Dl_info = unsafe { mem::zeroed() };
    let own = nothing as *const c_void;
    // SAFETY: an address of this library, and a live place.
    let found = unsafe { libc::dladdr(own, &raw mut info) };
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
