//! Reading a log: by its indexes or, if its writer was stopped, by its batches.

use crate::Ticket;
use crate::arrow_files;
use crate::format::commit_report::Report;
use crate::format::fragment_offset::{inside, is_in};
use crate::format::header::{HEADER_BYTES, LogHeader, TRAILER_BYTES, Trailer};
use crate::format::id;
use crate::format::id::{WriterId, hash};
use crate::format::index::{DatasetEntry, DatasetWrites, Image, Index};
use crate::format::record;
use crate::format::record::{Batch, Body, FIXED_HEADER_BYTES, Record};
use crate::location::site::{LogName, LogNameBuf};
use crate::statistics::checksum;
use crate::statistics::zones;
use crate::{Definition, PageKind};
use hyperchunk::io::Source;
use hyperchunk::{Error, ErrorKind, Result};
use hyperchunk_format::Cursor;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Number of bytes of a payload read at a time.
const READ_BYTES: u64 = 4 << 20;
/// Maximum number of open fragments of a log.
const MAX_OPEN_FRAGMENTS: usize = 64;
/// Maximum size of an index in bytes.
const MAX_INDEX_BYTES: u64 = 1 << 32;

/// State of the end of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LogEnd {
    /// The writer is finished.
    Finished,
    /// The writer flushed everything and may continue.
    Flushed,
    /// The writer is at work or was stopped: there are data after the last index, or there is no
    /// index yet.
    Unfinished,
}

/// Content of a log.
#[derive(Debug)]
pub struct Log {
    /// Its header.
    pub header: LogHeader,
    /// State of its end.
    pub ending: LogEnd,
    /// All datasets that the writer defined, by number.
    pub defined: Vec<DatasetEntry>,
    /// Writes after the position from which the log was read, by number of the dataset.
    pub written: Vec<(u32, DatasetWrites)>,
    /// Location of the writer's image, if there is one.
    pub image: Option<Image>,
    /// Finished writers that this one hid when it truncated the file.
    pub hidden: Vec<WriterId>,
    /// Length up to which the content is known.
    pub length: u64,
    /// Offset of its last trailer; 0 for none.
    pub trailer: u64,
    /// True if it was read from its batches, past the last index.
    pub salvaged: bool,
    source: LazyFile,
    /// Open fragments of its writer.
    fragments: Mutex<HashMap<String, Arc<dyn Source>>>,
}

/// The file of a log, opened on first use; with the writer's report it may never be needed.
#[derive(Debug)]
struct LazyFile {
    name: LogNameBuf,
    file: OnceLock<Arc<dyn Source>>,
}

impl LazyFile {
    fn new(name: LogName<'_>) -> Self {
        Self { name: name.into(), file: OnceLock::new() }
    }

    fn opened(name: LogName<'_>) -> Result<Self> {
        let lazy = Self::new(name);
        lazy.file()?;
        Ok(lazy)
    }

    fn file(&self) -> Result<&Arc<dyn Source>> {
        if let Some(file) = self.file.get() {
            return Ok(file);
        }
        let file = self.name.open()?;
        Ok(self.file.get_or_init(|| file))
    }

    fn size(&self) -> u64 {
        self.file().map_or(0, |file| file.size())
    }

    fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.file()?.read_at(offset, out)
    }
}

