//! Bounds on everything that a file can make us do.

use crate::{Error, Result};
use std::sync::atomic::{AtomicU64, Ordering};

/// What a file may cost. Each bound that is reached is an error of kind [`crate::ErrorKind::Limit`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// How deep a datatype may nest. HDF5's own libraries recurse without a bound.
    pub datatype_depth: u32,
    /// How many structures (nodes, blocks, messages, links) one operation may visit. A large one counts once more for each
    /// 128 bytes.
    pub visits: u64,
    /// The largest structure of metadata that is read in one piece, in bytes.
    pub metadata_bytes: u64,
    /// The largest chunk that is decoded, in bytes before compression.
    pub chunk_bytes: u64,
    /// How many soft, external and user-defined links one path may follow.
    pub link_depth: u32,
    /// How deep a virtual dataset may be made of virtual datasets.
    pub virtual_depth: u32,
    /// How many mappings a virtual dataset may have after its printf-style names are expanded.
    pub virtual_mappings: u64,
    /// How many bytes of sequences and strings of any length one read may look up, where that is more than 16 times the
    /// size of the file. Any number of elements may name one object of the heap, so that few bytes can stand for endless
    /// data.
    pub sequence_bytes: u64,
    /// The memory for chunks that are being fetched and decoded at one time, in bytes.
    pub in_flight_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            datatype_depth: 32,
            visits: 50_000_000,
            metadata_bytes: 256 << 20,
            chunk_bytes: 16 << 30,
            link_depth: 64,
            virtual_depth: 16,
            virtual_mappings: 1_000_000,
            sequence_bytes: 1 << 30,
            in_flight_bytes: 256 << 20,
        }
    }
}

/// Counts the structures that one operation visits.
#[derive(Debug)]
pub struct Fuel(AtomicU64);

impl Fuel {
    /// Fuel for one operation.
    #[must_use]
    pub fn new(limits: &Limits) -> Self {
        Self(AtomicU64::new(limits.visits))
    }

    /// Counts `visits` more.
    ///
    /// # Errors
    /// Of kind Limit when there is no fuel left: a cycle, or a file made to cost time.
    pub fn burn(&self, visits: u64) -> Result<()> {
        let left = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(visits));
        left.map(drop).map_err(|_| {
            Error::limit("the file has more structures than the limit `visits`, or they form a cycle")
        })
    }
}
