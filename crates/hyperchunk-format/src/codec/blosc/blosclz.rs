//! BloscLZ, Blosc's own compressor: runs of literals and matches, as in FastLZ. Source: the encoder's output
//! and the layout of its instructions (Blosc's `blosclz.c`).
//!
//! An instruction starts with a byte. From 0 to 31 it is a run of literals, and the byte is their number
//! minus one. Otherwise it is a match: the upper three bits are its length minus 2 (7: continued in further
//! bytes), and the lower five bits are the high part of its distance.

use crate::thread_state::with_state;
use crate::{Cursor, Error, ErrorKind, Result};
use std::cell::RefCell;

/// Maximum distance of a near match; a far match adds up to 65,535.
const MAX_NEAR_DISTANCE: usize = 8191;
const MAX_DISTANCE: usize = MAX_NEAR_DISTANCE + 65_535;
/// Maximum length of a run of literals, and minimum number of literals at the end of a stream.
const MAX_LITERALS: usize = 32;
const MIN_LAST_LITERALS: usize = 12;
/// Shortest match worth an instruction.
const MIN_MATCH_BYTES: usize = 4;
/// Number of bits of a hash.
const HASH_BITS: u32 = 13;

thread_local! {
    /// Last position of four bytes by hash, plus one.
    static HASH_TABLE: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

/// Decompresses `from` into `to`, which must be filled exactly.
pub(super) fn decompress(from: &[u8], to: &mut [u8]) -> Result<()> {
    let mut cursor = Cursor::new(from, "BloscLZ data", 0);
    let mut at = 0;
    // The first instruction is a run of literals, regardless of its upper bits.
    let mut instruction = cursor.u8()? & 31;
    loop {
        if instruction < 32 {
            let literals = cursor.take(usize::from(instruction).saturating_add(1))?;
            at = copy(literals, to, at)?;
        } else {
            let (distance, length) = parse_match(instruction, &mut cursor)?;
            at = repeat(to, at, distance, length)?;
        }
        if cursor.left() == 0 {
            break;
        }
        instruction = cursor.u8()?;
    }
    if at == to.len() { Ok(()) } else { Err(damaged("it ends too early")) }
}

/// Reads the distance and the length of a match.
#[inline]
fn parse_match(instruction: u8, cursor: &mut Cursor<'_>) -> Result<(usize, usize)> {
    let mut length = usize::from(instruction >> 5).saturating_add(2);
    if length == 9 {
        loop {
            let more = cursor.u8()?;
            length = length.saturating_add(more.into());
            if more != 255 {
                break;
            }
        }
    }
    let near = usize::from(instruction & 31) << 8 | usize::from(cursor.u8()?);
    let distance = if near == MAX_NEAR_DISTANCE {
        usize::from(u16::from_be_bytes(cursor.array()?)).saturating_add(MAX_NEAR_DISTANCE)
    } else {
        near
    };
    Ok((distance.saturating_add(1), length))
}

/// Copies literals to position `at`; returns their end.
#[inline]
fn copy(literals: &[u8], to: &mut [u8], at: usize) -> Result<usize> {
    let end = at.saturating_add(literals.len());
    let Some(place) = to.get_mut(at..end) else { return Err(damaged("it is too long")) };
    place.copy_from_slice(literals);
    Ok(end)
}

/// Repeats `length` bytes from `distance` bytes before position `at`; returns their end.
#[inline]
fn repeat(to: &mut [u8], at: usize, distance: usize, length: usize) -> Result<usize> {
    let end = at.saturating_add(length);
    let Some(start) = at.checked_sub(distance) else {
        return Err(damaged("a match refers to bytes before its start"));
    };
    if end > to.len() {
        return Err(damaged("it is too long"));
    }
    if length <= 16 && distance >= 16 {
        // Most matches are short. Excess bytes are overwritten later.
        if let Some((before, after)) = to.split_at_mut_checked(at)
            && let (Some(from), Some(place)) =
                (before.get(start..).and_then(<[u8]>::first_chunk), after.first_chunk_mut::<16>())
        {
            *place = *from;
            return Ok(end);
        }
    }
    if distance == 1 {
        let byte = to.get(start).copied().unwrap_or(0);
        to.get_mut(at..end).unwrap_or_default().fill(byte);
        return Ok(end);
    }
    // The repeated part doubles with each copy.
    let (mut done, mut available) = (at, distance);
    while done < end {
        let count = available.min(end.saturating_sub(done));
        to.copy_within(start..start.saturating_add(count), done);
        done = done.saturating_add(count);
        available = available.saturating_mul(2);
    }
    Ok(end)
}

/// Compresses `from` into `to`; returns the number of bytes, or `None` if they do not fit.
pub(super) fn compress(from: &[u8], to: &mut [u8]) -> Option<usize> {
    with_state(&HASH_TABLE, |seen| {
        seen.clear();
        seen.resize(1 << HASH_BITS, 0);
        compress_with(seen, from, to)
    })
}

fn compress_with(seen: &mut [u32], from: &[u8], to: &mut [u8]) -> Option<usize> {
    let end = from.len().saturating_sub(MIN_LAST_LITERALS);
    let inner = from.get(..end).unwrap_or_default();
    // A stream starts with a literal.
    let (mut at, mut literals, mut written, mut misses) = (1_usize, 0_usize, 0_usize, 0_usize);
    while let Some(here) = four(inner, at) {
        let hash = here.wrapping_mul(0x9e37_79b1) >> 32_u32.saturating_sub(HASH_BITS);
        let place = u32::try_from(at).ok()?.saturating_add(1);
        let before = std::mem::replace(seen.get_mut(usize::try_from(hash).ok()?)?, place);
        let before = usize::try_from(before).ok()?.checked_sub(1);
        let Some(before) = before.filter(|before| {
            at.saturating_sub(*before) <= MAX_DISTANCE && four(inner, *before) == Some(here)
        }) else {
            misses = misses.saturating_add(1);
            at = at.saturating_add(misses / 64).saturating_add(1);
            continue;
        };
        misses = 0;
        let pairs = inner.get(at..)?.iter().zip(inner.get(before..)?);
        let length = pairs.take_while(|(one, other)| one == other).count().max(MIN_MATCH_BYTES);
        written = put_literals(from.get(literals..at)?, to, written)?;
        written = put_match(at.saturating_sub(before), length, to, written)?;
        at = at.saturating_add(length);
        literals = at;
    }
    put_literals(from.get(literals..)?, to, written)
}

#[inline]
fn four(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|four| u32::from_le_bytes(*four))
}

