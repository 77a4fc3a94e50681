//! Expressions: computed in this process, without a worker.

use crate::attributes;
use crate::inputs::{name_input, no_room};
use crate::plan::{self, Plan};
use crate::to_udf_error;
use hyperchunk::model::{Class, Datatype};
use hyperchunk::{Dataset, File};
use hyperchunk_expression::{InputBytes, Kind, Program, Scratch, as_output_bytes};
use hyperchunk_udf::datatype::ElementType;
use hyperchunk_udf::error::{Error, ErrorKind, Result};
use hyperchunk_udf::expression::{check_data, compile};
use hyperchunk_udf::host::in_time;
use hyperchunk_udf::host::mapped::mapped;
use hyperchunk_udf::record::{Record, Slot, byte_size};
use hyperchunk_udf::spec::is_single;
use std::cell::RefCell;

thread_local! {
    /// Buffers reused from chunk to chunk. Taken out during use, since an input may itself be an expression.
    static MEMORY: RefCell<Memory> = RefCell::default();
}

/// Maximum size in bytes of a buffer that a thread keeps between two chunks.
const MAX_CACHED_BYTES: usize = 32 << 20;

#[derive(Default)]
struct Memory {
    scratch: Scratch,
    inputs: Vec<Vec<u8>>,
    block: Vec<u8>,
}

/// Parses the expression of a record.
pub(crate) fn prepare(file: &File, record: &Record) -> Result<Program> {
    let kind = |slot: &Slot| {
        let kind = match record.find_attribute(slot) {
            Some(_) => attributes::open(file, record, slot).and_then(|input| {
                input.kind.ok_or_else(|| Error::new(ErrorKind::Invalid, "it is not a number"))
            }),
            None => open(file, record, slot).map(|input| input.kind),
        };
        kind.map_err(|e| name_input(&e, slot))
    };
    let kinds = record.inputs.iter().map(kind).collect::<Result<Vec<_>>>()?;
    compile(record, &kinds)
}

/// Computes the block at `offset` with shape `shape` into a chunk.
pub(crate) fn compute(
    file: &File,
    plan: &Plan,
    program: &Program,
    (offset, shape): (&[u64], &[u64]),
    chunk: &mut [u8],
) -> Result<()> {
    let record = &plan.record;
    check_data(record, shape, &plan.profile)?;
    let lost = || Error::new(ErrorKind::Worker, "internal error: the result does not fit its chunk");
    if record.chunk_bytes() != chunk.len() as u64 {
        return Err(lost());
    }
    let maps = mapped(&plan.key, || {
        let disk = file.on_disk()?;
        let state = plan::state(&disk.metadata().ok()?);
        Some((disk, state))
    });
    let mut memory = MEMORY.try_with(RefCell::take).unwrap_or_default();
    memory.inputs.resize_with(record.inputs.len(), Vec::new);
    let outcome = (|| {
        let mut inputs = Vec::with_capacity(record.inputs.len());
        let Memory { scratch, block, inputs: buffers } = &mut memory;
        for (n, (slot, buffer)) in record.inputs.iter().zip(buffers).enumerate() {
            let single = is_single(&slot.dims);
            let whole = vec![0; slot.dims.len()];
            let block = if single { (whole.as_slice(), slot.dims.as_slice()) } else { (offset, shape) };
            let window = maps.as_ref().and_then(|maps| maps.get(n)).and_then(Option::as_ref);
            let bytes = match window.and_then(|window| window.part(slot, block.0, block.1)) {
                Some(bytes) => bytes,
                None => {
                    read(file, record, slot, block, buffer).map_err(|error| name_input(&error, slot))?;
                    buffer.as_slice()
                }
            };
            inputs.push(if single { InputBytes::One(bytes) } else { InputBytes::Each(bytes) });
        }
        let mut go_on = || in_time(&plan.profile);
        if shape == record.chunk && !record.output.datatype.is_converted() {
            return program.evaluate_in_pieces(&inputs, as_output_bytes(chunk), scratch, &mut go_on);
        }
        resize(block, byte_size(shape, &record.output.datatype))?;
        program.evaluate_in_pieces(&inputs, as_output_bytes(block), scratch, &mut go_on)?;
        record.place_bytes(shape, block, as_output_bytes(chunk))
    })();
    memory.inputs.retain(|buffer| buffer.capacity() <= MAX_CACHED_BYTES);
    if memory.block.capacity() > MAX_CACHED_BYTES {
        memory.block = Vec::new();
    }
    // At exit it may be destroyed already.
    drop(MEMORY.try_with(|kept| kept.replace(memory)));
    outcome
}

