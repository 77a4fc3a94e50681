//! Transfers of elements between the caller's memory and the store.

use super::super::api::P;
use super::super::failure::{Outcome, done, refuse};
use super::super::slot::Slot;
use super::fields::Fields;
use super::selection::{ALL, BLOCK, Selection, elements};
use super::{SharedDataset, StoreDataset};
use crate::symbols::{Herr, Hid};
use hyperchunk_store::Hyperslab;
use std::ffi::{c_int, c_void};
use std::ptr::null_mut;

/// `H5T_COMPOUND`.
const COMPOUND: c_int = 6;
/// `H5S_SEL_ALL`.
const SELECT_ALL: c_int = 3;
/// A selection is read through its bounding box if that has at most this multiple of its elements, or at most
/// [`MAX_BOX_BYTES`] bytes.
const MAX_OVERREAD_FACTOR: u64 = 8;
/// See [`MAX_OVERREAD_FACTOR`].
const MAX_BOX_BYTES: u64 = 1 << 20;

/// One dataset's part of a call of the application.
#[derive(Clone, Copy)]
pub(in crate::vol) struct Call {
    pub(in crate::vol) kind: Hid,
    pub(in crate::vol) space: Hid,
    pub(in crate::vol) file_space: Hid,
    pub(in crate::vol) dxpl: Hid,
    pub(in crate::vol) buffer: P,
}

/// Allocates zeroed memory for elements, or returns an error.
pub(super) fn allocate_zeroed(count: usize, size: usize) -> Outcome<Vec<u8>> {
    let mut bytes = Vec::new();
    match count.checked_mul(size) {
        Some(length) if bytes.try_reserve_exact(length).is_ok() => bytes.resize(length, 0),
        _ => refuse!("no memory for {count} elements of {size} bytes"),
    }
    Ok(bytes)
}

impl Call {
    /// Returns whether the elements are contiguous from the start of the buffer.
    fn is_packed(&self, slot: &Slot) -> bool {
        match self.space {
            BLOCK => true,
            ALL => self.file_space == ALL,
            // SAFETY: any identifier may be asked.
            space => unsafe { (slot.api.selection_kind)(space) == SELECT_ALL },
        }
    }

    /// Returns the selection of the buffer.
    fn memory_space(&self) -> Hid {
        if self.space == ALL { self.file_space } else { self.space }
    }

    /// Checks that equal numbers of elements are selected in memory and in the file.
    fn check(&self, slot: &Slot, count: u64) -> Outcome<()> {
        let given = match self.space {
            ALL | BLOCK => count,
            space => elements(slot, space)?,
        };
        if given != count {
            refuse!("{given} elements are selected in memory and {count} in the dataset")
        }
        if count > 0 && self.buffer.is_null() {
            refuse!("no buffer for {count} elements")
        }
        Ok(())
    }

    /// Copies the selected elements of the buffer, contiguously; `out` has exactly their size.
    fn gather(&self, slot: &Slot, out: &mut [u8]) -> Outcome<()> {
        let (to, none) = (out.as_mut_ptr().cast(), null_mut());
        // SAFETY: the caller's selection of the caller's buffer, and a buffer that has room for all of it.
        done(unsafe {
            (slot.api.gather)(self.memory_space(), self.buffer, self.kind, out.len(), to, none, none)
        })?;
        Ok(())
    }

    fn size(&self, slot: &Slot) -> usize {
        // SAFETY: any identifier may be asked.
        unsafe { (slot.api.type_size)(self.kind) }
    }

    fn is_of_type(&self, slot: &Slot, kind: Hid) -> bool {
        // SAFETY: any identifiers may be compared.
        unsafe { (slot.api.type_equal)(self.kind, kind) > 0 }
    }
}

