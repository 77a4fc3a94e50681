use super::*;
use crate::ErrorKind;

fn read(bytes: &[u8]) -> StoredSelection {
    let mut cursor = Cursor::new(bytes, "", 0);
    let selection = parse::parse(&mut cursor).unwrap();
    assert_eq!(cursor.left(), 0);
    selection
}

fn slab(start: u64, stride: u64, count: Option<u64>, block: Option<u64>) -> Hyperslab {
    Hyperslab { start, stride, count, block }
}

fn points(rank: usize, coordinates: &[u64]) -> StoredSelection {
    StoredSelection::Points { rank, coordinates: coordinates.to_vec() }
}

fn blocks(rank: usize, corners: &[u64]) -> StoredSelection {
    StoredSelection::Blocks { rank, corners: corners.to_vec() }
}

#[test]
fn what_is_written_is_read() {
    let check = |selection: &StoredSelection, from: LibVersion| {
        for oldest in [LibVersion::V18, LibVersion::V110, LibVersion::V200] {
            match encode(selection, oldest) {
                Ok(bytes) => assert_eq!(read(&bytes), *selection),
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::Unsupported);
                    assert!(oldest < from, "{error}");
                }
            }
        }
        assert!(encode(selection, from).is_ok());
    };
    check(&StoredSelection::None, LibVersion::V18);
    check(&StoredSelection::All, LibVersion::V18);
    check(&points(1, &[5]), LibVersion::V18);
    check(&points(3, &[5, 6, 7, 0, 0, u64::from(u32::MAX)]), LibVersion::V18);
    check(&points(2, &[5, 1 << 32]), LibVersion::V200);
    check(&blocks(1, &[5, 7, 9, 9]), LibVersion::V18);
    check(&blocks(2, &[0, 0, 1, 1, 0, 3, 1, u64::from(u32::MAX)]), LibVersion::V18);
    check(&blocks(2, &[0, 0, 1, 1, 0, 3, 1, 1 << 32]), LibVersion::V200);
    for oldest in [LibVersion::V110, LibVersion::V200] {
        for last in [slab(1, 4, Some(3), Some(2)), slab(1, 4, None, Some(2)), slab(1, 1, Some(1), None)] {
            let selection = StoredSelection::Regular(vec![slab(1 << 40, 1, Some(1), Some(1)), last]);
            assert_eq!(read(&encode(&selection, oldest).unwrap()), selection);
        }
    }
}

#[test]
fn old_readers_get_lists_of_blocks() {
    let selection =
        StoredSelection::Regular(vec![slab(1, 4, Some(2), Some(2)), slab(0, 10, Some(2), Some(3))]);
    let expected = blocks(2, &[1, 0, 2, 2, 1, 10, 2, 12, 5, 0, 6, 2, 5, 10, 6, 12]);
    assert_eq!(read(&encode(&selection, LibVersion::V18).unwrap()), expected);
    let kind = |slabs| encode(&StoredSelection::Regular(slabs), LibVersion::V18).unwrap_err().kind();
    assert_eq!(kind(vec![slab(1, 4, None, Some(2))]), ErrorKind::Unsupported);
    assert_eq!(kind(vec![slab(1, 4, Some(1 << 30), Some(2))]), ErrorKind::Limit);
    assert_eq!(kind(vec![slab(1, 1 << 63, Some(3), Some(2))]), ErrorKind::Invalid);
}

#[test]
fn nothing_is_none() {
    for selection in [
        points(2, &[]),
        blocks(2, &[]),
        StoredSelection::Regular(vec![slab(1, 4, Some(0), Some(2))]),
        StoredSelection::Regular(vec![slab(1, 4, Some(3), Some(0))]),
    ] {
        assert_eq!(
            encode(&selection, LibVersion::V18).unwrap(),
            encode(&StoredSelection::None, LibVersion::V18).unwrap()
        );
    }
}

#[test]
fn what_makes_no_sense_is_not_written() {
    let refused = |selection: &StoredSelection| assert!(encode(selection, LibVersion::V200).is_err());
    refused(&points(2, &[1, 2, 3]));
    refused(&points(0, &[1]));
    refused(&points(33, &[1; 33]));
    refused(&blocks(2, &[1, 2]));
    refused(&blocks(1, &[2, 1]));
    refused(&blocks(1, &[1, 3, 2, 4]));
    refused(&StoredSelection::Regular(vec![]));
    refused(&StoredSelection::Regular(vec![slab(0, 1, Some(2), Some(2))]));
    refused(&StoredSelection::Regular(vec![slab(0, 4, None, None)]));
    refused(&StoredSelection::Regular(vec![slab(0, 4, Some(u64::MAX), Some(1))]));
    refused(&StoredSelection::Regular(vec![slab(0, 4, None, Some(1)); 2]));
}
