//! Metadata checksum: Bob Jenkins' lookup3 with initial value 0. Source: specification §I, "metadata
//! checksum".

use crate::{Error, Result};

/// Returns up to twelve bytes as three little-endian words, padded with zeros.
fn words(twelve: &[u8]) -> (u32, u32, u32) {
    let word = |four: &[u8]| four.iter().rev().fold(0_u32, |word, byte| (word << 8) | u32::from(*byte));
    let (first, rest) = twelve.split_at_checked(4).unwrap_or((twelve, &[]));
    let (second, third) = rest.split_at_checked(4).unwrap_or((rest, &[]));
    (word(first), word(second), word(third))
}

/// Returns lookup3's `hashlittle` of `bytes` with initial value 0.
#[must_use]
pub fn lookup3(bytes: &[u8]) -> u32 {
    let (blocks, tail) = blocks_and_tail(bytes);
    let (a, b, c) = mixed(start(bytes), blocks);
    if tail.is_empty() { c } else { last((a, b, c), tail).2 }
}

/// Returns the initial state, which depends on the length of the input.
fn start(bytes: &[u8]) -> (u32, u32, u32) {
    let start = 0xdead_beef_u32.wrapping_add(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
    (start, start, start)
}

/// Returns the state after mixing in blocks of twelve bytes.
fn mixed(state: (u32, u32, u32), blocks: &[u8]) -> (u32, u32, u32) {
    let (mut a, mut b, mut c) = state;
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
    (a, b, c)
}

/// Returns the state after the final mix of the last 1 to 12 bytes.
fn last((mut a, mut b, mut c): (u32, u32, u32), tail: &[u8]) -> (u32, u32, u32) {
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
    c = (c ^ b).wrapping_sub(b.rotate_left(24));
    (a, b, c)
}

/// Changes the twelve bytes at `at` so that the checksum of `bytes` becomes `wanted`. Every step of lookup3
/// is invertible: the new bytes are the difference between the state before them and the state that the bytes
/// after them require.
///
/// # Errors
/// Invalid if `at` is no multiple of twelve, or if no bytes follow the twelve.
pub fn steer(bytes: &mut [u8], at: usize, wanted: u32) -> Result<()> {
    let wrong = || {
        let message =
            format!("cannot change 12 bytes at {at}: expected a multiple of 12, with bytes after them");
        Error::invalid(message)
    };
    let (blocks, tail) = blocks_and_tail(bytes);
    let behind = at
        .checked_add(12)
        .filter(|_| at.is_multiple_of(12))
        .and_then(|end| blocks.get(end..))
        .ok_or_else(wrong)?;
    let before = mixed(start(bytes), blocks.get(..at).unwrap_or_default());
    let mut state = unmixed_last((0, 0, wanted));
    let less = |state: (u32, u32, u32), (x, y, z): (u32, u32, u32)| {
        (state.0.wrapping_sub(x), state.1.wrapping_sub(y), state.2.wrapping_sub(z))
    };
    state = less(state, words(tail));
    for block in behind.rchunks_exact(12) {
        state = less(unmixed(state), words(block));
    }
    let (x, y, z) = less(unmixed(state), before);
    let [x, y, z] = [x, y, z].map(u32::to_le_bytes);
    let changed = bytes.get_mut(at..).into_iter().flatten();
    changed.zip(x.into_iter().chain(y).chain(z)).for_each(|(byte, new)| *byte = new);
    Ok(())
}

/// Inverts [`mixed`] for one block: returns the state before mixing, with the block's words still added.
fn unmixed((mut a, mut b, mut c): (u32, u32, u32)) -> (u32, u32, u32) {
    for (shift, turn) in [(4, 2), (19, 1), (16, 0), (8, 2), (6, 1), (4, 0)] {
        let (x, y, z) = match turn {
            0 => (&mut a, &mut b, &mut c),
            1 => (&mut b, &mut c, &mut a),
            _ => (&mut c, &mut a, &mut b),
        };
        *z = z.wrapping_sub(*y);
        *x = (*x ^ z.rotate_left(shift)).wrapping_add(*z);
    }
    (a, b, c)
}

/// Inverts [`last`]: returns the state before the final mix, with the words of the tail still added.
fn unmixed_last((mut a, mut b, mut c): (u32, u32, u32)) -> (u32, u32, u32) {
    c = c.wrapping_add(b.rotate_left(24)) ^ b;
    b = b.wrapping_add(a.rotate_left(14)) ^ a;
    a = a.wrapping_add(c.rotate_left(4)) ^ c;
    c = c.wrapping_add(b.rotate_left(16)) ^ b;
    b = b.wrapping_add(a.rotate_left(25)) ^ a;
    a = a.wrapping_add(c.rotate_left(11)) ^ c;
    c = c.wrapping_add(b.rotate_left(14)) ^ b;
    (a, b, c)
}

/// Splits the input into the blocks of twelve bytes that are mixed and the final 1 to 12 bytes.
fn blocks_and_tail(bytes: &[u8]) -> (&[u8], &[u8]) {
    let whole = bytes.len().saturating_sub(1) / 12;
    bytes.split_at_checked(whole.saturating_mul(12)).unwrap_or((bytes, &[]))
}

/// Verifies the checksum in the last four bytes and returns the bytes before it.
///
/// # Errors
/// Corrupt, if it is missing or wrong.
pub fn split_checked(bytes: &[u8]) -> Result<&[u8]> {
    let Some((body, stored)) = bytes.split_last_chunk::<4>() else {
        return Err(Error::corrupt("a structure too short for its checksum"));
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
    Err(Error::corrupt(format!("wrong checksum: computed {computed:#010x}, stored {stored:#010x}")))
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

/// Runs `test` with checksum errors ignored on this thread, so that damaged bytes reach the parsers.
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

    #[test]
    fn a_checksum_is_what_is_wanted() {
        for length in 13..80_usize {
            for at in 0..length {
                let mut bytes: Vec<u8> = (0..length).map(|n| (n * 37) as u8).collect();
                let kept = bytes.clone();
                let wanted = 0x3157_4f52_u32.wrapping_mul(at as u32 + 1);
                let steered = steer(&mut bytes, at, wanted);
                assert_eq!(steered.is_ok(), at.is_multiple_of(12) && at + 12 < length, "{at} of {length}");
                if steered.is_ok() {
                    assert_eq!(lookup3(&bytes), wanted);
                    assert_eq!((&bytes[..at], &bytes[at + 12..]), (&kept[..at], &kept[at + 12..]));
                } else {
                    assert_eq!(bytes, kept);
                }
            }
        }
    }
}
