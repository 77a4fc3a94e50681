//! Ranges of rows of a store's dataset that are contiguous in a log, for memory mapping.
//!
//! Checksums are not verified; `hyperchunk store verify` does that.

use super::pieces::{Fuel, Hits};
use crate::format::piece::PieceForm;
use crate::read::snapshot::{ShardedDataset, State};
use hyperchunk::internal::{Stretch, placed};
use hyperchunk::{Limits, Result};
use std::collections::BTreeMap;
use std::ops::Range;

/// Number of pieces above which nothing is mapped and all rows are read.
const MAX_PIECES: usize = 1 << 16;

impl ShardedDataset {
    /// Returns the locations of rows that are contiguous in a log; `row` is the size of a row and
    /// `element` the size of an element, in bytes.
    pub(crate) fn contiguous_rows(
        &self,
        rows: &Range<u64>,
        (row, element): (u64, u64),
        limits: &Limits,
    ) -> Result<Vec<Stretch>> {
        let State::Committed(store, number) = &self.state else { return Ok(Vec::new()) };
        let known = store.prepared_dataset(*number)?;
        let Some((_, cell)) = known.about.dims.split_first() else { return Ok(Vec::new()) };
        let wanted: Vec<Range<u64>> =
            std::iter::once(rows.clone()).chain(cell.iter().map(|dim| 0..*dim)).collect();
        let flat: Vec<u64> = wanted.iter().flat_map(|range| [range.start, range.end]).collect();
        let mut see = |visible: &[u64], out: &mut Vec<u64>| {
            let seen = visible
                .chunks_exact(2)
                .zip(&wanted)
                .map(|(range, wanted)| range[0].max(wanted.start)..range[1].min(wanted.end));
            let seen: Vec<Range<u64>> = seen.collect();
            let any = seen.iter().all(|range| range.start < range.end);
            if any {
                out.extend(seen.iter().flat_map(|range| [range.start, range.end]));
            }
            any
        };
        let (fuel, mut hits) = (Fuel::new(limits), Hits::default());
        if !known.pieces().find(&flat, (0, None), (MAX_PIECES, &fuel), &mut see, &mut hits)? {
            return Ok(Vec::new());
        }
        hits.sort();
        let mut taken = CoveredRows::default();
        let mut found = Vec::new();
        // From the top down.
        for piece in hits.found.iter().rev() {
            let (start, count, visible) = (hits.start(piece), hits.count(piece), hits.visible(piece));
            let Some((&[first, end], rest)) = visible.split_first_chunk::<2>() else { continue };
            let whole_rows = start.iter().skip(1).all(|start| *start == 0)
                && count.get(1..) == Some(cell)
                && rest.chunks_exact(2).zip(cell).all(|(range, dim)| range[0] == 0 && range[1] == *dim);
            let elements = count.iter().try_fold(1_u64, |product, count| product.checked_mul(*count));
            let bytes = elements.and_then(|elements| elements.checked_mul(element));
            let (log, length) = known.extent(piece.layer);
            let inside = piece.offset.checked_add(piece.length).is_some_and(|end| end <= length);
            let as_it_is =
                piece.form == PieceForm::Raw && whole_rows && inside && bytes == Some(piece.length);
            for part in taken.take(first..end) {
                if as_it_is && let (Some(begin), Ok(log)) = (start.first(), u32::try_from(log)) {
                    let source = store.log(log)?;
                    let offset = part.start.checked_sub(*begin).and_then(|rows| rows.checked_mul(row));
                    let offset = offset.and_then(|before| before.checked_add(piece.offset));
                    found.extend(offset.and_then(|offset| placed(&source, part, row, offset)));
                }
            }
        }
        found.sort_by_key(|stretch: &Stretch| stretch.rows.start);
        Ok(found)
    }
}

/// Rows that pieces above cover.
#[derive(Default)]
struct CoveredRows(BTreeMap<u64, u64>);

impl CoveredRows {
    /// Covers rows, and returns the ones that were not covered before.
    fn take(&mut self, rows: Range<u64>) -> Vec<Range<u64>> {
        let mut free = Vec::new();
        let (mut start, mut end) = (rows.start, rows.end);
        let mut at = rows.start;
        let over: Vec<(u64, u64)> = self
            .0
            .range(..rows.end)
            .rev()
            .take_while(|(_, end)| **end >= rows.start)
            .map(|(start, end)| (*start, *end))
            .collect();
        for (first, last) in over.into_iter().rev() {
            if at < first {
                free.push(at..first);
            }
            at = at.max(last);
            (start, end) = (start.min(first), end.max(last));
            self.0.remove(&first);
        }
        if at < rows.end {
            free.push(at..rows.end);
        }
        self.0.insert(start, end);
        free
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::single_range_in_vec_init, reason = "lists of ranges, often of one")]

    use super::*;

    #[test]
    fn rows_are_taken_once() {
        let mut taken = CoveredRows::default();
        let mut check = |rows: Range<u64>, expected: &[Range<u64>]| {
            assert_eq!(taken.take(rows.clone()), expected, "{rows:?}");
            assert!(taken.take(rows).is_empty());
        };
        check(10..20, &[10..20]);
        check(30..40, &[30..40]);
        check(5..12, &[5..10]);
        check(15..35, &[20..30]);
        check(0..50, &[0..5, 40..50]);
        check(60..70, &[60..70]);
        check(50..60, &[50..60]);
        check(3..80, &[70..80]);
    }
}
