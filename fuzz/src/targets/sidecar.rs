//! Sidecar indexes, and the files that are read with them.

use super::whole::{self, Bounds, Summary};
use hyperchunk::index::{Index, IndexOption, Tables};
use hyperchunk::io::Source;
use hyperchunk::{Error, ErrorKind, ExternalPolicy, File, Limits, OpenOptions};
use sha2::{Digest as _, Sha256};
use std::io::Read as _;
use std::sync::Arc;

/// Where the header has the head's length, the whole length and the digest; the head begins behind it.
pub(super) const HEAD_SIZE_AT: usize = 12;
pub(super) const WHOLE_SIZE_AT: usize = 16;
const DIGEST_AT: usize = 24;
pub(super) const HEADER_BYTES: usize = 56;
/// The most bytes of a block that is stored as it is.
const MAX_BLOCK_BYTES: usize = 1 << 16;

/// A file in memory whose version can be told, as an object store tells it.
#[derive(Debug)]
struct Object(Vec<u8>);

impl Source for Object {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<(), Error> {
        let part = usize::try_from(offset).ok().and_then(|start| self.0.get(start..)?.get(..buffer.len()));
        let part = part.ok_or_else(|| Error::new(ErrorKind::Truncated, "the file ends"))?;
        buffer.copy_from_slice(part);
        Ok(())
    }

    fn version(&self) -> Option<String> {
        Some("v".into())
    }
}

fn open(file: &[u8], index: IndexOption) -> Result<File, Error> {
    let mut options = OpenOptions::default();
    options.threads = 1;
    options.external = ExternalPolicy::Never;
    options.index = index;
    File::from_source(Arc::new(Object(file.to_vec())), None, &options)
}

/// Four bytes that say how long a file is, the file, and an index of it: what is damaged there is what a stranger might have
/// written on purpose, with digests that are right.
pub fn sidecar(data: &[u8]) {
    drop(read(data));
}

/// What came of reading the file with the index, if that could be opened.
pub fn read(data: &[u8]) -> Option<Summary> {
    let (length, rest) = data.split_first_chunk::<4>()?;
    let (file, index) = rest.split_at_checked(u32::from_le_bytes(*length) as usize)?;
    let mut index = index.to_vec();
    seal(&mut index);
    let index = Index::open(index, "index", &Limits::default()).ok()?;
    assert!(!index.is_empty() && index.len() < data.len());
    for offset in (0..file.len() as u64).step_by(97).chain([u64::MAX]) {
        for length in [0, 1, 40, usize::MAX] {
            if let Ok(Some(bytes)) = index.bytes(offset, length) {
                assert_eq!(bytes.len(), length);
            }
        }
        drop(index.chunks(offset, &[2, 3], u64::MAX));
    }
    let file = open(file, IndexOption::Given(Arc::new(index))).ok()?;
    Some(whole::summarize_file(&file, Bounds { dataset: 1 << 20, total: 16 << 20 }))
}

/// Makes length and digest right.
pub(super) fn seal(index: &mut [u8]) {
    let whole = index.len() as u64;
    let Some((header, _)) = index.split_first_chunk_mut::<HEADER_BYTES>() else { return };
    header[WHOLE_SIZE_AT..DIGEST_AT].copy_from_slice(&whole.to_le_bytes());
    let length = header[HEAD_SIZE_AT..WHOLE_SIZE_AT].try_into().map_or(0, u32::from_le_bytes) as usize;
    let Some(head) = index.get(HEADER_BYTES..).and_then(|rest| rest.get(..length)) else { return };
    let digest = Sha256::new().chain_update(&index[..DIGEST_AT]).chain_update(head).finalize();
    index[DIGEST_AT..HEADER_BYTES].copy_from_slice(&digest);
}

/// A file and its index, as an input for the target; `None` if none can be made. The index's sections are stored as they are, so
/// that damage is not just damage of what was compressed.
#[must_use]
pub fn input(file: &[u8]) -> Option<Vec<u8>> {
    let built = Index::build(&open(file, IndexOption::Never).ok()?, &Tables::new()).ok()?.bytes;
    let mut input = u32::try_from(file.len()).ok()?.to_le_bytes().to_vec();
    input.extend_from_slice(file);
    let start = input.len();
    let length = u32::from_le_bytes(built.get(HEAD_SIZE_AT..WHOLE_SIZE_AT)?.try_into().ok()?) as usize;
    let (mut old, mut sections) = built.get(HEADER_BYTES..)?.split_at_checked(length)?;
    let mut head = Vec::new();
    let mut stored = Vec::new();
    // The size of the file, and the length of its version.
    let version = (0..2).map(|_| copy(&mut old, &mut head)).last()??;
    let (version, rest) = old.split_at_checked(usize::try_from(version).ok()?)?;
    head.extend_from_slice(version);
    old = rest;
    // Structure, then tables: two numbers, and how many bytes it has packed and unpacked.
    for _ in 0..2 {
        for _ in 0..copy(&mut old, &mut head)? {
            copy(&mut old, &mut head)?;
            copy(&mut old, &mut head)?;
            let packed = copy(&mut old, &mut Vec::new())?;
            let (section, rest) = sections.split_at_checked(usize::try_from(packed).ok()?)?;
            let mut bytes = Vec::new();
            zstd::stream::read::Decoder::new(section).ok()?.read_to_end(&mut bytes).ok()?;
            let plain = plain(&bytes)?;
            put(&mut head, plain.len() as u64);
            stored.extend_from_slice(&plain);
            sections = rest;
            copy(&mut old, &mut head)?;
        }
    }
    input.extend_from_slice(&built[..HEADER_BYTES]);
    input[start + HEAD_SIZE_AT..start + WHOLE_SIZE_AT]
        .copy_from_slice(&u32::try_from(head.len()).ok()?.to_le_bytes());
    input.extend_from_slice(&head);
    input.extend_from_slice(&stored);
    seal(&mut input[start..]);
    Some(input)
}

/// Where the index begins in an input.
#[must_use]
pub fn start(input: &[u8]) -> usize {
    input.first_chunk::<4>().map_or(0, |length| 4 + u32::from_le_bytes(*length) as usize)
}

/// A number, seven bits a byte, which is put into `to` as well.
pub(super) fn copy(from: &mut &[u8], to: &mut Vec<u8>) -> Option<u64> {
    let mut number = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = from.split_first()?;
        *from = rest;
        to.push(*byte);
        number |= u64::from(byte & 0x7f) << shift;
        if *byte < 0x80 {
            return Some(number);
        }
    }
    None
}

pub(super) fn put(to: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        to.push(number as u8 | 0x80);
        number >>= 7;
    }
    to.push(number as u8);
}

/// A frame of Zstandard with these bytes as they are, and no checksum.
pub(super) fn plain(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0xa0];
    frame.extend_from_slice(&u32::try_from(bytes.len()).ok()?.to_le_bytes());
    let mut blocks = bytes.chunks(MAX_BLOCK_BYTES).peekable();
    loop {
        let block = blocks.next().unwrap_or_default();
        let last = blocks.peek().is_none();
        let header = (block.len() as u32) << 3 | u32::from(last);
        frame.extend_from_slice(&header.to_le_bytes()[..3]);
        frame.extend_from_slice(block);
        if last {
            return Some(frame);
        }
    }
}
