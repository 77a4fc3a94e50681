//! Batches of a log: a header that describes the records, followed by their payloads.

use super::page::{MAX_PAGE_BYTES, PageHead};
use super::piece::Hyperslab;
use crate::format::fragment_offset::FRAGMENT_FLAG;
use crate::format::varint::{MAX_RANK, Out, extents, number};
use crate::statistics::Statistics;
use hyperchunk::{Error, ErrorKind, Result};
use hyperchunk_format::Cursor;
use twox_hash::XxHash3_64;

/// Maximum number of records that a writer gathers, so that a regular pattern of writes becomes a regular
/// pattern of batches.
pub(crate) const MAX_BUFFERED_RECORDS: usize = 1024;
/// Signature of a batch.
const MAGIC: [u8; 4] = *b"HCB\x01";
/// Size of the fixed part of a header, which contains the total length.
pub(crate) const FIXED_HEADER_BYTES: usize = 40;
/// Maximum size of a header in bytes.
pub(crate) const MAX_HEADER_BYTES: u64 = 1 << 30;

/// Kind of a record, with its parameters.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Body {
    /// Elements of boxes.
    Boxes(Vec<Hyperslab>),
    /// A range of bytes of each element of boxes: `size` bytes from `first` on.
    Fields { first: u32, size: u32, boxes: Vec<Hyperslab> },
    /// Rows appended after the existing ones, at the end at the time of the commit: their box
    /// counts from the writer's first appended row.
    Append(Hyperslab),
    /// Rows stored in the writer's fragment of the dataset's table, at the offset `at`. The record
    /// has no payload.
    Rows { slab: Hyperslab, append: bool, at: u64, length: u64 },
    /// A chunk as stored, and the mask of the filters that were skipped.
    Chunk { offset: Vec<u64>, mask: u32 },
    /// A new extent of the dataset.
    Extent(Vec<u64>),
    /// A definition in the payload; the dataset has the next number.
    Define,
    /// An HDF5 file in the payload: the writer's groups, links, attributes and small data.
    Image,
    /// Ids of finished writers that this one hides, in the payload.
    Hides,
    /// An index of the log in the payload.
    Index,
    /// Results about earlier records of the dataset, in the payload.
    Page(PageHead),
}

impl Body {
    /// Returns whether it is a write to a dataset.
    pub(crate) fn is_of_dataset(&self) -> bool {
        matches!(
            self,
            Self::Boxes(_)
                | Self::Fields { .. }
                | Self::Append(_)
                | Self::Rows { .. }
                | Self::Chunk { .. }
                | Self::Extent(_)
        )
    }
}

/// A record and the length of its payload.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Record {
    pub(crate) dataset: u32,
    pub(crate) length: u64,
    /// xxh3 of its payload; 0 if none was requested.
    pub(crate) checksum: u64,
    pub(crate) statistics: Option<Statistics>,
    pub(crate) body: Body,
}

/// Header of a batch.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Batch {
    /// Number of its first record in the log.
    pub(crate) first: u64,
    /// Total size of the payloads in bytes.
    pub(crate) payload: u64,
    pub(crate) records: Vec<Record>,
    /// Size of the header in bytes.
    pub(crate) header: u64,
}

/// Returns the sizes of header and payload from the fixed part of a header.
pub(crate) fn lengths(fixed: &[u8; FIXED_HEADER_BYTES]) -> Option<(u64, u64)> {
    let mut cursor = Cursor::new(fixed, "batch", 0);
    if cursor.array().ok()? != MAGIC {
        return None;
    }
    let header = u64::from(cursor.u32().ok()?);
    let payload = cursor.u64().ok()?;
    (header >= FIXED_HEADER_BYTES as u64 && header <= MAX_HEADER_BYTES).then_some((header, payload))
}

