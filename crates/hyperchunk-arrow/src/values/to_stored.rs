//! Conversion of arrays to stored bytes.

use super::from_stored::arrow;
use super::references;
use crate::types::{self, Names, boolean, fits};
use crate::{Error, ErrorKind, Result};
use arrow_array::cast::AsArray as _;
use arrow_array::types::{Int16Type, Int32Type, Int64Type};
use arrow_array::{Array, ArrayRef, BinaryArray, RunArray, StringArray};
use arrow_schema::{DataType, Field};
use hyperchunk::convert::Conversion;
use hyperchunk::model::{ByteOrder, Class, Datatype, ReferenceKind, StringPadding};
use hyperchunk::select::{Axis, Selection};
use hyperchunk::write::{DatasetWriter, Writer};

/// Number of bytes converted at once.
const PIECE_BYTES: usize = 8 << 20;
/// Number of elements converted at once.
const BLOCK_ELEMENTS: usize = 4096;

/// Writes rows of a dataset, from `rows_from` on: `array` is a column that `field` describes.
///
/// Null rows become NaT for NumPy's times, null pointers for values of variable length, and zeros otherwise,
/// so that the positions of other nulls have to be stored elsewhere.
///
/// # Errors
/// Conversion if the array's type does not match the dataset's, or a value cannot be represented; Unsupported
/// for nulls inside of other values; errors of the writer.
pub fn write_column(writer: &DatasetWriter, rows_from: u64, field: &Field, array: &dyn Array) -> Result<()> {
    let dims = writer.dims();
    let cell = dims.get(1..).unwrap_or_default();
    let name = |error: Error| {
        let message = format!("column {}: {}", field.name(), error.message());
        Error::new(error.kind(), message)
    };
    let target = ElementEncoder::for_rows(writer.datatype(), cell, array.data_type()).map_err(name)?;
    let put_each = (PIECE_BYTES / target.size.max(1)).max(1);
    let mut bytes = Vec::new();
    let mut done = 0;
    while done < array.len() {
        let rows = (array.len() - done).min(put_each);
        let part = array.slice(done, rows);
        bytes.clear();
        hyperchunk::room::resize(&mut bytes, rows.saturating_mul(target.size)).map_err(name)?;
        target
            .rows(&part, &mut bytes, &HeapTarget { writer: writer.file(), attribute: false })
            .map_err(name)?;
        let start = rows_from.saturating_add(done as u64);
        let end = start.saturating_add(rows as u64);
        let selection = if dims.is_empty() {
            Selection::All
        } else {
            let axes = dims.iter().enumerate().map(|(axis, dim)| match axis {
                0 => Axis::range(start..end),
                _ => Axis::range(0..*dim),
            });
            Selection::Axes(axes.collect())
        };
        writer.write(&selection, &bytes)?;
        done += rows;
    }
    Ok(())
}

/// The writer of values that are stored in a heap, outside of elements.
pub(crate) struct HeapTarget<'a> {
    pub(crate) writer: &'a Writer,
    /// True if the elements belong to an attribute.
    pub(crate) attribute: bool,
}

impl HeapTarget<'_> {
    fn sequence(&self, count: usize, bytes: &[u8]) -> Result<[u8; 16]> {
        if self.attribute {
            self.writer.store_attribute_sequence(count, bytes)
        } else {
            self.writer.store_sequence(count, bytes)
        }
    }
}

/// The conversion of values of an Arrow type to elements.
#[derive(Debug)]
pub(crate) struct ElementEncoder {
    /// The size of an element.
    pub(crate) size: usize,
    form: Form,
    /// The value of a null, if there is one: NumPy's NaT.
    null: Option<[u8; 8]>,
}

#[derive(Debug)]
enum Form {
    /// The values' bytes.
    Fixed,
    /// The values' bytes, converted from this size.
    Converted(Box<Conversion>, usize),
    /// NumPy's times, whose unit is `factor` of Arrow's units.
    Multiples {
        factor: i64,
        order: ByteOrder,
    },
    /// One bit each.
    Bits,
    /// Text of fixed length.
    Text(StringPadding),
    AnyText,
    Names(Names),
    Dictionary(Box<ElementEncoder>),
    Runs(Box<ElementEncoder>),
    Struct(Vec<(usize, ElementEncoder)>),
    List(usize, Box<ElementEncoder>),
    Sequence(Box<ElementEncoder>),
    Bytes,
    Reference(ReferenceKind),
}

