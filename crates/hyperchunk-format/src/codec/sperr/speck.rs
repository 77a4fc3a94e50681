//! SPECK: integers coded bit plane by bit plane, with insignificant sets of them coded as one.
//!
//! Source: Pearlman, Islam, Nagaraj, Said, *Efficient, low-complexity image coding with a set-partitioning
//! embedded block coder* (2004), and the order of sets that SPERR 0.8 uses.

use super::sets::{Set, Subsets};
use super::{Bits, damaged};
use crate::codec::filled;
use crate::{Cursor, Error, Result};

/// Size in bytes of a stream's header: number of bit planes and number of bits.
pub(super) const HEADER_BYTES: usize = 9;

/// Decoded integers: magnitudes and signs.
pub(super) struct Integers {
    pub(super) magnitudes: Vec<u64>,
    /// Bit mask of the negative integers.
    pub(super) negative: Vec<u64>,
}

impl Integers {
    /// Iterates over the magnitudes with their signs, 1.0 or -1.0.
    pub(super) fn iter(&self) -> impl Iterator<Item = (u64, f64)> {
        let signs = self.negative.iter().flat_map(|word| (0..u64::BITS).map(move |bit| word >> bit & 1 != 0));
        self.magnitudes.iter().zip(signs).map(|(value, negative)| (*value, if negative { -1.0 } else { 1.0 }))
    }
}

/// Returns the declared length of the stream at the start of `bytes`, which may be truncated.
pub(super) fn stream_length(bytes: &[u8]) -> Result<u64> {
    let mut cursor = Cursor::new(bytes, "SPERR stream", 0);
    cursor.skip(1)?;
    Ok(cursor.u64()?.div_ceil(8).saturating_add(HEADER_BYTES as u64))
}

/// Decodes `count` integers from their `sets`, by level, and then from the `rings` around them, innermost
/// last.
pub(super) fn decode<S: Set>(
    stream: &[u8],
    count: usize,
    sets: Vec<Vec<S>>,
    rings: Vec<Ring<S>>,
    frame: S::Frame,
) -> Result<Integers> {
    let mut cursor = Cursor::new(stream, "SPERR stream", 0);
    let planes = cursor.u8()?;
    let total = cursor.u64()?;
    if planes > 64 {
        return Err(damaged(format!("{planes} bit planes")));
    }
    let words = count.div_ceil(64);
    let mut speck = Speck {
        bits: Bits::new(cursor.rest()),
        sets,
        rings,
        frame,
        insignificant: filled(0, words)?,
        significant: filled(0, words)?,
        fresh: Vec::new(),
        values: Integers { magnitudes: filled(0, count)?, negative: filled(0, words)? },
    };
    // In a truncated stream the missing bits are read as zeros until the pass ends.
    let available = total.min((cursor.left() as u64).saturating_mul(8));
    let mut threshold = 1_u64.unbounded_shl(u32::from(planes).wrapping_sub(1));
    for _ in 0..planes {
        speck.sort()?;
        if speck.bits.position() >= available {
            break;
        }
        speck.refine(threshold, available);
        if speck.bits.position() >= available {
            break;
        }
        threshold /= 2;
        speck.sets.iter_mut().for_each(|sets| sets.retain(|set| !set.is_empty()));
    }
    speck.settle(threshold);
    let position = speck.bits.position();
    if position > total || (available == total && position != total) {
        return Err(damaged(format!("its {total} bits ended at bit {position}")));
    }
    Ok(speck.values)
}

/// Sets that enclose all preceding ones on three sides, with their level.
pub(super) type Ring<S> = (usize, Subsets<S>);

struct Speck<'a, S: Set> {
    bits: Bits<'a>,
    /// Sets not known to be significant, by level; deeper ones are smaller and come first.
    sets: Vec<Vec<S>>,
    rings: Vec<Ring<S>>,
    frame: S::Frame,
    /// Single integers not yet known to be significant.
    insignificant: Vec<u64>,
    significant: Vec<u64>,
    /// Integers that became significant in this pass.
    fresh: Vec<usize>,
    values: Integers,
}

