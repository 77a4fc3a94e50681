//! Short descriptions of datatypes, for `h5.type`.

use hyperchunk::model::{ByteOrder, Class, Datatype, ReferenceKind, StringPadding};
use std::fmt::Write as _;

/// Maximum length of a description, in bytes.
const MAX_DESCRIPTION_BYTES: usize = 2000;

/// Describes a datatype, in NumPy's terms if possible: `int32`, `float64 (big-endian)`,
/// `{a: int32, b: string}`.
pub(crate) fn describe(datatype: &Datatype) -> String {
    let mut text = String::new();
    write_type(datatype, &mut text);
    if text.len() > MAX_DESCRIPTION_BYTES {
        let cut = (0..=MAX_DESCRIPTION_BYTES).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
        text.truncate(cut);
        text.push('…');
    }
    text
}

/// Returns the kind of a reference's target.
pub(crate) fn reference(kind: ReferenceKind) -> &'static str {
    match kind {
        ReferenceKind::Object1 | ReferenceKind::Object2 => "object",
        ReferenceKind::Region1 | ReferenceKind::Region2 => "region",
        ReferenceKind::Attribute => "attribute",
    }
}

fn write_type(datatype: &Datatype, text: &mut String) {
    if text.len() > MAX_DESCRIPTION_BYTES {
        return;
    }
    let bits = datatype.size.saturating_mul(8);
    let bit_range = |offset: u16, precision: u16| {
        if offset == 0 && u64::from(precision) == bits {
            String::new()
        } else {
            format!(" ({precision} bits from bit {offset})")
        }
    };
    let order = |order: ByteOrder| match order {
        ByteOrder::Big if bits > 8 => " (big-endian)",
        ByteOrder::Vax => " (VAX)",
        _ => "",
    };
    // Writing to a string never fails.
    let _ = match &datatype.class {
        Class::Integer { order: of, signed, offset, precision } => {
            let sign = if *signed { "" } else { "u" };
            write!(text, "{sign}int{bits}{}{}", bit_range(*offset, *precision), order(*of))
        }
        Class::Float(float) => {
            let name = match (datatype.size, float.exponent_bits, float.mantissa_bits) {
                (2, 8, 7) => "bfloat16".to_owned(),
                (1, exponent, mantissa) => format!("float{}e{exponent}m{mantissa}", float.precision),
                _ => format!("float{bits}{}", bit_range(float.offset, float.precision)),
            };
            write!(text, "{name}{}", order(float.order))
        }
        Class::Time { order: of, .. } => write!(text, "time{bits}{}", order(*of)),
        Class::Bitfield { order: of, offset, precision } => {
            write!(text, "bits{bits}{}{}", bit_range(*offset, *precision), order(*of))
        }
        Class::String { padding, .. } => {
            let padding = match padding {
                StringPadding::NullTerminated => "",
                StringPadding::NullPadded => ", null-padded",
                StringPadding::SpacePadded => ", space-padded",
            };
            write!(text, "string[{}{padding}]", datatype.size)
        }
        Class::VlenString { .. } => write!(text, "string"),
        Class::Opaque { tag } => write!(text, "opaque[{}, {tag:?}]", datatype.size),
        Class::Reference(kind) => write!(text, "{} reference", reference(*kind)),
        Class::Compound { members } => {
            for (number, member) in members.iter().enumerate() {
                let _ = write!(text, "{}{}: ", if number == 0 { "{" } else { ", " }, member.name);
                write_type(&member.datatype, text);
            }
            write!(text, "}}")
        }
        Class::Enum { base, members } => {
            text.push_str("enum ");
            write_type(base, text);
            let names: Vec<_> = members.iter().take(50).map(|member| member.name.to_string()).collect();
            write!(text, " {{{}}}", names.join(", "))
        }
        Class::Vlen { base } => {
            text.push_str("sequence of ");
            write_type(base, text);
            Ok(())
        }
        Class::Array { dims, base } => {
            let _ = write!(text, "array {} of ", super::metadata::sizes(dims));
            write_type(base, text);
            Ok(())
        }
        Class::Complex { base } => {
            text.push_str("complex of ");
            write_type(base, text);
            Ok(())
        }
    };
}
