//! Stored inputs: chunks passed unchanged to workers that decode them.

use crate::inputs::{block_selection, memory_type, open};
use crate::to_udf_error;
use hyperchunk::model::{ByteOrder, Class, Datatype, Layout};
use hyperchunk::{Dataset, File};
use hyperchunk_udf::error::Result;
use hyperchunk_udf::record::{Block, Record, Slot};
use hyperchunk_udf::stored::{DecodeSupport, Filter, StoredBlock, StoredChunk};

/// Returns whether chunks of an input may be passed to a worker undecoded.
pub(crate) fn may_come(slot: &Slot, dataset: &Dataset) -> bool {
    !slot.datatype.has_pointers()
        && matches!(dataset.layout(), Layout::Chunked(_) | Layout::Contiguous { .. })
        && needed(dataset).is_some()
        && reversed(dataset.datatype()).is_some()
}

fn needed(dataset: &Dataset) -> Option<DecodeSupport> {
    DecodeSupport::needed(dataset.pipeline().iter().map(|filter| filter.id))
}

/// Returns the unit size in bytes of a byte swap from stored to memory order; 1 if no swap is needed, `None`
/// if a swap is not sufficient.
fn reversed(stored: &Datatype) -> Option<u32> {
    let (_, memory) = memory_type(stored).ok()?;
    if memory == *stored {
        return Some(1);
    }
    number(stored, &memory)
}

fn number(stored: &Datatype, memory: &Datatype) -> Option<u32> {
    if let (Class::Array { base: stored, .. }, Class::Array { base: memory, .. }) =
        (&stored.class, &memory.class)
    {
        return number(stored, memory);
    }
    let size = u16::try_from(stored.size).ok().filter(|size| [2, 4, 8].contains(size))?;
    let big_endian = match (&stored.class, &memory.class) {
        (Class::Integer { .. }, Class::Integer { signed, .. }) => {
            Datatype::integer(size, *signed, ByteOrder::Big)
        }
        (Class::Float(_), Class::Float(_)) => Datatype::ieee(size, ByteOrder::Big),
        _ => return None,
    };
    (big_endian == *stored && memory.size == stored.size).then_some(u32::from(size))
}

/// Reads the stored chunks of a block into memory, for a worker with the decoding abilities `decodes`.
/// Returns the number of bytes; 0 if the block must be read in another way.
pub(crate) fn read(
    file: &File,
    record: &Record,
    slot: &Slot,
    (offset, shape): &Block,
    decodes: DecodeSupport,
    to: &mut [u8],
) -> Result<u64> {
    let dataset = open(file, record, slot)?;
    let needed = needed(&dataset).filter(|needed| *needed <= decodes);
    let (Some(_), Some(swap)) = (needed, reversed(dataset.datatype())) else { return Ok(0) };
    let found = dataset.stored_box(&block_selection(offset, shape)).map_err(|error| to_udf_error(&error))?;
    let Some(found) = found.filter(|found| found.shape == *shape) else { return Ok(0) };
    // A worker would get all of a contiguous dataset to use a part of it.
    if matches!(dataset.layout(), Layout::Contiguous { .. }) && found.extent != found.shape {
        return Ok(0);
    }
    let filters = found.pipeline.iter();
    let sizes: Vec<u64> = found
        .pieces
        .iter()
        .map(|piece| piece.range.as_ref().map_or(0, |range| range.end.saturating_sub(range.start)))
        .collect();
    let mut stored = StoredBlock {
        chunk: found.extent.clone(),
        filters: filters.map(|f| Filter { id: f.id, parameters: f.parameters.clone() }).collect(),
        swap,
        fill: found.fill.clone().unwrap_or_else(|| vec![0; slot.datatype.size()]),
        chunks: found
            .pieces
            .iter()
            .map(|piece| StoredChunk {
                bytes: piece.range.as_ref().map(|_| 0..0),
                mask: piece.mask,
                from: piece.from.clone(),
                to: piece.to.clone(),
                count: piece.count.clone(),
            })
            .collect(),
    };
    let Some(bytes) = stored.place(&sizes).filter(|bytes| *bytes <= to.len() as u64) else { return Ok(0) };
    let Some(places) = stored.write(to).and_then(|()| stored.places(to)) else { return Ok(0) };
    dataset.read_pieces(&found, places).map_err(|error| to_udf_error(&error))?;
    Ok(bytes)
}
