//! The rows of a table in batches.
//!
//! If all columns of a range of rows are mapped and need no conversion, a batch costs nothing. Otherwise rows
//! are taken in slabs that end at chunk boundaries. A slab is read at once, for all columns, and an expensive
//! slab is computed in the background while the previous one is used.

use super::background::BackgroundTask;
use super::gather::{Member, gather};
use super::imported_columns::restored;
use super::row_extents::{MappedLocation, RowExtents};
use super::table::{Inner, Storage, StoredDataset, named};
use crate::{Error, ErrorKind, Result};
use arrow_array::{ArrayRef, RecordBatch, RecordBatchOptions, RecordBatchReader};
use arrow_buffer::Buffer;
use arrow_schema::{ArrowError, SchemaRef};
use hyperchunk::live::{ComputeTime, spent, within_read};
use hyperchunk::model::Dataspace;
use hyperchunk::select::{Axis, Selection};
use hyperchunk::{Read, read_many};
use std::ops::Range;
use std::sync::Arc;

/// Default number of rows in a batch that is neither read nor copied.
const DEFAULT_BATCH_ROWS: u64 = 1 << 20;
/// Maximum number of rows in a batch: some tools count them in 32 bits.
const MAX_BATCH_ROWS: u64 = i32::MAX as u64;
/// Final size of a slab, in bytes; the first slabs are smaller, so that the first rows come early.
const SLAB_BYTES: u64 = 32 << 20;
const FIRST_SLAB_BYTES: u64 = 4 << 20;
/// Maximum size in bytes of a slab of whole chunks; a larger chunk is divided into slabs, and decoded again
/// for each.
const MAX_HIGH_SLAB_BYTES: u64 = 256 << 20;
/// Slabs of fewer bytes are computed on request, not in the background.
const MIN_BACKGROUND_BYTES: u64 = 1 << 20;
/// A reader of a table's rows. Its batches do not change later, except mapped data.
#[derive(Debug)]
pub struct Batches {
    table: Arc<Inner>,
    /// For each dataset in use.
    row_extents: Vec<Option<RowExtents>>,
    /// Rows that are in no slab yet: disjoint, in reverse order.
    pending: Vec<Range<u64>>,
    slab_bytes: u64,
    next: Option<Next>,
    /// The rest of a slab that has more rows than a batch may have.
    rest: Option<RecordBatch>,
    failed: bool,
    /// Computing time of live datasets, of all batches together.
    account: Arc<ComputeTime>,
}

/// Rows that are computed at once, and the place of the first in each mapped dataset.
#[derive(Debug, Clone)]
pub(super) struct RowBatch {
    /// Sorted and disjoint; contiguous if anything is mapped.
    rows: Vec<Range<u64>>,
    places: Vec<Option<MappedLocation>>,
    /// Number of bytes to read or copy.
    work: u64,
}

#[derive(Debug)]
enum Next {
    Waiting(RowBatch),
    Running(RowBatch, BackgroundTask<Result<RecordBatch>>),
    Failed(Error),
}

impl Batches {
    pub(super) fn new(table: &Arc<Inner>) -> Result<Self> {
        Self::from_rows(table, vec![table.rows.clone()])
    }

    /// Makes a reader of some rows, which must be sorted and disjoint.
    pub(super) fn from_rows(table: &Arc<Inner>, mut rows: Vec<Range<u64>>) -> Result<Self> {
        rows.retain(|rows| rows.start < rows.end);
        rows.reverse();
        let mut row_extents: Vec<Option<RowExtents>> = table.stored.iter().map(|_| None).collect();
        for (number, (stored, row_extents)) in table.stored.iter().zip(&mut row_extents).enumerate() {
            if table.columns.iter().any(|column| column.uses(number)) {
                let found = RowExtents::find(table, stored);
                *row_extents = Some(found.map_err(|error| named(error, stored.dataset.object()))?);
            }
        }
        // Over a network, few large requests are faster.
        let remote = table.stored.iter().any(|stored| stored.dataset.object().file().is_remote());
        Ok(Self {
            table: Arc::clone(table),
            row_extents,
            pending: rows,
            slab_bytes: if remote { SLAB_BYTES } else { FIRST_SLAB_BYTES }
                .min(table.read_bytes.unwrap_or(SLAB_BYTES)),
            next: None,
            rest: None,
            failed: false,
            account: spent().unwrap_or_default(),
        })
    }

