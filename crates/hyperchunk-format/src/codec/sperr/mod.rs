//! SPERR, filter 32028: floating-point planes and volumes as wavelet coefficients, coded by SPECK, with
//! corrected outliers.
//!
//! Source: Li, Lindstrom, Clyne, *Lossy scientific data compression with SPERR* (2023); the streams of SPERR
//! 0.8 and H5Z-SPERR 0.1 and 0.2. The values are SPERR's own to the last bit.

mod missing;
mod sets;
mod speck;
#[cfg(test)]
mod tests;
mod wavelet;

use super::{Codec, Context, filled};
use crate::{Cursor, Error, ErrorKind, Result};
use missing::MissingValues;

/// SPERR codec.
#[derive(Debug)]
pub(super) struct Sperr;

/// Sides of a plane (the last is 1) or a volume, fastest first.
type Dims = [usize; 3];

/// Size in bytes of the fields before a stream's coefficients: flags, mean, quantum.
const CONDITIONER_BYTES: usize = 17;

impl Codec for Sperr {
    fn id(&self) -> u16 {
        32028
    }

    fn name(&self) -> &'static str {
        "SPERR"
    }

    fn can_encode(&self) -> bool {
        false
    }

    fn decode(&self, input: &[u8], output: &mut Vec<u8>, context: &Context<'_>) -> Result<()> {
        let parameters = Parameters::new(context.parameters)?;
        let count = parameters.dims.iter().try_fold(1_usize, |product, side| product.checked_mul(*side));
        let width = if parameters.double { 8 } else { 4 };
        let Some(count) = count.filter(|count| count.saturating_mul(width) <= context.limit) else {
            return Err(Error::limit("a SPERR chunk is larger than the limit"));
        };
        if count == 0 {
            return Err(damaged("a side of the chunk is zero"));
        }
        let mut cursor = Cursor::new(input, "SPERR stream", 0);
        let missing = if parameters.version == 0 {
            None
        } else {
            MissingValues::read(&mut cursor, count, parameters.double)?
        };
        let values = if parameters.volume {
            volume(cursor.rest(), parameters.dims)?
        } else {
            piece(cursor.rest(), parameters.dims)?
        };
        let size = count.saturating_mul(width);
        let reserved = output.try_reserve_exact(size);
        reserved.map_err(|_| Error::limit(format!("no memory for {size} bytes")))?;
        if parameters.double {
            output.extend(values.iter().flat_map(|value| value.to_le_bytes()));
        } else {
            output.extend(values.iter().flat_map(|value| narrow(*value).to_le_bytes()));
        }
        if let Some(missing) = missing {
            missing.put_back(output, width);
        }
        Ok(())
    }
}

/// Filter parameters of the chunk.
struct Parameters {
    dims: Dims,
    volume: bool,
    double: bool,
    version: u32,
}

impl Parameters {
    fn new(parameters: &[u32]) -> Result<Self> {
        let (Some((&[kind, quality], sides)), Some(2 | 3)) =
            (parameters.split_first_chunk(), parameters.len().checked_sub(2))
        else {
            return Err(damaged(format!("{} filter parameters instead of 4 or 5", parameters.len())));
        };
        let version = kind >> 10 & 63;
        if version > 1 {
            return Err(Error::unsupported(format!(
                "a SPERR chunk in version {version} of the filter: expected 0 or 1"
            )));
        }
        let volume = match kind & 3 {
            2 => false,
            3 => true,
            _ => return Err(damaged("a chunk that is neither a plane nor a volume")),
        };
        let mut dims = match *sides {
            [x, y] if !volume => [x, y, 1],
            [x, y, z] if volume => [x, y, z],
            _ => return Err(damaged("a number of sides that does not match its rank")),
        };
        if quality >> 31 != 0 {
            // "Rank swap": the first and the last axis were exchanged.
            let [x, y, z] = dims;
            dims = if volume { [z, y, x] } else { [y, x, 1] };
        }
        let double = kind >> 4 & 1 == 0;
        Ok(Self { dims: dims.map(|side| side as usize), volume, double, version })
    }
}

