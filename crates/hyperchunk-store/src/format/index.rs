//! Index of a log: the location of all content, without reading the batches. It can always be
//! rebuilt from them.

use super::id::{DatasetId, WriterId};
use super::page::Page;
use super::piece::{Extent, Hyperslab, Piece, PieceForm};
use super::record::{Body, Record};
use super::run_length::PackedPieces;
use crate::format::fragment_offset::FRAGMENT_FLAG;
use crate::format::varint::{Out, blob, count, extents, number};
use crate::statistics::Statistics;
use hyperchunk::{Error, Result};
use hyperchunk_format::Cursor;

/// Minimum encoded size of a page's entry in bytes.
const MIN_PAGE_ENTRY_BYTES: usize = 18;

/// A definition in a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DatasetEntry {
    /// Identity of the dataset.
    pub id: DatasetId,
    /// Encoded definition ([`crate::Definition::decode`]).
    pub bytes: Vec<u8>,
}

/// Location of a writer's groups, links, attributes and small data: an HDF5 file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Image {
    /// Offset in the log.
    pub offset: u64,
    /// Size in bytes.
    pub length: u64,
    /// Its xxh3.
    pub checksum: u64,
    /// Number of its record.
    pub order: u64,
}

/// Writes to one dataset.
#[derive(Debug, Clone, PartialEq)]
pub struct DatasetWrites {
    /// Its pieces.
    pub pieces: PackedPieces,
    /// Appended rows, to be placed after the existing ones: their boxes count from the writer's
    /// first appended row. Empty in an epoch, where they have their final place.
    pub appended: PackedPieces,
    /// Changes of extent.
    pub extents: Vec<Extent>,
    /// Statistics of the elements, if they were recorded. Positions count from the first element
    /// written.
    pub statistics: Option<Statistics>,
    /// Pages of results, in the order of the records that they describe.
    pub pages: Vec<Page>,
}

impl DatasetWrites {
    /// Returns an empty value for a dataset of the given rank.
    #[must_use]
    pub fn nothing(rank: usize) -> Self {
        Self {
            pieces: PackedPieces::new(rank),
            appended: PackedPieces::new(rank),
            extents: Vec::new(),
            statistics: None,
            pages: Vec::new(),
        }
    }

    /// Returns whether there were no writes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.extents.is_empty() && self.appended.is_empty() && self.pages.is_empty()
    }

    /// Adds later writes of the same log.
    pub(crate) fn append(&mut self, later: &Self) {
        self.pieces.append(&later.pieces);
        self.appended.append(&later.appended);
        self.extents.extend_from_slice(&later.extents);
        self.pages.extend_from_slice(&later.pages);
        match (&mut self.statistics, &later.statistics) {
            (Some(statistics), Some(later)) => statistics.merge(later),
            (statistics @ None, later) => *statistics = *later,
            _ => {}
        }
    }

    pub(crate) fn encode(&self, out: &mut Out) {
        self.pieces.encode(out);
        self.appended.encode(out);
        out.number(self.extents.len() as u64);
        for extent in &self.extents {
            out.number(extent.order);
            out.numbers(&extent.dims);
        }
        let has_pages = !self.pages.is_empty();
        out.u8(u8::from(self.statistics.is_some()) | u8::from(has_pages) << 1);
        if let Some(statistics) = &self.statistics {
            statistics.encode(out);
        }
        if has_pages {
            out.number(self.pages.len() as u64);
            self.pages.iter().for_each(|page| page.encode(out));
        }
    }

    pub(crate) fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        let (pieces, appended) = (PackedPieces::decode(cursor)?, PackedPieces::decode(cursor)?);
        let many = count(cursor, 2)?;
        let extents = (0..many)
            .map(|_| Ok(Extent { order: number(cursor)?, dims: extents(cursor)? }))
            .collect::<Result<_>>()?;
        let flags = cursor.u8()?;
        if flags > 3 {
            return Err(cursor.error(format!("unknown flags {flags:#x} of the writes to a dataset")));
        }
        let statistics = if flags & 1 == 0 { None } else { Some(Statistics::decode(cursor)?) };
        let many = if flags & 2 == 0 { 0 } else { count(cursor, MIN_PAGE_ENTRY_BYTES)? };
        let pages = (0..many).map(|_| Page::decode(cursor)).collect::<Result<_>>()?;
        Ok(Self { pieces, appended, extents, statistics, pages })
    }
}

