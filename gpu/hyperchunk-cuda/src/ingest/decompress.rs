//! Decompression of a batch with nvCOMP.

use super::plan::{Conversion, Task};
use super::prepare::PreparedTask;
use super::slot::{PendingChecks, Slot, TaskOffsets, room};
use super::tables::Tables;
use crate::Result;
use crate::error::fail;
use crate::nvcomp::{Algorithm, Batch};

impl<'a> Slot<'a> {
    /// Starts the decompression of all pieces.
    pub(super) fn decompress(
        &mut self,
        tasks: &'a [Task<'a>],
        places: &[TaskOffsets],
        prepared: &[PreparedTask],
        [stored, raw]: [u64; 2],
        pending: &mut PendingChecks<'a>,
    ) -> Result<()> {
        let mut tables = Tables::default();
        let mut batches = Vec::new();
        for algorithm in Algorithm::ALL {
            let mut items = Vec::new();
            for ((task, place), prepared) in tasks.iter().zip(places).zip(prepared) {
                if matches!(task.how, Conversion::Gpu { algorithm: Some(of), .. } if of == algorithm) {
                    items.extend(prepared.items.iter().map(|item| (task, *place, *item)));
                }
            }
            if items.is_empty() {
                continue;
            }
            let first = pending.pieces.len();
            pending.pieces.extend(items.iter().map(|(task, _, item)| (*task, item.room)));
            let from =
                tables.words(items.iter().map(|(_, place, item)| stored + (place.at + item.from) as u64));
            let from_bytes = tables.words(items.iter().map(|(_, _, item)| item.bytes as u64));
            let to = tables.words(items.iter().map(|(_, place, item)| raw + (place.raw + item.to) as u64));
            let rooms = tables.words(items.iter().map(|(_, _, item)| item.room as u64));
            let largest = items.iter().map(|(_, _, item)| item.room).max().unwrap_or(0);
            let total = items.iter().map(|(_, _, item)| item.room).sum();
            batches.push((algorithm, first, items.len(), [from, from_bytes, to, rooms], largest, total));
        }
        for ((task, place), prepared) in tasks.iter().zip(places).zip(prepared) {
            if let (Some(stored), Some(raw)) = (&self.stored, &self.raw) {
                for item in &prepared.copies {
                    self.stream.copy(stored, place.at + item.from, raw, place.raw + item.to, item.bytes)?;
                }
            }
            if let (Some(sum), false) = (prepared.adler32, prepared.needs_host) {
                pending.checked.push((task, sum));
            }
        }
        let count = pending.pieces.len();
        pending.statuses = count * 8;
        pending.sums = (pending.statuses + count * 4).next_multiple_of(16);
        pending.bytes = pending.sums + pending.checked.len() * 4;
        let results = room(&mut self.results, &self.context, pending.bytes)?;
        if batches.is_empty() {
            return Ok(());
        }
        let Some(nvcomp) = self.options.nvcomp else { fail!(Failed, "nvCOMP is not loaded") };
        let mut temp_bytes = 0;
        for (algorithm, _, count, _, largest, total) in &batches {
            let bytes = nvcomp.temp_bytes(&self.stream, *algorithm, *count, *largest, *total)?;
            temp_bytes = temp_bytes.max(bytes);
        }
        let temp = room(&mut self.temp, &self.context, temp_bytes)?;
        if let Some(results) = &self.results {
            // A status that is never written must not read as success.
            self.stream.fill(results, 0, pending.bytes, 0xff)?;
        }
        let table = self.send(&tables, 0)?;
        for (algorithm, first, count, [from, from_bytes, to, rooms], ..) in batches {
            let batch = Batch {
                count,
                from: table + from as u64,
                from_bytes: table + from_bytes as u64,
                to: table + to as u64,
                room: table + rooms as u64,
                to_bytes: results + (pending.sizes + first * 8) as u64,
                statuses: results + (pending.statuses + first * 4) as u64,
                temp,
                temp_bytes,
            };
            // SAFETY: the tables were built above with `count` entries each; they point into `stored` and
            // `raw`, where `places` gave each task as much as it says; the slot keeps all until it was
            // collected.
            unsafe { nvcomp.decompress(&self.stream, algorithm, &batch)? };
        }
        Ok(())
    }
}
