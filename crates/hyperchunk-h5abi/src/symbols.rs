//! Declarations of the libhdf5 functions that we call, with the signatures that HDF5 1.10 to 2.2 share.

use std::ffi::{c_char, c_int, c_uint, c_void};

/// An HDF5 identifier.
pub(crate) type Hid = i64;
/// HDF5's status: negative is failure.
pub(crate) type Herr = c_int;
/// `H5E_walk2_t`.
pub(crate) type ErrorVisitor = unsafe extern "C" fn(c_uint, *const ErrorRow, *mut c_void) -> Herr;

/// `H5MM_allocate_t`.
pub(crate) type Allocate = unsafe extern "C" fn(usize, *mut c_void) -> *mut c_void;
/// `H5MM_free_t`.
pub(crate) type Release = unsafe extern "C" fn(*mut c_void, *mut c_void);

/// `H5E_error2_t`.
#[repr(C)]
pub(crate) struct ErrorRow {
    class: Hid,
    major: Hid,
    minor: Hid,
    line: c_uint,
    function: *const c_char,
    file: *const c_char,
    pub(crate) description: *const c_char,
}

/// Filter flag: the filter may be skipped if it fails (`H5Z_FLAG_OPTIONAL`).
pub(crate) const OPTIONAL: c_uint = 1;

