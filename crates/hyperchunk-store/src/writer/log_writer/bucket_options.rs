//! Options that a writer cannot have in an object store.

use super::{Segments, WriterOptions};
use hyperchunk::write::Sync;
use hyperchunk::{Error, Result};

impl WriterOptions {
    /// Checks that an object store supports these options.
    pub(super) fn check_for_bucket(&self) -> Result<()> {
        let refused =
            |what: &str| Err(Error::unsupported(format!("{what} are not supported in an object store")));
        if self.segments == Segments::Arrow {
            return refused("Arrow files of rows");
        }
        if self.memory.is_some() {
            return refused("write buffers in shared memory (parts of objects are in memory anyway)");
        }
        if self.sync == Sync::Write {
            return refused("writes that are synced one by one (flushed data are durable)");
        }
        Ok(())
    }
}
