//! Writing tables from clients: a new file, or rows appended to a sharded store.

use super::opened::OpenFiles;
use super::service::StreamItem;
use crate::dual::{DualOptions, DualWriter, lost};
use crate::flight::query::{self, Query};
use crate::flight::status;
use crate::transfer::store_type;
use crate::values::{ElementEncoder, HeapTarget, write_column};
use arrow_array::{Array, RecordBatch};
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::error::FlightError;
use arrow_flight::flight_descriptor::DescriptorType;
use arrow_flight::{FlightData, FlightDescriptor, PutResult};
use arrow_schema::{Field, SchemaRef};
use futures_util::StreamExt as _;
use hyperchunk::model::{Class, Dataspace, Datatype};
use hyperchunk::write::{
    CreateOptions, DatasetOptions, DatasetWriter, MemorySink, NewLayout, NodeId, Sync, Writer,
};
use hyperchunk::{Error, ErrorKind, Result};
use hyperchunk_store::commit::{CommitOptions, commit};
use hyperchunk_store::{
    Definition, LogWriter, Ticket, WriterOptions, attach, create, has_store, store_folder,
};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::path::Path;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tonic::{Status, Streaming};

/// Target size of chunks of new datasets, in bytes.
const CHUNK_BYTES: u64 = 1 << 20;

/// A write request.
#[derive(Debug)]
struct PutRequest {
    file: String,
    table: String,
    mode: Mode,
    /// The kind of a new file; `None` to choose by the columns.
    kind: Option<Kind>,
}

/// The kind of a new file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// HDF5 and Arrow at once.
    Arrow,
    /// HDF5, with a dataset for each column.
    Hdf5,
    /// A sharded store, to which rows can be appended.
    Store,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mode {
    /// Append rows to an existing file, or create a new one.
    Any,
    Create,
    Replace,
    Append,
}

impl PutRequest {
    fn parse(descriptor: &FlightDescriptor) -> Result<Self> {
        if descriptor.r#type() != DescriptorType::Cmd {
            let Query { file, table, .. } = Query::from_descriptor(descriptor)?;
            return Ok(Self { file, table, mode: Mode::Any, kind: None });
        }
        let wrong = |what: &str| Error::invalid(format!("invalid request: {what}"));
        let mut object = query::object(&descriptor.cmd)?;
        query::check_version(&mut object)?;
        let file = query::text(&mut object, "file")?.ok_or_else(|| wrong("`file` is missing"))?;
        let table = query::text(&mut object, "table")?.unwrap_or_default();
        let mode = match query::text(&mut object, "mode")?.as_deref() {
            None => Mode::Any,
            Some("create") => Mode::Create,
            Some("replace") => Mode::Replace,
            Some("append") => Mode::Append,
            Some(_) => return Err(wrong("`mode` must be create, replace or append")),
        };
        let kind = match query::text(&mut object, "as")?.as_deref() {
            None => None,
            Some("arrow") => Some(Kind::Arrow),
            Some("hdf5") => Some(Kind::Hdf5),
            Some("store") => Some(Kind::Store),
            Some(_) => return Err(wrong("`as` must be arrow, hdf5 or store")),
        };
        query::nothing_else(&object)?;
        Ok(Self { file, table, mode, kind })
    }

    /// Returns the names of the groups on the path to the columns.
    fn groups(&self) -> Result<Vec<&str>> {
        let parts: Vec<&str> = self.table.split('/').filter(|part| !part.is_empty()).collect();
        match parts.iter().any(|part| *part == "." || *part == ".." || part.contains('\0')) {
            true => Err(Error::invalid("invalid group name: it is `.` or `..`, or contains NUL")),
            false => Ok(parts),
        }
    }
}

/// The HDF5 definition of a column.
struct Column {
    datatype: Datatype,
    /// The extent of a row.
    cell: Vec<u64>,
}

