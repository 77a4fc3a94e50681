//! The writer of dual files.

use super::batch::{self, BodyRange, END_OF_STREAM, stored};
use super::columns::{
    ALIGNMENT_BYTES, Column, NewFile, PAGE_ALIGNED_BYTES, PAGE_BYTES, attributes, conversion,
    layout_row_group,
};
use super::footer::{Block, Footer, FooterState, MAGIC};
use crate::types::ColumnType;
use crate::{Error, Result};
use arrow_array::{Array, RecordBatch};
use arrow_data::ArrayData;
use arrow_schema::{DataType, Metadata, Schema, SchemaRef};
use hyperchunk::model::{AllocationTime, Dataspace, Datatype};
use hyperchunk::write::{CreateOptions, DatasetOptions, LocalSink, NewLayout, NodeId, Sink, Writer};
use std::io::IoSlice;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Default size of a row group, in bytes.
const DEFAULT_ROW_GROUP_BYTES: u64 = 64 << 20;
/// Maximum size of a chunk in HDF5 before 2.0, in bytes.
const MAX_CHUNK_BYTES: u64 = u32::MAX as u64;
/// Maximum size of the schema message's padding after the user block, in bytes.
const MAX_PADDING_BYTES: u64 = 1 << 20;

/// Options of a dual file.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct DualOptions {
    /// The group that the columns are in.
    pub group: String,
    /// Number of rows of each row group but the last. By default the number of rows of the first append, but
    /// at least as many as fit into 64 MiB.
    pub row_group: Option<u64>,
    /// Allow HDF5 programs to add rows to columns of several row groups. Arrow's readers ignore such rows, or
    /// refuse the file, until `hyperchunk arrow fix` has run.
    pub growable: bool,
    /// Minimum size of the user block in bytes; it becomes larger if the schema needs more.
    pub user_block: Option<u64>,
    /// Options of the HDF5 file; the journal is always off.
    pub file: CreateOptions,
}

impl Default for DualOptions {
    fn default() -> Self {
        let (row_group, growable, user_block) = (None, false, None);
        Self { group: "/".into(), row_group, growable, user_block, file: CreateOptions::default() }
    }
}

/// A writer of a file that is HDF5 and Arrow at once. It may be used from several threads; appends are
/// serialised.
#[derive(Debug)]
pub struct DualWriter {
    writer: Writer,
    schema: SchemaRef,
    footer: Arc<Footer>,
    base: u64,
    growable: bool,
    path: String,
    above: Vec<(NodeId, String)>,
    group: NodeId,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    columns: Vec<Column>,
    groups: Vec<RowGroup>,
    /// Number of rows in each group but the last; determined by the first append.
    group_rows: Option<u64>,
    /// False if the first row group is too large for a chunk, so that there can be no second one.
    chunks: bool,
    metadata: Vec<(String, String)>,
    generation: u64,
    /// Old and new addresses of row groups that were moved.
    moved: Vec<(u64, u64)>,
    /// True if rows or metadata are not committed yet.
    changed: bool,
    /// Number of changes to the HDF5 side at the last commit.
    changes: u64,
    closed: bool,
}

/// A row group. Addresses are relative to the superblock.
#[derive(Debug, Clone)]
struct RowGroup {
    /// The address of two consecutive slots for the message: the slot to which the last commit points is not
    /// overwritten.
    messages: u64,
    /// True if the next commit points to the second slot.
    second: bool,
    /// The slot that the last commit pointed to.
    committed_slot: Option<bool>,
    /// The start of each column's values.
    starts: Vec<u64>,
    /// The address after the values, where a stream continues.
    values_end: u64,
    /// The capacity in rows.
    room: u64,
    rows: u64,
    changed: bool,
}

/// The HDF5 definition of a column in a new file.
#[derive(Debug, Clone)]
pub struct NewColumn {
    /// The name of its dataset.
    pub name: String,
    /// The type of its elements.
    pub datatype: Datatype,
    /// The extent of a row: the dataset's extent without its first dimension.
    pub cell: Vec<u64>,
}

/// Returns the stored bytes of a column's values: takes the column, the first row and the number of rows.
type Rows<'a> = dyn Fn(usize, usize, usize) -> Result<&'a [u8]> + 'a;

