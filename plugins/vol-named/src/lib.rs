//! The plugin in the filters' folder by which HDF5 finds the connector `hyperchunk` if `HDF5_VOL_CONNECTOR`
//! names it.
//!
//! HDF5 asks every connector in its plugin folders about each file that it cannot open. Programs that did not
//! name our connector must not get it: for them this library is a filter that no file can name. If the
//! connector is named, it is loaded from its own folder.

use hyperchunk_door::{H5PL_TYPE_FILTER, H5PL_TYPE_VOL, function};
use std::env;
use std::ffi::{c_char, c_int, c_uint, c_void};
use std::os::unix::ffi::OsStrExt as _;
use std::ptr;

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

/// Returns the function to which `H5PLget_plugin_info` jumps: the connector library's, which returns
/// its class, or one of this library.
extern "C" fn connector() -> *const c_void {
    if !is_named() {
        return no_filter as *const c_void;
    }
    let found = function(c"H5PLget_plugin_info", "the package, or unset HDF5_VOL_CONNECTOR");
    if found.is_null() { nothing as *const c_void } else { found }
}
