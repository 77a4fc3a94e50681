//! H5Ocopy. libhdf5 copies the stubs, which would still refer to the original datasets, so each copied stub
//! is replaced by a new dataset with the same elements and attributes.

use super::super::api::{Name, P};
use super::super::failure::{ON_ERROR_STACK, Outcome, done, refuse};
use super::super::object::{DATASET, Object};
use super::super::slot::{NO_REQUEST, Slot};
use super::describe::{self, GET_TYPE, PlaceholderDataset};
use super::location::Location;
use super::open_here::{close, live_object};
use super::{OpenStore, SharedDataset, StoreDataset, attributes, create, open_store};
use crate::symbols::{Herr, Hid};
use hyperchunk_store::{DatasetId, Hyperslab, Marker};
use std::collections::{HashMap, HashSet};
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::{Arc, PoisonError};

/// `H5I_GROUP`.
const GROUP: c_int = 2;
/// `H5VL_LINK_DELETE`, `H5VL_LINK_ITER`.
const DELETE: i64 = 0;
const ITERATE: i64 = 2;
/// `H5VL_LINK_CREATE_HARD`, `H5L_TYPE_HARD`.
const HARD: i64 = 0;
const IS_HARD: c_int = 0;
/// `H5O_COPY_EXPAND_REFERENCE_FLAG`.
const EXPAND_REFERENCES: u32 = 8;
/// Maximum number of bytes of elements that are copied at once.
const BATCH_BYTES: u64 = 16 << 20;

/// Arguments of the copy callback.
#[derive(Clone, Copy)]
pub(in crate::vol) struct Copy {
    pub(in crate::vol) at: P,
    pub(in crate::vol) name: Name,
    pub(in crate::vol) to_at: P,
    pub(in crate::vol) to_name: Name,
    pub(in crate::vol) ocpypl: Hid,
    pub(in crate::vol) lcpl: Hid,
    pub(in crate::vol) dxpl: Hid,
}

/// `H5VL_link_create_args_t` of a hard link.
#[repr(C)]
struct HardLinkArguments {
    operation: i64,
    object: P,
    at: Location,
}

/// `H5VL_link_specific_args_t` of an iteration.
#[repr(C)]
struct IterateArguments {
    operation: i64,
    recursive: bool,
    index: c_int,
    order: c_int,
    place: *mut u64,
    visit: unsafe extern "C" fn(Hid, *const c_char, *const c_void, P) -> Herr,
    state: P,
}

unsafe extern "C" fn collect(_: Hid, name: *const c_char, info: *const c_void, names: P) -> Herr {
    // SAFETY: HDF5 passes a name, an H5L_info2_t, which begins with the link's type, and our own vector.
    unsafe {
        if *info.cast::<c_int>() == IS_HARD {
            (*names.cast::<Vec<CString>>()).push(CStr::from_ptr(name).to_owned());
        }
    }
    0
}

/// Copies an object.
///
/// # Safety
/// The arguments are a callback's, `from` and `to` the objects that it got.
pub(in crate::vol) unsafe fn copy(
    slot: &'static Slot,
    from: &Object,
    to: &Object,
    call: Copy,
) -> Outcome<Herr> {
    // SAFETY: as for this function.
    let (kind, name) = unsafe { (Location::kind(call.at), CStr::from_ptr(call.name)) };
    let source = source(slot, from, kind, name)?;
    let of_store = source.is_some() || from.file.is_some();
    let mut flags = 0;
    // SAFETY: a live place.
    unsafe { (slot.api.plist_copy_flags)(call.ocpypl, &raw mut flags) };
    if of_store
        && flags & EXPAND_REFERENCES != 0
        && (source.is_some() || from.file.as_ref().is_some_and(|file| file.has_datasets()))
    {
        refuse!(
            "H5Ocopy from a sharded store cannot copy the targets of references (H5O_COPY_EXPAND_REFERENCE_FLAG)"
        )
    }
    // SAFETY: the arguments are passed on unchanged.
    let status = unsafe {
        (slot.api.object_copy)(
            from.under,
            call.at,
            call.name,
            to.under,
            call.to_at,
            call.to_name,
            from.vol,
            call.ocpypl,
            call.lcpl,
            call.dxpl,
            NO_REQUEST,
        )
    };
    if status < 0 || !of_store {
        return Ok(status);
    }
    // SAFETY: as for this function.
    let (kind, name) = unsafe { (Location::kind(call.to_at), CStr::from_ptr(call.to_name)) };
    let mut repair = Repair {
        slot,
        to,
        kind,
        source,
        file: from.file.clone(),
        made: HashMap::new(),
        seen: HashSet::new(),
    };
    if let Err(error) = repair.object(name.to_bytes()) {
        // No copy is better than one that refers to the wrong dataset.
        slot.keep_errors(|| drop(repair.unlink(name)));
        return Err(error);
    }
    Ok(status)
}

