//! Bounds on the work and memory that a file can cause.

use crate::{Error, Result};
use std::sync::atomic::{AtomicU64, Ordering};

/// Bounds on the cost of a file. Exceeding one is an error of kind [`crate::ErrorKind::Limit`].
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Maximum nesting depth of a datatype. HDF5's own libraries recurse without a bound.
    pub datatype_depth: u32,
    /// Maximum number of structures (nodes, blocks, messages, links) that one operation visits. A large
    /// structure counts once more for every 128 bytes.
    pub visits: u64,
    /// Largest structure of metadata that is read in one piece, in bytes.
    pub metadata_bytes: u64,
    /// Largest chunk that is decoded, in bytes before compression.
    pub chunk_bytes: u64,
    /// Maximum number of soft, external and user-defined links that one path follows.
    pub link_depth: u32,
    /// Maximum nesting depth of virtual datasets.
    pub virtual_depth: u32,
    /// Maximum number of mappings of a virtual dataset after expansion of its printf-style names.
    pub virtual_mappings: u64,
    /// Maximum number of bytes of variable-length data that one read looks up; 16 times the size of the file
    /// if that is more. Many elements may refer to one heap object, so the data of a small file can be
    /// arbitrarily large.
    pub sequence_bytes: u64,
    /// Approximate memory for the chunks that are fetched and decoded at one time, in bytes.
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

impl Limits {
    /// Names of all limits, in the order of the fields.
    pub const NAMES: [&str; 9] = [
        "datatype_depth",
        "visits",
        "metadata_bytes",
        "chunk_bytes",
        "link_depth",
        "virtual_depth",
        "virtual_mappings",
        "sequence_bytes",
        "in_flight_bytes",
    ];

    /// Sets a limit by its name, which error messages contain. Depths have a maximum that fits a thread's
    /// stack.
    ///
    /// # Errors
    /// Invalid if there is no such limit, or if a depth is above its maximum.
    pub fn set(&mut self, name: &str, value: u64) -> Result<()> {
        let depth = |most: u32| {
            u32::try_from(value).ok().filter(|value| *value <= most).ok_or_else(|| {
                Error::invalid(format!("the limit `{name}` must be at most {most}, got {value}"))
            })
        };
        match name {
            "datatype_depth" => self.datatype_depth = depth(64)?,
            "visits" => self.visits = value,
            "metadata_bytes" => self.metadata_bytes = value,
            "chunk_bytes" => self.chunk_bytes = value,
            "link_depth" => self.link_depth = depth(1024)?,
            "virtual_depth" => self.virtual_depth = depth(64)?,
            "virtual_mappings" => self.virtual_mappings = value,
            "sequence_bytes" => self.sequence_bytes = value,
            "in_flight_bytes" => self.in_flight_bytes = value,
            _ => {
                let known = Self::NAMES.join(", ");
                return Err(Error::invalid(format!("there is no limit `{name}`; there are {known}")));
            }
        }
        Ok(())
    }
}

/// Counter of the structures that one operation may still visit.
#[derive(Debug)]
pub struct Fuel(AtomicU64);

impl Fuel {
    /// Creates the fuel for one operation.
    #[must_use]
    pub fn new(limits: &Limits) -> Self {
        Self(AtomicU64::new(limits.visits))
    }

    /// Subtracts `visits`.
    ///
    /// # Errors
    /// Limit if less fuel is left: the structures form a cycle, or the file was crafted to be slow to read.
    pub fn burn(&self, visits: u64) -> Result<()> {
        let left = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(visits));
        left.map(drop).map_err(|_| {
            Error::limit("the file has more structures than the limit `visits`, or they form a cycle")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_sets_a_limit_of_its_own() {
        for (number, name) in Limits::NAMES.iter().enumerate() {
            let mut limits = Limits::default();
            limits.set(name, 7).unwrap();
            let Limits {
                datatype_depth,
                visits,
                metadata_bytes,
                chunk_bytes,
                link_depth,
                virtual_depth,
                virtual_mappings,
                sequence_bytes,
                in_flight_bytes,
            } = limits;
            let all = [
                datatype_depth.into(),
                visits,
                metadata_bytes,
                chunk_bytes,
                link_depth.into(),
                virtual_depth.into(),
                virtual_mappings,
                sequence_bytes,
                in_flight_bytes,
            ];
            assert_eq!(all.iter().position(|value| *value == 7), Some(number), "{name}");
            assert_eq!(all.iter().filter(|value| **value == 7).count(), 1, "{name}");
        }
    }

    #[test]
    fn what_is_no_limit_is_an_error() {
        let mut limits = Limits::default();
        assert!(limits.set("visit", 1).unwrap_err().to_string().contains("visits, metadata_bytes"));
        assert!(limits.set("link_depth", 1 << 32).unwrap_err().to_string().contains("at most 1024"));
    }
}
