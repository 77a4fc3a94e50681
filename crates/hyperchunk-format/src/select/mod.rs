//! Selections: the selected elements, their chunks, and their positions in the result.
//!
//! A caller selects by a [`Selection`]. [`chunk_selections`] splits it by chunk: each [`ChunkSelection`] maps
//! elements of its chunk to positions in the result. [`runs`] does the same for contiguous data, [`Grid`] for
//! data in boxes of any position, and [`map`] for the sources of a virtual dataset. All are lazy iterators
//! over runs: memory use grows with the lists of a caller (points, lists of indices, blocks), never with a
//! declared extent.

mod blocks;
mod chunk_selections;
mod grid;
mod line;
mod mapping;
mod points;
mod program;
mod runs;
mod selection;

pub use blocks::Blocks;
pub use chunk_selections::{ChunkSelection, ChunkSelections, chunk_selections};
pub use grid::Grid;
pub use mapping::{MappedSelection, map};
pub use program::{Column, Run};
pub use runs::{Runs, runs};
pub use selection::{Axis, Selection};

/// Returns the row-major stride of each dimension in elements. Saturates.
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
