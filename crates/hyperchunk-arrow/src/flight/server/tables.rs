//! Listing, describing and sending tables.

use super::frames::{Encoder, Message};
use super::memory::row_bytes;
use super::opened::{OpenFiles, check_version};
use super::service::{BatchSender, criteria};
use crate::flight::query::{self, Query};
use crate::view::{Table, TableOptions};
use arrow_array::{RecordBatch, RecordBatchOptions};
use arrow_flight::{FlightDescriptor, FlightEndpoint, FlightInfo, IpcMessage, SchemaAsIpc, Ticket};
use arrow_ipc::writer::IpcWriteOptions;
use arrow_schema::{ArrowError, Schema, SchemaRef};
use bytes::Bytes;
use hyperchunk::model::{Layout, ObjectKind};
use hyperchunk::walk::{Next, VisitedItem};
use hyperchunk::{Error, ErrorKind, File, Object, Result};
use serde_json::json;
use std::sync::Arc;

/// Target size of a message's columns in bytes, unless a row is larger.
const MESSAGE_BYTES: usize = 4 << 20;
/// Number of bytes of columns that are read at once: each running response holds a small multiple of it, even
/// for a slow client.
const READ_BYTES: u64 = 4 << 20;
/// Maximum number of tables listed for a file.
const MAX_TABLES: usize = 10_000;

/// A requested table.
pub(super) struct RequestedTable {
    /// All columns that are sent or used by the filter.
    table: Table,
    /// The schema that is sent.
    pub(super) schema: SchemaRef,
    /// The columns that are sent.
    wanted: Vec<String>,
    query: Query,
    pub(super) version: String,
    file: File,
    object: Object,
}

impl RequestedTable {
    pub(super) fn new(files: &OpenFiles, query: &Query, mapped: bool, growing: bool) -> Result<Self> {
        let (file, version) = files.open(&query.file, query.epoch, growing)?;
        check_version(&version, query.version.as_deref())?;
        let object = query.object(&file)?;
        let mut options = TableOptions {
            // With a filter, this process reads the data itself, and a truncated mapping would kill it.
            mapped: mapped && query.predicate.is_none(),
            read_bytes: Some(READ_BYTES),
            ..query.options()
        };
        let choosing = query.predicate.as_ref().map(|predicate| predicate.columns()).unwrap_or_default();
        if let Some(columns) = &query.columns {
            let others = choosing.iter().filter(|name| !columns.iter().any(|known| known == *name));
            options.columns =
                Some(columns.iter().cloned().chain(others.map(|name| (*name).to_owned())).collect());
        }
        let table = Table::from_object(&object, &options)?;
        let table = query.select_rows(&table)?;
        if let Some(predicate) = &query.predicate {
            predicate.check(&table.schema())?;
        }
        let all = || table.schema().fields().iter().map(|field| field.name().clone()).collect();
        let wanted: Vec<String> = query.columns.clone().unwrap_or_else(all);
        let schema = table.select(&names(&wanted))?.schema();
        Ok(Self { table, schema, wanted, query: query.clone(), version, file, object })
    }

    /// Returns the number of rows before filtering.
    pub(super) fn rows(&self) -> u64 {
        self.table.rows()
    }

    /// Passes on the requested batches, each with the number of the table's rows that were read.
    pub(super) fn each(&self, give: &mut dyn FnMut(RecordBatch, u64) -> Result<()>) -> Result<()> {
        let wanted = names(&self.wanted);
        let mut done = 0;
        let Some(predicate) = &self.query.predicate else {
            for batch in self.table.select(&wanted)?.batches()? {
                let batch = batch.map_err(|error| failed(&error))?;
                done += batch.num_rows() as u64;
                give(batch, done)?;
            }
            return Ok(());
        };
        let first: Vec<&str> = predicate.columns().into_iter().collect();
        if first.is_empty() {
            let one = RecordBatchOptions::new().with_row_count(Some(1));
            let one = RecordBatch::try_new_with_options(Arc::new(Schema::empty()), Vec::new(), &one);
            return match predicate.evaluate(&one.map_err(|error| failed(&error))?)?.true_count() {
                0 => Ok(()),
                _ => self.without_predicate().each(give),
            };
        }
        for rows in predicate.candidate_rows(&self.table)? {
            done = rows.start;
            let mut scan = self.table.slice(rows)?.scan(&first, &wanted)?;
            while let Some(part) = scan.next_part()? {
                done += part.first().num_rows() as u64;
                let mask = predicate.evaluate(part.first())?;
                // Other columns are not read for parts without matching rows.
                give(part.filter(Some(&mask))?, done)?;
            }
        }
        Ok(())
    }

