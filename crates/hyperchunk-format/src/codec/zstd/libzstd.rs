//! Zstandard by libzstd (C).

use super::damaged;
use crate::thread_state::with_state;
use crate::{Error, Result};
use std::cell::RefCell;
use zstd::bulk::{Compressor, Decompressor};

thread_local! {
    /// Compressor with its level.
    static COMPRESSOR: RefCell<Option<(i32, Compressor<'static>)>> = const { RefCell::new(None) };
    static DECOMPRESSOR: RefCell<Option<Decompressor<'static>>> = const { RefCell::new(None) };
}

/// Returns the size of a frame's content, if the frame stores it.
pub(in crate::codec) fn stored_size(frame: &[u8]) -> Option<usize> {
    Decompressor::upper_bound(frame)
}

/// Returns the maximum size of a frame for `size` bytes.
pub(in crate::codec) fn bound(size: usize) -> usize {
    zstd::zstd_safe::compress_bound(size)
}

/// Compresses `from` into `to`; returns the number of bytes, or `None` if they do not fit.
pub(in crate::codec) fn compress(from: &[u8], to: &mut [u8], level: i32) -> Result<Option<usize>> {
    with_state(&COMPRESSOR, |kept| {
        let compressor = match kept {
            Some((of, compressor)) if *of == level => compressor,
            _ => {
                let made = Compressor::new(level).map_err(|error| Error::limit(error.to_string()))?;
                &mut kept.insert((level, made)).1
            }
        };
        match compressor.compress_to_buffer(from, to) {
            Ok(written) => Ok(Some(written)),
            Err(_) if to.len() < bound(from.len()) => Ok(None),
            Err(error) => Err(Error::limit(error.to_string())),
        }
    })
}

/// Decompresses frames into `to`; returns the number of bytes.
pub(in crate::codec) fn decompress(from: &[u8], to: &mut [u8]) -> Result<usize> {
    with_state(&DECOMPRESSOR, |state| {
        let state = match state {
            Some(state) => state,
            None => state.insert(Decompressor::new().map_err(|error| Error::limit(error.to_string()))?),
        };
        state.decompress_to_buffer(from, to).map_err(|error| damaged(&error))
    })
}

/// Decompresses like [`decompress`], with a dictionary.
#[cfg(feature = "blosc")]
pub(in crate::codec) fn decompress_with(from: &[u8], to: &mut [u8], dictionary: &[u8]) -> Result<usize> {
    let state = Decompressor::with_dictionary(dictionary);
    state.and_then(|mut state| state.decompress_to_buffer(from, to)).map_err(|error| damaged(&error))
}
