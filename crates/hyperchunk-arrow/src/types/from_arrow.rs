//! Conversion of Arrow fields to HDF5 datatypes, including fields that did not come from HDF5.

use super::form::narrow;
use super::metadata::{self, CELL, DTYPE, EXTENSION_METADATA};
use crate::{Error, Result};
use arrow_schema::{DataType, Field, Fields, IntervalUnit, TimeUnit};
use hyperchunk::model::{ByteOrder, CharacterSet, Class, Datatype, EnumMember, Member, Name, StringPadding};

/// Maximum nesting depth of types.
const MAX_DEPTH: usize = 48;

/// Returns the HDF5 datatype and the extent of one row for a field: the type in its metadata, if it matches
/// the Arrow type, else the closest one:
///
/// - integers and floating-point numbers: the same;
/// - booleans: h5py's enumeration `{FALSE: 0, TRUE: 1}`;
/// - text: strings of variable length, in UTF-8; bytes: sequences of unsigned bytes; bytes of fixed size:
///   opaque;
/// - times with a date, and durations: NumPy's, as h5py stores them (opaque, with the tag `NUMPY:<M8[ns]`);
///   dates: of days, `NUMPY:<M8[D]`, or of milliseconds; times of a day: integers;
/// - decimals: integers of 4, 8, 16 or 32 bytes, without their scale;
/// - lists: sequences of variable length; lists of fixed size: the extent of a row, or arrays inside of other
///   types;
/// - structs: compounds; maps: sequences of compounds of `key` and `value`;
/// - dictionaries and run-end encoded columns: the type of their values.
///
/// # Errors
/// Unsupported for unions, intervals, columns of the null type, and structs without members; Corrupt if the
/// metadata are damaged.
pub fn datatype_from_field(field: &Field) -> Result<(Datatype, Vec<u64>)> {
    from_field(field)
        .map_err(|error| Error::new(error.kind(), format!("column {}: {}", field.name(), error.message())))
}

fn from_field(field: &Field) -> Result<(Datatype, Vec<u64>)> {
    if let Some(text) = field.metadata().get(DTYPE) {
        let datatype = metadata::decode_datatype(text)?;
        let cell = match field.metadata().get(CELL) {
            Some(text) => metadata::parse_sizes(CELL, text)?,
            None => Vec::new(),
        };
        if let Some(dims) = cells(&datatype, field.data_type(), &cell) {
            return Ok((datatype, dims));
        }
    }
    let tensor = field.extension_type_name() == Some("arrow.fixed_shape_tensor");
    let mut dims = Vec::new();
    let mut item = field;
    while let DataType::FixedSizeList(inner, size) = item.data_type() {
        if dims.len() >= 31 || item.extension_type_name() == Some("h5.complex") {
            break;
        }
        dims.push(u64::try_from(*size).map_err(|_| Error::corrupt("a list of negative size"))?);
        item = inner;
    }
    if tensor && let Some(shape) = tensor_shape(field)? {
        let count = shape.iter().try_fold(1_u64, |product, dim| product.checked_mul(*dim));
        if dims.first().copied() != count {
            return Err(Error::corrupt("the shape of a tensor does not match the size of its list"));
        }
        dims.splice(0..1, shape);
    }
    Ok((element_datatype(item, 0)?, dims))
}

/// Returns the shape of a tensor as it is stored, without its permutation.
fn tensor_shape(field: &Field) -> Result<Option<Vec<u64>>> {
    let Some(text) = field.metadata().get(EXTENSION_METADATA) else { return Ok(None) };
    let wrong = || Error::corrupt(format!("invalid metadata of a tensor: {text:.200}"));
    let value: serde_json::Value = serde_json::from_str(text).map_err(|_| wrong())?;
    let Some(shape) = value.get("shape").and_then(serde_json::Value::as_array) else { return Err(wrong()) };
    let shape: Option<Vec<u64>> = shape.iter().map(serde_json::Value::as_u64).collect();
    shape.filter(|shape| shape.len() <= 31).map(Some).ok_or_else(wrong)
}

