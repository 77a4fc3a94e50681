//! One client's connection: requests are passed on, delayed, counted, or made to fail.

use crate::control::{Network, ProxyState};
use crate::fault::Fault;
use crate::files;
use crate::http::{Head, read_chunked};
use crate::stats::Entry;
use socket2::SockRef;
use std::io::{self, BufReader, Cursor, Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

/// Bytes copied at a time, without and with a bandwidth limit.
const PIECE_BYTES: usize = 256 << 10;
const PACED_PIECE_BYTES: usize = 128 << 10;

/// A response whose body is still to be read.
pub(crate) struct Answer<'a> {
    pub(crate) head: Head,
    pub(crate) body: Box<dyn Read + 'a>,
    /// Size of the body in bytes.
    pub(crate) length: u64,
}

impl Answer<'_> {
    fn text(status: u16, kind: &str, text: String) -> Self {
        let mut head = Head::new(&format!("HTTP/1.1 {status} Answer"));
        head.set("Content-Type", kind);
        head.set("Content-Length", text.len().to_string());
        Self { head, length: text.len() as u64, body: Box::new(Cursor::new(text)) }
    }

    /// Returns an error in S3's format.
    pub(crate) fn error(status: u16, code: &str, message: &str) -> Self {
        let text =
            format!("<?xml version=\"1.0\"?><Error><Code>{code}</Code><Message>{message}</Message></Error>");
        Self::text(status, "application/xml", text)
    }
}

/// The upstream server. Its idle connections are shared by all of ours, so that a new client does
/// not cost the server a new connection.
struct Upstream<'a> {
    address: &'a str,
    shared: &'a ProxyState,
    open: Option<BufReader<TcpStream>>,
}

impl Upstream<'_> {
    /// Sends a request and reads the head of the response. Reconnects if a connection was idle for
    /// too long.
    fn ask(&mut self, request: &Head, body: &[u8]) -> io::Result<Head> {
        self.open = self.open.take().or_else(|| self.shared.idle().pop());
        let kept = self.open.is_some();
        match self.ask_once(request, body) {
            Err(_) if kept => {
                self.open = None;
                self.ask_once(request, body)
            }
            answer => answer,
        }
    }

    fn ask_once(&mut self, request: &Head, body: &[u8]) -> io::Result<Head> {
        if self.open.is_none() {
            let stream = TcpStream::connect(self.address)?;
            stream.set_nodelay(true)?;
            self.open = Some(BufReader::new(stream));
        }
        let reader = self.open.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        let mut bytes = request.bytes();
        bytes.extend_from_slice(body);
        reader.get_mut().write_all(&bytes)?;
        Head::read(reader)?.ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }

    /// Returns a connection to the idle ones after its response was read completely.
    fn leave(&mut self) {
        self.shared.idle().extend(self.open.take());
    }

    /// Returns the response to a request.
    fn answer(&mut self, request: &Head, body: &[u8]) -> io::Result<Answer<'_>> {
        let mut head = self.ask(request, body)?;
        let reader = self.open.as_mut().ok_or(io::ErrorKind::NotConnected)?;
        if head.is_chunked() {
            let body = read_chunked(reader)?;
            head.remove("Transfer-Encoding");
            head.set("Content-Length", body.len().to_string());
            return Ok(Answer { head, length: body.len() as u64, body: Box::new(Cursor::new(body)) });
        }
        let none = request.word(0) == "HEAD" || matches!(head.status(), 204 | 304);
        let length = if none { 0 } else { head.length()? };
        Ok(Answer { head, length, body: Box::new(reader.take(length)) })
    }
}

/// True if a connection stays open.
type GoesOn = bool;

/// Serves a client until it, or a fault, ends the connection.
pub(crate) fn serve(client: TcpStream, shared: &ProxyState) {
    let Ok(reading) = client.try_clone() else { return };
    let _ = client.set_nodelay(true);
    let mut reader = BufReader::new(reading);
    let mut writer = client;
    let address = shared.upstream.as_deref().unwrap_or_default();
    let mut upstream = Upstream { address, shared, open: None };
    let mut counted = false;
    while let Ok(Some(request)) = Head::read(&mut reader) {
        if let Some((status, text)) = shared.control(request.word(1)) {
            let answer = Answer::text(status, "application/json", text);
            let plain = Network { latency: Duration::ZERO, bandwidth: 0.0, ..shared.network() };
            if send(&mut writer, answer, &plain, false, || {}).is_err() {
                return;
            }
            continue;
        }
        if !counted {
            shared.stats().connected();
            counted = true;
        }
        if !matches!(exchange(&mut reader, &mut writer, &mut upstream, shared, request), Ok(true)) {
            return;
        }
        upstream.leave();
    }
}

