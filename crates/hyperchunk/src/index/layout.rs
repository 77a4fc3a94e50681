//! The bytes of an index: a header, a directory, and packed sections.

use super::Identity;
use super::packed::{put, take};
use crate::{Error, ErrorKind, Result};
use hyperchunk_format::Cursor;
use sha2::{Digest as _, Sha256};
use std::io::Read as _;
use std::ops::Range;

const SIGNATURE: &[u8; 8] = b"\x89HCI\r\n\x1a\n";
const VERSION: u16 = 1;
/// Signature, version, flags, the directory's length, the whole length, a digest.
const HEADER: usize = 8 + 2 + 2 + 4 + 8 + 32;
const NAME: &str = "index";
pub(super) const STRUCTURE: &str = "structure in an index";

/// No chunk takes more bytes in a table: address, size, mask, and its place.
pub(super) const CHUNK_BYTES: u64 = 10 + 10 + 5 + 20;
/// What a table takes beside its chunks: its grid, flags and a size.
pub(super) const TABLE_BYTES: u64 = 10 + 32 * 10 + 1 + 10;
/// The longest version of a file.
const LONGEST: u64 = 4096;

/// What an index has, and where.
pub(super) struct Directory {
    pub(super) identity: Identity,
    /// In order and apart.
    pub(super) structure: Vec<Section>,
    /// By address of the dataset.
    pub(super) tables: Vec<Table>,
}

/// A part of the structure.
pub(super) struct Section {
    /// The part of the file that its ranges lie in.
    pub(super) span: Range<u64>,
    pub(super) stored: Stored,
}

/// The chunks of a dataset.
pub(super) struct Table {
    /// The address of the dataset's header.
    pub(super) object: u64,
    pub(super) count: u64,
    pub(super) stored: Stored,
}

/// Packed bytes.
pub(super) struct Stored {
    place: Range<usize>,
    length: u64,
}

impl Stored {
    /// The bytes, unpacked.
    pub(super) fn unpack(&self, index: &[u8], most: u64) -> Result<Vec<u8>> {
        let damaged = |message: String| Error::corrupt(message).within(NAME).at(self.place.start as u64);
        if self.length > most {
            return Err(damaged(format!("a section of {} bytes, more than {most}", self.length)));
        }
        let packed = index.get(self.place.clone()).unwrap_or_default();
        let decoder = zstd::stream::read::Decoder::with_buffer(packed)
            .map_err(|error| damaged(format!("a section cannot be unpacked: {error}")))?;
        let mut bytes = Vec::new();
        let read = decoder.take(self.length.saturating_add(1)).read_to_end(&mut bytes);
        read.map_err(|error| damaged(format!("a section cannot be unpacked: {error}")))?;
        if bytes.len() as u64 != self.length {
            return Err(damaged(format!("a section of {} bytes is {} long", self.length, bytes.len())));
        }
        Ok(bytes)
    }
}

/// What a section is made of: its bytes, packed, and how many they were.
pub(super) struct Packed {
    bytes: Vec<u8>,
    length: u64,
}

impl Packed {
    pub(super) fn new(bytes: &[u8]) -> Result<Self> {
        let pack = || {
            let mut compressor = zstd::bulk::Compressor::new(9)?;
            compressor.include_checksum(true)?;
            compressor.compress(bytes)
        };
        let packed =
            pack().map_err(|error: std::io::Error| Error::new(ErrorKind::Io, format!("zstd: {error}")))?;
        Ok(Self { bytes: packed, length: bytes.len() as u64 })
    }
}

impl Packed {
    /// How many bytes it takes.
    pub(super) fn stored(&self) -> u64 {
        self.bytes.len() as u64
    }
}

/// The bytes of an index.
pub(super) fn encode(
    identity: &Identity,
    structure: &[(Range<u64>, Packed)],
    tables: &[(u64, u64, Packed)],
) -> Result<Vec<u8>> {
    let mut directory = Vec::new();
    put(&mut directory, identity.size);
    put(&mut directory, identity.version.len() as u64);
    directory.extend_from_slice(identity.version.as_bytes());
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
    let length = u32::try_from(directory.len())
        .map_err(|_| Error::limit("more datasets than an index has room for"))?;
    let packed =
        || structure.iter().map(|(_, packed)| packed).chain(tables.iter().map(|(.., packed)| packed));
    let whole = HEADER + directory.len() + packed().map(|packed| packed.bytes.len()).sum::<usize>();
    let mut bytes = Vec::with_capacity(whole);
    bytes.extend_from_slice(SIGNATURE);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&[0; 2]);
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&(whole as u64).to_le_bytes());
    let digest = Sha256::new().chain_update(&bytes).chain_update(&directory).finalize();
    bytes.extend_from_slice(&digest);
    bytes.extend_from_slice(&directory);
    packed().for_each(|packed| bytes.extend_from_slice(&packed.bytes));
    Ok(bytes)
}