    pub(super) fn storage(&self) -> Vec<Storage> {
        let columns = self.table.columns.iter().map(|column| {
            let mut storage = Storage { column: column.kind.field().name().clone(), zero_copy: 0, copied: 0 };
            let stored = self.table.stored.get(column.stored);
            for extent in self
                .row_extents
                .get(column.stored)
                .and_then(Option::as_ref)
                .map_or(&[][..], |row_extents| &row_extents.extents)
            {
                let as_it_is =
                    stored.is_some_and(|stored| column.is_as_stored(stored, extent.place.as_ref()));
                let count = if as_it_is { &mut storage.zero_copy } else { &mut storage.copied };
                *count += extent.rows.end - extent.rows.start;
            }
            storage
        });
        columns.collect()
    }

    /// Takes the rows of the next slab.
    fn next_slab(&mut self) -> Result<Option<RowBatch>> {
        let Some(Range { start, end }) = self.pending.pop() else { return Ok(None) };
        let mut end_row = end;
        let mut places = Vec::with_capacity(self.row_extents.len());
        let (mut row_bytes, mut height) = (0_u64, 1);
        for (stored, row_extents) in self.table.stored.iter().zip(&mut self.row_extents) {
            let Some(row_extents) = row_extents else {
                places.push(None);
                continue;
            };
            let Some(extent) = row_extents.extent(start) else {
                return Err(Error::invalid("rows without a location"));
            };
            end_row = end_row.min(extent.rows.end);
            let place =
                extent.place.as_ref().map(|place| place.at_row(start - extent.rows.start, stored.row));
            if place.is_none() {
                row_bytes = row_bytes.saturating_add(stored.row as u64);
                height = height.max(row_extents.height);
            }
            places.push(place);
        }
        for column in &self.table.columns {
            let place = places.get(column.stored).and_then(Option::as_ref);
            let stored = self.table.stored.get(column.stored);
            if place.is_some() && !stored.is_some_and(|stored| column.is_as_stored(stored, place)) {
                row_bytes = row_bytes.saturating_add(column.kind.row_size() as u64);
            }
        }
        let most = self.max_slab_rows(start, row_bytes, height)?;
        end_row = end_row.min(start.saturating_add(most));
        let first = start..end_row;
        let mut rows = vec![first];
        if end_row < end {
            self.pending.push(end_row..end);
        } else if row_bytes > 0 && places.iter().all(Option::is_none) {
            self.add_separate_ranges(&mut rows, most.saturating_sub(end_row - start));
        }
        let count = rows.iter().map(|rows| rows.end - rows.start).fold(0, u64::saturating_add);
        Ok(Some(RowBatch { rows, places, work: count.saturating_mul(row_bytes) }))
    }

    /// Adds following row ranges that fit and are not mapped: they are read together.
    fn add_separate_ranges(&mut self, rows: &mut Vec<Range<u64>>, mut room: u64) {
        while let Some(next) = self.pending.last()
            && next.end - next.start <= room
        {
            let read = self.row_extents.iter_mut().flatten().all(|row_extents| {
                row_extents
                    .extent(next.start)
                    .is_some_and(|extent| extent.place.is_none() && extent.rows.end >= next.end)
            });
            let Some(next) = self.pending.pop_if(|_| read) else { break };
            room -= next.end - next.start;
            rows.push(next);
        }
    }

    /// Returns the maximum number of rows in a slab that begins here.
    fn max_slab_rows(&mut self, start: u64, row_bytes: u64, height: u64) -> Result<u64> {
        if row_bytes == 0 {
            return Ok(self.table.batch_rows.unwrap_or(DEFAULT_BATCH_ROWS).min(MAX_BATCH_ROWS));
        }
        let limits =
            self.table.stored.first().map(|stored| stored.dataset.object().file().options().limits.clone());
        if limits.is_some_and(|limits| row_bytes > limits.chunk_bytes) {
            return Err(Error::limit(format!("a row of {row_bytes} bytes (limit `chunk_bytes`)")));
        }
        let rows = (self.slab_bytes / row_bytes).max(1);
        self.slab_bytes =
            (self.slab_bytes * 2).min(self.table.read_bytes.unwrap_or(SLAB_BYTES)).min(SLAB_BYTES);
        let chunk_ends = (start / height + 1).saturating_mul(height);
        let end = if height.saturating_mul(row_bytes)
            > self
                .table
                .read_bytes
                .map_or(MAX_HIGH_SLAB_BYTES, |bytes| bytes.saturating_mul(4))
                .min(MAX_HIGH_SLAB_BYTES)
        {
            start.saturating_add(rows).min(chunk_ends)
        } else {
            (start.saturating_add(rows) / height).saturating_mul(height).max(chunk_ends)
        };
        Ok((end - start).min(MAX_BATCH_ROWS))
    }