/// Handles one request and its response.
fn exchange(
    reader: &mut BufReader<TcpStream>,
    writer: &mut TcpStream,
    upstream: &mut Upstream<'_>,
    shared: &ProxyState,
    mut request: Head,
) -> io::Result<GoesOn> {
    let start = shared.stats().started();
    let mut counter = RequestCounter { shared, entry: Some(entry(&request, start)) };
    let network = shared.network();
    if request.get("expect").is_some() {
        request.remove("Expect");
        writer.write_all(b"HTTP/1.1 100 Continue\r\n\r\n")?;
    }
    let mut body = Vec::new();
    reader.take(request.length()?).read_to_end(&mut body)?;
    std::thread::sleep(network.latency);

    let fault = shared.next_fault(request.word(0) == "GET");
    counter.fault(fault);
    match fault {
        Some(Fault::ResetHead) => {
            counter.end();
            return reset(writer);
        }
        Some(Fault::StallHead) => {
            counter.end();
            return stall(writer, network.stall);
        }
        Some(Fault::Garbage) => {
            counter.end();
            writer.write_all(b"\x89HDF\r\n\x1a\n, not HTTP\r\n\r\n")?;
            return Ok(false);
        }
        _ => {}
    }
    let closes = request.get("connection").is_some_and(|value| value.eq_ignore_ascii_case("close"));
    let mut answer = match (refusal(fault, &request, &network), &shared.folder) {
        (Some(answer), _) => answer,
        (None, Some(folder)) if fault == Some(Fault::Whole) => {
            let told = shared.upstream.is_some().then(|| upstream.answer(&request, &body)).transpose()?;
            let told = told.map(|answer| answer.head);
            upstream.open = None;
            if told.is_some() {
                request.remove("If-Match"); // the server has compared its own ETag
            }
            let mut answer = files::answer(folder, &request, true)?;
            if let Some(told) = told {
                answer.head.set("ETag", told.get("etag").unwrap_or_default());
            }
            answer
        }
        (None, Some(folder)) if shared.upstream.is_none() => files::answer(folder, &request, false)?,
        _ => upstream.answer(&request, &body)?,
    };
    if request.word(0) == "HEAD" {
        answer.length = 0;
    }
    counter.status(&answer);
    let altered = fault.is_some_and(|fault| alter(fault, &mut answer.head));
    let half = answer.length / 2;
    match fault {
        Some(Fault::ResetBody | Fault::CloseBody | Fault::StallBody) => {
            answer.length = half;
            send(writer, answer, &network, altered, || counter.end_after(half))?;
            upstream.open = None;
            match fault {
                Some(Fault::ResetBody) => reset(writer),
                Some(Fault::StallBody) => stall(writer, network.stall),
                _ => Ok(false),
            }
        }
        Some(Fault::Trickle) => {
            counter.end();
            trickle(writer, answer, network.stall)
        }
        Some(Fault::Short) => {
            answer.head.set("Content-Length", half.to_string());
            answer.length = half;
            send(writer, answer, &network, altered, || counter.end_after(half))?;
            upstream.open = None;
            Ok(!closes)
        }
        _ => {
            let length = answer.length;
            send(writer, answer, &network, altered, || counter.end_after(length))?;
            Ok(!closes)
        }
    }
}

fn entry(request: &Head, start: u128) -> Entry {
    let range = request.get("range").unwrap_or_default().trim_start_matches("bytes=").to_owned();
    let (method, target) = (request.word(0).to_owned(), request.word(1).to_owned());
    Entry { method, target, range, status: 0, bytes: 0, fault: "", start, end: start }
}

/// Counts a request once, whatever happens to it. It ends just before its last byte is sent, so
/// that a client with the whole response finds it counted.
struct RequestCounter<'a> {
    shared: &'a ProxyState,
    entry: Option<Entry>,
}

impl RequestCounter<'_> {
    fn fault(&mut self, fault: Option<Fault>) {
        if let (Some(entry), Some(fault)) = (&mut self.entry, fault) {
            entry.fault = fault.name();
        }
    }

    fn status(&mut self, answer: &Answer<'_>) {
        if let Some(entry) = &mut self.entry {
            entry.status = answer.head.status();
        }
    }

    fn end(&mut self) {
        if let Some(entry) = self.entry.take() {
            self.shared.stats().ended(entry);
        }
    }

    fn end_after(&mut self, bytes: u64) {
        if let Some(entry) = &mut self.entry {
            entry.bytes = bytes;
        }
        self.end();
    }
}

