//! File ranges of the chunks or contiguous data of a box (a rectangular selection), for callers that decode
//! them themselves.

use super::chunked::located;
use super::contiguous::{Bytes, locate};
use super::fetch::{Part, Parts};
use super::table::with_table;
use super::workers::spread;
use crate::dataset::Dataset;
use crate::io::Source;
use crate::{Error, Result};
use hyperchunk_format::model::{Chunked, Filter, Layout};
use hyperchunk_format::select::{Axis, Selection};
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// Stored pieces of a box of a dataset.
#[derive(Debug, Clone)]
pub struct StoredBox {
    /// The file with the bytes.
    pub source: Arc<dyn Source>,
    /// The number of elements along each axis.
    pub shape: Vec<u64>,
    /// The extent of the elements that a piece's bytes decode to: of a chunk, or of the whole contiguous
    /// dataset.
    pub extent: Vec<u64>,
    /// The dataset's filters.
    pub pipeline: Vec<Filter>,
    /// The value of unwritten elements; zeros if `None`.
    pub fill: Option<Vec<u8>>,
    /// The pieces. They cover the box and do not overlap.
    pub pieces: Vec<StoredPiece>,
}

/// A piece of a box: a part of a chunk or of contiguous data.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoredPiece {
    /// The range of the bytes in the file; `None` if they were never written.
    pub range: Option<Range<u64>>,
    /// Bit mask of the filters that were skipped; all bits are set for unfiltered bytes.
    pub mask: u32,
    /// The first selected element of the piece, along each axis.
    pub from: Vec<u64>,
    /// The coordinates of that element in the box.
    pub to: Vec<u64>,
    /// The number of selected elements along each axis.
    pub count: Vec<u64>,
}

/// Minimum size in bytes of a selected row, if the rows are not contiguous. An ordinary read is faster for
/// smaller rows.
const MIN_ROW_BYTES: u64 = 64 << 10;

/// Maximum size of a stub in bytes; the stub of the first chunk can contain the function.
const MAX_STUB_BYTES: u64 = super::live::MAX_STUB_BYTES;

impl Dataset {
    /// Returns the stored pieces of a selection that is a box. `None` if it is not a box, or if its elements
    /// are neither in one local file nor in chunks of one file over a network; read them with
    /// [`Dataset::read`] then.
    ///
    /// # Errors
    /// Invalid if the selection does not fit the extent; if the index of the chunks cannot be read, or
    /// points outside the file; Limit if chunks are larger than the maximum chunk size.
    pub fn stored_box(&self, selection: &Selection) -> Result<Option<StoredBox>> {
        self.find_box(selection).map_err(|error| self.with_context(error))
    }

    /// Returns the stubs of a live dataset's chunks, for a selection that is a box: pieces as of
    /// [`Dataset::stored_box`] whose bytes are stubs. `None` if the selection is not a box, if a chunk has
    /// no stub, or if the dataset is not computed here.
    ///
    /// # Errors
    /// As [`Dataset::stored_box`].
    pub fn live_box(&self, selection: &Selection) -> Result<Option<StoredBox>> {
        self.find_live_box(selection).map_err(|error| self.with_context(error))
    }

    fn find_live_box(&self, selection: &Selection) -> Result<Option<StoredBox>> {
        selection.check(self.dims())?;
        let (Some(_), Layout::Chunked(chunked)) = (self.evaluator()?, self.layout()) else { return Ok(None) };
        if self.layout_for(selection).is_some() {
            return Ok(None);
        }
        let Some(wanted) = ranges(selection, self.dims()) else { return Ok(None) };
        let pieces = chunks(self, chunked, &wanted)?;
        let is_stub = |piece: &StoredPiece| {
            let length = piece.range.as_ref().map(|range| range.end - range.start);
            piece.mask == 0 && length.is_some_and(|length| length <= MAX_STUB_BYTES)
        };
        if !pieces.iter().all(is_stub) {
            return Ok(None);
        }
        Ok(Some(StoredBox {
            source: Arc::clone(&self.object().file().0.source),
            shape: wanted.iter().map(|range| range.end - range.start).collect(),
            extent: chunked.dims.clone(),
            pipeline: self.pipeline().to_vec(),
            fill: None,
            pieces,
        }))
    }

