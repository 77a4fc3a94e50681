//! Bit shuffle: conversion between elements and bit planes. Source: K. Masui and others, "A compression
//! scheme for radio data in high performance computing" (2015), section 3.
//!
//! A plane holds one bit of each element, eight elements to a byte, the first in the lowest bit. The planes
//! are in the order of the bits: first byte first, and lowest bit first within it.

use super::shuffle::{Weaver, shuffle_with, unshuffle_with};

/// Number of bytes of each plane processed at a time.
const STRIPE_BYTES: usize = 128;

/// Conversion from bit planes to elements; keeps its buffers.
#[derive(Debug, Default)]
pub(super) struct Joiner {
    /// Byte planes of some elements: all first bytes, then all second bytes, and so on.
    bytes: Vec<u8>,
    weaver: Box<Weaver>,
}

impl Joiner {
    /// Fills `elements`, each of `size` bytes, from `planes`. Elements past a multiple of eight are left
    /// unchanged.
    pub(super) fn join(&mut self, planes: &[u8], elements: &mut [u8], size: usize) {
        let eight = size.saturating_mul(8);
        let row = planes.len().min(elements.len()).checked_div(eight).unwrap_or(0);
        if row == 0 {
            return;
        }
        for (start, out) in
            (0..row).step_by(STRIPE_BYTES).zip(elements.chunks_mut(eight.saturating_mul(STRIPE_BYTES)))
        {
            let width = row.saturating_sub(start).min(STRIPE_BYTES);
            let end = start.saturating_add(width);
            self.bytes.resize(width.saturating_mul(eight), 0);
            let planes = planes.chunks_exact(row.saturating_mul(8));
            for (planes, to) in planes.zip(self.bytes.chunks_exact_mut(width.saturating_mul(8))) {
                let mut rows = [[0; STRIPE_BYTES]; 8];
                for (to, plane) in rows.iter_mut().zip(planes.chunks_exact(row)) {
                    copy(plane.get(start..end).unwrap_or_default(), to);
                }
                // Zero planes: the upper bytes of small numbers.
                if rows.as_flattened().iter().fold(0, |all, byte| all | byte) == 0 {
                    to.fill(0);
                    continue;
                }
                transpose(&mut rows);
                self.weaver.eight(rows.each_ref().map(|row| row.get(..width).unwrap_or_default()), to);
            }
            if let Some(out) = out.get_mut(..self.bytes.len()) {
                unshuffle_with(&mut self.weaver, &self.bytes, out, size);
            }
        }
    }
}

/// Conversion from elements to bit planes; keeps its buffers.
#[derive(Debug, Default)]
pub(super) struct Splitter {
    /// Byte planes, as in [`Joiner`].
    bytes: Vec<u8>,
    weaver: Box<Weaver>,
}

impl Splitter {
    /// Fills `planes` from `elements`, each of `size` bytes. Planes of elements past a multiple of eight are
    /// left unchanged.
    pub(super) fn split(&mut self, elements: &[u8], planes: &mut [u8], size: usize) {
        let eight = size.saturating_mul(8);
        let row = planes.len().min(elements.len()).checked_div(eight).unwrap_or(0);
        if row == 0 {
            return;
        }
        let elements = elements.get(..row.saturating_mul(eight)).unwrap_or_default();
        let steps = (0..row).step_by(STRIPE_BYTES);
        for (start, from) in steps.zip(elements.chunks(eight.saturating_mul(STRIPE_BYTES))) {
            let width = row.saturating_sub(start).min(STRIPE_BYTES);
            let end = start.saturating_add(width);
            self.bytes.resize(from.len(), 0);
            shuffle_with(&mut self.weaver, from, &mut self.bytes, size);
            let planes = planes.chunks_exact_mut(row.saturating_mul(8));
            for (planes, from) in planes.zip(self.bytes.chunks_exact(width.saturating_mul(8))) {
                let mut rows = [[0; STRIPE_BYTES]; 8];
                // Zero bytes: the upper bytes of small numbers.
                if from.iter().fold(0, |all, byte| all | byte) == 0 {
                    for plane in planes.chunks_exact_mut(row) {
                        plane.get_mut(start..end).unwrap_or_default().fill(0);
                    }
                    continue;
                }
                let heads = rows.each_mut().map(|row| row.get_mut(..width).unwrap_or_default());
                self.weaver.split_eight(from, heads);
                transpose(&mut rows);
                for (plane, from) in planes.chunks_exact_mut(row).zip(&rows) {
                    let to = plane.get_mut(start..end).unwrap_or_default();
                    match to.first_chunk_mut() {
                        Some(to) => *to = *from,
                        None => to.iter_mut().zip(from).for_each(|(to, from)| *to = *from),
                    }
                }
            }
        }
    }
}

/// Copies the available bytes, mostly whole rows.
#[inline]
fn copy(from: &[u8], to: &mut [u8; STRIPE_BYTES]) {
    match from.try_into() {
        Ok(row) => *to = row,
        Err(_) => to.iter_mut().zip(from).for_each(|(to, from)| *to = *from),
    }
}

/// Exchanges the number of a row with the number of a bit within its byte.
// If inlined, it is not vectorized.
#[inline(never)]
#[expect(
    clippy::indexing_slicing,
    reason = "the arrays are of constant size; iterators over eight are not made wide"
)]
fn transpose(rows: &mut [[u8; STRIPE_BYTES]; 8]) {
    let exchange = |a: &mut u64, b: &mut u64, shift: u32, mask: u64| {
        let differ = ((*a >> shift) ^ *b) & mask;
        *b ^= differ;
        *a ^= differ << shift;
    };
    let [a, b, c, d, e, f, g, h] = rows.each_mut().map(|row| row.as_chunks_mut::<8>().0);
    for at in 0..STRIPE_BYTES / 8 {
        let mut words = [a[at], b[at], c[at], d[at], e[at], f[at], g[at], h[at]].map(u64::from_le_bytes);
        let [p, q, r, s, t, u, v, w] = &mut words;
        for (p, q) in [(&mut *p, &mut *q), (&mut *r, &mut *s), (&mut *t, &mut *u), (&mut *v, &mut *w)] {
            exchange(p, q, 1, 0x5555_5555_5555_5555);
        }
        for (p, q) in [(&mut *p, &mut *r), (&mut *q, &mut *s), (&mut *t, &mut *v), (&mut *u, &mut *w)] {
            exchange(p, q, 2, 0x3333_3333_3333_3333);
        }
        for (p, q) in [(p, t), (q, u), (r, v), (s, w)] {
            exchange(p, q, 4, 0x0f0f_0f0f_0f0f_0f0f);
        }
        [a[at], b[at], c[at], d[at], e[at], f[at], g[at], h[at]] = words.map(u64::to_le_bytes);
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::codec::testing::Dice;

    /// Reference implementation, straight from the definition.
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
        let (mut joiner, mut splitter) = (Joiner::default(), Splitter::default());
        for size in (1..20).chain([24, 32, 100, 255, 512, 513, 600]) {
            for count in [0, 8, 16, 64, 504, 512, 520, 1032, 4104] {
                if size * count > 400_000 {
                    continue;
                }
                let elements = dice.bytes(size * count);
                let mut output = vec![9; elements.len()];
                joiner.join(&planes(&elements, size), &mut output, size);
                assert!(output == elements, "{count} elements of {size} bytes");
                let mut output = vec![9; elements.len()];
                splitter.split(&elements, &mut output, size);
                assert!(output == planes(&elements, size), "{count} elements of {size} bytes");
            }
        }
    }
}
