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

impl Limits {
    /// Every limit by its name, in the order of the fields.
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

    /// Sets the limit of a name, as messages say it. Depths have a highest value that the stack of a thread holds.
    ///
    /// # Errors
    /// Of kind Invalid where there is no such limit, or it cannot be so high.
    pub fn set(&mut self, name: &str, value: u64) -> Result<()> {
        let depth = |most: u32| {
            u32::try_from(value).ok().filter(|value| *value <= most).ok_or_else(|| {
                Error::invalid(format!("the limit `{name}` can be {most} at most, not {value}"))
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
        assert!(limits.set("link_depth", 1 << 32).unwrap_err().to_string().contains("1024 at most"));
    }
}