    /// Returns the stub in the first chunk of a live dataset; `None` if the chunk is not stored or contains
    /// elements.
    ///
    /// # Errors
    /// If the index of the chunks cannot be read, or points outside the file; the errors of reading.
    pub fn first_note(&self) -> Result<Option<Vec<u8>>> {
        let Layout::Chunked(chunked) = self.layout() else { return Ok(None) };
        if self.dims().contains(&0) {
            return Ok(None);
        }
        let first: Vec<_> = self.dims().iter().map(|_| 0..1).collect();
        let pieces = chunks(self, chunked, &first).map_err(|error| self.with_context(error))?;
        let Some(range) =
            pieces.first().filter(|piece| piece.mask == 0).and_then(|piece| piece.range.clone())
        else {
            return Ok(None);
        };
        let Some(length) = Some(range.end - range.start).filter(|length| *length <= MAX_STUB_BYTES) else {
            return Ok(None);
        };
        let mut stub = vec![0; usize::try_from(length).unwrap_or(usize::MAX)];
        let found = StoredBox {
            source: Arc::clone(&self.object().file().0.source),
            shape: vec![1; first.len()],
            extent: chunked.dims.clone(),
            pipeline: self.pipeline().to_vec(),
            fill: None,
            pieces,
        };
        self.read_pieces(&found, vec![(0, &mut stub)])?;
        Ok(Some(stub))
    }

    /// Reads the stored bytes of pieces of a box of this dataset. Each item has a piece's number, and a
    /// buffer of the size of the piece's range.
    ///
    /// # Errors
    /// The errors of reading, with the offset in the file; Invalid if there is no such piece, or the buffer
    /// has another size.
    pub fn read_pieces(&self, found: &StoredBox, places: Vec<(usize, &mut [u8])>) -> Result<()> {
        let mut jobs = Vec::with_capacity(places.len());
        for (number, to) in places {
            let range = found.pieces.get(number).and_then(|piece| piece.range.clone());
            let Some(range) = range.filter(|range| range.end - range.start == to.len() as u64) else {
                return Err(self.with_context(Error::invalid(
                    "the box has no such piece, or the buffer has another size than the piece",
                )));
            };
            jobs.push((range, to));
        }
        let bytes = jobs.iter().map(|(_, to)| to.len() as u64).sum();
        let threads = self.threads_for(bytes);
        let read = if found.source.remote().is_some() {
            let mut parts = Parts::default();
            for (range, to) in jobs {
                let to = Mutex::new(to);
                let work = Box::new(move |bytes: &[u8], _: &mut super::fetch::Scratch| {
                    let mut to = to.lock().unwrap_or_else(PoisonError::into_inner);
                    if bytes.len() != to.len() {
                        return Err(Error::invalid("a fetched part has another size than was requested"));
                    }
                    to.copy_from_slice(bytes);
                    Ok(())
                });
                parts.add(&found.source, Part { range, work });
            }
            parts.run(threads, self.object().file().options().limits.in_flight_bytes)
        } else {
            spread(
                threads,
                jobs.into_iter(),
                || (),
                |(), (range, to)| {
                    let read = found.source.read_at(range.start, to);
                    read.map_err(|error| error.within("chunk").at(range.start))
                },
            )
        };
        read.map_err(|error| self.with_context(error))
    }

    fn find_box(&self, selection: &Selection) -> Result<Option<StoredBox>> {
        selection.check(self.dims())?;
        let elsewhere = self.0.sharded.is_some()
            || self.evaluator()?.is_some()
            || !self.external().is_empty()
            || self.layout_for(selection).is_some();
        let source = &self.object().file().0.source;
        let remote = source.remote().is_some();
        if elsewhere || source.file().is_none() && !remote {
            return Ok(None);
        }
        let Some(wanted) = ranges(selection, self.dims()) else { return Ok(None) };
        let (extent, pieces) = match self.layout() {
            Layout::Chunked(chunked) => (chunked.dims.clone(), chunks(self, chunked, &wanted)?),
            // There is nothing to decode, and an ordinary read plans the requests for parts of the data
            // better.
            Layout::Contiguous { .. } if remote => return Ok(None),
            Layout::Contiguous { .. } => match rows(self, &wanted)? {
                Some(pieces) => (self.dims().to_vec(), pieces),
                None => return Ok(None),
            },
            Layout::Compact { .. } | Layout::Virtual { .. } => return Ok(None),
        };
        let shape = wanted.iter().map(|range| range.end - range.start).collect();
        let pipeline = self.pipeline().to_vec();
        let fill = self.unwritten()?;
        Ok(Some(StoredBox { source: Arc::clone(source), shape, extent, pipeline, fill, pieces }))
    }
}

