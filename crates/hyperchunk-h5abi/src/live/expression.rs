//! Computing expressions, in the reading process.

use super::evaluate::{place_rows, read_input};
use super::plan::{Plan, on_disk};
use crate::filter::ChunkBuffer;
use crate::library::Library;
use crate::symbols::Hid;
use crate::{Result, fail};
use hyperchunk_udf::expression::{InputBytes, Program, Scratch, as_room, check_data};
use hyperchunk_udf::host::{SessionKey, Source, cache, in_time};
use hyperchunk_udf::memory::Map;
use hyperchunk_udf::record::{Slot, bytes_of};
use hyperchunk_udf::spec::is_single;
use std::cell::RefCell;
use std::mem::MaybeUninit;
use std::os::fd::AsFd as _;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Files whose inputs stay mapped.
const MAX_MAPPED: usize = 4;
/// So long at most: looked at whenever an expression is computed.
const MAPPED_FOR: Duration = Duration::from_secs(30);
/// After so long without a read, the file is looked at again.
const FRESH: Duration = Duration::from_millis(20);
/// A thread keeps no more bytes between two chunks.
const MAX_KEPT: usize = 32 << 20;

thread_local! {
    /// Memory for blocks and for inputs, from one chunk to the next. Taken out while it is used, since an input may be an
    /// expression, too.
    static MEMORY: RefCell<Memory> = RefCell::default();
}

#[derive(Default)]
struct Memory {
    scratch: Scratch,
    inputs: Vec<Vec<u8>>,
    block: Vec<u8>,
}

/// The bytes of a chunk: the block at `offset` of shape `shape`.
pub(super) fn compute(
    library: &'static Library,
    dataset: Hid,
    plan: &Plan,
    program: &Program,
    (offset, shape): (&[u64], &[u64]),
) -> Result<ChunkBuffer> {
    let record = &plan.verified.record;
    let total = bytes_of(&record.chunk, &record.output.datatype);
    check_data(record, shape, &plan.profile)?;
    let Ok(total) = usize::try_from(total) else { fail!(Limit, "a chunk of {total} bytes") };
    let mut memory = MEMORY.take();
    let maps = mapped(library, dataset, plan);
    let windows = maps.as_deref().map(Vec::as_slice);
    let outcome = (|| {
        let inputs = gather(library, dataset, plan, windows, (offset, shape), &mut memory.inputs)?;
        let mut chunk = ChunkBuffer::new(library, total)?;
        let to = chunk.uninitialised();
        if shape == record.chunk {
            run(plan, program, &inputs, to, &mut memory.scratch)?;
            return Ok(chunk);
        }
        let bytes = usize::try_from(bytes_of(shape, &record.output.datatype)).unwrap_or(usize::MAX);
        resize(&mut memory.block, bytes)?;
        run(plan, program, &inputs, as_room(&mut memory.block), &mut memory.scratch)?;
        place_rows(record, shape, to, |from, to| {
            let from = usize::try_from(from).ok()?;
            let row = memory.block.get(from..from.checked_add(to.len())?)?;
            to.iter_mut().zip(row).for_each(|(to, &from)| {
                to.write(from);
            });
            Some(())
        })?;
        Ok(chunk)
    })();
    memory.inputs.iter_mut().chain([&mut memory.block]).filter(|m| m.capacity() > MAX_KEPT).for_each(|m| {
        *m = Vec::new();
    });
    MEMORY.set(memory);
    outcome
}

