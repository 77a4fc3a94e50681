//! Arrays in frames: each chunk is a grid of blocks, which are stored whole even where they reach beyond the chunk. Source:
//! README_B2ND_METALAYER of Blosc2.

use super::frame::{Frame, damaged, number, size};
use crate::codec::Context;
use crate::codec::blosc::State;
use crate::{Cursor, Error, Result};

/// Blosc2 allows 16.
const MOST_DIMENSIONS: usize = 32;

/// The extents of an array, in elements.
#[derive(Debug)]
pub(super) struct Array {
    shape: Vec<usize>,
    chunk: Vec<usize>,
    block: Vec<usize>,
}

impl Array {
    /// The array that a metalayer describes.
    pub(super) fn parse(description: &[u8], frame: &Frame<'_>) -> Result<Self> {
        let mut cursor = Cursor::new(description, "Blosc2 array", 0);
        let [_, _, rank] = cursor.array()?;
        let rank = usize::from(rank);
        if rank == 0 || rank > MOST_DIMENSIONS {
            return Err(Error::unsupported(format!("a Blosc2 array of {rank} dimensions")));
        }
        let mut extent = |marker| {
            // The number of elements: in this byte, or in two more.
            let short = cursor.u8()?;
            cursor.skip(if short == 0xdc { 2 } else { 0 })?;
            (0..rank).map(|_| size(number(&mut cursor, marker)?)).collect::<Result<Vec<_>>>()
        };
        let array = Self { shape: extent(0xd3)?, chunk: extent(0xd2)?, block: extent(0xd2)? };
        let blocks = array.block.iter().zip(&array.chunk);
        if array.shape.contains(&0) || blocks.clone().any(|(block, chunk)| *block == 0 || block > chunk) {
            return Err(damaged(&format!("a Blosc2 array of impossible extents: {array:?}")));
        }
        if product(&array.shape, frame.element).is_none() {
            return Err(damaged("a Blosc2 array that is too large"));
        }
        Ok(array)
    }

    /// Fails if the filter's parameters tell another extent.
    pub(super) fn check(&self, parameters: &[u32]) -> Result<()> {
        let Some([rank, extent @ ..]) = parameters.get(7..) else { return Ok(()) };
        let same = usize::try_from(*rank).is_ok_and(|rank| rank == self.shape.len())
            && extent.len() >= self.shape.len()
            && self
                .shape
                .iter()
                .zip(extent)
                .all(|(size, told)| u32::try_from(*size).is_ok_and(|size| size == *told));
        if same {
            return Ok(());
        }
        Err(damaged(&format!("a Blosc2 array of {:?} where {extent:?} is expected", self.shape)))
    }

    /// All elements, in row-major order.
    pub(super) fn decode(
        &self,
        frame: &Frame<'_>,
        output: &mut Vec<u8>,
        context: &Context<'_>,
    ) -> Result<()> {
        let total = product(&self.shape, frame.element).unwrap_or(usize::MAX);
        let output = context.room(output, total as u64)?;
        let grid: Vec<usize> =
            self.shape.iter().zip(&self.chunk).map(|(size, chunk)| size.div_ceil(*chunk)).collect();
        if product(&grid, 1) != Some(frame.count()) {
            return Err(damaged(&format!("a Blosc2 array of {grid:?} chunks has {}", frame.count())));
        }
        let mut state = State::default();
        let mut place = vec![0_usize; grid.len()];
        for number in 0..frame.count() {
            let start: Vec<usize> =
                place.iter().zip(&self.chunk).map(|(at, size)| at.saturating_mul(*size)).collect();
            self.decode_chunk(frame, number, &start, &mut state, output)?;
            advance(&mut place, &grid);
        }
        Ok(())
    }

