//! Journal of a local file, in the same folder until the file is closed. With it, data that a killed writer
//! has written completely can be recovered.
//!
//! Data are written first, then the entry that refers to them; they are overwritten only after another entry
//! has replaced it. An entry consists of its length, a checksum and its bytes; the first incomplete entry
//! ends the journal.

use super::chunks::NewChunk;
use super::commit_mark::{CommitMark, ReplacedMark};
use super::options::NewLayout;
use super::tree::{NewLink, NodeId};
use crate::io::journal_path;
use crate::io::local::EXISTS;
use crate::os;
use crate::output::Folder;
use crate::{Error, ErrorKind, Limits, Result};
use hyperchunk_format::checksum::lookup3;
use hyperchunk_format::encode::{LibVersion, message as encode, virtual_layout};
use hyperchunk_format::model::{
    Attribute, CharacterSet, Dataspace, Datatype, ExternalFile, FillValue, Name, Pipeline,
};
use hyperchunk_format::parse::message as parse;
use hyperchunk_format::parse::virtual_layout::parse as parse_mappings;
use hyperchunk_format::{Blocks, Cursor, Fuel, Image, Sizes};
use std::fs::File;
use std::io::{Seek as _, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Signature of a journal.
pub(super) const MAGIC: &[u8; 16] = b"Hyperchunk jrnl3";
/// Signature of journals of earlier releases, which have no entries for commits.
pub(super) const UNMARKED_MAGIC: &[u8; 16] = b"Hyperchunk jrnl2";
/// Maximum size of an entry, in bytes.
const MAX_ENTRY_BYTES: usize = 1 << 30;
/// Maximum number of chunks in an entry.
const MAX_ENTRY_CHUNKS: usize = 1 << 16;
const SIZES: Sizes = Sizes { address: 8, length: 8 };

/// A journalled operation.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Entry {
    /// A new group. New objects are numbered in order.
    Group {
        track_order: bool,
    },
    Datatype(Datatype),
    Dataset(Box<NewDataset>),
    Link {
        group: NodeId,
        name: Name,
        target: NewLink,
    },
    Unlink {
        group: NodeId,
        name: Name,
    },
    Attribute {
        object: NodeId,
        attribute: Attribute,
    },
    NoAttribute {
        object: NodeId,
        name: Name,
    },
    Comment {
        object: NodeId,
        comment: Option<Name>,
    },
    RootOrder(bool),
    Pinned {
        object: NodeId,
        address: u64,
    },
    Resized {
        object: NodeId,
        dims: Vec<u64>,
    },
    /// Chunks of one dataset, stored contiguously.
    Chunks(Vec<PlacedChunk>),
    /// Contiguous data were allocated.
    Begins {
        object: NodeId,
        address: u64,
    },
    /// Bytes of contiguous data were written.
    Wrote {
        object: NodeId,
        first: u64,
        length: u64,
        digest: u64,
    },
    /// Data of a compact dataset.
    Compact {
        object: NodeId,
        data: Vec<u8>,
    },
    /// Size of the user block.
    UserBlock(u64),
    /// A commit; written before its superblock.
    Commit(CommitMark),
    /// File that the new one will replace.
    Replaces(ReplacedMark),
    /// Damaged chunk that a recovery has omitted.
    Lost {
        object: NodeId,
        scaled: Box<[u64]>,
    },
}

/// A new dataset.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct NewDataset {
    pub(super) datatype: Datatype,
    pub(super) committed: Option<u64>,
    pub(super) dataspace: Dataspace,
    pub(super) layout: NewLayout,
    pub(super) pipeline: Pipeline,
    pub(super) fill: FillValue,
    pub(super) track_order: bool,
}

/// A stored chunk.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct PlacedChunk {
    pub(super) object: NodeId,
    pub(super) scaled: Box<[u64]>,
    pub(super) address: u64,
    pub(super) size: u64,
    pub(super) mask: u32,
    pub(super) digest: u64,
}

