//! A source that reads byte ranges of a file on a Flight server.

use super::process::{Connection, Process, failed, request};
use super::url::Location;
use arrow_flight::Action;
use bytes::{Bytes, BytesMut};
use hyperchunk::io::{Counters, Land, Remote, RemoteOptions, RequestCost, Source};
use hyperchunk::{Error, ErrorKind, Result};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Maximum number of concurrent requests for one read.
const MAX_CONCURRENT_REQUESTS: usize = 4;
/// Maximum number of ranges in one request.
const MAX_RANGES: usize = 4096;
/// Maximum number of received ranges that wait to be decoded.
const QUEUED_RANGES: usize = 64;
/// Bandwidth that is assumed of a connection to a server, for planning requests.
const ASSUMED_BYTES_PER_SECOND: f64 = 400e6;
/// The first pause before a request is retried; it doubles.
const FIRST_RETRY_DELAY: Duration = Duration::from_millis(50);

/// An opened file on a server: one version of it.
pub(super) struct FlightSource {
    location: Location,
    shown: String,
    identity: String,
    connection: Arc<Connection>,
    options: RemoteOptions,
    size: u64,
    version: String,
    /// The file's `Source::version` on the server's machine.
    local_version: Option<String>,
    head: Bytes,
    counters: Arc<Counters>,
    /// Duration of the opening request.
    latency: Duration,
}

/// Opens the file that a URL names.
pub(super) fn open(url: &str, options: &RemoteOptions) -> Result<Arc<dyn Source>> {
    let location = Location::parse(url)?;
    if location.file.is_empty() {
        let message =
            format!("cannot open the server itself: expected {0}/FILE, got {0}", location.server.url());
        return Err(Error::invalid(message).file(url));
    }
    open_location(location, options)
}

fn open_location(location: Location, options: &RemoteOptions) -> Result<Arc<dyn Source>> {
    let shown = location.shown();
    FlightSource::open(location, options)
        .map(|source| Arc::new(source) as Arc<dyn Source>)
        .map_err(|error| error.file(shown))
}

/// Requests an action, and passes each result to `take`. Retries if nothing was received and a retry may
/// help.
async fn ask(
    connection: &Connection,
    options: &RemoteOptions,
    counters: &Counters,
    action: Action,
    mut take: impl FnMut(Bytes) -> Result<()>,
) -> Result<()> {
    let started = Instant::now();
    let mut pause = FIRST_RETRY_DELAY;
    let mut attempt = 0;
    loop {
        let mut came = false;
        let mut once = async || -> std::result::Result<(), (Error, bool)> {
            let told = |error: &tonic::Status| failed(connection, error);
            let mut client = Process::get()
                .and_then(|process| process.client(connection))
                .map_err(|error| (error, false))?;
            counters.requests.fetch_add(1, Ordering::Relaxed);
            let asked = client.do_action(request(connection, action.clone(), None));
            let silent =
                |_| (Error::new(ErrorKind::Io, "the server did not respond within the timeout"), true);
            let mut answers = tokio::time::timeout(options.timeout, asked)
                .await
                .map_err(silent)?
                .map_err(|error| told(&error))?
                .into_inner();
            loop {
                let next = tokio::time::timeout(options.timeout, answers.message()).await.map_err(silent)?;
                let Some(answer) = next.map_err(|error| told(&error))? else { return Ok(()) };
                counters.bytes.fetch_add(answer.body.len() as u64, Ordering::Relaxed);
                came = true;
                take(answer.body).map_err(|error| (error, false))?;
            }
        };
        let (error, again) = match once().await {
            Ok(()) => return Ok(()),
            Err(failed) => failed,
        };
        attempt += 1;
        if !again || came || attempt > options.retries || started.elapsed() + pause > options.retry_timeout {
            return Err(error);
        }
        counters.retries.fetch_add(1, Ordering::Relaxed);
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(Duration::from_secs(5));
    }
}

