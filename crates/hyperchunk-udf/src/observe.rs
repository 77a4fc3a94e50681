//! Analyses of stores: wrappers for their sources, so that the worker, which supports only live datasets, can
//! run them.
//!
//! The worker gets three arrays: [`RESULTS`], for the function's results, [`DATA`], the written data, and
//! [`CONTROL`], the task: a byte 0 and the dataset's path for `on_write`; a byte 1, the length of the first
//! list, and two lists of results for `merge`. A list of results is 4 bytes with the length of the rest (0
//! for none), and pairs: 4 bytes with their number, and for each 4 bytes with the length of its key, the key
//! and the value. A value is a byte with its kind, followed by 8 bytes (0 signed, 1 unsigned, 2 double), or 4
//! bytes with the length of a text and the text (3), or 4 bytes with the number of numbers, each a byte with
//! its kind and 8 bytes (4). Everything is little-endian.
//!
//! **Invariant:** results are as untrusted as a file: the decoder checks everything.

use crate::backend::Backend;
use crate::error::{Result, fail};

pub use crate::record::declaration::RESULTS;

/// Array with the written data.
pub const DATA: &str = "data";
/// Array with the task.
pub const CONTROL: &str = "control";

/// Returns the source for the worker, made from the source of an analysis. Line numbers are kept.
///
/// # Errors
/// `Unsupported` for a language without support for analyses.
pub fn wrapped(backend: Backend, source: &str) -> Result<String> {
    Ok(match backend {
        Backend::Lua => format!("{source}\n{}", include_str!("observe/epilogue.lua")),
        Backend::Python => format!("{source}\n{}", include_str!("observe/epilogue_python.txt")),
        // Languages that are compiled to WebAssembly.
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