fn narrow(size: u64) -> Result<usize> {
    usize::try_from(size).map_err(|_| Error::limit("elements larger than the address space"))
}

fn mismatch(datatype: &Datatype, data_type: &DataType) -> Error {
    let message = format!("cannot store Arrow's {data_type} as {}", types::describe(datatype));
    Error::new(ErrorKind::Conversion, message)
}

impl ElementEncoder {
    /// Makes the conversion of rows of a dataset.
    pub(crate) fn for_rows(datatype: &Datatype, cell: &[u64], data_type: &DataType) -> Result<Self> {
        if cell.is_empty() {
            return Self::new(datatype, data_type, 0);
        }
        let count = cell.iter().try_fold(1_u64, |product, dim| product.checked_mul(*dim));
        let count = if cell.contains(&0) { Some(0) } else { count };
        let count = narrow(count.ok_or_else(|| Error::limit("rows of 2^64 elements"))?)?;
        // A single list, or nested ones.
        let list = |count: usize, item: Self| -> Result<Self> {
            let size = item.size.checked_mul(count).ok_or_else(|| Error::limit("rows larger than memory"))?;
            Ok(Self { size, form: Form::List(count, Box::new(item)), null: None })
        };
        let same = |size: &i32, count: usize| usize::try_from(*size).ok() == Some(count);
        if let DataType::FixedSizeList(item, size) = data_type
            && same(size, count)
            && let Ok(item) = Self::new(datatype, item.data_type(), 0)
        {
            return list(count, item);
        }
        let [dim, inner @ ..] = cell else { return Self::new(datatype, data_type, 0) };
        let dim = narrow(*dim)?;
        match data_type {
            DataType::FixedSizeList(item, size) if same(size, dim) => {
                list(dim, Self::for_rows(datatype, inner, item.data_type())?)
            }
            _ => Err(mismatch(datatype, data_type)),
        }
    }

