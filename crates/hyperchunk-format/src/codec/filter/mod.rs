//! Filters for a new dataset: conversion of user options to the client data that the filter's own library
//! would store. Source: the `set_local` functions of HDF5 2.0, h5py 3.16 and hdf5plugin 7.1.

mod nbit;
mod preset;

pub use preset::{PRESETS, preset, preset_with};

use super::registered;
use crate::model::{ByteOrder, Class, Datatype, FillWhen, Filter};
use crate::{Error, Result};

/// Dataset for which a filter is configured.
#[derive(Debug, Clone, Copy)]
pub struct Target<'a> {
    /// Datatype of the elements, as stored.
    pub datatype: &'a Datatype,
    /// Extent of the chunks.
    pub chunk: &'a [u64],
    /// Fill value, which the filter scaleoffset treats specially.
    pub fill: &'a FillWhen,
}

impl Target<'_> {
    /// Returns the size of an element.
    fn element(&self) -> Result<u32> {
        fit(self.datatype.size, "bytes in an element")
    }

    /// Returns the size of an element, or of the base type for arrays.
    fn base(&self) -> Result<u32> {
        match &self.datatype.class {
            Class::Array { base, .. } => fit(base.size, "bytes in an element"),
            _ => self.element(),
        }
    }

    /// Returns the number of elements in a chunk.
    fn elements(&self) -> Result<u64> {
        let count = self.chunk.iter().try_fold(1_u64, |count, extent| count.checked_mul(*extent));
        count.ok_or_else(|| Error::limit("a chunk of more than 2⁶⁴ elements"))
    }

    /// Returns the size of a chunk in bytes, which plugins only store as a hint: 0 if it is too large.
    fn bytes(&self) -> Result<u32> {
        let bytes = self.elements()?.checked_mul(self.datatype.size);
        Ok(bytes.and_then(|bytes| u32::try_from(bytes).ok()).unwrap_or(0))
    }
}

fn fit(value: u64, what: &str) -> Result<u32> {
    u32::try_from(value)
        .map_err(|_| Error::limit(format!("{value} {what}, more than a filter parameter can store")))
}

/// Returns the filter with an identifier, with the client data for a dataset. `options` are the user's, as in
/// h5py's `compression_opts` or `H5Pset_filter`'s client data; omitted ones get their defaults:
///
/// | filter | options |
/// | - | - |
/// | deflate (1) | level (0–9; 6) |
/// | shuffle (2), fletcher32 (3), nbit (5), LZF (32000) | none |
/// | szip (4) | option mask (4: entropy coding; 32: nearest neighbour), pixels in a block (even, up to 32; 8) |
/// | scaleoffset (6) | kind (0: floats by powers of ten; 2: integers), exponent of ten or number of bits |
/// | bzip2 (307) | block size (1–9; 9) |
/// | Blosc (32001), Blosc2 (32026) | four numbers that are overwritten, level (0–9; 5), shuffle (0: none, 1: bytes, 2: bits), compressor |
/// | Snappy (32003) | bytes in a block (1024–65535; 32768) |
/// | LZ4 (32004) | bytes in a block (0: 1 GiB) |
/// | bitshuffle (32008) | elements in a block (0: about 8 KiB), compression (0: none, 2: LZ4, 3: zstd), zstd's level |
/// | zstd (32015) | level (1–22; 3) |
///
/// Other filters get the options unchanged. Client data copied from another dataset are also accepted; the
/// values that describe that dataset are replaced. As in h5py, every filter except fletcher32 is optional.
///
/// # Errors
/// Invalid or Unsupported if the filter cannot handle the options or elements, Limit if a size does not fit.
pub fn filter(id: u16, options: &[u32], target: &Target<'_>) -> Result<Filter> {
    let parameters =
        parameters(id, chosen(id, options), target).map_err(|error| match registered::name(id) {
            Some(name) => error.within(name),
            None => error,
        })?;
    Ok(Filter { id, optional: id != 3, name: name(id).map(Into::into), parameters })
}

/// Extracts the user's options from stored client data; returns other `options` unchanged.
fn chosen(id: u16, options: &[u32]) -> &[u32] {
    let of_plugin =
        |numbers: usize| options.get(7).is_some_and(|rank| (*rank as usize).checked_add(8) == Some(numbers));
    let cut = match (id, options) {
        // Size of an element.
        (2, [_]) => options.get(..0),
        // Revisions of the filter and of LZF, size of a chunk.
        (32000, [4, _, _]) => options.get(..0),
        // The first number is the count of numbers.
        (5, [count, ..]) if *count as usize == options.len() => options.get(..0),
        (4, [_, _, _, _]) => options.get(..2),
        (6, _) if options.len() == SCALE_OFFSET_PARAMETERS => options.get(..2),
        // Version (0.2 or later) and size of an element. Three numbers may also be a user's options, the
        // second of which is the compression: 0, 2 or 3.
        (32008, [0, 2..=u32::MAX, _, _, ..]) => options.get(3..),
        (32008, [0, 4..=u32::MAX, _]) => options.get(3..),
        // Extent of a chunk.
        (32026, _) if of_plugin(options.len()) => options.get(..7),
        _ => None,
    };
    cut.unwrap_or(options)
}

