//! A disk that fails, for tests: at any operation, and with every loss that a power failure may cause.

use super::redo::JournalFile;
use super::*;
use std::ops::Range;

/// Number of bytes that a disk writes at once.
pub(super) const SECTOR_BYTES: usize = 512;

/// A file of a disk: its durable bytes, and the operations since.
#[derive(Debug, Clone, Default)]
pub(super) struct DiskFile {
    pub(super) durable: Vec<u8>,
    pub(super) pending: Vec<Operation>,
}

#[derive(Debug, Clone)]
pub(super) enum Operation {
    Write(usize, Vec<u8>),
    Resize(usize),
}

impl Operation {
    fn apply(&self, bytes: &mut Vec<u8>) {
        match self {
            Operation::Write(offset, new) => {
                bytes.resize(bytes.len().max(offset + new.len()), 0);
                bytes[*offset..offset + new.len()].copy_from_slice(new);
            }
            Operation::Resize(size) => bytes.resize(*size, 0),
        }
    }
}

impl DiskFile {
    pub(super) fn now(&self) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        self.pending.iter().for_each(|operation| operation.apply(&mut bytes));
        bytes
    }

    /// Returns what a power failure leaves: of the operations since the last sync, any sectors. A file that was
    /// lengthened may have zeros in place of a lost sector.
    pub(super) fn after_loss(&self, random: &mut impl FnMut() -> bool) -> Vec<u8> {
        let mut bytes = self.durable.clone();
        for operation in &self.pending {
            match operation {
                Operation::Write(offset, new) => {
                    let mut done = 0;
                    while done < new.len() {
                        let step = (SECTOR_BYTES - (offset + done) % SECTOR_BYTES).min(new.len() - done);
                        if random() {
                            Operation::Write(offset + done, new[done..done + step].to_vec())
                                .apply(&mut bytes);
                        } else if random() {
                            bytes.resize(bytes.len().max(offset + done + step), 0);
                        }
                        done += step;
                    }
                }
                Operation::Resize(_) if random() => operation.apply(&mut bytes),
                Operation::Resize(_) => {}
            }
        }
        bytes
    }
}

/// A disk with the edited file and its journal, which fails after a number of operations.
#[derive(Debug, Default)]
pub(super) struct Disk {
    pub(super) file: DiskFile,
    pub(super) journal: DiskFile,
    pub(super) left: Option<u64>,
    /// Numbers of operations that fail.
    pub(super) failing: Range<u64>,
    pub(super) done: u64,
    pub(super) syncs: usize,
    /// Number of writes of committed bytes that a kill could end inside a sector.
    pub(super) unaligned: usize,
    /// Offsets and lengths of the writes of committed bytes.
    pub(super) applied: Vec<(u64, u64)>,
}

impl Disk {
    /// Returns whether a commit is being put into the file.
    pub(super) fn journal_is_complete(&self) -> bool {
        let journal = &self.journal.durable;
        let footer = journal.len().checked_sub(64).and_then(|at| journal.get(at..));
        footer.is_some_and(|footer| footer.starts_with(b"Hyperchunk rend1"))
            && self.journal.pending.is_empty()
    }

    pub(super) fn step(&mut self) -> Result<()> {
        self.done += 1;
        if self.failing.contains(&self.done) {
            return Err(Error::new(ErrorKind::Io, "the disk is full"));
        }
        match &mut self.left {
            Some(0) => Err(Error::new(ErrorKind::Io, "the disk has failed")),
            Some(left) => {
                *left -= 1;
                Ok(())
            }
            None => Ok(()),
        }
    }
}

#[derive(Debug, Clone)]
pub(super) struct DiskHandle(pub(super) Arc<Mutex<Disk>>, pub(super) bool);

impl DiskHandle {
    pub(super) fn with<T>(&self, then: impl FnOnce(&mut DiskFile) -> T) -> Result<T> {
        let mut disk = self.0.lock().unwrap();
        disk.step()?;
        Ok(then(if self.1 { &mut disk.journal } else { &mut disk.file }))
    }

    pub(super) fn read(&self, offset: u64, buffer: &mut [u8]) {
        let disk = self.0.lock().unwrap();
        let bytes = if self.1 { disk.journal.now() } else { disk.file.now() };
        let start = usize::try_from(offset).unwrap().min(bytes.len());
        let there = &bytes[start..bytes.len().min(start + buffer.len())];
        buffer[..there.len()].copy_from_slice(there);
        buffer[there.len()..].fill(0);
    }

    pub(super) fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let operation = Operation::Write(usize::try_from(offset).unwrap(), bytes.to_vec());
        self.with(|file| file.pending.push(operation))
    }

    pub(super) fn sync_all(&self) -> Result<()> {
        self.0.lock().unwrap().syncs += 1;
        self.with(|file| {
            file.durable = file.now();
            file.pending.clear();
        })
    }
}

impl Sink for DiskHandle {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let mut disk = self.0.lock().unwrap();
        if disk.journal_is_complete() {
            disk.unaligned +=
                usize::from(bytes.as_ptr().addr() % 4096 != usize::try_from(offset).unwrap() % 4096);
            disk.applied.push((offset, bytes.len() as u64));
        }
        drop(disk);
        self.write(offset, bytes)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.read(offset, buffer);
        Ok(())
    }

    fn sync(&self) -> Result<()> {
        self.sync_all()
    }

    fn cut(&self, size: u64) -> Result<()> {
        self.with(|file| file.pending.push(Operation::Resize(usize::try_from(size).unwrap())))
    }

    fn publish(&self, size: u64) -> Result<()> {
        let size = usize::try_from(size).unwrap();
        self.with(|file| {
            if file.now().len() < size {
                file.pending.push(Operation::Resize(size));
            }
        })?;
        self.sync_all()
    }
}

impl JournalFile for DiskHandle {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.write(offset, bytes)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.read(offset, buffer);
        Ok(())
    }

    fn sync(&mut self) -> Result<()> {
        self.sync_all()
    }

    fn cut(&mut self, size: u64) -> Result<()> {
        self.with(|file| file.pending.push(Operation::Resize(usize::try_from(size).unwrap())))
    }

    fn sync_cut(&mut self) -> Result<()> {
        self.sync_all()
    }

    fn check_place(&self) -> Result<()> {
        Ok(())
    }

    fn remove(&mut self) -> Result<()> {
        self.cut(0)
    }
}
