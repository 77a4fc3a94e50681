//! Selections of a call: boxes, in the order of the elements in the caller's memory.

use super::super::failure::{ON_ERROR_STACK, Outcome, done, refuse};
use super::super::slot::Slot;
use crate::symbols::Hid;
use hyperchunk_store::Hyperslab;

/// `H5S_ALL`, `H5S_BLOCK`.
pub(super) const ALL: Hid = 0;
/// See [`ALL`].
pub(super) const BLOCK: Hid = 1;
/// `H5S_PLIST`: the selection is in the transfer list.
const IN_PROPERTY_LIST: Hid = 2;
/// `H5S_SEL_HYPERSLABS`, `H5S_SEL_ALL`.
const SELECT_HYPERSLABS: i32 = 2;
/// See [`SELECT_HYPERSLABS`].
const SELECT_ALL: i32 = 3;

/// A selection of a dataset.
#[derive(Debug)]
pub(super) enum Selection {
    /// One box.
    Box(Hyperslab),
    /// Runs along the last dimension, each a box; elements may repeat, in any order.
    Runs(Vec<Hyperslab>),
}

impl Selection {
    /// Converts the selection `space` of a dataset of extent `dims`.
    pub(super) fn from_space(slot: &Slot, space: Hid, dims: &[u64]) -> Outcome<Self> {
        let everything = || Selection::Box(Hyperslab::new(vec![0; dims.len()], dims));
        match space {
            ALL => return Ok(everything()),
            IN_PROPERTY_LIST => {
                refuse!("a selection in the transfer property list is not supported in a sharded store")
            }
            _ => {}
        }
        // SAFETY: any identifier may be asked.
        let (kind, rank) = unsafe { ((slot.api.selection_kind)(space), (slot.api.space_rank)(space)) };
        if usize::try_from(rank).ok() != Some(dims.len()) {
            refuse!("expected a selection of {} dimensions, got {rank}", dims.len())
        }
        if elements(slot, space)? == 0 {
            return Ok(Selection::Runs(Vec::new()));
        }
        let (mut first, mut last) = (vec![0; dims.len()], vec![0; dims.len()]);
        // SAFETY: room for as many dimensions as the space has.
        done(unsafe { (slot.api.selection_bounds)(space, first.as_mut_ptr(), last.as_mut_ptr()) })?;
        if last.iter().zip(dims).any(|(last, dim)| last >= dim) {
            refuse!("a selection up to {last:?} is outside the extent {dims:?}")
        }
        if kind == SELECT_ALL {
            return Ok(everything());
        }
        let boxed =
            last.iter().zip(&first).map(|(last, first)| last.saturating_sub(*first).saturating_add(1));
        let boxed: Vec<u64> = boxed.collect();
        let slab = Hyperslab::new(first, boxed);
        if kind == SELECT_HYPERSLABS && is_box(slot, space, dims.len()) {
            return Ok(Selection::Box(slab));
        }
        runs(slot, space, dims).map(Selection::Runs)
    }

    /// Returns the number of elements.
    pub(super) fn elements(&self) -> u64 {
        let size = |slab: &Hyperslab| slab.elements().unwrap_or(u64::MAX);
        match self {
            Selection::Box(slab) => size(slab),
            Selection::Runs(runs) => runs.iter().map(size).fold(0, u64::saturating_add),
        }
    }
}

/// Returns the number of selected elements.
pub(super) fn elements(slot: &Slot, space: Hid) -> Outcome<u64> {
    // SAFETY: any identifier may be asked.
    u64::try_from(unsafe { (slot.api.selected)(space) }).map_err(|_| ON_ERROR_STACK)
}

/// Returns whether a selection is its own bounding box. The start is not used: HDF5 returns it without the
/// selection's offset (`H5Soffset_simple`), which h5py sets for broadcasts; the bounds include it.
fn is_box(slot: &Slot, space: Hid, rank: usize) -> bool {
    let mut parts = [vec![0; rank], vec![0; rank], vec![0; rank], vec![0; rank]];
    let [start, stride, count, block] = &mut parts;
    // SAFETY: a hyperslab; room for as many dimensions as the space has.
    unsafe {
        (slot.api.selection_is_regular)(space) > 0
            && (slot.api.selection_regular)(
                space,
                start.as_mut_ptr(),
                stride.as_mut_ptr(),
                count.as_mut_ptr(),
                block.as_mut_ptr(),
            ) >= 0
            && count.iter().zip(stride.iter().zip(block.iter())).all(|(n, (by, size))| *n == 1 || by == size)
    }
}

/// Returns the selection as runs of the extent in C order, split at the ends of rows.
fn runs(slot: &Slot, space: Hid, dims: &[u64]) -> Outcome<Vec<Hyperslab>> {
    const BATCH_RUNS: usize = 512;
    let Some((row, before)) = dims.split_last() else { return Ok(Vec::new()) };
    let row = (*row).max(1);
    // SAFETY: a space; elements of one byte, so that bytes are elements.
    let iterator = unsafe { (slot.api.runs_begin)(space, 1, 0) };
    if iterator < 0 {
        return Err(ON_ERROR_STACK);
    }
    let (mut offsets, mut lengths) = ([0_u64; BATCH_RUNS], [0_usize; BATCH_RUNS]);
    let mut found = Vec::new();
    let outcome = loop {
        let (mut sequences, mut elements) = (0, 0);
        // SAFETY: room for the requested number of runs.
        let status = unsafe {
            (slot.api.runs_next)(
                iterator,
                BATCH_RUNS,
                usize::MAX >> 1,
                &raw mut sequences,
                &raw mut elements,
                offsets.as_mut_ptr(),
                lengths.as_mut_ptr(),
            )
        };
        if status < 0 {
            break Err(ON_ERROR_STACK);
        }
        if sequences == 0 {
            break Ok(());
        }
        for (offset, length) in offsets.iter().zip(&lengths).take(sequences) {
            let (mut at, mut left) = (*offset, *length as u64);
            while left > 0 {
                let column = at % row;
                let part = left.min(row.saturating_sub(column));
                let mut start = vec![0; dims.len()];
                let mut rest = at / row;
                if let Some((last, upper)) = start.split_last_mut() {
                    *last = column;
                    for (place, dim) in upper.iter_mut().zip(before).rev() {
                        *place = rest % (*dim).max(1);
                        rest /= (*dim).max(1);
                    }
                }
                let mut count = vec![1; dims.len()];
                if let Some(last) = count.last_mut() {
                    *last = part;
                }
                found.push(Hyperslab { start, count });
                at = at.saturating_add(part);
                left = left.saturating_sub(part);
            }
        }
    };
    // SAFETY: the iterator from above.
    slot.keep_errors(|| unsafe { (slot.api.runs_end)(iterator) });
    outcome.map(|()| found)
}
