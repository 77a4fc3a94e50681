//! Standard output for bytes. Files that commands make are [`hyperchunk::output`]'s.

use std::io::{self, Write};

/// Standard output for bytes: when nobody reads any more (`| head`), the command ends.
pub(crate) struct Standard(pub(crate) io::StdoutLock<'static>);

impl Write for Standard {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).inspect_err(crate::unprinted)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().inspect_err(crate::unprinted)
    }
}
