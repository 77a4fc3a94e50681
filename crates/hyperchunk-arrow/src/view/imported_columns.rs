//! Columns of tables that were imported from Arrow: their types that HDF5 does not have, and their nulls.

use super::table::{Column, StoredDataset, named};
use super::text_attributes::text;
use crate::types::ColumnType;
use crate::types::metadata::{ARROW_TYPE, EXTENSION, EXTENSION_METADATA, VALID, VALID_SUFFIX};
use crate::{Error, ErrorKind, Result};
use arrow_array::cast::AsArray as _;
use arrow_array::types::UInt8Type;
use arrow_array::{
    Array as _, ArrayRef, FixedSizeListArray, LargeBinaryArray, LargeListArray, MapArray, StructArray,
    make_array,
};
use arrow_buffer::{BooleanBuffer, NullBuffer, OffsetBuffer};
use arrow_schema::{ArrowError, DataType, Field, FieldRef, TimeUnit};
use hyperchunk::Object;
use hyperchunk::model::{Class, ObjectKind};
use std::sync::Arc;

/// Gives a column the type and the dataset of nulls that the attributes of its dataset name. `group` is the table's, by
/// default the one with the dataset, and `rows` its number of rows; the dataset is appended to `all`.
pub(super) fn restore(
    column: &mut Column,
    group: Option<&Object>,
    rows: u64,
    all: &mut Vec<StoredDataset>,
) -> Result<()> {
    let Some(stored) = all.get(column.stored) else { return Ok(()) };
    let object = stored.dataset.object().clone();
    if let Some(wanted) = text(&object, ARROW_TYPE)?
        && let Ok(wanted) = wanted.parse::<DataType>()
        && let Some(restored) = restored_type(column.kind.field(), &wanted)
    {
        column.kind = column.kind.clone().with_type(restored);
    }
    let Some(name) = text(&object, VALID)?.filter(|name| name.ends_with(VALID_SUFFIX)) else { return Ok(()) };
    let found = match group {
        Some(group) => Ok(group.clone()),
        None => parent(&object),
    };
    let marks = found.and_then(|group| marks(&group, &name, rows)).map_err(|error| {
        let message = format!(
            "the attribute `{VALID}` names the dataset `{name}`, which marks the rows that are not null: {}; \
             delete the attribute if the column has no nulls",
            error.message()
        );
        named(Error::new(error.kind(), message), &object)
    })?;
    column.valid = Some(all.len());
    column.kind = column.kind.clone().with_nulls();
    all.push(marks);
    Ok(())
}

/// Gives the members of a dataset of compounds the types that an attribute of the dataset names.
pub(super) fn restore_members(columns: &mut [Column], object: &Object) -> Result<()> {
    let Some(wanted) = text(object, ARROW_TYPE)? else { return Ok(()) };
    let Ok(DataType::Struct(members)) = wanted.parse::<DataType>() else { return Ok(()) };
    for column in columns {
        if let Some(wanted) = members.iter().find(|wanted| has_name(wanted, column.kind.field().name()))
            && let Some(restored) = restored_type(column.kind.field(), wanted.data_type())
        {
            column.kind = column.kind.clone().with_type(restored);
        }
    }
    Ok(())
}

/// Gives a column with another conversion the type and the nulls that it had.
pub(super) fn restore_again(kind: ColumnType, column: &Column) -> ColumnType {
    let kind = match restored_type(kind.field(), column.kind.field().data_type()) {
        Some(restored) => kind.with_type(restored),
        None => kind,
    };
    if column.valid.is_some() { kind.with_nulls() } else { kind }
}

/// Returns the group of a dataset.
fn parent(object: &Object) -> Result<Object> {
    let path = object.path().and_then(|path| path.rsplit_once('/'));
    let (parent, _) = path.ok_or_else(|| Error::invalid("the dataset was not opened by its path"))?;
    let root = object.file().root()?.named("/");
    if parent.is_empty() { Ok(root) } else { root.group()?.get(parent.as_bytes()) }
}

