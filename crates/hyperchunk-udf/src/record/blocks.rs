//! Blocks of a live dataset: the output of one evaluation, and the parts of its inputs.

use super::{Record, Slot, byte_size};
use crate::backend::Backend;
use crate::error::{Error, ErrorKind, Result, fail};
use hyperchunk_expression::{as_output_bytes, copy};
use std::mem::MaybeUninit;
use std::ops::Range;

/// Block of a dataset: its offset and its shape.
pub type Block = (Vec<u64>, Vec<u64>);

impl Record {
    /// Returns whether this input is cut to the computed block, instead of read whole.
    pub fn is_cut(&self, input: &Slot) -> bool {
        self.blockwise
            && input.dims == self.output.dims
            && !self.uncut.contains(&input.name)
            && !self.attributes.contains_key(&input.name)
    }

    /// Returns the block of chunk number `chunk` of the output, clipped at the edges.
    ///
    /// # Errors
    /// `Invalid` when there is no such chunk.
    pub fn block(&self, chunk: &[u64]) -> Result<Block> {
        if chunk.len() != self.output.dims.len() {
            fail!(Invalid, "the stub has rank {}, but the record {}", chunk.len(), self.output.dims.len())
        }
        let mut offset = Vec::with_capacity(chunk.len());
        let mut shape = Vec::with_capacity(chunk.len());
        for ((&n, &c), &d) in chunk.iter().zip(&self.chunk).zip(&self.output.dims) {
            match n.checked_mul(c) {
                Some(start) if start < d => {
                    offset.push(start);
                    shape.push(c.min(d - start));
                }
                _ => fail!(Invalid, "the stub names chunk {chunk:?}, which is outside the dataset"),
            }
        }
        Ok((offset, shape))
    }

