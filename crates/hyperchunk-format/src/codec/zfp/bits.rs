//! Bit reader, lowest bit of each byte first.

use super::damaged;
use crate::Result;

/// Bit reader. Returns zeros past the end, until [`Bits::check`] fails.
#[derive(Debug)]
pub(super) struct Bits<'a> {
    bytes: &'a [u8],
    /// Number of the next bit.
    at: usize,
}

impl<'a> Bits<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// Returns the next bits (at least 57), lowest first, without consuming them.
    #[inline]
    pub(super) fn peek(&self) -> u64 {
        let rest = self.bytes.get(self.at >> 3..).unwrap_or_default();
        let word = match rest.first_chunk() {
            Some(eight) => u64::from_le_bytes(*eight),
            None => rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
        };
        word >> (self.at & 7)
    }

    #[inline]
    pub(super) fn skip(&mut self, count: usize) {
        self.at = self.at.saturating_add(count);
    }

    /// Reads up to 56 bits.
    #[inline]
    pub(super) fn take(&mut self, count: u32) -> u64 {
        let value = self.peek() & !u64::MAX.unbounded_shl(count);
        self.skip(count as usize);
        value
    }

    /// Returns the number of bits read.
    pub(super) fn position(&self) -> usize {
        self.at
    }

    /// Checks that the reads did not pass the end.
    pub(super) fn check(&self) -> Result<()> {
        if self.at.div_ceil(8) > self.bytes.len() {
            Err(damaged("the zfp data end too early"))
        } else {
            Ok(())
        }
    }
}
