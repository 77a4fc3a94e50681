//! Declared requirements of a function in addition to its inputs: a seed, the clock.

use crate::error::{Error, ErrorKind, Result, fail};
use sha2::{Digest as _, Sha256};

/// Prefix of the text that is hashed to derive seeds and bytes.
const CONTEXT: &[u8] = b"hyperchunk-seed-v1\0";
/// Maximum seed: every language can represent all integers up to it.
pub const MAX_SEED: u64 = (1 << 53) - 1;

/// Requirements of a record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Needs {
    /// Seed of the random numbers, which are the same for each reader.
    pub seed: Option<u64>,
    /// Set if the function reads the clock.
    pub clock: bool,
}

impl Needs {
    /// Returns whether the function has no additional requirements.
    pub fn is_empty(&self) -> bool {
        *self == Needs::default()
    }

    /// Generates a random seed.
    ///
    /// # Errors
    /// `Io` without random numbers of the system.
    pub fn new_seed() -> Result<u64> {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes)
            .map_err(|e| Error::new(ErrorKind::Io, format!("cannot get random numbers: {e}")))?;
        Ok(u64::from_le_bytes(bytes) & MAX_SEED)
    }

    /// Checks that a record may have these requirements.
    pub(super) fn check(&self) -> Result<()> {
        match self.seed {
            Some(seed) if seed > MAX_SEED => fail!(Invalid, "the seed {seed} is larger than {MAX_SEED}"),
            _ => Ok(()),
        }
    }
}

/// Returns the seed of the block at `start`: the lowest 53 bits of the first 8 bytes of the SHA-256 of the
/// record's seed and `start`. `start` is empty before the first block. The seed does not depend on the
/// reader, nor on the order in which blocks are read.
pub fn seed_of_block(seed: u64, start: &[u64]) -> u64 {
    let mut hash = Sha256::new();
    hash.update(CONTEXT);
    hash.update(seed.to_le_bytes());
    hash.update((start.len() as u64).to_le_bytes());
    for n in start {
        hash.update(n.to_le_bytes());
    }
    hash.finalize().first_chunk().map_or(0, |bytes| u64::from_le_bytes(*bytes) & MAX_SEED)
}

/// Random bytes generated from a seed.
#[derive(Clone, Debug)]
pub struct RandomBytes {
    seed: u64,
    next: u64,
    left: Vec<u8>,
}

impl RandomBytes {
    /// Creates the generator for this seed.
    pub fn new(seed: u64) -> Self {
        RandomBytes { seed, next: 0, left: Vec::new() }
    }

    /// Fills `to` with the next bytes.
    pub fn fill(&mut self, mut to: &mut [u8]) {
        while !to.is_empty() {
            if self.left.is_empty() {
                self.left = Sha256::new()
                    .chain_update(CONTEXT)
                    .chain_update(b"bytes")
                    .chain_update(self.seed.to_le_bytes())
                    .chain_update(self.next.to_le_bytes())
                    .finalize()
                    .to_vec();
                self.next = self.next.wrapping_add(1);
            }
            let count = to.len().min(self.left.len());
            let (head, rest) = to.split_at_mut(count);
            head.copy_from_slice(&self.left[..count]);
            self.left.drain(..count);
            to = rest;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seeds_are_what_the_format_says() {
        // Computed by Python's hashlib.
        assert_eq!(seed_of_block(7, &[0, 0]), 379_064_024_013_876);
        assert_eq!(seed_of_block(7, &[16, 0]), 4_922_622_528_573_566);
        assert_eq!(seed_of_block(0, &[]), 2_759_003_399_189_819);
        assert!(Needs { seed: Some(MAX_SEED + 1), clock: false }.check().is_err());
        assert!(Needs::new_seed().unwrap() <= MAX_SEED);
    }

    #[test]
    fn bytes_do_not_depend_on_how_many_are_asked_for() {
        let (mut all, mut parts) = ([0; 100], [0; 100]);
        RandomBytes::new(5).fill(&mut all);
        let mut random = RandomBytes::new(5);
        let (head, rest) = parts.split_at_mut(7);
        random.fill(head);
        random.fill(rest);
        assert_eq!(all, parts);
        RandomBytes::new(6).fill(&mut parts);
        assert_ne!(all, parts);
    }
}
