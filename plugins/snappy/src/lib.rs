//! The plugin that HDF5 loads for filter 32003, Snappy. The filter itself is in the connector's library.

use hyperchunk_door::{H5PL_TYPE_FILTER, filter_class};
use std::ffi::{c_int, c_void};

/// Returns the type of the plugin: a filter.
#[unsafe(no_mangle)]
pub extern "C" fn H5PLget_plugin_type() -> c_int {
    H5PL_TYPE_FILTER
}

/// Returns the filter's class to HDF5.
#[unsafe(no_mangle)]
pub extern "C" fn H5PLget_plugin_info() -> *const c_void {
    filter_class(c"hyperchunk_snappy_class")
}
