use super::*;
use crate::parse::testing::Maker;

fn parsed(bytes: &[u8]) -> Result<StoredSelection> {
    let mut cursor = Cursor::new(bytes, "", 0);
    parse(&mut cursor).inspect(|_| assert_eq!(cursor.left(), 0))
}

fn check(bytes: Maker, expected: Option<StoredSelection>) {
    assert_eq!(parsed(&bytes.0).ok(), expected, "{:?}", bytes.0);
    // Every truncation is detected.
    for length in 0..bytes.0.len() {
        assert!(parsed(&bytes.0[..length]).is_err(), "{length} bytes of {:?}", bytes.0);
    }
}

fn u32s(numbers: &[u32]) -> Maker {
    Maker::default().u32s(numbers)
}

fn slab(start: u64, stride: u64, count: Option<u64>, block: Option<u64>) -> Hyperslab {
    Hyperslab { start, stride, count, block }
}

#[test]
fn none_and_all() {
    check(u32s(&[0, 1, 0, 0]), Some(StoredSelection::None));
    check(u32s(&[3, 1, 0, 0]), Some(StoredSelection::All));
    check(u32s(&[3, 2, 0, 0]), None);
    check(u32s(&[4, 1, 0, 0]), None);
}

#[test]
fn points_of_both_versions() {
    let two =
        |coordinates: &[u64]| Some(StoredSelection::Points { rank: 2, coordinates: coordinates.to_vec() });
    check(u32s(&[1, 1, 0, 0, 2, 2, 5, 6, 1, 2]), two(&[5, 6, 1, 2]));
    check(u32s(&[1, 2]).u8s(&[2]).u32s(&[2]).u16s(&[2, 5, 6, 1, 2]), two(&[5, 6, 1, 2]));
    check(u32s(&[1, 2]).u8s(&[8]).u32s(&[2]).u64s(&[1, 1 << 40, 9]), two(&[1 << 40, 9]));
    check(u32s(&[1, 1, 0, 0, 2, 0]), Some(StoredSelection::None));
    check(u32s(&[1, 1, 0, 0, 0, 1]), None);
    check(u32s(&[1, 1, 0, 0, 33, 1]), None);
    check(u32s(&[1, 1, 0, 0, 2, u32::MAX, 5, 6]), None);
    check(u32s(&[1, 2]).u8s(&[3]).u32s(&[2]), None);
    check(u32s(&[1, 2]).u8s(&[8]).u32s(&[32]).u64s(&[1 << 60]), None);
}

#[test]
fn regular_hyperslabs() {
    let version_3 = |width| u32s(&[2, 3]).u8s(&[1, width]).u32s(&[1]);
    let one = |slab| Some(StoredSelection::Regular(vec![slab]));
    check(version_3(2).u16s(&[1, 4, 3, 2]), one(slab(1, 4, Some(3), Some(2))));
    check(version_3(2).u16s(&[1, 4, 0xffff, 2]), one(slab(1, 4, None, Some(2))));
    check(version_3(4).u32s(&[1, 1, 1, u32::MAX]), one(slab(1, 1, Some(1), None)));
    check(version_3(8).u64s(&[0, 1 << 40, 2, 0xffff]), one(slab(0, 1 << 40, Some(2), Some(0xffff))));
    let version_2 = u32s(&[2, 2]).u8s(&[1, 0, 0, 0, 0]).u32s(&[1]);
    check(version_2.u64s(&[1, 4, u64::MAX, 2]), one(slab(1, 4, None, Some(2))));
    check(version_3(2).u16s(&[1, 4, 0, 2]), Some(StoredSelection::None));
    check(version_3(2).u16s(&[1, 0, 1, 2]), one(slab(1, 1, Some(1), Some(2))));
    // Overlapping, unlimited twice, or too far.
    check(version_3(2).u16s(&[1, 1, 3, 2]), None);
    check(version_3(2).u16s(&[1, 0, 3, 2]), None);
    check(version_3(2).u16s(&[1, 4, 0xffff, 0xffff]), None);
    check(version_3(2).u16s(&[1, 4, 3, 0xffff]), None);
    check(version_3(8).u64s(&[1, 1 << 60, 1 << 60, 2]), None);
    check(u32s(&[2, 3]).u8s(&[3, 2]).u32s(&[1]), None);
    let twice = u32s(&[2, 3]).u8s(&[1, 2]).u32s(&[2]).u16s(&[1, 4, 0xffff, 2, 1, 4, 0xffff, 2]);
    check(twice, None);
}

#[test]
fn lists_of_blocks() {
    let blocks = |numbers: &[u32]| {
        let count = u32::try_from(numbers.len() / 4).unwrap();
        u32s(&[2, 1, 0, 0, 2, count]).u32s(numbers)
    };
    let accepted = |numbers: &[u32]| {
        let corners = numbers.iter().copied().map(u64::from).collect();
        check(blocks(numbers), Some(StoredSelection::Blocks { rank: 2, corners }));
    };
    accepted(&[0, 0, 1, 1, 0, 3, 1, 4, 2, 0, 2, 9]);
    accepted(&[2, 0, 2, 9, 0, 0, 1, 1, 0, 3, 1, 4]);
    accepted(&[0, 0, 9, 1, 3, 2, 4, 5]);
    check(blocks(&[0, 0, 1, 1, 1, 1, 2, 2]), None);
    check(blocks(&[0, 0, 9, 1, 5, 5, 6, 6, 2, 1, 2, 2]), None);
    check(blocks(&[0, 0, 1, 1, 0, 0, 1, 1]), None);
    check(blocks(&[0, 2, 1, 1]), None);
    check(blocks(&[]), Some(StoredSelection::None));
    let version_3 = u32s(&[2, 3]).u8s(&[0, 2]).u32s(&[1]).u16s(&[1, 5, 7]);
    check(version_3, Some(StoredSelection::Blocks { rank: 1, corners: vec![5, 7] }));
}