    /// Returns, for each slot in the order of [`Record::slots`], the part that the function sees when it
    /// computes the block at `offset` of `shape`: inputs of the output's shape with their halo, clipped at
    /// the edges, other inputs whole.
    pub fn parts<'a>(&'a self, offset: &'a [u64], shape: &'a [u64]) -> impl Iterator<Item = Block> + 'a {
        let inputs = 1..=self.inputs.len();
        self.slots().enumerate().map(move |(n, slot)| {
            if n > 0 && !self.is_cut(slot) {
                (vec![0; slot.dims.len()], slot.dims.clone())
            } else if inputs.contains(&n) && !self.halo.is_empty() {
                self.with_halo(offset, shape)
            } else {
                (offset.to_vec(), shape.to_vec())
            }
        })
    }

    /// Returns a block with its halo, clipped at the edges.
    fn with_halo(&self, offset: &[u64], shape: &[u64]) -> Block {
        let axes = offset.iter().zip(shape).zip(&self.halo).zip(&self.output.dims);
        axes.map(|(((&start, &count), &halo), &dim)| {
            let from = start.saturating_sub(halo);
            let to = start.saturating_add(count).saturating_add(halo).min(dim);
            (from, to.saturating_sub(from))
        })
        .unzip()
    }

    /// Returns the size of the largest part of a slot that the function sees at once, in bytes.
    pub fn part_bytes(&self, slot: &Slot, input: bool) -> u64 {
        match (self.is_cut(slot), input) {
            (false, _) => slot.bytes(),
            (true, true) => byte_size(&self.widest(), &slot.datatype),
            (true, false) => byte_size(&self.chunk, &slot.datatype),
        }
    }

    /// Returns the shape of an input's block with a halo on all sides, limited to the dataset's shape.
    fn widest(&self) -> Vec<u64> {
        let mut shape = self.chunk.clone();
        for ((s, &halo), &dim) in shape.iter_mut().zip(&self.halo).zip(&self.output.dims) {
            *s = s.saturating_add(halo.saturating_mul(2)).min(dim.max(*s));
        }
        shape
    }

    /// Returns the rows of a block of this shape, for a chunk that is cut off at the dataset's edges: for
    /// each, its byte offset in the block, and its bytes in the chunk.
    pub fn rows(&self, shape: &[u64]) -> impl Iterator<Item = (u64, Range<u64>)> {
        let size = self.output.datatype.size() as u64;
        let row = shape.last().copied().unwrap_or(1).saturating_mul(size);
        let rows: u64 = shape.iter().rev().skip(1).product();
        (0..rows).map(move |n| {
            // Converts the position of row n in the block to the byte offset of its start in the chunk.
            let (mut rest, mut stride) = (n, self.chunk.last().copied().unwrap_or(1).saturating_mul(size));
            let mut at = 0;
            for (&s, &c) in shape.iter().rev().skip(1).zip(self.chunk.iter().rev().skip(1)) {
                at += rest % s * stride;
                rest /= s;
                stride = stride.saturating_mul(c);
            }
            (n * row, at..at + row)
        })
    }

    /// Returns the size of a chunk in the file in bytes.
    pub fn chunk_bytes(&self) -> u64 {
        let size = self.output.datatype.stored_size() as u64;
        self.chunk.iter().fold(size, |bytes, &d| bytes.saturating_mul(d))
    }

    /// Fills a chunk from a block of this shape: the whole chunk's, or its part's inside the dataset.
    /// Elements past the dataset's edges become zeros. `take` copies from a byte offset of the block on; it
    /// writes all or nothing.
    ///
    /// # Errors
    /// `Worker` when `take` fails, `Limit`.
    pub fn place_block(
        &self,
        shape: &[u64],
        to: &mut [MaybeUninit<u8>],
        mut take: impl FnMut(u64, &mut [MaybeUninit<u8>]) -> Option<()>,
    ) -> Result<()> {
        self.check_chunk(to)?;
        if self.output.datatype.is_converted() {
            let mut block = Vec::new();
            let bytes = usize::try_from(byte_size(shape, &self.output.datatype)).unwrap_or(usize::MAX);
            if block.try_reserve_exact(bytes).is_err() {
                fail!(Limit, "no memory for {bytes} bytes")
            }
            block.resize(bytes, 0);
            take(0, as_output_bytes(&mut block)).ok_or_else(internal_error)?;
            return self.place_bytes(shape, &block, to);
        }
        if shape == self.chunk {
            return take(0, to).ok_or_else(internal_error);
        }
        to.fill(MaybeUninit::new(0));
        for (from, row) in self.rows(shape) {
            let range = usize::try_from(row.start).ok().zip(usize::try_from(row.end).ok());
            let to = range.and_then(|(start, end)| to.get_mut(start..end)).ok_or_else(internal_error)?;
            take(from, to).ok_or_else(internal_error)?;
        }
        Ok(())
    }

    /// Fills a chunk from the bytes of a block, like [`Record::place_block`].
    ///
    /// # Errors
    /// `Worker` when there are too few.
    pub fn place_bytes(&self, shape: &[u64], block: &[u8], to: &mut [MaybeUninit<u8>]) -> Result<()> {
        self.check_chunk(to)?;
        if !self.output.datatype.is_converted() {
            return self.place_block(shape, to, |from, to| {
                let from = usize::try_from(from).ok()?;
                copy(block.get(from..from.checked_add(to.len())?)?, to);
                Some(())
            });
        }
        to.fill(MaybeUninit::new(0));
        // SAFETY: every byte was initialised just now.
        let chunk = unsafe { std::slice::from_raw_parts_mut(to.as_mut_ptr().cast::<u8>(), to.len()) };
        self.store_block(shape, block, chunk).ok_or_else(internal_error)
    }

    fn check_chunk(&self, chunk: &[MaybeUninit<u8>]) -> Result<()> {
        if self.chunk_bytes() == chunk.len() as u64 { Ok(()) } else { Err(internal_error()) }
    }

    /// Stores a block of this shape, as computed by the function, in a zeroed chunk of the file's type. For
    /// types that are [converted](crate::datatype::Datatype::is_converted).
    fn store_block(&self, shape: &[u64], block: &[u8], chunk: &mut [u8]) -> Option<()> {
        let datatype = &self.output.datatype;
        let (size, stored) = (datatype.size() as u64, datatype.stored_size() as u64);
        for (from, to) in self.rows(shape) {
            let range = |start: u64, bytes: u64| {
                Some(usize::try_from(start).ok()?..usize::try_from(start.checked_add(bytes)?).ok()?)
            };
            let elements = (to.end - to.start) / size;
            let from = block.get(range(from, elements.checked_mul(size)?)?)?;
            let to = chunk.get_mut(range(to.start / size * stored, elements.checked_mul(stored)?)?)?;
            datatype.store(from, to);
        }
        Some(())
    }

    /// Returns whether the part of a cut input is always contiguous in a row-major array: all dimensions
    /// after the first one with more than one element are complete.
    pub fn blocks_are_pieces(&self) -> bool {
        let (dims, chunk) = (&self.output.dims, &self.chunk);
        let first = self.widest().iter().position(|&c| c > 1).map_or(chunk.len(), |n| n + 1);
        dims.iter().zip(chunk).skip(first).all(|(d, c)| d == c)
    }

    /// Returns the record for the dataset's current shape `dims`, to which it has grown since it was
    /// attached. Inputs of the output's shape have grown with it. The record of a dataset that does not grow
    /// is returned unchanged and still defines its shape.
    ///
    /// # Errors
    /// `Invalid` when the record does not allow that shape.
    pub fn grown(&self, dims: &[u64]) -> Result<Record> {
        if *dims == *self.output.dims || self.maximum.is_empty() {
            return Ok(self.clone());
        }
        let mut record = self.clone();
        if !self.may_have(dims) {
            let (was, most) = (&self.output.dims, &self.maximum);
            fail!(
                Invalid,
                "the dataset has the shape {dims:?}, but its record says {was:?}, growing to at most {most:?}"
            )
        }
        let before = &self.output.dims;
        let mut uncut = Vec::new();
        let whole = |slot: &Slot| self.uncut.contains(&slot.name) || self.attributes.contains_key(&slot.name);
        for slot in std::iter::once(&mut record.output).chain(&mut record.inputs).chain(&mut record.scratch) {
            if slot.dims == *before && !whole(slot) {
                slot.dims = dims.to_vec();
            } else if slot.dims == *dims && !self.attributes.contains_key(&slot.name) {
                uncut.push(slot.name.clone());
            }
            let bytes = slot.dims.iter().try_fold(slot.datatype.size() as u64, |a, &d| a.checked_mul(d));
            if bytes.is_none_or(|b| b > 1 << 62) {
                fail!(Invalid, "the dataset has the impossible shape {dims:?}")
            }
        }
        record.uncut = uncut;
        Ok(record)
    }

    /// Returns whether the dataset may have this shape: the record's, or a larger one if it grows.
    fn may_have(&self, dims: &[u64]) -> bool {
        let rank = self.output.dims.len();
        dims.len() == rank
            && self.maximum.len() == rank
            && dims
                .iter()
                .zip(&self.output.dims)
                .zip(&self.maximum)
                .all(|((d, least), most)| (least..=most).contains(&d))
    }

    /// Returns whether an input of these dimensions matches the record, which must be adapted to the
    /// dataset's own shape. A cut input may have grown further than the dataset.
    pub fn fits(&self, input: &Slot, dims: &[u64]) -> bool {
        let grown = || {
            let axes = dims.iter().zip(&input.dims).zip(&self.maximum);
            dims.len() == input.dims.len()
                && self.is_cut(input)
                && !self.maximum.is_empty()
                && axes.into_iter().all(|((d, least), most)| d == least || (d > least && most > least))
        };
        // Some writers of attributes store a scalar as an array of one element.
        let alike = || {
            self.attributes.contains_key(&input.name)
                && crate::shape::is_single(dims)
                && crate::shape::is_single(&input.dims)
        };
        *dims == *input.dims || alike() || grown()
    }

    /// Returns whether a slot may be empty: one that grows.
    pub(super) fn may_be_empty(&self, slot: &Slot) -> bool {
        let grows = |(&d, &most): (&u64, &u64)| d > 0 || most > 0;
        slot.dims == self.output.dims
            && self.maximum.len() == slot.dims.len()
            && slot.dims.iter().zip(&self.maximum).all(grows)
    }

    /// Checks the halo and the maximum shape.
    pub(super) fn check_blocks(&self) -> Result<()> {
        let rank = self.output.dims.len();
        if !self.halo.is_empty()
            && (self.halo.len() != rank || !self.blockwise || self.backend == Backend::Expression)
        {
            fail!(Invalid, "the record's halo {:?} does not fit {:?}", self.halo, self.output.dims)
        }
        if !self.maximum.is_empty() && (!self.blockwise || !self.may_have(&self.output.dims)) {
            fail!(
                Invalid,
                "the record's maximum shape {:?} does not fit {:?}",
                self.maximum,
                self.output.dims
            )
        }
        Ok(())
    }
}

fn internal_error() -> Error {
    Error::new(ErrorKind::Worker, "internal error: the result does not fit its chunk")
}
