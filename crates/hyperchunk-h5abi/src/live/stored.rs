//! Inputs in stored form, for workers that decode chunks themselves.
//!
//! All other inputs are read through the library, which reports errors.

use super::plan::absolute;
use crate::Result;
use crate::errors::ErrorStackGuard;
use crate::handles::{Handle, c_name};
use crate::library::Library;
use crate::symbols::{CLASS_FLOAT, CLASS_INTEGER, Hid};
use hyperchunk_udf::backend::Backend;
use hyperchunk_udf::record::{Block, Record, Slot};
use hyperchunk_udf::stored::{DecodeSupport, Filter, StoredBlock, StoredChunk};

/// Maximum number of client data words of a filter; the filters that workers can decode have a few.
const MAX_WORDS: usize = 16;
/// `H5T_ORDER_LE`, `H5T_ORDER_BE`.
const LITTLE_ENDIAN: i32 = 0;
const BIG_ENDIAN: i32 = 1;

/// The storage form of a dataset's chunks, if a worker can decode them.
pub(super) struct StorageForm {
    chunk: Vec<u64>,
    filters: Vec<Filter>,
    /// Size in bytes of the units whose byte order is reversed; 1 for none.
    swap: u32,
    needed: DecodeSupport,
}

impl StorageForm {
    /// Returns `None` if a worker cannot decode the chunks.
    pub(super) fn from_dataset(library: &'static Library, dataset: &Handle) -> Result<Option<StorageForm>> {
        let plist = library.create_plist(dataset.id)?;
        let (Some(chunk), Some(filters)) = (library.chunk_shape(plist.id), filters(library, plist.id)) else {
            return Ok(None);
        };
        let needed = DecodeSupport::needed(filters.iter().map(|filter| filter.id));
        let swap = reversed(library, dataset)?;
        Ok(needed.zip(swap).map(|(needed, swap)| StorageForm { chunk, filters, swap, needed }))
    }
}

/// Returns the filters of a creation list.
fn filters(library: &Library, plist: Hid) -> Option<Vec<Filter>> {
    // SAFETY: any identifier may be asked.
    let count = u32::try_from(unsafe { (library.f.plist_filters)(plist) }).ok()?;
    let one = |number| {
        let (mut flags, mut count, mut words) = (0, MAX_WORDS, [0_u32; MAX_WORDS]);
        // SAFETY: all buffers are live and of the sizes that are passed; the name and the configuration are
        // not requested.
        let id = unsafe {
            (library.f.plist_filter)(
                plist,
                number,
                &raw mut flags,
                &raw mut count,
                words.as_mut_ptr(),
                0,
                std::ptr::null_mut(),
                std::ptr::null_mut(),
            )
        };
        let parameters = words.get(..count)?.to_vec();
        Some(Filter { id: u16::try_from(id).ok()?, parameters })
    };
    (0..count).map(one).collect()
}

/// Returns the size in bytes of the units whose byte order is reversed; 1 if elements are stored as in
/// memory, `None` if they differ otherwise.
fn reversed(library: &'static Library, dataset: &Handle) -> Result<Option<u32>> {
    let stored = library.dataset_type(dataset.id)?;
    let (native, ..) = library.input_type(Backend::Cuda, stored.id)?;
    // SAFETY: open types.
    let (equal, class, size, order) = unsafe {
        (
            (library.f.type_equal)(native.id, stored.id) > 0,
            (library.f.type_class)(stored.id),
            (library.f.type_size)(stored.id),
            (library.f.type_order)(stored.id),
        )
    };
    if equal {
        return Ok(Some(1));
    }
    if !matches!(class, CLASS_INTEGER | CLASS_FLOAT) || !matches!(size, 2 | 4 | 8) || order != BIG_ENDIAN {
        return Ok(None);
    }
    // SAFETY: an open type; the copy is ours.
    let turned = library.wrap_type(unsafe { (library.f.type_copy)(stored.id) }, "its datatype")?;
    // SAFETY: open types.
    let same = unsafe {
        (library.f.type_set_order)(turned.id, LITTLE_ENDIAN) >= 0
            && (library.f.type_equal)(native.id, turned.id) > 0
    };
    Ok(u32::try_from(size).ok().filter(|_| same))
}

