//! Volumes predicted block by block as in SZ 2: Lorenzo prediction or linear regression, in single precision.

use super::quantizer::{Indices, Quantizer};
use super::{damaged, huffman};
use crate::codec::error_bounded::grid::{Grid, Lorenzo};
use crate::codec::error_bounded::value::Value;
use crate::codec::with_room;
use crate::{Cursor, Result};

/// Midpoint of the quantized regression coefficients; 0 marks an exact one.
const RADIUS: i32 = 32768;

/// Coefficients of a block.
type Plane = [f32; 4];

pub(super) fn decode<T: Value>(cursor: &mut Cursor<'_>, dims: &[usize], output: &mut Vec<u8>) -> Result<()> {
    // C structure with its padding.
    let size = cursor.u32()? as usize;
    let axes = cursor.u32()?;
    cursor.skip(4)?;
    let margin = cursor.u32()?;
    cursor.skip(4)?;
    let constant = f32::from_bits(cursor.u32()?);
    let linear = f32::from_bits(cursor.u32()?);
    cursor.skip(16)?;
    // Error bound, which the quantizer repeats.
    cursor.skip(8)?;
    let mean = cursor.u8()? != 0;
    let mean = Some(T::read(cursor.take(T::SIZE_BYTES)?)).filter(|_| mean);
    if size < 2 || margin != 2 {
        return Err(damaged(format!("blocks of {size} elements with a margin of {margin}")));
    }
    let blocks = dims.iter().fold(1, |product: usize, side| product.saturating_mul(side.div_ceil(size)));
    let planes = usize::try_from(cursor.u64()?).ok().filter(|count| *count <= blocks);
    let planes = planes.ok_or_else(|| damaged("more coefficients than blocks have"))?;
    let selection = huffman(cursor, blocks)?;
    let planes = if planes == 0 { Vec::new() } else { read_planes(cursor, planes, [linear, constant])? };
    let mut quantizer = Quantizer::read::<T>(cursor)?;
    let mut indices = Indices::read(cursor, dims.iter().product())?;

    let mut grid = Grid::<T>::new(dims, 2)?;
    let [x, y, z] = [[1, 0, 0], [0, 1, 0], [0, 0, 1]].map(|back| grid.distance(&back));
    let lorenzo = |layers| match (axes, layers) {
        (3, _) => Lorenzo::new(&[x, y, z], layers),
        (2, 1) => Lorenzo::new(&[x, z], 1),
        (2, _) => Lorenzo::new(&[z, x], 2),
        _ => Lorenzo::new(&[z], layers),
    };
    let (one_layer, two_layers) = (lorenzo(1), lorenzo(2));
    let mut planes = planes.into_iter();
    for (block, kind) in grid.blocks(size).zip(selection) {
        if kind == 1 {
            let [a, b, c, d] = planes.next().ok_or_else(|| damaged("its coefficients end early"))?;
            grid.each(block, |_, _, [_, i, j, k]| {
                let prediction = a * (i as f32) + b * (j as f32) + c * (k as f32) + d;
                quantizer.recover(T::from_f32(prediction), indices.next())
            });
            continue;
        }
        let lorenzo = if kind == 2 { &two_layers } else { &one_layer };
        grid.each(block, |data, index, _| {
            let stored = indices.next();
            match mean {
                Some(mean) if stored == quantizer.radius => mean,
                Some(_) if stored > quantizer.radius => {
                    quantizer.recover(lorenzo.predict(data, index), stored.wrapping_sub(1))
                }
                _ => quantizer.recover(lorenzo.predict(data, index), stored),
            }
        });
    }
    quantizer.check()?;
    T::write(&grid.values()?, output)
}

/// Reads the coefficients of `count` blocks, given the error bounds of the linear ones and of the constant.
fn read_planes(cursor: &mut Cursor<'_>, count: usize, [linear, constant]: [f32; 2]) -> Result<Vec<Plane>> {
    let exact = usize::try_from(cursor.u64()?).ok().and_then(|count| count.checked_mul(4));
    let exact = cursor.take(exact.ok_or_else(|| damaged("too many exact coefficients"))?)?;
    let mut exact = exact.as_chunks::<4>().0.iter().map(|bytes| f32::from_le_bytes(*bytes));
    let indices = huffman(cursor, count.saturating_mul(4))?;
    let mut plane: Plane = [0.0; 4];
    let mut planes = with_room(count)?;
    for indices in indices.as_chunks::<4>().0 {
        for ((coefficient, index), bound) in
            plane.iter_mut().zip(indices).zip([linear, linear, linear, constant])
        {
            *coefficient = match index {
                0 => exact.next().ok_or_else(|| damaged("its exact coefficients end early"))?,
                index => {
                    let steps = index.wrapping_sub(RADIUS).wrapping_mul(2);
                    f32::from_f64(f64::from(*coefficient) + f64::from(steps) * f64::from(bound))
                }
            };
        }
        planes.push(plane);
    }
    Ok(planes)
}
