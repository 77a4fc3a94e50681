//! Stub: stored content of a chunk of a live dataset, in place of data.
//!
//! Layout, see `docs/formats/live-dataset.md`:
//!
//! | bytes | field |
//! |---|---|
//! | 4 | `HCLD` |
//! | 1 | version: 1 where the record is an attribute, 2 where it follows the stub of the first chunk |
//! | 1 | rank |
//! | 2 | reserved, 0 |
//! | 16 | id of the live dataset |
//! | 16 | first half of the SHA-256 of the record |
//! | rank × (1–10) | chunk number along each dimension, LEB128 |
//! | 4 | start of the SHA-256 of all bytes before |

use crate::error::{Error, ErrorKind, Result, fail};
use sha2::{Digest, Sha256};

const MAGIC: &[u8; 4] = b"HCLD";
const FIXED_BYTES: usize = 40;
const CHECKSUM_BYTES: usize = 4;
/// Maximum size of a stub.
pub const MAX_STUB_BYTES: usize = 128;
/// HDF5's own limit on the rank of a dataspace.
pub const MAX_RANK: usize = 32;

/// Identity of a live dataset: random, generated when it is attached, unchanged when it is renamed or copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LiveId(pub [u8; 16]);

/// First half of the SHA-256 of a record's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RecordDigest(pub [u8; 16]);

impl RecordDigest {
    /// Computes the digest of a record as stored in the file.
    pub fn compute(record: &[u8]) -> Self {
        RecordDigest(head(&Sha256::digest(record)))
    }
}

impl LiveId {
    /// Generates a random id.
    ///
    /// # Errors
    /// `Io` when the system has no random numbers.
    pub fn random() -> Result<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes)
            .map_err(|e| Error::new(ErrorKind::Io, format!("cannot get random numbers: {e}")))?;
        Ok(LiveId(bytes))
    }

    /// Formats the id as 32 hexadecimal digits.
    pub fn to_hex(self) -> String {
        self.0.iter().map(|b| format!("{b:02x}")).collect()
    }

    /// Parses 32 hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<Self> {
        if text.len() != 32 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        let value = u128::from_str_radix(text, 16).ok()?;
        Some(LiveId(value.to_be_bytes()))
    }

    /// Returns the id as the client data of the HDF5 filter, after the version word.
    pub fn to_words(self) -> [u32; 4] {
        let v = u128::from_be_bytes(self.0);
        [96, 64, 32, 0].map(|shift| {
            #[expect(clippy::cast_possible_truncation, reason = "each word takes its own 32 bits")]
            let word = (v >> shift) as u32;
            word
        })
    }
}

/// Location of a live dataset's record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecordLocation {
    /// Attribute of the dataset.
    Attribute,
    /// First chunk, after its stub.
    Chunk,
}

impl RecordLocation {
    /// Returns the location of a record of `record` bytes, of a dataset of shape `dims` with chunks of shape
    /// `chunk`: in the first chunk, if there is one and HDF5 can encode its size there, for which the
    /// smallest chunks have two bytes.
    pub fn choose(record: usize, dims: &[u64], chunk: &[u64]) -> Self {
        let elements = chunk.iter().fold(1u64, |product, &length| product.saturating_mul(length)).max(1);
        let size_bits = 8 * (1 + (elements.ilog2() + 8) / 8).min(4);
        let bytes = record as u64 + MAX_STUB_BYTES as u64;
        if dims.contains(&0) || bytes >= 1 << size_bits {
            RecordLocation::Attribute
        } else {
            RecordLocation::Chunk
        }
    }

    fn version(self) -> u8 {
        match self {
            RecordLocation::Attribute => 1,
            RecordLocation::Chunk => 2,
        }
    }
}

/// Stub of one chunk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stub {
    /// Live dataset.
    pub id: LiveId,
    /// Digest of its record.
    pub record: RecordDigest,
    /// Location of the record.
    pub place: RecordLocation,
    /// Number of the chunk along each dimension (its offset divided by the chunk's shape).
    pub chunk: Vec<u64>,
}

