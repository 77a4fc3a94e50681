//! Shape of a live dataset's chunks.

use crate::backend::Backend;
use crate::datatype::Datatype;
use crate::error::{Result, fail};
use crate::record::{UNLIMITED, byte_size};
use crate::shape::resolution;
use crate::spec::InputInfo;

/// Unit of a function's calls: the whole array, or a chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Chunking {
    /// The function sees whole arrays; the dataset is one chunk.
    Whole,
    /// Blockwise, in the shape that is fastest to read.
    Auto,
    /// Blockwise, in this shape.
    Shape(Vec<u64>),
}

/// Target for the total size in bytes of a block's result and its parts of the inputs, which then stay in the
/// processor's cache.
const BLOCK_BYTES: u64 = 3 << 20;
/// Bounds on the size of a block's result. Larger ones make slices expensive and exceed HDF5's own chunk
/// cache; smaller ones make the cost of calls dominate.
const OUTPUT_BYTES: std::ops::RangeInclusive<u64> = 64 << 10..=1 << 20;
/// Maximum size in bytes of a block for which an input's chunk shape is adopted.
const MAX_INPUT_CHUNK_BYTES: u64 = 16 << 20;
/// Maximum length assumed for a growing dimension when the blocks are chosen.
const MAX_ASSUMED_LENGTH: u64 = 1 << 16;
/// Maximum chunk size: HDF5 1.x addresses a chunk with 32 bits.
const CHUNK_BYTES_LIMIT: u64 = 1 << 32;
/// Maximum number of chunks: more stubs would be a large dataset by themselves.
const MAX_CHUNKS: u64 = 1 << 24;

impl Chunking {
    /// Parses `auto`, `whole` or a shape such as `16x4000`.
    ///
    /// # Errors
    /// `Syntax`.
    pub fn parse(text: &str) -> Result<Self> {
        match text {
            "auto" => Ok(Chunking::Auto),
            "whole" => Ok(Chunking::Whole),
            _ => match text.split('x').map(|n| n.parse().ok().filter(|&n| n > 0)).collect() {
                Some(shape) => Ok(Chunking::Shape(shape)),
                None => fail!(
                    Syntax,
                    "{text:?} is not a chunk shape: write `auto`, `whole` or, for example, `16x4000`"
                ),
            },
        }
    }

    /// Returns whether the function runs once for each chunk.
    pub fn blockwise(&self) -> bool {
        *self != Chunking::Whole
    }

    /// Returns the chunk shape for an output of `dims`, which may grow to `largest`. `inputs` lists the chunk
    /// shapes of the inputs that have the output's shape, where they are chunked.
    ///
    /// # Errors
    /// `Syntax` when a given shape does not fit, `Limit` when a chunk would reach 4 GiB.
    pub fn shape(
        &self,
        dims: &[u64],
        largest: &[u64],
        datatype: &Datatype,
        inputs: &[Option<Vec<u64>>],
    ) -> Result<Vec<u64>> {
        let shape = match self {
            Chunking::Whole => dims.to_vec(),
            Chunking::Auto => auto(dims, largest, datatype, inputs),
            Chunking::Shape(shape) if shape.len() == dims.len() => {
                shape.iter().zip(largest).map(|(&s, &d)| s.min(d)).collect()
            }
            Chunking::Shape(shape) => {
                fail!(
                    Syntax,
                    "the chunk shape {shape:?} has {} dimensions and the dataset has {}",
                    shape.len(),
                    dims.len()
                )
            }
        };
        if byte_size(&shape, datatype) >= CHUNK_BYTES_LIMIT {
            let advice = "attach with `--chunks auto` if the function works on any block of its inputs";
            fail!(Limit, "a chunk of {shape:?} would have 4 GiB or more, which HDF5 cannot store: {advice}")
        }
        let chunks = dims.iter().zip(&shape).try_fold(1u64, |a, (&d, &s)| a.checked_mul(d.div_ceil(s)));
        match chunks {
            Some(n) if n <= MAX_CHUNKS => Ok(shape),
            _ => {
                fail!(Limit, "a dataset of {dims:?} would have more than {MAX_CHUNKS} chunks of {shape:?}")
            }
        }
    }
}

