//! Planning of a read: the method for each chunk, and the division into batches.

use super::geometry::{Copy, MAX_RANK};
use super::{ChunkBytes, Options, Request};
use crate::error::fail;
use crate::nvcomp::Algorithm;
use crate::{Error, Result};
use std::ops::Range;

/// Size of the pieces in which plain data are read, in bytes.
const READ_BYTES: u64 = 2 << 20;
/// Maximum number of chunks in a batch, below the maximum number of rows of blocks in a grid.
const MAX_BATCH_CHUNKS: usize = 4096;
/// Maximum number of bytes by which a stored chunk may exceed its elements: filters that gain nothing add
/// headers.
const MAX_FILTER_OVERHEAD_BYTES: u64 = 1 << 16;

const DEFLATE: u16 = 1;
const SHUFFLE: u16 = 2;
const FLETCHER32: u16 = 3;
const SNAPPY: u16 = 32003;
const LZ4: u16 = 32004;
const ZSTD: u16 = 32015;

/// The method of converting a chunk's bytes to elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Conversion {
    /// None: the bytes are elements already.
    Plain,
    /// One value for all elements.
    Fill,
    /// On the GPU: decompressed, then unshuffled.
    Gpu { algorithm: Option<Algorithm>, shuffle: Option<u32>, fletcher32: bool },
    /// By the processor.
    Cpu,
}

/// A unit of work: a chunk, or a part of one without filters.
#[derive(Clone, Debug)]
pub(super) struct Task<'a> {
    /// The location of the bytes; for a part of plain data, only of its own bytes.
    pub(super) stored: ChunkBytes<'a>,
    pub(super) mask: u32,
    pub(super) how: Conversion,
    /// The size of all elements of the chunk, or of the piece, in bytes.
    pub(super) raw: usize,
    /// The copies, relative to the first byte that is read, or of the chunk.
    pub(super) copies: Vec<Copy>,
}

impl Task<'_> {
    /// Returns the number of stored bytes.
    pub(super) fn bytes(&self) -> usize {
        match self.stored {
            ChunkBytes::At { bytes, .. } => usize::try_from(bytes).unwrap_or(usize::MAX),
            ChunkBytes::Bytes(bytes) | ChunkBytes::Fill(bytes) => bytes.len(),
        }
    }

    /// Returns the number of bytes of page-locked memory that the task needs.
    pub(super) fn room(&self) -> usize {
        match self.how {
            Conversion::Cpu => self.raw,
            _ => self.bytes(),
        }
    }

    /// Returns whether the data are copied directly into the array.
    pub(super) fn is_direct(&self, swap: usize) -> bool {
        self.how == Conversion::Plain && swap <= 1 && self.copies.len() == 1 && self.copies[0].is_plain()
    }

    /// Returns the task's name for messages.
    pub(super) fn place(&self) -> String {
        match self.stored {
            ChunkBytes::At { offset, .. } => format!("the chunk at byte {offset}"),
            ChunkBytes::Bytes(_) => "a chunk".to_owned(),
            ChunkBytes::Fill(_) => "a chunk that is not stored".to_owned(),
        }
    }
}

/// Returns the tasks of a request.
pub(super) fn tasks<'a>(request: &Request<'a>, options: &Options<'_>) -> Result<Vec<Task<'a>>> {
    let element = request.element as u64;
    let elements = request.chunk.iter().try_fold(element, |all, size| all.checked_mul(*size));
    let Some(chunk_bytes) = elements else {
        fail!(Limit, "chunks of {:?} elements are larger than the address space", request.chunk)
    };
    let mut tasks = Vec::with_capacity(request.parts.len());
    for part in &request.parts {
        if let ChunkBytes::Fill(value) = part.stored {
            if value.len() != request.element {
                fail!(
                    Invalid,
                    "the fill value has {} bytes, but elements have {}",
                    value.len(),
                    request.element
                )
            }
            let copy = Copy::fill(request.dims, &part.to, &part.size, element)?;
            if copy.bytes() > 0 {
                let copies = copy.with_rank(MAX_RANK);
                tasks.push(Task {
                    stored: part.stored,
                    mask: 0,
                    how: Conversion::Fill,
                    raw: request.element,
                    copies,
                });
            }
            continue;
        }
        let copy = Copy::new(request.chunk, &part.from, request.dims, &part.to, &part.size, element)?;
        if copy.bytes() == 0 {
            continue;
        }
        let how = conversion(request, part.mask, chunk_bytes, options);
        let stored_bytes = match part.stored {
            ChunkBytes::At { bytes, .. } => bytes,
            ChunkBytes::Bytes(bytes) | ChunkBytes::Fill(bytes) => bytes.len() as u64,
        };
        if how == Conversion::Plain {
            if stored_bytes < chunk_bytes {
                return Err(too_short(&part.stored, stored_bytes, chunk_bytes));
            }
            let mut pieces = Vec::new();
            copy.cut(READ_BYTES, &mut pieces);
            for mut piece in pieces {
                let (start, span) = (piece.from, piece.span());
                piece.from = 0;
                let stored = slice_stored(&part.stored, start, span)?;
                let copies = piece.with_rank(MAX_RANK);
                let raw = usize::try_from(span).unwrap_or(usize::MAX);
                tasks.push(Task { stored, mask: part.mask, how, raw, copies });
            }
            continue;
        }
        if stored_bytes > chunk_bytes.saturating_mul(4).saturating_add(MAX_FILTER_OVERHEAD_BYTES) {
            fail!(
                Damaged,
                "a chunk has {stored_bytes} stored bytes, too many for {chunk_bytes} bytes of elements"
            )
        }
        let Ok(raw) = usize::try_from(chunk_bytes) else {
            fail!(Limit, "a chunk of {chunk_bytes} bytes is larger than the address space")
        };
        let copies = copy.with_rank(MAX_RANK);
        tasks.push(Task { stored: part.stored, mask: part.mask, how, raw, copies });
    }
    Ok(tasks)
}

