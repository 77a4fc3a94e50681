//! Scale-offset (6): the minimum, and the differences from it in as few bits as the range needs; floats are
//! first scaled by a power of ten. Source: the comments of HDF5's H5Zscaleoffset.c.

mod encode;

use super::bits::{Order, check_length, unpack};
use super::{Codec, Context, EncodeContext, EncodeOutcome};
use crate::{Error, ErrorKind, Result};

/// Size of the header, of which only 13 bytes are used.
const HEADER_BYTES: usize = 21;

/// Scale-offset codec.
#[derive(Debug)]
pub(super) struct ScaleOffset;

impl Codec for ScaleOffset {
    fn id(&self) -> u16 {
        6
    }

    fn name(&self) -> &'static str {
        "scaleoffset"
    }

    fn decode(&self, input: &[u8], output: &mut Vec<u8>, context: &Context<'_>) -> Result<()> {
        self.decode_over(input, output, context)
    }

    fn decode_over(&self, input: &[u8], output: &mut Vec<u8>, context: &Context<'_>) -> Result<()> {
        if self.kept(input, context)?.is_some() {
            context.room(output, input.len() as u64)?.copy_from_slice(input);
            return Ok(());
        }
        let parameters = Parameters::new(context.parameters)?;
        let size = u64::from(parameters.count).wrapping_mul(parameters.size.into());
        decode(input, context.room(output, size)?, &parameters)
    }

    fn kept(&self, input: &[u8], context: &Context<'_>) -> Result<Option<usize>> {
        // Integers that keep all their bits are stored unchanged, without a header.
        Ok(Parameters::new(context.parameters)?.untouched.then_some(input.len()))
    }

    fn encode(
        &self,
        input: &[u8],
        output: &mut Vec<u8>,
        context: &EncodeContext<'_>,
    ) -> Result<EncodeOutcome> {
        let parameters = Parameters::new(context.parameters)?;
        if parameters.untouched {
            return Ok(EncodeOutcome::Same);
        }
        encode::encode(input, output, &parameters, context)
    }
}

#[derive(Debug)]
struct Parameters {
    count: u32,
    size: u32,
    order: Order,
    kind: Kind,
    fill: Option<u64>,
    untouched: bool,
    /// For integers: signedness, and the requested number of bits, unless it is to be determined.
    signed: bool,
    bits: Option<u32>,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Integer,
    /// Floating-point type, with the exponent of ten of its scale.
    Float(i32),
}

impl Parameters {
    fn new(parameters: &[u32]) -> Result<Self> {
        let wrong =
            |message: &str| Error::new(ErrorKind::Filter, format!("invalid filter parameters: {message}"));
        let Some(&[scale, factor, count, class, size, sign, order, fill, low, high, ..]) =
            parameters.first_chunk::<10>()
        else {
            return Err(wrong("too few"));
        };
        let factor = factor.cast_signed();
        let bits = i32::try_from(size).ok().and_then(|size| size.checked_mul(8)).unwrap_or(i32::MAX);
        let kind = match (class, scale, size) {
            (0, 2, 1 | 2 | 4 | 8) if factor <= bits => Kind::Integer,
            (1, 0, 4 | 8) => Kind::Float(factor),
            (1, 1, _) => {
                return Err(Error::unsupported(
                    "scaling of floats by powers of two, as libhdf5 has never had",
                ));
            }
            _ => return Err(wrong("an unknown type or scaling")),
        };
        let order = match order {
            0 => Order::Little,
            1 => Order::Big,
            _ => return Err(wrong("an unknown byte order")),
        };
        let fill = (fill != 0).then_some(u64::from(low) | (u64::from(high) << 32));
        let untouched = matches!(kind, Kind::Integer) && factor == bits;
        let signed = sign != 0;
        let fixed_bits = u32::try_from(factor).ok().filter(|bits| *bits > 0);
        Ok(Self { count, size, order, kind, fill, untouched, signed, bits: fixed_bits })
    }
}

/// Decodes `output`, whose length must match the parameters.
fn decode(input: &[u8], output: &mut [u8], parameters: &Parameters) -> Result<()> {
    let damaged = |message: &str| Error::new(ErrorKind::Filter, message);
    let Some((header, packed)) = input.split_first_chunk::<HEADER_BYTES>() else {
        return Err(damaged("a chunk too short for its header"));
    };
    let [a, b, c, d, width, minimum @ ..] = *header;
    let bits = u32::from_le_bytes([a, b, c, d]);
    let minimum =
        minimum.iter().take(width.min(8).into()).rev().fold(0, |value, byte| (value << 8) | u64::from(*byte));
    let Parameters { count, size, order, fill, .. } = *parameters;
    let whole = size.wrapping_mul(8);
    if bits > whole {
        return Err(damaged("more bits than the type has"));
    }
    check_length(packed, count, bits.into())?;
    if bits == whole {
        // In this case the bytes are in the writing machine's order, assumed to be little-endian, as in
        // libhdf5 on such machines.
        output.iter_mut().zip(packed).for_each(|(to, from)| *to = *from);
        if order == Order::Big {
            let size = usize::try_from(size).unwrap_or(1).max(1);
            output.chunks_exact_mut(size).for_each(<[u8]>::reverse);
        }
        return Ok(());
    }
    let size = usize::try_from(size).unwrap_or(8);
    let (packed, elements) = ((packed, 0, bits), (output, size, order));
    // All ones stand for the fill value; with 0 bits, every element is the fill value.
    let ones = 1_u64.wrapping_shl(bits).wrapping_sub(1);
    match (parameters.kind, fill) {
        (Kind::Integer, Some(fill)) => {
            unpack(packed, elements, |value| if value == ones { fill } else { value.wrapping_add(minimum) })
        }
        (Kind::Integer, None) => unpack(packed, elements, |value| value.wrapping_add(minimum)),
        (Kind::Float(exponent), fill) => {
            // Without a fill value, a number that never occurs stands for it.
            let (ones, fill) = fill.map_or((u64::MAX, 0), |fill| (ones, fill));
            if size == 4 {
                let (minimum, scale) = (f32::from_bits(low(minimum)), power_of_ten_32(exponent));
                unpack(packed, elements, |value| {
                    let scaled = low(value).cast_signed() as f32 / scale + minimum;
                    if value == ones { fill } else { scaled.to_bits().into() }
                });
            } else {
                let (minimum, scale) = (f64::from_bits(minimum), power_of_ten_64(exponent));
                unpack(packed, elements, |value| {
                    let scaled = value.cast_signed() as f64 / scale + minimum;
                    if value == ones { fill } else { scaled.to_bits() }
                });
            }
        }
    }
    Ok(())
}

fn low(value: u64) -> u32 {
    let [a, b, c, d, ..] = value.to_le_bytes();
    u32::from_le_bytes([a, b, c, d])
}

/// Returns a power of 10 from the system's `powf`, as in libhdf5. With a constant base, the compiler would
/// substitute another function.
fn power_of_ten_32(exponent: i32) -> f32 {
    std::hint::black_box(10_f32).powf(exponent as f32)
}

/// Returns a power of 10 as [`power_of_ten_32`] does.
fn power_of_ten_64(exponent: i32) -> f64 {
    std::hint::black_box(10_f64).powf(exponent.into())
}

#[cfg(test)]
mod tests;