/// Computes piece by piece, so that the time limit holds.
fn run(
    plan: &Plan,
    program: &Program,
    inputs: &[InputBytes<'_>],
    to: &mut [MaybeUninit<u8>],
    scratch: &mut Scratch,
) -> Result<()> {
    program.evaluate_in_pieces(inputs, to, scratch, &mut || in_time(&plan.profile))
}

/// The inputs' elements for a block: where they lie if they are mapped, else read into `buffers`.
fn gather<'a>(
    library: &'static Library,
    dataset: Hid,
    plan: &Plan,
    maps: Option<&'a [Option<Window>]>,
    (offset, shape): (&[u64], &[u64]),
    buffers: &'a mut Vec<Vec<u8>>,
) -> Result<Vec<InputBytes<'a>>> {
    let inputs = &plan.verified.record.inputs;
    if buffers.len() < inputs.len() {
        buffers.resize_with(inputs.len(), Vec::new);
    }
    let mut gathered = Vec::with_capacity(inputs.len());
    for (n, (slot, buffer)) in inputs.iter().zip(buffers).enumerate() {
        let single = is_single(&slot.dims);
        let whole = vec![0; slot.dims.len()];
        let (offset, shape) = if single { (whole.as_slice(), slot.dims.as_slice()) } else { (offset, shape) };
        let window = maps.and_then(|m| m.get(n)).and_then(Option::as_ref);
        let bytes = match window.and_then(|w| w.part(slot, offset, shape)) {
            Some(bytes) => bytes,
            None => {
                let length = usize::try_from(bytes_of(shape, &slot.datatype)).unwrap_or(usize::MAX);
                resize(buffer, length)?;
                read_input(library, dataset, plan, slot, (offset, shape), buffer)?;
                buffer.as_slice()
            }
        };
        gathered.push(if single { InputBytes::One(bytes) } else { InputBytes::Each(bytes) });
    }
    Ok(gathered)
}

fn resize(buffer: &mut Vec<u8>, bytes: usize) -> Result<()> {
    let missing = bytes.saturating_sub(buffer.len());
    if buffer.try_reserve(missing).is_err() {
        fail!(Limit, "no memory for {bytes} bytes")
    }
    buffer.resize(bytes, 0);
    Ok(())
}

/// A mapped input.
struct Window(Map);

// SAFETY: the map is for reading, and nobody writes through it.
unsafe impl Sync for Window {}

impl Window {
    /// The elements of a block, which is one piece of the array.
    fn part(&self, slot: &Slot, offset: &[u64], shape: &[u64]) -> Option<&[u8]> {
        let bytes = bytes_of(shape, &slot.datatype);
        let at = slot.first_byte(offset);
        let first = self.0.at(at, bytes).filter(|_| self.0.populate(at, bytes))?;
        // SAFETY: at() checked that these bytes are inside the map, which lives as long as self.
        Some(unsafe { std::slice::from_raw_parts(first, usize::try_from(bytes).ok()?) })
    }
}

struct Mapped {
    key: Arc<SessionKey>,
    windows: Arc<Vec<Option<Window>>>,
    used: Instant,
}

static MAPPED: Mutex<Vec<Mapped>> = Mutex::new(Vec::new());

/// The inputs that can be used where they lie in the file, as long as it is as it was when the plan was made.
///
/// Kept from chunk to chunk, since mapping anew costs more than reading. The file is looked at whenever somebody begins to
/// read, and each piece before it is used: only a file that is made shorter in the very moment ends the process (SIGBUS).
fn mapped(library: &'static Library, dataset: Hid, plan: &Plan) -> Option<Arc<Vec<Option<Window>>>> {
    if !plan.key.slots.iter().any(|s| matches!(s.source, Source::Mapped { .. })) {
        return None;
    }
    let now = Instant::now();
    let mut known = cache(&MAPPED)?;
    known.retain(|m| now.duration_since(m.used) < MAPPED_FOR);
    let found = known.iter().position(|m| Arc::ptr_eq(&m.key, &plan.key) || m.key == plan.key);
    if let Some(entry) = found.and_then(|at| known.get_mut(at))
        && now.duration_since(entry.used) < FRESH
    {
        entry.used = now;
        return Some(Arc::clone(&entry.windows));
    }
    let disk = on_disk(library, &library.file_of(dataset).ok()?)?;
    let same = disk.identity == plan.key.file && disk.version == plan.key.version;
    match found {
        Some(at) if same => {
            let entry = known.get_mut(at)?;
            entry.used = now;
            return Some(Arc::clone(&entry.windows));
        }
        Some(at) => drop(known.remove(at)),
        None => {}
    }
    if !same {
        return None;
    }
    // The first slot is the output.
    let windows = plan.key.slots.iter().skip(1).map(|slot| match slot.source {
        Source::Mapped { offset, bytes, .. } => {
            Map::window(disk.file.as_fd(), offset, bytes).ok().map(Window)
        }
        _ => None,
    });
    let windows = Arc::new(windows.collect::<Vec<_>>());
    if known.len() >= MAX_MAPPED {
        known.remove(0);
    }
    known.push(Mapped { key: Arc::clone(&plan.key), windows: Arc::clone(&windows), used: now });
    Some(windows)
}
