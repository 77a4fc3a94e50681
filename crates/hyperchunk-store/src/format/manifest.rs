//! Manifests: each epoch is one file that contains everything that a reader needs.

use super::id::{DatasetId, StoreId, WriterId, hash};
use super::index::DatasetWrites;
use super::piece::Hyperslab;
use crate::Definition;
use crate::format::varint::{Out, blob, count, extents, number};
use hyperchunk::{Error, ErrorKind, Result};
use hyperchunk_format::Cursor;
use std::collections::HashMap;
use std::fmt;

const MAGIC: [u8; 8] = *b"HCEPOCH\x01";

/// An epoch: the state of a store after one commit, with everything that a reader needs.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Manifest {
    /// ID of the store.
    pub store: StoreId,
    /// Number of the epoch, from 1.
    pub number: u64,
    /// Epoch that it continues; 0 for none.
    pub parent: u64,
    /// Content of epochs up to this one is invisible.
    pub floor: u64,
    /// Time of creation, in nanoseconds since 1970. Informative only: no decision depends on it.
    pub time: u64,
    /// Logs whose content it includes.
    pub logs: Vec<LogPart>,
    /// Logs whose content is invisible: a later writer truncated the file, or a compaction replaced
    /// them.
    pub hidden: Vec<WriterId>,
    /// The datasets.
    pub datasets: Vec<StoredDataset>,
    /// Places where writers wrote different data.
    pub conflicts: Vec<Conflict>,
    /// The skeleton: an HDF5 file with everything except the data of the datasets.
    pub image: Vec<u8>,
    pub(crate) numbers: HashMap<DatasetId, usize>,
}

/// Committed extent of a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LogPart {
    /// Writer of the log.
    pub writer: WriterId,
    /// Length that is committed, in bytes.
    pub length: u64,
    /// Offset of the last committed trailer; 0 for none.
    pub trailer: u64,
    /// Last epoch that committed content of it.
    pub epoch: u64,
    /// True if its writer was finished.
    pub finished: bool,
    /// True if it was read from its batches, because its writer was stopped.
    pub salvaged: bool,
    /// Priority between writers of one epoch: data of the higher one take precedence.
    pub priority: i32,
}

/// A dataset of a store.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredDataset {
    /// Its identity.
    pub id: DatasetId,
    /// Its definition.
    pub definition: Definition,
    /// Its extent.
    pub extent: Vec<u64>,
    /// Writes to it. A later part covers an earlier one.
    pub parts: Vec<Part>,
}

/// Writes to a dataset by one writer in one epoch.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    /// Number of its log in [`Manifest::logs`].
    pub log: u32,
    /// Epoch that committed it.
    pub epoch: u64,
    /// The writes.
    pub written: DatasetWrites,
}

/// A conflict: two writers, or a writer and another epoch, wrote different data to the same place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conflict {
    /// Path of the object.
    pub path: Vec<u8>,
    /// Box in a dataset; empty for definitions, attributes and links.
    pub slab: Hyperslab,
    /// Description of the conflict.
    pub what: String,
    /// Writer whose data are visible; zeros if data of later epochs are visible.
    pub kept: WriterId,
    /// Writer whose data are not visible; zeros if data of an earlier epoch are not.
    pub other: WriterId,
}

impl Conflict {
    /// Describes in words whose data are visible, and whose are not.
    #[must_use]
    pub fn outcome(&self) -> String {
        let kept = match self.kept == WriterId::default() {
            true => "later epochs".to_owned(),
            false => format!("writer {}", self.kept),
        };
        match self.other == WriterId::default() {
            true => format!("visible: {kept}; hidden: an earlier epoch"),
            false => format!("visible: {kept}; hidden: writer {}", self.other),
        }
    }
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", String::from_utf8_lossy(&self.path))?;
        if !self.slab.start.is_empty() {
            write!(f, ", {:?} elements at {:?}", self.slab.count, self.slab.start)?;
        }
        write!(f, ": {} ({})", self.what, self.outcome())
    }
}

impl Manifest {
    /// Returns the dataset of that identity.
    #[must_use]
    pub fn dataset(&self, id: &DatasetId) -> Option<&StoredDataset> {
        self.datasets.get(*self.numbers.get(id)?)
    }

    /// Returns the committed extent of a writer's log.
    #[must_use]
    pub fn log(&self, writer: &WriterId) -> Option<&LogPart> {
        self.logs.iter().find(|log| log.writer == *writer)
    }

    /// Rebuilds the lookup table; must be called after `datasets` changed.
    pub fn renumber(&mut self) {
        self.numbers = self.datasets.iter().enumerate().map(|(number, stored)| (stored.id, number)).collect();
    }

