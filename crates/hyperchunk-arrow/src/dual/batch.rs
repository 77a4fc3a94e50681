//! Record batch messages of row groups, and the stored bytes of arrays.

use crate::{Error, Result};
use arrow_data::ArrayData;
use arrow_ipc::{
    Buffer, FieldNode, Message, MessageArgs, MessageHeader, MetadataVersion, RecordBatch, RecordBatchArgs,
};
use arrow_schema::DataType;
use flatbuffers::FlatBufferBuilder;

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

/// Encodes the message of a record batch of `rows` rows, whose columns have these types and ranges of the
/// body. `length` is as for [`frame_message`].
pub(super) fn message(
    rows: u64,
    columns: &[(&DataType, BodyRange)],
    body: u64,
    length: usize,
) -> Result<Vec<u8>> {
    let (mut nodes, mut buffers) = (Vec::new(), Vec::new());
    for (data_type, place) in columns {
        describe(data_type, rows, *place, &mut nodes, &mut buffers)?;
    }
    let mut builder = FlatBufferBuilder::new();
    // Default values are written, too, so that the size of a message depends only on its columns.
    builder.force_defaults(true);
    let (nodes, buffers) = (builder.create_vector(&nodes), builder.create_vector(&buffers));
    let batch = RecordBatchArgs {
        length: signed(rows)?,
        nodes: Some(nodes),
        buffers: Some(buffers),
        ..RecordBatchArgs::default()
    };
    let batch = RecordBatch::create(&mut builder, &batch);
    let message = MessageArgs {
        version: MetadataVersion::V5,
        header_type: MessageHeader::RecordBatch,
        header: Some(batch.as_union_value()),
        bodyLength: signed(body)?,
        custom_metadata: None,
    };
    let message = Message::create(&mut builder, &message);
    builder.finish_minimal(message);
    frame_message(builder.finished_data(), length)
}

/// Adds the prefix to a message, and pads both with zeros to `length` bytes, or to a multiple of eight if
/// `length` is 0.
pub(super) fn frame_message(message: &[u8], length: usize) -> Result<Vec<u8>> {
    let whole = if length == 0 { (message.len() + 8).next_multiple_of(8) } else { length };
    let size = whole.checked_sub(8).filter(|size| *size >= message.len());
    let size = size.and_then(|size| i32::try_from(size).ok());
    let size =
        size.ok_or_else(|| Error::limit("an Arrow message is larger than the space reserved for it"))?;
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
    nodes: &mut Vec<FieldNode>,
    buffers: &mut Vec<Buffer>,
) -> Result<()> {
    nodes.push(FieldNode::new(signed(rows)?, 0));
    buffers.push(Buffer::new(0, 0));
    if let DataType::FixedSizeList(item, size) = data_type {
        let size = u64::try_from(*size).map_err(|_| Error::corrupt("a list of negative size"))?;
        let rows = rows.checked_mul(size).ok_or_else(|| Error::limit("a row group of 2^64 values"))?;
        return describe(item.data_type(), rows, place, nodes, buffers);
    }
    width(data_type)?;
    buffers.push(Buffer::new(signed(place.offset)?, signed(place.length)?));
    Ok(())
}

fn signed(number: u64) -> Result<i64> {
    i64::try_from(number).map_err(|_| Error::limit("a row group of 2^63 bytes"))
}

/// Returns the size in bytes of a value of fixed width.
pub(super) fn width(data_type: &DataType) -> Result<usize> {
    let width = match data_type {
        DataType::FixedSizeBinary(width) => usize::try_from(*width).ok(),
        other => other.primitive_width(),
    };
    width
        .ok_or_else(|| Error::unsupported(format!("values of the Arrow type {data_type} have no fixed size")))
}

/// Returns the bytes of the values `first..first + count` of an array.
///
/// # Errors
/// Unsupported if one of them is null.
pub(super) fn stored(data: &ArrayData, first: usize, count: usize) -> Result<&[u8]> {
    let too_large = || Error::limit("an array larger than memory");
    let first_here = first.checked_add(data.offset()).ok_or_else(too_large)?;
    if let Some(nulls) = data.nulls()
        && nulls.slice(first, count).null_count() > 0
    {
        let message = "null values: HDF5 has none; fill them, or store the validity in a column of its own";
        return Err(Error::unsupported(message));
    }
    let wrong = || Error::invalid("an array has fewer values than its length");
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
