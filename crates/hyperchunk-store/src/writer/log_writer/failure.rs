//! Write errors of a writer: after one, every call fails, and the log is flagged.

use super::{LogWriter, State, Target};
use crate::LogHeader;
use hyperchunk::internal::positioned::write_all_at;
use hyperchunk::{Error, ErrorKind, Result};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

/// Maximum number of datasets in the message.
const MAX_NAMED_DATASETS: usize = 5;

impl LogWriter {
    /// Records the length up to which the log is complete. With a buffer in memory it stays
    /// unknown, as the buffer may be written partially.
    pub(super) fn record_end(&self, end: u64) {
        if self.0.buffer.is_none() {
            self.0.whole.store(end, Ordering::Relaxed);
        }
    }

    /// Passes a result on; an I/O error disables the writer.
    pub(super) fn check_result<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result
            && error.kind() == ErrorKind::Io
        {
            self.fail(error.clone());
        }
        result
    }

    /// Disables the writer because data of its log could not be written: every later call fails,
    /// and a commit reports it. Data flushed before can be committed.
    pub fn disable(&self, why: &str) {
        self.fail(Error::new(ErrorKind::Io, why));
    }

    fn fail(&self, why: Error) {
        if !self.is_of_this_process() || self.0.failed.set(why).is_err() {
            return;
        }
        if let Target::File(file) = &self.0.target {
            // An incomplete batch would disturb readers.
            let whole = self.0.whole.load(Ordering::Relaxed);
            if file.metadata().is_ok_and(|metadata| metadata.len() > whole) {
                drop(file.set_len(whole));
            }
            let header = LogHeader { failed: true, ..self.0.header.clone() };
            // Overwriting existing bytes needs no space. If even this fails, the log looks like one
            // of a stopped writer.
            drop(write_all_at(file, 0, &header.encode()));
        }
    }

    /// Returns the error of a disabled writer, which names the missing data.
    pub(super) fn check_enabled(&self, state: &State) -> Result<()> {
        let Some(why) = self.0.failed.get() else { return Ok(()) };
        let since = state.datasets.iter().zip(0..).filter(|(dataset, _)| !dataset.written.is_empty());
        let mut numbers: BTreeSet<u32> = since.map(|(_, number)| number).collect();
        numbers.extend(state.waiting.iter().filter(|record| record.body.is_of_dataset()).map(|r| r.dataset));
        numbers.extend(state.tables.iter().flat_map(|table| table.waiting.iter().map(|rows| rows.dataset)));
        numbers.extend(state.now);
        let names = numbers.iter().filter_map(|number| state.datasets.get(*number as usize));
        let names: Vec<_> =
            names.map(|dataset| String::from_utf8_lossy(&dataset.definition.path).into_owned()).collect();
        let mut what =
            names.iter().take(MAX_NAMED_DATASETS).map(String::as_str).collect::<Vec<_>>().join(", ");
        if names.len() > MAX_NAMED_DATASETS {
            what.push_str(&format!(" and {} more datasets", names.len() - MAX_NAMED_DATASETS));
        }
        if what.is_empty() {
            what.push_str("groups, attributes and small data");
        }
        let message = format!(
            "cannot go on with this writer: writing its data failed: {}; data after its last flush are missing, of {what}; \
             commit the flushed data by their ticket, or the intact part with `hyperchunk store recover`, and write \
             the rest again",
            why.message()
        );
        Err(Error::new(ErrorKind::Io, message).file(self.0.log.display()))
    }
}
