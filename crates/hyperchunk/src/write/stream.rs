//! Streaming of files to an object store while they are written: without a local copy, in bounded memory.
//!
//! The object is divided into parts. A part is kept in memory until all of its bytes are written, or declared
//! to stay unwritten. Then it is sent, and can no longer be changed. The first part is sent last, as it has
//! the superblock.

use super::parts::{PartLayout, PartRange, WrittenRanges};
use super::sink::Sink;
use crate::io::interrupt;
use crate::io::upload::{StoredObject, Upload};
use crate::{Error, ErrorKind, Result};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Interval at which waiting threads poll for an interrupt.
const POLL_INTERVAL: Duration = Duration::from_millis(100);
/// Time without writes after which a deadlock is reported: memory is full of incomplete parts.
const DEADLOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// A sink that sends a file as parts of an object.
#[derive(Debug)]
pub struct StreamSink {
    upload: Arc<dyn Upload>,
    name: String,
    cut: PartLayout,
    /// Number of parts at the start that are kept in memory and sent last.
    kept: usize,
    /// Maximum number of bytes of other parts in memory, or the size of two parts if that is larger.
    most: usize,
    /// Time to wait for other threads' writes before a deadlock is reported.
    hopeless: Duration,
    shared: Arc<SharedState>,
    /// Process that writes the object; a forked child must not.
    process: u32,
}

#[derive(Debug, Default)]
struct SharedState {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    parts: Vec<Part>,
    /// Number of bytes of incomplete parts, without those that are sent last.
    filling: usize,
    /// Number of bytes of parts that are being sent.
    sending: usize,
    /// Time of the last write.
    last: Option<Instant>,
    /// Error of a failed upload: the object will not be created.
    failure: Option<Error>,
    stored: Option<StoredObject>,
    discarded: bool,
}

#[derive(Debug, Clone, Default)]
enum Part {
    #[default]
    Absent,
    Filling(Arc<Mutex<Buffer>>),
    Sent,
}

#[derive(Debug)]
struct Buffer {
    bytes: Vec<u8>,
    written: WrittenRanges,
    /// True if the bytes have been moved to the upload.
    taken: bool,
}

fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl State {
    fn part(&mut self, number: usize) -> &mut Part {
        if self.parts.len() <= number {
            self.parts.resize(number + 1, Part::Absent);
        }
        &mut self.parts[number]
    }

    fn check(&self) -> Result<()> {
        match &self.failure {
            Some(failure) => Err(failure.clone()),
            None if self.stored.is_some() => Err(Error::unsupported(
                "the object has been completed by an earlier flush: nothing can be added to it",
            )),
            None => Ok(()),
        }
    }
}

impl SharedState {
    /// Waits for a change of the state.
    fn wait<'a>(&'a self, state: MutexGuard<'a, State>) -> Result<MutexGuard<'a, State>> {
        let (state, waited) =
            self.changed.wait_timeout(state, POLL_INTERVAL).unwrap_or_else(PoisonError::into_inner);
        if waited.timed_out() {
            // The lock is released first: the interrupt callback may wait for a thread that waits for it.
            drop(state);
            if interrupt::is_wanted() {
                return Err(Error::new(ErrorKind::Io, "interrupted"));
            }
            return Ok(locked(&self.state));
        }
        Ok(state)
    }
}

