//! One of the two buffers: a batch is read into it, and goes on to the GPU while the other one is filled.

use super::geometry::Copy;
use super::plan::{How, Task};
use super::prepare::{Prepared, decode, is_for_cufile, lead, prepare};
use super::tables::Tables;
use super::{Options, Report, Request, Stored};
use crate::cufile::Registered;
use crate::error::fail;
use crate::kernels::Kernels;
use crate::nvcomp::{Algorithm, Batch};
use crate::{
    Argument, Context, DeviceMemory, Error, ErrorKind, Event, Function, Launch, PinnedMemory, Result, Stream,
};
use hyperchunk_format::codec::Decoder;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

const THREADS: u32 = 256;
/// Blocks of a grid, about, at most: each thread goes on until its box is done.
const MOST_BLOCKS: u64 = 1 << 17;
/// Rows of a grid, at most.
const MOST_ROWS: usize = 32 << 10;

/// Where a task's bytes are.
#[derive(Clone, Copy, Debug, Default)]
struct Place {
    /// In the page-locked memory and, but for what goes straight to the array, in its copy on the GPU.
    at: usize,
    /// In the memories for decompressed and for unshuffled bytes.
    raw: usize,
    direct: bool,
}

/// What is known once the GPU is done.
#[derive(Debug, Default)]
struct Pending<'a> {
    /// Chunks with which the GPU need not have tried, or failed.
    odd: Vec<Task<'a>>,
    /// For each piece: the task, and how many bytes must come out of it.
    pieces: Vec<(Task<'a>, usize)>,
    /// Where the pieces' sizes, statuses and chunks' checksums are in the results.
    sizes: usize,
    statuses: usize,
    sums: usize,
    checked: Vec<(Task<'a>, u32)>,
    bytes: usize,
}

/// A buffer.
pub(super) struct Slot<'a> {
    /// First, so that it ends first: it waits for what uses the others.
    stream: Stream,
    context: Arc<Context>,
    kernels: Arc<Kernels>,
    request: &'a Request<'a>,
    options: &'a Options<'a>,
    array: u64,
    pinned: Option<PinnedMemory>,
    stored: Option<DeviceMemory>,
    raw: Option<DeviceMemory>,
    plain: Option<DeviceMemory>,
    tables: Option<DeviceMemory>,
    results: Option<DeviceMemory>,
    temp: Option<DeviceMemory>,
    events: [Event; 4],
    pending: Option<Pending<'a>>,
}

/// The memory, or a larger one in its place.
fn room(of: &mut Option<DeviceMemory>, context: &Arc<Context>, bytes: usize) -> Result<u64> {
    if let Some(memory) = of
        && memory.bytes() >= bytes
    {
        return Ok(memory.address());
    }
    // First the old one goes, so that both are never there.
    *of = None;
    Ok(of.insert(DeviceMemory::alloc(context, bytes.max(1 << 12))?).address())
}

/// Page-locked memory that waits for the next call: to lock it takes about as long as to fill it.
static WAITING: Mutex<Vec<PinnedMemory>> = Mutex::new(Vec::new());
/// How many pieces wait, and how large ones.
const MOST_WAITING: usize = 2;
const MOST_WAITING_BYTES: usize = 64 << 20;

/// Page-locked memory of at least so many bytes: a piece that waits, or a new one.
fn page_locked(context: &Arc<Context>, bytes: usize) -> Result<PinnedMemory> {
    let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(place) = waiting.iter().position(|memory| memory.bytes() >= bytes) {
        return Ok(waiting.swap_remove(place));
    }
    // Small ones are in the way.
    waiting.clear();
    PinnedMemory::alloc(context, bytes)
}

