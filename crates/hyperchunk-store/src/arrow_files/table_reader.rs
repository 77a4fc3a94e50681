//! Fragments of a table as plain files, for Arrow tools that do not know stores.
//!
//! A fragment holds its writer's data, with locations in its footer. That does not mean that the
//! store has these data: rows may be overwritten by another writer, uncommitted, or in a log. So
//! each batch in a footer is compared with the epoch.

use super::ipc;
use super::ipc::{Block, Field, Footer, MAGIC};
use super::{table_file_name, table_name};
use crate::commit::external_links::{LinkedSegments, linked_segments};
use crate::format::fragment_offset::{FRAGMENT_FLAG, inside, is_in};
use crate::format::manifest::{Manifest, StoredDataset};
use crate::{WriterId, store_folder};
use hyperchunk::companion;
use hyperchunk::io::{LocalFile, Source};
use hyperchunk::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Maximum size of a footer, and of a batch's metadata, in bytes.
const MAX_METADATA_BYTES: u64 = 1 << 28;

/// Fragments that together are exactly a table.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fragments {
    /// The epoch.
    pub epoch: u64,
    /// The group.
    pub group: String,
    /// The columns.
    pub columns: Vec<String>,
    /// Number of rows.
    pub rows: u64,
    /// The files, ordered by their first row.
    pub files: Vec<Fragment>,
}

/// A file.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Fragment {
    /// Its path.
    pub path: PathBuf,
    /// Its batches, in the order of the file.
    pub batches: Vec<FragmentBatch>,
}

/// A batch of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct FragmentBatch {
    /// Its first row in the table.
    pub row: u64,
    /// Number of rows.
    pub rows: u64,
    /// Offset of its message.
    pub at: u64,
    /// Size of its metadata in bytes.
    pub metadata: u64,
    /// Size of its body in bytes, which follows the metadata.
    pub body: u64,
}

/// A column of the epoch.
struct Column {
    name: String,
    segments: LinkedSegments,
    /// Size of a row in bytes.
    row: u64,
}

/// Returns the fragments of a table: `table` is the path of its group, followed by `@` and a number
/// of rows if the group has several. They match the epoch exactly; the newest if `None`.
///
/// # Errors
/// NotFound if there is no such table; Invalid, with the reason, if the files have more or less
/// than the table; errors of reading.
pub fn fragments(path: &Path, table: &str, epoch: Option<u64>) -> Result<Fragments> {
    let path = &*crate::real_file(path);
    let absent = || Error::new(ErrorKind::NotFound, "there is no store, or nothing of it was committed");
    let found = match epoch {
        Some(number) => Manifest::epoch(path, number).map(Some),
        None => Manifest::newest(path),
    };
    found
        .and_then(|manifest| open_fragments(path, table, &*manifest.ok_or_else(absent)?))
        .map_err(|error| error.object(table).file(path.display()))
}

fn refuse(message: String) -> Error {
    Error::invalid(format!("{message}: its files alone are not the whole table (`hyperchunk.open` reads it)"))
}

fn open_fragments(path: &Path, table: &str, manifest: &Manifest) -> Result<Fragments> {
    let (name, group, mut stored) = choose(table, manifest)?;
    stored.sort_by(|one, other| one.definition.path.cmp(&other.definition.path));
    let mut columns = Vec::new();
    let rows = stored.first().and_then(|stored| stored.extent.first().copied()).unwrap_or(0);
    for stored in &stored {
        columns.push(column(stored, rows)?);
    }
    let mut files: BTreeMap<u64, Fragment> = BTreeMap::new();
    let mut logs: Vec<u32> =
        columns.iter().flat_map(|column| column.segments.0.values().map(|segment| segment.log)).collect();
    logs.sort_unstable();
    logs.dedup();
    let mut seen = 0_u64;
    for log in logs {
        let writer = manifest.logs.get(log as usize).map(|part| part.writer).unwrap_or_default();
        let fragment = fragment(path, &name, writer, log, &columns)?;
        seen = fragment.batches.iter().fold(seen, |seen, batch| seen.saturating_add(batch.rows));
        let first = fragment.batches.iter().map(|batch| batch.row).min().unwrap_or(u64::MAX);
        files.insert(first, fragment);
    }
    if seen != rows {
        return Err(refuse(format!(
            "{} of {rows} rows are in no batch of a file: their writer did not write all columns of them, or \
             defined columns after it had begun their batches, which had no room for more",
            rows - seen.min(rows)
        )));
    }
    let columns = columns.into_iter().map(|column| column.name).collect();
    let files = files.into_values().collect();
    Ok(Fragments { epoch: manifest.number, group, columns, rows, files })
}

