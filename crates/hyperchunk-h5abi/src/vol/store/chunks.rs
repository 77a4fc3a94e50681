//! Calls about single chunks. Elements that were not written as a whole chunk are encoded on request.

use super::super::api::P;
use super::super::failure::{ON_ERROR_STACK, Outcome, refuse};
use super::super::slot::Slot;
use super::layers::stored;
use super::{SharedDataset, StoreDataset};
use crate::symbols::{ADDRESS_UNDEFINED, Herr};
use hyperchunk::codec::Encoder;
use hyperchunk_store::Hyperslab;
use std::ffi::{c_int, c_uint, c_void};
use std::sync::Arc;

/// The operations of `H5VLnative.h`.
const GET_CHUNK_SIZE: c_int = 2;
const GET_CHUNK_COUNT: c_int = 3;
const GET_CHUNK_BY_NUMBER: c_int = 4;
const GET_CHUNK_BY_OFFSET: c_int = 5;
const READ_CHUNK: c_int = 6;
const WRITE_CHUNK: c_int = 7;
const GET_SEQUENCES_SIZE: c_int = 8;
const GET_OFFSET: c_int = 9;
const ITERATE_CHUNKS: c_int = 10;

/// `H5VL_optional_args_t`.
#[repr(C)]
struct OptionalArguments {
    operation: c_int,
    arguments: P,
}

/// The arguments of each operation.
#[repr(C)]
struct ChunkSizeArguments {
    offset: *const u64,
    size: *mut u64,
}
#[repr(C)]
struct ChunkCountArguments {
    space: i64,
    count: *mut u64,
}
#[repr(C)]
struct ChunkByNumberArguments {
    space: i64,
    number: u64,
    offset: *mut u64,
    mask: *mut c_uint,
    address: *mut u64,
    size: *mut u64,
}
#[repr(C)]
struct ChunkByOffsetArguments {
    offset: *const u64,
    mask: *mut c_uint,
    address: *mut u64,
    size: *mut u64,
}
#[repr(C)]
struct ReadChunkArguments {
    offset: *const u64,
    mask: u32,
    buffer: *mut u8,
    /// Since 2.0: the size of the buffer.
    size: *mut usize,
}
#[repr(C)]
struct WriteChunkArguments {
    offset: *const u64,
    mask: u32,
    size: usize,
    buffer: *const u8,
}
/// `WriteChunkArguments` in 1.14.
#[repr(C)]
struct OldWriteChunkArguments {
    offset: *const u64,
    mask: u32,
    size: u32,
    buffer: *const u8,
}
#[repr(C)]
struct ChunkIterateArguments {
    visit: unsafe extern "C" fn(*const u64, c_uint, u64, u64, P) -> c_int,
    state: P,
}

/// A chunk in its stored form.
struct StoredChunk {
    mask: u32,
    bytes: Vec<u8>,
    /// Its address in a log, for callers that only compare addresses.
    address: u64,
}

/// Returns the offsets of the written chunks, sorted.
pub(super) fn written_chunks(shared: &SharedDataset) -> hyperchunk::Result<Arc<Vec<Vec<u64>>>> {
    match &shared.definition.chunk {
        Some(chunk) => shared.with_layers(|layers| layers.written_chunks(chunk)),
        None => Ok(Arc::default()),
    }
}

/// Returns the offsets of the allocated chunks: the written ones, or all if space is allocated early.
pub(super) fn allocated(shared: &SharedDataset) -> hyperchunk::Result<Arc<Vec<Vec<u64>>>> {
    match &shared.definition.chunk {
        Some(chunk) if shared.is_early() => {
            let dims = shared.dims();
            let everything = Hyperslab::new(vec![0; dims.len()], dims.as_slice());
            shared.with_layers(|layers| layers.allocated(&everything, chunk))
        }
        _ => written_chunks(shared),
    }
}

/// Returns whether a chunk is allocated.
fn is_allocated(shared: &SharedDataset, offset: &[u64]) -> hyperchunk::Result<bool> {
    Ok(allocated(shared)?.binary_search_by(|chunk| (**chunk).cmp(offset)).is_ok())
}

impl SharedDataset {
    /// Returns the offset of the chunk that contains an element.
    fn chunk_around(&self, coordinates: &[u64]) -> Vec<u64> {
        let chunk = self.definition.chunk.as_deref().unwrap_or_default();
        coordinates.iter().zip(chunk).map(|(at, size)| at.saturating_sub(at % (*size).max(1))).collect()
    }
}

/// Returns the storage size of a dataset in bytes. Contiguous: its full size once anything was written or if
/// space is allocated early, else 0. Chunked: the total size of the allocated chunks, as stored.
pub(super) fn storage_size(shared: &SharedDataset) -> hyperchunk::Result<u64> {
    let element = shared.definition.element_size();
    let product = |dims: &[u64]| dims.iter().fold(element, |size, dim| size.saturating_mul(*dim));
    match &shared.definition.chunk {
        None if shared.is_written()? || shared.is_early() => Ok(product(&shared.dims())),
        None => Ok(0),
        Some(chunk) if shared.definition.pipeline.is_empty() => {
            Ok((allocated(shared)?.len() as u64).saturating_mul(product(chunk)))
        }
        Some(_) => {
            let mut size = 0_u64;
            for offset in allocated(shared)?.iter() {
                size = size.saturating_add(chunk_at(shared, offset)?.bytes.len() as u64);
            }
            Ok(size)
        }
    }
}