impl Log {
    /// Opens a log up to its last index, or to the index of a ticket; `written` has only the writes
    /// after the trailer at `after`.
    ///
    /// # Errors
    /// NotFound or Io; Corrupt if its header or an index is damaged, or a ticket is of another log.
    pub fn open<'a>(name: impl Into<LogName<'a>>, ticket: Option<&Ticket>, after: u64) -> Result<Self> {
        let name = name.into();
        Self::begin(name)
            .and_then(|mut log| {
                match ticket {
                    Some(ticket) => log.read_to(ticket, after)?,
                    None => log.read_to_end(after)?,
                }
                Ok(log)
            })
            .map_err(|error| error.file(name.path().display()))
    }

    /// Opens a log whose writer was stopped, up to the last complete batch; checksums are verified.
    /// `after` is the offset of a batch, 0 for all.
    ///
    /// # Errors
    /// NotFound or Io; Corrupt if its header is damaged.
    pub fn salvage<'a>(name: impl Into<LogName<'a>>, after: u64) -> Result<Self> {
        let name = name.into();
        let salvaged = Self::begin(name).and_then(|mut log| {
            log.read_batches(after)?;
            Ok(log)
        });
        salvaged.map_err(|error| error.file(name.path().display()))
    }

    /// Returns the header, the state of the end and the size in bytes of a log, without reading its
    /// content.
    ///
    /// # Errors
    /// As [`Log::open`].
    pub fn peek<'a>(name: impl Into<LogName<'a>>) -> Result<(LogHeader, LogEnd, u64)> {
        let name = name.into();
        let log = Self::begin(name).map_err(|error| error.file(name.path().display()))?;
        let size = log.file_size();
        let ending = match log.trailer_at(size.saturating_sub(TRAILER_BYTES as u64))? {
            Some(trailer) if trailer.closed => LogEnd::Finished,
            Some(_) => LogEnd::Flushed,
            None => LogEnd::Unfinished,
        };
        Ok((log.header, ending, size))
    }

    /// Returns the ticket of the last flush; `None` if the writer never flushed. If there are data
    /// after the last flush, it is found by skipping from batch to batch, from the one at `from`
    /// on, without reading the payloads.
    ///
    /// # Errors
    /// As [`Log::open`].
    pub(crate) fn last_flush(name: LogName<'_>, ending: LogEnd, from: u64) -> Result<Option<Ticket>> {
        let log = Self::begin(name).map_err(|error| error.file(name.path().display()))?;
        if ending != LogEnd::Unfinished {
            return log.ticket(log.file_size().saturating_sub(TRAILER_BYTES as u64));
        }
        let (mut at, mut last) = (from.max(HEADER_BYTES as u64).next_multiple_of(8), 0);
        loop {
            if log.trailer_at(at)?.is_some() {
                last = at;
                at += TRAILER_BYTES as u64;
                continue;
            }
            let mut fixed = [0; FIXED_HEADER_BYTES];
            if at.saturating_add(FIXED_HEADER_BYTES as u64) > log.file_size() {
                break;
            }
            log.read_at(at, &mut fixed)?;
            let Some((header, payload)) = record::lengths(&fixed) else { break };
            let Some(end) = at.checked_add(header).and_then(|end| end.checked_add(payload)) else { break };
            at = end.next_multiple_of(8);
        }
        log.ticket(last)
    }

    /// Opens a log for reading data at known locations.
    pub(crate) fn open_for_reads<'a>(name: impl Into<LogName<'a>>) -> Result<Self> {
        let name = name.into();
        Self::begin(name).map_err(|error| error.file(name.path().display()))
    }

    /// Returns the underlying source, for copying.
    ///
    /// # Errors
    /// NotFound or Io.
    pub(crate) fn source(&self) -> Result<&Arc<dyn Source>> {
        self.source.file()
    }

    /// Returns the ticket for the trailer at an offset.
    pub(crate) fn ticket(&self, trailer: u64) -> Result<Option<Ticket>> {
        let found = self.trailer_at(trailer)?;
        Ok(found.map(|found| Ticket { writer: self.writer(), trailer, hash: hash(&found.encode()) }))
    }

    /// Builds the log from its writer's report, without reading the file.
    ///
    /// # Errors
    /// Corrupt if the report contradicts itself.
    pub(crate) fn from_report(name: LogName<'_>, report: &Report) -> Result<Self> {
        let index = Index::decode(&report.index, report.trailer.index)?;
        let mut log = Self {
            header: report.header.clone(),
            ending: if report.trailer.closed { LogEnd::Finished } else { LogEnd::Flushed },
            defined: index.defined,
            written: Vec::new(),
            image: index.image,
            hidden: index.hidden,
            length: report.ticket.trailer + TRAILER_BYTES as u64,
            trailer: report.ticket.trailer,
            salvaged: false,
            source: LazyFile::new(name),
            fragments: Mutex::default(),
        };
        if index.known != 0 {
            return Err(Error::corrupt("the report covers only a part of the log"));
        }
        for (dataset, written) in &index.written {
            log.add_writes(*dataset, written);
        }
        Ok(log)
    }

    fn begin(name: LogName<'_>) -> Result<Self> {
        let source = LazyFile::opened(name)?;
        let mut header = [0; HEADER_BYTES];
        if source.size() < HEADER_BYTES as u64 {
            let message =
                format!("a log of {} bytes, without a header: its writer was stopped at once", source.size());
            return Err(Error::new(ErrorKind::Truncated, message));
        }
        source.read_at(0, &mut header)?;
        let header = LogHeader::decode(&header)?;
        Ok(Self {
            header,
            ending: LogEnd::Unfinished,
            defined: Vec::new(),
            written: Vec::new(),
            image: None,
            hidden: Vec::new(),
            length: HEADER_BYTES as u64,
            trailer: 0,
            salvaged: false,
            source,
            fragments: Mutex::default(),
        })
    }

    /// Returns the writer of the log.
    #[must_use]
    pub fn writer(&self) -> WriterId {
        self.header.writer
    }

    /// Returns the size of the file in bytes, including incomplete data at its end.
    #[must_use]
    pub fn file_size(&self) -> u64 {
        self.source.size()
    }

    /// Returns the dataset of a number.
    ///
    /// # Errors
    /// Corrupt if there is no such dataset, or its definition does not have the expected identity.
    pub fn definition(&self, number: u32) -> Result<(id::DatasetId, Definition)> {
        let defined = self.defined.get(number as usize);
        let defined = defined.ok_or_else(|| Error::corrupt(format!("no dataset of number {number}")))?;
        let definition = Definition::decode(&defined.bytes)?;
        if definition.id()? != defined.id {
            return Err(Error::corrupt(format!(
                "the definition of dataset {} has another identity",
                defined.id
            )));
        }
        Ok((defined.id, definition))
    }

    /// Reads bytes of the log.
    ///
    /// # Errors
    /// Truncated or Io.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        self.source.read_at(offset, out)
    }

    /// Reads the writer's image.
    ///
    /// # Errors
    /// Truncated or Io; Corrupt if its checksum does not match.
    pub fn read_image(&self) -> Result<Option<Vec<u8>>> {
        let Some(image) = self.image else { return Ok(None) };
        let bytes = self.bytes(image.offset, image.length)?;
        if checksum(&bytes) != image.checksum {
            return Err(Error::corrupt("the checksum of the writer's image does not match").at(image.offset));
        }
        Ok(Some(bytes))
    }

    /// Returns the writer's fragment with rows of a dataset.
    pub(crate) fn fragment(&self, definition: &Definition) -> Result<Arc<dyn Source>> {
        let name = arrow_files::fragment_name(definition, self.writer());
        let name = name.ok_or_else(|| Error::corrupt("rows of a dataset that belongs to no table"))?;
        let mut fragments = self.fragments.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(fragment) = fragments.get(&name) {
            return Ok(Arc::clone(fragment));
        }
        let fragment = self.source.name.open_sibling(&name)?;
        if fragments.len() >= MAX_OPEN_FRAGMENTS {
            fragments.clear();
        }
        fragments.insert(name, Arc::clone(&fragment));
        Ok(fragment)
    }

    /// Reads bytes of a piece of a dataset, from the given offset.
    ///
    /// # Errors
    /// NotFound, Truncated or Io.
    pub(crate) fn read_piece(&self, definition: &Definition, offset: u64, out: &mut [u8]) -> Result<()> {
        if is_in(offset) {
            return self.fragment(definition)?.read_at(inside(offset), out);
        }
        self.read_at(offset, out)
    }

    /// Compares a record with its checksum; for rows in a fragment without a checksum, checks that
    /// they exist.
    pub(crate) fn is_whole(
        &self,
        record: &Record,
        place: u64,
        definition: &dyn Fn(u32) -> Result<Definition>,
    ) -> Result<bool> {
        let Body::Rows { at, length, .. } = record.body else {
            return Ok(record.checksum == 0 || self.checksum(place, record.length)? == record.checksum);
        };
        let fragment = match self.fragment(&definition(record.dataset)?) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            fragment => fragment?,
        };
        let at = inside(at);
        if at.saturating_add(length) > fragment.size() {
            return Ok(false);
        }
        if record.checksum == 0 {
            return Ok(true);
        }
        let mut pass = crate::statistics::Pass::new(true, None);
        let mut bytes = Vec::new();
        let mut done = 0;
        while done < length {
            let step = READ_BYTES.min(length - done);
            bytes.resize(usize::try_from(step).unwrap_or(0), 0);
            fragment.read_at(at + done, &mut bytes)?;
            pass.update_checksum(&bytes);
            done += step;
        }
        Ok(pass.finish().0 == record.checksum)
    }

    fn bytes(&self, offset: u64, length: u64) -> Result<Vec<u8>> {
        if offset.checked_add(length).is_none_or(|end| end > self.source.size()) {
            return Err(Error::new(
                ErrorKind::Truncated,
                format!("the log ends before the end of these {length} bytes"),
            )
            .at(offset));
        }
        let length = usize::try_from(length).map_err(|_| Error::limit("larger than memory"))?;
        let mut bytes = hyperchunk::room::zeros(length)?;
        self.source.read_at(offset, &mut bytes)?;
        Ok(bytes)
    }

    pub(crate) fn trailer_at(&self, offset: u64) -> Result<Option<Trailer>> {
        let inside = offset >= HEADER_BYTES as u64
            && offset.checked_add(TRAILER_BYTES as u64).is_some_and(|end| end <= self.source.size());
        if !inside {
            return Ok(None);
        }
        let mut bytes = [0; TRAILER_BYTES];
        self.source.read_at(offset, &mut bytes)?;
        Ok(Trailer::decode(&bytes))
    }

    fn read_to(&mut self, ticket: &Ticket, after: u64) -> Result<()> {
        let trailer = self.trailer_at(ticket.trailer)?;
        let trailer = trailer
            .filter(|trailer| ticket.writer == self.writer() && hash(&trailer.encode()) == ticket.hash);
        let Some(trailer) = trailer else {
            let message = "no trailer of the log matches the ticket: the log was replaced or cut off after the ticket was made";
            return Err(Error::corrupt(message).at(ticket.trailer));
        };
        self.read_indexes(ticket.trailer, trailer, after)
    }

    fn read_to_end(&mut self, after: u64) -> Result<()> {
        let last = self.source.size().saturating_sub(TRAILER_BYTES as u64);
        match self.trailer_at(last)? {
            Some(trailer) => self.read_indexes(last, trailer, after),
            None => Ok(()),
        }
    }

    fn read_indexes(&mut self, at: u64, last: Trailer, after: u64) -> Result<()> {
        let (mut trailer, mut place) = (last, at);
        let mut indexes = Vec::new();
        loop {
            if trailer.length > MAX_INDEX_BYTES {
                return Err(Error::limit(format!("an index of {} bytes", trailer.length)).at(trailer.index));
            }
            let bytes = self.bytes(trailer.index, trailer.length)?;
            if hash(&bytes) != trailer.hash {
                return Err(Error::corrupt("the checksum of an index does not match").at(trailer.index));
            }
            indexes.push((place, Index::decode(&bytes, trailer.index)?));
            if trailer.previous == 0 {
                break;
            }
            let before = if trailer.previous < place { self.trailer_at(trailer.previous)? } else { None };
            let Some(before) = before else {
                return Err(Error::corrupt("the trailer of the previous index is missing").at(place));
            };
            (place, trailer) = (trailer.previous, before);
        }
        for (place, index) in indexes.into_iter().rev() {
            if index.known as usize != self.defined.len() {
                return Err(Error::corrupt("an index does not continue the previous one").at(place));
            }
            self.defined.extend(index.defined);
            self.image = index.image;
            self.hidden = index.hidden;
            if place > after {
                for (dataset, written) in &index.written {
                    self.add_writes(*dataset, written);
                }
            }
        }
        self.trailer = at;
        self.length = at + TRAILER_BYTES as u64;
        self.ending = match (self.length == self.source.size(), last.closed) {
            (true, true) => LogEnd::Finished,
            (true, false) => LogEnd::Flushed,
            _ => LogEnd::Unfinished,
        };
        Ok(())
    }

    fn add_writes(&mut self, dataset: u32, written: &DatasetWrites) {
        match self.written.iter_mut().find(|(number, _)| *number == dataset) {
            Some((_, known)) => known.append(written),
            None => self.written.push((dataset, written.clone())),
        }
    }

    /// Reads batch by batch, until one is incomplete.
    fn read_batches(&mut self, after: u64) -> Result<()> {
        let mut at = HEADER_BYTES as u64;
        let mut known: Vec<(u64, Vec<u64>, usize)> = Vec::new();
        let mut next = 0;
        let mut closed = false;
        loop {
            if let Some(trailer) = self.trailer_at(at)? {
                self.trailer = at;
                closed = trailer.closed;
                at += TRAILER_BYTES as u64;
                continue;
            }
            let Some(batch) = self.batch_at(at)? else { break };
            if batch.first != next {
                break;
            }
            let mut place = at + batch.header;
            for (order, record) in (batch.first..).zip(&batch.records) {
                match &record.body {
                    Body::Define => {
                        let bytes = self.bytes(place, record.length)?;
                        let definition = Definition::decode(&bytes)?;
                        let chunk = definition.chunk.clone().unwrap_or_default();
                        known.push((definition.element_size(), chunk, definition.dims.len()));
                        self.defined.push(DatasetEntry { id: definition.id()?, bytes });
                    }
                    Body::Image => {
                        let (length, checksum) = (record.length, record.checksum);
                        self.image = Some(Image { offset: place, length, checksum, order });
                    }
                    Body::Hides => {
                        let bytes = self.bytes(place, record.length)?;
                        self.hidden.extend(bytes.as_chunks().0.iter().map(|id| WriterId(*id)));
                    }
                    Body::Boxes(_)
                    | Body::Fields { .. }
                    | Body::Append(_)
                    | Body::Rows { .. }
                    | Body::Chunk { .. }
                    | Body::Extent(_)
                    | Body::Page(_)
                        if at >= after =>
                    {
                        let Some((element, chunk, rank)) = known.get(record.dataset as usize) else {
                            return Err(
                                Error::corrupt(format!("no dataset of number {}", record.dataset)).at(at)
                            );
                        };
                        let found = match &record.body {
                            Body::Boxes(boxes) | Body::Fields { boxes, .. } => {
                                boxes.first().map(|slab| slab.start.len())
                            }
                            Body::Append(slab) | Body::Rows { slab, .. } => Some(slab.start.len()),
                            Body::Chunk { offset, .. } => Some(offset.len()),
                            Body::Extent(dims) => Some(dims.len()),
                            _ => None,
                        };
                        if let Some(found) = found.filter(|found| found != rank) {
                            let message = format!("{found} dimensions for a dataset of {rank} dimensions");
                            return Err(Error::corrupt(message).at(at));
                        }
                        let mut written = DatasetWrites::nothing(*rank);
                        written.add(record, order, at, place, *element, chunk);
                        self.add_writes(record.dataset, &written);
                    }
                    _ => {}
                }
                place += record.length;
            }
            next += batch.records.len() as u64;
            at = place.next_multiple_of(8);
        }
        for (_, written) in &mut self.written {
            written.pieces.pack();
        }
        self.length = at.min(self.source.size());
        self.salvaged = true;
        self.ending =
            if closed && self.length == self.source.size() { LogEnd::Finished } else { LogEnd::Unfinished };
        Ok(())
    }

    /// Returns the batch at an offset, if it is complete.
    fn batch_at(&self, at: u64) -> Result<Option<Batch>> {
        let size = self.source.size();
        let mut fixed = [0; FIXED_HEADER_BYTES];
        if at.saturating_add(FIXED_HEADER_BYTES as u64) > size {
            return Ok(None);
        }
        self.source.read_at(at, &mut fixed)?;
        let Some((header, payload)) = record::lengths(&fixed) else { return Ok(None) };
        let end = at.checked_add(header).and_then(|end| end.checked_add(payload));
        if end.is_none_or(|end| end > size) {
            return Ok(None);
        }
        let Ok(batch) = record::decode(&self.bytes(at, header)?, at) else { return Ok(None) };
        let mut place = at + header;
        let mut defined: Vec<Vec<u8>> = Vec::new();
        for record in &batch.records {
            let definition = |number: u32| match (number as usize).checked_sub(self.defined.len()) {
                None => self.definition(number).map(|(_, definition)| definition),
                Some(new) => Definition::decode(
                    defined
                        .get(new)
                        .ok_or_else(|| Error::corrupt(format!("no dataset of number {number}")))?,
                ),
            };
            if !self.is_whole(record, place, &definition)? {
                return Ok(None);
            }
            if record.body == Body::Define {
                defined.push(self.bytes(place, record.length)?);
            }
            place += record.length;
        }
        Ok(Some(batch))
    }

    fn checksum(&self, at: u64, length: u64) -> Result<u64> {
        let mut pass = crate::statistics::Pass::new(true, None);
        let mut done = 0;
        while done < length {
            let step = READ_BYTES.min(length - done);
            pass.update_checksum(&self.bytes(at + done, step)?);
            done += step;
        }
        Ok(pass.finish().0)
    }

    /// Compares all records with their checksums; returns the number of bytes checked.
    ///
    /// # Errors
    /// Corrupt, with the offset of the first damaged record; Truncated or Io.
    pub fn verify(&self) -> Result<u64> {
        let (mut at, mut looked) = (HEADER_BYTES as u64, 0);
        while at < self.length {
            if self.trailer_at(at)?.is_some() {
                at += TRAILER_BYTES as u64;
                continue;
            }
            let mut fixed = [0; FIXED_HEADER_BYTES];
            if at + FIXED_HEADER_BYTES as u64 > self.length {
                return Err(Error::corrupt("no batch begins here").at(at));
            }
            self.source.read_at(at, &mut fixed)?;
            let (header, _) =
                record::lengths(&fixed).ok_or_else(|| Error::corrupt("no batch begins here").at(at))?;
            let batch = record::decode(&self.bytes(at, header)?, at)?;
            let mut place = at + header;
            for record in &batch.records {
                let definition = |number| self.definition(number).map(|(_, definition)| definition);
                let length = match record.body {
                    Body::Rows { length, .. } => length,
                    _ => record.length,
                };
                if !self.is_whole(record, place, &definition)? {
                    let message = format!("{length} bytes do not match their checksum");
                    return Err(Error::corrupt(message).within("log").at(place));
                }
                if let Body::Page(head) = &record.body
                    && head.kind == PageKind::Zones
                {
                    zones::decode(&self.bytes(place, length)?, head, place)?;
                }
                looked += length;
                place += record.length;
            }
            at = place.next_multiple_of(8);
        }
        Ok(looked)
    }
}

impl Ticket {
    /// Encodes the ticket, to be sent to the committing process.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; Self::ENCODED_BYTES] {
        let mut bytes = [0; Self::ENCODED_BYTES];
        bytes[..16].copy_from_slice(&self.writer.0);
        bytes[16..24].copy_from_slice(&self.trailer.to_le_bytes());
        bytes[24..].copy_from_slice(&self.hash);
        bytes
    }

    /// Decodes a ticket.
    ///
    /// # Errors
    /// Invalid for a wrong number of bytes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self> {
        if bytes.len() != Self::ENCODED_BYTES {
            return Err(Error::invalid(format!(
                "a ticket of {} bytes, expected {}",
                bytes.len(),
                Self::ENCODED_BYTES
            )));
        }
        let mut cursor = Cursor::new(bytes, "ticket", 0);
        Ok(Self { writer: WriterId(cursor.array()?), trailer: cursor.u64()?, hash: cursor.array()? })
    }
}