/// Computes a digest that detects lost disk blocks. It uses a sample of the bytes of each block of 512 bytes.
pub(super) fn digest(bytes: &[u8]) -> u64 {
    let mut state = bytes.len() as u64;
    let mut mix = |line: &[u8]| {
        let mut add = |word: [u8; 8]| {
            state = (state ^ u64::from_le_bytes(word)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(31);
        };
        let (words, rest) = line.as_chunks();
        words.iter().for_each(|word| add(*word));
        if !rest.is_empty() {
            let mut last = [0; 8];
            last[..rest.len()].copy_from_slice(rest);
            add(last);
        }
    };
    for block in bytes.chunks(512) {
        mix(&block[..block.len().min(16)]);
    }
    mix(&bytes[bytes.len().saturating_sub(64)..]);
    state
}

/// Journal of a file that is being written.
#[derive(Debug)]
pub(super) struct Journal {
    state: Mutex<State>,
    folder: Folder,
    path: PathBuf,
}

#[derive(Debug)]
struct State {
    /// `None` if the journal has been deleted.
    file: Option<File>,
    /// End of the last complete entry.
    end: u64,
    /// True if an incomplete entry follows, which must be removed before others are appended.
    torn: bool,
}

impl Journal {
    /// Creates the journal of a file.
    pub(super) fn create(file: &Path) -> Result<Self> {
        let path = journal_path(file);
        let refused = |error: std::io::Error| {
            let kind = match error.kind() {
                std::io::ErrorKind::NotFound => ErrorKind::NotFound,
                _ => ErrorKind::Io,
            };
            Error::new(kind, format!("cannot create the file and its journal: {error}"))
                .caused_by(&error)
                .file(file.display())
        };
        let (folder, name) = Folder::open_parent(&path).map_err(refused)?;
        // Readable by the user only: the journal has content of the file, whose permissions may be stricter.
        let mut journal = folder.create(&name, os::APPEND, 0o600).map_err(|error| match error.kind() {
            std::io::ErrorKind::AlreadyExists => Error::new(
                ErrorKind::Io,
                format!(
                    "{} is there: another program writes this file, or one was killed while it did; \
                     `hyperchunk recover {}` gets back what is whole, and deleting it gives that up",
                    path.display(),
                    file.display()
                ),
            )
            .with_os_code(EXISTS)
            .file(file.display()),
            _ => refused(error),
        })?;
        journal.try_lock().map_err(|_| busy(&path))?;
        // Before it was locked, `recover` may have considered it abandoned, and deleted it.
        if !folder.is_at(&name, &journal) {
            return Err(busy(&path));
        }
        if let Err(error) = journal.write_all(MAGIC) {
            // Without its signature, the journal is useless.
            drop(folder.remove(&name));
            return Err(refused(error));
        }
        let state = State { file: Some(journal), end: MAGIC.len() as u64, torn: false };
        Ok(Self { state: Mutex::new(state), folder, path })
    }

    /// Appends entries with one system call; with `sync`, syncs them to disk. On failure, none is appended.
    pub(super) fn add(&self, entries: &[Entry], sync: bool) -> Result<()> {
        let mut bytes = Vec::new();
        for entry in entries {
            framed(&mut bytes, |bytes| entry.encode(bytes))?;
        }
        self.append(&bytes, sync)
    }

    /// Appends an entry for chunks that are stored contiguously.
    pub(super) fn add_chunks(
        &self,
        object: NodeId,
        chunks: &[NewChunk<'_>],
        address: u64,
        sync: bool,
    ) -> Result<()> {
        let rank = chunks.first().map_or(0, |(scaled, ..)| scaled.len());
        let mut bytes = Vec::with_capacity(64 + chunks.len() * (20 + 8 * rank));
        let mut next = address;
        for chunks in chunks.chunks(MAX_ENTRY_CHUNKS) {
            framed(&mut bytes, |bytes| {
                head(bytes, object, rank, chunks.len(), next);
                for (scaled, data, mask) in chunks {
                    chunk(bytes, scaled, data.len() as u64, *mask, digest(data));
                    next += data.len() as u64;
                }
                Ok(())
            })?;
        }
        self.append(&bytes, sync)
    }

    fn append(&self, bytes: &[u8], sync: bool) -> Result<()> {
        let refused = |error: std::io::Error| {
            Error::new(ErrorKind::Io, format!("cannot write the journal: {error}"))
                .caused_by(&error)
                .file(self.path.display())
        };
        let mut state = self.state();
        let State { file, end, torn } = &mut *state;
        let Some(file) = file else {
            return Err(
                Error::invalid("cannot write the journal: the file is complete").file(self.path.display())
            );
        };
        if *torn {
            // Removes the incomplete entry: an earlier attempt failed, for instance because the disk was
            // full.
            file.set_len(*end).map_err(refused)?;
            file.seek(SeekFrom::Start(*end)).map_err(refused)?;
            *torn = false;
        }
        let written = file.write_all(bytes).and_then(|()| if sync { file.sync_data() } else { Ok(()) });
        if let Err(error) = written {
            // An incomplete entry ends the journal, so it must be removed before others are appended.
            *torn = file.set_len(*end).is_err();
            return Err(refused(error));
        }
        *end += bytes.len() as u64;
        Ok(())
    }

    /// Continues a journal after its last complete entry, which ends at `end`.
    pub(super) fn resume(mut file: File, (folder, path): (Folder, PathBuf), mut end: u64) -> Result<Self> {
        if end < MAGIC.len() as u64 {
            end = MAGIC.len() as u64;
            let begun = file.set_len(0).and_then(|()| file.rewind()).and_then(|()| file.write_all(MAGIC));
            begun.map_err(|error| {
                Error::new(ErrorKind::Io, format!("cannot write the journal: {error}"))
                    .caused_by(&error)
                    .file(path.display())
            })?;
        }
        let state = State { file: Some(file), end, torn: true };
        Ok(Self { state: Mutex::new(state), folder, path })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Redirects the journal to another file; returns the previous one.
    #[cfg(test)]
    pub(super) fn redirect(&self, file: File) -> File {
        self.state().file.replace(file).unwrap()
    }

    /// Deletes the journal of a complete file. Does nothing if it has been deleted.
    pub(super) fn end(&self) -> Result<()> {
        let mut state = self.state();
        if state.file.is_none() {
            return Ok(());
        }
        self.folder.remove(self.path.file_name().unwrap_or_default()).map_err(|error| {
            Error::new(ErrorKind::Io, format!("cannot delete the journal: {error}")).file(self.path.display())
        })?;
        // On Windows, the name exists until the file is closed.
        state.file = None;
        Ok(())
    }
}

/// Deletes the journal of a file that could not be created; returns the error to report.
pub(super) fn delete_unstarted(error: Error, journal: Option<&Journal>) -> Error {
    match journal.map_or(Ok(()), Journal::end) {
        Ok(()) => error,
        Err(left) => {
            let name = left.file_name().unwrap_or_default();
            error.advise(format_args!(
                "then: {}; delete it, otherwise no file of that name can be created: {name}",
                left.message()
            ))
        }
    }
}

/// Returns the error for a journal that another program has locked.
pub(super) fn busy(path: &Path) -> Error {
    let message = "another program writes the file";
    Error::new(ErrorKind::Io, message).file(path.display())
}

/// Appends an entry: length, checksum, and the bytes that `body` appends.
fn framed(bytes: &mut Vec<u8>, body: impl FnOnce(&mut Vec<u8>) -> Result<()>) -> Result<()> {
    let start = bytes.len();
    bytes.extend_from_slice(&[0; 8]);
    body(bytes)?;
    let body = &bytes[start + 8..];
    let length = u32::try_from(body.len())
        .ok()
        .filter(|_| body.len() <= MAX_ENTRY_BYTES)
        .ok_or_else(|| Error::limit("the attribute or dataset is too large for the journal"))?;
    let checksum = lookup3(body);
    bytes[start..start + 4].copy_from_slice(&length.to_le_bytes());
    bytes[start + 4..start + 8].copy_from_slice(&checksum.to_le_bytes());
    Ok(())
}

/// Appends the start of an entry for chunks, the first of which is stored at `address`.
fn head(bytes: &mut Vec<u8>, object: NodeId, rank: usize, count: usize, address: u64) {
    bytes.push(12);
    [object.0 as u64, rank as u64, count as u64, address].into_iter().for_each(|value| number(bytes, value));
}

/// Appends one chunk.
fn chunk(bytes: &mut Vec<u8>, scaled: &[u64], size: u64, mask: u32, digest: u64) {
    scaled.iter().for_each(|value| number(bytes, *value));
    number(bytes, size);
    bytes.extend_from_slice(&mask.to_le_bytes());
    number(bytes, digest);
}

fn chunks(cursor: &mut Cursor<'_>) -> Result<Vec<PlacedChunk>> {
    let (object, rank, count, mut next) = (id(cursor)?, cursor.u64()?, cursor.u64()?, cursor.u64()?);
    if rank > 32 || count > MAX_ENTRY_CHUNKS as u64 {
        return Err(Error::corrupt(format!(
            "an entry of the journal with {count} chunks of {rank} dimensions"
        )));
    }
    let mut chunks = Vec::new();
    for _ in 0..count {
        let scaled = (0..rank).map(|_| cursor.u64()).collect::<Result<_>>()?;
        let (size, mask, digest) = (cursor.u64()?, cursor.u32()?, cursor.u64()?);
        chunks.push(PlacedChunk { object, scaled, address: next, size, mask, digest });
        next = next.checked_add(size).ok_or_else(|| Error::corrupt("a chunk ends beyond 2^64 - 1"))?;
    }
    Ok(chunks)
}

/// Appends bytes, preceded by their length.
fn put(bytes: &mut Vec<u8>, part: &[u8]) {
    bytes.extend_from_slice(&(part.len() as u64).to_le_bytes());
    bytes.extend_from_slice(part);
}

fn number(bytes: &mut Vec<u8>, value: u64) {
    bytes.extend_from_slice(&value.to_le_bytes());
}

fn numbers(bytes: &mut Vec<u8>, values: &[u64]) {
    number(bytes, values.len() as u64);
    values.iter().for_each(|value| number(bytes, *value));
}

fn taken<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8]> {
    let too_long = |_| Error::corrupt("a length exceeds the address space");
    let length = usize::try_from(cursor.u64()?).map_err(too_long)?;
    cursor.take(length)
}

fn part<'a>(cursor: &mut Cursor<'a>) -> Result<Cursor<'a>> {
    Ok(Cursor::new(taken(cursor)?, "journal", 0))
}

