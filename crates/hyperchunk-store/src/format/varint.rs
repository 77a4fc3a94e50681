//! Byte-level encoding of logs and manifests: little-endian numbers of fixed width and
//! variable-length numbers (varints).

use hyperchunk::{Error, Result};
use hyperchunk_format::Cursor;

/// Maximum length of a list in a log or a manifest.
pub(crate) const MAX_LIST_ITEMS: u64 = 1 << 28;
/// Maximum number of dimensions of a dataspace (specification §IV.A.2.b: `H5S_MAX_RANK`).
pub(crate) const MAX_RANK: usize = 32;

/// An output buffer that values are appended to.
#[derive(Debug, Default, Clone)]
pub(crate) struct Out(pub(crate) Vec<u8>);

impl Out {
    pub(crate) fn u8(&mut self, value: u8) {
        self.0.push(value);
    }

    pub(crate) fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_le_bytes());
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        self.0.extend_from_slice(bytes);
    }

    /// Appends a varint: seven bits a byte, the lowest first; the last byte has its highest bit
    /// clear.
    pub(crate) fn number(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        self.0.push((value & 0x7f) as u8);
    }

    /// Appends a wrapped difference of two numbers in zigzag encoding, so that small ones of either
    /// sign are short.
    pub(crate) fn difference(&mut self, value: u64) {
        let signed = value.cast_signed();
        self.number(((signed << 1) ^ (signed >> 63)).cast_unsigned());
    }

    /// Appends bytes after their length.
    pub(crate) fn blob(&mut self, bytes: &[u8]) {
        self.number(bytes.len() as u64);
        self.bytes(bytes);
    }

    /// Appends numbers after their count.
    pub(crate) fn numbers(&mut self, numbers: &[u64]) {
        self.number(numbers.len() as u64);
        for number in numbers {
            self.number(*number);
        }
    }
}

pub(crate) fn number(cursor: &mut Cursor<'_>) -> Result<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let byte = cursor.u8()?;
        let bits = u64::from(byte & 0x7f);
        if shift == 63 && bits > 1 {
            break;
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Ok(value);
        }
    }
    Err(cursor.error("a number of more than 64 bits".to_owned()))
}

pub(crate) fn difference(cursor: &mut Cursor<'_>) -> Result<u64> {
    let value = number(cursor)?;
    Ok((value >> 1) ^ (value & 1).wrapping_neg())
}

/// Reads a count and checks that as many values of at least `least` bytes each can follow.
pub(crate) fn count(cursor: &mut Cursor<'_>, least: usize) -> Result<usize> {
    let count = number(cursor)?;
    let possible = (cursor.left() / least.max(1)) as u64;
    if count > possible || count > MAX_LIST_ITEMS {
        return Err(cursor.error(format!("a list of {count} values where at most {possible} fit")));
    }
    usize::try_from(count).map_err(|_| Error::limit("more values than memory has addresses"))
}

pub(crate) fn blob<'a>(cursor: &mut Cursor<'a>) -> Result<&'a [u8]> {
    let length = count(cursor, 1)?;
    cursor.take(length)
}

pub(crate) fn numbers(cursor: &mut Cursor<'_>) -> Result<Vec<u64>> {
    let count = count(cursor, 1)?;
    (0..count).map(|_| number(cursor)).collect()
}

/// Reads an extent, of at most as many dimensions as a dataspace can have.
pub(crate) fn extents(cursor: &mut Cursor<'_>) -> Result<Vec<u64>> {
    let numbers = numbers(cursor)?;
    if numbers.len() > MAX_RANK {
        return Err(cursor.error(format!("{} dimensions, more than {MAX_RANK}", numbers.len())));
    }
    Ok(numbers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_come_back() {
        let mut out = Out::default();
        let values = [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX];
        for value in values {
            out.number(value);
            out.difference(value);
        }
        let mut cursor = Cursor::new(&out.0, "test", 0);
        for value in values {
            assert_eq!(number(&mut cursor).unwrap(), value);
            assert_eq!(difference(&mut cursor).unwrap(), value);
        }
        assert_eq!(cursor.left(), 0);
        assert!(number(&mut Cursor::new(&[0xff; 11], "test", 0)).is_err());
        assert!(numbers(&mut Cursor::new(&[0x7f, 1, 2], "test", 0)).is_err());
    }
}