fn columns(schema: &SchemaRef) -> Result<Vec<Column>> {
    let mut names = HashSet::new();
    let made = schema.fields().iter().map(|field| {
        let name = field.name();
        if name.is_empty() || name.contains(['/', '\0']) || name == "." || !names.insert(name) {
            let name = crate::flight::names::shortened(name);
            return Err(Error::invalid(format!("invalid or duplicate column name {name:?}")));
        }
        let (datatype, cell) = crate::datatype_from_field(field)?;
        Ok(Column { datatype, cell })
    });
    let made = made.collect::<Result<Vec<_>>>()?;
    if made.is_empty() { Err(Error::invalid("a table needs at least one column")) } else { Ok(made) }
}

/// Writes the batches of a stream, and returns the result of the commit.
pub(super) async fn put(
    files: Arc<OpenFiles>,
    mut messages: Streaming<FlightData>,
    turn: OwnedSemaphorePermit,
) -> std::result::Result<mpsc::Receiver<StreamItem<PutResult>>, Status> {
    let first = messages.message().await?;
    let first = first.ok_or_else(|| Status::invalid_argument("the request has no message"))?;
    let descriptor = first.flight_descriptor.clone();
    let descriptor =
        descriptor.ok_or_else(|| Status::invalid_argument("the first message has no descriptor"))?;
    let put = PutRequest::parse(&descriptor).map_err(|error| status::status(&error))?;
    let (batches, from_client) = mpsc::channel::<Result<Option<RecordBatch>>>(1);
    let (results, to_client) = mpsc::channel(2);
    tokio::spawn(async move {
        let rest = futures_util::stream::unfold(messages, |mut messages| async move {
            let next = messages.message().await.transpose()?;
            Some((next.map_err(|status| FlightError::Tonic(Box::new(status))), messages))
        });
        let all = futures_util::stream::iter([Ok(first)]).chain(rest);
        let mut decoded = FlightRecordBatchStream::new_from_flight_data(all);
        let mut any = false;
        while let Some(batch) = decoded.next().await {
            let batch = batch.map_err(|error| Error::invalid(format!("the stream is not a table: {error}")));
            let failed = batch.is_err();
            any = true;
            if batches.send(batch.map(Some)).await.is_err() || failed {
                return;
            }
        }
        // A table without rows still has columns.
        match decoded.schema() {
            Some(schema) if !any => {
                drop(batches.send(Ok(Some(RecordBatch::new_empty(Arc::clone(schema))))).await);
            }
            Some(_) => {}
            None => drop(batches.send(Err(Error::invalid("the stream has no schema"))).await),
        }
        // This marks a complete stream: after a panic in the decoder it is missing.
        drop(batches.send(Ok(None)).await);
    });
    tokio::task::spawn_blocking(move || {
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            write(&files, &put, &mut Batches { from: from_client, ended: false })
        }));
        let end = match done {
            Ok(Ok(about)) => {
                let result = PutResult { app_metadata: about.to_string().into() };
                drop(results.blocking_send(Ok(Some(result))));
                Ok(None)
            }
            Ok(Err(error)) => Err(status::status(&files.without_paths(&error))),
            Err(_) => Err(Status::internal("the request failed in an unknown way")),
        };
        drop(results.blocking_send(end));
        drop(turn);
    });
    Ok(to_client)
}

/// The batches of a client.
struct Batches {
    from: mpsc::Receiver<Result<Option<RecordBatch>>>,
    ended: bool,
}

impl Batches {
    /// Returns the next batch; `None` at the end.
    fn next(&mut self) -> Result<Option<RecordBatch>> {
        if self.ended {
            return Ok(None);
        }
        match self.from.blocking_recv() {
            Some(Ok(None)) => {
                self.ended = true;
                Ok(None)
            }
            Some(next) => next,
            None => Err(Error::new(ErrorKind::Io, "the client has disconnected, or its stream is invalid")),
        }
    }

    fn first(&mut self) -> Result<RecordBatch> {
        self.next()?.ok_or_else(|| Error::invalid("the stream has no schema"))
    }
}

