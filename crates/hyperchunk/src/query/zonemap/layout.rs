//! The bytes of a file of statistics: a header, a head, and a packed section for each dataset.

use super::Grid;
use crate::index::{Identity, put, take};
use crate::store::Statistics;
use crate::{Error, ErrorKind, Limits, Result};
use hyperchunk_format::Cursor;
use sha2::{Digest as _, Sha256};
use std::io::Read as _;
use std::ops::Range;

const SIGNATURE: &[u8; 8] = b"\x89HCZ\r\n\x1a\n";
const VERSION: u16 = 1;
/// Signature, version, flags, the head's length, the whole length, a digest.
const HEADER: usize = 8 + 2 + 2 + 4 + 8 + 32;
const NAME: &str = "zones";
/// The longest version of a file, and the longest path.
const LONGEST: u64 = 1 << 16;
/// No dataspace has more dimensions.
const LARGEST_RANK: u64 = 32;

/// What a file of statistics has, and where.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) identity: Identity,
    pub(super) sections: Vec<Section>,
    /// How many bytes it has, with the header.
    pub(super) length: u64,
}

/// The zones of a dataset.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) path: Vec<u8>,
    /// The address of the dataset's header.
    pub(super) object: u64,
    pub(super) grid: Grid,
    count: u64,
    length: u64,
    place: Range<usize>,
}

/// A dataset's zones, to be written.
pub(super) struct New {
    pub(super) path: Vec<u8>,
    pub(super) object: u64,
    pub(super) grid: Grid,
    /// In order of their numbers.
    pub(super) zones: Vec<(u64, Statistics)>,
}

/// The bytes of a file of statistics.
pub(super) fn encode(identity: &Identity, datasets: &[New]) -> Result<Vec<u8>> {
    let mut head = Vec::new();
    put(&mut head, identity.size);
    put(&mut head, identity.version.len() as u64);
    head.extend_from_slice(identity.version.as_bytes());
    put(&mut head, datasets.len() as u64);
    let mut sections = Vec::new();
    for New { path, object, grid, zones } in datasets {
        let mut bytes = Vec::new();
        let mut next = 0;
        for (number, statistics) in zones {
            put(&mut bytes, number - next);
            next = number + 1;
            statistics.write_to(&mut bytes);
        }
        let packed = pack(&bytes)
            .map_err(|error: std::io::Error| Error::new(ErrorKind::Io, format!("zstd: {error}")))?;
        put(&mut head, path.len() as u64);
        head.extend_from_slice(path);
        put(&mut head, *object);
        put(&mut head, grid.extent.len() as u64);
        for number in grid.extent.iter().chain(&grid.block) {
            put(&mut head, *number);
        }
        put(&mut head, zones.len() as u64);
        put(&mut head, packed.len() as u64);
        put(&mut head, bytes.len() as u64);
        sections.extend_from_slice(&packed);
    }
    let length =
        u32::try_from(head.len()).map_err(|_| Error::limit("more datasets than there is room for"))?;
    let whole = HEADER + head.len() + sections.len();
    let mut bytes = Vec::with_capacity(whole);
    bytes.extend_from_slice(SIGNATURE);
    bytes.extend_from_slice(&VERSION.to_le_bytes());
    bytes.extend_from_slice(&[0; 2]);
    bytes.extend_from_slice(&length.to_le_bytes());
    bytes.extend_from_slice(&(whole as u64).to_le_bytes());
    let digest = Sha256::new().chain_update(&bytes).chain_update(&head).finalize();
    bytes.extend_from_slice(&digest);
    bytes.extend_from_slice(&head);
    bytes.extend_from_slice(&sections);
    Ok(bytes)
}

fn pack(bytes: &[u8]) -> std::io::Result<Vec<u8>> {
    let mut compressor = zstd::bulk::Compressor::new(3)?;
    compressor.include_checksum(true)?;
    compressor.compress(bytes)
}

