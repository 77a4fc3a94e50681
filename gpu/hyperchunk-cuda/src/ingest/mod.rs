//! Reading from storage to the GPU: stored chunks become an array in the GPU's memory.
//!
//! Several threads read the chunks of a batch into page-locked memory, from which one copy takes them to the
//! GPU. There they are decompressed (nvCOMP), unshuffled, and copied to the array, in the byte order of the
//! GPU (our kernels). Meanwhile the next batch is read into a second buffer. Chunks that the GPU cannot
//! decode are decoded by the processor and copied in the same way. If cuFile can read directly into the GPU's
//! memory, it reads uncompressed data, which the processor need not examine.
//!
//! **The GPU path makes the same checks as the processor**: Fletcher-32 by the processor, zlib's checksum by
//! a kernel, sizes by both. A chunk that fails on the GPU is decoded again by the processor, which reports
//! the error, or accepts the chunk as libhdf5 would.

mod arrange;
mod block_copier;
mod buffer_cache;
mod decompress;
mod fetch;
mod geometry;
mod plan;
mod prepare;
mod slot;
mod tables;
mod warm_up;

use crate::cufile::CuFile;
use crate::error::fail;
use crate::kernels::Kernels;
use crate::nvcomp::Nvcomp;
use crate::{DeviceMemory, Result};
pub use block_copier::{BlockCopier, BlockPart};
pub use buffer_cache::BufferCache;
pub use hyperchunk_format::model::Filter;
use slot::Slot;
use std::fs::File;
use std::time::Duration;
pub use warm_up::warm_up;

/// The source of stored bytes.
#[derive(Clone, Copy)]
pub enum Input<'a> {
    /// A file of this machine.
    File(&'a File),
    /// A function that fills a slice with the bytes from an offset on, called by many threads at once.
    Reader(&'a (dyn Fn(u64, &mut [u8]) -> Result<()> + Sync)),
}

impl std::fmt::Debug for Input<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Input::File(file) => f.debug_tuple("File").field(file).finish(),
            Input::Reader(_) => f.write_str("Reader"),
        }
    }
}

/// The location of a chunk's bytes.
#[derive(Clone, Copy, Debug)]
pub enum ChunkBytes<'a> {
    /// In the input.
    At {
        /// The offset of the first byte.
        offset: u64,
        /// Number of bytes.
        bytes: u64,
    },
    /// In memory, already read.
    Bytes(&'a [u8]),
    /// Not stored: every element has this value.
    Fill(&'a [u8]),
}

/// A part of a chunk, and its destination.
#[derive(Clone, Debug)]
pub struct Part<'a> {
    /// The chunk's bytes.
    pub stored: ChunkBytes<'a>,
    /// The chunk's filter mask: a bit for each filter that was skipped.
    pub mask: u32,
    /// The first element of the part, in the chunk.
    pub from: Vec<u64>,
    /// The position of the part in the array.
    pub to: Vec<u64>,
    /// Number of elements in each dimension.
    pub size: Vec<u64>,
}

/// A read request. Contiguous data are one chunk without filters, which is read in pieces.
#[derive(Debug)]
pub struct Request<'a> {
    /// The source of the stored bytes.
    pub input: Input<'a>,
    /// The shape of all chunks.
    pub chunk: &'a [u64],
    /// The filters, in the order in which a writer applies them.
    pub filters: &'a [Filter],
    /// The bytes of an element.
    pub element: usize,
    /// Size in bytes (2, 4 or 8) of units whose bytes are reversed; 0 or 1 for none.
    pub swap: usize,
    /// The shape of the array.
    pub dims: &'a [u64],
    /// The parts to copy. Elements of the array outside of all parts are unchanged.
    pub parts: Vec<Part<'a>>,
}

/// Options of a read.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// The decompressor on the GPU; without it, the processor decompresses.
    pub nvcomp: Option<&'a Nvcomp>,
    /// The library for direct reads into the GPU's memory, for files of this machine.
    pub cufile: Option<&'a CuFile>,
    /// Number of threads that read and decode; 0 for the number of processors.
    pub threads: usize,
    /// Approximate number of stored bytes in a batch; two batches are in memory at a time.
    pub batch: usize,
    /// The cache of GPU memory for batches; without it, memory is allocated and freed by each call.
    pub kept: Option<&'a BufferCache>,
}