/// Returns the datasets of a table.
fn choose<'m>(table: &str, manifest: &'m Manifest) -> Result<(String, String, Vec<&'m StoredDataset>)> {
    let mut tables: BTreeMap<String, (String, Vec<&StoredDataset>)> = BTreeMap::new();
    for stored in &manifest.datasets {
        let path = String::from_utf8_lossy(&stored.definition.path).into_owned();
        let (Some(name), Some((group, _))) = (table_name(&stored.definition), path.rsplit_once('/')) else {
            continue;
        };
        if !stored.definition.pipeline.is_empty() || Field::from_definition(&stored.definition).is_none() {
            continue;
        }
        tables.entry(name).or_insert_with(|| (group.to_owned(), Vec::new())).1.push(stored);
    }
    let (group, rows) = match table.rsplit_once('@') {
        Some((group, rows)) if rows == "unlimited" || rows.parse::<u64>().is_ok() => (group, Some(rows)),
        _ => (table, None),
    };
    let trimmed = group.trim_matches('/');
    let matches = |name: &str, found: &str| {
        found.trim_matches('/') == trimmed
            && rows.is_none_or(|rows| name.rsplit_once('@').is_some_and(|(_, of)| of == rows))
    };
    let mut all: Vec<_> = tables.into_iter().filter(|(name, (found, _))| matches(name, found)).collect();
    if all.len() > 1 {
        let in_fragments = |stored: &&StoredDataset| {
            let mut parts = stored.parts.iter();
            parts.any(|part| part.written.pieces.may_have_offset_bits(FRAGMENT_FLAG))
        };
        all.retain(|(_, (_, stored))| stored.iter().any(in_fragments));
    }
    match all.pop() {
        Some((name, (group, stored))) if all.is_empty() => {
            Ok((name, if group.is_empty() { "/".to_owned() } else { group }, stored))
        }
        Some(_) => {
            let message =
                format!("{group} has datasets of different numbers of rows: name one as {group}@ROWS");
            Err(Error::invalid(message))
        }
        None => Err(Error::new(
            ErrorKind::NotFound,
            "the store has no datasets there that can be columns of a table",
        )),
    }
}

fn column(stored: &StoredDataset, rows: u64) -> Result<Column> {
    let path = String::from_utf8_lossy(&stored.definition.path).into_owned();
    let name = path.rsplit('/').next().unwrap_or_default().to_owned();
    if stored.extent.first() != Some(&rows) {
        return Err(refuse(format!(
            "{name} has {} rows, but other columns have {rows}",
            stored.extent.first().copied().unwrap_or_default()
        )));
    }
    let inner = stored.extent.iter().skip(1);
    let row = inner.fold(stored.definition.element_size(), |size, dim| size.saturating_mul(*dim));
    if rows == 0 {
        return Ok(Column { name, segments: LinkedSegments::default(), row });
    }
    let segments = match linked_segments(stored)? {
        Ok(segments) => segments,
        Err(why) => return Err(refuse(format!("{name}: {why}"))),
    };
    let mut at = 0;
    for (start, segment) in &segments.0 {
        if *start != at {
            return Err(refuse(format!(
                "rows {}..{} of {name} were never written",
                at / row.max(1),
                start / row.max(1)
            )));
        }
        if !is_in(segment.offset) {
            let range = format!("{}..{}", start / row.max(1), segment.end.div_ceil(row.max(1)));
            return Err(refuse(format!("rows {range} of {name} are in a log")));
        }
        at = segment.end;
    }
    if at != rows.saturating_mul(row) {
        return Err(refuse(format!("rows {}..{rows} of {name} were never written", at / row.max(1))));
    }
    Ok(Column { name, segments, row })
}