impl DualWriter {
    /// Creates a file on this machine with columns given by HDF5 definitions.
    ///
    /// # Errors
    /// As [`DualWriter::create`].
    pub fn create_columns(
        path: impl AsRef<Path>,
        columns: &[NewColumn],
        options: &DualOptions,
    ) -> Result<Self> {
        let path = path.as_ref();
        let shown = path.to_string_lossy();
        let made = columns.iter().map(|column| {
            let NewColumn { name, datatype, cell } = column;
            let made = ColumnType::new(name, datatype, cell, &conversion());
            let data_type = made.as_ref().map_or(DataType::Null, |made| made.field().data_type().clone());
            Column::checked(name, made, data_type)
        });
        let prepared = made
            .collect::<Result<_>>()
            .and_then(|columns| NewFile::from_columns(columns, Metadata::default(), options))
            .map_err(|error| error.file(&*shown))?;
        Self::start_at(path, &shown, prepared, options)
    }

    /// Creates a file on this machine. It appears at its path with the first commit.
    ///
    /// # Errors
    /// Unsupported for columns whose Arrow values differ from HDF5's stored bytes; as [`Writer::create`].
    pub fn create(path: impl AsRef<Path>, schema: &Schema, options: &DualOptions) -> Result<Self> {
        let path = path.as_ref();
        let shown = path.to_string_lossy();
        let prepared = NewFile::new(schema, options).map_err(|error| error.file(&*shown))?;
        Self::start_at(path, &shown, prepared, options)
    }

    /// Creates a file in a sink. `name` is for messages.
    ///
    /// # Errors
    /// As [`DualWriter::create`].
    pub fn create_in(
        sink: Arc<dyn Sink>,
        name: Option<&str>,
        schema: &Schema,
        options: &DualOptions,
    ) -> Result<Self> {
        Self::start(sink, name, NewFile::new(schema, options)?, options)
    }

    /// Creates a file at a path; leaves nothing on failure.
    fn start_at(path: &Path, shown: &str, prepared: NewFile, options: &DualOptions) -> Result<Self> {
        let sink =
            Arc::new(LocalSink::create(path, options.file.sync, options.file.replace, options.file.locking)?);
        let made = Self::start(Arc::<LocalSink>::clone(&sink), Some(shown), prepared, options);
        if made.is_err() {
            // A second error would hide the cause.
            drop(sink.discard());
        }
        made
    }

    fn start(
        sink: Arc<dyn Sink>,
        name: Option<&str>,
        prepared: NewFile,
        options: &DualOptions,
    ) -> Result<Self> {
        let NewFile { schema, columns, user_block, names, message } = prepared;
        let mut file = options.file.clone();
        (file.user_block, file.lasting, file.journal) = (user_block, true, false);
        let writer = Writer::create_in(sink, name, &file)?;
        // It is not a valid Arrow file until it also has the ending.
        writer.write_user_block(0, MAGIC)?;
        writer.write_user_block(MAGIC.len() as u64, &message)?;
        let mut above = Vec::new();
        let (mut group, mut path) = (NodeId::ROOT, String::from("/"));
        for name in &names {
            above.push((group, path.clone()));
            group = writer.create_group(group, name.as_bytes(), false)?;
            path = format!("{}/{name}", path.trim_end_matches('/'));
        }
        let metadata = schema.metadata().iter().map(|(key, value)| (key.clone(), value.clone())).collect();
        let state = State {
            columns,
            groups: Vec::new(),
            group_rows: options.row_group.filter(|rows| *rows > 0),
            chunks: true,
            metadata,
            generation: 0,
            moved: Vec::new(),
            changed: true,
            changes: 0,
            closed: false,
        };
        let footer = Arc::new(Footer::default());
        writer.set_second_format(Arc::<Footer>::clone(&footer));
        let dual = Self {
            writer,
            schema,
            footer,
            base: user_block,
            growable: options.growable,
            path,
            above,
            group,
            state: Mutex::new(state),
        };
        // The datasets exist from the start, so that they can have attributes.
        {
            let mut state = dual.state();
            state.define(&dual)?;
            state.describe(&dual)?;
            state.generation = 0;
        }
        Ok(dual)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the schema of the file.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the HDF5 definitions of the columns.
    #[must_use]
    pub fn columns(&self) -> Vec<NewColumn> {
        let state = self.state();
        let column = |column: &Column| NewColumn {
            name: column.name.clone(),
            datatype: column.column.datatype().clone(),
            cell: column.column.cell().to_vec(),
        };
        state.columns.iter().map(column).collect()
    }

    /// Returns the HDF5 side, for groups, attributes and further datasets. If you commit through it, the
    /// Arrow footer is outdated: use [`DualWriter::flush`].
    #[must_use]
    pub fn writer(&self) -> &Writer {
        &self.writer
    }

    /// Returns the group of the columns.
    #[must_use]
    pub fn group(&self) -> NodeId {
        self.group
    }

    /// Returns the number of written rows.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.state().rows()
    }

