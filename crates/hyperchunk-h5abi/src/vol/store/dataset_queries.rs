//! Queries about a dataset of the store, answered from the store and never from the stub.

use super::super::api::P;
use super::super::failure::{ON_ERROR_STACK, Outcome, refuse};
use super::super::slot::Slot;
use super::StoreDataset;
use super::describe::{GET_DCPL, GetArguments};
use crate::symbols::Herr;
use std::ffi::c_int;

/// `H5VL_dataset_get_t`.
pub(super) const GET_SPACE: c_int = 2;
pub(super) const GET_SPACE_STATUS: c_int = 3;
const GET_STORAGE_SIZE: c_int = 4;
/// `H5VL_dataset_specific_t`.
const SET_EXTENT: c_int = 0;
/// `H5D_SPACE_STATUS_NOT_ALLOCATED` and so on.
pub(super) const NOT_ALLOCATED: c_int = 0;
const PART_ALLOCATED: c_int = 1;
pub(super) const ALLOCATED: c_int = 2;

/// `H5VL_dataset_specific_args_t` for a new extent.
#[repr(C)]
struct NewExtent {
    operation: c_int,
    size: *const u64,
}

/// Answers `H5VL_dataset_get`; `None` if the query is to be passed on to the stub.
///
/// # Safety
/// Arguments of that callback.
pub(in crate::vol) unsafe fn get(slot: &Slot, dataset: &StoreDataset, args: P) -> Outcome<Option<Herr>> {
    let args = args.cast::<GetArguments>();
    // SAFETY: by this function's contract.
    let (operation, place) = unsafe { ((*args).operation, (*args).answer) };
    let answer = match operation {
        GET_DCPL => {
            // SAFETY: a list of our own.
            unsafe { (slot.api.plist_copy)(dataset.plist) }
        }
        GET_SPACE => {
            let dims = dataset.shared.dims();
            let max = dataset.shared.definition.max.iter().map(|max| max.unwrap_or(u64::MAX));
            let max: Vec<u64> = max.collect();
            let rank = c_int::try_from(dims.len()).unwrap_or(c_int::MAX);
            // SAFETY: as many dimensions as `rank` says.
            unsafe { (slot.api.space_create)(rank, dims.as_ptr(), max.as_ptr()) }
        }
        GET_SPACE_STATUS => {
            // SAFETY: the place for a status.
            unsafe { *(place as *mut c_int) = status(dataset)? };
            return Ok(Some(0));
        }
        GET_STORAGE_SIZE => {
            // SAFETY: the place for a size.
            unsafe { *(place as *mut u64) = super::chunks::storage_size(&dataset.shared)? };
            return Ok(Some(0));
        }
        _ => return Ok(None),
    };
    if answer < 0 {
        return Err(ON_ERROR_STACK);
    }
    // SAFETY: by this function's contract.
    unsafe { (*args).answer = answer };
    Ok(Some(0))
}

fn status(dataset: &StoreDataset) -> Outcome<c_int> {
    let shared = &dataset.shared;
    if !shared.is_written()? && !shared.is_early() {
        return Ok(NOT_ALLOCATED);
    }
    let Some(chunk) = &shared.definition.chunk else { return Ok(ALLOCATED) };
    let grid = shared
        .dims()
        .iter()
        .zip(chunk)
        .fold(1_u64, |all, (dim, size)| all.saturating_mul(dim.div_ceil((*size).max(1))));
    let there = super::chunks::allocated(shared)?.len() as u64;
    Ok(match there {
        0 => NOT_ALLOCATED,
        there if there < grid => PART_ALLOCATED,
        _ => ALLOCATED,
    })
}

/// Performs `H5VL_dataset_specific`; `None` if the call is to be passed on to the stub.
///
/// # Safety
/// Arguments of that callback.
pub(in crate::vol) unsafe fn specific(dataset: &StoreDataset, args: P) -> Outcome<Option<Herr>> {
    // SAFETY: by this function's contract every variant begins with its operation.
    if unsafe { *args.cast::<c_int>() } != SET_EXTENT {
        return Ok(None);
    }
    let rank = dataset.shared.definition.dims.len();
    // SAFETY: arguments of a new extent, which has as many dimensions as the dataset.
    let dims = unsafe { std::slice::from_raw_parts((*args.cast::<NewExtent>()).size, rank) };
    if dataset.shared.definition.chunk.is_none() {
        refuse!("cannot change the extent of a dataset without chunks")
    }
    dataset.shared.set_extent(dims)?;
    Ok(Some(0))
}
