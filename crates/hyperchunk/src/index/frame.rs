//! Common container format of companion files: a header, a head, and compressed sections. A digest covers
//! header and head.

use super::{Identity, put, take};
use crate::io::Source;
use crate::{Error, ErrorKind, Result};
use hyperchunk_format::Cursor;
use sha2::{Digest as _, Sha256};
use std::io::Read as _;
use std::ops::Range;

/// Size of the header: signature, version, flags, the head's length, the whole length, a digest.
pub const HEADER_BYTES: usize = 8 + 2 + 2 + 4 + 8 + 32;

/// Maximum size in bytes of a file in this format.
const MAX_FILE_BYTES: u64 = 4 << 30;
/// Number of bytes read first, before the sizes are known.
const FIRST_READ_BYTES: usize = 64 << 10;

/// Kind of file in this format.
#[derive(Debug)]
pub struct Frame {
    /// The first bytes of a file.
    pub signature: &'static [u8; 8],
    /// Version of the format that is written.
    pub version: u16,
    /// The oldest version that is read.
    pub oldest: u16,
    /// Noun for messages, such as `index`.
    pub name: &'static str,
    /// Noun with its article for messages, such as `an index`.
    pub one: &'static str,
}

impl Frame {
    /// Assembles the bytes of a file.
    pub fn wrap<'a>(&self, head: &[u8], sections: impl Iterator<Item = &'a [u8]> + Clone) -> Result<Vec<u8>> {
        let length =
            u32::try_from(head.len()).map_err(|_| Error::limit("a head of more than 2^32 - 1 bytes"))?;
        let whole = HEADER_BYTES + head.len() + sections.clone().map(<[u8]>::len).sum::<usize>();
        let mut bytes = Vec::with_capacity(whole);
        bytes.extend_from_slice(self.signature);
        bytes.extend_from_slice(&self.version.to_le_bytes());
        bytes.extend_from_slice(&[0; 2]);
        bytes.extend_from_slice(&length.to_le_bytes());
        bytes.extend_from_slice(&(whole as u64).to_le_bytes());
        let digest = Sha256::new().chain_update(&bytes).chain_update(head).finalize();
        bytes.extend_from_slice(&digest);
        bytes.extend_from_slice(head);
        sections.for_each(|section| bytes.extend_from_slice(section));
        Ok(bytes)
    }

    /// Reads a file. The memory for the head is allocated when the header has been checked, and the memory
    /// for the sections when the digest has.
    pub fn read(&self, source: &dyn Source) -> Result<Vec<u8>> {
        let size = source.size();
        if size > MAX_FILE_BYTES {
            return Err(Error::limit(format!("{} of more than {MAX_FILE_BYTES} bytes", self.one)));
        }
        let size =
            usize::try_from(size).map_err(|_| Error::limit("the file is larger than the address space"))?;
        let mut bytes = Vec::new();
        let fill = |bytes: &mut Vec<u8>, end: usize| {
            let start = bytes.len();
            if end <= start {
                return Ok(());
            }
            let room = bytes.try_reserve_exact(end - start);
            room.map_err(|_| Error::limit(format!("no memory for {} of {end} bytes", self.one)))?;
            bytes.resize(end, 0);
            source.read_at(start as u64, bytes.get_mut(start..).unwrap_or_default())
        };
        // The bytes that were fetched when the file was opened cost nothing.
        let first = source.remote().map_or(0, |remote| remote.head().len()).max(FIRST_READ_BYTES);
        fill(&mut bytes, size.min(first))?;
        if size > first {
            let (head, _) = self.sizes(&bytes, size as u64)?;
            fill(&mut bytes, head)?;
            self.parse_head(&bytes, size as u64)?;
            fill(&mut bytes, size)?;
        }
        Ok(bytes)
    }

    /// Parses the header; returns the end of the head and the digest.
    fn sizes<'a>(&self, bytes: &'a [u8], whole: u64) -> Result<(usize, &'a [u8])> {
        if !bytes.starts_with(self.signature) {
            return Err(Error::invalid(format!("not {} of Hyperchunk: it has no signature", self.one)));
        }
        let mut cursor = Cursor::new(bytes, self.name, 0);
        cursor.skip(self.signature.len())?;
        let (version, flags) = (cursor.u16()?, cursor.u16()?);
        if !(self.oldest..=self.version).contains(&version) || flags != 0 {
            let message =
                format!("unknown version {version} or flags {flags:#06x}; version {} is known", self.version);
            return Err(Error::unsupported(message).within(self.name));
        }
        let (length, expected) = (cursor.u32()?, cursor.u64()?);
        if expected != whole {
            let message = format!("expected {} of {expected} bytes, got {whole}", self.one);
            return Err(Error::new(ErrorKind::Truncated, message).within(self.name));
        }
        let digest = cursor.take(32)?;
        let end = (HEADER_BYTES as u64).saturating_add(u64::from(length));
        let end = usize::try_from(end).ok().filter(|_| end <= whole);
        Ok((end.ok_or_else(|| cursor.error("the head extends beyond the end of the file".into()))?, digest))
    }

    /// Returns the version of the format from the header of a file, which must have been checked.
    #[must_use]
    pub fn format_version(bytes: &[u8]) -> u16 {
        bytes.get(8..10).and_then(|version| version.try_into().ok()).map_or(0, u16::from_le_bytes)
    }

    /// Returns the head of a file. The sections follow it.
    pub fn head<'a>(&self, bytes: &'a [u8]) -> Result<&'a [u8]> {
        self.parse_head(bytes, bytes.len() as u64)
    }

    /// Returns the head of a file of `whole` bytes, from its first bytes.
    fn parse_head<'a>(&self, bytes: &'a [u8], whole: u64) -> Result<&'a [u8]> {
        let (end, digest) = self.sizes(bytes, whole)?;
        let before = bytes.get(..HEADER_BYTES - 32).unwrap_or_default();
        let head = bytes.get(HEADER_BYTES..end).unwrap_or_default();
        if Sha256::new().chain_update(before).chain_update(head).finalize()[..] != *digest {
            return Err(Error::corrupt("the digest is wrong: the file is damaged").within(self.name));
        }
        Ok(head)
    }
}

