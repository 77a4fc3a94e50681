//! Numbers of any count of bits, the most significant bit first, as nbit and scaleoffset pack them.

use super::Context;
use crate::{Error, ErrorKind, Result};

/// The order of the bytes of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Little,
    Big,
}

/// The 64 bits from bit `at` on, of which the first 57 are sure; zeros behind the end.
#[inline]
fn window(bytes: &[u8], at: usize) -> u64 {
    let rest = bytes.get(at / 8..).unwrap_or_default();
    let word = rest.first_chunk().map_or_else(|| padded(rest), |word| u64::from_be_bytes(*word));
    word.wrapping_shl(u32::try_from(at % 8).unwrap_or(0))
}

/// Fewer than eight bytes as a number, as if zeros followed.
#[cold]
fn padded(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    u64::from_be_bytes(word)
}

/// The number of `width` bits, up to 64, at bit `at`; zeros behind the end.
#[inline]
pub(super) fn number(bytes: &[u8], at: usize, width: u32) -> u64 {
    if width > 57 {
        let high = number(bytes, at, 32);
        let rest = width.wrapping_sub(32);
        return (high << rest) | number(bytes, at.wrapping_add(32), rest);
    }
    // Two shifts, because a width of 0 needs 64.
    (window(bytes, at) >> 1).wrapping_shr(63_u32.wrapping_sub(width))
}

/// Makes `output` as long as `count` elements of `size` bytes are, for codecs whose parameters say so; what it holds is
/// stale.
pub(super) fn make_room(output: &mut Vec<u8>, count: u32, size: u32, context: &Context<'_>) -> Result<()> {
    let bytes = u64::from(count).wrapping_mul(size.into());
    match usize::try_from(bytes) {
        Ok(bytes) if bytes <= context.limit => {
            output.resize(bytes, 0);
            Ok(())
        }
        _ => Err(Error::limit(format!("{bytes} bytes come out, more than {}", context.limit))),
    }
}

/// Checks that `count` times `bits` bits are there.
pub(super) fn check_length(input: &[u8], count: u32, bits: u64) -> Result<()> {
    let needed = u128::from(count).wrapping_mul(bits.into());
    if needed <= (input.len() as u128).wrapping_mul(8) {
        return Ok(());
    }
    let message = format!("{needed} bits are needed and {} bytes are there", input.len());
    Err(Error::new(ErrorKind::Filter, message))
}

/// Writes consecutive numbers of `width` bits to elements of 1, 2, 4 or 8 bytes, after `map`.
pub(super) fn unpack(
    input: &[u8],
    width: u32,
    output: &mut [u8],
    size: u32,
    order: Order,
    map: impl Fn(u64) -> u64,
) {
    match (size, order) {
        (1, _) => unpack_as::<1>(input, width, output, |value| map(value).to_le_bytes()),
        (2, Order::Little) => unpack_as::<2>(input, width, output, |value| map(value).to_le_bytes()),
        (4, Order::Little) => unpack_as::<4>(input, width, output, |value| map(value).to_le_bytes()),
        (8, Order::Little) => unpack_as::<8>(input, width, output, |value| map(value).to_le_bytes()),
        (2, Order::Big) => unpack_as::<2>(input, width, output, |value| (map(value) << 48).to_be_bytes()),
        (4, Order::Big) => unpack_as::<4>(input, width, output, |value| (map(value) << 32).to_be_bytes()),
        (8, Order::Big) => unpack_as::<8>(input, width, output, |value| map(value).to_be_bytes()),
        _ => debug_assert!(false, "callers send other sizes elsewhere"),
    }
}

/// Writes the first `SIZE` bytes of what `bytes` makes of each number.
fn unpack_as<const SIZE: usize>(input: &[u8], width: u32, output: &mut [u8], bytes: impl Fn(u64) -> [u8; 8]) {
    let step = usize::try_from(width).unwrap_or(usize::MAX);
    let mut at = 0_usize;
    for element in output.as_chunks_mut::<SIZE>().0 {
        if let Some(first) = bytes(number(input, at, width)).first_chunk() {
            *element = *first;
        }
        at = at.wrapping_add(step);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_any_width_and_place() {
        let bytes: Vec<u8> = (0..40_u32).map(|i| (i * 73 + 19) as u8).collect();
        let bit = |at: usize| bytes.get(at / 8).map_or(0, |byte| u64::from(byte >> (7 - at % 8)) & 1);
        for width in 0..=64 {
            for at in 0..330 {
                let expected = (0..width).fold(0, |value, i| (value << 1) | bit(at + i as usize));
                assert_eq!(number(&bytes, at, width), expected, "{width} {at}");
            }
        }
    }
}
