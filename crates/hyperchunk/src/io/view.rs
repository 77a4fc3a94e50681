//! View of a file's metadata for parsers, local or remote.

use super::blocks::{RemoteBlocks, RemoteView};
use super::pages::Pages;
use super::reach::FilePages;
use super::{Source, beside, rounds};
use crate::Result;
use bytes::Bytes;
use hyperchunk_format::View;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// Cached view of a file's metadata.
pub(crate) enum FileView {
    /// A local file or memory.
    Local(Pages),
    /// A file over a network.
    Remote(RemoteView),
}

impl FileView {
    pub(crate) fn new(source: &Arc<dyn Source>) -> Self {
        match source.remote() {
            Some(_) => Self::Remote(RemoteView(Arc::new(RemoteBlocks::new(Arc::clone(source))))),
            None => Self::Local(Pages::new(Arc::clone(source))),
        }
    }

    /// Empties the page cache of a local file.
    pub(crate) fn forget(&self) {
        if let Self::Local(pages) = self {
            pages.forget();
        }
    }

    /// Turns off the page cache of a local file, since another program writes it. Its parts are then read in
    /// the order in which parsers request them, so that pointers are read before their targets.
    pub(crate) fn keep_nothing(&self) {
        if let Self::Local(pages) = self {
            pages.keep_nothing();
        }
    }

    /// Declares that the file stores structure in pages.
    pub(crate) fn set_pages(&self, pages: FilePages) {
        if let Self::Remote(blocks) = self {
            blocks.0.set_pages(pages);
        }
    }

    /// Runs `work`, which fetches structure, and fetches a range of the file together with its first
    /// requests, if it makes any.
    pub(crate) fn fetch_beside<T>(&self, range: Range<u64>, work: impl FnOnce() -> T) -> (T, Option<Bytes>) {
        match self {
            Self::Local(_) => (work(), None),
            Self::Remote(blocks) => beside::fetch(&blocks.0, range, work),
        }
    }

    /// Discards the hints of one operation about the bytes that it needs.
    pub(crate) fn forget_hints(&self) {
        if matches!(self, Self::Remote(_)) {
            rounds::forget_hints();
        }
    }
}

impl View for FileView {
    fn size(&self) -> u64 {
        match self {
            Self::Local(pages) => pages.size(),
            Self::Remote(blocks) => blocks.size(),
        }
    }

    fn bytes(&self, offset: u64, length: usize) -> Result<Cow<'_, [u8]>> {
        match self {
            Self::Local(pages) => pages.bytes(offset, length),
            Self::Remote(blocks) => blocks.bytes(offset, length),
        }
    }

    fn will_need(&self, ranges: &[Range<u64>]) {
        if let Self::Remote(blocks) = self {
            blocks.will_need(ranges);
        }
    }

    fn will_look_at(&self, offset: u64) {
        if let Self::Remote(blocks) = self {
            blocks.will_look_at(offset);
        }
    }
}