    /// Sets a metadata entry of the schema.
    pub fn set_metadata(&self, key: &str, value: &str) {
        let mut state = self.state();
        state.changed = true;
        state.metadata.retain(|(known, _)| known != key);
        state.metadata.push((key.to_owned(), value.to_owned()));
    }

    /// Adds rows, written directly from the arrays' memory.
    ///
    /// # Errors
    /// Invalid if the columns differ from the file's; Unsupported for null values; errors of the sink.
    pub fn append(&self, batch: &RecordBatch) -> Result<()> {
        self.append_first(batch, Some(batch.num_rows() as u64))
    }

    /// Like [`DualWriter::append`], for the first of `all` rows that follow (`None` if unknown): they form
    /// one row group unless the options give a size.
    ///
    /// # Errors
    /// As [`DualWriter::append`].
    pub fn append_first(&self, batch: &RecordBatch, all: Option<u64>) -> Result<()> {
        let mut state = self.state();
        let done = state.append_batch(self, batch, all);
        done.map_err(|error| self.named(error))
    }

    /// Adds rows, given as the stored bytes of each column's values, contiguously.
    ///
    /// # Errors
    /// As [`DualWriter::append`].
    pub fn append_stored(&self, columns: &[&[u8]], rows: usize, all: Option<u64>) -> Result<()> {
        let mut state = self.state();
        let sizes: Vec<usize> = state.columns.iter().map(|column| column.column.row_size()).collect();
        let agree = columns.len() == sizes.len()
            && columns.iter().zip(&sizes).all(|(bytes, size)| size.checked_mul(rows) == Some(bytes.len()));
        if !agree {
            return Err(self.named(Error::invalid(format!(
                "cannot append: {} columns that do not have {rows} rows each",
                columns.len()
            ))));
        }
        let some = |column: usize, first: usize, count: usize| {
            let size = sizes.get(column).copied().unwrap_or(0);
            let bytes = columns.get(column).and_then(|bytes| bytes.get(first * size..(first + count) * size));
            bytes.ok_or_else(|| Error::invalid("fewer values than rows"))
        };
        let done = state.append(self, rows, &some, all);
        done.map_err(|error| self.named(error))
    }

    /// Commits all written rows, in both formats.
    ///
    /// # Errors
    /// As [`Writer::flush`].
    pub fn flush(&self) -> Result<()> {
        self.commit(&mut self.state())
    }

    /// Commits, and closes the file.
    ///
    /// # Errors
    /// As [`Writer::close`].
    pub fn close(&self) -> Result<()> {
        let mut state = self.state();
        if state.closed {
            return Ok(());
        }
        self.commit(&mut state)?;
        self.writer.close()?;
        state.closed = true;
        Ok(())
    }

    /// Discards the file.
    ///
    /// # Errors
    /// As [`Writer::discard`].
    pub fn discard(&self) -> Result<()> {
        self.state().closed = true;
        self.writer.discard()
    }

    fn named(&self, error: Error) -> Error {
        error.object(&self.path)
    }

    /// Returns the attributes of an object as Arrow metadata.
    fn attributes(&self, object: NodeId) -> Result<Vec<(String, String)>> {
        if self.writer.attribute_names(object)?.is_empty() {
            return Ok(Vec::new());
        }
        attributes(&self.writer.snapshot_object(object)?)
    }

    fn commit(&self, state: &mut State) -> Result<()> {
        if state.closed {
            return Err(self.named(Error::invalid("the file is closed")));
        }
        if !state.changed && state.changes == self.writer.changes() {
            return Ok(());
        }
        let committed = state.define(self).and_then(|()| state.describe(self));
        committed.map_err(|error| self.named(error))?;
        self.writer.flush()?;
        state.committed(self).map_err(|error| self.named(error))?;
        (state.changed, state.changes) = (false, self.writer.changes());
        Ok(())
    }
}

impl State {
    fn rows(&self) -> u64 {
        self.groups.iter().map(|group| group.rows).sum()
    }