/// Chooses the inputs' chunk shape if they are chunked, so that no input chunk is decoded twice; otherwise
/// full-width bands, so that each block of a contiguous input is contiguous in the file.
fn auto(dims: &[u64], largest: &[u64], datatype: &Datatype, inputs: &[Option<Vec<u64>>]) -> Vec<u64> {
    let fits = |c: &&Vec<u64>| c.len() == dims.len() && byte_size(c, datatype) <= MAX_INPUT_CHUNK_BYTES;
    if let Some(chunk) = inputs.iter().flatten().filter(fits).max_by_key(|c| byte_size(c, datatype)) {
        return chunk.iter().zip(largest).map(|(&c, &d)| c.min(d)).collect();
    }
    let bytes = (BLOCK_BYTES / (1 + inputs.len() as u64)).clamp(*OUTPUT_BYTES.start(), *OUTPUT_BYTES.end());
    let mut left = (bytes / datatype.size() as u64).max(1);
    // A very large dataset gets larger blocks, to limit the number of stubs.
    let dims: Vec<u64> =
        dims.iter().zip(largest).map(|(&d, &most)| d.max(most.min(MAX_ASSUMED_LENGTH))).collect();
    let blocks = dims.iter().fold(1u64, |a, &d| a.saturating_mul(d)) / left;
    left = left.saturating_mul(blocks.div_ceil(1 << 20).max(1));
    let mut shape: Vec<u64> = dims
        .iter()
        .rev()
        .map(|&d| {
            let take = d.min(left).max(1);
            left /= take;
            take
        })
        .collect();
    shape.reverse();
    shape
}

/// Maximum shape of a dataset.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Growth {
    /// Along each axis, the smallest maximum of the inputs that have the dataset's shape.
    AsInputs,
    /// This shape, with [`UNLIMITED`] for unbounded dimensions.
    To(Vec<u64>),
}

impl Growth {
    /// Parses `inputs`, or a shape such as `*x4000`, where `*` is an unbounded dimension.
    ///
    /// # Errors
    /// `Syntax`.
    pub fn parse(text: &str) -> Result<Self> {
        if text == "inputs" {
            return Ok(Growth::AsInputs);
        }
        let dim = |n: &str| if n == "*" { Some(UNLIMITED) } else { n.parse().ok().filter(|&n| n > 0) };
        match text.split('x').map(dim).collect() {
            Some(shape) => Ok(Growth::To(shape)),
            None => fail!(
                Syntax,
                "{text:?} is not a maximum shape: write `inputs`, or a shape such as `*x4000`, where * is unbounded"
            ),
        }
    }

    /// Returns the maximum shape of an output of `dims`; `inputs` are the maximum shapes of the inputs of
    /// that shape.
    ///
    /// # Errors
    /// `Syntax` when the dataset cannot grow to it.
    pub fn largest(&self, dims: &[u64], inputs: &[Vec<u64>], chunking: &Chunking) -> Result<Vec<u64>> {
        let largest = match self {
            Growth::To(shape) => shape.clone(),
            Growth::AsInputs => {
                let least = |axis: usize| inputs.iter().filter_map(|input| input.get(axis)).min().copied();
                (0..dims.len()).zip(dims).map(|(axis, &d)| least(axis).unwrap_or(d)).collect()
            }
        };
        if !chunking.blockwise() {
            fail!(Syntax, "the dataset of a function of whole arrays cannot grow: add `--chunks auto`")
        }
        if largest.len() != dims.len() || largest.iter().zip(dims).any(|(most, d)| most < d) {
            fail!(
                Syntax,
                "the dataset has the shape {}, which cannot grow to this maximum shape",
                resolution(dims)
            )
        }
        if largest == dims {
            fail!(
                Syntax,
                "the dataset cannot grow: its inputs of the shape {} cannot, and no larger maximum shape is given",
                resolution(dims)
            )
        }
        Ok(largest)
    }
}

