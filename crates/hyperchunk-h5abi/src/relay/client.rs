//! Client of a relay, in the reading program: starts the relay and sends it requests. Every wait has a
//! deadline.

use super::{
    CLOSE, DATA, END, ERROR, HELLO, Header, MAX_TEXT_BYTES, OPEN, OPENED, READ, VERSION, truncate_text,
};
use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::{self, Read as _, Write};
use std::os::fd::{AsRawFd as _, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::{Duration, Instant};

/// Time limit for a relay's first message.
const START_TIMEOUT: Duration = Duration::from_secs(60);
/// Time limit for an answer. The relay's own limit is shorter, so that it can report the reason.
const REPLY_TIMEOUT: Duration = Duration::from_secs(180);
/// Time limit for a relay to end after its socket was closed; after that it is left alone.
const EXIT_TIMEOUT: Duration = Duration::from_secs(1);
/// Environment variable that makes the relay's standard error visible.
const VERBOSE: &str = "HYPERCHUNK_RELAY_STDERR";

/// The purpose of a read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ReadPurpose {
    Structure,
    Data,
}

/// The reason of a failure, with the system's error number if there is one.
#[derive(Clone, Debug)]
pub(crate) struct Failure {
    message: String,
    number: i32,
}

impl Failure {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self { message: message.into(), number: 0 }
    }

    /// Adds the range that was read.
    pub(crate) fn with_range(mut self, offset: u64, length: usize) -> Self {
        self.message = format!("{length} bytes at {offset}: {}", self.message);
        self
    }

    /// Returns whether the file does not exist.
    pub(crate) fn is_not_found(&self) -> bool {
        self.number == libc::ENOENT
    }
}

impl fmt::Display for Failure {
    /// Formats the error in the form by which h5py chooses its exceptions.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)?;
        if self.number != 0 {
            let reason = io::Error::from_raw_os_error(self.number).to_string();
            let reason = reason.split(" (os error").next().unwrap_or_default();
            write!(f, ", errno = {}, error message = '{reason}'", self.number)?;
        }
        Ok(())
    }
}

/// One version of a file over a network.
#[derive(Debug)]
pub(crate) struct Relay {
    shared: Arc<SharedRelay>,
    url: String,
    pub(crate) size: u64,
    /// Identifies the version of the file; empty if unknown.
    pub(crate) identity: String,
    place: Mutex<FileLocation>,
}

/// The relay that has a file open, and the file's number there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct FileLocation {
    /// The serial number of the relay within its [`SharedRelay`].
    relay: u64,
    /// The file's number in that relay.
    file: u64,
}

/// State shared by all files that a program reads with one command and one environment, which may contain
/// credentials.
#[derive(Debug)]
struct SharedRelay {
    command: PathBuf,
    environment: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    link: Option<Link>,
    /// Number of started relays.
    relays: u64,
}

static ALL: Mutex<Vec<Weak<SharedRelay>>> = Mutex::new(Vec::new());
/// Keeps the relay alive for a program that opens one file after another. Without open files, the relay ends
/// by itself after a while.
static LAST: Mutex<Option<Arc<SharedRelay>>> = Mutex::new(None);

/// A running relay.
#[derive(Debug)]
struct Link {
    stream: UnixStream,
    /// The relay's process; `None` in tests.
    child: Option<Child>,
    /// The id of the process that started the relay.
    process: u32,
    requests: u64,
    files: u64,
}

/// Socket on which writes raise no SIGPIPE, which would end a program whose relay has ended.
struct SignalFreeSocket<'a>(&'a UnixStream);

impl Write for SignalFreeSocket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        // SAFETY: a live descriptor and as many bytes.
        let sent =
            unsafe { libc::send(self.0.as_raw_fd(), bytes.as_ptr().cast(), bytes.len(), libc::MSG_NOSIGNAL) };
        usize::try_from(sent).map_err(|_| io::Error::last_os_error())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        if self.process != std::process::id() {
            // This is a copy in a forked child; the relay belongs to the parent.
            return;
        }
        let _ = self.stream.shutdown(std::net::Shutdown::Both);
        let Some(child) = &mut self.child else { return };
        let started = Instant::now();
        let mut pause = Duration::from_micros(200);
        while matches!(child.try_wait(), Ok(None)) && started.elapsed() < EXIT_TIMEOUT {
            std::thread::sleep(pause);
            pause = pause.saturating_mul(2).min(Duration::from_millis(20));
        }
    }
}

