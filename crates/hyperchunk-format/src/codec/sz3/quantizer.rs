//! The quantizer: what was wrong with a prediction, in steps of twice the error bound; and the values that were too far off.

use super::{damaged, huffman};
use crate::codec::error_bounded::value::Value;
use crate::{Cursor, Result};
use std::slice::ChunksExact;

/// A quantizer, with the values that it could not hold.
#[derive(Debug, Clone)]
pub(super) struct Quantizer<'a> {
    pub(super) error_bound: f64,
    pub(super) radius: i32,
    exact: ChunksExact<'a, u8>,
    /// A value was missing.
    failed: bool,
}

impl<'a> Quantizer<'a> {
    pub(super) fn read<T: Value>(cursor: &mut Cursor<'a>) -> Result<Self> {
        cursor.skip(1)?;
        let error_bound = f64::from_bits(cursor.u64()?);
        let radius = cursor.u32()?.cast_signed();
        let count = usize::try_from(cursor.u64()?).ok().and_then(|count| count.checked_mul(T::WIDTH));
        let exact = cursor.take(count.ok_or_else(|| damaged("too many exact values"))?)?;
        Ok(Self { error_bound, radius, exact: exact.chunks_exact(T::WIDTH), failed: false })
    }

    /// The value for a prediction and what was stored about it.
    #[inline]
    pub(super) fn recover<T: Value>(&mut self, prediction: T, index: i32) -> T {
        if index == 0 {
            return self.exact();
        }
        let steps = index.wrapping_sub(self.radius).wrapping_mul(2);
        T::from_f64(prediction.to_f64() + f64::from(steps) * self.error_bound)
    }

    /// The next value that was stored as it is.
    pub(super) fn exact<T: Value>(&mut self) -> T {
        match self.exact.next() {
            Some(bytes) => T::read(bytes),
            None => {
                self.failed = true;
                T::default()
            }
        }
    }

    /// Whether all exact values that were asked for were there.
    pub(super) fn check(&self) -> Result<()> {
        if self.failed { Err(damaged("its exact values end early")) } else { Ok(()) }
    }
}

/// What was stored about each element.
#[derive(Debug)]
pub(super) struct Indices(std::vec::IntoIter<i32>);

impl Indices {
    pub(super) fn read(cursor: &mut Cursor<'_>, count: usize) -> Result<Self> {
        Ok(Self(huffman(cursor, count)?.into_iter()))
    }

    /// The next one. There are as many as elements.
    #[inline]
    pub(super) fn next(&mut self) -> i32 {
        self.0.next().unwrap_or_default()
    }
}
