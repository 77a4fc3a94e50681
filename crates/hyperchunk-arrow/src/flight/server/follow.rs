//! Following a growing table: sends its rows, then new ones as they are added.

use super::frames::{Encoder, Message};
use super::opened::OpenFiles;
use super::service::BatchSender;
use super::tables::{RequestedTable, parts};
use crate::flight::query::{self, Query};
use arrow_flight::FlightDescriptor;
use arrow_flight::flight_descriptor::DescriptorType;
use arrow_schema::{Schema, SchemaRef};
use bytes::Bytes;
use hyperchunk::{Error, ErrorKind, Result};
use serde_json::{Value, json};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// Default interval between checks for new rows, in milliseconds.
const DEFAULT_INTERVAL_MS: u64 = 200;
/// Bounds of the interval, in milliseconds.
const INTERVAL_BOUNDS_MS: (u64, u64) = (10, 60_000);
/// Time for which a file that is being written may be unreadable before the request fails.
const MAX_UNREADABLE_TIME: Duration = Duration::from_secs(10);

/// The parameters of following a table.
struct FollowOptions {
    query: Query,
    every: Duration,
    /// Ends when the table has this number of rows.
    until: Option<u64>,
    /// Ends after this time without new rows.
    idle: Option<Duration>,
}

impl FollowOptions {
    fn parse(descriptor: &FlightDescriptor) -> Result<Self> {
        let mut following = Self {
            query: Query::default(),
            every: Duration::from_millis(DEFAULT_INTERVAL_MS),
            until: None,
            idle: None,
        };
        if descriptor.r#type() != DescriptorType::Cmd {
            following.query = Query::from_descriptor(descriptor)?;
            return Ok(following);
        }
        let mut object = query::object(&descriptor.cmd)?;
        if let Some(follow) = object.remove("follow") {
            let Value::Object(mut follow) = follow else {
                return Err(Error::invalid("invalid request: `follow` must be an object"));
            };
            let every = query::number(&mut follow, "every_ms")?
                .unwrap_or(DEFAULT_INTERVAL_MS)
                .clamp(INTERVAL_BOUNDS_MS.0, INTERVAL_BOUNDS_MS.1);
            following.every = Duration::from_millis(every);
            following.until = query::number(&mut follow, "until")?;
            following.idle = query::number(&mut follow, "idle_ms")?.map(Duration::from_millis);
            query::nothing_else(&follow)?;
        }
        following.query = Query::parse(Value::Object(object).to_string().as_bytes())?;
        let Query { version, rows, .. } = &following.query;
        if version.is_some() || rows.is_some_and(|(_, end)| end.is_some()) {
            return Err(Error::invalid("cannot follow a table with an end row or a version"));
        }
        Ok(following)
    }
}

/// Sends the rows of a table, and new ones as they are added, until the client stops.
pub(super) fn follow(
    files: &OpenFiles,
    descriptor: &FlightDescriptor,
    sender: &BatchSender<Message>,
    stopped: &watch::Receiver<bool>,
) -> Result<()> {
    let following = FollowOptions::parse(descriptor)?;
    let mut query = following.query.clone();
    let mut next = query.rows.map_or(0, |(start, _)| start);
    let asked = RequestedTable::new(files, &Query { rows: None, ..query.clone() }, false, true)?;
    let schema = SchemaRef::clone(&asked.schema);
    let mut encoder = Encoder::new(&schema, Bytes::new())?;
    for message in encoder.start()? {
        sender.send(message)?;
    }
    let (mut version, mut rows) = (String::new(), 0);
    let mut asked = Some(asked);
    let (mut last, mut unreadable) = (Instant::now(), None::<Instant>);
    loop {
        if let Some(now) = asked.take() {
            if !same_columns(&now.schema, &schema) {
                return Err(Error::new(ErrorKind::Changed, "the table's columns have changed"));
            }
            (version, rows) = (now.version.clone(), now.rows());
            if rows < next && next > 0 && following.query.rows.is_none_or(|(start, _)| next > start) {
                return Err(Error::new(ErrorKind::Changed, "the table has fewer rows than were sent"));
            }
        }
        if rows > next {
            query.rows = Some((next, Some(rows)));
            let part = RequestedTable::new(files, &query, false, true)?;
            let start = next;
            part.each(&mut |batch, done| {
                for part in parts(&batch) {
                    let about = json!({ "rows": [next, start + done], "version": version });
                    encoder.carry(about.to_string().into());
                    for message in encoder.encode(&part)? {
                        sender.send(message)?;
                    }
                }
                next = start + done;
                Ok(())
            })?;
            next = rows;
            last = Instant::now();
        }
        let over = following.until.is_some_and(|until| next >= until)
            || following.idle.is_some_and(|idle| last.elapsed() >= idle);
        if over || !wait(sender, stopped, following.every) {
            return Ok(());
        }
        // The file may be in the middle of a write.
        match RequestedTable::new(files, &Query { rows: None, ..query.clone() }, false, true) {
            Ok(now) => {
                unreadable = None;
                asked = (now.version != version || now.rows() != rows).then_some(now);
            }
            Err(error) => {
                if unreadable.get_or_insert_with(Instant::now).elapsed() > MAX_UNREADABLE_TIME {
                    return Err(error);
                }
            }
        }
    }
}

/// Returns whether two tables have the same columns; their metadata, such as the extent, may differ.
fn same_columns(one: &Schema, other: &Schema) -> bool {
    let (one, other) = (one.fields(), other.fields());
    one.len() == other.len()
        && one.iter().zip(other).all(|(a, b)| a.name() == b.name() && a.data_type() == b.data_type())
}

/// Waits for the interval; returns whether to continue.
fn wait(sender: &BatchSender<Message>, stopped: &watch::Receiver<bool>, every: Duration) -> bool {
    let mut stopped = stopped.clone();
    let stop = sender.runtime().block_on(async move {
        // True also if the sender of `stopped` was dropped.
        tokio::time::timeout(every, stopped.wait_for(|stop| *stop)).await.is_ok()
    });
    !stop && !sender.is_gone()
}
