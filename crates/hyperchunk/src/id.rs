//! Identifiers of 16 bytes, generated without a central registry and shown as 32 hexadecimal digits.

use std::fmt;
use std::hash::{BuildHasher as _, Hasher as _, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};
use twox_hash::XxHash3_128;

/// Identifier of a dataset: the hash of its definition, so that independent writers with the same
/// definition write to the same dataset.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct DatasetId(pub [u8; 16]);

impl DatasetId {
    /// Parses 32 hexadecimal digits in lower case.
    #[must_use]
    pub fn from_hex(text: &str) -> Option<Self> {
        parse_id(text).map(Self)
    }
}

impl fmt::Display for DatasetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_id(&self.0, f)
    }
}

impl fmt::Debug for DatasetId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_id(&self.0, f)
    }
}

/// Writes an identifier as 32 hexadecimal digits in lower case.
///
/// # Errors
/// Errors of the formatter.
pub fn write_id(id: &[u8; 16], f: &mut fmt::Formatter<'_>) -> fmt::Result {
    id.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
}

/// Parses an identifier of 32 hexadecimal digits in lower case.
#[must_use]
pub fn parse_id(text: &str) -> Option<[u8; 16]> {
    let digits = text.as_bytes();
    if digits.len() != 32 {
        return None;
    }
    let mut id = [0; 16];
    for (byte, pair) in id.iter_mut().zip(digits.chunks_exact(2)) {
        let digit = |at: usize| {
            let digit = char::from(*pair.get(at)?);
            if digit.is_ascii_uppercase() { None } else { digit.to_digit(16) }
        };
        *byte = u8::try_from(digit(0)? * 16 + digit(1)?).ok()?;
    }
    Some(id)
}

/// Returns the 128-bit XXH3 hash, in big-endian order.
#[must_use]
pub fn hash(bytes: &[u8]) -> [u8; 16] {
    XxHash3_128::oneshot(bytes).to_be_bytes()
}

/// Returns 16 bytes that are unique among processes, from the system's randomness, the time, the
/// process id and a counter.
#[must_use]
pub fn random_id() -> [u8; 16] {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    let time = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
    let mut bytes = Vec::new();
    // The keys of `RandomState` come from the system; after a fork the process id and the counter
    // differ.
    for salt in 0..2_u8 {
        let mut hasher = RandomState::new().build_hasher();
        hasher.write_u8(salt);
        bytes.extend_from_slice(&hasher.finish().to_le_bytes());
    }
    bytes.extend_from_slice(&time.to_le_bytes());
    bytes.extend_from_slice(&std::process::id().to_le_bytes());
    bytes.extend_from_slice(&COUNT.fetch_add(1, Ordering::Relaxed).to_le_bytes());
    hash(&bytes)
}

/// Returns a unique name of 32 hexadecimal digits.
pub(crate) fn random_name() -> String {
    DatasetId(random_id()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn test_ids_are_their_digits() {
        let id = DatasetId(random_id());
        assert_eq!(DatasetId::from_hex(&id.to_string()), Some(id));
        assert_ne!(id.0, random_id());
        for text in ["", "00", "zz000000000000000000000000000000", "AB000000000000000000000000000000"] {
            assert_eq!(DatasetId::from_hex(text), None, "{text}");
        }
    }
}
