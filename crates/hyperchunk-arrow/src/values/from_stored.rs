//! Conversion of stored bytes to arrays.

use super::references::{self, ArrowReference};
use crate::types::{ColumnType, Element, Form, MemberElement};
use crate::{Error, ErrorKind, Result};
use arrow_array::builder::{BooleanBufferBuilder, LargeListBuilder, UInt64Builder};
use arrow_array::types::Int32Type;
use arrow_array::{
    Array as _, ArrayRef, BinaryArray, Date32Array, DictionaryArray, DurationSecondArray, Int32Array,
    LargeBinaryArray, LargeListArray, LargeStringArray, StringArray, StructArray, TimestampSecondArray,
    make_array,
};
use arrow_buffer::{Buffer, MutableBuffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, DataType, Field};
use hyperchunk::convert::Conversion;
use hyperchunk::model::{ByteOrder, ReferenceKind, StringPadding};
use hyperchunk::{File, Sequences};
use std::sync::Arc;

/// Number of rows of a compound that are split at once, so that they fit into the processor's cache.
const BLOCK_ROWS: usize = 4096;

impl ColumnType {
    /// Makes an array of rows from their stored bytes, which are copied only if they need a conversion
    /// ([`ColumnType::zero_copy`]) or are misaligned. `file` contains the targets of sequences and
    /// references.
    ///
    /// # Errors
    /// Invalid if the number of bytes does not match the rows, or `file` is missing but needed; Conversion
    /// for text that is not UTF-8, and for values without a name of enumerations that are shown by name;
    /// errors of reading the heap.
    pub fn array(&self, stored: Buffer, rows: usize, file: Option<&File>) -> Result<ArrayRef> {
        let size = self.row_size();
        if size.checked_mul(rows) != Some(stored.len()) {
            let message = format!("got {} bytes for {rows} rows of {size} bytes", stored.len());
            return Err(Error::invalid(message));
        }
        if let Some(align) = self.zero_copy()
            && stored.as_ptr().align_offset(align) == 0
        {
            return in_place(&self.element, stored, rows).map(make_array).map_err(|error| self.named(error));
        }
        self.strided_array(&stored, size, rows, file)
    }

    /// Makes an array of rows that begin every `stride` bytes of `stored`, such as a member of each compound.
    ///
    /// # Errors
    /// As [`ColumnType::array`].
    pub fn strided_array(
        &self,
        stored: &[u8],
        stride: usize,
        rows: usize,
        file: Option<&File>,
    ) -> Result<ArrayRef> {
        let mut ends = HeapSource::new(file);
        let made = Column::new(&self.element, rows).and_then(|mut column| {
            column.push(stored, stride, rows, &mut ends)?;
            column.finish()
        });
        made.map(|(array, _)| array).map_err(|error| self.named(error))
    }

    fn named(&self, error: Error) -> Error {
        let name = self.field().name();
        if name.is_empty() {
            error
        } else {
            Error::new(error.kind(), format!("column {name}: {}", error.message()))
        }
    }
}

/// Makes arrays of the members of a compound, each with its offset in an element: `stored` has `rows`
/// elements of `stride` bytes. Elements are split in blocks that fit into the processor's cache.
///
/// # Errors
/// As [`ColumnType::array`].
pub fn split_members(
    columns: &[(usize, ColumnType)],
    stored: &[u8],
    stride: usize,
    rows: usize,
    file: Option<&File>,
) -> Result<Vec<ArrayRef>> {
    let mut ends = HeapSource::new(file);
    let made = columns.iter().map(|(_, column)| Column::new(&column.element, rows));
    let mut made = made.collect::<Result<Vec<_>>>()?;
    let mut done = 0;
    while done < rows {
        let count = (rows - done).min(BLOCK_ROWS);
        for ((offset, column), made) in columns.iter().zip(&mut made) {
            let from = done.saturating_mul(stride).saturating_add(*offset);
            let stored = stored.get(from..).unwrap_or_default();
            made.push(stored, stride, count, &mut ends).map_err(|error| column.named(error))?;
        }
        done += count;
    }
    let finish = |(made, (_, column)): (Column<'_>, &(usize, ColumnType))| {
        made.finish().map(|(array, _)| array).map_err(|error| column.named(error))
    };
    made.into_iter().zip(columns).map(finish).collect()
}