    /// Puts a chunk to its place in `output`, which `start` tells.
    fn decode_chunk(
        &self,
        frame: &Frame<'_>,
        number: usize,
        start: &[usize],
        state: &mut State,
        output: &mut [u8],
    ) -> Result<()> {
        let chunk = frame.chunk(number)?;
        // All blocks that the chunk has, and those that lie within the array.
        let stored: Vec<usize> =
            self.chunk.iter().zip(&self.block).map(|(size, block)| size.div_ceil(*block)).collect();
        let within = self.shape.iter().zip(start).map(|(size, start)| size.saturating_sub(*start));
        let within: Vec<usize> = within.zip(&self.chunk).map(|(left, size)| left.min(*size)).collect();
        let needed: Vec<usize> =
            within.iter().zip(&self.block).map(|(size, block)| size.div_ceil(*block)).collect();
        let size = product(&self.block, frame.element);
        if size != Some(chunk.block) || product(&stored, chunk.block) != Some(chunk.size) {
            let message = format!("a Blosc2 chunk of {} bytes in blocks of {}", chunk.size, chunk.block);
            return Err(damaged(&message));
        }
        let first = if chunk.needs_first() {
            let mut first = vec![0; chunk.block];
            chunk.decode_block(state, 0, None, &mut first)?;
            Some(first)
        } else {
            None
        };
        let mut block = vec![0; chunk.block];
        let mut place = vec![0_usize; needed.len()];
        for _ in 0..product(&needed, 1).unwrap_or(0) {
            let number = place
                .iter()
                .zip(&stored)
                .fold(0_usize, |number, (at, count)| number.saturating_mul(*count).saturating_add(*at));
            let first = first.as_deref().filter(|_| number != 0);
            chunk.decode_block(state, number, first, &mut block)?;
            self.scatter(&block, &place, &within, start, frame.element, output);
            advance(&mut place, &needed);
        }
        Ok(())
    }

    /// Copies the part of a block that lies within the array, row by row.
    fn scatter(
        &self,
        block: &[u8],
        place: &[usize],
        within: &[usize],
        start: &[usize],
        element: usize,
        output: &mut [u8],
    ) {
        // For each dimension: where the block starts in the chunk, and how much of it counts.
        let corner: Vec<usize> =
            place.iter().zip(&self.block).map(|(at, size)| at.saturating_mul(*size)).collect();
        let counts = within.iter().zip(&corner).map(|(size, corner)| size.saturating_sub(*corner));
        let counts: Vec<usize> = counts.zip(&self.block).map(|(left, size)| left.min(*size)).collect();
        let Some((last, rows)) = counts.split_last() else { return };
        let row = last.saturating_mul(element);
        let offset = |at: &[usize], extent: &[usize], from: &[usize], corner: &[usize]| {
            let index = at.iter().chain(std::iter::once(&0)).zip(from).zip(corner);
            let index = index.map(|((at, from), corner)| at.saturating_add(*from).saturating_add(*corner));
            let linear = index
                .zip(extent)
                .fold(0_usize, |linear, (at, size)| linear.saturating_mul(*size).saturating_add(at));
            linear.saturating_mul(element)
        };
        let zeros = vec![0_usize; counts.len()];
        let mut at = vec![0_usize; rows.len()];
        for _ in 0..product(rows, 1).unwrap_or(0) {
            let from = offset(&at, &self.block, &zeros, &zeros);
            let to = offset(&at, &self.shape, start, &corner);
            let from = block.get(from..from.saturating_add(row));
            let to = output.get_mut(to..to.saturating_add(row));
            if let (Some(from), Some(to)) = (from, to) {
                to.copy_from_slice(from);
            }
            advance(&mut at, rows);
        }
    }
}

/// The product of extents and the size of an element.
fn product(extent: &[usize], element: usize) -> Option<usize> {
    extent.iter().try_fold(element, |product, size| product.checked_mul(*size))
}

/// The next place in row-major order.
fn advance(place: &mut [usize], extent: &[usize]) {
    for (at, size) in place.iter_mut().zip(extent).rev() {
        *at = at.saturating_add(1);
        if *at < *size {
            return;
        }
        *at = 0;
    }
}
