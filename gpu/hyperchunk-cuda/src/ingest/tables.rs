//! Tables for kernels and decompressors, built here and read on the GPU. `kernels/ingest.cu` has the same
//! structures.

use super::geometry::{Axis, Copy, MAX_RANK};

/// Bytes of one upload; tables in it are aligned for the GPU.
#[derive(Debug, Default)]
pub(super) struct Tables {
    bytes: Vec<u8>,
}

impl Tables {
    /// Begins a table; returns its offset.
    pub(super) fn begin(&mut self) -> usize {
        let start = self.bytes.len().next_multiple_of(16);
        self.bytes.resize(start, 0);
        start
    }

    pub(super) fn word(&mut self, value: u64) {
        self.bytes.extend_from_slice(&value.to_le_bytes());
    }

    /// Appends a table of numbers; returns its offset.
    pub(super) fn words(&mut self, values: impl Iterator<Item = u64>) -> usize {
        let start = self.begin();
        values.for_each(|value| self.word(value));
        start
    }

    /// Appends a `Piece`.
    pub(super) fn piece(&mut self, from: u64, to: u64, bytes: usize) {
        [from, to, bytes as u64].into_iter().for_each(|word| self.word(word));
    }

    /// Appends a `Box`, a copy in units of `unit` bytes from one address to another; returns its number of
    /// units.
    pub(super) fn copy(&mut self, copy: &Copy, from: u64, to: u64, unit: u64) -> u64 {
        let mut axes: Vec<Axis> = copy.axes.clone();
        let first = axes[0];
        axes[0] = Axis { size: first.size / unit, from: first.from * unit, to: first.to * unit };
        if axes[0].size == 1 && axes.len() > 1 {
            axes.remove(0);
        }
        let count = axes.iter().map(|axis| axis.size).product();
        self.word(from + copy.from);
        self.word(to + copy.to);
        self.word(count);
        self.word(axes.len() as u64);
        let columns: [fn(&Axis) -> u64; 3] = [|axis| axis.size, |axis| axis.from, |axis| axis.to];
        for column in columns {
            for place in 0..MAX_RANK {
                // The kernel has the outermost dimension first.
                let axis = axes.len().checked_sub(place + 1).and_then(|at| axes.get(at));
                self.word(axis.map_or(0, column));
            }
        }
        count
    }

    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sizes of a kernel's `Piece` and `Box`.
    const PIECE_BYTES: usize = 24;
    const BOX_BYTES: usize = 32 + 3 * 8 * MAX_RANK;

    #[test]
    fn structures_have_the_kernels_sizes() {
        let mut tables = Tables::default();
        tables.piece(1, 2, 3);
        assert_eq!(tables.bytes().len(), PIECE_BYTES);
        assert_eq!(tables.begin(), 32);
        let axes = vec![Axis { size: 16, from: 1, to: 1 }, Axis { size: 3, from: 64, to: 32 }];
        let count = tables.copy(&Copy { from: 5, to: 6, axes }, 1000, 2000, 8);
        assert_eq!(tables.bytes().len(), 32 + BOX_BYTES);
        assert_eq!(count, 6);
        let words: Vec<u64> =
            tables.bytes()[32..].chunks(8).map(|word| u64::from_le_bytes(word.try_into().unwrap())).collect();
        assert_eq!(words[..6], [1005, 2006, 6, 2, 3, 2]);
        assert_eq!((words[12], words[13], words[20], words[21]), (64, 8, 32, 8));
    }
}
