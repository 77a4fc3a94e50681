//! Transfers from a file to the memory of a GPU.

use super::dlpack::Element;
use super::errors::Failure;
use super::live;
use crate::datatype::Conversion;
use hyperchunk::model::{ByteOrder, Class, Datatype};
use hyperchunk::slabs::{Steps, split_into_slabs};
use hyperchunk::{Dataset, StoredBox, select};
use hyperchunk_cuda::cufile::{CuFile, Mode};
use hyperchunk_cuda::ingest::{ChunkBytes, Input, Options, Part, Report, Request, ingest};
use hyperchunk_cuda::nvcomp::Nvcomp;
use hyperchunk_cuda::{Context, DeviceMemory, Stream};
use hyperchunk_udf::host::Programs;
use select::{Axis, Selection};
use std::ops::Range;
use std::sync::OnceLock;
use std::time::Instant;

/// Approximate bytes read and decoded at a time, while the previous slab is copied.
const SLAB: usize = 64 << 20;

/// A read request: a dataset, a selection, and the conversion of its elements.
pub(super) struct ReadRequest<'a> {
    pub(super) dataset: &'a Dataset,
    pub(super) selection: &'a Selection,
    pub(super) conversion: Option<&'a Conversion>,
    /// Element type after the conversion.
    pub(super) element: Element,
    /// Size of the result in bytes.
    pub(super) bytes: usize,
}

/// An array on a GPU, and the report of its transfer.
pub(super) struct GpuArray {
    pub(super) memory: DeviceMemory,
    pub(super) report: Option<Report>,
    /// Reason why the elements passed through host memory, if they did.
    pub(super) host_fallback_reason: Option<String>,
}

/// Reads to memory on a GPU. The GPU decodes stored chunks if it can, results of kernels stay
/// there, and everything else is decoded by the processor.
pub(super) fn read(wanted: &ReadRequest<'_>, device: u32) -> Result<GpuArray, Failure> {
    let context = Context::for_device(device)?;
    let name = || wanted.dataset.object().path().unwrap_or("(no name)").to_owned();
    let memory = DeviceMemory::alloc(&context, wanted.bytes).map_err(|error| error.within(name()))?;
    let whole = |memory, report| Ok(GpuArray { memory, report, host_fallback_reason: None });
    if wanted.bytes == 0 {
        return whole(memory, None);
    }
    if let Some(report) = decoded_there(wanted, &context, &memory)? {
        return whole(memory, Some(report));
    }
    let why = match live::computed_there(wanted, &context, &memory)? {
        Ok(report) => return whole(memory, Some(report)),
        Err(why) => why,
    };
    let stream = Stream::new(&context)?;
    decoded_here(wanted, &stream, &memory)?;
    stream.synchronize()?;
    Ok(GpuArray { memory, report: None, host_fallback_reason: Some(why) })
}

/// Copies the chunks as they are stored and decodes them on the GPU, if possible.
fn decoded_there(
    wanted: &ReadRequest<'_>,
    context: &Context,
    memory: &DeviceMemory,
) -> Result<Option<Report>, Failure> {
    let dataset = wanted.dataset;
    let swap = match wanted.conversion {
        None => Some(1),
        Some(_) => reversed(dataset.datatype(), wanted.element),
    };
    let (Some(swap), Ok(element)) = (swap, usize::try_from(dataset.datatype().size)) else { return Ok(None) };
    let Some(found) = dataset.stored_box(wanted.selection)? else { return Ok(None) };
    let elements = found.shape.iter().try_fold(1_u64, |count, extent| count.checked_mul(*extent));
    if elements.and_then(|count| count.checked_mul(element as u64)) != Some(memory.bytes() as u64) {
        return Err(hyperchunk::Error::invalid(
            "the selection and the shape have different numbers of elements",
        )
        .into());
    }
    let threads = dataset.object().file().options().threads;
    let mut options = Options { nvcomp: nvcomp(context), threads, ..Options::default() };
    let stored = StoredAs { found: &found, element, swap };
    match found.source.file() {
        Some(file) => {
            options.cufile = cufile(context);
            stored.ingest(Input::File(file), 0..found.pieces.len(), memory, &options).map(Some)
        }
        None => stored.fetched(dataset, memory, &options).map(Some),
    }
}

/// A box in its stored form, with the layout of its elements.
struct StoredAs<'a> {
    found: &'a StoredBox,
    element: usize,
    swap: usize,
}

