//! Quantizer: prediction errors in steps of twice the error bound, and the exact values of unpredictable
//! elements.

use super::{damaged, huffman};
use crate::codec::error_bounded::value::Value;
use crate::{Cursor, Result};
use std::slice::ChunksExact;

/// Quantizer, with its exact values.
#[derive(Debug, Clone)]
pub(super) struct Quantizer<'a> {
    pub(super) error_bound: f64,
    pub(super) radius: i32,
    exact: ChunksExact<'a, u8>,
    /// True if an exact value was missing.
    failed: bool,
}

impl<'a> Quantizer<'a> {
    pub(super) fn read<T: Value>(cursor: &mut Cursor<'a>) -> Result<Self> {
        cursor.skip(1)?;
        let error_bound = f64::from_bits(cursor.u64()?);
        let radius = cursor.u32()?.cast_signed();
        let count = usize::try_from(cursor.u64()?).ok().and_then(|count| count.checked_mul(T::SIZE_BYTES));
        let exact = cursor.take(count.ok_or_else(|| damaged("too many exact values"))?)?;
        Ok(Self { error_bound, radius, exact: exact.chunks_exact(T::SIZE_BYTES), failed: false })
    }

    /// Returns the value for a prediction and its quantization index.
    #[inline]
    pub(super) fn recover<T: Value>(&mut self, prediction: T, index: i32) -> T {
        if index == 0 {
            return self.exact();
        }
        let steps = index.wrapping_sub(self.radius).wrapping_mul(2);
        T::from_f64(prediction.to_f64() + f64::from(steps) * self.error_bound)
    }

    /// Returns the next exact value.
    pub(super) fn exact<T: Value>(&mut self) -> T {
        match self.exact.next() {
            Some(bytes) => T::read(bytes),
            None => {
                self.failed = true;
                T::default()
            }
        }
    }

    /// Checks that no exact value was missing.
    pub(super) fn check(&self) -> Result<()> {
        if self.failed { Err(damaged("its exact values end early")) } else { Ok(()) }
    }
}

/// Quantization indices of the elements.
#[derive(Debug)]
pub(super) struct Indices(std::vec::IntoIter<i32>);

impl Indices {
    pub(super) fn read(cursor: &mut Cursor<'_>, count: usize) -> Result<Self> {
        Ok(Self(huffman(cursor, count)?.into_iter()))
    }

    /// Returns the next index. There are as many as elements.
    #[inline]
    pub(super) fn next(&mut self) -> i32 {
        self.0.next().unwrap_or_default()
    }
}
