//! Columns of tables that were imported from Arrow: their types that HDF5 does not have, and their nulls.

use super::table::{Column, StoredDataset, named};
use super::text_attributes::text;
use crate::types::ColumnType;
use crate::types::metadata::{ARROW_TYPE, VALID, VALID_SUFFIX};
use crate::{Error, ErrorKind, Result};
use arrow_array::cast::AsArray as _;
use arrow_array::types::UInt8Type;
use arrow_array::{Array as _, ArrayRef, LargeBinaryArray, make_array};
use arrow_buffer::{BooleanBuffer, NullBuffer};
use arrow_schema::{ArrowError, DataType, Field, TimeUnit};
use hyperchunk::Object;
use hyperchunk::model::{Class, ObjectKind};
use std::sync::Arc;

/// Gives a column the type and the dataset of nulls that the attributes of its dataset name. `rows` is the
/// table's number of rows; the dataset is appended to `all`.
pub(super) fn restore(
    column: &mut Column,
    group: &Object,
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
    let marks = marks(group, &name, rows).map_err(|error| {
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

/// Gives a column with another conversion the type and the nulls that it had.
pub(super) fn restore_again(kind: ColumnType, column: &Column) -> ColumnType {
    let kind = match restored_type(kind.field(), column.kind.field().data_type()) {
        Some(restored) => kind.with_type(restored),
        None => kind,
    };
    if column.valid.is_some() { kind.with_nulls() } else { kind }
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

/// Returns the type of a column whose values are the same bytes as those of the type that it had in Arrow; `None` if
/// they are not, or the type has no other name.
pub(super) fn restored_type(field: &Field, wanted: &DataType) -> Option<DataType> {
    let is_same = match (field.data_type(), wanted) {
        (DataType::Int32, DataType::Time32(_) | DataType::Decimal32(..))
        | (DataType::Int64, DataType::Time64(_) | DataType::Decimal64(..))
        | (DataType::FixedSizeBinary(16), DataType::Decimal128(..))
        | (DataType::FixedSizeBinary(32), DataType::Decimal256(..))
        | (DataType::Timestamp(TimeUnit::Millisecond, None), DataType::Date64) => true,
        (DataType::Timestamp(unit, None), DataType::Timestamp(other, Some(_))) => unit == other,
        (DataType::LargeList(item), DataType::Binary | DataType::LargeBinary | DataType::BinaryView) => {
            return (*item.data_type() == DataType::UInt8).then_some(DataType::LargeBinary);
        }
        _ => false,
    };
    is_same.then(|| wanted.clone())
}

/// Gives an array of stored values the type of its column, and the nulls that `marks` has: zeros, one byte for each
/// row.
pub(super) fn restored(array: ArrayRef, field: &Field, marks: Option<&[u8]>) -> Result<ArrayRef> {
    let wrong =
        |error: ArrowError| Error::new(ErrorKind::Corrupt, format!("the column `{}`: {error}", field.name()));
    let array: ArrayRef = match (array.data_type(), field.data_type()) {
        (from, to) if from == to => array,
        (DataType::LargeList(_), DataType::LargeBinary) => {
            let list = array.as_list::<i64>();
            let bytes = list.values().as_primitive::<UInt8Type>().values().inner().clone();
            let made = LargeBinaryArray::try_new(list.offsets().clone(), bytes, list.nulls().cloned());
            Arc::new(made.map_err(wrong)?)
        }
        (_, to) => {
            let data = array.to_data().into_builder().data_type(to.clone()).align_buffers(true);
            make_array(data.build().map_err(wrong)?)
        }
    };
    let Some(marks) = marks else { return Ok(array) };
    let valid = NullBuffer::new(BooleanBuffer::collect_bool(marks.len(), |row| marks.get(row) != Some(&0)));
    let nulls = NullBuffer::union(array.logical_nulls().as_ref(), Some(&valid));
    let data = array.to_data().into_builder().nulls(nulls);
    data.build().map(make_array).map_err(wrong)
}
