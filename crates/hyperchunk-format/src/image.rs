//! File as parsers see it: bytes by HDF5 address, together with the sizes from the superblock and the limits.

use crate::model::{SharedMessageTable, Sizes};
use crate::{Cursor, Error, Fuel, Limits, Result, View, checksum};
use std::borrow::Cow;
use std::ops::Range;
use std::sync::{Mutex, PoisonError};

/// Address and size in bytes of each structure that a parser read and whose size is certain.
#[derive(Debug, Default)]
pub struct Extents(Mutex<Vec<(u64, u64)>>);

impl Extents {
    /// Returns the extents, in the order in which they were read.
    #[must_use]
    pub fn into_vec(self) -> Vec<(u64, u64)> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

/// File as parsers see it. Addresses are relative to the base address.
#[derive(Clone, Copy)]
pub struct Image<'a> {
    view: &'a dyn View,
    base: u64,
    /// Widths of addresses and lengths.
    pub sizes: Sizes,
    /// Bounds on the cost of parsing.
    pub limits: &'a Limits,
    fuel: &'a Fuel,
    extents: Option<&'a Extents>,
    /// Table of shared object header messages.
    pub shared_messages: Option<SharedMessageTable>,
    /// Half the maximum number of children of a node in a version 1 B-tree of chunks ("indexed storage
    /// internal node K").
    pub(crate) chunk_k: u16,
}

/// [`Superblock::chunk_k`](crate::model::Superblock::chunk_k) of most files.
pub const DEFAULT_CHUNK_K: u16 = 32;

impl std::fmt::Debug for Image<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Image").field("base", &self.base).field("sizes", &self.sizes).finish_non_exhaustive()
    }
}

impl<'a> Image<'a> {
    /// Creates an image of the file in `view` with base address `base`.
    #[must_use]
    pub fn new(view: &'a dyn View, base: u64, sizes: Sizes, limits: &'a Limits, fuel: &'a Fuel) -> Self {
        Self {
            view,
            base,
            sizes,
            limits,
            fuel,
            extents: None,
            shared_messages: None,
            chunk_k: DEFAULT_CHUNK_K,
        }
    }

    /// Sets the table of shared object header messages, as given by the superblock extension.
    #[must_use]
    pub fn with_shared_messages(self, table: Option<SharedMessageTable>) -> Self {
        Self { shared_messages: table, ..self }
    }

    /// Sets half the maximum number of children of a node in a version 1 B-tree of chunks, as given by the
    /// superblock.
    #[must_use]
    pub fn with_chunk_k(self, chunk_k: u16) -> Self {
        Self { chunk_k, ..self }
    }

    /// Adds to `extents` the structures that are read through this image: chunk indexes and dense storage.
    #[must_use]
    pub fn recording(self, extents: &'a Extents) -> Self {
        Self { extents: Some(extents), ..self }
    }

    /// Returns whether extents are recorded.
    pub(crate) fn records_extents(&self) -> bool {
        self.extents.is_some()
    }

    /// Records an extent, all bytes of which belong to the structure being read.
    pub(crate) fn belongs(&self, address: u64, length: u64) {
        if let Some(extents) = self.extents {
            extents.0.lock().unwrap_or_else(PoisonError::into_inner).push((address, length));
        }
    }

    /// Counts one visited structure.
    ///
    /// # Errors
    /// Limit if the operation has visited more than [`Limits::visits`].
    pub fn visit(&self) -> Result<()> {
        self.fuel.burn(1)
    }

    /// Converts an address to an offset in the file.
    ///
    /// # Errors
    /// Corrupt, if it overflows.
    pub fn offset(&self, address: u64) -> Result<u64> {
        self.base
            .checked_add(address)
            .ok_or_else(|| Error::corrupt(format!("address {address:#x} is outside the file")))
    }

    /// Returns the number of bytes from an address to the end of the file; 0 past the end.
    #[must_use]
    pub fn left(&self, address: u64) -> u64 {
        self.base.checked_add(address).map_or(0, |offset| self.view.size().saturating_sub(offset))
    }

