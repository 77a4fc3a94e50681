//! Bounds-checked reads from the bytes of one structure.

use crate::{Error, ErrorKind, Result, Sizes};

/// Reader over the bytes of one structure. Every read is bounds-checked; an error names the structure and the
/// offset in the file.
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    structure: &'static str,
    /// Offset in the file of the first byte.
    origin: u64,
}

impl<'a> Cursor<'a> {
    /// Creates a cursor at the start of `bytes`, which are stored at offset `origin` of the file.
    #[must_use]
    pub fn new(bytes: &'a [u8], structure: &'static str, origin: u64) -> Self {
        Self { bytes, at: 0, structure, origin }
    }

    /// Returns the next `count` bytes.
    ///
    /// # Errors
    /// Corrupt, if fewer are left.
    pub fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let end = self.at.checked_add(count);
        match end.and_then(|end| self.bytes.get(self.at..end)) {
            Some(bytes) => {
                self.at = self.at.saturating_add(count);
                Ok(bytes)
            }
            None => Err(self.error(format!("{count} bytes are needed, but only {} are left", self.left()))),
        }
    }

    /// Returns the next bytes as an array.
    ///
    /// # Errors
    /// Corrupt, if fewer are left.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    /// Skips `count` bytes.
    ///
    /// # Errors
    /// Corrupt, if fewer are left.
    pub fn skip(&mut self, count: usize) -> Result<()> {
        self.take(count).map(drop)
    }

    /// Reads one byte.
    ///
    /// # Errors
    /// Corrupt if none is left.
    pub fn u8(&mut self) -> Result<u8> {
        self.array().map(u8::from_le_bytes)
    }

    /// Reads two bytes, little-endian.
    ///
    /// # Errors
    /// Corrupt, if fewer are left.
    pub fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// Reads four bytes, little-endian.
    ///
    /// # Errors
    /// Corrupt, if fewer are left.
    pub fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Reads eight bytes, little-endian.
    ///
    /// # Errors
    /// Corrupt, if fewer are left.
    pub fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Reads a little-endian unsigned number of `width` bytes.
    ///
    /// # Errors
    /// Corrupt, if fewer are left; Unsupported if the number needs more than 64 bits.
    pub fn uint(&mut self, width: usize) -> Result<u64> {
        // Fast paths for the common widths.
        match width {
            1 => return self.u8().map(u64::from),
            2 => return self.u16().map(u64::from),
            4 => return self.u32().map(u64::from),
            8 => return self.u64(),
            _ => {}
        }
        let bytes = self.take(width)?;
        let (low, high) = bytes.split_at_checked(8).unwrap_or((bytes, &[]));
        if high.iter().any(|byte| *byte != 0) {
            return Err(Error::unsupported("a number of more than 64 bits")
                .within(self.structure)
                .at(self.offset()));
        }
        let mut padded = [0; 8];
        padded.iter_mut().zip(low).for_each(|(to, from)| *to = *from);
        Ok(u64::from_le_bytes(padded))
    }

    /// Reads a size, in the file's "size of lengths".
    ///
    /// # Errors
    /// As [`Cursor::uint`].
    pub fn length(&mut self, sizes: Sizes) -> Result<u64> {
        self.uint(sizes.length.into())
    }

    /// Reads a size that may be undefined (all bits set).
    ///
    /// # Errors
    /// As [`Cursor::uint`].
    pub fn length_or_undefined(&mut self, sizes: Sizes) -> Result<Option<u64>> {
        self.defined(sizes.length.into())
    }

    /// Reads an address, in the file's "size of offsets", relative to the base address. `None` if undefined
    /// (all bits set).
    ///
    /// # Errors
    /// As [`Cursor::uint`].
    pub fn address(&mut self, sizes: Sizes) -> Result<Option<u64>> {
        self.defined(sizes.address.into())
    }

    fn defined(&mut self, width: usize) -> Result<Option<u64>> {
        if width == 8 {
            return self.u64().map(|number| Some(number).filter(|number| *number != u64::MAX));
        }
        if self
            .bytes
            .get(self.at..)
            .and_then(|rest| rest.get(..width))
            .is_some_and(|bytes| bytes.iter().all(|byte| *byte == 0xff))
        {
            return self.skip(width).map(|()| None);
        }
        self.uint(width).map(Some)
    }

    /// Checks the four-byte signature of a structure.
    ///
    /// # Errors
    /// Corrupt if the bytes differ.
    pub fn signature(&mut self, expected: &[u8; 4]) -> Result<()> {
        let found: [u8; 4] = self.array()?;
        if found == *expected {
            return Ok(());
        }
        let message =
            format!("signature `{}` expected, found `{}`", expected.escape_ascii(), found.escape_ascii());
        Err(Error::corrupt(message).within(self.structure).at(self.offset().saturating_sub(4)))
    }

    /// Reads the version byte, which must be in `known`.
    ///
    /// # Errors
    /// Unsupported if it is not.
    pub fn version(&mut self, known: std::ops::RangeInclusive<u8>) -> Result<u8> {
        let version = self.u8()?;
        if known.contains(&version) {
            return Ok(version);
        }
        let message =
            format!("version {version} is not supported: expected {} to {}", known.start(), known.end());
        Err(Error::unsupported(message).within(self.structure).at(self.offset().saturating_sub(1)))
    }

    /// Returns the bytes up to the next NUL and skips the NUL.
    ///
    /// # Errors
    /// Corrupt if no NUL follows.
    pub fn until_nul(&mut self) -> Result<&'a [u8]> {
        let rest = self.rest();
        let Some(end) = rest.iter().position(|byte| *byte == 0) else {
            return Err(self.error("a name without a closing NUL".into()));
        };
        let name = self.take(end)?;
        self.skip(1)?;
        Ok(name)
    }

    /// Skips padding up to a multiple of `alignment` from the start of the structure, or to the end of the
    /// bytes.
    pub fn align(&mut self, alignment: usize) {
        self.at =
            self.at.checked_next_multiple_of(alignment).unwrap_or(self.bytes.len()).min(self.bytes.len());
    }

    /// Returns the bytes not read yet, without moving.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// Returns the number of bytes left.
    #[must_use]
    pub fn left(&self) -> usize {
        self.bytes.len().saturating_sub(self.at)
    }

    /// Returns the number of bytes read.
    #[must_use]
    pub fn position(&self) -> usize {
        self.at
    }

    /// Returns the offset in the file of the next byte.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.origin.saturating_add(self.at as u64)
    }

    /// Creates an error of kind Corrupt at the current offset.
    #[must_use]
    #[cold]
    pub fn error(&self, message: String) -> Error {
        Error::new(ErrorKind::Corrupt, message).within(self.structure).at(self.offset())
    }
}
