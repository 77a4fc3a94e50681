//! One of the two buffers: a batch is read into it and processed by the GPU while the other one is filled.

use super::buffer_cache::Buffers;
use super::geometry::Copy;
use super::plan::{Conversion, Task};
use super::prepare::{PreparedTask, alignment_offset, decode};
use super::tables::Tables;
use super::{ChunkBytes, Options, Report, Request};
use crate::cufile::RegisteredFile;
use crate::error::fail;
use crate::kernels::Kernels;
use crate::{Context, DeviceMemory, Event, PinnedMemory, Result, Stream};
use hyperchunk_format::codec::Decoder;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// The location of a task's bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TaskOffsets {
    /// In the page-locked memory and, unless copied directly to the array, in its copy on the GPU.
    pub(super) at: usize,
    /// In the memories for decompressed and for unshuffled bytes.
    pub(super) raw: usize,
    pub(super) direct: bool,
}

/// State for checking the results of the GPU.
#[derive(Debug, Default)]
pub(super) struct PendingChecks<'a> {
    /// Chunks that failed on the GPU, or were not tried there.
    pub(super) host_tasks: Vec<&'a Task<'a>>,
    /// For each piece: the task, and the expected number of output bytes.
    pub(super) pieces: Vec<(&'a Task<'a>, usize)>,
    /// The offsets of the pieces' sizes, statuses and chunks' checksums in the results.
    pub(super) sizes: usize,
    pub(super) statuses: usize,
    pub(super) sums: usize,
    pub(super) checked: Vec<(&'a Task<'a>, u32)>,
    pub(super) bytes: usize,
}

/// One of the two buffers.
pub(super) struct Slot<'a> {
    /// First field, so that it is dropped first: it waits for the users of the others.
    pub(super) stream: Stream,
    pub(super) context: Arc<Context>,
    pub(super) kernels: Arc<Kernels>,
    pub(super) request: &'a Request<'a>,
    pub(super) options: &'a Options<'a>,
    pub(super) array: u64,
    pub(super) pinned: Option<PinnedMemory>,
    pub(super) stored: Option<DeviceMemory>,
    pub(super) raw: Option<DeviceMemory>,
    pub(super) plain: Option<DeviceMemory>,
    pub(super) tables: Option<DeviceMemory>,
    pub(super) results: Option<DeviceMemory>,
    pub(super) temp: Option<DeviceMemory>,
    pub(super) events: [Event; 4],
    pub(super) pending: Option<PendingChecks<'a>>,
}

/// Returns the memory, reallocated if it is too small.
pub(super) fn room(of: &mut Option<DeviceMemory>, context: &Arc<Context>, bytes: usize) -> Result<u64> {
    if let Some(memory) = of
        && memory.bytes() >= bytes
    {
        return Ok(memory.address());
    }
    // Free the old one first, so that both never exist together.
    *of = None;
    Ok(of.insert(DeviceMemory::alloc(context, bytes.max(1 << 12))?).address())
}

/// Cache of page-locked memory for the next call: locking takes about as long as filling it.
static CACHED_BUFFERS: Mutex<Vec<PinnedMemory>> = Mutex::new(Vec::new());
/// Maximum number of cached pieces, and their maximum size.
const MAX_CACHED_BUFFERS: usize = 2;
const MAX_CACHED_BYTES: usize = 64 << 20;

/// Returns page-locked memory of at least `bytes` bytes, from the cache or new.
fn page_locked(context: &Arc<Context>, bytes: usize) -> Result<PinnedMemory> {
    let mut waiting = CACHED_BUFFERS.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(place) = waiting.iter().position(|memory| memory.bytes() >= bytes) {
        return Ok(waiting.swap_remove(place));
    }
    // The cached ones are too small.
    waiting.clear();
    PinnedMemory::alloc(context, bytes)
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        // A copy from it may still be running.
        if self.stream.synchronize().is_err() {
            return;
        }
        if let Some(kept) = self.options.kept {
            let [stored, raw, plain] = [self.stored.take(), self.raw.take(), self.plain.take()];
            let [tables, results, temp] = [self.tables.take(), self.results.take(), self.temp.take()];
            kept.put(Buffers([stored, raw, plain, tables, results, temp]));
        }
        let mut waiting = CACHED_BUFFERS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(memory) = self.pinned.take()
            && waiting.len() < MAX_CACHED_BUFFERS
            && memory.bytes() <= MAX_CACHED_BYTES
        {
            waiting.push(memory);
        }
    }
}

