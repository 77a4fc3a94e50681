//! Stub of write buffers in shared memory for systems without support for them.

use hyperchunk::{Error, Result};
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct Buffer(std::convert::Infallible);

impl Buffer {
    pub(crate) fn new(_: u64) -> Result<Self> {
        Err(Error::unsupported("write buffers in shared memory are supported on Linux only"))
    }

    pub(crate) fn write(&mut self, _: &Arc<File>, _: &Path, _: u64, _: &[u8]) -> Result<()> {
        match self.0 {}
    }

    pub(crate) fn spill(&mut self) -> Result<()> {
        match self.0 {}
    }
}