fn read_name(cursor: &mut Cursor<'_>) -> Result<Name> {
    taken(cursor).map(Name::from)
}

fn id(cursor: &mut Cursor<'_>) -> Result<NodeId> {
    let too_large = |_| Error::corrupt("an object's number exceeds the address space");
    let number = usize::try_from(cursor.u64()?).map_err(too_large)?;
    Ok(NodeId(number))
}

fn taken_numbers(cursor: &mut Cursor<'_>) -> Result<Vec<u64>> {
    let count = cursor.u64()?;
    if count > 32 {
        return Err(Error::corrupt(format!("{count} dimensions, expected at most 32")));
    }
    (0..count).map(|_| cursor.u64()).collect()
}

fn datatype(cursor: &mut Cursor<'_>) -> Result<Datatype> {
    parse::datatype::parse(&mut part(cursor)?, &Limits::default())
}

impl Entry {
    /// Returns the object that the entry changes, if it names one.
    pub(super) fn object(&self) -> Option<NodeId> {
        match self {
            Self::Attribute { object, .. }
            | Self::NoAttribute { object, .. }
            | Self::Comment { object, .. }
            | Self::Pinned { object, .. }
            | Self::Resized { object, .. }
            | Self::Begins { object, .. }
            | Self::Wrote { object, .. }
            | Self::Compact { object, .. }
            | Self::Lost { object, .. } => Some(*object),
            Self::Link { group, .. } | Self::Unlink { group, .. } => Some(*group),
            Self::Chunks(chunks) => chunks.first().map(|chunk| chunk.object),
            Self::Group { .. }
            | Self::Datatype(_)
            | Self::Dataset(_)
            | Self::RootOrder(_)
            | Self::UserBlock(_)
            | Self::Commit(_)
            | Self::Replaces(_) => None,
        }
    }

