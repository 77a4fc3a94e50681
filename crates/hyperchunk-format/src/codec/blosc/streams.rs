//! The compressors inside Blosc's chunks.

use super::blosclz;
use super::filters::damaged;
use crate::codec::{deflate, lz4, zstd};
use crate::{Error, Result};

/// The compressor of a chunk, with its dictionary where the chunk has one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compressor<'a> {
    BloscLz,
    Lz4(Option<&'a [u8]>),
    Snappy,
    Zlib,
    Zstd(Option<&'a [u8]>),
}

impl<'a> Compressor<'a> {
    /// The one with this number in the header's flags. `custom` is the number of one that is not Blosc's own.
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
            _ => return Err(Error::unsupported(format!("Blosc's compressor {format}"))),
        };
        match compressor {
            Self::BloscLz | Self::Snappy | Self::Zlib if dictionary.is_some() => {
                Err(Error::unsupported(format!("a dictionary for Blosc's compressor {format}")))
            }
            _ => Ok(compressor),
        }
    }

    /// Fills `to` with what one stream was made from.
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
        Err(damaged(format!("{written} bytes come out of a stream instead of {}", to.len())))
    }
}
