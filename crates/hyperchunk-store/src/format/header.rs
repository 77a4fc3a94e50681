//! Parts of fixed size of a log: its header, and the trailers that confirm flushes.

use super::id::{Session, StoreId, WriterId};
use crate::format::varint::Out;
use hyperchunk::{Error, ErrorKind, Result};
use hyperchunk_format::Cursor;
use twox_hash::XxHash3_64;

const MAGIC: [u8; 8] = *b"HCLOG\r\n\x01";
const TRAILER_MAGIC: [u8; 4] = *b"HCT\x01";
/// Size of a log's header in bytes.
pub(crate) const HEADER_BYTES: usize = 128;
/// Size of a trailer in bytes.
pub(crate) const TRAILER_BYTES: usize = 64;

const TRUNCATES_FLAG: u32 = 1;
const EDITS_SKELETON_FLAG: u32 = 2;
const FAILED_FLAG: u32 = 4;
const CLOSED_FLAG: u32 = 1;

/// Header of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogHeader {
    /// Writer of the log.
    pub writer: WriterId,
    /// Store that it belongs to; zeros if that was not known yet.
    pub store: StoreId,
    /// Session of the writer.
    pub session: Session,
    /// Epochs up to this one are invisible once this log is committed: the writer, or the one that
    /// it joined, truncated the file.
    pub floor: u64,
    /// Epoch that the writer started from; 0 for none.
    pub base: u64,
    /// Priority between writers of one epoch: data of the higher one take precedence.
    pub priority: i32,
    /// Process id on its machine.
    pub process: u32,
    /// Start time in nanoseconds since 1970: of two writers of one epoch and priority, the later one
    /// covers the other.
    pub started: u64,
    /// Scope of the process id: hash of the machine's boot id and the process namespace; 0 if
    /// unknown.
    pub place: u64,
    /// Number of writers that form the session; 0 if unknown.
    pub writers: u32,
    /// True if the writer truncated the file.
    pub truncates: bool,
    /// True if its image began as a copy of the base epoch's skeleton: links and attributes of the
    /// base that the image lacks were deleted. Other images only add, and delete nothing.
    pub edits_skeleton: bool,
    /// True if some of the writer's data could not be written, and are missing.
    pub failed: bool,
}

impl LogHeader {
    pub(crate) fn encode(&self) -> [u8; HEADER_BYTES] {
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
        let flags = [
            (self.truncates, TRUNCATES_FLAG),
            (self.edits_skeleton, EDITS_SKELETON_FLAG),
            (self.failed, FAILED_FLAG),
        ];
        out.u32(flags.iter().filter(|(set, _)| *set).map(|(_, flag)| flag).sum());
        out.u64(self.place);
        out.u32(self.writers);
        let mut bytes = [0; HEADER_BYTES];
        bytes[..out.0.len()].copy_from_slice(&out.0);
        let checksum = XxHash3_64::oneshot(&bytes[..HEADER_BYTES - 8]);
        bytes[HEADER_BYTES - 8..].copy_from_slice(&checksum.to_le_bytes());
        bytes
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        let wrong = |message| Error::new(ErrorKind::Corrupt, message).within("log header").at(0);
        let Some(bytes) = bytes.first_chunk::<HEADER_BYTES>() else { return Err(wrong("it is cut off")) };
        let mut cursor = Cursor::new(bytes, "log header", 0);
        if cursor.array()? != MAGIC {
            return Err(wrong("this is not a log of a store, or its format is of a later version"));
        }
        let (body, checksum) = bytes.split_at(HEADER_BYTES - 8);
        if XxHash3_64::oneshot(body).to_le_bytes() != checksum {
            return Err(wrong("its checksum does not match"));
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
            writers: 0,
            truncates: false,
            edits_skeleton: false,
            failed: false,
        };
        let flags = cursor.u32()?;
        header.truncates = flags & TRUNCATES_FLAG != 0;
        header.edits_skeleton = flags & EDITS_SKELETON_FLAG != 0;
        header.failed = flags & FAILED_FLAG != 0;
        header.place = cursor.u64()?;
        header.writers = cursor.u32()?;
        Ok(header)
    }
}

/// Block of fixed size after each index; it confirms that the log is complete up to here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trailer {
    /// Offset of the index in the log.
    pub(crate) index: u64,
    /// Size of the index in bytes.
    pub(crate) length: u64,
    /// Offset of the previous trailer; 0 for none.
    pub(crate) previous: u64,
    /// 128-bit xxh3 of the index.
    pub(crate) hash: [u8; 16],
    /// Number that the first record after the trailer will have.
    pub(crate) next: u64,
    /// True if the writer is finished.
    pub(crate) closed: bool,
}

impl Trailer {
    pub(crate) fn encode(&self) -> [u8; TRAILER_BYTES] {
        let mut out = Out::default();
        out.bytes(&TRAILER_MAGIC);
        out.u32(if self.closed { CLOSED_FLAG } else { 0 });
        out.u64(self.index);
        out.u64(self.length);
        out.u64(self.previous);
        out.bytes(&self.hash);
        out.u64(self.next);
        let checksum = XxHash3_64::oneshot(&out.0);
        out.u64(checksum);
        let mut bytes = [0; TRAILER_BYTES];
        bytes.copy_from_slice(&out.0);
        bytes
    }

    /// Decodes a trailer; `None` if the bytes are not a valid one.
    pub(crate) fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; TRAILER_BYTES] = bytes.try_into().ok()?;
        let (body, checksum) = bytes.split_at(TRAILER_BYTES - 8);
        let mut cursor = Cursor::new(body, "trailer", 0);
        if cursor.array().ok()? != TRAILER_MAGIC || XxHash3_64::oneshot(body).to_le_bytes() != checksum {
            return None;
        }
        let flags = cursor.u32().ok()?;
        Some(Self {
            index: cursor.u64().ok()?,
            length: cursor.u64().ok()?,
            previous: cursor.u64().ok()?,
            hash: cursor.array().ok()?,
            next: cursor.u64().ok()?,
            closed: flags & CLOSED_FLAG != 0,
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
            writers: 7,
            truncates: true,
            edits_skeleton: true,
            failed: true,
        };
        let bytes = header.encode();
        assert_eq!(LogHeader::decode(&bytes).unwrap(), header);
        let trailer = Trailer { index: 1, length: 2, previous: 3, hash: [4; 16], next: 5, closed: true };
        let ending = trailer.encode();
        assert_eq!(Trailer::decode(&ending), Some(trailer));
        for at in 0..HEADER_BYTES {
            let mut damaged = bytes;
            damaged[at] ^= 1;
            assert!(LogHeader::decode(&damaged).is_err());
        }
        for at in 0..TRAILER_BYTES {
            let mut damaged = ending;
            damaged[at] ^= 1;
            assert_eq!(Trailer::decode(&damaged), None);
        }
    }
}