    fn prepare(&mut self, table: &Arc<Inner>) -> Result<()> {
        let Some(slab) = self.next_slab()? else { return Ok(()) };
        let ahead = if slab.work >= MIN_BACKGROUND_BYTES {
            let (table, slab, account) = (Arc::clone(table), slab.clone(), self.account());
            BackgroundTask::start(move || within_read(Some(account), || table.compute(&slab)))
        } else {
            None
        };
        self.next = Some(match ahead {
            Some(ahead) => Next::Running(slab, ahead),
            None => Next::Waiting(slab),
        });
        Ok(())
    }

    /// Returns the account of live datasets' computing time.
    pub(super) fn account(&self) -> Arc<ComputeTime> {
        Arc::clone(&self.account)
    }

    /// Returns the next slab, and its batch for another table over the same data with some of the columns.
    pub(super) fn next_for(&mut self, table: &Arc<Inner>) -> Result<Option<(RowBatch, RecordBatch)>> {
        if self.failed {
            return Ok(None);
        }
        self.compute_next(table).inspect_err(|_| self.failed = true)
    }

    fn compute_next(&mut self, table: &Arc<Inner>) -> Result<Option<(RowBatch, RecordBatch)>> {
        let (slab, made) = match self.next.take() {
            Some(Next::Running(slab, ahead)) => (slab, ahead.take()),
            Some(Next::Waiting(slab)) => (slab, None),
            Some(Next::Failed(error)) => return Err(error),
            None => match self.next_slab()? {
                Some(slab) => (slab, None),
                None => return Ok(None),
            },
        };
        let account = self.account();
        let batch = made.unwrap_or_else(|| within_read(Some(account), || table.compute(&slab)))?;
        if let Err(error) = self.prepare(table) {
            self.next = Some(Next::Failed(error));
        }
        Ok(Some((slab, batch)))
    }

    /// Returns the next batch.
    ///
    /// # Errors
    /// If its rows cannot be read. Later calls return `None`.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let batch = match self.rest.take() {
            Some(rest) => Some(rest),
            None => self.next_for(&Arc::clone(&self.table))?.map(|(_, batch)| batch),
        };
        let Some(batch) = batch else { return Ok(None) };
        let most = self.table.batch_rows.and_then(|rows| usize::try_from(rows).ok()).unwrap_or(usize::MAX);
        if batch.num_rows() <= most {
            return Ok(Some(batch));
        }
        self.rest = Some(batch.slice(most, batch.num_rows() - most));
        Ok(Some(batch.slice(0, most)))
    }
}

impl Iterator for Batches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_batch().map_err(to_arrow).transpose()
    }
}

impl RecordBatchReader for Batches {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.table.schema)
    }
}

