//! Attributes as metadata: an IPC stream of one row, with a column for each attribute, in base64; and a
//! readable JSON object.

use super::from_stored::arrow;
use super::json;
use super::to_stored::{ElementEncoder, HeapTarget};
use crate::types::metadata::{
    ATTRIBUTES, ATTRIBUTES_JSON, CHARSET, NAME, NAMED, SPACE, decode_base64, encode_base64, parse_space,
    space,
};
use crate::types::{Cells, ColumnType, ConversionOptions, Strings, datatype_from_field, portable};
use crate::{Error, Result};
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_buffer::Buffer;
use arrow_ipc::reader::StreamDecoder;
use arrow_ipc::writer::StreamWriter;
use arrow_schema::Schema;
use hyperchunk::model::{Attribute, CharacterSet, Dataspace, Datatype, Name, ObjectKind};
use hyperchunk::write::{NodeId, Writer};
use hyperchunk::{File, Object};
use std::collections::HashMap;
use std::sync::Arc;

/// Returns the attributes of an object as metadata of a field or schema: empty if it has none.
///
/// # Errors
/// Errors of reading; Unsupported if Arrow has no equivalent for one of them. They name the attribute.
pub fn attributes_to_metadata(object: &Object) -> Result<HashMap<String, String>> {
    let mut attributes = object.attributes()?;
    if attributes.is_empty() {
        return Ok(HashMap::new());
    }
    if object.header().attribute_order_tracked {
        attributes.sort_by_key(|attribute| attribute.creation_order);
    }
    let file = object.file();
    let mut fields = Vec::with_capacity(attributes.len());
    let mut arrays = Vec::with_capacity(attributes.len());
    let mut shown = serde_json::Map::new();
    for attribute in &attributes {
        let of = |error: Error| named(&attribute.name, error);
        let (column, array) = column(file, attribute).map_err(of)?;
        shown.insert(attribute.name.to_string(), readable_value(file, attribute));
        fields.push(Arc::clone(column.field()));
        arrays.push(array);
    }
    let options = RecordBatchOptions::new().with_row_count(Some(1));
    let schema = Arc::new(Schema::new(fields));
    let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), arrays, &options).map_err(arrow)?;
    let bytes = stream(&batch).map_err(arrow)?;
    Ok(HashMap::from([
        (ATTRIBUTES.to_owned(), encode_base64(&bytes)),
        (ATTRIBUTES_JSON.to_owned(), serde_json::Value::Object(shown).to_string()),
    ]))
}

fn named(name: &Name, error: Error) -> Error {
    Error::new(error.kind(), format!("attribute {name}: {}", error.message()))
}

/// Encodes a batch as an IPC stream.
pub(crate) fn stream(batch: &RecordBatch) -> Result<Vec<u8>, arrow_schema::ArrowError> {
    let mut writer = StreamWriter::try_new(Vec::new(), &batch.schema())?;
    writer.write(batch)?;
    writer.finish()?;
    writer.into_inner()
}

/// Decodes the only batch of an IPC stream.
pub(crate) fn one_batch(bytes: Vec<u8>) -> Result<RecordBatch> {
    super::guarded(|| {
        let mut decoder = StreamDecoder::new();
        let mut buffer = Buffer::from_vec(bytes);
        while !buffer.is_empty() {
            if let Some(batch) = decoder.decode(&mut buffer).map_err(arrow)? {
                return Ok(batch);
            }
        }
        Err(Error::corrupt("an IPC stream without a batch"))
    })
}

/// Returns an attribute's value as one row.
fn column(file: &File, attribute: &Attribute) -> Result<(ColumnType, arrow_array::ArrayRef)> {
    let conversion =
        ConversionOptions { cells: Cells::List, strings: Strings::Stored, ..ConversionOptions::default() };
    let null = attribute.dataspace == Dataspace::Null;
    let cell = if null { &[0][..] } else { attribute.dataspace.dims() };
    let name = attribute.name.to_string();
    let mut more = vec![(SPACE.to_owned(), space(&attribute.dataspace))];
    if attribute.name.as_str().is_none() {
        more.push((NAME.to_owned(), encode_base64(attribute.name.as_bytes())));
    }
    if attribute.charset == CharacterSet::Utf8 {
        more.push((CHARSET.to_owned(), "utf8".to_owned()));
    }
    if let Some(address) = attribute.committed
        && let Some(path) = file.paths()?.find(address)
        && let Ok(path) = String::from_utf8(path)
    {
        more.push((NAMED.to_owned(), path));
    }
    let column = ColumnType::new(&name, &attribute.datatype, cell, &conversion)?.with_metadata(more);
    let array = column.array(Buffer::from(&attribute.data[..]), 1, Some(file))?;
    Ok((column, array))
}

