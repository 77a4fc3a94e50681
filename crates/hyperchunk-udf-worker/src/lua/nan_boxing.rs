//! NaNs that LuaJIT cannot represent, here called boxed NaNs. LuaJIT stores every value in the 64 bits of a
//! double, and uses the NaNs whose first 17 bits are nearly all ones for `nil`, `false`, strings and so on.
//! It assumes that numbers from C are not among them. A file may have any bits: erased memory is all ones. So
//! inputs with boxed NaNs are copied, and these are replaced by ordinary NaNs of the same sign.

use crate::fail;
use hyperchunk_udf::datatype::{Datatype, ElementType};
use hyperchunk_udf::error::Result;

/// Number of elements checked before an early exit.
const BLOCK_ELEMENTS: usize = 4096;

/// Upper half, without the sign, from which a double may be another Lua value; the sign may change (`-x`).
const MIN_BOXED_UPPER_HALF: u32 = 0x7ff9_0000;

/// Returns whether a float becomes a boxed NaN when it is converted to a double: the conversion keeps the
/// first mantissa bits, and sets the first of these.
fn is_boxed_float(bits: u32) -> bool {
    const INFINITY_BITS: u32 = 0x7f80_0000;
    const FIRST_MANTISSA_BIT: u32 = 0x0040_0000;
    let bare = bits & (u32::MAX >> 1);
    // Processors have signed vector comparisons.
    bare.cast_signed() > INFINITY_BITS.cast_signed()
        && (bare | FIRST_MANTISSA_BIT).cast_signed() >= 0x7fc8_0000
}

/// Returns whether a double is a boxed NaN, or becomes one by arithmetic, which sets a NaN's first mantissa
/// bit.
fn is_boxed_double(bits: u64) -> bool {
    const FIRST_MANTISSA_BIT: u32 = 0x0008_0000;
    let bare = (bits >> 32) as u32 & (u32::MAX >> 1);
    (bare | FIRST_MANTISSA_BIT).cast_signed() >= MIN_BOXED_UPPER_HALF.cast_signed()
}

fn float(bytes: &[u8; 4]) -> u32 {
    u32::from_ne_bytes(*bytes)
}

fn double(bytes: &[u8; 8]) -> u64 {
    u64::from_ne_bytes(*bytes)
}

/// Returns whether a datatype is, or contains in arrays or members, a number of a wanted type.
pub(super) fn holds(datatype: &Datatype, wanted: &dyn Fn(ElementType) -> bool) -> bool {
    match datatype {
        Datatype::Compound(compound) => compound.members().iter().any(|m| holds(&m.datatype, wanted)),
        Datatype::Array(base, _) => holds(base, wanted),
        _ => datatype.number().is_some_and(wanted),
    }
}

/// Returns whether a datatype contains floats.
pub(super) fn has_floats(datatype: &Datatype) -> bool {
    holds(datatype, &|number| matches!(number, ElementType::Float32 | ElementType::Float64))
}

/// Returns whether contiguous elements contain a boxed NaN.
pub(super) fn has_boxed_nans(datatype: &Datatype, bytes: &[u8]) -> bool {
    match (datatype, datatype.flat_number()) {
        (_, Some(ElementType::Float32)) => {
            let mut blocks = bytes.as_chunks().0.chunks(BLOCK_ELEMENTS);
            blocks.any(|block| block.iter().fold(0, |any, x| any | u32::from(is_boxed_float(float(x)))) != 0)
        }
        (_, Some(ElementType::Float64)) => {
            let mut blocks = bytes.as_chunks().0.chunks(BLOCK_ELEMENTS);
            blocks
                .any(|block| block.iter().fold(0, |any, x| any | u32::from(is_boxed_double(double(x)))) != 0)
        }
        (Datatype::Array(base, _), None) => has_boxed_nans(base, bytes),
        (Datatype::Compound(compound), None) => {
            let with_floats: Vec<_> = compound.members().iter().filter(|m| has_floats(&m.datatype)).collect();
            bytes.chunks_exact(datatype.size().max(1)).any(|element| {
                with_floats.iter().any(|member| {
                    let place = member.offset..member.offset.saturating_add(member.datatype.size());
                    element.get(place).is_some_and(|part| has_boxed_nans(&member.datatype, part))
                })
            })
        }
        _ => false,
    }
}

