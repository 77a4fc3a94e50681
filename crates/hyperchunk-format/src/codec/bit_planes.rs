//! Bit shuffling undone: from bit planes to elements. Source: K. Masui and others, "A compression scheme for radio data in
//! high performance computing" (2015), section 3.
//!
//! A plane holds one bit of each element, eight elements to a byte, the first in the lowest bit. The planes lie in the
//! order of the bits: those of the first byte first, its lowest bit first.

/// How many bytes of each plane make a tile: a line of cache.
const WIDTH: usize = 64;

/// Eight rows of words: 8 × 8 × 8 bits, eight times.
type Cubes = [[u64; WIDTH / 8]; 8];

/// Joins bit planes to elements; keeps its buffer.
#[derive(Debug, Default)]
pub(super) struct Joiner {
    /// For each bit of eight elements, in the order of the elements: that bit of `WIDTH` times eight elements.
    tile: Vec<[u64; WIDTH / 8]>,
}

impl Joiner {
    /// Fills `elements`, each of `size` bytes, from `planes`. Their number is a multiple of eight: what makes no eight
    /// elements is left as it was.
    pub(super) fn join(&mut self, planes: &[u8], elements: &mut [u8], size: usize) {
        let eight = size.saturating_mul(8);
        let row = planes.len().min(elements.len()).checked_div(eight).unwrap_or(0);
        if row == 0 {
            return;
        }
        self.tile.resize(eight, [0; WIDTH / 8]);
        let outs = elements.chunks_mut(eight.saturating_mul(WIDTH));
        for (start, out) in (0..row).step_by(WIDTH).zip(outs) {
            let end = start.saturating_add(WIDTH).min(row);
            for (byte, planes) in planes.chunks_exact(row.saturating_mul(8)).take(size).enumerate() {
                let mut cubes = Cubes::default();
                for (to, plane) in cubes.iter_mut().zip(planes.chunks_exact(row)) {
                    load(plane.get(start..end).unwrap_or_default(), to);
                }
                swap::<1>(&mut cubes);
                let mut at = byte;
                for from in &cubes {
                    if let Some(to) = self.tile.get_mut(at) {
                        *to = *from;
                    }
                    at = at.wrapping_add(size);
                }
            }
            self.store(out, size);
        }
    }

    /// Writes the tile to the elements: a transposition of bytes.
    fn store(&self, out: &mut [u8], size: usize) {
        let out = out.as_chunks_mut::<8>().0;
        for (eighth, rows) in self.tile.as_chunks::<8>().0.iter().enumerate() {
            let mut cubes = *rows;
            swap::<8>(&mut cubes);
            let mut at = eighth;
            for lane in 0..WIDTH / 8 {
                for words in &cubes {
                    if let (Some(to), Some(word)) = (out.get_mut(at), words.get(lane)) {
                        *to = word.to_le_bytes();
                    }
                    at = at.wrapping_add(size);
                }
            }
        }
    }
}

/// Up to `WIDTH` bytes as words.
#[inline]
fn load(bytes: &[u8], words: &mut [u64; WIDTH / 8]) {
    let mut padded = [0; WIDTH];
    let row: &[u8; WIDTH] = match bytes.try_into() {
        Ok(row) => row,
        Err(_) => {
            padded.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
            &padded
        }
    };
    for (word, bytes) in words.iter_mut().zip(row.as_chunks().0) {
        *word = u64::from_le_bytes(*bytes);
    }
}

/// Exchanges two axes of cubes: the number of the row, and the place within a word in steps of `STEP` bits: those of a bit
/// in its byte (1) or of a byte in its word (8).
#[inline(never)]
#[expect(
    clippy::indexing_slicing,
    reason = "the arrays have eight rows of eight; iterators are not made vectors of"
)]
fn swap<const STEP: u32>(cubes: &mut Cubes) {
    let [near, far, farthest]: [u64; 3] = match STEP {
        1 => [0x5555_5555_5555_5555, 0x3333_3333_3333_3333, 0x0f0f_0f0f_0f0f_0f0f],
        _ => [0x00ff_00ff_00ff_00ff, 0x0000_ffff_0000_ffff, 0x0000_0000_ffff_ffff],
    };
    let exchange = |a: &mut u64, b: &mut u64, shift: u32, mask: u64| {
        let differ = ((*a >> shift) ^ *b) & mask;
        *b ^= differ;
        *a ^= differ << shift;
    };
    let (once, twice, four_times) = const { (STEP, STEP * 2, STEP * 4) };
    for lane in 0..WIDTH / 8 {
        let [mut a, mut b, mut c, mut d, mut e, mut f, mut g, mut h] = [
            cubes[0][lane],
            cubes[1][lane],
            cubes[2][lane],
            cubes[3][lane],
            cubes[4][lane],
            cubes[5][lane],
            cubes[6][lane],
            cubes[7][lane],
        ];
        exchange(&mut a, &mut b, once, near);
        exchange(&mut c, &mut d, once, near);
        exchange(&mut e, &mut f, once, near);
        exchange(&mut g, &mut h, once, near);
        exchange(&mut a, &mut c, twice, far);
        exchange(&mut b, &mut d, twice, far);
        exchange(&mut e, &mut g, twice, far);
        exchange(&mut f, &mut h, twice, far);
        exchange(&mut a, &mut e, four_times, farthest);
        exchange(&mut b, &mut f, four_times, farthest);
        exchange(&mut c, &mut g, four_times, farthest);
        exchange(&mut d, &mut h, four_times, farthest);
        for (row, word) in cubes.iter_mut().zip([a, b, c, d, e, f, g, h]) {
            row[lane] = word;
        }
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::codec::testing::Dice;

    /// As the definition has it.
    pub(in crate::codec) fn planes(elements: &[u8], size: usize) -> Vec<u8> {
        let count = elements.len() / size;
        let mut planes = vec![0; elements.len()];
        for (number, element) in elements.chunks(size).enumerate() {
            for bit in 0..size * 8 {
                let value = element[bit / 8] >> (bit % 8) & 1;
                planes[bit * count / 8 + number / 8] |= value << (number % 8);
            }
        }
        planes
    }

    #[test]
    fn every_size_and_count() {
        let mut dice = Dice::new(1);
        let mut joiner = Joiner::default();
        for size in (1..20).chain([24, 32, 100, 255]) {
            for count in [0, 8, 16, 64, 504, 512, 520, 1024, 1032, 4096, 4104] {
                let elements = dice.bytes(size * count);
                let mut output = vec![9; elements.len()];
                joiner.join(&planes(&elements, size), &mut output, size);
                assert!(output == elements, "{count} elements of {size} bytes");
            }
        }
    }
}
