//! Storage → GPU: chunks as they are stored become an array in the GPU's memory.
//!
//! The chunks of a batch are read, by several threads, into page-locked memory, and go to the GPU in one copy; there they are
//! decompressed (nvCOMP), unshuffled, and put in their places, in the byte order of the GPU (kernels of ours). Meanwhile the
//! next batch is read into a second buffer. What the GPU cannot decode is decoded by the processor and goes the same way.
//! Where cuFile reads straight into the GPU's memory, it does so for what is not compressed: at that, the processor need not look.
//!
//! **What the processor checks, the GPU's way checks too**: Fletcher-32 by the processor, zlib's checksum by a kernel, sizes by
//! both. A chunk that fails on the GPU is decoded again by the processor, which says what is wrong with it, or takes what
//! libhdf5 would.

mod arrange;
mod decompress;
mod fetch;
mod geometry;
mod kept;
mod place;
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
pub use hyperchunk_format::model::Filter;
pub use kept::Kept;
pub use place::{Placed, Placing};
use slot::Slot;
use std::fs::File;
use std::time::Duration;
pub use warm_up::warm_up;

/// Where stored bytes come from.
#[derive(Clone, Copy)]
pub enum Input<'a> {
    /// A file of this machine.
    File(&'a File),
    /// Anything that fills a slice with the bytes from an offset on, called by many threads at once.
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

/// Where the bytes of a chunk are.
#[derive(Clone, Copy, Debug)]
pub enum Stored<'a> {
    /// In the input.
    At {
        /// The first one.
        offset: u64,
        /// How many there are.
        bytes: u64,
    },
    /// Here, already read.
    Bytes(&'a [u8]),
    /// Nowhere: every element is this one.
    Fill(&'a [u8]),
}

/// A part of a chunk, and where it goes.
#[derive(Clone, Debug)]
pub struct Part<'a> {
    /// The chunk's bytes.
    pub stored: Stored<'a>,
    /// The chunk's filter mask: a bit for each filter that was left out.
    pub mask: u32,
    /// The first element that is wanted, in the chunk.
    pub from: Vec<u64>,
    /// Where that goes in the array.
    pub to: Vec<u64>,
    /// How many elements, in each dimension.
    pub size: Vec<u64>,
}

/// What is to be read. Contiguous data are one chunk without filters, which is read in pieces.
#[derive(Debug)]
pub struct Request<'a> {
    /// Where the stored bytes are.
    pub input: Input<'a>,
    /// The shape of all chunks.
    pub chunk: &'a [u64],
    /// The filters, in the order in which a writer applies them.
    pub filters: &'a [Filter],
    /// The bytes of an element.
    pub element: usize,
    /// Units of so many bytes (2, 4 or 8) whose bytes are reversed on the way; 0 or 1 for none.
    pub swap: usize,
    /// The shape of the array.
    pub dims: &'a [u64],
    /// What goes where. Where no part goes, the array's memory stays as it was.
    pub parts: Vec<Part<'a>>,
}

/// How it is done.
#[derive(Clone, Copy)]
pub struct Options<'a> {
    /// What decompresses on the GPU; without it, the processor does.
    pub nvcomp: Option<&'a Nvcomp>,
    /// What reads straight into the GPU's memory, for files of this machine.
    pub cufile: Option<&'a CuFile>,
    /// Threads that read and decode; 0 for as many as there are processors.
    pub threads: usize,
    /// Stored bytes of a batch, about: there are two of them.
    pub batch: usize,
    /// Where the memory on the GPU for batches comes from and goes to; without it, it is taken anew and freed.
    pub kept: Option<&'a Kept>,
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

/// What was done, and how long it took. Reading goes on beside the rest, so that times do not add up.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Report {
    /// Bytes that were read, as they are stored.
    pub stored: u64,
    /// Bytes that went to the GPU through page-locked memory.
    pub uploaded: u64,
    /// Bytes that cuFile read into the GPU's memory.
    pub direct: u64,
    /// Chunks that the GPU decompressed or unshuffled.
    pub on_gpu: u64,
    /// Chunks that the processor decoded.
    pub on_cpu: u64,
    /// Those among them with which the GPU had failed.
    pub again: u64,
    /// Blocks of a live dataset that a kernel computed in the GPU's memory.
    pub computed: u64,
    /// Reading, and decoding by the processor.
    pub reading: Duration,
    /// On the GPU: copies, decompression, and putting elements into their places.
    pub copying: Duration,
    /// On the GPU: decompression.
    pub decompressing: Duration,
    /// On the GPU: unshuffling, checksums and putting elements into their places.
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

/// Reads all parts into the array that begins at `offset` of `to`, which nothing may use meanwhile: it waits for no other
/// stream. The array is whole when it returns without an error.
///
/// # Errors
/// Io and Damaged with the place in the file; Unsupported for a filter that is not known; Invalid if a part does not fit;
/// Limit for too little memory; what CUDA says.
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
            "elements of {} bytes whose units of {} are to be reversed",
            request.element,
            request.swap
        )
    }
    let elements = request.dims.iter().try_fold(1_u64, |all, size| all.checked_mul(*size));
    let bytes = elements.and_then(|count| count.checked_mul(request.element as u64));
    let Some(bytes) = bytes.and_then(|bytes| usize::try_from(bytes).ok()) else {
        fail!(Limit, "an array of {:?} elements", request.dims)
    };
    let array = to.place(offset, bytes)?;
    if request.swap > 1 && !array.is_multiple_of(request.swap as u64) {
        fail!(Invalid, "an array that begins at byte {offset} cannot have units of {} bytes", request.swap)
    }
    let context = to.context();
    let kernels = Kernels::of(context)?;
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