fn action(kind: &str, body: &Value) -> Action {
    Action { r#type: kind.to_owned(), body: body.to_string().into() }
}

fn protocol_error(what: &str) -> Error {
    Error::new(ErrorKind::Io, format!("invalid response from the Flight server: {what}"))
}

impl FlightSource {
    fn open(location: Location, options: &RemoteOptions) -> Result<Self> {
        let connection = Arc::new(Connection::new(&location.server, options)?);
        let counters = Arc::new(Counters::default());
        counters.rounds.fetch_add(1, Ordering::Relaxed);
        let asked = json!({ "file": location.file, "head": options.first_read.max(1) });
        let (to_ask, options_of, counters_of) =
            (Arc::clone(&connection), options.clone(), Arc::clone(&counters));
        let started = Instant::now();
        let answers = Process::get()?.wait(async move {
            let mut answers = Vec::new();
            let mut take = |body: Bytes| {
                answers.push(body);
                if answers.len() > 2 { Err(protocol_error("too many parts")) } else { Ok(()) }
            };
            ask(&to_ask, &options_of, &counters_of, action("hyperchunk.stat", &asked), &mut take).await?;
            Ok(answers)
        })?;
        let latency = started.elapsed();
        let mut answers = answers.into_iter();
        let stat: Value = answers
            .next()
            .and_then(|body| serde_json::from_slice(&body).ok())
            .ok_or_else(|| protocol_error("the first part is not JSON"))?;
        let size = stat.get("size").and_then(Value::as_u64).ok_or_else(|| protocol_error("no size"))?;
        let version =
            stat.get("version").and_then(Value::as_str).ok_or_else(|| protocol_error("no version"))?;
        let head = answers.next().unwrap_or_default();
        if head.len() as u64 > size {
            return Err(protocol_error("the head is longer than the file"));
        }
        let shown = location.shown();
        Ok(Self {
            identity: format!("{shown} version {version}"),
            version: version.to_owned(),
            local_version: stat.get("changed").and_then(Value::as_str).map(str::to_owned),
            options: options.clone(),
            location,
            shown,
            connection,
            size,
            head,
            counters,
            latency,
        })
    }

    /// Returns a range of the bytes received on opening, if it is inside them.
    fn within_head(&self, range: &Range<u64>) -> Option<Bytes> {
        let (start, end) = (usize::try_from(range.start).ok()?, usize::try_from(range.end).ok()?);
        (start <= end && end <= self.head.len()).then(|| self.head.slice(start..end))
    }

    fn fetch_ranges(&self, ranges: &[Range<u64>], land: &mut Land<'_>) -> Result<()> {
        let mut far = Vec::with_capacity(ranges.len());
        for (place, range) in ranges.iter().enumerate() {
            if range.start > range.end || range.end > self.size {
                let message = format!("the range extends past the end of the file at byte {}", self.size);
                return Err(Error::new(ErrorKind::Truncated, message).at(range.start));
            }
            match self.within_head(range) {
                Some(bytes) => land(place, bytes)?,
                None if range.is_empty() => land(place, Bytes::new())?,
                None => far.push((place, range.clone())),
            }
        }
        if far.is_empty() {
            return Ok(());
        }
        self.counters.rounds.fetch_add(1, Ordering::Relaxed);
        let groups = groups(far, self.options.largest_request.max(1));
        // Each concurrent task takes one group after another.
        let workers = groups.len().min(MAX_CONCURRENT_REQUESTS).min(self.options.concurrency.max(1));
        let groups = Arc::new(std::sync::Mutex::new(VecDeque::from(groups)));
        Process::get()?.run(
            |to| {
                let worker = || {
                    let (groups, to) = (Arc::clone(&groups), to.clone());
                    let (connection, options) = (Arc::clone(&self.connection), self.options.clone());
                    let (counters, file) = (Arc::clone(&self.counters), self.location.file.clone());
                    let version = self.version.clone();
                    async move {
                        loop {
                            let next =
                                groups.lock().unwrap_or_else(std::sync::PoisonError::into_inner).pop_front();
                            let Some(group) = next else { return Ok(()) };
                            let pairs: Vec<_> =
                                group.iter().map(|(_, range)| [range.start, range.end]).collect();
                            let asked = json!({ "file": file, "version": version, "ranges": pairs });
                            let mut cutting = RangeSplitter::new(group);
                            let mut take = |body: Bytes| {
                                cutting.take(body, &mut |place, bytes| {
                                    let sent =
                                        tokio::task::block_in_place(|| to.send(Ok(Some((place, bytes)))));
                                    sent.map_err(|_| Error::new(ErrorKind::Io, "the read was cancelled"))
                                })
                            };
                            let action = action("hyperchunk.read", &asked);
                            ask(&connection, &options, &counters, action, &mut take).await?;
                            cutting.end()?;
                        }
                    }
                };
                (0..workers).map(|_| worker()).collect()
            },
            QUEUED_RANGES,
            &mut |(place, bytes)| land(place, bytes),
        )
    }
}

/// Divides ranges into groups that are requested together.
fn groups(ranges: Vec<(usize, Range<u64>)>, largest: u64) -> Vec<Vec<(usize, Range<u64>)>> {
    let mut groups: Vec<Vec<_>> = Vec::new();
    let mut bytes = 0;
    for (place, range) in ranges {
        let length = range.end - range.start;
        match groups.last_mut() {
            Some(group) if group.len() < MAX_RANGES && bytes + length <= largest => {
                bytes += length;
                group.push((place, range));
            }
            _ => {
                bytes = length;
                groups.push(vec![(place, range)]);
            }
        }
    }
    groups
}

/// Splits the received bytes into the requested ranges.
struct RangeSplitter {
    left: VecDeque<(usize, Range<u64>)>,
    /// The received part of the first range.
    part: BytesMut,
}

impl RangeSplitter {
    fn new(ranges: Vec<(usize, Range<u64>)>) -> Self {
        Self { left: ranges.into(), part: BytesMut::new() }
    }

    fn take(&mut self, mut body: Bytes, land: &mut dyn FnMut(usize, Bytes) -> Result<()>) -> Result<()> {
        while !body.is_empty() {
            let Some((place, range)) = self.left.front() else {
                return Err(protocol_error("too many bytes"));
            };
            let whole = usize::try_from(range.end - range.start)
                .map_err(|_| Error::limit("a range larger than the address space"))?;
            let missing = whole - self.part.len();
            let piece = body.split_to(missing.min(body.len()));
            let bytes = if self.part.is_empty() && piece.len() == whole {
                piece
            } else {
                if self.part.is_empty() {
                    self.part.reserve(whole);
                }
                self.part.extend_from_slice(&piece);
                if self.part.len() < whole {
                    continue;
                }
                self.part.split().freeze()
            };
            land(*place, bytes)?;
            self.left.pop_front();
        }
        Ok(())
    }

    fn end(&self) -> Result<()> {
        if self.left.is_empty() { Ok(()) } else { Err(protocol_error("too few bytes")) }
    }
}

impl Source for FlightSource {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let end = offset.checked_add(buffer.len() as u64).filter(|end| *end <= self.size);
        let end = end.ok_or_else(|| {
            Error::new(ErrorKind::Truncated, format!("the file ends at byte {}", self.size)).at(offset)
        })?;
        let piece = usize::try_from(self.options.largest_request.max(1)).unwrap_or(usize::MAX);
        let starts = (offset..end).step_by(piece);
        let ranges: Vec<_> = starts.map(|start| start..start.saturating_add(piece as u64).min(end)).collect();
        self.fetch(&ranges, &mut |place, bytes| {
            let start = place.saturating_mul(piece);
            if let Some(place) = buffer.get_mut(start..start.saturating_add(bytes.len())) {
                place.copy_from_slice(&bytes);
            }
            Ok(())
        })
    }

    fn version(&self) -> Option<String> {
        self.local_version.clone()
    }

    fn remote(&self) -> Option<&dyn Remote> {
        Some(self)
    }
}

