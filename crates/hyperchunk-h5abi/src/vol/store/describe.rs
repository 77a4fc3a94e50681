//! Definitions of datasets, derived from HDF5's identifiers, and their stubs, the native datasets in the
//! skeleton.

use super::super::api::P;
use super::super::failure::{ON_ERROR_STACK, Outcome, done, refuse};
use super::super::slot::{PropertyList, Slot};
use super::dataset_queries::{ALLOCATED, GET_SPACE, GET_SPACE_STATUS, NOT_ALLOCATED};
use crate::symbols::Hid;
use crate::virtual_sources::{VIRTUAL, text};
use hyperchunk::model::{AllocationTime, Class, Datatype, FillTime, FillValue, FillWhen, Filter, Pipeline};
use hyperchunk_format::{Cursor, Limits, parse};
use hyperchunk_store::{Definition, Marker};
use std::ffi::{CString, c_char, c_int};
use std::ptr::null_mut;

/// `H5S_SIMPLE`.
const SIMPLE: c_int = 1;
/// `H5D_CONTIGUOUS`, `H5D_CHUNKED`.
const CONTIGUOUS: c_int = 1;
/// See [`CONTIGUOUS`].
const CHUNKED: c_int = 2;
/// `H5D_ALLOC_TIME_EARLY` and so on.
const ALLOC_EARLY: c_int = 1;
const ALLOC_LATE: c_int = 2;
const ALLOC_INCREMENTAL: c_int = 3;
/// `H5D_FILL_TIME_ALLOC` and so on.
const FILL_ALLOC: c_int = 0;
const FILL_NEVER: c_int = 1;
/// `H5D_FILL_VALUE_UNDEFINED`, `H5D_FILL_VALUE_USER_DEFINED`.
const FILL_UNDEFINED: c_int = 0;
const FILL_USER: c_int = 2;
/// `H5Z_FLAG_OPTIONAL`.
const OPTIONAL: u32 = 1;
/// `H5S_UNLIMITED`, `H5F_UNLIMITED`.
const UNLIMITED: u64 = u64::MAX;
/// `H5Z_FILTER_ALL`.
const ALL_FILTERS: c_int = 0;

/// Returns the extent and the maximum extent of a dataspace; `None` unless it is simple and has dimensions.
fn extent(slot: &Slot, space: Hid) -> Option<(Vec<u64>, Vec<Option<u64>>)> {
    // SAFETY: any identifier may be asked.
    let (class, rank) = unsafe { ((slot.api.space_class)(space), (slot.api.space_rank)(space)) };
    let rank = usize::try_from(rank).ok().filter(|rank| class == SIMPLE && *rank > 0)?;
    let (mut dims, mut max) = (vec![0; rank], vec![0; rank]);
    // SAFETY: room for as many dimensions as the space has.
    if unsafe { (slot.api.space_dims)(space, dims.as_mut_ptr(), max.as_mut_ptr()) } < 0 {
        return None;
    }
    Some((dims, max.into_iter().map(|max| (max != UNLIMITED).then_some(max)).collect()))
}

/// Returns a datatype in our own form; `None` if it is not supported.
pub(super) fn datatype(slot: &Slot, kind: Hid) -> Option<Datatype> {
    let mut size = 0;
    // SAFETY: without a buffer it returns the size.
    if unsafe { (slot.api.type_encode)(kind, null_mut(), &raw mut size) } < 0 {
        return None;
    }
    let mut bytes = vec![0_u8; size];
    // SAFETY: a buffer of that size.
    if unsafe { (slot.api.type_encode)(kind, bytes.as_mut_ptr().cast(), &raw mut size) } < 0 {
        return None;
    }
    // Two bytes identify it as a datatype; the rest is the message of an object header.
    let message = bytes.get(2..)?;
    parse::message::datatype::parse(&mut Cursor::new(message, "datatype", 0), &Limits::default()).ok()
}

/// Encodes a creation list with `H5Pencode2`.
fn encoded(slot: &Slot, plist: Hid) -> Option<Vec<u8>> {
    let mut size = 0;
    // SAFETY: without a buffer it returns the size; 0 is the default list.
    if unsafe { (slot.api.plist_encode)(plist, null_mut(), &raw mut size, 0) } < 0 {
        return None;
    }
    let mut bytes = vec![0_u8; size];
    // SAFETY: a buffer of that size.
    let status = unsafe { (slot.api.plist_encode)(plist, bytes.as_mut_ptr().cast(), &raw mut size, 0) };
    (status >= 0).then_some(bytes)
}

