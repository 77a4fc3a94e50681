//! Zones: statistics of the elements of parts of records, stored in pages.
//!
//! A zone is a range of consecutive elements of a record; each is a box, unless the record has
//! several boxes. Consecutive small records share a zone.

use crate::format::page::{MAX_PAGE_ENTRIES, PageHead, PageKind};
use crate::format::piece::Hyperslab;
use crate::format::varint::{Out, count, number};
use crate::statistics::Statistics;
use hyperchunk::{Error, Result};
use hyperchunk_format::Cursor;

/// Approximate size in bytes of the zones of a large record.
const ZONE_BYTES: u64 = 1 << 20;
/// Maximum number of zones of a record.
const MAX_RECORD_ZONES: u64 = 2048;
/// Maximum number of records that may be waiting when a page is made.
const MAX_PENDING_RECORDS: u64 = crate::format::record::MAX_BUFFERED_RECORDS as u64;
/// Maximum size in bytes of small records that share a zone.
const MAX_SHARED_BYTES: u64 = 64 << 10;

/// Zones of a record, or one zone of consecutive records.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Entry {
    /// First and last record. All records of the dataset between them belong to it.
    pub(crate) first: u64,
    pub(crate) last: u64,
    /// Statistics of consecutive ranges of elements.
    pub(crate) zones: Vec<Statistics>,
}

/// Zones that are in no page yet.
#[derive(Debug, Default)]
pub(crate) struct Zones {
    entries: Vec<Entry>,
    count: u64,
    /// First record after the last page.
    begin: u64,
    /// Kind (appended rows or not) and size in bytes of the last entry, if another record may share
    /// it.
    shared: Option<(bool, u64)>,
    /// True if elements without statistics were written.
    incomplete: bool,
    statistics: Option<Statistics>,
    around: Option<Hyperslab>,
}

/// Pattern of cutting a record into zones: after every `step` elements, restarting after every
/// `of`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ZonePattern {
    pub(crate) step: u64,
    pub(crate) of: u64,
}

impl ZonePattern {
    /// Chooses the pattern such that zones of a box are boxes.
    pub(crate) fn for_boxes(boxes: &[Hyperslab], element: u64, bytes: u64) -> Option<Self> {
        let grain = ZONE_BYTES.max(bytes / MAX_RECORD_ZONES * 2);
        if bytes <= grain || element == 0 {
            return None;
        }
        let [slab] = boxes else { return Some(Self { step: (grain / element).max(1), of: u64::MAX }) };
        let mut below = 1_u64;
        for count in slab.count.iter().rev() {
            let all = below.checked_mul(*count)?;
            if all.saturating_mul(element) > grain {
                let parts = all.saturating_mul(element).div_ceil(grain);
                return Some(Self { step: below * count.div_ceil(parts).max(1), of: all });
            }
            below = all;
        }
        None
    }
}

impl Zones {
    /// Returns whether the zones should be written to a page before more are added.
    pub(crate) fn is_full(&self) -> bool {
        self.count + MAX_PENDING_RECORDS + MAX_RECORD_ZONES > MAX_PAGE_ENTRIES
    }

    /// Adds a record of `bytes` bytes, with its zones if it was cut into some.
    pub(crate) fn add(
        &mut self,
        order: u64,
        (boxes, append): (&[Hyperslab], bool),
        bytes: u64,
        statistics: Option<&Statistics>,
        cut: Option<Vec<Statistics>>,
    ) {
        let Some(all) = statistics else {
            // The record has no statistics, so no entry may extend across it.
            (self.shared, self.incomplete) = (None, true);
            return;
        };
        for slab in boxes {
            self.around =
                Some(self.around.take().map_or_else(|| slab.clone(), |around| around.bounding_box(slab)));
        }
        self.statistics.get_or_insert(Statistics::NONE).merge(all);
        if let Some(zones) = cut.filter(|zones| zones.len() > 1) {
            self.count += zones.len() as u64;
            self.entries.push(Entry { first: order, last: order, zones });
            self.shared = None;
            return;
        }
        let shared = self.shared.filter(|(rows, _)| *rows == append);
        let both =
            shared.map(|(_, shared)| shared.saturating_add(bytes)).filter(|both| *both <= MAX_SHARED_BYTES);
        match self.entries.last_mut().zip(both) {
            Some((Entry { last, zones, .. }, both)) => {
                *last = order;
                zones.iter_mut().for_each(|zone| zone.merge(all));
                self.shared = Some((append, both));
            }
            None => {
                self.entries.push(Entry { first: order, last: order, zones: vec![*all] });
                self.count += 1;
                self.shared = Some((append, bytes));
            }
        }
    }

    /// Removes all zones and returns them as a page; `order` will be the number of its record.
    pub(crate) fn take(&mut self, order: u64) -> Option<(PageHead, Statistics, Vec<u8>)> {
        if self.entries.is_empty() {
            return None;
        }
        let found = std::mem::replace(self, Self { begin: order, ..Self::default() });
        let head = PageHead {
            kind: PageKind::Zones,
            first: found.begin,
            entries: found.entries.len() as u64,
            complete: !found.incomplete,
            slab: found.around.unwrap_or_default(),
        };
        let statistics = found.statistics.unwrap_or(Statistics::NONE);
        Some((head, statistics, encode(&found.entries)))
    }
}

