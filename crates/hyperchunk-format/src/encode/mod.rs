//! Encoders: values → bytes, one file for each structure, named as in the specification and in
//! [`crate::parse`], to be read side by side.
//!
//! Written files have addresses and lengths of 8 bytes, little-endian, and base address 0. The size of an
//! encoded structure never depends on the addresses in it: encode with any address to learn the size, reserve
//! the space, and encode again.

pub mod attributes;
pub mod blocks;
pub mod btree_v2;
mod bytes;
pub mod chunk_index;
pub mod fractal_heap;
pub mod global_heap;
pub mod group;
pub mod local_heap;
pub mod message;
pub mod object_header;
pub mod reference;
pub mod selection;
pub mod superblock;
pub mod virtual_layout;

pub(crate) use bytes::{Bytes, fit};

/// Oldest HDF5 release that must be able to read the written file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub enum LibVersion {
    /// HDF5 1.8, of 2008.
    #[default]
    V18,
    /// HDF5 1.10, of 2016: chunk indexes other than version 1 B-trees, virtual datasets.
    V110,
    /// HDF5 2.0, of 2025: complex numbers, chunks of more than 4 GiB.
    V200,
}

/// Undefined address.
pub const UNDEFINED: u64 = u64::MAX;

/// Widths of addresses and lengths in written files.
pub(crate) const SIZES: crate::Sizes = crate::Sizes::WRITTEN;
