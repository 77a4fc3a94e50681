//! Merging of extents that several writers change, and of rows that they append.

use crate::{DatasetWrites, Extent, Hyperslab, Part};
use hyperchunk::{Error, Result};

/// Merge of the changes of an extent: in each dimension the largest requested size or, if no
/// change enlarges it, the smallest.
pub(super) struct AppendedExtents {
    before: Vec<u64>,
    grown: Vec<u64>,
    shrunk: Vec<u64>,
}

impl AppendedExtents {
    pub(super) fn new(before: &[u64]) -> Self {
        Self { before: before.to_vec(), grown: before.to_vec(), shrunk: before.to_vec() }
    }

    /// Adds a writer's changes, which started from `start`. Returns the changes that clip: growth
    /// clips nothing, even if others had enlarged the dataset in the meantime.
    pub(super) fn take(&mut self, start: &[u64], extents: &[Extent]) -> Vec<Extent> {
        let mut last = start.to_vec();
        let mut clips = Vec::new();
        for extent in extents {
            clips.extend(extent.clip(&last));
            last.clone_from(&extent.dims);
        }
        for (axis, (end, start)) in last.iter().zip(start).enumerate() {
            if end < start {
                self.shrunk[axis] = self.shrunk[axis].min(*end);
            }
            self.grown[axis] = self.grown[axis].max(*end);
        }
        clips
    }

    /// Adds the changes of a stopped writer, over which later epochs take precedence. `known` is the
    /// extent in the epoch that the writer started from. The writer's growth counts unless later
    /// epochs shrank the dataset; its shrinking counts only if they neither changed the extent nor
    /// wrote to the dataset (`is_written`).
    pub(super) fn take_below(
        &mut self,
        start: &[u64],
        extents: &[Extent],
        known: &[u64],
        is_written: bool,
    ) -> Vec<Extent> {
        let mut own = Self::new(&self.before);
        let clips = own.take(start, extents);
        let last = extents.last().map_or(start, |extent| &extent.dims);
        for axis in 0..self.before.len().min(last.len()).min(start.len()).min(known.len()) {
            let (now, known, end) = (self.before[axis], known[axis], last[axis]);
            if end > start[axis] && now >= known {
                self.grown[axis] = self.grown[axis].max(end);
            } else if end < start[axis] && now == known && !is_written {
                self.shrunk[axis] = self.shrunk[axis].min(end);
            }
        }
        clips
    }

    pub(super) fn extent(self) -> Vec<u64> {
        let axes = self.before.iter().zip(&self.grown).zip(&self.shrunk);
        axes.map(|((before, grown), shrunk)| if grown > before { *grown } else { *shrunk }).collect()
    }
}

/// Appends rows after the existing ones, the rows of one writer after those of another, in the order of their
/// priorities and of the times when they began.
///
/// # Errors
/// Corrupt if rows have another number of dimensions; Limit.
pub(super) fn append_rows(
    parts: &mut Vec<Part>,
    mut appended_parts: Vec<((i32, u64), u32, DatasetWrites)>,
    extent: &mut [u64],
    epoch: u64,
) -> Result<()> {
    let Some((rows, row)) = extent.split_first_mut() else { return Ok(()) };
    appended_parts.sort_by_key(|(order, ..)| *order);
    for (_, log, DatasetWrites { appended, statistics, pages, .. }) in appended_parts {
        let (mut first, mut end) = (u64::MAX, 0);
        for piece in appended.iter() {
            let (Some(start), Some(count)) = (piece.slab.start.first(), piece.slab.count.first()) else {
                continue;
            };
            // Rows may be narrower than the dataset: the rest of such a row is unwritten.
            if piece.slab.count.len() != row.len() + 1 {
                return Err(Error::corrupt(format!("rows of {} dimensions", piece.slab.count.len())));
            }
            (first, end) = (first.min(*start), end.max(start.saturating_add(*count)));
        }
        let pieces = appended.shifted(rows.wrapping_sub(first));
        let mut written =
            DatasetWrites { pieces, statistics, pages, ..DatasetWrites::nothing(row.len() + 1) };
        let more = end.saturating_sub(first);
        *rows = rows.checked_add(more).ok_or_else(|| Error::limit("more than 2^64 rows"))?;
        // Parts of longer rows outside the extent must not reappear when the dataset grows.
        let is_wider = |slab: &Hyperslab| {
            let ends = slab.start.iter().zip(&slab.count).map(|(start, count)| start.saturating_add(*count));
            ends.skip(1).zip(&*row).any(|(end, dim)| end > *dim)
        };
        if written.pieces.iter().any(|piece| is_wider(&piece.slab)) {
            let dims = std::iter::once(*rows).chain(row.iter().copied()).collect();
            written.extents.push(Extent { order: u64::MAX, dims });
        }
        parts.push(Part { log, epoch, written });
    }
    Ok(())
}
