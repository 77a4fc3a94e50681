//! SZ, filter 32017: quantized prediction errors as Huffman codes, in Zstandard or zlib.
//!
//! Source: Tao, Di, Chen, Cappello, *Significantly improving lossy compression for scientific data sets based
//! on multidimensional prediction and error-controlled quantization* (2017); Liang et al., *Error-controlled
//! lossy compression optimized for high compression ratios of scientific datasets* (2018); Zou et al.,
//! *Accelerating relative-error bounded lossy compression for HPC datasets with precomputation-based
//! mechanisms* (2019); the streams of SZ 2.1.8 to 2.1.12. The values are SZ's own to the last bit; where
//! errors are relative, as far as the C libraries' `pow` and `exp2` are the same.

mod element;
mod exact;
mod plain;
mod regression;
mod relative;
#[cfg(test)]
mod tests;

use super::deflate::Deflate;
use super::error_bounded::Shape;
use super::error_bounded::huffman::Tree;
use super::zstd::Zstd;
use super::{Codec, Context, filled};
use crate::{Cursor, Error, ErrorKind, Result};
use element::{Element, Integer, Real};
use exact::{Integers, Reals, size};

/// SZ codec.
#[derive(Debug)]
pub(super) struct Sz;

/// Oldest version with the stream format of 2.1.12.
const OLDEST: [u8; 3] = [2, 1, 8];
/// Number of elements of a chunk that may be stored unchanged although the parameters do not show it.
const UNCOMPRESSED_ELEMENTS: usize = 20;
/// Size in bytes of the parameters at the start of an integer stream.
const PARAMETER_BYTES: usize = 28;
/// Orders of the elements: unchanged, or as one line.
const ORDER_PLAIN: u8 = 101;
const ORDER_LINE: u8 = 104;

impl Codec for Sz {
    fn id(&self) -> u16 {
        32017
    }

    fn name(&self) -> &'static str {
        "SZ"
    }

    fn can_encode(&self) -> bool {
        false
    }

    fn decode(&self, input: &[u8], output: &mut Vec<u8>, context: &Context<'_>) -> Result<()> {
        let Some(shape) = Shape::new(context.parameters)? else {
            context.room(output, input.len() as u64)?.copy_from_slice(input);
            return Ok(());
        };
        match shape.kind {
            0 => write(input, output, context, &shape, reals::<f32>),
            1 => write(input, output, context, &shape, reals::<f64>),
            2 => write(input, output, context, &shape, integers::<u8>),
            3 => write(input, output, context, &shape, integers::<i8>),
            4 => write(input, output, context, &shape, integers::<u16>),
            5 => write(input, output, context, &shape, integers::<i16>),
            6 => write(input, output, context, &shape, integers::<u32>),
            7 => write(input, output, context, &shape, integers::<i32>),
            8 => write(input, output, context, &shape, integers::<u64>),
            9 => write(input, output, context, &shape, integers::<i64>),
            kind => Err(damaged(format!("elements of an unknown type {kind}"))),
        }
    }
}

/// Decodes the elements with `decode` and appends them to `output`.
fn write<T: Element>(
    input: &[u8],
    output: &mut Vec<u8>,
    context: &Context<'_>,
    shape: &Shape,
    decode: fn(&[u8], &Shape) -> Result<Vec<T>>,
) -> Result<()> {
    let size = shape.count.saturating_mul(T::SIZE_BYTES);
    if size > context.limit {
        return Err(Error::limit("an SZ chunk is larger than the limit"));
    }
    if shape.count == UNCOMPRESSED_ELEMENTS && input.len() == size {
        output.extend_from_slice(input);
        return Ok(());
    }
    // SZ stores the elements unchanged if that takes less space; relative errors may take slightly more.
    let unpacked = unpack(input, size.saturating_mul(2).saturating_add(1 << 20))?;
    let stream = unpacked.as_deref().unwrap_or(input);
    let Some(version) = stream.first_chunk::<3>() else { return Err(damaged("too short")) };
    if *version < OLDEST || !version.starts_with(&[2, 1]) {
        let [major, minor, patch] = version;
        let message = format!("an SZ chunk of version {major}.{minor}.{patch}: expected 2.1.8 to 2.1.12");
        return Err(Error::unsupported(message));
    }
    let values = decode(stream, shape)?;
    T::write(&values, output)
}

