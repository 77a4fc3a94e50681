//! Format of an index: a header, a directory, and compressed sections.

use super::Identity;
use super::frame::{Frame, HEADER_BYTES, SectionLocation, pack, put_identity, take_identity};
use super::packed::{put, take};
use crate::Result;
use hyperchunk_format::Cursor;
use std::ops::Range;

pub(super) const INDEX: Frame =
    Frame { signature: b"\x89HCI\r\n\x1a\n", version: 1, oldest: 1, name: "index", one: "an index" };
pub(super) const STRUCTURE: &str = "structure in an index";

/// Maximum size in bytes of a chunk in a table: address, size, mask, and a run of positions.
pub(super) const MAX_CHUNK_ENTRY_BYTES: u64 = 10 + 10 + 5 + 20;
/// Maximum size in bytes of a table without its chunks: its grid, flags and a size.
pub(super) const MAX_TABLE_HEAD_BYTES: u64 = 10 + 32 * 10 + 1 + 10;
/// Maximum length in bytes of a file's version.
const MAX_VERSION_BYTES: u64 = 4096;

/// The contents of an index, with their locations.
pub(super) struct Directory {
    pub(super) identity: Identity,
    /// Sections in ascending order, without overlap.
    pub(super) structure: Vec<Section>,
    /// Tables, sorted by the dataset's address.
    pub(super) tables: Vec<Table>,
}

/// A part of the structure.
pub(super) struct Section {
    /// The part of the file in which its ranges are.
    pub(super) span: Range<u64>,
    pub(super) stored: SectionLocation,
}

/// The chunks of a dataset.
pub(super) struct Table {
    /// The address of the dataset's header.
    pub(super) object: u64,
    pub(super) count: u64,
    pub(super) stored: SectionLocation,
}

impl Section {
    /// Decompresses it.
    pub(super) fn unpack(&self, index: &[u8], most: u64) -> Result<Vec<u8>> {
        self.stored.unpack(INDEX.name, index, most)
    }
}

impl Table {
    /// Decompresses it.
    pub(super) fn unpack(&self, index: &[u8], most: u64) -> Result<Vec<u8>> {
        self.stored.unpack(INDEX.name, index, most)
    }
}

/// The compressed bytes of a new section, and their uncompressed size.
pub(super) struct CompressedSection {
    bytes: Vec<u8>,
    length: u64,
}

impl CompressedSection {
    pub(super) fn new(bytes: &[u8]) -> Result<Self> {
        Ok(Self { bytes: pack(bytes, 9)?, length: bytes.len() as u64 })
    }
}

impl CompressedSection {
    /// Returns the compressed size in bytes.
    pub(super) fn stored(&self) -> u64 {
        self.bytes.len() as u64
    }
}

/// Encodes an index.
pub(super) fn encode(
    identity: &Identity,
    structure: &[(Range<u64>, CompressedSection)],
    tables: &[(u64, u64, CompressedSection)],
) -> Result<Vec<u8>> {
    let mut directory = Vec::new();
    put_identity(&mut directory, identity);
    put(&mut directory, structure.len() as u64);
    let mut end = 0;
    for (span, packed) in structure {
        put(&mut directory, span.start - end);
        put(&mut directory, span.end - span.start);
        end = span.end;
        put(&mut directory, packed.bytes.len() as u64);
        put(&mut directory, packed.length);
    }
    put(&mut directory, tables.len() as u64);
    let mut last = 0;
    for (object, count, packed) in tables {
        put(&mut directory, object - last);
        last = *object;
        put(&mut directory, *count);
        put(&mut directory, packed.bytes.len() as u64);
        put(&mut directory, packed.length);
    }
    let packed = structure.iter().map(|(_, packed)| packed).chain(tables.iter().map(|(.., packed)| packed));
    INDEX.wrap(&directory, packed.map(|packed| &*packed.bytes))
}

/// Parses the directory of an index. Its digest covers header and directory; each section has a checksum of
/// its own.
pub(super) fn parse(bytes: &[u8]) -> Result<Directory> {
    let directory = INDEX.head(bytes)?;
    let at = HEADER_BYTES + directory.len();
    let mut cursor = Cursor::new(directory, INDEX.name, HEADER_BYTES as u64);
    let directory = entries(&mut cursor, at, bytes.len())?;
    if cursor.left() > 0 {
        return Err(cursor.error(format!("{} bytes too many", cursor.left())));
    }
    Ok(directory)
}

fn entries(cursor: &mut Cursor<'_>, mut at: usize, whole: usize) -> Result<Directory> {
    let identity = take_identity(cursor, MAX_VERSION_BYTES)?;
    let size = identity.size;
    let mut stored = |cursor: &mut Cursor<'_>| SectionLocation::take(cursor, &mut at, whole);
    // Each entry has at least four bytes.
    let fits = |cursor: &Cursor<'_>, count: u64| {
        let count = usize::try_from(count).ok().filter(|count| *count <= cursor.left() / 4);
        count.ok_or_else(|| cursor.error("the number of sections exceeds the bytes of the directory".into()))
    };
    let count = take(cursor)?;
    let mut structure = Vec::with_capacity(fits(cursor, count)?);
    let mut last = 0_u64;
    for _ in 0..count {
        let start = last.checked_add(take(cursor)?);
        let end = start.zip(Some(take(cursor)?)).and_then(|(start, length)| start.checked_add(length));
        let (Some(start), Some(end)) = (start, end.filter(|end| *end <= size)) else {
            return Err(cursor.error("structure extends beyond the end of the file".into()));
        };
        last = end;
        structure.push(Section { span: start..end, stored: stored(cursor)? });
    }
    let count = take(cursor)?;
    let mut tables: Vec<Table> = Vec::with_capacity(fits(cursor, count)?);
    for _ in 0..count {
        let last = tables.last().map(|table| table.object);
        let object = last.unwrap_or(0).checked_add(take(cursor)?).filter(|object| Some(*object) != last);
        let object = object.ok_or_else(|| cursor.error("the tables are not in order".into()))?;
        let count = take(cursor)?;
        tables.push(Table { object, count, stored: stored(cursor)? });
    }
    if at != whole {
        return Err(cursor.error(format!("the sections end at {at} in an index of {whole} bytes")));
    }
    Ok(Directory { identity, structure, tables })
}
