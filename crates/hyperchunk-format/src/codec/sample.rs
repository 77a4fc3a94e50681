//! Test support for filters: stored chunks as text, and damage to them.

use super::testing::Dice;
use super::{Codec, Context};
use crate::checksum::lookup3;
use crate::{Error, ErrorKind};
use std::time::{Duration, Instant};

/// Chunk stored by the filter's own library.
#[derive(Debug)]
pub(crate) struct Sample {
    pub(crate) what: &'static str,
    pub(crate) parameters: &'static [u32],
    /// Stored bytes in base 64.
    pub(crate) stored: &'static str,
    /// Decoded size according to the library.
    pub(crate) size: usize,
    /// Checksum of the decoded bytes.
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

    fn decode(
        &self,
        codec: &dyn Codec,
        stored: &[u8],
        parameters: &[u32],
        limit: usize,
    ) -> Result<Vec<u8>, Error> {
        let mut decoded = Vec::new();
        codec.decode(stored, &mut decoded, &Context { parameters, expected: None, limit })?;
        Ok(decoded)
    }
}

/// Checks that each sample decodes as in the library, and that damaged ones decode to an error or within
/// bounds.
pub(crate) fn check(codec: &dyn Codec, samples: &[Sample]) {
    for sample in samples {
        let (what, stored) = (sample.what, sample.stored());
        let decoded = sample.decode(codec, &stored, sample.parameters, sample.size);
        let decoded = decoded.unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(decoded.len(), sample.size, "{what}: size");
        assert_eq!(lookup3(&decoded), sample.sum, "{what}: values");
        let error = sample.decode(codec, &stored, sample.parameters, sample.size - 1).expect_err(what);
        assert_eq!(error.kind(), ErrorKind::Limit, "{what}: {error}");
        check_damaged(codec, sample, &stored, |damaged| damaged);
    }
}

/// Damages `bytes`, which `pack` converts to a chunk like the sample.
pub(crate) fn check_damaged(
    codec: &dyn Codec,
    sample: &Sample,
    bytes: &[u8],
    pack: impl Fn(Vec<u8>) -> Vec<u8>,
) {
    let what = sample.what;
    let start = Instant::now();
    let mut dice = Dice::new(bytes.len() as u64);
    let rounds = (100_000 / sample.size.max(1)).clamp(10, 40);
    let decode = |bytes: Vec<u8>, parameters: &[u32]| {
        if let Ok(decoded) = sample.decode(codec, &pack(bytes), parameters, sample.size) {
            assert!(decoded.len() <= sample.size, "{what}: {} bytes", decoded.len());
        }
    };
    for length in (0..bytes.len()).step_by(bytes.len() / rounds + 1) {
        decode(bytes[..length].to_vec(), sample.parameters);
    }
    for _ in 0..rounds {
        let (mut bytes, mut parameters) = (bytes.to_vec(), sample.parameters.to_vec());
        for _ in 0..=dice.below(3) {
            // Most changes are near the start.
            let end = if dice.below(2) == 0 { bytes.len().min(48) } else { bytes.len() };
            let place = dice.below(end.max(1));
            match dice.below(8) {
                0 => bytes.truncate(place),
                1 => bytes.insert(place, dice.next() as u8),
                2 => {
                    let place = dice.below(parameters.len().max(1));
                    if let Some(parameter) = parameters.get_mut(place) {
                        *parameter ^= 1 << dice.below(32);
                    }
                }
                change => {
                    if let Some(byte) = bytes.get_mut(place) {
                        *byte = [0, 255, *byte ^ 1 << dice.below(8), dice.next() as u8][change % 4];
                    }
                }
            }
        }
        decode(bytes, &parameters);
    }
    assert!(start.elapsed() < Duration::from_secs(60), "{what}: {:?}", start.elapsed());
}
