//! Bounds-checked reads from the bytes of one structure.

use crate::{Error, ErrorKind, Result, Sizes};

/// A place in the bytes of one structure. Every read is checked; a short one is an error that names the structure and the
/// offset in the file.
#[derive(Debug, Clone)]
pub struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
    structure: &'static str,
    /// Where in the file the bytes start.
    origin: u64,
}

impl<'a> Cursor<'a> {
    /// A cursor at the start of `bytes`, which lie at `origin` in the file.
    #[must_use]
    pub fn new(bytes: &'a [u8], structure: &'static str, origin: u64) -> Self {
        Self { bytes, at: 0, structure, origin }
    }

    /// The next `count` bytes.
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
            None => Err(self.error(format!("{count} bytes are needed and {} are left", self.left()))),
        }
    }

    /// The next bytes as an array.
    ///
    /// # Errors
    /// Corrupt, if fewer are left.
    pub fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    /// Leaves out the next `count` bytes.
    ///
    /// # Errors
    /// Corrupt, if fewer are left.
    pub fn skip(&mut self, count: usize) -> Result<()> {
        self.take(count).map(drop)
    }

    /// The next byte.
    ///
    /// # Errors
    /// Corrupt, if none is left (the same for the methods below).
    pub fn u8(&mut self) -> Result<u8> {
        self.array().map(u8::from_le_bytes)
    }

    /// The next two bytes, little-endian.
    ///
    /// # Errors
    /// Corrupt, if fewer are left.
    pub fn u16(&mut self) -> Result<u16> {
        self.array().map(u16::from_le_bytes)
    }

    /// The next four bytes, little-endian.
    ///
    /// # Errors
    /// Corrupt, if fewer are left.
    pub fn u32(&mut self) -> Result<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// The next eight bytes, little-endian.
    ///
    /// # Errors
    /// Corrupt, if fewer are left.
    pub fn u64(&mut self) -> Result<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// A little-endian unsigned number of `width` bytes, 0 to 16 of them.
    ///
    /// # Errors
    /// Corrupt, if fewer are left; Unsupported if the number needs more than 64 bits.
    pub fn uint(&mut self, width: usize) -> Result<u64> {
        // The usual ones, without a loop.
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

    /// A size, in the file's "size of lengths".
    ///
    /// # Errors
    /// As [`Cursor::uint`].
    pub fn length(&mut self, sizes: Sizes) -> Result<u64> {
        self.uint(sizes.length.into())
    }

    /// A size that may be undefined (all bits set).
    ///
    /// # Errors
    /// As [`Cursor::uint`].
    pub fn length_or_undefined(&mut self, sizes: Sizes) -> Result<Option<u64>> {
        self.defined(sizes.length.into())
    }

    /// An address, in the file's "size of offsets": relative to the base address; `None` if undefined (all bits set).
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

    /// The four bytes that open a structure.
    ///
    /// # Errors
    /// Corrupt, if they are others.
    pub fn signature(&mut self, expected: &[u8; 4]) -> Result<()> {
        let found: [u8; 4] = self.array()?;
        if found == *expected {
            return Ok(());
        }
        let message =
            format!("signature `{}` expected, found `{}`", expected.escape_ascii(), found.escape_ascii());
        Err(Error::corrupt(message).within(self.structure).at(self.offset().saturating_sub(4)))
    }

    /// The version byte, which must be one of `known`.
    ///
    /// # Errors
    /// Unsupported, if it is another.
    pub fn version(&mut self, known: std::ops::RangeInclusive<u8>) -> Result<u8> {
        let version = self.u8()?;
        if known.contains(&version) {
            return Ok(version);
        }
        let message = format!("version {version}; {} to {} are known", known.start(), known.end());
        Err(Error::unsupported(message).within(self.structure).at(self.offset().saturating_sub(1)))
    }

    /// The bytes up to a NUL, which is left out.
    ///
    /// # Errors
    /// Corrupt, if there is none.
    pub fn until_nul(&mut self) -> Result<&'a [u8]> {
        let rest = self.rest();
        let Some(end) = rest.iter().position(|byte| *byte == 0) else {
            return Err(self.error("a name without its closing NUL".into()));
        };
        let name = self.take(end)?;
        self.skip(1)?;
        Ok(name)
    }

    /// Moves on to a multiple of `alignment` from the start of the structure; stops at its end.
    pub fn align(&mut self, alignment: usize) {
        self.at =
            self.at.checked_next_multiple_of(alignment).unwrap_or(self.bytes.len()).min(self.bytes.len());
    }

    /// The bytes not read yet; does not move.
    #[must_use]
    pub fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    /// How many bytes are left.
    #[must_use]
    pub fn left(&self) -> usize {
        self.bytes.len().saturating_sub(self.at)
    }

    /// How many bytes were read.
    #[must_use]
    pub fn position(&self) -> usize {
        self.at
    }

    /// Where in the file the next byte lies.
    #[must_use]
    pub fn offset(&self) -> u64 {
        self.origin.saturating_add(self.at as u64)
    }

    /// An error of kind Corrupt, here.
    #[must_use]
    #[cold]
    pub fn error(&self, message: String) -> Error {
        Error::new(ErrorKind::Corrupt, message).within(self.structure).at(self.offset())
    }
}
