//! Web server with one object and scripted faults.

use std::collections::HashMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The server's reaction to a request.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Answer {
    Right,
    /// A status with further header lines and a body.
    Status(u16, &'static str, &'static str),
    /// Closes the connection before the response's head.
    Reset,
    /// Closes the connection in the middle of the body.
    Short,
    /// Sends a body that is longer than the range.
    Long,
    /// Sends half of the body, then nothing.
    Stall,
    /// Sends nothing at all.
    Silence,
    /// Another range, of the same length.
    WrongRange,
    /// A shorter range than requested, correctly labelled.
    ShortRange,
    /// 200 and the whole object.
    Whole,
    /// 200 and the whole object without its length, up to the end of the connection.
    Unsized,
    /// Another ETag, as if the object had been rewritten.
    Rewritten,
    /// Waits, then answers.
    Slow(Duration),
    /// Sends 1,000 bytes of the body, waits, then sends the others.
    Drip(Duration),
}

#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) number: usize,
    pub(super) path: String,
    pub(super) headers: HashMap<String, String>,
}

type Script = dyn Fn(&Request) -> Answer + Send + Sync;

pub(super) struct Server {
    pub(super) address: SocketAddr,
    shared: Arc<ServerState>,
}

struct ServerState {
    bytes: Vec<u8>,
    etag: Option<&'static str>,
    modified: Option<&'static str>,
    script: Box<Script>,
    log: Mutex<Vec<Request>>,
    at_once: AtomicUsize,
    most_at_once: AtomicUsize,
}

impl Server {
    pub(super) fn new(bytes: Vec<u8>, script: impl Fn(&Request) -> Answer + Send + Sync + 'static) -> Self {
        Self::with_marks(bytes, Some("\"one\""), Some("Sat, 01 Aug 2026 10:00:00 GMT"), script)
    }

    pub(super) fn with_marks(
        bytes: Vec<u8>,
        etag: Option<&'static str>,
        modified: Option<&'static str>,
        script: impl Fn(&Request) -> Answer + Send + Sync + 'static,
    ) -> Self {
        Self::at("127.0.0.1:0", bytes, (etag, modified), script)
    }

    /// Serves at an address of this machine.
    pub(super) fn at(
        address: &str,
        bytes: Vec<u8>,
        (etag, modified): (Option<&'static str>, Option<&'static str>),
        script: impl Fn(&Request) -> Answer + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(ServerState {
            bytes,
            etag,
            modified,
            script: Box::new(script),
            log: Mutex::default(),
            at_once: AtomicUsize::new(0),
            most_at_once: AtomicUsize::new(0),
        });
        let theirs = Arc::clone(&shared);
        // The thread ends with the test's process.
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let shared = Arc::clone(&theirs);
                std::thread::spawn(move || serve(&shared, stream));
            }
        });
        Self { address, shared }
    }

    pub(super) fn url(&self, path: &str) -> String {
        format!("http://{}/{path}", self.address)
    }

    pub(super) fn log(&self) -> Vec<Request> {
        self.shared.log.lock().unwrap().clone()
    }

    pub(super) fn most_at_once(&self) -> usize {
        self.shared.most_at_once.load(Ordering::SeqCst)
    }
}

fn serve(shared: &ServerState, stream: TcpStream) -> Option<()> {
    stream.set_nodelay(true).ok()?;
    let mut reader = BufReader::new(stream.try_clone().ok()?);
    let mut stream = stream;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
        let path = line.split_whitespace().nth(1)?.to_owned();
        let mut headers = HashMap::new();
        loop {
            let mut line = String::new();
            reader.read_line(&mut line).ok()?;
            let Some((name, value)) = line.trim().split_once(':') else { break };
            headers.insert(name.to_ascii_lowercase(), value.trim().to_owned());
        }
        let request = {
            let mut log = shared.log.lock().unwrap();
            let request = Request { number: log.len(), path, headers };
            log.push(request.clone());
            request
        };
        let at_once = shared.at_once.fetch_add(1, Ordering::SeqCst) + 1;
        shared.most_at_once.fetch_max(at_once, Ordering::SeqCst);
        let kept = answer(shared, &request, &mut stream);
        shared.at_once.fetch_sub(1, Ordering::SeqCst);
        kept?;
    }
}