/// Zeroes the padding between and after the members of an element's compounds.
fn clear_gaps(datatype: &Datatype, bytes: &mut [u8]) {
    let narrow = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
    match &datatype.class {
        Class::Compound { members } => {
            let mut kept = vec![false; bytes.len()];
            for member in members {
                let (start, size) = (narrow(member.offset), narrow(member.datatype.size));
                let range = start..start.saturating_add(size);
                if let (Some(kept), Some(value)) = (kept.get_mut(range.clone()), bytes.get_mut(range)) {
                    kept.fill(true);
                    clear_gaps(&member.datatype, value);
                }
            }
            bytes.iter_mut().zip(kept).filter(|(_, kept)| !kept).for_each(|(byte, _)| *byte = 0);
        }
        Class::Array { base, .. } => {
            bytes.chunks_exact_mut(narrow(base.size).max(1)).for_each(|value| clear_gaps(base, value));
        }
        _ => {}
    }
}

fn pipeline(slot: &Slot, plist: Hid) -> Option<Pipeline> {
    // SAFETY: any identifier may be asked.
    let count = u32::try_from(unsafe { (slot.api.plist_filters)(plist) }).ok()?;
    let mut filters = Vec::new();
    for number in 0..count {
        let (mut flags, mut config, mut length) = (0, 0, 0_usize);
        let mut name: [c_char; 256] = [0; 256];
        let mut look = |words: &mut [u32], length: &mut usize| {
            // SAFETY: live places, and buffers of the sizes that are passed.
            unsafe {
                (slot.api.plist_filter)(
                    plist,
                    number,
                    &raw mut flags,
                    length,
                    words.as_mut_ptr(),
                    name.len(),
                    name.as_mut_ptr(),
                    &raw mut config,
                )
            }
        };
        // The first call returns the number of words.
        look(&mut [], &mut length);
        let mut parameters = vec![0; length];
        let id = look(&mut parameters, &mut length);
        let id = u16::try_from(id).ok()?;
        filters.push(Filter { id, optional: flags & OPTIONAL != 0, name: None, parameters });
    }
    Some(filters)
}

fn fill(slot: &Slot, plist: Hid, kind: Hid, size: u64) -> Outcome<FillValue> {
    let (mut defined, mut allocation, mut time) = (0, 0, 0);
    // SAFETY: live places.
    unsafe {
        done((slot.api.plist_fill_defined)(plist, &raw mut defined))?;
        done((slot.api.plist_alloc_time)(plist, &raw mut allocation))?;
        done((slot.api.plist_fill_time)(plist, &raw mut time))?;
    }
    let value = match defined {
        FILL_USER => {
            let mut value = vec![0_u8; usize::try_from(size).map_err(|_| ON_ERROR_STACK)?];
            // SAFETY: room for an element of that type.
            done(unsafe { (slot.api.plist_fill)(plist, kind, value.as_mut_ptr().cast()) })?;
            FillWhen::User(value)
        }
        FILL_UNDEFINED => FillWhen::Undefined,
        _ => FillWhen::Default,
    };
    let allocation = match allocation {
        ALLOC_EARLY => AllocationTime::Early,
        ALLOC_LATE => AllocationTime::Late,
        ALLOC_INCREMENTAL => AllocationTime::Incremental,
        _ => AllocationTime::Default,
    };
    let time = match time {
        FILL_ALLOC => FillTime::Allocation,
        FILL_NEVER => FillTime::Never,
        _ => FillTime::IfSet,
    };
    Ok(FillValue { value, allocation, time })
}

