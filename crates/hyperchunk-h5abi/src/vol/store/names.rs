//! Checks of names and link values that a store cannot hold: they fail when created, and not when the file is
//! closed.

use super::super::api::{Name, P};
use super::super::failure::{Outcome, refuse};
use super::OpenStore;
use super::location::Location;
use std::ffi::{CStr, c_int};
use std::sync::Arc;

/// Maximum length in bytes of a link name in the file of a commit.
const MAX_NAME_BYTES: usize = 65_535 - 1024;
/// Maximum length in bytes of the value of a soft, external or user-defined link: HDF5 stores its length in
/// 16 bits.
const MAX_VALUE_BYTES: usize = 65_535;

/// `H5VL_LINK_CREATE_SOFT`, `H5VL_LINK_CREATE_UD`.
const SOFT: c_int = 1;
const USER: c_int = 2;

/// `H5VL_link_create_args_t` for a soft link.
#[repr(C)]
struct SoftLinkArguments {
    operation: i64,
    target: Name,
}

/// `H5VL_link_create_args_t` for a user-defined link.
#[repr(C)]
struct UserLinkArguments {
    operation: i64,
    class: i64,
    value: P,
    size: usize,
}

fn is_written(file: Option<&Arc<OpenStore>>) -> bool {
    file.is_some_and(|file| file.store.writer.is_some())
}

/// Fails if a component in the path of a new object or link of a store is too long.
///
/// # Safety
/// `name` is null or a NUL-terminated string.
pub(in crate::vol) unsafe fn check_name(file: Option<&Arc<OpenStore>>, name: Name) -> Outcome<()> {
    if name.is_null() || !is_written(file) {
        return Ok(());
    }
    // SAFETY: by this function's contract.
    let name = unsafe { CStr::from_ptr(name) }.to_bytes();
    match name.split(|byte| *byte == b'/').map(<[u8]>::len).max() {
        Some(length) if length > MAX_NAME_BYTES => refuse!(
            "cannot create a link: expected a name of at most {MAX_NAME_BYTES} bytes in a sharded store, got {length}"
        ),
        _ => Ok(()),
    }
}

/// Fails if a component in the location of a new link is too long.
///
/// # Safety
/// `at` is a callback's location.
pub(in crate::vol) unsafe fn check_location(file: Option<&Arc<OpenStore>>, at: P) -> Outcome<()> {
    // SAFETY: by this function's contract.
    unsafe { check_name(file, Location::name(at)) }
}

/// Fails if the value of a new link of a store is too long.
///
/// # Safety
/// The arguments belong to the creation of a link.
pub(in crate::vol) unsafe fn check_value(file: Option<&Arc<OpenStore>>, args: P) -> Outcome<()> {
    if !is_written(file) {
        return Ok(());
    }
    // SAFETY: by this function's contract; each kind of link has its own arguments.
    let length = unsafe {
        match *args.cast::<c_int>() {
            SOFT => CStr::from_ptr((*args.cast::<SoftLinkArguments>()).target).count_bytes(),
            USER => (*args.cast::<UserLinkArguments>()).size,
            _ => 0,
        }
    };
    if length > MAX_VALUE_BYTES {
        refuse!("cannot create a link: expected a value of at most {MAX_VALUE_BYTES} bytes, got {length}")
    }
    Ok(())
}
