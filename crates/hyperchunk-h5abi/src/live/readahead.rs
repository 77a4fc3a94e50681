//! Readahead of chunked inputs by the engine, instead of libhdf5.
//!
//! If the file is not open for writing, the engine decodes the chunks while libhdf5 waits: on all processors,
//! and, when the blocks of a dataset are read sequentially, the next blocks together with the current one.
//! libhdf5 is not re-entered for this.

use super::plan::DiskFile;
use hyperchunk::io::Source;
use hyperchunk::{Error, ErrorKind, File, OpenOptions, Result};
use hyperchunk_live::ChunkedInput;
use hyperchunk_udf::host::cache;
use hyperchunk_udf::host::mapped::State;
use hyperchunk_udf::record::{Block, Record, Slot};
use hyperchunk_udf::stub::RecordDigest;
use std::collections::BTreeMap;
use std::os::unix::fs::FileExt as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// Number of consecutive blocks before readahead starts, so that reads of a few elements cost no more.
const MIN_SEQUENTIAL_BLOCKS: u32 = 2;
/// Maximum number of bytes to read ahead.
const MAX_READAHEAD_BYTES: usize = 32 << 20;
/// Number of blocks to read together for each processor.
const BLOCKS_PER_CPU: usize = 2;

/// Source for a file that libhdf5 has open. It has a descriptor only during a read: a permanent one would
/// keep open a file that the application has closed.
#[derive(Debug)]
struct LentFile {
    file: RwLock<Option<std::fs::File>>,
    size: u64,
}

impl LentFile {
    fn lend(&self, file: Option<std::fs::File>) {
        *self.file.write().unwrap_or_else(PoisonError::into_inner) = file;
    }
}

impl Source for LentFile {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let file = self.file.read().unwrap_or_else(PoisonError::into_inner);
        let Some(file) = file.as_ref() else { return Err(Error::new(ErrorKind::Io, "the file is closed")) };
        file.read_exact_at(buffer, offset).map_err(|error| {
            let kind = match error.kind() {
                std::io::ErrorKind::UnexpectedEof => ErrorKind::Truncated,
                _ => ErrorKind::Io,
            };
            Error::new(kind, error.to_string())
        })
    }
}

/// The inputs of a plan that the engine reads.
#[derive(Debug)]
pub(super) struct Engine {
    lent: Arc<LentFile>,
    inputs: Vec<ChunkedInput>,
    /// Set after a failure. Nothing is retried: libhdf5 reads the input, or reports the error.
    failed: AtomicBool,
    key: Key,
}

/// The state of the file, and the digest of the record.
pub(super) type Key = (State, RecordDigest);

/// Readahead state of the process, for one live dataset at a time.
#[derive(Debug, Default)]
struct Readahead {
    key: Option<Key>,
    /// The last block that was requested, and the number of consecutive blocks before it.
    block: u64,
    run: u32,
    /// Parts of inputs that were read ahead, by block and input.
    ready: BTreeMap<(u64, usize), Vec<u8>>,
}

static READAHEAD: Mutex<Readahead> =
    Mutex::new(Readahead { key: None, block: 0, run: 0, ready: BTreeMap::new() });

impl Engine {
    /// Returns `None` if there are no inputs that the engine can read.
    pub(super) fn new(record: &Record, key: Key, disk: DiskFile) -> Option<Self> {
        let lent = Arc::new(LentFile { size: disk.version.0, file: RwLock::new(Some(disk.file)) });
        let source: Arc<dyn Source> = Arc::<LentFile>::clone(&lent);
        let file = File::from_source(source, None, &OpenOptions::default()).ok()?;
        let open = |slot| ChunkedInput::open(&file, record, slot);
        let inputs: Vec<_> = record.inputs.iter().filter_map(open).collect();
        lent.lend(None);
        (!inputs.is_empty()).then(|| Engine { lent, inputs, failed: AtomicBool::new(false), key })
    }

    /// Fills `to` with a part of an input; returns `false` if libhdf5 has to read it.
    pub(super) fn read(
        &self,
        record: &Record,
        slot: &Slot,
        part: (&[u64], &[u64]),
        to: &mut [u8],
        disk: impl FnOnce() -> Option<DiskFile>,
    ) -> bool {
        let Some(number) = self.inputs.iter().position(|input| input.name() == slot.name) else {
            return false;
        };
        let Some(input) = self.inputs.get(number).filter(|_| !self.failed.load(Ordering::Relaxed)) else {
            return false;
        };
        let grid = Grid::from_record(record);
        let block = if input.is_cut() { grid.number(record, part.0) } else { None };
        let mut ahead = block.and_then(|_| cache(&READAHEAD));
        if let (Some(ahead), Some(block)) = (&mut ahead, block) {
            ahead.record_request(self.key, block);
            if ahead.take(block, number, to) {
                return true;
            }
        }
        let Some(disk) = disk().filter(|disk| disk.version.0 == self.lent.size) else { return false };
        self.lent.lend(Some(disk.file));
        let done = match (ahead, block) {
            (Some(mut ahead), Some(block)) if ahead.run >= MIN_SEQUENTIAL_BLOCKS => {
                self.fetch(record, &grid, block, &mut ahead);
                ahead.take(block, number, to) || input.read(part, to).is_ok()
            }
            _ => input.read(part, to).is_ok(),
        };
        self.lent.lend(None);
        if !done {
            self.failed.store(true, Ordering::Relaxed);
        }
        done
    }

