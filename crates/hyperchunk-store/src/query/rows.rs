//! Statistics of rows, for datasets of one dimension such as the columns of tables.

use super::zone::{requested_box, zone_map};
use super::zonemap::Zonemap;
use super::{Elements, ZoneRequest};
use crate::{Extreme, Hyperslab, PageKind, Statistics, sharded};
use hyperchunk::{Dataset, ErrorKind, Result};
use std::ops::Range;

/// Bounds of values.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct Bounds {
    /// Lower and upper bound of the numbers; `None` if there are no numbers.
    pub numbers: Option<(Extreme, Extreme)>,
    /// True if there may be NaNs.
    pub nan: bool,
}

/// A range of rows.
#[derive(Debug, Clone, Copy, PartialEq)]
#[non_exhaustive]
pub struct BoundedRows {
    /// End of the range, exclusive; it starts at the end of the previous one.
    pub end: u64,
    /// Bounds of the values; `None` if unknown.
    pub bounds: Option<Bounds>,
}

/// Bounds of the values of rows.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct RowZones {
    /// Ranges in order, without gaps, up to the last requested row.
    pub zones: Vec<BoundedRows>,
    /// Number of bytes of statistics that were read.
    pub bytes_scanned: u64,
}

impl Bounds {
    /// Makes bounds of the numbers, if there are any, and whether there may be NaNs.
    #[must_use]
    pub fn new(numbers: Option<(Extreme, Extreme)>, nan: bool) -> Self {
        Self { numbers, nan }
    }

    /// Converts statistics of elements; `None` if they are inconsistent or describe other elements.
    pub(super) fn from_statistics(statistics: &Statistics, elements: Elements) -> Option<Self> {
        let Statistics { count, nan, min, max, .. } = *statistics;
        if count == 0 || nan > count || (nan > 0 && !elements.may_be_nan()) {
            return None;
        }
        if nan == count {
            return Some(Self { numbers: None, nan: true });
        }
        let ((low, _), (high, _)) = min.zip(max)?;
        let fits = elements.has(low) && elements.has(high) && !high.less(low);
        fits.then_some(Self { numbers: Some((low, high)), nan: nan > 0 })
    }

    /// Returns bounds of the values of both.
    fn with(self, other: Self) -> Self {
        let numbers = match (self.numbers, other.numbers) {
            (Some((low, high)), Some((lower, higher))) => Some((
                if lower.less(low) { lower } else { low },
                if high.less(higher) { higher } else { high },
            )),
            (one, other) => one.or(other),
        };
        Self { numbers, nan: self.nan || other.nan }
    }
}

/// See [`super::Queries::row_zones`].
pub(super) fn row_zones(dataset: &Dataset, rows: Range<u64>) -> Result<Option<RowZones>> {
    let Ok(elements) = Elements::from_datatype(dataset.datatype()) else { return Ok(None) };
    if rows.start >= rows.end || !keeps_row_zones(dataset)? {
        return Ok(None);
    }
    let wanted = Hyperslab::new([rows.start], [rows.end - rows.start]);
    let wanted = requested_box(dataset, Some(&wanted))?;
    let limits = &dataset.object().file().options().limits;
    let zoned = match zone_map(dataset, &ZoneRequest { wanted: &wanted, keep: &|_| true, bare: true, limits })
    {
        // The file changed at this moment.
        Err(error) if error.kind() == ErrorKind::Changed && sharded(dataset).is_none() => return Ok(None),
        found => found?,
    };
    let fill = dataset.unwritten()?.unwrap_or_else(|| vec![0; elements.size()]);
    let fill = Bounds::from_statistics(&elements.statistics(&fill), elements);
    let known = zoned.zones.iter().flat_map(|zone| {
        let bounds =
            zone.statistics.as_ref().and_then(|statistics| Bounds::from_statistics(statistics, elements));
        zone.seen.iter().map(move |slab| (slab, bounds))
    });
    let bare = zoned.bare.iter().map(|slab| (slab, fill));
    let parts = known.chain(bare).filter_map(|(slab, bounds)| {
        let (start, count) = (*slab.start.first()?, *slab.count.first()?);
        Some((start..start.saturating_add(count), bounds))
    });
    Ok(Some(RowZones { zones: in_order(parts.collect(), &rows), bytes_scanned: zoned.bytes_scanned }))
}

/// See [`super::Queries::keeps_row_zones`].
pub(super) fn keeps_row_zones(dataset: &Dataset) -> Result<bool> {
    if dataset.dims().len() != 1 || Elements::from_datatype(dataset.datatype()).is_err() {
        return Ok(false);
    }
    if let Some(sharded) = sharded(dataset) {
        let parts = sharded.stored().map_or(&[][..], |(_, stored)| &stored.parts);
        let mut pages = parts.iter().flat_map(|part| &part.written.pages);
        return Ok(pages.any(|page| page.head.kind == PageKind::Zones));
    }
    has_statistics(dataset)
}