    /// Encodes the manifest.
    ///
    /// # Errors
    /// As [`Definition::encode`].
    pub fn encode(&self) -> Result<Vec<u8>> {
        let mut out = Out::default();
        out.bytes(&MAGIC);
        out.bytes(&self.store.0);
        for value in [self.number, self.parent, self.floor, self.time] {
            out.u64(value);
        }
        out.number(self.logs.len() as u64);
        for log in &self.logs {
            out.bytes(&log.writer.0);
            out.number(log.length);
            out.number(log.trailer);
            out.number(log.epoch);
            out.u8(u8::from(log.finished) | u8::from(log.salvaged) << 1);
            out.u32(log.priority.cast_unsigned());
        }
        out.number(self.hidden.len() as u64);
        self.hidden.iter().for_each(|writer| out.bytes(&writer.0));
        out.number(self.datasets.len() as u64);
        for stored in &self.datasets {
            out.bytes(&stored.id.0);
            out.blob(&stored.definition.encode()?);
            out.numbers(&stored.extent);
            out.number(stored.parts.len() as u64);
            for part in &stored.parts {
                out.number(u64::from(part.log));
                out.number(part.epoch);
                part.written.encode(&mut out);
            }
        }
        out.number(self.conflicts.len() as u64);
        for conflict in &self.conflicts {
            out.blob(&conflict.path);
            out.numbers(&conflict.slab.start);
            out.numbers(&conflict.slab.count);
            out.blob(conflict.what.as_bytes());
            out.bytes(&conflict.kept.0);
            out.bytes(&conflict.other.0);
        }
        out.blob(&self.image);
        let checksum = hash(&out.0);
        out.bytes(&checksum);
        Ok(out.0)
    }

    /// Decodes a manifest.
    ///
    /// # Errors
    /// Truncated if its checksum does not match, in which case the epoch does not exist; Corrupt;
    /// Unsupported for a later version.
    pub fn decode(bytes: &[u8]) -> Result<Self> {
        let body = bytes.split_last_chunk::<16>();
        let Some((body, _)) = body.filter(|(body, checksum)| hash(body) == **checksum) else {
            return Err(Error::new(
                ErrorKind::Truncated,
                "the epoch is incomplete: the process that wrote it was stopped",
            ));
        };
        let mut cursor = Cursor::new(body, "manifest", 0);
        let magic: [u8; 8] = cursor.array()?;
        if magic != MAGIC {
            return Err(Error::unsupported("this is not a manifest of a store, or one of a later version"));
        }
        let mut manifest = Self {
            store: StoreId(cursor.array()?),
            number: cursor.u64()?,
            parent: cursor.u64()?,
            floor: cursor.u64()?,
            time: cursor.u64()?,
            ..Self::default()
        };
        for _ in 0..count(&mut cursor, 24)? {
            let (writer, length, trailer) = (cursor.array()?, number(&mut cursor)?, number(&mut cursor)?);
            let (epoch, flags, priority) = (number(&mut cursor)?, cursor.u8()?, cursor.u32()?);
            manifest.logs.push(LogPart {
                writer: WriterId(writer),
                length,
                trailer,
                epoch,
                finished: flags & 1 != 0,
                salvaged: flags & 2 != 0,
                priority: priority.cast_signed(),
            });
        }
        for _ in 0..count(&mut cursor, 16)? {
            manifest.hidden.push(WriterId(cursor.array()?));
        }
        for _ in 0..count(&mut cursor, 20)? {
            let id = DatasetId(cursor.array()?);
            let definition = Definition::decode(blob(&mut cursor)?)?;
            let extent = extents(&mut cursor)?;
            let mut parts = Vec::new();
            for _ in 0..count(&mut cursor, 6)? {
                let log = u32::try_from(number(&mut cursor)?).unwrap_or(u32::MAX);
                if log as usize >= manifest.logs.len() {
                    return Err(cursor.error(format!(
                        "log number {log}, but there are only {} logs",
                        manifest.logs.len()
                    )));
                }
                let epoch = number(&mut cursor)?;
                parts.push(Part { log, epoch, written: DatasetWrites::decode(&mut cursor)? });
            }
            manifest.datasets.push(StoredDataset { id, definition, extent, parts });
        }
        for _ in 0..count(&mut cursor, 36)? {
            let path = blob(&mut cursor)?.to_vec();
            let slab = Hyperslab::new(extents(&mut cursor)?, extents(&mut cursor)?);
            let what = String::from_utf8_lossy(blob(&mut cursor)?).into_owned();
            let (kept, other) = (WriterId(cursor.array()?), WriterId(cursor.array()?));
            manifest.conflicts.push(Conflict { path, slab, what, kept, other });
        }
        manifest.image = blob(&mut cursor)?.to_vec();
        manifest.renumber();
        Ok(manifest)
    }
}

/// Returns the name of an epoch's manifest in the store's folder.
#[must_use]
pub(crate) fn manifest_name(number: u64) -> String {
    format!("epoch-{number:010}.manifest")
}

pub(crate) fn parse_epoch_number(name: &str) -> Option<u64> {
    let digits = name.strip_prefix("epoch-")?.strip_suffix(".manifest")?;
    digits.parse().ok().filter(|number| manifest_name(*number) == name)
}
