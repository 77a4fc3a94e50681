//! Deflate (1): one zlib stream a chunk. Source: RFC 1950 and 1951. The only parameter, the level from 0 to
//! 9, is only used for encoding.

#[cfg(not(target_family = "wasm"))]
mod last_block;
#[cfg(not(target_family = "wasm"))]
mod libdeflate;
#[cfg(not(target_family = "wasm"))]
mod parts;
#[cfg(any(target_family = "wasm", test))]
mod rust;

use super::{Codec, Context, EncodeContext, EncodeOutcome};
use crate::{Error, ErrorKind, Result};
#[cfg(not(target_family = "wasm"))]
use libdeflate as library;
#[cfg(target_family = "wasm")]
use rust as library;

/// Maximum expansion of a deflate stream: two bits for 258 bytes.
const MAX_EXPANSION: usize = 1032;

/// Default level, zlib's.
const DEFAULT_LEVEL: i32 = 6;
/// Highest level of zlib; libdeflate has higher ones.
const MAX_LEVEL: i32 = 9;

/// Reason for which a stream was not decompressed.
#[derive(Debug, Clone, Copy)]
enum Failure {
    NoRoom,
    Damaged,
}

/// Deflate codec.
#[derive(Debug)]
pub(super) struct Deflate;

impl Codec for Deflate {
    fn id(&self) -> u16 {
        1
    }

    fn name(&self) -> &'static str {
        "deflate"
    }

    fn decode(&self, input: &[u8], output: &mut Vec<u8>, context: &Context<'_>) -> Result<()> {
        self.decode_over(input, output, context)
    }

    fn decode_over(&self, input: &[u8], output: &mut Vec<u8>, context: &Context<'_>) -> Result<()> {
        // Data after the stream are ignored, as in libhdf5.
        let most = input.len().saturating_mul(MAX_EXPANSION).min(context.limit);
        let guess = context.expected.unwrap_or_else(|| input.len().saturating_mul(4).max(1 << 16));
        let mut size = guess.min(most);
        loop {
            let room = context.room(output, size as u64)?;
            match library::decompress(input, room) {
                Ok(length) => {
                    output.truncate(length);
                    return Ok(());
                }
                Err(Failure::NoRoom) if size < most => {
                    size = size.saturating_mul(2).clamp(1 << 12, most);
                }
                Err(Failure::NoRoom) => {
                    return Err(Error::limit(format!("the stream decodes to more than {size} bytes")));
                }
                Err(Failure::Damaged) => {
                    return Err(Error::new(ErrorKind::Filter, "the zlib stream is incomplete or damaged"));
                }
            }
        }
    }

    fn encode(
        &self,
        input: &[u8],
        output: &mut Vec<u8>,
        context: &EncodeContext<'_>,
    ) -> Result<EncodeOutcome> {
        let level = level(context)?;
        let most = context.most(input, library::bound(input.len(), level)?);
        let room = context.room(output, most)?;
        // Without the optional flag there is enough space.
        Ok(library::compress(input, room, level)?.map_or(EncodeOutcome::Refused, EncodeOutcome::Written))
    }

    #[cfg(not(target_family = "wasm"))]
    fn encode_on(
        &self,
        threads: usize,
        input: &[u8],
        output: &mut Vec<u8>,
        context: &EncodeContext<'_>,
    ) -> Result<EncodeOutcome> {
        match parts::compress(input, output, level(context)?, threads, context)? {
            None => self.encode(input, output, context),
            Some(length) if length > context.most(input, length) => Ok(EncodeOutcome::Refused),
            Some(length) => Ok(EncodeOutcome::Written(length)),
        }
    }
}

/// Returns the level that the filter's parameters give, if it is valid.
fn level(context: &EncodeContext<'_>) -> Result<i32> {
    match context.parameters.first() {
        None => Ok(DEFAULT_LEVEL),
        Some(level) => checked(i32::try_from(*level).unwrap_or(i32::MAX)),
    }
}

/// Returns the level if it is valid.
fn checked(level: i32) -> Result<i32> {
    match level {
        0..=MAX_LEVEL => Ok(level),
        _ => Err(Error::invalid(format!("level {level}: expected 0 to {MAX_LEVEL}"))),
    }
}

/// Compresses `from` into `to`; returns the number of bytes, or `None` if they do not fit.
#[cfg(feature = "blosc")]
pub(super) fn deflate(from: &[u8], to: &mut [u8], level: i32) -> Result<Option<usize>> {
    library::compress(from, to, checked(level)?)
}

