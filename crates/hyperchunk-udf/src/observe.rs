//! Analyses of stores: what surrounds their sources, so that the worker, which knows live datasets alone, runs them.
//!
//! The worker gets three arrays: [`RESULTS`], in which the function's results come back, [`DATA`], what was written, and
//! [`CONTROL`], which tells what is to be done: a byte 0 and the dataset's path for `on_write`; a byte 1, the length of the
//! first, and two lists of results for `merge`. Results are 4 bytes, the length of what follows (0 for none), and pairs:
//! 4 bytes, how many, and for each 4 bytes, the length of its key, the key and the value. A value is a byte, its kind, and
//! 8 bytes (0 signed, 1 unsigned, 2 double), or 4 bytes and so much text (3), or 4 bytes and so many numbers, each a byte
//! and 8 (4). All of it little-endian.
//!
//! **Invariant:** what comes back is as hostile as a file: whoever decodes it believes nothing.

use crate::backend::Backend;
use crate::error::{Result, fail};

pub use crate::record::declaration::RESULTS;

/// What was written.
pub const DATA: &str = "data";
/// What is to be done.
pub const CONTROL: &str = "control";

/// The source that is given to the worker for the source of an analysis. Lines keep their numbers.
///
/// # Errors
/// `Unsupported` for a language that analyses are not written in.
pub fn wrapped(backend: Backend, source: &str) -> Result<String> {
    Ok(match backend {
        Backend::Lua => format!("{source}\n{}", include_str!("observe/epilogue.lua")),
        Backend::Python => format!("{source}\n{}", include_str!("observe/epilogue_python.txt")),
        // What WebAssembly is compiled of.
        Backend::Cpp | Backend::Wasm => format!(
            "#line 1 \"hyperchunk\"\n{}\n#line 1 \"udf.cpp\"\n{source}\n#line 1 \"hyperchunk\"\n{}",
            include_str!("observe/prelude.hpp"),
            include_str!("observe/epilogue.hpp")
        ),
        other => {
            fail!(Unsupported, "analyses are written in Lua, Python or C++, not as {}", other.short_name())
        }
    })
}