impl Default for Options<'_> {
    fn default() -> Self {
        Options { nvcomp: None, cufile: None, threads: 0, batch: 32 << 20, kept: None }
    }
}

impl std::fmt::Debug for Options<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Options")
            .field("nvcomp", &self.nvcomp.is_some())
            .field("cufile", &self.cufile.is_some())
            .field("threads", &self.threads)
            .field("batch", &self.batch)
            .field("kept", &self.kept)
            .finish()
    }
}

/// Statistics of a read. Reading overlaps the other steps, so times do not add up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// Number of bytes read, as stored.
    pub stored: u64,
    /// Number of bytes copied to the GPU through page-locked memory.
    pub uploaded: u64,
    /// Number of bytes that cuFile read into the GPU's memory.
    pub direct: u64,
    /// Number of chunks that the GPU decompressed or unshuffled.
    pub on_gpu: u64,
    /// Number of chunks that the processor decoded.
    pub on_cpu: u64,
    /// Number of these that had failed on the GPU, or whose stored form it could not take.
    pub again: u64,
    /// Number of blocks of a live dataset that a kernel computed in the GPU's memory.
    pub computed: u64,
    /// Time for reading, and decoding by the processor.
    pub reading: Duration,
    /// Time on the GPU for copies to it.
    pub copying: Duration,
    /// Time on the GPU for decompression.
    pub decompressing: Duration,
    /// Time on the GPU for unshuffling, checksums and copies into the array.
    pub arranging: Duration,
}

impl std::ops::AddAssign for Report {
    fn add_assign(&mut self, other: Report) {
        self.stored += other.stored;
        self.uploaded += other.uploaded;
        self.direct += other.direct;
        self.on_gpu += other.on_gpu;
        self.on_cpu += other.on_cpu;
        self.again += other.again;
        self.computed += other.computed;
        self.reading += other.reading;
        self.copying += other.copying;
        self.decompressing += other.decompressing;
        self.arranging += other.arranging;
    }
}

/// Reads all parts into the array that begins at `offset` of `to`, which must not be in use: the read does
/// not wait for other streams. The array is complete when it returns without an error.
///
/// # Errors
/// Io and Damaged with the place in the file; Unsupported for an unknown filter; Invalid if a part does not
/// fit; Limit for too little memory; errors of CUDA.
pub fn ingest(
    request: &Request<'_>,
    to: &DeviceMemory,
    offset: usize,
    options: &Options<'_>,
) -> Result<Report> {
    if !matches!(request.swap, 0 | 1 | 2 | 4 | 8)
        || request.swap > 1 && !request.element.is_multiple_of(request.swap)
    {
        fail!(
            Invalid,
            "elements of {} bytes cannot have reversed units of {} bytes",
            request.element,
            request.swap
        )
    }
    let elements = request.dims.iter().try_fold(1_u64, |all, size| all.checked_mul(*size));
    let bytes = elements.and_then(|count| count.checked_mul(request.element as u64));
    let Some(bytes) = bytes.and_then(|bytes| usize::try_from(bytes).ok()) else {
        fail!(Limit, "an array of {:?} elements is larger than the address space", request.dims)
    };
    let array = to.place(offset, bytes)?;
    if request.swap > 1 && !array.is_multiple_of(request.swap as u64) {
        fail!(Invalid, "an array that begins at byte {offset} cannot have units of {} bytes", request.swap)
    }
    let context = to.context();
    let kernels = Kernels::for_context(context)?;
    let tasks = plan::tasks(request, options)?;
    let batches = plan::batches(&tasks, options.batch);
    let registered = prepare::register(request, options);
    let mut report = Report::default();
    let mut slots: Vec<Slot<'_>> = Vec::new();
    for (number, batch) in batches.iter().enumerate() {
        if slots.len() < 2 {
            slots.push(Slot::new(context, &kernels, request, options, array)?);
        }
        let slot = &mut slots[number % 2];
        slot.collect(&mut report)?;
        slot.fill(&tasks[batch.clone()], registered.as_ref(), &mut report)?;
    }
    for slot in &mut slots {
        slot.collect(&mut report)?;
    }
    Ok(report)
}
