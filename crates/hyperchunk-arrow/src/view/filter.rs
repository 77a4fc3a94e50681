//! Reader of the rows that match a predicate, in batches.
//!
//! Rows are processed in blocks that fit into the processor's cache: first the predicate is evaluated, then
//! the wanted values of matching rows are gathered. A block in which all rows match is returned without a
//! copy; for a block without matches, only the columns of the predicate are read.

use super::buffer_pool::{BufferPool, PooledBuffer};
use super::compress::{Compressible, SLACK_VALUES, compress};
use super::scan::{Scan, ScanPart};
use super::table::Table;
use crate::predicate::{BLOCK_ROWS, BoundPlan, Nan, Plan, Predicate};
use crate::{Error, Result};
use arrow_array::{
    Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions, RecordBatchReader, make_array,
};
use arrow_data::ArrayData;
use arrow_schema::{ArrowError, SchemaRef};
use std::ops::Range;
use std::sync::Arc;

/// Default number of rows in a batch: its columns fit into the processor's cache.
const BATCH_ROWS: usize = 64 << 10;

/// A reader of the rows that match a predicate.
#[derive(Debug)]
pub struct FilteredBatches {
    scan: Scan,
    plan: Plan,
    /// Size in bytes of a value of each wanted column; `None` if one of them is nullable, or has no values of
    /// 1, 2, 4 or 8 bytes.
    widths: Option<Vec<usize>>,
    max_rows: usize,
    part: Option<BoundPart>,
    gathered: GatheredRows,
    pool: Arc<BufferPool>,
    ready: Vec<RecordBatch>,
    ended: bool,
}

/// Rows that are being processed.
#[derive(Debug)]
struct BoundPart {
    rows: ScanPart,
    bound: BoundPlan,
    next: usize,
    /// The wanted columns, read when the first row matches.
    wanted: Option<RecordBatch>,
}

/// Gathered rows that are not in a batch yet.
#[derive(Debug, Default)]
struct GatheredRows {
    columns: Vec<PooledBuffer>,
    rows: usize,
}

impl Table {
    /// Returns whether [`Scan::filter`] can evaluate a predicate over its columns.
    #[must_use]
    pub fn can_filter(&self, predicate: &Predicate, nan: Nan) -> bool {
        Plan::new(predicate, &self.schema(), nan).is_some()
    }
}

impl Scan {
    /// Returns whether [`Scan::filter`] can evaluate a predicate.
    #[must_use]
    pub fn can_filter(&self, predicate: &Predicate, nan: Nan) -> bool {
        Plan::new(predicate, &self.first_schema(), nan).is_some()
    }

    /// Returns the wanted columns of rows that match a predicate of the first columns, at most `max_rows` in
    /// a batch; `None` if the predicate uses columns that may have nulls or are not numeric.
    #[must_use]
    pub fn filter(self, predicate: &Predicate, nan: Nan, max_rows: Option<usize>) -> Option<FilteredBatches> {
        let plan = Plan::new(predicate, &self.first_schema(), nan)?;
        let schema = self.schema();
        let widths = schema.fields().iter().map(|field| {
            let width = field.data_type().primitive_width().filter(|width| [1, 2, 4, 8].contains(width));
            width.filter(|_| !field.is_nullable())
        });
        Some(FilteredBatches {
            widths: widths.collect(),
            scan: self,
            plan,
            max_rows: max_rows.unwrap_or(usize::MAX).max(1),
            part: None,
            gathered: GatheredRows::default(),
            pool: Arc::default(),
            ready: Vec::new(),
            ended: false,
        })
    }
}

