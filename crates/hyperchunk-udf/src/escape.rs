//! Escaping of text from a file or a function, to make it safe to print.

pub use hyperchunk_format::printable::{escape, escape_lines, is_unseen};
