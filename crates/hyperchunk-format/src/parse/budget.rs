//! What keeps a walk over a tree linear in the size of the file, whatever the tree says.

use crate::{Error, Image, Result};

/// The bytes that the parts of one structure may still take. In a sound file no two parts overlap, so together they are
/// never larger than the file; a cycle, or a part that is referred to again and again, soon is.
#[derive(Debug)]
pub(crate) struct Budget {
    left: u64,
    structure: &'static str,
}

impl Budget {
    /// The budget for a structure of the file in `image`.
    pub(crate) fn new(image: &Image<'_>, structure: &'static str) -> Self {
        Self { left: image.left(0), structure }
    }

    /// Takes the bytes of one part.
    ///
    /// # Errors
    /// Corrupt, if the parts are larger than the file.
    pub(crate) fn take(&mut self, length: u64) -> Result<()> {
        match self.left.checked_sub(length) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(Error::corrupt("its parts overlap or form a cycle").within(self.structure)),
        }
    }
}
