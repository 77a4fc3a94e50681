//! Missing values of a chunk: their positions and their value.

use super::{Bits, damaged};
use crate::codec::with_room;
use crate::{Cursor, Result};

/// Missing values of a chunk.
pub(super) struct MissingValues {
    /// Value to insert, little-endian.
    value: [u8; 8],
    /// Bit mask of the elements, lowest bit of each word first.
    mask: Vec<u32>,
}

impl MissingValues {
    /// Reads the missing values before the stream of a chunk with `count` elements; `None` without missing
    /// values.
    pub(super) fn read(cursor: &mut Cursor<'_>, count: usize, double: bool) -> Result<Option<Self>> {
        let mut value = [0; 8];
        match cursor.u8()? {
            0 => return Ok(None),
            1 if double => value = f64::NAN.to_bits().wrapping_add(1).to_le_bytes(),
            1 => value = u64::from(f32::NAN.to_bits().wrapping_add(1)).to_le_bytes(),
            2 => {
                let stored = cursor.take(if double { 8 } else { 4 })?;
                value.iter_mut().zip(stored).for_each(|(to, from)| *to = *from);
            }
            mode => return Err(damaged(format!("missing values of an unknown kind {mode}"))),
        }
        let total = Cursor::new(cursor.rest(), "SPERR stream", 0).u32()?;
        let mut bits = Bits::new(cursor.take(total.div_ceil(8) as usize)?);
        for _ in 0..u32::BITS {
            bits.read();
        }
        // The two words of all zeros and all ones have short codes.
        let frequent = if bits.read() { u32::MAX } else { 0 };
        let words = count.div_ceil(64).saturating_mul(2);
        let mut mask = with_room(words)?;
        while bits.position() < u64::from(total) {
            if mask.len() == words {
                return Err(damaged("more bits for missing values than elements"));
            }
            mask.push(if !bits.read() {
                frequent
            } else if !bits.read() {
                !frequent
            } else {
                (0..u32::BITS).fold(0, |word, bit| word | u32::from(bits.read()) << bit)
            });
        }
        if bits.position() != u64::from(total) || mask.len() != words {
            return Err(damaged("the bit mask of the missing values ends early"));
        }
        Ok(Some(Self { value, mask }))
    }

    /// Inserts the value at the missing positions of `output`, whose elements have `width` bytes.
    pub(super) fn put_back(&self, output: &mut [u8], width: usize) {
        let value = self.value.get(..width).unwrap_or_default();
        for (mask, elements) in self.mask.iter().zip(output.chunks_mut(width.saturating_mul(32))) {
            if *mask == 0 {
                continue;
            }
            for (bit, element) in (0..u32::BITS).zip(elements.chunks_exact_mut(width)) {
                if mask.unbounded_shr(bit) & 1 != 0 {
                    element.copy_from_slice(value);
                }
            }
        }
    }
}