impl Drop for RequestCounter<'_> {
    fn drop(&mut self) {
        self.end();
    }
}

/// Returns the response to a request that is not passed on.
fn refusal<'a>(fault: Option<Fault>, request: &Head, network: &Network) -> Option<Answer<'a>> {
    Some(match fault? {
        Fault::Internal => Answer::error(500, "InternalError", "an error of this server"),
        Fault::SlowDown => Answer::error(503, "SlowDown", "Please reduce your request rate."),
        Fault::TooMany => {
            let mut answer = Answer::error(429, "TooManyRequests", "too many requests");
            answer.head.set("Retry-After", network.retry_after.to_string());
            answer
        }
        Fault::Expired => Answer::error(400, "ExpiredToken", "The provided token has expired."),
        Fault::Denied => Answer::error(403, "AccessDenied", "Access Denied"),
        Fault::Gone => Answer::error(404, "NoSuchKey", "The specified key does not exist."),
        Fault::Changed if request.get("if-match").is_some() => Answer::error(
            412,
            "PreconditionFailed",
            "At least one of the pre-conditions you specified did not hold",
        ),
        _ => return None,
    })
}

/// Changes the head for a fault; returns whether the body must change, too.
fn alter(fault: Fault, head: &mut Head) -> bool {
    if !(200..300).contains(&head.status()) {
        return false;
    }
    match fault {
        Fault::Changed => head.set("ETag", "\"another\""),
        Fault::NoRange => head.remove("Content-Range"),
        Fault::Shifted => {
            let shifted = head.get("content-range").and_then(shifted);
            let Some(shifted) = shifted else { return false };
            head.set("Content-Range", shifted);
        }
        _ => return false,
    }
    true
}

/// `bytes 0-9/20` becomes `bytes 1-10/20`.
fn shifted(text: &str) -> Option<String> {
    let (range, total) = text.strip_prefix("bytes ")?.split_once('/')?;
    let (first, last) = range.split_once('-')?;
    let (first, last): (u64, u64) = (first.parse().ok()?, last.parse().ok()?);
    Some(format!("bytes {}-{}/{total}", first + 1, last + 1))
}

/// Sends a response at the network's speed. `last` is called before the last part is written.
fn send(
    to: &mut TcpStream,
    answer: Answer<'_>,
    network: &Network,
    altered: bool,
    mut last: impl FnMut(),
) -> io::Result<()> {
    let mut head = answer.head.bytes();
    let mut body = answer.body;
    let mut left = answer.length;
    if left == 0 {
        last();
        return to.write_all(&head);
    }
    let piece = if network.bandwidth > 0.0 { PACED_PIECE_BYTES } else { PIECE_BYTES };
    let mut buffer = vec![0; usize::try_from(left).unwrap_or(piece).min(piece)];
    let (started, mut sent) = (Instant::now(), 0_u64);
    while left > 0 {
        let want = usize::try_from(left).unwrap_or(piece).min(buffer.len());
        let count = body.read(&mut buffer[..want])?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let read = &mut buffer[..count];
        if altered {
            read.iter_mut().for_each(|byte| *byte ^= 0x5a);
        }
        left -= count as u64;
        sent += count as u64;
        if network.bandwidth > 0.0 {
            let due = Duration::from_secs_f64(sent as f64 / network.bandwidth);
            std::thread::sleep(due.saturating_sub(started.elapsed()));
        }
        if left == 0 {
            last();
        }
        // The head goes with the first bytes: one packet for a small response.
        if head.is_empty() {
            to.write_all(read)?;
        } else {
            head.extend_from_slice(read);
            to.write_all(&head)?;
            head.clear();
        }
    }
    Ok(())
}

/// Resets the connection, as a crash does.
fn reset(client: &TcpStream) -> io::Result<GoesOn> {
    SockRef::from(client).set_linger(Some(Duration::ZERO))?;
    Ok(false)
}

/// Sends nothing for a while, or until the client gives up.
fn stall(client: &mut TcpStream, how_long: Duration) -> io::Result<GoesOn> {
    client.set_read_timeout(Some(how_long.max(Duration::from_millis(1))))?;
    let _ = client.read(&mut [0]);
    Ok(false)
}

/// Sends a few bytes at a time.
fn trickle(to: &mut TcpStream, mut answer: Answer<'_>, how_long: Duration) -> io::Result<GoesOn> {
    to.write_all(&answer.head.bytes())?;
    let started = Instant::now();
    let mut few = [0; 4];
    while started.elapsed() < how_long {
        let count = answer.body.read(&mut few)?;
        to.write_all(&few[..count])?;
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(false)
}