/// Encodes the header of a batch. Its length does not depend on checksums and statistics.
pub(crate) fn encode(first: u64, records: &[Record]) -> Vec<u8> {
    let payload: u64 = records.iter().map(|record| record.length).sum();
    let mut out = Out(vec![0; FIXED_HEADER_BYTES]);
    for record in records {
        put(&mut out, record);
    }
    let length = u32::try_from(out.0.len()).unwrap_or(u32::MAX);
    let mut fixed = Out::default();
    fixed.bytes(&MAGIC);
    fixed.u32(length);
    fixed.u64(payload);
    fixed.u64(first);
    fixed.u32(u32::try_from(records.len()).unwrap_or(u32::MAX));
    fixed.u32(0);
    fixed.u64(0);
    out.0[..FIXED_HEADER_BYTES].copy_from_slice(&fixed.0);
    let checksum = XxHash3_64::oneshot(&out.0);
    out.0[FIXED_HEADER_BYTES - 8..FIXED_HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
    out.0
}

/// Pads a header, to align the payload after it.
pub(crate) fn pad(header: &mut Vec<u8>, length: usize) {
    if length <= header.len() {
        return;
    }
    header.resize(length, 0);
    let shown = u32::try_from(length).unwrap_or(u32::MAX);
    header[4..8].copy_from_slice(&shown.to_le_bytes());
    header[FIXED_HEADER_BYTES - 8..FIXED_HEADER_BYTES].fill(0);
    let checksum = XxHash3_64::oneshot(header);
    header[FIXED_HEADER_BYTES - 8..FIXED_HEADER_BYTES].copy_from_slice(&checksum.to_le_bytes());
}

fn put(out: &mut Out, record: &Record) {
    let kind = match &record.body {
        Body::Boxes(_) => 1,
        Body::Chunk { .. } => 2,
        Body::Extent(_) => 3,
        Body::Define => 4,
        Body::Image => 5,
        Body::Hides => 6,
        Body::Index => 7,
        Body::Append(_) => 8,
        Body::Rows { append: false, .. } => 9,
        Body::Rows { .. } => 10,
        Body::Page(_) => 11,
        Body::Fields { .. } => 12,
    };
    out.u8(kind | if record.statistics.is_some() { 0x80 } else { 0 });
    out.number(u64::from(record.dataset));
    out.number(record.length);
    out.u64(record.checksum);
    if let Some(statistics) = &record.statistics {
        let before = out.0.len();
        statistics.encode(out);
        out.0.resize(before + Statistics::MAX_ENCODED_BYTES, 0);
    }
    match &record.body {
        Body::Append(slab) => {
            out.numbers(&slab.start);
            out.numbers(&slab.count);
        }
        Body::Rows { slab, at, length, .. } => {
            out.numbers(&slab.start);
            out.numbers(&slab.count);
            out.number(*at);
            out.number(*length);
        }
        Body::Boxes(boxes) => put_boxes(out, boxes),
        Body::Fields { first, size, boxes } => {
            out.number(u64::from(*first));
            out.number(u64::from(*size));
            put_boxes(out, boxes);
        }
        Body::Chunk { offset, mask } => {
            out.numbers(offset);
            out.u32(*mask);
        }
        Body::Extent(dims) => out.numbers(dims),
        Body::Page(head) => head.encode(out),
        Body::Define | Body::Image | Body::Hides | Body::Index => {}
    }
}

fn put_boxes(out: &mut Out, boxes: &[Hyperslab]) {
    out.number(boxes.len() as u64);
    out.number(boxes.first().map_or(0, |slab| slab.start.len()) as u64);
    let mut before = Hyperslab::default();
    for slab in boxes {
        before.start.resize(slab.start.len(), 0);
        before.count.resize(slab.count.len(), 0);
        for (value, before) in slab.start.iter().zip(&before.start) {
            out.difference(value.wrapping_sub(*before));
        }
        for (value, before) in slab.count.iter().zip(&before.count) {
            out.difference(value.wrapping_sub(*before));
        }
        before.clone_from(slab);
    }
}

fn get_boxes(cursor: &mut Cursor<'_>) -> Result<Vec<Hyperslab>> {
    let many = number(cursor)?;
    let rank = usize::try_from(number(cursor)?).unwrap_or(usize::MAX);
    if rank > MAX_RANK || many > (cursor.left() / (2 * rank).max(1)) as u64 {
        return Err(cursor.error(format!("{many} boxes of {rank} dimensions")));
    }
    let mut boxes = Vec::new();
    let mut before = Hyperslab::new(vec![0; rank], vec![0; rank]);
    for _ in 0..many {
        for value in before.start.iter_mut().chain(&mut before.count) {
            *value = value.wrapping_add(crate::format::varint::difference(cursor)?);
        }
        boxes.push(before.clone());
    }
    Ok(boxes)
}

/// Reads the byte range of elements that a record or a piece of fields has: first byte and number
/// of bytes.
pub(crate) fn get_fields(cursor: &mut Cursor<'_>) -> Result<(u32, u32)> {
    let (first, size) = (number(cursor)?, number(cursor)?);
    let both = u32::try_from(first).ok().zip(u32::try_from(size).ok().filter(|size| *size > 0));
    both.filter(|(first, size)| first.checked_add(*size).is_some())
        .ok_or_else(|| cursor.error(format!("{size} bytes of elements from {first} on")))
}

/// Decodes a header that is stored at `offset` of the log.
pub(crate) fn decode(bytes: &[u8], offset: u64) -> Result<Batch> {
    let corrupt = |message: &str| Error::new(ErrorKind::Corrupt, message).within("batch").at(offset);
    let fixed: &[u8; FIXED_HEADER_BYTES] =
        bytes.first_chunk().ok_or_else(|| corrupt("its header is cut off"))?;
    let (header, payload) = lengths(fixed).ok_or_else(|| corrupt("no batch begins here"))?;
    if bytes.len() as u64 != header {
        return Err(corrupt("its header is cut off"));
    }
    let mut cursor = Cursor::new(bytes, "batch", offset);
    cursor.skip(16)?;
    let first = cursor.u64()?;
    let records = cursor.u32()?;
    cursor.skip(4)?;
    let checksum = cursor.u64()?;
    let mut zeroed = bytes.to_vec();
    zeroed[FIXED_HEADER_BYTES - 8..FIXED_HEADER_BYTES].fill(0);
    if XxHash3_64::oneshot(&zeroed) != checksum {
        return Err(corrupt("its checksum does not match"));
    }
    let mut batch = Batch { first, payload, records: Vec::new(), header };
    for _ in 0..records {
        batch.records.push(get(&mut cursor)?);
    }
    let sum = batch.records.iter().try_fold(0_u64, |sum, record| sum.checked_add(record.length));
    if sum != Some(payload) {
        return Err(corrupt("the lengths of its records do not add up to its payload"));
    }
    Ok(batch)
}

fn get(cursor: &mut Cursor<'_>) -> Result<Record> {
    let kind = cursor.u8()?;
    let dataset = u32::try_from(number(cursor)?)
        .map_err(|_| cursor.error("a dataset number of more than 32 bits".to_owned()))?;
    let length = number(cursor)?;
    let checksum = cursor.u64()?;
    let statistics = if kind & 0x80 == 0 {
        None
    } else {
        let bytes = cursor.take(Statistics::MAX_ENCODED_BYTES)?;
        Some(Statistics::decode(&mut Cursor::new(bytes, "statistics", 0))?)
    };
    let body = match kind & 0x7f {
        1 => Body::Boxes(get_boxes(cursor)?),
        2 => Body::Chunk { offset: extents(cursor)?, mask: cursor.u32()? },
        3 => Body::Extent(extents(cursor)?),
        4 => Body::Define,
        5 => Body::Image,
        6 => Body::Hides,
        7 => Body::Index,
        8 => Body::Append(Hyperslab::new(extents(cursor)?, extents(cursor)?)),
        kind @ (9 | 10) => {
            let slab = Hyperslab::new(extents(cursor)?, extents(cursor)?);
            let (at, bytes) = (number(cursor)?, number(cursor)?);
            if length != 0 || at.checked_add(bytes).is_none_or(|end| end >= FRAGMENT_FLAG) {
                return Err(cursor.error(format!("{bytes} bytes of rows at {at} of a fragment")));
            }
            Body::Rows { slab, append: kind == 10, at, length: bytes }
        }
        12 => {
            let (first, size) = get_fields(cursor)?;
            Body::Fields { first, size, boxes: get_boxes(cursor)? }
        }
        11 if length <= MAX_PAGE_BYTES => Body::Page(PageHead::decode(cursor)?),
        other => return Err(cursor.error(format!("a record of unknown kind {other}"))),
    };
    Ok(Record { dataset, length, checksum, statistics, body })
}

#[cfg(test)]
mod tests {
    use super::super::page::PageKind;
    use super::*;

    #[test]
    fn headers_come_back_and_damage_is_seen() {
        let record = |body| Record { dataset: 3, length: 10, checksum: 7, statistics: None, body };
        let rows = |append| {
            let body = Body::Rows { slab: Hyperslab::new([5, 0], [2, 4]), append, at: 64, length: 32 };
            Record { length: 0, ..record(body) }
        };
        let mut with = record(Body::Chunk { offset: vec![4, 0], mask: 5 });
        with.statistics = Some(Statistics { count: 3, ..Statistics::NONE });
        let records = vec![
            record(Body::Boxes(vec![Hyperslab::new([1, 2], [3, 4]), Hyperslab::new([0, 9], [1, 1])])),
            record(Body::Boxes(vec![])),
            record(Body::Fields { first: 8, size: 300, boxes: vec![Hyperslab::new([1, 2], [3, 4])] }),
            with,
            record(Body::Extent(vec![7, 8])),
            record(Body::Define),
            record(Body::Image),
            record(Body::Hides),
            record(Body::Index),
            record(Body::Append(Hyperslab::new([5, 0], [2, 4]))),
            rows(false),
            rows(true),
            record(Body::Page(PageHead {
                kind: PageKind::Pairs,
                first: 70,
                entries: 2,
                complete: true,
                slab: Hyperslab::new([5, 0], [2, 4]),
            })),
        ];
        let bytes = encode(77, &records);
        let batch = decode(&bytes, 0).unwrap();
        assert_eq!((batch.first, batch.payload, &batch.records), (77, 110, &records));
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert!(decode(&damaged, 0).is_err(), "byte {at}");
            assert!(decode(&bytes[..at], 0).is_err());
        }
    }
}
