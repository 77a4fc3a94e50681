//! Test support for parsers.

use crate::{Blocks, Fuel, Image, Limits, Result, Sizes, Step, checksum, step};

/// Calls `test` with the image of a file of these bytes; addresses and lengths have 8 bytes.
pub(crate) fn with_image<T>(bytes: &[u8], test: impl FnOnce(Image<'_>) -> T) -> T {
    let limits = Limits { visits: 100_000, ..Limits::default() };
    let fuel = Fuel::new(&limits);
    test(Image::new(&bytes, 0, Sizes { address: 8, length: 8 }, &limits, &fuel))
}

/// Calls `test` with many damaged copies of the file, with checksums verified and ignored. It must neither
/// panic nor run long.
pub(crate) fn survives_damage(bytes: &[u8], test: impl Fn(Image<'_>)) {
    for ignored in [false, true] {
        checksum::ignored(ignored, || {
            let mut damaged = bytes.to_vec();
            for at in 0..bytes.len() {
                // Damage to gaps between structures has no effect.
                if bytes[at.saturating_sub(8)..(at + 8).min(bytes.len())].iter().all(|byte| *byte == 0) {
                    continue;
                }
                let old = bytes[at];
                for new in [0, 0x7f, 0xff, old.wrapping_add(1), old ^ 0x10] {
                    if new != old {
                        damaged[at] = new;
                        with_image(&damaged, &test);
                    }
                }
                // Damage to a whole number: all bits set, or huge.
                for (width, byte) in [(2, 0xff), (4, 0xff), (8, 0x0f)] {
                    let end = (at + width).min(bytes.len());
                    damaged[at..end].fill(byte);
                    with_image(&damaged, &test);
                    damaged[at..end].copy_from_slice(&bytes[at..end]);
                }
                damaged[at] = old;
                with_image(&bytes[..at], &test);
            }
        });
    }
}

/// Builder of a file's bytes. Numbers are little-endian and have 8 bytes unless their type differs.
#[derive(Debug, Default)]
pub(crate) struct Maker(pub(crate) Vec<u8>);

impl Maker {
    pub(crate) fn raw(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn u8s(self, numbers: &[u8]) -> Self {
        self.raw(numbers)
    }

    pub(crate) fn u16s(mut self, numbers: &[u16]) -> Self {
        self.0.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        self
    }

    pub(crate) fn u32s(mut self, numbers: &[u32]) -> Self {
        self.0.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        self
    }

    pub(crate) fn u64s(mut self, numbers: &[u64]) -> Self {
        self.0.extend(numbers.iter().flat_map(|number| number.to_le_bytes()));
        self
    }

    /// Pads with zeros up to that offset.
    pub(crate) fn to(mut self, offset: usize) -> Self {
        assert!(self.0.len() <= offset, "{} is beyond {offset}", self.0.len());
        self.0.resize(offset, 0);
        self
    }

    /// Appends the checksum of the bytes since that offset.
    pub(crate) fn checksum(self, since: usize) -> Self {
        let sum = checksum::lookup3(&self.0[since..]);
        self.u32s(&[sum])
    }
}

/// Parses a file whose bytes are fetched on request. Returns the value and the number of fetches.
pub(crate) fn in_steps<T>(file: &[u8], parse: impl Fn(Image<'_>) -> Result<T>) -> (Result<T>, usize) {
    let limits = Limits::default();
    let mut blocks = Blocks::new(file.len() as u64);
    for rounds in 0..100 {
        let fuel = Fuel::new(&limits);
        let sizes = Sizes { address: 8, length: 8 };
        match step(&blocks, |view| parse(Image::new(view, 0, sizes, &limits, &fuel))) {
            Ok(Step::Done(value)) => return (Ok(value), rounds),
            Ok(Step::Need(ranges)) => {
                for range in ranges {
                    let (start, end) =
                        (usize::try_from(range.start).unwrap(), usize::try_from(range.end).unwrap());
                    blocks.insert(range.start, &file[start..end]);
                }
            }
            Err(error) => return (Err(error), rounds),
        }
    }
    panic!("it asks for ever more");
}
