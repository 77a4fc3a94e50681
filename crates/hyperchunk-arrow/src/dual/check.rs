//! Consistency checks between the Arrow side and the HDF5 side of a file.

use super::batch::{self, BodyRange};
use super::columns::attributes;
use super::columns::conversion;
use super::footer::{ENDING, MAGIC};
use super::metadata::{DUAL, END, GENERATION, GROUP, VERSION};
use crate::types::ColumnType;
use crate::{Error, Result, types};
use arrow_ipc::convert::try_fb_to_schema;
use arrow_ipc::root_as_footer;
use arrow_schema::{Field, Schema};
use hyperchunk::model::Layout;
use hyperchunk::{Dataset, File, OpenOptions};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// Maximum size of a footer, in bytes.
const MAX_FOOTER_BYTES: u64 = 1 << 30;

/// The result of checking a file as an Arrow file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct CheckReport {
    /// Reasons why the file is not an Arrow file, or its Arrow side differs from its HDF5 side; empty if both
    /// agree.
    pub problems: Vec<String>,
    /// True if the file begins as a dual file does: with a user block that has Arrow's magic number.
    pub is_dual: bool,
    /// The group of the columns, if the footer can be read.
    pub group: Option<String>,
    /// The columns.
    pub columns: Vec<String>,
    /// The number of rows in the footer's row groups, up to the first problem.
    pub rows: u64,
    /// The number of row groups.
    pub row_groups: usize,
    /// The number of commits, if the footer can be read.
    pub generation: Option<u64>,
}

impl CheckReport {
    /// Returns whether both sides agree.
    #[must_use]
    pub fn is_current(&self) -> bool {
        self.problems.is_empty()
    }
}

/// Compares the Arrow footer of a file with its HDF5 objects.
///
/// # Errors
/// Errors of reading the file as HDF5.
pub fn check(path: impl AsRef<Path>) -> Result<CheckReport> {
    let path = path.as_ref();
    let checked = checked(path);
    checked.map_err(|error| error.file(path.display()))
}

fn cannot(error: &std::io::Error) -> Error {
    Error::new(hyperchunk::ErrorKind::Io, format!("cannot read the file: {error}"))
}

fn checked(path: &Path) -> Result<CheckReport> {
    hyperchunk_store::register();
    let file = File::open(path, &OpenOptions::default())?;
    let mut bytes = std::fs::File::open(path).map_err(|error| cannot(&error))?;
    let size = bytes.metadata().map_err(|error| cannot(&error))?.len();
    let mut checked = CheckReport::default();
    let problem = |checked: &mut CheckReport, what: &str| {
        checked.problems.push(what.to_owned());
        Ok(checked.clone())
    };
    let base = file.superblock().base;
    let start = part(&mut bytes, 0, 8.min(size))?;
    checked.is_dual = base >= 512 && start == MAGIC;
    if !checked.is_dual {
        return problem(&mut checked, "not a dual file: it does not begin as an Arrow file");
    }
    let end = part(&mut bytes, size - 10, 10)?;
    let (length, ending) = end.split_at(4);
    if ending != ENDING {
        let what = if size > base + file.superblock().end {
            "the last commit was not finished: the file is longer than HDF5 knows"
        } else {
            "objects were added, changed or deleted since the last commit: the file does not end as an Arrow file"
        };
        return problem(&mut checked, what);
    }
    let length = length.iter().rev().fold(0, |length: u64, byte| length << 8 | u64::from(*byte));
    if length > MAX_FOOTER_BYTES || length + 18 > size {
        return problem(&mut checked, "the footer's size is invalid");
    }
    let footer = part(&mut bytes, size - 10 - length, length)?;
    let changed = "the attributes, the extent or the storage of a column were changed since the last commit: the footer \
                   is not whole";
    let Ok(footer) = root_as_footer(&footer) else { return problem(&mut checked, changed) };
    let Some(Ok(schema)) = footer.schema().map(try_fb_to_schema) else {
        return problem(&mut checked, changed);
    };
    let pairs = footer.custom_metadata();
    let entry = |key: &str| {
        let pair = pairs.iter().flatten().find(|pair| pair.key() == Some(key));
        pair.and_then(|pair| pair.value()).map(str::to_owned)
    };
    checked.columns = schema.fields().iter().map(|field| field.name().clone()).collect();
    checked.generation = entry(GENERATION).and_then(|text| text.parse().ok());
    checked.group = entry(GROUP);
    if entry(DUAL).as_deref() != Some(VERSION) {
        return problem(&mut checked, "the footer was not written for a dual file");
    }
    if entry(END).and_then(|text| text.parse().ok()) != Some(size) || size != base + file.superblock().end {
        return problem(&mut checked, "the footer was written for a file of another size");
    }
    let blocks: Vec<_> = footer.recordBatches().into_iter().flatten().collect();
    checked.row_groups = blocks.len();
    let group = checked.group.clone().unwrap_or_else(|| "/".into());
    let columns = match Hdf5Column::all(&file, &group, &schema) {
        Ok(columns) => columns,
        Err(error) => return problem(&mut checked, &error.to_string()),
    };
    for (number, block) in blocks.iter().enumerate() {
        let offset = u64::try_from(block.offset()).unwrap_or(u64::MAX);
        let metadata = u64::try_from(block.metaDataLength()).unwrap_or(u64::MAX);
        if metadata > MAX_FOOTER_BYTES || offset.checked_add(metadata).is_none_or(|end| end > size) {
            return problem(&mut checked, "a row group extends past the end of the file");
        }
        let message = part(&mut bytes, offset, metadata)?;
        match compared(&message, offset + metadata, checked.rows, &columns, base) {
            Ok(rows) => checked.rows += rows,
            Err(error) => return problem(&mut checked, &format!("row group {number}: {}", error.message())),
        }
    }
    if let Some(column) = columns.iter().find(|column| column.rows() != checked.rows) {
        let what = format!(
            "column {:?} has {} rows, but Arrow's footer has {}",
            column.field.name(),
            column.rows(),
            checked.rows
        );
        return problem(&mut checked, &what);
    }
    Ok(checked)
}

