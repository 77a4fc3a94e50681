//! Locations of a dataset's rows in local files, for callers that map them.

use super::contiguous::{Bytes, locate};
use super::table::with_table;
use crate::Result;
use crate::dataset::Dataset;
use crate::io::Source;
use hyperchunk_format::model::{Chunked, Layout};
use std::ops::Range;
use std::sync::Arc;

/// Consecutive rows of a dataset: the indices of its first dimension.
#[derive(Debug, Clone)]
pub struct Stretch {
    /// The range of rows.
    pub rows: Range<u64>,
    /// The file that contains all their elements contiguously and unfiltered, and the offset in it; `None` if
    /// there is none, so that they must be read.
    pub place: Option<(Arc<dyn Source>, u64)>,
}

impl Dataset {
    /// Returns the locations of rows, in order; together they are exactly the given rows. A scalar dataset is
    /// one row.
    ///
    /// Each location is inside its file, as of the file's size when it was opened.
    ///
    /// # Errors
    /// If the index of its chunks, or a file that contains its data, cannot be read.
    pub fn stretches(&self, rows: Range<u64>) -> Result<Vec<Stretch>> {
        if rows.is_empty() {
            return Ok(Vec::new());
        }
        let found = match self.row_bytes().filter(|_| !self.is_remote()) {
            Some(row) => self.pieces_of_files(&rows, row),
            None => Ok(Vec::new()),
        };
        let found = found.map_err(|error| self.with_context(error))?;
        Ok(with_gaps(found, rows))
    }

    fn pieces_of_files(&self, rows: &Range<u64>, row: u64) -> Result<Vec<Stretch>> {
        if let Some(sharded) = &self.0.sharded {
            let limits = &self.object().file().options().limits;
            return sharded.contiguous_rows(rows, (row, self.datatype().size), limits);
        }
        match self.layout() {
            Layout::Chunked(chunked) => in_chunks(self, chunked, row, rows),
            Layout::Contiguous { .. } => in_one_piece(self, row, rows),
            Layout::Compact { .. } | Layout::Virtual { .. } => Ok(Vec::new()),
        }
    }

    /// Returns the size of a stored row in bytes; `None` if it is 0 or exceeds 64 bits.
    fn row_bytes(&self) -> Option<u64> {
        let cell = self.dims().get(1..).unwrap_or_default();
        let bytes = cell.iter().try_fold(self.datatype().size, |size, dim| size.checked_mul(*dim));
        bytes.filter(|bytes| *bytes > 0)
    }
}

/// Fills the gaps between stretches with stretches that must be read.
fn with_gaps(found: Vec<Stretch>, rows: Range<u64>) -> Vec<Stretch> {
    let mut all: Vec<Stretch> = Vec::with_capacity(found.len() + 1);
    let mut at = rows.start;
    // A damaged index may list a chunk twice.
    for stretch in found {
        if stretch.rows.start < at {
            continue;
        }
        if at < stretch.rows.start {
            all.push(Stretch { rows: at..stretch.rows.start, place: None });
        }
        at = stretch.rows.end;
        all.push(stretch);
    }
    if at < rows.end {
        all.push(Stretch { rows: at..rows.end, place: None });
    }
    all
}

/// Returns the stretch of rows at an offset, if all of them are inside the file and the file is local.
pub fn placed(source: &Arc<dyn Source>, rows: Range<u64>, row: u64, offset: u64) -> Option<Stretch> {
    source.file()?;
    let bytes = (rows.end - rows.start).checked_mul(row)?;
    offset.checked_add(bytes).filter(|end| *end <= source.size())?;
    Some(Stretch { rows, place: Some((Arc::clone(source), offset)) })
}

fn in_one_piece(dataset: &Dataset, row: u64, rows: &Range<u64>) -> Result<Vec<Stretch>> {
    let at = |first: u64| (rows.start - first).checked_mul(row);
    match locate(dataset)? {
        Some(Bytes::File(_, start)) => {
            let source = &dataset.object().file().0.source;
            let offset = at(0).and_then(|before| start.checked_add(before));
            Ok(offset.and_then(|offset| placed(source, rows.clone(), row, offset)).into_iter().collect())
        }
        Some(Bytes::External(parts)) => {
            let within = parts.iter().filter_map(|(start, length, source, offset)| {
                // Whole rows only: a row that is divided between two files must be read.
                let first = start.div_ceil(row).max(rows.start);
                let end = (start.checked_add(*length)? / row).min(rows.end);
                let offset = offset.checked_add(first.checked_mul(row)?.checked_sub(*start)?)?;
                if first < end { placed(source, first..end, row, offset) } else { None }
            });
            Ok(within.collect())
        }
        _ => Ok(Vec::new()),
    }
}

fn in_chunks(dataset: &Dataset, chunked: &Chunked, row: u64, rows: &Range<u64>) -> Result<Vec<Stretch>> {
    let (dims, file) = (dataset.dims(), dataset.object().file());
    let (Some(height), Some(extent)) = (chunked.dims.first().copied(), dims.first()) else {
        return Ok(Vec::new());
    };
    let of_whole_rows = chunked.dims.get(1..) == dims.get(1..);
    let chunk_bytes = height.checked_mul(row).filter(|_| chunked.element_size == dataset.datatype().size);
    let Some(chunk_bytes) = chunk_bytes.filter(|_| of_whole_rows && dataset.pipeline().is_empty()) else {
        return Ok(Vec::new());
    };
    let mut region = vec![0..1; dims.len()];
    if let Some(first) = region.first_mut() {
        *first = rows.start / height..rows.end.min(*extent).div_ceil(height);
    }
    with_table(dataset, chunked, &region, |table| {
        let mut found: Vec<Stretch> = Vec::new();
        for scaled in table.places() {
            let Some((number, rest)) = scaled.split_first() else { continue };
            let first = number.saturating_mul(height);
            let stored = first.max(rows.start)..first.saturating_add(height).min(rows.end);
            let chunk = table.find(scaled).filter(|chunk| chunk.size == chunk_bytes);
            let Some(chunk) = chunk.filter(|_| !stored.is_empty() && rest.iter().all(|at| *at == 0)) else {
                continue;
            };
            let base = file.superblock().base;
            let offset =
                base.checked_add(chunk.address).and_then(|at| at.checked_add((stored.start - first) * row));
            let Some(next) = offset.and_then(|offset| placed(&file.0.source, stored, row, offset)) else {
                continue;
            };
            match found.last_mut() {
                Some(last) if follows(last, &next, row) => last.rows.end = next.rows.end,
                _ => found.push(next),
            }
        }
        Ok(found)
    })
}

/// Returns whether a stretch is stored directly after another one, as chunks often are.
fn follows(last: &Stretch, next: &Stretch, row: u64) -> bool {
    match (&last.place, &next.place) {
        (Some((_, before)), Some((_, offset))) => {
            last.rows.end == next.rows.start && before + (last.rows.end - last.rows.start) * row == *offset
        }
        _ => false,
    }
}