/// Returns the datatype if a dataset with that creation list and dataspace may belong to the store.
///
/// Other datasets stay in the skeleton: scalars, compact and external datasets, datasets that are always
/// empty, and those with references or elements of variable length.
pub(super) fn may_divert(slot: &Slot, kind: Hid, space: Hid, plist: Hid) -> Option<Datatype> {
    let (dims, max) = extent(slot, space)?;
    // SAFETY: any identifier may be asked.
    let (layout, externals) = unsafe { ((slot.api.plist_layout)(plist), (slot.api.plist_externals)(plist)) };
    let fixed = dims.iter().zip(&max).all(|(dim, max)| Some(*dim) == *max);
    let fits = match layout {
        CONTIGUOUS => fixed && !dims.contains(&0),
        CHUNKED => true,
        _ => false,
    };
    if !fits || externals > 0 {
        return None;
    }
    datatype(slot, kind).filter(|kind| !kind.has_vlen() && !kind.has_reference() && kind.size > 0)
}

/// Returns whether the creation list requests chunks.
pub(super) fn is_chunked(slot: &Slot, plist: Hid) -> bool {
    // SAFETY: any identifier may be asked.
    unsafe { (slot.api.plist_layout)(plist) == CHUNKED }
}

/// Returns a copy of a list for a trial creation, which never allocates space.
pub(super) fn trial_list(slot: &'static Slot, plist: Hid) -> Outcome<PropertyList> {
    let copy = PropertyList::copy(slot, plist)?;
    // SAFETY: a list of our own.
    done(unsafe { (slot.api.plist_set_alloc_time)(copy.id, ALLOC_LATE) })?;
    Ok(copy)
}

/// Copies the allocation time of the user's list to a list that HDF5 completed.
pub(super) fn copy_alloc_time(slot: &Slot, completed: Hid, plist: Hid) -> Outcome<()> {
    let mut time = 0;
    // SAFETY: a live place, a list of our own.
    unsafe {
        done((slot.api.plist_alloc_time)(plist, &raw mut time))?;
        done((slot.api.plist_set_alloc_time)(completed, time)).map(drop)
    }
}

/// Maximum size in bytes of a fill value in a message of an object header.
const MAX_FILL_BYTES: usize = 65_535 - 8;

/// Returns the definition of the dataset.
pub(super) fn definition(
    slot: &'static Slot,
    path: Vec<u8>,
    datatype: Datatype,
    kind: Hid,
    space: Hid,
    plist: Hid,
) -> Outcome<Option<Definition>> {
    let Some((dims, max)) = extent(slot, space) else { return Ok(None) };
    let chunk = if is_chunked(slot, plist) {
        let mut chunk = vec![0; dims.len()];
        let rank = c_int::try_from(chunk.len()).unwrap_or(c_int::MAX);
        // SAFETY: room for as many dimensions as `rank` says.
        done(unsafe { (slot.api.plist_chunk)(plist, rank, chunk.as_mut_ptr()) })?;
        Some(chunk)
    } else {
        None
    };
    let mut fill = fill(slot, plist, kind, datatype.size)?;
    // HDF5 returns the layout's default as an explicit time. Map it back, so that equal datasets have equal
    // definitions.
    let usual = if chunk.is_some() { AllocationTime::Incremental } else { AllocationTime::Late };
    if fill.allocation == usual {
        fill.allocation = AllocationTime::Default;
    }
    if let FillWhen::User(value) = &mut fill.value {
        // Processes with the same fill value may have different padding bytes, and mean the same dataset.
        clear_gaps(&datatype, value);
    }
    let native = match &fill.value {
        FillWhen::User(value) if value.len() > MAX_FILL_BYTES => refuse!(
            "cannot create the dataset (object header message is too large): expected a fill value of at most {MAX_FILL_BYTES} bytes, got {}",
            value.len()
        ),
        // Use the dataset's type: for another type, the encoded list might contain a pointer, which is
        // invalid later.
        FillWhen::User(value) => {
            let filled = PropertyList::copy(slot, plist)?;
            // SAFETY: a list of our own, a type of the caller, an element of that type.
            done(unsafe { (slot.api.plist_set_fill)(filled.id, kind, value.as_ptr().cast()) })?;
            encoded(slot, filled.id)
        }
        FillWhen::Undefined | FillWhen::Default => encoded(slot, plist),
    };
    let (Some(pipeline), Some(native)) = (pipeline(slot, plist), native) else { return Ok(None) };
    let mut definition = Definition::new(path, datatype, dims);
    definition.max = max;
    definition.chunk = chunk;
    definition.pipeline = pipeline;
    definition.fill = fill;
    definition.native = native;
    Ok(definition.id().is_ok().then_some(definition))
}