    /// Reads the `length` bytes of `structure` at `address`. Counts as one visit, plus one for every 128
    /// bytes.
    ///
    /// # Errors
    /// Truncated, Need or Io as [`View::bytes`]; Limit if larger than the limit for one structure of
    /// metadata.
    pub fn read(&self, structure: &'static str, address: u64, length: u64) -> Result<Cow<'a, [u8]>> {
        self.visit()?;
        let offset = self.offset(address)?;
        if length > self.limits.metadata_bytes {
            let most = self.limits.metadata_bytes;
            let message = format!("{length} bytes, more than the limit `metadata_bytes` of {most}");
            return Err(Error::limit(message).within(structure).at(offset));
        }
        let length = usize::try_from(length)
            .map_err(|_| Error::limit("a structure larger than the address space").within(structure))?;
        let bytes = self.view.bytes(offset, length).map_err(|error| error.within(structure).at(offset))?;
        self.fuel.burn((length / 128) as u64)?;
        Ok(bytes)
    }

    /// Reads as [`Image::read`], but stops at the end of the file if it comes before `length` bytes.
    ///
    /// # Errors
    /// As [`Image::read`]; Truncated if the address is at or past the end of the file.
    pub fn read_up_to(&self, structure: &'static str, address: u64, length: u64) -> Result<Cow<'a, [u8]>> {
        self.read(structure, address, length.min(self.left(address).max(1)))
    }

    /// Hints that these parts (address, length) will be read soon, so that one fetch may bring them together.
    pub fn will_need(&self, parts: &[(u64, u64)]) {
        let ranges: Vec<Range<u64>> = parts
            .iter()
            .filter_map(|(address, length)| {
                let start = self.base.checked_add(*address)?;
                Some(start..start.checked_add(*length)?)
            })
            .collect();
        self.view.will_need(&ranges);
    }

    /// Hints that the bytes at an address, and probably the ones after it, will be read soon.
    pub fn will_look_at(&self, address: u64) {
        if let Some(offset) = self.base.checked_add(address).filter(|offset| *offset < self.view.size()) {
            self.view.will_look_at(offset);
        }
    }

    /// Creates a cursor over bytes that [`Image::read`] returned for `address`.
    #[must_use]
    pub fn cursor<'b>(&self, bytes: &'b [u8], structure: &'static str, address: u64) -> Cursor<'b> {
        Cursor::new(bytes, structure, self.base.saturating_add(address))
    }

    /// Verifies the lookup3 checksum in the last four bytes of a structure and returns the bytes before it.
    ///
    /// # Errors
    /// Corrupt, if it is wrong.
    pub fn checked<'b>(&self, bytes: &'b [u8], structure: &'static str, address: u64) -> Result<&'b [u8]> {
        checksum::split_checked(bytes)
            .map_err(|error| error.within(structure).at(self.base.saturating_add(address)))
    }

    /// Applies `each` to all items and returns the results. After an error of kind Need it continues with the
    /// other items, so that one error collects the missing ranges of a whole tree level.
    ///
    /// # Errors
    /// The first error of another kind than Need; otherwise one Need for all missing ranges.
    pub fn all<I, T>(
        &self,
        items: impl IntoIterator<Item = I>,
        mut each: impl FnMut(I) -> Result<T>,
    ) -> Result<Vec<T>> {
        let mut values = Vec::new();
        let mut needs = Vec::new();
        for item in items {
            match each(item) {
                Ok(value) => values.push(value),
                Err(error) if error.is_need() => needs.extend_from_slice(error.needs()),
                Err(error) => return Err(error),
            }
        }
        if needs.is_empty() { Ok(values) } else { Err(Error::need(needs)) }
    }
}

/// Combines two results. If both lack bytes, the error has the missing ranges of both.
///
/// # Errors
/// The first error of another kind than Need; otherwise one Need.
pub(crate) fn both<A, B>(a: Result<A>, b: Result<B>) -> Result<(A, B)> {
    match (a, b) {
        (Ok(a), Ok(b)) => Ok((a, b)),
        (Err(a), Err(b)) if a.is_need() && b.is_need() => Err(Error::need([a.needs(), b.needs()].concat())),
        (Err(need), Err(error)) if need.is_need() => Err(error),
        (Err(error), _) | (_, Err(error)) => Err(error),
    }
}