/// Copies the stored chunks of a block of an input into memory, if the worker can decode them. Returns the
/// number of bytes; 0 if the input has to be read otherwise.
pub(super) fn read(
    library: &'static Library,
    live: Hid,
    record: &Record,
    slot: &Slot,
    (offset, shape): &Block,
    decodes: DecodeSupport,
    to: &mut [u8],
) -> Result<u64> {
    let _quiet = ErrorStackGuard::new(library);
    let file = library.object_file(live)?;
    let dataset = library.open_dataset(file.id, &c_name(&absolute(&slot.name))?)?;
    let (_, datatype, _) = library.input_type(record.backend, library.dataset_type(dataset.id)?.id)?;
    let dims = library.dims(library.dataset_space(dataset.id)?.id)?;
    let form = StorageForm::from_dataset(library, &dataset)?.filter(|form| form.needed <= decodes);
    let Some(form) = form.filter(|_| datatype == slot.datatype && record.fits(slot, &dims)) else {
        return Ok(0);
    };
    Ok(filled(library, dataset.id, &form, (&dims, offset, shape), datatype.size(), to).unwrap_or(0))
}

fn filled(
    library: &Library,
    dataset: Hid,
    form: &StorageForm,
    (dims, offset, shape): (&[u64], &[u64], &[u64]),
    element: usize,
    to: &mut [u8],
) -> Option<u64> {
    let chunk_bytes =
        form.chunk.iter().try_fold(element as u64, |bytes, extent| bytes.checked_mul(*extent))?;
    let (chunks, starts) = chunks(&form.chunk, offset, shape, to.len())?;
    let mut stored = StoredBlock {
        chunk: form.chunk.clone(),
        filters: form.filters.clone(),
        swap: form.swap,
        fill: vec![0; element],
        chunks,
    };
    let mut sizes = Vec::with_capacity(starts.len());
    for start in &starts {
        let mut size = 0;
        // SAFETY: the offset has the dataset's rank; one live integer.
        let told = unsafe { (library.f.dataset_chunk_size)(dataset, start.as_ptr(), &raw mut size) } >= 0;
        // A chunk that was never written has no size.
        sizes.push(Some(size).filter(|size| told && *size > 0)?);
    }
    let bytes = stored.place(&sizes).filter(|bytes| *bytes <= to.len() as u64)?;
    let mut masks = Vec::with_capacity(starts.len());
    for ((_, place), start) in stored.places(to)?.into_iter().zip(&starts) {
        let mut mask = 0_u32;
        // SAFETY: the offset has the dataset's rank; the buffer has the size that HDF5 returned, which does
        // not change meanwhile.
        let read = unsafe {
            (library.f.dataset_read_chunk)(
                dataset,
                0,
                start.as_ptr(),
                &raw mut mask,
                place.as_mut_ptr().cast(),
            )
        };
        let past = start.iter().zip(&form.chunk).zip(dims).any(|((start, chunk), dim)| start + chunk > *dim);
        // Chunks that reach past the edges may be stored without filters, which the mask does not show.
        let unclear = past && mask == 0 && !form.filters.is_empty() && place.len() as u64 == chunk_bytes;
        masks.push(Some(mask).filter(|_| read >= 0 && !unclear)?);
    }
    for (stored_chunk, mask) in stored.chunks.iter_mut().zip(masks) {
        stored_chunk.mask = mask;
    }
    stored.write(to)?;
    Some(bytes)
}

