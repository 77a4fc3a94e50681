//! The location of an object, as HDF5 passes it to connectors.

use super::super::api::{Name, P};
use super::super::failure::Outcome;
use super::super::slot::Slot;
use crate::symbols::Hid;
use std::ffi::{CStr, c_int};

/// `H5VL_OBJECT_BY_SELF` and so on.
const BY_SELF: c_int = 0;
const BY_NAME: c_int = 1;
const BY_NUMBER: c_int = 2;

/// The link access property list.
const LINK_ACCESS: &CStr = c"H5P_LST_LINK_ACCESS_ID_g";

/// `H5VL_loc_params_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Location {
    /// The kind of object from which the location starts.
    pub(super) kind: c_int,
    by: c_int,
    name: Name,
    /// For a name: the access list. For a number: the index and the direction.
    more: i64,
    number: u64,
    list: Hid,
}

impl Location {
    /// Returns the location of the object itself.
    pub(super) fn itself(kind: c_int) -> Self {
        Location { kind, by: BY_SELF, name: std::ptr::null(), more: 0, number: 0, list: 0 }
    }

    /// Returns the location of a path relative to the object. The path must outlive the location.
    pub(super) fn named(slot: &Slot, kind: c_int, name: &CStr) -> Outcome<Self> {
        // The access list follows the name directly.
        let more = slot.default_list(LINK_ACCESS)?;
        Ok(Location { name: name.as_ptr(), by: BY_NAME, more, ..Location::itself(kind) })
    }

    /// Returns the location of an attribute of the object, by its number in name order.
    pub(super) fn numbered(slot: &Slot, kind: c_int, number: u64) -> Outcome<Self> {
        let list = slot.default_list(LINK_ACCESS)?;
        Ok(Location { name: c".".as_ptr(), by: BY_NUMBER, number, list, ..Location::itself(kind) })
    }

    /// Returns the kind of object from which a location that HDF5 passes starts.
    ///
    /// # Safety
    /// `at` is a location.
    pub(super) unsafe fn kind(at: P) -> c_int {
        // SAFETY: by this function's contract.
        unsafe { *at.cast::<c_int>() }
    }

    /// Returns the name of a location that HDF5 passes; null if it has none.
    ///
    /// # Safety
    /// `at` is a location.
    pub(super) unsafe fn name(at: P) -> Name {
        // SAFETY: by this function's contract.
        let location = unsafe { &*at.cast::<Location>() };
        if location.by == BY_NAME { location.name } else { std::ptr::null() }
    }

    /// Returns the location as the argument of a call.
    pub(super) fn pointer(&mut self) -> P {
        (&raw mut *self).cast()
    }
}
