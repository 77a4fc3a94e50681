//! Byte budget that keeps a walk over a tree linear in the size of the file, even if the tree is damaged.

use crate::{Error, Image, Result};

/// Number of bytes that the remaining parts of one structure may have. In a valid file no two parts overlap,
/// so their total never exceeds the file's size. With a cycle, or many references to one part, it soon does.
#[derive(Debug)]
pub(crate) struct Budget {
    left: u64,
    structure: &'static str,
}

impl Budget {
    /// Creates the budget for a structure of the file in `image`.
    pub(crate) fn new(image: &Image<'_>, structure: &'static str) -> Self {
        Self { left: image.left(0), structure }
    }

    /// Subtracts the bytes of one part.
    ///
    /// # Errors
    /// Corrupt if the parts together exceed the file.
    pub(crate) fn take(&mut self, length: u64) -> Result<()> {
        match self.left.checked_sub(length) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                Err(Error::corrupt("the structure's parts overlap or form a cycle").within(self.structure))
            }
        }
    }
}
