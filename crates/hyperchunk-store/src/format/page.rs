//! Pages: statistics of written data, analyses and their results, stored as records of the data's own log.

use super::piece::Hyperslab;
use crate::format::varint::{Out, extents, number};
use crate::statistics::Statistics;
use hyperchunk::{Error, Result};
use hyperchunk_format::Cursor;

/// Maximum number of entries of a page.
pub const MAX_PAGE_ENTRIES: u64 = 4096;
/// Maximum size of a page in bytes.
pub const MAX_PAGE_BYTES: u64 = 8 << 20;

/// Kind of a page's entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum PageKind {
    /// Statistics of parts of records ([`crate::statistics::zones`]).
    Zones,
    /// Keys and values that an analysis function returned.
    Pairs,
    /// Announcement of an analysis of the dataset; an empty one ends it ([`crate::observe::observer`]).
    Analysis,
    /// A kind of a later version, which is ignored.
    Other(u8),
}

impl PageKind {
    pub(crate) fn number(self) -> u8 {
        match self {
            Self::Zones => 1,
            Self::Pairs => 2,
            Self::Analysis => 3,
            Self::Other(number) => number,
        }
    }

    pub(crate) fn from_number(number: u8) -> Self {
        match number {
            1 => Self::Zones,
            2 => Self::Pairs,
            3 => Self::Analysis,
            other => Self::Other(other),
        }
    }
}

/// Header of a page.
#[derive(Debug, Clone, PartialEq)]
pub struct PageHead {
    /// Kind of its entries.
    pub kind: PageKind,
    /// First record that it may describe; the last one precedes the page itself.
    pub first: u64,
    /// Number of entries.
    pub entries: u64,
    /// True if it describes all elements of its dataset that records from `first` up to the page wrote.
    pub complete: bool,
    /// Bounding box of everything that it describes, in the writer's coordinates; empty if there is
    /// nothing.
    pub slab: Hyperslab,
}

/// A page: its location in the log, and its header.
#[derive(Debug, Clone, PartialEq)]
pub struct Page {
    /// Its header.
    pub head: PageHead,
    /// Offset in the log.
    pub offset: u64,
    /// Size in bytes.
    pub length: u64,
    /// Its checksum, by [`crate::statistics::checksum`].
    pub checksum: u64,
    /// Number of its record in the log.
    pub order: u64,
    /// Statistics of all elements that it describes, for zones.
    pub statistics: Option<Statistics>,
}

impl PageHead {
    pub(crate) fn encode(&self, out: &mut Out) {
        out.u8(self.kind.number());
        out.u8(u8::from(self.complete));
        out.number(self.first);
        out.number(self.entries);
        out.numbers(&self.slab.start);
        out.numbers(&self.slab.count);
    }

    pub(crate) fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        let (kind, complete) = (PageKind::from_number(cursor.u8()?), cursor.u8()? & 1 != 0);
        let (first, entries) = (number(cursor)?, number(cursor)?);
        if entries > MAX_PAGE_ENTRIES {
            return Err(cursor.error(format!("a page of {entries} entries")));
        }
        let slab = Hyperslab::new(extents(cursor)?, extents(cursor)?);
        Ok(Self { kind, first, entries, complete, slab })
    }
}

impl Page {
    pub(crate) fn encode(&self, out: &mut Out) {
        self.head.encode(out);
        for value in [self.offset, self.length, self.order] {
            out.number(value);
        }
        out.u64(self.checksum);
        out.u8(u8::from(self.statistics.is_some()));
        if let Some(statistics) = &self.statistics {
            statistics.encode(out);
        }
    }

