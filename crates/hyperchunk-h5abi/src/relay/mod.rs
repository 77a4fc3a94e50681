//! Files over a network for libhdf5. A plugin must not load a network stack, so a separate process,
//! `hyperchunk relay`, reads ranges of files and sends them over a socket.
//!
//! Each message is a [`Header`], followed by `length` bytes for the kinds that have a body. The relay sends
//! [`HELLO`] at once. The client sends [`OPEN`] with a URL and a file number that it chooses; the relay
//! answers with [`OPENED`] or [`ERROR`]. The client then requests ranges with [`READ`]; the relay answers
//! each with any number of [`DATA`] messages, in any order, and [`END`] or [`ERROR`]. [`CLOSE`] is not
//! answered. Closing the socket ends the relay.

mod client;
mod readahead;
mod serve;

pub(crate) use client::{Failure, ReadPurpose, Relay};
pub use serve::serve;

use std::io::{self, Read, Write};

/// The version of the protocol, sent in the hello's `offset`.
const VERSION: u64 = 1;

/// The header of every message; integers are little-endian.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Header {
    kind: u32,
    /// For a [`READ`]: 0 for structure, 1 for data. For an [`ERROR`]: the system's error number, or 0.
    detail: u32,
    /// The request's number.
    id: u64,
    /// The file's number.
    file: u64,
    /// The offset in the file; for [`OPENED`], the file's size.
    offset: u64,
    /// Number of bytes that follow; for [`READ`], number of bytes requested.
    length: u64,
}

/// From the relay, as the first message.
const HELLO: u32 = 1;
/// To the relay; a URL follows.
const OPEN: u32 = 2;
/// From the relay: the identity of this version of the file follows.
const OPENED: u32 = 3;
/// To the relay.
const READ: u32 = 4;
/// From the relay: bytes of the range follow.
const DATA: u32 = 5;
/// From the relay: all pieces were sent.
const END: u32 = 6;
/// From the relay: a message follows.
const ERROR: u32 = 7;

/// To the relay: the file is not needed any more.
const CLOSE: u32 = 8;

/// Maximum length of a URL, identity or message, in bytes.
const MAX_TEXT_BYTES: u64 = 64 << 10;

impl Header {
    const BYTES: usize = 40;

    fn new(kind: u32, id: u64) -> Self {
        Self { kind, detail: 0, id, file: 0, offset: 0, length: 0 }
    }

    fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        let parts = [
            u64::from(self.kind) | (u64::from(self.detail) << 32),
            self.id,
            self.file,
            self.offset,
            self.length,
        ];
        for (place, part) in bytes.chunks_exact_mut(8).zip(parts) {
            place.copy_from_slice(&part.to_le_bytes());
        }
        bytes
    }

    fn from_bytes(bytes: [u8; Self::BYTES]) -> Self {
        let mut parts = bytes
            .chunks_exact(8)
            .map(|part| part.iter().rev().fold(0, |n, byte| (n << 8) | u64::from(*byte)));
        let mut next = || parts.next().unwrap_or(0);
        let first = next();
        let half = |number: u64| u32::try_from(number & u64::from(u32::MAX)).unwrap_or(0);
        Self {
            kind: half(first),
            detail: half(first >> 32),
            id: next(),
            file: next(),
            offset: next(),
            length: next(),
        }
    }

    fn send(self, to: &mut impl Write, body: &[u8]) -> io::Result<()> {
        let header = self.to_bytes();
        let mut parts = [io::IoSlice::new(&header), io::IoSlice::new(body)];
        let mut parts = &mut parts[..];
        while !parts.is_empty() {
            match to.write_vectored(parts) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(sent) => io::IoSlice::advance_slices(&mut parts, sent),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            while parts.first().is_some_and(|part| part.is_empty()) {
                parts = parts.get_mut(1..).unwrap_or_default();
            }
        }
        Ok(())
    }

    fn receive(from: &mut impl Read) -> io::Result<Self> {
        let mut bytes = [0; Self::BYTES];
        from.read_exact(&mut bytes)?;
        Ok(Self::from_bytes(bytes))
    }

    /// Reads the text that follows.
    fn text(&self, from: &mut impl Read) -> io::Result<String> {
        if self.length > MAX_TEXT_BYTES {
            return Err(io::Error::new(io::ErrorKind::InvalidData, "the text is too long"));
        }
        let mut bytes = vec![0; usize::try_from(self.length).unwrap_or(0)];
        from.read_exact(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }
}

/// Returns a text with its length, truncated if it is too long.
fn truncate_text(text: &str) -> (u64, &[u8]) {
    let bytes = text.as_bytes();
    let bytes = bytes.get(..usize::try_from(MAX_TEXT_BYTES).unwrap_or(0)).unwrap_or(bytes);
    (bytes.len() as u64, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_back() {
        let header = Header { kind: READ, detail: 7, id: u64::MAX, file: 9, offset: 1 << 40, length: 3 };
        let mut sent = Vec::new();
        header.send(&mut sent, b"abc").unwrap();
        assert_eq!(sent.len(), Header::BYTES + 3);
        let mut from = sent.as_slice();
        assert_eq!(Header::receive(&mut from).unwrap(), header);
        assert_eq!(header.text(&mut from).unwrap(), "abc");
        let huge = Header { length: MAX_TEXT_BYTES + 1, ..header };
        assert!(huge.text(&mut io::repeat(0)).is_err());
        assert!(Header::receive(&mut &sent[..39]).is_err());
    }
}
