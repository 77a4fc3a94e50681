//! The fixed parts of a log: what it begins with, and what says that it is whole.

use super::bytes::Out;
use super::id::{Session, StoreId, WriterId};
use crate::{Error, ErrorKind, Result};
use hyperchunk_format::Cursor;
use twox_hash::XxHash3_64;

const MAGIC: [u8; 8] = *b"HCLOG\r\n\x01";
const TRAILER: [u8; 4] = *b"HCT\x01";
/// How long a log's header is.
pub(super) const HEADER: usize = 128;
/// How long a trailer is.
pub(super) const TRAILER_SIZE: usize = 64;

const TRUNCATES: u32 = 1;
const EDITS_SKELETON: u32 = 2;
const FAILED: u32 = 4;
const CLOSED: u32 = 1;

/// What a log says of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogHeader {
    /// Whose log it is.
    pub writer: WriterId,
    /// Which store it belongs to; zeros where that was not known yet.
    pub store: StoreId,
    /// Which processes the writer belongs together with.
    pub session: Session,
    /// What epochs up to this one have is not to be seen any more: the writer, or the one that it joined, began the file anew.
    pub floor: u64,
    /// The epoch that the writer saw; 0 for none.
    pub base: u64,
    /// Between writers of one epoch, the higher one's data lie over the others'.
    pub priority: i32,
    /// The number of its process on its machine.
    pub process: u32,
    /// When it began, in nanoseconds since 1970. For people: nothing is decided by it.
    pub started: u64,
    /// Where its process number counts: the boot of its machine and its process namespace, hashed; 0 if that is not known.
    pub place: u64,
    /// Whether it began the file anew.
    pub truncates: bool,
    /// Whether its image began as a copy of the base epoch's skeleton: links and attributes of the base that are missing in
    /// the image were deleted. Other images hold additions only, and delete nothing.
    pub edits_skeleton: bool,
    /// Whether its writer could not write something: what it was given then is missing.
    pub failed: bool,
}

impl LogHeader {
    pub(super) fn encode(&self) -> [u8; HEADER] {
        let mut out = Out::default();
        out.bytes(&MAGIC);
        out.bytes(&self.writer.0);
        out.bytes(&self.store.0);
        out.bytes(&self.session.0);
        out.u64(self.floor);
        out.u64(self.base);
        out.u32(self.priority.cast_unsigned());
        out.u32(self.process);
        out.u64(self.started);
        let flags =
            [(self.truncates, TRUNCATES), (self.edits_skeleton, EDITS_SKELETON), (self.failed, FAILED)];
        out.u32(flags.iter().filter(|(set, _)| *set).map(|(_, flag)| flag).sum());
        out.u64(self.place);
        let mut bytes = [0; HEADER];
        bytes[..out.0.len()].copy_from_slice(&out.0);
        let checksum = XxHash3_64::oneshot(&bytes[..HEADER - 8]);
        bytes[HEADER - 8..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self> {
        let wrong = |message| Error::new(ErrorKind::Corrupt, message).within("log header").at(0);
        let Some(bytes) = bytes.first_chunk::<HEADER>() else { return Err(wrong("it is cut off")) };
        let mut cursor = Cursor::new(bytes, "log header", 0);
        if cursor.array()? != MAGIC {
            return Err(wrong("this is no log of a store, or of a later version"));
        }
        let (body, checksum) = bytes.split_at(HEADER - 8);
        if XxHash3_64::oneshot(body).to_le_bytes() != checksum {
            return Err(wrong("its checksum does not hold"));
        }
        let mut header = Self {
            writer: WriterId(cursor.array()?),
            store: StoreId(cursor.array()?),
            session: Session(cursor.array()?),
            floor: cursor.u64()?,
            base: cursor.u64()?,
            priority: cursor.u32()?.cast_signed(),
            process: cursor.u32()?,
            started: cursor.u64()?,
            place: 0,
            truncates: false,
            edits_skeleton: false,
            failed: false,
        };
        let flags = cursor.u32()?;
        header.truncates = flags & TRUNCATES != 0;
        header.edits_skeleton = flags & EDITS_SKELETON != 0;
        header.failed = flags & FAILED != 0;
        header.place = cursor.u64()?;
        Ok(header)
    }
}

/// What follows an index: up to here, the log is whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Trailer {
    /// Where the index, the payload of its batch, begins.
    pub(super) index: u64,
    pub(super) length: u64,
    /// Where the trailer before it is; 0 for none.
    pub(super) previous: u64,
    /// xxh3 of the index.
    pub(super) hash: [u8; 16],
    /// The number of the next record.
    pub(super) next: u64,
    /// Whether the writer is done.
    pub(super) closed: bool,
}

impl Trailer {
    pub(super) fn encode(&self) -> [u8; TRAILER_SIZE] {
        let mut out = Out::default();
        out.bytes(&TRAILER);
        out.u32(if self.closed { CLOSED } else { 0 });
        out.u64(self.index);
        out.u64(self.length);
        out.u64(self.previous);
        out.bytes(&self.hash);
        out.u64(self.next);
        let checksum = XxHash3_64::oneshot(&out.0);
        out.u64(checksum);
        let mut bytes = [0; TRAILER_SIZE];
        bytes.copy_from_slice(&out.0);
        bytes
    }

    /// The trailer that these bytes are, if they are one.
    pub(super) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; TRAILER_SIZE] = bytes.try_into().ok()?;
        let (body, checksum) = bytes.split_at(TRAILER_SIZE - 8);
        let mut cursor = Cursor::new(body, "trailer", 0);
        if cursor.array().ok()? != TRAILER || XxHash3_64::oneshot(body).to_le_bytes() != checksum {
            return None;
        }
        let flags = cursor.u32().ok()?;
        Some(Self {
            index: cursor.u64().ok()?,
            length: cursor.u64().ok()?,
            previous: cursor.u64().ok()?,
            hash: cursor.array().ok()?,
            next: cursor.u64().ok()?,
            closed: flags & CLOSED != 0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_and_trailers_come_back_and_damage_is_seen() {
        let header = LogHeader {
            writer: WriterId::new(),
            store: StoreId::new(),
            session: Session::named("job"),
            floor: 1,
            base: 2,
            priority: -3,
            process: 4,
            started: 5,
            place: 6,
            truncates: true,
            edits_skeleton: true,
            failed: true,
        };
        let bytes = header.encode();
        assert_eq!(LogHeader::decode(&bytes).unwrap(), header);
        let trailer = Trailer { index: 1, length: 2, previous: 3, hash: [4; 16], next: 5, closed: true };
        let ending = trailer.encode();
        assert_eq!(Trailer::decode(&ending), Some(trailer));
        for at in 0..HEADER {
            let mut damaged = bytes;
            damaged[at] ^= 1;
            assert!(LogHeader::decode(&damaged).is_err());
        }
        for at in 0..TRAILER_SIZE {
            let mut damaged = ending;
            damaged[at] ^= 1;
            assert_eq!(Trailer::decode(&damaged), None);
        }
    }
}
