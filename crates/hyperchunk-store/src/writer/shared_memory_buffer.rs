//! Write-back buffer of a writer in shared memory: writes are held until they are spilled to their
//! files together.

use crate::location::site::refused;
use crate::shared_memory_pool::{Pool, PoolOptions, PoolWriter};
use hyperchunk::Result;
use hyperchunk::internal::positioned::write_all_at;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Name of the shared-memory pool that the buffers come from.
const POOL: &str = "buffers";
/// Maximum number of pending writes.
const MAX_PENDING_WRITES: usize = 1 << 20;

/// The buffer of one writer.
#[derive(Debug)]
pub(crate) struct Buffer {
    memory: PoolWriter,
    used: usize,
    waiting: Vec<Write>,
}

/// A pending write.
#[derive(Debug)]
struct Write {
    file: Arc<File>,
    path: PathBuf,
    offset: u64,
    from: usize,
    length: usize,
}

impl Buffer {
    /// Allocates a buffer of at least `size` bytes.
    pub(crate) fn new(size: u64) -> Result<Self> {
        let pool = Pool::open_or_create(POOL, &PoolOptions::default())?;
        Ok(Self { memory: pool.begin("of a writer", size)?, used: 0, waiting: Vec::new() })
    }

    /// Queues a write to a file. Spills first if there is no room; a write larger than the buffer
    /// goes to the file at once.
    pub(crate) fn write(&mut self, file: &Arc<File>, path: &Path, offset: u64, bytes: &[u8]) -> Result<()> {
        if bytes.len() > self.memory.room() - self.used || self.waiting.len() >= MAX_PENDING_WRITES {
            self.spill()?;
        }
        if bytes.len() > self.memory.room() {
            return write_all_at(file, offset, bytes)
                .map_err(|error| refused("write to", path, &error).at(offset));
        }
        let end = self.used + bytes.len();
        self.memory.memory()[self.used..end].copy_from_slice(bytes);
        match self.waiting.last_mut() {
            Some(last) if Arc::ptr_eq(&last.file, file) && last.offset + last.length as u64 == offset => {
                last.length += bytes.len();
            }
            _ => self.waiting.push(Write {
                file: Arc::clone(file),
                path: path.to_owned(),
                offset,
                from: self.used,
                length: bytes.len(),
            }),
        }
        self.used = end;
        Ok(())
    }

    /// Writes all pending data to their files, in the order of the writes.
    pub(crate) fn spill(&mut self) -> Result<()> {
        let memory = self.memory.memory();
        for write in &self.waiting {
            let bytes = &memory[write.from..write.from + write.length];
            write_all_at(&write.file, write.offset, bytes)
                .map_err(|error| refused("write to", &write.path, &error).at(write.offset))?;
        }
        self.waiting.clear();
        self.used = 0;
        Ok(())
    }
}
