use super::*;
use crate::codec::testing::{Dice, Packer, check_damaged, decoded, encoded, hex};

/// Parameters; stored by libhdf5; decoded by libhdf5.
const SAMPLES: &[(&[u32], &str, &str)] = &[
    // 12 bits above 2 others, little-endian.
    (&[8, 0, 9, 1, 2, 0, 12, 2], "00001f07c1171f030745c5ef7c00", "00007c00f0015c04c0071c0c7011bc17001f"),
    // 20 bits above 5 others, big-endian.
    (
        &[8, 0, 6, 1, 4, 1, 20, 5],
        "0000000137004dc00aef0137001e5f00",
        "00000000000026e000009b8000015de000026e000003cbe0",
    ),
    // A compound with a gap in front: a number, a string, an array of numbers.
    (
        &[23, 0, 4, 3, 16, 3, 1, 1, 2, 0, 12, 0, 4, 4, 3, 8, 2, 6, 1, 3, 1, 17, 4],
        "000783079000030d2caf1e0c5e44e1eea5a578783279270f445a60d1e0cde4ea5b387800",
        "00000000783079000000000c34b0000000bc0200783179000270f00ea5a00000007805007832790004e1e01116900000
         00340800783379000752d01387800000",
    ),
    // More than 64 bits, in both orders.
    (
        &[8, 0, 3, 1, 16, 0, 100, 11],
        "123456789abcdef01234567892468acf13579bde02468acf12369d0369d0369cd0369d0369b0",
        "00483c2b1a09786f5e4d3c2b1a090000009078563412f0debc9a78563412000000d8b4814e1b684e1be8b4814e1b0000",
    ),
    (
        &[8, 0, 3, 1, 9, 1, 65, 3],
        "91a2b3c4d5e6f78091a2b3c4d5e6f780ad3a06d3a06d39a060",
        "091a2b3c4d5e6f7808023456789abcdef0100b4e81b4e81b4e6818",
    ),
    // No padding; opaque bytes, without a description.
    (&[8, 1, 5, 1, 2, 0, 16, 0], "00000100020003000400", "00000100020003000400"),
    (&[3, 1, 5], "00000100020003000400", "00000100020003000400"),
    // A member after an array of arrays: its value was lost on writing.
    (
        &[22, 0, 2, 3, 32, 2, 0, 2, 24, 2, 8, 1, 4, 0, 20, 0, 24, 1, 4, 0, 20, 0],
        "0000112fd225fa338f744bf455ef1625fa30000412fd525fa638f774bf485ef1925fa600",
        "01000000d22f0100a35f0200748f030045bf040016ef0500000000000000000004000000d52f0100a65f0200778f0300
         48bf040019ef05000000000000000000",
    ),
];

#[test]
fn as_libhdf5_has_it() {
    for (parameters, stored, bytes) in SAMPLES {
        let bytes = hex(bytes);
        assert_eq!(decoded(&NBit, &hex(stored), parameters, bytes.len()).unwrap(), bytes, "{parameters:?}");
        match encoded(&NBit, &bytes, parameters) {
            Ok(own) => assert_eq!(own, hex(stored), "{parameters:?}"),
            // The last sample.
            Err(error) => assert!(error.kind() == ErrorKind::Unsupported && parameters[0] == 22, "{error}"),
        }
    }
}

/// Datatype: its size, and the stored bits in order, as pairs of byte and bit.
struct Layout {
    size: usize,
    bits: Vec<(usize, u32)>,
}

impl Layout {
    fn at(&self, start: usize) -> impl Iterator<Item = (usize, u32)> {
        self.bits.iter().map(move |(byte, bit)| (byte + start, *bit))
    }
}

