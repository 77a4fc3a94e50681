//! ZFP (32013): numeric arrays of one to four dimensions, in blocks of 4 values along each. Source: P.
//! Lindstrom, "Fixed-Rate Compressed Floating-Point Arrays" (2014); zfp's documentation; H5Z-ZFP for the
//! parameters: its version, then the header of a zfp stream, in words of the writer's byte order.

mod array;
mod bits;
mod block;
mod order;
#[cfg(test)]
mod tests;
mod value;

use super::{Codec, Context};
use crate::{Error, ErrorKind, Result};
use array::Array;
use bits::Bits;

/// Version of the block coding, used since zfp 0.5.
const CODING_VERSION: u64 = 5;

/// ZFP codec.
#[derive(Debug)]
pub(super) struct Zfp;

impl Codec for Zfp {
    fn id(&self) -> u16 {
        32013
    }

    fn name(&self) -> &'static str {
        "zfp"
    }

    fn can_encode(&self) -> bool {
        false
    }

    fn decode(&self, input: &[u8], output: &mut Vec<u8>, context: &Context<'_>) -> Result<()> {
        self.decode_over(input, output, context)
    }

    fn decode_over(&self, input: &[u8], output: &mut Vec<u8>, context: &Context<'_>) -> Result<()> {
        let array = header(context.parameters)?;
        array.decode(input, context.room(output, array.size())?)
    }
}

/// Parses the array header in the parameters.
fn header(parameters: &[u32]) -> Result<Array> {
    let Some((versions, words)) = parameters.split_first() else {
        return Err(damaged("the filter parameters, which describe the data, are missing"));
    };
    // Since 1.1, the filter's version (12 bits) is followed by the coding version (4 bits).
    let coding = u64::from(versions >> 12 & 0xf);
    if versions & 0xfff >= 0x110 && coding > CODING_VERSION {
        return Err(newer(coding));
    }
    let little: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let big: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
    let (bytes, swapped) = if big.starts_with(b"zfp") { (big, true) } else { (little, false) };
    let mut bits = Bits::new(&bytes);
    if bits.take(24) != u64::from(u32::from_le_bytes(*b"zfp\0")) {
        return Err(damaged("the filter parameters contain no zfp header"));
    }
    let coding = bits.take(8);
    if coding != CODING_VERSION {
        return Err(newer(coding));
    }
    let array = Array::parse(&mut bits, swapped)?;
    bits.check()?;
    Ok(array)
}

#[cold]
fn newer(coding: u64) -> Error {
    Error::unsupported(format!("zfp's coding version {coding}: expected {CODING_VERSION}"))
}

#[cold]
fn damaged(message: &str) -> Error {
    Error::new(ErrorKind::Filter, message)
}