/// Returns the range along each axis of a selection that is a box; `None` if it is not.
fn ranges(selection: &Selection, dims: &[u64]) -> Option<Vec<Range<u64>>> {
    match selection {
        Selection::All => Some(dims.iter().map(|extent| 0..*extent).collect()),
        Selection::Axes(axes) => axes.iter().map(range).collect(),
        _ => None,
    }
}

fn range(axis: &Axis) -> Option<Range<u64>> {
    match *axis {
        Axis::Range { start, stride, count, block } if count <= 1 || stride == block => {
            Some(start..start.checked_add(count.checked_mul(block)?)?)
        }
        _ => None,
    }
}

fn chunks(dataset: &Dataset, chunked: &Chunked, wanted: &[Range<u64>]) -> Result<Vec<StoredPiece>> {
    if chunked.element_size != dataset.datatype().size {
        return Err(Error::corrupt("the element size of the chunks differs from the datatype's"));
    }
    let bytes = chunked.dims.iter().try_fold(chunked.element_size, |bytes, dim| bytes.checked_mul(*dim));
    let most = dataset.object().file().options().limits.chunk_bytes;
    if bytes.is_none_or(|bytes| bytes > most) {
        return Err(Error::limit(format!("chunks of more than {most} bytes (limit `chunk_bytes`)")));
    }
    let selection = Selection::Axes(wanted.iter().cloned().map(Axis::range).collect());
    let region = selection.chunk_region(dataset.dims(), &chunked.dims)?;
    let mut pieces = Vec::new();
    with_table(dataset, chunked, &region, |table| {
        let mut place: Vec<u64> = region.iter().map(|range| range.start).collect();
        if region.iter().any(Range::is_empty) {
            return Ok(());
        }
        loop {
            let mut piece = StoredPiece {
                range: None,
                mask: 0,
                from: Vec::with_capacity(place.len()),
                to: Vec::with_capacity(place.len()),
                count: Vec::with_capacity(place.len()),
            };
            let mut partial = false;
            for (axis, at) in place.iter().enumerate() {
                let first = at * chunked.dims[axis];
                let end = first.saturating_add(chunked.dims[axis]);
                partial |= end > dataset.dims()[axis];
                let (from, until) = (first.max(wanted[axis].start), end.min(wanted[axis].end));
                piece.from.push(from - first);
                piece.to.push(from - wanted[axis].start);
                piece.count.push(until - from);
            }
            if let Some(chunk) = table.find(&place) {
                let located = located(dataset, chunk.address, chunk.size);
                piece.range = Some(located.map_err(|error| super::chunked::named(error, Some(chunk)))?);
                let unfiltered = chunked.edge_chunks_unfiltered && partial;
                piece.mask = if unfiltered { u32::MAX } else { chunk.filter_mask };
            }
            pieces.push(piece);
            let next = (0..place.len()).rev().find(|axis| place[*axis] + 1 < region[*axis].end);
            let Some(axis) = next else { return Ok(()) };
            place[axis] += 1;
            for axis in axis + 1..place.len() {
                place[axis] = region[axis].start;
            }
        }
    })?;
    Ok(pieces)
}

/// Returns contiguous data as one piece; `None` if the selected rows are too short to be read one by one.
fn rows(dataset: &Dataset, wanted: &[Range<u64>]) -> Result<Option<Vec<StoredPiece>>> {
    let (dims, size) = (dataset.dims(), dataset.datatype().size);
    let count: Vec<u64> = wanted.iter().map(|range| range.end - range.start).collect();
    if count.contains(&0) {
        return Ok(Some(Vec::new()));
    }
    let range = match locate(dataset)? {
        Some(Bytes::File(_, start)) => {
            let bytes = dataset.elements()?.checked_mul(size).and_then(|bytes| start.checked_add(bytes));
            Some(start..bytes.ok_or_else(|| Error::limit("the data extend past offset 2^64 - 1"))?)
        }
        None => None,
        Some(Bytes::Memory(_) | Bytes::External(_)) => return Ok(None),
    };
    // The selected elements are contiguous from this axis on.
    let along = (0..dims.len()).rev().find(|axis| count[*axis] != dims[*axis]).unwrap_or(0);
    let row = count.iter().skip(along).fold(size, |bytes, count| bytes.saturating_mul(*count));
    if range.is_some() && row < MIN_ROW_BYTES && count.iter().take(along).any(|count| *count > 1) {
        return Ok(None);
    }
    let from = wanted.iter().map(|range| range.start).collect();
    Ok(Some(vec![StoredPiece { range, mask: u32::MAX, from, to: vec![0; dims.len()], count }]))
}

#[cfg(test)]
mod tests;