impl Stub {
    /// Encodes the stub.
    ///
    /// # Errors
    /// `Limit` when it is longer than [`MAX_STUB_BYTES`].
    pub fn encode(&self) -> Result<Vec<u8>> {
        let Ok(rank) = u8::try_from(self.chunk.len()) else {
            fail!(Limit, "rank {} is over 32", self.chunk.len())
        };
        let mut out = Vec::with_capacity(64);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&[self.place.version(), rank, 0, 0]);
        out.extend_from_slice(&self.id.0);
        out.extend_from_slice(&self.record.0);
        for &n in &self.chunk {
            leb128(n, &mut out);
        }
        let check: [u8; CHECKSUM_BYTES] = head(&Sha256::digest(&out));
        out.extend_from_slice(&check);
        if out.len() > MAX_STUB_BYTES {
            fail!(
                Limit,
                "the stub of chunk {:?} needs {} bytes, over the limit of {MAX_STUB_BYTES}",
                self.chunk,
                out.len()
            )
        }
        Ok(out)
    }

    /// Parses a stub, which a record may follow.
    ///
    /// # Errors
    /// The errors of [`Stub::split`].
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        Ok(Stub::split(bytes)?.0)
    }

    /// Parses a stub, and returns the record after it, if there is one. Its digest is not checked.
    ///
    /// # Errors
    /// `Unsupported` when it is not a stub of ours or is of a later version, `Invalid` when it is damaged.
    pub fn split(bytes: &[u8]) -> Result<(Self, Option<&[u8]>)> {
        if is_legacy(bytes) {
            fail!(Unsupported, "the chunk holds a function of HDF5-UDF, which is not a stub of ours")
        }
        let Some(rest) = bytes.strip_prefix(MAGIC.as_slice()) else {
            fail!(Unsupported, "the chunk does not hold a live dataset's stub")
        };
        let cut_short =
            || Error::new(ErrorKind::Invalid, format!("the stub is cut short: {} bytes", bytes.len()));
        let (&[version, rank, r0, r1], _) = rest.split_first_chunk::<4>().ok_or_else(cut_short)?;
        let place = match version {
            1 => RecordLocation::Attribute,
            2 => RecordLocation::Chunk,
            _ => fail!(Unsupported, "stub version {version} is newer than this version of hyperchunk"),
        };
        if usize::from(rank) > MAX_RANK || (r0, r1) != (0, 0) {
            fail!(Invalid, "the stub is damaged")
        }
        let (Some(id), Some(record), Some(mut numbers)) = (
            bytes.get(8..24).and_then(|b| b.first_chunk()),
            bytes.get(24..FIXED_BYTES).and_then(|b| b.first_chunk()),
            bytes.get(FIXED_BYTES..),
        ) else {
            return Err(cut_short());
        };
        let mut chunk = Vec::with_capacity(usize::from(rank));
        for _ in 0..rank {
            let Some(n) = take_leb128(&mut numbers) else {
                fail!(Invalid, "the stub's chunk number is damaged")
            };
            chunk.push(n);
        }
        let body = bytes.get(..bytes.len() - numbers.len()).unwrap_or_default();
        let (check, trailing) = numbers.split_first_chunk::<CHECKSUM_BYTES>().ok_or_else(cut_short)?;
        if body.len() + CHECKSUM_BYTES > MAX_STUB_BYTES {
            fail!(Invalid, "the stub is damaged")
        }
        if *check != head::<CHECKSUM_BYTES>(&Sha256::digest(body)) {
            fail!(Invalid, "the stub is damaged: its checksum does not match")
        }
        let holds_record = place == RecordLocation::Chunk && chunk.iter().all(|&n| n == 0);
        if !trailing.is_empty() && !holds_record {
            fail!(Invalid, "the stub has {} bytes too many", trailing.len())
        }
        let stub = Stub { id: LiveId(*id), record: RecordDigest(*record), place, chunk };
        Ok((stub, Some(trailing).filter(|trailing| !trailing.is_empty())))
    }
}

