//! Data that a commit makes invisible because another writer made the dataset smaller.

use super::attempt::Attempt;
use super::new_logs::NewLog;
use crate::format::manifest::StoredDataset;
use crate::{Conflict, Hyperslab, WriterId};
use hyperchunk::Result;

impl Attempt<'_> {
    /// Returns conflicts between writers whose data are outside a dataset's merged extent, and the writer, or
    /// the later epoch, that made it smaller. A writer of higher priority decides without a conflict.
    pub(super) fn clipped_conflicts(&self, path: &[u8], stored: &StoredDataset) -> Result<Vec<Conflict>> {
        let mut ends = Vec::new();
        for new in &self.new {
            let Some((dataset, Some(place))) = new.numbers.get(&stored.id).copied() else { continue };
            let Some((_, written)) = new.written.get(place) else { continue };
            let end = match written.extents.last() {
                Some(extent) => extent.dims.clone(),
                None => self.first_extent(new, dataset, stored.id, &stored.definition)?,
            };
            ends.push((new, written, end));
        }
        let exceeds = |end: &[u64]| end.iter().zip(&stored.extent).any(|(end, dim)| end > dim);
        // The last one has the highest priority.
        let smaller = ends.iter().rfind(|(_, written, end)| !exceeds(end) && !written.extents.is_empty());
        let kept = smaller.map_or(WriterId::default(), |(new, ..)| new.writer());
        let decides =
            |cut: &NewLog| smaller.is_some_and(|(new, ..)| new.header.priority > cut.header.priority);
        let mut found = Vec::new();
        for (new, written, end) in
            ends.iter().filter(|(new, _, end)| exceeds(end) && is_read_once(new) && !decides(new))
        {
            // Data that the writer clipped itself are no loss, nor is the rest of a chunk at the edge.
            let visible = |slab: Hyperslab, order: u64| {
                let mut later = written.extents.iter().filter(|extent| extent.order > order);
                later.try_fold(slab, |slab, extent| slab.clipped(&extent.dims))?.clipped(end)
            };
            let mut own = written.pieces.iter().filter_map(|piece| visible(piece.slab, piece.order));
            if let Some(slab) = own.find(|slab| slab.clipped(&stored.extent).as_ref() != Some(slab)) {
                let dims = format!("{:?}", stored.extent).replace(['[', ']'], "");
                found.push(Conflict {
                    path: path.to_vec(),
                    slab,
                    what: format!("data outside the extent ({dims}) that another writer set"),
                    kept,
                    other: new.writer(),
                });
            }
        }
        Ok(found)
    }
}

/// Returns whether a log's records are all new: those of one that was salvaged before are read again.
fn is_read_once(new: &NewLog) -> bool {
    !new.known.is_some_and(|known| known.salvaged)
}