    pub(crate) fn new(datatype: &Datatype, data_type: &DataType, depth: usize) -> Result<Self> {
        if depth > types::MAX_DEPTH {
            return Err(Error::limit(format!("a type that nests deeper than {}", types::MAX_DEPTH)));
        }
        let size = narrow(datatype.size)?;
        let made = |form| Ok(Self { size, form, null: None });
        let inner = |datatype: &Datatype, data_type: &DataType| Self::new(datatype, data_type, depth + 1);
        let wrong = || mismatch(datatype, data_type);
        match (&datatype.class, data_type) {
            (_, DataType::Dictionary(_, values)) => {
                made(Form::Dictionary(Box::new(inner(datatype, values)?)))
            }
            (_, DataType::RunEndEncoded(_, values)) => {
                made(Form::Runs(Box::new(inner(datatype, values.data_type())?)))
            }
            (Class::Enum { base, members }, other) if is_text(other) => {
                let mut names = Names { values: Vec::new(), names: Vec::new() };
                for member in members {
                    names.values.push(member.value.clone());
                    names.names.push(member.name.to_string());
                }
                narrow(base.size)?;
                made(Form::Names(names))
            }
            (Class::Enum { .. }, DataType::Boolean) if *datatype == boolean() => made(Form::Bits),
            (Class::Enum { base, .. }, other) => inner(base, other),
            (Class::Integer { .. }, DataType::Time32(_) | DataType::Decimal32(..)) if size == 4 => {
                made(Form::Fixed)
            }
            (Class::Integer { .. }, DataType::Time64(_) | DataType::Decimal64(..)) if size == 8 => {
                made(Form::Fixed)
            }
            (Class::Integer { .. }, DataType::Decimal128(..)) if size == 16 => made(Form::Fixed),
            (Class::Integer { .. }, DataType::Decimal256(..)) if size == 32 => made(Form::Fixed),
            (Class::Integer { .. } | Class::Bitfield { .. } | Class::Float(_), other)
                if fits(datatype, other, 0) =>
            {
                Self::number(datatype, other, size)
            }
            (Class::String { padding, .. }, other) if is_text(other) => made(Form::Text(*padding)),
            (Class::VlenString { .. }, other) if is_text(other) || is_binary(other) => made(Form::AnyText),
            (Class::Opaque { tag }, DataType::Date64) if tag.as_bytes() == b"NUMPY:<M8[ms]" => {
                Ok(Self { size, form: Form::Fixed, null: Some(i64::MIN.to_le_bytes()) })
            }
            (Class::Opaque { tag }, DataType::Timestamp(..) | DataType::Duration(_) | DataType::Date32) => {
                let without_zone = match data_type {
                    DataType::Timestamp(unit, _) => DataType::Timestamp(*unit, None),
                    other => other.clone(),
                };
                let tag = tag.to_string();
                let coarse =
                    types::coarse_numpy_time(&tag).filter(|(time, ..)| *time == without_zone && size == 8);
                if let Some((_, factor, order)) = coarse {
                    let null = Some(in_order(i64::MIN, order));
                    return Ok(Self { size, form: Form::Multiples { factor, order }, null });
                }
                let known = types::numpy_time(&tag).filter(|(time, _)| *time == without_zone);
                let (_, order) = known.filter(|_| size == 8).ok_or_else(wrong)?;
                let number = |order| Datatype::integer(8, true, order);
                let made = Self::converted(&number(ByteOrder::Little), &number(order))?;
                Ok(Self { null: Some(in_order(i64::MIN, order)), ..made })
            }
            (Class::Opaque { .. } | Class::Time { .. } | Class::String { .. }, other)
                if fits(datatype, other, 0) =>
            {
                made(Form::Fixed)
            }
            (Class::Reference(kind), DataType::Struct(fields)) if types::is_reference(fields) => {
                made(Form::Reference(*kind))
            }
            (Class::Compound { .. } | Class::Complex { .. }, DataType::FixedSizeList(item, 2)) => {
                let base = types::complex_base(datatype).ok_or_else(wrong)?;
                made(Form::List(2, Box::new(inner(base, item.data_type())?)))
            }
            (Class::Compound { members }, DataType::Struct(fields)) if members.len() == fields.len() => {
                let mut parts = Vec::with_capacity(members.len());
                for (member, field) in members.iter().zip(fields) {
                    if member.name.as_bytes() != field.name().as_bytes() {
                        return Err(wrong());
                    }
                    parts.push((narrow(member.offset)?, inner(&member.datatype, field.data_type())?));
                }
                made(Form::Struct(parts))
            }
            (Class::Array { dims, base }, other) => {
                let target = Self::for_rows(base, dims, other)?;
                if target.size == size { Ok(target) } else { Err(wrong()) }
            }
            (Class::Vlen { base }, other) if is_binary(other) && base.size == 1 => made(Form::Bytes),
            (
                Class::Vlen { base },
                DataType::List(item)
                | DataType::LargeList(item)
                | DataType::ListView(item)
                | DataType::LargeListView(item)
                | DataType::Map(item, _),
            ) => made(Form::Sequence(Box::new(inner(base, item.data_type())?))),
            _ => Err(wrong()),
        }
    }

    /// Makes the conversion of numbers.
    fn number(datatype: &Datatype, data_type: &DataType, size: usize) -> Result<Self> {
        let little = |signed| {
            let size = u16::try_from(datatype.size).unwrap_or(8);
            Datatype::integer(size, signed, ByteOrder::Little)
        };
        let (stored, memory) = match (data_type, &datatype.class) {
            (DataType::FixedSizeBinary(_), _) => return Ok(Self { size, form: Form::Fixed, null: None }),
            (DataType::Float16, _) => (datatype.clone(), Datatype::ieee(2, ByteOrder::Little)),
            (DataType::Float32, _) => (datatype.clone(), Datatype::ieee(4, ByteOrder::Little)),
            (DataType::Float64, _) => (datatype.clone(), Datatype::ieee(8, ByteOrder::Little)),
            // Small floating-point types: Arrow has their bits as integers.
            (_, Class::Float(float)) => {
                let size = u16::try_from(datatype.size).unwrap_or(8);
                (Datatype::integer(size, false, float.order), little(false))
            }
            (_, Class::Bitfield { order, offset, precision }) => {
                let class =
                    Class::Integer { order: *order, signed: false, offset: *offset, precision: *precision };
                (Datatype { size: datatype.size, class }, little(false))
            }
            (_, Class::Integer { signed, .. }) => (datatype.clone(), little(*signed)),
            _ => return Err(mismatch(datatype, data_type)),
        };
        Self::converted(&memory, &stored)
    }