impl<S: Set> Speck<'_, S> {
    /// Sorting pass: finds the integers with their highest bit in this plane.
    fn sort(&mut self) -> Result<()> {
        for word in 0..self.insignificant.len() {
            let mut left = self.insignificant.get(word).copied().unwrap_or_default();
            while left != 0 {
                let bit = left.trailing_zeros() as usize;
                left &= left.wrapping_sub(1);
                self.integer(word.saturating_mul(64).saturating_add(bit), true);
            }
        }
        for level in (0..self.sets.len()).rev() {
            let mut number = 0;
            while number < self.sets.get(level).map_or(0, Vec::len) {
                self.set(level, number, true)?;
                number = number.saturating_add(1);
            }
        }
        let mut decide = true;
        while !self.rings.is_empty() {
            if decide && !self.bits.read() {
                break;
            }
            let Some((level, subsets)) = self.rings.pop() else { break };
            let mut found = false;
            for subset in subsets.iter() {
                found |= self.push(level, *subset, true)?;
            }
            decide = found;
        }
        Ok(())
    }

    /// Processes one set. Reads its significance bit if `decide`; otherwise it is known to be significant.
    fn set(&mut self, level: usize, number: usize, decide: bool) -> Result<bool> {
        if decide && !self.bits.read() {
            return Ok(false);
        }
        let place = self.sets.get_mut(level).and_then(|sets| sets.get_mut(number));
        let set = std::mem::replace(place.ok_or_else(too_deep)?, S::EMPTY);
        let (level, subsets) = set.split(level);
        let mut found = false;
        for (index, subset) in subsets.iter().enumerate() {
            let decide = found || index.saturating_add(1) != subsets.len();
            found |= match subset.single(&self.frame) {
                Some(index) => {
                    set_bit(&mut self.insignificant, index, true);
                    self.integer(index, decide)
                }
                None => self.push(level, *subset, decide)?,
            };
        }
        Ok(true)
    }

    fn push(&mut self, level: usize, set: S, decide: bool) -> Result<bool> {
        let sets = self.sets.get_mut(level).ok_or_else(too_deep)?;
        sets.push(set);
        let number = sets.len().saturating_sub(1);
        self.set(level, number, decide)
    }

    fn integer(&mut self, index: usize, decide: bool) -> bool {
        if decide && !self.bits.read() {
            return false;
        }
        let positive = self.bits.read();
        set_bit(&mut self.values.negative, index, !positive);
        set_bit(&mut self.insignificant, index, false);
        self.fresh.push(index);
        true
    }

    /// Refinement pass: halves the interval of each significant integer.
    fn refine(&mut self, threshold: u64, available: u64) {
        let half = threshold / 2;
        let (up, down) = if threshold > 1 { (half, half) } else { (1, 0) };
        'words: for (word, values) in self.significant.iter().zip(self.values.magnitudes.chunks_mut(64)) {
            let mut left = *word;
            while left != 0 {
                let value = values.get_mut(left.trailing_zeros() as usize);
                left &= left.wrapping_sub(1);
                let Some(value) = value else { break };
                let add = self.bits.read();
                *value = if add { value.wrapping_add(up) } else { value.wrapping_sub(down) };
                if self.bits.position() == available {
                    break 'words;
                }
            }
        }
        self.settle(threshold);
    }

    /// Sets the integers found in this pass to the middle of their interval.
    fn settle(&mut self, threshold: u64) {
        let middle = threshold.wrapping_mul(2).wrapping_sub(threshold / 2).wrapping_sub(1);
        for index in self.fresh.drain(..) {
            if let Some(value) = self.values.magnitudes.get_mut(index) {
                *value = middle;
            }
            set_bit(&mut self.significant, index, true);
        }
    }
}

fn set_bit(words: &mut [u64], index: usize, value: bool) {
    if let Some(word) = words.get_mut(index / 64) {
        let bit = 1_u64.unbounded_shl(u32::try_from(index % 64).unwrap_or_default());
        *word = if value { *word | bit } else { *word & !bit };
    }
}

fn too_deep() -> Error {
    damaged("sets are split too many times")
}
