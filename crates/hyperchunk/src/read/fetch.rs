//! Execution of planned reads over a network: concurrent requests, whose bytes are decoded as they arrive.

use super::ahead::Ahead;
use super::workers::spread;
use crate::io::Source;
use crate::io::ranges::{Block, blocks};
use crate::io::together::{WantedOf, fetch_many};
use crate::{Error, ErrorKind, Result};
use bytes::{Bytes, BytesMut};
use hyperchunk_format::codec::Decoder;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::ScopedJoinHandle;

/// Buffers that a thread reuses from part to part.
#[derive(Default)]
#[expect(missing_debug_implementations, reason = "a decoder has none")]
pub struct Scratch {
    /// Stored bytes.
    pub stored: Vec<u8>,
    /// Decoder of chunks.
    pub decoder: Decoder,
    /// Selected elements, gathered before their conversion.
    pub gathered: Vec<u8>,
}

/// Work to do with the bytes of a part.
pub(crate) type Work<'a> = Box<dyn Fn(&[u8], &mut Scratch) -> Result<()> + Send + Sync + 'a>;

/// A part of a file that is needed, and the work to do with it.
#[expect(missing_debug_implementations, reason = "work is a closure")]
pub struct Part<'a> {
    /// Range of bytes.
    pub range: Range<u64>,
    /// Work to do with the bytes.
    pub work: Work<'a>,
}

/// The parts that a read needs, of all files.
#[derive(Default)]
#[expect(missing_debug_implementations, reason = "work is a closure")]
pub struct Parts<'a> {
    groups: Vec<(Arc<dyn Source>, Vec<Part<'a>>)>,
    /// A range that is already fetched.
    pub(super) ahead: Option<Ahead>,
}

impl<'a> Parts<'a> {
    /// Adds a part.
    pub fn add(&mut self, source: &Arc<dyn Source>, part: Part<'a>) {
        match self.groups.iter_mut().rev().find(|(known, _)| Arc::ptr_eq(known, source)) {
            Some((_, parts)) => parts.push(part),
            None => self.groups.push((Arc::clone(source), vec![part])),
        }
    }

    /// Fetches all parts and does their work, on up to `threads` threads. `in_flight` bounds the fetched
    /// bytes that wait for work.
    pub fn run(self, threads: usize, in_flight: u64) -> Result<()> {
        let mut groups = self.groups;
        if let Some(ahead) = self.ahead {
            for (_, parts) in groups.iter_mut().filter(|(source, _)| ahead.has_source(source)) {
                let here = parts.extract_if(.., |part| ahead.get(&part.range).is_some()).collect::<Vec<_>>();
                spread(threads, here.into_iter(), Scratch::default, |scratch, part| {
                    ahead.get(&part.range).map_or(Ok(()), |bytes| (part.work)(bytes, scratch))
                })?;
            }
            groups.retain(|(_, parts)| !parts.is_empty());
        }
        run(groups, threads, in_flight)
    }
}

/// Maximum number of fetched bytes that wait for decoding, per thread; more would only fill memory.
const MAX_WAITING_BYTES: u64 = 16 << 20;

/// A block some of whose requests have not arrived.
struct IncompleteBlock {
    left: usize,
    bytes: BytesMut,
}

/// The blocks to fetch of all files, and the work to do with them.
struct Blocks<'a> {
    /// The parts of each file, in order of their start.
    parts: Vec<Vec<Part<'a>>>,
    /// Blocks, each with the number of its file.
    blocks: Vec<(usize, Block)>,
    /// The requests of each file, each with the number of its block.
    requests: Vec<Vec<(usize, Range<u64>)>>,
}

impl<'a> Blocks<'a> {
    /// Plans the requests for parts; returns the ranges to fetch as well.
    fn plan(groups: Vec<(Arc<dyn Source>, Vec<Part<'a>>)>) -> Result<(Self, Vec<WantedOf>)> {
        let mut planned = Self { parts: Vec::new(), blocks: Vec::new(), requests: Vec::new() };
        let mut wanted = Vec::with_capacity(groups.len());
        for (file, (source, mut parts)) in groups.into_iter().enumerate() {
            let Some(remote) = source.remote() else {
                return Err(Error::invalid("cannot plan requests for a local file"));
            };
            parts.sort_by_key(|part| (part.range.start, part.range.end));
            let needed: Vec<Range<u64>> = parts.iter().map(|part| part.range.clone()).collect();
            let mut requests = Vec::new();
            for block in blocks(&needed, remote.options(), remote.cost()) {
                let number = planned.blocks.len();
                requests.extend(block.requests.iter().map(|range| (number, range.clone())));
                planned.blocks.push((file, block));
            }
            wanted.push((source, requests.iter().map(|(_, range)| range.clone()).collect()));
            planned.requests.push(requests);
            planned.parts.push(parts);
        }
        Ok((planned, wanted))
    }

    /// Records the bytes of a request. If it was the last request of its block, returns the block's number
    /// and bytes.
    fn land(
        &self,
        incomplete: &mut HashMap<usize, IncompleteBlock>,
        (file, place): (usize, usize),
        bytes: Bytes,
    ) -> Result<Option<(usize, Bytes)>> {
        let request = self.requests.get(file).and_then(|requests| requests.get(place));
        let (number, range) = request.ok_or_else(|| Error::invalid("an unknown request"))?;
        let (_, block) = self.blocks.get(*number).ok_or_else(|| Error::invalid("an unknown block"))?;
        if block.requests.len() == 1 {
            return Ok(Some((*number, bytes)));
        }
        let length = |range: &Range<u64>| {
            usize::try_from(range.end - range.start)
                .map_err(|_| Error::limit("a block larger than the address space"))
        };
        let whole = match incomplete.entry(*number) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => {
                let bytes = BytesMut::zeroed(length(&block.range)?);
                new.insert(IncompleteBlock { left: block.requests.len(), bytes })
            }
        };
        let at = length(&(block.range.start..range.start))?;
        let to = at.checked_add(bytes.len()).and_then(|end| whole.bytes.get_mut(at..end));
        to.ok_or_else(|| Error::invalid("a request is outside its block"))?.copy_from_slice(&bytes);
        whole.left -= 1;
        if whole.left > 0 {
            return Ok(None);
        }
        Ok(incomplete.remove(number).map(|whole| (*number, whole.bytes.freeze())))
    }

