//! Execution of a task: reads a tile and writes it to its destination.

use super::boxes::{ArrayWindow, Grid, copy, offset, spans};
use super::job::{DATA_OFFSET, Files, Job};
use super::plan::{Endpoint, WRITE_BUFFER_BYTES};
use crate::Hyperslab;
use hyperchunk::internal::positioned::{read_exact_at, write_all_at};
use hyperchunk::live::on_this_thread;
use hyperchunk::{Error, ErrorKind, Result};
use hyperchunk_format::codec::Encoder;
use hyperchunk_format::select::{Axis, Selection};
use std::fs::File;
use std::hash::Hasher as _;
use std::io;
use twox_hash::XxHash3_64;

/// Size in bytes of the entry of a filtered chunk: its size and its filter mask.
pub(super) const ENTRY_BYTES: u64 = 16;

/// Buffers that a thread reuses.
#[derive(Debug, Default)]
pub(super) struct Scratch {
    tile: Vec<u8>,
    gathered: Vec<u8>,
    encoder: Encoder,
}

/// A part of a tile that is contiguous in the chunks.
struct Part {
    /// Offset in the file of chunks.
    at: u64,
    bytes: usize,
    count: Vec<u64>,
    /// Start in the tile.
    start: Vec<u64>,
}

fn refused(what: &str, error: &io::Error, at: u64) -> Error {
    Error::new(ErrorKind::Io, format!("cannot {what} the restructured data: {error}")).at(at)
}

fn read(file: &File, at: u64, bytes: &mut [u8]) -> Result<()> {
    read_exact_at(file, at, bytes).map_err(|error| refused("read", &error, at))
}

fn write(file: &File, at: u64, bytes: &[u8]) -> Result<()> {
    write_all_at(file, at, bytes).map_err(|error| refused("write", &error, at))
}

impl Job {
    /// Executes a task of a pass; returns the hash of its output.
    pub(super) fn task(
        &self,
        way: Endpoint,
        slab: &Hyperslab,
        files: &Files,
        scratch: &mut Scratch,
    ) -> Result<u64> {
        let mut hash = XxHash3_64::new();
        let Scratch { tile, gathered, encoder } = scratch;
        if way != Endpoint::Finish {
            hyperchunk::room::resize(tile, self.narrow(slab.elements()?.saturating_mul(self.element))?)?;
            let axes =
                slab.start.iter().zip(&slab.count).map(|(start, count)| Axis::range(*start..start + count));
            let selection = Selection::Axes(axes.collect());
            on_this_thread(|| self.source.dataset.read(&selection, tile))?;
        }
        if way == Endpoint::Scatter {
            let file = files.raw()?;
            let zeros = vec![0; slab.count.len()];
            self.parts(slab, |part| {
                let all = ArrayWindow { bytes: &**tile, dims: &slab.count, start: &part.start };
                let bytes = match is_contiguous(&slab.count, &part) {
                    true => {
                        let start =
                            self.narrow(offset(&slab.count, &part.start).saturating_mul(self.element))?;
                        tile.get(start..start + part.bytes)
                            .ok_or_else(|| Error::invalid("a part beyond its tile"))?
                    }
                    false => {
                        hyperchunk::room::resize(gathered, part.bytes)?;
                        let here = ArrayWindow { bytes: &mut gathered[..], dims: &part.count, start: &zeros };
                        copy(self.narrow(self.element)?, &part.count, &all, here)?;
                        &gathered[..]
                    }
                };
                hash.write(bytes);
                write(file, part.at, bytes)
            })?;
            return Ok(hash.finish());
        }
        for place in self.chunks.touched(slab) {
            let slot = self.slots.slot(&self.chunks, &place);
            gathered.clear();
            hyperchunk::room::resize(gathered, self.narrow(self.chunk_bytes)?)?;
            if way == Endpoint::Finish {
                read(files.raw()?, DATA_OFFSET + slot * self.chunk_bytes, gathered)?;
            } else {
                let chunk = self.chunks.slab(&place);
                let start: Vec<u64> =
                    chunk.start.iter().zip(&slab.start).map(|(at, tile)| at - tile).collect();
                let zeros = vec![0; start.len()];
                let all = ArrayWindow { bytes: &**tile, dims: &slab.count, start: &start };
                let here = ArrayWindow { bytes: &mut gathered[..], dims: self.chunks.cell(), start: &zeros };
                copy(self.narrow(self.element)?, &chunk.count, &all, here)?;
            }
            let (mut bytes, mut mask) = encoder.encode(&self.pipeline, gathered)?;
            if bytes.len() as u64 > self.chunk_bytes {
                // Store it unfiltered: the mask skips all filters.
                (bytes, mask) = (&gathered[..], u32::MAX >> (32 - self.pipeline.len().clamp(1, 32)));
            }
            let entry = entry(bytes.len() as u64, mask);
            hash.write(&entry);
            hash.write(bytes);
            write(files.encoded()?, slot * self.chunk_bytes, bytes)?;
            write(files.sizes()?, slot * ENTRY_BYTES, &entry)?;
        }
        Ok(hash.finish())
    }