    /// Returns the size of a message in bytes.
    fn message_length(&self) -> Result<u64> {
        let nothing = BodyRange { offset: 0, length: 0 };
        let columns: Vec<_> =
            self.columns.iter().map(|column| (column.column.field().data_type(), nothing)).collect();
        let length = batch::message(0, &columns, 0, 0)?.len() as u64;
        Ok(length.next_multiple_of(ALIGNMENT_BYTES))
    }

    /// Allocates a row group.
    fn open_group(&mut self, dual: &DualWriter, room: u64) -> Result<RowGroup> {
        let message = self.message_length()?;
        let biggest = self.columns.iter().map(|column| column.row_size().saturating_mul(room)).max();
        let alignment =
            if biggest.is_some_and(|size| size >= PAGE_ALIGNED_BYTES) { PAGE_BYTES } else { ALIGNMENT_BYTES };
        let sizes: Vec<u64> = self.columns.iter().map(Column::row_size).collect();
        let (starts, end) = layout_row_group(&sizes, room, 2 * message)?;
        let messages = dual.writer.reserve(end + message, alignment)?;
        let starts = starts.into_iter().map(|start| start + messages).collect();
        let values_end = messages + end;
        let group = RowGroup {
            messages,
            second: false,
            committed_slot: None,
            starts,
            values_end,
            room,
            rows: 0,
            changed: true,
        };
        Ok(group)
    }

