//! A table on a server, which selects columns and rows and sends only the result.

use super::local::Local;
use super::process::{Connection, Process, failed, request};
use super::url::Location;
use crate::flight::{Predicate, Query};
use crate::view::{Batches, Table};
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::error::FlightError;
use arrow_flight::{FlightDescriptor, Ticket};
use arrow_schema::{ArrowError, SchemaRef};
use futures_util::StreamExt as _;
use hyperchunk::io::{RemoteOptions, is_interrupted};
use hyperchunk::{Error, ErrorKind, Result};
use std::ops::Range;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;
use tokio::task::JoinSet;

/// Maximum number of received batches that wait to be read.
const QUEUED_BATCHES: usize = 2;
/// Interval at which a waiting caller is checked for interrupts.
const INTERRUPT_POLL_INTERVAL: Duration = Duration::from_millis(100);

/// A table on a Flight server. Cheap to clone.
#[derive(Clone)]
pub struct RemoteTable {
    connection: Arc<Connection>,
    shown: Arc<str>,
    query: Query,
    schema: SchemaRef,
    /// The number of rows before filtering.
    rows: u64,
    /// The version of the file, which all rows must have.
    version: Option<String>,
    /// The server's file, if it is on this machine.
    local: Option<Local>,
}

impl RemoteTable {
    /// Opens a table of the file that a URL names: `grpc://HOST:PORT/FILE`. The query selects the table; its
    /// file is replaced by the URL's.
    ///
    /// # Errors
    /// Invalid for an invalid URL or settings; the server's errors; Io from the network.
    pub fn open(url: &str, query: Query, options: &RemoteOptions) -> Result<Self> {
        let location = Location::parse(url)?;
        let shown: Arc<str> = location.shown().into();
        let connection =
            Arc::new(Connection::new(&location.server, options).map_err(|error| error.file(&shown))?);
        let query = Query { file: location.file, ..query };
        Self::ask(connection, shown, query)
    }

    fn ask(connection: Arc<Connection>, shown: Arc<str>, query: Query) -> Result<Self> {
        let process = Process::get()?;
        let (to_ask, command) = (Arc::clone(&connection), query.to_json().to_string());
        let asked = process.wait(async move {
            let mut client = Process::get()?.client(&to_ask)?;
            let asked = request(&to_ask, FlightDescriptor::new_cmd(command), None);
            let info =
                client.get_flight_info(asked).await.map_err(|error| failed(&to_ask, &error).0)?.into_inner();
            let about: serde_json::Value = serde_json::from_slice(&info.app_metadata).unwrap_or_default();
            let rows = about.get("rows").and_then(serde_json::Value::as_u64);
            let schema = info.try_decode_schema().map_err(|error| protocol_error(&error))?.into();
            let local = if to_ask.local { Local::new(&about, &schema) } else { None };
            let rows = rows.ok_or_else(|| protocol_error(&"no number of rows"))?;
            let version = about.get("version").and_then(serde_json::Value::as_str).map(str::to_owned);
            Ok((schema, rows, version, local))
        });
        let (schema, rows, version, local) =
            asked.map_err(|error| error.object(&query.table).file(&shown))?;
        Ok(Self { connection, shown, query, schema, rows, version, local })
    }

    /// Returns its schema.
    #[must_use]
    pub fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    /// Returns its number of rows, before filtering.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the query.
    #[must_use]
    pub fn query(&self) -> &Query {
        &self.query
    }

    /// Selects columns, in this order.
    ///
    /// # Errors
    /// NotFound if a column does not exist.
    pub fn select(&self, columns: &[&str]) -> Result<Self> {
        let places = columns.iter().map(|name| {
            self.schema
                .index_of(name)
                .map_err(|_| crate::view::no_column(name, self.schema.fields()).file(&self.shown))
        });
        let places = places.collect::<Result<Vec<_>>>()?;
        let schema = self.schema.project(&places).map_err(|error| protocol_error(&error))?;
        let names = columns.iter().map(|name| (*name).to_owned()).collect();
        let query = Query { columns: Some(names), ..self.query.clone() };
        Ok(Self { query, schema: schema.into(), ..self.clone() })
    }

    /// Selects a range of rows, counted before filtering.
    ///
    /// # Errors
    /// Invalid if the range is outside the table.
    pub fn slice(&self, rows: Range<u64>) -> Result<Self> {
        if rows.start > rows.end || rows.end > self.rows {
            let message =
                format!("cannot select rows {} to {}: the table has {}", rows.start, rows.end, self.rows);
            return Err(Error::invalid(message).file(&self.shown));
        }
        let first = self.query.rows.map_or(0, |(start, _)| start);
        let part = (first.saturating_add(rows.start), Some(first.saturating_add(rows.end)));
        let query = Query { rows: Some(part), ..self.query.clone() };
        Ok(Self { query, rows: rows.end - rows.start, ..self.clone() })
    }

    /// Keeps only rows for which the predicate is true, in addition to earlier filters.
    #[must_use]
    pub fn filter(&self, predicate: Predicate) -> Self {
        let predicate = match self.query.predicate.clone() {
            Some(before) => Predicate::And(vec![before, predicate]),
            None => predicate,
        };
        Self { query: Query { predicate: Some(predicate), ..self.query.clone() }, ..self.clone() }
    }

