//! Writing of a fragment: placement of rows, and their arrangement in record batches.

use super::ipc;
use super::ipc::{Block, Field, MAGIC};
use super::{TABLES, table_name};
use crate::location::site::refused;
use crate::{Definition, WriterId, store_folder};
use hyperchunk::companion::{self, Trust};
use hyperchunk::internal::positioned::{read_exact_at, write_all_at};
use hyperchunk::{Result, output};
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Space for the schema at the start of a fragment, in bytes.
const SCHEMA_BYTES: u64 = 4096;
/// Alignment of a column's values in bytes.
const ALIGNMENT_BYTES: u64 = 64;
/// Number of recent incomplete batches that are searched.
const MAX_SEARCHED_BATCHES: usize = 64;
/// Maximum number of bytes of small writes that are gathered.
pub(crate) const MAX_BUFFERED_BYTES: usize = 1 << 20;

/// The file of a fragment.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) file: Arc<File>,
    pub(crate) path: PathBuf,
}

/// A table that a writer writes rows of.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) name: String,
    path: PathBuf,
    segment: Option<Arc<Segment>>,
    /// The columns, each with the number of its dataset.
    columns: Vec<(u32, Field)>,
    end: u64,
    batches: Vec<Batch>,
    /// Gathered small writes.
    pub(crate) waiting: Vec<Rows>,
    /// True if there are changes since the last footer.
    changed: bool,
    metadata: Vec<(&'static str, String)>,
}

/// Gathered rows of a column.
#[derive(Debug)]
pub(crate) struct Rows {
    pub(crate) dataset: u32,
    pub(crate) append: bool,
    pub(crate) first: u64,
    pub(crate) count: u64,
    pub(crate) bytes: Vec<u8>,
}

/// A record batch: the same rows of several columns.
#[derive(Debug)]
struct Batch {
    /// Location and size of the space for its metadata.
    at: u64,
    room: u64,
    append: bool,
    first: u64,
    runs: Vec<Run>,
    /// Number of columns in the written metadata; 0 before they are written.
    written_columns: usize,
}

/// Contiguous values of a column.
#[derive(Debug, Clone, Copy)]
struct Run {
    dataset: u32,
    rows: u64,
    offset: u64,
    length: u64,
}

/// Destination of rows to be written.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RowDestination {
    pub(crate) offset: u64,
    placement: RowPlacement,
}

#[derive(Debug, Clone, Copy)]
enum RowPlacement {
    /// Extends the last run of the last batch.
    Longer,
    /// Another column of an existing batch.
    Beside(usize),
    /// First column of a new batch.
    New,
}

impl Batch {
    /// Returns the number of rows, if all columns have the same number.
    fn complete(&self, columns: &[(u32, Field)]) -> Option<u64> {
        let rows = self.runs.first()?.rows;
        let has = |(dataset, _): &(u32, Field)| {
            self.runs.iter().any(|run| run.dataset == *dataset && run.rows == rows)
        };
        columns.iter().all(has).then_some(rows)
    }
}

impl Segment {
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        write_all_at(&self.file, offset, bytes)
            .map_err(|error| refused("write to", &self.path, &error).at(offset))
    }

    pub(crate) fn read(&self, offset: u64, bytes: &mut [u8]) -> Result<()> {
        read_exact_at(&self.file, offset, bytes)
            .map_err(|error| refused("read", &self.path, &error).at(offset))
    }
}

impl Table {
    /// Returns the table that a dataset is a column of, in its initial state.
    pub(crate) fn from_definition(path: &Path, writer: WriterId, definition: &Definition) -> Option<Self> {
        let name = table_name(definition)?;
        let group = definition.path.iter().rposition(|byte| *byte == b'/')?;
        let group = String::from_utf8_lossy(definition.path.get(..group.max(1))?).into_owned();
        let path = store_folder(path).join(TABLES).join(&name).join(format!("{writer}.arrow"));
        Some(Self {
            name,
            path,
            segment: None,
            columns: Vec::new(),
            end: SCHEMA_BYTES,
            batches: Vec::new(),
            waiting: Vec::new(),
            changed: false,
            metadata: vec![("h5.group", group)],
        })
    }