/// Answers; `None` closes the connection.
fn answer(shared: &ServerState, request: &Request, stream: &mut TcpStream) -> Option<()> {
    let answer = (shared.script)(request);
    let size = shared.bytes.len();
    let (mut etag, mut modified) = (shared.etag, shared.modified);
    match answer {
        Answer::Status(status, headers, body) => {
            let length = body.len();
            write!(stream, "HTTP/1.1 {status} X\r\ncontent-length: {length}\r\n{headers}\r\n{body}").ok()?;
            return Some(());
        }
        Answer::Reset => return None,
        Answer::Silence => {
            std::thread::sleep(Duration::from_secs(60));
            return None;
        }
        Answer::Slow(time) => std::thread::sleep(time),
        Answer::Rewritten if etag.is_some_and(|etag| etag != "\"\"") => etag = Some("\"two\""),
        Answer::Rewritten => modified = Some("Sat, 01 Aug 2026 10:00:01 GMT"),
        _ => {}
    }
    if request.headers.get("if-match").is_some_and(|then| Some(then.as_str()) != etag) {
        write!(stream, "HTTP/1.1 412 X\r\ncontent-length: 0\r\n\r\n").ok()?;
        return Some(());
    }
    let range = request.headers.get("range").and_then(|range| range.strip_prefix("bytes=")?.split_once('-'));
    let range =
        range.map(|(start, last)| (start.parse::<usize>().unwrap(), last.parse::<usize>().unwrap() + 1));
    let mut head = String::new();
    for (name, value) in [("etag", etag), ("last-modified", modified)] {
        if let Some(value) = value {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
    }
    if answer == Answer::Unsized {
        write!(stream, "HTTP/1.1 200 X\r\nconnection: close\r\n{head}\r\n").ok()?;
        stream.write_all(&shared.bytes).ok()?;
        return None;
    }
    let (Some((start, end)), false) = (range, answer == Answer::Whole) else {
        write!(stream, "HTTP/1.1 200 X\r\ncontent-length: {size}\r\n{head}\r\n").ok()?;
        return stream.write_all(&shared.bytes).ok();
    };
    if start >= size {
        write!(stream, "HTTP/1.1 416 X\r\ncontent-length: 0\r\ncontent-range: bytes */{size}\r\n\r\n")
            .ok()?;
        return Some(());
    }
    let mut end = end.min(size);
    let mut start = start;
    match answer {
        Answer::WrongRange if end < size => (start, end) = (start + 1, end + 1),
        Answer::WrongRange => start = start.saturating_sub(1),
        Answer::ShortRange => end = (start + (end - start) / 2).max(start + 1),
        _ => {}
    }
    let body = &shared.bytes[start..end];
    let length = if answer == Answer::Long { body.len() + 5 } else { body.len() };
    let last = end - 1;
    write!(
        stream,
        "HTTP/1.1 206 X\r\ncontent-length: {length}\r\ncontent-range: bytes {start}-{last}/{size}\r\n{head}\r\n"
    )
    .ok()?;
    match answer {
        Answer::Short => {
            stream.write_all(&body[..body.len() / 2]).ok()?;
            None
        }
        Answer::Stall => {
            stream.write_all(&body[..body.len() / 2]).ok()?;
            std::thread::sleep(Duration::from_secs(60));
            None
        }
        Answer::Drip(time) => {
            let (first, others) = body.split_at(body.len().min(1000));
            stream.write_all(first).ok()?;
            std::thread::sleep(time);
            stream.write_all(others).ok()
        }
        Answer::Long => {
            stream.write_all(body).ok()?;
            stream.write_all(b"extra").ok()
        }
        _ => stream.write_all(body).ok(),
    }
}
