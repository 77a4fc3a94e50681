//! LZF (32000): h5py's own filter. Source: h5py's description of its filter, and LibLZF's of its format.

use super::{Codec, Context};
use crate::{Error, ErrorKind, Result};

/// At best, 3 bytes stand for 264.
const MOST_A_BYTE: usize = 88;

/// The codec. Its third parameter is the size of a chunk.
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
        let most = input.len().saturating_mul(MOST_A_BYTE).min(context.limit);
        let parameter = context.parameters.get(2).map(|size| usize::try_from(*size).unwrap_or(usize::MAX));
        let mut size = context.expected.or(parameter).unwrap_or(0).min(most);
        loop {
            match decompress(input, context.room(output, size as u64)?)? {
                Some(length) => {
                    output.truncate(length);
                    return Ok(());
                }
                None if size >= most => {
                    return Err(Error::limit(format!("more than {size} bytes come out")));
                }
                None => size = size.saturating_mul(2).max(1 << 12).min(most),
            }
        }
    }
}

#[cold]
fn damaged() -> Error {
    Error::new(ErrorKind::Filter, "not whole LZF data, or damaged")
}

/// Decodes to `output`; how long the result is, or nothing if `output` is too short for it.
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

/// Repeats the `length` bytes that lie `distance` before `at`, which may be some of those that it writes.
#[inline]
fn repeat(output: &mut [u8], at: usize, distance: usize, length: usize) {
    const STEP: usize = 16;
    let end = at.saturating_add(length);
    if distance >= STEP && end.saturating_add(STEP) <= output.len() {
        // Whole steps, over the end; what comes next overwrites that.
        let mut to = at;
        while to < end {
            let from = to.wrapping_sub(distance);
            output.copy_within(from..from.wrapping_add(STEP), to);
            to = to.wrapping_add(STEP);
        }
        return;
    }
    // What is written doubles what can be copied at once.
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
    use crate::codec::testing::hurt;

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
    fn bombs_and_damage() {
        assert_eq!(check(TEXT, 83, None, 82), Err(ErrorKind::Limit));
        assert_eq!(check(&[0, 7].repeat(40), 9, Some(1), 39), Err(ErrorKind::Limit));
        assert_eq!(check(&[0x20, 0], 9, None, 100), Err(ErrorKind::Filter), "nothing to repeat");
        assert_eq!(check(&[0, 7, 0x20, 1], 9, None, 100), Err(ErrorKind::Filter), "before the start");
        for length in [1, 2, 3, 5, 6, 10, 11] {
            assert_eq!(check(&TEXT[..length], 83, None, 100), Err(ErrorKind::Filter), "{length}");
        }
        hurt(&Lzf, TEXT, &[4, 261, 83], 83);
    }
}