impl Inner {
    /// Computes the batch of a slab.
    pub(super) fn compute(&self, slab: &RowBatch) -> Result<RecordBatch> {
        let count = slab.rows.iter().map(|rows| rows.end - rows.start).fold(0, u64::saturating_add);
        let rows = usize::try_from(count).map_err(|_| Error::limit("more rows than memory"))?;
        let stored = self.bytes(slab, rows)?;
        let mut arrays: Vec<Option<ArrayRef>> = self.columns.iter().map(|_| None).collect();
        for (number, (from, bytes)) in self.stored.iter().zip(&stored).enumerate() {
            let Some(bytes) = bytes else { continue };
            let file = from.dataset.object().file();
            let columns = self.columns.iter().enumerate().filter(|(_, column)| column.stored == number);
            let (whole, parts): (Vec<_>, Vec<_>) = columns.partition(|(_, column)| column.is_whole(from));
            let places: Vec<Member> = parts
                .iter()
                .map(|(_, column)| Member { offset: column.offset, width: column.kind.row_size() })
                .collect();
            let gathered = if places.is_empty() { Vec::new() } else { gather(bytes, from.row, &places)? };
            let parts = parts.into_iter().zip(gathered.into_iter().map(Buffer::from_vec));
            let whole = whole.into_iter().map(|column| (column, bytes.clone()));
            for ((place, column), bytes) in whole.chain(parts) {
                let array = column.kind.array(bytes, rows, Some(file));
                let marks = column.valid.and_then(|number| stored.get(number)?.as_deref());
                let array = array.and_then(|array| restored(array, column.kind.field(), marks));
                let array = array.map_err(|error| named(error, from.dataset.object()))?;
                if let Some(to) = arrays.get_mut(place) {
                    *to = Some(array);
                }
            }
        }
        let arrays: Vec<ArrayRef> = arrays.into_iter().flatten().collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), arrays, &options)
            .map_err(|error| Error::invalid(format!("invalid record batch: {error}")))
    }

    /// Returns the stored bytes of a slab's rows, for each dataset in use.
    fn bytes(&self, slab: &RowBatch, rows: usize) -> Result<Vec<Option<Buffer>>> {
        let mut buffers: Vec<Option<Buffer>> = self.stored.iter().map(|_| None).collect();
        let mut reads = Vec::new();
        for (number, from) in self.stored.iter().enumerate() {
            if !self.columns.iter().any(|column| column.uses(number)) {
                continue;
            }
            let size = rows.checked_mul(from.row).ok_or_else(|| Error::limit("more bytes than memory"))?;
            match slab.places.get(number).and_then(Option::as_ref) {
                Some(place) => {
                    let range = place.offset..place.offset.saturating_add(size as u64);
                    let buffer = place
                        .map
                        .buffer(range)
                        .ok_or_else(|| Error::invalid("rows past the end of a file"))?;
                    if let Some(to) = buffers.get_mut(number) {
                        *to = Some(buffer);
                    }
                }
                None => {
                    let selections =
                        slab.rows.iter().map(|rows| (select_rows(from, rows), rows.end - rows.start));
                    reads.push((number, from, selections.collect::<Vec<_>>(), fresh(size)?));
                }
            }
        }
        let mut wanted = Vec::with_capacity(reads.len());
        for (_, from, selections, out) in &mut reads {
            let mut rest = &mut out[..];
            for (selection, rows) in selections {
                // No overflow: the bytes of all rows are computed above.
                let bytes = usize::try_from(*rows).unwrap_or(usize::MAX).saturating_mul(from.row);
                let (out, behind) = rest.split_at_mut(bytes.min(rest.len()));
                wanted.push(Read { dataset: &from.dataset, selection, conversion: None, out });
                rest = behind;
            }
        }
        read_many(wanted)?;
        for (number, _, _, out) in reads {
            if let Some(to) = buffers.get_mut(number) {
                *to = Some(Buffer::from_vec(out));
            }
        }
        Ok(buffers)
    }
}

/// Converts an error for Arrow's libraries, either as an I/O error or as another one.
pub(super) fn to_arrow(error: Error) -> ArrowError {
    match error.kind() {
        ErrorKind::Io | ErrorKind::Changed | ErrorKind::NotFound | ErrorKind::Truncated => {
            ArrowError::IoError(error.to_string(), std::io::Error::other(error))
        }
        _ => ArrowError::ExternalError(Box::new(error)),
    }
}

/// Returns the selection of rows.
fn select_rows(stored: &StoredDataset, rows: &Range<u64>) -> Selection {
    match stored.dataset.dataspace() {
        Dataspace::Simple { .. } => {
            let cell = stored.cell().iter().map(|dim| Axis::range(0..*dim));
            Selection::Axes(std::iter::once(Axis::range(rows.clone())).chain(cell).collect())
        }
        _ => Selection::All,
    }
}

/// Allocates memory. A failure is an error.
fn fresh(size: usize) -> Result<Vec<u8>> {
    let mut asked: Vec<u8> = Vec::new();
    asked.try_reserve_exact(size).map_err(|_| Error::limit(format!("no memory for {size} bytes")))?;
    drop(asked);
    // Zeroed pages are allocated lazily by the system.
    Ok(vec![0; size])
}