impl Remote for FlightSource {
    fn fetch(&self, ranges: &[Range<u64>], land: &mut Land<'_>) -> Result<()> {
        self.fetch_ranges(ranges, land).map_err(|error| error.file(&self.shown))
    }

    fn identity(&self) -> &str {
        &self.identity
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn options(&self) -> &RemoteOptions {
        &self.options
    }

    fn cost(&self) -> RequestCost {
        RequestCost { latency: self.latency, bandwidth: ASSUMED_BYTES_PER_SECOND }
    }

    fn head(&self) -> Bytes {
        self.head.clone()
    }

    fn sibling(&self, name: &str) -> Option<Result<Arc<dyn Source>>> {
        Some(self.location.sibling(name).and_then(|location| open_location(location, &self.options)))
    }
}

impl std::fmt::Debug for FlightSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FlightSource")
            .field("url", &self.shown)
            .field("version", &self.version)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_cut_out_of_what_comes() {
        let ranges = vec![(3, 10..14), (1, 20..20), (0, 100..103), (2, 7..8)];
        let groups_of = |largest| groups(ranges.clone(), largest).iter().map(Vec::len).collect::<Vec<_>>();
        assert_eq!(groups_of(100), [4]);
        assert_eq!(groups_of(4), [2, 2]);
        assert_eq!(groups_of(1), [1, 1, 1, 1]);
        let whole = Bytes::from_static(b"abcdefgh");
        for size in 1..9 {
            let mut cutting =
                RangeSplitter::new(ranges.iter().filter(|(_, range)| !range.is_empty()).cloned().collect());
            let mut landed = Vec::new();
            let mut land = |place: usize, bytes: Bytes| {
                landed.push((place, bytes));
                Ok(())
            };
            for start in (0..8).step_by(size) {
                assert!(cutting.end().is_err());
                cutting.take(whole.slice(start..(start + size).min(8)), &mut land).unwrap();
            }
            cutting.end().unwrap();
            assert!(cutting.take(Bytes::from_static(b"x"), &mut land).is_err());
            assert_eq!(landed, [(3, "abcd".into()), (0, "efg".into()), (2, "h".into())]);
        }
    }
}
