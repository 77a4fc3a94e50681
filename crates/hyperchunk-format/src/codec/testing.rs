//! Test support for codecs.

use super::{Codec, Context, EncodeContext, EncodeOutcome};
use crate::Result;
use std::time::{Duration, Instant};

/// Deterministic pseudorandom numbers (xorshift64*).
#[derive(Debug)]
pub(super) struct Dice(u64);

impl Dice {
    pub(super) fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub(super) fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub(super) fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 16) as usize % bound
    }

    pub(super) fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| (self.next() >> 56) as u8).collect()
    }
}

/// Converts hexadecimal digits to bytes; ignores blanks.
pub(super) fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.chars().filter_map(|digit| Some(digit.to_digit(16)? as u8)).collect();
    digits.chunks_exact(2).map(|pair| pair[0] * 16 + pair[1]).collect()
}

/// Packs numbers of any bit width, most significant bit first.
#[derive(Debug, Default)]
pub(super) struct Packer {
    pub(super) bytes: Vec<u8>,
    free: u32,
}

impl Packer {
    pub(super) fn put(&mut self, value: u128, width: u32) {
        for bit in (0..width).rev() {
            if self.free == 0 {
                self.bytes.push(0);
                self.free = 8;
            }
            self.free -= 1;
            *self.bytes.last_mut().unwrap() |=
                (value.checked_shr(bit).is_some_and(|value| value & 1 == 1) as u8) << self.free;
        }
    }
}

/// Encodes `bytes` with a mandatory filter. Checks that the result does not depend on the buffer's content
/// and decodes to `bytes`, and that an optional filter gives the same result or none.
pub(super) fn encoded(codec: &dyn Codec, bytes: &[u8], parameters: &[u32]) -> Result<Vec<u8>> {
    let encode = |mut output: Vec<u8>, optional| {
        let done = codec.encode(bytes, &mut output, &EncodeContext { parameters, optional })?;
        Ok(match done {
            EncodeOutcome::Written(length) => Some(output[..length].to_vec()),
            EncodeOutcome::Same => Some(bytes.to_vec()),
            EncodeOutcome::Refused => None,
        })
    };
    let stored = encode(Vec::new(), false)?.expect("it may not be left out");
    assert_eq!(encode(b"an earlier chunk".repeat(bytes.len() / 7 + 99), false)?.unwrap(), stored);
    match encode(Vec::new(), true)? {
        Some(other) => assert_eq!(other, stored),
        None => assert!(stored.len() >= bytes.len(), "{} bytes of {}", stored.len(), bytes.len()),
    }
    let context = Context { parameters, expected: Some(bytes.len()), limit: bytes.len() };
    let mut output = Vec::new();
    match codec.kept(&stored, &context)? {
        Some(kept) => output.extend(&stored[..kept]),
        None => codec.decode_over(&stored, &mut output, &context)?,
    }
    assert!(output == bytes, "{} bytes, {parameters:?}: decoded to {}", bytes.len(), output.len());
    Ok(stored)
}

/// Decodes `stored`, expecting `size` bytes. Checks that the result depends neither on the buffer's content
/// nor on whether the size is known.
pub(super) fn decoded(codec: &dyn Codec, stored: &[u8], parameters: &[u32], size: usize) -> Result<Vec<u8>> {
    let decode = |mut output: Vec<u8>, expected| {
        let context = Context { parameters, expected, limit: size };
        let done = codec.decode_over(stored, &mut output, &context);
        done.map(|()| {
            assert!(output.len() <= size, "{} bytes of {size}", output.len());
            output
        })
    };
    let known = decode(b"an earlier chunk".repeat(99), Some(size))?;
    let unknown = decode(Vec::new(), None)?;
    assert_eq!(known, unknown);
    Ok(known)
}

/// Damages `stored` in many ways and checks that each result is an error or at most `size` bytes, without
/// long delays.
pub(super) fn check_damaged(codec: &dyn Codec, stored: &[u8], parameters: &[u32], size: usize) {
    let start = Instant::now();
    let mut tries = 0;
    let mut check = |stored: &[u8], parameters: &[u32]| {
        let mut output = Vec::new();
        let expected = (tries % 2 == 0).then_some(size);
        let done = codec.decode_over(stored, &mut output, &Context { parameters, expected, limit: size });
        assert!(done.is_err() || output.len() <= size, "{} bytes of {size}", output.len());
        tries += 1;
    };
    for length in 0..stored.len().min(600) {
        check(&stored[..length], parameters);
        check(&stored[..stored.len() - 1 - length], parameters);
    }
    let mut dice = Dice::new(stored.len() as u64);
    for round in 0..2000 {
        let mut damaged = stored.to_vec();
        for _ in 0..=round % 4 {
            // Headers matter most.
            let end = if round % 3 == 0 { damaged.len() } else { damaged.len().min(48) };
            let at = dice.below(end);
            damaged[at] = match dice.below(4) {
                0 => damaged[at] ^ (1 << dice.below(8)),
                1 => 0,
                2 => 0xff,
                _ => dice.next() as u8,
            };
        }
        check(&damaged, parameters);
    }
    for at in 0..parameters.len() {
        for value in [0, 1, 2, 3, 5, 7, 8, 255, 256, 1 << 20, 1 << 31, u32::MAX] {
            let mut others = parameters.to_vec();
            others[at] = value;
            check(stored, &others);
        }
        check(stored, &parameters[..at]);
    }
    assert!(start.elapsed() < Duration::from_secs(60), "{tries} tries took {:?}", start.elapsed());
}
