//! Fallible allocation of memory whose size a file decides: lack of memory is an error, not the end of the
//! process.

use crate::{Error, Result};

/// Resizes a buffer; new bytes are zero.
///
/// # Errors
/// Limit if there is no memory.
pub fn resize(buffer: &mut Vec<u8>, length: usize) -> Result<()> {
    let more = length.saturating_sub(buffer.len());
    buffer.try_reserve_exact(more).map_err(|_| Error::limit(format!("no memory for {length} bytes")))?;
    buffer.resize(length, 0);
    Ok(())
}

/// Returns a buffer of zeros.
///
/// # Errors
/// As [`resize`].
pub fn zeros(length: usize) -> Result<Vec<u8>> {
    let mut buffer = Vec::new();
    resize(&mut buffer, length)?;
    Ok(buffer)
}

/// Returns `count` copies of a value.
///
/// # Errors
/// As [`resize`].
pub fn filled<T: Copy>(value: T, count: usize) -> Result<Vec<T>> {
    let mut buffer = Vec::new();
    let reserved = buffer.try_reserve_exact(count);
    reserved.map_err(|_| Error::limit(format!("no memory for {count} values")))?;
    buffer.resize(count, value);
    Ok(buffer)
}

/// Returns a copy of bytes.
///
/// # Errors
/// As [`resize`].
pub fn copy(bytes: &[u8]) -> Result<Vec<u8>> {
    let mut buffer = Vec::new();
    let reserved = buffer.try_reserve_exact(bytes.len());
    reserved.map_err(|_| Error::limit(format!("no memory for {} bytes", bytes.len())))?;
    buffer.extend_from_slice(bytes);
    Ok(buffer)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_there_is_an_error() {
        assert_eq!(zeros(3).unwrap(), [0; 3]);
        assert!(zeros(1 << 62).unwrap_err().to_string().contains("no memory"));
        let mut buffer = vec![1; 5];
        resize(&mut buffer, 2).unwrap();
        resize(&mut buffer, 3).unwrap();
        assert_eq!(buffer, [1, 1, 0]);
    }
}