/// Appends the identity of the described file.
pub fn put_identity(head: &mut Vec<u8>, identity: &Identity) {
    put(head, identity.size);
    put(head, identity.version.len() as u64);
    head.extend_from_slice(identity.version.as_bytes());
}

/// Reads the identity of the described file; its version has at most `longest` bytes.
pub fn take_identity(cursor: &mut Cursor<'_>, longest: u64) -> Result<Identity> {
    let (size, length) = (take(cursor)?, take(cursor)?);
    let length = usize::try_from(length).ok().filter(|_| length <= longest);
    let version =
        cursor.take(length.ok_or_else(|| cursor.error("the version has too many bytes".into()))?)?;
    let version =
        std::str::from_utf8(version).map_err(|_| cursor.error("the version is not UTF-8".into()))?;
    Ok(Identity { size, version: version.into() })
}

/// Compresses the bytes of a section with zstd, with a checksum.
#[cfg(not(target_family = "wasm"))]
pub fn pack(bytes: &[u8], level: i32) -> Result<Vec<u8>> {
    let pack = || {
        let mut compressor = zstd::bulk::Compressor::new(level)?;
        compressor.include_checksum(true)?;
        compressor.compress(bytes)
    };
    pack().map_err(|error: std::io::Error| Error::new(ErrorKind::Io, format!("zstd: {error}")))
}

/// Fails: this build has no libzstd.
#[cfg(target_family = "wasm")]
pub fn pack(_bytes: &[u8], _level: i32) -> Result<Vec<u8>> {
    Err(Error::unsupported("this build cannot write an index"))
}

/// Opens the stream of a compressed section.
#[cfg(not(target_family = "wasm"))]
fn unpack_stream(packed: &[u8]) -> std::io::Result<impl std::io::Read> {
    zstd::stream::read::Decoder::with_buffer(packed)
}

/// Fails: this build has no libzstd.
#[cfg(target_family = "wasm")]
fn unpack_stream(_packed: &[u8]) -> std::io::Result<std::io::Empty> {
    Err(std::io::Error::other("this build cannot read an index"))
}

/// Location of a section.
#[derive(Debug)]
pub struct SectionLocation {
    /// Range of bytes in the file.
    pub place: Range<usize>,
    /// Uncompressed size in bytes.
    pub length: u64,
}

impl SectionLocation {
    /// Reads a section's two sizes. The section starts at `at`, the end of the previous one, which is
    /// advanced to its own end. It must not extend past `whole`.
    pub fn take(cursor: &mut Cursor<'_>, at: &mut usize, whole: usize) -> Result<Self> {
        let (packed, length) = (take(cursor)?, take(cursor)?);
        let end = usize::try_from(packed).ok().and_then(|packed| at.checked_add(packed));
        let Some(end) = end.filter(|end| *end <= whole) else {
            return Err(cursor.error("a section extends beyond the end of the file".into()));
        };
        let place = *at..end;
        *at = end;
        Ok(Self { place, length })
    }

    /// Decompresses the section, to at most `most` bytes.
    pub fn unpack(&self, name: &'static str, bytes: &[u8], most: u64) -> Result<Vec<u8>> {
        let damaged = |message: String| Error::corrupt(message).within(name).at(self.place.start as u64);
        if self.length > most {
            return Err(damaged(format!("a section of {} bytes, more than {most}", self.length)));
        }
        let packed = bytes.get(self.place.clone()).unwrap_or_default();
        let decoder = unpack_stream(packed)
            .map_err(|error| damaged(format!("a section cannot be unpacked: {error}")))?;
        let mut unpacked = Vec::new();
        let read = decoder.take(self.length.saturating_add(1)).read_to_end(&mut unpacked);
        read.map_err(|error| damaged(format!("a section cannot be unpacked: {error}")))?;
        if unpacked.len() as u64 != self.length {
            return Err(damaged(format!(
                "expected a section of {} bytes, got {}",
                self.length,
                unpacked.len()
            )));
        }
        Ok(unpacked)
    }
}
