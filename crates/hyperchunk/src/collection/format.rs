//! Format of a collection's file: a header, a directory of sections, and the indexes of the files.

use super::statistics::check;
use super::{Collection, CollectionFile, CollectionVariable, Concat, SkippedFile, Units};
use crate::index::frame::{Frame, HEADER_BYTES, SectionLocation, pack, put_identity, take_identity};
use crate::index::{put, take};
use crate::{Error, Limits, Result};
use bytes::Bytes;
use hyperchunk_format::Cursor;
use hyperchunk_format::model::Name;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

pub(super) const COLLECTION: Frame =
    Frame { signature: b"\x89HCX\r\n\x1a\n", version: 2, oldest: 1, name: "collection", one: "a collection" };
/// A collection without statistics, in version 1: readers of that version support it.
const WITHOUT_STATISTICS: Frame = Frame { version: 1, ..COLLECTION };

/// Flags of a variable: it has values; it has statistics.
const HAS_VALUES: u64 = 1;
const HAS_STATISTICS: u64 = 2;

/// Number at the end of the directory that marks a finished part.
const IS_PART: u64 = 1;

/// Maximum lengths in bytes: of a file's version, and of a name or reason.
const MAX_VERSION_BYTES: u64 = 4096;
const MAX_TEXT_BYTES: u64 = 1 << 16;
/// Compression level of Zstandard.
const ZSTD_LEVEL: i32 = 3;

fn put_bytes(to: &mut Vec<u8>, bytes: &[u8]) {
    put(to, bytes.len() as u64);
    to.extend_from_slice(bytes);
}

fn take_bytes(cursor: &mut Cursor<'_>, most: u64) -> Result<Vec<u8>> {
    let length = take(cursor)?;
    let length = usize::try_from(length).ok().filter(|_| length <= most);
    let length = length.ok_or_else(|| cursor.error(format!("text longer than {most} bytes")))?;
    Ok(cursor.take(length)?.to_vec())
}

fn take_text(cursor: &mut Cursor<'_>) -> Result<String> {
    let bytes = take_bytes(cursor, MAX_TEXT_BYTES)?;
    String::from_utf8(bytes).map_err(|_| cursor.error("text is not UTF-8".into()))
}

/// Reads a count of entries of at least one byte each.
fn take_count(cursor: &mut Cursor<'_>) -> Result<usize> {
    let count = take(cursor)?;
    let count = usize::try_from(count).ok().filter(|count| *count <= cursor.left());
    count.ok_or_else(|| cursor.error("count of entries exceeds the number of remaining bytes".into()))
}

/// Encodes a collection.
pub(super) fn encode(collection: &Collection) -> Result<Vec<u8>> {
    let files = files(collection);
    let variables = variables(collection);
    let mut sections =
        vec![(pack(&files, ZSTD_LEVEL)?, files.len()), (pack(&variables, ZSTD_LEVEL)?, variables.len())];
    for values in collection.variables.iter().filter_map(|variable| variable.values.as_ref()) {
        sections.push((pack(values, ZSTD_LEVEL)?, values.len()));
    }
    let statistics = collection.variables.iter().filter_map(|variable| variable.statistics.as_ref());
    let statistics: Vec<&Vec<u8>> = statistics.collect();
    for section in &statistics {
        sections.push((pack(section, ZSTD_LEVEL)?, section.len()));
    }
    let mut head = Vec::new();
    match &collection.concat {
        Concat::FirstAxis => put(&mut head, 0),
        Concat::Dimension(name) => {
            put(&mut head, 1);
            put_bytes(&mut head, name.as_bytes());
        }
    }
    put(&mut head, sections.len() as u64);
    for (packed, length) in &sections {
        put(&mut head, packed.len() as u64);
        put(&mut head, *length as u64);
    }
    let packed = sections.iter().map(|(packed, _)| &**packed);
    let frame = if statistics.is_empty() { WITHOUT_STATISTICS } else { COLLECTION };
    frame.wrap(&head, packed.chain(collection.indexes.iter().map(|index| &**index)))
}

/// Encodes the files.
pub(super) fn files(collection: &Collection) -> Vec<u8> {
    let mut bytes = Vec::new();
    put(&mut bytes, collection.files.len() as u64);
    for (file, index) in collection.files.iter().zip(&collection.indexes) {
        put_bytes(&mut bytes, file.name.as_bytes());
        put_identity(&mut bytes, &file.identity);
        put(&mut bytes, index.len() as u64);
    }
    put(&mut bytes, collection.skipped.len() as u64);
    for skipped in &collection.skipped {
        put_bytes(&mut bytes, skipped.name.as_bytes());
        put_bytes(&mut bytes, skipped.reason.as_bytes());
    }
    bytes
}