/// The stub of a dataset: a native one that is contiguous, of fixed size, without filters or fill value. Its
/// data are in an external file that does not exist, so that programs that do not know stores fail to read
/// it.
pub(super) struct PlaceholderDataset {
    slot: &'static Slot,
    pub(super) space: Hid,
    pub(super) plist: PropertyList,
}

impl PlaceholderDataset {
    pub(super) fn new(
        slot: &'static Slot,
        kind: Hid,
        plist: Hid,
        dims: &[u64],
        marker: Marker,
    ) -> Outcome<Self> {
        let plist = PropertyList::copy(slot, plist)?;
        let dims: Vec<u64> = dims.iter().map(|dim| (*dim).max(1)).collect();
        let rank = c_int::try_from(dims.len()).unwrap_or(c_int::MAX);
        let entry = marker.to_external_file(false);
        let name = CString::new(entry.name.as_bytes()).map_err(|_| ON_ERROR_STACK)?;
        // SAFETY: a list of our own, live strings and arrays. A filled dataset would be written to when it is created.
        unsafe {
            let api = &slot.api;
            if (api.plist_filters)(plist.id) > 0 {
                done((api.plist_remove_filter)(plist.id, ALL_FILTERS))?;
            }
            done((api.plist_set_layout)(plist.id, CONTIGUOUS))?;
            done((api.plist_set_alloc_time)(plist.id, ALLOC_LATE))?;
            done((api.plist_set_fill)(plist.id, kind, std::ptr::null()))?;
            done((api.plist_set_fill_time)(plist.id, FILL_NEVER))?;
            done((api.plist_set_external)(plist.id, name.as_ptr(), 0, UNLIMITED))?;
            let space = (api.space_create)(rank, dims.as_ptr(), dims.as_ptr());
            if space < 0 {
                return Err(ON_ERROR_STACK);
            }
            Ok(PlaceholderDataset { slot, space, plist })
        }
    }
}

impl Drop for PlaceholderDataset {
    fn drop(&mut self) {
        // SAFETY: the space is ours and open.
        self.slot.keep_errors(|| unsafe { (self.slot.api.space_close)(self.space) });
    }
}

/// `H5VL_dataset_get_args_t`; the answer is an identifier, or is written through a pointer.
#[repr(C)]
pub(in crate::vol) struct GetArguments {
    pub(in crate::vol) operation: c_int,
    pub(in crate::vol) answer: i64,
}

/// `H5VL_DATASET_GET_DAPL`, `H5VL_DATASET_GET_DCPL`, `H5VL_DATASET_GET_TYPE`.
pub(in crate::vol) const GET_DAPL: c_int = 0;
/// See [`GET_DAPL`].
pub(in crate::vol) const GET_DCPL: c_int = 1;
/// See [`GET_DCPL`].
pub(in crate::vol) const GET_TYPE: c_int = 5;

/// Queries an identifier from a lower dataset.
pub(super) fn ask(slot: &Slot, under: P, vol: Hid, operation: c_int) -> Outcome<Hid> {
    let mut args = GetArguments { operation, answer: -1 };
    // SAFETY: a lower dataset, and arguments of our own for an operation that answers with an identifier.
    done(unsafe { (slot.api.dataset_get)(under, vol, (&raw mut args).cast(), 0, null_mut()) })?;
    Ok(args.answer)
}

/// Returns whether a lower dataset has elements, but none was ever written.
pub(super) fn is_untouched(slot: &Slot, under: P, vol: Hid) -> Outcome<bool> {
    let space = ask(slot, under, vol, GET_SPACE)?;
    // SAFETY: a dataspace of our own.
    let elements = slot.keep_errors(|| unsafe {
        let elements = (slot.api.selected)(space);
        (slot.api.space_close)(space);
        elements
    });
    let mut status = ALLOCATED;
    let answer = (&raw mut status) as Hid;
    let mut args = GetArguments { operation: GET_SPACE_STATUS, answer };
    // SAFETY: a lower dataset, and arguments of our own with a live place for the answer.
    done(unsafe { (slot.api.dataset_get)(under, vol, (&raw mut args).cast(), 0, null_mut()) })?;
    Ok(elements > 0 && status == NOT_ALLOCATED)
}