fn encode(entries: &[Entry]) -> Vec<u8> {
    let mut out = Out::default();
    let mut before = 0;
    for entry in entries {
        out.number(entry.first - before);
        out.number(entry.last - entry.first);
        out.number(entry.zones.len() as u64);
        entry.zones.iter().for_each(|zone| zone.encode(&mut out));
        before = entry.last;
    }
    out.0
}

/// Decodes the entries of a page of zones, in order of their records.
pub(crate) fn decode(bytes: &[u8], head: &PageHead, offset: u64) -> Result<Vec<Entry>> {
    let mut cursor = Cursor::new(bytes, "page of zones", offset);
    let mut entries: Vec<Entry> = Vec::new();
    let mut all = 0_u64;
    for place in 0..head.entries {
        let before = entries.last().map_or(0, |entry| entry.last);
        let (gap, more) = (number(&mut cursor)?, number(&mut cursor)?);
        let first = before.checked_add(gap).filter(|_| place == 0 || gap > 0);
        let ends = first.and_then(|first| Some((first, first.checked_add(more)?)));
        let Some((first, last)) = ends else {
            return Err(cursor.error("records of a page that are not in order".to_owned()));
        };
        let many = count(&mut cursor, Statistics::MIN_ENCODED_BYTES)?;
        all = all.saturating_add(many as u64);
        if many == 0 || all > MAX_PAGE_ENTRIES || (many > 1 && first != last) {
            return Err(cursor.error(format!("{many} zones of {} records", last - first + 1)));
        }
        let zones = (0..many).map(|_| Statistics::decode(&mut cursor)).collect::<Result<_>>()?;
        entries.push(Entry { first, last, zones });
    }
    if cursor.left() > 0 {
        return Err(
            Error::corrupt(format!("{} bytes after the last entry of a page", cursor.left())).at(offset)
        );
    }
    Ok(entries)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn empty(count: u64) -> Statistics {
        Statistics { count, ..Statistics::NONE }
    }

    #[track_caller]
    fn check(records: &[(u64, Option<u64>, usize)], expected: &[(u64, u64, usize)], complete: bool) {
        let mut zones = Zones::default();
        for (order, bytes, cut) in records {
            let slab = Hyperslab::new([*order], [1]);
            let cut = (*cut > 0).then(|| vec![empty(1); *cut]);
            zones.add(*order, (&[slab], false), bytes.unwrap_or(9), bytes.map(empty).as_ref(), cut);
        }
        let (head, statistics, bytes) = zones.take(99).unwrap();
        assert_eq!((head.complete, head.first), (complete, 0));
        assert_eq!(statistics.count, records.iter().filter_map(|(_, bytes, _)| *bytes).sum::<u64>());
        let entries = decode(&bytes, &head, 0).unwrap();
        let found: Vec<_> =
            entries.iter().map(|entry| (entry.first, entry.last, entry.zones.len())).collect();
        assert_eq!(found, expected);
        for end in 0..bytes.len() {
            assert!(decode(&bytes[..end], &head, 0).is_err());
        }
        assert!(zones.take(100).is_none());
    }

    #[test]
    fn small_records_share_zones_and_large_ones_have_many() {
        let small = |order| (order, Some(30_000), 0);
        check(&[small(3), small(4), small(7), small(9)], &[(3, 4, 1), (7, 9, 1)], true);
        check(&[small(3), (4, None, 0), small(7)], &[(3, 3, 1), (7, 7, 1)], false);
        check(&[small(1), (2, Some(5), 5), small(3)], &[(1, 1, 1), (2, 2, 5), (3, 3, 1)], true);
    }

    #[test]
    fn zones_of_a_box_are_boxes() {
        let cut = |counts: &[&[u64]], element| {
            let boxes: Vec<Hyperslab> =
                counts.iter().map(|count| Hyperslab::new(vec![0; count.len()], *count)).collect();
            let bytes = boxes.iter().map(|slab| slab.elements().unwrap() * element).sum();
            ZonePattern::for_boxes(&boxes, element, bytes).map(|cut| (cut.step, cut.of))
        };
        assert_eq!(cut(&[&[1 << 18]], 4), None);
        assert_eq!(cut(&[&[1 << 20]], 4), Some((1 << 18, 1 << 20)));
        assert_eq!(cut(&[&[64, 1024, 256]], 4), Some((1024 * 256, 64 * 1024 * 256)));
        assert_eq!(cut(&[&[3, 1000, 1000]], 8), Some((125 * 1000, 1_000_000)));
        assert_eq!(cut(&[&[1 << 18], &[1 << 18]], 4), Some((1 << 18, u64::MAX)));
        let many = cut(&[&[1 << 36]], 4).unwrap();
        assert!((1 << 36) / many.0 <= MAX_RECORD_ZONES);
    }
}
