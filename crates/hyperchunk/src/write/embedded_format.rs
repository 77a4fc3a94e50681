//! Files in two formats: HDF5, and a second one that shares the data, such as Arrow.
//!
//! The second format's metadata surround HDF5's structure. At each commit, the [`SecondFormat`] creates its
//! metadata. They end the file, and can be bound to HDF5's metadata: a word of them is at the same time the
//! checksum of an object header (a *sealed* object), so that a program that changes the header invalidates
//! the second format.

use super::commit::Blob;
use super::tree::NodeId;
use crate::{Error, Result};
use hyperchunk_format::checksum::{lookup3, steer};
use std::collections::HashMap;
use std::fmt;

/// Number of padding bytes in a message that suffice to give a header any checksum: twelve at a multiple of
/// twelve, followed by [`ENDING_BYTES`].
const PADDING_BYTES: usize = 32;
/// Number of bytes of the second format before the last checksum of the file.
const ENDING_BYTES: usize = 6;
const CHECKSUM_BYTES: usize = 4;

/// Second format of a file.
pub trait SecondFormat: Send + Sync + fmt::Debug {
    /// Returns the space that the format needs around the structure.
    ///
    /// # Errors
    /// Its own errors; the commit fails then.
    fn plan(&self) -> Result<Plan>;

    /// Returns the format's bytes, given the offsets of its parts.
    ///
    /// # Errors
    /// Its own errors; the commit fails then.
    fn fill(&self, places: &Offsets) -> Result<FormatBytes>;
}

/// Space that the second format needs around the structure.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    /// Number of bytes before the first sealed object, at a multiple of eight.
    pub front: u64,
    /// Objects whose headers are bound to the second format. They are stored in this order, after all others.
    /// The checksum of the last one ends the file. Groups among them have all their links in their headers.
    pub sealed: Vec<SealedObject>,
}

/// An object whose header is bound to the second format.
#[derive(Debug, Clone, Copy)]
pub struct SealedObject {
    /// The object.
    pub object: NodeId,
    /// Required file offset of the header's checksum, modulo 8.
    pub remainder: u64,
    /// Number of bytes of the second format after the checksum.
    pub behind: u64,
}

/// File offsets of the second format's parts.
#[derive(Debug, Clone, Default)]
pub struct Offsets {
    /// Offset of the bytes before the first sealed object.
    pub front: u64,
    /// Offset of the checksum of each sealed object.
    pub checksums: Vec<u64>,
    /// End of the file.
    pub end: u64,
}

/// Bytes of the second format.
#[derive(Debug, Clone, Default)]
pub struct FormatBytes {
    /// Bytes before the first sealed object.
    pub front: Vec<u8>,
    /// Required checksum of each sealed object, and the bytes after it.
    pub sealed: Vec<([u8; 4], Vec<u8>)>,
    /// Bytes before the last checksum.
    pub ending: [u8; ENDING_BYTES],
}

/// State of the plan while the structure is laid out in a region.
pub(super) struct SecondFormatLayout {
    pub(super) plan: Plan,
    /// Number of padding bytes in each sealed header.
    padding: HashMap<NodeId, usize>,
    /// Offset in the region of the bytes before the first sealed object.
    front: usize,
    /// Offsets in the region of each sealed header and of its checksum.
    headers: Vec<(usize, usize)>,
}

impl SecondFormatLayout {
    pub(super) fn new(plan: Plan) -> Result<Self> {
        if plan.sealed.last().is_none_or(|last| last.behind != 0) {
            return Err(Error::invalid("invalid plan: the checksum of the last object must end the file"));
        }
        let padding = plan.sealed.iter().map(|sealed| (sealed.object, PADDING_BYTES)).collect();
        Ok(Self { plan, padding, front: 0, headers: Vec::new() })
    }

    /// Reorders the objects, with the sealed ones last.
    pub(super) fn order(&self, order: &[NodeId]) -> Result<Vec<NodeId>> {
        let mut all: Vec<NodeId> =
            order.iter().filter(|id| !self.padding.contains_key(id)).copied().collect();
        if all.len() + self.plan.sealed.len() != order.len() {
            return Err(Error::invalid("invalid plan: it has objects that are not in the file"));
        }
        all.extend(self.plan.sealed.iter().map(|sealed| sealed.object));
        Ok(all)
    }

    /// Returns the number of padding bytes in an object's header, if it is sealed.
    pub(super) fn padding(&self, id: NodeId) -> Option<usize> {
        self.padding.get(&id).copied()
    }

    fn sealed(&self, id: NodeId) -> Option<SealedObject> {
        self.plan.sealed.iter().find(|sealed| sealed.object == id).copied()
    }

    /// Reserves the bytes before the first sealed object. Called before each object is laid out.
    pub(super) fn before(&mut self, id: NodeId, region: &mut Vec<u8>) -> Result<()> {
        if self.plan.sealed.first().is_some_and(|first| first.object == id) {
            self.front = region.len();
            region.resize(narrow(self.front as u64 + self.plan.front)?.next_multiple_of(8), 0);
        }
        Ok(())
    }

    /// Returns the number of padding bytes with which an object's checksum has its required offset; `None` if
    /// it has it already in `blob`, laid out at `start`.
    pub(super) fn better(&mut self, id: NodeId, start: usize, blob: &Blob) -> Option<usize> {
        let sealed = self.sealed(id)?;
        let checksum = (start + blob.bytes.len() - CHECKSUM_BYTES) as u64;
        let missing = (sealed.remainder + 8 - checksum % 8) % 8;
        if missing == 0 {
            return None;
        }
        let padding = self.padding.get_mut(&id)?;
        *padding += usize::try_from(missing).unwrap_or(0);
        Some(*padding)
    }

    /// Reserves the bytes after an object's checksum. Called after each object was laid out.
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

    /// Writes the second format's bytes into the region, which is stored at offset `start` of the file.
    pub(super) fn fill(&self, format: &dyn SecondFormat, start: u64, region: &mut [u8]) -> Result<()> {
        let wrong = || Error::invalid("the second format's bytes do not have the planned length");
        let places = Offsets {
            front: start + self.front as u64,
            checksums: self.headers.iter().map(|(_, checksum)| start + *checksum as u64).collect(),
            end: start + region.len() as u64,
        };
        let filled = format.fill(&places)?;
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
            let padding = self.padding(sealed.object).ok_or_else(wrong)?;
            let bytes = region.get_mut(*header..*checksum).ok_or_else(wrong)?;
            let at = (bytes.len() - padding).next_multiple_of(12);
            steer(bytes, at, u32::from_le_bytes(*word))?;
            if lookup3(bytes) != u32::from_le_bytes(*word) {
                return Err(Error::invalid("the object header does not have the required checksum"));
            }
        }
        Ok(())
    }
}

fn narrow(length: u64) -> Result<usize> {
    usize::try_from(length).map_err(|_| Error::limit("the structure exceeds the address space"))
}