/// Writes the elements of a call.
pub(in crate::vol) fn write(slot: &Slot, dataset: &StoreDataset, call: Call) -> Outcome<()> {
    let shared = &dataset.shared;
    let chosen = Selection::from_space(slot, call.file_space, &shared.dims())?;
    let count = chosen.elements();
    call.check(slot, count)?;
    if count == 0 {
        return Ok(());
    }
    let Ok(number) = usize::try_from(count) else {
        refuse!("the selection has more elements than memory can hold")
    };
    let (size, element) = (call.size(slot), shared.element());
    let same = call.is_of_type(slot, dataset.kind);
    let mut held: Vec<u8>;
    if !same
        && let Some(fields) = Fields::from_datatype(slot, call.kind, dataset)?
        // With filters, only whole elements can be written.
        && (!shared.filters || fields.are_whole(shared))
    {
        let length = number.saturating_mul(size);
        let bytes = if call.is_packed(slot) {
            // SAFETY: by HDF5's contract the buffer has all selected elements, here contiguously.
            unsafe { std::slice::from_raw_parts(call.buffer.cast::<u8>(), length) }
        } else {
            held = allocate_zeroed(number, size)?;
            call.gather(slot, &mut held)?;
            &held
        };
        return fields.write((slot, dataset, call), &chosen, (number, size), bytes);
    }
    let bytes = if same && call.is_packed(slot) {
        // SAFETY: by HDF5's contract the buffer has all selected elements, here contiguously.
        unsafe { std::slice::from_raw_parts(call.buffer.cast::<u8>(), number.saturating_mul(element)) }
    } else {
        held = allocate_zeroed(number, size.max(element))?;
        if call.is_packed(slot) {
            // SAFETY: as above, into a buffer that is at least as large.
            unsafe {
                std::ptr::copy_nonoverlapping(
                    call.buffer.cast(),
                    held.as_mut_ptr(),
                    number.saturating_mul(size),
                );
            }
        } else {
            let Some(part) = held.get_mut(..number.saturating_mul(size)) else {
                refuse!("the elements are larger than the buffer")
            };
            call.gather(slot, part)?;
        }
        if !same {
            let mut background = allocate_zeroed(number, size.max(element))?;
            // SAFETY: any identifier may be asked.
            if unsafe { (slot.api.type_class)(dataset.kind) } == COMPOUND {
                // A write may name only some fields: the others keep their values.
                let length = number.saturating_mul(element);
                let Some(part) = background.get_mut(..length) else {
                    refuse!("the elements are larger than the buffer")
                };
                read_chosen(shared, &chosen, part)?;
            }
            let (from, to) = (held.as_mut_ptr().cast(), background.as_mut_ptr().cast());
            // SAFETY: both buffers have room for that many elements of the larger type.
            done(unsafe { (slot.api.type_convert)(call.kind, dataset.kind, number, from, to, call.dxpl) })?;
        }
        held.truncate(number.saturating_mul(element));
        &held
    };
    match &chosen {
        Selection::Box(slab) if shared.filters => shared.write_filtered(slab, bytes)?,
        Selection::Box(slab) => shared.write_boxes(std::slice::from_ref(slab), bytes)?,
        Selection::Runs(runs) => shared.write_boxes(runs, bytes)?,
    }
    Ok(())
}

/// Source for H5Dscatter: all elements at once.
struct PackedElements {
    bytes: *const c_void,
    length: usize,
}

unsafe extern "C" fn next_packed(bytes: *mut *const c_void, length: *mut usize, packed: P) -> Herr {
    // SAFETY: HDF5 passes live places, and the pointer that we gave it.
    unsafe {
        let packed = &*packed.cast::<PackedElements>();
        *bytes = packed.bytes;
        *length = packed.length;
    }
    0
}

