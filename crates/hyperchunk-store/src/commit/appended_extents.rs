//! Merging of extents that several writers change.

use crate::Extent;

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
