//! Computation of one block by a worker: the part that is the same for all implementations of [`Reader`].

use super::job::{Reader, SessionKey, Source, Strings};
use super::pool::Pool;
use super::results::{self, Results};
use super::session::Session;
use super::vlen_strings::limit;
use crate::error::{Error, ErrorKind, Result, fail};
use crate::record::{Block, Record};
use crate::stored::DecodeSupport;
use crate::stub::RecordDigest;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Context for computing the blocks of a live dataset.
#[derive(Clone, Copy, Debug)]
pub struct BlockContext<'a> {
    /// Record.
    pub record: &'a Record,
    /// Digest of the record.
    pub digest: RecordDigest,
    /// Key of the session, with the location of the data.
    pub key: &'a Arc<SessionKey>,
    /// Cache of results, if enabled.
    pub results: Option<&'a Results>,
    /// Number of the open file if it is read-only: an input that was read as a whole then stays valid between
    /// calls.
    pub constant: Option<u64>,
}

impl BlockContext<'_> {
    /// Computes the block at `offset` with the extent `shape`, and passes the session to `take`, which copies
    /// the output.
    ///
    /// # Errors
    /// Those of the reader, of [`Session::call`] and of `take`.
    pub fn compute<T>(
        &self,
        (offset, shape): (&[u64], &[u64]),
        reader: &impl Reader,
        take: impl FnOnce(&mut Session) -> Result<T>,
    ) -> Result<T> {
        let parts: Vec<Block> = self.record.parts(offset, shape).collect();
        let strings = self.strings(&parts, reader)?;
        // The length of the strings decides how much memory a worker needs.
        let key = self.key.with_room(strings.iter().map(|(n, strings)| (*n, strings.bytes())));
        let mut session = reader.session(&key)?;
        let mut is_new = false;
        loop {
            match self.call(&mut session, &parts, &strings, reader) {
                Ok(()) => break,
                // A worker that exited while idle is only noticed at the next call. A missing module can
                // occur only once.
                Err(_) if session.ended_idle() && !is_new || session.lacked_modules() => {
                    session = reader.session(&key)?;
                    is_new = true;
                }
                // The reader decodes the input that the worker could not, and reports its damage. This
                // happens once: afterwards the worker gets elements.
                Err(_) if session.take_undecoded() => {}
                Err(error) => return Err(error),
            }
        }
        let taken = take(&mut session)?;
        Pool::global().put(key, session);
        Ok(taken)
    }

    /// Lends a worker `bytes` bytes of device memory for its results. Returns `Err` with the reason if the
    /// worker cannot take it.
    ///
    /// # Errors
    /// The errors of the reader.
    pub fn lend<'a, R: Reader>(
        &'a self,
        reader: &'a R,
        memory: BorrowedFd<'a>,
        bytes: u64,
    ) -> Result<Result<DeviceWorker<'a, R>, String>> {
        let mut session = reader.session(self.key)?;
        let mut lent = session.lend(memory, bytes);
        if lent.is_err() && session.ended_idle() {
            session = reader.session(self.key)?;
            lent = session.lend(memory, bytes);
        }
        Ok(match lent {
            Ok(None) => Ok(DeviceWorker { calls: self, reader, memory, bytes, session }),
            Ok(Some(why)) => {
                Pool::global().put(Arc::clone(self.key), session);
                Err(why)
            }
            // The driver may make calls for which the sandbox ends the worker; another worker computes
            // without the lent memory.
            Err(error) => Err(error.to_string()),
        })
    }

    fn strings(&self, parts: &[Block], reader: &impl Reader) -> Result<Vec<(usize, Box<dyn Strings>)>> {
        let mut remaining = limit(&self.key.profile);
        let mut found = Vec::new();
        let inputs = self.record.slots().zip(parts).enumerate();
        for (n, (slot, part)) in inputs.filter(|(_, (slot, _))| slot.datatype.has_pointers()) {
            let strings = reader.strings(slot, part, remaining)?;
            remaining = remaining.saturating_sub(strings.bytes());
            found.push((n, strings));
        }
        Ok(found)
    }

    fn call(
        &self,
        session: &mut Session,
        parts: &[Block],
        strings: &[(usize, Box<dyn Strings>)],
        reader: &impl Reader,
    ) -> Result<()> {
        let no_memory = || Error::new(ErrorKind::Worker, "no memory for an input");
        for (n, strings) in strings {
            let at = session.input_address(*n).ok_or_else(no_memory)?;
            strings.place(session.input(*n).ok_or_else(no_memory)?, at)?;
        }
        let loaded = self.constant.is_some_and(|instance| session.stamp == instance);
        let slots = || self.record.slots().zip(&self.key.slots).zip(parts);
        for (n, ((slot, source), part)) in slots().enumerate() {
            let from = match source.source {
                Source::Copied(_) => DecodeSupport::Nothing,
                Source::Stored(_) => session.decodes(),
                Source::Output(_) | Source::Mapped { .. } => continue,
            };
            if slot.datatype.has_pointers() || !self.record.is_cut(slot) && loaded {
                continue;
            }
            let to = session.input(n).ok_or_else(no_memory)?;
            let stored = match from {
                DecodeSupport::Nothing => 0,
                decodes => reader.stored(slot, part, decodes, to)?,
            };
            if stored == 0 {
                reader.input(slot, part, to)?;
            }
            session.set_stored(n, stored);
        }
        session.stamp = self.constant.unwrap_or(u64::MAX);
        let blocks = slots().map(|((slot, source), part)| match source.source {
            Source::Mapped { .. } => (slot.first_byte(&part.0), part.clone()),
            _ => (0, part.clone()),
        });
        let from = (self.digest, self.key.file_path.as_str());
        results::call(session, self.results, self.record, from, blocks.collect())
    }
}

/// Worker that computes into device memory.
#[derive(Debug)]
pub struct DeviceWorker<'a, R> {
    calls: &'a BlockContext<'a>,
    reader: &'a R,
    memory: BorrowedFd<'a>,
    bytes: u64,
    session: Session,
}

impl<R: Reader> DeviceWorker<'_, R> {
    /// Computes the block at `offset` with the extent `shape`, to the start of the memory.
    ///
    /// # Errors
    /// The errors of [`BlockContext::compute`]; the worker is then unusable.
    pub fn compute(&mut self, (offset, shape): (&[u64], &[u64])) -> Result<()> {
        let record = self.calls.record;
        if crate::record::byte_size(shape, &record.output.datatype) > self.bytes {
            fail!(Worker, "a block of {shape:?} is larger than the device memory for it")
        }
        let parts: Vec<Block> = record.parts(offset, shape).collect();
        let mut is_new = false;
        loop {
            match self.calls.call(&mut self.session, &parts, &[], self.reader) {
                Ok(()) => return Ok(()),
                // As in `BlockContext::compute`.
                Err(_) if self.session.ended_idle() && !is_new => {
                    self.session = self.reader.session(self.calls.key)?;
                    if let Some(why) = self.session.lend(self.memory, self.bytes)? {
                        fail!(Worker, "a new worker cannot use the device memory of the previous one: {why}")
                    }
                    is_new = true;
                }
                Err(_) if self.session.take_undecoded() => {}
                Err(error) => return Err(error),
            }
        }
    }

    /// Makes the worker release the memory and returns it to the pool.
    ///
    /// # Errors
    /// `Worker`, `Limit`.
    pub fn end(mut self) -> Result<()> {
        self.session.take_back()?;
        Pool::global().put(Arc::clone(self.calls.key), self.session);
        Ok(())
    }
}
