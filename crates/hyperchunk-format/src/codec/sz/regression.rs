//! Planes and volumes predicted block by block, by Lorenzo prediction or linear regression, as in SZ 2.

use super::damaged;
use super::element::Real;
use super::exact::size;
use super::{StreamFlags, read_be};
use crate::codec::error_bounded::grid::{Block, Grid, Lorenzo, MAX_AXES};
use crate::codec::error_bounded::huffman::Tree;
use crate::{Cursor, Result};

/// Decodes the values of a stream.
pub(super) fn decode<T: Real>(cursor: &mut Cursor<'_>, head: &StreamFlags, dims: &[usize]) -> Result<Vec<T>> {
    // Four axes are treated as a volume with more planes.
    let joined;
    let dims = match *dims {
        [a, b, c, d] => {
            joined = [a.saturating_mul(b), c, d];
            joined.as_slice()
        }
        [_, _] | [_, _, _] => dims,
        _ => return Err(damaged(format!("regression along {} axes", dims.len()))),
    };
    let block_size = integer(cursor)?;
    if block_size == 0 {
        return Err(damaged("blocks without elements"));
    }
    let precision: T = read_be(cursor)?;
    let intervals = integer(cursor)?;
    let tree = tree(cursor)?;
    let use_mean = cursor.u8()? != 0;
    let mean = Some(T::read(cursor.take(T::SIZE_BYTES)?)).filter(|_| use_mean);

    let cuts: Vec<_> = dims.iter().map(|side| cuts(*side, block_size as usize)).collect();
    let blocks = cuts.iter().fold(1_usize, |product, cuts| product.saturating_mul(cuts.len()));
    let by_lorenzo = cursor.take(blocks.div_ceil(8))?;
    let by_lorenzo =
        by_lorenzo.iter().flat_map(|byte| (0..8).map(move |bit| byte.rotate_left(bit) & 0x80 != 0));
    let by_lorenzo: Vec<bool> = by_lorenzo.take(blocks).collect();
    let planes = by_lorenzo.iter().filter(|lorenzo| !**lorenzo).count();
    let mut coefficients = Vec::new();
    if planes > 0 {
        for _ in 0..=dims.len() {
            coefficients.push(Coefficient::<T>::read(cursor, head, planes)?);
        }
    }
    let exact = usize::try_from(cursor.u64()?).ok().and_then(|count| count.checked_mul(T::SIZE_BYTES));
    let exact = cursor.take(exact.ok_or_else(|| damaged("too many exact values"))?)?;
    let mut exact = exact.chunks_exact(T::SIZE_BYTES).map(T::read);
    let codes = tree.decode(cursor.rest(), dims.iter().product())?;

    let radius = (intervals / 2).cast_signed();
    let value = |prediction: T, code: i32| corrected(prediction, code, radius, precision);
    let mut grid = Grid::<T>::new(dims, 1)?;
    let steps = match dims.len() {
        2 => vec![grid.distance(&[1, 0]), 1],
        _ => vec![grid.distance(&[1, 0, 0]), grid.distance(&[0, 1, 0]), 1],
    };
    let lorenzo = Lorenzo::new(&steps, 1);
    let mut codes = codes.into_iter();
    let mut missing = false;
    let mut exact = || {
        exact.next().unwrap_or_else(|| {
            missing = true;
            T::default()
        })
    };
    let mut block = vec![0; dims.len()];
    for by_lorenzo in by_lorenzo {
        let place = place(&cuts, &block);
        if by_lorenzo {
            grid.each(place, |data, index, _| {
                let code = codes.next().unwrap_or_default();
                match (code, mean) {
                    (code, Some(mean)) if code == radius => mean,
                    (0, _) => exact(),
                    (code, Some(_)) if code < radius => {
                        value(lorenzo.predict(data, index), code.wrapping_add(1))
                    }
                    (code, _) => value(lorenzo.predict(data, index), code),
                }
            });
        } else {
            let function = coefficients.iter_mut().map(Coefficient::next).collect::<Result<Vec<T>>>()?;
            grid.rows(place, |data, row, place| {
                let line = Line::new(&function, place);
                for (to, at) in data.get_mut(row).unwrap_or_default().iter_mut().zip(0_i32..) {
                    *to = match codes.next().unwrap_or_default() {
                        0 => exact(),
                        code => value(line.at(at), code),
                    };
                }
            });
        }
        advance(&mut block, &cuts);
    }
    if missing {
        return Err(damaged("its exact values end early"));
    }
    grid.values()
}