/// Returns the name that the filter's library stores.
fn name(id: u16) -> Option<&'static str> {
    Some(match id {
        1 => "deflate",
        2 => "shuffle",
        3 => "fletcher32",
        4 => "szip",
        5 => "nbit",
        6 => "scaleoffset",
        307 => "bzip2",
        32000 => "lzf",
        32001 => "blosc",
        32003 => "snappy",
        32004 => "HDF5 lz4 filter; see https://github.com/HDFGroup/hdf5_plugins",
        32008 => "bitshuffle; see https://github.com/kiyo-masui/bitshuffle",
        32015 => "HDF5 zstd filter; see https://github.com/HDFGroup/hdf5_plugins",
        32026 => "blosc2",
        _ => return registered::name(id),
    })
}

/// Allowed block sizes for writing Snappy. With larger ones, snappy-cuda cannot count the parts.
pub(super) const SNAPPY_BLOCKS: std::ops::RangeInclusive<u32> = 1 << 10..=u16::MAX as u32;

fn parameters(id: u16, options: &[u32], target: &Target<'_>) -> Result<Vec<u32>> {
    Ok(match id {
        1 => vec![level(options, 0..=9, 6)?],
        2 | 3 | 5 | 32000 if !options.is_empty() => {
            return Err(Error::invalid(format!("the filter takes no options, got {}", options.len())));
        }
        2 => vec![target.element()?],
        3 => Vec::new(),
        4 => szip(options, target)?,
        5 => nbit::parameters(target)?,
        6 => scale_offset(options, target)?,
        307 => vec![level(options, 1..=9, 9)?],
        // Revisions of the filter and of LZF.
        32000 => vec![4, 0x0105, target.bytes()?],
        32001 => {
            // Blosc itself allows no larger elements.
            let base = target.base()?;
            let base = if base > 255 { 1 } else { base };
            [&[2, 2, base, target.bytes()?], &blosc(options)?[..]].concat()
        }
        // Like snappy-cuda, which stores no parameters.
        32003 if options.is_empty() => Vec::new(),
        32003 => vec![level(options, SNAPPY_BLOCKS, 0)?],
        32004 => vec![level(options, 0..=0x7e00_0000, 0)?],
        32008 => bitshuffle(options, target)?,
        32015 => vec![level(options, 1..=22, 3)?],
        32026 => {
            let block = options.get(1).copied().unwrap_or(0);
            let mut parameters =
                [&[1, block, target.base()?, target.bytes()?], &blosc(options)?[..]].concat();
            let rank = target.chunk.len();
            // The filter supports no more dimensions.
            if (2..=8).contains(&rank) {
                parameters.push(fit(rank as u64, "dimensions")?);
                for extent in target.chunk {
                    parameters.push(fit(*extent, "elements in a dimension")?);
                }
            }
            parameters
        }
        _ => options.to_vec(),
    })
}

/// Returns the option of a filter that has only one.
fn level(options: &[u32], range: std::ops::RangeInclusive<u32>, usual: u32) -> Result<u32> {
    match options {
        [] => Ok(usual),
        [level] if range.contains(level) => Ok(*level),
        [level] => {
            Err(Error::invalid(format!("option {level}: expected {} to {}", range.start(), range.end())))
        }
        _ => Err(Error::invalid(format!("the filter takes one option, got {}", options.len()))),
    }
}

/// Returns Blosc's options: level, shuffle, compressor.
fn blosc(options: &[u32]) -> Result<[u32; 3]> {
    let option = |at: usize, usual| options.get(at).copied().unwrap_or(usual);
    let (level, shuffle, compressor) = (option(4, 5), option(5, 1), option(6, 1));
    if level > 9 || shuffle > 4 || compressor > 5 || options.len() > 7 {
        return Err(Error::invalid(format!("invalid options: {options:?}")));
    }
    Ok([level, shuffle, compressor])
}

fn bitshuffle(options: &[u32], target: &Target<'_>) -> Result<Vec<u32>> {
    if options.first().is_some_and(|block| !block.is_multiple_of(8)) {
        return Err(Error::invalid("the number of elements in a block is not a multiple of 8"));
    }
    if options.get(1).is_some_and(|compression| ![0, 2, 3].contains(compression)) || options.len() > 5 {
        return Err(Error::invalid(format!("invalid options: {options:?}")));
    }
    // Version of bitshuffle.
    Ok([&[0, 4, target.element()?], options].concat())
}