    fn without_predicate(&self) -> Self {
        Self {
            table: self.table.clone(),
            schema: SchemaRef::clone(&self.schema),
            wanted: self.wanted.clone(),
            query: Query { predicate: None, ..self.query.clone() },
            version: self.version.clone(),
            file: self.file.clone(),
            object: self.object.clone(),
        }
    }
}

fn names(names: &[String]) -> Vec<&str> {
    names.iter().map(String::as_str).collect()
}

pub(super) fn failed(error: &ArrowError) -> Error {
    match error {
        ArrowError::ExternalError(inner) => match inner.downcast_ref::<Error>() {
            Some(error) => error.clone(),
            None => Error::invalid(error.to_string()),
        },
        _ => Error::invalid(error.to_string()),
    }
}

/// Splits a batch into parts of at most the size of a message.
pub(super) fn parts(batch: &RecordBatch) -> impl Iterator<Item = RecordBatch> + '_ {
    let rows = batch.num_rows();
    let size = batch
        .columns()
        .iter()
        .map(|column| column.to_data().get_slice_memory_size().unwrap_or(0))
        .sum::<usize>();
    let messages = size.div_ceil(MESSAGE_BYTES).clamp(1, rows.max(1));
    let step = rows.div_ceil(messages).max(1);
    // Multiples of 64 rows: bits that are not aligned would have to be copied.
    let step = if step > 64 { step.next_multiple_of(64) } else { step };
    (0..rows.max(1)).step_by(step).map(move |start| batch.slice(start, step.min(rows - start)))
}

fn schema_bytes(schema: &Schema) -> Result<Bytes> {
    let options = IpcWriteOptions::default();
    let message: IpcMessage =
        SchemaAsIpc::new(schema, &options).try_into().map_err(|error| failed(&error))?;
    Ok(message.0)
}

/// Returns the schema of a query's result.
pub(super) fn schema(files: &OpenFiles, query: &Query) -> Result<Bytes> {
    schema_bytes(&RequestedTable::new(files, query, false, false)?.schema)
}

/// Returns the description of a table. `local`: the client is on this machine.
pub(super) fn info(
    files: &OpenFiles,
    query: &Query,
    descriptor: Option<FlightDescriptor>,
    local: bool,
) -> Result<FlightInfo> {
    let asked = RequestedTable::new(files, query, false, false)?;
    let mut about = json!({ "v": 1, "file": query.file, "version": asked.version, "rows": asked.rows() });
    if local && let Some(handle) = handle(&asked) {
        about["local"] = handle;
    }
    let rows = i64::try_from(asked.rows()).unwrap_or(-1);
    let ticket = Ticket { ticket: query.to_json().to_string().into() };
    Ok(FlightInfo {
        schema: schema_bytes(&asked.schema)?,
        flight_descriptor: Some(
            descriptor.unwrap_or_else(|| FlightDescriptor::new_cmd(query.to_json().to_string())),
        ),
        endpoint: vec![FlightEndpoint { ticket: Some(ticket), ..FlightEndpoint::default() }],
        total_records: if query.predicate.is_some() { -1 } else { rows },
        total_bytes: -1,
        ordered: true,
        app_metadata: about.to_string().into(),
    })
}

