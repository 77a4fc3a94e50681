//! Rows of tables: they are written to Arrow files, and the log records their location.

use super::{Dataset, LogWriter, MIN_DIRECT_BYTES, Segments, State, WriteTarget};
use crate::arrow_files::Segment;
use crate::arrow_files::{Field, Table};
use crate::format::fragment_offset;
use crate::format::record::{Body, Record};
use crate::statistics::{Pass, Statistics};
use crate::{Definition, Hyperslab};
use hyperchunk::Result;
use hyperchunk::io::Source;
use hyperchunk::write::Sync;
use std::path::PathBuf;
use std::sync::Arc;

impl Dataset {
    /// Returns the table, if a box consists of whole rows.
    pub(super) fn table_index(&self, boxes: &[Hyperslab]) -> Option<usize> {
        let [slab] = boxes else { return None };
        let whole = |start: &u64, count: &u64, dim: &u64| *start == 0 && count == dim;
        let inner = slab.start.iter().zip(&slab.count).zip(&self.definition.dims).skip(1);
        let is_rows = inner.into_iter().all(|((start, count), dim)| whole(start, count, dim));
        self.table.filter(|_| is_rows && !slab.start.is_empty())
    }
}

impl LogWriter {
    /// Returns the table of a dataset that is being defined, if its rows go to one.
    pub(super) fn table(&self, state: &mut State, definition: &Definition, number: u32) -> Option<usize> {
        if self.0.options.segments != Segments::Arrow || !definition.pipeline.is_empty() {
            return None;
        }
        let field = Field::from_definition(definition)?;
        let new = Table::from_definition(&self.0.path, self.id(), definition)?;
        let place = match state.tables.iter().position(|table| table.name == new.name) {
            Some(place) => place,
            // Rows of further tables go to the log.
            None if state.tables.len() >= fragment_offset::MAX_TABLES => return None,
            None => {
                state.tables.push(new);
                state.tables.len() - 1
            }
        };
        state.tables.get_mut(place)?.add(number, field).then_some(place)
    }

    /// Writes rows of a dataset: at once if they are many, else gathered with others.
    pub(super) fn put_rows(
        &self,
        state: &mut State,
        (dataset, table): (u32, usize),
        slab: &Hyperslab,
        append: bool,
        bytes: &[u8],
    ) -> Result<()> {
        let (Some(first), Some(count)) = (slab.start.first(), slab.count.first()) else { return Ok(()) };
        let rows = (*first, *count);
        state.now = Some(dataset);
        self.write_full_zones(state, dataset)?;
        if bytes.len() < MIN_DIRECT_BYTES && self.0.options.sync != Sync::Write {
            let known = &mut state.tables[table];
            if !known.keep(dataset, append, rows, bytes) {
                self.settle_table(state, table, true)?;
                state.tables[table].keep(dataset, append, rows, bytes);
            }
            state.changed = true;
            if state.tables[table].is_full() {
                self.settle_table(state, table, false)?;
            }
            return Ok(());
        }
        self.settle_table(state, table, true)?;
        self.write_rows(state, (dataset, table), append, rows, bytes)?;
        self.write_waiting(state)?;
        if self.0.options.sync == Sync::Write {
            self.check_result(state.tables[table].sync())?;
            self.sync()?;
        }
        Ok(())
    }

    /// Writes everything that is gathered.
    pub(super) fn settle(&self, state: &mut State) -> Result<()> {
        for table in 0..state.tables.len() {
            self.settle_table(state, table, true)?;
        }
        self.write_waiting(state)
    }

    /// Writes a dataset's gathered rows before another operation on it, to keep the order of
    /// operations.
    pub(super) fn settle_rows(&self, state: &mut State, dataset: u32, body: &Body) -> Result<()> {
        let known = state.datasets.get(dataset as usize).filter(|_| body.is_of_dataset());
        match known.and_then(|dataset| dataset.table) {
            Some(table) => self.settle_table(state, table, true),
            None => Ok(()),
        }
    }

