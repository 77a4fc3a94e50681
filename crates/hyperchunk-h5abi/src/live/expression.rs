//! Evaluation of expressions, in the reading process.

use super::evaluate::read_input;
use super::plan::{Plan, on_disk};
use crate::chunk_buffer::ChunkBuffer;
use crate::library::Library;
use crate::symbols::Hid;
use crate::{Result, fail};
use hyperchunk_expression::{InputBytes, Program, Scratch, as_output_bytes};
use hyperchunk_udf::expression::check_data;
use hyperchunk_udf::host::mapped::{MappedInput, mapped};
use hyperchunk_udf::host::{Source, in_time};
use hyperchunk_udf::record::byte_size;
use hyperchunk_udf::spec::is_single;
use std::cell::RefCell;
use std::mem::MaybeUninit;

/// Maximum capacity in bytes of a buffer that a thread keeps between two chunks.
const MAX_CACHED_BYTES: usize = 32 << 20;

thread_local! {
    /// Buffers for blocks and inputs, reused from chunk to chunk. Taken out while in use, since an input may
    /// also be an expression.
    static MEMORY: RefCell<Memory> = RefCell::default();
}

#[derive(Default)]
struct Memory {
    scratch: Scratch,
    inputs: Vec<Vec<u8>>,
    block: Vec<u8>,
}

/// Computes the bytes of a chunk: the block at `offset` of shape `shape`.
pub(super) fn compute(
    library: &'static Library,
    dataset: Hid,
    plan: &Plan,
    program: &Program,
    (offset, shape): (&[u64], &[u64]),
) -> Result<ChunkBuffer> {
    let record = &plan.verified.record;
    let total = record.chunk_bytes();
    check_data(record, shape, &plan.profile)?;
    let Ok(total) = usize::try_from(total) else {
        fail!(Limit, "a chunk of {total} bytes does not fit into the address space")
    };
    let mut memory = MEMORY.try_with(RefCell::take).unwrap_or_default();
    let maps = mapped(&plan.key, || {
        let disk = on_disk(library, &library.object_file(dataset).ok()?)?;
        Some((disk.file, (disk.identity, disk.version)))
    });
    let windows = maps.as_deref().map(Vec::as_slice);
    let outcome = (|| {
        let inputs = gather(library, dataset, plan, windows, (offset, shape), &mut memory.inputs)?;
        let mut chunk = ChunkBuffer::new(library, total)?;
        let to = chunk.uninitialised();
        if shape == record.chunk && !record.output.datatype.is_converted() {
            run(plan, program, &inputs, to, &mut memory.scratch)?;
            return Ok(chunk);
        }
        let bytes = usize::try_from(byte_size(shape, &record.output.datatype)).unwrap_or(usize::MAX);
        resize(&mut memory.block, bytes)?;
        run(plan, program, &inputs, as_output_bytes(&mut memory.block), &mut memory.scratch)?;
        record.place_bytes(shape, &memory.block, to)?;
        Ok(chunk)
    })();
    memory.inputs.iter_mut().chain([&mut memory.block]).filter(|m| m.capacity() > MAX_CACHED_BYTES).for_each(
        |m| {
            *m = Vec::new();
        },
    );
    // When the thread exits, the thread-local value may be destroyed already.
    drop(MEMORY.try_with(|kept| kept.replace(memory)));
    outcome
}

/// Evaluates in pieces, so that the time limit is checked between them.
fn run(
    plan: &Plan,
    program: &Program,
    inputs: &[InputBytes<'_>],
    to: &mut [MaybeUninit<u8>],
    scratch: &mut Scratch,
) -> Result<()> {
    program.evaluate_in_pieces(inputs, to, scratch, &mut || in_time(&plan.profile))
}

/// Returns the inputs' elements for a block: in the mapping if they are mapped, else after reading into
/// `buffers`.
fn gather<'a>(
    library: &'static Library,
    dataset: Hid,
    plan: &Plan,
    maps: Option<&'a [Option<MappedInput>]>,
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
                check_length(library, dataset, plan, n)?;
                let length = usize::try_from(byte_size(shape, &slot.datatype)).unwrap_or(usize::MAX);
                resize(buffer, length)?;
                read_input(library, dataset, plan, slot, (offset, shape), buffer)?;
                buffer.as_slice()
            }
        };
        gathered.push(if single { InputBytes::One(bytes) } else { InputBytes::Each(bytes) });
    }
    Ok(gathered)
}

/// Fails if the file was shortened since the plan was made and no longer contains an input: libhdf5 would
/// read zeros.
fn check_length(library: &'static Library, dataset: Hid, plan: &Plan, input: usize) -> Result<()> {
    // The first slot is the output.
    let slot = plan.key.slots.get(input + 1);
    let Some(&Source::Mapped { offset, bytes, .. }) = slot.map(|slot| &slot.source) else { return Ok(()) };
    let disk = on_disk(library, &library.object_file(dataset)?);
    if disk.is_some_and(|disk| disk.version.0 < offset.saturating_add(bytes)) {
        fail!(Io, "the file was shortened while it was open, and no longer contains the whole input")
    }
    Ok(())
}

fn resize(buffer: &mut Vec<u8>, bytes: usize) -> Result<()> {
    let missing = bytes.saturating_sub(buffer.len());
    if buffer.try_reserve(missing).is_err() {
        fail!(Limit, "no memory for {bytes} bytes")
    }
    buffer.resize(bytes, 0);
    Ok(())
}