/// Returns the dataset that marks rows.
fn marks(group: &Object, name: &str, rows: u64) -> Result<StoredDataset> {
    let found = group.group()?.get(name.as_bytes())?;
    if found.kind() != ObjectKind::Dataset {
        return Err(Error::corrupt("it is not a dataset"));
    }
    let (stored, found_rows) = StoredDataset::new(found.dataset()?)?;
    let is_byte = match &stored.dataset.datatype().class {
        Class::Enum { .. } | Class::Integer { .. } => stored.row == 1,
        _ => false,
    };
    if !is_byte || found_rows != rows {
        return Err(Error::corrupt(format!(
            "expected {rows} bytes, got {found_rows} rows of {} bytes",
            stored.row
        )));
    }
    Ok(stored)
}

/// Returns the type that a column had in Arrow, as far as its values are stored; `None` if that is the type that it
/// has.
pub(super) fn restored_type(field: &Field, wanted: &DataType) -> Option<DataType> {
    restored_data_type(field.data_type(), wanted)
}

fn restored_data_type(stored: &DataType, wanted: &DataType) -> Option<DataType> {
    use DataType as T;
    Some(match (stored, wanted) {
        (_, T::Dictionary(_, values)) => return restored_data_type(stored, values),
        (_, T::RunEndEncoded(_, values)) => return restored_data_type(stored, values.data_type()),
        // These values are the same bytes.
        (T::Int32, T::Time32(_) | T::Decimal32(..))
        | (T::Int64, T::Time64(_) | T::Decimal64(..))
        | (T::FixedSizeBinary(16), T::Decimal128(..))
        | (T::FixedSizeBinary(32), T::Decimal256(..))
        | (T::Timestamp(TimeUnit::Millisecond, None), T::Date64) => wanted.clone(),
        (T::Timestamp(unit, None), T::Timestamp(other, Some(_))) if unit == other => wanted.clone(),
        (T::LargeList(item), T::Binary | T::LargeBinary | T::BinaryView) if *item.data_type() == T::UInt8 => {
            T::LargeBinary
        }
        (T::LargeList(item), T::List(other) | T::LargeList(other))
        | (T::LargeList(item), T::ListView(other) | T::LargeListView(other)) => {
            T::LargeList(restored_field(item, other)?)
        }
        (T::LargeList(item), T::Map(entries, sorted)) => {
            let item = restored_field(item, entries).unwrap_or_else(|| Arc::clone(item));
            let T::Struct(members) = item.data_type() else { return None };
            let [key, value] = &members[..] else { return None };
            let key = Arc::new((**key).clone().with_nullable(false));
            let members = T::Struct([key, Arc::clone(value)].into_iter().collect());
            T::Map(Arc::new(Field::new(item.name(), members, false)), *sorted)
        }
        (T::FixedSizeList(item, count), T::FixedSizeList(other, same)) if count == same => {
            T::FixedSizeList(restored_field(item, other)?, *count)
        }
        (T::Struct(members), T::Struct(others))
            if members.len() == others.len()
                && members.iter().zip(others).all(|(member, other)| has_name(other, member.name())) =>
        {
            let made: Vec<_> =
                members.iter().zip(others).map(|(member, other)| restored_field(member, other)).collect();
            if made.iter().all(Option::is_none) {
                return None;
            }
            let made = made.into_iter().zip(members);
            T::Struct(made.map(|(made, member)| made.unwrap_or_else(|| Arc::clone(member))).collect())
        }
        _ => return None,
    })
}

/// Returns whether a field of a type that was read from text has a name: it may have escapes still.
fn has_name(field: &Field, name: &str) -> bool {
    field.name() == name || *field.name() == name.escape_debug().to_string()
}

