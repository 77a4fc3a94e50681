//! A file as its parsers see it: bytes by HDF5 address, with the sizes that the superblock declares and the limits.

use crate::model::SharedMessageTable;
use crate::{Cursor, Error, Fuel, Limits, Result, View, checksum};
use std::borrow::Cow;
use std::ops::Range;

/// The widths of addresses and lengths in a file, in bytes (2, 4, 8 or 16).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    /// "Size of offsets".
    pub address: u8,
    /// "Size of lengths".
    pub length: u8,
}

/// A file as its parsers see it. Addresses are relative to the base address.
#[derive(Clone, Copy)]
pub struct Image<'a> {
    view: &'a dyn View,
    base: u64,
    /// The widths of addresses and lengths.
    pub sizes: Sizes,
    /// The bounds.
    pub limits: &'a Limits,
    fuel: &'a Fuel,
    /// The table of shared object header messages.
    pub shared_messages: Option<SharedMessageTable>,
}

impl std::fmt::Debug for Image<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Image").field("base", &self.base).field("sizes", &self.sizes).finish_non_exhaustive()
    }
}

impl<'a> Image<'a> {
    /// The image of the file in `view` whose addresses count from `base`.
    #[must_use]
    pub fn new(view: &'a dyn View, base: u64, sizes: Sizes, limits: &'a Limits, fuel: &'a Fuel) -> Self {
        Self { view, base, sizes, limits, fuel, shared_messages: None }
    }

    /// The same with the table of shared object header messages that the superblock extension names.
    #[must_use]
    pub fn with_shared_messages(self, table: Option<SharedMessageTable>) -> Self {
        Self { shared_messages: table, ..self }
    }

    /// Counts one more structure.
    ///
    /// # Errors
    /// Limit, when the operation visited too many.
    pub fn visit(&self) -> Result<()> {
        self.fuel.burn(1)
    }

    /// Where in the file an address lies.
    ///
    /// # Errors
    /// Corrupt, if it overflows.
    pub fn offset(&self, address: u64) -> Result<u64> {
        self.base
            .checked_add(address)
            .ok_or_else(|| Error::corrupt(format!("address {address:#x} is outside the file")))
    }

    /// How many bytes lie between an address and the end of the file; 0 beyond it.
    #[must_use]
    pub fn left(&self, address: u64) -> u64 {
        self.base.checked_add(address).map_or(0, |offset| self.view.size().saturating_sub(offset))
    }

    /// The `length` bytes of `structure` at `address`. Counts as one visit, and as one more for each 128 bytes.
    ///
    /// # Errors
    /// Truncated, Need or Io as [`View::bytes`]; Limit if it is larger than metadata may be.
    pub fn read(&self, structure: &'static str, address: u64, length: u64) -> Result<Cow<'a, [u8]>> {
        self.visit()?;
        let offset = self.offset(address)?;
        if length > self.limits.metadata_bytes {
            let message =
                format!("{length} bytes of metadata, more than the limit of {}", self.limits.metadata_bytes);
            return Err(Error::limit(message).within(structure).at(offset));
        }
        let length = usize::try_from(length)
            .map_err(|_| Error::limit("larger than the address space").within(structure))?;
        let bytes = self.view.bytes(offset, length).map_err(|error| error.within(structure).at(offset))?;
        self.fuel.burn((length / 128) as u64)?;
        Ok(bytes)
    }

    /// As [`Image::read`], but as many bytes as there are, up to `length`.
    ///
    /// # Errors
    /// As [`Image::read`]; Truncated if the address is at or beyond the end of the file.
    pub fn read_up_to(&self, structure: &'static str, address: u64, length: u64) -> Result<Cow<'a, [u8]>> {
        self.read(structure, address, length.min(self.left(address).max(1)))
    }

    /// Says that these parts (address, length) will be read soon, so that one fetch may bring them together.
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

    /// Says that what lies at an address will be read soon, and probably what lies behind it.
    pub fn will_look_at(&self, address: u64) {
        if let Some(offset) = self.base.checked_add(address).filter(|offset| *offset < self.view.size()) {
            self.view.will_look_at(offset);
        }
    }

    /// A cursor over bytes that [`Image::read`] gave for `address`.
    #[must_use]
    pub fn cursor<'b>(&self, bytes: &'b [u8], structure: &'static str, address: u64) -> Cursor<'b> {
        Cursor::new(bytes, structure, self.base.saturating_add(address))
    }

    /// Checks the lookup3 checksum that the last four bytes of a structure carry; returns the bytes before it.
    ///
    /// # Errors
    /// Corrupt, if it is wrong.
    pub fn checked<'b>(&self, bytes: &'b [u8], structure: &'static str, address: u64) -> Result<&'b [u8]> {
        checksum::split_checked(bytes)
            .map_err(|error| error.within(structure).at(self.base.saturating_add(address)))
    }

    /// Does `each` for all items and returns the results; when some need bytes, goes on with the rest first, so that all
    /// needs of one level are known at once.
    ///
    /// # Errors
    /// The first error that is no need; else one Need.
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

/// Both values; when either needs bytes, what both need.
///
/// # Errors
/// The first error that is no need; else one Need.
pub(crate) fn both<A, B>(a: Result<A>, b: Result<B>) -> Result<(A, B)> {
    match (a, b) {
        (Ok(a), Ok(b)) => Ok((a, b)),
        (Err(a), Err(b)) if a.is_need() && b.is_need() => Err(Error::need([a.needs(), b.needs()].concat())),
        (Err(need), Err(error)) if need.is_need() => Err(error),
        (Err(error), _) | (_, Err(error)) => Err(error),
    }
}