    fn work_on(&self, number: usize, bytes: &[u8], scratch: &mut Scratch) -> Result<()> {
        let Some((file, block)) = self.blocks.get(number) else { return Ok(()) };
        let parts = self.parts.get(*file).and_then(|parts| parts.get(block.parts.clone()));
        for part in parts.unwrap_or_default() {
            let from = usize::try_from(part.range.start - block.range.start).unwrap_or(usize::MAX);
            let to = usize::try_from(part.range.end - block.range.start).unwrap_or(usize::MAX);
            let part_bytes =
                bytes.get(from..to).ok_or_else(|| Error::invalid("a part is outside its block"))?;
            (part.work)(part_bytes, scratch)?;
        }
        Ok(())
    }

    /// Returns the maximum number of blocks that may wait for a thread.
    fn waiting(&self, in_flight: u64) -> usize {
        let lengths = self.blocks.iter().map(|(_, block)| block.range.end - block.range.start);
        let largest = lengths.max().unwrap_or(1).max(1);
        usize::try_from(in_flight / largest).unwrap_or(usize::MAX).clamp(1, self.blocks.len().max(1))
    }
}

fn run(groups: Vec<(Arc<dyn Source>, Vec<Part<'_>>)>, threads: usize, in_flight: u64) -> Result<()> {
    let (all, wanted) = Blocks::plan(groups)?;
    let mut incomplete = HashMap::new();
    if threads <= 1 || all.blocks.len() <= 1 {
        let mut scratch = Scratch::default();
        return fetch_many(&wanted, &mut |file, place, bytes| match all.land(
            &mut incomplete,
            (file, place),
            bytes,
        )? {
            Some((number, bytes)) => all.work_on(number, &bytes, &mut scratch),
            None => Ok(()),
        });
    }
    let waiting = all.waiting(in_flight.min((threads as u64).saturating_mul(MAX_WAITING_BYTES)));
    let failed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (send, receive) = sync_channel::<(usize, Bytes)>(waiting);
        let receive = Arc::new(Mutex::new(receive));
        let (all, failed) = (&all, &failed);
        let workers: Vec<_> = (0..threads)
            .map_while(|_| {
                let receive = Arc::clone(&receive);
                let work = move || worker(all, &receive, failed);
                std::thread::Builder::new().name("hyperchunk-decode".into()).spawn_scoped(scope, work).ok()
            })
            .collect();
        drop(receive);
        let mut scratch = Scratch::default();
        let stopped = || Error::new(ErrorKind::Io, "stopped after another error");
        let fetched = fetch_many(&wanted, &mut |file, place, bytes| {
            if failed.load(Ordering::Relaxed) {
                return Err(stopped());
            }
            match all.land(&mut incomplete, (file, place), bytes)? {
                Some(whole) if !workers.is_empty() => send.send(whole).map_err(|_| stopped()),
                Some((number, bytes)) => all.work_on(number, &bytes, &mut scratch),
                None => Ok(()),
            }
        });
        if fetched.is_err() {
            failed.store(true, Ordering::Relaxed);
        }
        drop(send);
        let joined = |worker: ScopedJoinHandle<'_, Result<()>>| {
            worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        };
        let worked: Vec<Result<()>> = workers.into_iter().map(joined).collect();
        // A worker's error is the reason why the fetch was stopped, so it comes first.
        worked.into_iter().collect::<Result<()>>().and(fetched)
    })
}

fn worker(all: &Blocks<'_>, receive: &Mutex<Receiver<(usize, Bytes)>>, failed: &AtomicBool) -> Result<()> {
    let mut scratch = Scratch::default();
    loop {
        let next = receive.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((number, bytes)) = next else { return Ok(()) };
        // After an error, landed blocks are discarded so that the sender never blocks.
        if failed.load(Ordering::Relaxed) {
            continue;
        }
        if let Err(error) = all.work_on(number, &bytes, &mut scratch) {
            failed.store(true, Ordering::Relaxed);
            return Err(error);
        }
    }
}
