//! LZF (32000): h5py's own filter. Source: h5py's description of its filter, and LibLZF's of its format.

use super::{Codec, Context, EncodeContext, EncodeOutcome};
use crate::thread_state::with_state;
use crate::{Error, ErrorKind, Result};
use std::cell::RefCell;

/// Maximum expansion: 3 bytes for 264.
const MAX_EXPANSION: usize = 88;

/// Maximum length of a run of literals, maximum length of a match, maximum distance of a match.
const MAX_LITERALS: usize = 32;
const MAX_MATCH_BYTES: usize = 264;
const MAX_DISTANCE_BYTES: usize = 8192;
/// Number of bits of a hash.
const HASH_BITS: u32 = 14;

thread_local! {
    /// Last position of three bytes by hash, plus one.
    static HASH_TABLE: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) };
}

/// LZF codec. Its third parameter is the size of a chunk.
#[derive(Debug)]
pub(super) struct Lzf;

impl Codec for Lzf {
    fn id(&self) -> u16 {
        32000
    }

    fn name(&self) -> &'static str {
        "lzf"
    }

    fn decode(&self, input: &[u8], output: &mut Vec<u8>, context: &Context<'_>) -> Result<()> {
        self.decode_over(input, output, context)
    }

    fn decode_over(&self, input: &[u8], output: &mut Vec<u8>, context: &Context<'_>) -> Result<()> {
        let most = input.len().saturating_mul(MAX_EXPANSION).min(context.limit);
        let parameter = context.parameters.get(2).map(|size| usize::try_from(*size).unwrap_or(usize::MAX));
        let mut size = context.expected.or(parameter).unwrap_or(0).min(most);
        loop {
            match decompress(input, context.room(output, size as u64)?)? {
                Some(length) => {
                    output.truncate(length);
                    return Ok(());
                }
                None if size >= most => {
                    return Err(Error::limit(format!("the chunk decodes to more than {size} bytes")));
                }
                None => size = size.saturating_mul(2).max(1 << 12).min(most),
            }
        }
    }

    fn encode(
        &self,
        input: &[u8],
        output: &mut Vec<u8>,
        context: &EncodeContext<'_>,
    ) -> Result<EncodeOutcome> {
        if u32::try_from(input.len()).is_err() {
            return Ok(EncodeOutcome::Refused);
        }
        // Literals alone need an additional byte for each 32.
        let bound = input.len().saturating_add(input.len().div_ceil(MAX_LITERALS));
        let room = context.room(output, context.most(input, bound))?;
        let written = with_state(&HASH_TABLE, |seen| {
            seen.clear();
            seen.resize(1 << HASH_BITS, 0);
            compress(input, room, seen)
        });
        Ok(written.map_or(EncodeOutcome::Refused, EncodeOutcome::Written))
    }
}

/// Compresses `input` into `output`; returns the number of bytes, or `None` if they do not fit.
fn compress(input: &[u8], output: &mut [u8], seen: &mut [u32]) -> Option<usize> {
    let (mut at, mut literals, mut written) = (0_usize, 0_usize, 0_usize);
    // Number of tries without a match; it increases the step.
    let mut misses = 0_usize;
    while let Some(here) = three(input, at) {
        let slot = seen.get_mut(hash(here))?;
        let before =
            usize::try_from(std::mem::replace(slot, u32::try_from(at).ok()?.wrapping_add(1))).ok()?;
        let distance = at.wrapping_add(1).wrapping_sub(before);
        if before == 0 || distance > MAX_DISTANCE_BYTES || three(input, before.wrapping_sub(1)) != Some(here)
        {
            misses = misses.wrapping_add(1);
            at = at.wrapping_add(misses / 64).wrapping_add(1);
            continue;
        }
        misses = 0;
        let length = common(input, before.wrapping_sub(1), at);
        written = put_literals(input.get(literals..at)?, output, written)?;
        written = put_repetition(distance, length, output, written)?;
        at = at.wrapping_add(length);
        literals = at;
        // The last bytes of a match are hashed too, so that following data can match them.
        for near in at.saturating_sub(2)..at {
            if let Some(three) = three(input, near) {
                *seen.get_mut(hash(three))? = u32::try_from(near).ok()?.wrapping_add(1);
            }
        }
    }
    put_literals(input.get(literals..)?, output, written)
}