fn write(files: &OpenFiles, put: &PutRequest, batches: &mut Batches) -> Result<Value> {
    let path = files.roots.for_new(&put.file)?;
    let is_store = has_store(&path);
    let there = path.exists();
    let done = match put.mode {
        Mode::Create if there => Err(Error::new(ErrorKind::Exists, "the file exists already")),
        Mode::Append if !there => Err(Error::new(ErrorKind::NotFound, "no file to append to")),
        Mode::Any | Mode::Append if there && is_store => append(put, &path, batches),
        Mode::Any | Mode::Append if there => Err(Error::unsupported(
            "cannot append: expected a sharded store ({\"as\": \"store\"}); another file is only replaced \
             as a whole ({\"mode\": \"replace\"})",
        )),
        _ if put.kind == Some(Kind::Store) => new_store(put, &path, batches),
        _ if is_store => Err(Error::unsupported("cannot replace a sharded store by a plain file")),
        _ => new_file(put, &path, batches),
    };
    files.forget(&put.file);
    let mut about = done.map_err(|error| error.object(&put.table))?;
    about["file"] = json!(put.file);
    about["version"] = json!(crate::flight::names::version(&files.roots.open(&put.file)?.file));
    Ok(about)
}

/// Returns the number of rows in a chunk.
fn chunk_rows(column: &Column) -> u64 {
    let row = column.cell.iter().fold(column.datatype.size, |size, dim| size.saturating_mul(*dim));
    (CHUNK_BYTES / row.max(1)).clamp(1, 1 << 20)
}

/// Checks for nulls that a dataset of the column's type cannot store.
fn check_nulls(field: &Field, column: &Column, array: &dyn Array) -> Result<()> {
    // A null string is a null pointer.
    let is_text = matches!(column.datatype.class, Class::VlenString { .. }) && column.cell.is_empty();
    if array.logical_null_count() > 0 && !is_text {
        let name = crate::flight::names::shortened(field.name());
        return Err(Error::unsupported(format!("column {name:?} has nulls; its HDF5 type has none")));
    }
    Ok(())
}

fn check_schema(batch: &RecordBatch, schema: &SchemaRef) -> Result<()> {
    if batch.schema_ref() == schema { Ok(()) } else { Err(Error::invalid("batches with different columns")) }
}

/// Writes a new file, which appears at its path when all rows are written.
fn new_file(put: &PutRequest, path: &Path, batches: &mut Batches) -> Result<Value> {
    let groups = put.groups()?;
    let batch = batches.first()?;
    columns(&batch.schema())?;
    let mut options = CreateOptions::default();
    options.replace = put.mode == Mode::Replace;
    options.journal = false;
    if put.kind != Some(Kind::Hdf5) {
        let mut dual = DualOptions::default();
        (dual.group, dual.file) = (format!("/{}", groups.join("/")), options.clone());
        match DualWriter::create(path, &batch.schema(), &dual) {
            // Some columns are stored differently in HDF5 and Arrow.
            Err(error) if error.kind() == ErrorKind::Unsupported && put.kind.is_none() => {}
            made => return new_dual(&made?, batch, batches),
        }
    }
    new_hdf5(&groups, path, &options, batch, batches)
}

/// Writes a dual file.
fn new_dual(writer: &DualWriter, mut batch: RecordBatch, batches: &mut Batches) -> Result<Value> {
    let schema = batch.schema();
    let mut write = || loop {
        check_schema(&batch, &schema)?;
        writer.append_first(&batch, None)?;
        match batches.next()? {
            Some(next) => batch = next,
            None => return writer.close(),
        }
    };
    match write() {
        Ok(()) => Ok(json!({ "rows": writer.rows(), "as": "arrow" })),
        Err(error) => {
            drop(writer.discard());
            Err(error)
        }
    }
}

