//! Launches of our kernels for a batch: checksums, unshuffling, and copies of boxes into the array.

use super::geometry::Copy;
use super::plan::{Conversion, Task};
use super::prepare::PreparedTask;
use super::slot::{PendingChecks, Slot, TaskOffsets, room};
use super::tables::Tables;
use crate::error::fail;
use crate::kernels::Kernels;
use crate::{Argument, DeviceMemory, Function, Launch, Result, Stream};
use std::collections::BTreeMap;

const BLOCK_THREADS: u32 = 256;
/// Approximate maximum number of blocks in a grid: each thread loops until its box is done.
const MAX_GRID_BLOCKS: u64 = 1 << 17;
/// Maximum number of rows in a grid.
const MAX_GRID_ROWS: usize = 32 << 10;

impl<'a> Slot<'a> {
    /// Starts the steps after decompression.
    pub(super) fn arrange(
        &mut self,
        tasks: &'a [Task<'a>],
        places: &[TaskOffsets],
        prepared: &[PreparedTask],
        [stored, raw, plain]: [u64; 3],
        pending: &PendingChecks<'a>,
    ) -> Result<()> {
        let mut tables = Tables::default();
        // Checksums of decompressed data come first.
        let sums = tables.begin();
        for ((task, place), prepared) in tasks.iter().zip(places).zip(prepared) {
            if prepared.adler32.is_some() && !prepared.needs_host {
                tables.piece(raw + place.raw as u64, 0, task.raw);
            }
        }
        let mut shuffled: BTreeMap<u32, Vec<(u64, u64, usize)>> = BTreeMap::new();
        let mut boxes: BTreeMap<u64, Vec<(&Copy, u64)>> = BTreeMap::new();
        for ((task, place), prepared) in tasks.iter().zip(places).zip(prepared) {
            if place.direct || prepared.needs_host {
                continue;
            }
            let mut source = stored + place.at as u64;
            if let Conversion::Gpu { algorithm, shuffle, .. } = task.how {
                if algorithm.is_some() {
                    source = raw + place.raw as u64;
                }
                if let Some(size) = shuffle {
                    let to = plain + place.raw as u64;
                    shuffled.entry(size).or_default().push((source, to, task.raw));
                    source = to;
                }
            }
            for copy in &task.copies {
                boxes.entry(self.unit(copy, source)?).or_default().push((copy, source));
            }
        }
        let mut unshuffles = Vec::new();
        for (size, pieces) in &shuffled {
            for pieces in pieces.chunks(MAX_GRID_ROWS) {
                let at = tables.begin();
                pieces.iter().for_each(|(from, to, bytes)| tables.piece(*from, *to, *bytes));
                let most =
                    pieces.iter().map(|(_, _, bytes)| *bytes as u64 / u64::from(*size)).max().unwrap_or(0);
                unshuffles.push((*size, at, pieces.len(), most));
            }
        }
        let scatters = self.append_boxes(&boxes, &mut tables);
        if tables.bytes().is_empty() {
            return Ok(());
        }
        // In the other half: the tables of the decompressors may still be in use.
        let table = self.send(&tables, 1)?;
        let results = self.results.as_ref().map_or(0, DeviceMemory::address);
        if !pending.checked.is_empty() {
            let blocks = u32::try_from(pending.checked.len()).unwrap_or(u32::MAX);
            let arguments =
                [Argument::Address(table + sums as u64), Argument::Address(results + pending.sums as u64)];
            self.kernels.adler32.launch(&self.stream, &Launch::linear(blocks, BLOCK_THREADS), &arguments)?;
        }
        for (size, at, rows, most) in unshuffles {
            let pieces = Argument::Address(table + at as u64);
            let launch = grid(most.max(u64::from(size)), rows);
            match self.kernels.unshuffle_words(size) {
                Some(function) => function.launch(&self.stream, &launch, &[pieces])?,
                None => {
                    let size = size.to_le_bytes();
                    self.kernels.unshuffle.launch(
                        &self.stream,
                        &launch,
                        &[pieces, Argument::Bytes(&size)],
                    )?;
                }
            }
        }
        self.scatter(&scatters, table)
    }

    /// Returns the unit in which a box is copied.
    pub(super) fn unit(&self, copy: &Copy, source: u64) -> Result<u64> {
        let unit = copy.unit(source, self.array);
        let swap = self.request.swap as u64;
        if swap <= 1 {
            return Ok(unit);
        }
        if unit < swap {
            fail!(Unsupported, "units of {swap} bytes are not aligned to {swap} bytes")
        }
        Ok(swap)
    }

    pub(super) fn append_boxes(
        &self,
        boxes: &BTreeMap<u64, Vec<(&Copy, u64)>>,
        tables: &mut Tables,
    ) -> Vec<Scatter> {
        append_boxes(boxes, self.array, tables)
    }

    pub(super) fn scatter(&self, launches: &[Scatter], table: u64) -> Result<()> {
        scatter(&self.kernels, &self.stream, self.request.swap > 1, launches, table)
    }

    /// Copies tables to one of the two halves of their memory; returns their address.
    pub(super) fn send(&mut self, tables: &Tables, half: usize) -> Result<u64> {
        let bytes = tables.bytes();
        let enough = |memory: &DeviceMemory| memory.bytes() / 2 >= bytes.len();
        if !self.tables.as_ref().is_some_and(enough) {
            // The old one may still be in use.
            self.stream.synchronize()?;
            room(&mut self.tables, &self.context, (bytes.len() * 2).next_multiple_of(1 << 12))?;
        }
        let Some(memory) = &self.tables else { fail!(Failed, "no memory for tables") };
        let at = memory.bytes() / 2 * half;
        self.stream.upload(memory, at, bytes)?;
        Ok(memory.address() + at as u64)
    }
}