    fn encode(&self, bytes: &mut Vec<u8>) -> Result<()> {
        // The journal supports all content, whatever the format of the file.
        let newest = LibVersion::V200;
        match self {
            Self::Group { track_order } => bytes.extend_from_slice(&[1, u8::from(*track_order)]),
            Self::Datatype(datatype) => {
                bytes.push(2);
                put(bytes, &encode::datatype::encode(datatype, newest)?);
            }
            Self::Dataset(made) => {
                bytes.push(3);
                made.encode(bytes)?;
            }
            Self::Link { group, name, target } => {
                bytes.push(4);
                number(bytes, group.0 as u64);
                put(bytes, name.as_bytes());
                match target {
                    NewLink::Hard(id) => {
                        bytes.push(0);
                        number(bytes, id.0 as u64);
                    }
                    NewLink::Soft(path) => {
                        bytes.push(1);
                        put(bytes, path.as_bytes());
                    }
                    NewLink::External { file, path } => {
                        bytes.push(2);
                        put(bytes, file.as_bytes());
                        put(bytes, path.as_bytes());
                    }
                    NewLink::User { class, data } => {
                        bytes.extend([3, *class]);
                        put(bytes, data);
                    }
                }
            }
            Self::Unlink { group, name } => {
                bytes.push(5);
                number(bytes, group.0 as u64);
                put(bytes, name.as_bytes());
            }
            Self::Attribute { object, attribute } => {
                bytes.push(6);
                number(bytes, object.0 as u64);
                put(bytes, attribute.name.as_bytes());
                bytes.push(u8::from(attribute.charset == CharacterSet::Utf8));
                put(bytes, &encode::datatype::encode(&attribute.datatype, newest)?);
                number(bytes, attribute.committed.unwrap_or(u64::MAX));
                put(bytes, &encode::dataspace::encode(&attribute.dataspace)?);
                put(bytes, &attribute.data);
            }
            Self::NoAttribute { object, name } => {
                bytes.push(7);
                number(bytes, object.0 as u64);
                put(bytes, name.as_bytes());
            }
            Self::Comment { object, comment } => {
                bytes.push(8);
                number(bytes, object.0 as u64);
                bytes.push(u8::from(comment.is_some()));
                put(bytes, comment.as_ref().map(Name::as_bytes).unwrap_or_default());
            }
            Self::RootOrder(track) => bytes.extend_from_slice(&[9, u8::from(*track)]),
            Self::Pinned { object, address } => {
                bytes.push(10);
                number(bytes, object.0 as u64);
                number(bytes, *address);
            }
            Self::Resized { object, dims } => {
                bytes.push(11);
                number(bytes, object.0 as u64);
                numbers(bytes, dims);
            }
            Self::Chunks(placed) => {
                let Some(first) = placed.first() else { return Err(Error::invalid("entry without chunks")) };
                head(bytes, first.object, first.scaled.len(), placed.len(), first.address);
                for PlacedChunk { scaled, size, mask, digest, .. } in placed {
                    chunk(bytes, scaled, *size, *mask, *digest);
                }
            }
            Self::Begins { object, address } => {
                bytes.push(13);
                number(bytes, object.0 as u64);
                number(bytes, *address);
            }
            Self::Wrote { object, first, length, digest } => {
                bytes.push(14);
                number(bytes, object.0 as u64);
                [first, length, digest].into_iter().for_each(|value| number(bytes, *value));
            }
            Self::Compact { object, data } => {
                bytes.push(15);
                number(bytes, object.0 as u64);
                put(bytes, data);
            }
            Self::UserBlock(size) => {
                bytes.push(16);
                number(bytes, *size);
            }
            Self::Commit(mark) => {
                bytes.push(17);
                mark.encode(bytes);
            }
            Self::Replaces(mark) => {
                bytes.push(18);
                mark.encode(bytes);
            }
            Self::Lost { object, scaled } => {
                bytes.push(19);
                number(bytes, object.0 as u64);
                numbers(bytes, scaled);
            }
        }
        Ok(())
    }

