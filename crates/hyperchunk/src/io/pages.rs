//! Page cache for the metadata of a local file, because parsers read many small parts that are near each
//! other.

use super::{Source, ends_before};
use crate::Result;
use hyperchunk_format::View;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock};

/// Size of a page in bytes: a page full of object headers costs one read.
const PAGE_BYTES: usize = 16 << 10;
/// Reads of at least this many bytes bypass the cache.
const MIN_BYPASS_BYTES: usize = 64 << 10;
/// Maximum number of cached pages.
const MAX_PAGES: usize = 1024;

/// The cached pages of a file, up to 16 MiB.
pub(crate) struct Pages {
    source: Arc<dyn Source>,
    pages: RwLock<HashMap<u64, Arc<[u8]>>>,
    /// True if every read goes to the file and nothing is cached.
    passes: AtomicBool,
}

impl Pages {
    pub(crate) fn new(source: Arc<dyn Source>) -> Self {
        Self { source, pages: RwLock::default(), passes: AtomicBool::new(false) }
    }

    pub(crate) fn forget(&self) {
        self.pages.write().unwrap_or_else(PoisonError::into_inner).clear();
    }

    pub(crate) fn keep_nothing(&self) {
        self.passes.store(true, Ordering::Relaxed);
        self.forget();
    }

    fn page(&self, number: u64) -> Result<Arc<[u8]>> {
        let start = number * PAGE_BYTES as u64;
        let left = usize::try_from(self.source.size() - start).unwrap_or(usize::MAX);
        // A cached last page is shorter; if the file has grown since, it is read again.
        let is_whole = |page: &&Arc<[u8]>| page.len() >= PAGE_BYTES.min(left);
        let kept =
            self.pages.read().unwrap_or_else(PoisonError::into_inner).get(&number).filter(is_whole).cloned();
        if let Some(page) = kept {
            return Ok(page);
        }
        let mut page: Arc<[u8]> = std::iter::repeat_n(0, PAGE_BYTES.min(left)).collect();
        if let Some(bytes) = Arc::get_mut(&mut page) {
            self.source.read_at(start, bytes)?;
        }
        let mut pages = self.pages.write().unwrap_or_else(PoisonError::into_inner);
        if pages.len() >= MAX_PAGES {
            // A quarter of the pages is evicted in arbitrary order: a page that is in use costs one read.
            let some: Vec<u64> = pages.keys().copied().take(MAX_PAGES / 4).collect();
            some.iter().for_each(|number| drop(pages.remove(number)));
        }
        pages.insert(number, Arc::clone(&page));
        Ok(page)
    }
}

impl View for Pages {
    fn size(&self) -> u64 {
        self.source.size()
    }

    fn bytes(&self, offset: u64, length: usize) -> Result<Cow<'_, [u8]>> {
        let end = offset.checked_add(length as u64).filter(|end| *end <= self.size());
        end.ok_or_else(|| ends_before(self.size(), offset, length))?;
        let mut bytes = Vec::new();
        if length >= MIN_BYPASS_BYTES || self.passes.load(Ordering::Relaxed) {
            crate::room::resize(&mut bytes, length)?;
            self.source.read_at(offset, &mut bytes)?;
            return Ok(Cow::Owned(bytes));
        }
        bytes.reserve_exact(length);
        let mut number = offset / PAGE_BYTES as u64;
        let mut start = usize::try_from(offset % PAGE_BYTES as u64).unwrap_or(0);
        while bytes.len() < length {
            let page = self.page(number)?;
            let stop = PAGE_BYTES.min(start + length - bytes.len());
            bytes.extend_from_slice(&page[start..stop]);
            (number, start) = (number + 1, 0);
        }
        Ok(Cow::Owned(bytes))
    }
}
