//! Standard output for bytes. [`hyperchunk::output`] writes output files.

use std::io::{self, Write};

/// Standard output for bytes. If the reader has closed the pipe (`| head`), a command that only prints ends.
pub(crate) struct StandardOutput(pub(crate) io::StdoutLock<'static>);

impl Write for StandardOutput {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).inspect_err(crate::handle_write_error)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().inspect_err(crate::handle_write_error)
    }
}
