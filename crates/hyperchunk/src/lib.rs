//! The engine of Hyperchunk: files, groups, datasets and attributes, read without libhdf5.
//!
//! A read is one straight walk: path → object header → plan (which byte ranges) → fetch → decode on all cores → scatter
//! into the caller's buffer.

pub use hyperchunk_format::{Error, ErrorKind, Limits, Result};