/// Replaces boxed NaNs by ordinary ones.
fn canonicalize_in_place(datatype: &Datatype, bytes: &mut [u8]) {
    match (datatype, datatype.flat_number()) {
        (_, Some(ElementType::Float32)) => {
            for x in bytes.as_chunks_mut().0.iter_mut().filter(|x| is_boxed_float(float(x))) {
                *x = (float(x) & (1 << 31) | 0x7fc0_0000).to_ne_bytes();
            }
        }
        (_, Some(ElementType::Float64)) => {
            for x in bytes.as_chunks_mut().0.iter_mut().filter(|x| is_boxed_double(double(x))) {
                *x = (double(x) & (1 << 63) | 0x7ff8 << 48).to_ne_bytes();
            }
        }
        (Datatype::Array(base, _), None) => canonicalize_in_place(base, bytes),
        (Datatype::Compound(compound), None) => {
            for element in bytes.chunks_exact_mut(datatype.size().max(1)) {
                for member in compound.members() {
                    let place = member.offset..member.offset.saturating_add(member.datatype.size());
                    if let Some(part) = element.get_mut(place) {
                        canonicalize_in_place(&member.datatype, part);
                    }
                }
            }
        }
        _ => {}
    }
}

/// Copies elements to `copy`, with boxed NaNs replaced by ordinary ones, and returns the copy's address,
/// which is aligned for any element.
///
/// # Errors
/// `Failed` if there is no memory for the copy.
pub(super) fn canonicalize(datatype: &Datatype, bytes: &[u8], copy: &mut Vec<u64>) -> Result<*mut u8> {
    copy.clear();
    let words = bytes.len().div_ceil(8);
    if copy.try_reserve_exact(words).is_err() {
        fail!(
            Failed,
            "no memory for a copy of an input with NaNs that LuaJIT cannot represent ({} bytes)",
            bytes.len()
        )
    }
    copy.resize(words, 0);
    // SAFETY: the words are initialised, exclusively borrowed, and have at least `bytes.len()` bytes.
    let room = unsafe { std::slice::from_raw_parts_mut(copy.as_mut_ptr().cast::<u8>(), bytes.len()) };
    room.copy_from_slice(bytes);
    canonicalize_in_place(datatype, room);
    Ok(room.as_mut_ptr())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Distinguishes numbers from other values like LuaJIT: by the first 17 bits.
    fn is_a_number_to_lua(bits: u64) -> bool {
        bits >> 47 < 0x1_fff2
    }

    #[test]
    fn test_boxed_nans_are_what_lua_reads_as_other_values() {
        for top in 0..=u16::MAX {
            for low in [0, 1, 0x7fff, 0xffff] {
                let bits = u32::from(top) << 16 | low;
                let wide = f64::from(f32::from_bits(bits)).to_bits();
                let taken = is_a_number_to_lua(wide) && is_a_number_to_lua(wide ^ 1 << 63);
                assert_eq!(is_boxed_float(bits), !taken, "{bits:#x}");
                let bits = u64::from(top) << 48 | u64::from(low) << 32 | u64::from(low);
                let quiet = if f64::from_bits(bits).is_nan() { bits | 1 << 51 } else { bits };
                let taken = [bits, quiet]
                    .into_iter()
                    .all(|b| is_a_number_to_lua(b) && is_a_number_to_lua(b ^ 1 << 63));
                assert_eq!(is_boxed_double(bits), !taken, "{bits:#x}");
            }
        }
    }

    fn check(notation: &str, bytes: &[u8], expected: &[u8]) {
        let datatype = Datatype::parse(notation).unwrap();
        let is_boxed = bytes != expected;
        assert_eq!(has_boxed_nans(&datatype, bytes), is_boxed, "{notation}");
        assert!(has_floats(&datatype) || !is_boxed);
        let mut copy = Vec::new();
        let place = canonicalize(&datatype, bytes, &mut copy).unwrap();
        assert_eq!(place.align_offset(8), 0);
        // SAFETY: the copy has `bytes.len()` bytes.
        assert_eq!(unsafe { std::slice::from_raw_parts(place, bytes.len()) }, expected, "{notation}");
    }

    #[test]
    fn test_boxed_nans_are_found_at_any_position() {
        let floats = |list: &[u32]| list.iter().flat_map(|x| x.to_ne_bytes()).collect::<Vec<_>>();
        let plain = [0, 0x3f80_0000, 0xff80_0000, 0x7fc0_0000, 0xffc0_0000];
        for n in [1, 5, 4095, 4096, 4097, 9000] {
            let mut list: Vec<u32> = (0..n).map(|n| plain[n % 5]).collect();
            check("float", &floats(&list), &floats(&list));
            let wanted = [&list[..n - 1], &[0xffc0_0000]].concat();
            list[n - 1] = u32::MAX;
            check("float", &floats(&list), &floats(&wanted));
            check("int32", &floats(&list), &floats(&list));
        }
        let doubles = |list: &[u64]| list.iter().flat_map(|x| x.to_ne_bytes()).collect::<Vec<_>>();
        check("double", &doubles(&[0x7ff4 << 48, 0x7ff0 << 48]), &doubles(&[0x7ff8 << 48, 0x7ff0 << 48]));
        check("double", &doubles(&[1, u64::MAX, 2]), &doubles(&[1, 0xfff8 << 48, 2]));
        check("double", &doubles(&[0x7fff << 48, 0x7ff8 << 48]), &doubles(&[0x7ff8 << 48, 0x7ff8 << 48]));
    }
}