/// Returns the marker of a lower dataset; `None` if it has none.
pub(super) fn marker(slot: &'static Slot, under: P, vol: Hid) -> Option<Marker> {
    let plist = PropertyList { slot, id: ask(slot, under, vol, GET_DCPL).ok()? };
    // SAFETY: a list of our own.
    if unsafe { (slot.api.plist_layout)(plist.id) } == VIRTUAL {
        return marker_of_blocks(slot, &plist);
    }
    // SAFETY: a list of our own.
    let count = unsafe { (slot.api.plist_externals)(plist.id) };
    let last = u32::try_from(count).ok()?.checked_sub(1)?;
    let mut name = [0_u8; 256];
    // SAFETY: a buffer of the size that is passed; the other results are not requested.
    let status = unsafe {
        (slot.api.plist_external)(
            plist.id,
            last,
            name.len(),
            name.as_mut_ptr().cast(),
            null_mut(),
            null_mut(),
        )
    };
    let text = name.split(|byte| *byte == 0).next().filter(|_| status >= 0)?;
    let file = hyperchunk::model::ExternalFile {
        name: hyperchunk::model::Name::from(std::str::from_utf8(text).ok()?),
        offset: 0,
        size: None,
    };
    Marker::from_external_files(&[file])
}

/// Returns the marker of a virtual dataset over blocks of logs.
fn marker_of_blocks(slot: &Slot, plist: &PropertyList) -> Option<Marker> {
    let mut count = 0;
    // SAFETY: a list of our own, a live place.
    if unsafe { (slot.api.plist_virtuals)(plist.id, &raw mut count) } < 0 || count == 0 {
        return None;
    }
    // SAFETY: a list of our own, a buffer of the size that is passed.
    let file = text(&|to, size| unsafe { (slot.api.plist_virtual_file)(plist.id, 0, to, size) })?;
    // SAFETY: as above.
    let path = text(&|to, size| unsafe { (slot.api.plist_virtual_dataset)(plist.id, 0, to, size) })?;
    if file != "." {
        return None;
    }
    Marker::from_block_path(path.to_str()?)
}

/// Returns whether a lower dataset's elements are in external files.
pub(super) fn has_external_files(slot: &'static Slot, under: P, vol: Hid) -> Outcome<bool> {
    let plist = PropertyList { slot, id: ask(slot, under, vol, GET_DCPL)? };
    // SAFETY: a list of our own.
    Ok(unsafe { (slot.api.plist_externals)(plist.id) } > 0)
}

/// Rebuilds the creation list of a dataset from its definition: libhdf5 only knows the stub's.
pub(super) fn creation_list(
    slot: &'static Slot,
    under: P,
    vol: Hid,
    definition: &Definition,
) -> Outcome<PropertyList> {
    let stand_in = PropertyList { slot, id: ask(slot, under, vol, GET_DCPL)? };
    let kind = ask(slot, under, vol, GET_TYPE)?;
    // SAFETY: lists and a type of our own; live arrays of the sizes that are passed.
    unsafe {
        let api = &slot.api;
        let class = (api.plist_class)(stand_in.id);
        let plist = PropertyList { slot, id: (api.plist_create)(class) };
        let status = || -> Outcome<()> {
            if let Some(chunk) = &definition.chunk {
                let rank = c_int::try_from(chunk.len()).unwrap_or(c_int::MAX);
                done((slot.library.f.plist_set_chunk)(plist.id, rank, chunk.as_ptr()))?;
            }
            for filter in &definition.pipeline {
                let words = &filter.parameters;
                let (id, flags) = (c_int::from(filter.id), u32::from(filter.optional));
                done((slot.library.f.plist_set_filter)(plist.id, id, flags, words.len(), words.as_ptr()))?;
            }
            if let FillWhen::User(value) = &definition.fill.value
                && value.len() as u64 == definition.element_size()
            {
                done((api.plist_set_fill)(plist.id, kind, value.as_ptr().cast()))?;
            }
            Ok(())
        }();
        slot.keep_errors(|| {
            (api.plist_close_class)(class);
            (api.type_close)(kind);
        });
        status.map(|()| plist)
    }
}
