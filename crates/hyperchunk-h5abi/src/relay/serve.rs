//! The relay process: `hyperchunk relay`.

use super::readahead::CachedReader;
use super::{CLOSE, DATA, END, ERROR, HELLO, Header, OPEN, OPENED, READ, VERSION, truncate_text};
use hyperchunk::io::{RemoteOptions, Source};
use hyperchunk::{Error, ErrorKind, Result};
use std::collections::HashMap;
use std::io::{self, BufReader};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::time::Duration;

/// A request of the client.
enum Request {
    Open(Header, String),
    Read(Header),
    Close(u64),
}

/// Maximum size of the caches of all files together, in bytes.
const MAX_CACHED_BYTES: u64 = 256 << 20;
/// A relay without an open file ends after this time.
const IDLE_TIMEOUT: Duration = Duration::from_secs(30);
/// Maximum number of queued requests.
const MAX_QUEUED_REQUESTS: usize = 16;

/// Serves files over the socket that is the process's standard input. Ends the process when the client closes
/// the socket, even in the middle of a request.
///
/// # Errors
/// A message, if standard input is not a socket, or the client does not speak the protocol.
pub fn serve() -> std::result::Result<(), String> {
    close_other_descriptors();
    let no_socket = |error: io::Error| {
        format!("`hyperchunk relay` expects a socket as standard input ({error}): HDF5's connector starts it")
    };
    let input = io::stdin().as_fd().try_clone_to_owned().map_err(no_socket)?;
    let mut stream = UnixStream::from(input);
    stream.peer_addr().map_err(no_socket)?;
    let requests = stream.try_clone().map_err(no_socket)?;
    let (to, from) = sync_channel(MAX_QUEUED_REQUESTS);
    std::thread::spawn(move || {
        let status = receive(requests, &to);
        // SAFETY: ends the process at once; there is nothing to be flushed.
        unsafe { libc::_exit(status) }
    });
    // If sending fails, the client has ended.
    answer(&mut stream, &from).map_err(|error| error.to_string())
}

/// Closes descriptors that the program which started this process left open.
fn close_other_descriptors() {
    #[cfg(target_os = "linux")]
    // SAFETY: a system call; nothing in this process has opened anything that it still needs.
    unsafe {
        libc::syscall(libc::SYS_close_range, 3_u32, u32::MAX, 0_u32);
    }
}

/// Reads requests until the other end closes; returns the exit status.
fn receive(stream: UnixStream, to: &SyncSender<Request>) -> i32 {
    let mut stream = BufReader::new(stream);
    loop {
        let Ok(header) = Header::receive(&mut stream) else { return 0 };
        let request = match header.kind {
            OPEN => match header.text(&mut stream) {
                Ok(url) => Request::Open(header, url),
                Err(_) => return 1,
            },
            READ => Request::Read(header),
            CLOSE => Request::Close(header.file),
            _ => return 1,
        };
        if to.send(request).is_err() {
            return 0;
        }
    }
}

fn answer(stream: &mut UnixStream, requests: &Receiver<Request>) -> io::Result<()> {
    Header { offset: VERSION, ..Header::new(HELLO, 0) }.send(stream, &[])?;
    let mut files = Files::default();
    loop {
        let request = match requests.try_recv() {
            Ok(request) => request,
            // No request is queued: prefetch.
            Err(TryRecvError::Empty) if files.look_ahead() => continue,
            Err(TryRecvError::Empty) => {
                let patience = if files.all.is_empty() { IDLE_TIMEOUT } else { Duration::MAX };
                let Ok(request) = requests.recv_timeout(patience) else { return Ok(()) };
                request
            }
            Err(TryRecvError::Disconnected) => return Ok(()),
        };
        match request {
            Request::Open(asked, url) => match hyperchunk::io::open(&url, &RemoteOptions::default()) {
                Ok(source) => {
                    let identity = identity(&source);
                    let (length, text) = truncate_text(&identity);
                    let header = Header { offset: source.size(), length, ..Header::new(OPENED, asked.id) };
                    header.send(stream, text)?;
                    files.all.insert(asked.file, CachedReader::new(source));
                }
                Err(error) => refuse(stream, asked.id, &error)?,
            },
            Request::Read(asked) => read(stream, &mut files, asked)?,
            Request::Close(file) => drop(files.all.remove(&file)),
        }
    }
}

/// The open files, by the client's numbers.
#[derive(Default)]
struct Files {
    all: HashMap<u64, CachedReader>,
    /// The number of the file that was read last.
    last: u64,
}

impl Files {
    fn look_ahead(&mut self) -> bool {
        self.all.get_mut(&self.last).is_some_and(CachedReader::look_ahead)
    }

    /// Clears the caches of all files but the last one that was read, if the caches are too large together.
    fn trim(&mut self) {
        let mut total = self.all.values().fold(0_u64, |total, reader| total.saturating_add(reader.total()));
        for (number, reader) in &mut self.all {
            if total <= MAX_CACHED_BYTES {
                return;
            }
            if *number != self.last {
                total = total.saturating_sub(reader.total());
                reader.forget();
            }
        }
    }
}

/// Returns the identity of the version of the file; empty if that is unknown.
fn identity(source: &Arc<dyn Source>) -> String {
    source
        .remote()
        .map(|remote| remote.identity().to_owned())
        .or_else(|| source.version())
        .unwrap_or_default()
}

fn refuse(stream: &mut UnixStream, id: u64, error: &Error) -> io::Result<()> {
    let number = match error.kind() {
        ErrorKind::NotFound => libc::ENOENT,
        _ => 0,
    };
    let message = error.to_string();
    let (length, message) = truncate_text(&message);
    let detail = u32::try_from(number).unwrap_or(0);
    Header { detail, length, ..Header::new(ERROR, id) }.send(stream, message)
}

fn read(stream: &mut UnixStream, files: &mut Files, asked: Header) -> io::Result<()> {
    files.last = asked.file;
    let outcome = ranges(files.all.get_mut(&asked.file), asked, &mut |offset, bytes| {
        let length = bytes.len() as u64;
        let header = Header { offset, length, ..Header::new(DATA, asked.id) };
        header.send(stream, bytes).map_err(|error| Error::new(ErrorKind::Io, error.to_string()))
    });
    files.trim();
    match outcome {
        Ok(()) => Header::new(END, asked.id).send(stream, &[]),
        Err(error) => refuse(stream, asked.id, &error),
    }
}

fn ranges(
    reader: Option<&mut CachedReader>,
    asked: Header,
    send: &mut super::readahead::SendBytes<'_>,
) -> Result<()> {
    let Some(reader) = reader else { return Err(Error::invalid("no file with this number is open")) };
    let size = reader.source().size();
    let end = asked.offset.checked_add(asked.length).filter(|end| *end <= size);
    let Some(end) = end else {
        let message = format!("the range ends after the end of the file, byte {size}");
        return Err(Error::new(ErrorKind::Truncated, message).at(asked.offset));
    };
    reader.read(&(asked.offset..end), asked.detail != 0, send)
}