/// Returns the halo of the blocks of an output of `dims`, one number for each dimension; empty without one. A
/// single requested number applies to all dimensions.
///
/// # Errors
/// `Syntax` when the halo has the wrong rank, the function is an expression or runs on whole arrays, or no
/// dataset among the inputs has the output's shape.
pub fn halo(
    asked: &[u64],
    chunking: &Chunking,
    backend: Backend,
    dims: &[u64],
    inputs: &[InputInfo],
) -> Result<Vec<u64>> {
    if asked.iter().all(|&n| n == 0) {
        return Ok(Vec::new());
    }
    if backend == Backend::Expression {
        fail!(
            Syntax,
            "an expression uses one element of each input and cannot have a halo: write a function, for example in Python"
        )
    }
    if !chunking.blockwise() {
        fail!(Syntax, "a halo needs a function that runs once for each chunk: add `--chunks auto`")
    }
    if !inputs.iter().any(|input| input.dims == dims && input.attribute.is_none()) {
        fail!(Syntax, "no input has the output's shape {}, so a halo has no effect", resolution(dims))
    }
    match asked {
        &[one] => Ok(vec![one; dims.len()]),
        all if all.len() == dims.len() => Ok(all.to_vec()),
        all => {
            fail!(Syntax, "the halo {all:?} has {} dimensions and the dataset has {}", all.len(), dims.len())
        }
    }
}

/// Returns the numbers of all chunks, row-major.
pub fn chunk_numbers(dims: &[u64], shape: &[u64]) -> impl Iterator<Item = Vec<u64>> {
    let counts: Vec<u64> = dims.iter().zip(shape).map(|(&d, &s)| d.div_ceil(s)).collect();
    let mut next = if counts.contains(&0) { None } else { Some(vec![0; counts.len()]) };
    std::iter::from_fn(move || {
        let current = next.take()?;
        let mut following = current.clone();
        for (n, &count) in following.iter_mut().zip(&counts).rev() {
            *n += 1;
            if *n < count {
                next = Some(following);
                break;
            }
            *n = 0;
        }
        Some(current)
    })
}

/// Parses the option `--chunks`.
///
/// # Errors
/// The errors of [`Chunking::parse`].
pub fn from_option(text: Option<&str>) -> Result<Option<Chunking>> {
    text.map(Chunking::parse).transpose().map_err(|e| e.about("--chunks"))
}

/// Parses the option `--maxshape`.
///
/// # Errors
/// The errors of [`Growth::parse`].
pub fn growth(text: Option<&str>) -> Result<Option<Growth>> {
    text.map(Growth::parse).transpose().map_err(|e| e.about("--maxshape"))
}