/// Returns the source of the copy, if it is a dataset of a store, possibly in another file reached through an
/// external link.
fn source(
    slot: &'static Slot,
    from: &Object,
    kind: c_int,
    name: &CStr,
) -> Outcome<Option<Arc<SharedDataset>>> {
    let mut found = 0;
    let mut at = Location::named(slot, kind, name)?;
    // SAFETY: a lower object, a location of our own, a live place.
    let under =
        unsafe { (slot.api.object_open)(from.under, at.pointer(), from.vol, &raw mut found, 0, NO_REQUEST) };
    if under.is_null() {
        return Err(ON_ERROR_STACK);
    }
    let live = match found {
        DATASET => live_object(slot, found, under, from.vol, from.file.as_ref())?,
        _ => None,
    };
    let (under, vol, file) = match &live {
        Some(live) => (live.under, live.vol, Some(&live.file)),
        None => (under, from.vol, from.file.as_ref()),
    };
    let diverted = match found {
        DATASET => open_store::divert(slot, under, vol, file),
        _ => Ok(None),
    };
    slot.keep_errors(|| close(slot, under, vol, found));
    Ok(diverted?.map(|(_, dataset)| Arc::clone(&dataset.shared)))
}

/// Replacement of the stubs in a copy by new datasets.
struct Repair<'a> {
    slot: &'static Slot,
    /// The location of the copy.
    to: &'a Object,
    kind: c_int,
    source: Option<Arc<SharedDataset>>,
    file: Option<Arc<OpenStore>>,
    /// Paths of the created datasets, by the original's identity.
    made: HashMap<DatasetId, CString>,
    /// Tokens of visited groups: links may form cycles.
    seen: HashSet<[u8; 16]>,
}

