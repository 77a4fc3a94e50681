//! Decoding of a block: bit planes of coefficients, from the highest down, and the inverse transforms.
//! Source: zfp's documentation, "Algorithm".

use super::bits::Bits;
use super::value::{Integer, Value};

/// Maximum number of values in a block.
pub(super) const MAX_BLOCK_VALUES: usize = 256;

/// Precision of blocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Mode {
    /// Minimum and maximum number of bits of a block.
    pub(super) least_bits: u32,
    pub(super) most_bits: u32,
    /// Maximum number of bit planes.
    pub(super) planes: u32,
    /// Exponent of the lowest bit plane.
    pub(super) exponent: i32,
    /// True for lossless coding.
    pub(super) reversible: bool,
}

/// Decodes the next block to `values`, which must be as long as `order`.
pub(super) fn decode<V: Value>(bits: &mut Bits<'_>, mode: Mode, order: &[u8], values: &mut [V]) {
    let start = bits.position();
    let used = |bits: &Bits<'_>| u32::try_from(bits.position().saturating_sub(start)).unwrap_or(u32::MAX);
    let mut integers = [V::Integer::default(); MAX_BLOCK_VALUES];
    let integers = integers.get_mut(..order.len()).unwrap_or_default();
    if V::EXPONENT_BITS != 0 && bits.take(1) == 0 {
        values.fill(V::default());
    } else if mode.reversible {
        let as_bits = V::EXPONENT_BITS == 0 || bits.take(1) == 1;
        let exponent = if as_bits { 0 } else { exponent::<V>(bits) };
        let planes = u32::try_from(bits.take(V::Integer::COUNT_BITS)).unwrap_or(0).saturating_add(1);
        coefficients(bits, mode.most_bits.saturating_sub(used(bits)), planes, order, integers);
        transform(integers, unlift_exactly);
        let scale = V::scale(exponent);
        for (value, integer) in values.iter_mut().zip(integers) {
            *value = if as_bits { V::from_integer(*integer) } else { V::scaled(*integer, scale) };
        }
    } else {
        let (mut planes, mut scale) = (mode.planes, V::scale(0));
        if V::EXPONENT_BITS != 0 {
            let exponent = exponent::<V>(bits);
            // Two guard bits, and two for each dimension: a block of n dimensions has 4ⁿ values.
            let guard = i32::try_from(order.len().ilog2()).unwrap_or(0).saturating_add(2);
            let needed = exponent.saturating_sub(mode.exponent).saturating_add(guard);
            planes = planes.min(u32::try_from(needed).unwrap_or(0));
            scale = V::scale(exponent);
        }
        coefficients(bits, mode.most_bits.saturating_sub(used(bits)), planes, order, integers);
        transform(integers, unlift);
        for (value, integer) in values.iter_mut().zip(integers) {
            *value = V::scaled(*integer, scale);
        }
    }
    bits.skip(mode.least_bits.saturating_sub(used(bits)) as usize);
}

/// Reads the common exponent of a block's values.
fn exponent<V: Value>(bits: &mut Bits<'_>) -> i32 {
    let bias = 1_i32.unbounded_shl(V::EXPONENT_BITS.saturating_sub(1)).saturating_sub(1);
    i32::try_from(bits.take(V::EXPONENT_BITS)).unwrap_or(0).saturating_sub(bias)
}

/// Reads bit planes until `left` bits are used. In each plane, coefficients that have had a one store their
/// bits verbatim. After them, a one bit announces a further one, and the zeros before it give its position.
fn coefficients<I: Integer>(bits: &mut Bits<'_>, left: u32, planes: u32, order: &[u8], integers: &mut [I]) {
    let mut digits = [0_u64; MAX_BLOCK_VALUES];
    let digits = digits.get_mut(..order.len()).unwrap_or_default();
    let (size, mut left) = (order.len(), left as usize);
    let mut known = 0_usize;
    for plane in (I::BITS.saturating_sub(planes)..I::BITS).rev() {
        if left == 0 {
            break;
        }
        let digit = 1_u64.unbounded_shl(plane);
        let count = known.min(left);
        left = left.saturating_sub(count);
        for digits in digits.get_mut(..count).unwrap_or_default().chunks_mut(56) {
            let mut ones = bits.peek() & !u64::MAX.unbounded_shl(u32::try_from(digits.len()).unwrap_or(0));
            bits.skip(digits.len());
            while ones != 0 {
                if let Some(place) = digits.get_mut(ones.trailing_zeros() as usize) {
                    *place |= digit;
                }
                ones &= ones.wrapping_sub(1);
            }
        }
        while left > 0 && known < size {
            left = left.saturating_sub(1);
            if bits.take(1) == 0 {
                break;
            }
            // The last position needs no bit.
            let mut most = left.min(size.saturating_sub(known).saturating_sub(1));
            while most > 0 {
                let zeros = bits.peek().trailing_zeros() as usize;
                let found = zeros < most && zeros < 56;
                let zeros = zeros.min(most).min(56);
                let read = if found { zeros.saturating_add(1) } else { zeros };
                bits.skip(read);
                left = left.saturating_sub(read);
                known = known.saturating_add(zeros);
                most = if found { 0 } else { most.saturating_sub(zeros) };
            }
            if let Some(place) = digits.get_mut(known) {
                *place |= digit;
            }
            known = known.saturating_add(1);
        }
    }
    for (place, digits) in order.iter().zip(digits) {
        if let Some(integer) = integers.get_mut(usize::from(*place)) {
            *integer = I::from_negabinary(*digits);
        }
    }
}

/// Inverts a transform along each dimension, slowest first.
#[inline]
fn transform<I: Integer>(block: &mut [I], unlift: impl Fn([I; 4]) -> [I; 4]) {
    let mut step = block.len() / 4;
    while step > 0 {
        for four in block.chunks_exact_mut(step.saturating_mul(4)) {
            let (first, second) = four.split_at_mut_checked(step.saturating_mul(2)).unwrap_or_default();
            let (x, y) = first.split_at_mut_checked(step).unwrap_or_default();
            let (z, w) = second.split_at_mut_checked(step).unwrap_or_default();
            for (((x, y), z), w) in x.iter_mut().zip(y).zip(z).zip(w) {
                [*x, *y, *z, *w] = unlift([*x, *y, *z, *w]);
            }
        }
        step /= 4;
    }
}

/// Inverts zfp's own transform, which is nearly a cosine transform.
#[inline]
fn unlift<I: Integer>([mut x, mut y, mut z, mut w]: [I; 4]) -> [I; 4] {
    y = y.plus(w.half());
    w = w.minus(y.half());
    y = y.plus(w);
    w = w.minus(y.minus(w));
    z = z.plus(x);
    x = x.minus(z.minus(x));
    y = y.plus(z);
    z = z.minus(y.minus(z));
    w = w.plus(x);
    x = x.minus(w.minus(x));
    [x, y, z, w]
}

/// Inverts third differences.
#[inline]
fn unlift_exactly<I: Integer>([x, mut y, mut z, mut w]: [I; 4]) -> [I; 4] {
    w = w.plus(z);
    z = z.plus(y);
    w = w.plus(z);
    y = y.plus(x);
    z = z.plus(y);
    w = w.plus(z);
    [x, y, z, w]
}
