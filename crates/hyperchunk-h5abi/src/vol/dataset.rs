//! Reading and writing datasets.

use super::api::{Name, P};
use super::failure::{Outcome, done};
use super::object::{DATASET, Object};
use super::slot::{NO_REQUEST, Slot, enter};
use super::store;
use crate::symbols::{Herr, Hid};
use std::ffi::c_int;
use std::ptr::null_mut;

type Transfer =
    unsafe extern "C" fn(usize, *const P, Hid, *const Hid, *const Hid, *const Hid, Hid, *const P, P) -> Herr;

/// Number of datasets up to which a transfer needs no allocation; nearly every call has fewer.
const INLINE_DATASETS: usize = 8;

/// Transfers `count` datasets: one by one if any belongs to a store, else in one call of the connector below.
///
/// # Safety
/// The arguments are those of a callback: arrays of `count`, objects of ours.
unsafe fn transfer_all(
    slot: &'static Slot,
    writes: bool,
    count: usize,
    datasets: *const P,
    types: *const Hid,
    spaces: *const Hid,
    file_spaces: *const Hid,
    dxpl: Hid,
    buffers: *const P,
) -> Outcome<Herr> {
    let call = if writes { slot.api.dataset_write } else { slot.api.dataset_read };
    let (mut any, mut gathers, mut ranks) = (false, false, None);
    for number in 0..count {
        // SAFETY: by this function's contract.
        let ours = unsafe { Object::from_pointer(*datasets.add(number)) };
        any |= ours.dataset.is_some();
        ranks = ranks.or(ours.file.as_ref().filter(|file| file.has_ranks()));
        if let Some(sources) = &ours.sources {
            sources.check(slot, ours.file.as_ref(), writes)?;
            gathers = true;
        }
    }
    let independent = ranks.map(|file| file.independent(dxpl)).transpose()?.flatten();
    let dxpl = independent.unwrap_or(dxpl);
    if let Some(file) = ranks.filter(|_| !writes && independent.is_some()) {
        file.wait_for_flushes()?;
    }
    if !writes && ranks.is_some() {
        for number in 0..count {
            // SAFETY: by this function's contract.
            let ours = unsafe { Object::from_pointer(*datasets.add(number)) };
            if let (Some(file), None) = (&ours.file, &ours.dataset) {
                file.check_own(ours.under, ours.vol)?;
            }
        }
    }
    if !any {
        // SAFETY: by this function's contract.
        let status =
            unsafe { transfer(slot, call, count, datasets, types, spaces, file_spaces, dxpl, buffers) };
        return if gathers && status >= 0 { slot.reached(status) } else { Ok(status) };
    }
    for number in 0..count {
        // SAFETY: by this function's contract.
        unsafe {
            let ours = Object::from_pointer(*datasets.add(number));
            let (kind, space, file_space, buffer) =
                (*types.add(number), *spaces.add(number), *file_spaces.add(number), *buffers.add(number));
            match &ours.dataset {
                Some(dataset) => {
                    let part = store::Call { kind, space, file_space, dxpl, buffer };
                    if writes {
                        store::write(slot, dataset, part)
                    } else {
                        store::read(slot, dataset, part)
                    }?;
                }
                None => {
                    let one = &raw const ours.under;
                    done(call(1, one, ours.vol, &kind, &space, &file_space, dxpl, &buffer, NO_REQUEST))?;
                }
            }
        }
    }
    if let Some(file) = ranks.filter(|_| writes) {
        file.publish()?;
    }
    if gathers { slot.reached(0) } else { Ok(0) }
}

/// Makes a change to a dataset visible to other ranks, if they have the file open together.
fn publish(ours: &Object) -> Outcome<()> {
    match &ours.file {
        Some(file) if file.has_ranks() => file.publish(),
        _ => Ok(()),
    }
}