    fn converted(memory: &Datatype, stored: &Datatype) -> Result<Self> {
        let conversion = Conversion::new(memory, stored)?;
        let form = if conversion.is_copy() {
            Form::Fixed
        } else {
            Form::Converted(Box::new(conversion), narrow(memory.size)?)
        };
        Ok(Self { size: narrow(stored.size)?, form, null: None })
    }

    /// Converts all rows of an array to contiguous elements. Nulls become the type's value for null, or
    /// zeros.
    pub(crate) fn rows(&self, array: &dyn Array, out: &mut [u8], ends: &HeapTarget<'_>) -> Result<()> {
        self.put(array, out, self.size, ends, true)?;
        if let Some(nulls) = array.logical_nulls()
            && self.size > 0
            && self.null.is_none()
        {
            for (row, out) in out.chunks_exact_mut(self.size).enumerate() {
                if nulls.is_null(row) {
                    out.fill(0);
                }
            }
        }
        Ok(())
    }

    /// Converts elements to positions `stride` bytes apart. `nulls`: whether there may be nulls, whose bytes
    /// are undefined unless the target has a value for them.
    fn put(
        &self,
        array: &dyn Array,
        out: &mut [u8],
        stride: usize,
        ends: &HeapTarget<'_>,
        nulls: bool,
    ) -> Result<()> {
        self.put_values(array, out, stride, ends, nulls || self.null.is_some())?;
        let (Some(null), Some(nulls)) = (self.null, array.logical_nulls()) else { return Ok(()) };
        for (row, out) in out.chunks_mut(stride.max(1)).enumerate().take(array.len()) {
            if let Some(out) = out.get_mut(..null.len()).filter(|_| nulls.is_null(row)) {
                out.copy_from_slice(&null);
            }
        }
        Ok(())
    }

