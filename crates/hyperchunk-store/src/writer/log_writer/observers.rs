//! Notification of the observer.

use super::LogWriter;
use crate::writer::observer::{AnalysisId, Announcement, Findings, Observer, WriteEvent};
use crate::{Hyperslab, PageHead, PageKind};
use hyperchunk::{Error, Result};
use std::sync::Arc;

impl LogWriter {
    /// Sets the observer of all further writes. Can be called only once.
    ///
    /// # Errors
    /// Invalid if there is an observer already.
    pub fn observe(&self, observer: Arc<dyn Observer>) -> Result<()> {
        let taken = |_| Error::invalid("the writer already has an observer");
        self.0.observer.set(observer).map_err(|other| taken(other).file(self.0.log.display()))
    }

    /// Notifies the observer of a write, without holding locks of the writer.
    pub(crate) fn notify_observer(
        &self,
        dataset: u32,
        boxes: &[Hyperslab],
        appended: bool,
        bytes: Option<&[u8]>,
    ) -> Result<()> {
        let Some(observer) = self.0.observer.get() else { return Ok(()) };
        let some: Vec<Hyperslab> = boxes.iter().filter(|slab| !slab.count.contains(&0)).cloned().collect();
        if some.is_empty() {
            return Ok(());
        }
        observer.wrote(self, &WriteEvent { dataset, boxes: &some, appended, bytes })
    }

    pub(super) fn settle_observer(&self, closing: bool) -> Result<()> {
        // Report that the writer is another process's, or closed, before notifying the observer.
        drop(self.state()?);
        self.0.observer.get().map_or(Ok(()), |observer| observer.flush(self, closing))
    }

    /// Shows the observer elements of a box that this or another writer wrote earlier, to obtain
    /// the same results as at that time.
    ///
    /// # Errors
    /// Errors of the observer; Invalid if the number of bytes does not match the box.
    pub fn replay(&self, dataset: u32, slab: &Hyperslab, bytes: &[u8]) -> Result<()> {
        let known = self.dataset(dataset)?;
        slab.check(known.definition.dims.len())?;
        if slab.elements()?.checked_mul(known.definition.element_size()) != Some(bytes.len() as u64) {
            return Err(Error::invalid(format!("{} bytes for a box of {:?}", bytes.len(), slab.count)));
        }
        self.notify_observer(dataset, std::slice::from_ref(slab), false, Some(bytes))
    }

    /// Announces an analysis of a dataset by its signed record. An empty record stops the analysis.
    ///
    /// # Errors
    /// Limit for a record that is too long; NotFound; Io.
    pub fn announce(&self, dataset: u32, analysis: AnalysisId, record: &[u8]) -> Result<()> {
        let rank = self.dataset(dataset)?.dims.len();
        let slab = Hyperslab::new(vec![0; rank], vec![0; rank]);
        let head = PageHead { kind: PageKind::Analysis, first: 0, entries: 1, complete: false, slab };
        let announced = Announcement { analysis, record: record.to_vec() };
        self.put_page(dataset, head, &announced.encode())
    }

    /// Stores results of an analysis of a dataset.
    ///
    /// # Errors
    /// As [`LogWriter::put_page`].
    pub fn put_findings(&self, dataset: u32, findings: &Findings) -> Result<()> {
        let rank = self.dataset(dataset)?.dims.len();
        let around = findings.bounding_box().unwrap_or_else(|| Hyperslab::new(vec![0; rank], vec![0; rank]));
        let entries = findings.entries.len() as u64;
        let head = PageHead { kind: PageKind::Pairs, first: 0, entries, complete: false, slab: around };
        self.put_page(dataset, head, &findings.encode())
    }
}
