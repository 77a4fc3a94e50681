//! Statistics of the elements of each file's dataset. This crate stores them without knowing their number
//! types.

use super::format::COLLECTION;
use super::{Collection, CollectionVariable};
use crate::index::{put, take};
use crate::{Error, ErrorKind, Result};
use hyperchunk_format::Cursor;
use hyperchunk_format::model::Name;

/// Statistics of the elements of one file's dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileStatistics {
    /// Number of elements.
    pub count: u64,
    /// Number of NaNs among them.
    pub nan: u64,
    /// Minimum and maximum of the other elements; `None` if all are NaN. Each is the bits of a 64-bit number,
    /// which is floating-point, signed or unsigned as the elements are.
    pub bounds: Option<(u64, u64)>,
}

/// Kinds of a file's statistics, encoded as their first number.
const UNKNOWN: u64 = 0;
const WITHOUT_NUMBERS: u64 = 1;
const WITH_NUMBERS: u64 = 2;

/// Encodes the statistics of files.
fn encode(statistics: &[Option<FileStatistics>]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for file in statistics {
        let Some(FileStatistics { count, nan, bounds }) = file else {
            put_unknown(&mut bytes);
            continue;
        };
        put(&mut bytes, if bounds.is_some() { WITH_NUMBERS } else { WITHOUT_NUMBERS });
        put(&mut bytes, *count);
        put(&mut bytes, *nan);
        if let Some((low, high)) = bounds {
            bytes.extend_from_slice(&low.to_le_bytes());
            bytes.extend_from_slice(&high.to_le_bytes());
        }
    }
    bytes
}

/// Appends a file without known statistics.
pub(super) fn put_unknown(bytes: &mut Vec<u8>) {
    put(bytes, UNKNOWN);
}

/// Parses the statistics of `files` files; calls `each` for each of them, in order.
fn parse(section: &[u8], files: usize, each: &mut dyn FnMut(Option<FileStatistics>)) -> Result<()> {
    let mut cursor = Cursor::new(section, COLLECTION.name, 0);
    for _ in 0..files {
        let kind = take(&mut cursor)?;
        if kind == UNKNOWN {
            each(None);
            continue;
        }
        let (count, nan) = (take(&mut cursor)?, take(&mut cursor)?);
        let is_consistent = match kind {
            WITH_NUMBERS => nan < count,
            WITHOUT_NUMBERS => nan == count,
            _ => return Err(cursor.error(format!("unknown kind {kind} of statistics"))),
        };
        if !is_consistent {
            return Err(
                cursor.error(format!("statistics of kind {kind} with {nan} NaNs of {count} elements"))
            );
        }
        let bounds = match kind {
            WITH_NUMBERS => Some((cursor.u64()?, cursor.u64()?)),
            _ => None,
        };
        each(Some(FileStatistics { count, nan, bounds }));
    }
    match cursor.left() {
        0 => Ok(()),
        left => Err(cursor.error(format!("{left} unexpected bytes at the end of the section"))),
    }
}

/// Checks encoded statistics.
pub(super) fn check(section: &[u8], files: usize) -> Result<()> {
    parse(section, files, &mut |_| ())
}

impl CollectionVariable {
    /// Returns the statistics of each file, with `None` for files without; `None` if no file has any.
    ///
    /// # Errors
    /// Corrupt if they are damaged.
    pub fn file_statistics(&self, files: usize) -> Result<Option<Vec<Option<FileStatistics>>>> {
        let Some(section) = &self.statistics else { return Ok(None) };
        let mut found = Vec::new();
        parse(section, files, &mut |file| found.push(file))?;
        Ok(Some(found))
    }
}

impl Collection {
    /// Returns the dataset with a path.
    ///
    /// # Errors
    /// NotFound if there is no such dataset.
    pub fn variable(&self, path: &[u8]) -> Result<&CollectionVariable> {
        let found = self.variables.iter().find(|variable| variable.path == path);
        let missing =
            || Error::new(ErrorKind::NotFound, "the files have no such dataset").object(Name::from(path));
        found.ok_or_else(missing)
    }

    /// Returns the paths of the datasets with statistics.
    #[must_use]
    pub fn paths_with_statistics(&self) -> Vec<Vec<u8>> {
        let kept = self.variables.iter().filter(|variable| variable.statistics.is_some());
        kept.map(|variable| variable.path.clone()).collect()
    }

    /// Sets the statistics of a dataset, one entry for each file.
    ///
    /// # Errors
    /// NotFound if there is no such dataset; Corrupt or Truncated if the number of entries is not the number
    /// of files, or an entry is inconsistent.
    pub fn set_statistics(&mut self, path: &[u8], statistics: &[Option<FileStatistics>]) -> Result<()> {
        self.variable(path)?;
        let encoded = encode(statistics);
        check(&encoded, self.files.len()).map_err(|error| error.object(Name::from(path)))?;
        for variable in self.variables.iter_mut().filter(|variable| variable.path == path) {
            variable.statistics = Some(encoded.clone());
        }
        Ok(())
    }
}
