//! Ranges of the file that objects use.

use super::check::ObjectCheck;
use super::find::FoundObject;
use hyperchunk_format::model::Name;
use std::collections::BTreeSet;
use std::ops::Range;

/// Maximum number of pairs of objects in a report.
const MAX_CONFLICTS: usize = 100;

/// Ranges of addresses, sorted by start.
#[derive(Debug, Default)]
pub(super) struct Extents(Vec<Range<u64>>);

impl Extents {
    /// Adds the ranges of an object's header blocks and data.
    pub(super) fn add_object(&mut self, object: &FoundObject, checked: &ObjectCheck) {
        let header = object.object.header();
        let first = (header.address, header.first_block_bytes);
        for (start, length) in header.continuations.iter().copied().chain([first]) {
            self.0.push(start..start.saturating_add(length));
        }
        self.0.extend(checked.extents.iter().filter(|range| !range.is_empty()).cloned());
    }

    /// Sorts the ranges and merges overlapping ones.
    pub(super) fn sort(&mut self) {
        self.0.sort_by_key(|range| (range.start, range.end));
        let mut merged: Vec<Range<u64>> = Vec::with_capacity(self.0.len());
        for range in self.0.drain(..) {
            match merged.last_mut() {
                Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
                _ => merged.push(range),
            }
        }
        self.0 = merged;
    }

    /// Returns the end of the range that contains an address.
    pub(super) fn end_at(&self, address: u64) -> Option<u64> {
        let after = self.0.partition_point(|known| known.end <= address);
        self.0.get(after).filter(|known| known.start <= address).map(|known| known.end)
    }

    /// Returns whether `range` overlaps one of the ranges.
    pub(super) fn overlaps(&self, range: &Range<u64>) -> bool {
        let after = self.0.partition_point(|known| known.end <= range.start);
        !range.is_empty() && self.0.get(after).is_some_and(|known| known.start < range.end)
    }
}

/// Returns notes about pairs of objects whose data overlap in the file. In an undamaged file there are none,
/// so the address of one of the two is damaged.
pub(super) fn conflicts(objects: &[FoundObject], checks: &[ObjectCheck]) -> Vec<String> {
    let mut ranges: Vec<(Range<u64>, usize)> = Vec::new();
    for (number, checked) in checks.iter().enumerate() {
        ranges.extend(
            checked.extents.iter().filter(|range| !range.is_empty()).map(|range| (range.clone(), number)),
        );
    }
    ranges.sort_by_key(|(range, _)| (range.start, range.end));
    let mut pairs = BTreeSet::new();
    let mut reach: Option<(u64, usize)> = None;
    for (range, number) in ranges {
        match reach {
            Some((end, other)) if range.start < end => {
                if other != number && pairs.len() < MAX_CONFLICTS {
                    pairs.insert((other, number));
                }
                if range.end > end {
                    reach = Some((range.end, number));
                }
            }
            _ => reach = Some((range.end, number)),
        }
    }
    let name = |number: usize| {
        objects.get(number).map_or_else(String::new, |one| Name::from(&*one.path).to_string())
    };
    let note = |(one, other)| {
        format!("the data of {} and {} overlap: the values of one of them are wrong", name(one), name(other))
    };
    pairs.into_iter().map(note).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_overlap() {
        let mut extents = Extents(vec![30..40, 0..10, 5..20]);
        extents.sort();
        assert_eq!(extents.0, [0..20, 30..40]);
        for (range, expected) in
            [(0..1, true), (19..21, true), (20..30, false), (25..31, true), (40..50, false)]
        {
            assert_eq!(extents.overlaps(&range), expected, "{range:?}");
        }
        for (address, expected) in [(0, Some(20)), (19, Some(20)), (20, None), (30, Some(40)), (40, None)] {
            assert_eq!(extents.end_at(address), expected, "{address}");
        }
    }
}
