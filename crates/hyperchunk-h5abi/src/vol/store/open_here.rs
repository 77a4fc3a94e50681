//! Objects of stores that this process writes, reached by way of the file at the store's path: through an
//! external link, or as the source of a virtual dataset. libhdf5 opens that file itself, which has the last
//! commit.

use super::super::api::P;
use super::super::failure::{ON_ERROR_STACK, Outcome, refuse};
use super::super::slot::{NO_REQUEST, Slot};
use super::location::Location;
use super::{OpenStore, SharedDataset, Store, create, describe, open_store, paths};
use crate::symbols::Hid;
use std::ffi::{CString, c_int};
use std::sync::Arc;

/// `H5I_FILE` and so on.
const FILE: c_int = 1;
const GROUP: c_int = 2;
const DATASET: c_int = 5;
/// `H5F_ACC_RDWR`.
const WRITE: u32 = 1;

/// An object of a store that this process writes.
pub(in crate::vol) struct LiveObject {
    pub(in crate::vol) under: P,
    pub(in crate::vol) vol: Hid,
    pub(in crate::vol) file: Arc<OpenStore>,
}

/// Returns, for a lower object of a committed store that this process writes, the same object as this process
/// has written it, and closes the given one; `None` for objects of other files. `file` is the file from which
/// the object was reached.
pub(in crate::vol) fn live_object(
    slot: &'static Slot,
    kind: c_int,
    under: P,
    vol: Hid,
    file: Option<&Arc<OpenStore>>,
) -> Outcome<Option<LiveObject>> {
    if under.is_null() || !paths::writes_any(slot) {
        return Ok(None);
    }
    let found = find(slot, kind, under, vol, file);
    if !matches!(found, Ok(None)) {
        slot.keep_errors(|| close(slot, under, vol, kind));
    }
    found
}

fn find(
    slot: &'static Slot,
    kind: c_int,
    under: P,
    vol: Hid,
    file: Option<&Arc<OpenStore>>,
) -> Outcome<Option<LiveObject>> {
    let name = open_store::file_name(slot, under, vol, kind)?;
    if file.is_some_and(|file| file.store.name == name) {
        return Ok(None);
    }
    let Ok(given) = CString::new(name) else { return Ok(None) };
    let Some(store) = paths::absolute(&given).and_then(|path| paths::open_for_writing(slot, &path)) else {
        return Ok(None);
    };
    let path = create::object_path(slot, under, vol, kind);
    let Ok(path) = CString::new(path) else { refuse!("a name contains a NUL byte") };
    if path.is_empty() {
        refuse!(
            "cannot open an object of {} without a name: this process writes that file; open the object by its name",
            store.path.display()
        )
    }
    let Some((live, live_vol, live_kind)) = open(slot, &store, &path)? else { return Err(ON_ERROR_STACK) };
    if live_kind != kind {
        close(slot, live, live_vol, live_kind);
        refuse!(
            "cannot open {} of {}: this process has put an object of another kind there",
            path.to_string_lossy(),
            store.path.display()
        )
    }
    let file = Arc::new(OpenStore { store, given, flags: WRITE });
    Ok(Some(LiveObject { under: live, vol: live_vol, file }))
}

/// Opens an object of a store that this process writes; returns it with its connector and its kind, or `None`
/// if there is none, with the reason on the error stack.
fn open(slot: &'static Slot, store: &Store, path: &CString) -> Outcome<Option<(P, Hid, c_int)>> {
    let Some(keeper) = store.keeper() else { refuse!("the store is being closed") };
    let file = keeper.file(slot)?;
    let mut at = Location::named(slot, FILE, path)?;
    let mut kind = 0;
    // SAFETY: the lower file that is kept open, a location of our own, a live place.
    let under =
        unsafe { (slot.api.object_open)(file, at.pointer(), keeper.vol, &raw mut kind, 0, NO_REQUEST) };
    Ok((!under.is_null()).then_some((under, keeper.vol, kind)))
}

/// Returns the dataset at a path in a store that this process writes, if its data are in logs.
pub(super) fn dataset(
    slot: &'static Slot,
    store: &Store,
    path: &CString,
) -> Outcome<Option<Arc<SharedDataset>>> {
    let Some((under, vol, kind)) = slot.keep_errors(|| open(slot, store, path))? else { return Ok(None) };
    let marker = if kind == DATASET { slot.keep_errors(|| describe::marker(slot, under, vol)) } else { None };
    close(slot, under, vol, kind);
    marker.map(|marker| store.shared(marker.dataset, marker.epoch)).transpose()
}

/// Closes a lower object of a kind.
pub(super) fn close(slot: &Slot, under: P, vol: Hid, kind: c_int) {
    let call = match kind {
        GROUP => slot.api.group_close,
        DATASET => slot.api.dataset_close,
        _ => slot.api.datatype_close,
    };
    // SAFETY: a lower object that is not shared.
    unsafe { call(under, vol, 0, NO_REQUEST) };
}
