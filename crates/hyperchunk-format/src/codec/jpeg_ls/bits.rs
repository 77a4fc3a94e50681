//! Bits of a JPEG-LS scan. Source: ITU-T T.87, A.1: after a byte 0xff a zero bit is stuffed; a one bit marks
//! a marker.

use super::damaged;
use crate::Result;

/// Bit reader, highest bit of each byte first. Returns zeros past the end, until [`Bits::check`] fails.
#[derive(Debug)]
pub(super) struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Next bits, from the highest on.
    cache: u64,
    /// Number of bits in the cache.
    valid: u32,
    /// Number of zero bits added past the end.
    added: u32,
    /// True if the preceding byte was 0xff.
    stuffed: bool,
}

impl<'a> Bits<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0, cache: 0, valid: 0, added: 0, stuffed: false }
    }

    /// Refills the cache to at least 57 bits.
    #[inline]
    fn fill(&mut self) {
        if !self.stuffed
            && let Some(eight) = self.bytes.get(self.at..).and_then(<[u8]>::first_chunk)
        {
            let word = u64::from_be_bytes(*eight);
            // Detects a byte 0xff by a zero byte in the complement.
            let zeros = (!word).wrapping_sub(0x0101_0101_0101_0101) & word & 0x8080_8080_8080_8080;
            if zeros == 0 {
                let count = 64_u32.saturating_sub(self.valid) >> 3;
                let kept = u64::MAX.unbounded_shl(64_u32.saturating_sub(count << 3));
                self.cache |= (word & kept).unbounded_shr(self.valid);
                self.at = self.at.saturating_add(count as usize);
                self.valid = self.valid.saturating_add(count << 3);
                return;
            }
        }
        self.fill_by_byte();
    }

    #[cold]
    fn fill_by_byte(&mut self) {
        while self.valid <= 56 {
            let width = match self.bytes.get(self.at) {
                Some(byte) if !self.ends_at(*byte) => {
                    let width = if self.stuffed { 7 } else { 8 };
                    let free = 64_u32.saturating_sub(self.valid.saturating_add(width));
                    self.cache |= u64::from(*byte) << free;
                    self.stuffed = *byte == 0xff;
                    self.at = self.at.saturating_add(1);
                    width
                }
                _ => {
                    self.added = self.added.saturating_add(8);
                    8
                }
            };
            self.valid = self.valid.saturating_add(width);
        }
    }

    /// True if the scan ends before the next byte, which is `byte`.
    #[inline]
    fn ends_at(&self, byte: u8) -> bool {
        if self.stuffed {
            return byte >= 0x80;
        }
        byte == 0xff && self.bytes.get(self.at.saturating_add(1)).is_none_or(|next| *next >= 0x80)
    }

    /// Reads up to 32 bits.
    #[inline]
    pub(super) fn take(&mut self, count: u32) -> u32 {
        if self.valid < count {
            self.fill();
        }
        let value = self.cache.unbounded_shr(64_u32.saturating_sub(count));
        self.skip(count);
        u32::try_from(value).unwrap_or(0)
    }

    /// Reads zeros up to and including the next one; returns their number, which is above 56 if there are at
    /// least that many.
    #[inline]
    pub(super) fn zeros(&mut self) -> u32 {
        let mut zeros = self.cache.leading_zeros();
        if zeros >= self.valid {
            self.fill();
            zeros = self.cache.leading_zeros();
            if zeros > 56 {
                self.skip(56);
                self.fill();
                zeros = self.cache.leading_zeros();
                self.skip(zeros.saturating_add(1).min(57));
                return zeros.saturating_add(56);
            }
        }
        self.skip(zeros.saturating_add(1));
        zeros
    }

    #[inline]
    fn skip(&mut self, count: u32) {
        self.cache = self.cache.unbounded_shl(count);
        self.valid = self.valid.saturating_sub(count);
    }

    /// Checks that the reads did not pass the end.
    #[inline]
    pub(super) fn check(&self) -> Result<()> {
        if self.valid < self.added { Err(damaged("a JPEG-LS scan that ends too early")) } else { Ok(()) }
    }

    /// Returns the position of the marker after the bits; unread bits precede it.
    pub(super) fn end(&self) -> usize {
        let rest = self.bytes.get(self.at.saturating_sub(1)..).unwrap_or_default();
        // A byte 0xff that was read is not the first byte of a marker.
        let marker = rest.windows(2).position(|pair| matches!(pair, [0xff, next] if *next >= 0x80));
        marker.map_or(self.bytes.len(), |marker| self.at.saturating_sub(1).saturating_add(marker))
    }
}