/// A launch that copies boxes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scatter {
    /// The unit in which they are copied.
    unit: u64,
    /// Their offset in the tables, and their number.
    at: usize,
    rows: usize,
    /// The maximum number of units in a box.
    most: u64,
}

/// Appends boxes, each with its source address, to tables.
pub(super) fn append_boxes(
    boxes: &BTreeMap<u64, Vec<(&Copy, u64)>>,
    array: u64,
    tables: &mut Tables,
) -> Vec<Scatter> {
    let mut launches = Vec::new();
    for (unit, copies) in boxes {
        for copies in copies.chunks(MAX_GRID_ROWS) {
            let at = tables.begin();
            let mut most = 0;
            for (copy, source) in copies {
                most = tables.copy(copy, *source, array, *unit).max(most);
            }
            launches.push(Scatter { unit: *unit, at, rows: copies.len(), most });
        }
    }
    launches
}

/// Launches the copies of boxes in tables at `table`.
pub(super) fn scatter(
    kernels: &Kernels,
    stream: &Stream,
    swap: bool,
    launches: &[Scatter],
    table: u64,
) -> Result<()> {
    for Scatter { unit, at, rows, most } in launches {
        let function: Option<&Function> = kernels.scatter(*unit, swap);
        let Some(function) = function else { fail!(Failed, "no kernel for units of {unit} bytes") };
        function.launch(stream, &grid(*most, *rows), &[Argument::Address(table + *at as u64)])?;
    }
    Ok(())
}

/// Returns a grid with enough blocks for the largest row, and the given number of rows.
fn grid(most: u64, rows: usize) -> Launch {
    let most_blocks = (MAX_GRID_BLOCKS / (rows as u64).max(1)).max(1);
    let blocks = most.div_ceil(u64::from(BLOCK_THREADS)).clamp(1, most_blocks);
    let number = |value: u64| u32::try_from(value).unwrap_or(u32::MAX);
    Launch { grid: [number(blocks), number(rows as u64), 1], block: [BLOCK_THREADS, 1, 1], shared: 0 }
}