/// Reads a part of a file.
pub(super) fn part(file: &mut std::fs::File, offset: u64, length: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    let read = file.seek(SeekFrom::Start(offset)).and_then(|_| file.take(length).read_to_end(&mut bytes));
    read.map_err(|error| cannot(&error))?;
    if bytes.len() as u64 == length {
        return Ok(bytes);
    }
    Err(Error::new(hyperchunk::ErrorKind::Truncated, "the file ends too early"))
}

/// A column with its HDF5 dataset.
pub(super) struct Hdf5Column {
    pub(super) field: Field,
    pub(super) dataset: Dataset,
    pub(super) row_size: u64,
    /// The address of the data, or of each chunk.
    pub(super) starts: Vec<u64>,
    /// The number of rows in a chunk.
    pub(super) chunk: Option<u64>,
    pub(super) alignment: u64,
}

impl Hdf5Column {
    pub(super) fn rows(&self) -> u64 {
        self.dataset.dims().first().copied().unwrap_or(0)
    }

    /// Opens the datasets of a schema's columns.
    fn all(file: &File, group: &str, schema: &Schema) -> Result<Vec<Self>> {
        let group = file.root()?.group()?.get(group.as_bytes())?.group()?;
        let each = schema.fields().iter().map(|field| {
            let dataset = group.get(field.name().as_bytes())?.dataset()?;
            let column = Self::new(field.name(), dataset)?;
            let same = column.field.data_type() == field.data_type()
                && column.field.metadata().get(types::metadata::DTYPE)
                    == field.metadata().get(types::metadata::DTYPE);
            if !same {
                return Err(Error::invalid(format!("column {:?} has a different type", field.name())));
            }
            // Only the text is compared: it is equal for equal attributes.
            let told = |field: &Field| field.metadata().get(types::metadata::ATTRIBUTES_JSON).cloned();
            if told(&column.described(&column.field)?) != told(field) {
                return Err(Error::invalid(format!("column {:?} has different attributes", field.name())));
            }
            Ok(column)
        });
        each.collect()
    }

