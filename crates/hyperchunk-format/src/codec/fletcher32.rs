//! Fletcher32 (3): a checksum after the chunk's bytes. Source: the comments of HDF5's H5Zfletcher32.c and
//! H5checksum.c.

use super::{Codec, Context, EncodeContext, EncodeOutcome};
use crate::{Error, ErrorKind, Result};

/// Fletcher32 codec.
#[derive(Debug)]
pub(super) struct Fletcher32;

impl Codec for Fletcher32 {
    fn id(&self) -> u16 {
        3
    }

    fn name(&self) -> &'static str {
        "fletcher32"
    }

    fn decode(&self, input: &[u8], output: &mut Vec<u8>, _: &Context<'_>) -> Result<()> {
        output.extend_from_slice(checked(input)?);
        Ok(())
    }

    fn kept(&self, input: &[u8], _: &Context<'_>) -> Result<Option<usize>> {
        checked(input).map(|bytes| Some(bytes.len()))
    }

    fn encode(
        &self,
        input: &[u8],
        output: &mut Vec<u8>,
        context: &EncodeContext<'_>,
    ) -> Result<EncodeOutcome> {
        let size = input.len().saturating_add(4);
        if let Some((to, sum)) = context.room(output, size)?.split_last_chunk_mut() {
            to.copy_from_slice(input);
            *sum = checksum(input).to_le_bytes();
        }
        Ok(EncodeOutcome::Written(size))
    }

    fn encoded_size(&self, size: usize, _: &[u32]) -> Option<usize> {
        size.checked_add(4)
    }
}

/// Verifies the checksum and returns the bytes before it.
fn checked(input: &[u8]) -> Result<&[u8]> {
    let Some((bytes, stored)) = input.split_last_chunk::<4>() else {
        return Err(Error::new(ErrorKind::Filter, "a chunk too short for its checksum"));
    };
    let computed = checksum(bytes);
    let [a, b, c, d] = *stored;
    // Before 1.6.3, little-endian machines wrote the two bytes of each half in reverse order.
    if computed == u32::from_le_bytes([a, b, c, d]) || computed == u32::from_le_bytes([b, a, d, c]) {
        return Ok(bytes);
    }
    let stored = u32::from_le_bytes(*stored);
    Err(Error::new(
        ErrorKind::Filter,
        format!("wrong checksum: computed {computed:#010x}, stored {stored:#010x}"),
    ))
}

/// Number of words summed in parallel.
const LANES: usize = 16;
/// Maximum number of rows without overflow of a lane: 65535 · n(n + 1) / 2 < 2³².
const MAX_ROWS: usize = 256;

/// Returns Fletcher's checksum of the big-endian 16-bit words; a last odd byte is the high half of another
/// word.
pub(super) fn checksum(bytes: &[u8]) -> u32 {
    let mut sums = Sums { first: 0, second: 0 };
    let (rows, rest) = bytes.as_chunks::<{ 2 * LANES }>();
    for rows in rows.chunks(MAX_ROWS) {
        sums.add_rows(rows);
    }
    let (words, odd) = rest.as_chunks::<2>();
    words.iter().for_each(|word| sums.add(u16::from_be_bytes(*word)));
    odd.iter().for_each(|byte| sums.add(u16::from_be_bytes([*byte, 0])));
    (Sums::folded(sums.second) << 16) | Sums::folded(sums.first)
}

/// Sum of the words, and sum of all partial sums, modulo 65535.
struct Sums {
    first: u64,
    second: u64,
}

impl Sums {
    fn add(&mut self, word: u16) {
        self.first = self.first.wrapping_add(word.into());
        self.second = self.second.wrapping_add(self.first);
    }

    /// Adds up to [`MAX_ROWS`] rows: first the two sums of each lane, then the lanes weighted by their
    /// positions.
    fn add_rows(&mut self, rows: &[[u8; 2 * LANES]]) {
        let (mut first, mut second) = ([0_u32; LANES], [0_u32; LANES]);
        for row in rows {
            let words = row.as_chunks::<2>().0;
            for ((one, two), word) in first.iter_mut().zip(&mut second).zip(words) {
                *one = one.wrapping_add(u16::from_be_bytes(*word).into());
                *two = two.wrapping_add(*one);
            }
        }
        let count = rows.len().saturating_mul(LANES) as u64;
        self.second = self.second.wrapping_add(self.first.wrapping_mul(count));
        for ((one, two), lane) in first.into_iter().zip(second).zip(0_u64..) {
            self.first = self.first.wrapping_add(one.into());
            let weighted =
                u64::from(two).wrapping_mul(LANES as u64).wrapping_sub(lane.wrapping_mul(one.into()));
            self.second = self.second.wrapping_add(weighted);
        }
        self.first = (self.first & 0xffff).wrapping_add(self.first >> 16);
        self.second = (self.second & 0xffff).wrapping_add(self.second >> 16);
    }

    /// Reduces a sum modulo 65535, with 65535 in place of 0 unless all words were 0.
    fn folded(mut sum: u64) -> u32 {
        while sum > 0xffff {
            sum = (sum & 0xffff).wrapping_add(sum >> 16);
        }
        u32::try_from(sum).unwrap_or(u32::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reference implementation, straight from the definition.
    fn plain(bytes: &[u8]) -> u32 {
        let (mut first, mut second) = (0_u32, 0_u32);
        let fold = |sum: u32| (sum & 0xffff) + (sum >> 16);
        for word in bytes.chunks(2) {
            first = fold(first + (u32::from(word[0]) << 8) + word.get(1).map_or(0, |low| u32::from(*low)));
            second = fold(second + first);
        }
        (fold(fold(second)) << 16) | fold(fold(first))
    }

    #[test]
    fn lanes_agree_with_the_definition() {
        for length in (0..200).chain([1000, 8191, 8192, 8193, 16385, 100_001]) {
            for bytes in [
                vec![0; length],
                vec![0xff; length],
                (0..length).map(|i| (i * i * 31 + i / 7) as u8).collect::<Vec<_>>(),
            ] {
                assert_eq!(checksum(&bytes), plain(&bytes), "{length}");
            }
        }
    }

    #[test]
    fn both_orders_and_damage() {
        // From HDF5's own test of its checksum.
        assert_eq!(checksum(&[0; 32]), 0);
        let data = b"the bytes of a chunk!";
        let sum = checksum(data).to_le_bytes();
        let old = [sum[1], sum[0], sum[3], sum[2]];
        for sum in [sum, old] {
            let mut stored = [&data[..], &sum].concat();
            assert_eq!(checked(&stored).unwrap(), data);
            stored[3] ^= 1;
            assert_eq!(checked(&stored).unwrap_err().kind(), ErrorKind::Filter);
        }
        for length in 0..4 {
            checked(&sum[..length]).unwrap_err();
        }
    }
}
