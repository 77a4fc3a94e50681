//! A whole dataset in memory, as it is stored.

use super::map::Maps;
use super::table::{StoredDataset, named};
use crate::Result;
use arrow_buffer::Buffer;
use hyperchunk::Dataset;

/// Maps the stored elements of a dataset in a local file; `None` if they are not contiguous in one file, are
/// filtered, or cannot be mapped.
///
/// # Errors
/// If the locations of the dataset's data cannot be read; Changed if the file is shorter than it was.
pub fn map_contiguous(dataset: &Dataset) -> Result<Option<Buffer>> {
    let (stored, rows) = StoredDataset::new(dataset.clone())?;
    let stretches = dataset.stretches(0..rows)?;
    let [stretch] = stretches.as_slice() else { return Ok(None) };
    let Some((source, offset)) = &stretch.place else { return Ok(None) };
    let map = Maps::default().get(source).map_err(|error| named(error, dataset.object()))?;
    let bytes = rows.checked_mul(stored.row as u64).and_then(|bytes| offset.checked_add(bytes));
    Ok(map.zip(bytes).and_then(|(map, end)| map.buffer(*offset..end)))
}