/// Converts an error of Arrow.
pub(crate) fn arrow(error: ArrowError) -> Error {
    Error::invalid(error.to_string())
}

fn no_file() -> Error {
    Error::invalid("the elements refer to data elsewhere in their file, but no file was given")
}

fn too_large() -> Error {
    Error::limit("larger than the address space")
}

/// Makes an array over elements that need no conversion.
fn in_place(element: &Element, stored: Buffer, rows: usize) -> Result<ArrayData> {
    let builder = ArrayData::builder(element.data_type.clone()).len(rows);
    let builder = match &element.form {
        Form::List(item, count) => {
            builder.add_child_data(in_place(item, stored, rows.checked_mul(*count).ok_or_else(too_large)?)?)
        }
        _ => {
            let (nulls, stored) = with_missing_times(&element.data_type, stored);
            builder.nulls(nulls).add_buffer(stored)
        }
    };
    builder.build().map_err(arrow)
}

/// The file to which elements refer, and its heap of sequences.
struct HeapSource<'a> {
    file: Option<&'a File>,
    sequences: Option<Sequences<'a>>,
}

impl<'a> HeapSource<'a> {
    fn new(file: Option<&'a File>) -> Self {
        Self { file, sequences: file.map(File::sequences) }
    }

    fn sequences(&mut self) -> Result<&mut Sequences<'a>> {
        self.sequences.as_mut().ok_or_else(no_file)
    }
}

/// An array under construction.
struct Column<'e> {
    element: &'e Element,
    rows: usize,
    state: ColumnState<'e>,
}

