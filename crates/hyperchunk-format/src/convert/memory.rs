//! Datatypes of elements in memory.

use crate::model::{ByteOrder, Class, Datatype, Float, Member, Normalization, StringPadding};

/// Returns the packed little-endian counterpart of a datatype, as NumPy represents it:
///
/// - integers and bit fields use all bits of their size;
/// - floating-point numbers become the smallest of 2, 4 and 8 bytes, or the 80-bit one in 16 bytes, that
///   holds all values; they do not change if none does;
/// - enumerations become their integers, so that values without a name are kept;
/// - strings are padded with NULs;
/// - compounds have no gaps. Members stay in declared order, or are sorted by offset if one of them contains
///   variable-length data or references, as libhdf5 does.
///
/// All other datatypes, including sequences and references, are unchanged.
#[must_use]
pub fn memory_type(datatype: &Datatype) -> Datatype {
    let size = datatype.size;
    match &datatype.class {
        Class::Integer { signed, .. } => whole(size, *signed).unwrap_or_else(|| datatype.clone()),
        Class::Bitfield { .. } => whole(size, false).unwrap_or_else(|| datatype.clone()),
        Class::Float(float) => memory_float(size, float).unwrap_or_else(|| datatype.clone()),
        Class::Enum { base, .. } => memory_type(base),
        Class::String { charset, .. } => {
            Datatype { size, class: Class::String { padding: StringPadding::NullPadded, charset: *charset } }
        }
        Class::Compound { members } => {
            let mut members: Vec<&Member> = members.iter().collect();
            if datatype.has_vlen() || datatype.has_reference() {
                members.sort_by_key(|member| member.offset);
            }
            let mut size: u64 = 0;
            let packed = members.into_iter().map(|member| {
                let memory = memory_type(&member.datatype);
                let offset = size;
                size = size.saturating_add(memory.size);
                Member { name: member.name.clone(), offset, datatype: memory }
            });
            let members = packed.collect();
            Datatype { size, class: Class::Compound { members } }
        }
        Class::Array { dims, base } => {
            let base = Box::new(memory_type(base));
            let size = base.size.saturating_mul(datatype.array_length());
            Datatype { size, class: Class::Array { dims: dims.clone(), base } }
        }
        Class::Complex { base } => {
            let base = Box::new(memory_type(base));
            Datatype { size: base.size.saturating_mul(2), class: Class::Complex { base } }
        }
        Class::Time { .. }
        | Class::Opaque { .. }
        | Class::Reference(_)
        | Class::Vlen { .. }
        | Class::VlenString { .. } => datatype.clone(),
    }
}

fn whole(size: u64, signed: bool) -> Option<Datatype> {
    let size = u16::try_from(size).ok().filter(|size| *size <= 16)?;
    Some(Datatype::integer(size, signed, ByteOrder::Little))
}

/// Returns the 80-bit extended-precision type of x86 processors, in its memory layout.
fn extended() -> Datatype {
    let float = Float {
        order: ByteOrder::Little,
        offset: 0,
        precision: 80,
        sign: 79,
        exponent_at: 64,
        exponent_bits: 15,
        exponent_bias: 16383,
        mantissa_at: 0,
        mantissa_bits: 64,
        normalization: Normalization::None,
    };
    Datatype { size: 16, class: Class::Float(float) }
}

/// True if a datatype is that 80-bit type.
pub(super) fn is_extended(datatype: &Datatype) -> bool {
    *datatype == extended()
}

/// Returns the smallest floating-point type that is at least as large and covers the mantissa and the
/// exponents.
fn memory_float(size: u64, float: &Float) -> Option<Datatype> {
    let range = |float: &Float| {
        let bias = i128::from(float.exponent_bias);
        let last = 1_i128.checked_shl(float.exponent_bits.into()).unwrap_or(i128::MAX);
        (1_i128.saturating_sub(bias), last.saturating_sub(bias).saturating_sub(1))
    };
    let (least, most) = range(float);
    let little = |size| Datatype::ieee(size, ByteOrder::Little);
    [little(2), little(4), little(8), extended()].into_iter().find(|candidate| {
        let Class::Float(memory) = &candidate.class else { return false };
        let (memory_least, memory_most) = range(memory);
        candidate.size >= size
            && float.mantissa_bits <= memory.mantissa_bits
            && least >= memory_least
            && most <= memory_most
    })
}
