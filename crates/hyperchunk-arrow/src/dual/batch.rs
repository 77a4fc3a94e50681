//! Record batch messages of row groups, and the stored bytes of arrays.

use super::flat::{Flat, Slot};
use crate::{Error, Result};
use arrow_data::ArrayData;
use arrow_schema::DataType;

/// Arrow's `MetadataVersion.METADATA_V5`.
pub(super) const METADATA_V5: i16 = 4;
/// Arrow's `MessageHeader.RecordBatch`.
const RECORD_BATCH: u8 = 3;
/// The first bytes of a message.
pub(super) const CONTINUATION: [u8; 4] = [0xff; 4];
/// The end-of-stream marker.
pub(super) const END_OF_STREAM: [u8; 8] = [0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0];

/// A byte range, relative to the start of a body.
#[derive(Debug, Clone, Copy)]
pub(super) struct BodyRange {
    pub(super) offset: u64,
    pub(super) length: u64,
}

/// Encodes the message of a batch of `rows` rows: for each column its type and the place of its data.
/// `length` is the size of the whole message including its prefix; it is padded with zeros.
pub(super) fn message(
    rows: u64,
    columns: &[(&DataType, BodyRange)],
    body: u64,
    length: usize,
) -> Result<Vec<u8>> {
    let too_large = || Error::limit("a row group of 2^63 bytes");
    let signed = |value: u64| i64::try_from(value).map_err(|_| too_large());
    let mut flat = Flat::new();
    let (root, links) = flat.table(&[
        Slot::I16(0, METADATA_V5),
        Slot::U8(1, RECORD_BATCH),
        Slot::Link(2),
        Slot::I64(3, signed(body)?),
    ]);
    flat.root(root)?;
    let (batch, vectors) = flat.table(&[Slot::I64(0, signed(rows)?), Slot::Link(1), Slot::Link(2)]);
    for link in links {
        flat.link(link, batch)?;
    }
    let (mut nodes, mut buffers) = (Vec::new(), Vec::new());
    for (data_type, place) in columns {
        describe(data_type, rows, *place, &mut nodes, &mut buffers)?;
    }
    for (link, pairs) in vectors.into_iter().zip([nodes, buffers]) {
        let mut bytes = Vec::with_capacity(16 * pairs.len());
        for (first, second) in &pairs {
            bytes.extend(signed(*first)?.to_le_bytes());
            bytes.extend(signed(*second)?.to_le_bytes());
        }
        let at = flat.structs(pairs.len(), &bytes);
        flat.link(link, at)?;
    }
    frame_message(&flat.bytes, length)
}

/// Adds the prefix to a message, and pads it to `length` bytes, or to a multiple of eight if that is 0.
pub(super) fn frame_message(message: &[u8], length: usize) -> Result<Vec<u8>> {
    let whole = if length == 0 { (message.len() + 8).next_multiple_of(8) } else { length };
    let size = whole.checked_sub(8).filter(|size| *size >= message.len());
    let size = size.and_then(|size| i32::try_from(size).ok());
    let size = size.ok_or_else(|| Error::limit("an Arrow message larger than the place for it"))?;
    let mut bytes = Vec::with_capacity(whole);
    bytes.extend(CONTINUATION);
    bytes.extend(size.to_le_bytes());
    bytes.extend_from_slice(message);
    bytes.resize(whole, 0);
    Ok(bytes)
}

/// Appends the nodes and buffers of a column without nulls.
fn describe(
    data_type: &DataType,
    rows: u64,
    place: BodyRange,
    nodes: &mut Vec<(u64, u64)>,
    buffers: &mut Vec<(u64, u64)>,
) -> Result<()> {
    nodes.push((rows, 0));
    buffers.push((0, 0));
    if let DataType::FixedSizeList(item, size) = data_type {
        let size = u64::try_from(*size).map_err(|_| Error::corrupt("a list of negative size"))?;
        let rows = rows.checked_mul(size).ok_or_else(|| Error::limit("a row group of 2^64 values"))?;
        return describe(item.data_type(), rows, place, nodes, buffers);
    }
    width(data_type)?;
    buffers.push((place.offset, place.length));
    Ok(())
}

/// Returns the size in bytes of a value of fixed width.
pub(super) fn width(data_type: &DataType) -> Result<usize> {
    let width = match data_type {
        DataType::FixedSizeBinary(width) => usize::try_from(*width).ok(),
        other => other.primitive_width(),
    };
    width.ok_or_else(|| {
        Error::unsupported(format!("values of the Arrow type {data_type} do not lie one by one"))
    })
}

/// Returns the stored bytes of some values of an array.
pub(super) fn stored(data: &ArrayData, first: usize, count: usize) -> Result<&[u8]> {
    let too_large = || Error::limit("an array larger than memory");
    let first_here = first.checked_add(data.offset()).ok_or_else(too_large)?;
    if let Some(nulls) = data.nulls()
        && nulls.slice(first, count).null_count() > 0
    {
        let message = "null values: HDF5 has none; fill them, or store what is valid in a column of its own";
        return Err(Error::unsupported(message));
    }
    let wrong = || Error::invalid("an array with fewer values than it says");
    if let DataType::FixedSizeList(_, size) = data.data_type() {
        let size = usize::try_from(*size).map_err(|_| wrong())?;
        let (from, count) = (first_here.checked_mul(size), count.checked_mul(size));
        let (from, count) = from.zip(count).ok_or_else(too_large)?;
        return stored(data.child_data().first().ok_or_else(wrong)?, from, count);
    }
    let width = width(data.data_type())?;
    let buffer = data.buffers().first().ok_or_else(wrong)?;
    let start = first_here.checked_mul(width).ok_or_else(too_large)?;
    let length = count.checked_mul(width).ok_or_else(too_large)?;
    buffer.as_slice().get(start..).and_then(|rest| rest.get(..length)).ok_or_else(wrong)
}