/// Returns whether there are statistics of a dataset: always in a store, otherwise if a file next to its own
/// has them for this version.
pub(super) fn has_statistics(dataset: &Dataset) -> Result<bool> {
    if sharded(dataset).is_some() {
        return Ok(true);
    }
    match Zonemap::find(dataset.object().file()) {
        Ok(found) => Ok(found.is_some_and(|map| map.has(dataset))),
        Err(error) if error.kind() == ErrorKind::Changed => Ok(false),
        Err(error) => Err(dataset.with_context(error)),
    }
}

/// Sorts ranges of rows and closes gaps. Overlapping ranges are merged with the bounds of all.
fn in_order(mut parts: Vec<(Range<u64>, Option<Bounds>)>, rows: &Range<u64>) -> Vec<BoundedRows> {
    parts.sort_by_key(|(part, _)| part.start);
    let mut zones: Vec<BoundedRows> = Vec::with_capacity(parts.len());
    let mut at = rows.start;
    for (part, bounds) in parts {
        let (start, end) = (part.start.max(rows.start), part.end.min(rows.end));
        if start >= end {
            continue;
        }
        if start > at {
            zones.push(BoundedRows { end: start, bounds: None });
            at = start;
        }
        match zones.last_mut() {
            Some(last) if start < at => {
                last.bounds = last.bounds.zip(bounds).map(|(one, other)| one.with(other));
                last.end = last.end.max(end);
            }
            _ => zones.push(BoundedRows { end, bounds }),
        }
        at = at.max(end);
    }
    if at < rows.end {
        zones.push(BoundedRows { end: rows.end, bounds: None });
    }
    zones
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyperchunk::model::{ByteOrder, Datatype};

    fn bounds(low: f64, high: f64, nan: bool) -> Option<Bounds> {
        Some(Bounds { numbers: Some((Extreme::Float(low), Extreme::Float(high))), nan })
    }

    #[test]
    fn parts_follow_each_other() {
        let check = |parts: &[(Range<u64>, Option<Bounds>)], expected: &[(u64, Option<Bounds>)]| {
            let found = in_order(parts.to_vec(), &(10..20));
            let found: Vec<_> = found.iter().map(|zone| (zone.end, zone.bounds)).collect();
            assert_eq!(found, expected);
        };
        let (one, two) = (bounds(1.0, 2.0, false), bounds(5.0, 6.0, true));
        check(&[], &[(20, None)]);
        check(&[(15..30, two), (0..15, one)], &[(15, one), (20, two)]);
        check(&[(12..14, one), (16..18, two)], &[(12, None), (14, one), (16, None), (18, two), (20, None)]);
        check(&[(10..16, one), (14..20, two)], &[(20, bounds(1.0, 6.0, true))]);
        check(&[(10..20, one), (12..13, None)], &[(20, None)]);
        check(&[(10..20, one), (12..13, two), (13..14, None), (20..25, None)], &[(20, None)]);
    }

    #[test]
    fn statistics_that_make_no_sense_bound_nothing() {
        let of = |datatype: &Datatype, statistics: &Statistics| {
            Bounds::from_statistics(statistics, Elements::from_datatype(datatype).unwrap())
        };
        let byte = Datatype::integer(1, true, ByteOrder::Little);
        let extremes = |low, high| Statistics {
            count: 5,
            min: Some((low, 0)),
            max: Some((high, 1)),
            ..Statistics::NONE
        };
        let good = extremes(Extreme::Signed(-3), Extreme::Signed(7));
        assert_eq!(of(&byte, &good).unwrap().numbers, Some((Extreme::Signed(-3), Extreme::Signed(7))));
        for bad in [
            Statistics { count: 0, ..good },
            Statistics { nan: 1, ..good },
            Statistics { min: None, ..good },
            extremes(Extreme::Signed(7), Extreme::Signed(-3)),
            extremes(Extreme::Signed(1), Extreme::Signed(128)),
            extremes(Extreme::Unsigned(1), Extreme::Unsigned(2)),
            extremes(Extreme::Float(1.0), Extreme::Float(2.0)),
        ] {
            assert_eq!(of(&byte, &bad), None, "{bad:?}");
        }
        let float = Datatype::ieee(4, ByteOrder::Big);
        let some = extremes(Extreme::Float(0.5), Extreme::Float(1.5));
        assert!(of(&float, &Statistics { nan: 2, ..some }).unwrap().nan);
        assert_eq!(of(&float, &Statistics { nan: 5, ..some }).unwrap().numbers, None);
        assert_eq!(of(&float, &Statistics { nan: 6, ..some }), None);
        assert_eq!(of(&float, &extremes(Extreme::Float(0.1), Extreme::Float(0.5))), None);
        assert_eq!(of(&float, &extremes(Extreme::Float(f64::NAN), Extreme::Float(0.5))), None);
    }
}
