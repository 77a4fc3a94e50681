//! State of a writer's records until they are indexed, and pages of results about them.

use super::{Dataset, LogWriter, State};
use crate::format::index::{DatasetWrites, Image, Index};
use crate::format::page::{MAX_PAGE_BYTES, MAX_PAGE_ENTRIES, PageHead};
use crate::format::record::{Body, Record};
use crate::statistics::zones::ZonePattern;
use crate::statistics::{Statistics, checksum};
use crate::{DatasetEntry, Hyperslab};
use hyperchunk::{Error, Result};

impl LogWriter {
    /// Stores results about writes to a dataset in the log. Readers of an epoch find them in
    /// [`crate::DatasetWrites::pages`].
    ///
    /// # Errors
    /// Limit if they are too many or too long; NotFound; Io.
    pub fn put_page(&self, dataset: u32, head: PageHead, bytes: &[u8]) -> Result<()> {
        let mut state = self.state()?;
        state.dataset(dataset)?;
        if head.entries > MAX_PAGE_ENTRIES || bytes.len() as u64 > MAX_PAGE_BYTES {
            return Err(Error::limit(format!(
                "a page of {} entries and {} bytes",
                head.entries,
                bytes.len()
            )));
        }
        self.add_page(&mut state, dataset, head, None, bytes)
    }

    fn add_page(
        &self,
        state: &mut State,
        dataset: u32,
        head: PageHead,
        statistics: Option<Statistics>,
        bytes: &[u8],
    ) -> Result<()> {
        let (length, checksum, body) = (bytes.len() as u64, checksum(bytes), Body::Page(head));
        self.gather(state, Record { dataset, length, checksum, statistics, body }, bytes)
    }

    /// Writes the zones of a dataset to a page, if there are many.
    pub(super) fn write_full_zones(&self, state: &mut State, dataset: u32) -> Result<()> {
        if state.datasets.get(dataset as usize).is_some_and(|dataset| dataset.zones.is_full()) {
            self.write_waiting(state)?;
            self.put_zones(state, dataset)?;
        }
        Ok(())
    }

    /// Writes the zones of a dataset to a page. No records that they describe may be waiting.
    pub(super) fn put_zones(&self, state: &mut State, number: u32) -> Result<()> {
        let order = state.next;
        let Some(dataset) = state.datasets.get_mut(number as usize) else { return Ok(()) };
        match dataset.zones.take(order) {
            Some((head, statistics, bytes)) => self.add_page(state, number, head, Some(statistics), &bytes),
            None => Ok(()),
        }
    }
}

impl Dataset {
    /// Returns the pattern by which a record is cut into zones.
    pub(super) fn zone_pattern(&self, body: &Body, bytes: u64) -> Option<ZonePattern> {
        let boxes = match body {
            Body::Boxes(boxes) => boxes,
            Body::Append(slab) | Body::Rows { slab, .. } => std::slice::from_ref(slab),
            _ => return None,
        };
        ZonePattern::for_boxes(boxes, self.definition.element_size(), bytes)
    }

    /// Records the statistics of a record.
    fn add_zones(&mut self, order: u64, record: &Record, cut: Option<Vec<Statistics>>) {
        let (one, bytes): (&[Hyperslab], u64) = match &record.body {
            Body::Boxes(boxes) => (boxes, record.length),
            Body::Append(slab) => (std::slice::from_ref(slab), record.length),
            Body::Rows { slab, length, .. } => (std::slice::from_ref(slab), *length),
            Body::Chunk { .. } | Body::Fields { .. } => (&[], record.length),
            _ => return,
        };
        let append = matches!(record.body, Body::Append(_) | Body::Rows { append: true, .. });
        self.zones.add(order, (one, append), bytes, record.statistics.as_ref(), cut);
    }
}

impl State {
    /// Records the locations of a batch's records.
    pub(super) fn note_records(&mut self, first: u64, head: u64, mut place: u64, records: &[Record]) {
        self.changed = true;
        for (order, record) in (first..).zip(records) {
            let cut = self.cuts.iter().position(|(of, _)| *of == order);
            let cut = cut.map(|place| self.cuts.swap_remove(place).1);
            match &record.body {
                Body::Image => {
                    let (length, checksum) = (record.length, record.checksum);
                    self.image = Some(Image { offset: place, length, checksum, order });
                }
                Body::Boxes(_)
                | Body::Fields { .. }
                | Body::Append(_)
                | Body::Rows { .. }
                | Body::Chunk { .. }
                | Body::Extent(_) => {
                    if let Some(dataset) = self.datasets.get_mut(record.dataset as usize) {
                        let element = dataset.definition.element_size();
                        let chunk = dataset.definition.chunk.as_deref().unwrap_or_default();
                        dataset.written.add(record, order, head, place, element, chunk);
                        let mut new =
                            dataset.reading.is_some().then(|| DatasetWrites::nothing(dataset.dims.len()));
                        if let Some(new) = &mut new {
                            new.add(record, order, head, place, element, chunk);
                        }
                        dataset.add_zones(order, record, cut);
                        if let Body::Extent(dims) = &record.body {
                            dataset.dims.clone_from(dims);
                        }
                        if let (Some(new), Some(reading)) = (new, &mut dataset.reading)
                            && reading.add(&dataset.definition, &dataset.dims, &new).is_err()
                        {
                            // The next read rebuilds it and reports the error.
                            dataset.reading = None;
                        }
                    }
                }
                Body::Page(_) => {
                    if let Some(dataset) = self.datasets.get_mut(record.dataset as usize) {
                        dataset.written.add(record, order, head, place, 0, &[]);
                    }
                }
                Body::Define | Body::Hides | Body::Index => {}
            }
            place += record.length;
        }
    }

    pub(super) fn index(&mut self) -> Index {
        let defined = self.datasets[self.indexed..].iter();
        let defined =
            defined.map(|dataset| DatasetEntry { id: dataset.id, bytes: dataset.bytes.clone() }).collect();
        let written = self.datasets.iter_mut().zip(0..).filter(|(dataset, _)| !dataset.written.is_empty());
        let written = written.map(|(dataset, number)| {
            dataset.written.pieces.pack();
            dataset.written.appended.pack();
            (number, dataset.written.clone())
        });
        let written = written.collect();
        let known = u32::try_from(self.indexed).unwrap_or(u32::MAX);
        Index { known, defined, written, image: self.image, hidden: self.hidden.clone() }
    }
}