impl<'a> Slot<'a> {
    pub(super) fn new(
        context: &Arc<Context>,
        kernels: &Arc<Kernels>,
        request: &'a Request<'a>,
        options: &'a Options<'a>,
        array: u64,
    ) -> Result<Slot<'a>> {
        let event = || Event::new(context);
        let Buffers([stored, raw, plain, tables, results, temp]) =
            options.kept.map(|kept| kept.take(context)).unwrap_or_default();
        Ok(Slot {
            stream: Stream::new(context)?,
            context: Arc::clone(context),
            kernels: Arc::clone(kernels),
            request,
            options,
            array,
            pinned: None,
            stored,
            raw,
            plain,
            tables,
            results,
            temp,
            events: [event()?, event()?, event()?, event()?],
            pending: None,
        })
    }

    /// Reads a batch and starts all its processing.
    pub(super) fn fill(
        &mut self,
        tasks: &'a [Task<'a>],
        registered: Option<&RegisteredFile<'_>>,
        report: &mut Report,
    ) -> Result<()> {
        let (places, mirrored, pinned, raw) = self.places(tasks)?;
        if self.pinned.as_ref().is_none_or(|memory| memory.bytes() < pinned) {
            self.pinned = None;
            self.pinned = Some(page_locked(&self.context, pinned.max(1 << 12))?);
        }
        let stored = room(&mut self.stored, &self.context, mirrored)?;
        let raw = room(&mut self.raw, &self.context, raw)?;
        let shuffled = tasks.iter().any(|task| matches!(task.how, Conversion::Gpu { shuffle: Some(_), .. }));
        let bytes = if shuffled { self.raw.as_ref().map_or(0, DeviceMemory::bytes) } else { 0 };
        let plain = room(&mut self.plain, &self.context, bytes)?;
        let start = Instant::now();
        let prepared = self.read(tasks, &places, registered)?;
        report.reading += start.elapsed();
        self.events[0].record(&self.stream)?;
        self.upload(tasks, &places, &prepared, report)?;
        self.events[1].record(&self.stream)?;
        let mut pending = PendingChecks::default();
        self.decompress(tasks, &places, &prepared, [stored, raw], &mut pending)?;
        self.events[2].record(&self.stream)?;
        self.arrange(tasks, &places, &prepared, [stored, raw, plain], &pending)?;
        self.events[3].record(&self.stream)?;
        for (task, prepared) in tasks.iter().zip(&prepared) {
            report.stored += if matches!(task.stored, ChunkBytes::Fill(_)) { 0 } else { task.bytes() as u64 };
            match task.how {
                Conversion::Gpu { .. } if prepared.needs_host => pending.host_tasks.push(task),
                Conversion::Gpu { .. } => report.on_gpu += 1,
                Conversion::Cpu => report.on_cpu += 1,
                Conversion::Plain | Conversion::Fill => {}
            }
        }
        self.pending = Some(pending);
        Ok(())
    }

    /// Assigns offsets to the tasks; tasks that are copied directly to the array come last. Also returns the
    /// number of bytes that are mirrored on the GPU, page-locked, and decompressed.
    fn places(&self, tasks: &'a [Task<'a>]) -> Result<(Vec<TaskOffsets>, usize, usize, usize)> {
        let mut places = vec![TaskOffsets::default(); tasks.len()];
        let (mut at, mut raw, mut mirrored) = (0_usize, 0_usize, 0);
        for direct in [false, true] {
            for (task, place) in tasks.iter().zip(&mut places) {
                if task.is_direct(self.request.swap) != direct {
                    continue;
                }
                let start = at.next_multiple_of(16) + alignment_offset(task);
                *place = TaskOffsets { at: start, raw, direct };
                let Some(end) = start.checked_add(task.room()).filter(|end| *end < isize::MAX as usize / 2)
                else {
                    fail!(Limit, "{}: {} bytes are too large for a batch", task.place(), task.room())
                };
                at = end;
                if matches!(task.how, Conversion::Gpu { .. }) {
                    raw = raw.saturating_add(task.raw.next_multiple_of(16));
                }
            }
            if !direct {
                mirrored = at;
            }
        }
        Ok((places, mirrored, at, raw))
    }

    /// Copies data to the GPU that are not there yet.
    fn upload(
        &self,
        tasks: &'a [Task<'a>],
        places: &[TaskOffsets],
        prepared: &[PreparedTask],
        report: &mut Report,
    ) -> Result<()> {
        let (Some(pinned), Some(stored)) = (&self.pinned, &self.stored) else { return Ok(()) };
        let bytes = pinned.as_slice();
        let mut copy = |address: u64, from: &[u8]| {
            report.uploaded += from.len() as u64;
            // SAFETY: the caller has checked the place on the GPU; the page-locked memory is not written, nor
            // freed without the driver, before the slot was collected, which waits for the stream.
            unsafe { self.stream.copy_up(address, from.as_ptr(), from.len()) }
        };
        self.context.make_current()?;
        // In memory order: contiguous data are copied together.
        let mut run: Option<(usize, usize)> = None;
        let all = || tasks.iter().zip(places).zip(prepared);
        for ((task, place), prepared) in all().filter(|((_, place), _)| !place.direct) {
            if prepared.by_cufile {
                report.direct += task.bytes() as u64;
                continue;
            }
            let end = place.at + task.room();
            run = match run {
                Some((start, before)) if place.at - before < 64 => Some((start, end)),
                Some((start, before)) => {
                    copy(stored.place(start, before - start)?, &bytes[start..before])?;
                    Some((place.at, end))
                }
                None => Some((place.at, end)),
            };
        }
        if let Some((start, end)) = run {
            copy(stored.place(start, end - start)?, &bytes[start..end])?;
        }
        for ((task, place), prepared) in all().filter(|((_, place), _)| place.direct) {
            if prepared.by_cufile {
                report.direct += task.bytes() as u64;
                continue;
            }
            // Within the array: `Copy::new` checked that.
            copy(self.array + task.copies[0].to, &bytes[place.at..place.at + task.room()])?;
        }
        Ok(())
    }

    /// Waits for the batch, and decodes chunks with the processor that failed on the GPU.
    pub(super) fn collect(&mut self, report: &mut Report) -> Result<()> {
        let Some(pending) = self.pending.take() else { return Ok(()) };
        let mut results = vec![0; pending.bytes];
        match &self.results {
            Some(memory) => self.stream.download(memory, 0, &mut results)?,
            None => self.stream.synchronize()?,
        }
        self.events[3].synchronize()?;
        let time = |from: usize, to: usize| -> Result<Duration> {
            let ms = self.events[from].elapsed_ms(&self.events[to])?;
            Ok(Duration::from_secs_f32((ms / 1000.0).max(0.0)))
        };
        report.copying += time(0, 1)?;
        report.decompressing += time(1, 2)?;
        report.arranging += time(2, 3)?;
        let word = |at: usize| results[at..at + 4].try_into().map_or(u32::MAX, u32::from_le_bytes);
        let mut seen = BTreeSet::new();
        let mut again = Vec::new();
        let place = |task: &Task<'_>| task.copies.first().map(|copy| copy.to);
        for (number, (task, bytes)) in pending.pieces.iter().enumerate() {
            let at = pending.sizes + number * 8;
            let size = u64::from(word(at)) | u64::from(word(at + 4)) << 32;
            let status = word(pending.statuses + number * 4);
            if (status != 0 || size != *bytes as u64) && seen.insert(place(task)) {
                again.push(*task);
            }
        }
        for (number, (task, sum)) in pending.checked.iter().enumerate() {
            if word(pending.sums + number * 4) != *sum && seen.insert(place(task)) {
                again.push(*task);
            }
        }
        report.on_gpu -= again.len() as u64;
        for task in pending.host_tasks.iter().chain(&again) {
            self.decode_on_host(task)?;
            report.on_cpu += 1;
            report.again += 1;
        }
        Ok(())
    }

    /// Decodes a chunk with the processor, and copies it to its place.
    fn decode_on_host(&mut self, task: &Task<'a>) -> Result<()> {
        let (mut decoder, mut scratch) = (Decoder::default(), Vec::new());
        let decoded = decode(task, self.request, &mut decoder, &mut scratch)?;
        let memory = DeviceMemory::alloc(&self.context, decoded.len())?;
        self.stream.upload(&memory, 0, decoded)?;
        let mut boxes: BTreeMap<u64, Vec<(&Copy, u64)>> = BTreeMap::new();
        for copy in &task.copies {
            boxes.entry(self.unit(copy, memory.address())?).or_default().push((copy, memory.address()));
        }
        let mut tables = Tables::default();
        let launches = self.append_boxes(&boxes, &mut tables);
        let table = self.send(&tables, 0)?;
        self.scatter(&launches, table)?;
        self.stream.synchronize()
    }
}