#[cold]
fn too_short(stored: &ChunkBytes<'_>, bytes: u64, wanted: u64) -> Error {
    let place = match stored {
        ChunkBytes::At { offset, .. } => format!("at byte {offset}: "),
        _ => String::new(),
    };
    let text = format!("{place}{bytes} bytes are stored for {wanted} bytes of elements");
    Error::new(crate::ErrorKind::Damaged, text)
}

/// Returns a part of the stored bytes.
fn slice_stored<'a>(stored: &ChunkBytes<'a>, start: u64, bytes: u64) -> Result<ChunkBytes<'a>> {
    match stored {
        ChunkBytes::At { offset, .. } => match offset.checked_add(start) {
            Some(offset) => Ok(ChunkBytes::At { offset, bytes }),
            None => fail!(Damaged, "data at byte {offset} would end beyond 2^64"),
        },
        ChunkBytes::Bytes(all) | ChunkBytes::Fill(all) => {
            let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
            match all.get(place(start)..place(start.saturating_add(bytes))) {
                Some(found) => Ok(ChunkBytes::Bytes(found)),
                None => Err(too_short(stored, all.len() as u64, start.saturating_add(bytes))),
            }
        }
    }
}

/// Returns the decoding method for chunks with a mask.
fn conversion(request: &Request<'_>, mask: u32, chunk_bytes: u64, options: &Options<'_>) -> Conversion {
    let applied =
        request.filters.iter().enumerate().filter(|(number, _)| {
            mask & 1_u32.unbounded_shl(u32::try_from(*number).unwrap_or(u32::MAX)) == 0
        });
    let (mut algorithm, mut shuffle, mut fletcher32) = (None, None, false);
    let mut any = false;
    for (_, filter) in applied {
        any = true;
        // Shuffle, then a compressor, then the checksum: each optional, in this order.
        let found = match filter.id {
            SHUFFLE if shuffle.is_none() && algorithm.is_none() && !fletcher32 => {
                shuffle = filter.parameters.first().copied().filter(|size| *size > 0);
                shuffle.is_some()
            }
            FLETCHER32 if !fletcher32 => {
                fletcher32 = true;
                true
            }
            id if algorithm.is_none() && !fletcher32 => {
                algorithm = match id {
                    DEFLATE => Some(Algorithm::Deflate),
                    SNAPPY => Some(Algorithm::Snappy),
                    LZ4 => Some(Algorithm::Lz4),
                    ZSTD => Some(Algorithm::Zstd),
                    _ => None,
                };
                algorithm.is_some_and(|algorithm| {
                    let known = options.nvcomp.is_some_and(|nvcomp| nvcomp.decompresses(algorithm));
                    known && chunk_bytes <= algorithm.max_decompressed_bytes()
                })
            }
            _ => false,
        };
        if !found {
            return Conversion::Cpu;
        }
    }
    if !any {
        return Conversion::Plain;
    }
    Conversion::Gpu { algorithm, shuffle: shuffle.filter(|size| *size > 1), fletcher32 }
}

/// Divides the tasks into batches, in their order.
pub(super) fn batches(tasks: &[Task<'_>], bytes: usize) -> Vec<Range<usize>> {
    let bytes = bytes.max(1);
    let mut batches = Vec::new();
    let (mut start, mut stored, mut raw, mut copies) = (0, 0_usize, 0_usize, 0);
    for (number, task) in tasks.iter().enumerate() {
        let (more_stored, more_raw) = (stored.saturating_add(task.room()), raw.saturating_add(task.raw));
        let full =
            more_stored > bytes || more_raw > bytes.saturating_mul(2) || number - start >= MAX_BATCH_CHUNKS;
        if number > start && (full || copies + task.copies.len() > 2 * MAX_BATCH_CHUNKS) {
            batches.push(start..number);
            (start, stored, raw, copies) = (number, 0, 0, 0);
        }
        stored = stored.saturating_add(task.room());
        raw = raw.saturating_add(task.raw);
        copies += task.copies.len();
    }
    if start < tasks.len() {
        batches.push(start..tasks.len());
    }
    batches
}
