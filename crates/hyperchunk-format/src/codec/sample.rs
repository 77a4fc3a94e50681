//! What the tests of filters share: stored chunks as text, and damage to them.

use super::{Codec, Context};
use crate::checksum::lookup3;
use crate::{Error, ErrorKind};
use std::time::{Duration, Instant};

/// A chunk that the filter's own library stored.
#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) what: &'static str,
    pub(crate) parameters: &'static [u32],
    /// The stored bytes in base 64.
    pub(crate) stored: &'static str,
    /// How many bytes the library makes of them.
    pub(crate) size: usize,
    /// The checksum of those.
    pub(crate) sum: u32,
}

impl Sample {
    pub(crate) fn stored(&self) -> Vec<u8> {
        let digit = |letter: u8| match letter {
            b'A'..=b'Z' => letter - b'A',
            b'a'..=b'z' => letter - b'a' + 26,
            b'0'..=b'9' => letter - b'0' + 52,
            b'+' => 62,
            _ => 63,
        };
        let text: Vec<u8> = self.stored.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
        let mut bytes = Vec::new();
        for four in text.chunks(4) {
            let word = four.iter().fold(0_u32, |word, letter| word << 6 | u32::from(digit(*letter)));
            let word = word << (6 * (4 - four.len()));
            bytes.extend(&word.to_be_bytes()[1..four.len()]);
        }
        bytes
    }
}

/// Each sample decodes to what the library makes of it; damaged ones decode to something or to an error, in bounds.
pub(crate) fn check(codec: &dyn Codec, samples: &[Sample]) {
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for sample in samples {
        let (what, stored) = (sample.what, sample.stored());
        let decoded = decode(codec, &stored, sample.parameters, sample.size)
            .unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(decoded.len(), sample.size, "{what}: size");
        assert_eq!(lookup3(&decoded), sample.sum, "{what}: values");
        let error = decode(codec, &stored, sample.parameters, sample.size - 1).expect_err(what);
        assert_eq!(error.kind(), ErrorKind::Limit, "{what}: {error}");

        let start = Instant::now();
        let rounds = (100_000 / sample.size.max(1)).clamp(10, 100);
        for length in (0..stored.len()).step_by(stored.len() / rounds + 1) {
            drop(decode(codec, &stored[..length], sample.parameters, sample.size));
        }
        for _ in 0..rounds {
            let (mut stored, mut parameters) = (stored.clone(), sample.parameters.to_vec());
            random.damage(&mut stored, &mut parameters);
            if let Ok(decoded) = decode(codec, &stored, &parameters, sample.size) {
                assert!(decoded.len() <= sample.size, "{what}: {} bytes", decoded.len());
            }
        }
        assert!(start.elapsed() < Duration::from_secs(60), "{what}: {:?}", start.elapsed());
    }
}

fn decode(codec: &dyn Codec, stored: &[u8], parameters: &[u32], limit: usize) -> Result<Vec<u8>, Error> {
    let mut decoded = Vec::new();
    codec.decode(stored, &mut decoded, &Context { parameters, expected: None, limit })?;
    Ok(decoded)
}

/// The same random numbers each time.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, end: usize) -> usize {
        self.next() as usize % end.max(1)
    }

    /// Up to three changes, most of them near the start.
    fn damage(&mut self, stored: &mut Vec<u8>, parameters: &mut [u32]) {
        for _ in 0..=self.below(3) {
            let end = if self.below(2) == 0 { stored.len().min(48) } else { stored.len() };
            let place = self.below(end);
            match self.below(8) {
                0 => stored.truncate(place),
                1 => stored.insert(place, self.next() as u8),
                2 => {
                    let place = self.below(parameters.len());
                    if let Some(parameter) = parameters.get_mut(place) {
                        *parameter ^= 1 << self.below(32);
                    }
                }
                change => {
                    if let Some(byte) = stored.get_mut(place) {
                        *byte = [0, 255, *byte ^ 1 << self.below(8), self.next() as u8][change % 4];
                    }
                }
            }
        }
    }
}