/// Returns the value in readable form, or null if that is not possible.
fn readable_value(file: &File, attribute: &Attribute) -> serde_json::Value {
    let cell = attribute.dataspace.dims();
    if attribute.dataspace == Dataspace::Null {
        return serde_json::Value::Null;
    }
    for strings in [Strings::Text, Strings::Stored] {
        let conversion = ConversionOptions { cells: Cells::List, strings, ..ConversionOptions::default() };
        let array = ColumnType::new("", &attribute.datatype, cell, &conversion)
            .and_then(|column| column.array(Buffer::from(&attribute.data[..]), 1, Some(file)));
        if let Ok(array) = array {
            return json::value(&array, 0);
        }
    }
    serde_json::Value::Null
}

/// Sets the attributes in metadata on an object of a file that is being written, except those with the names
/// `left_out`; returns their number. Objects that they refer to must exist.
///
/// # Errors
/// Corrupt if the metadata are damaged; errors of the writer.
pub fn attributes_from_metadata(
    metadata: &HashMap<String, String>,
    writer: &Writer,
    object: NodeId,
    left_out: &[&str],
) -> Result<u64> {
    let Some(text) = metadata.get(ATTRIBUTES) else { return Ok(0) };
    let batch = one_batch(decode_base64(ATTRIBUTES, text)?)?;
    if batch.num_rows() != 1 {
        return Err(Error::corrupt(format!("attributes in {} rows instead of one", batch.num_rows())));
    }
    let mut count = 0;
    for (field, array) in batch.schema_ref().fields().iter().zip(batch.columns()) {
        let name = match field.metadata().get(NAME) {
            Some(text) => Name::from(&*decode_base64(NAME, text)?),
            None => Name::from(field.name().as_str()),
        };
        if left_out.iter().any(|left_out| left_out.as_bytes() == name.as_bytes()) {
            continue;
        }
        count += 1;
        set(writer, object, &name, field, array).map_err(|error| named(&name, error))?;
    }
    Ok(count)
}

fn set(
    writer: &Writer,
    object: NodeId,
    name: &Name,
    field: &arrow_schema::Field,
    array: &arrow_array::ArrayRef,
) -> Result<()> {
    let metadata = field.metadata();
    let (datatype, cell) = datatype_from_field(field)?;
    let dataspace = match metadata.get(SPACE) {
        Some(text) => parse_space(text)?,
        None if cell.is_empty() => Dataspace::Scalar,
        None => Dataspace::Simple { max: cell.iter().copied().map(Some).collect(), dims: cell.clone() },
    };
    let null = dataspace == Dataspace::Null;
    let expected = if null { &[0][..] } else { dataspace.dims() };
    if expected != cell {
        return Err(Error::corrupt("its extent differs from the extent of its values"));
    }
    let target = ElementEncoder::for_rows(&datatype, &cell, array.data_type())?;
    let mut data = hyperchunk::room::zeros(target.size)?;
    target.rows(array, &mut data, &HeapTarget { writer, attribute: true })?;
    let committed = metadata.get(NAMED).map(|path| committed(writer, path, &datatype)).transpose()?.flatten();
    let charset = match metadata.get(CHARSET).map(String::as_str) {
        Some("utf8") => CharacterSet::Utf8,
        _ if name.as_bytes().is_ascii() => CharacterSet::Ascii,
        _ => CharacterSet::Utf8,
    };
    let attribute =
        Attribute { name: name.clone(), charset, datatype, committed, dataspace, data, creation_order: None };
    writer.set_attribute(object, attribute)
}

/// Returns the address of the committed datatype at a path of a new file, if it exists and is equal.
pub(crate) fn committed(writer: &Writer, path: &str, datatype: &Datatype) -> Result<Option<u64>> {
    let Some(node) = super::references::find(writer, path)? else { return Ok(None) };
    if writer.kind(node)? != ObjectKind::Datatype || writer.datatype(node)? != portable(datatype)? {
        return Ok(None);
    }
    writer.address(node).map(Some)
}
