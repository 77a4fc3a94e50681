//! Times in Parquet, which has neither seconds nor dates of milliseconds: they are stored in a unit that it has, and the
//! file's Arrow schema has their own, as in files of other writers.

use arrow_array::cast::AsArray as _;
use arrow_array::types::{
    ArrowPrimitiveType, Date32Type, Date64Type, Time32MillisecondType, Time32SecondType,
    TimestampMillisecondType, TimestampSecondType,
};
use arrow_array::{Array as _, ArrayRef, RecordBatch, RecordBatchOptions, make_array};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, Field, FieldRef, Fields, Schema, SchemaRef, TimeUnit};
use std::sync::Arc;

const DAY_MILLISECONDS: i64 = 86_400_000;

/// Returns the schema of batches as Parquet stores them.
pub(super) fn stored_schema(schema: &Schema) -> Schema {
    with_fields(schema, |field| mapped(field, &|data_type| stored_type(data_type)))
}

fn stored_type(data_type: &DataType) -> Option<DataType> {
    Some(match data_type {
        DataType::Timestamp(TimeUnit::Second, zone) => {
            DataType::Timestamp(TimeUnit::Millisecond, zone.clone())
        }
        DataType::Time32(TimeUnit::Second) => DataType::Time32(TimeUnit::Millisecond),
        DataType::Date64 => DataType::Date32,
        _ => return None,
    })
}

/// Returns the schema of batches that were read from Parquet, with the types of the file's Arrow schema for times that
/// are stored in another unit.
pub(super) fn declared_schema(found: &Schema, declared: &Schema) -> Schema {
    with_fields(found, |field| {
        let other = declared.fields().find(field.name()).map(|(_, other)| other);
        other.map_or_else(|| Arc::clone(field), |other| restored(field, other))
    })
}

fn restored(found: &FieldRef, declared: &Field) -> FieldRef {
    if stored_type(declared.data_type()).as_ref() == Some(found.data_type()) {
        return Arc::new((**found).clone().with_data_type(declared.data_type().clone()));
    }
    if let DataType::Dictionary(_, values) = declared.data_type() {
        return restored(found, &Field::new(declared.name(), (**values).clone(), true));
    }
    let others = children(declared.data_type());
    if others.is_empty() || others.len() != children(found.data_type()).len() {
        return Arc::clone(found);
    }
    let mut others = others.into_iter();
    let mut next = |field: &FieldRef| match others.next() {
        Some(other) => restored(field, &other),
        None => Arc::clone(field),
    };
    let data_type = with_children(found.data_type(), &mut next);
    Arc::new((**found).clone().with_data_type(data_type))
}

fn with_fields(schema: &Schema, change: impl FnMut(&FieldRef) -> FieldRef) -> Schema {
    let fields: Fields = schema.fields().iter().map(change).collect();
    Schema::new_with_metadata(fields, schema.metadata().clone())
}

fn mapped(field: &FieldRef, change: &dyn Fn(&DataType) -> Option<DataType>) -> FieldRef {
    let data_type = change(field.data_type())
        .unwrap_or_else(|| with_children(field.data_type(), &mut |field| mapped(field, change)));
    Arc::new((**field).clone().with_data_type(data_type))
}

/// Returns the fields inside of a type.
fn children(data_type: &DataType) -> Vec<FieldRef> {
    let mut found = Vec::new();
    with_children(data_type, &mut |field| {
        found.push(Arc::clone(field));
        Arc::clone(field)
    });
    found
}

/// Changes the fields inside of a type.
fn with_children(data_type: &DataType, change: &mut dyn FnMut(&FieldRef) -> FieldRef) -> DataType {
    match data_type {
        DataType::List(item) => DataType::List(change(item)),
        DataType::LargeList(item) => DataType::LargeList(change(item)),
        DataType::FixedSizeList(item, count) => DataType::FixedSizeList(change(item), *count),
        DataType::Map(entries, sorted) => DataType::Map(change(entries), *sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(change).collect()),
        other => other.clone(),
    }
}

/// Converts the times of a batch to the types of a schema.
///
/// # Errors
/// Compute if a time is not exact in its new unit, or too large for it.
pub(super) fn converted(batch: &RecordBatch, schema: &SchemaRef) -> Result<RecordBatch, ArrowError> {
    let columns = batch.columns().iter().zip(schema.fields());
    let columns =
        columns.map(|(column, field)| Ok(make_array(convert(&column.to_data(), field.data_type())?)));
    let columns = columns.collect::<Result<Vec<ArrayRef>, ArrowError>>()?;
    let options = RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
    RecordBatch::try_new_with_options(Arc::clone(schema), columns, &options)
}