/// What an index has. Its digest covers header and directory; each section has a checksum of its own.
pub(super) fn parse(bytes: &[u8]) -> Result<Directory> {
    let mut cursor = Cursor::new(bytes, NAME, 0);
    if !bytes.starts_with(SIGNATURE) {
        return Err(Error::invalid("not an index of Hyperchunk: it has no signature"));
    }
    cursor.skip(SIGNATURE.len())?;
    let version = cursor.u16()?;
    if version != VERSION {
        let message = format!("version {version} of the index's format; {VERSION} is known");
        return Err(Error::unsupported(message).within(NAME));
    }
    let flags = cursor.u16()?;
    if flags != 0 {
        return Err(Error::unsupported(format!("flags {flags:#06x}")).within(NAME));
    }
    let length = cursor.u32()?;
    let whole = cursor.u64()?;
    if whole != bytes.len() as u64 {
        let message = format!("an index of {whole} bytes is {} long", bytes.len());
        return Err(Error::new(ErrorKind::Truncated, message).within(NAME));
    }
    let head = bytes.get(..cursor.position()).unwrap_or_default();
    let digest = cursor.take(32)?;
    let directory = cursor.take(usize::try_from(length).unwrap_or(usize::MAX))?;
    if Sha256::new().chain_update(head).chain_update(directory).finalize()[..] != *digest {
        return Err(Error::corrupt("the digest of the index is wrong: it is damaged").within(NAME));
    }
    let at = cursor.position();
    let mut cursor = Cursor::new(directory, NAME, HEADER as u64);
    let directory = entries(&mut cursor, at, bytes.len())?;
    if cursor.left() > 0 {
        return Err(cursor.error(format!("{} bytes too many", cursor.left())));
    }
    Ok(directory)
}

fn entries(cursor: &mut Cursor<'_>, mut at: usize, whole: usize) -> Result<Directory> {
    let size = take(cursor)?;
    let length = take(cursor)?;
    let length = usize::try_from(length).ok().filter(|_| length <= LONGEST);
    let version = cursor.take(length.ok_or_else(|| cursor.error("a version of too many bytes".into()))?)?;
    let version =
        std::str::from_utf8(version).map_err(|_| cursor.error("a version that is no text".into()))?;
    let identity = Identity { size, version: version.into() };
    let mut stored = |cursor: &mut Cursor<'_>| {
        let (packed, length) = (take(cursor)?, take(cursor)?);
        let end = usize::try_from(packed).ok().and_then(|packed| at.checked_add(packed));
        let Some(end) = end.filter(|end| *end <= whole) else {
            return Err(cursor.error("a section beyond the end".into()));
        };
        let place = at..end;
        at = end;
        Ok(Stored { place, length })
    };
    // Each entry has four bytes at least.
    let fits = |cursor: &Cursor<'_>, count: u64| {
        let count = usize::try_from(count).ok().filter(|count| *count <= cursor.left() / 4);
        count.ok_or_else(|| cursor.error("more sections than bytes".into()))
    };
    let count = take(cursor)?;
    let mut structure = Vec::with_capacity(fits(cursor, count)?);
    let mut last = 0_u64;
    for _ in 0..count {
        let start = last.checked_add(take(cursor)?);
        let end = start.zip(Some(take(cursor)?)).and_then(|(start, length)| start.checked_add(length));
        let (Some(start), Some(end)) = (start, end.filter(|end| *end <= size)) else {
            return Err(cursor.error("structure beyond the end of the file".into()));
        };
        last = end;
        structure.push(Section { span: start..end, stored: stored(cursor)? });
    }
    let count = take(cursor)?;
    let mut tables: Vec<Table> = Vec::with_capacity(fits(cursor, count)?);
    for _ in 0..count {
        let last = tables.last().map(|table| table.object);
        let object = last.unwrap_or(0).checked_add(take(cursor)?).filter(|object| Some(*object) != last);
        let object = object.ok_or_else(|| cursor.error("tables that are not in order".into()))?;
        let count = take(cursor)?;
        tables.push(Table { object, count, stored: stored(cursor)? });
    }
    if at != whole {
        return Err(cursor.error(format!("sections up to {at} in an index of {whole} bytes")));
    }
    Ok(Directory { identity, structure, tables })
}