fn head<const N: usize>(digest: &[u8]) -> [u8; N] {
    let mut out = [0; N];
    for (o, d) in out.iter_mut().zip(digest) {
        *o = *d;
    }
    out
}

fn leb128(mut n: u64, out: &mut Vec<u8>) {
    loop {
        let low = n.to_le_bytes()[0] & 0x7f;
        n >>= 7;
        if n == 0 {
            return out.push(low);
        }
        out.push(low | 0x80);
    }
}

fn take_leb128(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0u64;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let low = u64::from(byte & 0x7f);
        let placed = low.checked_shl(shift)?;
        if placed >> shift != low {
            return None;
        }
        value |= placed;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// Returns whether the bytes of a chunk look like a dataset of HDF5-UDF.
pub fn is_legacy(chunk: &[u8]) -> bool {
    chunk.first() == Some(&b'{')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stub(place: RecordLocation, chunk: &[u64]) -> Stub {
        Stub { id: LiveId([7; 16]), record: RecordDigest::compute(b"{}"), place, chunk: chunk.to_vec() }
    }

    fn check(place: RecordLocation, chunk: &[u64]) {
        let stub = stub(place, chunk);
        let bytes = stub.encode().unwrap();
        assert!(bytes.len() <= MAX_STUB_BYTES);
        assert_eq!(Stub::parse(&bytes).unwrap(), stub);
        for cut in 0..bytes.len() {
            assert!(Stub::parse(&bytes[..cut]).is_err(), "cut at {cut}");
        }
        for at in 0..bytes.len() {
            for bit in 0..8 {
                let mut bad = bytes.clone();
                bad[at] ^= 1 << bit;
                assert!(Stub::parse(&bad).is_err(), "bit {bit} of byte {at}");
            }
        }
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_seen() {
        for chunk in [&[][..], &[0], &[0, 249], &[u64::MAX, 1 << 40], &[100; 32]] {
            check(RecordLocation::Attribute, chunk);
            check(RecordLocation::Chunk, chunk);
        }
    }

    #[test]
    fn a_record_lies_behind_the_stub_of_the_first_chunk_alone() {
        let with_record =
            |place, chunk: &[u64]| [stub(place, chunk).encode().unwrap(), b"{}".to_vec()].concat();
        let bytes = with_record(RecordLocation::Chunk, &[0, 0]);
        assert_eq!(Stub::split(&bytes).unwrap(), (stub(RecordLocation::Chunk, &[0, 0]), Some(&b"{}"[..])));
        for (place, chunk) in [(RecordLocation::Chunk, [0, 1]), (RecordLocation::Attribute, [0, 0])] {
            assert_eq!(Stub::split(&with_record(place, &chunk)).unwrap_err().kind(), ErrorKind::Invalid);
        }
    }

    #[test]
    fn where_records_fit() {
        assert_eq!(RecordLocation::choose(6000, &[4], &[4]), RecordLocation::Chunk);
        assert_eq!(RecordLocation::choose(6000, &[0, 4], &[1, 4]), RecordLocation::Attribute);
        assert_eq!(RecordLocation::choose(65_536, &[4], &[4]), RecordLocation::Attribute);
        assert_eq!(RecordLocation::choose(65_536, &[256], &[256]), RecordLocation::Chunk);
        assert_eq!(RecordLocation::choose(64 << 20, &[1 << 16], &[1 << 16]), RecordLocation::Chunk);
        assert_eq!(RecordLocation::choose(64 << 20, &[1 << 30], &[1 << 30]), RecordLocation::Chunk);
    }

    #[test]
    fn too_many_large_numbers_are_refused() {
        let stub = stub(RecordLocation::Attribute, &[u64::MAX; 32]);
        assert_eq!(stub.encode().unwrap_err().kind(), ErrorKind::Limit);
    }

    #[test]
    fn id_forms() {
        let id = LiveId::random().unwrap();
        assert_eq!(LiveId::from_hex(&id.to_hex()), Some(id));
        assert_eq!(LiveId([0x12; 16]).to_words(), [0x1212_1212; 4]);
        assert_eq!(LiveId::from_hex("+1"), None);
    }
}
