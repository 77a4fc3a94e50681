//! Reading and writing datasets.

use super::api::P;
use super::object::Object;
use super::slot::{NO_REQUEST, Slot, enter};
use crate::symbols::{Herr, Hid};

type Transfer =
    unsafe extern "C" fn(usize, *const P, Hid, *const Hid, *const Hid, *const Hid, Hid, *const P, P) -> Herr;

/// As many datasets as nearly every call has: they need no allocation.
const FEW: usize = 8;

/// Hands a transfer of `count` datasets on.
///
/// # Safety
/// The arguments are those of a callback: arrays of `count`, objects of ours.
unsafe fn transfer(
    slot: &Slot,
    call: Transfer,
    count: usize,
    datasets: *const P,
    types: *const Hid,
    spaces: *const Hid,
    file_spaces: *const Hid,
    dxpl: Hid,
    buffers: *const P,
) -> Herr {
    if count == 0 {
        return match slot.native() {
            // SAFETY: empty arrays.
            Ok(vol) => unsafe {
                call(count, datasets, vol, types, spaces, file_spaces, dxpl, buffers, NO_REQUEST)
            },
            Err(_) => -1,
        };
    }
    // SAFETY: by this function's contract.
    let ours = unsafe { std::slice::from_raw_parts(datasets, count) };
    let (mut few, many): ([P; FEW], Vec<P>);
    // SAFETY: by this function's contract each is an object of ours.
    let below = ours.iter().map(|&object| unsafe { Object::of(object) }.under);
    let under = if count <= FEW {
        few = [std::ptr::null_mut(); FEW];
        few.iter_mut().zip(below).for_each(|(to, from)| *to = from);
        few.as_ptr()
    } else {
        many = below.collect();
        many.as_ptr()
    };
    // SAFETY: as many lower objects; the other arguments go on as they came.
    unsafe {
        let vol = Object::of(*datasets).vol;
        call(count, under, vol, types, spaces, file_spaces, dxpl, buffers, NO_REQUEST)
    }
}

pub(super) unsafe extern "C" fn dataset_read<const L: usize>(
    count: usize,
    datasets: *const P,
    types: *const Hid,
    spaces: *const Hid,
    file_spaces: *const Hid,
    dxpl: Hid,
    buffers: *const P,
    _: P,
) -> Herr {
    enter::<L, _>(-1, |slot| {
        let call = slot.api.dataset_read;
        // SAFETY: a callback's arguments.
        Ok(unsafe { transfer(slot, call, count, datasets, types, spaces, file_spaces, dxpl, buffers) })
    })
}

pub(super) unsafe extern "C" fn dataset_write<const L: usize>(
    count: usize,
    datasets: *const P,
    types: *const Hid,
    spaces: *const Hid,
    file_spaces: *const Hid,
    dxpl: Hid,
    buffers: *const P,
    _: P,
) -> Herr {
    enter::<L, _>(-1, |slot| {
        let call = slot.api.dataset_write;
        // SAFETY: a callback's arguments.
        Ok(unsafe { transfer(slot, call, count, datasets, types, spaces, file_spaces, dxpl, buffers) })
    })
}