impl DatasetWrites {
    /// Adds the content of record number `order`, whose payload is at `place` in the batch at `head`.
    /// An element of the dataset has `element` bytes, a chunk the extent `chunk`.
    pub(crate) fn add(
        &mut self,
        record: &Record,
        order: u64,
        head: u64,
        place: u64,
        element: u64,
        chunk: &[u64],
    ) {
        match &record.body {
            Body::Boxes(boxes) => {
                let mut offset = place;
                for slab in boxes {
                    let length = slab.count.iter().fold(element, |size, count| size.saturating_mul(*count));
                    let slab = slab.clone();
                    self.pieces.push(&Piece { slab, offset, length, form: PieceForm::Raw, order, head });
                    offset = offset.saturating_add(length);
                }
            }
            Body::Fields { first, size, boxes } => {
                let (mut offset, fields) = (place, PieceForm::Fields { first: *first, size: *size });
                for slab in boxes {
                    let size = fields.size(element);
                    let length = slab.count.iter().fold(size, |size, count| size.saturating_mul(*count));
                    let slab = slab.clone();
                    self.pieces.push(&Piece { slab, offset, length, form: fields, order, head });
                    offset = offset.saturating_add(length);
                }
            }
            Body::Append(slab) => {
                let (slab, length) = (slab.clone(), record.length);
                let piece = Piece { slab, offset: place, length, form: PieceForm::Raw, order, head };
                self.appended.push(&piece);
            }
            Body::Rows { slab, append, at, length } => {
                let (slab, offset) = (slab.clone(), FRAGMENT_FLAG | at);
                let piece = Piece { slab, offset, length: *length, form: PieceForm::Raw, order, head };
                if *append {
                    self.appended.push(&piece);
                } else {
                    self.pieces.push(&piece);
                }
            }
            Body::Chunk { offset, mask } => {
                let slab = Hyperslab::new(offset.clone(), chunk);
                let form = PieceForm::Chunk { mask: *mask };
                self.pieces.push(&Piece { slab, offset: place, length: record.length, form, order, head });
            }
            Body::Extent(dims) => self.extents.push(Extent { order, dims: dims.clone() }),
            Body::Page(head) => {
                let (head, length, checksum) = (head.clone(), record.length, record.checksum);
                let statistics = record.statistics;
                self.pages.push(Page { head, offset: place, length, checksum, order, statistics });
                // A page's statistics describe elements of other records.
                return;
            }
            _ => {}
        }
        if let Some(found) = &record.statistics {
            self.statistics.get_or_insert(Statistics::NONE).merge(found);
        }
    }
}

/// Index of the records since the previous index.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct Index {
    /// Number of datasets that earlier indexes define.
    pub(crate) known: u32,
    /// New datasets; the first has the number `known`.
    pub(crate) defined: Vec<DatasetEntry>,
    /// Writes, with the number of their dataset.
    pub(crate) written: Vec<(u32, DatasetWrites)>,
    /// The last image, even if it is older than the previous index.
    pub(crate) image: Option<Image>,
    /// Finished writers that this one hid when it truncated the file.
    pub(crate) hidden: Vec<WriterId>,
}

impl Index {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Out::default();
        out.number(u64::from(self.known));
        out.number(self.defined.len() as u64);
        for defined in &self.defined {
            out.bytes(&defined.id.0);
            out.blob(&defined.bytes);
        }
        out.number(self.written.len() as u64);
        for (dataset, written) in &self.written {
            out.number(u64::from(*dataset));
            written.encode(&mut out);
        }
        out.u8(u8::from(self.image.is_some()));
        if let Some(image) = &self.image {
            for value in [image.offset, image.length, image.checksum, image.order] {
                out.u64(value);
            }
        }
        out.number(self.hidden.len() as u64);
        self.hidden.iter().for_each(|writer| out.bytes(&writer.0));
        out.0
    }

    pub(crate) fn decode(bytes: &[u8], offset: u64) -> Result<Self> {
        let mut cursor = Cursor::new(bytes, "log index", offset);
        let short = |number: u64| {
            u32::try_from(number)
                .map_err(|_| Error::corrupt("a dataset number of more than 32 bits").at(offset))
        };
        let known = short(number(&mut cursor)?)?;
        let many = count(&mut cursor, 17)?;
        let mut defined = Vec::with_capacity(many);
        for _ in 0..many {
            defined.push(DatasetEntry { id: DatasetId(cursor.array()?), bytes: blob(&mut cursor)?.to_vec() });
        }
        let many = count(&mut cursor, 4)?;
        let mut written = Vec::with_capacity(many);
        for _ in 0..many {
            written.push((short(number(&mut cursor)?)?, DatasetWrites::decode(&mut cursor)?));
        }
        let image = if cursor.u8()? == 0 {
            None
        } else {
            Some(Image {
                offset: cursor.u64()?,
                length: cursor.u64()?,
                checksum: cursor.u64()?,
                order: cursor.u64()?,
            })
        };
        let many = count(&mut cursor, 16)?;
        let hidden = (0..many).map(|_| Ok(WriterId(cursor.array()?))).collect::<Result<_>>()?;
        Ok(Self { known, defined, written, image, hidden })
    }
}