/// Decodes a volume from its container, which has its sides and its division into pieces.
fn volume(bytes: &[u8], dims: Dims) -> Result<Vec<f64>> {
    let mut cursor = Cursor::new(bytes, "SPERR stream", 0);
    let version = cursor.u8()?;
    if version != 0 {
        return Err(Error::unsupported(format!("a SPERR stream of version {version}: expected 0")));
    }
    let flags = cursor.u8()?;
    if flags & 0x40 == 0 {
        return Err(damaged("a plane where a volume is expected"));
    }
    let stored = [cursor.u32()?, cursor.u32()?, cursor.u32()?].map(|side| side as usize);
    if stored != dims {
        return Err(damaged(format!("its sides are {stored:?} instead of {dims:?}")));
    }
    let several = flags & 0x10 != 0;
    let side = if several { [cursor.u16()?, cursor.u16()?, cursor.u16()?].map(usize::from) } else { dims };
    let cuts = VolumeDivision::new(dims, side)?;
    let mut lengths = Cursor::new(cursor.take(cuts.total().saturating_mul(4))?, "SPERR stream", 0);
    if cuts.total() == 1 {
        return piece(cursor.take(lengths.u32()? as usize)?, dims);
    }
    let mut volume = filled(0.0, dims.iter().product())?;
    for (start, sides) in cuts.pieces() {
        let values = piece(cursor.take(lengths.u32()? as usize)?, sides)?;
        place(&mut volume, dims, &values, start, sides);
    }
    Ok(volume)
}

/// Division of a volume into pieces.
struct VolumeDivision {
    dims: Dims,
    /// Sides of a piece; the last one along an axis may be longer or shorter.
    side: Dims,
    counts: Dims,
}

impl VolumeDivision {
    fn new(dims: Dims, side: Dims) -> Result<Self> {
        if side.contains(&0) {
            return Err(damaged("pieces without elements"));
        }
        // The remainder becomes a separate piece if it is longer than half a piece.
        let count = |axis: usize| {
            let (total, side) = (dims.get(axis).copied()?, side.get(axis).copied()?);
            let more = total.checked_rem(side)? > side / 2;
            Some(total.checked_div(side)?.saturating_add(usize::from(more)).max(1))
        };
        let counts = [0, 1, 2].map(|axis| count(axis).unwrap_or(1));
        Ok(Self { dims, side, counts })
    }

    fn total(&self) -> usize {
        self.counts.iter().fold(1, |product: usize, count| product.saturating_mul(*count))
    }

    /// Iterates over the pieces: start and sides of each; first axis fastest.
    fn pieces(&self) -> impl Iterator<Item = (Dims, Dims)> {
        let [x, y, z] = self.counts;
        (0..z).flat_map(move |z| (0..y).flat_map(move |y| (0..x).map(move |x| [x, y, z]))).map(
            move |[x, y, z]| {
                let ((x, width), (y, rows), (z, depth)) = (self.cut(0, x), self.cut(1, y), self.cut(2, z));
                ([x, y, z], [width, rows, depth])
            },
        )
    }

    /// Returns the start and the length of a piece along an axis.
    fn cut(&self, axis: usize, number: usize) -> (usize, usize) {
        let of = |dims: &Dims| dims.get(axis).copied().unwrap_or_default();
        let start = number.saturating_mul(of(&self.side));
        let last = number.saturating_add(1) == of(&self.counts);
        (start, if last { of(&self.dims).saturating_sub(start) } else { of(&self.side) })
    }
}

/// Copies a piece to its position in the volume.
fn place(volume: &mut [f64], dims: Dims, values: &[f64], start: Dims, sides: Dims) {
    let ([x, y, z], [width, rows, depth]) = (start, sides);
    let mut lines = values.chunks_exact(width.max(1));
    for plane in (z..).take(depth) {
        for row in (y..).take(rows) {
            let [across, down, _] = dims;
            let first =
                plane.saturating_mul(down).saturating_add(row).saturating_mul(across).saturating_add(x);
            let target = volume.get_mut(first..).and_then(|rest| rest.get_mut(..width));
            if let (Some(target), Some(line)) = (target, lines.next()) {
                target.copy_from_slice(line);
            }
        }
    }
}

