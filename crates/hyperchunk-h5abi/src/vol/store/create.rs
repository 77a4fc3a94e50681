//! Creating datasets of a store.

use super::super::api::{Name, P};
use super::super::failure::{ON_ERROR_STACK, Outcome, done};
use super::super::object::Object;
use super::super::slot::{NO_REQUEST, PropertyList, Slot};
use super::describe::{self, GET_DCPL, PlaceholderDataset};
use super::location::Location;
use super::names::check_name;
use super::{OpenStore, StoreDataset};
use crate::symbols::Hid;
use hyperchunk::model::Datatype;
use hyperchunk_store::{Marker, NAMELESS, WriterId};
use std::ffi::{CStr, CString, c_int};
use std::ptr::null_mut;
use std::sync::Arc;

/// `H5I_GROUP`.
const GROUP: c_int = 2;
/// `H5VL_OBJECT_GET_NAME`.
const GET_NAME: c_int = 1;

/// `H5VL_object_get_args_t` for a name.
#[repr(C)]
struct NameArguments {
    operation: c_int,
    size: usize,
    buffer: *mut u8,
    length: *mut usize,
}

/// Arguments of the creation callback.
#[derive(Clone, Copy)]
pub(in crate::vol) struct Creation {
    pub(in crate::vol) at: P,
    pub(in crate::vol) name: Name,
    pub(in crate::vol) lcpl: Hid,
    pub(in crate::vol) kind: Hid,
    pub(in crate::vol) space: Hid,
    pub(in crate::vol) dcpl: Hid,
    pub(in crate::vol) dapl: Hid,
    pub(in crate::vol) dxpl: Hid,
}

impl Creation {
    /// Passes the creation on, with another dataspace and creation list.
    ///
    /// # Safety
    /// The arguments are a callback's, `ours` the object that it got.
    unsafe fn below(&self, slot: &Slot, ours: &Object, space: Hid, dcpl: Hid) -> P {
        // SAFETY: by this function's contract.
        unsafe {
            (slot.api.dataset_create)(
                ours.under, self.at, ours.vol, self.name, self.lcpl, self.kind, space, dcpl, self.dapl,
                self.dxpl, NO_REQUEST,
            )
        }
    }
}

/// Creates a dataset: in the store if possible, else through the connector below.
///
/// # Safety
/// The arguments are a callback's, `ours` the object that it got.
pub(in crate::vol) unsafe fn create_dataset(
    slot: &'static Slot,
    ours: &Object,
    creation: Creation,
) -> Outcome<P> {
    // SAFETY: HDF5 passes a name, or null.
    unsafe { check_name(ours.file.as_ref(), creation.name) }?;
    if let Some(file) = ours.file.as_ref().filter(|file| file.store.writer.is_some())
        && let Some(datatype) = describe::may_divert(slot, creation.kind, creation.space, creation.dcpl)
        // SAFETY: as for this function.
        && unsafe { is_inside(slot, ours, file, creation) }
        // SAFETY: as for this function.
        && let Some(made) = unsafe { divert_new(slot, ours, file, creation, datatype) }?
    {
        return Ok(made);
    }
    // SAFETY: as for this function.
    let under = unsafe { creation.below(slot, ours, creation.space, creation.dcpl) };
    Ok(Object::wrap(under, ours.vol, ours.file.as_ref(), None))
}

/// Returns whether a dataset is created in the store's own file, and not in another file reached through an
/// external link. Data of such a dataset in this store's log would not be found. If the other file is a
/// store, its skeleton is changed as by a program that does not know stores, and its next commit keeps the
/// change.
///
/// # Safety
/// As for [`create_dataset`].
unsafe fn is_inside(slot: &Slot, ours: &Object, file: &OpenStore, creation: Creation) -> bool {
    // SAFETY: HDF5 passes a location.
    if !file.contains_object(ours.under, ours.vol, unsafe { Location::kind(creation.at) }) {
        return false;
    }
    if creation.name.is_null() {
        return true;
    }
    // SAFETY: HDF5 passes a NUL-terminated name.
    let mut name = unsafe { CStr::from_ptr(creation.name) }.to_bytes();
    // The last existing group on the path.
    while let Some(end) = name.iter().rposition(|byte| *byte == b'/').filter(|end| *end > 0) {
        name = &name[..end];
        let Ok(group) = CString::new(name) else { return true };
        let inside = slot.keep_errors(|| {
            let (at, vol) = (creation.at, ours.vol);
            // SAFETY: the lower object, the callback's location, a name of ours; the group is closed here.
            unsafe {
                let opened =
                    (slot.api.group_open)(ours.under, at, vol, group.as_ptr(), 0, creation.dxpl, NO_REQUEST);
                if opened.is_null() {
                    return None;
                }
                let inside = file.contains_object(opened, vol, GROUP);
                (slot.api.group_close)(opened, vol, creation.dxpl, NO_REQUEST);
                Some(inside)
            }
        });
        if let Some(inside) = inside {
            return inside;
        }
    }
    true
}

