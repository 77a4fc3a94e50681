//! Common parts of SZ and SZ3: filter parameters, elements with C's arithmetic, predictions and Huffman
//! codes.
#![cfg_attr(not(all(feature = "sz", feature = "sz3")), allow(dead_code, reason = "one alone needs less"))]

pub(super) mod grid;
pub(super) mod huffman;
pub(super) mod value;

use crate::{Error, ErrorKind, Result};

/// Smallest number of elements to compress; smaller chunks are stored unchanged.
const MIN_ELEMENTS: usize = 20;

/// Elements of a chunk, as described by the filter's parameters.
#[derive(Debug)]
pub(super) struct Shape {
    /// Number of the element type.
    pub(super) kind: u32,
    pub(super) count: usize,
    /// Sides of more than one element; last axis fastest.
    pub(super) dims: Vec<usize>,
}

impl Shape {
    /// Reads the shape. `None` means that the filter left the chunk unchanged.
    pub(super) fn new(parameters: &[u32]) -> Result<Option<Self>> {
        let Some((&[rank, kind], sides)) = parameters.split_first_chunk() else {
            return if parameters.is_empty() { Ok(None) } else { Err(few_parameters()) };
        };
        let mut dims = Vec::new();
        if rank == 1 {
            let [high, low] = *sides.first_chunk().ok_or_else(few_parameters)?;
            dims.push(u64::from(high) << 32 | u64::from(low));
        } else {
            let rank = if (2..=5).contains(&rank) { rank as usize } else { 5 };
            let sides = sides.get(..rank).ok_or_else(few_parameters)?;
            // The fastest side is stored first; zero stands for an absent side.
            dims.extend(sides.iter().take_while(|side| **side != 0).map(|side| u64::from(*side)));
            dims.reverse();
        }
        let dims = dims.into_iter().map(usize::try_from).collect::<Result<Vec<_>, _>>();
        let mut dims = dims.map_err(|_| too_large())?;
        let count =
            dims.iter().try_fold(1_usize, |count, side| count.checked_mul(*side)).ok_or_else(too_large)?;
        dims.retain(|side| *side != 1);
        Ok((count >= MIN_ELEMENTS && !dims.is_empty()).then_some(Self { kind, count, dims }))
    }
}

#[cold]
fn too_large() -> Error {
    Error::limit("a chunk of SZ is larger than the address space")
}

#[cold]
fn few_parameters() -> Error {
    Error::new(ErrorKind::Filter, "the filter SZ has too few parameters")
}
