//! SZ3, filter 32024: quantized prediction errors as Huffman codes, in Zstandard.
//!
//! Source: Zhao et al., *Optimizing error-bounded lossy compression for scientific data by dynamic spline
//! interpolation* (2021); the streams of SZ3 3.1. The values are SZ3's own to the last bit.

mod blocks;
mod fast;
mod interpolation;
mod quantizer;
#[cfg(test)]
mod tests;

use super::error_bounded::Shape;
use super::error_bounded::huffman::Tree;
use super::error_bounded::value::Value;
use super::{Codec, Context, zstd};
use crate::{Cursor, Error, ErrorKind, Result};

/// SZ3 codec.
#[derive(Debug)]
pub(super) struct Sz3;

/// Magic number of streams from SZ3 3.2 on.
const MAGIC: u32 = 0xf342_f310;

impl Codec for Sz3 {
    fn id(&self) -> u16 {
        32024
    }

    fn name(&self) -> &'static str {
        "SZ3"
    }

    fn can_encode(&self) -> bool {
        false
    }

    fn decode(&self, input: &[u8], output: &mut Vec<u8>, context: &Context<'_>) -> Result<()> {
        if let Some((&[magic, version], _)) = input.as_chunks::<4>().0.split_first_chunk::<2>()
            && u32::from_le_bytes(magic) == MAGIC
        {
            let [_, patch, minor, major] = version;
            let message = format!("an SZ3 chunk of version {major}.{minor}.{patch}: expected 3.1");
            return Err(Error::unsupported(message));
        }
        let Some(Shape { kind, count, .. }) = Shape::new(context.parameters)? else {
            context.room(output, input.len() as u64)?.copy_from_slice(input);
            return Ok(());
        };
        match kind {
            0 => decode::<f32>(input, output, context, count),
            1 => decode::<f64>(input, output, context, count),
            2 => decode::<u8>(input, output, context, count),
            3 => decode::<i8>(input, output, context, count),
            4 => decode::<u16>(input, output, context, count),
            5 => decode::<i16>(input, output, context, count),
            6 => decode::<u32>(input, output, context, count),
            7 => decode::<i32>(input, output, context, count),
            8 => decode::<u64>(input, output, context, count),
            9 => decode::<i64>(input, output, context, count),
            kind => Err(damaged(format!("elements of an unknown type {kind}"))),
        }
    }
}

/// Relevant part of the configuration at the end of a stream.
struct Configuration {
    /// Sides; last axis fastest.
    dims: Vec<usize>,
    algorithm: u8,
    error_bound: f64,
    lorenzo: bool,
    lorenzo2: bool,
    regression: bool,
    regression2: bool,
}

impl Configuration {
    /// Reads the configuration; also returns the stream without it.
    fn read(input: &[u8]) -> Result<(Self, &[u8])> {
        let Some((rest, size)) = input.split_last_chunk() else { return Err(damaged("too short")) };
        let start =
            usize::try_from(u32::from_le_bytes(*size)).ok().and_then(|size| rest.len().checked_sub(size));
        let (stream, configuration) = start
            .and_then(|start| rest.split_at_checked(start))
            .ok_or_else(|| damaged("a configuration longer than the chunk"))?;
        let mut cursor = Cursor::new(configuration, "SZ3 configuration", 0);
        let rank = cursor.u8()?;
        if !(1..=4).contains(&rank) {
            return Err(damaged(format!("{rank} axes")));
        }
        let side = |cursor: &mut Cursor<'_>| {
            let side = usize::try_from(cursor.u64()?).ok().filter(|side| *side != 0);
            side.ok_or_else(|| damaged("a side without elements"))
        };
        let dims = (0..rank).map(|_| side(&mut cursor)).collect::<Result<Vec<_>>>()?;
        cursor.skip(8)?;
        let algorithm = cursor.u8()?;
        cursor.skip(1)?;
        let error_bound = f64::from_bits(cursor.u64()?);
        cursor.skip(8)?;
        let mut flag = || cursor.u8().map(|flag| flag != 0);
        let [lorenzo, lorenzo2, regression, regression2] = [flag()?, flag()?, flag()?, flag()?];
        // Tuning parameters, of which each algorithm stores its own; then whether several threads were used.
        cursor.skip(24)?;
        if cursor.u8()? != 0 {
            return Err(Error::unsupported("an SZ3 chunk that was compressed in several threads"));
        }
        Ok((Self { dims, algorithm, error_bound, lorenzo, lorenzo2, regression, regression2 }, stream))
    }
}

fn decode<T: Value>(input: &[u8], output: &mut Vec<u8>, context: &Context<'_>, count: usize) -> Result<()> {
    if count.saturating_mul(T::SIZE_BYTES) > context.limit {
        return Err(Error::limit("an SZ3 chunk is larger than the limit"));
    }
    let (configuration, stream) = Configuration::read(input)?;
    let dims = &configuration.dims;
    if dims.iter().try_fold(1, |product: usize, side| product.checked_mul(*side)) != Some(count) {
        return Err(damaged(format!("its sides are {dims:?}, which do not match {count} elements")));
    }
    let stream = unpack(stream, count, context)?;
    let mut cursor = Cursor::new(&stream, "SZ3 stream", 0);
    if configuration.error_bound == 0.0 {
        output.extend_from_slice(cursor.take(count.saturating_mul(T::SIZE_BYTES))?);
        return Ok(());
    }
    match configuration.algorithm {
        0 if dims.len() == 3 && !configuration.regression2 => fast::decode::<T>(&mut cursor, dims, output),
        0 => blocks::decode::<T>(&mut cursor, &configuration, output),
        2 => interpolation::decode::<T>(&mut cursor, dims, count, output),
        algorithm => Err(damaged(format!("an unknown algorithm {algorithm}"))),
    }
}

/// Undoes Zstandard.
fn unpack(stream: &[u8], count: usize, context: &Context<'_>) -> Result<Vec<u8>> {
    let mut cursor = Cursor::new(stream, "SZ3 stream", 0);
    let size = cursor.u64()?;
    // An element may take a value, a separate code with a node in a tree, and a share of the regression.
    let limit = count.saturating_mul(64).saturating_add(1 << 16);
    let mut unpacked = Vec::new();
    let to = Context { limit, ..*context }.room(&mut unpacked, size)?;
    if zstd::decompress(cursor.rest(), to)? as u64 != size {
        return Err(damaged(format!("{size} bytes were packed, and fewer came out")));
    }
    Ok(unpacked)
}

/// Decodes a Huffman tree and `count` values.
fn huffman(cursor: &mut Cursor<'_>, count: usize) -> Result<Vec<i32>> {
    let offset = cursor.u32()?.cast_signed();
    let nodes = u32::from_be_bytes(cursor.array()?);
    // Number of possible values.
    cursor.skip(4)?;
    let tree = Tree::read(cursor, nodes, false)?;
    let length = cursor.u64()?;
    let mut values = tree.decode(cursor.rest(), count)?;
    values.iter_mut().for_each(|value| *value = value.wrapping_add(offset));
    if !tree.is_constant() {
        cursor.skip(usize::try_from(length).unwrap_or(usize::MAX))?;
    }
    Ok(values)
}

/// Checks the sides, which each algorithm stores a second time.
fn check_dims(cursor: &mut Cursor<'_>, dims: &[usize]) -> Result<()> {
    for side in dims {
        if cursor.u64()? != *side as u64 {
            return Err(damaged("its two copies of the sides differ"));
        }
    }
    Ok(())
}

#[cold]
fn damaged(what: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Filter, format!("a damaged SZ3 chunk: {what}"))
}