    pub(super) fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        Ok(match cursor.u8()? {
            1 => Self::Group { track_order: cursor.u8()? != 0 },
            2 => Self::Datatype(datatype(cursor)?),
            3 => Self::Dataset(Box::new(NewDataset::decode(cursor)?)),
            4 => {
                let (group, name) = (id(cursor)?, read_name(cursor)?);
                let target = match cursor.u8()? {
                    0 => NewLink::Hard(id(cursor)?),
                    1 => NewLink::Soft(read_name(cursor)?),
                    3 => NewLink::User { class: cursor.u8()?, data: taken(cursor)?.to_vec() },
                    _ => NewLink::External { file: read_name(cursor)?, path: read_name(cursor)? },
                };
                Self::Link { group, name, target }
            }
            5 => Self::Unlink { group: id(cursor)?, name: read_name(cursor)? },
            6 => {
                let (object, name) = (id(cursor)?, read_name(cursor)?);
                let charset = if cursor.u8()? == 0 { CharacterSet::Ascii } else { CharacterSet::Utf8 };
                let datatype = datatype(cursor)?;
                let committed = Some(cursor.u64()?).filter(|address| *address != u64::MAX);
                let dataspace = parse::dataspace::parse(&mut part(cursor)?, SIZES)?;
                let data = taken(cursor)?.to_vec();
                let attribute =
                    Attribute { name, charset, datatype, committed, dataspace, data, creation_order: None };
                Self::Attribute { object, attribute }
            }
            7 => Self::NoAttribute { object: id(cursor)?, name: read_name(cursor)? },
            8 => {
                let object = id(cursor)?;
                let some = cursor.u8()? != 0;
                let comment = read_name(cursor)?;
                Self::Comment { object, comment: some.then_some(comment) }
            }
            9 => Self::RootOrder(cursor.u8()? != 0),
            10 => Self::Pinned { object: id(cursor)?, address: cursor.u64()? },
            11 => Self::Resized { object: id(cursor)?, dims: taken_numbers(cursor)? },
            12 => Self::Chunks(chunks(cursor)?),
            13 => Self::Begins { object: id(cursor)?, address: cursor.u64()? },
            14 => Self::Wrote {
                object: id(cursor)?,
                first: cursor.u64()?,
                length: cursor.u64()?,
                digest: cursor.u64()?,
            },
            15 => Self::Compact { object: id(cursor)?, data: taken(cursor)?.to_vec() },
            16 => Self::UserBlock(cursor.u64()?),
            17 => Self::Commit(CommitMark::decode(cursor)?),
            18 => Self::Replaces(ReplacedMark::decode(cursor)?),
            19 => Self::Lost { object: id(cursor)?, scaled: taken_numbers(cursor)?.into() },
            other => return Err(Error::corrupt(format!("unknown kind {other} of an entry in the journal"))),
        })
    }
}