    fn open_local(&self) -> Option<Table> {
        self.local.as_ref()?.table(&self.query, &self.schema)
    }

    /// Returns whether the rows can be read directly from the server's file, because it is on this machine.
    #[must_use]
    pub fn is_local(&self) -> bool {
        self.open_local().is_some()
    }

    /// Reads its rows as a stream of batches.
    ///
    /// # Errors
    /// Changed if the file has changed since the table was opened; the server's errors; Io from the network.
    pub fn batches(&self) -> Result<RemoteBatches> {
        if let Some(table) = self.open_local() {
            let from = BatchSource::Here(Box::new(table.batches().map_err(|error| error.file(&self.shown))?));
            return Ok(RemoteBatches { schema: self.schema(), from, shown: Arc::clone(&self.shown) });
        }
        let process = Process::get()?;
        let (to, from) = sync_channel(QUEUED_BATCHES);
        let mut task = JoinSet::new();
        let pinned = Query { version: self.version.clone(), ..self.query.clone() };
        let (connection, ticket) = (Arc::clone(&self.connection), pinned.to_json().to_string());
        task.spawn_on(
            async move {
                let ended = receive(&connection, ticket, &to).await;
                // The reader may have been dropped.
                drop(tokio::task::block_in_place(|| to.send(ended.map(|()| None))));
            },
            process.handle(),
        );
        let from = BatchSource::Server { from, _task: task };
        Ok(RemoteBatches { schema: self.schema(), from, shown: Arc::clone(&self.shown) })
    }
}

impl std::fmt::Debug for RemoteTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteTable")
            .field("url", &self.shown)
            .field("query", &self.query)
            .finish_non_exhaustive()
    }
}

pub(super) fn protocol_error(what: &dyn std::fmt::Display) -> Error {
    Error::new(ErrorKind::Io, format!("invalid response from the Flight server: {what}"))
}

async fn receive(
    connection: &Connection,
    ticket: String,
    to: &SyncSender<Result<Option<RecordBatch>>>,
) -> Result<()> {
    let mut client = Process::get()?.client(connection)?;
    let asked = request(connection, Ticket { ticket: ticket.into() }, None);
    let answer = client.do_get(asked).await.map_err(|error| failed(connection, &error).0)?.into_inner();
    let messages = answer.map(|message| message.map_err(|status| FlightError::Tonic(Box::new(status))));
    let mut batches = FlightRecordBatchStream::new_from_flight_data(messages);
    while let Some(batch) = batches.next().await {
        let batch = batch.map_err(|error| match error {
            FlightError::Tonic(status) => failed(connection, &status).0,
            error => protocol_error(&error),
        })?;
        if tokio::task::block_in_place(|| to.send(Ok(Some(batch)))).is_err() {
            return Ok(());
        }
    }
    Ok(())
}

/// The rows of a table on a server.
pub struct RemoteBatches {
    schema: SchemaRef,
    from: BatchSource,
    shown: Arc<str>,
}

enum BatchSource {
    /// Batches from the server; dropping this ends the request.
    Server { from: Receiver<Result<Option<RecordBatch>>>, _task: JoinSet<()> },
    /// The server's file is on this machine.
    Here(Box<Batches>),
    /// The end was reached.
    Nowhere,
}

impl RemoteBatches {
    /// Returns the next batch; `None` at the end.
    ///
    /// # Errors
    /// The server's errors; Io from the network, or on an interrupt.
    pub fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        let from = match &mut self.from {
            BatchSource::Server { from, .. } => from,
            BatchSource::Here(batches) => {
                return batches.next_batch().map_err(|error| error.file(&self.shown));
            }
            BatchSource::Nowhere => return Ok(None),
        };
        let next = loop {
            match from.recv_timeout(INTERRUPT_POLL_INTERVAL) {
                Ok(next) => break next,
                Err(RecvTimeoutError::Timeout) if is_interrupted() => {
                    break Err(Error::new(ErrorKind::Io, "interrupted"));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    break Err(Error::new(ErrorKind::Io, "the request was aborted"));
                }
            }
        };
        match next {
            Ok(Some(batch)) if batch.schema_ref().fields().len() == self.schema.fields().len() => {
                // Servers without versions: the table's metadata, such as its extent, may have changed; its columns
                // may not.
                let columns = batch.columns().to_vec();
                let options = arrow_array::RecordBatchOptions::new().with_row_count(Some(batch.num_rows()));
                RecordBatch::try_new_with_options(self.schema(), columns, &options)
                    .map(Some)
                    .map_err(|error| Error::new(ErrorKind::Changed, error.to_string()).file(&self.shown))
            }
            Ok(Some(_)) => {
                Err(Error::new(ErrorKind::Changed, "the table's columns have changed").file(&self.shown))
            }
            ended => {
                self.from = BatchSource::Nowhere;
                ended.map_err(|error| error.file(&self.shown))
            }
        }
    }
}

impl Iterator for RemoteBatches {
    type Item = std::result::Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_batch().map_err(|error| ArrowError::ExternalError(Box::new(error))).transpose()
    }
}

impl RecordBatchReader for RemoteBatches {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }
}

impl std::fmt::Debug for RemoteBatches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("RemoteBatches").field("url", &self.shown).finish_non_exhaustive()
    }
}
