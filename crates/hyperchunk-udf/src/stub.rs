//! The stub: what a chunk of a live dataset holds in the file instead of data.
//!
//! Layout (version 1), see `docs/formats/live-dataset.md`:
//!
//! | bytes | field |
//! |---|---|
//! | 4 | `HCLD` |
//! | 1 | version, 1 |
//! | 1 | rank |
//! | 2 | reserved, 0 |
//! | 16 | id of the live dataset |
//! | 16 | first half of the SHA-256 of the record |
//! | rank × (1–10) | chunk number along each dimension, LEB128 |
//! | 4 | start of the SHA-256 of all bytes before |

use crate::error::{Error, ErrorKind, Result, fail};
use crate::legacy;
use sha2::{Digest, Sha256};

const MAGIC: &[u8; 4] = b"HCLD";
const VERSION: u8 = 1;
const FIXED: usize = 40;
const CHECK: usize = 4;
/// No stub is longer.
pub const MAX_STUB: usize = 128;
/// HDF5's own limit on the rank of a dataspace.
pub const MAX_RANK: usize = 32;

/// The identity of a live dataset: random, made when it is attached, kept when it is renamed or copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LiveId(pub [u8; 16]);

/// The first half of the SHA-256 of a record's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RecordDigest(pub [u8; 16]);

impl RecordDigest {
    /// The digest of a record as it lies in the file.
    pub fn of(record: &[u8]) -> Self {
        RecordDigest(head(&Sha256::digest(record)))
    }
}

impl LiveId {
    /// A new random id.
    ///
    /// # Errors
    /// `Io` when the system has no random numbers.
    pub fn random() -> Result<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|e| Error::new(ErrorKind::Io, format!("random numbers: {e}")))?;
        Ok(LiveId(bytes))
    }

    /// As 32 hexadecimal digits.
    pub fn to_hex(self) -> String {
        self.0.iter().map(|b| format!("{b:02x}")).collect()
    }

    /// From 32 hexadecimal digits.
    pub fn from_hex(text: &str) -> Option<Self> {
        if text.len() != 32 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
            return None;
        }
        let value = u128::from_str_radix(text, 16).ok()?;
        Some(LiveId(value.to_be_bytes()))
    }

    /// As the client data of the HDF5 filter, after the version word.
    pub fn to_words(self) -> [u32; 4] {
        let v = u128::from_be_bytes(self.0);
        [96, 64, 32, 0].map(|shift| {
            #[expect(clippy::cast_possible_truncation, reason = "each word takes its own 32 bits")]
            let word = (v >> shift) as u32;
            word
        })
    }
}

/// One chunk's stub.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stub {
    /// The live dataset.
    pub id: LiveId,
    /// Its record.
    pub record: RecordDigest,
    /// The number of the chunk along each dimension (its offset divided by the chunk's shape).
    pub chunk: Vec<u64>,
}

impl Stub {
    /// The bytes to store.
    ///
    /// # Errors
    /// `Limit` when they are more than [`MAX_STUB`].
    pub fn encode(&self) -> Result<Vec<u8>> {
        let Ok(rank) = u8::try_from(self.chunk.len()) else {
            fail!(Limit, "rank {} is over 32", self.chunk.len())
        };
        let mut out = Vec::with_capacity(64);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&[VERSION, rank, 0, 0]);
        out.extend_from_slice(&self.id.0);
        out.extend_from_slice(&self.record.0);
        for &n in &self.chunk {
            leb128(n, &mut out);
        }
        let check: [u8; CHECK] = head(&Sha256::digest(&out));
        out.extend_from_slice(&check);
        if out.len() > MAX_STUB {
            fail!(
                Limit,
                "the stub of chunk {:?} needs {} bytes, over the limit of {MAX_STUB}",
                self.chunk,
                out.len()
            )
        }
        Ok(out)
    }

    /// The stub in `bytes`, which must hold exactly one.
    ///
    /// # Errors
    /// `Unsupported` when it is no stub of ours or of a later version, `Invalid` when it is damaged.
    pub fn parse(bytes: &[u8]) -> Result<Self> {
        if legacy::is_legacy(bytes) {
            fail!(Unsupported, "the chunk holds a function of HDF5-UDF, which is not a stub of ours")
        }
        let Some(rest) = bytes.strip_prefix(MAGIC.as_slice()) else {
            fail!(Unsupported, "the chunk does not hold a live dataset's stub")
        };
        let (Some((&[version, rank, r0, r1], _)), Some((body, check))) =
            (rest.split_first_chunk::<4>(), bytes.split_last_chunk::<CHECK>())
        else {
            fail!(Invalid, "the stub is cut short: {} bytes", bytes.len())
        };
        if version != VERSION {
            fail!(Unsupported, "stub version {version} is newer than this version of hyperchunk")
        }
        if bytes.len() > MAX_STUB || usize::from(rank) > MAX_RANK || (r0, r1) != (0, 0) {
            fail!(Invalid, "the stub is damaged")
        }
        if *check != head::<CHECK>(&Sha256::digest(body)) {
            fail!(Invalid, "the stub is damaged: its checksum does not match")
        }
        let (Some(id), Some(record), Some(mut numbers)) = (
            body.get(8..24).and_then(|b| b.first_chunk()),
            body.get(24..FIXED).and_then(|b| b.first_chunk()),
            body.get(FIXED..),
        ) else {
            fail!(Invalid, "the stub is cut short: {} bytes", bytes.len())
        };
        let mut chunk = Vec::with_capacity(usize::from(rank));
        for _ in 0..rank {
            let Some(n) = take_leb128(&mut numbers) else {
                fail!(Invalid, "the stub's chunk number is damaged")
            };
            chunk.push(n);
        }
        if !numbers.is_empty() {
            fail!(Invalid, "the stub has {} bytes too many", numbers.len())
        }
        Ok(Stub { id: LiveId(*id), record: RecordDigest(*record), chunk })
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

#[cfg(test)]
mod tests {
    use super::*;

    fn check(chunk: &[u64]) {
        let stub = Stub { id: LiveId([7; 16]), record: RecordDigest::of(b"{}"), chunk: chunk.to_vec() };
        let bytes = stub.encode().unwrap();
        assert!(bytes.len() <= MAX_STUB);
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
            check(chunk);
        }
    }

    #[test]
    fn too_many_large_numbers_are_refused() {
        let stub = Stub { id: LiveId([0; 16]), record: RecordDigest::of(b""), chunk: vec![u64::MAX; 32] };
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