impl FilteredBatches {
    /// Returns the next batch.
    ///
    /// # Errors
    /// If its rows cannot be read. Later calls return `None`.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        loop {
            if let Some(batch) = self.ready.pop() {
                if batch.num_rows() <= self.max_rows {
                    return Ok(Some(batch));
                }
                self.ready.push(batch.slice(self.max_rows, batch.num_rows() - self.max_rows));
                return Ok(Some(batch.slice(0, self.max_rows)));
            }
            if self.ended {
                return Ok(None);
            }
            if let Err(error) = self.step() {
                (self.ended, self.part) = (true, None);
                return Err(error);
            }
        }
    }

    /// Continues until there is a batch, or no row is left.
    fn step(&mut self) -> Result<()> {
        let Some(mut part) = self.part.take().map_or_else(|| self.next_part(), |part| Ok(Some(part)))? else {
            self.ended = true;
            let last = self.gathered()?;
            self.ready.extend(last);
            return Ok(());
        };
        while part.next < part.bound.rows() && self.ready.is_empty() {
            match &self.widths {
                Some(widths) => self.block(&mut part, &widths.clone())?,
                None => {
                    let batch = part.all()?;
                    self.ready.extend(batch);
                }
            }
        }
        if part.next < part.bound.rows() {
            self.part = Some(part);
        }
        Ok(())
    }

    fn next_part(&mut self) -> Result<Option<BoundPart>> {
        let Some(rows) = self.scan.next_part()? else { return Ok(None) };
        let bound = self.plan.bind(rows.first());
        let bound = bound.ok_or_else(|| Error::invalid("a column does not match its type"))?;
        Ok(Some(BoundPart { rows, bound, next: 0, wanted: None }))
    }

    /// Processes a block of rows, or several blocks in which all rows match.
    fn block(&mut self, part: &mut BoundPart, widths: &[usize]) -> Result<()> {
        let mut words = [0_u64; BLOCK_ROWS / 64];
        let first = part.next;
        loop {
            let rows = part.next..(part.next + BLOCK_ROWS).min(part.bound.rows());
            let words = words.get_mut(..rows.len().div_ceil(64)).unwrap_or_default();
            part.bound.test(rows.clone(), words);
            let count = words.iter().map(|word| word.count_ones() as usize).sum::<usize>();
            let before = first..rows.start;
            if count == rows.len() {
                part.next = rows.end;
                if part.next < part.bound.rows() {
                    continue;
                }
                return self.push_unfiltered(part, first..rows.end);
            }
            if !before.is_empty() {
                // This block is processed once more.
                return self.push_unfiltered(part, before);
            }
            part.next = rows.end;
            if count == 0 {
                return Ok(());
            }
            if self.gathered.rows + count > BATCH_ROWS {
                let batch = self.gathered()?;
                self.ready.extend(batch);
            }
            let wanted = part.wanted()?;
            if self.gathered.columns.is_empty() {
                let buffer = |width: &usize| self.pool.take((BATCH_ROWS + SLACK_VALUES) * width);
                self.gathered.columns = widths.iter().map(buffer).collect();
            }
            for ((column, buffer), width) in
                wanted.columns().iter().zip(&mut self.gathered.columns).zip(widths)
            {
                let count_appended = append_matches(column, *width, rows.clone(), words, buffer);
                if count_appended != Some(count) {
                    return Err(Error::invalid("a column does not match its type"));
                }
            }
            self.gathered.rows += count;
            return Ok(());
        }
    }

    /// Queues rows that all match, after the rows gathered before.
    fn push_unfiltered(&mut self, part: &mut BoundPart, rows: Range<usize>) -> Result<()> {
        let batch = part.wanted()?.slice(rows.start, rows.len());
        let before = self.gathered()?;
        // A stack: the last one is returned first.
        self.ready.push(batch);
        self.ready.extend(before);
        Ok(())
    }

    /// Returns the gathered rows as a batch.
    fn gathered(&mut self) -> Result<Option<RecordBatch>> {
        let GatheredRows { columns, rows } = std::mem::take(&mut self.gathered);
        if rows == 0 {
            return Ok(None);
        }
        let schema = self.scan.schema();
        let arrays = columns.into_iter().zip(schema.fields()).map(|(buffer, field)| {
            let data = ArrayData::builder(field.data_type().clone()).len(rows).add_buffer(buffer.finish());
            data.build().map(make_array)
        });
        let arrays: std::result::Result<Vec<ArrayRef>, _> = arrays.collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        arrays
            .and_then(|arrays| RecordBatch::try_new_with_options(schema, arrays, &options))
            .map(Some)
            .map_err(|error| Error::invalid(format!("invalid record batch: {error}")))
    }
}

impl BoundPart {
    fn wanted(&mut self) -> Result<&RecordBatch> {
        if self.wanted.is_none() {
            self.wanted = Some(self.rows.filter(None)?);
        }
        self.wanted.as_ref().ok_or_else(|| Error::invalid("no columns"))
    }

    /// Returns all its matching rows, for columns of any type.
    fn all(&mut self) -> Result<Option<RecordBatch>> {
        let mask = BooleanArray::new(self.bound.boolean_buffer(), None);
        self.next = self.bound.rows();
        if mask.true_count() == 0 {
            return Ok(None);
        }
        self.rows.filter(Some(&mask)).map(Some)
    }
}

/// Appends the matching values of a column to a buffer; returns their number.
fn append_matches(
    column: &dyn Array,
    width: usize,
    rows: Range<usize>,
    words: &[u64],
    buffer: &mut PooledBuffer,
) -> Option<usize> {
    fn append<T: Compressible>(bytes: &[u8], words: &[u64], buffer: &mut PooledBuffer) -> Option<usize> {
        // SAFETY: plain values may have any bits.
        let (before, values, after) = unsafe { bytes.align_to::<T>() };
        if !before.is_empty() || !after.is_empty() {
            return None;
        }
        let count = compress(values, words, buffer.spare_capacity())?;
        // SAFETY: `count` values have just been moved there.
        unsafe { buffer.advance(count * size_of::<T>()) };
        Some(count)
    }
    let data = column.to_data();
    if data.null_count() > 0 {
        return None;
    }
    let start = data.offset().checked_add(rows.start)?.checked_mul(width)?;
    let end = start.checked_add(rows.len().checked_mul(width)?)?;
    let bytes = data.buffers().first()?.as_slice().get(start..end)?;
    match width {
        1 => append::<u8>(bytes, words, buffer),
        2 => append::<u16>(bytes, words, buffer),
        4 => append::<u32>(bytes, words, buffer),
        8 => append::<u64>(bytes, words, buffer),
        _ => None,
    }
}

impl Iterator for FilteredBatches {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_batch().map_err(super::batches::to_arrow).transpose()
    }
}

impl RecordBatchReader for FilteredBatches {
    fn schema(&self) -> SchemaRef {
        self.scan.schema()
    }
}
