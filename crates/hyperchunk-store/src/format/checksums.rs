//! Checksum verification of records that are read whole.

use super::record;
use crate::format::fragment_offset::{FRAGMENT_FLAG, is_in};
use hyperchunk::io::Source;
use hyperchunk::{Error, Result};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of records whose checksums are cached.
const MAX_CACHED_RECORDS: usize = 1 << 17;
/// Number of bytes of a batch header that the first read requests.
const FIRST_READ_BYTES: u64 = 4 << 10;

/// Key and records of the last batch that was looked up.
pub(crate) type LastBatch = Option<((u64, u64), Arc<Batch>)>;

/// The records of a batch.
#[derive(Debug)]
pub(crate) struct Batch {
    /// Offset, length and checksum of each payload; a checksum of 0 means that the record has none.
    records: Vec<(u64, u64, u64)>,
}

/// Cache of batch headers, by the number of the log and the offset of the batch.
#[derive(Debug, Default)]
pub(crate) struct Headers {
    kept: Mutex<BatchCache>,
}

#[derive(Debug, Default)]
struct BatchCache {
    batches: HashMap<(u64, u64), Arc<Batch>>,
    records: usize,
}

/// Records that were read whole and the headers with their expected checksums, matched up in any
/// order of arrival.
#[derive(Debug, Default)]
pub(crate) struct Checks {
    batches: Mutex<HashMap<(u64, u64), PendingBatch>>,
}

#[derive(Debug, Default)]
struct PendingBatch {
    header: Option<Arc<Batch>>,
    records: Vec<Record>,
}

/// A record's payload as it was read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Record {
    /// Offset of the payload, as in [`crate::Piece`].
    pub(crate) place: u64,
    pub(crate) length: u64,
    pub(crate) checksum: u64,
}

impl Batch {
    fn decode(header: &[u8], head: u64) -> Result<Self> {
        let batch = record::decode(header, head)?;
        let mut at = head.saturating_add(batch.header);
        let mut records = Vec::with_capacity(batch.records.len());
        for record in &batch.records {
            match record.body {
                record::Body::Rows { at, length, .. } => {
                    records.push((FRAGMENT_FLAG | at, length, record.checksum));
                }
                _ => records.push((at, record.length, record.checksum)),
            }
            at = at.saturating_add(record.length);
        }
        records.sort_by_key(|(at, ..)| *at);
        Ok(Self { records })
    }

    /// Returns the checksum of a record. `None` if the record has none, or if the range is not
    /// exactly one record: for example, one box of a record with several.
    fn expected(&self, place: u64, length: u64) -> Option<u64> {
        let from = self.records.partition_point(|(at, ..)| *at < place);
        let mut here = self.records[from..].iter().take_while(|(at, ..)| *at == place);
        let same = here.find(|(_, size, _)| *size == length);
        same.map(|(.., checksum)| *checksum).filter(|checksum| *checksum != 0)
    }

    fn check(&self, found: &Record) -> Result<()> {
        match self.expected(found.place, found.length) {
            Some(expected) => found.check(expected),
            None => Ok(()),
        }
    }
}

impl Record {
    /// Compares the checksum with the expected one.
    pub(crate) fn check(&self, expected: u64) -> Result<()> {
        if self.checksum == expected {
            return Ok(());
        }
        let message = format!(
            "the checksum of {} bytes does not match: they are not as they were written",
            self.length
        );
        Err(Error::corrupt(message).at(self.place))
    }
}

impl Headers {
    fn get(&self, key: (u64, u64)) -> Option<Arc<Batch>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).batches.get(&key).cloned()
    }

    fn keep(&self, key: (u64, u64), batch: &Arc<Batch>) {
        let mut kept = self.kept.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.records + batch.records.len() > MAX_CACHED_RECORDS {
            *kept = BatchCache::default();
        }
        kept.records += batch.records.len();
        kept.batches.insert(key, Arc::clone(batch));
    }

    /// Returns the checksum of a record, if it has one. Reads the batch header from the log if it
    /// is not cached; the header ends before the record. `last` caches the last batch looked up.
    pub(crate) fn expected(
        &self,
        key: (u64, u64),
        log: &dyn Source,
        (place, length): (u64, u64),
        last: &mut LastBatch,
    ) -> Result<Option<u64>> {
        if let Some((known, batch)) = last
            && *known == key
        {
            return Ok(batch.expected(place, length));
        }
        let batch = match self.get(key) {
            Some(batch) => batch,
            None => self.read(key, log, place)?,
        };
        let expected = batch.expected(place, length);
        *last = Some((key, batch));
        Ok(expected)
    }

    fn read(&self, key: (u64, u64), log: &dyn Source, place: u64) -> Result<Arc<Batch>> {
        let head = key.1;
        // Rows in a fragment can be at any offset there; the only bound on the header is the size
        // of the log.
        let place = if is_in(place) { log.size() } else { place };
        let most = place
            .checked_sub(head)
            .ok_or_else(|| Error::corrupt("a piece is stored before its batch").at(head))?;
        let mut header = vec![0; usize::try_from(most.min(FIRST_READ_BYTES)).unwrap_or(0)];
        log.read_at(head, &mut header)?;
        let length = header_length(&header, head)?;
        if length > most {
            return Err(Error::corrupt("the header of a batch reaches into its payload").at(head));
        }
        let known = header.len();
        hyperchunk::room::resize(&mut header, usize::try_from(length).unwrap_or(0))?;
        if let Some(rest) = header.get_mut(known..).filter(|rest| !rest.is_empty()) {
            log.read_at(head + known as u64, rest)?;
        }
        let batch = Arc::new(Batch::decode(&header, head)?);
        self.keep(key, &batch);
        Ok(batch)
    }
}

impl Checks {
    /// Returns whether the header of a batch still has to be read.
    pub(crate) fn is_missing(&self, headers: &Headers, key: (u64, u64)) -> bool {
        let mut batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = batches.entry(key).or_default();
        if waiting.header.is_none() {
            waiting.header = headers.get(key);
        }
        waiting.header.is_none()
    }

    /// Checks a record now, or as soon as its header arrives.
    pub(crate) fn check_record(&self, key: (u64, u64), found: Record) -> Result<()> {
        let mut batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = batches.entry(key).or_default();
        match &waiting.header {
            Some(batch) => batch.check(&found),
            None => {
                waiting.records.push(found);
                Ok(())
            }
        }
    }

    /// Accepts the header of a batch, which `bytes` begin with, and checks the records that were
    /// waiting for it.
    pub(crate) fn header(&self, headers: &Headers, key: (u64, u64), bytes: &[u8]) -> Result<()> {
        let length = usize::try_from(header_length(bytes, key.1)?).unwrap_or(usize::MAX);
        let header = bytes.get(..length);
        let header = header
            .ok_or_else(|| Error::corrupt("the header of a batch reaches into its payload").at(key.1))?;
        let batch = Arc::new(Batch::decode(header, key.1)?);
        headers.keep(key, &batch);
        let mut batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = batches.entry(key).or_default();
        waiting.header = Some(Arc::clone(&batch));
        std::mem::take(&mut waiting.records).iter().try_for_each(|found| batch.check(found))
    }
}

fn header_length(bytes: &[u8], head: u64) -> Result<u64> {
    let fixed = bytes.first_chunk::<{ record::FIXED_HEADER_BYTES }>();
    let lengths = fixed.and_then(record::lengths);
    lengths.map(|(header, _)| header).ok_or_else(|| Error::corrupt("no batch begins here").at(head))
}
