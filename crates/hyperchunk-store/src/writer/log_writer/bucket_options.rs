//! Options that a writer cannot have in an object store.

use super::{Segments, WriterOptions};
use hyperchunk::write::Sync;
use hyperchunk::{Error, Result};

impl WriterOptions {
    /// Checks that an object store supports these options.
    pub(super) fn check_for_bucket(&self) -> Result<()> {
        let refused = |what: &str| Err(Error::unsupported(format!("{what}: not in an object store")));
        if self.segments == Segments::Arrow {
            return refused("rows that go to Arrow files");
        }
        if self.memory.is_some() {
            return refused(
                "keeping what is written in shared memory (parts of objects are in memory anyway)",
            );
        }
        if self.sync == Sync::Write {
            return refused("each write on the disk at once (what was flushed is there)");
        }
        Ok(())
    }
}