impl Repair<'_> {
    fn object(&mut self, path: &[u8]) -> Outcome<()> {
        let (slot, vol) = (self.slot, self.to.vol);
        let Ok(name) = CString::new(path) else { refuse!("a name contains a NUL byte") };
        let mut kind = 0;
        let mut at = Location::named(slot, self.kind, &name)?;
        // SAFETY: a lower object, a location of our own, a live place.
        let under =
            unsafe { (slot.api.object_open)(self.to.under, at.pointer(), vol, &raw mut kind, 0, NO_REQUEST) };
        if under.is_null() {
            return Err(ON_ERROR_STACK);
        }
        let repaired = match kind {
            GROUP => self.group(under, path),
            DATASET => match slot.keep_errors(|| describe::marker(slot, under, vol)) {
                Some(marker) => self.dataset(under, marker, name),
                None => Ok(()),
            },
            _ => Ok(()),
        };
        slot.keep_errors(|| close(slot, under, vol, kind));
        repaired
    }

    fn group(&mut self, under: P, path: &[u8]) -> Outcome<()> {
        let (slot, vol) = (self.slot, self.to.vol);
        if !self.seen.insert(attributes::info(slot, under, vol, GROUP)?.token) {
            return Ok(());
        }
        let mut names: Vec<CString> = Vec::new();
        let mut place = 0;
        let mut args = IterateArguments {
            operation: ITERATE,
            recursive: false,
            index: 0,
            order: 0,
            place: &raw mut place,
            visit: collect,
            state: (&raw mut names).cast(),
        };
        let mut at = Location::itself(GROUP);
        // SAFETY: a lower group, arguments of our own that live as long as the call.
        done(unsafe {
            (slot.api.link_specific)(under, at.pointer(), vol, (&raw mut args).cast(), 0, NO_REQUEST)
        })?;
        for name in names {
            self.object(&[path, b"/", name.as_bytes()].concat())?;
        }
        Ok(())
    }

    fn unlink(&self, name: &CStr) -> Outcome<()> {
        let mut operation = DELETE;
        let mut at = Location::named(self.slot, self.kind, name)?;
        let args = (&raw mut operation).cast();
        let call = self.slot.api.link_specific;
        // SAFETY: a lower object, a location and arguments of our own.
        done(unsafe { call(self.to.under, at.pointer(), self.to.vol, args, 0, NO_REQUEST) }).map(drop)
    }

    /// Links a lower dataset under a name.
    fn link(&self, name: &CStr, dataset: P) -> Outcome<()> {
        let mut args = HardLinkArguments { operation: HARD, object: dataset, at: Location::itself(DATASET) };
        let mut at = Location::named(self.slot, self.kind, name)?;
        let lcpl = self.slot.default_list(c"H5P_LST_LINK_CREATE_ID_g")?;
        let lapl = self.slot.default_list(c"H5P_LST_LINK_ACCESS_ID_g")?;
        // SAFETY: lower objects, a location and arguments of our own, the default lists.
        done(unsafe {
            (self.slot.api.link_create)(
                (&raw mut args).cast(),
                self.to.under,
                at.pointer(),
                self.to.vol,
                lcpl,
                lapl,
                0,
                NO_REQUEST,
            )
        })
        .map(drop)
    }

    fn dataset(&mut self, copied: P, marker: Marker, name: CString) -> Outcome<()> {
        let (slot, vol) = (self.slot, self.to.vol);
        if let Some(first) = self.made.get(&marker.dataset) {
            let mut kind = 0;
            let mut at = Location::named(slot, self.kind, first)?;
            // SAFETY: a lower object, a location of our own, a live place.
            let new = unsafe {
                (slot.api.object_open)(self.to.under, at.pointer(), vol, &raw mut kind, 0, NO_REQUEST)
            };
            if new.is_null() {
                return Err(ON_ERROR_STACK);
            }
            let linked = self.unlink(&name).and_then(|()| self.link(&name, new));
            slot.keep_errors(|| close(slot, new, vol, kind));
            return linked;
        }
        let shared = match (&self.source, &self.file) {
            (Some(shared), _) => Arc::clone(shared),
            (None, Some(file)) => file.store.shared(marker.dataset, marker.epoch)?,
            (None, None) => refuse!("H5Ocopy cannot copy a dataset whose store is not known"),
        };
        let new = self.create(copied, &shared, &name)?;
        let done = attributes::copy(slot, copied, new, vol, DATASET)
            .and_then(|()| self.unlink(&name))
            .and_then(|()| self.link(&name, new));
        slot.keep_errors(|| close(slot, new, vol, DATASET));
        done?;
        self.made.insert(marker.dataset, name);
        Ok(())
    }

    /// Creates an unnamed dataset with the definition and the elements of `shared`.
    fn create(&self, copied: P, shared: &Arc<SharedDataset>, name: &CStr) -> Outcome<P> {
        let (slot, vol) = (self.slot, self.to.vol);
        let dims = shared.dims();
        let plist = open_store::creation_list(slot, copied, vol, &shared.definition)?;
        let kind = describe::ask(slot, copied, vol, GET_TYPE)?;
        // Closes both identifiers on every return.
        let old = StoreDataset { slot, shared: Arc::clone(shared), kind, plist: plist.into_id() };
        let dapl = slot.default_list(c"H5P_LST_DATASET_ACCESS_ID_g")?;
        let lcpl = slot.default_list(c"H5P_LST_LINK_CREATE_ID_g")?;
        let dxpl = slot.default_list(c"H5P_LST_DATASET_XFER_ID_g")?;
        let make = |space: Hid, plist: Hid| {
            let mut at = Location::itself(self.kind);
            // SAFETY: a lower object, a location of our own; without a name.
            let new = unsafe {
                let none = std::ptr::null();
                (slot.api.dataset_create)(
                    self.to.under,
                    at.pointer(),
                    vol,
                    none,
                    lcpl,
                    kind,
                    space,
                    plist,
                    dapl,
                    dxpl,
                    NO_REQUEST,
                )
            };
            if new.is_null() { Err(ON_ERROR_STACK) } else { Ok(new) }
        };
        if let Some(file) = self.to.file.as_ref().filter(|file| file.store.writer.is_some()) {
            let mut definition = (*shared.definition).clone();
            definition.path = create::absolute_path(slot, self.to, self.kind, name);
            definition.dims.clone_from(&dims);
            let id = file.store.new_id(&mut definition)?;
            let stand_in =
                PlaceholderDataset::new(slot, kind, old.plist, &dims, Marker { dataset: id, epoch: 0 })?;
            let new = make(stand_in.space, stand_in.plist.id)?;
            let filled = file.store.add(id, definition).and_then(|made| {
                each_part(shared, &dims, &mut |slab, bytes| {
                    Ok(made.write_boxes(std::slice::from_ref(slab), bytes)?)
                })
            });
            return filled.map(|()| new);
        }
        let max: Vec<u64> = shared.definition.max.iter().map(|max| max.unwrap_or(u64::MAX)).collect();
        let rank = c_int::try_from(dims.len()).unwrap_or(c_int::MAX);
        // SAFETY: as many dimensions as `rank` says.
        let space = unsafe { (slot.api.space_create)(rank, dims.as_ptr(), max.as_ptr()) };
        let filled = make(space, old.plist).and_then(|new| {
            each_part(shared, &dims, &mut |slab, bytes| {
                write_natively(slot, (new, vol), kind, space, slab, bytes)
            })
            .map(|()| new)
        });
        // SAFETY: the space from above.
        slot.keep_errors(|| unsafe { (slot.api.space_close)(space) });
        filled
    }
}

