//! Encoding of a file of statistics: a header, a head, and a compressed section for each dataset.

use super::Grid;
use crate::Statistics;
use hyperchunk::index::Identity;
use hyperchunk::internal::frame::{
    Frame, HEADER_BYTES, SectionLocation, pack, put, put_identity, take, take_identity,
};
use hyperchunk::{Error, Limits, Result};
use hyperchunk_format::Cursor;

pub(super) const ZONES: Frame = Frame {
    signature: b"\x89HCZ\r\n\x1a\n",
    version: 1,
    oldest: 1,
    name: "zones",
    one: "a file of statistics",
};
/// Maximum length in bytes of a file's identity, and of a path.
const MAX_TEXT_BYTES: u64 = 1 << 16;
/// Maximum number of dimensions of a dataspace.
const MAX_RANK: u64 = 32;

/// Head of a file of statistics: its contents and their location.
#[derive(Debug)]
pub(super) struct Head {
    pub(super) identity: Identity,
    pub(super) sections: Vec<Section>,
    /// Size in bytes, including the header.
    pub(super) length: u64,
}

/// The zones of a dataset.
#[derive(Debug)]
pub(super) struct Section {
    pub(super) path: Vec<u8>,
    /// Address of the dataset's object header.
    pub(super) object: u64,
    pub(super) grid: Grid,
    count: u64,
    stored: SectionLocation,
}

/// Zones of a dataset that are to be written.
pub(super) struct NewZones {
    pub(super) path: Vec<u8>,
    pub(super) object: u64,
    pub(super) grid: Grid,
    /// Zones by their number, in order.
    pub(super) zones: Vec<(u64, Statistics)>,
}

/// Encodes a file of statistics.
pub(super) fn encode(identity: &Identity, datasets: &[NewZones]) -> Result<Vec<u8>> {
    let mut head = Vec::new();
    put_identity(&mut head, identity);
    put(&mut head, datasets.len() as u64);
    let mut sections = Vec::new();
    for NewZones { path, object, grid, zones } in datasets {
        let mut bytes = Vec::new();
        let mut next = 0;
        for (number, statistics) in zones {
            put(&mut bytes, number - next);
            next = number + 1;
            statistics.write_to(&mut bytes);
        }
        let packed = pack(&bytes, 3)?;
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
    ZONES.wrap(&head, std::iter::once(&*sections))
}

/// Returns a file of statistics with the identity of a copy of its HDF5 file.
pub(super) fn with_identity(bytes: &[u8], identity: &Identity) -> Result<Vec<u8>> {
    let old = ZONES.head(bytes)?;
    let mut cursor = Cursor::new(old, ZONES.name, HEADER_BYTES as u64);
    take_identity(&mut cursor, MAX_TEXT_BYTES)?;
    let mut head = Vec::new();
    put_identity(&mut head, identity);
    head.extend_from_slice(cursor.take(cursor.left())?);
    ZONES.wrap(&head, std::iter::once(bytes.get(HEADER_BYTES + old.len()..).unwrap_or_default()))
}

/// Decodes the head of a file of statistics.
pub(super) fn parse(bytes: &[u8]) -> Result<Head> {
    let head = ZONES.head(bytes)?;
    let mut at = HEADER_BYTES + head.len();
    let length = at as u64;
    let mut cursor = Cursor::new(head, ZONES.name, HEADER_BYTES as u64);
    let text = |cursor: &mut Cursor<'_>| {
        let length = take(cursor)?;
        let length = usize::try_from(length).ok().filter(|_| length <= MAX_TEXT_BYTES);
        Ok::<_, Error>(
            cursor.take(length.ok_or_else(|| cursor.error("a path that is too long".into()))?)?.to_vec(),
        )
    };
    let identity = take_identity(&mut cursor, MAX_TEXT_BYTES)?;
    let many = take(&mut cursor)?;
    let mut sections = Vec::new();
    for _ in 0..many {
        let (path, object, rank) = (text(&mut cursor)?, take(&mut cursor)?, take(&mut cursor)?);
        if rank > MAX_RANK {
            return Err(cursor.error(format!("{rank} dimensions, more than {MAX_RANK}")));
        }
        let extent = (0..rank).map(|_| take(&mut cursor)).collect::<Result<Vec<_>>>()?;
        let block = (0..rank).map(|_| take(&mut cursor)).collect::<Result<Vec<_>>>()?;
        let count = take(&mut cursor)?;
        let stored = SectionLocation::take(&mut cursor, &mut at, bytes.len())?;
        let grid = Grid { extent, block };
        let fits = !grid.block.contains(&0)
            && grid.places().is_some_and(|places| count <= places)
            && count <= stored.length / Statistics::MIN_ENCODED_BYTES as u64;
        if !fits {
            return Err(cursor.error(format!("{count} zones in {} bytes", stored.length)));
        }
        sections.push(Section { path, object, grid, count, stored });
    }
    if cursor.left() > 0 || at != bytes.len() {
        return Err(cursor.error("bytes after the last section".into()));
    }
    Ok(Head { identity, sections, length })
}

impl Section {
    /// Returns its stored size in bytes.
    pub(super) fn stored(&self) -> u64 {
        self.stored.place.len() as u64
    }

    /// Decodes the zones, each with its number, in order.
    pub(super) fn zones(&self, bytes: &[u8], limits: &Limits) -> Result<Vec<(u64, Statistics)>> {
        // Each zone is preceded by a varint.
        let most = self.count.saturating_mul(Statistics::MAX_ENCODED_BYTES as u64 + 10);
        let most = most.min(limits.metadata_bytes.max(1 << 20).saturating_mul(4));
        let unpacked = self.stored.unpack(ZONES.name, bytes, most)?;
        let mut cursor = Cursor::new(&unpacked, ZONES.name, 0);
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
            return Err(cursor.error(format!("{} bytes after the last zone", cursor.left())));
        }
        Ok(zones)
    }
}
