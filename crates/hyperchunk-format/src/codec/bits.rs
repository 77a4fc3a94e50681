//! Bit-packed numbers, most significant bit first, as in nbit and scaleoffset.

use crate::{Error, ErrorKind, Result};

/// Byte order of an element.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Order {
    Little,
    Big,
}

/// Returns the 64 bits from bit `at` on, of which only the first 57 are valid; zeros past the end.
#[inline]
pub(super) fn window(bytes: &[u8], at: usize) -> u64 {
    let rest = bytes.get(at / 8..).unwrap_or_default();
    let word = rest.first_chunk().map_or_else(|| padded(rest), |word| u64::from_be_bytes(*word));
    word.wrapping_shl(u32::try_from(at % 8).unwrap_or(0))
}

/// Converts fewer than eight bytes to a number, padded with zeros.
#[cold]
fn padded(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    u64::from_be_bytes(word)
}

/// Returns the number of `width` bits (up to 64) at bit `at`; zeros past the end.
#[inline]
pub(super) fn number(bytes: &[u8], at: usize, width: u32) -> u64 {
    if width > 57 {
        let high = number(bytes, at, 32);
        let rest = width.wrapping_sub(32);
        return (high << rest) | number(bytes, at.wrapping_add(32), rest);
    }
    // Two shifts, because a width of 0 needs a shift by 64.
    (window(bytes, at) >> 1).wrapping_shr(63_u32.wrapping_sub(width))
}

/// Checks that `input` has `count` times `bits` bits.
pub(super) fn check_length(input: &[u8], count: u32, bits: u64) -> Result<()> {
    let needed = u128::from(count).wrapping_mul(bits.into());
    if needed <= (input.len() as u128).wrapping_mul(8) {
        return Ok(());
    }
    let message = format!("{needed} bits are needed, but the chunk has {} bytes", input.len());
    Err(Error::new(ErrorKind::Filter, message))
}

/// Number of values unpacked at a time.
const BLOCK_VALUES: usize = 128;

/// Unpacks consecutive numbers of `width` bits, from bit `at` of the input on, applies `map`, and writes them
/// as elements of `size` bytes (1 to 8). The input must be long enough for all elements.
pub(super) fn unpack(
    (input, mut at, width): (&[u8], usize, u32),
    (output, size, order): (&mut [u8], usize, Order),
    map: impl Fn(u64) -> u64,
) {
    let mut values = [0; BLOCK_VALUES];
    for elements in output.chunks_mut(size.max(1).wrapping_mul(BLOCK_VALUES)) {
        let count = elements.len().checked_div(size).unwrap_or(0);
        let values = values.get_mut(..count).unwrap_or_default();
        numbers((input, at, width), values, |to, value| *to = value);
        at = at.wrapping_add(count.wrapping_mul(width as usize));
        values.iter_mut().for_each(|value| *value = map(*value));
        store(values, elements, size, order);
    }
}

/// Calls `put` with consecutive numbers of `width` bits. Reads several from one window if they fit.
#[inline]
pub(super) fn numbers<T>((input, at, width): (&[u8], usize, u32), to: &mut [T], put: impl Fn(&mut T, u64)) {
    match width {
        0..=7 => numbers_by::<8, T>((input, at, width), to, put),
        8..=14 => numbers_by::<4, T>((input, at, width), to, put),
        15..=28 => numbers_by::<2, T>((input, at, width), to, put),
        _ => numbers_by::<1, T>((input, at, width), to, put),
    }
}

fn numbers_by<const N: usize, T>(
    (input, mut at, width): (&[u8], usize, u32),
    to: &mut [T],
    put: impl Fn(&mut T, u64),
) {
    let (groups, mut rest) = to.as_chunks_mut::<N>();
    if N == 1 {
        rest = groups.as_flattened_mut();
    } else {
        for group in groups {
            let mut bits = window(input, at);
            for to in group {
                put(to, (bits >> 1).wrapping_shr(63_u32.wrapping_sub(width)));
                bits = bits.wrapping_shl(width);
                at = at.wrapping_add(width as usize);
            }
        }
    }
    for to in rest {
        put(to, number(input, at, width));
        at = at.wrapping_add(width as usize);
    }
}

