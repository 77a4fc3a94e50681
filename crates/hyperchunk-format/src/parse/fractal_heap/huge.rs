//! Huge objects: too large for the blocks of a fractal heap. Source: specification §III.G, "Fractal Heap ID
//! for Huge Objects"; §III.A.2, record types 1 and 2.

use super::{BlockLocation, FractalHeap, NAME};
use crate::parse::btree_v2::BTree;
use crate::{Cursor, Error, Image, Result};
use std::borrow::Cow;
use std::cmp::Ordering;
use std::rc::Rc;

impl<'a> FractalHeap<'a> {
    /// Reads an object stored directly in the file.
    pub(super) fn huge(&self, image: Image<'a>, cursor: &mut Cursor<'_>) -> Result<Vec<u8>> {
        let sizes = image.sizes;
        let plain = u64::from(sizes.address).saturating_add(sizes.length.into());
        let whole =
            if self.filtered { plain.saturating_add(4).saturating_add(sizes.length.into()) } else { plain };
        let record;
        // If the location does not fit the id, a B-tree has it.
        let mut description = if whole < self.id_length {
            cursor.clone()
        } else {
            let number =
                cursor.uint(usize::try_from(self.id_length.saturating_sub(1).min(8)).unwrap_or(8))?;
            record = self.huge_record(image, number)?;
            Cursor::new(&record, NAME, image.offset(self.address)?)
        };
        let address = description.address(sizes)?;
        let address = address.ok_or_else(|| Error::corrupt("a huge object whose address is undefined"))?;
        let size = description.length(sizes)?;
        if !self.filtered {
            return image.read(NAME, address, size).map(Cow::into_owned);
        }
        let mask = description.u32()?;
        let expected = description.length(sizes)?;
        let stored = BlockLocation { address, filtered: Some((size, mask)) };
        let mut cache = self.cache.borrow_mut();
        let key = (address, u64::MAX);
        if let Some(object) = cache.blocks.get(&key) {
            return Ok(object.to_vec());
        }
        let object = self.unfilter(image, stored, expected, &mut cache)?;
        cache.blocks.insert(key, Rc::new(object.clone()));
        Ok(object.into_owned())
    }

    /// Finds the record of a huge object in the B-tree.
    fn huge_record(&self, image: Image<'a>, number: u64) -> Result<Vec<u8>> {
        let address = self
            .huge
            .ok_or_else(|| Error::corrupt("a huge object in a heap without a B-tree of huge objects"))?;
        let mut cache = self.cache.borrow_mut();
        let kind = if self.filtered { 2 } else { 1 };
        let tree = match &cache.huge {
            Some(tree) => Rc::clone(tree),
            None => {
                let tree = Rc::new(BTree::open(image, address, &[kind])?);
                cache.huge = Some(Rc::clone(&tree));
                tree
            }
        };
        let width = usize::from(image.sizes.length);
        let record = tree.find(image, &mut |record| -> Result<Ordering> {
            let id = record.len().checked_sub(width).and_then(|start| record.get(start..));
            let mut id = Cursor::new(id.unwrap_or_default(), NAME, image.offset(address)?);
            Ok(id.uint(width)?.cmp(&number))
        })?;
        record.ok_or_else(|| Error::corrupt(format!("huge object {number} is not in the B-tree")))
    }
}
