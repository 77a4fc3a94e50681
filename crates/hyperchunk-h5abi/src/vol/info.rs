//! The connector's information: the connector below, and the options.

use super::api::{Name, P};
use super::failure::{Outcome, done, refuse};
use super::options::Options;
use super::slot::{Slot, enter};
use crate::symbols::{Herr, Hid};
use std::cmp::Ordering;
use std::ffi::{CStr, CString, c_char, c_int};
use std::ptr::null_mut;

/// The connector's information in an access list.
pub(super) struct Info {
    /// The connector below.
    pub(super) vol: Hid,
    /// The information of the connector below, or null.
    pub(super) under: P,
    pub(super) options: Options,
}

/// A copy of the information in an access list, freed on drop.
pub(super) struct InfoCopy {
    slot: &'static Slot,
    info: *mut Info,
}

impl std::ops::Deref for InfoCopy {
    type Target = Info;
    fn deref(&self) -> &Info {
        // SAFETY: made by copy() below and freed only in drop.
        unsafe { &*self.info }
    }
}

impl Drop for InfoCopy {
    fn drop(&mut self) {
        // SAFETY: the pointer is not shared.
        unsafe { release(self.slot, self.info) };
    }
}

impl Info {
    /// Returns a copy of the information in an access list; `None` if the connector was named without
    /// information.
    pub(super) fn from_access_list(slot: &'static Slot, fapl: Hid) -> Option<InfoCopy> {
        let mut info = null_mut();
        // SAFETY: a live place; the library copies our information into it with copy() below.
        let status = unsafe { (slot.api.plist_vol_info)(fapl, &raw mut info) };
        (status >= 0 && !info.is_null()).then(|| InfoCopy { slot, info: info.cast() })
    }
}

/// Frees the information, including the information of the connector below.
///
/// # Safety
/// `info` comes from `Box::into_raw`, and is not used any more.
unsafe fn release(slot: &Slot, info: *mut Info) {
    // SAFETY: by this function's contract.
    let info = unsafe { Box::from_raw(info) };
    if !info.under.is_null() {
        // SAFETY: the lower connector's own information.
        slot.keep_errors(|| unsafe { (slot.api.info_free)(info.vol, info.under) });
    }
}

pub(super) unsafe extern "C" fn copy<const L: usize>(info: P) -> P {
    enter::<L, _>(null_mut(), |slot| {
        // SAFETY: HDF5 passes an information of ours.
        let info = unsafe { &*info.cast::<Info>() };
        let mut under = null_mut();
        if !info.under.is_null() {
            // SAFETY: the lower connector's own information, and a live place.
            done(unsafe { (slot.api.info_copy)(info.vol, &raw mut under, info.under) })?;
        }
        Ok(Box::into_raw(Box::new(Info { vol: info.vol, under, options: info.options.clone() })).cast())
    })
}

pub(super) unsafe extern "C" fn compare<const L: usize>(result: *mut c_int, first: P, second: P) -> Herr {
    enter::<L, _>(-1, |slot| {
        // SAFETY: HDF5 passes two informations of ours.
        let (first, second) = unsafe { (&*first.cast::<Info>(), &*second.cast::<Info>()) };
        let mut order = 0;
        // SAFETY: a live place and two connectors.
        done(unsafe { (slot.api.connector_compare)(&raw mut order, first.vol, second.vol) })?;
        if order == 0 {
            // SAFETY: a live place, and the informations of one connector, or null.
            done(unsafe { (slot.api.info_compare)(&raw mut order, first.vol, first.under, second.under) })?;
        }
        if order == 0 {
            order = match first.options.to_string().cmp(&second.options.to_string()) {
                Ordering::Less => -1,
                Ordering::Equal => 0,
                Ordering::Greater => 1,
            };
        }
        // SAFETY: HDF5 passes a live place.
        unsafe { *result = order };
        Ok(0)
    })
}

pub(super) unsafe extern "C" fn free<const L: usize>(info: P) -> Herr {
    enter::<L, _>(-1, |slot| {
        // SAFETY: HDF5 gives up an information of ours.
        unsafe { release(slot, info.cast()) };
        Ok(0)
    })
}

/// Formats the information. HDF5 frees the text, so it must come from HDF5's allocator.
pub(super) unsafe extern "C" fn to_text<const L: usize>(info: P, text: *mut *mut c_char) -> Herr {
    enter::<L, _>(-1, |slot| {
        // SAFETY: HDF5 passes an information of ours.
        let info = unsafe { &*info.cast::<Info>() };
        let Ok(made) = CString::new(info.options.to_string()) else {
            refuse!("the connector information contains a NUL byte")
        };
        let bytes = made.as_bytes_with_nul();
        // SAFETY: no pointers; the result is checked.
        let copy = unsafe { (slot.library.f.allocate)(bytes.len(), false) }.cast::<c_char>();
        if copy.is_null() {
            refuse!("no memory for the information string")
        }
        // SAFETY: as many bytes, freshly allocated; HDF5 passes a live place.
        unsafe {
            std::ptr::copy_nonoverlapping(made.as_ptr(), copy, bytes.len());
            *text = copy;
        }
        Ok(0)
    })
}

pub(super) unsafe extern "C" fn from_text<const L: usize>(text: Name, info: *mut P) -> Herr {
    enter::<L, _>(-1, |slot| {
        let text = match text {
            none if none.is_null() => "",
            // SAFETY: HDF5 passes a NUL-terminated string.
            some => match unsafe { CStr::from_ptr(some) }.to_str() {
                Ok(text) => text,
                Err(_) => refuse!("the connector information is not UTF-8"),
            },
        };
        let made = parse(slot, text)?;
        // SAFETY: HDF5 passes a live place.
        unsafe { *info = Box::into_raw(Box::new(made)).cast() };
        Ok(0)
    })
}

fn parse(slot: &Slot, text: &str) -> Outcome<Info> {
    let options = Options::parse(text)?;
    let vol = slot.connector(options.under_vol)?;
    let mut under = null_mut();
    if !options.under_info.is_empty() {
        let Ok(inner) = CString::new(options.under_info.as_str()) else {
            refuse!("under_info contains a NUL byte")
        };
        // SAFETY: a NUL-terminated string and a live place.
        done(unsafe { (slot.api.info_from_text)(inner.as_ptr(), vol, &raw mut under) })?;
    }
    Ok(Info { vol, under, options })
}