/// Returns three bytes as a number.
#[inline]
fn three(input: &[u8], at: usize) -> Option<u32> {
    let bytes: &[u8; 3] = input.get(at..)?.first_chunk()?;
    let [a, b, c] = *bytes;
    Some(u32::from_le_bytes([a, b, c, 0]))
}

#[inline]
fn hash(three: u32) -> usize {
    (three.wrapping_mul(0x9e37_79b1) >> 32_u32.wrapping_sub(HASH_BITS)) as usize
}

/// Returns the number of equal bytes from `at` and from `before` on.
#[inline]
fn common(input: &[u8], before: usize, at: usize) -> usize {
    let later = input.get(at..).unwrap_or_default();
    let later = later.get(..MAX_MATCH_BYTES).unwrap_or(later);
    let earlier = input.get(before..).unwrap_or_default();
    let mut length = 0_usize;
    for (one, other) in earlier.as_chunks::<8>().0.iter().zip(later.as_chunks::<8>().0) {
        let differ = u64::from_le_bytes(*one) ^ u64::from_le_bytes(*other);
        if differ != 0 {
            return length.wrapping_add((differ.trailing_zeros() / 8) as usize);
        }
        length = length.wrapping_add(8);
    }
    let rest = earlier.iter().zip(later).skip(length);
    length.wrapping_add(rest.take_while(|(one, other)| one == other).count())
}

/// Writes runs of literals; returns their end.
fn put_literals(literals: &[u8], output: &mut [u8], mut at: usize) -> Option<usize> {
    for run in literals.chunks(MAX_LITERALS) {
        let end = at.wrapping_add(run.len()).wrapping_add(1);
        let (control, to) = output.get_mut(at..end)?.split_first_mut()?;
        *control = u8::try_from(run.len().wrapping_sub(1)).ok()?;
        to.copy_from_slice(run);
        at = end;
    }
    Some(at)
}

/// Writes a match of 3 to 264 bytes; returns its end.
fn put_repetition(distance: usize, length: usize, output: &mut [u8], at: usize) -> Option<usize> {
    let [high, low] = u16::try_from(distance.wrapping_sub(1)).ok()?.to_be_bytes();
    let short = length.wrapping_sub(2);
    if short < 7 {
        let control = u8::try_from(short).ok()? << 5 | high;
        output.get_mut(at..at.wrapping_add(2))?.copy_from_slice(&[control, low]);
        return Some(at.wrapping_add(2));
    }
    let more = u8::try_from(short.wrapping_sub(7)).ok()?;
    output.get_mut(at..at.wrapping_add(3))?.copy_from_slice(&[7 << 5 | high, more, low]);
    Some(at.wrapping_add(3))
}

#[cold]
fn damaged() -> Error {
    Error::new(ErrorKind::Filter, "the LZF data are incomplete or damaged")
}

/// Decompresses to `output`; returns the length, or `None` if `output` is too short.
fn decompress(mut input: &[u8], output: &mut [u8]) -> Result<Option<usize>> {
    let mut at = 0_usize;
    while let Some((control, rest)) = input.split_first() {
        if *control < 32 {
            let length = usize::from(*control).wrapping_add(1);
            let Some((literals, rest)) = rest.split_at_checked(length) else {
                return Err(damaged());
            };
            let Some(to) = output.get_mut(at..at.wrapping_add(length)) else {
                return Ok(None);
            };
            to.copy_from_slice(literals);
            at = at.wrapping_add(length);
            input = rest;
            continue;
        }
        let mut length = usize::from(*control >> 5).wrapping_add(2);
        let mut rest = rest;
        if length == 9 {
            let (more, after) = rest.split_first().ok_or_else(damaged)?;
            length = length.wrapping_add((*more).into());
            rest = after;
        }
        let (low, rest) = rest.split_first().ok_or_else(damaged)?;
        let distance = usize::from(u16::from_be_bytes([*control & 31, *low])).wrapping_add(1);
        if distance > at {
            return Err(damaged());
        }
        if length > output.len().saturating_sub(at) {
            return Ok(None);
        }
        repeat(output, at, distance, length);
        at = at.wrapping_add(length);
        input = rest;
    }
    Ok(Some(at))
}