/// Writes an HDF5 file with a dataset for each column.
fn new_hdf5(
    groups: &[&str],
    path: &Path,
    options: &CreateOptions,
    mut batch: RecordBatch,
    batches: &mut Batches,
) -> Result<Value> {
    let schema = batch.schema();
    let columns = columns(&schema)?;
    let writer = Writer::create(path, options)?;
    let written = (|| {
        let mut group = NodeId::ROOT;
        for name in groups {
            group = writer.create_group(group, name.as_bytes(), true)?;
        }
        if groups.is_empty() {
            writer.track_root_order(true)?;
        }
        let made = schema.fields().iter().zip(&columns).map(|(field, column)| {
            let mut dims = vec![0];
            dims.extend_from_slice(&column.cell);
            let mut max = vec![None];
            max.extend(column.cell.iter().copied().map(Some));
            let mut chunk = vec![chunk_rows(column)];
            chunk.extend(column.cell.iter().map(|dim| (*dim).max(1)));
            let options = DatasetOptions::new(column.datatype.clone(), Dataspace::Simple { dims, max })
                .with_layout(NewLayout::Chunked(chunk));
            let made = writer.create_dataset(group, field.name().as_bytes(), options)?;
            store_type(&writer, made.id(), field.data_type())?;
            Ok(made)
        });
        let made: Vec<DatasetWriter> = made.collect::<Result<_>>()?;
        let mut rows = 0_u64;
        loop {
            check_schema(&batch, &schema)?;
            let end = rows + batch.num_rows() as u64;
            for (((dataset, field), column), array) in
                made.iter().zip(schema.fields()).zip(&columns).zip(batch.columns())
            {
                check_nulls(field, column, array)?;
                let mut dims = dataset.dims();
                if let Some(first) = dims.first_mut() {
                    *first = end;
                }
                dataset.resize(&dims)?;
                write_column(dataset, rows, field, array)?;
            }
            rows = end;
            match batches.next()? {
                Some(next) => batch = next,
                None => return Ok(rows),
            }
        }
    })();
    match written.and_then(|rows| writer.close().map(|_| rows)) {
        Ok(rows) => Ok(json!({ "rows": rows, "as": "hdf5" })),
        Err(error) => {
            drop(writer.discard());
            Err(error)
        }
    }
}

/// The columns of a table in a store.
struct StoreTable {
    log: LogWriter,
    /// For each column its number in the log, and the conversion of its values to elements.
    columns: Vec<(u32, ElementEncoder)>,
    /// Required for the conversion, but never written to: a store has no values of variable length.
    spare: Writer,
}

