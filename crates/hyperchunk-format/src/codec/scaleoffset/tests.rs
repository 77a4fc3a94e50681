use super::*;
use crate::codec::testing::{Dice, Packer, check_damaged, decoded, encoded, hex};

/// Pads to twenty parameters, which the filter always has.
fn parameters(first: &[u32]) -> Vec<u32> {
    first.iter().copied().chain(std::iter::repeat(0)).take(20).collect()
}

/// Scale, factor, count, class, size, sign, order, presence of a fill value, its halves; stored by libhdf5;
/// decoded by libhdf5.
const SAMPLES: &[(&[u32], &str, &str)] = &[
    (
        &[2, 0, 9, 0, 1, 0, 0, 1, 3],
        "06000000086400000000000000000000000000000000110941990c6c",
        "6465686d747d88707f",
    ),
    (
        &[2, 0, 9, 0, 2, 1, 1, 1, 0xffff],
        "0a000000080cfeffffffffffff000000000000000000009ffc51240e1ffdb99000",
        "fe0cfe15fffffe5dfe9cfeedffffffc5004c",
    ),
    (
        &[2, 5, 9, 0, 4, 0, 0, 1],
        "05000000087011010000000000000000000000000000489864b210",
        "701101007111010074110100791101008011010089110100751101008211010072110100",
    ),
    (
        &[2, 0, 5, 0, 8, 1, 0, 1],
        "3e0000000800000000000000e80000000000000000fffffffffffffffd000000000000000a0000000000000000000000
         00000000e000000000000000",
        "000000000000000000000000000000f8000000000000001000000000000000e80000000000000020",
    ),
    (
        &[2, 0, 3, 0, 8, 1, 1, 1],
        "4000000008000000000000000000000000000000000000000000000080ffffffffffffff7f0500000000000000",
        "80000000000000007fffffffffffffff0000000000000005",
    ),
    (&[2, 16, 5, 0, 2, 0, 0, 1], "00000100020003000400", "00000100020003000400"),
    (&[2, 0, 5, 0, 2, 0, 0, 1], "01000000080903000000000000000000000000000000", "09030903090309030903"),
    (
        &[0, 2, 6, 1, 4, 0, 0, 1, 1_148_837_888],
        "0c00000008000060c00000000000000000000000001db000fff93bfff41a00",
        "0000a03f000060c000e079443d0aa14100e079440000e040",
    ),
    (
        &[0, 1, 6, 1, 8, 0, 1, 1],
        "050000000866666666661271400000000000000000010eb7cc",
        "4071126666666666407118cccccccccc40711d9999999999407124000000000040712a6666666666407130cccccccccc",
    ),
];

#[test]
fn as_libhdf5_has_it() {
    for (first, stored, bytes) in SAMPLES {
        let (stored, bytes) = (hex(stored), hex(bytes));
        let done = decoded(&ScaleOffset, &stored, &parameters(first), bytes.len()).unwrap();
        assert_eq!(done, bytes, "{first:?}");
        let mut own = Vec::new();
        let context = EncodeContext { parameters: &parameters(first), optional: false };
        match ScaleOffset.encode(&bytes, &mut own, &context).unwrap() {
            EncodeOutcome::Written(length) => assert_eq!(own[..length], stored, "{first:?}"),
            EncodeOutcome::Same => assert_eq!(bytes, stored),
            EncodeOutcome::Refused => panic!("{first:?}"),
        }
    }
}

#[test]
fn integers_of_every_size_width_and_order() {
    let mut dice = Dice::new(7);
    for size in [1_u32, 2, 4, 8] {
        for bits in 0..size * 8 {
            let (order, filled) = (dice.below(2) as u32, dice.below(2) as u32);
            let (minimum, fill) = (dice.next(), dice.next());
            let mut stored = bits.to_le_bytes().to_vec();
            stored.push(8);
            stored.extend(minimum.to_le_bytes());
            stored.resize(HEADER_BYTES, 0);
            let (mut packer, mut expected) = (Packer::default(), Vec::new());
            for _ in 0..300 {
                let ones = (1 << bits) - 1;
                let value = if dice.below(4) == 0 { ones } else { dice.next() & ones };
                packer.put(value.into(), bits);
                let value = if filled == 1 && value == ones { fill } else { value.wrapping_add(minimum) }
                    .to_le_bytes();
                let bytes = &value[..size as usize];
                match order {
                    0 => expected.extend(bytes),
                    _ => expected.extend(bytes.iter().rev()),
                }
            }
            stored.extend(packer.bytes);
            let first = [2, 0, 300, 0, size, 0, order, filled, fill as u32, (fill >> 32) as u32];
            let done = decoded(&ScaleOffset, &stored, &parameters(&first), expected.len()).unwrap();
            assert!(done == expected, "{first:?} {bits}");
        }
    }
}

#[test]
fn short_minima() {
    // A writer with integers of at most 4 bytes.
    let mut stored = hex("00000000 04 78563412 ffffffff 00000000 0000000000");
    let first = [2, 0, 2, 0, 8, 0, 1, 0];
    let bytes = hex("0000000012345678 0000000012345678");
    assert_eq!(decoded(&ScaleOffset, &stored, &parameters(&first), 16).unwrap(), bytes.repeat(1));
    // At most 8 bytes count.
    stored[4] = 200;
    let bytes = hex("ffffffff12345678 ffffffff12345678");
    assert_eq!(decoded(&ScaleOffset, &stored, &parameters(&first), 16).unwrap(), bytes);
}