/// Encodes the variables. Variables whose datasets have the same extents share one list of them.
pub(super) fn variables(collection: &Collection) -> Vec<u8> {
    let mut lists: Vec<&[u64]> = Vec::new();
    let mut numbers: HashMap<&[u64], u64> = HashMap::new();
    // Variables that share one list are not compared by value.
    let mut shared: HashMap<*const Vec<u64>, u64> = HashMap::new();
    for variable in collection.variables.iter().filter(|variable| variable.axis.is_some()) {
        shared.entry(Arc::as_ptr(&variable.lengths)).or_insert_with(|| {
            *numbers.entry(&variable.lengths).or_insert_with(|| {
                lists.push(&variable.lengths);
                lists.len() as u64 - 1
            })
        });
    }
    let mut bytes = Vec::new();
    put(&mut bytes, lists.len() as u64);
    for list in &lists {
        list.iter().for_each(|length| put(&mut bytes, *length));
    }
    put(&mut bytes, collection.variables.len() as u64);
    for variable in &collection.variables {
        put_bytes(&mut bytes, &variable.path);
        put(&mut bytes, variable.axis.map_or(0, |axis| axis as u64 + 1));
        if variable.axis.is_some() {
            put(&mut bytes, shared.get(&Arc::as_ptr(&variable.lengths)).copied().unwrap_or(0));
        }
        let values = if variable.values.is_some() { HAS_VALUES } else { 0 };
        put(&mut bytes, values | if variable.statistics.is_some() { HAS_STATISTICS } else { 0 });
        put(&mut bytes, variable.units.len() as u64);
        for (number, units) in &variable.units {
            put(&mut bytes, *number);
            for text in units {
                put(&mut bytes, u64::from(text.is_some()));
                put_bytes(&mut bytes, text.as_deref().unwrap_or_default().as_bytes());
            }
        }
    }
    bytes
}

/// Marks an encoded collection as the finished part of one that is being built.
pub(super) fn mark_part(bytes: &[u8]) -> Result<Vec<u8>> {
    let head = COLLECTION.head(bytes)?;
    let sections = bytes.get(HEADER_BYTES + head.len()..).unwrap_or_default();
    let mut head = head.to_vec();
    put(&mut head, IS_PART);
    let frame = Frame { version: Frame::format_version(bytes), ..COLLECTION };
    frame.wrap(&head, std::iter::once(sections))
}

/// Parses a collection: see [`parse_part`].
pub(super) fn parse(bytes: Bytes, limits: &Limits) -> Result<Collection> {
    parse_part(bytes, limits).map(|(collection, _)| collection)
}

/// Parses a collection; also returns whether it is marked as a finished part. The digest in the header covers
/// the header and the directory; sections and indexes have their own checksums.
pub(super) fn parse_part(bytes: Bytes, limits: &Limits) -> Result<(Collection, bool)> {
    let head = COLLECTION.head(&bytes)?;
    let mut at = HEADER_BYTES + head.len();
    let mut cursor = Cursor::new(head, COLLECTION.name, HEADER_BYTES as u64);
    let concat = match take(&mut cursor)? {
        0 => Concat::FirstAxis,
        1 => Concat::Dimension(take_text(&mut cursor)?),
        other => return Err(cursor.error(format!("unknown kind {other} of the joined axis"))),
    };
    let count = take_count(&mut cursor)?;
    let mut sections = Vec::with_capacity(count);
    for _ in 0..count {
        sections.push(SectionLocation::take(&mut cursor, &mut at, bytes.len())?);
    }
    let is_part = cursor.left() > 0;
    if is_part && (take(&mut cursor)? != IS_PART || cursor.left() > 0) {
        return Err(cursor.error("unexpected bytes at the end of the directory".into()));
    }
    let mut sections = sections.into_iter();
    let lacks = || Error::corrupt("a section is missing").within(COLLECTION.name);
    // Limits the total size of the decompressed sections, which may exceed the file's size.
    let mut left = limits.metadata_bytes.max(bytes.len() as u64);
    let mut section = || {
        let section = sections.next().ok_or_else(lacks)?;
        if section.length > left {
            let message =
                format!("the sections exceed the limit `metadata_bytes` by {} bytes", section.length - left);
            return Err(Error::limit(message).within(COLLECTION.name).at(section.place.start as u64));
        }
        left -= section.length;
        section.unpack(COLLECTION.name, &bytes, section.length)
    };
    let (files, variables) = (section()?, section()?);
    let mut collection = Collection::empty(concat, Vec::new());
    parse_files(&files, &bytes, at, &mut collection)?;
    let known = if Frame::format_version(&bytes) == 1 { HAS_VALUES } else { HAS_VALUES | HAS_STATISTICS };
    parse_variables(&variables, known, &mut collection)?;
    for variable in &mut collection.variables {
        if variable.values.is_some() {
            variable.values = Some(section()?);
        }
    }
    for variable in &mut collection.variables {
        if variable.statistics.is_some() {
            let statistics = section()?;
            check(&statistics, collection.files.len())
                .map_err(|error| error.object(Name::from(&*variable.path)))?;
            variable.statistics = Some(statistics);
        }
    }
    match sections.next() {
        None => Ok((collection, is_part)),
        Some(_) => Err(Error::corrupt("more sections than the variables need").within(COLLECTION.name)),
    }
}

