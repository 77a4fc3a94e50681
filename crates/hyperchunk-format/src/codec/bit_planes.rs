//! Bit shuffling undone: from bit planes to elements. Source: K. Masui and others, "A compression scheme for radio data in
//! high performance computing" (2015), section 3.
//!
//! A plane holds one bit of each element, eight elements to a byte, the first in the lowest bit. The planes lie in the
//! order of the bits: those of the first byte first, its lowest bit first.

use super::cubes::{Cubes, WIDTH, load, swap};

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