/// Returns the chunk at an offset, as it was written, or as the filters encode it.
fn chunk_at(shared: &SharedDataset, offset: &[u64]) -> hyperchunk::Result<StoredChunk> {
    let chunk = shared.definition.chunk.as_deref().unwrap_or_default();
    let slab = Hyperslab::new(offset, chunk);
    if let Some((source, piece, mask)) = shared.with_layers(|layers| layers.chunk_as_written(&slab))? {
        return Ok(StoredChunk { mask, bytes: stored(&source, &piece)?, address: piece.offset });
    }
    let size = slab.elements()?.saturating_mul(shared.definition.element_size());
    let mut bytes = vec![0; usize::try_from(size).unwrap_or(usize::MAX)];
    shared.read(&slab, &mut bytes)?;
    let mut encoder = Encoder::new();
    let (filtered, mask) = encoder.encode(&shared.definition.pipeline, &bytes)?;
    // The address of any piece: callers only test whether there is one.
    let mut address = 0;
    shared.with_layers(|layers| layers.in_box(&slab, &mut |_, piece, _| address = piece.offset))?;
    Ok(StoredChunk { mask, bytes: filtered.to_vec(), address })
}

/// The destinations of a chunk's properties; each may be null.
struct ChunkInfo {
    mask: *mut c_uint,
    address: *mut u64,
    size: *mut u64,
}

impl ChunkInfo {
    /// Stores the properties.
    ///
    /// # Safety
    /// The fields are addresses from the caller, or null.
    unsafe fn store(&self, mask: u32, address: u64, size: u64) {
        // SAFETY: by this function's contract.
        unsafe {
            if let Some(destination) = self.mask.as_mut() {
                *destination = mask;
            }
            if let Some(destination) = self.address.as_mut() {
                *destination = address;
            }
            if let Some(destination) = self.size.as_mut() {
                *destination = size;
            }
        }
    }
}

/// Returns the name of the API function that calls an operation.
fn call_name(operation: c_int) -> String {
    let name = match operation {
        0 => "H5Dformat_convert",
        1 => "H5Dget_chunk_index_type",
        GET_CHUNK_SIZE => "H5Dget_chunk_storage_size",
        GET_CHUNK_COUNT => "H5Dget_num_chunks",
        GET_CHUNK_BY_NUMBER => "H5Dget_chunk_info",
        GET_CHUNK_BY_OFFSET => "H5Dget_chunk_info_by_coord",
        READ_CHUNK => "H5Dread_chunk",
        WRITE_CHUNK => "H5Dwrite_chunk",
        GET_SEQUENCES_SIZE => "H5Dvlen_get_buf_size",
        GET_OFFSET => "H5Dget_offset",
        ITERATE_CHUNKS => "H5Dchunk_iter",
        other => return format!("operation {other} of H5VLdataset_optional_op"),
    };
    name.to_owned()
}

