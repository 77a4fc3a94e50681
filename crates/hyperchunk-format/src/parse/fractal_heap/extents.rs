//! Extents of the blocks of a fractal heap.

use super::{CHECKSUM_BYTES, FractalHeap, NAME};
use crate::parse::btree_v2::BTree;
use crate::{Cursor, Error, Image, Result};

/// Record type of huge objects without filters whose ids are numbers.
const HUGE_OBJECTS: u8 = 1;

impl<'a> FractalHeap<'a> {
    /// Records the extents of the header, the blocks and the huge objects, but not of the free-space manager.
    /// Records nothing if the heap is filtered.
    ///
    /// # Errors
    /// Corrupt, Truncated; Need.
    pub(crate) fn record_extents(&self, image: Image<'a>) -> Result<()> {
        if self.filtered {
            return Ok(());
        }
        image.belongs(self.address, self.header_size);
        match self.root {
            Some(root) if self.root_rows == 0 => image.belongs(root.address, self.table.first_size()),
            Some(root) => self.record_indirect(image, root.address, 0, self.root_rows)?,
            None => {}
        }
        if let Some(address) = self.huge {
            let sizes = image.sizes;
            BTree::open(image, address, &[HUGE_OBJECTS])?.for_each(image, &mut |record| {
                let mut cursor = Cursor::new(record, NAME, address);
                if let Some(address) = cursor.address(sizes)? {
                    image.belongs(address, cursor.length(sizes)?);
                }
                Ok(())
            })?;
        }
        Ok(())
    }

    /// Records the extents of an indirect block, which starts at a heap offset, and of the blocks below it.
    fn record_indirect(&self, image: Image<'a>, address: u64, start: u64, rows: u32) -> Result<()> {
        let block = self.indirect(image, address, start, rows)?;
        let entries = self.table.entries(rows);
        let directs = entries.min(self.table.direct_entries());
        let size = directs
            .saturating_mul(self.direct_entry_size(image))
            .saturating_add(entries.saturating_sub(directs).saturating_mul(image.sizes.address.into()));
        image.belongs(address, size.saturating_add(self.table.prefix_size()).saturating_add(CHECKSUM_BYTES));
        let mut inside = 0_u64;
        while let Some(entry) = self.table.locate(inside).filter(|entry| entry.row < rows) {
            let direct = entry.row < self.table.direct_rows();
            if let Some(stored) = self.entry(image, &block, address, &entry, direct)? {
                if direct {
                    image.belongs(stored.address, entry.size);
                } else {
                    let below = self.table.count_rows(entry.size).filter(|below| *below < rows);
                    let below = below
                        .ok_or_else(|| Error::corrupt("a block as large as the block that contains it"))?;
                    self.record_indirect(image, stored.address, start.saturating_add(entry.start), below)?;
                }
            }
            let Some(next) = entry.start.checked_add(entry.size) else { break };
            inside = next;
        }
        Ok(())
    }
}