/// Appends the parameters of a random datatype. An array of arrays or compounds corrupts the following
/// members of a compound, so it may only come `last`.
fn describe(dice: &mut Dice, depth: u32, last: bool, parameters: &mut Vec<u32>) -> Layout {
    let class = match depth {
        0 => [2, 3][dice.below(2)],
        1..4 => [1, 1, 1, 4, 2, 3][dice.below(6)],
        _ => [1, 4][dice.below(2)],
    };
    parameters.push(class);
    let (at, count) = (parameters.len(), 1 + dice.below(4));
    let (mut size, mut bits) = (0, Vec::new());
    match class {
        1 => {
            let widest = [8, 8, 20][dice.below(3)];
            size = 1 + dice.below(widest);
            let precision = 1 + dice.below(size * 8);
            let offset = dice.below(size * 8 - precision + 1);
            let order = dice.below(2);
            parameters.extend([size, order, precision, offset].map(|value| value as u32));
            let byte = |bit| if order == 0 { bit / 8 } else { size - 1 - bit / 8 };
            bits.extend((offset..offset + precision).rev().map(|bit| (byte(bit), (bit % 8) as u32)));
        }
        2 => {
            parameters.push(0);
            let base = loop {
                let base = describe(dice, depth + 1, last, parameters);
                if last || matches!(parameters[at + 1], 1 | 4) {
                    break base;
                }
                parameters.truncate(at + 1);
            };
            bits.extend((0..count).flat_map(|number| base.at(number * base.size)));
            size = base.size * count;
            parameters[at] = size as u32;
        }
        3 => {
            parameters.extend([0, count as u32]);
            for member in 0..count {
                size += dice.below(3);
                parameters.push(size as u32);
                let member = describe(dice, depth + 1, last && member + 1 == count, parameters);
                bits.extend(member.at(size));
                size += member.size;
            }
            size += dice.below(3);
            parameters[at] = size as u32;
        }
        _ => {
            size = 1 + dice.below(20);
            parameters.push(size as u32);
            bits.extend((0..size).flat_map(|byte| (0..8).rev().map(move |bit| (byte, bit))));
        }
    }
    Layout { size, bits }
}

#[test]
fn types_of_every_kind() {
    let mut dice = Dice::new(3);
    for round in 0..300 {
        let mut parameters = vec![0, 0, 30];
        let Layout { size, bits } = describe(&mut dice, 0, true, &mut parameters);
        parameters[0] = parameters.len() as u32;
        let (mut packer, mut expected) = (Packer::default(), vec![0; size * 30]);
        for element in expected.chunks_mut(size) {
            let content = dice.bytes(size);
            for (byte, bit) in &bits {
                let value = content[*byte] >> bit & 1;
                packer.put(value.into(), 1);
                element[*byte] |= value << bit;
            }
        }
        let done = decoded(&NBit, &packer.bytes, &parameters, expected.len()).unwrap();
        assert!(done == expected, "{round} {parameters:?}");
        let mut own = encoded(&NBit, &expected, &parameters).unwrap();
        assert_eq!(own.len(), bits.len() * 30 / 8 + 1);
        own.truncate(packer.bytes.len());
        assert!(own == packer.bytes, "{round} {parameters:?}");
        let short = &packer.bytes[..packer.bytes.len() - 1];
        decoded(&NBit, short, &parameters, expected.len()).unwrap_err();
    }
}

#[test]
fn damage() {
    let check = |parameters: &[u32], size, kind| {
        let error = decoded(&NBit, &[7; 64], parameters, size).unwrap_err();
        assert_eq!(error.kind(), kind, "{parameters:?}: {error}");
    };
    let wrong = ErrorKind::Filter;
    check(&[], 8, wrong);
    check(&[9, 0, 4, 1, 2, 0, 12, 2], 8, wrong);
    check(&[3, 0, 4], 8, wrong);
    check(&[8, 0, 4, 5, 2, 0, 12, 2], 8, wrong);
    check(&[8, 0, 4, 1, 0, 0, 0, 0], 8, wrong);
    check(&[8, 0, 4, 1, 2, 0, 12, 5], 8, wrong);
    check(&[8, 0, 4, 1, 2, 0, u32::MAX, 2], 8, wrong);
    check(&[8, 0, 400, 1, 2, 0, 2, 2], 800, wrong);
    // Numbers without bits are zeros.
    for offset in [0, 3, 8, 16] {
        let parameters = [12, 0, 9, 3, 2, 1, 0, 1, 2, 0, 0, offset];
        assert_eq!(decoded(&NBit, &[], &parameters, 18).unwrap(), [0; 18], "{offset}");
    }
    check(&[8, 0, u32::MAX, 1, u32::MAX, 0, 0, 0], 8, ErrorKind::Limit);
    // A member larger than its compound; one past its end; two as large as it.
    check(&[12, 0, 1, 3, 4, 1, 0, 1, 5, 0, 40, 0], 4, wrong);
    check(&[12, 0, 1, 3, 4, 1, 3, 1, 2, 0, 16, 0], 4, wrong);
    check(&[12, 0, 1, 3, 4, 2, 0, 4, 3, 0, 4, 3], 4, wrong);
    let deep: Vec<u32> = [404, 0, 1].into_iter().chain([2, 8].repeat(200)).chain([9]).collect();
    check(&deep, 8, ErrorKind::Limit);
    for (parameters, stored, bytes) in SAMPLES {
        check_damaged(&NBit, &hex(stored), parameters, hex(bytes).len());
    }
}