fn restored_field(field: &Field, wanted: &Field) -> Option<FieldRef> {
    let data_type = restored_data_type(field.data_type(), wanted.data_type())?;
    let mut metadata = field.metadata().clone();
    // An extension of the stored type.
    metadata.remove(EXTENSION);
    metadata.remove(EXTENSION_METADATA);
    let made = Field::new(field.name(), data_type, field.is_nullable());
    Some(Arc::new(made.with_metadata(metadata)))
}

/// Gives an array of stored values another type, as [`restored_type`] returns it.
fn with_data_type(array: &ArrayRef, wanted: &DataType) -> std::result::Result<ArrayRef, ArrowError> {
    use DataType as T;
    if array.data_type() == wanted {
        return Ok(Arc::clone(array));
    }
    Ok(match (array.data_type(), wanted) {
        (T::LargeList(_), T::LargeBinary) => {
            let list = array.as_list::<i64>();
            let bytes = list.values().as_primitive::<UInt8Type>().values().inner().clone();
            Arc::new(LargeBinaryArray::try_new(list.offsets().clone(), bytes, list.nulls().cloned())?)
        }
        (T::LargeList(_), T::LargeList(item)) => {
            let list = array.as_list::<i64>();
            let values = with_data_type(list.values(), item.data_type())?;
            let offsets = list.offsets().clone();
            Arc::new(LargeListArray::try_new(Arc::clone(item), offsets, values, list.nulls().cloned())?)
        }
        (T::LargeList(_), T::Map(entries, sorted)) => {
            let list = array.as_list::<i64>();
            let values = with_data_type(list.values(), entries.data_type())?;
            let offsets = list.offsets().iter().map(|offset| i32::try_from(*offset));
            let offsets = offsets.collect::<std::result::Result<Vec<_>, _>>();
            let offsets = offsets.map_err(|_| ArrowError::OffsetOverflowError(values.len()))?;
            let offsets = OffsetBuffer::new(offsets.into());
            let entries = Arc::clone(entries);
            let nulls = list.nulls().cloned();
            Arc::new(MapArray::try_new(entries, offsets, values.as_struct().clone(), nulls, *sorted)?)
        }
        (T::FixedSizeList(..), T::FixedSizeList(item, count)) => {
            let list = array.as_fixed_size_list();
            let values = with_data_type(list.values(), item.data_type())?;
            let (item, nulls) = (Arc::clone(item), list.nulls().cloned());
            Arc::new(FixedSizeListArray::try_new_with_length(item, *count, values, nulls, list.len())?)
        }
        (T::Struct(_), T::Struct(members)) => {
            let rows = array.as_struct();
            let columns = rows.columns().iter().zip(members);
            let columns = columns.map(|(column, member)| with_data_type(column, member.data_type()));
            let columns = columns.collect::<std::result::Result<Vec<_>, _>>()?;
            let nulls = rows.nulls().cloned();
            Arc::new(StructArray::try_new_with_length(members.clone(), columns, nulls, rows.len())?)
        }
        (_, wanted) => {
            let data = array.to_data().into_builder().data_type(wanted.clone()).align_buffers(true);
            make_array(data.build()?)
        }
    })
}

/// Gives an array of stored values the type of its column, and the nulls that `marks` has: zeros, one byte for each
/// row.
pub(super) fn restored(array: ArrayRef, field: &Field, marks: Option<&[u8]>) -> Result<ArrayRef> {
    let wrong =
        |error: ArrowError| Error::new(ErrorKind::Corrupt, format!("the column `{}`: {error}", field.name()));
    let array = with_data_type(&array, field.data_type()).map_err(wrong)?;
    let Some(marks) = marks else { return Ok(array) };
    let valid = NullBuffer::new(BooleanBuffer::collect_bool(marks.len(), |row| marks.get(row) != Some(&0)));
    let nulls = NullBuffer::union(array.logical_nulls().as_ref(), Some(&valid));
    let data = array.to_data().into_builder().nulls(nulls);
    data.build().map(make_array).map_err(wrong)
}