/// What a file of statistics has.
pub(super) fn parse(bytes: &[u8]) -> Result<Head> {
    if !bytes.starts_with(SIGNATURE) {
        return Err(Error::invalid("no statistics of Hyperchunk: there is no signature"));
    }
    let mut cursor = Cursor::new(bytes, NAME, 0);
    cursor.skip(SIGNATURE.len())?;
    let (version, flags) = (cursor.u16()?, cursor.u16()?);
    if (version, flags) != (VERSION, 0) {
        let message = format!("version {version} of the format, flags {flags:#06x}; {VERSION} is known");
        return Err(Error::unsupported(message).within(NAME));
    }
    let (length, whole) = (cursor.u32()?, cursor.u64()?);
    if whole != bytes.len() as u64 {
        let message = format!("statistics of {whole} bytes are {} long", bytes.len());
        return Err(Error::new(ErrorKind::Truncated, message).within(NAME));
    }
    let before = bytes.get(..cursor.position()).unwrap_or_default();
    let digest = cursor.take(32)?;
    let head = cursor.take(usize::try_from(length).unwrap_or(usize::MAX))?;
    if Sha256::new().chain_update(before).chain_update(head).finalize()[..] != *digest {
        return Err(Error::corrupt("the digest of the statistics is wrong: they are damaged").within(NAME));
    }
    let mut at = cursor.position();
    let length = at as u64;
    let mut cursor = Cursor::new(head, NAME, HEADER as u64);
    let text = |cursor: &mut Cursor<'_>| {
        let length = take(cursor)?;
        let length = usize::try_from(length).ok().filter(|_| length <= LONGEST);
        Ok::<_, Error>(
            cursor.take(length.ok_or_else(|| cursor.error("a text of too many bytes".into()))?)?.to_vec(),
        )
    };
    let size = take(&mut cursor)?;
    let version = String::from_utf8(text(&mut cursor)?)
        .map_err(|_| cursor.error("a version that is no text".into()))?;
    let many = take(&mut cursor)?;
    let mut sections = Vec::new();
    for _ in 0..many {
        let (path, object, rank) = (text(&mut cursor)?, take(&mut cursor)?, take(&mut cursor)?);
        if rank > LARGEST_RANK {
            return Err(cursor.error(format!("{rank} dimensions")));
        }
        let extent = (0..rank).map(|_| take(&mut cursor)).collect::<Result<Vec<_>>>()?;
        let block = (0..rank).map(|_| take(&mut cursor)).collect::<Result<Vec<_>>>()?;
        let (count, packed, length) = (take(&mut cursor)?, take(&mut cursor)?, take(&mut cursor)?);
        let grid = Grid { extent, block };
        let fits = !grid.block.contains(&0)
            && grid.places().is_some_and(|places| count <= places)
            && count <= length / Statistics::LEAST as u64;
        let end = usize::try_from(packed).ok().and_then(|packed| at.checked_add(packed));
        let Some(end) = end.filter(|end| *end <= bytes.len() && fits) else {
            return Err(cursor.error(format!("{count} zones in {length} bytes, packed in {packed}")));
        };
        sections.push(Section { path, object, grid, count, length, place: at..end });
        at = end;
    }
    if cursor.left() > 0 || at != bytes.len() {
        return Err(cursor.error("bytes too many".into()));
    }
    Ok(Head { identity: Identity { size, version }, sections, length })
}

impl Section {
    /// How many bytes it takes.
    pub(super) fn stored(&self) -> u64 {
        self.place.len() as u64
    }

    /// Its zones, each with its number, in order.
    pub(super) fn zones(&self, bytes: &[u8], limits: &Limits) -> Result<Vec<(u64, Statistics)>> {
        let damaged = |message: String| Error::corrupt(message).within(NAME).at(self.place.start as u64);
        // A zone has a number before it.
        let most = self.count.saturating_mul(Statistics::SIZE as u64 + 10);
        if self.length > most || most > limits.metadata_bytes.max(1 << 20).saturating_mul(4) {
            return Err(damaged(format!("{} zones in {} bytes", self.count, self.length)));
        }
        let packed = bytes.get(self.place.clone()).unwrap_or_default();
        let mut unpacked = Vec::new();
        let decoder = zstd::stream::read::Decoder::with_buffer(packed);
        let read = decoder
            .and_then(|decoder| decoder.take(self.length.saturating_add(1)).read_to_end(&mut unpacked));
        read.map_err(|error| damaged(format!("they cannot be unpacked: {error}")))?;
        if unpacked.len() as u64 != self.length {
            return Err(damaged(format!("{} bytes are {} long", self.length, unpacked.len())));
        }
        let mut cursor = Cursor::new(&unpacked, NAME, 0);
        let places = self.grid.places().unwrap_or(0);
        let mut zones = Vec::new();
        let mut next = 0_u64;
        for _ in 0..self.count {
            let number = next.checked_add(take(&mut cursor)?).filter(|number| *number < places);
            let number = number.ok_or_else(|| cursor.error("a zone outside the dataset".into()))?;
            zones.push((number, Statistics::decode(&mut cursor)?));
            next = number + 1;
        }
        if cursor.left() > 0 {
            return Err(cursor.error(format!("{} bytes too many", cursor.left())));
        }
        Ok(zones)
    }
}
