//! Text that came from a file or from a function, made safe to print.

pub use hyperchunk_format::printable::{escape, escape_lines, is_unseen};