    /// Adds a column; returns false if the name is taken.
    pub(crate) fn add(&mut self, dataset: u32, field: Field) -> bool {
        let is_new = self.columns.iter().all(|(_, known)| known.name != field.name);
        if is_new {
            self.changed |= self.segment.is_some();
            self.columns.push((dataset, field));
        }
        is_new
    }

    /// Returns its file, if any rows were written.
    pub(crate) fn segment(&self) -> Option<&Arc<Segment>> {
        self.segment.as_ref()
    }

    /// Returns its file, creating it if necessary.
    pub(crate) fn open_file(&mut self) -> Result<Arc<Segment>> {
        if let Some(segment) = &self.segment {
            return Ok(Arc::clone(segment));
        }
        let open = || File::options().create_new(true).read(true).write(true).open(&self.path);
        let file = match open() {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let folder = self.path.parent().unwrap_or(&self.path);
                match companion::owner_of_log(&self.path) {
                    Some(owner) => Trust::for_writer(&owner).make_folder(folder, &owner)?,
                    None => output::make_folders(folder)?,
                }
                open()
            }
            other => other,
        };
        let file = Arc::new(file.map_err(|error| refused("create", &self.path, &error))?);
        let segment = Arc::new(Segment { file, path: self.path.clone() });
        segment.write(0, &MAGIC)?;
        self.segment = Some(Arc::clone(&segment));
        Ok(segment)
    }

    /// Gathers a small write; returns false if it does not continue the gathered rows.
    pub(crate) fn keep(
        &mut self,
        dataset: u32,
        append: bool,
        (first, count): (u64, u64),
        bytes: &[u8],
    ) -> bool {
        match self.waiting.iter_mut().find(|rows| rows.dataset == dataset) {
            Some(rows) if rows.append == append && rows.first + rows.count == first => {
                rows.count += count;
                rows.bytes.extend_from_slice(bytes);
                true
            }
            Some(_) => false,
            None => {
                self.waiting.push(Rows { dataset, append, first, count, bytes: bytes.to_vec() });
                true
            }
        }
    }

    /// Returns whether the gathered rows should be written.
    pub(crate) fn is_full(&self) -> bool {
        self.waiting.iter().map(|rows| rows.bytes.len()).sum::<usize>() >= MAX_BUFFERED_BYTES
    }

    /// Returns the number of gathered rows that all columns have; `None` if the gathered rows do
    /// not match.
    pub(crate) fn common_rows(&self) -> Option<u64> {
        let (first, others) = self.waiting.split_first()?;
        let together = others.len() + 1 == self.columns.len()
            && others.iter().all(|rows| rows.append == first.append && rows.first == first.first);
        if !together {
            return None;
        }
        self.waiting.iter().map(|rows| rows.count).min()
    }

    /// Chooses the destination for rows of a column.
    pub(crate) fn choose_destination(&self, dataset: u32, append: bool, first: u64) -> RowDestination {
        if let Some(last) = self.batches.last()
            && let Some(run) = last.runs.last()
            && last.append == append
            && run.dataset == dataset
            && run.offset + run.length == self.end
            && last.first.checked_add(run.rows) == Some(first)
        {
            return RowDestination { offset: self.end, placement: RowPlacement::Longer };
        }
        let from = self.batches.len().saturating_sub(MAX_SEARCHED_BATCHES);
        let fits = |batch: &Batch| {
            batch.append == append
                && batch.first == first
                && batch.runs.iter().all(|run| run.dataset != dataset)
        };
        let beside = self.batches[from..].iter().rposition(fits);
        let end = self.end.next_multiple_of(ALIGNMENT_BYTES);
        match beside {
            Some(batch) => RowDestination { offset: end, placement: RowPlacement::Beside(from + batch) },
            None => RowDestination { offset: end + self.metadata_bytes(), placement: RowPlacement::New },
        }
    }

    /// Returns the space for a batch's metadata in bytes.
    fn metadata_bytes(&self) -> u64 {
        (1024 + 192 * self.columns.len().max(16) as u64).next_multiple_of(ALIGNMENT_BYTES)
    }

    /// Records that rows were written.
    pub(crate) fn record_rows(
        &mut self,
        spot: RowDestination,
        (dataset, append): (u32, bool),
        (first, rows): (u64, u64),
        length: u64,
    ) {
        let run = Run { dataset, rows, offset: spot.offset, length };
        match spot.placement {
            RowPlacement::Longer => {
                if let Some(last) = self.batches.last_mut()
                    && let Some(run) = last.runs.last_mut()
                {
                    run.rows += rows;
                    run.length += length;
                    last.written_columns = 0;
                }
            }
            RowPlacement::Beside(batch) => {
                if let Some(batch) = self.batches.get_mut(batch) {
                    batch.runs.push(run);
                }
            }
            RowPlacement::New => {
                let room = self.metadata_bytes();
                let at = spot.offset - room;
                self.batches.push(Batch { at, room, append, first, runs: vec![run], written_columns: 0 });
            }
        }
        self.end = spot.offset + length;
        self.changed = true;
    }

    /// Completes the Arrow file in its current state: writes metadata into the reserved space, and
    /// a footer. Later data go after the footer, so readers of the current file are not disturbed.
    pub(crate) fn finish(&mut self) -> Result<()> {
        let Some(segment) = self.segment.clone().filter(|_| self.changed) else { return Ok(()) };
        let fields: Vec<&Field> = self.columns.iter().map(|(_, field)| field).collect();
        if let Some(schema) = ipc::schema(&fields, &self.metadata, SCHEMA_BYTES - 8) {
            segment.write(8, &schema)?;
        }
        let mut blocks = Vec::new();
        // A batch that was completely rewritten must appear only once.
        let mut last: HashMap<(u64, u64), usize> = HashMap::new();
        for (number, batch) in self.batches.iter().enumerate().filter(|(_, batch)| !batch.append) {
            if let Some(rows) = batch.complete(&self.columns) {
                last.insert((batch.first, rows), number);
            }
        }
        for (number, batch) in self.batches.iter_mut().enumerate() {
            let Some(rows) = batch.complete(&self.columns) else { continue };
            if !batch.append && last.get(&(batch.first, rows)) != Some(&number) {
                continue;
            }
            let body_at = batch.at + batch.room;
            let run_of = |dataset: u32| batch.runs.iter().find(|run| run.dataset == dataset);
            let runs: Option<Vec<&Run>> = self.columns.iter().map(|(dataset, _)| run_of(*dataset)).collect();
            let Some(runs) = runs else { continue };
            let end = runs.iter().map(|run| run.offset + run.length).max().unwrap_or(body_at);
            let body = (end - body_at).next_multiple_of(ALIGNMENT_BYTES);
            if batch.written_columns != fields.len() {
                let columns: Vec<_> = fields
                    .iter()
                    .zip(&runs)
                    .map(|(field, run)| (*field, (run.offset - body_at, run.length)))
                    .collect();
                let key = if batch.append { "h5.append" } else { "h5.rows" };
                let metadata = [(key, format!("{}:{}", batch.first, batch.first + rows))];
                // Columns that were defined later may need more space than was reserved. The log still
                // has the locations of the rows, and `fragments` reports that they are in no batch.
                let Some(message) = ipc::batch(rows, &columns, body, &metadata, batch.room) else { continue };
                segment.write(batch.at, &message)?;
                batch.written_columns = fields.len();
            }
            blocks.push(Block { at: batch.at, metadata: batch.room, body });
        }
        let end = self.end.next_multiple_of(ALIGNMENT_BYTES);
        let footer = ipc::footer(&fields, &blocks, &self.metadata);
        segment.write(end, &footer)?;
        self.end = end + footer.len() as u64;
        self.changed = false;
        Ok(())
    }

    /// Syncs the file.
    pub(crate) fn sync(&self) -> Result<()> {
        let Some(segment) = &self.segment else { return Ok(()) };
        segment.file.sync_data().map_err(|error| refused("write out", &segment.path, &error))
    }
}
