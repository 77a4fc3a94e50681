//! Subset of Arrow's IPC file format that fragments need: encoding of schemas, record batches and
//! footers.
//!
//! Source: *Arrow Columnar Format*, version 1.5, "Serialization and Interprocess Communication",
//! and its flatbuffer schemas.

use super::flatbuffer::{Builder, ObjectRef, Table, Value};
use crate::Definition;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use flatbuffers::VOffsetT;
use hyperchunk::{Error, Result};
use hyperchunk_format::encode::{LibVersion, message as encode};
use hyperchunk_format::model::{ByteOrder, Class, Datatype};

/// Signature at the start and the end of a file.
pub(super) const MAGIC: [u8; 6] = *b"ARROW1";
/// Start of a message.
const CONTINUATION: [u8; 4] = [0xff; 4];
/// Version 5 of the metadata.
const METADATA_VERSION: i16 = 4;
const SCHEMA_KIND: u8 = 1;
const RECORD_BATCH_KIND: u8 = 3;

/// A column: the Arrow type of a dataset whose bytes have Arrow's format.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Field {
    pub(super) name: String,
    kind: Kind,
    /// Extent of a row of a tensor; empty for scalars.
    pub(super) cell: Vec<u64>,
    metadata: Vec<(&'static str, String)>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Int(u8, bool),
    Float(u8),
    Bytes(i32),
}

/// Offset in the batch's body, and length, of the values of a column.
pub(super) type Span = (u64, u64);

/// Location of a batch in the footer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Block {
    pub(super) at: u64,
    pub(super) metadata: u64,
    pub(super) body: u64,
}

impl Field {
    /// Returns the column of a dataset; `None` if its bytes do not have Arrow's format.
    pub(crate) fn from_definition(definition: &Definition) -> Option<Self> {
        let Definition { path, datatype, dims, .. } = definition;
        let name = path.rsplit(|byte| *byte == b'/').next().filter(|name| !name.is_empty())?;
        let name = std::str::from_utf8(name).ok()?.to_owned();
        let cell = dims.get(1..)?.to_vec();
        let kind = kind(datatype)?;
        let count = cell.iter().try_fold(1_u64, |product, dim| product.checked_mul(*dim))?;
        if count == 0 || i32::try_from(count).is_err() {
            return None;
        }
        let message = encode::datatype::encode(datatype, LibVersion::V200).ok()?;
        let mut metadata = vec![("h5.dtype", STANDARD.encode(&message))];
        if let Class::Enum { members, .. } = &datatype.class {
            let is_bool = datatype.size == 1
                && matches!(&**members, [no, yes] if no.name.as_bytes() == b"FALSE" && *no.value == [0]
                    && yes.name.as_bytes() == b"TRUE" && *yes.value == [1]);
            if is_bool && cell.is_empty() {
                metadata.push(("ARROW:extension:name", "arrow.bool8".to_owned()));
                metadata.push(("ARROW:extension:metadata", String::new()));
            }
        }
        if !cell.is_empty() {
            let shape = serde_json::json!({ "shape": cell });
            metadata.push(("ARROW:extension:name", "arrow.fixed_shape_tensor".to_owned()));
            metadata.push(("ARROW:extension:metadata", shape.to_string()));
        }
        Some(Self { name, kind, cell, metadata })
    }

    fn put(&self, builder: &mut Builder) -> ObjectRef {
        let item = if self.cell.is_empty() {
            None
        } else {
            let name = builder.text("item");
            Some(field(builder, name, arrow_type(self.kind), None, &[]))
        };
        let name = builder.text(&self.name);
        match item {
            None => field(builder, name, arrow_type(self.kind), None, &self.metadata),
            Some(item) => {
                let count = self.cell.iter().fold(1_u64, |product, dim| product.saturating_mul(*dim));
                let size = i32::try_from(count).unwrap_or(i32::MAX);
                field(builder, name, (16, vec![(0, Value::Int(size))]), Some(item), &self.metadata)
            }
        }
    }
}