/// Writes numbers as elements of `size` bytes (1 to 8).
fn store(values: &[u64], elements: &mut [u8], size: usize, order: Order) {
    match (size, order) {
        (1, _) => store_as(values, elements, |[a, ..]| [a]),
        (2, Order::Little) => store_as(values, elements, |[a, b, ..]| [a, b]),
        (2, Order::Big) => store_as(values, elements, |[a, b, ..]| [b, a]),
        (4, Order::Little) => store_as(values, elements, |[a, b, c, d, ..]| [a, b, c, d]),
        (4, Order::Big) => store_as(values, elements, |[a, b, c, d, ..]| [d, c, b, a]),
        (8, Order::Little) => store_as(values, elements, |bytes| bytes),
        (8, Order::Big) => store_as(values, elements, |[a, b, c, d, e, f, g, h]| [h, g, f, e, d, c, b, a]),
        _ => {
            for (element, value) in elements.chunks_exact_mut(size.max(1)).zip(values) {
                store_one(*value, element, order);
            }
        }
    }
}

/// Writes a number as an element of up to 8 bytes.
#[inline]
pub(super) fn store_one(value: u64, element: &mut [u8], order: Order) {
    let bytes = value.to_le_bytes();
    match order {
        Order::Little => element.iter_mut().zip(bytes).for_each(|(to, from)| *to = from),
        Order::Big => element.iter_mut().rev().zip(bytes).for_each(|(to, from)| *to = from),
    }
}

fn store_as<const N: usize>(values: &[u64], elements: &mut [u8], bytes: impl Fn([u8; 8]) -> [u8; N]) {
    for (element, value) in elements.as_chunks_mut().0.iter_mut().zip(values) {
        *element = bytes(value.to_le_bytes());
    }
}

/// Bit writer, most significant bit first.
#[derive(Debug)]
pub(super) struct Packer<'a> {
    bytes: &'a mut [u8],
    /// Position of the next eight bytes.
    at: usize,
    /// Pending bits, from the highest on, and their number.
    word: u64,
    filled: u32,
}

impl<'a> Packer<'a> {
    pub(super) fn new(bytes: &'a mut [u8]) -> Self {
        Self { bytes, at: 0, word: 0, filled: 0 }
    }

    /// Writes the lowest `width` bits (up to 64) of a number.
    #[inline]
    pub(super) fn put(&mut self, value: u64, width: u32) {
        // Two shifts, because a width of 0 needs a shift by 64.
        let top = value.wrapping_shl(63_u32.wrapping_sub(width)).wrapping_shl(1);
        // For a width of 64 the first shift loses all bits.
        let top = if width == 64 { value } else { top };
        self.word |= top.wrapping_shr(self.filled);
        let filled = self.filled.wrapping_add(width);
        if filled < 64 {
            self.filled = filled;
            return;
        }
        self.flush();
        // Bits that did not fit.
        let placed = 64_u32.wrapping_sub(self.filled);
        self.word = top.checked_shl(placed).unwrap_or(0);
        self.filled = filled.wrapping_sub(64);
    }

    #[inline]
    fn flush(&mut self) {
        let end = self.at.wrapping_add(8);
        if let Some(to) = self.bytes.get_mut(self.at..end) {
            to.copy_from_slice(&self.word.to_be_bytes());
        }
        self.at = end;
    }

    /// Writes the pending bits, and zeros after them.
    pub(super) fn finish(mut self) {
        let rest = self.bytes.get_mut(self.at..).unwrap_or_default();
        rest.fill(0);
        let count = self.filled.div_ceil(8) as usize;
        rest.iter_mut().zip(self.word.to_be_bytes()).take(count).for_each(|(to, from)| *to = from);
        self.word = 0;
    }
}