impl Link {
    fn start(command: &Path) -> Result<Self, Failure> {
        let failed = |error: io::Error| {
            Failure::new(format!("cannot start {} for files over a network: {error}", command.display()))
        };
        let (ours, theirs) = UnixStream::pair().map_err(failed)?;
        let verbose = std::env::var_os(VERBOSE).is_some_and(|value| !value.is_empty());
        // A process group of its own: Ctrl-C is for the program, which may go on.
        let child = Command::new(command)
            .arg("relay")
            .stdin(Stdio::from(OwnedFd::from(theirs)))
            .stdout(Stdio::null())
            .stderr(if verbose { Stdio::inherit() } else { Stdio::null() })
            .env_remove("HDF5_VOL_CONNECTOR")
            .process_group(0)
            .spawn()
            .map_err(failed)?;
        let mut link = Self::from_stream(ours, Some(child)).map_err(failed)?;
        let wrong = |why: &dyn fmt::Display| {
            Failure::new(format!(
                "{} is no relay for files over a network ({why}): set HYPERCHUNK_COMMAND to the command of this release, or add `command=…` after the connector's name",
                command.display()
            ))
        };
        let hello = Header::receive(&mut link.stream)
            .map_err(|error| wrong(&timeout_message(&error, START_TIMEOUT)))?;
        if hello.kind != HELLO || hello.offset != VERSION {
            return Err(wrong(&format_args!(
                "it speaks version {} of the protocol, not {VERSION}",
                hello.offset
            )));
        }
        link.stream.set_read_timeout(Some(REPLY_TIMEOUT)).map_err(failed)?;
        Ok(link)
    }

    fn from_stream(stream: UnixStream, child: Option<Child>) -> io::Result<Self> {
        stream.set_read_timeout(Some(START_TIMEOUT))?;
        stream.set_write_timeout(Some(START_TIMEOUT))?;
        Ok(Self { stream, child, process: std::process::id(), requests: 0, files: 0 })
    }

    /// Opens a file and returns its number, size and identity. The outer error means that the relay cannot be
    /// used any more.
    fn open(&mut self, url: &str) -> Result<Result<(u64, u64, String), Failure>, Failure> {
        if url.len() as u64 > MAX_TEXT_BYTES {
            return Ok(Err(Failure::new("the URL is too long")));
        }
        self.requests = self.requests.wrapping_add(1);
        self.files = self.files.wrapping_add(1);
        let (length, text) = truncate_text(url);
        let (id, file) = (self.requests, self.files);
        let asked = Header { file, length, ..Header::new(OPEN, id) };
        asked.send(&mut SignalFreeSocket(&self.stream), text).map_err(|error| disconnected(&error))?;
        let answer = Header::receive(&mut self.stream).map_err(|error| disconnected(&error))?;
        if answer.id != id {
            return Err(protocol_error());
        }
        match answer.kind {
            OPENED | ERROR => {}
            _ => return Err(protocol_error()),
        }
        let text = answer.text(&mut self.stream).map_err(|error| disconnected(&error))?;
        Ok(if answer.kind == OPENED {
            Ok((file, answer.offset, text))
        } else {
            Err(remote_failure(&answer, text))
        })
    }