impl StoredAs<'_> {
    /// Decodes some of the pieces.
    fn ingest(
        &self,
        input: Input<'_>,
        pieces: Range<usize>,
        memory: &DeviceMemory,
        options: &Options<'_>,
    ) -> Result<Report, Failure> {
        let zeros = vec![0; self.element];
        let fill = self.found.fill.as_deref().unwrap_or(&zeros);
        let pieces = self.found.pieces.get(pieces).unwrap_or_default().iter();
        let parts = pieces.map(|piece| Part {
            stored: match &piece.range {
                Some(range) => ChunkBytes::At { offset: range.start, bytes: range.end - range.start },
                None => ChunkBytes::Fill(fill),
            },
            mask: piece.mask,
            from: piece.from.clone(),
            to: piece.to.clone(),
            size: piece.count.clone(),
        });
        let request = Request {
            input,
            chunk: &self.found.extent,
            filters: &self.found.pipeline,
            element: self.element,
            swap: self.swap,
            dims: &self.found.shape,
            parts: parts.collect(),
        };
        Ok(ingest(&request, memory, 0, options)?)
    }

    /// Fetches chunks over a network, group by group, while the GPU processes the previous group.
    fn fetched(
        &self,
        dataset: &Dataset,
        memory: &DeviceMemory,
        options: &Options<'_>,
    ) -> Result<Report, Failure> {
        let mut report = Report::default();
        std::thread::scope(|scope| {
            let mut running: Option<std::thread::ScopedJoinHandle<'_, Result<Report, Failure>>> = None;
            let mut finish = |thread: std::thread::ScopedJoinHandle<'_, Result<Report, Failure>>| {
                let done = thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                done.map(|done| report += done)
            };
            for group in self.groups() {
                // Done on this thread, which receives interrupts.
                let start = Instant::now();
                let chunks = self.fetch(dataset, group.clone())?;
                let reading = start.elapsed();
                if let Some(thread) = running.take() {
                    finish(thread)?;
                }
                running = Some(scope.spawn(move || {
                    let from_memory = |offset, to: &mut [u8]| chunks.read(offset, to);
                    let mut report = self.ingest(Input::Reader(&from_memory), group, memory, options)?;
                    report.reading += reading;
                    Ok(report)
                }));
            }
            running.map_or(Ok(()), finish)
        })?;
        Ok(report)
    }

    /// Groups the pieces that are fetched together.
    fn groups(&self) -> Vec<Range<usize>> {
        let (mut groups, mut start, mut bytes) = (Vec::new(), 0, 0_u64);
        for (number, piece) in self.found.pieces.iter().enumerate() {
            let more = piece.range.as_ref().map_or(0, |range| range.end - range.start);
            if number > start && bytes.saturating_add(more) > SLAB as u64 {
                groups.push(start..number);
                (start, bytes) = (number, 0);
            }
            bytes = bytes.saturating_add(more);
        }
        groups.push(start..self.found.pieces.len());
        groups
    }

    fn fetch(&self, dataset: &Dataset, group: Range<usize>) -> Result<FetchedChunks, hyperchunk::Error> {
        let mut chunks = Vec::with_capacity(group.len());
        for number in group {
            let Some(range) = self.found.pieces.get(number).and_then(|piece| piece.range.as_ref()) else {
                continue;
            };
            let length = usize::try_from(range.end - range.start).unwrap_or(usize::MAX);
            let mut bytes = Vec::new();
            let room = bytes.try_reserve_exact(length);
            room.map_err(|_| hyperchunk::Error::limit(format!("no memory for {length} bytes")))?;
            bytes.resize(length, 0);
            chunks.push((number, range.start, bytes));
        }
        let places = chunks.iter_mut().map(|(number, _, bytes)| (*number, bytes.as_mut_slice()));
        dataset.read_pieces(self.found, places.collect())?;
        let mut chunks: Vec<_> = chunks.into_iter().map(|(_, offset, bytes)| (offset, bytes)).collect();
        chunks.sort_by_key(|(offset, bytes)| (*offset, bytes.len()));
        Ok(FetchedChunks(chunks))
    }
}

/// Fetched chunks with their file offsets, in order.
struct FetchedChunks(Vec<(u64, Vec<u8>)>);

impl FetchedChunks {
    /// Copies the bytes from `offset` on, which must be inside one chunk.
    fn read(&self, offset: u64, to: &mut [u8]) -> hyperchunk_cuda::Result<()> {
        let before = self.0.partition_point(|(start, _)| *start <= offset);
        // The nearest chunk that starts at or before the offset; chunks overlap only in damaged files.
        let found = self.0.get(..before).unwrap_or_default().iter().rev().find_map(|(start, bytes)| {
            let from = usize::try_from(offset - start).ok()?;
            bytes.get(from..from.checked_add(to.len())?)
        });
        match found {
            Some(bytes) => {
                to.copy_from_slice(bytes);
                Ok(())
            }
            None => {
                let message = format!("{} bytes at {offset} were not fetched", to.len());
                Err(hyperchunk_cuda::Error::new(hyperchunk_cuda::ErrorKind::Damaged, message))
            }
        }
    }
}