/// Returns the locations of columns in a file of this machine, for a client that may open it.
fn handle(asked: &RequestedTable) -> Option<serde_json::Value> {
    let path = asked.file.path()?.to_str()?;
    let base = asked.file.superblock().base;
    let place = |object: &Object| {
        let dataset = object.dataset().ok()?;
        match dataset.layout() {
            Layout::Contiguous { address: Some(address), size, .. }
                if dataset.external().is_empty() && dataset.store().is_none() =>
            {
                Some(json!({ "offset": base.checked_add(*address)?, "length": size }))
            }
            _ => None,
        }
    };
    let mut columns = serde_json::Map::new();
    match asked.object.kind() {
        ObjectKind::Group => {
            let group = asked.object.group().ok()?;
            for field in asked.schema.fields() {
                if let Some(place) = group.get(field.name().as_bytes()).ok().and_then(|child| place(&child)) {
                    columns.insert(field.name().clone(), place);
                }
            }
        }
        _ => {
            let name = asked.schema.fields().first()?.name().clone();
            columns.insert(name, place(&asked.object)?);
        }
    }
    (!columns.is_empty()).then(|| json!({ "path": path, "size": asked.file.size(), "columns": columns }))
}

/// Sends the result of a query.
pub(super) fn get(
    files: &OpenFiles,
    query: &Query,
    mapped: bool,
    sender: &BatchSender<Message>,
) -> Result<()> {
    let asked = RequestedTable::new(files, query, mapped, false)?;
    let _room = sender.reserve(READ_BYTES.max(row_bytes(&asked.table.schema())))?;
    let mut encoder = Encoder::new(&asked.schema, Bytes::new())?;
    // The client gets the schema before the first batch is read.
    for message in encoder.start()? {
        sender.send(message)?;
    }
    asked.each(&mut |batch, _| {
        if batch.num_rows() == 0 {
            return if sender.is_gone() {
                Err(Error::new(ErrorKind::Io, "the client has disconnected"))
            } else {
                Ok(())
            };
        }
        encoder.set_mapped(asked.table.mapped_memory());
        for part in parts(&batch) {
            for message in encoder.encode(&part)? {
                sender.send(message)?;
            }
        }
        Ok(())
    })
}

/// Lists tables: of all files, or of the files that match the criteria.
pub(super) fn list(
    files: &OpenFiles,
    expression: &[u8],
    give: &mut dyn FnMut(FlightInfo) -> Result<()>,
) -> Result<()> {
    let mut object = criteria(expression)?;
    query::check_version(&mut object)?;
    let prefix = query::text(&mut object, "prefix")?.unwrap_or_default();
    let file = query::text(&mut object, "file")?;
    let limit = query::number(&mut object, "limit")?.unwrap_or(u64::MAX);
    query::nothing_else(&object)?;
    let mut left = limit;
    if let Some(file) = file {
        let (opened, _) = files.open(&file, None, false)?;
        return list_tables(&opened, &file, files, &mut left, give);
    }
    let mut failed = None;
    files.roots.each(&mut |name| {
        if !name.starts_with(&prefix) || left == 0 {
            return left > 0;
        }
        // A file that is damaged or not HDF5 has no tables; a request for it returns the reason.
        let Ok((opened, _)) = files.open(name, None, false) else { return true };
        match list_tables(&opened, name, files, &mut left, give) {
            Err(error) if error.kind() == ErrorKind::Io => {
                failed = Some(error);
                false
            }
            _ => true,
        }
    });
    failed.map_or(Ok(()), Err)
}

fn list_tables(
    file: &File,
    name: &str,
    files: &OpenFiles,
    left: &mut u64,
    give: &mut dyn FnMut(FlightInfo) -> Result<()>,
) -> Result<()> {
    let mut found = 0;
    let mut stopped = Ok(());
    file.walk(&file.root()?.named("/"), b"/", &mut |visit| {
        let VisitedItem::Object(object) = visit.found else { return Ok(Next::Enter) };
        let Ok(path) = std::str::from_utf8(visit.path) else { return Ok(Next::Enter) };
        if found == MAX_TABLES || *left == 0 {
            return Ok(Next::Stop);
        }
        if object.kind() == ObjectKind::Datatype {
            return Ok(Next::Enter);
        }
        let query = Query::new(name, path.trim_matches('/'));
        let path: Vec<String> = std::iter::once(name)
            .chain(path.split('/').filter(|part| !part.is_empty()))
            .map(str::to_owned)
            .collect();
        let Ok(info) = info(files, &query, Some(FlightDescriptor::new_path(path)), false) else {
            return Ok(Next::Enter);
        };
        (found, *left) = (found + 1, *left - 1);
        stopped = give(info);
        Ok(if stopped.is_ok() { Next::Enter } else { Next::Stop })
    })?;
    stopped
}
