//! Writing the elements of a selection.

use super::{LogWriter, OwnDataset};
use crate::read::hyperslabs::boxes;
use hyperchunk::Result;
use hyperchunk_format::select::Selection;

impl LogWriter {
    /// Writes the elements of a selection, in its order and in the dataset's datatype.
    ///
    /// # Errors
    /// Invalid if the selection does not suit the extent, or the number of bytes is not the one
    /// that it needs; Io.
    pub fn write(&self, dataset: u32, selection: &Selection, bytes: &[u8]) -> Result<()> {
        let OwnDataset { definition, dims, .. } = self.dataset(dataset)?;
        let boxes =
            boxes(selection, &dims).map_err(|e| e.object(String::from_utf8_lossy(&definition.path)))?;
        self.write_boxes(dataset, &boxes, bytes)
    }
}