    pub(crate) fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        let head = PageHead::decode(cursor)?;
        let (offset, length, order) = (number(cursor)?, number(cursor)?, number(cursor)?);
        if length > MAX_PAGE_BYTES || offset.checked_add(length).is_none() {
            return Err(cursor.error(format!("a page of {length} bytes at {offset}")));
        }
        let checksum = cursor.u64()?;
        let statistics = if cursor.u8()? & 1 == 0 { None } else { Some(Statistics::decode(cursor)?) };
        Ok(Self { head, offset, length, checksum, order, statistics })
    }

    /// Reads the page's bytes by means of `read`.
    ///
    /// # Errors
    /// Errors of reading; Corrupt if the checksum does not match.
    pub fn read(&self, read: impl FnOnce(u64, &mut [u8]) -> Result<()>) -> Result<Vec<u8>> {
        let mut bytes = hyperchunk::room::zeros(usize::try_from(self.length).unwrap_or(usize::MAX))?;
        read(self.offset, &mut bytes)?;
        if crate::statistics::checksum(&bytes) != self.checksum {
            return Err(Error::corrupt("the checksum of a page does not match").at(self.offset));
        }
        Ok(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::statistics::zones::{Entry, decode};
    use crate::statistics::{NumberFormat, Pass};
    use crate::tests::{Folder, options};
    use crate::{Definition, Hyperslab, Log, LogWriter, Piece};
    use hyperchunk::model::{ByteOrder, Datatype};

    /// Checks the entries of a log's zones against the elements, and returns them.
    #[track_caller]
    fn check(log: &Log, looks: NumberFormat, element: u64) -> Vec<Entry> {
        let written = &log.written[0].1;
        let pieces: Vec<Piece> = written.pieces.iter().chain(written.appended.iter()).collect();
        let mut all = Vec::new();
        for page in &written.pages {
            let bytes = page.read(|at, out| log.read_at(at, out)).unwrap();
            let mut merged = Statistics::NONE;
            for entry in decode(&bytes, &page.head, page.offset).unwrap() {
                let of_entry =
                    pieces.iter().filter(|piece| (entry.first..=entry.last).contains(&piece.order));
                let mut elements = Vec::new();
                for piece in of_entry {
                    let mut found = vec![0; usize::try_from(piece.length).unwrap()];
                    log.read_at(piece.offset, &mut found).unwrap();
                    elements.extend_from_slice(&found);
                }
                let mut rest = &*elements;
                for zone in &entry.zones {
                    let (mine, behind) = rest.split_at(usize::try_from(zone.count * element).unwrap());
                    let mut pass = Pass::new(false, Some(looks));
                    pass.update(mine);
                    let (_, expected) = pass.finish();
                    assert_eq!(Some(*zone), expected);
                    merged.merge(zone);
                    rest = behind;
                }
                assert!(rest.is_empty());
                all.push(entry);
            }
            assert_eq!(page.statistics, Some(merged));
        }
        all
    }

    #[test]
    fn zones_are_of_all_that_was_written_and_come_back_from_index_and_batches() {
        let folder = Folder::new();
        let writer = LogWriter::create(&folder.0.join("a.h5"), &options()).unwrap();
        let datatype = Datatype::integer(2, true, ByteOrder::Big);
        let mut definition = Definition::new("/a", datatype.clone(), vec![3000, 700]);
        definition.max = vec![None, Some(700)];
        let a = writer.define(&definition).unwrap();
        let bytes = |rows: usize| -> Vec<u8> {
            (0..rows * 1400).map(|at| u8::try_from(at * 31 % 249).unwrap()).collect()
        };
        writer.write_box(a, &[10, 0], &[2000, 700], &bytes(2000)).unwrap();
        for row in 0..200 {
            writer.write_box(a, &[2500 + row, 0], &[1, 700], &bytes(1)).unwrap();
        }
        writer.flush().unwrap();
        writer.append(a, &bytes(3)).unwrap();
        writer
            .write_boxes(a, &[Hyperslab::new([0, 0], [2, 700]), Hyperslab::new([5, 0], [1, 700])], &bytes(3))
            .unwrap();
        let head = PageHead {
            kind: PageKind::Pairs,
            first: 0,
            entries: 1,
            complete: false,
            slab: Hyperslab::new([0, 0], [2, 700]),
        };
        writer.put_page(a, head.clone(), b"of others").unwrap();
        writer.close().unwrap();
        let log = Log::open(writer.log(), None, 0).unwrap();
        let pages = &log.written[0].1.pages;
        let other = &pages[1];
        assert_eq!((pages.len(), &other.head), (3, &head));
        assert_eq!(other.read(|at, out| log.read_at(at, out)).unwrap(), b"of others");
        let mut zones = log;
        zones.written[0].1.pages.retain(|page| page.head.kind == PageKind::Zones);
        assert!(zones.written[0].1.pages.iter().all(|page| page.head.complete));
        let entries = check(&zones, NumberFormat::from_datatype(&datatype), 2);
        let counts: Vec<usize> = entries.iter().map(|entry| entry.zones.len()).collect();
        // 2.8 MB in three boxes of rows; rows of 1400 bytes, 46 in 64 KiB; appended rows, and
        // others.
        assert_eq!(counts, [3, 1, 1, 1, 1, 1, 1, 1]);
        assert_eq!(entries[0].zones[0].count % 700, 0);
        let salvaged = Log::salvage(writer.log(), 0).unwrap();
        let log = Log::open(writer.log(), None, 0).unwrap();
        assert_eq!(salvaged.written[0].1.pages, log.written[0].1.pages);
        assert!(log.verify().is_ok());
    }

    #[test]
    fn many_records_go_to_many_pages() {
        let folder = Folder::new();
        let writer = LogWriter::create(&folder.0.join("a.h5"), &options()).unwrap();
        let datatype = Datatype::integer(1, false, ByteOrder::Little);
        let a = writer.define(&Definition::new("/a", datatype.clone(), vec![1 << 30])).unwrap();
        for at in 0..1200 {
            writer
                .write_box(a, &[at << 16], &[50_000], &vec![u8::try_from(at % 200).unwrap(); 50_000])
                .unwrap();
        }
        writer.close().unwrap();
        let log = Log::open(writer.log(), None, 0).unwrap();
        assert_eq!(log.written[0].1.pages.len(), 2);
        assert_eq!(check(&log, NumberFormat::from_datatype(&datatype), 1).len(), 1200);
    }

    #[test]
    fn damaged_pages_are_errors() {
        let folder = Folder::new();
        let writer = LogWriter::create(&folder.0.join("a.h5"), &options()).unwrap();
        let datatype = Datatype::integer(1, false, ByteOrder::Little);
        let a = writer.define(&Definition::new("/a", datatype, vec![10])).unwrap();
        writer.write_box(a, &[0], &[10], &[3; 10]).unwrap();
        let page = writer.flush().and_then(|_| writer.written(a)).unwrap().pages[0].clone();
        let read = |change: u8| {
            page.read(|at, out| {
                writer.read_at(at, out)?;
                out[5] ^= change;
                Ok(())
            })
        };
        let bytes = read(0).unwrap();
        assert!(read(1).is_err());
        let head = PageHead { entries: 2, ..page.head.clone() };
        assert!(decode(&bytes, &head, 0).is_err());
    }
}
