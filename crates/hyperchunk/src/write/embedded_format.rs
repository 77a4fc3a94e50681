//! A second format over the same bytes.
//!
//! A file may be in two formats at once: both share the data, and the other format's metadata surround
//! HDF5's structure. At each commit, the [`Companion`] is asked for its metadata. They end the file, and
//! may be tied to HDF5's: a word of them is the checksum of an object header, so that a program that
//! changes the header also changes the word.

use super::commit::Blob;
use super::tree::NodeId;
use crate::{Error, Result};
use hyperchunk_format::checksum::{lookup3, steer};
use std::collections::HashMap;
use std::fmt;

/// Number of padding bytes in a message that are enough to steer a checksum: twelve at a multiple of
/// twelve, followed by [`ENDING_BYTES`].
const PADDING_BYTES: usize = 32;
/// Number of bytes that the other format writes before the last checksum of the file.
const ENDING_BYTES: usize = 6;
const CHECKSUM_BYTES: usize = 4;

/// The other format of a file.
pub trait Companion: Send + Sync + fmt::Debug {
    /// Returns the space that it needs around the structure.
    ///
    /// # Errors
    /// Its own: then nothing is committed.
    fn plan(&self) -> Result<Plan>;

    /// Returns its bytes, given all locations.
    ///
    /// # Errors
    /// Its own: then nothing is committed.
    fn fill(&self, places: &Offsets) -> Result<FormatBytes>;
}

/// Space that another format needs around the structure.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// Number of bytes before the first sealed object, at a multiple of eight.
    pub front: u64,
    /// Objects whose headers are tied to the other format, in this order, after all others. The checksum of
    /// the last one ends the file. Groups among them have all their links in their headers.
    pub sealed: Vec<SealedObject>,
}

/// An object whose header is tied to another format.
#[derive(Debug, Clone, Copy)]
pub struct SealedObject {
    /// The object.
    pub object: NodeId,
    /// The offset in the file of its checksum, modulo eight.
    pub remainder: u64,
    /// Number of bytes that follow the checksum.
    pub behind: u64,
}

/// Offsets in the file.
#[derive(Debug, Clone, Default)]
pub struct Offsets {
    /// The bytes before the first sealed object.
    pub front: u64,
    /// The checksum of each sealed object.
    pub checksums: Vec<u64>,
    /// The end of the file.
    pub end: u64,
}

/// The other format's bytes.
#[derive(Debug, Clone, Default)]
pub struct FormatBytes {
    /// The bytes before the first sealed object.
    pub front: Vec<u8>,
    /// The required checksum of each sealed object, and the bytes that follow it.
    pub sealed: Vec<([u8; 4], Vec<u8>)>,
    /// The bytes before the last checksum.
    pub ending: [u8; ENDING_BYTES],
}

/// A plan, while the structure is laid out.
pub(super) struct Layout {
    pub(super) plan: Plan,
    /// Number of padding bytes in each sealed header.
    spare: HashMap<NodeId, usize>,
    /// The offset in the region of the bytes before the first sealed object.
    front: usize,
    /// The offsets in the region of each sealed header and of its checksum.
    headers: Vec<(usize, usize)>,
}

impl Layout {
    pub(super) fn new(plan: Plan) -> Result<Self> {
        if plan.sealed.last().is_none_or(|last| last.behind != 0) {
            return Err(Error::invalid("a plan whose last object does not end the file"));
        }
        let spare = plan.sealed.iter().map(|sealed| (sealed.object, PADDING_BYTES)).collect();
        Ok(Self { plan, spare, front: 0, headers: Vec::new() })
    }

    /// Reorders the objects, with the sealed ones last.
    pub(super) fn order(&self, order: &[NodeId]) -> Result<Vec<NodeId>> {
        let mut all: Vec<NodeId> = order.iter().filter(|id| !self.spare.contains_key(id)).copied().collect();
        if all.len() + self.plan.sealed.len() != order.len() {
            return Err(Error::invalid("a plan with objects that are not in the file"));
        }
        all.extend(self.plan.sealed.iter().map(|sealed| sealed.object));
        Ok(all)
    }

