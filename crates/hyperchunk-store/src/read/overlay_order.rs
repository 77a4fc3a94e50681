//! Order in which pieces are copied: disjoint pieces concurrently, overlapping ones after those
//! below them.
#![expect(clippy::cast_possible_truncation, reason = "the number of found pieces is limited by memory")]

use super::pieces::Hits;
use super::rtree::{RTree, holds, meet};
use crate::format::piece::PieceForm;

/// Wave number of pieces that another piece hides completely.
const HIDDEN_WAVE: u32 = u32::MAX;
/// Maximum depth of splitting pieces into groups.
const MAX_CUTS: usize = 16;
/// Budget of comparisons per piece; after it, the remaining pieces are copied one after another.
const MAX_COMPARISONS: u64 = 64;

/// Returns the indices in `hits` of the pieces of each wave. Pieces of one wave are disjoint; later
/// waves cover earlier ones. Pieces that a single other piece hides completely are in no wave.
pub(crate) fn waves(hits: &Hits) -> Vec<Vec<u32>> {
    let boxes: Vec<&[u64]> = hits.found.iter().map(|found| hits.visible(found)).collect();
    let rank = boxes.first().map_or(0, |first| first.len() / 2);
    let places = hits.found.iter().map(|found| found.form).collect();
    let mut waves = OverlayOrder { boxes, places, rank, of: vec![0; hits.found.len()] };
    let mut all: Vec<u32> = (0..hits.found.len() as u32).collect();
    waves.cut(&mut all, 0, 0, MAX_CUTS);
    let mut lists: Vec<Vec<u32>> = Vec::new();
    for (place, wave) in waves.of.iter().enumerate().filter(|(_, wave)| **wave != HIDDEN_WAVE) {
        let wave = *wave as usize;
        if lists.len() <= wave {
            lists.resize_with(wave + 1, Vec::new);
        }
        lists[wave].push(place as u32);
    }
    // Some wave numbers are unused if pieces are copied one after another.
    lists.retain(|list| !list.is_empty());
    lists
}

struct OverlayOrder<'a> {
    boxes: Vec<&'a [u64]>,
    places: Vec<PieceForm>,
    rank: usize,
    /// Wave of each piece.
    of: Vec<u32>,
}

impl OverlayOrder<'_> {
    /// Splits pieces into groups that are disjoint along a dimension; the last `tried` dimensions
    /// could not be split.
    fn cut(&mut self, members: &mut [u32], axis: usize, tried: usize, cuts: usize) {
        if members.len() < 2 {
            return;
        }
        if tried >= self.rank || cuts == 0 {
            members.sort_unstable();
            return self.compare(members);
        }
        let range = |member: &u32| {
            (self.boxes[*member as usize][2 * axis], self.boxes[*member as usize][2 * axis + 1])
        };
        if !members.is_sorted_by_key(range) {
            members.sort_unstable_by_key(range);
        }
        let mut groups = Vec::new();
        let (mut from, mut end) = (0, 0);
        for (at, member) in members.iter().enumerate() {
            let (start, last) = range(member);
            if at > from && start >= end {
                groups.push(from..at);
                from = at;
            }
            end = end.max(last);
        }
        let next = (axis + 1) % self.rank.max(1);
        if groups.is_empty() {
            return self.cut(members, next, tried + 1, cuts);
        }
        groups.push(from..members.len());
        for group in groups.into_iter().filter(|group| group.len() > 1) {
            self.cut(&mut members[group], next, 0, cuts - 1);
        }
    }

    /// Assigns waves to pieces that may overlap, given in order of precedence.
    fn compare(&mut self, members: &[u32]) {
        let boxes: Vec<u64> =
            members.iter().flat_map(|member| self.boxes[*member as usize]).copied().collect();
        let tree = RTree::new(self.rank, &boxes, members);
        let mut left = (members.len() as u64).saturating_mul(MAX_COMPARISONS).saturating_add(1 << 20);
        for member in members {
            let own = self.boxes[*member as usize];
            let hidden = tree.each(own, &mut |other| {
                left = left.saturating_sub(1);
                let over = other > *member
                    && self.places[other as usize].hides(self.places[*member as usize])
                    && holds(self.boxes[other as usize], own);
                if over || left == 0 { Err(over) } else { Ok(()) }
            });
            if hidden == Err(true) {
                self.of[*member as usize] = HIDDEN_WAVE;
            }
        }
        let mut last = 0;
        let mut left = (members.len() as u64).saturating_mul(MAX_COMPARISONS).saturating_add(1 << 20);
        for member in members
            .iter()
            .filter(|member| self.of[**member as usize] != HIDDEN_WAVE)
            .copied()
            .collect::<Vec<u32>>()
        {
            let own = self.boxes[member as usize];
            let mut wave = 0;
            let done = tree.each(own, &mut |other| {
                left = left.saturating_sub(1);
                let below = self.of[other as usize];
                if other < member && below != HIDDEN_WAVE && meet(self.boxes[other as usize], own) {
                    wave = wave.max(below + 1);
                }
                if left == 0 { Err(()) } else { Ok(()) }
            });
            if done.is_err() {
                wave = last + 1;
            }
            last = last.max(wave);
            self.of[member as usize] = wave;
        }
    }
}
