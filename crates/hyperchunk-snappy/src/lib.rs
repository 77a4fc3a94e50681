//! The plugin that HDF5 loads for filter 32003, Snappy. All logic is in `hyperchunk-h5abi`.

use hyperchunk_h5abi::snappy;
use std::ffi::{c_int, c_void};

const H5PL_TYPE_FILTER: c_int = 0;

/// Tells HDF5 that this is a filter plugin.
#[unsafe(no_mangle)]
pub extern "C" fn H5PLget_plugin_type() -> c_int {
    H5PL_TYPE_FILTER
}

/// Hands HDF5 the filter.
#[unsafe(no_mangle)]
pub extern "C" fn H5PLget_plugin_info() -> *const c_void {
    snappy::class()
}
