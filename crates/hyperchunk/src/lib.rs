//! The engine of Hyperchunk: files, groups, datasets and attributes, read without libhdf5.
//!
//! The path of a read is: path → object header → plan (byte ranges) → fetch → decode on all cores → scatter
//! into the caller's buffer.
//!
//! # Examples
//!
//! Read a part of a dataset, as numbers of any type:
//!
//! ```
//! use hyperchunk::select::Selection;
//! use hyperchunk::{File, OpenOptions};
//!
//! let file = File::open("examples/scene.h5", &OpenOptions::default())?;
//! let temperature = file.root()?.group()?.get("temperature")?.dataset()?;
//! assert_eq!(temperature.dims(), [4, 6]);
//! let part: Vec<f64> = temperature.read_values(&Selection::ranges([0..2, 0..3]))?;
//! assert_eq!(part, [0.0, 1.0, 2.0, 6.0, 7.0, 8.0]);
//! # Ok::<(), hyperchunk::Error>(())
//! ```
//!
//! A file in an object store or on a web server is opened with [`File::open_url`] (feature `cloud`):
//!
//! ```no_run
//! use hyperchunk::{File, OpenOptions};
//!
//! let file = File::open_url("s3://bucket/scene.h5", &OpenOptions::default())?;
//! # Ok::<(), hyperchunk::Error>(())
//! ```
//!
//! New files are written, and existing ones edited, by a [`write::Writer`]:
//!
//! ```
//! use hyperchunk::write::{CreateOptions, NodeId, Writer};
//!
//! let path = std::env::temp_dir().join("hyperchunk-front-page.h5");
//! std::fs::copy("examples/scene.h5", &path).unwrap();
//! let file = Writer::edit(&path, &CreateOptions::default())?;
//! file.create_group(NodeId::ROOT, b"calibration", false)?;
//! file.close()?;
//! # std::fs::remove_file(&path).unwrap();
//! # Ok::<(), hyperchunk::Error>(())
//! ```
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
mod id;
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
#[doc(hidden)]
pub mod room;
pub mod salvage;
#[doc(hidden)]
pub mod similar_names;
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