/// Writes runs of literals; returns their end.
fn put_literals(literals: &[u8], to: &mut [u8], mut at: usize) -> Option<usize> {
    for run in literals.chunks(MAX_LITERALS) {
        at = put(&[u8::try_from(run.len().saturating_sub(1)).ok()?], to, at)?;
        at = put(run, to, at)?;
    }
    Some(at)
}

/// Writes a match; returns its end.
fn put_match(distance: usize, length: usize, to: &mut [u8], at: usize) -> Option<usize> {
    let distance = distance.saturating_sub(1);
    let [high, low] = u16::try_from(distance.min(MAX_NEAR_DISTANCE)).ok()?.to_be_bytes();
    let short = length.saturating_sub(2);
    let mut at = put(&[u8::try_from(short.min(7)).ok()? << 5 | high], to, at)?;
    if let Some(mut more) = short.checked_sub(7) {
        while more >= 255 {
            at = put(&[255], to, at)?;
            more = more.saturating_sub(255);
        }
        at = put(&[u8::try_from(more).ok()?], to, at)?;
    }
    at = put(&[low], to, at)?;
    if distance >= MAX_NEAR_DISTANCE {
        at = put(&u16::try_from(distance.saturating_sub(MAX_NEAR_DISTANCE)).ok()?.to_be_bytes(), to, at)?;
    }
    Some(at)
}

#[inline]
fn put(bytes: &[u8], to: &mut [u8], at: usize) -> Option<usize> {
    let end = at.saturating_add(bytes.len());
    to.get_mut(at..end)?.copy_from_slice(bytes);
    Some(end)
}

#[cold]
fn damaged(message: &str) -> Error {
    Error::new(ErrorKind::Filter, format!("damaged BloscLZ data: {message}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::testing::Dice;

    fn check(from: &[u8], expected: &[u8]) {
        let mut to = vec![0; expected.len()];
        decompress(from, &mut to).unwrap();
        assert_eq!(to, expected, "{from:?}");
        for size in [expected.len() - 1, expected.len() + 1, expected.len() + 40] {
            decompress(from, &mut vec![0; size]).unwrap_err();
        }
    }

    #[test]
    fn every_instruction() {
        check(b"\x02abc", b"abc");
        check(b"\xe2abc", b"abc");
        // A match of 3, one of 8, and long ones.
        check(b"\x02abc\x20\x02\x00d", b"abcabcd");
        check(b"\x02abc\xc0\x02\x00d", b"abcabcabcabd");
        check(b"\x02abc\xe0\x00\x00\x00d", b"abccccccccccd");
        check(b"\x00a\xe0\xff\x05\x00\x00d", &[&[b'a'; 270][..], b"d"].concat());
        // A match of 16 at a sufficient distance for the fast path, and one that overlaps itself.
        let text: Vec<u8> = (b'a'..=b'z').collect();
        let mut from = [&[25][..], &text].concat();
        from.extend(b"\xe0\x07\x13\x00!");
        let mut expected = text.clone();
        expected.extend(&text[6..22]);
        expected.push(b'!');
        check(&from, &expected);
    }

    #[test]
    fn compressed_and_back() {
        let mut dice = Dice::new(2);
        for length in [1, 2, 12, 13, 20, 100, 300, 5000, 100_000] {
            let far: Vec<u8> = (0..length).map(|at| ((at % 30_000 * 40_503) >> 7) as u8).collect();
            let sparse = dice.bytes(length).iter().map(|byte| if *byte < 20 { *byte } else { 0 }).collect();
            for bytes in [vec![0; length], dice.bytes(length), far, sparse] {
                let mut to = vec![9; length + length / 32 + 1];
                let written = compress(&bytes, &mut to).unwrap();
                check(&to[..written], &bytes);
                assert_eq!(compress(&bytes, &mut vec![0; written - 1]), None);
            }
        }
    }

    #[test]
    fn far_matches() {
        let mut bytes: Vec<u8> = (0..20_000_u32).map(|i| (i * i / 7) as u8).collect();
        let mut from: Vec<u8> =
            bytes.chunks(32).flat_map(|run| [&[run.len() as u8 - 1], run].concat()).collect();
        for distance in [8191, 8192, 8193, 10_000, 20_000] {
            let (near, far) = if distance > MAX_NEAR_DISTANCE {
                (MAX_NEAR_DISTANCE, distance - 1 - MAX_NEAR_DISTANCE)
            } else {
                (distance - 1, 0)
            };
            from.extend([0x20 | (near >> 8) as u8, near as u8]);
            if near == MAX_NEAR_DISTANCE {
                from.extend((far as u16).to_be_bytes());
            }
            let start = bytes.len() - distance;
            bytes.extend_from_within(start..start + 3);
        }
        from.extend(b"\x00!");
        bytes.push(b'!');
        let mut to = vec![0; bytes.len()];
        decompress(&from, &mut to).unwrap();
        assert!(to == bytes);
    }
}