    /// Writes the gathered rows of a table; if not `all`, only rows that all columns have.
    fn settle_table(&self, state: &mut State, table: usize, all: bool) -> Result<()> {
        if state.tables[table].waiting.is_empty() {
            return Ok(());
        }
        if let Some(common) = state.tables[table].common_rows().filter(|common| *common > 0) {
            for place in 0..state.tables[table].waiting.len() {
                let mut rows = std::mem::take(&mut state.tables[table].waiting[place].bytes);
                let (dataset, append, first, count) = {
                    let rows = &state.tables[table].waiting[place];
                    (rows.dataset, rows.append, rows.first, rows.count)
                };
                let part = rows.len() / usize::try_from(count).unwrap_or(1).max(1)
                    * usize::try_from(common).unwrap_or(0);
                self.write_rows(state, (dataset, table), append, (first, common), &rows[..part])?;
                rows.drain(..part);
                let left = &mut state.tables[table].waiting[place];
                (left.first, left.count, left.bytes) = (first + common, count - common, rows);
            }
            state.tables[table].waiting.retain(|rows| rows.count > 0);
        }
        if all || state.tables[table].is_full() {
            for rows in std::mem::take(&mut state.tables[table].waiting) {
                self.write_rows(
                    state,
                    (rows.dataset, table),
                    rows.append,
                    (rows.first, rows.count),
                    &rows.bytes,
                )?;
            }
        }
        self.write_waiting(state)
    }

    /// Writes rows to the fragment, and a record of their location to the log.
    fn write_rows(
        &self,
        state: &mut State,
        (dataset, table): (u32, usize),
        append: bool,
        (first, count): (u64, u64),
        bytes: &[u8],
    ) -> Result<()> {
        let known = state.dataset(dataset)?;
        let mut slab = Hyperslab::new(vec![0; known.definition.dims.len()], known.definition.dims.clone());
        (slab.start[0], slab.count[0]) = (first, count);
        let format = self.0.options.statistics.then_some(known.format);
        let statistics = format.is_some_and(super::NumberFormat::is_supported).then_some(Statistics::NONE);
        let length = bytes.len() as u64;
        let body = Body::Rows { slab: slab.clone(), append, at: 0, length };
        let cut = format.and_then(|_| known.zone_pattern(&body, length));
        let mut pass = Pass::new(self.0.options.checksum, format).with_zones(cut);
        let segment = self.check_result(state.tables[table].open_file())?;
        let spot = state.tables[table].choose_destination(dataset, append, first);
        self.write_and_summarize(
            WriteTarget::Segment(&segment.file, &segment.path),
            spot.offset,
            bytes,
            &mut pass,
        )?;
        state.tables[table].record_rows(spot, (dataset, append), (first, count), length);
        let at = fragment_offset::place(table, spot.offset);
        let body = Body::Rows { slab, append, at, length };
        let mut record = Record { dataset, length: 0, checksum: 0, statistics, body };
        state.cuts.extend(pass.zones().map(|zones| (state.next, zones)));
        (record.checksum, record.statistics) = pass.finish();
        self.gather(state, record, &[])
    }

    /// Reads bytes of a piece of a dataset, from the given offset.
    ///
    /// # Errors
    /// NotFound if no dataset has that number; Io.
    pub fn read_piece(&self, dataset: u32, offset: u64, out: &mut [u8]) -> Result<()> {
        match self.segment(dataset)?.filter(|_| fragment_offset::is_in(offset)) {
            Some(segment) => {
                self.spill()?;
                segment.read(fragment_offset::inside(offset), out)
            }
            None => self.read_at(offset, out),
        }
    }

    /// Returns the paths of its fragments.
    #[must_use]
    pub fn fragments(&self) -> Vec<PathBuf> {
        let state = self.0.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let all = state.tables.iter().filter_map(Table::segment);
        all.map(|segment| segment.path.clone()).collect()
    }

    /// Returns the fragment with rows of a dataset.
    pub(crate) fn segment(&self, dataset: u32) -> Result<Option<Arc<Segment>>> {
        let state = self.state()?;
        let table = state.dataset(dataset)?.table;
        Ok(table.and_then(|table| state.tables.get(table)?.segment().cloned()))
    }
}

impl Source for Segment {
    fn size(&self) -> u64 {
        self.file.metadata().map_or(0, |metadata| metadata.len())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.read(offset, buffer)
    }
}