    /// Returns the number of padding bytes in an object's header, if it is sealed.
    pub(super) fn spare(&self, id: NodeId) -> Option<usize> {
        self.spare.get(&id).copied()
    }

    fn sealed(&self, id: NodeId) -> Option<SealedObject> {
        self.plan.sealed.iter().find(|sealed| sealed.object == id).copied()
    }

    /// Called before an object is laid out: reserves the bytes before the first sealed one.
    pub(super) fn before(&mut self, id: NodeId, region: &mut Vec<u8>) -> Result<()> {
        if self.plan.sealed.first().is_some_and(|first| first.object == id) {
            self.front = region.len();
            region.resize(narrow(self.front as u64 + self.plan.front)?.next_multiple_of(8), 0);
        }
        Ok(())
    }

    /// Returns the number of padding bytes that moves an object's checksum to its required offset, if
    /// `blob`, laid out at `start`, does not have it there.
    pub(super) fn better(&mut self, id: NodeId, start: usize, blob: &Blob) -> Option<usize> {
        let sealed = self.sealed(id)?;
        let checksum = (start + blob.bytes.len() - CHECKSUM_BYTES) as u64;
        let missing = (sealed.remainder + 8 - checksum % 8) % 8;
        if missing == 0 {
            return None;
        }
        let spare = self.spare.get_mut(&id)?;
        *spare += usize::try_from(missing).unwrap_or(0);
        Some(*spare)
    }

    /// Called after an object was laid out: reserves the bytes that follow it.
    pub(super) fn after(
        &mut self,
        id: NodeId,
        start: usize,
        header: usize,
        region: &mut Vec<u8>,
    ) -> Result<()> {
        if let Some(sealed) = self.sealed(id) {
            self.headers.push((start + header, region.len() - CHECKSUM_BYTES));
            region.resize(narrow(region.len() as u64 + sealed.behind)?, 0);
        }
        Ok(())
    }

    /// Writes the other format's bytes into the region, which is at `start` in the file.
    pub(super) fn fill(&self, companion: &dyn Companion, start: u64, region: &mut [u8]) -> Result<()> {
        let wrong = || Error::invalid("bytes of another length than was planned");
        let places = Offsets {
            front: start + self.front as u64,
            checksums: self.headers.iter().map(|(_, checksum)| start + *checksum as u64).collect(),
            end: start + region.len() as u64,
        };
        let filled = companion.fill(&places)?;
        if filled.front.len() as u64 != self.plan.front || filled.sealed.len() != self.headers.len() {
            return Err(wrong());
        }
        let mut put =
            |at: usize, bytes: &[u8]| match region.get_mut(at..).and_then(|rest| rest.get_mut(..bytes.len()))
            {
                Some(place) => {
                    place.copy_from_slice(bytes);
                    Ok(())
                }
                None => Err(wrong()),
            };
        put(self.front, &filled.front)?;
        let &(_, last) = self.headers.last().ok_or_else(wrong)?;
        put(last - ENDING_BYTES, &filled.ending)?;
        let each = self.plan.sealed.iter().zip(&self.headers).zip(&filled.sealed);
        for ((sealed, (_, checksum)), (word, behind)) in each.clone() {
            if behind.len() as u64 != sealed.behind {
                return Err(wrong());
            }
            put(*checksum, word)?;
            put(checksum + CHECKSUM_BYTES, behind)?;
        }
        for ((sealed, (header, checksum)), (word, _)) in each {
            let spare = self.spare(sealed.object).ok_or_else(wrong)?;
            let bytes = region.get_mut(*header..*checksum).ok_or_else(wrong)?;
            let at = (bytes.len() - spare).next_multiple_of(12);
            steer(bytes, at, u32::from_le_bytes(*word))?;
            if lookup3(bytes) != u32::from_le_bytes(*word) {
                return Err(Error::invalid("a checksum that is not what was wanted"));
            }
        }
        Ok(())
    }
}

fn narrow(length: u64) -> Result<usize> {
    usize::try_from(length).map_err(|_| Error::limit("structure larger than memory"))
}
