//! The plugin that HDF5 loads for the connector `hyperchunk`, and the library from which the filter plugins
//! take their classes. All logic is in `hyperchunk-h5abi`.

use hyperchunk_h5abi::vol::plugin_info;
use hyperchunk_h5abi::{filter, snappy};
use std::ffi::{c_int, c_void};

const H5PL_TYPE_VOL: c_int = 1;

/// Returns the type of the plugin: a VOL connector.
#[unsafe(no_mangle)]
pub extern "C" fn H5PLget_plugin_type() -> c_int {
    H5PL_TYPE_VOL
}

/// Returns the connector's class to HDF5. The return address identifies the calling libhdf5.
///
/// # Safety
/// Called as C calls a function without arguments that returns a pointer.
#[cfg(target_arch = "x86_64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn H5PLget_plugin_info() {
    std::arch::naked_asm!("mov rdi, [rsp]", "jmp {body}", body = sym plugin_info)
}

/// Returns the connector's class to HDF5. The return address identifies the calling libhdf5.
///
/// # Safety
/// Called as C calls a function without arguments that returns a pointer.
#[cfg(target_arch = "aarch64")]
#[unsafe(no_mangle)]
#[unsafe(naked)]
pub unsafe extern "C" fn H5PLget_plugin_info() {
    std::arch::naked_asm!("mov x0, x30", "b {body}", body = sym plugin_info)
}

/// Returns the class of the live dataset filter, for its plugin.
#[unsafe(no_mangle)]
pub extern "C" fn hyperchunk_filter_class() -> *const c_void {
    filter::keep_loaded();
    (&raw const filter::CLASS).cast()
}

/// Returns the class of the Snappy filter, for its plugin.
#[unsafe(no_mangle)]
pub extern "C" fn hyperchunk_snappy_class() -> *const c_void {
    snappy::class()
}