impl Drop for Slot<'_> {
    fn drop(&mut self) {
        // It may still be copied from.
        if self.stream.synchronize().is_err() {
            return;
        }
        let mut waiting = WAITING.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(memory) = self.pinned.take()
            && waiting.len() < MOST_WAITING
            && memory.bytes() <= MOST_WAITING_BYTES
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
        Ok(Slot {
            stream: Stream::new(context)?,
            context: Arc::clone(context),
            kernels: Arc::clone(kernels),
            request,
            options,
            array,
            pinned: None,
            stored: None,
            raw: None,
            plain: None,
            tables: None,
            results: None,
            temp: None,
            events: [event()?, event()?, event()?, event()?],
            pending: None,
        })
    }

    /// Reads a batch and starts all that is to be done with it.
    pub(super) fn fill(
        &mut self,
        tasks: &[Task<'a>],
        registered: Option<&Registered<'_>>,
        report: &mut Report,
    ) -> Result<()> {
        let (places, mirrored, pinned, raw) = self.places(tasks)?;
        if self.pinned.as_ref().is_none_or(|memory| memory.bytes() < pinned) {
            self.pinned = None;
            self.pinned = Some(page_locked(&self.context, pinned.max(1 << 12))?);
        }
        let stored = room(&mut self.stored, &self.context, mirrored)?;
        let raw = room(&mut self.raw, &self.context, raw)?;
        let shuffled = tasks.iter().any(|task| matches!(task.how, How::Gpu { shuffle: Some(_), .. }));
        let bytes = if shuffled { self.raw.as_ref().map_or(0, DeviceMemory::bytes) } else { 0 };
        let plain = room(&mut self.plain, &self.context, bytes)?;
        let start = Instant::now();
        let prepared = self.read(tasks, &places, registered)?;
        report.reading += start.elapsed();
        self.events[0].record(&self.stream)?;
        self.upload(tasks, &places, &prepared, report)?;
        self.events[1].record(&self.stream)?;
        let mut pending = Pending::default();
        self.decompress(tasks, &places, &prepared, [stored, raw], &mut pending)?;
        self.events[2].record(&self.stream)?;
        self.arrange(tasks, &places, &prepared, [stored, raw, plain], &pending)?;
        self.events[3].record(&self.stream)?;
        for (task, prepared) in tasks.iter().zip(&prepared) {
            report.stored += if matches!(task.stored, Stored::Fill(_)) { 0 } else { task.bytes() as u64 };
            match task.how {
                How::Gpu { .. } if prepared.is_odd => pending.odd.push(task.clone()),
                How::Gpu { .. } => report.on_gpu += 1,
                How::Cpu => report.on_cpu += 1,
                How::Plain | How::Fill => {}
            }
        }
        self.pending = Some(pending);
        Ok(())
    }

    /// Where everything lies: what goes straight to the array comes last. Then how many bytes are mirrored on the GPU, are
    /// page-locked, and are decompressed.
    fn places(&self, tasks: &[Task<'a>]) -> Result<(Vec<Place>, usize, usize, usize)> {
        let mut places = vec![Place::default(); tasks.len()];
        let (mut at, mut raw, mut mirrored) = (0_usize, 0_usize, 0);
        for direct in [false, true] {
            for (task, place) in tasks.iter().zip(&mut places) {
                if task.is_direct(self.request.swap) != direct {
                    continue;
                }
                let start = at.next_multiple_of(16) + lead(task);
                *place = Place { at: start, raw, direct };
                let Some(end) = start.checked_add(task.room()).filter(|end| *end < isize::MAX as usize / 2)
                else {
                    fail!(Limit, "{}: {} bytes", task.place(), task.room())
                };
                at = end;
                if matches!(task.how, How::Gpu { .. }) {
                    raw = raw.saturating_add(task.raw.next_multiple_of(16));
                }
            }
            if !direct {
                mirrored = at;
            }
        }
        Ok((places, mirrored, at, raw))
    }

    /// Reads all tasks, by several threads.
    fn read(
        &mut self,
        tasks: &[Task<'a>],
        places: &[Place],
        registered: Option<&Registered<'_>>,
    ) -> Result<Vec<Prepared>> {
        let Some(pinned) = &mut self.pinned else { fail!(Failed, "no page-locked memory") };
        let mut order: Vec<usize> = (0..tasks.len()).collect();
        order.sort_by_key(|number| places[*number].at);
        let mut rest = pinned.as_mut_slice();
        let mut passed = 0;
        let mut work = Vec::with_capacity(tasks.len());
        for number in order {
            let place = places[number].at;
            let (_, after) = rest.split_at_mut(place - passed);
            let (own, after) = after.split_at_mut(tasks[number].room());
            passed = place + own.len();
            rest = after;
            work.push((number, own));
        }
        let count = match self.options.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            count => count,
        };
        let count = count.min(work.len()).max(1);
        let (request, array, stored) = (self.request, self.array, self.stored.as_ref());
        let context = &self.context;
        let work = Mutex::new(work.into_iter().enumerate());
        let one = || -> Result<Vec<(usize, Prepared)>, (usize, Error)> {
            let (mut decoder, mut scratch) = (Decoder::default(), Vec::new());
            let mut done = Vec::new();
            loop {
                let next = work.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some((turn, (number, to))) = next else { return Ok(done) };
                let task = &tasks[number];
                let read = match (registered, task.stored, stored) {
                    (Some(file), Stored::At { offset, .. }, Some(stored)) if is_for_cufile(task) => {
                        if places[number].direct {
                            // Within the array: `Copy::new` checked that.
                            file.read_at(context, array + task.copies[0].to, 0, task.bytes(), offset)
                        } else {
                            file.read(stored, places[number].at, task.bytes(), offset)
                        }
                        .map(|()| true)
                    }
                    _ => Ok(false),
                };
                let prepared = match read {
                    Ok(true) => {
                        let is_odd = matches!(task.how, How::Gpu { .. }) && task.bytes() < task.raw;
                        Prepared { by_cufile: true, is_odd, ..Prepared::default() }
                    }
                    // What cuFile itself cannot do is read in the other way; errors of the file are the same there.
                    Ok(false) | Err(_) => prepare(task, request, to, &mut decoder, &mut scratch)
                        .map_err(|error| (turn, error))?,
                };
                done.push((number, prepared));
            }
        };
        let mut all = vec![Prepared::default(); tasks.len()];
        let found = if count == 1 {
            vec![one()]
        } else {
            std::thread::scope(|scope| {
                let threads: Vec<_> = (0..count).map(|_| scope.spawn(one)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| panicked())).collect()
            })
        };
        // Chunks are taken in turn, so that the first one that fails is always met.
        let mut first: Option<(usize, Error)> = None;
        for list in found {
            match list {
                Ok(list) => list.into_iter().for_each(|(number, prepared)| all[number] = prepared),
                Err((turn, error)) if first.as_ref().is_none_or(|(before, _)| turn < *before) => {
                    first = Some((turn, error));
                }
                Err(_) => {}
            }
        }
        match first {
            Some((_, error)) => Err(error),
            None => Ok(all),
        }
    }

    /// Copies to the GPU what is not there yet.
    fn upload(
        &self,
        tasks: &[Task<'a>],
        places: &[Place],
        prepared: &[Prepared],
        report: &mut Report,
    ) -> Result<()> {
        let (Some(pinned), Some(stored)) = (&self.pinned, &self.stored) else { return Ok(()) };
        let bytes = pinned.as_slice();
        let mut copy = |address: u64, from: &[u8]| {
            report.uploaded += from.len() as u64;
            // SAFETY: the place on the GPU was checked by who asks; the page-locked memory is not written, nor freed without
            // the driver, before the slot was collected, which waits for the stream.
            unsafe { self.stream.copy_up(address, from.as_ptr(), from.len()) }
        };
        self.context.make_current()?;
        // One after another in memory: what lies together goes together.
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

    /// Starts the decompression of all pieces.
    fn decompress(
        &mut self,
        tasks: &[Task<'a>],
        places: &[Place],
        prepared: &[Prepared],
        [stored, raw]: [u64; 2],
        pending: &mut Pending<'a>,
    ) -> Result<()> {
        let mut tables = Tables::default();
        let mut batches = Vec::new();
        for algorithm in Algorithm::ALL {
            let mut items = Vec::new();
            for ((task, place), prepared) in tasks.iter().zip(places).zip(prepared) {
                if matches!(task.how, How::Gpu { algorithm: Some(of), .. } if of == algorithm) {
                    items.extend(prepared.items.iter().map(|item| (task, *place, *item)));
                }
            }
            if items.is_empty() {
                continue;
            }
            let first = pending.pieces.len();
            pending.pieces.extend(items.iter().map(|(task, _, item)| ((*task).clone(), item.room)));
            let from =
                tables.words(items.iter().map(|(_, place, item)| stored + (place.at + item.from) as u64));
            let from_bytes = tables.words(items.iter().map(|(_, _, item)| item.bytes as u64));
            let to = tables.words(items.iter().map(|(_, place, item)| raw + (place.raw + item.to) as u64));
            let rooms = tables.words(items.iter().map(|(_, _, item)| item.room as u64));
            let largest = items.iter().map(|(_, _, item)| item.room).max().unwrap_or(0);
            let total = items.iter().map(|(_, _, item)| item.room).sum();
            batches.push((algorithm, first, items.len(), [from, from_bytes, to, rooms], largest, total));
        }
        for ((task, place), prepared) in tasks.iter().zip(places).zip(prepared) {
            if let (Some(stored), Some(raw)) = (&self.stored, &self.raw) {
                for item in &prepared.copies {
                    self.stream.copy(stored, place.at + item.from, raw, place.raw + item.to, item.bytes)?;
                }
            }
            if let (Some(sum), false) = (prepared.adler32, prepared.is_odd) {
                pending.checked.push((task.clone(), sum));
            }
        }
        let count = pending.pieces.len();
        pending.statuses = count * 8;
        pending.sums = (pending.statuses + count * 4).next_multiple_of(16);
        pending.bytes = pending.sums + pending.checked.len() * 4;
        let results = room(&mut self.results, &self.context, pending.bytes)?;
        if batches.is_empty() {
            return Ok(());
        }
        let Some(nvcomp) = self.options.nvcomp else { fail!(Failed, "nvCOMP is not there") };
        let mut temp_bytes = 0;
        for (algorithm, _, count, _, largest, total) in &batches {
            let bytes = nvcomp.temp_bytes(&self.stream, *algorithm, *count, *largest, *total)?;
            temp_bytes = temp_bytes.max(bytes);
        }
        let temp = room(&mut self.temp, &self.context, temp_bytes)?;
        if let Some(results) = &self.results {
            // A status that nobody wrote is none of success.
            self.stream.fill(results, 0, pending.bytes, 0xff)?;
        }
        let table = self.send(&tables, 0)?;
        for (algorithm, first, count, [from, from_bytes, to, rooms], ..) in batches {
            let batch = Batch {
                count,
                from: table + from as u64,
                from_bytes: table + from_bytes as u64,
                to: table + to as u64,
                room: table + rooms as u64,
                to_bytes: results + (pending.sizes + first * 8) as u64,
                statuses: results + (pending.statuses + first * 4) as u64,
                temp,
                temp_bytes,
            };
            // SAFETY: the tables were built above with `count` entries each; they lead into `stored` and `raw`, where
            // `places` gave each task as much as it says; the slot keeps all until it was collected.
            unsafe { nvcomp.decompress(&self.stream, algorithm, &batch)? };
        }
        Ok(())
    }

    /// Starts what comes after decompression.
    fn arrange(
        &mut self,
        tasks: &[Task<'a>],
        places: &[Place],
        prepared: &[Prepared],
        [stored, raw, plain]: [u64; 3],
        pending: &Pending<'a>,
    ) -> Result<()> {
        let mut tables = Tables::default();
        // Checksums first: of what was decompressed.
        let sums = tables.begin();
        for ((task, place), prepared) in tasks.iter().zip(places).zip(prepared) {
            if prepared.adler32.is_some() && !prepared.is_odd {
                tables.piece(raw + place.raw as u64, 0, task.raw);
            }
        }
        let mut shuffled: BTreeMap<u32, Vec<(u64, u64, usize)>> = BTreeMap::new();
        let mut boxes: BTreeMap<u64, Vec<(&Copy, u64)>> = BTreeMap::new();
        for ((task, place), prepared) in tasks.iter().zip(places).zip(prepared) {
            if place.direct || prepared.is_odd {
                continue;
            }
            let mut source = stored + place.at as u64;
            if let How::Gpu { algorithm, shuffle, .. } = task.how {
                if algorithm.is_some() {
                    source = raw + place.raw as u64;
                }
                if let Some(size) = shuffle {
                    let to = plain + place.raw as u64;
                    shuffled.entry(size).or_default().push((source, to, task.raw));
                    source = to;
                }
            }
            for copy in &task.copies {
                boxes.entry(self.unit(copy, source)?).or_default().push((copy, source));
            }
        }
        let mut unshuffles = Vec::new();
        for (size, pieces) in &shuffled {
            for pieces in pieces.chunks(MOST_ROWS) {
                let at = tables.begin();
                pieces.iter().for_each(|(from, to, bytes)| tables.piece(*from, *to, *bytes));
                let most =
                    pieces.iter().map(|(_, _, bytes)| *bytes as u64 / u64::from(*size)).max().unwrap_or(0);
                unshuffles.push((*size, at, pieces.len(), most));
            }
        }
        let scatters = self.tabled(&boxes, &mut tables);
        if tables.bytes().is_empty() {
            return Ok(());
        }
        // Behind the tables of the decompressors, which may still be read.
        let table = self.send(&tables, 1)?;
        let results = self.results.as_ref().map_or(0, DeviceMemory::address);
        if !pending.checked.is_empty() {
            let blocks = u32::try_from(pending.checked.len()).unwrap_or(u32::MAX);
            let arguments =
                [Argument::Address(table + sums as u64), Argument::Address(results + pending.sums as u64)];
            self.kernels.adler32.launch(&self.stream, &Launch::linear(blocks, THREADS), &arguments)?;
        }
        for (size, at, rows, most) in unshuffles {
            let pieces = Argument::Address(table + at as u64);
            let launch = grid(most.max(u64::from(size)), rows);
            match self.kernels.unshuffle_words(size) {
                Some(function) => function.launch(&self.stream, &launch, &[pieces])?,
                None => {
                    let size = size.to_le_bytes();
                    self.kernels.unshuffle.launch(
                        &self.stream,
                        &launch,
                        &[pieces, Argument::Bytes(&size)],
                    )?;
                }
            }
        }
        self.scatter(&scatters, table)
    }

    /// The unit in which a box is copied.
    fn unit(&self, copy: &Copy, source: u64) -> Result<u64> {
        let unit = copy.unit(source, self.array);
        let swap = self.request.swap as u64;
        if swap <= 1 {
            return Ok(unit);
        }
        if unit < swap {
            fail!(Unsupported, "units of {swap} bytes that are not at multiples of {swap}")
        }
        Ok(swap)
    }

    /// Puts boxes into tables: for each launch, the unit, the place, how many there are, and the most units of one.
    fn tabled(
        &self,
        boxes: &BTreeMap<u64, Vec<(&Copy, u64)>>,
        tables: &mut Tables,
    ) -> Vec<(u64, usize, usize, u64)> {
        let mut launches = Vec::new();
        for (unit, copies) in boxes {
            for copies in copies.chunks(MOST_ROWS) {
                let at = tables.begin();
                let mut most = 0;
                for (copy, source) in copies {
                    most = tables.copy(copy, *source, self.array, *unit).max(most);
                }
                launches.push((*unit, at, copies.len(), most));
            }
        }
        launches
    }

    fn scatter(&self, launches: &[(u64, usize, usize, u64)], table: u64) -> Result<()> {
        let swap = self.request.swap > 1;
        for (unit, at, rows, most) in launches {
            let function: Option<&Function> = self.kernels.scatter(*unit, swap);
            let Some(function) = function else { fail!(Failed, "no kernel for units of {unit} bytes") };
            function.launch(&self.stream, &grid(*most, *rows), &[Argument::Address(table + *at as u64)])?;
        }
        Ok(())
    }

    /// Copies tables to one of the two halves of the memory for them; where that is.
    fn send(&mut self, tables: &Tables, half: usize) -> Result<u64> {
        let bytes = tables.bytes();
        let enough = |memory: &DeviceMemory| memory.bytes() / 2 >= bytes.len();
        if !self.tables.as_ref().is_some_and(enough) {
            // The old one may still be read.
            self.stream.synchronize()?;
            room(&mut self.tables, &self.context, (bytes.len() * 2).next_multiple_of(1 << 12))?;
        }
        let Some(memory) = &self.tables else { fail!(Failed, "no memory for tables") };
        let at = memory.bytes() / 2 * half;
        self.stream.upload(memory, at, bytes)?;
        Ok(memory.address() + at as u64)
    }

    /// Waits for the batch in it, and decodes again what the GPU failed with.
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
                again.push(task.clone());
            }
        }
        for (number, (task, sum)) in pending.checked.iter().enumerate() {
            if word(pending.sums + number * 4) != *sum && seen.insert(place(task)) {
                again.push(task.clone());
            }
        }
        report.on_gpu -= again.len() as u64;
        for task in pending.odd.iter().chain(&again) {
            self.again(task)?;
            report.on_cpu += 1;
            report.again += 1;
        }
        Ok(())
    }

    /// Lets the processor decode a chunk, and puts it in its place.
    fn again(&mut self, task: &Task<'a>) -> Result<()> {
        let (mut decoder, mut scratch) = (Decoder::default(), Vec::new());
        let decoded = decode(task, self.request, &mut decoder, &mut scratch)?;
        let memory = DeviceMemory::alloc(&self.context, decoded.len())?;
        self.stream.upload(&memory, 0, decoded)?;
        let mut boxes: BTreeMap<u64, Vec<(&Copy, u64)>> = BTreeMap::new();
        for copy in &task.copies {
            boxes.entry(self.unit(copy, memory.address())?).or_default().push((copy, memory.address()));
        }
        let mut tables = Tables::default();
        let launches = self.tabled(&boxes, &mut tables);
        let table = self.send(&tables, 0)?;
        self.scatter(&launches, table)?;
        self.stream.synchronize()
    }
}

/// Enough blocks for the largest row, and as many rows as there are.
fn grid(most: u64, rows: usize) -> Launch {
    let most_blocks = (MOST_BLOCKS / (rows as u64).max(1)).max(1);
    let blocks = most.div_ceil(u64::from(THREADS)).clamp(1, most_blocks);
    let number = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    Launch { grid: [number(blocks), number(rows as u64), 1], block: [THREADS, 1, 1], shared: 0 }
}

#[cold]
fn panicked<T>() -> Result<T, (usize, Error)> {
    Err((usize::MAX, Error::new(ErrorKind::Failed, "a thread that reads chunks stopped")))
}
