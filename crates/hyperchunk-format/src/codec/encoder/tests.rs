use super::*;
use crate::codec::testing::Dice;
use crate::codec::{Codec, Context, Decoder, register_codec};
use std::sync::Arc;

fn filter(id: u16, optional: bool, parameters: &[u32]) -> Filter {
    Filter { id, optional, name: None, parameters: parameters.to_vec() }
}

/// Returns the stored bytes and the mask, and checks that they decode, whatever state an earlier chunk left.
fn check(encoder: &mut Encoder, pipeline: &[Filter], chunk: &[u8]) -> Result<(Vec<u8>, u32), ErrorKind> {
    let (stored, mask) = encoder.encode(pipeline, chunk).map_err(|error| error.kind())?;
    let mut decoder = Decoder::default();
    let decoded = decoder.decode(pipeline, mask, stored, chunk.len()).unwrap();
    assert!(decoded == chunk, "{} bytes through {pipeline:?}", chunk.len());
    Ok((stored.to_vec(), mask))
}

#[test]
fn nothing_is_copied_without_need() {
    let chunk: Vec<u8> = (0..100).collect();
    let mut encoder = Encoder::new();
    for pipeline in [&[][..], &[filter(2, false, &[1])], &[filter(2, false, &[51])]] {
        let (stored, mask) = encoder.encode(pipeline, &chunk).unwrap();
        assert!(std::ptr::eq(stored, &raw const chunk[..]));
        assert_eq!(mask, 0);
    }
}

#[cfg(feature = "deflate")]
#[test]
fn orders_of_filters_sizes_and_levels() {
    let mut encoder = Encoder::new();
    let mut dice = Dice::new(1);
    for length in [0, 1, 2, 3, 7, 8, 9, 100, 4095, 4096, 100_001] {
        let random = dice.bytes(length);
        let zeros = vec![0; length];
        let small: Vec<u8> =
            (0..length).map(|at| if at % 4 == 0 { dice.below(7) as u8 } else { 0 }).collect();
        for optional in [false, true] {
            for level in [0, 1, 4, 9] {
                let (shuffle, deflate) = (filter(2, optional, &[4]), filter(1, optional, &[level]));
                let sum = filter(3, optional, &[]);
                for (number, pipeline) in [
                    vec![deflate.clone()],
                    vec![shuffle.clone(), deflate.clone()],
                    vec![shuffle.clone(), deflate.clone(), sum.clone()],
                    vec![sum, shuffle, deflate.clone(), deflate],
                ]
                .into_iter()
                .enumerate()
                {
                    for chunk in [&random, &zeros, &small] {
                        let (stored, mask) = check(&mut encoder, &pipeline, chunk).unwrap();
                        assert!(optional || mask == 0);
                        assert!(!optional || stored.len() <= chunk.len() + 4, "{number} {length}");
                        if optional && chunk == &random {
                            assert_ne!(mask, 0, "{number} {length} {level}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn what_cannot_be() {
    let mut encoder = Encoder::new();
    let mut check = |pipeline: &[Filter], chunk: &[u8]| check(&mut encoder, pipeline, chunk).unwrap_err();
    assert_eq!(check(&[filter(9999, true, &[])], &[1]), ErrorKind::MissingFilter);
    assert_eq!(check(&[filter(2, false, &[])], &[1]), ErrorKind::Invalid);
    assert_eq!(check(&vec![filter(2, true, &[1]); 33], &[1]), ErrorKind::Invalid);
    #[cfg(feature = "deflate")]
    assert_eq!(check(&[filter(1, true, &[10])], &[1]), ErrorKind::Invalid);
    #[cfg(feature = "zfp")]
    assert_eq!(check(&[filter(32013, true, &[10])], &[1]), ErrorKind::Unsupported);
}

/// Codec that refuses everything.
#[derive(Debug)]
struct RefusingCodec;

impl Codec for RefusingCodec {
    fn id(&self) -> u16 {
        40_001
    }
    fn name(&self) -> &'static str {
        "never"
    }
    fn decode(&self, _: &[u8], _: &mut Vec<u8>, _: &Context<'_>) -> Result<()> {
        Err(Error::invalid("never"))
    }
    fn encode(&self, _: &[u8], _: &mut Vec<u8>, _: &EncodeContext<'_>) -> Result<EncodeOutcome> {
        Ok(EncodeOutcome::Refused)
    }
}

#[test]
fn only_optional_filters_are_left_out() {
    register_codec(Arc::new(RefusingCodec));
    let mut encoder = Encoder::new();
    let never = |optional| filter(40_001, optional, &[]);
    let pipeline = [filter(2, true, &[1]), never(true), filter(3, false, &[]), never(true)];
    assert_eq!(check(&mut encoder, &pipeline, &[1, 2, 3]).unwrap().1, 0b1010);
    assert_eq!(check(&mut encoder, &vec![never(true); 32], &[1, 2, 3]).unwrap(), (vec![1, 2, 3], u32::MAX));
    assert_eq!(check(&mut encoder, &[never(false)], &[1, 2, 3]).unwrap_err(), ErrorKind::Invalid);
    // HDF5 sets no parameter for elements of variable length.
    assert_eq!(check(&mut encoder, &[filter(2, true, &[])], &[1, 2, 3]).unwrap(), (vec![1, 2, 3], 1));
}