/// Bits of szip's option mask: the user's choices, and the ones that libhdf5 sets.
const ENTROPY_CODING: u32 = 4;
const LSB: u32 = 8;
const MSB: u32 = 16;
const NEAREST_NEIGHBOUR: u32 = 32;
const ALLOW_K13_AND_RAW: u32 = 1 | 128;
/// Maximum number of blocks in a scan line.
const MAX_SZIP_BLOCKS: u64 = 128;

fn szip(options: &[u32], target: &Target<'_>) -> Result<Vec<u32>> {
    let mask = options.first().copied().unwrap_or(NEAREST_NEIGHBOUR);
    let block = options.get(1).copied().unwrap_or(8);
    let chosen = mask & (ENTROPY_CODING | NEAREST_NEIGHBOUR);
    if options.len() > 2 || !(2..=32).contains(&block) || block % 2 != 0 || !chosen.is_power_of_two() {
        return Err(Error::invalid(format!("invalid options: {options:?}")));
    }
    let size = target.datatype.size.saturating_mul(8);
    let (order, precision, offset) = number(target.datatype)
        .filter(|_| size <= 32 || size == 64)
        .ok_or_else(|| Error::unsupported("the elements are not numbers of 1, 2, 3, 4 or 8 bytes"))?;
    let bits = match u64::from(if offset == 0 { precision } else { 0 }) {
        0 if size > 24 => size.next_multiple_of(32),
        0 => size,
        bits @ ..=24 => bits,
        bits => bits.next_multiple_of(32),
    };
    // A scan line is the fastest dimension, if that is at least as long as a block.
    let most = u64::from(block).saturating_mul(MAX_SZIP_BLOCKS);
    let row = target.chunk.last().copied().unwrap_or(1);
    let line = if row < u64::from(block) { target.elements()? } else { row };
    if line < u64::from(block) {
        return Err(Error::invalid(format!(
            "blocks of {block} pixels do not fit a chunk of {line} elements"
        )));
    }
    // Rows of more than 4096 pixels exceed the longest scan line for every block size.
    let line = if row > 4096 { most } else { line.min(most) };
    let mask =
        (mask & !(LSB | MSB | 2)) | ALLOW_K13_AND_RAW | if order == ByteOrder::Big { MSB } else { LSB };
    Ok(vec![mask, block, fit(bits, "bits")?, fit(line, "pixels")?])
}

/// Returns a number's byte order, number of significant bits, and bit offset.
fn number(datatype: &Datatype) -> Option<(ByteOrder, u16, u16)> {
    match &datatype.class {
        Class::Integer { order, precision, offset, .. } | Class::Bitfield { order, precision, offset } => {
            Some((*order, *precision, *offset))
        }
        Class::Float(float) => Some((float.order, float.precision, float.offset)),
        Class::Enum { base, .. } => number(base),
        _ => None,
    }
    .filter(|(order, ..)| *order != ByteOrder::Vax)
}

/// Number of parameters of scaleoffset.
const SCALE_OFFSET_PARAMETERS: usize = 20;

fn scale_offset(options: &[u32], target: &Target<'_>) -> Result<Vec<u32>> {
    let &[kind, factor] = options else {
        return Err(Error::invalid(format!("the filter takes two options, got {}", options.len())));
    };
    let size = target.element()?;
    let wrong = || {
        Error::unsupported("the elements are not integers of 1, 2, 4 or 8 bytes or floats of 4 or 8 bytes")
    };
    let (class, signed, order) = match &target.datatype.class {
        Class::Integer { order, signed, .. } if [1, 2, 4, 8].contains(&size) => (0, *signed, *order),
        Class::Float(float) if [4, 8].contains(&size) => (1, false, float.order),
        _ => return Err(wrong()),
    };
    let order = match order {
        ByteOrder::Little => 0,
        ByteOrder::Big => 1,
        ByteOrder::Vax => return Err(wrong()),
    };
    if kind != (if class == 0 { 2 } else { 0 }) {
        return Err(Error::invalid(format!("kind {kind} does not apply to elements of this datatype")));
    }
    if class == 0 && factor > size.saturating_mul(8) {
        return Err(Error::invalid(format!("{factor} bits are more than elements of {size} bytes have")));
    }
    let elements = fit(target.elements()?, "elements in a chunk")?;
    let mut parameters = vec![kind, factor, elements, class, size, signed.into(), order];
    let mut value = [0; 8];
    if let FillWhen::User(bytes) = target.fill {
        value.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
        if order == 1
            && let Some(value) = value.get_mut(..bytes.len().min(8))
        {
            value.reverse();
        }
    }
    parameters.push((*target.fill != FillWhen::Undefined).into());
    let [a, b, c, d, e, f, g, h] = value;
    parameters.extend([u32::from_le_bytes([a, b, c, d]), u32::from_le_bytes([e, f, g, h])]);
    parameters.resize(SCALE_OFFSET_PARAMETERS, 0);
    Ok(parameters)
}

#[cfg(test)]
mod tests;
