//! From a file to the memory of a GPU.

use super::errors::Failure;
use crate::datatype::Conversion;
use hyperchunk::slabs::{Steps, slabs_of};
use hyperchunk::{Dataset, select};
use hyperchunk_cuda::{Context, DeviceMemory, Stream};
use select::{Axis, Choice};

/// About so many bytes are read and decoded at once, and copied while the next ones are.
const SLAB: usize = 64 << 20;

/// Reads a selection, in its order, to memory on a GPU that it has exactly the size of.
pub(super) fn read(
    dataset: &Dataset,
    choice: &Choice,
    conversion: Option<&Conversion>,
    bytes: usize,
    device: u32,
) -> Result<DeviceMemory, Failure> {
    let context = Context::of(device)?;
    let memory = DeviceMemory::alloc(&context, bytes)?;
    let stream = Stream::new(&context)?;
    decoded_here(dataset, choice, conversion, &stream, &memory)?;
    stream.synchronize()?;
    Ok(memory)
}

/// Reads and decodes on processors, part by part.
fn decoded_here(
    dataset: &Dataset,
    choice: &Choice,
    conversion: Option<&Conversion>,
    stream: &Stream,
    memory: &DeviceMemory,
) -> Result<(), Failure> {
    let stored = usize::try_from(dataset.datatype().size).unwrap_or(usize::MAX).max(1);
    let size = conversion.map_or(stored, |conversion| conversion.to);
    let slab = (SLAB / size.max(1)).max(1).saturating_mul(stored) as u64;
    let parts: Box<dyn Iterator<Item = Choice>> = match steps(choice, dataset.dims()) {
        Some(axes) if memory.bytes() > SLAB => Box::new(slabs_of(dataset, axes, slab)),
        _ => Box::new(std::iter::once(choice.clone())),
    };
    let (mut offset, mut buffer) = (0, Vec::new());
    for part in parts {
        let count = usize::try_from(part.count(dataset.dims())?).unwrap_or(usize::MAX);
        let length = count.saturating_mul(size);
        if length > memory.bytes().saturating_sub(offset) {
            return Err(hyperchunk::Error::invalid("a selection of more elements than its shape has").into());
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
        return Err(hyperchunk::Error::invalid("a selection of fewer elements than its shape has").into());
    }
    Ok(())
}

/// A selection that can be cut into slabs.
fn steps(choice: &Choice, dims: &[u64]) -> Option<Vec<Steps>> {
    match choice {
        Choice::All => Some(dims.iter().map(|extent| Steps { start: 0, step: 1, count: *extent }).collect()),
        Choice::Axes(axes) => axes.iter().map(one_axis).collect(),
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