/// Passes a transfer of `count` datasets on to the connector below.
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
    let (mut few, many): ([P; INLINE_DATASETS], Vec<P>);
    // SAFETY: by this function's contract each is an object of ours.
    let below = ours.iter().map(|&object| unsafe { Object::from_pointer(object) }.under);
    let under = if count <= INLINE_DATASETS {
        few = [null_mut(); INLINE_DATASETS];
        few.iter_mut().zip(below).for_each(|(to, from)| *to = from);
        few.as_ptr()
    } else {
        many = below.collect();
        many.as_ptr()
    };
    // SAFETY: as many lower objects; the other arguments are passed on unchanged.
    unsafe {
        let vol = Object::from_pointer(*datasets).vol;
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
        // SAFETY: a callback's arguments.
        unsafe { transfer_all(slot, false, count, datasets, types, spaces, file_spaces, dxpl, buffers) }
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
        // SAFETY: a callback's arguments.
        unsafe { transfer_all(slot, true, count, datasets, types, spaces, file_spaces, dxpl, buffers) }
    })
}

pub(super) unsafe extern "C" fn dataset_create<const L: usize>(
    object: P,
    at: P,
    name: Name,
    lcpl: Hid,
    kind: Hid,
    space: Hid,
    dcpl: Hid,
    dapl: Hid,
    dxpl: Hid,
    _: P,
) -> P {
    enter::<L, _>(null_mut(), |slot| {
        // SAFETY: HDF5 passes an object of ours.
        let ours = unsafe { Object::from_pointer(object) };
        let creation = store::Creation { at, name, lcpl, kind, space, dcpl, dapl, dxpl };
        // SAFETY: a callback's arguments.
        unsafe { store::create_dataset(slot, ours, creation) }
    })
}

pub(super) unsafe extern "C" fn dataset_open<const L: usize>(
    object: P,
    at: P,
    name: Name,
    dapl: Hid,
    dxpl: Hid,
    _: P,
) -> P {
    enter::<L, _>(null_mut(), |slot| {
        // SAFETY: HDF5 passes an object of ours.
        let ours = unsafe { Object::from_pointer(object) };
        // SAFETY: the arguments are passed on unchanged.
        let under =
            unsafe { (slot.api.dataset_open)(ours.under, at, ours.vol, name, dapl, dxpl, NO_REQUEST) };
        Object::wrap_opened(slot, DATASET, under, ours.vol, ours.file.as_ref())
    })
}

pub(super) unsafe extern "C" fn dataset_get<const L: usize>(object: P, args: P, dxpl: Hid, _: P) -> Herr {
    enter::<L, _>(-1, |slot| {
        // SAFETY: HDF5 passes an object of ours.
        let ours = unsafe { Object::from_pointer(object) };
        if let Some(dataset) = &ours.dataset
            // SAFETY: a callback's arguments.
            && let Some(status) = unsafe { store::get(slot, dataset, args) }?
        {
            return Ok(status);
        }
        // SAFETY: the arguments are passed on unchanged.
        let status = unsafe { (slot.api.dataset_get)(ours.under, ours.vol, args, dxpl, NO_REQUEST) };
        // The extent of a virtual dataset may depend on its sources.
        if ours.sources.is_some() && status >= 0 { slot.reached(status) } else { Ok(status) }
    })
}

pub(super) unsafe extern "C" fn dataset_specific<const L: usize>(
    object: P,
    args: P,
    dxpl: Hid,
    _: P,
) -> Herr {
    enter::<L, _>(-1, |slot| {
        // SAFETY: HDF5 passes an object of ours.
        let ours = unsafe { Object::from_pointer(object) };
        if let Some(dataset) = &ours.dataset
            // SAFETY: a callback's arguments.
            && let Some(status) = unsafe { store::specific(dataset, args) }?
        {
            publish(ours)?;
            return Ok(status);
        }
        // SAFETY: the arguments are passed on unchanged.
        Ok(unsafe { (slot.api.dataset_specific)(ours.under, ours.vol, args, dxpl, NO_REQUEST) })
    })
}

pub(super) unsafe extern "C" fn dataset_optional<const L: usize>(
    object: P,
    args: P,
    dxpl: Hid,
    _: P,
) -> Herr {
    enter::<L, c_int>(-1, |slot| {
        // SAFETY: HDF5 passes an object of ours.
        let ours = unsafe { Object::from_pointer(object) };
        if let Some(dataset) = &ours.dataset {
            // SAFETY: a callback's arguments.
            let status = unsafe { store::optional(slot, dataset, args) }?;
            publish(ours)?;
            return Ok(status);
        }
        // SAFETY: the arguments are passed on unchanged.
        Ok(unsafe { (slot.api.dataset_optional)(ours.under, ours.vol, args, dxpl, NO_REQUEST) })
    })
}
