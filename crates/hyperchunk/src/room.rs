//! Fallible allocation of memory whose size a file decides: lack of memory is an error, not the end of the
//! process.

use crate::{Error, Result};

/// Resizes a buffer; new bytes are zero.
pub(crate) fn resize(buffer: &mut Vec<u8>, length: usize) -> Result<()> {
    let more = length.saturating_sub(buffer.len());
    buffer.try_reserve_exact(more).map_err(|_| Error::limit(format!("no memory for {length} bytes")))?;
    buffer.resize(length, 0);
    Ok(())
}

/// Returns a buffer of zeros.
pub(crate) fn zeros(length: usize) -> Result<Vec<u8>> {
    let mut buffer = Vec::new();
    resize(&mut buffer, length)?;
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