/// Returns the extent of a row, if elements of the datatype can have the values of the Arrow type: the
/// original extent, or the sizes of the lists.
fn cells(datatype: &Datatype, data_type: &DataType, cell: &[u64]) -> Option<Vec<u64>> {
    let mut inner = data_type;
    let mut nested = cell.iter();
    // One list of all elements of a row, or nested lists (below).
    if let DataType::FixedSizeList(item, size) = data_type {
        let count = cell.iter().try_fold(1_u64, |product, dim| product.checked_mul(*dim));
        let count = if cell.contains(&0) { Some(0) } else { count };
        if !cell.is_empty() && u64::try_from(*size).ok() == count && fits(datatype, item.data_type(), 0) {
            return Some(cell.to_vec());
        }
    }
    while let Some(dim) = nested.next() {
        match inner {
            DataType::FixedSizeList(item, size) if u64::try_from(*size).ok() == Some(*dim) => {
                inner = item.data_type()
            }
            _ => break,
        }
        if nested.len() == 0 && fits(datatype, inner, 0) {
            return Some(cell.to_vec());
        }
    }
    let mut dims = Vec::new();
    inner = data_type;
    loop {
        if fits(datatype, inner, 0) {
            return Some(dims);
        }
        let DataType::FixedSizeList(item, size) = inner else { return None };
        dims.push(u64::try_from(*size).ok().filter(|_| dims.len() < 31)?);
        inner = item.data_type();
    }
}

/// Returns whether elements of a datatype can store the values of an Arrow type.
pub(crate) fn fits(datatype: &Datatype, data_type: &DataType, depth: usize) -> bool {
    if depth > MAX_DEPTH {
        return false;
    }
    let bytes = |width: &i32| u64::try_from(*width).ok() == Some(datatype.size);
    match (&datatype.class, data_type) {
        (_, DataType::Dictionary(_, values)) => {
            !matches!(**values, DataType::Dictionary(..)) && fits(datatype, values, depth + 1)
        }
        (Class::Integer { signed, .. }, other) => {
            integer_type(datatype.size, *signed).as_ref() == Some(other)
                || matches!(other, DataType::FixedSizeBinary(width) if bytes(width))
        }
        (Class::Bitfield { .. }, other) => {
            integer_type(datatype.size, false).as_ref() == Some(other)
                || matches!(other, DataType::FixedSizeBinary(width) if bytes(width))
        }
        (Class::Float(_), other) => match other {
            DataType::FixedSizeBinary(width) => bytes(width),
            other => {
                super::Element::new(datatype, &super::ConversionOptions::default(), 0).is_ok_and(|element| {
                    element.data_type == *other || (datatype.size == 2 && *other == DataType::Float32)
                })
            }
        },
        (Class::Enum { base, .. }, other) => {
            is_text(other) || *other == DataType::Boolean || fits(base, other, depth + 1)
        }
        (Class::String { .. }, other) => {
            is_text(other) || matches!(other, DataType::FixedSizeBinary(width) if bytes(width))
        }
        (Class::VlenString { .. }, other) => is_text(other) || is_binary(other),
        (Class::Opaque { .. } | Class::Time { .. }, DataType::FixedSizeBinary(width)) => bytes(width),
        (Class::Opaque { tag }, other) => {
            let tag = tag.to_string();
            super::field::numpy_time(&tag).is_some_and(|(time, _)| time == *other)
                || super::field::coarse_numpy_time(&tag).is_some_and(|(time, ..)| time == *other)
        }
        (Class::Compound { .. } | Class::Complex { .. }, DataType::FixedSizeList(item, 2)) => {
            super::form::complex_base(datatype).is_some_and(|base| fits(base, item.data_type(), depth + 1))
        }
        (Class::Compound { members }, DataType::Struct(fields)) => {
            members.len() == fields.len()
                && members.iter().zip(fields).all(|(member, field)| {
                    member.name.as_bytes() == field.name().as_bytes()
                        && fits(&member.datatype, field.data_type(), depth + 1)
                })
        }
        (Class::Reference(_), DataType::Struct(fields)) => super::form::is_reference(fields),
        (Class::Vlen { base }, DataType::List(item) | DataType::LargeList(item)) => {
            fits(base, item.data_type(), depth + 1)
        }
        (Class::Vlen { base }, other) => {
            base.size == 1 && matches!(base.class, Class::Integer { signed: false, .. }) && is_binary(other)
        }
        (Class::Array { dims, base }, other) => {
            let mut inner = other;
            for dim in dims {
                match inner {
                    DataType::FixedSizeList(item, size) if u64::try_from(*size).ok() == Some(*dim) => {
                        inner = item.data_type();
                    }
                    _ => return false,
                }
            }
            fits(base, inner, depth + 1)
        }
        _ => false,
    }
}

