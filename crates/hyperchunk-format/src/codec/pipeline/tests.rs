use super::*;
use crate::codec::testing::Dice;

/// The bytes 0 to 15 as eight little-endian 16-bit words, shuffled, then as a zlib stream, then with a
/// checksum.
const SHUFFLED: &[u8] = &[0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15];

fn filter(id: u16, parameters: &[u32]) -> Filter {
    Filter { id, optional: false, name: None, parameters: parameters.to_vec() }
}

fn plain() -> Vec<u8> {
    (0..16).collect()
}

/// Creates a zlib stream of one stored block.
#[cfg(feature = "deflate")]
fn zlib(bytes: &[u8]) -> Vec<u8> {
    let mut stream = vec![0x78, 0x01, 1, bytes.len() as u8, 0, !(bytes.len() as u8), 0xff];
    stream.extend_from_slice(bytes);
    let (a, b) = bytes.iter().fold((1_u32, 0_u32), |(a, b), byte| {
        let a = (a + u32::from(*byte)) % 65521;
        (a, (a + b) % 65521)
    });
    stream.extend_from_slice(&((b << 16) | a).to_be_bytes());
    stream
}

fn summed(bytes: &[u8]) -> Vec<u8> {
    [bytes, &super::super::fletcher32::checksum(bytes).to_le_bytes()].concat()
}

fn check(pipeline: &[Filter], mask: u32, stored: &[u8]) -> Result<Vec<u8>, ErrorKind> {
    let mut decoder = Decoder::default();
    let first = decoder.decode(pipeline, mask, stored, 16).map(<[u8]>::to_vec).map_err(|error| error.kind());
    let again = decoder.decode(pipeline, mask, stored, 16).map(<[u8]>::to_vec).map_err(|error| error.kind());
    assert_eq!(first, again, "what an earlier chunk left must not matter");
    first
}

#[cfg(feature = "deflate")]
#[test]
fn orders_of_filters() {
    let (shuffle, deflate, sum) = (filter(2, &[2]), filter(1, &[6]), filter(3, &[]));
    let ok = Ok(plain());
    let all = [shuffle.clone(), deflate.clone(), sum.clone()];
    assert_eq!(check(&all, 0, &summed(&zlib(SHUFFLED))), ok);
    assert_eq!(check(&all, 0b100, &zlib(SHUFFLED)), ok);
    assert_eq!(check(&all, 0b010, &summed(SHUFFLED)), ok);
    assert_eq!(check(&all, 0b001, &summed(&zlib(&plain()))), ok);
    assert_eq!(check(&all, 0b111, &plain()), ok);
    assert_eq!(check(&[sum, shuffle, deflate.clone()], 0, &zlib(&shuffled_sum())), ok);
    assert_eq!(check(&[deflate.clone(), deflate], 0, &zlib(&zlib(&plain()))), ok);
}

/// Shuffles the plain bytes together with their checksum.
#[cfg(feature = "deflate")]
fn shuffled_sum() -> Vec<u8> {
    let bytes = summed(&plain());
    (0..2).flat_map(|plane| bytes.iter().skip(plane).step_by(2)).copied().collect()
}

#[test]
fn nothing_is_copied_without_need() {
    let mut decoder = Decoder::default();
    let stored = plain();
    let sum = summed(&stored);
    let unused = [filter(2, &[2]), filter(9999, &[])];
    assert!(std::ptr::eq(decoder.decode(&[], 0, &stored, 16).unwrap(), &raw const stored[..]));
    assert!(std::ptr::eq(decoder.decode(&unused, u32::MAX, &stored, 16).unwrap(), &raw const stored[..]));
    assert!(std::ptr::eq(decoder.decode(&[filter(3, &[])], 0, &sum, 16).unwrap(), &raw const sum[..16]));
}

#[test]
fn masks_have_thirty_two_bits() {
    let mut pipeline = vec![filter(9999, &[]); 32];
    assert_eq!(check(&pipeline, u32::MAX, &plain()), Ok(plain()));
    pipeline.push(filter(2, &[2]));
    assert_eq!(check(&pipeline, u32::MAX, SHUFFLED), Ok(plain()));
}

#[test]
fn what_is_too_long_is_cut_and_what_is_too_short_an_error() {
    let longer = [&plain()[..], &[9; 5]].concat();
    let sum = [filter(3, &[])];
    assert_eq!(check(&[], 0, &longer), Ok(plain()));
    assert_eq!(check(&sum, 0, &summed(&longer)), Ok(plain()));
    assert_eq!(check(&[], 0, &[0; 15]), Err(ErrorKind::Filter));
    assert_eq!(check(&sum, 0, &summed(&[0; 15])), Err(ErrorKind::Filter));
    #[cfg(feature = "deflate")]
    {
        let deflate = [filter(1, &[6])];
        assert_eq!(check(&deflate, 0, &zlib(&longer)), Ok(plain()));
        assert_eq!(check(&deflate, 0, &zlib(&[0; 15])), Err(ErrorKind::Filter));
    }
}

#[test]
fn missing_filters() {
    assert_eq!(check(&[filter(9999, &[])], 0, &plain()), Err(ErrorKind::MissingFilter));
    assert_eq!(check(&[filter(9999, &[])], 1, &plain()), Ok(plain()));
}

#[test]
fn no_pipeline_does_harm() {
    let ids = [
        1, 2, 3, 4, 5, 6, 307, 32000, 32001, 32003, 32004, 32008, 32013, 32015, 32018, 32022, 32024, 32026,
        32028,
    ];
    let (mut dice, mut decoder) = (Dice::new(5), Decoder::default());
    let mut done = 0;
    for _ in 0..3000 {
        let number = |dice: &mut Dice| match dice.below(4) {
            0 => dice.next() as u32,
            1 => 1 << dice.below(32),
            _ => dice.below(20) as u32,
        };
        let pipeline: Vec<Filter> = (0..dice.below(5))
            .map(|_| {
                let parameters: Vec<u32> = (0..dice.below(24)).map(|_| number(&mut dice)).collect();
                filter(ids[dice.below(ids.len())], &parameters)
            })
            .collect();
        let length = dice.below(200);
        let stored = match dice.below(3) {
            0 => vec![0; length],
            1 => dice.bytes(length),
            _ => summed(&dice.bytes(length)),
        };
        let expected = [0, 1, 16, 100, length][dice.below(5)];
        let mask = if dice.below(2) == 0 { 0 } else { dice.next() as u32 };
        if let Ok(bytes) = decoder.decode(&pipeline, mask, &stored, expected) {
            assert_eq!(bytes.len(), expected);
            done += 1;
        }
        let held = decoder.front.capacity().max(decoder.back.capacity());
        assert!(held < 1 << 20, "{held} bytes for {expected}: {pipeline:?}");
    }
    assert!(done > 100, "{done}");
}
