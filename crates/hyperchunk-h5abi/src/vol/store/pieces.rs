//! Spatial index of the pieces of one dataset in one log, in the order in which they were written.
//!
//! Every sixteen consecutive pieces have a bounding box, every sixteen boxes another, and so on. Writers go
//! through a dataset in some order, so boxes are small. Adding a piece updates one box on each level.

use hyperchunk_store::{Extent, Hyperslab, Piece};

/// Number of entries in a box.
const NODE_ENTRIES: usize = 16;

/// The index; see the module.
#[derive(Debug, Default)]
pub(super) struct Pieces {
    all: Vec<Piece>,
    /// The levels of boxes, from the boxes of pieces to the top.
    levels: Vec<Vec<Hyperslab>>,
    /// Extents: each hides everything outside it in pieces of lower order.
    clips: Vec<Extent>,
}

impl Pieces {
    /// Adds a piece over the others.
    pub(super) fn push(&mut self, piece: Piece) {
        let mut number = self.all.len();
        for level in 0.. {
            number /= NODE_ENTRIES;
            if level == self.levels.len() {
                if number == 0 && level > 0 {
                    break;
                }
                // A new level begins with a box around all earlier entries.
                let below = self.levels.last().map(|below| below.get(..NODE_ENTRIES).unwrap_or_default());
                let around = below.unwrap_or_default().iter().cloned().reduce(|mut around, slab| {
                    enclose(&mut around, &slab);
                    around
                });
                self.levels.push(around.into_iter().collect());
            }
            let Some(boxes) = self.levels.get_mut(level) else { break };
            match boxes.get_mut(number) {
                Some(slab) => enclose(slab, &piece.slab),
                None => boxes.push(piece.slab.clone()),
            }
        }
        self.all.push(piece);
    }

    /// Limits the visible part of all earlier pieces to this extent.
    pub(super) fn clip(&mut self, extent: &Extent) {
        self.clips.push(extent.clone());
    }

    /// Returns the number of pieces.
    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Returns the number of changes of the extent.
    pub(super) fn clips(&self) -> usize {
        self.clips.len()
    }

    /// Returns the intersection of all extents, which clips pieces of the logs below this one.
    pub(super) fn bound(&self) -> Option<Vec<u64>> {
        smallest(&self.clips)
    }

    /// Calls `found` with the part of each piece whose chunks exist. A smaller extent removes the chunks
    /// outside it; of the chunks that it cuts, it only removes elements. The extent `under` clips all pieces.
    pub(super) fn in_chunks(&self, chunk: &[u64], under: Option<&[u64]>, found: &mut dyn FnMut(&Hyperslab)) {
        for piece in &self.all {
            let later = self.clips.iter().filter(|clip| clip.order > piece.order);
            let mut bound = under.map(<[u64]>::to_vec);
            for clip in later {
                match &mut bound {
                    Some(bound) => {
                        bound.iter_mut().zip(&clip.dims).for_each(|(dim, other)| *dim = (*dim).min(*other))
                    }
                    None => bound = Some(clip.dims.clone()),
                }
            }
            let Some(mut bound) = bound else {
                found(&piece.slab);
                continue;
            };
            bound.iter_mut().zip(chunk).for_each(|(dim, size)| {
                *dim = dim.checked_next_multiple_of((*size).max(1)).unwrap_or(u64::MAX)
            });
            if let Some(shown) = piece.slab.clipped(&bound) {
                found(&shown);
            }
        }
    }

    /// Calls `found` with the pieces that are visible in `slab`, oldest first, each with its visible part.
    /// The extent `under` clips all pieces.
    pub(super) fn in_box(
        &self,
        slab: &Hyperslab,
        under: Option<&[u64]>,
        found: &mut dyn FnMut(&Piece, &Hyperslab),
    ) {
        let slab = match under {
            Some(extent) => match slab.clipped(extent) {
                Some(clipped) => clipped,
                None => return,
            },
            None => slab.clone(),
        };
        self.descend(self.levels.len(), 0, &slab, found);
    }