/// Decompresses a stream into `to`; returns the number of bytes.
#[cfg(feature = "blosc")]
pub(super) fn inflate(from: &[u8], to: &mut [u8]) -> Result<usize> {
    library::decompress(from, to).map_err(|failure| {
        let message = match failure {
            Failure::NoRoom => "damaged zlib data: more bytes than expected",
            Failure::Damaged => "damaged zlib data",
        };
        Error::new(ErrorKind::Filter, message)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::codec::testing::{Dice, check_damaged, encoded};
    use std::cell::RefCell;

    /// A thousand zeros, by zlib.
    const ZEROS: &[u8] =
        &[0x78, 0x9c, 0x63, 0x60, 0x18, 0x05, 0xa3, 0x60, 0x14, 0x0c, 0x77, 0, 0, 0x03, 0xe8, 0x00, 0x01];
    /// `123456789`, by zlib.
    const NINE: &[u8] = &[
        0x78, 0x9c, 0x33, 0x34, 0x32, 0x36, 0x31, 0x35, 0x33, 0xb7, 0xb0, 0x04, 0x00, 0x09, 0x1e, 0x01, 0xde,
    ];

    fn check(input: &[u8], expected: Option<usize>, limit: usize) -> Result<Vec<u8>, ErrorKind> {
        let mut output = b"stale".to_vec();
        let context = Context { parameters: &[6], expected, limit };
        let done = Deflate.decode_over(input, &mut output, &context);
        assert!(output.len() <= limit, "{} bytes", output.len());
        done.map(|()| output).map_err(|error| error.kind())
    }

    #[test]
    fn sizes_known_unknown_and_wrong() {
        for expected in [None, Some(9), Some(0), Some(1), Some(8), Some(5000)] {
            assert_eq!(check(NINE, expected, 10_000).unwrap(), b"123456789", "{expected:?}");
            assert_eq!(check(ZEROS, expected, 10_000).unwrap(), [0; 1000], "{expected:?}");
        }
        assert_eq!(check(&[NINE, b"behind"].concat(), None, 9).unwrap(), b"123456789");
    }

    #[test]
    fn bombs_and_damage() {
        for expected in [None, Some(999), Some(1000), Some(usize::MAX)] {
            assert_eq!(check(ZEROS, expected, 999), Err(ErrorKind::Limit));
        }
        for length in 0..NINE.len() {
            assert_eq!(check(&NINE[..length], Some(9), 9), Err(ErrorKind::Filter), "{length}");
        }
        for byte in 0..NINE.len() {
            let mut damaged = NINE.to_vec();
            damaged[byte] ^= 0x01;
            check(&damaged, Some(9), 9).unwrap_err();
        }
        check_damaged(&Deflate, ZEROS, &[6], 1000);
        check_damaged(&Deflate, NINE, &[6], 9);
    }

    #[test]
    fn test_libraries_agree() {
        let mut dice = Dice::new(5);
        for length in [0, 1, 300, 65_536, 100_000] {
            let bytes: Vec<u8> = dice.bytes(length).iter().map(|byte| byte % 11).collect();
            let stream = encoded(&Deflate, &bytes, &[6]).unwrap();
            let mut room = vec![0; length];
            assert_eq!(rust::decompress(&stream, &mut room).unwrap(), length);
            assert_eq!(room, bytes);
            if length > 0 {
                let short = rust::decompress(&stream, &mut room[..length - 1]);
                assert!(matches!(short, Err(Failure::NoRoom)), "{short:?}");
            }
            for _ in 0..200 {
                let mut damaged = stream.clone();
                let place = dice.below(damaged.len());
                damaged[place] ^= 1 << dice.below(8);
                let (mut one, mut other) = (vec![0; length], vec![0; length]);
                let sizes = [library::decompress(&damaged, &mut one), rust::decompress(&damaged, &mut other)];
                match sizes {
                    [Ok(size), Ok(same)] => assert_eq!((size, one), (same, other)),
                    [one, other] => assert!(one.is_err() && other.is_err(), "{one:?} {other:?} at {place}"),
                }
            }
        }
    }

    /// Reader of a stream that runs in a thread-local destructor.
    #[cfg(feature = "blosc")]
    struct DestructorReader(std::sync::mpsc::Sender<(bool, Option<usize>)>);

    #[cfg(feature = "blosc")]
    impl Drop for DestructorReader {
        fn drop(&mut self) {
            let gone = libdeflate::DECOMPRESSOR.try_with(|_| ()).is_err();
            let read = std::panic::catch_unwind(|| inflate(NINE, &mut [0; 9]).unwrap());
            self.0.send((gone, read.ok())).unwrap();
        }
    }

    #[cfg(feature = "blosc")]
    #[test]
    fn test_streams_in_chunks_are_read_at_exit() {
        thread_local!(static LATE: RefCell<Option<DestructorReader>> = const { RefCell::new(None) });
        let (sender, receiver) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            // Thread-local values are destroyed in reverse order of first use.
            LATE.set(Some(DestructorReader(sender)));
            inflate(NINE, &mut [0; 9]).unwrap();
        });
        thread.join().unwrap();
        let (gone, size) = receiver.recv().unwrap();
        // Windows has its own order.
        assert_eq!((gone || cfg!(windows), size), (true, Some(9)));
    }
}
