//! Compressors of Blosc chunks.

use super::blosclz;
use super::filters::damaged;
use crate::codec::{deflate, lz4, zstd};
use crate::{Error, Result};

/// Compressor of a chunk, with its dictionary, if any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compressor<'a> {
    BloscLz,
    Lz4(Option<&'a [u8]>),
    Snappy,
    Zlib,
    Zstd(Option<&'a [u8]>),
}

impl<'a> Compressor<'a> {
    /// Creates the compressor with a number from the header's flags. `custom` is the number of a plugin
    /// compressor.
    pub(super) fn new(format: u8, custom: u8, dictionary: Option<&'a [u8]>) -> Result<Self> {
        let compressor = match format {
            0 => Self::BloscLz,
            1 => Self::Lz4(dictionary),
            2 => Self::Snappy,
            3 => Self::Zlib,
            4 => Self::Zstd(dictionary),
            6 => {
                let name = match custom {
                    32 => "NDLZ",
                    33..=35 => "ZFP",
                    36 | 39 | 40 => "JPEG 2000",
                    _ => "unknown",
                };
                return Err(Error::unsupported(format!("Blosc2's compressor plugin {custom} ({name})")));
            }
            _ => return Err(Error::unsupported(format!("unknown Blosc compressor {format}"))),
        };
        match compressor {
            Self::BloscLz | Self::Snappy | Self::Zlib if dictionary.is_some() => {
                Err(Error::unsupported(format!("a dictionary for Blosc's compressor {format}")))
            }
            _ => Ok(compressor),
        }
    }

    /// Decompresses one stream into `to`, which must be filled exactly.
    pub(super) fn decompress(self, from: &[u8], to: &mut [u8]) -> Result<()> {
        let written = match self {
            Self::BloscLz => return blosclz::decompress(from, to),
            Self::Lz4(None) => return lz4::decompress(from, to),
            Self::Lz4(Some(dictionary)) => return lz4::decompress_with(from, to, dictionary),
            Self::Zlib => deflate::inflate(from, to)?,
            Self::Zstd(None) => zstd::decompress(from, to)?,
            Self::Zstd(Some(dictionary)) => zstd::decompress_with(from, to, dictionary)?,
            Self::Snappy => snap::raw::Decoder::new()
                .decompress(from, to)
                .map_err(|error| damaged(format!("damaged Snappy data: {error}")))?,
        };
        if written == to.len() {
            return Ok(());
        }
        Err(damaged(format!("a stream decodes to {written} bytes instead of {}", to.len())))
    }
}

/// Compressor for encoding, by its number in the filter's parameters, with its level.
#[derive(Debug, Clone, Copy)]
pub(super) enum Writer {
    BloscLz,
    Lz4,
    Snappy,
    Zlib(i32),
    Zstd(i32),
}

impl Writer {
    /// Creates the compressor. `second` stands for Blosc 2, which has no Snappy.
    pub(super) fn new(number: u32, level: u32, second: bool) -> Result<Self> {
        let level = i32::try_from(level).unwrap_or(9);
        Ok(match number {
            0 => Self::BloscLz,
            // LZ4 and LZ4HC share one format.
            1 | 2 => Self::Lz4,
            3 if !second => Self::Snappy,
            4 => Self::Zlib(level),
            // Blosc's mapping of levels.
            5 => Self::Zstd(match level {
                9 => 22,
                8 => 20,
                level => level.saturating_mul(2).saturating_sub(1),
            }),
            _ => return Err(Error::invalid(format!("unknown compressor {number}"))),
        })
    }

    /// Returns the compressor's number in the header's flags.
    pub(super) fn format(self) -> u8 {
        match self {
            Self::BloscLz => 0,
            Self::Lz4 => 1,
            Self::Snappy => 2,
            Self::Zlib(_) => 3,
            Self::Zstd(_) => 4,
        }
    }

    /// True if Blosc splits blocks for this compressor.
    pub(super) fn splits(self) -> bool {
        !matches!(self, Self::Zstd(_))
    }

    /// Compresses a stream into `to`, which must be large enough for LZ4's worst case. Returns `None` if the
    /// result is not smaller than the input.
    pub(super) fn compress(self, from: &[u8], to: &mut [u8]) -> Result<Option<usize>> {
        let less = from.len().saturating_sub(1).min(to.len());
        let fitting = to.get_mut(..less).unwrap_or_default();
        match self {
            Self::BloscLz => Ok(blosclz::compress(from, fitting)),
            Self::Lz4 => lz4::compress(from, to).map(Some),
            Self::Snappy => Ok(snap::raw::Encoder::new().compress(from, to).ok()),
            Self::Zlib(level) => deflate::deflate(from, fitting, level),
            Self::Zstd(level) => zstd::compress(from, fitting, level),
        }
    }
}