    /// Reads the parts of all inputs for this block and the next ones, on all processors.
    fn fetch(&self, record: &Record, grid: &Grid, first: u64, ahead: &mut Readahead) {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        let mut wanted: Vec<((u64, usize), Block)> = Vec::new();
        let mut bytes = 0_usize;
        for block in (first..grid.blocks).take(threads.saturating_mul(BLOCKS_PER_CPU)) {
            let Some(part) = grid.block(record, block) else { break };
            let mine = self.inputs.iter().enumerate().filter(|(_, input)| input.is_cut());
            let sizes = mine.clone().filter_map(|(_, input)| input.bytes(&part.1));
            bytes = sizes.fold(bytes, usize::saturating_add);
            if bytes > MAX_READAHEAD_BYTES && block > first {
                break;
            }
            wanted.extend(mine.map(|(number, _)| ((block, number), part.clone())));
        }
        wanted.retain(|(at, _)| !ahead.ready.contains_key(at));
        let (next, read) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
        let work = || {
            while let Some((at, part)) = wanted.get(next.fetch_add(1, Ordering::Relaxed)) {
                let part = (part.0.as_slice(), part.1.as_slice());
                let Some(input) = self.inputs.get(at.1) else { break };
                let mut buffer = Vec::new();
                let Some(bytes) = input.bytes(part.1).filter(|n| buffer.try_reserve_exact(*n).is_ok()) else {
                    break;
                };
                buffer.resize(bytes, 0);
                // A part that cannot be read is omitted, and read again when it is requested.
                if input.read_here(part, &mut buffer).is_ok() {
                    read.lock().unwrap_or_else(PoisonError::into_inner).push((*at, buffer));
                }
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads.min(wanted.len()) {
                drop(std::thread::Builder::new().name("hyperchunk-ahead".into()).spawn_scoped(scope, work));
            }
            work();
        });
        ahead.ready.extend(read.into_inner().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Readahead {
    /// Records a request for a block; discards what was read ahead unless it is the same block or the next
    /// one.
    fn record_request(&mut self, key: Key, block: u64) {
        if self.key != Some(key) {
            *self = Readahead { key: Some(key), block, ..Readahead::default() };
        } else if block == self.block.saturating_add(1) {
            (self.block, self.run) = (block, self.run.saturating_add(1));
            self.ready = self.ready.split_off(&(block, 0));
        } else if block != self.block {
            *self = Readahead { key: Some(key), block, ..Readahead::default() };
        }
    }

    /// Copies a part to `to` and removes it. Returns `false` if it was not read ahead.
    fn take(&mut self, block: u64, number: usize, to: &mut [u8]) -> bool {
        let Some(bytes) = self.ready.remove(&(block, number)) else { return false };
        to.get_mut(..bytes.len()).map(|to| to.copy_from_slice(&bytes)).is_some()
    }
}

/// The grid of blocks of a live dataset, in row-major order.
struct Grid {
    counts: Vec<u64>,
    blocks: u64,
}

impl Grid {
    fn from_record(record: &Record) -> Self {
        let whole = record.output.dims.iter().zip(&record.chunk);
        let counts: Vec<u64> = whole.map(|(length, chunk)| length.div_ceil((*chunk).max(1))).collect();
        let blocks = counts.iter().fold(1, |all: u64, count| all.saturating_mul(*count));
        Grid { counts, blocks }
    }

    /// Returns the number of the block that begins at `offset`.
    fn number(&self, record: &Record, offset: &[u64]) -> Option<u64> {
        let mut number = 0_u64;
        for ((count, chunk), at) in self.counts.iter().zip(&record.chunk).zip(offset) {
            if at % (*chunk).max(1) != 0 {
                return None;
            }
            number = number.checked_mul(*count)?.checked_add(at / (*chunk).max(1))?;
        }
        (offset.len() == self.counts.len()).then_some(number)
    }

    /// Returns the block with a number.
    fn block(&self, record: &Record, mut number: u64) -> Option<Block> {
        let mut chunk = vec![0; self.counts.len()];
        for (place, count) in chunk.iter_mut().zip(&self.counts).rev() {
            *place = number % (*count).max(1);
            number /= (*count).max(1);
        }
        record.block(&chunk).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_ahead_is_given_out_once_and_in_order() {
        let key = (((1, 2), (3, 4, 5)), RecordDigest::compute(b"a"));
        let other = (((1, 3), (3, 4, 5)), RecordDigest::compute(b"a"));
        let mut ahead = Readahead::default();
        for block in 0..4 {
            ahead.record_request(key, block);
            ahead.record_request(key, block);
            assert_eq!((ahead.block, u64::from(ahead.run)), (block, block));
        }
        ahead.ready = [((3, 0), vec![1; 4]), ((4, 0), vec![2; 4]), ((4, 1), vec![3; 4])].into();
        let mut to = [0; 6];
        ahead.record_request(key, 4);
        assert!(!ahead.take(3, 0, &mut to));
        assert!(ahead.take(4, 1, &mut to) && !ahead.take(4, 1, &mut to));
        assert_eq!(to, [3, 3, 3, 3, 0, 0]);
        assert!(!ahead.take(4, 0, &mut to[..2]));
        for (key, block) in [(key, 9), (other, 10)] {
            ahead.ready.insert((block, 0), vec![0]);
            ahead.record_request(key, block);
            assert_eq!((ahead.run, ahead.ready.len()), (0, 0));
        }
    }
}
