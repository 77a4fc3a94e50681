//! A log combined with the fragment of a dataset.

use super::fragment_name;
use crate::format::fragment_offset::{inside, is_in};
use crate::location::site::refused;
use crate::{Definition, WriterId, log_path, store_folder};
use hyperchunk::companion;
use hyperchunk::internal::positioned::read_exact_at;
use hyperchunk::io::{LocalFile, Source};
use hyperchunk::{Error, Result};
use std::fmt;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Function that opens a fragment.
type OpenFragment = Box<dyn Fn() -> Result<Arc<dyn Source>> + Send + Sync>;

/// A source of two files, a log and a fragment; the fragment is opened on first use.
pub(crate) struct JoinedSource {
    log: Arc<dyn Source>,
    open: OpenFragment,
    fragment: OnceLock<Arc<dyn Source>>,
}

impl JoinedSource {
    pub(crate) fn new(log: Arc<dyn Source>, open: OpenFragment) -> Self {
        Self { log, open, fragment: OnceLock::new() }
    }

    /// Returns the fragment.
    pub(crate) fn fragment(&self) -> Result<&Arc<dyn Source>> {
        if let Some(fragment) = self.fragment.get() {
            return Ok(fragment);
        }
        let fragment = (self.open)()?;
        Ok(self.fragment.get_or_init(|| fragment))
    }
}

impl Source for JoinedSource {
    /// Returns the size of the log; locations in fragments are checked when they are read.
    fn size(&self) -> u64 {
        self.log.size()
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        if !is_in(offset) {
            return self.log.read_at(offset, buffer);
        }
        self.fragment()?.read_at(inside(offset), buffer)
    }
}

impl fmt::Debug for JoinedSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Joined").field("log", &self.log).finish_non_exhaustive()
    }
}

/// Data of a dataset in a writer's log and in its fragment.
#[derive(Debug)]
pub struct WriterBytes {
    log: Arc<File>,
    names: (PathBuf, Option<PathBuf>),
    /// File that the store belongs to.
    path: PathBuf,
    fragment: OnceLock<LocalFile>,
}

impl WriterBytes {
    /// Prepares access to a writer of the store at `path`, whose log is open.
    #[must_use]
    pub fn new(path: &Path, writer: WriterId, log: Arc<File>, definition: &Definition) -> Self {
        let fragment = fragment_name(definition, writer).map(|name| store_folder(path).join(name));
        Self {
            log,
            names: (log_path(path, writer), fragment),
            path: path.to_owned(),
            fragment: OnceLock::new(),
        }
    }

    /// Reads bytes of a piece, from the given offset.
    ///
    /// # Errors
    /// NotFound, Truncated or Io.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let (log, name) = &self.names;
        if !is_in(offset) {
            return read_exact_at(&self.log, offset, out)
                .map_err(|error| refused("read", log, &error).at(offset));
        }
        let name =
            name.as_ref().ok_or_else(|| Error::corrupt("rows of a dataset that belongs to no table"))?;
        let named = |error: Error| error.file(name.display());
        let fragment = match self.fragment.get() {
            Some(fragment) => fragment,
            None => {
                let opened = companion::open_of_store(&self.path, name).map_err(named)?;
                self.fragment.get_or_init(|| opened)
            }
        };
        fragment.read_at(inside(offset), out).map_err(named)
    }
}