impl StreamSink {
    /// Creates a sink with parts of `part` bytes, of which at most `at_once` are in memory. The parts with
    /// the first `kept` bytes are sent last.
    pub fn new(upload: Arc<dyn Upload>, name: &str, part: u64, at_once: usize, kept: u64) -> Self {
        let cut = PartLayout::new(part);
        let first = usize::try_from(cut.first_size()).unwrap_or(usize::MAX);
        Self {
            upload,
            name: name.to_owned(),
            cut,
            kept: usize::try_from(kept.div_ceil(cut.first_size())).unwrap_or(usize::MAX).max(1),
            most: first.saturating_mul(at_once.max(1)),
            hopeless: DEADLOCK_TIMEOUT,
            shared: Arc::default(),
            process: std::process::id(),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        locked(&self.shared.state)
    }

    fn gone(&self, number: usize) -> Error {
        let message = format!(
            "cannot change or read data of a streamed file that have been sent (in part {} of the object)",
            number + 1
        );
        Error::unsupported(message)
    }

    /// Returns the buffer of a part; waits until there is memory for it.
    fn buffer(&self, number: usize, size: usize) -> Result<Arc<Mutex<Buffer>>> {
        if self.process != std::process::id() {
            return Err(Error::unsupported(
                "cannot write the object: the parent process, from which this one was forked, writes it",
            ));
        }
        let mut state = self.state();
        let started = Instant::now();
        loop {
            state.check()?;
            match state.part(number) {
                Part::Filling(buffer) => return Ok(Arc::clone(buffer)),
                Part::Sent => return Err(self.gone(number)),
                Part::Absent => {}
            }
            let stays = number < self.kept;
            let most = self.most.max(2 * size);
            let room = stays || state.filling + state.sending + size <= most;
            // Other parts may wait for bytes that are written after this part's, so the first unsent part
            // always gets memory.
            let first = !room && state.sending == 0 && {
                let begun = state.parts.iter().skip(self.kept);
                begun.take_while(|part| matches!(part, Part::Sent)).count() + self.kept >= number
            };
            if room || first {
                let mut bytes = Vec::new();
                bytes
                    .try_reserve_exact(size)
                    .map_err(|_| Error::limit("out of memory: cannot allocate a part"))?;
                bytes.resize(size, 0);
                let buffer = Buffer { bytes, written: WrittenRanges::default(), taken: false };
                let buffer = Arc::new(Mutex::new(buffer));
                *state.part(number) = Part::Filling(Arc::clone(&buffer));
                if !stays {
                    state.filling += size;
                }
                return Ok(buffer);
            }
            let quiet = state.last.unwrap_or(started).max(started).elapsed();
            if state.sending == 0 && quiet > self.hopeless {
                let message = format!(
                    "{} MiB of the object wait in memory for bytes before them that are not written: write data that are \
                     streamed to a store about in the order of the file",
                    state.filling >> 20
                );
                return Err(Error::unsupported(message));
            }
            state = self.shared.wait(state)?;
        }
    }

    /// Writes bytes of a part, or, with `None`, declares that they stay unwritten.
    fn fill(&self, piece: &PartRange, bytes: Option<&[u8]>) -> Result<()> {
        let buffer = self.buffer(piece.number, piece.size)?;
        let whole = {
            let mut buffer = locked(&buffer);
            if buffer.taken {
                return Err(self.gone(piece.number));
            }
            if let (Some(bytes), Some(place)) = (bytes, buffer.bytes.get_mut(piece.range.clone())) {
                place.copy_from_slice(bytes);
            }
            buffer.written.add(piece.range.clone());
            buffer.written.all(piece.size)
        };
        if whole && piece.number >= self.kept {
            self.send(piece.number, piece.size, piece.size);
        } else {
            self.state().last = Some(Instant::now());
        }
        Ok(())
    }

    /// Sends the first `length` bytes of a part; unwritten bytes are zeros.
    fn send(&self, number: usize, size: usize, length: usize) {
        let bytes = {
            let mut state = self.state();
            let part = state.part(number);
            let Part::Filling(buffer) = std::mem::replace(part, Part::Sent) else { return };
            if number >= self.kept {
                state.filling -= size;
            }
            state.sending += size;
            state.last = Some(Instant::now());
            let mut buffer = locked(&buffer);
            buffer.taken = true;
            let mut bytes = std::mem::take(&mut buffer.bytes);
            bytes.truncate(length);
            bytes
        };
        let shared = Arc::clone(&self.shared);
        let done = move |result: Result<()>| {
            let mut state = locked(&shared.state);
            state.sending -= size;
            if let Err(error) = result {
                state.failure.get_or_insert(error);
            }
            drop(state);
            shared.changed.notify_all();
        };
        self.upload.send(number, bytes, Box::new(done));
    }

    /// Waits until no part is being sent.
    fn settle(&self) -> Result<()> {
        let mut state = self.state();
        while state.sending > 0 && state.failure.is_none() {
            state = self.shared.wait(state)?;
        }
        state.check()
    }

    fn finish(&self, size: u64) -> Result<StoredObject> {
        let pieces = self.cut.pieces(0, size)?;
        let (kept, others) = pieces.split_at(self.kept.min(pieces.len()));
        // Parts in memory are sent first, to free memory for parts that were never written.
        for absent in [false, true] {
            for piece in others {
                let is_absent = matches!(self.state().part(piece.number), Part::Absent);
                if is_absent && absent {
                    self.buffer(piece.number, piece.size)?;
                }
                if is_absent == absent {
                    self.send(piece.number, piece.size, piece.range.end);
                }
            }
        }
        self.settle()?;
        for piece in kept {
            self.buffer(piece.number, piece.size)?;
            self.send(piece.number, piece.size, piece.range.end);
        }
        self.settle()?;
        self.upload.complete(pieces.len(), size)
    }

    fn named(&self, error: Error) -> Error {
        error.file(&self.name)
    }
}

impl Sink for StreamSink {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut rest = bytes;
        for piece in self.cut.pieces(offset, bytes.len() as u64)? {
            let (these, others) = rest.split_at(piece.range.len());
            self.fill(&piece, Some(these)).map_err(|error| self.named(error.at(offset)))?;
            rest = others;
        }
        Ok(())
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let mut rest = buffer;
        for piece in self.cut.pieces(offset, rest.len() as u64)? {
            let (these, others) = rest.split_at_mut(piece.range.len());
            let part = self.state().part(piece.number).clone();
            match part {
                Part::Absent => these.fill(0),
                Part::Sent => return Err(self.named(self.gone(piece.number).at(offset))),
                Part::Filling(part) => match locked(&part).bytes.get(piece.range) {
                    Some(bytes) => these.copy_from_slice(bytes),
                    None => return Err(self.named(self.gone(piece.number).at(offset))),
                },
            }
            rest = others;
        }
        Ok(())
    }

