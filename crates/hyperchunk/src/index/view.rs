//! View of a file through its index.

use super::Index;
use crate::Result;
use hyperchunk_format::View;
use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

/// A view of a file that returns the index's copy of bytes if the index contains them.
pub(crate) struct IndexedView<V> {
    under: V,
    index: Option<Arc<Index>>,
}

impl<V> IndexedView<V> {
    pub(crate) fn new(under: V, index: Option<Arc<Index>>) -> Self {
        Self { under, index }
    }

    /// Returns the file's own view.
    pub(crate) fn under(&self) -> &V {
        &self.under
    }
}

impl<V: View> View for IndexedView<V> {
    fn size(&self) -> u64 {
        self.under.size()
    }

    fn bytes(&self, offset: u64, length: usize) -> Result<Cow<'_, [u8]>> {
        if let Some(index) = &self.index
            && let Some(bytes) = index.bytes(offset, length)?
        {
            return Ok(Cow::Borrowed(bytes));
        }
        self.under.bytes(offset, length)
    }

    fn will_need(&self, ranges: &[Range<u64>]) {
        let Some(index) = &self.index else { return self.under.will_need(ranges) };
        let absent = |range: &&Range<u64>| {
            let length = usize::try_from(range.end.saturating_sub(range.start)).unwrap_or(usize::MAX);
            !matches!(index.bytes(range.start, length), Ok(Some(_)))
        };
        let absent: Vec<Range<u64>> = ranges.iter().filter(absent).cloned().collect();
        if !absent.is_empty() {
            self.under.will_need(&absent);
        }
    }

    fn will_look_at(&self, offset: u64) {
        // The index contains the structure, so there is no need to fetch more of it around this offset.
        if self.index.is_none() {
            self.under.will_look_at(offset);
        }
    }
}
