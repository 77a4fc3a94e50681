//! Execution of a plan over a network: concurrent requests, decoding as they land.

use super::ahead::Ahead;
use super::plan::{Block, blocks};
use super::workers::spread;
use crate::io::Source;
use crate::{Error, ErrorKind, Result};
use bytes::{Bytes, BytesMut};
use hyperchunk_format::codec::Decoder;
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
    /// Elements brought together.
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
            for (_, parts) in groups.iter_mut().filter(|(source, _)| ahead.is_of(source)) {
                let here = parts.extract_if(.., |part| ahead.get(&part.range).is_some()).collect::<Vec<_>>();
                spread(threads, here.into_iter(), Scratch::default, |scratch, part| {
                    ahead.get(&part.range).map_or(Ok(()), |bytes| (part.work)(bytes, scratch))
                })?;
            }
            groups.retain(|(_, parts)| !parts.is_empty());
        }
        if groups.len() <= 1 {
            return groups
                .into_iter()
                .try_for_each(|(source, parts)| run(source.as_ref(), parts, threads, in_flight));
        }
        // Files are read concurrently, each with requests of its own.
        let at_once = groups.len().min(16);
        let each = (in_flight / at_once as u64).max(1);
        let jobs = Mutex::new(groups.drain(..));
        let failed: Mutex<Option<Error>> = Mutex::new(None);
        std::thread::scope(|scope| {
            let work = || loop {
                let next = jobs.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some((source, parts)) = next else { break };
                if failed.lock().unwrap_or_else(PoisonError::into_inner).is_some() {
                    break;
                }
                if let Err(error) = run(source.as_ref(), parts, 1, each) {
                    failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
                }
            };
            for _ in 1..at_once {
                if std::thread::Builder::new()
                    .name("hyperchunk-fetch".into())
                    .spawn_scoped(scope, work)
                    .is_err()
                {
                    break;
                }
            }
            work();
        });
        failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
    }
}

/// Maximum number of fetched bytes that wait, per thread; more would only fill memory.
const WAITING: u64 = 16 << 20;

/// A block of which some requests have not landed.
struct Landing {
    left: usize,
    bytes: BytesMut,
}

fn run(source: &dyn Source, mut parts: Vec<Part<'_>>, threads: usize, in_flight: u64) -> Result<()> {
    let Some(remote) = source.remote() else {
        return Err(Error::invalid("a plan of requests for a file that is not remote"));
    };
    parts.sort_by_key(|part| (part.range.start, part.range.end));
    let needed: Vec<Range<u64>> = parts.iter().map(|part| part.range.clone()).collect();
    let blocks = blocks(&needed, remote.options(), remote.cost());
    let requests: Vec<(usize, Range<u64>)> = blocks
        .iter()
        .enumerate()
        .flat_map(|(number, block)| block.requests.iter().map(move |range| (number, range.clone())))
        .collect();
    let ranges: Vec<Range<u64>> = requests.iter().map(|(_, range)| range.clone()).collect();
    let mut landing: Vec<Option<Landing>> = blocks.iter().map(|_| None).collect();
    // A block is complete when its last request has landed.
    let mut land = |place: usize, bytes: Bytes| -> Result<Option<(usize, Bytes)>> {
        let Some((number, range)) = requests.get(place) else {
            return Err(Error::invalid("a stray request"));
        };
        let (Some(block), Some(landing)) = (blocks.get(*number), landing.get_mut(*number)) else {
            return Err(Error::invalid("a stray block"));
        };
        if block.requests.len() == 1 {
            return Ok(Some((*number, bytes)));
        }
        let length = |range: &Range<u64>| {
            usize::try_from(range.end - range.start)
                .map_err(|_| Error::limit("larger than the address space"))
        };
        if landing.is_none() {
            *landing =
                Some(Landing { left: block.requests.len(), bytes: BytesMut::zeroed(length(&block.range)?) });
        }
        let Some(whole) = landing else { return Ok(None) };
        let at = length(&(block.range.start..range.start))?;
        let to = at.checked_add(bytes.len()).and_then(|end| whole.bytes.get_mut(at..end));
        to.ok_or_else(|| Error::invalid("a request outside its block"))?.copy_from_slice(&bytes);
        whole.left -= 1;
        if whole.left > 0 {
            return Ok(None);
        }
        Ok(landing.take().map(|whole| (*number, whole.bytes.freeze())))
    };
    if threads <= 1 || blocks.len() <= 1 {
        let mut scratch = Scratch::default();
        return remote.fetch(&ranges, &mut |place, bytes| match land(place, bytes)? {
            Some((number, bytes)) => work_on(&blocks, number, &parts, &bytes, &mut scratch),
            None => Ok(()),
        });
    }
    let waiting = waiting(&blocks, in_flight.min((threads as u64).saturating_mul(WAITING)));
    let failed = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let (send, receive) = sync_channel::<(usize, Bytes)>(waiting);
        let receive = Arc::new(Mutex::new(receive));
        let (blocks, parts, failed) = (&blocks, &parts, &failed);
        let workers: Vec<_> = (0..threads)
            .map_while(|_| {
                let receive = Arc::clone(&receive);
                let work = move || worker(blocks, parts, &receive, failed);
                std::thread::Builder::new().name("hyperchunk-decode".into()).spawn_scoped(scope, work).ok()
            })
            .collect();
        drop(receive);
        let mut scratch = Scratch::default();
        let stopped = || Error::new(ErrorKind::Io, "stopped after another error");
        let fetched = remote.fetch(&ranges, &mut |place, bytes| {
            if failed.load(Ordering::Relaxed) {
                return Err(stopped());
            }
            match land(place, bytes)? {
                Some(whole) if !workers.is_empty() => send.send(whole).map_err(|_| stopped()),
                Some((number, bytes)) => work_on(blocks, number, parts, &bytes, &mut scratch),
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

/// Returns the maximum number of blocks that may wait for a thread.
fn waiting(blocks: &[Block], in_flight: u64) -> usize {
    let largest = blocks.iter().map(|block| block.range.end - block.range.start).max().unwrap_or(1).max(1);
    usize::try_from(in_flight / largest).unwrap_or(usize::MAX).clamp(1, blocks.len().max(1))
}

fn worker(
    blocks: &[Block],
    parts: &[Part<'_>],
    receive: &Mutex<Receiver<(usize, Bytes)>>,
    failed: &AtomicBool,
) -> Result<()> {
    let mut scratch = Scratch::default();
    loop {
        let next = receive.lock().unwrap_or_else(PoisonError::into_inner).recv();
        let Ok((number, bytes)) = next else { return Ok(()) };
        // After an error, landed blocks are discarded so that the sender never blocks.
        if failed.load(Ordering::Relaxed) {
            continue;
        }
        if let Err(error) = work_on(blocks, number, parts, &bytes, &mut scratch) {
            failed.store(true, Ordering::Relaxed);
            return Err(error);
        }
    }
}

fn work_on(
    blocks: &[Block],
    number: usize,
    parts: &[Part<'_>],
    bytes: &[u8],
    scratch: &mut Scratch,
) -> Result<()> {
    let Some(block) = blocks.get(number) else { return Ok(()) };
    for part in parts.get(block.parts.clone()).unwrap_or_default() {
        let from = usize::try_from(part.range.start - block.range.start).unwrap_or(usize::MAX);
        let to = usize::try_from(part.range.end - block.range.start).unwrap_or(usize::MAX);
        let part_bytes = bytes.get(from..to).ok_or_else(|| Error::invalid("a part outside its block"))?;
        (part.work)(part_bytes, scratch)?;
    }
    Ok(())
}
