//! Fields: names, and the metadata of a column.

use super::describe::describe;
use super::form::Element;
use super::metadata::{self, CELL, DTYPE, ENUM, TYPE};
use super::portable::portable;
use crate::{Error, Result};
use arrow_schema::{DataType, Field, TimeUnit};
use hyperchunk::model::{ByteOrder, Class, Datatype, EnumMember, Name};

/// Makes the field of a column.
pub(super) fn field(name: &str, datatype: &Datatype, cell: &[u64], element: &Element) -> Result<Field> {
    let field = element.field(name);
    let mut more = field.metadata().clone();
    let mut add = |key: &str, value: String| more.insert(key.to_owned(), value);
    add(DTYPE, metadata::encode_datatype(&portable(datatype)?)?);
    add(TYPE, describe(datatype));
    if !cell.is_empty() {
        add(CELL, metadata::sizes(cell));
    }
    if let Class::Enum { base, members } = &datatype.class {
        add(ENUM, names(base, members));
    }
    Ok(field.with_metadata(more))
}

/// Returns the names of an enumeration and their values as JSON.
fn names(base: &Datatype, members: &[EnumMember]) -> String {
    let pairs: Vec<String> = members
        .iter()
        .map(|member| {
            let name = serde_json::Value::from(member.name.to_string());
            format!("{name}:{}", value(base, &member.value))
        })
        .collect();
    format!("{{{}}}", pairs.join(","))
}

/// Returns the value of an integer; `null` if it is wider than JSON numbers.
fn value(base: &Datatype, bytes: &[u8]) -> String {
    let Class::Integer { order, signed, .. } = base.class else { return "null".into() };
    if bytes.len() > 8 {
        return "null".into();
    }
    let mut bytes = bytes.to_vec();
    if order == ByteOrder::Big {
        bytes.reverse();
    }
    let negative = signed && bytes.last().is_some_and(|last| last & 0x80 != 0);
    bytes.resize(8, if negative { 0xFF } else { 0 });
    let bits = bytes.iter().rev().fold(0_u64, |bits, byte| bits << 8 | u64::from(*byte));
    if signed { bits.cast_signed().to_string() } else { bits.to_string() }
}

/// Returns a name as text.
pub(crate) fn text(name: &Name) -> Result<&str> {
    name.as_str()
        .ok_or_else(|| Error::unsupported(format!("the name {name:?} is not UTF-8, which Arrow requires")))
}

/// Returns the Arrow type of NumPy's dates and durations in HDF5, as h5py stores them: opaque bytes with the
/// dtype as tag, such as `NUMPY:<M8[ns]`. Only for units with the same 8 bytes in Arrow; also returns the
/// stored byte order.
pub(crate) fn numpy_time(tag: &str) -> Option<(DataType, ByteOrder)> {
    let (is_date, unit, order) = time_tag(tag)?;
    let unit = match unit {
        "[s]" => TimeUnit::Second,
        "[ms]" => TimeUnit::Millisecond,
        "[us]" => TimeUnit::Microsecond,
        "[ns]" => TimeUnit::Nanosecond,
        _ => return None,
    };
    Some((if is_date { DataType::Timestamp(unit, None) } else { DataType::Duration(unit) }, order))
}

/// Returns the Arrow type of NumPy's dates and durations whose unit Arrow lacks, the number of Arrow's units in one of
/// them, and the stored byte order. Months and years have no fixed length, and so no such type.
pub(crate) fn coarse_numpy_time(tag: &str) -> Option<(DataType, i64, ByteOrder)> {
    let (is_date, unit, order) = time_tag(tag)?;
    let seconds = match unit {
        "[m]" => 60,
        "[h]" => 3600,
        "[D]" if is_date => return Some((DataType::Date32, 1, order)),
        "[D]" => 86_400,
        "[W]" => 604_800,
        _ => return None,
    };
    let unit = TimeUnit::Second;
    let data_type = if is_date { DataType::Timestamp(unit, None) } else { DataType::Duration(unit) };
    Some((data_type, seconds, order))
}

/// Parses a tag: returns whether the type is a date (else a duration), the unit, and the byte order.
fn time_tag(tag: &str) -> Option<(bool, &str, ByteOrder)> {
    let tag = tag.strip_prefix("NUMPY:")?;
    let (tag, order) = match tag.strip_prefix('>') {
        Some(tag) => (tag, ByteOrder::Big),
        None => (tag.strip_prefix('<').unwrap_or(tag), ByteOrder::Little),
    };
    let date = tag.strip_prefix("M8").or_else(|| tag.strip_prefix("datetime64"));
    let duration = || tag.strip_prefix("m8").or_else(|| tag.strip_prefix("timedelta64"));
    date.map(|unit| (true, unit, order)).or_else(|| Some((false, duration()?, order)))
}