fn convert(data: &ArrayData, to: &DataType) -> Result<ArrayData, ArrowError> {
    if data.data_type() == to {
        return Ok(data.clone());
    }
    let multiply = |time: i64, factor: i64| time.checked_mul(factor);
    let divide = |time: i64, factor: i64| (time % factor == 0).then(|| time / factor);
    let array = make_array(data.clone());
    let made: ArrayRef = match (data.data_type(), to) {
        (DataType::Timestamp(TimeUnit::Second, _), DataType::Timestamp(TimeUnit::Millisecond, zone)) => {
            let made = scaled::<TimestampSecondType, TimestampMillisecondType>(&array, multiply, 1000)?;
            Arc::new(made.as_primitive::<TimestampMillisecondType>().clone().with_timezone_opt(zone.clone()))
        }
        (DataType::Timestamp(TimeUnit::Millisecond, _), DataType::Timestamp(TimeUnit::Second, zone)) => {
            let made = scaled::<TimestampMillisecondType, TimestampSecondType>(&array, divide, 1000)?;
            Arc::new(made.as_primitive::<TimestampSecondType>().clone().with_timezone_opt(zone.clone()))
        }
        (DataType::Time32(TimeUnit::Second), DataType::Time32(TimeUnit::Millisecond)) => {
            scaled::<Time32SecondType, Time32MillisecondType>(&array, multiply, 1000)?
        }
        (DataType::Time32(TimeUnit::Millisecond), DataType::Time32(TimeUnit::Second)) => {
            scaled::<Time32MillisecondType, Time32SecondType>(&array, divide, 1000)?
        }
        (DataType::Date64, DataType::Date32) => {
            scaled::<Date64Type, Date32Type>(&array, divide, DAY_MILLISECONDS)?
        }
        (DataType::Date32, DataType::Date64) => {
            scaled::<Date32Type, Date64Type>(&array, multiply, DAY_MILLISECONDS)?
        }
        _ => {
            let wanted = children(to);
            let parts = data.child_data().iter().zip(&wanted);
            let parts = parts.map(|(part, field)| convert(part, field.data_type()));
            let parts = parts.collect::<Result<Vec<_>, _>>()?;
            return data.clone().into_builder().data_type(to.clone()).child_data(parts).build();
        }
    };
    Ok(made.to_data())
}

/// Multiplies or divides times.
fn scaled<From, To>(
    array: &ArrayRef,
    scale: fn(i64, i64) -> Option<i64>,
    factor: i64,
) -> Result<ArrayRef, ArrowError>
where
    From: ArrowPrimitiveType<Native: Into<i64>>,
    To: ArrowPrimitiveType<Native: TryFrom<i64>>,
{
    let one = |time: From::Native| {
        let made = scale(time.into(), factor).and_then(|time| To::Native::try_from(time).ok());
        made.ok_or_else(|| {
            let message = format!(
                "cannot store the time {} of the type {} as {}: expected one that this type has exactly",
                time.into(),
                From::DATA_TYPE,
                To::DATA_TYPE
            );
            ArrowError::ComputeError(message)
        })
    };
    Ok(Arc::new(array.as_primitive::<From>().try_unary::<_, To, _>(one)?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use arrow_array::{Int32Array, ListArray, StructArray, TimestampSecondArray};
    use arrow_buffer::OffsetBuffer;

    #[test]
    fn test_times_come_back_from_every_depth() {
        let times = TimestampSecondArray::from(vec![Some(1), None, Some(-5)]).with_timezone("UTC");
        let item = Arc::new(Field::new("item", times.data_type().clone(), true));
        let lists = ListArray::new(item, OffsetBuffer::new(vec![0, 2, 3].into()), Arc::new(times), None);
        let fields = vec![
            Field::new("times", lists.data_type().clone(), true),
            Field::new("numbers", DataType::Int32, false),
        ];
        let rows = StructArray::new(
            fields.into(),
            vec![Arc::new(lists), Arc::new(Int32Array::from(vec![7, 8]))],
            None,
        );
        let schema = Arc::new(Schema::new(vec![Field::new("rows", rows.data_type().clone(), false)]));
        let batch = RecordBatch::try_new(Arc::clone(&schema), vec![Arc::new(rows)]).unwrap();
        let stored = Arc::new(stored_schema(&schema));
        let written = converted(&batch, &stored).unwrap();
        assert!(format!("{:?}", written.schema()).contains("Millisecond"));
        let declared = Arc::new(declared_schema(&stored, &schema));
        assert_eq!(declared, schema);
        assert_eq!(converted(&written, &declared).unwrap(), batch);
    }

    #[test]
    fn test_times_that_do_not_fit_are_errors() {
        let check = |time: i64, good: bool| {
            let times: ArrayRef = Arc::new(TimestampSecondArray::from(vec![time]));
            let made = convert(&times.to_data(), &DataType::Timestamp(TimeUnit::Millisecond, None));
            assert_eq!(made.is_ok(), good, "{time}");
        };
        check(i64::MAX / 1000, true);
        check(i64::MAX / 1000 + 1, false);
        let dates: ArrayRef = Arc::new(arrow_array::Date64Array::from(vec![DAY_MILLISECONDS + 1]));
        let error = convert(&dates.to_data(), &DataType::Date32).unwrap_err();
        assert!(error.to_string().contains("expected one that this type has exactly"), "{error}");
    }
}
