//! Languages of functions.

use crate::error::{Result, fail};
use std::path::Path;

/// Language back end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Backend {
    /// Python, run by CPython.
    Python,
    /// Lua, run by LuaJIT.
    Lua,
    /// C++, compiled to native code.
    Cpp,
    /// Expression, computed in the reading process.
    Expression,
    /// WebAssembly, compiled to machine code in the worker.
    Wasm,
    /// CUDA, compiled to PTX, which the driver compiles for its GPU.
    Cuda,
}

impl Backend {
    /// Every back end.
    pub const ALL: [Backend; 6] =
        [Backend::Python, Backend::Lua, Backend::Cpp, Backend::Wasm, Backend::Cuda, Backend::Expression];

    /// Returns whether its sources are programs, which run in a worker. Expressions are data, which the host
    /// evaluates.
    pub fn has_worker(self) -> bool {
        self != Backend::Expression
    }

    /// Returns the name in the record's JSON header, equal to HDF5-UDF's if it has one.
    pub fn json_name(self) -> &'static str {
        match self {
            Backend::Python => "CPython",
            Backend::Lua => "LuaJIT",
            Backend::Cpp => "C++",
            Backend::Expression => "Expression",
            Backend::Wasm => "WebAssembly",
            Backend::Cuda => "CUDA",
        }
    }

    /// Returns the name in profiles and messages.
    pub fn short_name(self) -> &'static str {
        match self {
            Backend::Python => "python",
            Backend::Lua => "lua",
            Backend::Cpp => "c++",
            Backend::Expression => "expression",
            Backend::Wasm => "wasm",
            Backend::Cuda => "cuda",
        }
    }

    /// Returns the back end with this JSON name.
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

    /// Returns the back end with this short name, as in `languages` of a settings file.
    ///
    /// # Errors
    /// `Key`, listing the valid names.
    pub(crate) fn from_short_name(name: &str) -> Result<Self> {
        match Backend::ALL.into_iter().find(|b| b.short_name() == name) {
            Some(backend) => Ok(backend),
            None => fail!(
                Key,
                "unknown language {name:?} in `languages`; expected one of {}",
                Backend::ALL.map(Backend::short_name).join(", ")
            ),
        }
    }

    /// Returns the back end for a source file, by its extension (`.py`, `.lua`, `.cpp`, `.wasm`, `.c`, `.cu`,
    /// `.expr`; any case).
    ///
    /// # Errors
    /// `Unsupported`, with the known extensions.
    pub fn from_path(path: &Path) -> Result<Self> {
        let extension = path.extension().and_then(|e| e.to_str()).unwrap_or("").to_ascii_lowercase();
        match extension.as_str() {
            "py" => Ok(Backend::Python),
            "lua" => Ok(Backend::Lua),
            "cpp" | "cc" | "cxx" => Ok(Backend::Cpp),
            "expr" => Ok(Backend::Expression),
            // C has no separate back end.
            "wasm" | "c" => Ok(Backend::Wasm),
            "cu" => Ok(Backend::Cuda),
            _ => fail!(
                Unsupported,
                "{}: no back end for this extension; sources end in .py (Python), .lua (Lua), .cpp (C++), .wasm (WebAssembly), .c (C, run as WebAssembly), .cu (CUDA) or .expr (an expression)",
                crate::escape::escape(&path.display().to_string(), 200)
            ),
        }
    }
}