fn parse_files(section: &[u8], whole: &Bytes, mut at: usize, collection: &mut Collection) -> Result<()> {
    let mut cursor = Cursor::new(section, COLLECTION.name, 0);
    for _ in 0..take_count(&mut cursor)? {
        let name = take_text(&mut cursor)?;
        let identity = take_identity(&mut cursor, MAX_VERSION_BYTES)?;
        let length = usize::try_from(take(&mut cursor)?).ok();
        let end = length.and_then(|length| at.checked_add(length)).filter(|end| *end <= whole.len());
        let end = end.ok_or_else(|| cursor.error("an index extends past the end of the file".into()))?;
        collection.indexes.push(whole.slice(at..end));
        collection.files.push(CollectionFile { name, identity });
        at = end;
    }
    if at != whole.len() {
        return Err(cursor.error(format!("the indexes end at byte {at}, the file at {}", whole.len())));
    }
    for _ in 0..take_count(&mut cursor)? {
        let (name, reason) = (take_text(&mut cursor)?, take_text(&mut cursor)?);
        collection.skipped.push(SkippedFile { name, reason });
    }
    match cursor.left() {
        0 => Ok(()),
        left => Err(cursor.error(format!("{left} unexpected bytes at the end of the section"))),
    }
}

/// Parses the variables. Flags other than `known` are an error.
fn parse_variables(section: &[u8], known: u64, collection: &mut Collection) -> Result<()> {
    let mut cursor = Cursor::new(section, COLLECTION.name, 0);
    let files = collection.files.len();
    let count = take_count(&mut cursor)?;
    let mut lists: Vec<Arc<Vec<u64>>> = Vec::new();
    for _ in 0..count {
        if files > cursor.left() {
            return Err(cursor.error("number of extents exceeds the number of remaining bytes".into()));
        }
        let list: Vec<u64> = (0..files).map(|_| take(&mut cursor)).collect::<Result<_>>()?;
        if list.iter().try_fold(0_u64, |sum, length| sum.checked_add(*length)).is_none() {
            return Err(cursor.error("extents of more than 2^64 - 1 elements in total".into()));
        }
        lists.push(Arc::new(list));
    }
    for _ in 0..take_count(&mut cursor)? {
        let path = take_bytes(&mut cursor, MAX_TEXT_BYTES)?;
        let axis = take(&mut cursor)?.checked_sub(1);
        let axis = axis.map(usize::try_from).transpose();
        let axis = axis.map_err(|_| cursor.error("axis number out of range".into()))?;
        let lengths = match axis {
            Some(_) => {
                let list = usize::try_from(take(&mut cursor)?).ok().and_then(|list| lists.get(list));
                Arc::clone(list.ok_or_else(|| cursor.error("reference to a missing list of extents".into()))?)
            }
            None => Arc::default(),
        };
        let bits = take(&mut cursor)?;
        if bits & !known != 0 {
            return Err(cursor.error(format!("unknown flags of a variable: {bits:#x}")));
        }
        let values = (bits & HAS_VALUES != 0).then(Vec::new);
        let statistics = (bits & HAS_STATISTICS != 0).then(Vec::new);
        let mut units = BTreeMap::new();
        for _ in 0..take_count(&mut cursor)? {
            let number = take(&mut cursor)?;
            if usize::try_from(number).map_or(true, |number| number >= files) {
                return Err(cursor.error(format!("units of file {number}, but there are {files} files")));
            }
            let mut both = Units::default();
            for text in &mut both {
                let is_set = take(&mut cursor)? == 1;
                *text = Some(take_text(&mut cursor)?).filter(|_| is_set);
            }
            units.insert(number, both);
        }
        collection.variables.push(CollectionVariable { path, axis, lengths, values, units, statistics });
    }
    match cursor.left() {
        0 => Ok(()),
        left => Err(cursor.error(format!("{left} unexpected bytes at the end of the section"))),
    }
}
