//! The engine of Hyperchunk: files, groups, datasets and attributes, read without libhdf5.
//!
//! The path of a read is: path → object header → plan (byte ranges) → fetch → decode on all cores → scatter
//! into the caller's buffer.
//!
//! Datasets of sharded stores are read with the crate `hyperchunk-store`, once it is registered ([`storage`]).
#![cfg_attr(test, allow(clippy::unwrap_used, reason = "a test may fail"))]

pub mod check;
pub mod collection;
pub mod companion;
mod contents;
mod dataset;
pub mod digest;
mod external;
mod file;
mod group;
mod heap;
pub mod index;
#[doc(hidden)]
pub mod internal;
pub mod io;
pub mod live;
pub mod npy;
mod object;
#[doc(hidden)]
pub mod os;
pub mod output;
pub mod pack;
mod prefetch;
mod read;
mod recent;
pub mod references;
mod room;
pub mod salvage;
pub mod slabs;
pub mod storage;
mod survey;
mod torn;
#[doc(hidden)]
pub mod values;
pub mod walk;
pub mod write;

pub use dataset::Dataset;
pub use file::{ExternalPolicy, File, OpenOptions};
pub use group::Group;
pub use heap::Sequences;
pub use hyperchunk_format::{
    Cursor, Error, ErrorKind, Limits, Result, codec, convert, encode, model, parse, select,
};
pub use object::Object;
pub use read::{Read, StoredBox, StoredPiece, read_many};
pub use values::Number;
