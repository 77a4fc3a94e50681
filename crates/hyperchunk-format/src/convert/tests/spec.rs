//! Datatypes as short texts: `i4le`, `u2be+3/7` (offset and precision), `f8le`, `f2le(15,7,8,0,7,127,i)`
//! (sign, exponent, its size, mantissa, its size, bias, normalization), `x16le` (x86's 80 bits), `s5z`
//! (string, padding), `b4be`, `c(f4le)`, `[2,3]i4le`, `e(i4le:RED=0,GREEN=1)`, `{a@0:i4le,b@4:f8le}12`,
//! `v(i4le)`, `t`.

use crate::model::{
    ByteOrder, CharacterSet, Class, Datatype, EnumMember, Float, Member, Name, Normalization, StringPadding,
};

pub(super) fn parse(text: &str) -> Datatype {
    let mut rest = text;
    let datatype = take(&mut rest);
    assert_eq!(rest, "", "in {text}");
    datatype
}

fn number(rest: &mut &str) -> u64 {
    let end = rest.find(|c: char| !c.is_ascii_digit() && c != '-').unwrap_or(rest.len());
    let (digits, after) = rest.split_at(end);
    *rest = after;
    digits.parse::<i64>().unwrap() as u64
}

fn skip(rest: &mut &str, text: &str) -> bool {
    match rest.strip_prefix(text) {
        Some(after) => {
            *rest = after;
            true
        }
        None => false,
    }
}

fn order(rest: &mut &str) -> ByteOrder {
    if skip(rest, "le") {
        ByteOrder::Little
    } else if skip(rest, "be") {
        ByteOrder::Big
    } else {
        assert!(skip(rest, "vax"), "{rest}");
        ByteOrder::Vax
    }
}

fn name<'a>(rest: &mut &'a str) -> &'a str {
    let end = rest.find(['@', '=']).unwrap();
    let name = &rest[..end];
    *rest = &rest[end + 1..];
    name
}

fn take(rest: &mut &str) -> Datatype {
    let kind = rest.chars().next().unwrap();
    *rest = &rest[1..];
    match kind {
        'i' | 'u' | 'b' => {
            let size = number(rest);
            let order = order(rest);
            let (mut offset, mut precision) = (0, size as u16 * 8);
            if skip(rest, "+") {
                offset = number(rest) as u16;
                skip(rest, "/");
                precision = number(rest) as u16;
            }
            let class = match kind {
                'b' => Class::Bitfield { order, offset, precision },
                _ => Class::Integer { order, signed: kind == 'i', offset, precision },
            };
            Datatype { size, class }
        }
        'x' | 'f' => {
            let size = number(rest);
            let order = order(rest);
            let mut fields = match (kind, size) {
                ('x', _) => vec![79, 64, 15, 0, 64, 16383],
                (_, 2) => vec![15, 10, 5, 0, 10, 15],
                (_, 4) => vec![31, 23, 8, 0, 23, 127],
                (_, 8) => vec![63, 52, 11, 0, 52, 1023],
                _ => vec![127, 112, 15, 0, 112, 16383],
            };
            let mut normalization = if kind == 'x' { Normalization::None } else { Normalization::Implied };
            if skip(rest, "(") {
                fields = (0..6).map(|_| (number(rest), skip(rest, ",")).0).collect();
                normalization = if skip(rest, "i") { Normalization::Implied } else { Normalization::None };
                skip(rest, "n");
                skip(rest, ")");
            }
            let [sign, exponent_at, exponent_bits, mantissa_at, mantissa_bits, _] =
                [0, 1, 2, 3, 4, 5].map(|at| fields[at] as u16);
            let precision = (sign + 1).max(exponent_at + exponent_bits).max(mantissa_at + mantissa_bits);
            let class = Class::Float(Float {
                order,
                offset: 0,
                precision,
                sign,
                exponent_at,
                exponent_bits,
                exponent_bias: fields[5],
                mantissa_at,
                mantissa_bits,
                normalization,
            });
            Datatype { size, class }
        }
        's' => {
            let size = number(rest);
            let padding = [("z", StringPadding::NullTerminated), ("n", StringPadding::NullPadded)];
            let padding =
                padding.into_iter().find(|(letter, _)| skip(rest, letter)).map(|(_, padding)| padding);
            let padding = padding.unwrap_or_else(|| {
                skip(rest, "s");
                StringPadding::SpacePadded
            });
            let charset = if skip(rest, "u") { CharacterSet::Utf8 } else { CharacterSet::Ascii };
            Datatype { size, class: Class::String { padding, charset } }
        }
        'c' => {
            skip(rest, "(");
            let base = take(rest);
            skip(rest, ")");
            Datatype { size: base.size * 2, class: Class::Complex { base: Box::new(base) } }
        }
        'v' => {
            skip(rest, "(");
            let base = take(rest);
            skip(rest, ")");
            Datatype { size: 16, class: Class::Vlen { base: Box::new(base) } }
        }
        't' => Datatype { size: 4, class: Class::Time { order: ByteOrder::Little, precision: 32 } },
        '[' => {
            let mut dims = vec![number(rest)];
            while skip(rest, ",") {
                dims.push(number(rest));
            }
            skip(rest, "]");
            let base = Box::new(take(rest));
            Datatype { size: dims.iter().product::<u64>() * base.size, class: Class::Array { dims, base } }
        }
        'e' => {
            skip(rest, "(");
            let base = take(rest);
            let mut members = Vec::new();
            while skip(rest, ":") || skip(rest, ",") {
                let name = Name::from(name(rest));
                let mut value = number(rest).to_le_bytes()[..base.size as usize].to_vec();
                if let Class::Integer { order: ByteOrder::Big, .. } = base.class {
                    value.reverse();
                }
                members.push(EnumMember { name, value });
            }
            skip(rest, ")");
            Datatype { size: base.size, class: Class::Enum { base: Box::new(base), members } }
        }
        '{' => {
            let mut members = Vec::new();
            while !skip(rest, "}") {
                skip(rest, ",");
                let name = Name::from(name(rest));
                let offset = number(rest);
                skip(rest, ":");
                members.push(Member { name, offset, datatype: take(rest) });
            }
            Datatype { size: number(rest), class: Class::Compound { members } }
        }
        _ => panic!("{kind}{rest}"),
    }
}
