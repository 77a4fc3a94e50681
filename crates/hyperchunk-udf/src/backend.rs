//! The languages that a function can be written in.

use crate::error::{Result, fail};
use std::path::Path;

/// A language back end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Backend {
    /// Python, run by CPython.
    Python,
    /// Lua, run by LuaJIT.
    Lua,
    /// C++, compiled to native code.
    Cpp,
}

impl Backend {
    /// Every back end.
    pub const ALL: [Backend; 3] = [Backend::Python, Backend::Lua, Backend::Cpp];

    /// The name in the record's JSON header, the same as HDF5-UDF's.
    pub fn json_name(self) -> &'static str {
        match self {
            Backend::Python => "CPython",
            Backend::Lua => "LuaJIT",
            Backend::Cpp => "C++",
        }
    }

    /// The name in profiles and messages.
    pub fn short_name(self) -> &'static str {
        match self {
            Backend::Python => "python",
            Backend::Lua => "lua",
            Backend::Cpp => "c++",
        }
    }

    /// The back end with this JSON name.
    ///
    /// # Errors
    /// `Unsupported`, naming it.
    pub fn from_json_name(name: &str) -> Result<Self> {
        match Backend::ALL.into_iter().find(|b| b.json_name() == name) {
            Some(backend) => Ok(backend),
            None => fail!(
                Unsupported,
                "back end {:?} is not one that this version runs",
                crate::escape::escape(name, 40)
            ),
        }
    }

    /// The back end for a source file, by its extension (`.py`, `.lua`, `.cpp`; any case).
    ///
    /// # Errors
    /// `Unsupported`, with the known extensions.
    pub fn from_path(path: &Path) -> Result<Self> {
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or("").to_ascii_lowercase();
        match extension.as_str() {
            "py" => Ok(Backend::Python),
            "lua" => Ok(Backend::Lua),
            "cpp" | "cc" | "cxx" => Ok(Backend::Cpp),
            _ => fail!(
                Unsupported,
                "{}: no back end for this extension; sources end in .py (Python), .lua (Lua) or .cpp (C++)",
                crate::escape::escape(&path.display().to_string(), 200)
            ),
        }
    }
}
