//! Scanner for names in Python sources, with CPython's own parser.
//!
//! A separate interpreter parses the source and answers; see `names.py` beside this file.

#[cfg(test)]
mod tests;

use super::{Names, Scan};
use crate::error::{Error, ErrorKind, Result, fail};
use crate::escape::escape;
use serde::Deserialize;
use std::io::Read;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Program that parses a source; it runs on Python 3.11 and newer.
pub const SCRIPT: &str = include_str!("names.py");

/// Time limit for parsing.
const PARSE_TIMEOUT: Duration = Duration::from_secs(20);

/// Maximum size of an answer in bytes. A source has at most 16 MiB, but its names may contain the same text
/// repeatedly.
const MAX_ANSWER_BYTES: usize = 64 << 20;

#[derive(Deserialize)]
struct WorkerAnswer {
    names: Option<Vec<String>>,
    #[serde(default)]
    needs: Vec<String>,
    error: Option<String>,
    line: Option<u32>,
}

/// Returns the names that `source` passes to `lib`, as parsed by the interpreter `python`. None of `source`
/// is executed.
///
/// # Errors
/// - `Syntax`, with the line: what the source must change
/// - `NotFound`, `Io`, `Worker`: `python` cannot be started, or does not answer
/// - `Limit`: it took more than 20 seconds
pub fn scan(python: &Path, source: &str) -> Result<Scan> {
    let output = ask(python, source, PARSE_TIMEOUT).map_err(|e| e.about(python.display().to_string()))?;
    let answer = match serde_json::from_slice::<WorkerAnswer>(&output) {
        Ok(WorkerAnswer { error: None, names: Some(names), needs, .. }) => (names, needs),
        Ok(WorkerAnswer { error: Some(error), line, .. }) => {
            let place = line.map(|n| format!("line {n}: ")).unwrap_or_default();
            fail!(Syntax, "{place}{}", escape(&error, 1000))
        }
        _ => {
            return Err(Error::new(
                ErrorKind::Worker,
                "expected names or an error as JSON, got another answer",
            )
            .about(python.display().to_string()));
        }
    };
    let mut names = Names::default();
    let (list, needs) = answer;
    for name in list {
        names.add(name.into_bytes(), 1)?;
    }
    let calls = |word: &str| needs.iter().any(|need| need == word);
    Ok(Scan { names: names.list, seed: calls("seed"), clock: calls("clock") })
}

/// Child process that is killed when this guard is dropped.
struct ChildGuard(Child);

impl Drop for ChildGuard {
    fn drop(&mut self) {
        // Both fail only if it has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Runs the script on `source` and returns its output.
fn ask(python: &Path, source: &str, limit: Duration) -> Result<Vec<u8>> {
    let broken = |e: std::io::Error| Error::io("cannot talk to Python", &e);
    let deadline = Instant::now() + limit;
    // Sockets instead of pipes: they support time-outs, and cause no SIGPIPE if the child dies.
    let (mut talk, theirs) = UnixStream::pair().map_err(broken)?;
    let (mut complaints, stderr) = UnixStream::pair().map_err(broken)?;
    let stdin = theirs.try_clone().map_err(broken)?;
    let child = Command::new(python)
        // -S and -B: site-packages' start-up files are not run, and no bytecode is written.
        .args(["-I", "-S", "-B", "-c", SCRIPT])
        .env_clear()
        .stdin(Stdio::from(OwnedFd::from(stdin)))
        .stdout(Stdio::from(OwnedFd::from(theirs)))
        .stderr(Stdio::from(OwnedFd::from(stderr)))
        .spawn();
    let _running = match child {
        Ok(child) => ChildGuard(child),
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => fail!(NotFound, "this Python does not exist"),
        Err(e) => return Err(Error::io("cannot start Python", &e)),
    };
    send(&talk, source.as_bytes(), deadline)?;
    let _ = talk.shutdown(std::net::Shutdown::Write);
    let output = receive(&mut talk, deadline, MAX_ANSWER_BYTES)?;
    if !output.is_empty() {
        return Ok(output);
    }
    let said = receive(&mut complaints, deadline, 1 << 20).unwrap_or_default();
    let said = String::from_utf8_lossy(&said);
    if said.trim().is_empty() {
        fail!(Worker, "Python stopped without an answer")
    }
    fail!(Worker, "Python failed to parse the source: {}", escape(said.trim(), 1000))
}

/// Returns the remaining time, or an error if there is none.
fn remaining(deadline: Instant) -> Result<Duration> {
    match deadline.saturating_duration_since(Instant::now()) {
        Duration::ZERO => fail!(Limit, "parsing the source took too long"),
        time => Ok(time),
    }
}

/// Returns whether an operation on a socket should be retried while there is time.
fn should_retry(error: &std::io::Error) -> bool {
    use std::io::ErrorKind::{Interrupted, TimedOut, WouldBlock};
    matches!(error.kind(), Interrupted | TimedOut | WouldBlock)
}

fn send(socket: &UnixStream, mut data: &[u8], deadline: Instant) -> Result<()> {
    use std::io::ErrorKind::{BrokenPipe, ConnectionReset};
    while !data.is_empty() {
        let time = remaining(deadline)?;
        socket.set_write_timeout(Some(time)).map_err(|e| Error::io("cannot talk to Python", &e))?;
        // SAFETY: the pointer and length are those of `data`, and the descriptor is open while `socket` is.
        let sent =
            unsafe { libc::send(socket.as_raw_fd(), data.as_ptr().cast(), data.len(), libc::MSG_NOSIGNAL) };
        match usize::try_from(sent) {
            Ok(count) => data = data.get(count..).unwrap_or_default(),
            Err(_) => {
                let error = std::io::Error::last_os_error();
                // It stopped reading: its output, if any, has the reason.
                if matches!(error.kind(), BrokenPipe | ConnectionReset) {
                    return Ok(());
                }
                if !should_retry(&error) {
                    return Err(Error::io("cannot send the source to Python", &error));
                }
            }
        }
    }
    Ok(())
}

fn receive(socket: &mut UnixStream, deadline: Instant, limit: usize) -> Result<Vec<u8>> {
    let mut data = Vec::new();
    let mut buffer = [0; 16 << 10];
    loop {
        let time = remaining(deadline)?;
        socket.set_read_timeout(Some(time)).map_err(|e| Error::io("cannot talk to Python", &e))?;
        match socket.read(&mut buffer) {
            Ok(0) => return Ok(data),
            Ok(count) => data.extend_from_slice(buffer.get(..count).unwrap_or_default()),
            // A child that dies with input unread resets the connection.
            Err(e) if e.kind() == std::io::ErrorKind::ConnectionReset => return Ok(data),
            Err(e) if should_retry(&e) => (),
            Err(e) => return Err(Error::io("cannot read Python's answer", &e)),
        }
        if data.len() > limit {
            fail!(Limit, "Python's answer is longer than {limit} bytes")
        }
    }
}