/// Creates a dataset of the store.
///
/// # Safety
/// As for [`create_dataset`].
unsafe fn divert_new(
    slot: &'static Slot,
    ours: &Object,
    file: &Arc<OpenStore>,
    creation: Creation,
    datatype: Datatype,
) -> Outcome<Option<P>> {
    let store = &file.store;
    let plist = if describe::is_chunked(slot, creation.dcpl) {
        // SAFETY: as for this function.
        unsafe { completed(slot, ours, creation) }?
    } else {
        PropertyList::copy(slot, creation.dcpl)?
    };
    let path = match creation.name {
        // An unnamed dataset gets a unique path.
        none if none.is_null() => [NAMELESS, WriterId::new().to_string().as_bytes()].concat(),
        // SAFETY: HDF5 passes a NUL-terminated name and a location.
        name => unsafe { absolute_path(slot, ours, Location::kind(creation.at), CStr::from_ptr(name)) },
    };
    let made = describe::definition(slot, path, datatype, creation.kind, creation.space, plist.id)?;
    let Some(mut definition) = made else { return Ok(None) };
    let id = store.new_id(&mut definition)?;
    let marker = Marker { dataset: id, epoch: 0 };
    let stand_in = PlaceholderDataset::new(slot, creation.kind, plist.id, &definition.dims, marker)?;
    // SAFETY: as for this function.
    let under = unsafe { creation.below(slot, ours, stand_in.space, stand_in.plist.id) };
    if under.is_null() {
        return Err(ON_ERROR_STACK);
    }
    let shared = store.add(id, definition)?;
    // SAFETY: an identifier of the caller.
    let kind = unsafe { (slot.api.type_copy)(creation.kind) };
    let plist = plist.into_id();
    let dataset = StoreDataset { slot, shared, kind, plist };
    Ok(Some(Object::wrap(under, ours.vol, Some(file), Some(Box::new(dataset)))))
}

/// Returns the creation list as HDF5 completes it: filters adapt to the datatype, and invalid combinations
/// are rejected. For this, creates a native dataset and discards it.
///
/// # Safety
/// As for [`create_dataset`].
unsafe fn completed(slot: &'static Slot, ours: &Object, creation: Creation) -> Outcome<PropertyList> {
    let trying = describe::trial_list(slot, creation.dcpl)?;
    let nameless = Creation { name: std::ptr::null(), ..creation };
    // SAFETY: as for this function; the lower dataset is ours until it is closed here.
    unsafe {
        let tried = nameless.below(slot, ours, creation.space, trying.id);
        if tried.is_null() {
            return Err(ON_ERROR_STACK);
        }
        let answer = describe::ask(slot, tried, ours.vol, GET_DCPL);
        let closed = (slot.api.dataset_close)(tried, ours.vol, 0, NO_REQUEST);
        let plist = PropertyList { slot, id: answer? };
        done(closed)?;
        describe::copy_alloc_time(slot, plist.id, creation.dcpl)?;
        Ok(plist)
    }
}

/// Returns the absolute path of a new object from its name, relative to an object of that kind.
pub(super) fn absolute_path(slot: &Slot, ours: &Object, kind: c_int, name: &CStr) -> Vec<u8> {
    let name = name.to_bytes();
    let parent =
        if name.starts_with(b"/") { Vec::new() } else { object_path(slot, ours.under, ours.vol, kind) };
    let parts = parent.split(|byte| *byte == b'/').chain(name.split(|byte| *byte == b'/'));
    let mut path = Vec::new();
    for part in parts.filter(|part| !part.is_empty() && *part != b".") {
        path.push(b'/');
        path.extend_from_slice(part);
    }
    path
}

/// Returns the path of an object, if the library knows it.
pub(super) fn object_path(slot: &Slot, under: P, vol: Hid, kind: c_int) -> Vec<u8> {
    let mut at = Location::itself(kind);
    let mut length = 0;
    let mut buffer = vec![0_u8; 4096];
    let mut args = NameArguments {
        operation: GET_NAME,
        size: buffer.len(),
        buffer: buffer.as_mut_ptr(),
        length: &raw mut length,
    };
    let place = (&raw mut args).cast();
    // SAFETY: a lower object, a location that is the object itself, live places.
    let status = unsafe { (slot.api.object_get)(under, at.pointer(), vol, place, 0, null_mut()) };
    buffer.truncate(if status < 0 { 0 } else { length });
    buffer
}
