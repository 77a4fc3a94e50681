//! Builder for the bytes of a structure: append-only, little-endian.

use super::UNDEFINED;
use crate::{Error, Result, checksum};
use std::fmt::Display;

/// Bytes of a structure under construction.
#[derive(Debug, Default, Clone)]
pub(crate) struct Bytes(Vec<u8>);

impl Bytes {
    /// Creates an empty builder.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Creates an empty builder with this capacity.
    pub(crate) fn with_capacity(capacity: usize) -> Self {
        Self(Vec::with_capacity(capacity))
    }

    pub(crate) fn raw(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn u8(&mut self, number: u8) -> &mut Self {
        self.0.push(number);
        self
    }

    pub(crate) fn u16(&mut self, number: u16) -> &mut Self {
        self.raw(&number.to_le_bytes())
    }

    pub(crate) fn u32(&mut self, number: u32) -> &mut Self {
        self.raw(&number.to_le_bytes())
    }

    pub(crate) fn u64(&mut self, number: u64) -> &mut Self {
        self.raw(&number.to_le_bytes())
    }

    /// Appends an address; `None` is undefined.
    pub(crate) fn address(&mut self, address: Option<u64>) -> &mut Self {
        self.u64(address.unwrap_or(UNDEFINED))
    }

    /// Appends a number in `width` bytes (0 to 8).
    ///
    /// # Errors
    /// Limit if it does not fit.
    pub(crate) fn uint(&mut self, number: u64, width: usize) -> Result<&mut Self> {
        let bytes = number.to_le_bytes();
        match bytes.split_at_checked(width) {
            Some((low, high)) if high.iter().all(|byte| *byte == 0) => Ok(self.raw(low)),
            _ => Err(Error::limit(format!("{number} does not fit in {width} bytes"))),
        }
    }

    pub(crate) fn zeros(&mut self, count: usize) -> &mut Self {
        self.0.resize(self.0.len().saturating_add(count), 0);
        self
    }

    /// Pads with zeros up to a multiple of `alignment`, counted from the start.
    pub(crate) fn align(&mut self, alignment: usize) -> &mut Self {
        let to = self.0.len().checked_next_multiple_of(alignment).unwrap_or(self.0.len());
        self.pad_to(to)
    }

    /// Pads with zeros up to a size.
    pub(crate) fn pad_to(&mut self, size: usize) -> &mut Self {
        self.0.resize(self.0.len().max(size), 0);
        self
    }

    /// Appends the checksum of all bytes.
    pub(crate) fn checksum(&mut self) -> &mut Self {
        self.checksum_since(0)
    }

    /// Appends the checksum of the bytes since a position.
    pub(crate) fn checksum_since(&mut self, start: usize) -> &mut Self {
        let sum = checksum::lookup3(self.0.get(start..).unwrap_or_default());
        self.u32(sum)
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn as_slice(&self) -> &[u8] {
        &self.0
    }

    pub(crate) fn into_vec(self) -> Vec<u8> {
        self.0
    }
}

/// Converts a number to a narrower type.
///
/// # Errors
/// Limit if it does not fit.
pub(crate) fn fit<T, N>(number: N, what: &str) -> Result<T>
where
    N: Copy + Display,
    T: TryFrom<N>,
{
    T::try_from(number)
        .map_err(|_| Error::limit(format!("cannot encode {number} {what}: more than HDF5 can store")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        let mut bytes = Bytes::new();
        bytes.u8(1).u16(2).u32(3).u64(4).address(None).zeros(1).uint(0x0102, 2).unwrap();
        let expected = [&[1, 2, 0, 3, 0, 0, 0, 4][..], &[0; 7], &[255; 8], &[0], &[2, 1]].concat();
        assert_eq!(bytes.as_slice(), expected);
        assert!(bytes.uint(256, 1).is_err());
        assert!(bytes.uint(1, 9).is_err());
        assert!(bytes.uint(1, 0).is_err());
        bytes.uint(0, 0).unwrap().uint(u64::MAX, 8).unwrap();
        assert_eq!(bytes.len(), expected.len() + 8);
        assert_eq!(fit::<u16, usize>(65_535, "bytes").unwrap(), u16::MAX);
        let error = fit::<u16, usize>(65_536, "bytes of a name").unwrap_err();
        assert_eq!(error.message(), "cannot encode 65536 bytes of a name: more than HDF5 can store");
    }
}