/// Parses the option `--to`.
///
/// # Errors
/// `Syntax`.
pub fn extent(text: &str) -> Result<Vec<u64>> {
    crate::shape::dimensions(text).map_err(|e| e.about("--to"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::datatype::ElementType;

    fn check(dims: &[u64], inputs: &[Option<Vec<u64>>], expected: &[u64]) {
        let shape = Chunking::Auto.shape(dims, dims, &ElementType::Float32.into(), inputs).unwrap();
        assert_eq!(shape, expected, "{dims:?} {inputs:?}");
        let count: u64 = dims.iter().zip(&shape).map(|(&d, &s)| d.div_ceil(s)).product();
        assert_eq!(chunk_numbers(dims, &shape).count() as u64, count);
    }

    #[test]
    fn automatic_shapes() {
        let contiguous = [None, None];
        check(&[4000, 4000], &contiguous, &[65, 4000]);
        check(&[4000, 4000], &vec![None; 3], &[49, 4000]);
        check(&[4000, 4000], &[], &[65, 4000]);
        check(&[4000, 4000], &vec![None; 50], &[4, 4000]);
        check(&[900, 300], &contiguous, &[873, 300]);
        check(&[10], &[], &[10]);
        check(&[1 << 20], &contiguous, &[1 << 18]);
        check(&[100, 200, 300], &contiguous, &[4, 200, 300]);
        check(&[5, 1 << 20], &contiguous, &[1, 1 << 18]);
        check(&[4000, 4000], &[None, Some(vec![256, 256])], &[256, 256]);
        check(&[100, 100], &[Some(vec![256, 64]), Some(vec![10])], &[100, 64]);
        check(&[100, 4000], &[Some(vec![100_000, 4000]), None], &[65, 4000]);
    }

    #[test]
    fn shapes_of_what_grows() {
        let check =
            |text: &str, dims: &[u64], largest: &[u64], inputs: &[Option<Vec<u64>>], expected: &[u64]| {
                let chunking = Chunking::parse(text).unwrap();
                let shape = chunking.shape(dims, largest, &ElementType::Float32.into(), inputs).unwrap();
                assert_eq!(shape, expected, "{text} {dims:?}");
            };
        check("auto", &[1, 4000], &[u64::MAX, 4000], &[Some(vec![16, 1000])], &[16, 1000]);
        check("auto", &[1, 4000], &[u64::MAX, 4000], &[], &[65, 4000]);
        check("auto", &[1, 4000], &[9, 4000], &[], &[9, 4000]);
        check("auto", &[10], &[u64::MAX], &[], &[1 << 16]);
        check("50x50", &[1, 40], &[u64::MAX, 40], &[], &[50, 40]);
    }

    #[test]
    fn given_shapes() {
        let shape = |text: &str| {
            Chunking::parse(text)?.shape(&[100, 50], &[100, 50], &ElementType::Float64.into(), &[])
        };
        assert_eq!(shape("16x4000").unwrap(), [16, 50]);
        assert_eq!(shape("whole").unwrap(), [100, 50]);
        for bad in ["", "x", "0x5", "16", "16x16x16", "-1x5", "16X16", "99999999999999999999x1"] {
            assert!(shape(bad).is_err(), "{bad}");
        }
        let big = [40_000, 40_000];
        let error = Chunking::Whole.shape(&big, &big, &ElementType::Float32.into(), &[]).unwrap_err();
        assert!(error.to_string().contains("--chunks auto"));
        assert!(Chunking::Shape(vec![1, 1]).shape(&big, &big, &ElementType::Float32.into(), &[]).is_err());
    }

    #[test]
    fn halos() {
        let input = |dims: &[u64]| InputInfo {
            name: "a".into(),
            dims: dims.to_vec(),
            datatype: ElementType::Float32.into(),
            stored: ElementType::Float32.into(),
            attribute: None,
        };
        let check = |asked: &[u64], chunking: &Chunking, backend: Backend, expected: Option<&[u64]>| {
            let found = halo(asked, chunking, backend, &[9, 8], &[input(&[3]), input(&[9, 8])]);
            assert_eq!(found.ok().as_deref(), expected, "{asked:?} {chunking:?}");
        };
        check(&[], &Chunking::Whole, Backend::Lua, Some(&[]));
        check(&[0, 0, 0], &Chunking::Auto, Backend::Lua, Some(&[]));
        check(&[1], &Chunking::Auto, Backend::Python, Some(&[1, 1]));
        check(&[1, 0], &Chunking::Auto, Backend::Cpp, Some(&[1, 0]));
        check(&[1, 0, 1], &Chunking::Auto, Backend::Lua, None);
        check(&[1], &Chunking::Whole, Backend::Lua, None);
        check(&[1], &Chunking::Auto, Backend::Expression, None);
        assert!(halo(&[1], &Chunking::Auto, Backend::Lua, &[9], &[input(&[3])]).is_err());
    }

    #[test]
    fn numbers_are_row_major() {
        let all: Vec<_> = chunk_numbers(&[3, 4], &[2, 2]).collect();
        assert_eq!(all, [[0, 0], [0, 1], [1, 0], [1, 1]]);
    }
}