    /// Makes a column of a dataset, if its values are stored in Arrow's layout.
    pub(super) fn new(name: &str, dataset: Dataset) -> Result<Self> {
        let of = |message: String| {
            Error::unsupported(format!("dataset {name:?} cannot be an Arrow column: {message}"))
        };
        let Some((_, cell)) = dataset.dims().split_first() else { return Err(of("it has no rows".into())) };
        let column = ColumnType::new(name, dataset.datatype(), cell, &conversion())
            .map_err(|error| of(error.message().into()))?;
        let Some(alignment) = column.zero_copy() else {
            return Err(of("its values are not stored in Arrow's format".into()));
        };
        batch::message(0, &[(column.field().data_type(), BodyRange { offset: 0, length: 0 })], 0, 0)
            .map_err(|error| of(error.message().into()))?;
        if !dataset.pipeline().is_empty() {
            return Err(of("it is compressed".into()));
        }
        if !dataset.external().is_empty() || dataset.store().is_some() {
            return Err(of("its data are in other files".into()));
        }
        let rows = dataset.dims().first().copied().unwrap_or(0);
        let row_size = column.row_size() as u64;
        let (starts, chunk) = match dataset.layout() {
            Layout::Contiguous { address: Some(address), .. } => (vec![*address], None),
            Layout::Contiguous { .. } if rows.saturating_mul(row_size) == 0 => (Vec::new(), None),
            Layout::Contiguous { .. } => return Err(of("its data were never written".into())),
            Layout::Chunked(chunked) => {
                let Some((height, rest)) = chunked.dims.split_first() else {
                    return Err(of("its chunks have no dimensions".into()));
                };
                if rest != cell {
                    return Err(of("its chunks are not made of whole rows".into()));
                }
                let mut chunks = dataset.chunks()?;
                chunks.sort_by_key(|chunk| chunk.scaled.first().copied());
                let all = chunks.iter().zip(0..).all(|(chunk, number)| chunk.scaled.first() == Some(&number));
                if !all || chunks.len() as u64 != rows.div_ceil(*height) {
                    return Err(of("some of its chunks were never written".into()));
                }
                (chunks.iter().map(|chunk| chunk.address).collect(), Some(*height))
            }
            Layout::Compact { .. } => return Err(of("its data are in its object header".into())),
            Layout::Virtual { .. } => return Err(of("its data are in other datasets".into())),
        };
        let size = chunk.unwrap_or(rows).checked_mul(row_size);
        let end = dataset.object().file().superblock().end;
        let inside =
            |start: &u64| size.and_then(|size| start.checked_add(size)).is_some_and(|last| last <= end);
        if !starts.iter().all(inside) {
            return Err(of("its data extend past the end of the file".into()));
        }
        let field = (**column.field()).clone();
        Ok(Self { field, dataset, row_size, starts, chunk, alignment: alignment as u64 })
    }

    /// Adds the attributes of the dataset to a field.
    pub(super) fn described(&self, field: &Field) -> Result<Field> {
        let mut metadata = field.metadata().clone();
        metadata.extend(attributes(self.dataset.object())?);
        Ok(field.clone().with_metadata(metadata))
    }

    /// Returns the address of the rows `first..first + rows`, if they are contiguous.
    pub(super) fn place(&self, first: u64, rows: u64) -> Option<u64> {
        match self.chunk {
            None => self.starts.first()?.checked_add(first.checked_mul(self.row_size)?),
            Some(chunk) if first.is_multiple_of(chunk) && rows <= chunk => {
                self.starts.get(usize::try_from(first / chunk).ok()?).copied()
            }
            Some(_) => None,
        }
    }
}

/// Compares the message of a row group with the expected one; returns its number of rows.
fn compared(message: &[u8], body: u64, first: u64, columns: &[Hdf5Column], base: u64) -> Result<u64> {
    let wrong = |what: &str| Error::corrupt(format!("its message {what}"));
    let inner = message.get(8..).ok_or_else(|| wrong("is too short"))?;
    let found = arrow_ipc::root_as_message(inner).map_err(|_| wrong("is damaged"))?;
    let header = found.header_as_record_batch().ok_or_else(|| wrong("is not a record batch"))?;
    let rows = u64::try_from(header.length()).map_err(|_| wrong("has an invalid length"))?;
    let mut places = Vec::new();
    for column in columns {
        let end = first.checked_add(rows).filter(|end| *end <= column.rows());
        let start = end
            .and_then(|_| column.place(first, rows))
            .and_then(|start| start.checked_add(base)?.checked_sub(body));
        let start = start
            .ok_or_else(|| Error::corrupt(format!("column {:?} has different rows", column.field.name())))?;
        places.push((
            column.field.data_type(),
            BodyRange { offset: start, length: rows.saturating_mul(column.row_size) },
        ));
    }
    let expected = batch::message(rows, &places, 0, 0)?;
    let expected = expected.get(8..).and_then(|inner| arrow_ipc::root_as_message(inner).ok());
    let expected = expected.as_ref().and_then(arrow_ipc::Message::header_as_record_batch);
    let expected = expected.ok_or_else(|| wrong("cannot be compared"))?;
    let nodes = |batch: &arrow_ipc::RecordBatch<'_>| {
        batch.nodes().into_iter().flatten().map(|node| (node.length(), node.null_count())).collect::<Vec<_>>()
    };
    let buffers = |batch: &arrow_ipc::RecordBatch<'_>| {
        let each = batch.buffers().into_iter().flatten();
        // The offset of an empty buffer does not matter.
        each.map(|buffer| (if buffer.length() == 0 { 0 } else { buffer.offset() }, buffer.length()))
            .collect::<Vec<_>>()
    };
    if nodes(&header) != nodes(&expected) || buffers(&header) != buffers(&expected) {
        return Err(Error::corrupt("its buffers are not the data of HDF5's datasets"));
    }
    Ok(rows)
}
