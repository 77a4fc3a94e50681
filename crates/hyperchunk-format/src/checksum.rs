//! The checksum of metadata: Bob Jenkins' lookup3, initial value 0. Source: specification §I, "metadata checksum".

use crate::{Error, Result};

/// lookup3's `hashlittle` of `bytes`, initial value 0.
#[must_use]
pub fn lookup3(bytes: &[u8]) -> u32 {
    let start = 0xdead_beef_u32.wrapping_add(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
    let (mut a, mut b, mut c) = (start, start, start);
    let (blocks, tail) = blocks_and_tail(bytes);
    let word = |four: &[u8]| four.iter().rev().fold(0_u32, |word, byte| (word << 8) | u32::from(*byte));
    let words = |twelve: &[u8]| {
        let (first, rest) = twelve.split_at_checked(4).unwrap_or((twelve, &[]));
        let (second, third) = rest.split_at_checked(4).unwrap_or((rest, &[]));
        (word(first), word(second), word(third))
    };
    for block in blocks.chunks_exact(12) {
        let (x, y, z) = words(block);
        a = a.wrapping_add(x);
        b = b.wrapping_add(y);
        c = c.wrapping_add(z);
        for (shift, turn) in [(4, 0), (6, 1), (8, 2), (16, 0), (19, 1), (4, 2)] {
            let (x, y, z) = match turn {
                0 => (&mut a, &mut b, &mut c),
                1 => (&mut b, &mut c, &mut a),
                _ => (&mut c, &mut a, &mut b),
            };
            // x -= z; x ^= rot(z, shift); z += y
            *x = x.wrapping_sub(*z) ^ z.rotate_left(shift);
            *z = z.wrapping_add(*y);
        }
    }
    if tail.is_empty() {
        return c;
    }
    let (x, y, z) = words(tail);
    a = a.wrapping_add(x);
    b = b.wrapping_add(y);
    c = c.wrapping_add(z);
    c = (c ^ b).wrapping_sub(b.rotate_left(14));
    a = (a ^ c).wrapping_sub(c.rotate_left(11));
    b = (b ^ a).wrapping_sub(a.rotate_left(25));
    c = (c ^ b).wrapping_sub(b.rotate_left(16));
    a = (a ^ c).wrapping_sub(c.rotate_left(4));
    b = (b ^ a).wrapping_sub(a.rotate_left(14));
    (c ^ b).wrapping_sub(b.rotate_left(24))
}

/// The blocks of twelve bytes that are mixed, and the 1 to 12 bytes that close the input.
fn blocks_and_tail(bytes: &[u8]) -> (&[u8], &[u8]) {
    let whole = bytes.len().saturating_sub(1) / 12;
    bytes.split_at_checked(whole.saturating_mul(12)).unwrap_or((bytes, &[]))
}

/// The bytes before the checksum that closes them.
///
/// # Errors
/// Corrupt, if it is missing or wrong.
pub fn split_checked(bytes: &[u8]) -> Result<&[u8]> {
    let Some((body, stored)) = bytes.split_last_chunk::<4>() else {
        return Err(Error::corrupt("too short for its checksum"));
    };
    check(lookup3(body), u32::from_le_bytes(*stored)).map(|()| body)
}

/// Compares two checksums.
///
/// # Errors
/// Corrupt, if they differ.
pub(crate) fn check(computed: u32, stored: u32) -> Result<()> {
    if stored == computed || is_ignored() {
        return Ok(());
    }
    Err(Error::corrupt(format!("checksum {computed:#010x} computed, {stored:#010x} stored")))
}

#[cfg(not(test))]
const fn is_ignored() -> bool {
    false
}

#[cfg(test)]
thread_local! {
    static IGNORED: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

#[cfg(test)]
fn is_ignored() -> bool {
    IGNORED.get()
}

/// Calls `test` while checksums may be wrong on this thread, so that damage gets behind them.
#[cfg(test)]
pub(crate) fn ignored(ignored: bool, test: impl FnOnce()) {
    IGNORED.set(ignored);
    test();
    IGNORED.set(false);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_values() {
        // From the comments of lookup3.c's own driver.
        assert_eq!(lookup3(b""), 0xdead_beef);
        assert_eq!(lookup3(b"Four score and seven years ago"), 0x1777_0551);
    }
}