/// Calls `take` with each box and its elements, one after another; for a chunked dataset, only the written
/// chunks.
fn each_part(
    shared: &SharedDataset,
    dims: &[u64],
    take: &mut dyn FnMut(&Hyperslab, &[u8]) -> Outcome<()>,
) -> Outcome<()> {
    let everything = Hyperslab::new(vec![0; dims.len()], dims);
    let parts = match &shared.definition.chunk {
        Some(chunk) => {
            let written_chunks = super::chunks::written_chunks(shared)?;
            let boxes = written_chunks.iter().map(|start| Hyperslab::new(start.as_slice(), chunk.as_slice()));
            boxes.filter_map(|slab| slab.clipped(dims)).collect()
        }
        None if shared.is_written()? => rows(&everything, shared.element() as u64),
        None => Vec::new(),
    };
    let mut bytes = Vec::new();
    for slab in parts {
        let size = slab.elements()?.saturating_mul(shared.element() as u64);
        bytes.clear();
        match usize::try_from(size) {
            Ok(size) if bytes.try_reserve(size).is_ok() => bytes.resize(size, 0),
            _ => refuse!("no memory for a part of {size} bytes"),
        }
        shared.read(&slab, &mut bytes)?;
        take(&slab, &bytes)?;
    }
    Ok(())
}

/// Splits a box along its first dimension into parts of about [`BATCH_BYTES`].
fn rows(slab: &Hyperslab, element: u64) -> Vec<Hyperslab> {
    let [first, rest @ ..] = slab.count.as_slice() else { return Vec::new() };
    let row = rest.iter().fold(element, |size, count| size.saturating_mul(*count)).max(1);
    let step = (BATCH_BYTES / row).max(1);
    let mut parts = Vec::new();
    let mut at = 0;
    while at < *first {
        let mut part = slab.clone();
        if let (Some(start), Some(count)) = (part.start.first_mut(), part.count.first_mut()) {
            *start = start.saturating_add(at);
            *count = step.min(first.saturating_sub(at));
        }
        parts.push(part);
        at = at.saturating_add(step);
    }
    parts
}

fn write_natively(
    slot: &Slot,
    (dataset, vol): (P, Hid),
    kind: Hid,
    space: Hid,
    slab: &Hyperslab,
    bytes: &[u8],
) -> Outcome<()> {
    let rank = c_int::try_from(slab.count.len()).unwrap_or(c_int::MAX);
    let dxpl = slot.default_list(c"H5P_LST_DATASET_XFER_ID_g")?;
    // SAFETY: a space of our own, arrays of as many dimensions as it has; the buffer has all elements of the box.
    unsafe {
        let memory = (slot.api.space_create)(rank, slab.count.as_ptr(), std::ptr::null());
        let (start, count, none) = (slab.start.as_ptr(), slab.count.as_ptr(), std::ptr::null());
        let selected = (slot.library.f.space_select)(space, 0, start, none, count, none);
        let buffer: P = bytes.as_ptr().cast_mut().cast();
        let status = if selected < 0 {
            selected
        } else {
            (slot.api.dataset_write)(1, &dataset, vol, &kind, &memory, &space, dxpl, &buffer, NO_REQUEST)
        };
        slot.keep_errors(|| (slot.api.space_close)(memory));
        done(status).map(drop)
    }
}

impl super::Store {
    /// Returns an identity for a new dataset that differs from all datasets ever created with the same
    /// definition.
    pub(super) fn new_id(&self, definition: &mut hyperchunk_store::Definition) -> Outcome<DatasetId> {
        let writer = self.writer()?;
        let used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let id = definition.id()?;
            if !used.contains(&id) && writer.base().is_none_or(|base| base.dataset(&id).is_none()) {
                return Ok(id);
            }
            definition.incarnation = definition.incarnation.saturating_add(1);
        }
    }

    /// Registers a new dataset whose stub exists.
    pub(super) fn add(
        &self,
        id: DatasetId,
        definition: hyperchunk_store::Definition,
    ) -> Outcome<Arc<SharedDataset>> {
        let writer = self.writer()?;
        let number = writer.define(&definition)?;
        self.used.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
        let dims = definition.dims.clone();
        let shared = SharedDataset::new(id, definition, dims, Vec::new(), Some((writer.clone(), number)));
        let shared = shared.with_peers(self.peers.as_ref());
        let shared = Arc::new(shared.with_codec(self.options.codec));
        self.datasets.lock().unwrap_or_else(PoisonError::into_inner).insert(id, Arc::clone(&shared));
        Ok(shared)
    }
}