enum ColumnState<'e> {
    Plain(MutableBuffer),
    Converted { conversion: &'e Conversion, width: usize, scratch: Vec<u8>, values: MutableBuffer },
    Text { offsets: Vec<i64>, values: Vec<u8>, valid: BooleanBufferBuilder },
    Names { values: &'e [Vec<u8>], names: &'e [String], keys: Vec<i32> },
    Struct(Vec<(usize, Column<'e>)>),
    List(Box<Column<'e>>, usize),
    References(ReferenceKind, Vec<ArrowReference>),
    Sequence { offsets: Vec<i64>, item: Box<Column<'e>>, base: &'e hyperchunk::model::Datatype },
    Multiples { factor: i64, order: ByteOrder, times: Vec<Option<i64>> },
}

impl<'e> Column<'e> {
    /// Makes a column with capacity for the rows, up to a limit.
    fn new(element: &'e Element, rows: usize) -> Result<Self> {
        let room = |size: usize| rows.saturating_mul(size).min(1 << 26);
        let text = || ColumnState::Text {
            offsets: vec![0],
            values: Vec::new(),
            valid: BooleanBufferBuilder::new(0),
        };
        let state = match &element.form {
            Form::Plain { .. } => ColumnState::Plain(MutableBuffer::new(room(element.size))),
            Form::Converted { conversion, width, .. } => ColumnState::Converted {
                conversion,
                width: *width,
                scratch: Vec::new(),
                values: MutableBuffer::new(room(*width)),
            },
            Form::Text(_) | Form::AnyText | Form::AnyBytes => text(),
            Form::Names(names) => {
                ColumnState::Names { values: &names.values, names: &names.names, keys: Vec::new() }
            }
            Form::Struct(parts) => {
                let part = |part: &'e MemberElement| Ok((part.offset, Column::new(&part.element, rows)?));
                ColumnState::Struct(parts.iter().map(part).collect::<Result<_>>()?)
            }
            Form::List(item, count) => {
                let rows = rows.checked_mul(*count).ok_or_else(too_large)?;
                ColumnState::List(Box::new(Column::new(item, rows)?), *count)
            }
            Form::Sequence(item, base) => {
                ColumnState::Sequence { offsets: vec![0], item: Box::new(Column::new(item, 0)?), base }
            }
            Form::Reference(kind) => ColumnState::References(*kind, Vec::new()),
            Form::Multiples { factor, order } => {
                ColumnState::Multiples { factor: *factor, order: *order, times: Vec::new() }
            }
        };
        Ok(Self { element, rows: 0, state })
    }

    /// Adds rows that begin every `stride` bytes.
    fn push(&mut self, stored: &[u8], stride: usize, rows: usize, ends: &mut HeapSource<'_>) -> Result<()> {
        let size = self.element.size;
        let form = &self.element.form;
        match &mut self.state {
            ColumnState::Plain(values) => {
                gather(stored, stride, size, rows, |bytes| values.extend_from_slice(bytes))?
            }
            ColumnState::Converted { conversion, width, scratch, values } => {
                let mut done = 0;
                while done < rows {
                    let count = (rows - done).min(BLOCK_ROWS);
                    scratch.clear();
                    let from = stored.get(done.saturating_mul(stride)..).unwrap_or_default();
                    gather(from, stride, size, count, |bytes| scratch.extend_from_slice(bytes))?;
                    let start = values.len();
                    values.resize(start + count * *width, 0);
                    conversion.run(
                        scratch,
                        values.as_slice_mut().get_mut(start..).unwrap_or_default(),
                        count,
                    )?;
                    done += count;
                }
            }
            ColumnState::Text { offsets, values, valid } => {
                for row in 0..rows {
                    let stored = part(stored, row, stride, size)?;
                    let (text, is_valid) = match form {
                        Form::Text(padding) => (unpadded(stored, *padding), true),
                        form => {
                            let null = is_null(stored);
                            let sequences = ends.sequences()?;
                            let found = if matches!(form, Form::AnyText) {
                                sequences.string(stored)?
                            } else {
                                sequences.get(stored, &byte())?.map_or(&[][..], |(_, bytes)| bytes)
                            };
                            (found, !null)
                        }
                    };
                    values.try_reserve(text.len()).map_err(|_| too_large())?;
                    values.extend_from_slice(text);
                    offsets.push(i64::try_from(values.len()).map_err(|_| too_large())?);
                    valid.append(is_valid);
                }
            }
            ColumnState::Names { values, keys, .. } => {
                for row in 0..rows {
                    let stored = part(stored, row, stride, size)?;
                    let key = values.iter().position(|value| value == stored);
                    let key = key.and_then(|key| i32::try_from(key).ok()).ok_or_else(|| {
                        let message = "a value of an enumeration has no name (read enums as values)";
                        Error::new(ErrorKind::Conversion, message)
                    })?;
                    keys.push(key);
                }
            }
            ColumnState::References(kind, found) => {
                let file = ends.file.ok_or_else(no_file)?;
                for row in 0..rows {
                    found.push(references::read_reference(file, *kind, part(stored, row, stride, size)?)?);
                }
            }
            ColumnState::Multiples { factor, order, times } => {
                for row in 0..rows {
                    let stored = part(stored, row, stride, size)?;
                    let bytes =
                        <[u8; 8]>::try_from(stored).map_err(|_| Error::invalid("fewer bytes than rows"))?;
                    let time = match order {
                        ByteOrder::Big => i64::from_be_bytes(bytes),
                        _ => i64::from_le_bytes(bytes),
                    };
                    times.push(multiple(time, *factor, &self.element.data_type)?);
                }
            }
            ColumnState::Struct(parts) => {
                let mut done = 0;
                while done < rows {
                    let count = (rows - done).min(BLOCK_ROWS);
                    for (offset, column) in parts.iter_mut() {
                        let from = done.saturating_mul(stride).saturating_add(*offset);
                        column.push(stored.get(from..).unwrap_or_default(), stride, count, ends)?;
                    }
                    done += count;
                }
            }
            ColumnState::List(item, count) => {
                let each = item.element.size;
                if stride == size {
                    item.push(stored, each, rows * *count, ends)?;
                } else {
                    for row in 0..rows {
                        item.push(part(stored, row, stride, size)?, each, *count, ends)?;
                    }
                }
            }
            ColumnState::Sequence { offsets, item, base } => {
                for row in 0..rows {
                    let stored = part(stored, row, stride, size)?;
                    if let Some((count, bytes)) = ends.sequences()?.get(stored, base)? {
                        // Copied, as nested sequences use the same reader of the heap.
                        let bytes = bytes.to_vec();
                        let count = usize::try_from(count).map_err(|_| too_large())?;
                        item.push(&bytes, item.element.size, count, ends)?;
                    }
                    offsets.push(i64::try_from(item.rows).map_err(|_| too_large())?);
                }
            }
        }
        self.rows += rows;
        Ok(())
    }

    /// Returns the array, and its number of rows.
    fn finish(self) -> Result<(ArrayRef, usize)> {
        let Self { element, rows, state } = self;
        let data_type = element.data_type.clone();
        let array: ArrayRef = match state {
            ColumnState::Plain(values) | ColumnState::Converted { values, .. } => {
                let (nulls, values) = with_missing_times(&data_type, values.into());
                let data = ArrayData::builder(data_type).len(rows).nulls(nulls).add_buffer(values);
                make_array(data.build().map_err(arrow)?)
            }
            ColumnState::Text { offsets, values, mut valid } => {
                let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
                let nulls = Some(NullBuffer::new(valid.finish())).filter(|nulls| nulls.null_count() > 0);
                if data_type == DataType::LargeUtf8 {
                    let made = LargeStringArray::try_new(offsets, Buffer::from_vec(values), nulls);
                    Arc::new(made.map_err(|_| not_utf8())?)
                } else {
                    Arc::new(
                        LargeBinaryArray::try_new(offsets, Buffer::from_vec(values), nulls).map_err(arrow)?,
                    )
                }
            }
            ColumnState::Names { names, keys, .. } => {
                let values = Arc::new(StringArray::from_iter_values(names));
                let made = DictionaryArray::<Int32Type>::try_new(Int32Array::from(keys), values);
                Arc::new(made.map_err(arrow)?)
            }
            ColumnState::References(_, found) => {
                let DataType::Struct(fields) = data_type else { return Err(Error::invalid("no struct")) };
                let path: StringArray = found.iter().map(|shown| shown.path.as_deref()).collect();
                let raw = BinaryArray::from_iter_values(found.iter().map(|shown| &shown.raw));
                let mut selection = LargeListBuilder::new(UInt64Builder::new()).with_field(Field::new(
                    "item",
                    DataType::UInt64,
                    false,
                ));
                for shown in &found {
                    selection.append_option(
                        shown.selection.as_ref().map(|numbers| numbers.iter().copied().map(Some)),
                    );
                }
                let arrays: Vec<ArrayRef> = vec![Arc::new(path), Arc::new(raw), Arc::new(selection.finish())];
                Arc::new(StructArray::try_new_with_length(fields, arrays, None, rows).map_err(arrow)?)
            }
            ColumnState::Multiples { times, .. } => match data_type {
                DataType::Date32 => {
                    let days = times.into_iter().map(|days| days.and_then(|days| i32::try_from(days).ok()));
                    Arc::new(days.collect::<Date32Array>())
                }
                DataType::Timestamp(..) => Arc::new(TimestampSecondArray::from(times)),
                _ => Arc::new(DurationSecondArray::from(times)),
            },
            ColumnState::Struct(parts) => {
                let arrays = parts.into_iter().map(|(_, column)| column.finish().map(|(array, _)| array));
                let arrays = arrays.collect::<Result<Vec<_>>>()?;
                let DataType::Struct(fields) = data_type else { return Err(Error::invalid("no struct")) };
                Arc::new(StructArray::try_new_with_length(fields, arrays, None, rows).map_err(arrow)?)
            }
            ColumnState::List(item, _) => {
                let (item, _) = item.finish()?;
                let data = ArrayData::builder(data_type).len(rows).add_child_data(item.to_data());
                make_array(data.build().map_err(arrow)?)
            }
            ColumnState::Sequence { offsets, item, .. } => {
                let (item, _) = item.finish()?;
                let DataType::LargeList(field) = data_type else { return Err(Error::invalid("no list")) };
                let offsets = OffsetBuffer::new(ScalarBuffer::from(offsets));
                Arc::new(LargeListArray::try_new(field, offsets, item, None).map_err(arrow)?)
            }
        };
        Ok((array, rows))
    }
}

/// Converts NumPy's times: NaT, the smallest number, becomes a null. Its slot holds 0, for programs that also
/// convert the values of nulls. Other types, and columns without NaT, are returned unchanged.
fn with_missing_times(data_type: &DataType, values: Buffer) -> (Option<NullBuffer>, Buffer) {
    if !matches!(data_type, DataType::Timestamp(..) | DataType::Duration(_)) {
        return (None, values);
    }
    let (times, _) = values.as_chunks::<8>();
    let nat = i64::MIN.to_le_bytes();
    // Most columns have none: searching costs less than a bitmap.
    if !times.contains(&nat) {
        return (None, values);
    }
    let nulls = times.iter().map(|time| *time != nat).collect();
    let times = times.iter().map(|time| if *time == nat { 0 } else { i64::from_le_bytes(*time) });
    (Some(nulls), Buffer::from_vec(times.collect::<Vec<i64>>()))
}

/// Converts one of NumPy's times to Arrow's unit; NaT becomes a null.
///
/// # Errors
/// Conversion if it is out of range for Arrow's type.
fn multiple(time: i64, factor: i64, data_type: &DataType) -> Result<Option<i64>> {
    if time == i64::MIN {
        return Ok(None);
    }
    let fits = |time: &i64| *data_type != DataType::Date32 || i32::try_from(*time).is_ok();
    time.checked_mul(factor).filter(fits).map(Some).ok_or_else(|| {
        let message =
            format!("NumPy's time {time} is beyond those of {data_type} (read the dataset without Arrow)");
        Error::new(ErrorKind::Conversion, message)
    })
}

fn not_utf8() -> Error {
    Error::new(ErrorKind::Conversion, "the text is not UTF-8 (read strings as stored)")
}

/// Returns the datatype of a string's elements.
fn byte() -> hyperchunk::model::Datatype {
    hyperchunk::model::Datatype::integer(1, false, ByteOrder::Little)
}

/// Returns whether a stored string of variable length is a null pointer: its address is 0.
fn is_null(stored: &[u8]) -> bool {
    let address = stored.get(4..stored.len().saturating_sub(4)).unwrap_or_default();
    address.iter().all(|byte| *byte == 0)
}

/// Returns the bytes of a row.
fn part(stored: &[u8], row: usize, stride: usize, size: usize) -> Result<&[u8]> {
    let start = row.saturating_mul(stride);
    let part = stored.get(start..start.saturating_add(size));
    part.ok_or_else(|| Error::invalid("fewer bytes than rows"))
}

/// Passes the bytes of all rows to `take`.
fn gather(stored: &[u8], stride: usize, size: usize, rows: usize, mut take: impl FnMut(&[u8])) -> Result<()> {
    if rows == 0 {
        return Ok(());
    }
    let all = (rows - 1).checked_mul(stride).and_then(|start| start.checked_add(size));
    let stored =
        all.and_then(|all| stored.get(..all)).ok_or_else(|| Error::invalid("fewer bytes than rows"))?;
    if stride == size {
        take(stored);
    } else if size > 0 {
        stored.chunks(stride.max(1)).for_each(|row| take(row.get(..size).unwrap_or_default()));
    }
    Ok(())
}

/// Returns a string of fixed length without padding.
fn unpadded(stored: &[u8], padding: StringPadding) -> &[u8] {
    let kept = match padding {
        StringPadding::NullTerminated => stored.iter().position(|byte| *byte == 0).unwrap_or(stored.len()),
        StringPadding::NullPadded => stored.iter().rposition(|byte| *byte != 0).map_or(0, |at| at + 1),
        StringPadding::SpacePadded => stored.iter().rposition(|byte| *byte != b' ').map_or(0, |at| at + 1),
    };
    stored.get(..kept).unwrap_or_default()
}