#[test]
fn damage() {
    let check = |first: &[u32], stored: &[u8], size, kind| {
        let error = decoded(&ScaleOffset, stored, first, size).unwrap_err();
        assert_eq!(error.kind(), kind, "{first:?}: {error}");
    };
    let stored = hex(SAMPLES[2].1);
    let wrong = ErrorKind::Filter;
    check(&[2, 0, 9, 0, 4, 0, 0, 0], &stored, 36, wrong);
    for (at, value, kind) in [
        (0, 1, wrong),
        (1, 33, wrong),
        (3, 2, wrong),
        (4, 3, wrong),
        (4, u32::MAX, wrong),
        (6, 2, wrong),
        (2, u32::MAX, ErrorKind::Limit),
    ] {
        let mut others = parameters(SAMPLES[2].0);
        others[at] = value;
        check(&others, &stored, 36, kind);
    }
    check(&parameters(&[1, 0, 9, 1, 4]), &stored, 36, ErrorKind::Unsupported);
    check(&parameters(&[2, 0, 9, 1, 4]), &stored, 36, wrong);
    check(&parameters(SAMPLES[2].0), &stored[..20], 36, wrong);
    check(&parameters(SAMPLES[2].0), &stored[..26], 36, wrong);
    let mut wide = stored.clone();
    wide[0] = 33;
    check(&parameters(SAMPLES[2].0), &wide, 36, wrong);
    for (first, stored, bytes) in SAMPLES {
        check_damaged(&ScaleOffset, &hex(stored), &parameters(first), hex(bytes).len());
    }
}

#[test]
fn integers_of_all_ranges_come_back() {
    let mut dice = Dice::new(9);
    for size in [1_usize, 2, 4, 8] {
        for round in 0..40 * size {
            let [order, filled, sign] = [2; 3].map(|bound| dice.below(bound) as u32);
            let (base, bits) = (dice.next(), round / 5);
            let range = [0, 1, (1_u64 << bits) - 1, u64::MAX >> (64 - 8 * size), u64::MAX][dice.below(5)];
            let fill = [base, 0, dice.next()][dice.below(3)];
            let count = 1 + dice.below(300);
            let mut bytes = Vec::new();
            for _ in 0..count {
                let value = if dice.below(9) == 0 { fill } else { base.wrapping_add(dice.next() & range) };
                match order {
                    0 => bytes.extend(&value.to_le_bytes()[..size]),
                    _ => bytes.extend(&value.to_be_bytes()[8 - size..]),
                }
            }
            let first =
                [2, 0, count as u32, 0, size as u32, sign, order, filled, fill as u32, (fill >> 32) as u32];
            encoded(&ScaleOffset, &bytes, &parameters(&first)).unwrap();
        }
    }
}

#[test]
fn floats_come_back_as_near_as_asked() {
    let mut dice = Dice::new(5);
    for round in 0..60 {
        let exponent = dice.below(6) as i32 - 1;
        let wide = round % 4 == 0;
        let values: Vec<f64> = (0..1 + dice.below(300))
            .map(|_| {
                let value = dice.below(1 << 20) as f64 / 16.0 - 3e4;
                if wide && dice.below(50) == 0 { value * 1e30 } else { value }
            })
            .collect();
        for (size, order, filled) in [(4, 0, 0), (4, 1, 1), (8, 1, 0), (8, 0, 1)] {
            let bytes: Vec<u8> = values
                .iter()
                .flat_map(|value| match (size, order) {
                    (4, 0) => (*value as f32).to_le_bytes().to_vec(),
                    (4, _) => (*value as f32).to_be_bytes().to_vec(),
                    (_, 0) => value.to_le_bytes().to_vec(),
                    _ => value.to_be_bytes().to_vec(),
                })
                .collect();
            let number = |bytes: &[u8]| match (size, order) {
                (4, 0) => f32::from_le_bytes(bytes.try_into().unwrap()).into(),
                (4, _) => f32::from_be_bytes(bytes.try_into().unwrap()).into(),
                (_, 0) => f64::from_le_bytes(bytes.try_into().unwrap()),
                _ => f64::from_be_bytes(bytes.try_into().unwrap()),
            };
            let first = [0, exponent as u32, values.len() as u32, 1, size, 0, order, filled];
            let numbers = parameters(&first);
            let mut stored = Vec::new();
            let context = EncodeContext { parameters: &numbers, optional: false };
            let EncodeOutcome::Written(length) = ScaleOffset.encode(&bytes, &mut stored, &context).unwrap()
            else {
                panic!("{first:?}")
            };
            let done = decoded(&ScaleOffset, &stored[..length], &numbers, bytes.len()).unwrap();
            let size = size as usize;
            // Half a unit, the range that the fill value absorbs, and the precision of four bytes.
            let near = 10_f64.powi(-exponent) * if filled == 1 { 1.0 } else { 0.5 };
            for (one, other) in bytes.chunks(size).zip(done.chunks(size)) {
                let (one, other): (f64, f64) = (number(one), number(other));
                let slack = if size == 4 { 0.05 } else { 1e-7 };
                assert!((one - other).abs() <= near + slack, "{first:?}: {one} {other}");
            }
        }
    }
}

#[test]
fn what_is_no_number_is_refused() {
    let context = EncodeContext { parameters: &parameters(&[0, 2, 3, 1, 4, 0, 0, 1]), optional: true };
    let encode = |values: [f32; 3]| {
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        ScaleOffset.encode(&bytes, &mut Vec::new(), &context).unwrap()
    };
    assert_eq!(encode([1.0, f32::NAN, 2.0]), EncodeOutcome::Refused);
    assert_eq!(encode([f32::NAN, 1.0, 2.0]), EncodeOutcome::Refused);
    assert_eq!(encode([f32::INFINITY; 3]), EncodeOutcome::Refused);
    assert_eq!(encode([f32::INFINITY, f32::NAN, 1.0]), EncodeOutcome::Written(33));
    let error = ScaleOffset.encode(&[0; 8], &mut Vec::new(), &context).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}