impl StoreTable {
    fn new(log: LogWriter, definitions: &[Definition], schema: &SchemaRef) -> Result<Self> {
        let columns = definitions.iter().zip(schema.fields()).map(|(definition, field)| {
            if definition.datatype.has_vlen() || definition.datatype.has_reference() {
                let name = crate::flight::names::shortened(field.name());
                let message =
                    format!("column {name:?} has values of variable length or references: a store has none");
                return Err(Error::unsupported(message));
            }
            let cell = definition.dims.get(1..).unwrap_or_default();
            let target = ElementEncoder::for_rows(&definition.datatype, cell, field.data_type())?;
            Ok((log.define(definition)?, target))
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let spare = Writer::create_in(Arc::new(MemorySink::default()), None, &CreateOptions::default())?;
        Ok(Self { log, columns, spare })
    }

    fn write(&self, batch: &RecordBatch, schema: &SchemaRef) -> Result<()> {
        let batch = batch.clone();
        check_schema(&batch, schema)?;
        let mut bytes = Vec::new();
        for ((number, target), array) in self.columns.iter().zip(batch.columns()) {
            if array.logical_null_count() > 0 {
                return Err(Error::unsupported("a column has nulls; its HDF5 type has none"));
            }
            bytes.clear();
            let size = array
                .len()
                .checked_mul(target.size)
                .ok_or_else(|| Error::limit("batch larger than memory"))?;
            hyperchunk::room::resize(&mut bytes, size)?;
            target.rows(array, &mut bytes, &HeapTarget { writer: &self.spare, attribute: false })?;
            self.log.append(*number, &bytes)?;
        }
        Ok(())
    }
}

/// Writes all batches to the log; returns the number of rows and the ticket.
fn write_all(stored: &StoreTable, mut batch: RecordBatch, batches: &mut Batches) -> Result<(u64, Ticket)> {
    let schema = batch.schema();
    let mut rows = 0;
    loop {
        stored.write(&batch, &schema)?;
        rows += batch.num_rows() as u64;
        match batches.next()? {
            Some(next) => batch = next,
            None => return Ok((rows, stored.log.close()?)),
        }
    }
}

fn column_path(put: &PutRequest, field: &Field) -> Result<String> {
    let groups = put.groups()?;
    let mut path: String = groups.iter().map(|group| format!("/{group}")).collect();
    path.push('/');
    path.push_str(field.name());
    Ok(path)
}

/// Creates a store, with the table's rows as its first epoch.
fn new_store(put: &PutRequest, path: &Path, batches: &mut Batches) -> Result<Value> {
    let batch = batches.first()?;
    let schema = batch.schema();
    let definitions = schema.fields().iter().zip(columns(&schema)?).map(|(field, column)| {
        if let Some(what) = lost(field.data_type()) {
            let name = crate::flight::names::shortened(field.name());
            let message = format!(
                "column {name:?}: a store has no place for {what} of the Arrow type {}; convert the column, or put the table as \
                 \"hdf5\"",
                field.data_type()
            );
            return Err(Error::unsupported(message));
        }
        let mut dims = vec![0];
        dims.extend_from_slice(&column.cell);
        let mut definition = Definition::new(column_path(put, field)?, column.datatype, dims);
        if let Some(first) = definition.max.first_mut() {
            *first = None;
        }
        Ok(definition)
    });
    let definitions = definitions.collect::<Result<Vec<_>>>()?;
    let fresh = create(path, &definitions, None, put.mode == Mode::Replace, Sync::Commit)?;
    let mut options = WriterOptions::default();
    options.statistics = true;
    options.known = Some(fresh.known.clone());
    let write = || {
        let stored = StoreTable::new(LogWriter::create(path, &options)?, &definitions, &schema)?;
        let (rows, ticket) = write_all(&stored, batch, batches)?;
        finish(path, ticket, rows)
    };
    write().inspect_err(|_| {
        if put.mode != Mode::Replace {
            drop(std::fs::remove_file(path));
            drop(std::fs::remove_dir_all(store_folder(path)));
        }
    })
}

/// Appends rows to a store's table.
fn append(put: &PutRequest, path: &Path, batches: &mut Batches) -> Result<Value> {
    let batch = batches.first()?;
    let schema = batch.schema();
    let (known, definitions) = attach(path)?;
    let folder: String = put.groups()?.iter().map(|group| format!("/{group}")).collect();
    let within = definitions.iter().filter(|(path, _)| {
        let parent = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        path.get(..parent) == Some(folder.as_bytes())
    });
    let count = within.count();
    let column_definitions = schema.fields().iter().map(|field| {
        let path = column_path(put, field)?;
        let found = definitions.iter().find(|(known, _)| known == path.as_bytes());
        found
            .map(|(_, definition)| definition.clone())
            .ok_or_else(|| Error::new(ErrorKind::NotFound, format!("the store has no dataset {path:?}")))
    });
    let column_definitions = column_definitions.collect::<Result<Vec<_>>>()?;
    columns(&schema)?;
    if column_definitions.len() != count {
        let message = format!(
            "the table has {count} columns, but the request has {}: their lengths would differ",
            column_definitions.len()
        );
        return Err(Error::invalid(message));
    }
    let mut options = WriterOptions::default();
    options.statistics = true;
    options.known = known;
    let stored = StoreTable::new(LogWriter::create(path, &options)?, &column_definitions, &schema)?;
    let (rows, ticket) = write_all(&stored, batch, batches)?;
    finish(path, ticket, rows)
}

fn finish(path: &Path, ticket: Ticket, rows: u64) -> Result<Value> {
    let mut options = CommitOptions::default();
    options.tickets = vec![ticket];
    let epoch = commit(path, &options)?.map(|made| made.manifest.number);
    Ok(json!({ "rows": rows, "as": "store", "epoch": epoch }))
}
