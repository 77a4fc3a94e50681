//! Files in memory.

use super::{Source, ends_before};
use crate::Result;
use std::sync::Arc;

/// A whole file in memory.
#[derive(Clone)]
pub struct Memory(Arc<[u8]>);

impl Memory {
    /// Creates a file from its bytes.
    pub fn new(bytes: impl Into<Arc<[u8]>>) -> Self {
        Self(bytes.into())
    }
}

impl std::fmt::Debug for Memory {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Memory({} bytes)", self.0.len())
    }
}

impl Source for Memory {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let start = usize::try_from(offset).ok();
        let bytes = start.and_then(|start| self.0.get(start..start.checked_add(buffer.len())?));
        buffer.copy_from_slice(bytes.ok_or_else(|| ends_before(self.size(), offset, buffer.len()))?);
        Ok(())
    }
}
