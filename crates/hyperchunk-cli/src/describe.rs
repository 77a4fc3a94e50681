//! Short descriptions of datatypes, extents and layouts.

use hyperchunk::Dataset;
use hyperchunk::encode::LibVersion;
use hyperchunk::model::{
    ByteOrder, Class, Dataspace, Datatype, Filter, Float, Layout, ReferenceKind, StringPadding,
};
use hyperchunk_udf::escape::escape;
use std::fmt::Write as _;

/// Maximum length of a printed name.
const MAX_NAME_CHARS: usize = 200;

/// Returns a name from a file, shortened and escaped for printing.
pub(crate) fn name(bytes: &[u8]) -> String {
    escape(&String::from_utf8_lossy(bytes), MAX_NAME_CHARS)
}

/// Returns a datatype, in NumPy's terms where possible: `int32`, `float64 (big-endian)`, `string`,
/// `{a: int32, b: float64}`.
pub(crate) fn datatype(datatype: &Datatype) -> String {
    let mut text = String::new();
    add(datatype, &mut text);
    text
}

fn add(datatype: &Datatype, text: &mut String) {
    let size = datatype.size;
    let bits = size.saturating_mul(8);
    let _ = match &datatype.class {
        Class::Integer { order, signed, offset, precision } => {
            let _ = write!(text, "{}int{bits}", if *signed { "" } else { "u" });
            add_bit_range(*offset, *precision, bits, text);
            add_order(*order, size, text)
        }
        Class::Float(float) => {
            let _ = write!(text, "{}", float_name(float, size).unwrap_or(&format!("float{bits}")));
            add_bit_range(float.offset, float.precision, bits, text);
            add_order(float.order, size, text)
        }
        Class::Time { order, .. } => {
            let _ = write!(text, "time{bits}");
            add_order(*order, size, text)
        }
        Class::Bitfield { order, offset, precision } => {
            let _ = write!(text, "bits{bits}");
            add_bit_range(*offset, *precision, bits, text);
            add_order(*order, size, text)
        }
        Class::String { padding, .. } => {
            let padding = match padding {
                StringPadding::NullTerminated => "",
                StringPadding::NullPadded => ", null-padded",
                StringPadding::SpacePadded => ", space-padded",
            };
            write!(text, "string[{size}{padding}]")
        }
        Class::VlenString { .. } => write!(text, "string"),
        Class::Opaque { tag } if tag.as_bytes().is_empty() => write!(text, "opaque[{size}]"),
        Class::Opaque { tag } => write!(text, "opaque[{size}, \"{}\"]", name(tag.as_bytes())),
        Class::Reference(kind) => write!(text, "{}", reference(*kind)),
        Class::Compound { members } => {
            text.push('{');
            for (number, member) in members.iter().enumerate() {
                let _ =
                    write!(text, "{}{}: ", if number == 0 { "" } else { ", " }, name(member.name.as_bytes()));
                add(&member.datatype, text);
            }
            write!(text, "}}")
        }
        Class::Enum { base, members } => {
            text.push_str("enum ");
            add(base, text);
            let names: Vec<_> = members.iter().map(|member| name(member.name.as_bytes())).collect();
            write!(text, " {{{}}}", names.join(", "))
        }
        Class::Vlen { base } => {
            text.push_str("sequence of ");
            add(base, text);
            Ok(())
        }
        Class::Array { dims, base } => {
            let _ = write!(text, "array {} of ", extent(dims));
            add(base, text);
            Ok(())
        }
        Class::Complex { base } => match &base.class {
            Class::Float(float) => {
                let _ = write!(text, "complex{bits}");
                add_order(float.order, size, text)
            }
            _ => write!(text, "complex of {}", self::datatype(base)),
        },
    };
}

/// Returns the name of a floating-point type outside IEEE 754.
fn float_name(float: &Float, size: u64) -> Option<&'static str> {
    Some(match (size, float.exponent_bits, float.mantissa_bits) {
        (2, 8, 7) => "bfloat16",
        (1, 4, 3) => "float8 E4M3",
        (1, 5, 2) => "float8 E5M2",
        _ => return None,
    })
}

fn add_bit_range(offset: u16, precision: u16, bits: u64, text: &mut String) {
    if u64::from(precision) != bits || offset != 0 {
        let _ = write!(text, " ({precision} bits from bit {offset})");
    }
}

fn add_order(order: ByteOrder, size: u64, text: &mut String) -> std::fmt::Result {
    match order {
        ByteOrder::Big if size > 1 => write!(text, " (big-endian)"),
        ByteOrder::Vax => write!(text, " (VAX)"),
        _ => Ok(()),
    }
}

fn reference(kind: ReferenceKind) -> &'static str {
    match kind {
        ReferenceKind::Object1 | ReferenceKind::Object2 => "object reference",
        ReferenceKind::Region1 | ReferenceKind::Region2 => "region reference",
        ReferenceKind::Attribute => "attribute reference",
    }
}

