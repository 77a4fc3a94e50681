//! The HDF5 file format, without I/O: bytes ↔ values.
//!
//! - [`model`]: the contents of a file as plain values;
//! - [`parse`]: bytes → values. A parser reads through a [`View`]; a missing byte ends it with an error of
//!   kind [`ErrorKind::Need`], which [`step`] turns into [`Step::Need`]. The same parser therefore serves
//!   local files, object stores and the fuzzer;
//! - [`encode`]: values → bytes, the mirror of `parse`;
//! - [`select`]: selections and the parts of chunks that they touch;
//! - [`codec`]: the filters;
//! - [`convert`]: the one table of datatype conversions;
//! - [`printable`]: text from files, made safe for terminals.
//!
//! Source: *HDF5 File Format Specification*, versions 3.0 and 4.0.
#![forbid(unsafe_code)]
#![warn(clippy::indexing_slicing, clippy::arithmetic_side_effects)]
#![allow(clippy::single_range_in_vec_init, reason = "lists of ranges are what this crate is about")]
#![cfg_attr(
    test,
    allow(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::cast_possible_truncation,
        reason = "a test may fail"
    )
)]

pub mod checksum;
pub mod codec;
pub mod convert;
mod cursor;
pub mod encode;
mod error;
mod image;
mod limits;
pub mod model;
mod overlay;
pub mod parse;
pub mod printable;
pub mod select;
pub mod thread_state;
mod view;

pub use cursor::Cursor;
pub use error::{Error, ErrorKind, Result};
pub use image::{DEFAULT_CHUNK_K, Image};
pub use limits::{Fuel, Limits};
pub use model::Sizes;
pub use overlay::Overlay;
pub use view::{Blocks, Step, View, step};