    /// Fills a buffer. The outer error means that the relay cannot be used any more.
    fn read(
        &mut self,
        file: u64,
        offset: u64,
        buffer: &mut [u8],
        what: ReadPurpose,
    ) -> Result<Result<(), Failure>, Failure> {
        self.requests = self.requests.wrapping_add(1);
        let id = self.requests;
        let length = buffer.len() as u64;
        let detail = u32::from(what == ReadPurpose::Data);
        let asked = Header { detail, file, offset, length, ..Header::new(READ, id) };
        asked.send(&mut SignalFreeSocket(&self.stream), &[]).map_err(|error| disconnected(&error))?;
        let mut received = 0_u64;
        loop {
            let answer = Header::receive(&mut self.stream).map_err(|error| disconnected(&error))?;
            if answer.id != id {
                return Err(protocol_error());
            }
            match answer.kind {
                DATA => {
                    let place = answer.offset.checked_sub(offset).and_then(|from| {
                        let from = usize::try_from(from).ok()?;
                        buffer.get_mut(from..from.checked_add(usize::try_from(answer.length).ok()?)?)
                    });
                    let Some(place) = place else { return Err(protocol_error()) };
                    self.stream.read_exact(place).map_err(|error| disconnected(&error))?;
                    received = received.saturating_add(answer.length);
                }
                END if received == length => return Ok(Ok(())),
                ERROR => {
                    let text = answer.text(&mut self.stream).map_err(|error| disconnected(&error))?;
                    return Ok(Err(remote_failure(&answer, text)));
                }
                _ => return Err(protocol_error()),
            }
        }
    }
}

fn remote_failure(answer: &Header, message: String) -> Failure {
    Failure { message, number: i32::try_from(answer.detail).unwrap_or(0) }
}

fn protocol_error() -> Failure {
    Failure::new("the relay sent an invalid message")
}

fn timeout_message(error: &io::Error, limit: Duration) -> String {
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "the process ended".into(),
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
            format!("no message for {} s", limit.as_secs())
        }
        _ => error.to_string(),
    }
}

fn disconnected(error: &io::Error) -> Failure {
    Failure::new(format!("the relay does not answer: {}", timeout_message(error, REPLY_TIMEOUT)))
}

impl SharedRelay {
    /// Returns the shared state for a command in the current environment.
    fn for_command(command: &Path) -> Arc<Self> {
        let shared = Self::find_or_create(command);
        let last = LAST.lock().unwrap_or_else(PoisonError::into_inner).replace(Arc::clone(&shared));
        drop(last);
        shared
    }

    fn find_or_create(command: &Path) -> Arc<Self> {
        let mut hasher = DefaultHasher::new();
        std::env::vars_os().for_each(|variable| variable.hash(&mut hasher));
        let environment = hasher.finish();
        let mut all = ALL.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|shared| shared.strong_count() > 0);
        let known = all.iter().filter_map(Weak::upgrade);
        let mut known = known.filter(|shared| shared.command == command && shared.environment == environment);
        if let Some(shared) = known.next() {
            return shared;
        }
        let shared = Arc::new(Self { command: command.to_owned(), environment, state: Mutex::default() });
        all.push(Arc::downgrade(&shared));
        shared
    }

    /// Runs an operation with a relay. A relay is started if none runs, or if the running one belongs to the
    /// parent of a forked process. A relay that ends during the operation is replaced once; one that does
    /// not answer is not asked twice.
    fn with<T>(
        &self,
        mut run: impl FnMut(&mut Link, u64) -> Result<Result<T, Failure>, Failure>,
    ) -> Result<T, Failure> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let state = &mut *state;
        let started = Instant::now();
        loop {
            let known = state.link.take().filter(|link| link.process == std::process::id());
            let fresh = known.is_none();
            let link = match known {
                Some(link) => link,
                None => {
                    state.relays = state.relays.wrapping_add(1);
                    Link::start(&self.command)?
                }
            };
            match run(state.link.insert(link), state.relays) {
                Ok(outcome) => return outcome,
                Err(failure) => {
                    state.link = None;
                    if fresh || started.elapsed() >= REPLY_TIMEOUT {
                        return Err(failure);
                    }
                }
            }
        }
    }
}

impl Relay {
    /// Opens a URL.
    pub(crate) fn open(command: &Path, url: &str) -> Result<Self, Failure> {
        let shared = SharedRelay::for_command(command);
        let (place, size, identity) = shared.with(|link, relay| {
            let opened = link.open(url)?;
            Ok(opened.map(|(file, size, identity)| (FileLocation { relay, file }, size, identity)))
        })?;
        Ok(Self { shared, url: url.to_owned(), size, identity, place: Mutex::new(place) })
    }