/// Performs `H5VL_dataset_optional`. No operation is passed on to the stub.
///
/// # Safety
/// Arguments of that callback.
pub(in crate::vol) unsafe fn optional(slot: &Slot, dataset: &StoreDataset, args: P) -> Outcome<Herr> {
    // SAFETY: by this function's contract.
    let (operation, args) = unsafe {
        ((*args.cast::<OptionalArguments>()).operation, (*args.cast::<OptionalArguments>()).arguments)
    };
    let shared = &dataset.shared;
    let rank = shared.definition.dims.len();
    let chunked = shared.definition.chunk.is_some();
    if matches!(operation, GET_CHUNK_SIZE..=WRITE_CHUNK | ITERATE_CHUNKS) && !chunked {
        refuse!("cannot serve {}: not a chunked dataset", call_name(operation))
    }
    // SAFETY: `offset` points to as many coordinates as the dataset has dimensions.
    let at = |offset: *const u64| unsafe { std::slice::from_raw_parts(offset, rank) }.to_vec();
    match operation {
        GET_CHUNK_SIZE => {
            // SAFETY: arguments of this operation.
            let args = unsafe { &*args.cast::<ChunkSizeArguments>() };
            let offset = shared.chunk_around(&at(args.offset));
            let size = match is_allocated(shared, &offset)? {
                true => chunk_at(shared, &offset)?.bytes.len() as u64,
                // As in libhdf5: a missing chunk has a size only if there are no chunks yet.
                false if shared.is_written()? => refuse!(
                    "cannot tell the size of a chunk (H5Dget_chunk_storage_size): nothing was written to the chunk at \
                     {offset:?}"
                ),
                false => 0,
            };
            // SAFETY: the caller's destination of a size.
            unsafe { *args.size = size };
        }
        GET_CHUNK_COUNT => {
            // SAFETY: arguments of this operation.
            unsafe { *(*args.cast::<ChunkCountArguments>()).count = allocated(shared)?.len() as u64 };
        }
        GET_CHUNK_BY_NUMBER => {
            // SAFETY: arguments of this operation.
            let args = unsafe { &*args.cast::<ChunkByNumberArguments>() };
            let chunks = allocated(shared)?;
            let number = usize::try_from(args.number).unwrap_or(usize::MAX);
            let Some(offset) = chunks.get(number) else {
                refuse!(
                    "cannot describe a chunk (H5Dget_chunk_info): expected a number below {}, got {}",
                    chunks.len(),
                    args.number
                )
            };
            let chunk = chunk_at(shared, offset)?;
            // SAFETY: the caller's destinations; that of an offset has room for `rank` coordinates.
            unsafe {
                if !args.offset.is_null() {
                    std::ptr::copy_nonoverlapping(offset.as_ptr(), args.offset, rank);
                }
                ChunkInfo { mask: args.mask, address: args.address, size: args.size }.store(
                    chunk.mask,
                    chunk.address,
                    chunk.bytes.len() as u64,
                );
            }
        }
        GET_CHUNK_BY_OFFSET => {
            // SAFETY: arguments of this operation.
            let args = unsafe { &*args.cast::<ChunkByOffsetArguments>() };
            let offset = shared.chunk_around(&at(args.offset));
            let told = ChunkInfo { mask: args.mask, address: args.address, size: args.size };
            let chunk = match is_allocated(shared, &offset)? {
                true => chunk_at(shared, &offset)?,
                false => StoredChunk { mask: 0, bytes: Vec::new(), address: ADDRESS_UNDEFINED },
            };
            // SAFETY: the caller's destinations.
            unsafe { told.store(chunk.mask, chunk.address, chunk.bytes.len() as u64) };
        }
        READ_CHUNK => read_chunk(slot, shared, args.cast(), &at)?,
        WRITE_CHUNK => {
            // SAFETY: arguments of this operation, as this release has them.
            let (offset, mask, size, buffer) = unsafe {
                if slot.library.version().0 < 2 {
                    let args = &*args.cast::<OldWriteChunkArguments>();
                    (args.offset, args.mask, args.size as usize, args.buffer)
                } else {
                    let args = &*args.cast::<WriteChunkArguments>();
                    (args.offset, args.mask, args.size, args.buffer)
                }
            };
            // SAFETY: by HDF5's contract the buffer has that many bytes.
            let bytes = unsafe { std::slice::from_raw_parts(buffer, size) };
            shared.write_chunk(&at(offset), mask, bytes)?;
        }
        ITERATE_CHUNKS => {
            // SAFETY: arguments of this operation.
            let args = unsafe { &*args.cast::<ChunkIterateArguments>() };
            for offset in allocated(shared)?.iter() {
                let chunk = chunk_at(shared, offset)?;
                let size = chunk.bytes.len() as u64;
                // SAFETY: the caller's function, and an offset of as many coordinates as the dataset has dimensions.
                let status =
                    unsafe { (args.visit)(offset.as_ptr(), chunk.mask, chunk.address, size, args.state) };
                if status < 0 {
                    return Err(ON_ERROR_STACK);
                }
                if status > 0 {
                    return Ok(status);
                }
            }
        }
        GET_OFFSET => {
            // SAFETY: arguments of this operation: the destination of an address.
            unsafe { **args.cast::<*mut u64>() = ADDRESS_UNDEFINED };
        }
        GET_SEQUENCES_SIZE => refuse!("cannot serve {}: this dataset has no sequences", call_name(operation)),
        other => refuse!("cannot serve {}: not supported for a dataset of a sharded store", call_name(other)),
    }
    Ok(0)
}

fn read_chunk(
    slot: &Slot,
    shared: &SharedDataset,
    args: *mut c_void,
    at: &dyn Fn(*const u64) -> Vec<u64>,
) -> Outcome<()> {
    let args = args.cast::<ReadChunkArguments>();
    // SAFETY: arguments of this operation.
    let offset = at(unsafe { (*args).offset });
    if !is_allocated(shared, &offset)? {
        refuse!("cannot read a chunk (H5Dread_chunk): nothing was written to the chunk at {offset:?}")
    }
    let chunk = chunk_at(shared, &offset)?;
    // SAFETY: arguments of this operation; older releases have no size field, their callers query the size
    // first.
    unsafe {
        (*args).mask = chunk.mask;
        let mut room = usize::MAX;
        if slot.library.version().0 >= 2 && !(*args).size.is_null() {
            room = std::mem::replace(&mut *(*args).size, chunk.bytes.len());
        }
        // As in libhdf5: if the buffer is too small, only the size is returned.
        if !(*args).buffer.is_null() && room >= chunk.bytes.len() {
            std::ptr::copy_nonoverlapping(chunk.bytes.as_ptr(), (*args).buffer, chunk.bytes.len());
        }
    }
    Ok(())
}
