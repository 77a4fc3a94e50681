//! Arrays in frames: each chunk is a grid of blocks, which are stored whole even if they extend past the
//! chunk. Source: README_B2ND_METALAYER of Blosc2.

use super::frame::{Frame, damaged, number, size};
use crate::codec::blosc::State;
use crate::codec::{Context, filled, resize};
use crate::{Cursor, Error, Result};

/// Maximum number of dimensions; Blosc2 itself allows 16.
const MAX_DIMENSIONS: usize = 32;

/// Extents of an array, in elements.
#[derive(Debug)]
pub(super) struct Array {
    shape: Vec<usize>,
    chunk: Vec<usize>,
    block: Vec<usize>,
}

impl Array {
    /// Parses the array description of a metalayer.
    pub(super) fn parse(description: &[u8], frame: &Frame<'_>) -> Result<Self> {
        let mut cursor = Cursor::new(description, "Blosc2 array", 0);
        let [_, _, rank] = cursor.array()?;
        let rank = usize::from(rank);
        if rank == 0 || rank > MAX_DIMENSIONS {
            return Err(Error::unsupported(format!("a Blosc2 array of {rank} dimensions")));
        }
        let mut extent = |marker| {
            // MessagePack array length: in this byte, or in two more.
            let short = cursor.u8()?;
            cursor.skip(if short == 0xdc { 2 } else { 0 })?;
            (0..rank).map(|_| size(number(&mut cursor, marker)?)).collect::<Result<Vec<_>>>()
        };
        let array = Self { shape: extent(0xd3)?, chunk: extent(0xd2)?, block: extent(0xd2)? };
        let blocks = array.block.iter().zip(&array.chunk);
        if array.shape.contains(&0) || blocks.clone().any(|(block, chunk)| *block == 0 || block > chunk) {
            return Err(damaged(&format!("a Blosc2 array of invalid extents: {array:?}")));
        }
        if product(&array.shape, frame.element).is_none() {
            return Err(damaged("a Blosc2 array that is too large"));
        }
        Ok(array)
    }

    /// Checks that the filter's parameters have the same extent.
    pub(super) fn check(&self, parameters: &[u32]) -> Result<()> {
        let Some([rank, extent @ ..]) = parameters.get(7..) else { return Ok(()) };
        let same = usize::try_from(*rank).is_ok_and(|rank| rank == self.shape.len())
            && extent.len() >= self.shape.len()
            && self
                .shape
                .iter()
                .zip(extent)
                .all(|(size, declared)| u32::try_from(*size).is_ok_and(|size| size == *declared));
        if same {
            return Ok(());
        }
        Err(damaged(&format!("a Blosc2 array of {:?}, expected {extent:?}", self.shape)))
    }

    /// Decodes all elements, in row-major order.
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
            return Err(damaged(&format!(
                "a Blosc2 array of {grid:?} chunks in a frame of {}",
                frame.count()
            )));
        }
        let mut place = vec![0_usize; grid.len()];
        for number in 0..frame.count() {
            let start: Vec<usize> =
                place.iter().zip(&self.chunk).map(|(at, size)| at.saturating_mul(*size)).collect();
            State::with(|state| self.decode_chunk(frame, number, &start, state, output))?;
            advance(&mut place, &grid);
        }
        Ok(())
    }

    /// Decodes a chunk to its position `start` in `output`.
    fn decode_chunk(
        &self,
        frame: &Frame<'_>,
        number: usize,
        start: &[usize],
        state: &mut State,
        output: &mut [u8],
    ) -> Result<()> {
        let chunk = frame.chunk(number)?;
        // Numbers of all blocks of the chunk, and of the ones inside the array.
        let stored: Vec<usize> =
            self.chunk.iter().zip(&self.block).map(|(size, block)| size.div_ceil(*block)).collect();
        let within = self.shape.iter().zip(start).map(|(size, start)| size.saturating_sub(*start));
        let within: Vec<usize> = within.zip(&self.chunk).map(|(left, size)| left.min(*size)).collect();
        let needed: Vec<usize> =
            within.iter().zip(&self.block).map(|(size, block)| size.div_ceil(*block)).collect();
        let size = product(&self.block, frame.element);
        if size != Some(chunk.block) || product(&stored, chunk.block) != Some(chunk.size) {
            let message = format!(
                "a Blosc2 chunk of {} bytes in blocks of {} does not match its array",
                chunk.size, chunk.block
            );
            return Err(damaged(&message));
        }
        let first = if chunk.needs_first() {
            let mut first = filled(0, chunk.block)?;
            chunk.decode_block(state, 0, None, &mut first)?;
            Some(first)
        } else {
            None
        };
        let mut block = std::mem::take(&mut state.block);
        resize(&mut block, chunk.block)?;
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
        state.block = block;
        Ok(())
    }

    /// Copies the part of a block inside the array, run by run.
    fn scatter(
        &self,
        block: &[u8],
        place: &[usize],
        within: &[usize],
        start: &[usize],
        element: usize,
        output: &mut [u8],
    ) {
        // Length of a run, strides of block and output in bytes, and the block's origin in the output.
        let (mut run, mut whole) = (element, true);
        let (mut step, mut output_step, mut origin) = (element, element, 0_usize);
        let (mut counts, mut steps) = (Vec::new(), Vec::new());
        let dimensions = place.iter().zip(within).zip(start).zip(&self.block).zip(&self.shape);
        for ((((place, within), start), extent), shape) in dimensions.rev() {
            let corner = place.saturating_mul(*extent);
            let count = within.saturating_sub(corner).min(*extent);
            if whole {
                run = run.saturating_mul(count);
                whole = count == *extent && count == *shape;
            } else {
                counts.push(count);
                steps.push((step, output_step));
            }
            origin = origin.saturating_add(start.saturating_add(corner).saturating_mul(output_step));
            step = step.saturating_mul(*extent);
            output_step = output_step.saturating_mul(*shape);
        }
        counts.reverse();
        steps.reverse();
        let mut at = vec![0_usize; counts.len()];
        for _ in 0..product(&counts, 1).unwrap_or(0) {
            let (from, to) = at.iter().zip(&steps).fold((0, origin), |(from, to), (at, steps)| {
                let (step, output_step) = (at.saturating_mul(steps.0), at.saturating_mul(steps.1));
                (step.saturating_add(from), output_step.saturating_add(to))
            });
            let from = block.get(from..from.saturating_add(run));
            if let (Some(from), Some(to)) = (from, output.get_mut(to..to.saturating_add(run))) {
                to.copy_from_slice(from);
            }
            advance(&mut at, &counts);
        }
    }
}

/// Returns the product of the extents and the size of an element.
fn product(extent: &[usize], element: usize) -> Option<usize> {
    extent.iter().try_fold(element, |product, size| product.checked_mul(*size))
}

/// Moves to the next position in row-major order.
fn advance(place: &mut [usize], extent: &[usize]) {
    for (at, size) in place.iter_mut().zip(extent).rev() {
        *at = at.saturating_add(1);
        if *at < *size {
            return;
        }
        *at = 0;
    }
}