/// Returns the Arrow type of elements.
fn kind(datatype: &Datatype) -> Option<Kind> {
    let size = u8::try_from(datatype.size).ok();
    match &datatype.class {
        Class::Integer { order, signed, offset: 0, precision }
            if (*order == ByteOrder::Little || datatype.size == 1)
                && u64::from(*precision) == 8 * datatype.size
                && matches!(datatype.size, 1 | 2 | 4 | 8) =>
        {
            Some(Kind::Int(size?, *signed))
        }
        Class::Bitfield { order, offset: 0, precision }
            if (*order == ByteOrder::Little || datatype.size == 1)
                && u64::from(*precision) == 8 * datatype.size
                && matches!(datatype.size, 1 | 2 | 4 | 8) =>
        {
            Some(Kind::Int(size?, false))
        }
        Class::Float(_) => {
            let is_ieee = matches!(datatype.size, 2 | 4 | 8)
                && *datatype == Datatype::ieee(u16::from(size?), ByteOrder::Little);
            is_ieee.then_some(Kind::Float(size?))
        }
        Class::Enum { base, .. } => kind(base).filter(|kind| matches!(kind, Kind::Int(..))),
        Class::String { .. } | Class::Opaque { .. } => i32::try_from(datatype.size).ok().map(Kind::Bytes),
        _ => None,
    }
}

/// Returns a type's number in the union, and the fields of its table.
fn arrow_type(kind: Kind) -> (u8, Vec<(VOffsetT, Value)>) {
    match kind {
        Kind::Int(size, signed) => {
            (2, vec![(0, Value::Int(8 * i32::from(size))), (1, Value::Byte(u8::from(signed)))])
        }
        Kind::Float(size) => (
            3,
            vec![(
                0,
                Value::Short(match size {
                    2 => 0,
                    4 => 1,
                    _ => 2,
                }),
            )],
        ),
        Kind::Bytes(width) => (15, vec![(0, Value::Int(width))]),
    }
}

fn field(
    builder: &mut Builder,
    name: ObjectRef,
    (number, parts): (u8, Vec<(VOffsetT, Value)>),
    child: Option<ObjectRef>,
    metadata: &[(&str, String)],
) -> ObjectRef {
    let kind = builder.table(&parts);
    let children = builder.list(child.as_slice());
    let metadata = pairs(builder, metadata);
    let mut fields =
        vec![(0, Value::Is(name)), (2, Value::Byte(number)), (3, Value::Is(kind)), (5, Value::Is(children))];
    fields.extend(metadata.map(|metadata| (6, Value::Is(metadata))));
    builder.table(&fields)
}

fn pairs(builder: &mut Builder, pairs: &[(&str, String)]) -> Option<ObjectRef> {
    if pairs.is_empty() {
        return None;
    }
    let mut made = Vec::new();
    for (key, value) in pairs {
        let (key, value) = (builder.text(key), builder.text(value));
        made.push(builder.table(&[(0, Value::Is(key)), (1, Value::Is(value))]));
    }
    Some(builder.list(&made))
}

fn put_schema(builder: &mut Builder, fields: &[&Field], metadata: &[(&str, String)]) -> ObjectRef {
    let made: Vec<ObjectRef> = fields.iter().map(|field| field.put(builder)).collect();
    let list = builder.list(&made);
    let metadata = pairs(builder, metadata);
    let mut parts = vec![(1, Value::Is(list))];
    parts.extend(metadata.map(|metadata| (2, Value::Is(metadata))));
    builder.table(&parts)
}

fn message(
    mut builder: Builder,
    kind: u8,
    header: ObjectRef,
    body: u64,
    metadata: &[(&str, String)],
) -> Vec<u8> {
    let metadata = pairs(&mut builder, metadata);
    let mut parts = vec![(0, Value::Short(METADATA_VERSION)), (1, Value::Byte(kind)), (2, Value::Is(header))];
    parts.push((3, Value::Long(body.cast_signed())));
    parts.extend(metadata.map(|metadata| (4, Value::Is(metadata))));
    let root = builder.table(&parts);
    builder.finish(root)
}

/// Frames a message, padded to `room` bytes; `None` if it is longer.
fn framed(flat: &[u8], room: u64) -> Option<Vec<u8>> {
    let room = usize::try_from(room).ok()?;
    let length = i32::try_from(room.checked_sub(8)?).ok()?;
    if flat.len() + 8 > room {
        return None;
    }
    let mut bytes = CONTINUATION.to_vec();
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(flat);
    bytes.resize(room, 0);
    Some(bytes)
}

/// Encodes the message of a schema, padded to `room` bytes; `None` if it is longer.
pub(super) fn schema(fields: &[&Field], metadata: &[(&str, String)], room: u64) -> Option<Vec<u8>> {
    let mut builder = Builder::default();
    let schema = put_schema(&mut builder, fields, metadata);
    framed(&message(builder, SCHEMA_KIND, schema, 0, &[]), room)
}