/// Decodes one undivided plane or volume.
fn piece(bytes: &[u8], dims: Dims) -> Result<Vec<f64>> {
    let count: usize = dims.iter().product();
    let mut cursor = Cursor::new(bytes, "SPERR stream", 0);
    let mut conditioner = Cursor::new(cursor.take(CONDITIONER_BYTES)?, "SPERR stream", 0);
    if conditioner.u8()? & 1 != 0 {
        // Constant value.
        let stored = conditioner.u64()?;
        if stored != count as u64 || cursor.left() != 0 {
            return Err(damaged(format!("{stored} equal values instead of {count}")));
        }
        return filled(f64::from_bits(conditioner.u64()?), count);
    }
    let mean = f64::from_bits(conditioner.u64()?);
    let quantum = f64::from_bits(conditioner.u64()?);

    let length = usize::try_from(speck::stream_length(cursor.rest())?).unwrap_or(usize::MAX);
    let stream = cursor.take(length.min(cursor.left()))?;
    let [x, y, z] = dims;
    let integers = if z == 1 {
        let (sets, rings) = sets::plane_sets([x, y]);
        speck::decode(stream, count, sets, rings, [1, x])?
    } else {
        speck::decode(stream, count, sets::volume_sets(dims), Vec::new(), [1, x, x.saturating_mul(y)])?
    };
    let mut values: Vec<f64> =
        integers.iter().map(|(magnitude, sign)| quantum * (magnitude as f64) * sign).collect();
    drop(integers);
    wavelet::invert(&mut values, dims);

    // Outliers: corrections where the error exceeded the tolerance. A truncated stream has none.
    if cursor.left() >= speck::HEADER_BYTES && speck::stream_length(cursor.rest())? == cursor.left() as u64 {
        let sets =
            sets::run_sets(u32::try_from(count).map_err(|_| damaged("too many elements for outliers"))?);
        let outliers = speck::decode(cursor.rest(), count, sets, Vec::new(), [1])?;
        let tolerance = quantum / 1.5;
        for (value, (magnitude, sign)) in values.iter_mut().zip(outliers.iter()) {
            match magnitude {
                0 => (),
                1 => *value += 1.1 * (tolerance * sign),
                _ => *value += (magnitude as f64 - 0.25) * (tolerance * sign),
            }
        }
    }
    values.iter_mut().for_each(|value| *value += mean);
    Ok(values)
}

/// Bit reader, lowest bit of each byte first. Returns zeros after the end.
struct Bits<'a> {
    bytes: std::slice::Iter<'a, u8>,
    word: u64,
    left: u32,
    position: u64,
}

impl<'a> Bits<'a> {
    fn new(bytes: &'a [u8]) -> Self {
        Self { bytes: bytes.iter(), word: 0, left: 0, position: 0 }
    }

    fn read(&mut self) -> bool {
        if self.left == 0 {
            let bytes = std::array::from_fn(|_| self.bytes.next().copied().unwrap_or_default());
            self.word = u64::from_le_bytes(bytes);
            self.left = u64::BITS;
        }
        let bit = self.word & 1 != 0;
        self.word >>= 1;
        self.left = self.left.wrapping_sub(1);
        self.position = self.position.wrapping_add(1);
        bit
    }

    /// Returns the number of bits read.
    fn position(&self) -> u64 {
        self.position
    }
}

#[expect(clippy::cast_possible_truncation, reason = "rounded to the nearest, as SPERR does")]
fn narrow(value: f64) -> f32 {
    value as f32
}

#[cold]
fn damaged(what: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Filter, format!("a damaged SPERR chunk: {what}"))
}