/// Reads the elements of a call.
pub(in crate::vol) fn read(slot: &Slot, dataset: &StoreDataset, call: Call) -> Outcome<()> {
    let shared = &dataset.shared;
    let chosen = Selection::from_space(slot, call.file_space, &shared.dims())?;
    let count = chosen.elements();
    call.check(slot, count)?;
    if count == 0 {
        return Ok(());
    }
    let Ok(number) = usize::try_from(count) else {
        refuse!("the selection has more elements than memory can hold")
    };
    let (size, element) = (call.size(slot), shared.element());
    let same = call.is_of_type(slot, dataset.kind);
    let packed = call.is_packed(slot);
    if same && packed {
        let length = number.saturating_mul(element);
        // SAFETY: by HDF5's contract the buffer has room for all selected elements, here contiguously.
        let out = unsafe { std::slice::from_raw_parts_mut(call.buffer.cast::<u8>(), length) };
        return read_chosen(shared, &chosen, out);
    }
    let mut held = allocate_zeroed(number, size.max(element))?;
    let Some(part) = held.get_mut(..number.saturating_mul(element)) else {
        refuse!("the elements are larger than the buffer")
    };
    read_chosen(shared, &chosen, part)?;
    if !same {
        let mut background = allocate_zeroed(number, size.max(element))?;
        // SAFETY: any identifier may be asked.
        if unsafe { (slot.api.type_class)(call.kind) } == COMPOUND {
            // A read may name only some fields: the others in the caller's buffer stay.
            if packed {
                let length = number.saturating_mul(size);
                // SAFETY: by HDF5's contract the buffer has all selected elements.
                unsafe { std::ptr::copy_nonoverlapping(call.buffer.cast(), background.as_mut_ptr(), length) };
            } else {
                let (to, length) = (background.as_mut_ptr().cast(), number.saturating_mul(size));
                // SAFETY: the caller's selection of the caller's buffer, and a buffer with room for it.
                done(unsafe {
                    let none = null_mut();
                    (slot.api.gather)(call.memory_space(), call.buffer, call.kind, length, to, none, none)
                })?;
            }
        }
        let (from, to) = (held.as_mut_ptr().cast(), background.as_mut_ptr().cast());
        // SAFETY: both buffers have room for that many elements of the larger type.
        done(unsafe { (slot.api.type_convert)(dataset.kind, call.kind, number, from, to, call.dxpl) })?;
    }
    let length = number.saturating_mul(size);
    if packed {
        // SAFETY: by HDF5's contract the buffer has room for all selected elements.
        unsafe { std::ptr::copy_nonoverlapping(held.as_ptr(), call.buffer.cast(), length) };
        return Ok(());
    }
    let mut source = PackedElements { bytes: held.as_ptr().cast(), length };
    // SAFETY: the caller's selection of the caller's buffer; the source lives as long as the call.
    done(unsafe {
        let state = (&raw mut source).cast();
        (slot.api.scatter)(next_packed, state, call.kind, call.memory_space(), call.buffer)
    })?;
    Ok(())
}

/// Reads the selected elements, in order, in the dataset's type.
fn read_chosen(shared: &SharedDataset, chosen: &Selection, out: &mut [u8]) -> Outcome<()> {
    match chosen {
        Selection::Box(slab) => shared.read(slab, out)?,
        Selection::Runs(runs) => read_runs(shared, runs, out)?,
    }
    Ok(())
}

fn read_runs(shared: &SharedDataset, runs: &[Hyperslab], out: &mut [u8]) -> hyperchunk::Result<()> {
    let element = shared.element();
    let mut around: Option<Hyperslab> = None;
    let mut count = 0_u64;
    for run in runs {
        count = count.saturating_add(run.elements()?);
        match &mut around {
            Some(slab) => super::pieces::enclose(slab, run),
            None => around = Some(run.clone()),
        }
    }
    let Some(around) = around else { return Ok(()) };
    let bytes = around.elements()?.saturating_mul(element as u64);
    let whole = bytes <= MAX_BOX_BYTES || around.elements()? <= count.saturating_mul(MAX_OVERREAD_FACTOR);
    let mut held = Vec::new();
    let fits = usize::try_from(bytes).is_ok_and(|bytes| held.try_reserve_exact(bytes).is_ok());
    let mut place = 0_usize;
    if whole && fits {
        held.resize(usize::try_from(bytes).unwrap_or(0), 0);
        shared.read(&around, &mut held)?;
    }
    for run in runs {
        let length = usize::try_from(run.elements()?).unwrap_or(usize::MAX).saturating_mul(element);
        let end = place.saturating_add(length);
        let Some(part) = out.get_mut(place..end) else { break };
        if whole && fits {
            super::layers::paint(&around, run, run, element, &mut |from, to, length| {
                let bytes = held.get(from..from.saturating_add(length));
                if let (Some(to), Some(bytes)) = (part.get_mut(to..to.saturating_add(length)), bytes) {
                    to.copy_from_slice(bytes);
                }
                Ok(())
            })?;
        } else {
            shared.read(run, part)?;
        }
        place = end;
    }
    Ok(())
}