    fn put_values(
        &self,
        array: &dyn Array,
        out: &mut [u8],
        stride: usize,
        ends: &HeapTarget<'_>,
        nulls: bool,
    ) -> Result<()> {
        if !nulls && !matches!(self.form, Form::AnyText) && array.logical_null_count() > 0 {
            return Err(Error::unsupported("nulls inside of other values"));
        }
        let is_null = |row: usize| array.is_null(row);
        match &self.form {
            Form::Fixed => {
                let values = fixed(array, self.size)?;
                put_each(out, stride, self.size, values.chunks_exact(self.size.max(1)), |out, value| {
                    out.copy_from_slice(value);
                    Ok(())
                })
            }
            Form::Converted(conversion, width) => {
                let values = fixed(array, *width)?;
                if stride == self.size {
                    return conversion.run(values, out, array.len());
                }
                let mut scratch = hyperchunk::room::zeros(BLOCK_ELEMENTS.saturating_mul(self.size))?;
                let blocks = values
                    .chunks(BLOCK_ELEMENTS * *width)
                    .zip(out.chunks_mut(BLOCK_ELEMENTS.saturating_mul(stride)));
                for (values, out) in blocks {
                    let count = values.len() / (*width).max(1);
                    let made = scratch.get_mut(..count * self.size).unwrap_or_default();
                    conversion.run(values, made, count)?;
                    put_each(out, stride, self.size, made.chunks_exact(self.size.max(1)), |out, value| {
                        out.copy_from_slice(value);
                        Ok(())
                    })?;
                }
                Ok(())
            }
            Form::Multiples { factor, order } => {
                let times: Vec<i64> = if *array.data_type() == DataType::Date32 {
                    let days = fixed(array, 4)?.as_chunks::<4>().0.iter();
                    days.map(|days| i64::from(i32::from_le_bytes(*days))).collect()
                } else {
                    fixed(array, 8)?.as_chunks::<8>().0.iter().map(|time| i64::from_le_bytes(*time)).collect()
                };
                put_each(out, stride, 8, times.iter().enumerate(), |out, (row, time)| {
                    let time = if is_null(row) { 0 } else { *time };
                    if time % *factor != 0 {
                        let message = format!(
                            "cannot store the time of {time} s: expected a multiple of {factor} s, the unit in the file"
                        );
                        return Err(Error::new(ErrorKind::Conversion, message));
                    }
                    out.copy_from_slice(&in_order(time / *factor, *order));
                    Ok(())
                })
            }
            Form::Bits => {
                let values = array.as_boolean_opt().ok_or_else(type_mismatch)?;
                put_each(out, stride, 1, values.values().iter(), |out, value| {
                    out.fill(u8::from(value));
                    Ok(())
                })
            }
            Form::Text(padding) => texts(array, |row, text| {
                let out = element(out, row, stride, self.size)?;
                if text.len() > out.len() {
                    let message = format!("cannot store a string of {} bytes in {}", text.len(), out.len());
                    return Err(Error::new(ErrorKind::Conversion, message));
                }
                let (head, rest) = out.split_at_mut(text.len());
                head.copy_from_slice(text);
                rest.fill(if *padding == StringPadding::SpacePadded { b' ' } else { 0 });
                Ok(())
            }),
            Form::AnyText => texts(array, |row, text| {
                let out = element(out, row, stride, self.size)?;
                // Binary values are strings as they were stored, and keep their bytes.
                if is_text(array.data_type()) && text.contains(&0) {
                    let message = "cannot store text with a zero byte, at which HDF5's strings end: expected text without \
                                   one, got it in a value; convert the column to binary";
                    return Err(Error::new(ErrorKind::Conversion, message));
                }
                let stored = if is_null(row) {
                    [0; 16]
                } else if text.is_empty() {
                    // A null pointer would be a null, not an empty string.
                    ends.sequence(1, &[0])?
                } else {
                    ends.sequence(text.len(), text)?
                };
                put(out, &stored)
            }),
            Form::Bytes => texts(array, |row, bytes| {
                let out = element(out, row, stride, self.size)?;
                put(out, &if is_null(row) { [0; 16] } else { ends.sequence(bytes.len(), bytes)? })
            }),
            Form::Names(names) => texts(array, |row, name| {
                let out = element(out, row, stride, self.size)?;
                if is_null(row) {
                    return Ok(());
                }
                let at = names.names.iter().position(|known| known.as_bytes() == name);
                let value = at.and_then(|at| names.values.get(at)).ok_or_else(|| {
                    let name = references::display_path(name);
                    let message = format!("{name} is not a name of the enumeration");
                    Error::new(ErrorKind::Conversion, message)
                })?;
                put(out, value)
            }),
            Form::Dictionary(target) => {
                let dictionary = array.as_any_dictionary_opt().ok_or_else(type_mismatch)?;
                let values =
                    arrow_select::take::take(dictionary.values(), dictionary.keys(), None).map_err(arrow)?;
                target.put(&values, out, stride, ends, nulls)
            }
            Form::Runs(target) => {
                let values = decode_runs(array)?;
                target.put(&values, out, stride, ends, nulls)
            }
            Form::Struct(parts) => {
                let columns = array.as_struct_opt().ok_or_else(type_mismatch)?;
                for ((offset, target), column) in parts.iter().zip(columns.columns()) {
                    let out = out.get_mut(*offset..).unwrap_or_default();
                    target.put(
                        column,
                        out,
                        stride,
                        ends,
                        nulls && columns.null_count() > 0 && inner_nulls(columns.nulls(), column),
                    )?;
                }
                Ok(())
            }
            Form::List(count, target) => {
                let list = array.as_fixed_size_list_opt().ok_or_else(type_mismatch)?;
                let start = list.offset().checked_mul(*count).ok_or_else(type_mismatch)?;
                let length = list.len().checked_mul(*count).ok_or_else(type_mismatch)?;
                // A sliced list has the values of the whole list.
                let values = list.values();
                let values = if values.len() == length {
                    ArrayRef::clone(values)
                } else {
                    values.slice(start, length)
                };
                let within = nulls && list.null_count() > 0 && list_nulls(list.nulls(), &values, *count);
                if stride == self.size {
                    return target.put(&values, out, target.size, ends, within);
                }
                for row in 0..list.len() {
                    let out = element(out, row, stride, self.size)?;
                    target.put(&values.slice(row * *count, *count), out, target.size, ends, within)?;
                }
                Ok(())
            }
            Form::Sequence(target) => sequences(array, |row, values| {
                let out = element(out, row, stride, self.size)?;
                if array.is_null(row) {
                    return put(out, &[0; 16]);
                }
                let length = values.len().checked_mul(target.size).ok_or_else(type_mismatch)?;
                let mut bytes = Vec::new();
                bytes.try_reserve_exact(length).map_err(|_| Error::limit("no memory for a sequence"))?;
                bytes.resize(length, 0);
                target.put(&values, &mut bytes, target.size, ends, false)?;
                put(out, &ends.sequence(values.len(), &bytes)?)
            }),
            Form::Reference(kind) => {
                let parts = array.as_struct_opt().ok_or_else(type_mismatch)?;
                let [path, raw, ..] = parts.columns() else { return Err(type_mismatch()) };
                let (path, raw) = (to_text(path)?, to_binary(raw)?);
                for row in 0..array.len() {
                    let out = element(out, row, stride, self.size)?;
                    let path = Some(&path).filter(|path| path.is_valid(row)).map(|path| path.value(row));
                    let raw = if raw.is_valid(row) { raw.value(row) } else { &[] };
                    put(out, &references::store(ends.writer, *kind, path, raw, ends.attribute)?)?;
                }
                Ok(())
            }
        }
    }
}