/// Writes the lowest `width` bits of each element of `size` bytes (1 to 8), after `map`.
pub(super) fn pack(
    (elements, size, order): (&[u8], usize, Order),
    (packer, width): (&mut Packer<'_>, u32),
    map: impl Fn(u64) -> u64,
) {
    each((elements, size, order), |value| packer.put(map(value), width));
}

/// Calls `with` with each element of `size` bytes (1 to 8) as a number.
#[inline]
pub(super) fn each((elements, size, order): (&[u8], usize, Order), mut with: impl FnMut(u64)) {
    let mut values = [0; BLOCK_VALUES];
    for elements in elements.chunks(size.max(1).wrapping_mul(BLOCK_VALUES)) {
        let count = elements.len().checked_div(size).unwrap_or(0);
        let values = values.get_mut(..count).unwrap_or_default();
        load(elements, values, size, order);
        values.iter().for_each(|value| with(*value));
    }
}

/// Reads numbers from elements of `size` bytes (1 to 8).
fn load(elements: &[u8], values: &mut [u64], size: usize, order: Order) {
    match (size, order) {
        (1, _) => load_as(elements, values, |[byte]| u64::from(byte)),
        (2, Order::Little) => load_as(elements, values, |bytes| u16::from_le_bytes(bytes).into()),
        (2, Order::Big) => load_as(elements, values, |bytes| u16::from_be_bytes(bytes).into()),
        (4, Order::Little) => load_as(elements, values, |bytes| u32::from_le_bytes(bytes).into()),
        (4, Order::Big) => load_as(elements, values, |bytes| u32::from_be_bytes(bytes).into()),
        (8, Order::Little) => load_as(elements, values, u64::from_le_bytes),
        (8, Order::Big) => load_as(elements, values, u64::from_be_bytes),
        _ => {
            for (element, value) in elements.chunks_exact(size.max(1)).zip(values) {
                *value = load_one(element, order);
            }
        }
    }
}

/// Reads the number in an element of up to 8 bytes.
#[inline]
pub(super) fn load_one(element: &[u8], order: Order) -> u64 {
    let add = |value: u64, byte: &u8| (value << 8) | u64::from(*byte);
    match order {
        Order::Little => element.iter().rev().fold(0, add),
        Order::Big => element.iter().fold(0, add),
    }
}

fn load_as<const N: usize>(elements: &[u8], values: &mut [u64], number: impl Fn([u8; N]) -> u64) {
    for (element, value) in elements.as_chunks().0.iter().zip(values) {
        *value = number(*element);
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

    #[test]
    fn runs_of_numbers_agree_with_each_of_them() {
        let bytes: Vec<u8> = (0..2100_u32).map(|i| (i * i * 7 + i / 3) as u8).collect();
        for width in 0..=64_u32 {
            for (size, count) in [(1, 250), (2, 128), (3, 200), (4, 129), (5, 7), (7, 1), (8, 256)] {
                for order in [Order::Little, Order::Big] {
                    let mut output = vec![9; size * count];
                    unpack((&bytes, 5, width), (&mut output, size, order), |value| value.wrapping_add(3));
                    for (number, element) in output.chunks(size).enumerate() {
                        let value = super::number(&bytes, 5 + number * width as usize, width).wrapping_add(3);
                        let mut expected = value.to_le_bytes()[..size].to_vec();
                        if order == Order::Big {
                            expected.reverse();
                        }
                        assert_eq!(element, expected, "{width} {size} {number}");
                    }
                    let mut packed = vec![9; (count * width as usize).div_ceil(8) + 3];
                    let mut packer = Packer::new(&mut packed);
                    pack((&output, size, order), (&mut packer, width), |value| value.wrapping_sub(3));
                    packer.finish();
                    let known = width.min(size as u32 * 8);
                    for number in 0..count {
                        let value = super::number(&bytes, 5 + number * width as usize, width);
                        let low = |value: u64| if known == 0 { 0 } else { value << (64 - known) };
                        let found = super::number(&packed, number * width as usize, width);
                        assert_eq!(low(found), low(value), "{width} {size} {number}");
                    }
                    assert_eq!(packed.last_chunk().unwrap(), &[0; 3]);
                }
            }
        }
    }
}