/// Declares a table of functions. Each entry has the field's name, its symbols in libhdf5 from the oldest on,
/// and its signature.
macro_rules! functions {
    ($(#[$about:meta])* $table:ident: $($name:ident = $($symbol:literal)|+ : fn($($argument:ty),*) -> $result:ty;)*) => {
        $(#[$about])*
        #[allow(missing_debug_implementations, reason = "a table of function pointers")]
        pub(crate) struct $table {
            $(pub(crate) $name: unsafe extern "C" fn($($argument),*) -> $result,)*
        }

        impl $table {
            /// Looks up every function. Missing ones are replaced by `absent`; if that is null, the name of
            /// the first missing one is the error.
            pub(crate) fn load(
                mut look_up: impl FnMut(&'static str) -> *mut std::ffi::c_void,
                absent: *mut std::ffi::c_void,
            ) -> Result<Self, &'static str> {
                Ok($table { $($name: {
                    let mut found: *mut std::ffi::c_void = std::ptr::null_mut();
                    let mut first = None;
                    $(
                        first = first.or(Some($symbol));
                        if found.is_null() {
                            found = look_up(concat!($symbol, "\0"));
                        }
                    )+
                    if found.is_null() {
                        found = absent;
                    }
                    if found.is_null() {
                        return Err(first.unwrap_or(stringify!($name)));
                    }
                    // SAFETY: the symbol is libhdf5's, whose headers give it this type in every version from 1.10 on.
                    unsafe { std::mem::transmute::<*mut std::ffi::c_void, unsafe extern "C" fn($($argument),*) -> $result>(found) }
                },)* })
            }
        }
    };
}

pub(crate) use functions;

functions! {
    /// The functions of one libhdf5.
    Functions:
    open = "H5open": fn() -> Herr;
    version = "H5get_libversion": fn(*mut c_uint, *mut c_uint, *mut c_uint) -> Herr;
    allocate = "H5allocate_memory": fn(usize, bool) -> *mut c_void;
    free = "H5free_memory": fn(*mut c_void) -> Herr;
    attr_close = "H5Aclose": fn(Hid) -> Herr;
    attr_exists = "H5Aexists": fn(Hid, *const c_char) -> c_int;
    attr_open = "H5Aopen": fn(Hid, *const c_char, Hid) -> Hid;
    attr_read = "H5Aread": fn(Hid, Hid, *mut c_void) -> Herr;
    attr_space = "H5Aget_space": fn(Hid) -> Hid;
    attr_type = "H5Aget_type": fn(Hid) -> Hid;
    dataset_chunk_size = "H5Dget_chunk_storage_size": fn(Hid, *const u64, *mut u64) -> Herr;
    dataset_read_chunk = "H5Dread_chunk1" | "H5Dread_chunk": fn(Hid, Hid, *const u64, *mut u32, *mut c_void) -> Herr;
    dataset_access_plist = "H5Dget_access_plist": fn(Hid) -> Hid;
    dataset_close = "H5Dclose": fn(Hid) -> Herr;
    dataset_create_plist = "H5Dget_create_plist": fn(Hid) -> Hid;
    dataset_offset = "H5Dget_offset": fn(Hid) -> u64;
    dataset_open = "H5Dopen2": fn(Hid, *const c_char, Hid) -> Hid;
    dataset_read = "H5Dread": fn(Hid, Hid, Hid, Hid, Hid, *mut c_void) -> Herr;
    dataset_space = "H5Dget_space": fn(Hid) -> Hid;
    dataset_type = "H5Dget_type": fn(Hid) -> Hid;
    error_clear = "H5Eclear2": fn(Hid) -> Herr;
    error_create_message = "H5Ecreate_msg": fn(Hid, c_int, *const c_char) -> Hid;
    error_create_stack = "H5Ecreate_stack": fn() -> Hid;
    error_set_current = "H5Eset_current_stack": fn(Hid) -> Herr;
    error_get_auto = "H5Eget_auto2": fn(Hid, *mut *mut c_void, *mut *mut c_void) -> Herr;
    error_register_class = "H5Eregister_class": fn(*const c_char, *const c_char, *const c_char) -> Hid;
    error_set_auto = "H5Eset_auto2": fn(Hid, *mut c_void, *mut c_void) -> Herr;
    error_walk = "H5Ewalk2": fn(Hid, c_int, ErrorVisitor, *mut c_void) -> Herr;
    file_access_plist = "H5Fget_access_plist": fn(Hid) -> Hid;
    file_close = "H5Fclose": fn(Hid) -> Herr;
    file_handle = "H5Fget_vfd_handle": fn(Hid, Hid, *mut *mut c_void) -> Herr;
    file_intent = "H5Fget_intent": fn(Hid, *mut c_uint) -> Herr;
    file_name = "H5Fget_name": fn(Hid, *mut c_char, usize) -> isize;
    file_object_count = "H5Fget_obj_count": fn(Hid, c_uint) -> isize;
    file_object_ids = "H5Fget_obj_ids": fn(Hid, c_uint, usize, *mut Hid) -> isize;
    file_open = "H5Fopen": fn(*const c_char, c_uint, Hid) -> Hid;
    id_file = "H5Iget_file_id": fn(Hid) -> Hid;
    id_name = "H5Iget_name": fn(Hid, *mut c_char, usize) -> isize;
    object_close = "H5Oclose": fn(Hid) -> Herr;
    object_open = "H5Oopen": fn(Hid, *const c_char, Hid) -> Hid;
    plist_close = "H5Pclose": fn(Hid) -> Herr;
    plist_create = "H5Pcreate": fn(Hid) -> Hid;
    plist_driver = "H5Pget_driver": fn(Hid) -> Hid;
    plist_external_count = "H5Pget_external_count": fn(Hid) -> c_int;
    plist_filter = "H5Pget_filter2": fn(Hid, c_uint, *mut c_uint, *mut usize, *mut c_uint, usize, *mut c_char, *mut c_uint) -> c_int;
    plist_modify_filter = "H5Pmodify_filter": fn(Hid, c_int, c_uint, usize, *const c_uint) -> Herr;
    plist_filters = "H5Pget_nfilters": fn(Hid) -> c_int;
    plist_get_chunk = "H5Pget_chunk": fn(Hid, c_int, *mut u64) -> c_int;
    plist_layout = "H5Pget_layout": fn(Hid) -> c_int;
    plist_set_chunk = "H5Pset_chunk": fn(Hid, c_int, *const u64) -> Herr;
    plist_set_close_degree = "H5Pset_fclose_degree": fn(Hid, c_int) -> Herr;
    plist_set_filter = "H5Pset_filter": fn(Hid, c_int, c_uint, usize, *const c_uint) -> Herr;
    plist_set_sec2 = "H5Pset_fapl_sec2": fn(Hid) -> Herr;
    plist_set_vlen = "H5Pset_vlen_mem_manager": fn(Hid, Allocate, *mut c_void, Release, *mut c_void) -> Herr;
    plist_virtual_count = "H5Pget_virtual_count": fn(Hid, *mut usize) -> Herr;
    plist_virtual_dataset = "H5Pget_virtual_dsetname": fn(Hid, usize, *mut c_char, usize) -> isize;
    plist_virtual_file = "H5Pget_virtual_filename": fn(Hid, usize, *mut c_char, usize) -> isize;
    plist_virtual_prefix = "H5Pget_virtual_prefix": fn(Hid, *mut c_char, usize) -> isize;
    space_class = "H5Sget_simple_extent_type": fn(Hid) -> c_int;
    space_close = "H5Sclose": fn(Hid) -> Herr;
    space_create = "H5Screate": fn(c_int) -> Hid;
    space_create_simple = "H5Screate_simple": fn(c_int, *const u64, *const u64) -> Hid;
    space_dims = "H5Sget_simple_extent_dims": fn(Hid, *mut u64, *mut u64) -> c_int;
    space_rank = "H5Sget_simple_extent_ndims": fn(Hid) -> c_int;
    space_select = "H5Sselect_hyperslab": fn(Hid, c_int, *const u64, *const u64, *const u64, *const u64) -> Herr;
    type_array_create = "H5Tarray_create2": fn(Hid, c_uint, *const u64) -> Hid;
    type_array_dims = "H5Tget_array_dims2": fn(Hid, *mut u64) -> c_int;
    type_array_rank = "H5Tget_array_ndims": fn(Hid) -> c_int;
    type_class = "H5Tget_class": fn(Hid) -> c_int;
    type_close = "H5Tclose": fn(Hid) -> Herr;
    type_copy = "H5Tcopy": fn(Hid) -> Hid;
    type_create = "H5Tcreate": fn(c_int, usize) -> Hid;
    type_equal = "H5Tequal": fn(Hid, Hid) -> c_int;
    type_insert = "H5Tinsert": fn(Hid, *const c_char, usize, Hid) -> Herr;
    type_is_variable_string = "H5Tis_variable_str": fn(Hid) -> c_int;
    type_member_name = "H5Tget_member_name": fn(Hid, c_uint) -> *mut c_char;
    type_member_type = "H5Tget_member_type": fn(Hid, c_uint) -> Hid;
    type_members = "H5Tget_nmembers": fn(Hid) -> c_int;
    type_order = "H5Tget_order": fn(Hid) -> c_int;
    type_precision = "H5Tget_precision": fn(Hid) -> usize;
    type_set_order = "H5Tset_order": fn(Hid, c_int) -> Herr;
    type_native = "H5Tget_native_type": fn(Hid, c_int) -> Hid;
    type_set_cset = "H5Tset_cset": fn(Hid, c_int) -> Herr;
    type_set_size = "H5Tset_size": fn(Hid, usize) -> Herr;
    type_set_strpad = "H5Tset_strpad": fn(Hid, c_int) -> Herr;
    type_sign = "H5Tget_sign": fn(Hid) -> c_int;
    type_size = "H5Tget_size": fn(Hid) -> usize;
    type_super = "H5Tget_super": fn(Hid) -> Hid;
    vlen_reclaim = "H5Treclaim" | "H5Dvlen_reclaim": fn(Hid, Hid, Hid, *mut c_void) -> Herr;
}

/// `H5E_WALK_UPWARD`: starts at the innermost error.
pub(crate) const WALK_UPWARD: c_int = 0;
/// `H5F_OBJ_ALL` as the file: every open file.
pub(crate) const ALL_FILES: Hid = 0x1f;
/// `H5F_OBJ_DATASET`.
pub(crate) const OBJ_DATASET: c_uint = 2;
/// `H5F_OBJ_FILE`.
pub(crate) const OBJ_FILE: c_uint = 1;
/// `H5F_ACC_RDWR`; opening for reading only is 0.
pub(crate) const ACC_RDWR: c_uint = 1;
/// `H5F_ACC_SWMR_READ`.
pub(crate) const ACC_SWMR_READ: c_uint = 0x40;
/// `H5D_COMPACT`, `H5D_CONTIGUOUS`, `H5D_CHUNKED`.
pub(crate) const LAYOUT_CONTIGUOUS: c_int = 1;
/// See [`LAYOUT_CONTIGUOUS`].
pub(crate) const LAYOUT_CHUNKED: c_int = 2;
/// `H5T_INTEGER`.
pub(crate) const CLASS_INTEGER: c_int = 0;
/// `H5T_FLOAT`.
pub(crate) const CLASS_FLOAT: c_int = 1;
/// `H5T_STRING`.
pub(crate) const CLASS_STRING: c_int = 3;
/// `H5T_COMPOUND`.
pub(crate) const CLASS_COMPOUND: c_int = 6;
/// `H5T_ENUM`.
pub(crate) const CLASS_ENUM: c_int = 8;
/// `H5T_ARRAY`.
pub(crate) const CLASS_ARRAY: c_int = 10;
/// `H5T_STR_NULLTERM`.
pub(crate) const NULL_TERMINATED: c_int = 0;
/// `H5T_STR_NULLPAD`.
pub(crate) const NULL_PADDED: c_int = 1;
/// `H5T_CSET_ASCII`.
pub(crate) const ASCII: c_int = 0;
/// `H5T_CSET_UTF8`.
pub(crate) const UTF8: c_int = 1;
/// `H5T_DIR_ASCEND`.
pub(crate) const DIR_ASCEND: c_int = 1;
/// `HADDR_UNDEF`.
pub(crate) const ADDRESS_UNDEFINED: u64 = u64::MAX;
/// `H5S_NULL`.
pub(crate) const SPACE_NULL: c_int = 2;
/// `H5S_SCALAR`.
pub(crate) const SPACE_SCALAR: c_int = 0;
