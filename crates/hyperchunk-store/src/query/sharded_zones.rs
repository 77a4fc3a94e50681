//! Zone map of a dataset of an epoch: statistics of its zones, and their visible parts.
//!
//! Statistics describe records, of which a reader sees only the parts that are not covered. So
//! statistics of a partly covered zone are only bounds, and elements without a zone may have any
//! value.
#![expect(clippy::cast_possible_truncation, reason = "the number of found pieces is limited by memory")]

use super::boxes::without;
use super::{Zone, ZoneMap, ZoneRequest};
use crate::format::manifest::{Part, StoredDataset};
use crate::format::page::{Page, PageKind};
use crate::read::hyperslabs::split_range;
use crate::read::pieces::{FoundPiece, Fuel, Hits};
use crate::read::rtree::{RTree, holds};
use crate::read::snapshot::{PreparedDataset, ShardedDataset, State, Store};
use crate::statistics::zones;
use crate::statistics::zones::Entry;
use crate::{Hyperslab, Statistics};
use hyperchunk::{Error, Result};
use std::collections::HashMap;
use std::sync::Arc;

/// Number of covering pieces above which a zone is treated as completely visible.
const MAX_COVERS: usize = 256;
/// Maximum number of boxes that are searched for unwritten elements.
const MAX_SEARCHED_BOXES: usize = 1 << 20;
/// Maximum number of pieces that are searched for the start of a record; above it the data are
/// read.
const MAX_SEARCHED_PIECES: u64 = 1 << 20;
/// Maximum number of pieces subtracted from a box at a time.
const MAX_CUTS: usize = 16;

/// The part of a piece that one zone describes.
struct Candidate {
    boxes: Vec<Hyperslab>,
    statistics: Option<Statistics>,
    /// True if the zone consists of exactly these boxes.
    single: bool,
}

/// The pages of a part of a dataset, read on demand.
struct Pages<'a> {
    part: &'a Part,
    /// Pages of zones, in order.
    pages: Vec<&'a Page>,
    entries: Vec<Option<Vec<Entry>>>,
    /// Offset of the first piece of each record.
    begins: Option<HashMap<u64, u64>>,
}

/// The pieces that intersect a box.
struct Region<'a> {
    hits: &'a Hits,
    boxes: Vec<u64>,
    tree: RTree,
    wanted: Hyperslab,
}

impl ShardedDataset {
    /// Returns the zone map of a part of the dataset.
    pub(crate) fn zoned(&self, ask: &ZoneRequest<'_>) -> Result<ZoneMap> {
        let (store, number) = match &self.state {
            State::Committed(store, number) => (store, *number),
            State::Missing(error) => return Err(error.clone()),
        };
        let known = store.prepared_dataset(number)?;
        let stored = store.stored(number);
        check_pages(store, &stored.parts)?;
        let mut pages: Vec<Pages<'_>> = stored.parts.iter().map(Pages::new).collect();
        let mut out =
            ZoneMap { zones: Vec::new(), bare: Vec::new(), bytes_scanned: store.size(), disjoint: true };
        let fuel = Fuel::new(ask.limits);
        let rank = ask.wanted.start.len();
        let most = usize::try_from(ask.limits.metadata_bytes).unwrap_or(usize::MAX) / (256 + 128 * rank);
        let ends = ask.wanted.start.iter().zip(&ask.wanted.count);
        let mut regions: Vec<Vec<u64>> =
            vec![ends.flat_map(|(start, count)| [*start, start + count]).collect()];
        while let Some(region) = regions.pop() {
            let mut hits = Hits::default();
            let mut see = |visible: &[u64], out: &mut Vec<u64>| {
                let before = out.len();
                for (visible, region) in visible.chunks_exact(2).zip(region.chunks_exact(2)) {
                    let (from, to) = (visible[0].max(region[0]), visible[1].min(region[1]));
                    if from >= to {
                        out.truncate(before);
                        return false;
                    }
                    out.extend([from, to]);
                }
                true
            };
            if known.pieces().find(&region, (0, None), (most, &fuel), &mut see, &mut hits)? {
                hits.sort();
                Region::new(&hits, rank, &region).zones(
                    ask,
                    (store, &known, stored),
                    &mut pages,
                    &mut out,
                )?;
                continue;
            }
            let Some(axis) = region.chunks_exact(2).position(|range| range[1] - range[0] > 1) else {
                return Err(Error::limit(
                    "more pieces of one element than the limit `metadata_bytes` has room for",
                ));
            };
            let middle = region[2 * axis] + (region[2 * axis + 1] - region[2 * axis]) / 2;
            let (mut first, mut second) = (region.clone(), region);
            (first[2 * axis + 1], second[2 * axis]) = (middle, middle);
            regions.extend([second, first]);
        }
        Ok(out)
    }
}

