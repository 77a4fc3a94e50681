//! Interface to libhdf5: the filter plugins, the VOL connector, and finding the library. No other crate calls
//! libhdf5.
//!
//! libhdf5 is never linked: a plugin finds the library that called it. Every entry from C goes through [`guard`].
//!
//! **Invariant:** no `H5*` symbol is undefined in anything we ship, and no panic crosses into C.

mod chunk_buffer;
mod datatypes;
mod errors;
pub mod filter;
mod guard;
mod handles;
pub mod library;
mod live;
mod notice;
pub mod pointer;
pub mod relay;
pub mod snappy;
mod static_symbols;
mod stored_types;
mod symbols;
mod text_types;
mod virtual_sources;
pub mod vol;

pub use hyperchunk_udf::error::{Error, ErrorKind, Result};
pub use library::Library;

/// Returns an `Err` of `kind` with a formatted message.
macro_rules! fail {
    ($kind:ident, $($arg:tt)*) => {
        return Err($crate::Error::new($crate::ErrorKind::$kind, format!($($arg)*)))
    };
}
pub(crate) use fail;