/// Returns an extent: `(4000, 4000)`.
pub(crate) fn extent(dims: &[u64]) -> String {
    let dims: Vec<_> = dims.iter().map(u64::to_string).collect();
    format!("({}{})", dims.join(", "), if dims.len() == 1 { "," } else { "" })
}

/// Returns the extent of a dataspace, and the maximum one if it differs: `(10, 20) of (unlimited, 20)`.
pub(crate) fn dataspace(space: &Dataspace, dims: &[u64]) -> String {
    match space {
        Dataspace::Null => "null".into(),
        Dataspace::Scalar => "scalar".into(),
        Dataspace::Simple { max, .. } => {
            let mut text = extent(dims);
            if max.iter().zip(dims).any(|(max, dim)| *max != Some(*dim)) {
                let max: Vec<_> = max
                    .iter()
                    .map(|max| max.map_or_else(|| "unlimited".into(), |max| max.to_string()))
                    .collect();
                let _ = write!(text, " of ({}{})", max.join(", "), if max.len() == 1 { "," } else { "" });
            }
            text
        }
    }
}

/// Returns a layout and its filters: `chunks (100, 100), shuffle, deflate 6`.
pub(crate) fn layout(dataset: &Dataset) -> String {
    let mut text = match dataset.layout() {
        Layout::Compact { .. } => "compact".into(),
        Layout::Contiguous { .. } if !dataset.external().is_empty() => "external".into(),
        Layout::Contiguous { .. } => "contiguous".into(),
        Layout::Chunked(chunked) => format!("chunks {}", extent(&chunked.dims)),
        Layout::Virtual { .. } => "virtual".into(),
    };
    for filter in dataset.pipeline() {
        let _ = write!(text, ", {}", filter_name(filter));
    }
    text
}

/// Returns a filter's name and level.
pub(crate) fn filter_name(filter: &Filter) -> String {
    let known = match filter.id {
        1 => "deflate",
        2 => "shuffle",
        3 => "fletcher32",
        4 => "szip",
        5 => "nbit",
        6 => "scaleoffset",
        307 => "bzip2",
        31300 => "live",
        32000 => "lzf",
        32001 => "blosc",
        32003 => "snappy",
        32004 => "lz4",
        32008 => "bitshuffle",
        32013 => "zfp",
        32015 => "zstd",
        32017 => "sz",
        32024 => "sz3",
        32026 => "blosc2",
        32028 => "sperr",
        id => {
            return match &filter.name {
                Some(given) => format!("filter {id} \"{}\"", name(given.as_bytes())),
                None => format!("filter {id}"),
            };
        }
    };
    match (filter.id, filter.parameters.first()) {
        (1 | 32015, Some(level)) => format!("{known} {level}"),
        _ => known.into(),
    }
}

/// Returns an integer of up to 8 bytes in decimal.
pub(crate) fn small_integer(datatype: &Datatype, bytes: &[u8]) -> Option<String> {
    let Class::Integer { order, signed, offset: 0, precision } = datatype.class else { return None };
    if usize::from(precision) != bytes.len() * 8
        || bytes.len() > 8
        || bytes.is_empty()
        || order == ByteOrder::Vax
    {
        return None;
    }
    let mut number = [0; 8];
    number.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    if order == ByteOrder::Big {
        number[..bytes.len()].reverse();
    }
    let number = u64::from_le_bytes(number);
    let shift = 64 - precision;
    Some(if signed { ((number.cast_signed() << shift) >> shift).to_string() } else { number.to_string() })
}

/// Returns the number of a release of HDF5.
pub(crate) fn release(oldest: LibVersion) -> &'static str {
    match oldest {
        LibVersion::V18 => "1.8",
        LibVersion::V110 => "1.10",
        LibVersion::V200 => "2.0",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyperchunk::model::Member;

    #[test]
    fn datatypes() {
        let check = |what: &Datatype, text: &str| assert_eq!(datatype(what), text);
        let int = Datatype::integer(4, true, ByteOrder::Little);
        check(&int, "int32");
        check(&Datatype::integer(2, false, ByteOrder::Big), "uint16 (big-endian)");
        check(&Datatype::ieee(8, ByteOrder::Little), "float64");
        let odd = Class::Integer { order: ByteOrder::Little, signed: true, offset: 3, precision: 12 };
        check(&Datatype { size: 2, class: odd }, "int16 (12 bits from bit 3)");
        let array =
            Datatype { size: 24, class: Class::Array { dims: vec![2, 3], base: Box::new(int.clone()) } };
        check(&array, "array (2, 3) of int32");
        let member = |name: &str, offset, datatype: &Datatype| Member {
            name: name.into(),
            offset,
            datatype: datatype.clone(),
        };
        let members = vec![member("a", 0, &int), member("\x1b", 4, &array)];
        check(
            &Datatype { size: 28, class: Class::Compound { members } },
            "{a: int32, \\u{1b}: array (2, 3) of int32}",
        );
    }
}