/// Refuses a manifest whose pages are larger than their log, because it names pages repeatedly.
fn check_pages(store: &Store, parts: &[Part]) -> Result<()> {
    let mut bytes: HashMap<u32, u64> = HashMap::new();
    for part in parts {
        let length = part.written.pages.iter().fold(0_u64, |sum, page| sum.saturating_add(page.length));
        let all = bytes.entry(part.log).or_insert(0);
        *all = all.saturating_add(length);
        if *all > store.committed_length(part.log) {
            let error = Error::corrupt("pages that have more bytes than their log");
            return Err(error.file(store.log_name(part.log)));
        }
    }
    Ok(())
}

fn slab_from_ranges(ranges: &[u64]) -> Hyperslab {
    let mut slab = Hyperslab::default();
    for range in ranges.chunks_exact(2) {
        slab.start.push(range[0]);
        slab.count.push(range[1] - range[0]);
    }
    slab
}

impl<'a> Pages<'a> {
    fn new(part: &'a Part) -> Self {
        let mut pages: Vec<&Page> =
            part.written.pages.iter().filter(|page| page.head.kind == PageKind::Zones).collect();
        pages.sort_by_key(|page| page.order);
        let entries = pages.iter().map(|_| None).collect();
        Self { part, pages, entries, begins: None }
    }

    /// Returns the wanted zones of a piece.
    fn candidates(
        &mut self,
        found: &FoundPiece,
        slab: &Hyperslab,
        (store, length): (&Store, u64),
        (ask, element): (&ZoneRequest<'_>, u64),
        bytes_scanned: &mut u64,
    ) -> Result<Vec<Candidate>> {
        let unknown = || Ok(vec![Candidate { boxes: vec![slab.clone()], statistics: None, single: false }]);
        let at = self.pages.partition_point(|page| page.order < found.order);
        let Some(page) = self.pages.get(at).filter(|page| page.head.first <= found.order) else {
            return unknown();
        };
        if page.head.complete && page.statistics.is_some_and(|all| !(ask.keep)(&all)) {
            return Ok(Vec::new());
        }
        if self.entries[at].is_none() {
            self.entries[at] = Some(entries(page, (store, self.part.log, length))?);
            *bytes_scanned = bytes_scanned.saturating_add(page.length);
        }
        let entries = self.entries[at].as_deref().unwrap_or_default();
        let entry = entries.partition_point(|entry| entry.last < found.order);
        let Some(entry) = entries.get(entry).filter(|entry| entry.first <= found.order) else {
            return unknown();
        };
        let all = entry.zones.iter().fold(0_u64, |sum, zone| sum.saturating_add(zone.count));
        let count = slab.elements()?;
        if let [zone] = &*entry.zones {
            if zone.count < count {
                return unknown();
            }
            let single = zone.count == count && entry.first == entry.last;
            let one = Candidate { boxes: vec![slab.clone()], statistics: Some(*zone), single };
            return Ok(if (ask.keep)(zone) { vec![one] } else { Vec::new() });
        }
        // Index in the record of the piece's first element.
        let first = if all == count {
            0
        } else {
            let part = self.part;
            if part.written.pieces.len() > MAX_SEARCHED_PIECES {
                return unknown();
            }
            let begins = self.begins.get_or_insert_with(|| {
                let mut begins = HashMap::new();
                for piece in part.written.pieces.iter() {
                    let begin = begins.entry(piece.order).or_insert(piece.offset);
                    *begin = piece.offset.min(*begin);
                }
                begins
            });
            let begin = begins.get(&found.order).copied().unwrap_or(found.offset);
            found.offset.saturating_sub(begin) / element.max(1)
        };
        if first.checked_add(count).is_none_or(|end| end > all) {
            return unknown();
        }
        let mut candidates = Vec::new();
        let mut from = 0_u64;
        for zone in &entry.zones {
            let to = from.saturating_add(zone.count);
            let (start, end) = (from.max(first), to.min(first + count));
            if start < end && (ask.keep)(zone) {
                let mut boxes = Vec::new();
                split_range(slab, start - first, end - start, &mut boxes);
                let single = boxes.len() == 1 && (start, end) == (from, to);
                candidates.push(Candidate { boxes, statistics: Some(*zone), single });
            }
            from = to;
        }
        Ok(candidates)
    }
}

/// Reads the zones of a page.
fn entries(page: &Page, (store, log, length): (&Store, u32, u64)) -> Result<Vec<Entry>> {
    let named = |error: Error| error.file(store.log_name(log));
    if page.offset.checked_add(page.length).is_none_or(|end| end > length) {
        return Err(named(Error::corrupt("a page past the committed end of its log").at(page.offset)));
    }
    let source = store.log(log)?;
    let bytes = page.read(|at, out| source.read_at(at, out)).map_err(named)?;
    zones::decode(&bytes, &page.head, page.offset).map_err(named)
}

impl<'a> Region<'a> {
    fn new(hits: &'a Hits, rank: usize, region: &[u64]) -> Self {
        let boxes: Vec<u64> =
            hits.found.iter().flat_map(|found| hits.visible(found).iter().copied()).collect();
        let numbers: Vec<u32> = (0..hits.found.len() as u32).collect();
        let tree = RTree::new(rank, &boxes, &numbers);
        Self { hits, boxes, tree, wanted: slab_from_ranges(region) }
    }