    /// Returns the hash of a task's output, read from the disk.
    pub(super) fn written(
        &self,
        way: Endpoint,
        slab: &Hyperslab,
        files: &Files,
        scratch: &mut Scratch,
    ) -> Result<u64> {
        let mut hash = XxHash3_64::new();
        if way == Endpoint::Scatter {
            let file = files.raw()?;
            self.parts(slab, |part| {
                hyperchunk::room::resize(&mut scratch.gathered, part.bytes)?;
                read(file, part.at, &mut scratch.gathered)?;
                hash.write(&scratch.gathered);
                Ok(())
            })?;
            return Ok(hash.finish());
        }
        for place in self.chunks.touched(slab) {
            let slot = self.slots.slot(&self.chunks, &place);
            let (length, mask) = self.entry(files, slot)?;
            hyperchunk::room::resize(&mut scratch.gathered, self.narrow(length)?)?;
            read(files.encoded()?, slot * self.chunk_bytes, &mut scratch.gathered)?;
            hash.write(&entry(length, mask));
            hash.write(&scratch.gathered);
        }
        Ok(hash.finish())
    }

    /// Returns the size of an encoded chunk and its mask. The size is at most the size of an
    /// unfiltered chunk.
    pub(super) fn entry(&self, files: &Files, slot: u64) -> Result<(u64, u32)> {
        let mut bytes = [0; 16];
        read(files.sizes()?, slot * ENTRY_BYTES, &mut bytes)?;
        let [a, b, c, d, e, f, g, h, i, j, k, l, ..] = bytes;
        let length = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        if length > self.chunk_bytes {
            let message = format!(
                "an encoded chunk of {length} bytes, more than the {} bytes of a chunk",
                self.chunk_bytes
            );
            return Err(Error::corrupt(message).at(slot * ENTRY_BYTES));
        }
        Ok((length, u32::from_le_bytes([i, j, k, l])))
    }

    /// Calls `each` with the parts of a tile that are contiguous in the file of chunks.
    fn parts(&self, slab: &Hyperslab, mut each: impl FnMut(Part) -> Result<()>) -> Result<()> {
        let chunk = self.chunks.cell();
        let most = WRITE_BUFFER_BYTES / self.element.max(1);
        for place in self.chunks.touched(slab) {
            let cell = self.chunks.slab(&place);
            let Some(common) = cell.intersection(slab) else { continue };
            let slot = self.slots.slot(&self.chunks, &place);
            let base = DATA_OFFSET + slot * self.chunk_bytes;
            let inside: Vec<u64> = common.start.iter().zip(&cell.start).map(|(at, cell)| at - cell).collect();
            for span in spans(chunk, &Hyperslab::new(inside, common.count), most) {
                let start = span.start.iter().zip(&cell.start).zip(&slab.start);
                each(Part {
                    at: base + offset(chunk, &span.start) * self.element,
                    bytes: self.narrow(span.elements()?.saturating_mul(self.element))?,
                    start: start.map(|((at, cell), tile)| at + cell - tile).collect(),
                    count: span.count,
                })?;
            }
        }
        Ok(())
    }

    pub(super) fn narrow(&self, value: u64) -> Result<usize> {
        usize::try_from(value)
            .map_err(|_| Error::limit(format!("{value} bytes are more than the address space")))
    }

    /// Returns the tile of a task of a pass.
    pub(super) fn tile(tiles: &Grid, number: u64) -> Hyperslab {
        tiles.slab(&tiles.place(number))
    }
}

/// Returns whether a part is contiguous in its tile.
fn is_contiguous(dims: &[u64], part: &Part) -> bool {
    let whole = dims.iter().zip(&part.count).rev().take_while(|(dim, count)| dim == count).count();
    // After the complete dimensions, one may be partial; all slower ones must have a count of 1.
    part.count.iter().rev().skip(whole + 1).all(|count| *count == 1)
}

fn entry(length: u64, mask: u32) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&length.to_le_bytes());
    bytes[8..12].copy_from_slice(&mask.to_le_bytes());
    bytes
}