    /// Fills a buffer with the bytes from `offset` on, which must be inside the file. A replaced relay must
    /// have the same version of the file.
    pub(crate) fn read(&self, offset: u64, buffer: &mut [u8], what: ReadPurpose) -> Result<(), Failure> {
        let mut place = self.place.lock().unwrap_or_else(PoisonError::into_inner);
        self.shared.with(|link, relay| {
            if place.relay != relay {
                match link.open(&self.url)? {
                    Ok((file, size, identity)) if self.is_this(size, &identity) => {
                        *place = FileLocation { relay, file }
                    }
                    Ok(_) => {
                        let message = "the file is not the one that was opened: it has changed since";
                        return Ok(Err(Failure::new(message)));
                    }
                    Err(failure) => return Ok(Err(failure)),
                }
            }
            link.read(place.file, offset, buffer, what)
        })
    }

    fn is_this(&self, size: u64, identity: &str) -> bool {
        !self.identity.is_empty() && self.identity == identity && self.size == size
    }

    /// Returns whether both are the same version of the same file.
    pub(crate) fn is_same(&self, other: &Self) -> bool {
        std::ptr::eq(self, other) || self.is_this(other.size, &other.identity)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        let place = *self.place.lock().unwrap_or_else(PoisonError::into_inner);
        let mut state = self.shared.state.lock().unwrap_or_else(PoisonError::into_inner);
        let relays = state.relays;
        if let Some(link) = &mut state.link
            && place.relay == relays
            && link.process == std::process::id()
        {
            let header = Header { file: place.file, ..Header::new(CLOSE, 0) };
            // If the relay has ended, the file is closed already.
            drop(header.send(&mut SignalFreeSocket(&link.stream), &[]));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(command: &str, says: &str) {
        let error = Relay::open(Path::new(command), "grpc://127.0.0.1:1/a.h5").unwrap_err().to_string();
        assert!(error.contains(says), "{error}");
    }

    #[test]
    fn what_is_no_relay_is_refused() {
        refused("/not/there/hyperchunk", "cannot start /not/there/hyperchunk");
        refused("/bin/false", "HYPERCHUNK_COMMAND");
    }

    /// Returns the result of a read if the relay answers with these frames.
    fn read_from(frames: &[(Header, &[u8])]) -> Result<Result<(), Failure>, Failure> {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let mut link = Link::from_stream(ours, None).unwrap();
        for (header, body) in frames {
            header.send(&mut theirs, body).unwrap();
        }
        theirs.flush().unwrap();
        theirs.shutdown(std::net::Shutdown::Write).unwrap();
        let mut buffer = [0; 4];
        let outcome = link.read(1, 100, &mut buffer, ReadPurpose::Data);
        if matches!(outcome, Ok(Ok(()))) {
            assert_eq!(&buffer, b"abcd");
        }
        outcome
    }

    #[test]
    fn answers_are_whole_or_errors() {
        let piece = |offset, length| Header { offset, length, ..Header::new(DATA, 1) };
        let end = (Header::new(END, 1), &[][..]);
        let whole = [(piece(102, 2), &b"cd"[..]), (piece(100, 2), b"ab"), end];
        assert!(matches!(read_from(&whole), Ok(Ok(()))));
        let message = Header { detail: 2, length: 4, ..Header::new(ERROR, 1) };
        let failure = read_from(&[(piece(100, 2), b"ab"), (message, b"gone")]).unwrap().unwrap_err();
        assert!(
            failure.is_not_found() && failure.to_string().starts_with("gone, errno = 2, error"),
            "{failure}"
        );
        for wrong in [
            &[(piece(100, 2), &b"ab"[..]), end][..],
            &[(piece(103, 2), b"cd"), end],
            &[(piece(99, 1), b"c"), end],
            &[(piece(100, u64::MAX), b"c")],
            &[(Header::new(END, 2), b"")],
            &[(Header::new(OPENED, 1), b"")],
            &[(piece(100, 4), b"ab")],
            &[],
        ] {
            assert!(read_from(wrong).is_err(), "{wrong:?}");
        }
    }
}
