//! Check that the files of a store are as long as an epoch says, before plain libhdf5 is referred to them:
//! it reads zeros past the end of an external file.

use super::external_links::UnlinkedReason;
use crate::format::fragment_offset::{inside, is_in};
use crate::format::manifest::StoredDataset;
use crate::{Manifest, arrow_files, log_path};
use hyperchunk::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Sizes of a store's files, as far as they were needed.
pub(super) struct StoreFiles<'a> {
    path: &'a Path,
    manifest: &'a Manifest,
    /// Epoch whose own logs need no check, since they were just read.
    made: Option<u64>,
    sizes: HashMap<PathBuf, u64>,
}

impl<'a> StoreFiles<'a> {
    pub(super) fn new(path: &'a Path, manifest: &'a Manifest, made: Option<u64>) -> Self {
        Self { path, manifest, made, sizes: HashMap::new() }
    }

    /// Returns the reason for not linking a dataset if a file with data of it is missing, or shorter than when
    /// it was committed.
    ///
    /// # Errors
    /// Io from the system.
    pub(super) fn check(&mut self, stored: &StoredDataset) -> Result<Option<UnlinkedReason>> {
        let size = stored.definition.element_size();
        let made = self.made;
        for part in stored.parts.iter().filter(|part| Some(part.epoch) != made) {
            let Some(log) = self.manifest.logs.get(part.log as usize) else { continue };
            let name = log_path(self.path, log.writer);
            if !part.written.pieces.is_empty() && !self.has_bytes(&name, log.length)? {
                return Ok(Some(UnlinkedReason::ShortLog));
            }
            let mut end = 0;
            for piece in part.written.pieces.iter().filter(|piece| is_in(piece.offset)) {
                let bytes = piece.slab.elements()?.saturating_mul(piece.form.size(size));
                end = end.max(inside(piece.offset).saturating_add(bytes));
            }
            let fragment = arrow_files::fragment_name(&stored.definition, log.writer).filter(|_| end > 0);
            if let Some(fragment) = fragment
                && !self.has_bytes(&name.with_file_name(fragment), end)?
            {
                return Ok(Some(UnlinkedReason::ShortLog));
            }
        }
        Ok(None)
    }

    fn has_bytes(&mut self, name: &Path, needed: u64) -> Result<bool> {
        if self.sizes.get(name).is_some_and(|size| *size >= needed) {
            return Ok(true);
        }
        let error = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => Ok(0),
            _ => {
                let message = format!("cannot examine a file of the store: {error}");
                Err(Error::new(ErrorKind::Io, message).file(name.display()))
            }
        };
        let mut size = fs::metadata(name).map(|found| found.len()).or_else(error)?;
        if size < needed {
            // A network file system may report an outdated size until the file is opened.
            size =
                File::open(name).and_then(|file| file.metadata()).map(|found| found.len()).or_else(error)?;
        }
        self.sizes.insert(name.to_owned(), size);
        Ok(size >= needed)
    }
}
