//! Results for a dataset that are not yet in a page.

use super::Analysis;
use hyperchunk::Result;
use hyperchunk_store::format::analysis_values::Pairs;
use hyperchunk_store::observe::observer::{Entry, Findings};
use hyperchunk_store::{Hyperslab, LogWriter, MAX_PAGE_ENTRIES};

/// Approximate size in bytes at which a page is written.
const PAGE_BYTES: usize = 1 << 20;

#[derive(Debug, Default)]
pub(super) struct PendingResults {
    entries: Vec<Entry>,
    size: usize,
    /// Merged results since the last flush.
    pub(super) merged: Option<Pairs>,
    /// True if the results cannot be merged.
    unmergeable: bool,
    /// True if a page was written since the last flush.
    continued: bool,
}

impl PendingResults {
    pub(super) fn push(
        &mut self,
        slab: Hyperslab,
        appended: bool,
        found: std::result::Result<Pairs, String>,
    ) {
        let entry = Entry { slab, appended, found };
        self.size += entry.size();
        self.entries.push(entry);
    }

    pub(super) fn is_full(&self) -> bool {
        self.size > PAGE_BYTES || self.entries.len() as u64 >= MAX_PAGE_ENTRIES
    }

    /// Returns the results to merge.
    pub(super) fn unmerged(&self) -> Vec<Pairs> {
        let all = self.entries.iter().filter(|_| !self.unmergeable);
        all.filter_map(|entry| entry.found.as_ref().ok().cloned()).collect()
    }

    pub(super) fn stop_merging(&mut self) {
        (self.unmergeable, self.merged) = (true, None);
    }

    /// Writes a page, if there is content for it.
    pub(super) fn put(
        &mut self,
        analysis: &Analysis,
        writer: &LogWriter,
        dataset: u32,
        ends: bool,
    ) -> Result<()> {
        if self.entries.is_empty() && !(ends && self.continued) {
            return Ok(());
        }
        let entries = std::mem::take(&mut self.entries);
        self.size = 0;
        let merged = if ends { self.merged.take() } else { None };
        let findings = Findings { analysis: analysis.id, ends, merged, entries };
        self.continued = !ends;
        if ends {
            self.unmergeable = false;
        }
        writer.put_findings(dataset, &findings)
    }
}
