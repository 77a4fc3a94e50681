//! Deflate by libdeflate (C).

use super::Failure;
use crate::thread_state::with_state;
use crate::{Error, Result};
use libdeflater::{CompressionLvl, Compressor, DecompressionError, Decompressor};
use std::cell::RefCell;

thread_local! {
    /// Last compressor used, with its level: creating one takes longer than compressing a small chunk.
    static COMPRESSOR: RefCell<Option<(i32, Compressor)>> = const { RefCell::new(None) };
    pub(super) static DECOMPRESSOR: RefCell<Decompressor> = RefCell::new(Decompressor::new());
}

/// Decompresses a stream into `to`; returns the number of bytes.
pub(super) fn decompress(from: &[u8], to: &mut [u8]) -> Result<usize, Failure> {
    with_state(&DECOMPRESSOR, |state| state.zlib_decompress(from, to)).map_err(|error| match error {
        DecompressionError::InsufficientSpace => Failure::NoRoom,
        DecompressionError::BadData => Failure::Damaged,
    })
}

/// Calls `with` with this thread's compressor for a level, from 0 to [`super::MAX_LEVEL`].
fn with_compressor<T>(level: i32, with: impl FnOnce(&mut Compressor) -> Result<T>) -> Result<T> {
    with_state(&COMPRESSOR, |kept| match kept {
        Some((of, compressor)) if *of == level => with(compressor),
        _ => {
            let checked = CompressionLvl::new(level).map_err(|_| Error::invalid(format!("level {level}")))?;
            with(&mut kept.insert((level, Compressor::new(checked))).1)
        }
    })
}

/// Returns the maximum size of a stream for `length` bytes.
pub(super) fn bound(length: usize, level: i32) -> Result<usize> {
    with_compressor(level, |compressor| Ok(compressor.zlib_compress_bound(length)))
}

/// Compresses `from` into `to`; returns the number of bytes, or `None` if they do not fit.
pub(super) fn compress(from: &[u8], to: &mut [u8], level: i32) -> Result<Option<usize>> {
    // The only error is lack of space.
    with_compressor(level, |compressor| Ok(compressor.zlib_compress(from, to).ok()))
}

/// Returns the maximum size of a raw deflate stream for `length` bytes.
pub(super) fn raw_bound(length: usize, level: i32) -> Result<usize> {
    with_compressor(level, |compressor| Ok(compressor.deflate_compress_bound(length)))
}

/// Compresses `from` into `to` as a raw deflate stream; returns the number of bytes, or `None` if they do not
/// fit.
pub(super) fn compress_raw(from: &[u8], to: &mut [u8], level: i32) -> Result<Option<usize>> {
    with_compressor(level, |compressor| Ok(compressor.deflate_compress(from, to).ok()))
}