/// Returns a prediction plus its quantized error.
fn corrected<T: Real>(prediction: T, code: i32, radius: i32, precision: T) -> T {
    prediction.sum(T::from_i32(code.wrapping_sub(radius).wrapping_mul(2)).product(precision))
}

/// Linear function along a row of a block: slopes along the other axes first, the constant last.
struct Line<T> {
    before: T,
    slope: T,
    constant: T,
}

impl<T: Real> Line<T> {
    fn new(coefficients: &[T], [_, x, y]: [usize; 3]) -> Self {
        let at = |slope: T, at: usize| slope.product(T::from_i32(i32::try_from(at).unwrap_or(i32::MAX)));
        match *coefficients {
            [a, slope, constant] => Self { before: at(a, y), slope, constant },
            [a, b, slope, constant] => Self { before: at(a, x).sum(at(b, y)), slope, constant },
            _ => Self { before: T::default(), slope: T::default(), constant: T::default() },
        }
    }

    #[inline]
    fn at(&self, place: i32) -> T {
        self.before.sum(self.slope.product(T::from_i32(place))).sum(self.constant)
    }
}

/// Returns the start and the length of each block along a side; the first blocks may be one longer.
fn cuts(side: usize, size: usize) -> Vec<(usize, usize)> {
    let count = side.checked_div(size).unwrap_or_default().max(1);
    let (length, longer) =
        (side.checked_div(count).unwrap_or_default(), side.checked_rem(count).unwrap_or_default());
    let mut start: usize = 0;
    let cut = |number: usize| {
        let length = length.saturating_add(usize::from(number < longer));
        let cut = (start, length);
        start = start.saturating_add(length);
        cut
    };
    (0..count).map(cut).collect()
}

/// Returns the block with these numbers along the axes.
fn place(cuts: &[Vec<(usize, usize)>], block: &[usize]) -> Block {
    let mut place = Block { start: [0; MAX_AXES], sides: [1; MAX_AXES] };
    let to = place.start.iter_mut().zip(place.sides.iter_mut()).rev();
    for ((start, side), (cuts, number)) in to.zip(cuts.iter().zip(block).rev()) {
        (*start, *side) = cuts.get(*number).copied().unwrap_or_default();
    }
    place
}

/// Moves to the next block, last axis fastest.
fn advance(block: &mut [usize], cuts: &[Vec<(usize, usize)>]) {
    for (number, cuts) in block.iter_mut().zip(cuts).rev() {
        *number = number.saturating_add(1);
        if *number < cuts.len() {
            return;
        }
        *number = 0;
    }
}

/// Coefficient of the linear functions, stored as differences between blocks.
struct Coefficient<'a, T> {
    current: T,
    precision: T,
    radius: i32,
    codes: std::vec::IntoIter<i32>,
    exact: std::slice::ChunksExact<'a, u8>,
}

impl<'a, T: Real> Coefficient<'a, T> {
    fn read(cursor: &mut Cursor<'a>, head: &StreamFlags, count: usize) -> Result<Self> {
        let precision = read_be(cursor)?;
        let radius = integer(cursor)?.cast_signed();
        let tree = tree(cursor)?;
        // Eight bytes, of which the header's size width counts.
        let mut stored = Cursor::new(cursor.take(8)?, "SZ stream", 0);
        let length = size(&mut stored, head)?;
        let codes = tree.decode(cursor.rest(), count)?.into_iter();
        cursor.skip(length)?;
        let exact = usize::try_from(integer(cursor)?).ok().and_then(|count| count.checked_mul(T::SIZE_BYTES));
        let exact = cursor.take(exact.ok_or_else(|| damaged("too many exact coefficients"))?)?;
        Ok(Self { current: T::default(), precision, radius, codes, exact: exact.chunks_exact(T::SIZE_BYTES) })
    }

    fn next(&mut self) -> Result<T> {
        let code = self.codes.next().ok_or_else(|| damaged("its coefficients end early"))?;
        self.current = match code {
            0 => T::read(self.exact.next().ok_or_else(|| damaged("its exact coefficients end early"))?),
            code => corrected(self.current, code, self.radius, self.precision),
        };
        Ok(self.current)
    }
}

fn integer(cursor: &mut Cursor<'_>) -> Result<u32> {
    cursor.array().map(u32::from_be_bytes)
}

/// Reads a tree preceded by its size and its number of nodes.
fn tree(cursor: &mut Cursor<'_>) -> Result<Tree> {
    let size = integer(cursor)?;
    let nodes = integer(cursor)?;
    let mut bytes = Cursor::new(cursor.take(size as usize)?, "SZ stream", 0);
    Tree::read(&mut bytes, nodes, true)
}