/// Returns the parts of chunks that make up a block, and the first element of each chunk. `None` if their
/// table needs more than `room` bytes, or there are no elements.
fn chunks(
    chunk: &[u64],
    offset: &[u64],
    shape: &[u64],
    room: usize,
) -> Option<(Vec<StoredChunk>, Vec<Vec<u64>>)> {
    let rank = chunk.len();
    if offset.len() != rank || shape.len() != rank || chunk.contains(&0) || shape.contains(&0) {
        return None;
    }
    let ends: Vec<u64> = offset.iter().zip(shape).map(|(o, s)| o.checked_add(*s)).collect::<Option<_>>()?;
    let first: Vec<u64> = offset.iter().zip(chunk).map(|(o, c)| o / c).collect();
    let last: Vec<u64> = ends.iter().zip(chunk).map(|(e, c)| (e - 1) / c).collect();
    let count = first.iter().zip(&last).try_fold(1_u64, |all, (f, l)| all.checked_mul(l - f + 1))?;
    if count.checked_mul(20 + 24 * rank as u64)? > room as u64 {
        return None;
    }
    let (mut chunks, mut starts) = (Vec::new(), Vec::new());
    let mut place = first.clone();
    loop {
        let start: Vec<u64> = place.iter().zip(chunk).map(|(p, c)| p * c).collect();
        let mut stored_chunk =
            StoredChunk { bytes: Some(0..0), mask: 0, from: Vec::new(), to: Vec::new(), count: Vec::new() };
        for (axis, at) in start.iter().enumerate() {
            let low = (*at).max(offset[axis]);
            let high = at.saturating_add(chunk[axis]).min(ends[axis]);
            stored_chunk.from.push(low - at);
            stored_chunk.to.push(low - offset[axis]);
            stored_chunk.count.push(high - low);
        }
        chunks.push(stored_chunk);
        starts.push(start);
        let Some(axis) = (0..rank).rev().find(|axis| place[*axis] < last[*axis]) else {
            return Some((chunks, starts));
        };
        place[axis] += 1;
        place[axis + 1..].copy_from_slice(&first[axis + 1..]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_chunks_cover_the_block() {
        let check = |chunk: &[u64], offset: &[u64], shape: &[u64], count: usize| {
            let (chunks, starts) = chunks(chunk, offset, shape, 1 << 20).unwrap();
            assert_eq!((chunks.len(), starts.len()), (count, count));
            let mut seen = vec![false; usize::try_from(shape.iter().product::<u64>()).unwrap()];
            for (stored_chunk, start) in chunks.iter().zip(&starts) {
                for n in 0..stored_chunk.count.iter().product() {
                    let (mut rest, mut at, mut step) = (n, 0, 1);
                    for axis in (0..chunk.len()).rev() {
                        let inside = rest % stored_chunk.count[axis];
                        rest /= stored_chunk.count[axis];
                        assert!(stored_chunk.from[axis] + inside < chunk[axis]);
                        let global = start[axis] + stored_chunk.from[axis] + inside;
                        assert_eq!(global, offset[axis] + stored_chunk.to[axis] + inside);
                        at += (stored_chunk.to[axis] + inside) * step;
                        step *= shape[axis];
                    }
                    let seen = &mut seen[usize::try_from(at).unwrap()];
                    assert!(!std::mem::replace(seen, true), "each element once");
                }
            }
            assert!(seen.iter().all(|seen| *seen));
        };
        check(&[10], &[0], &[10], 1);
        check(&[10], &[9], &[12], 3);
        check(&[4, 5], &[3, 4], &[5, 6], 4);
        check(&[4, 5, 1], &[0, 0, 7], &[9, 5, 2], 6);
        assert!(chunks(&[1], &[0], &[1000], 1000).is_none());
        assert!(chunks(&[4, 4], &[0, 0], &[0, 4], 1000).is_none());
        assert!(chunks(&[4], &[u64::MAX], &[2], 1000).is_none());
    }
}