/// Encodes the message of a batch, padded to `room` bytes; `None` if it is longer. `columns` has
/// the location of each column's values.
pub(super) fn batch(
    rows: u64,
    columns: &[(&Field, Span)],
    body: u64,
    metadata: &[(&str, String)],
    room: u64,
) -> Option<Vec<u8>> {
    let (mut nodes, mut buffers) = (Vec::new(), Vec::new());
    for (field, (offset, length)) in columns {
        nodes.push([rows.cast_signed(), 0]);
        buffers.push([0, 0]);
        if !field.cell.is_empty() {
            let values = field.cell.iter().fold(rows, |product, dim| product.saturating_mul(*dim));
            nodes.push([values.cast_signed(), 0]);
            buffers.push([0, 0]);
        }
        buffers.push([offset.cast_signed(), length.cast_signed()]);
    }
    let mut builder = Builder::default();
    let (nodes, buffers) = (builder.structs(&nodes), builder.structs(&buffers));
    let parts = [(0, Value::Long(rows.cast_signed())), (1, Value::Is(nodes)), (2, Value::Is(buffers))];
    let header = builder.table(&parts);
    framed(&message(builder, RECORD_BATCH_KIND, header, body, metadata), room)
}

/// Encodes the end of a file: the end of its stream, and the footer.
pub(super) fn footer(fields: &[&Field], blocks: &[Block], metadata: &[(&str, String)]) -> Vec<u8> {
    let mut builder = Builder::default();
    let schema = put_schema(&mut builder, fields, metadata);
    let blocks: Vec<[i64; 3]> =
        blocks.iter().map(|block| [block.at, block.metadata, block.body].map(u64::cast_signed)).collect();
    let (blocks, none) = (builder.structs(&blocks), builder.structs::<3>(&[]));
    let parts = [
        (0, Value::Short(METADATA_VERSION)),
        (1, Value::Is(schema)),
        (2, Value::Is(none)),
        (3, Value::Is(blocks)),
    ];
    let root = builder.table(&parts);
    let flat = builder.finish(root);
    let mut bytes = CONTINUATION.to_vec();
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(&flat);
    bytes.extend_from_slice(&u32::try_from(flat.len()).unwrap_or(u32::MAX).to_le_bytes());
    bytes.extend_from_slice(&MAGIC);
    bytes
}

/// Decoded footer: the columns, each with its name and number of buffers, and the batches.
pub(super) struct Footer {
    pub(super) columns: Vec<(String, usize)>,
    pub(super) blocks: Vec<Block>,
}

fn wrong(message: &str) -> Error {
    Error::corrupt(message.to_owned()).within("fragment")
}

pub(super) fn read_footer(flat: &[u8]) -> Result<Footer> {
    let root = Table::root(flat)?;
    let schema = root.table(1)?.ok_or_else(|| wrong("a footer without a schema"))?;
    let mut columns = Vec::new();
    for field in schema.list(1)? {
        let name = field.text(0)?.unwrap_or_default().to_owned();
        let children = field.list(5)?.len();
        columns.push((name, if children == 0 { 2 } else { 3 }));
    }
    let mut blocks = Vec::new();
    for [at, metadata, body] in root.structs::<3>(3)? {
        let number =
            |value: i64| u64::try_from(value).map_err(|_| wrong("a batch with a negative offset or size"));
        // The length of the metadata has 32 bits, followed by 32 bits of padding.
        let metadata = number(metadata & 0xffff_ffff)?;
        blocks.push(Block { at: number(at)?, metadata, body: number(body)? });
    }
    Ok(Footer { columns, blocks })
}

/// Decodes the message of a batch: its number of rows, and its buffers.
pub(super) fn read_batch(bytes: &[u8]) -> Result<(u64, Vec<Span>)> {
    let flat = bytes.get(8..).filter(|_| bytes.starts_with(&CONTINUATION));
    let root = Table::root(flat.ok_or_else(|| wrong("there is no message at the offset of a batch"))?)?;
    if root.byte(1)? != RECORD_BATCH_KIND {
        return Err(wrong("a message that is not a record batch"));
    }
    let batch = root.table(2)?.ok_or_else(|| wrong("a message without a batch"))?;
    let number = |value: i64| u64::try_from(value).map_err(|_| wrong("a batch of a negative size"));
    let rows = number(batch.long(0)?)?;
    let buffers = batch.structs::<2>(2)?;
    let buffers = buffers.into_iter().map(|[at, length]| Ok((number(at)?, number(length)?)));
    Ok((rows, buffers.collect::<Result<_>>()?))
}