/// Undoes the lossless compression, if there is one. Returns at most `limit` bytes.
fn unpack(input: &[u8], limit: usize) -> Result<Option<Vec<u8>>> {
    let context = Context { parameters: &[], expected: None, limit };
    let mut unpacked = Vec::new();
    match input {
        [0x28, 0xb5, 0x2f, 0xfd, ..] => Zstd.decode(input, &mut unpacked, &context)?,
        [0x68, 0x05 | 0x81 | 0xde, ..] | [0x78, 0x01 | 0x5e | 0x9c | 0xda, ..] => {
            Deflate.decode(input, &mut unpacked, &context)?;
        }
        _ => return Ok(None),
    }
    Ok(Some(unpacked))
}

/// Flags at the start of a stream.
#[derive(Debug)]
struct StreamFlags {
    /// All elements are equal.
    same: bool,
    /// Elements are stored unchanged.
    lossless: bool,
    /// Values are clamped to the chunk's minimum and maximum.
    clamped: bool,
    /// Errors are relative to each value; `ratios`: ratios are stored instead of logarithms.
    relative: bool,
    ratios: bool,
    regression: bool,
    /// Size of a size field in bytes.
    size_width: usize,
    order: u8,
}

impl StreamFlags {
    /// Reads the flags, up to the parameters.
    fn read(cursor: &mut Cursor<'_>, parameters: usize) -> Result<Self> {
        cursor.skip(3)?;
        let flags = cursor.u8()?;
        let has = |bit: u8| flags & bit != 0;
        let order = cursor.rest().get(14).copied().unwrap_or_default();
        if !matches!(order, ORDER_PLAIN | ORDER_LINE) || cursor.left() < parameters {
            return Err(Error::unsupported(format!("an SZ chunk of compressor number {order}")));
        }
        Ok(Self {
            same: has(0x01),
            lossless: has(0x10),
            clamped: has(0x04),
            ratios: has(0x08),
            relative: has(0x20),
            regression: has(0x80),
            size_width: if has(0x40) { 8 } else { 4 },
            order,
        })
    }
}

/// Decodes floating-point numbers.
fn reals<T: Real>(stream: &[u8], shape: &Shape) -> Result<Vec<T>> {
    let mut cursor = Cursor::new(stream, "SZ stream", 0);
    let head = StreamFlags::read(&mut cursor, T::PARAMETER_BYTES)?;
    let mut parameters = Cursor::new(cursor.take(T::PARAMETER_BYTES)?, "SZ stream", 0);
    size(&mut cursor, &head)?;
    let line = [shape.count];
    let dims = if head.order == ORDER_LINE { &line } else { shape.dims.as_slice() };
    let mut values = if head.lossless {
        let bytes = cursor.take(shape.count.saturating_mul(T::SIZE_BYTES))?;
        bytes.chunks_exact(T::SIZE_BYTES).map(T::from_big_endian).collect()
    } else if head.same {
        filled(read_be::<T>(&mut cursor)?, shape.count)?
    } else if head.regression {
        regression::decode::<T>(&mut cursor, &head, dims)?
    } else {
        tight::<T>(&mut cursor, &head, dims, shape.count)?
    };
    if head.clamped {
        parameters.skip(20)?;
        let (least, greatest): (T, T) = (read_be(&mut parameters)?, read_be(&mut parameters)?);
        for value in &mut values {
            if *value < least {
                *value = least;
            } else if *value > greatest {
                *value = greatest;
            }
        }
    }
    Ok(values)
}

/// Content of a floating-point stream without regression.
#[derive(Debug)]
struct QuantizedStream {
    codes: Vec<i32>,
    intervals: u32,
    /// Half the width of an interval, or the excess of the ratios' base over 1.
    precision: f64,
    plus_bits: u8,
}

