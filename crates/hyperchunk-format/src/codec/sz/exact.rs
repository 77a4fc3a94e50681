//! Exact values: elements without a good prediction, stored with the precision that the error bound requires.

use super::element::{Integer, Real};
use super::{StreamFlags, damaged};
use crate::{Cursor, Result};

/// Reader of exact floating-point numbers: leading bytes shared with the preceding number, the other bytes,
/// and single bits.
#[derive(Debug)]
pub(super) struct Reals<'a> {
    /// Number of leading bytes shared with the preceding number, two bits each.
    shared: &'a [u8],
    count: usize,
    position: usize,
    bytes: std::slice::Iter<'a, u8>,
    bits: &'a [u8],
    bit: usize,
    whole: usize,
    rest: usize,
    previous: [u8; 8],
}

impl<'a> Reals<'a> {
    /// Reads the arrays. `length` bits are stored of each of `count` numbers, `size` bytes in total.
    pub(super) fn read<T: Real>(
        cursor: &mut Cursor<'a>,
        length: u8,
        count: usize,
        size: usize,
    ) -> Result<Self> {
        let (whole, rest) = (usize::from(length / 8), usize::from(length % 8));
        if whole.saturating_add(usize::from(rest != 0)) > T::SIZE_BYTES {
            return Err(damaged(format!("{length} bits of a number are stored")));
        }
        let shared = cursor.take(count.div_ceil(4))?;
        let bytes = cursor.take(size)?.iter();
        Ok(Self {
            shared,
            count,
            position: 0,
            bytes,
            bits: cursor.rest(),
            bit: 0,
            whole,
            rest,
            previous: [0; 8],
        })
    }

    /// Returns the next number.
    pub(super) fn next<T: Real>(&mut self) -> Result<T> {
        let shared = self.shared.get(self.position / 4).filter(|_| self.position < self.count);
        let shared = shared.ok_or_else(|| damaged("its exact values end early"))?;
        let turn = u32::try_from(self.position % 4).unwrap_or_default();
        let shared = usize::from(shared.rotate_left(turn.wrapping_mul(2).wrapping_add(2)) & 3);
        self.position = self.position.saturating_add(1);

        let mut number = [0; 8];
        let places = number.iter_mut().zip(self.previous).enumerate();
        for (place, (byte, previous)) in places.take(self.whole.max(shared)) {
            *byte = match place < shared {
                true => previous,
                false => {
                    *self.bytes.next().ok_or_else(|| damaged("the bytes of its exact values end early"))?
                }
            };
        }
        if self.rest != 0
            && let Some(byte) = number.get_mut(self.whole)
        {
            *byte = self.rest_bits()?;
        }
        self.previous = number;
        Ok(T::from_big_endian(&number))
    }

    /// Returns the next single bits, at the top of a byte.
    fn rest_bits(&mut self) -> Result<u8> {
        let first = self.bit / 8;
        let high = self.bits.get(first).ok_or_else(|| damaged("the bits of its exact values end early"))?;
        let low = self.bits.get(first.saturating_add(1)).copied().unwrap_or_default();
        let shift = u32::try_from(self.bit % 8).unwrap_or_default();
        let [top, _] = u16::from_be_bytes([*high, low]).unbounded_shl(shift).to_be_bytes();
        self.bit = self.bit.saturating_add(self.rest);
        let unused = u32::try_from(8_usize.saturating_sub(self.rest)).unwrap_or_default();
        Ok(top & u8::MAX.unbounded_shl(unused))
    }
}

/// Reader of exact integers, stored as differences from the lowest of the chunk.
#[derive(Debug)]
pub(super) struct Integers<'a> {
    bytes: std::slice::ChunksExact<'a, u8>,
    width: usize,
    lowest: i64,
}

impl<'a> Integers<'a> {
    pub(super) fn new(bytes: &'a [u8], width: usize, lowest: i64) -> Self {
        Self { bytes: bytes.chunks_exact(width.max(1)), width, lowest }
    }

    /// Returns the next integer.
    pub(super) fn next<T: Integer>(&mut self) -> Result<T> {
        let stored = self.bytes.next().ok_or_else(|| damaged("its exact values end early"))?;
        let mut bytes = [0; 8];
        bytes.iter_mut().zip(stored).for_each(|(to, from)| *to = *from);
        Ok(T::restored(bytes, self.width, self.lowest))
    }
}

/// Reads a size of 4 or 8 bytes, according to the stream's header.
pub(super) fn size(cursor: &mut Cursor<'_>, head: &StreamFlags) -> Result<usize> {
    let bytes = cursor.take(head.size_width)?;
    let size = bytes.iter().fold(0_u64, |size, byte| size << 8 | u64::from(*byte));
    usize::try_from(size).map_err(|_| damaged(format!("a part of {size} bytes")))
}