/// Input of an expression.
struct Input {
    dataset: Dataset,
    kind: Kind,
    /// Datatype as which it is read.
    memory: Datatype,
}

/// Opens the dataset of an input, if its datatype and shape are the same as when the expression was attached.
pub(crate) fn dataset(file: &File, record: &Record, slot: &Slot) -> Result<Dataset> {
    open(file, record, slot).map(|input| input.dataset)
}

/// Opens an input, if its datatype and shape are the same as when the expression was attached.
fn open(file: &File, record: &Record, slot: &Slot) -> Result<Input> {
    let path = format!("/{}", slot.name.trim_start_matches('/'));
    let found = file.root().and_then(|root| root.named("/").group()?.get(path.as_bytes())?.dataset());
    let dataset = found.map_err(|error| to_udf_error(&error))?;
    crate::inputs::not_null(&dataset)?;
    let number = number(dataset.datatype());
    match number {
        Some((kind, datatype)) if record.fits(slot, dataset.dims()) && slot.datatype == datatype.into() => {
            // One byte has no byte order, and an enumeration keeps its own datatype.
            let memory = if kind == Kind::Bool {
                dataset.datatype().clone()
            } else {
                crate::inputs::number(datatype).1
            };
            Ok(Input { dataset, kind, memory })
        }
        number => {
            let now = number.map_or("of another type", |(_, datatype)| datatype.name());
            let message = crate::inputs::difference(record, slot, (now, dataset.dims()), "expression");
            Err(Error::new(ErrorKind::Invalid, message))
        }
    }
}

/// Returns the kind of a dataset's elements in an expression, and the element type in its record. Half floats
/// become floats, enumerations their integers, and enumerations of FALSE and TRUE bools.
pub(crate) fn number(datatype: &Datatype) -> Option<(Kind, ElementType)> {
    match &datatype.class {
        Class::Float(_) if datatype.size == 2 => Some((Kind::Float32, ElementType::Float32)),
        Class::Enum { base, members } => {
            let (kind, element) = number(base).filter(|(kind, _)| !kind.is_float())?;
            let has = |name: &[u8], value: u8| {
                members.iter().any(|m| m.name.as_bytes() == name && m.value == [value])
            };
            let bools = base.size == 1 && has(b"FALSE", 0) && has(b"TRUE", 1);
            Some((if bools { Kind::Bool } else { kind }, element))
        }
        _ => {
            let (element, _) = crate::inputs::memory_type(datatype).ok()?;
            element.number().map(|number| (number.into(), number))
        }
    }
}

fn read(
    file: &File,
    record: &Record,
    slot: &Slot,
    (offset, shape): (&[u64], &[u64]),
    to: &mut Vec<u8>,
) -> Result<()> {
    resize(to, byte_size(shape, &slot.datatype))?;
    if record.find_attribute(slot).is_some() {
        return attributes::open(file, record, slot)?.read(slot, to);
    }
    let Input { dataset, memory, .. } = open(file, record, slot)?;
    crate::inputs::read_block(&dataset, &memory, (offset, shape), to)
}

fn resize(buffer: &mut Vec<u8>, bytes: u64) -> Result<()> {
    let wanted = usize::try_from(bytes).unwrap_or(usize::MAX);
    if buffer.try_reserve_exact(wanted.saturating_sub(buffer.len())).is_err() {
        return Err(no_room(bytes));
    }
    buffer.resize(wanted, 0);
    Ok(())
}
