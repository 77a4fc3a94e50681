//! The attributes of columns that did not come from HDF5: their types in Arrow.

use crate::Result;
use crate::types::metadata::ARROW_TYPE;
use arrow_schema::{DataType, Field, FieldRef, Fields};
use hyperchunk::model::{Attribute, CharacterSet, Class, Dataspace, Datatype, Name, StringPadding};
use hyperchunk::write::{NodeId, Writer};
use std::sync::Arc;

/// Stores the type of a column as an attribute of its dataset, unless it can be derived from the HDF5 datatype.
pub(crate) fn store_type(writer: &Writer, dataset: NodeId, data_type: &DataType) -> Result<()> {
    if is_reversible(data_type) {
        return Ok(());
    }
    text_attribute(writer, dataset, ARROW_TYPE, &[&without_metadata(data_type).to_string()])
}

/// Returns a type without the metadata of its fields.
fn without_metadata(data_type: &DataType) -> DataType {
    let field = |field: &FieldRef| -> FieldRef {
        let data_type = without_metadata(field.data_type());
        Arc::new(Field::new(field.name(), data_type, field.is_nullable()))
    };
    match data_type {
        DataType::List(item) => DataType::List(field(item)),
        DataType::LargeList(item) => DataType::LargeList(field(item)),
        DataType::ListView(item) => DataType::ListView(field(item)),
        DataType::LargeListView(item) => DataType::LargeListView(field(item)),
        DataType::FixedSizeList(item, count) => DataType::FixedSizeList(field(item), *count),
        DataType::Map(entries, sorted) => DataType::Map(field(entries), *sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(field).collect()),
        DataType::RunEndEncoded(ends, values) => DataType::RunEndEncoded(field(ends), field(values)),
        other => other.clone(),
    }
}

/// Returns whether the Arrow type can be derived from its HDF5 datatype.
fn is_reversible(data_type: &DataType) -> bool {
    let inner = |fields: &Fields| fields.iter().all(|field| is_reversible(field.data_type()));
    match data_type {
        DataType::Time32(_)
        | DataType::Time64(_)
        | DataType::Date32
        | DataType::Date64
        | DataType::Timestamp(_, Some(_))
        | DataType::Decimal32(..)
        | DataType::Decimal64(..)
        | DataType::Decimal128(..)
        | DataType::Decimal256(..)
        | DataType::Dictionary(..)
        | DataType::RunEndEncoded(..)
        | DataType::Binary
        | DataType::LargeBinary
        | DataType::BinaryView
        | DataType::Map(..) => false,
        DataType::Struct(fields) => inner(fields),
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item)
        | DataType::FixedSizeList(item, _) => is_reversible(item.data_type()),
        _ => true,
    }
}

/// Sets an attribute to a string, or to a list of strings.
pub(crate) fn text_attribute(writer: &Writer, object: NodeId, name: &str, texts: &[&str]) -> Result<()> {
    let datatype = Datatype {
        size: 16,
        class: Class::VlenString { padding: StringPadding::NullTerminated, charset: CharacterSet::Utf8 },
    };
    let mut data = Vec::with_capacity(texts.len() * 16);
    for text in texts {
        data.extend(writer.store_attribute_sequence(text.len(), text.as_bytes())?);
    }
    let dataspace = match texts {
        [_] if name != "h5.table" => Dataspace::Scalar,
        _ => {
            let count = texts.len() as u64;
            Dataspace::Simple { dims: vec![count], max: vec![Some(count)] }
        }
    };
    let attribute = Attribute {
        name: Name::from(name),
        charset: CharacterSet::Utf8,
        datatype,
        committed: None,
        dataspace,
        data,
        creation_order: None,
    };
    writer.set_attribute(object, attribute)
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_schema::TimeUnit;

    #[test]
    fn test_types_of_every_depth_are_read_back() {
        let time = || DataType::Time32(TimeUnit::Second);
        let item = |data_type| Arc::new(Field::new("item", data_type, true));
        let marked = Field::new("a name, (of) 2: x", time(), false);
        let marked =
            marked.with_metadata(std::collections::HashMap::from([("key".to_owned(), "value".to_owned())]));
        let rows = DataType::Struct(vec![marked, Field::new("other", DataType::Int8, true)].into());
        let entries = DataType::Struct(
            vec![
                Field::new("key", DataType::Utf8, false),
                Field::new("value", DataType::Decimal128(9, 2), true),
            ]
            .into(),
        );
        for data_type in [
            time(),
            DataType::Timestamp(TimeUnit::Nanosecond, Some("Europe/Berlin".into())),
            DataType::List(item(time())),
            DataType::LargeListView(item(DataType::FixedSizeList(item(rows.clone()), 3))),
            rows,
            DataType::Map(Arc::new(Field::new("entries", entries, false)), false),
            DataType::Dictionary(Box::new(DataType::Int32), Box::new(DataType::Utf8)),
        ] {
            assert!(!is_reversible(&data_type));
            let plain = without_metadata(&data_type);
            assert_eq!(plain.to_string().parse::<DataType>().unwrap(), plain);
        }
    }
}