    fn skip(&self, offset: u64, length: u64) -> Result<()> {
        let pieces = self.cut.pieces(offset, length)?;
        pieces.iter().try_for_each(|piece| self.fill(piece, None)).map_err(|error| self.named(error))
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn data_ended(&self, end: u64) -> Result<()> {
        // Sends incomplete parts, to free memory for the structure.
        for piece in self.cut.pieces(0, end)? {
            let filling = matches!(self.state().part(piece.number), Part::Filling(_));
            if filling && piece.number >= self.kept && piece.range.end == piece.size {
                self.send(piece.number, piece.size, piece.size);
            }
        }
        Ok(())
    }

    fn publish(&self, size: u64) -> Result<()> {
        self.state().check().map_err(|error| self.named(error))?;
        match self.finish(size) {
            Ok(stored) => {
                let mut state = self.state();
                state.stored = Some(stored);
                state.parts = Vec::new();
                Ok(())
            }
            Err(error) => {
                let error = self.named(error);
                self.state().failure.get_or_insert(error.clone());
                Err(error)
            }
        }
    }

    fn unfinished(&self) -> &'static [u8] {
        b""
    }

    fn discard(&self) -> Result<()> {
        let mut state = self.state();
        if state.stored.is_some() || std::mem::replace(&mut state.discarded, true) {
            return Ok(());
        }
        state.failure.get_or_insert(Error::invalid("the object was discarded"));
        state.parts = Vec::new();
        drop(state);
        if self.process == std::process::id() {
            self.upload.abort();
        }
        Ok(())
    }

    fn kept(&self) -> Option<u64> {
        Some(self.cut.first_size().saturating_mul(self.kept as u64))
    }

    fn stored(&self) -> Option<StoredObject> {
        self.state().stored.clone()
    }
}

impl Drop for StreamSink {
    fn drop(&mut self) {
        // An incomplete upload is cancelled.
        drop(self.discard());
    }
}

#[cfg(test)]
mod tests;