    fn ranges(&self, number: usize) -> &[u64] {
        let width = 2 * self.wanted.start.len();
        &self.boxes[number * width..(number + 1) * width]
    }

    fn zones(
        &self,
        ask: &ZoneRequest<'_>,
        (store, known, stored): (&Arc<Store>, &PreparedDataset, &StoredDataset),
        pages: &mut [Pages<'_>],
        out: &mut ZoneMap,
    ) -> Result<()> {
        let element = stored.definition.element_size();
        for (number, found) in self.hits.found.iter().enumerate() {
            let slab = Hyperslab::new(self.hits.start(found), self.hits.count(found));
            let Some(of_part) = pages.get_mut(found.layer as usize) else {
                return Err(Error::corrupt("a piece that belongs to no part"));
            };
            let origin = store.origin(of_part.part);
            let log = (&**store, known.extent(found.layer).1);
            let candidates = of_part.candidates(found, &slab, log, (ask, element), &mut out.bytes_scanned)?;
            if candidates.is_empty() {
                continue;
            }
            let (left, sure) = self.visible_rest(number);
            out.disjoint &= sure;
            for Candidate { boxes, statistics, single } in candidates {
                let seen: Vec<Hyperslab> = boxes
                    .iter()
                    .flat_map(|one| left.iter().filter_map(|left| left.intersection(one)))
                    .collect();
                if !seen.is_empty() {
                    let whole = single && sure && seen == boxes;
                    out.zones.push(Zone { seen, statistics, whole, origin });
                }
            }
        }
        if ask.bare {
            self.add_unwritten(out);
        }
        Ok(())
    }

    /// Returns the uncovered parts of a piece, and whether they are exact; otherwise they are too
    /// large.
    fn visible_rest(&self, number: usize) -> (Vec<Hyperslab>, bool) {
        let ranges = self.ranges(number);
        let visible = slab_from_ranges(ranges);
        let mut above: Vec<u32> = Vec::new();
        let all = self.tree.each(ranges, &mut |other| {
            if other as usize <= number {
                return Ok(());
            }
            if holds(self.ranges(other as usize), ranges) {
                above = vec![other];
                return Err(true);
            }
            above.push(other);
            if above.len() > MAX_COVERS { Err(false) } else { Ok(()) }
        });
        match all {
            Err(true) => return (Vec::new(), true),
            Err(false) => return (vec![visible], false),
            Ok(()) => {}
        }
        let mut left = vec![visible.clone()];
        for other in above {
            let cover = slab_from_ranges(self.ranges(other as usize));
            let mut rest = Vec::new();
            left.iter().for_each(|slab| without(slab, &cover, &mut rest));
            left = rest;
            if left.len() > MAX_COVERS {
                return (vec![visible], false);
            }
        }
        (left, true)
    }

    /// Adds the elements that no piece has.
    fn add_unwritten(&self, out: &mut ZoneMap) {
        let mut looks = 0;
        let mut todo = vec![self.wanted.clone()];
        while let Some(slab) = todo.pop() {
            looks += 1;
            let ends = slab.start.iter().zip(&slab.count);
            let ranges: Vec<u64> = ends.flat_map(|(start, count)| [*start, start + count]).collect();
            let mut pieces: Vec<u32> = Vec::new();
            let all = self.tree.each(&ranges, &mut |piece| {
                pieces.push(piece);
                if holds(self.ranges(piece as usize), &ranges) {
                    return Err(true);
                }
                if pieces.len() > MAX_CUTS { Err(false) } else { Ok(()) }
            });
            match all {
                Err(true) => {}
                Ok(()) => {
                    let mut left = vec![slab];
                    for piece in pieces {
                        let cover = slab_from_ranges(self.ranges(piece as usize));
                        let mut rest = Vec::new();
                        left.iter().for_each(|slab| without(slab, &cover, &mut rest));
                        left = rest;
                    }
                    out.bare.extend(left);
                }
                Err(false) => {
                    let longest = (0..slab.count.len()).max_by_key(|axis| slab.count[*axis]);
                    let Some(axis) =
                        longest.filter(|axis| slab.count[*axis] > 1 && looks < MAX_SEARCHED_BOXES)
                    else {
                        // Parts of it may be written; it is added as a whole, and reading it
                        // decides.
                        out.bare.push(slab);
                        out.disjoint = false;
                        continue;
                    };
                    let (mut first, mut second) = (slab.clone(), slab);
                    first.count[axis] /= 2;
                    second.start[axis] += first.count[axis];
                    second.count[axis] -= first.count[axis];
                    todo.extend([second, first]);
                }
            }
        }
    }
}
