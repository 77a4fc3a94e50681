//! Sink for a file with a user block, as HDF5's addresses are relative to the superblock.

use super::sink::Sink;
use crate::Result;
use crate::io::upload::StoredObject;
use std::fs::File;
use std::io::IoSlice;
use std::sync::Arc;

/// A sink that adds the size of the user block to all offsets.
#[derive(Debug)]
pub(super) struct OffsetSink {
    sink: Arc<dyn Sink>,
    base: u64,
}

impl OffsetSink {
    /// Wraps a sink; returns it unchanged if there is no user block.
    pub(super) fn over(sink: Arc<dyn Sink>, base: u64) -> Arc<dyn Sink> {
        if base == 0 { sink } else { Arc::new(Self { sink, base }) }
    }
}

impl Sink for OffsetSink {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        self.sink.write_at(self.base + offset, bytes)
    }

    fn write_parts_at(&self, offset: u64, parts: &mut [IoSlice<'_>]) -> Result<()> {
        self.sink.write_parts_at(self.base + offset, parts)
    }

    fn copy_at(&self, offset: u64, source: &File, from: u64, length: u64) -> Result<()> {
        self.sink.copy_at(self.base + offset, source, from, length)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.sink.read_at(self.base + offset, buffer)
    }

    fn skip(&self, offset: u64, length: u64) -> Result<()> {
        self.sink.skip(self.base + offset, length)
    }

    fn sync(&self) -> Result<()> {
        self.sink.sync()
    }

    fn check_place(&self) -> Result<()> {
        self.sink.check_place()
    }

    fn publish(&self, size: u64) -> Result<()> {
        self.sink.publish(self.base + size)
    }

    fn cut(&self, size: u64) -> Result<()> {
        self.sink.cut(self.base + size)
    }

    fn has_holes(&self) -> bool {
        self.sink.has_holes()
    }

    fn kept(&self) -> Option<u64> {
        self.sink.kept().map(|kept| kept.saturating_sub(self.base))
    }

    fn data_ended(&self, end: u64) -> Result<()> {
        self.sink.data_ended(self.base + end)
    }

    fn settle(&self) -> Result<()> {
        self.sink.settle()
    }

    fn release(&self) {
        self.sink.release();
    }

    fn discard(&self) -> Result<()> {
        self.sink.discard()
    }

    fn stored(&self) -> Option<StoredObject> {
        self.sink.stored()
    }

    fn unfinished(&self) -> &'static [u8] {
        self.sink.unfinished()
    }
}