/// Returns whether all nulls of the values of lists of `count` values are in lists that are null themselves.
fn list_nulls(outer: Option<&arrow_buffer::NullBuffer>, values: &ArrayRef, count: usize) -> bool {
    match (outer, values.logical_nulls()) {
        (_, None) => true,
        (None, Some(inner)) => inner.null_count() == 0,
        (Some(outer), Some(inner)) => {
            (0..inner.len()).all(|at| inner.is_valid(at) || outer.is_null(at / count.max(1)))
        }
    }
}

/// Returns whether all nulls of a member are in rows in which the struct itself is null.
fn inner_nulls(outer: Option<&arrow_buffer::NullBuffer>, column: &ArrayRef) -> bool {
    match (outer, column.logical_nulls()) {
        (_, None) => true,
        (None, Some(inner)) => inner.null_count() == 0,
        (Some(outer), Some(inner)) => {
            outer.contains(&inner) || inner.iter().zip(outer).all(|(inner, outer)| inner || !outer)
        }
    }
}

fn type_mismatch() -> Error {
    Error::invalid("the array does not match its type")
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

fn is_binary(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
}

/// Returns the bytes of an element.
fn element(out: &mut [u8], row: usize, stride: usize, size: usize) -> Result<&mut [u8]> {
    let start = row.saturating_mul(stride);
    out.get_mut(start..start.saturating_add(size)).ok_or_else(type_mismatch)
}

fn put(out: &mut [u8], bytes: &[u8]) -> Result<()> {
    if out.len() != bytes.len() {
        return Err(type_mismatch());
    }
    out.copy_from_slice(bytes);
    Ok(())
}

/// Writes values to their positions.
fn put_each<V>(
    out: &mut [u8],
    stride: usize,
    size: usize,
    values: impl Iterator<Item = V>,
    mut one: impl FnMut(&mut [u8], V) -> Result<()>,
) -> Result<()> {
    if size == 0 {
        return Ok(());
    }
    for (out, value) in out.chunks_mut(stride.max(1)).zip(values) {
        one(out.get_mut(..size).ok_or_else(type_mismatch)?, value)?;
    }
    Ok(())
}

/// Returns the bytes of values of a fixed size.
fn fixed(array: &dyn Array, size: usize) -> Result<&[u8]> {
    let data: &dyn Array = array;
    let bytes = if let Some(binary) = data.as_fixed_size_binary_opt() {
        binary.value_data()
    } else {
        let primitive = arrow_array::downcast_primitive_array!(
            data => { data.values().inner().as_slice() }
            _ => return Err(type_mismatch()),
        );
        primitive
    };
    let length = array.len().checked_mul(size).ok_or_else(type_mismatch)?;
    if bytes.len() == length {
        return Ok(bytes);
    }
    // A sliced array of fixed-size bytes has the values of the whole array.
    let start = array.offset().checked_mul(size).ok_or_else(type_mismatch)?;
    bytes.get(start..start.saturating_add(length)).ok_or_else(type_mismatch)
}

/// Passes the text or bytes of each row to `put_each`; empty for nulls.
fn texts(array: &dyn Array, mut put_each: impl FnMut(usize, &[u8]) -> Result<()>) -> Result<()> {
    macro_rules! all {
        ($($kind:ident $array:expr;)*) => { $(
            if let Some(array) = $array {
                for row in 0..array.len() {
                    let text: &[u8] = if array.is_null(row) { &[] } else { array.value(row).as_ref() };
                    put_each(row, text)?;
                }
                return Ok(());
            }
        )* };
    }
    all! {
        utf8 array.as_string_opt::<i32>();
        large_utf8 array.as_string_opt::<i64>();
        view array.as_string_view_opt();
        binary array.as_binary_opt::<i32>();
        large_binary array.as_binary_opt::<i64>();
        binary_view array.as_binary_view_opt();
    }
    Err(type_mismatch())
}

/// Passes the sequence of each row to `put_each`; empty for nulls.
fn sequences(array: &dyn Array, mut put_each: impl FnMut(usize, ArrayRef) -> Result<()>) -> Result<()> {
    macro_rules! all {
        ($($kind:ident $array:expr;)*) => { $(
            if let Some(array) = $array {
                for row in 0..array.len() {
                    let values = array.value(row);
                    put_each(row, if array.is_null(row) { values.slice(0, 0) } else { values })?;
                }
                return Ok(());
            }
        )* };
    }
    all! {
        list array.as_list_opt::<i32>();
        large_list array.as_list_opt::<i64>();
        view array.as_list_view_opt::<i32>();
        large_view array.as_list_view_opt::<i64>();
    }
    if let Some(map) = array.as_map_opt() {
        for row in 0..map.len() {
            let entries = map.value(row);
            let entries = if map.is_null(row) { entries.slice(0, 0) } else { entries };
            put_each(row, std::sync::Arc::new(entries))?;
        }
        return Ok(());
    }
    Err(type_mismatch())
}

/// Decodes run-end encoding.
fn decode_runs(array: &dyn Array) -> Result<ArrayRef> {
    macro_rules! all {
        ($($ends:ident)*) => { $(
            if let Some(runs) = array.as_any().downcast_ref::<RunArray<$ends>>() {
                let mut keys: Vec<u64> = Vec::with_capacity(runs.len());
                for row in 0..runs.len() {
                    keys.push(runs.get_physical_index(row) as u64);
                }
                let keys = arrow_array::UInt64Array::from(keys);
                return arrow_select::take::take(runs.values(), &keys, None).map_err(arrow);
            }
        )* };
    }
    all! { Int16Type Int32Type Int64Type }
    Err(type_mismatch())
}

fn to_text(array: &ArrayRef) -> Result<StringArray> {
    let mut rows: Vec<Option<String>> = Vec::with_capacity(array.len());
    texts(array, |row, text| {
        let text = std::str::from_utf8(text).map_err(|_| type_mismatch())?;
        rows.push(array.is_valid(row).then(|| text.to_owned()));
        Ok(())
    })?;
    Ok(StringArray::from(rows))
}

fn to_binary(array: &ArrayRef) -> Result<BinaryArray> {
    let mut rows: Vec<Option<Vec<u8>>> = Vec::with_capacity(array.len());
    texts(array, |row, bytes| {
        rows.push(array.is_valid(row).then(|| bytes.to_vec()));
        Ok(())
    })?;
    Ok(BinaryArray::from_iter(rows))
}

/// Returns the bytes of a number in a byte order.
fn in_order(number: i64, order: ByteOrder) -> [u8; 8] {
    match order {
        ByteOrder::Big => number.to_be_bytes(),
        _ => number.to_le_bytes(),
    }
}
