//! Deflate by miniz_oxide (Rust alone), for WebAssembly; decoding only.

use super::Failure;
#[cfg(target_family = "wasm")]
use crate::Error;
use crate::Result;
use crate::thread_state::with_state;
use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::{
    TINFL_FLAG_PARSE_ZLIB_HEADER, TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF,
};
use miniz_oxide::inflate::core::{DecompressorOxide, decompress as inflate};
use std::cell::RefCell;

const FLAGS: u32 = TINFL_FLAG_PARSE_ZLIB_HEADER | TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;

thread_local! {
    static DECOMPRESSOR: RefCell<Box<DecompressorOxide>> = RefCell::default();
}

/// Decompresses a stream into `to`; returns the number of bytes.
pub(super) fn decompress(from: &[u8], to: &mut [u8]) -> Result<usize, Failure> {
    with_state(&DECOMPRESSOR, |state| {
        state.init();
        let (status, _, written) = inflate(state, from, to, 0, FLAGS);
        match status {
            TINFLStatus::Done => Ok(written),
            TINFLStatus::HasMoreOutput => Err(Failure::NoRoom),
            _ => Err(Failure::Damaged),
        }
    })
}

/// Refuses to encode.
#[cfg(target_family = "wasm")]
pub(super) fn bound(_length: usize, _level: i32) -> Result<usize> {
    Err(Error::unsupported("this build only decodes deflate"))
}

/// Refuses to encode.
#[cfg(target_family = "wasm")]
pub(super) fn compress(_from: &[u8], _to: &mut [u8], level: i32) -> Result<Option<usize>> {
    bound(0, level).map(Some)
}