impl NewDataset {
    fn encode(&self, bytes: &mut Vec<u8>) -> Result<()> {
        put(bytes, &encode::datatype::encode(&self.datatype, LibVersion::V200)?);
        number(bytes, self.committed.unwrap_or(u64::MAX));
        put(bytes, &encode::dataspace::encode(&self.dataspace)?);
        match &self.layout {
            NewLayout::Compact => bytes.push(0),
            NewLayout::Contiguous => bytes.push(1),
            NewLayout::Chunked(dims) => {
                bytes.push(2);
                numbers(bytes, dims);
            }
            NewLayout::External(files) => {
                bytes.push(3);
                number(bytes, files.len() as u64);
                for file in files {
                    put(bytes, file.name.as_bytes());
                    number(bytes, file.offset);
                    number(bytes, file.size.unwrap_or(u64::MAX));
                }
            }
            NewLayout::Virtual(mappings) => {
                bytes.push(4);
                put(bytes, &virtual_layout::encode(mappings, LibVersion::V200)?);
            }
        }
        let pipeline = &self.pipeline;
        put(bytes, &if pipeline.is_empty() { Vec::new() } else { encode::pipeline::encode(pipeline)? });
        put(bytes, &encode::fill_value::encode(&self.fill)?);
        bytes.push(u8::from(self.track_order));
        Ok(())
    }

    fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        let datatype = datatype(cursor)?;
        let committed = Some(cursor.u64()?).filter(|address| *address != u64::MAX);
        let dataspace = parse::dataspace::parse(&mut part(cursor)?, SIZES)?;
        let layout = match cursor.u8()? {
            0 => NewLayout::Compact,
            1 => NewLayout::Contiguous,
            2 => NewLayout::Chunked(taken_numbers(cursor)?),
            3 => {
                let mut files = Vec::new();
                for _ in 0..cursor.u64()? {
                    let name = read_name(cursor)?;
                    let offset = cursor.u64()?;
                    let size = Some(cursor.u64()?).filter(|size| *size != u64::MAX);
                    files.push(ExternalFile { name, offset, size });
                }
                NewLayout::External(files)
            }
            4 => {
                let (nothing, limits) = (Blocks::default(), Limits::default());
                let fuel = Fuel::new(&limits);
                let image = Image::new(&nothing, 0, SIZES, &limits, &fuel);
                NewLayout::Virtual(parse_mappings(image, taken(cursor)?, 0)?)
            }
            other => return Err(Error::corrupt(format!("unknown kind {other} of a layout in the journal"))),
        };
        let mut pipeline = part(cursor)?;
        let pipeline =
            if pipeline.left() == 0 { Pipeline::new() } else { parse::pipeline::parse(&mut pipeline)? };
        let fill = parse::fill_value::parse(&mut part(cursor)?)?;
        Ok(Self { datatype, committed, dataspace, layout, pipeline, fill, track_order: cursor.u8()? != 0 })
    }
}