pub(crate) fn integer_type(size: u64, signed: bool) -> Option<DataType> {
    Some(match (size, signed) {
        (1, true) => DataType::Int8,
        (1, false) => DataType::UInt8,
        (2, true) => DataType::Int16,
        (2, false) => DataType::UInt16,
        (4, true) => DataType::Int32,
        (4, false) => DataType::UInt32,
        (8, true) => DataType::Int64,
        (8, false) => DataType::UInt64,
        _ => return None,
    })
}

fn is_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View)
}

fn is_binary(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Binary | DataType::LargeBinary | DataType::BinaryView)
}

fn integer(size: u16, signed: bool) -> Datatype {
    Datatype::integer(size, signed, ByteOrder::Little)
}

fn opaque(size: u64, tag: &str) -> Datatype {
    Datatype { size, class: Class::Opaque { tag: Name::from(tag) } }
}

fn vlen(base: Datatype) -> Datatype {
    Datatype { size: 16, class: Class::Vlen { base: Box::new(base) } }
}

/// Returns h5py's boolean type.
pub(crate) fn boolean() -> Datatype {
    let member = |name: &str, value| EnumMember { name: Name::from(name), value: vec![value] };
    let members = vec![member("FALSE", 0), member("TRUE", 1)];
    Datatype { size: 1, class: Class::Enum { base: Box::new(integer(1, true)), members } }
}

fn element_datatype(field: &Field, depth: usize) -> Result<Datatype> {
    if depth > MAX_DEPTH {
        return Err(Error::limit(format!("a type that nests deeper than {MAX_DEPTH}")));
    }
    let inner = |field: &Field| element_datatype(field, depth + 1);
    let unit = |unit: &TimeUnit| match unit {
        TimeUnit::Second => "s",
        TimeUnit::Millisecond => "ms",
        TimeUnit::Microsecond => "us",
        TimeUnit::Nanosecond => "ns",
    };
    if field.extension_type_name() == Some("arrow.bool8") && *field.data_type() == DataType::Int8 {
        return Ok(boolean());
    }
    Ok(match field.data_type() {
        DataType::Boolean => boolean(),
        DataType::Int8 => integer(1, true),
        DataType::UInt8 => integer(1, false),
        DataType::Int16 => integer(2, true),
        DataType::UInt16 => integer(2, false),
        DataType::Int32 | DataType::Time32(_) | DataType::Decimal32(..) => integer(4, true),
        DataType::UInt32 => integer(4, false),
        DataType::Int64 | DataType::Time64(_) | DataType::Decimal64(..) => integer(8, true),
        DataType::UInt64 => integer(8, false),
        DataType::Decimal128(..) => integer(16, true),
        DataType::Decimal256(..) => integer(32, true),
        DataType::Float16 => Datatype::ieee(2, ByteOrder::Little),
        DataType::Float32 => Datatype::ieee(4, ByteOrder::Little),
        DataType::Float64 => Datatype::ieee(8, ByteOrder::Little),
        DataType::Timestamp(of, _) => opaque(8, &format!("NUMPY:<M8[{}]", unit(of))),
        DataType::Date32 => opaque(8, "NUMPY:<M8[D]"),
        DataType::Date64 => opaque(8, "NUMPY:<M8[ms]"),
        DataType::Duration(of) => opaque(8, &format!("NUMPY:<m8[{}]", unit(of))),
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View => Datatype {
            size: 16,
            class: Class::VlenString { padding: StringPadding::NullTerminated, charset: CharacterSet::Utf8 },
        },
        DataType::Binary | DataType::LargeBinary | DataType::BinaryView => vlen(integer(1, false)),
        DataType::FixedSizeBinary(width) => {
            let size = u64::try_from(*width).ok().filter(|size| *size > 0);
            let size = size.ok_or_else(|| no("values of 0 bytes"))?;
            opaque(size, &tag(field))
        }
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::ListView(item)
        | DataType::LargeListView(item) => vlen(inner(item)?),
        DataType::Map(entries, _) => vlen(inner(entries)?),
        DataType::FixedSizeList(..) => array(field, depth)?,
        DataType::Struct(fields) => compound(fields, depth)?,
        DataType::Dictionary(_, values) => inner(&Field::new("values", (**values).clone(), true))?,
        DataType::RunEndEncoded(_, values) => inner(values)?,
        DataType::Null => return Err(no("Arrow's null type")),
        DataType::Interval(IntervalUnit::YearMonth | IntervalUnit::DayTime | IntervalUnit::MonthDayNano) => {
            return Err(no("intervals of months and days"));
        }
        DataType::Union(..) => return Err(no("unions")),
    })
}