/// Loads nvCOMP once, if it is available. Without it, processors decompress; that is not an error.
fn nvcomp(context: &Context) -> Option<&'static Nvcomp> {
    static FOUND: OnceLock<Option<Nvcomp>> = OnceLock::new();
    let load = || {
        let folder = Programs::find()
            .ok()
            .and_then(|programs| programs.nvidia("HYPERCHUNK_NVCOMP", "libnvcomp/lib64"));
        Nvcomp::beside(context.driver(), folder.as_deref()).ok()
    };
    FOUND.get_or_init(load).as_ref()
}

/// Loads cuFile, if it reads straight into GPU memory. If it copied through host memory, our own path would
/// be as good.
fn cufile(context: &Context) -> Option<&'static CuFile> {
    static FOUND: OnceLock<Option<CuFile>> = OnceLock::new();
    let load = || CuFile::load(context, None).ok().filter(|cufile| cufile.mode() == Mode::Direct);
    FOUND.get_or_init(load).as_ref()
}

/// Returns the size of the numbers whose bytes must be reversed, if that alone converts stored elements to
/// the requested ones.
fn reversed(stored: &Datatype, wanted: Element) -> Option<usize> {
    match &stored.class {
        Class::Array { base, .. } => reversed(base, wanted),
        Class::Compound { members } => match &members[..] {
            [real, imaginary] => {
                let half = stored.size / 2;
                let halves =
                    (real.offset, imaginary.offset) == (0, half) && real.datatype == imaginary.datatype;
                let float = Element::new('f', usize::try_from(half).ok()?)?;
                reversed(&real.datatype, float).filter(|_| halves && wanted.is('c', stored.size))
            }
            _ => None,
        },
        _ => {
            let size = u16::try_from(stored.size).ok().filter(|size| [2, 4, 8].contains(size))?;
            let number = |signed| Datatype::integer(size, signed, ByteOrder::Big);
            let same = wanted.is('i', stored.size) && *stored == number(true)
                || wanted.is('u', stored.size) && *stored == number(false)
                || wanted.is('f', stored.size) && *stored == Datatype::ieee(size, ByteOrder::Big);
            same.then_some(usize::from(size))
        }
    }
}

/// Reads and decodes on processors, part by part.
fn decoded_here(wanted: &ReadRequest<'_>, stream: &Stream, memory: &DeviceMemory) -> Result<(), Failure> {
    let ReadRequest { dataset, selection, conversion, .. } = *wanted;
    let stored = usize::try_from(dataset.datatype().size).unwrap_or(usize::MAX).max(1);
    let size = conversion.map_or(stored, |conversion| conversion.to);
    let slab = (SLAB / size.max(1)).max(1).saturating_mul(stored) as u64;
    let parts: Box<dyn Iterator<Item = Selection>> = match steps(selection, dataset.dims()) {
        Some(axes) if memory.bytes() > SLAB => Box::new(split_into_slabs(dataset, axes, slab)),
        _ => Box::new(std::iter::once(selection.clone())),
    };
    let (mut offset, mut buffer) = (0, Vec::new());
    for part in parts {
        let count = usize::try_from(part.count(dataset.dims())?).unwrap_or(usize::MAX);
        let length = count.saturating_mul(size);
        if length > memory.bytes().saturating_sub(offset) {
            return Err(hyperchunk::Error::invalid("the selection has more elements than the shape").into());
        }
        buffer.resize(length, 0);
        match conversion {
            Some(conversion) => {
                dataset.read_converted(&part, &conversion.steps, conversion.to, &mut buffer)?
            }
            None => dataset.read(&part, &mut buffer)?,
        }
        stream.upload(memory, offset, &buffer)?;
        offset += length;
    }
    if offset != memory.bytes() {
        return Err(hyperchunk::Error::invalid("the selection has fewer elements than the shape").into());
    }
    Ok(())
}

/// Converts a selection to steps along each axis, if it can be cut into slabs.
fn steps(selection: &Selection, dims: &[u64]) -> Option<Vec<Steps>> {
    match selection {
        Selection::All => {
            Some(dims.iter().map(|extent| Steps { start: 0, step: 1, count: *extent }).collect())
        }
        Selection::Axes(axes) => axes.iter().map(one_axis).collect(),
        _ => None,
    }
}

fn one_axis(axis: &Axis) -> Option<Steps> {
    match *axis {
        Axis::Range { start, count, block: 1, .. } if count <= 1 => Some(Steps { start, step: 1, count }),
        Axis::Range { start, count: 1, block, .. } => Some(Steps { start, step: 1, count: block }),
        Axis::Range { start, stride, count, block: 1 } => Some(Steps { start, step: stride, count }),
        _ => None,
    }
}