/// Returns the batches of a file; all of them must be visible and unchanged in the epoch.
fn fragment(path: &Path, table: &str, writer: WriterId, log: u32, columns: &[Column]) -> Result<Fragment> {
    let (of, path) = (path, store_folder(path).join(table_file_name(table, writer)));
    let named = |error: Error| error.file(path.display());
    let file = companion::open_of_store(of, &path).map_err(named)?;
    let footer = footer(&file).map_err(named)?;
    let shown = path.display();
    let footer = footer.ok_or_else(|| {
        refuse(format!("{shown} has no footer: its writer is still at work, or was stopped; `hyperchunk store compact` writes one new file"))
    })?;
    let mut places = Vec::with_capacity(columns.len());
    for column in columns {
        let mut buffer = 0;
        let mut place = None;
        for (name, buffers) in &footer.columns {
            buffer += buffers;
            if *name == column.name {
                place = Some(buffer - 1);
            }
        }
        places.push(place.ok_or_else(|| refuse(format!("{shown} has no column {}", column.name)))?);
    }
    if footer.columns.len() != columns.len() {
        return Err(refuse(format!(
            "{shown} has {} columns, expected {}",
            footer.columns.len(),
            columns.len()
        )));
    }
    // Locations in the file of the rows of the first column, in order.
    let first = columns.first().ok_or_else(|| Error::invalid("a table without columns"))?;
    let known = first.segments.0.iter().filter(|(_, segment)| segment.log == log);
    let mut known: Vec<(u64, u64, u64)> =
        known.map(|(start, segment)| (inside(segment.offset), *start, segment.end - start)).collect();
    known.sort_unstable();
    let mut batches = Vec::with_capacity(footer.blocks.len());
    for block in footer.blocks {
        let (rows, buffers) = read(&file, block).map_err(named)?;
        if rows == 0 {
            return Err(named(Error::corrupt("a batch without rows").at(block.at)));
        }
        let body = block.at + block.metadata;
        let at = |place: usize| {
            let (offset, _) = buffers.get(place)?;
            body.checked_add(*offset)
        };
        let row = places.first().and_then(|place| {
            let at = at(*place)?;
            let segment = known.partition_point(|(offset, ..)| *offset <= at).checked_sub(1)?;
            let (offset, start, length) = known.get(segment)?;
            (at - offset < *length).then(|| (start + (at - offset)) / first.row.max(1))
        });
        let same = |(column, place): (&Column, &usize)| {
            let (row, at) = (row?, at(*place)?);
            let (start, length) = (row.checked_mul(column.row)?, rows.checked_mul(column.row)?);
            let (from, segment) = column.segments.0.range(..=start).next_back()?;
            let is = segment.log == log
                && inside(segment.offset) + (start - from) == at
                && start.checked_add(length)? <= segment.end
                && segment.offset & FRAGMENT_FLAG != 0;
            is.then_some(())
        };
        let row = row.filter(|_| columns.iter().zip(&places).all(|pair| same(pair).is_some()));
        let row = row.ok_or_else(|| {
            refuse(format!("{shown} has {rows} rows that were overwritten since, or are not committed"))
        })?;
        let Block { at, metadata, body } = block;
        batches.push(FragmentBatch { row, rows, at, metadata, body });
    }
    Ok(Fragment { path, batches })
}

/// Reads the footer at the end of a file, if there is one.
fn footer(file: &LocalFile) -> Result<Option<Footer>> {
    let size = file.size();
    let Some(end) = size.checked_sub(10) else { return Ok(None) };
    let mut ending = [0; 10];
    file.read_at(end, &mut ending)?;
    let [a, b, c, d, magic @ ..] = ending;
    let length = u64::from(u32::from_le_bytes([a, b, c, d]));
    if magic != MAGIC {
        return Ok(None);
    }
    let Some(start) = end.checked_sub(length).filter(|_| length <= MAX_METADATA_BYTES) else {
        return Err(Error::corrupt(format!("a footer of {length} bytes")).at(end));
    };
    let mut flat = vec![0; usize::try_from(length).map_err(|_| Error::limit("larger than memory"))?];
    file.read_at(start, &mut flat)?;
    ipc::read_footer(&flat).map(Some).map_err(|error| error.at(start))
}

fn read(file: &LocalFile, block: Block) -> Result<(u64, Vec<ipc::Span>)> {
    let end = block.at.checked_add(block.metadata).and_then(|end| end.checked_add(block.body));
    if end.is_none_or(|end| end > file.size()) || block.metadata > MAX_METADATA_BYTES {
        return Err(Error::corrupt("the footer has a batch past the end of the file").at(block.at));
    }
    let length = usize::try_from(block.metadata).map_err(|_| Error::limit("larger than memory"))?;
    let mut bytes = vec![0; length];
    file.read_at(block.at, &mut bytes)?;
    ipc::read_batch(&bytes).map_err(|error| error.at(block.at))
}