fn no(what: &str) -> Error {
    Error::unsupported(format!("HDF5 has no type for {what}"))
}

/// Returns the tag of opaque bytes.
fn tag(field: &Field) -> String {
    let own = || {
        let text = field.metadata().get(EXTENSION_METADATA)?;
        let value: serde_json::Value = serde_json::from_str(text).ok()?;
        let name = value.get("type_name")?.as_str()?;
        Some(name.to_owned()).filter(|name| name.len() < 256 && !name.contains('\0'))
    };
    match field.extension_type_name() {
        Some("arrow.opaque") => own().unwrap_or_default(),
        Some("arrow.uuid") => "uuid".into(),
        _ => String::new(),
    }
}

fn array(field: &Field, depth: usize) -> Result<Datatype> {
    let mut dims = Vec::new();
    let mut item = field;
    while let DataType::FixedSizeList(inner, size) = item.data_type() {
        if dims.len() >= 31 {
            return Err(Error::limit("more than 31 nested lists"));
        }
        dims.push(u64::try_from(*size).map_err(|_| Error::corrupt("a list of negative size"))?);
        item = inner;
    }
    if dims.contains(&0) {
        return Err(no("lists of 0 elements inside of another type"));
    }
    let base = element_datatype(item, depth + 1)?;
    let size = dims.iter().try_fold(base.size, |size, dim| size.checked_mul(*dim));
    let size = size.ok_or_else(|| Error::limit("elements of 2^64 bytes"))?;
    Ok(Datatype { size, class: Class::Array { dims, base: Box::new(base) } })
}

fn compound(fields: &Fields, depth: usize) -> Result<Datatype> {
    if fields.is_empty() {
        return Err(no("structs without members"));
    }
    let mut members: Vec<Member> = Vec::with_capacity(fields.len());
    let mut offset = 0_u64;
    for field in fields {
        let datatype = element_datatype(field, depth + 1)?;
        let size = datatype.size;
        if field.name().is_empty() || field.name().contains('\0') {
            return Err(no("members without a name"));
        }
        members.push(Member { name: Name::from(field.name().as_str()), offset, datatype });
        offset = offset.checked_add(size).ok_or_else(|| Error::limit("elements of 2^64 bytes"))?;
    }
    let mut names: Vec<&Name> = members.iter().map(|member| &member.name).collect();
    names.sort();
    if names.windows(2).any(|pair| pair.first() == pair.last()) {
        return Err(no("structs with duplicate member names"));
    }
    narrow(offset)?;
    Ok(Datatype { size: offset, class: Class::Compound { members } })
}