fn tight<T: Real>(
    cursor: &mut Cursor<'_>,
    head: &StreamFlags,
    dims: &[usize],
    count: usize,
) -> Result<Vec<T>> {
    cursor.skip(4)?;
    let mut signs_size = 0;
    if head.relative {
        cursor.skip(1)?;
        size(cursor, head)?;
        signs_size = u32::from_be_bytes(cursor.array()?) as usize;
    }
    let intervals = u32::from_be_bytes(cursor.array()?);
    let median: T = read_be(cursor)?;
    let length = cursor.u8()?;
    let ratios = head.relative && head.ratios;
    let [plus_bits, _] = if ratios { cursor.array()? } else { [0, 0] };
    let precision = f64::from_be_bytes(cursor.array()?);
    let [codes_size, exact_count, exact_size] =
        [size(cursor, head)?, size(cursor, head)?, size(cursor, head)?];
    let lowest: T = if head.relative { read_be(cursor)? } else { T::default() };
    let codes = codes(cursor.take(codes_size)?, count)?;
    let signs = cursor.take(signs_size)?;
    let mut exact = Reals::read::<T>(cursor, length, exact_count, exact_size)?;

    let stored = QuantizedStream { codes, intervals, precision, plus_bits };
    if ratios {
        let mut values = relative::ratios(dims, &stored, exact)?;
        relative::finish_ratios(&mut values, lowest, unpack_signs(signs, count)?.as_deref());
        return Ok(values);
    }
    // Logarithms along four axes are treated as a volume.
    let joined;
    let dims = match *dims {
        [a, b, c, d] if head.relative => {
            joined = [a.saturating_mul(b), c, d];
            joined.as_slice()
        }
        _ => dims,
    };
    let radius = (stored.intervals / 2).cast_signed();
    // SZ does not halve the intervals of single-precision numbers along four axes (a bug).
    let radius = if dims.len() == 4 && T::SIZE_BYTES == 4 { stored.intervals.cast_signed() } else { radius };
    let step = |prediction: T, code: i32| {
        let steps = code.wrapping_sub(radius);
        match dims.len() {
            1 => T::stepped(prediction, steps, precision * 2.0),
            4 => T::from_f64(prediction.to_f64() + f64::from(steps.wrapping_mul(2)) * precision),
            _ => T::stepped(prediction, steps.wrapping_mul(2), precision),
        }
    };
    let mut values =
        plain::fill(dims, &stored.codes, || exact.next::<T>().map(|value| value.sum(median)), step)?;
    if head.relative {
        relative::from_logarithms(&mut values, lowest, unpack_signs(signs, count)?.as_deref());
    }
    Ok(values)
}

/// Decodes a sign byte for each element; `None` if no element is negative.
fn unpack_signs(packed: &[u8], count: usize) -> Result<Option<Vec<u8>>> {
    if packed.is_empty() {
        return Ok(None);
    }
    // SZ itself decodes them as Zstandard even if it wrote zlib.
    let signs = unpack(packed, count)?.filter(|signs| signs.len() == count);
    signs.map(Some).ok_or_else(|| damaged("its signs end early"))
}

/// Decodes integers.
fn integers<T: Integer>(stream: &[u8], shape: &Shape) -> Result<Vec<T>> {
    let mut cursor = Cursor::new(stream, "SZ stream", 0);
    let head = StreamFlags::read(&mut cursor, PARAMETER_BYTES)?;
    cursor.skip(PARAMETER_BYTES)?;
    if head.lossless {
        size(&mut cursor, &head)?;
        let bytes = cursor.take(shape.count.saturating_mul(T::SIZE_BYTES))?;
        return Ok(bytes.chunks_exact(T::SIZE_BYTES).map(T::from_big_endian).collect());
    }
    if head.same {
        size(&mut cursor, &head)?;
        return filled(read_be(&mut cursor)?, shape.count);
    }
    let width = usize::from(cursor.u8()?);
    if width == 0 || width > T::SIZE_BYTES {
        return Err(damaged(format!("exact values of {width} bytes")));
    }
    size(&mut cursor, &head)?;
    cursor.skip(4)?;
    let radius = (u32::from_be_bytes(cursor.array()?) / 2).cast_signed();
    let lowest = i64::from_be_bytes(cursor.array()?);
    let precision = f64::from_be_bytes(cursor.array()?);
    let codes_size = size(&mut cursor, &head)?;
    size(&mut cursor, &head)?;
    let exact_size = size(&mut cursor, &head)?;
    let codes = codes(cursor.take(codes_size)?, shape.count)?;
    let mut exact = Integers::new(cursor.take(exact_size)?, width, lowest);
    let line = [shape.count];
    let dims = if head.order == ORDER_LINE && T::SIZE_BYTES == 2 { &line } else { shape.dims.as_slice() };
    if dims.len() > 4 {
        return Err(Error::unsupported("an SZ chunk of five axes"));
    }
    plain::fill(
        dims,
        &codes,
        || exact.next(),
        |prediction, code| T::stepped(prediction, code.wrapping_sub(radius).wrapping_mul(2), precision),
    )
}

/// Decodes a tree and the codes of `count` elements.
fn codes(bytes: &[u8], count: usize) -> Result<Vec<i32>> {
    let mut cursor = Cursor::new(bytes, "SZ stream", 0);
    let nodes = u32::from_be_bytes(cursor.array()?);
    cursor.skip(4)?;
    Tree::read(&mut cursor, nodes, true)?.decode(cursor.rest(), count)
}

fn read_be<T: Element>(cursor: &mut Cursor<'_>) -> Result<T> {
    cursor.take(T::SIZE_BYTES).map(T::from_big_endian)
}

#[cold]
fn damaged(what: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Filter, format!("a damaged SZ chunk: {what}"))
}
