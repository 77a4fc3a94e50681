//! Scans, which select rows by the values of some columns before the others are read.

use super::batches::{Batches, RowBatch};
use super::table::{Inner, Table};
use crate::{Error, Result};
use arrow_array::{Array, ArrayRef, BooleanArray, RecordBatch, RecordBatchOptions};
use arrow_schema::SchemaRef;
use arrow_select::filter::{FilterBuilder, prep_null_mask_filter};
use hyperchunk::live::{ComputeTime, within_read};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// A scan of a table: reads some columns first, then the other columns of selected rows.
#[derive(Debug)]
pub struct Scan {
    batches: Batches,
    first: Table,
    others: Table,
    schema: SchemaRef,
    /// For each wanted column: true if it is one of the first, and its index there or among the others.
    order: Arc<[(bool, usize)]>,
    bytes_scanned: Arc<AtomicU64>,
}

/// A part of the rows of a scan.
#[derive(Debug)]
pub struct ScanPart {
    first: RecordBatch,
    slab: RowBatch,
    others: Arc<Inner>,
    schema: SchemaRef,
    order: Arc<[(bool, usize)]>,
    bytes_scanned: Arc<AtomicU64>,
    account: Arc<ComputeTime>,
}

impl Table {
    /// Scans the columns `first`, whose values determine the rows for which the columns `wanted` are
    /// returned.
    ///
    /// # Errors
    /// NotFound if a column does not exist; as [`Table::batches`].
    pub fn scan(&self, first: &[&str], wanted: &[&str]) -> Result<Scan> {
        self.scan_rows(first, wanted, std::slice::from_ref(&(0..self.rows())))
    }

    /// Scans only some rows, which must be sorted and disjoint.
    ///
    /// # Errors
    /// As [`Table::scan`]; Invalid for rows that are not sorted, or outside the table.
    pub fn scan_rows(&self, first: &[&str], wanted: &[&str], rows: &[Range<u64>]) -> Result<Scan> {
        let ordered = rows.iter().zip(rows.iter().skip(1)).all(|(one, next)| one.end <= next.start);
        let forward = rows.iter().all(|rows| rows.start <= rows.end);
        let (start, end) =
            (rows.first().map_or(0, |rows| rows.start), rows.last().map_or(0, |rows| rows.end));
        if !ordered || !forward {
            return Err(Error::invalid("the rows of a scan must be sorted and disjoint"));
        }
        let around = self.slice(start..end)?;
        let before = self.0.rows.start;
        let rows = rows.iter().map(|rows| before + rows.start..before + rows.end).collect();
        let others: Vec<&str> = wanted.iter().filter(|name| !first.contains(name)).copied().collect();
        let order = wanted.iter().map(|name| match first.iter().position(|known| known == name) {
            Some(place) => (true, place),
            None => (false, others.iter().position(|known| known == name).unwrap_or(0)),
        });
        let all: Vec<&str> = first.iter().chain(&others).copied().collect();
        Ok(Scan {
            batches: Batches::from_rows(&around.select(&all)?.0, rows)?,
            first: self.select(first)?,
            schema: self.select(wanted)?.schema(),
            order: order.collect(),
            others: self.select(&others)?,
            bytes_scanned: Arc::default(),
        })
    }
}

impl Scan {
    /// Returns the next rows, with the values of the first columns.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn next_part(&mut self) -> Result<Option<ScanPart>> {
        let Some((slab, first)) = self.batches.next_for(&self.first.0)? else { return Ok(None) };
        self.bytes_scanned.fetch_add(self.first.0.dataset_bytes(first.num_rows()), Ordering::Relaxed);
        Ok(Some(ScanPart {
            first,
            slab,
            others: Arc::clone(&self.others.0),
            schema: Arc::clone(&self.schema),
            order: Arc::clone(&self.order),
            bytes_scanned: Arc::clone(&self.bytes_scanned),
            account: self.batches.account(),
        }))
    }

    /// Returns the number of bytes of elements examined until now, here and by the parts.
    #[must_use]
    pub fn bytes_scanned(&self) -> u64 {
        self.bytes_scanned.load(Ordering::Relaxed)
    }

    /// Returns the schema of the first columns.
    #[must_use]
    pub fn first_schema(&self) -> SchemaRef {
        self.first.schema()
    }

    /// Returns the live counter of examined bytes of elements, here and by the parts.
    #[must_use]
    pub fn counter(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.bytes_scanned)
    }

    /// Returns the schema of the wanted columns.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

impl ScanPart {
    /// Returns the values of the first columns.
    #[must_use]
    pub fn first(&self) -> &RecordBatch {
        &self.first
    }

    /// Returns the wanted columns of the rows for which `mask` is true; all without a mask.
    ///
    /// # Errors
    /// If they cannot be read; Invalid if the length of the mask is not the number of rows.
    pub fn filter(&self, mask: Option<&BooleanArray>) -> Result<RecordBatch> {
        let rows = self.first.num_rows();
        if let Some(mask) = mask
            && mask.len() != rows
        {
            return Err(Error::invalid(format!("a mask of {} values for {rows} rows", mask.len())));
        }
        let mask =
            mask.map(|mask| if mask.null_count() > 0 { prep_null_mask_filter(mask) } else { mask.clone() });
        let count = mask.as_ref().map_or(rows, BooleanArray::true_count);
        if count == 0 {
            return Ok(RecordBatch::new_empty(Arc::clone(&self.schema)));
        }
        let mask = mask.filter(|_| count < rows);
        let others = within_read(Some(Arc::clone(&self.account)), || self.others.compute(&self.slab))?;
        self.bytes_scanned.fetch_add(self.others.dataset_bytes(rows), Ordering::Relaxed);
        let column = |(is_first, number): &(bool, usize)| {
            let from = if *is_first { &self.first } else { &others };
            Arc::clone(from.column(*number))
        };
        let mut columns: Vec<ArrayRef> = self.order.iter().map(column).collect();
        if let Some(mask) = mask {
            let filter = FilterBuilder::new(&mask);
            let filter = if columns.len() > 1 { filter.optimize() } else { filter }.build();
            let filtered = columns.iter().map(|column| filter.filter(column));
            let filtered: std::result::Result<Vec<_>, _> = filtered.collect();
            columns = filtered.map_err(|error| Error::unsupported(format!("cannot select rows: {error}")))?;
        }
        let options = RecordBatchOptions::new().with_row_count(Some(count));
        RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)
            .map_err(|error| Error::invalid(format!("invalid record batch: {error}")))
    }
}