    fn append_batch(&mut self, dual: &DualWriter, batch: &RecordBatch, all: Option<u64>) -> Result<()> {
        if batch.num_columns() != self.columns.len() {
            let message = format!("{} columns for a table of {}", batch.num_columns(), self.columns.len());
            return Err(Error::invalid(message));
        }
        let mut arrays: Vec<ArrayData> = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            let array = batch.column_by_name(&column.name);
            let array = array.ok_or_else(|| Error::invalid(format!("no column {:?}", column.name)))?;
            if *array.data_type() != column.data_type
                && *array.data_type() != *column.column.field().data_type()
            {
                let message = format!(
                    "column {:?} has the Arrow type {}, expected {}",
                    column.name,
                    array.data_type(),
                    column.data_type
                );
                return Err(Error::invalid(message));
            }
            arrays.push(array.to_data());
        }
        // Check all columns before any is written.
        for (column, data) in self.columns.iter().zip(&arrays) {
            stored(data, 0, batch.num_rows()).map_err(|error| {
                Error::new(error.kind(), format!("column {:?}: {}", column.name, error.message()))
            })?;
        }
        let some = |column: usize, first: usize, count: usize| match arrays.get(column) {
            Some(data) => stored(data, first, count),
            None => Err(Error::invalid("no such column")),
        };
        self.append(dual, batch.num_rows(), &some, all)
    }

    fn append(&mut self, dual: &DualWriter, count: usize, some: &Rows<'_>, all: Option<u64>) -> Result<()> {
        if self.closed {
            return Err(Error::invalid("the file is closed"));
        }
        let mut done = 0;
        while done < count {
            let left = (count - done) as u64;
            let number = self.group_for(dual, all.map(|all| all.max(left)))?;
            let Some(group) = self.groups.get(number) else { return Err(Error::invalid("no row group")) };
            let more = left.min(group.room - group.rows);
            let rows = usize::try_from(more).map_err(|_| Error::limit("more rows than memory has"))?;
            for ((number, column), start) in self.columns.iter().enumerate().zip(&group.starts) {
                let bytes = some(number, done, rows)?;
                let at = start + group.rows * column.row_size();
                dual.writer.write_reserved(at, &mut [IoSlice::new(bytes)])?;
            }
            self.changed = true;
            if let Some(group) = self.groups.get_mut(number) {
                group.rows += more;
                group.changed = true;
            }
            done += rows;
        }
        Ok(())
    }

    /// Returns the number of the row group for the next rows, whose total number may be known.
    fn group_for(&mut self, dual: &DualWriter, rows: Option<u64>) -> Result<usize> {
        let last = self.groups.len().wrapping_sub(1);
        let row: u64 = self.columns.iter().map(Column::row_size).sum();
        let widest = self.columns.iter().map(Column::row_size).max().unwrap_or(1).max(1);
        if self.groups.is_empty() {
            let usual = (DEFAULT_ROW_GROUP_BYTES / row.max(1))
                .clamp(1024, 1 << 24)
                .min(MAX_CHUNK_BYTES / widest)
                .max(1);
            let asked = self.group_rows;
            let group_rows = asked.unwrap_or_else(|| usual.max(rows.unwrap_or(0)));
            if group_rows.saturating_mul(widest) > MAX_CHUNK_BYTES {
                if asked.is_some() {
                    let most = MAX_CHUNK_BYTES / widest;
                    let message = format!(
                        "row groups of {group_rows} rows have chunks of 4 GiB or more: {most} at most"
                    );
                    return Err(Error::limit(message));
                }
                if dual.growable {
                    return Err(Error::limit(
                        "the rows need a chunk of 4 GiB or more: set the number of rows of a row group",
                    ));
                }
                self.chunks = false;
            }
            self.group_rows = Some(group_rows);
            let room = if dual.growable { None } else { rows };
            let group = self.open_group(dual, room.map_or(group_rows, |rows| rows.min(group_rows)))?;
            self.groups.push(group);
            return Ok(0);
        }
        let group_rows = self.group_rows.unwrap_or(1);
        let Some(group) = self.groups.get(last).cloned() else { return Err(Error::invalid("no row group")) };
        if group.rows < group.room {
            return Ok(last);
        }
        if !self.chunks {
            let message =
                "the first rows are too many for a chunk: to append, set the number of rows of a row group";
            return Err(Error::unsupported(message));
        }
        let mut fresh = self.open_group(dual, group_rows)?;
        if group.room == group_rows {
            self.groups.push(fresh);
            return Ok(last + 1);
        }
        // Its space was sized for the first append: move it to a larger one.
        let mut buffer = Vec::new();
        for ((column, from), to) in self.columns.iter().zip(&group.starts).zip(&fresh.starts) {
            let size = group.rows * column.row_size();
            let mut at = 0;
            while at < size {
                let step = usize::try_from((size - at).min(4 << 20)).unwrap_or(0);
                buffer.resize(step, 0);
                dual.writer.read_reserved(from + at, &mut buffer)?;
                dual.writer.write_reserved(to + at, &mut [IoSlice::new(&buffer)])?;
                at += step as u64;
            }
        }
        fresh.rows = group.rows;
        self.moved.push((group.messages, fresh.messages));
        if let Some(place) = self.groups.get_mut(last) {
            *place = fresh;
        }
        Ok(last)
    }

    /// Defines the datasets of the columns for the next commit.
    fn define(&mut self, dual: &DualWriter) -> Result<()> {
        let rows = self.rows();
        let several = self.groups.len() > 1 || (dual.growable && !self.groups.is_empty());
        let chunk = if several { self.group_rows } else { None };
        for (number, column) in self.columns.iter_mut().enumerate() {
            let mut dims = vec![rows];
            dims.extend_from_slice(column.column.cell());
            let mut max: Vec<Option<u64>> = dims.iter().copied().map(Some).collect();
            if dual.growable && chunk.is_some() {
                max[0] = None;
            }
            let space = Dataspace::Simple { dims: dims.clone(), max };
            let known = column.dataset.take().filter(|dataset| {
                dataset.chunk().map(|dims| dims[0]) == chunk && (chunk.is_some() || dataset.dims() == dims)
            });
            let dataset = match known {
                Some(dataset) => {
                    if chunk.is_some() {
                        dataset.redefine(space)?;
                    }
                    dataset
                }
                None => {
                    let mut options = DatasetOptions::new(column.column.datatype().clone(), space);
                    if let Some(chunk) = chunk {
                        let mut extent = dims.clone();
                        extent[0] = chunk;
                        options = options.with_layout(NewLayout::Chunked(extent));
                        // Space for rows that HDF5 programs add is allocated at once, at the end of the file.
                        options.fill.allocation = AllocationTime::Early;
                    }
                    dual.writer.supplant(dual.group, column.name.as_bytes(), options)?
                }
            };
            for (group, place) in self.groups.iter().zip(0..) {
                let Some(start) = group.starts.get(number).copied() else { continue };
                let mut offset = vec![0; dims.len()];
                offset[0] = place * chunk.unwrap_or(0);
                match chunk {
                    Some(_) => dataset.place_chunk(&offset, start)?,
                    None => dataset.place(start)?,
                }
            }
            column.dataset = Some(dataset);
        }
        Ok(())
    }

    /// Writes the messages of row groups, and sets the contents of the footer.
    fn describe(&mut self, dual: &DualWriter) -> Result<()> {
        let length = self.message_length()?;
        for number in 0..self.groups.len() {
            let Some(group) = self.groups.get_mut(number).filter(|group| group.changed) else { continue };
            group.second = group.committed_slot == Some(false);
            let Some(group) = self.groups.get(number) else { continue };
            let message = self.message(group, length, group.second)?;
            let at = group.messages + if group.second { length } else { 0 };
            dual.writer.write_reserved(at, &mut [IoSlice::new(&message)])?;
        }
        if self.generation == 0 {
            self.write_skip_messages(dual)?;
        }
        self.generation += 1;
        let group = (Some(dual.group), dual.path.clone());
        let mut metadata = self.metadata.clone();
        metadata.extend(dual.attributes(dual.group)?);
        let mut columns = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            let Some(dataset) = &column.dataset else { continue };
            let field = column.field();
            let mut more = field.metadata().clone();
            more.extend(dual.attributes(dataset.id())?);
            columns.push((dataset.id(), field.with_metadata(more)));
        }
        let blocks = self.groups.iter().map(|group| {
            let first = group.messages + if group.second { length } else { 0 };
            Block { offset: dual.base + first, metadata: length, body: group.values_end - first - length }
        });
        dual.footer.set_state(FooterState {
            columns,
            metadata,
            blocks: blocks.collect(),
            above: dual.above.clone(),
            group,
            generation: self.generation,
        });
        Ok(())
    }

    /// Encodes the message of a row group for the first or second slot.
    fn message(&self, group: &RowGroup, length: u64, second: bool) -> Result<Vec<u8>> {
        let body = group.messages + length + if second { length } else { 0 };
        let places = self.columns.iter().zip(&group.starts).map(|(column, start)| {
            let place = BodyRange { offset: start - body, length: group.rows * column.row_size() };
            (column.column.field().data_type(), place)
        });
        batch::message(group.rows, &places.collect::<Vec<_>>(), group.values_end - body, narrow(length)?)
    }

    /// Pads the schema message at the start of the file up to the first row group, unless that is too far.
    fn extend_schema_message(&self, dual: &DualWriter) -> Result<()> {
        let start = MAGIC.len() as u64;
        let first = self.groups.first().map(|group| dual.base + group.messages - start);
        let Some(length) = first.filter(|length| *length <= dual.base + MAX_PADDING_BYTES) else {
            return Ok(());
        };
        let size = i32::try_from(length - 8).map_err(|_| Error::limit("a user block of 2 GiB"))?;
        dual.writer.write_user_block(start + 4, &size.to_le_bytes())
    }

    /// Writes the messages with which a stream reader skips the bytes between the schema and the row groups,
    /// and the end-of-stream marker.
    fn write_skip_messages(&mut self, dual: &DualWriter) -> Result<()> {
        let length = self.message_length()?;
        let nothing = BodyRange { offset: 0, length: 0 };
        let types: Vec<_> =
            self.columns.iter().map(|column| (column.column.field().data_type(), nothing)).collect();
        let over =
            |from: u64, to: u64| batch::message(0, &types, to.saturating_sub(from + length), narrow(length)?);
        for (from, to) in self.moved.drain(..) {
            dual.writer.write_reserved(from, &mut [IoSlice::new(&over(from, to)?)])?;
        }
        let nexts = self.groups.iter().skip(1).map(|group| Some(group.messages)).chain([None]);
        for (group, next) in self.groups.iter().zip(nexts) {
            let filled = match next {
                Some(next) => over(group.values_end, next)?,
                None => END_OF_STREAM.to_vec(),
            };
            dual.writer.write_reserved(group.values_end, &mut [IoSlice::new(&filled)])?;
        }
        self.extend_schema_message(dual)
    }

    /// Updates the messages that a stream reader uses, after a commit.
    fn committed(&mut self, dual: &DualWriter) -> Result<()> {
        let length = self.message_length()?;
        for number in 0..self.groups.len() {
            let Some(group) = self.groups.get(number).filter(|group| group.changed) else { continue };
            if group.second {
                let message = self.message(group, length, false)?;
                dual.writer.write_reserved(group.messages, &mut [IoSlice::new(&message)])?;
            }
            if let Some(group) = self.groups.get_mut(number) {
                (group.changed, group.committed_slot) = (false, Some(group.second));
            }
        }
        self.write_skip_messages(dual)
    }
}

fn narrow(length: u64) -> Result<usize> {
    usize::try_from(length).map_err(|_| Error::limit("metadata larger than memory"))
}
