//! Selections: which elements, in which chunks, and where they go.
//!
//! A [`Choice`] is what a caller asks of a dataspace. [`pieces`] splits it by chunk: each [`Piece`] says which of its chunk's
//! elements go where in the result. [`runs`] is the same for data that lie in one piece, [`Grid`] for
//! data in boxes anywhere, and [`map`] for the sources of a virtual dataset. All of it is arithmetic on runs, done as the iterators are walked: memory is needed for
//! what a caller lists (points, lists of indices, blocks), never for what an extent declares.

mod blocks;
mod choice;
mod grid;
mod line;
mod mapping;
mod pieces;
mod points;
mod program;
mod runs;

pub use blocks::Blocks;
pub use choice::{Axis, Choice};
pub use grid::Grid;
pub use mapping::{Mapped, map};
pub use pieces::{Piece, Pieces, pieces};
pub use program::{Column, Run};
pub use runs::{Runs, runs};

/// Rows of `extent`: how many elements one step along each dimension is. Saturates.
fn strides(extent: &[u64]) -> Vec<u64> {
    let mut strides = vec![1; extent.len()];
    let mut product: u64 = 1;
    for (stride, dim) in strides.iter_mut().zip(extent).rev() {
        *stride = product;
        product = product.saturating_mul(*dim);
    }
    strides
}

#[cfg(test)]
mod tests;
