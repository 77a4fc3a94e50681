//! The type that elements have in memory.

use crate::model::{ByteOrder, Class, Datatype, Float, Member, Normalization, StringPadding};

/// The little-endian, packed counterpart of a type, as NumPy would hold it:
///
/// - integers and bit fields of their whole size;
/// - floating-point numbers of the smallest of 2, 4 and 8 bytes, or the 80-bit one in 16, that holds all values; one that none
///   of these holds stays what it is;
/// - enumerations as their integers, so that values without a name are kept;
/// - strings padded with NULs;
/// - compounds without gaps, in declared order, or by offset if a member has parts in a heap, as libhdf5 does.
///
/// Everything else, sequences and references too, stays as it is.
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

/// The 80-bit numbers of x86 processors, as they lie in memory there.
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

/// Whether a type is one of those 80-bit numbers.
pub(super) fn is_extended(datatype: &Datatype) -> bool {
    *datatype == extended()
}

/// The smallest float that is at least as large, has the mantissa, and the exponents.
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