/// Repeats `length` bytes from `distance` bytes before `at`. The source may overlap the target.
#[inline]
fn repeat(output: &mut [u8], at: usize, distance: usize, length: usize) {
    const STEP_BYTES: usize = 16;
    let end = at.saturating_add(length);
    if distance >= STEP_BYTES && end.saturating_add(STEP_BYTES) <= output.len() {
        // Copies whole steps, possibly past the end; later data overwrite the excess.
        let mut to = at;
        while to < end {
            let from = to.wrapping_sub(distance);
            output.copy_within(from..from.wrapping_add(STEP_BYTES), to);
            to = to.wrapping_add(STEP_BYTES);
        }
        return;
    }
    // The amount that can be copied at once doubles.
    let (start, mut to) = (at.wrapping_sub(distance), at);
    while to < end {
        let step = to.wrapping_sub(start).min(end.wrapping_sub(to));
        output.copy_within(start..start.wrapping_add(step), to);
        to = to.wrapping_add(step);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::testing::{Dice, check_damaged, encoded};

    fn check(input: &[u8], size: u32, expected: Option<usize>, limit: usize) -> Result<Vec<u8>, ErrorKind> {
        let mut output = b"stale".to_vec();
        let context = Context { parameters: &[4, 261, size], expected, limit };
        let done = Lzf.decode_over(input, &mut output, &context);
        assert!(output.len() <= limit, "{} bytes", output.len());
        done.map(|()| output).map_err(|error| error.kind())
    }

    /// `abcabcabcabca`, then 70 times `-`, by hand.
    const TEXT: &[u8] = &[2, b'a', b'b', b'c', 0xe0, 1, 2, 0, b'-', 0xe0, 60, 0];

    #[test]
    fn literals_and_repetitions() {
        let text = format!("abc{}-{}", "abcabcabca", "-".repeat(69));
        for (size, expected) in [(83, None), (0, None), (1, Some(83)), (100, Some(7)), (83, Some(200))] {
            assert_eq!(check(TEXT, size, expected, 1000).unwrap(), text.as_bytes(), "{size} {expected:?}");
        }
        for distance in 1..50 {
            for length in 1..80 {
                let mut output: Vec<u8> = (0..200).map(|i| i as u8).collect();
                let mut plain = output.clone();
                repeat(&mut output, 60, distance, length);
                (60..60 + length).for_each(|to| plain[to] = plain[to - distance]);
                assert_eq!(output[..60 + length], plain[..60 + length], "{distance} {length}");
            }
        }
    }

    #[test]
    fn encoded_and_back() {
        let mut dice = Dice::new(3);
        for length in (0..40).chain([255, 264, 265, 8191, 8192, 8193, 30_000, 100_000]) {
            let sparse: Vec<u8> =
                (0..length).map(|_| if dice.below(9) == 0 { dice.next() as u8 } else { 0 }).collect();
            let far: Vec<u8> = (0..length).map(|at| ((at % 8192 * 40_503) >> 7) as u8).collect();
            for bytes in [dice.bytes(length), vec![0; length], sparse, far] {
                let stored = encoded(&Lzf, &bytes, &[4, 261, length as u32]).unwrap();
                assert!(stored.len() <= length + length.div_ceil(32), "{length}");
            }
        }
        assert_eq!(encoded(&Lzf, &[0; 266], &[]).unwrap(), [0, 0, 0xe0, 255, 0, 0, 0]);
    }

    #[test]
    fn bombs_and_damage() {
        assert_eq!(check(TEXT, 83, None, 82), Err(ErrorKind::Limit));
        assert_eq!(check(&[0, 7].repeat(40), 9, Some(1), 39), Err(ErrorKind::Limit));
        assert_eq!(check(&[0x20, 0], 9, None, 100), Err(ErrorKind::Filter), "nothing to repeat");
        assert_eq!(check(&[0, 7, 0x20, 1], 9, None, 100), Err(ErrorKind::Filter), "before the start");
        for length in [1, 2, 3, 5, 6, 10, 11] {
            assert_eq!(check(&TEXT[..length], 83, None, 100), Err(ErrorKind::Filter), "{length}");
        }
        check_damaged(&Lzf, TEXT, &[4, 261, 83], 83);
    }
}