    /// Visits the entries of a level; level 0 has the pieces themselves.
    fn descend(
        &self,
        level: usize,
        number: usize,
        slab: &Hyperslab,
        found: &mut dyn FnMut(&Piece, &Hyperslab),
    ) {
        if level == 0 {
            let Some(piece) = self.all.get(number) else { return };
            let later: Vec<_> = self.clips.iter().filter(|clip| clip.order > piece.order).cloned().collect();
            let shown = piece.slab.intersection(slab);
            let shown = match (shown, smallest(&later)) {
                (Some(shown), Some(extent)) => shown.clipped(&extent),
                (shown, _) => shown,
            };
            if let Some(shown) = shown {
                found(piece, &shown);
            }
            return;
        }
        let Some(boxes) = self.levels.get(level.saturating_sub(1)) else { return };
        let top = level == self.levels.len();
        let range = if top { 0..boxes.len() } else { number..number.saturating_add(1) };
        for at in range {
            if boxes.get(at).is_some_and(|around| around.intersection(slab).is_some()) {
                let first = at.saturating_mul(NODE_ENTRIES);
                for child in first..first.saturating_add(NODE_ENTRIES) {
                    self.descend(level.saturating_sub(1), child, slab, found);
                }
            }
        }
    }
}

/// Enlarges a box to contain another.
pub(super) fn enclose(slab: &mut Hyperslab, other: &Hyperslab) {
    for ((start, count), (other_start, other_count)) in
        slab.start.iter_mut().zip(&mut slab.count).zip(other.start.iter().zip(&other.count))
    {
        let end = start.saturating_add(*count).max(other_start.saturating_add(*other_count));
        *start = (*start).min(*other_start);
        *count = end.saturating_sub(*start);
    }
}

/// Returns the intersection of all these extents.
fn smallest(extents: &[Extent]) -> Option<Vec<u64>> {
    let mut extents = extents.iter();
    let mut dims = extents.next()?.dims.clone();
    for extent in extents {
        dims.iter_mut().zip(&extent.dims).for_each(|(dim, other)| *dim = (*dim).min(*other));
    }
    Some(dims)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyperchunk_store::PieceForm;

    fn piece(order: u64, start: [u64; 2], count: [u64; 2]) -> Piece {
        Piece {
            slab: Hyperslab::new(start, count),
            offset: 0,
            length: 0,
            form: PieceForm::Raw,
            order,
            head: 0,
        }
    }

    #[test]
    fn what_is_found_is_what_a_look_at_all_finds() {
        let mut pieces = Pieces::default();
        let mut seed = 7_u64;
        let mut random = |below: u64| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (seed >> 33) % below
        };
        for order in 0..700 {
            pieces.push(piece(order, [random(100), random(100)], [1 + random(9), 1 + random(9)]));
            let slab = Hyperslab::new([random(90), random(90)], [1 + random(20), 1 + random(20)]);
            let mut found = Vec::new();
            pieces.in_box(&slab, None, &mut |piece, shown| found.push((piece.order, shown.clone())));
            let all = pieces.all.iter();
            let expected: Vec<_> =
                all.filter_map(|piece| Some((piece.order, piece.slab.intersection(&slab)?))).collect();
            assert_eq!(found, expected, "{order}");
        }
    }

    #[test]
    fn extents_clip_what_was_before_them() {
        let mut pieces = Pieces::default();
        pieces.push(piece(0, [0, 0], [6, 6]));
        pieces.clip(&Extent { order: 1, dims: vec![3, 6] });
        pieces.clip(&Extent { order: 2, dims: vec![6, 4] });
        pieces.push(piece(3, [4, 4], [2, 2]));
        let mut found = Vec::new();
        let all = Hyperslab::new([0, 0], [6, 6]);
        pieces.in_box(&all, None, &mut |piece, shown| found.push((piece.order, shown.clone())));
        assert_eq!(found, [(0, Hyperslab::new([0, 0], [3, 4])), (3, Hyperslab::new([4, 4], [2, 2]))]);
        assert_eq!(pieces.bound(), Some(vec![3, 4]));
    }
}
