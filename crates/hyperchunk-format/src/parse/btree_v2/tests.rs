use super::*;
use crate::ErrorKind;
use crate::parse::testing::{Maker, survives_damage, with_image};

/// Creates a tree with records of 2 bytes in nodes of 41: 15 in a leaf, 2 in an inner node, 1 in the root.
fn tree() -> Vec<u8> {
    make_tree(11, 8)
}

/// Creates that tree with other counts: of all records, and of a subtree's.
fn make_tree(total: u64, below: u8) -> Vec<u8> {
    let file = Maker::default().raw(b"BTHD").u8s(&[0, 5]).u32s(&[41]).u16s(&[2, 2]).u8s(&[100, 40]);
    let mut file = file.u64s(&[64]).u16s(&[1]).u64s(&[total]).checksum(0);
    // A pointer in the root has address, count and total; the nodes below have address and count.
    file = file.to(64).raw(b"BTIN").u8s(&[0, 5]).u16s(&[50]);
    file = file.u64s(&[128]).u8s(&[2, below]).u64s(&[192]).u8s(&[0, 2]).checksum(64);
    file = file.to(128).raw(b"BTIN").u8s(&[0, 5]).u16s(&[20, 40]);
    file = file.u64s(&[256]).u8s(&[3]).u64s(&[320]).u8s(&[2]).u64s(&[384]).u8s(&[1]).checksum(128);
    file = file.to(192).raw(b"BTIN").u8s(&[0, 5]).u64s(&[448]).u8s(&[2]).checksum(192);
    for (at, records) in [(256, &[10, 11, 12][..]), (320, &[30, 31]), (384, &[45]), (448, &[60, 70])] {
        file = file.to(at).raw(b"BTLF").u8s(&[0, 5]).u16s(records).checksum(at);
    }
    file.0
}

const ALL: [u16; 11] = [10, 11, 12, 20, 30, 31, 40, 45, 50, 60, 70];

fn number(record: &[u8]) -> u16 {
    record.first_chunk().map_or(0, |bytes| u16::from_le_bytes(*bytes))
}

fn list(image: Image<'_>) -> Result<Vec<u16>> {
    let tree = BTree::open(image, 0, &[4, 5])?;
    Ok(tree.records(image)?.chunks_exact(tree.record_size()).map(number).collect())
}

fn find(image: Image<'_>, sought: u16) -> Result<Option<Vec<u8>>> {
    BTree::open(image, 0, &[5])?.find(image, &mut |record| Ok(number(record).cmp(&sought)))
}

#[test]
fn records_are_listed_in_order() {
    assert_eq!(with_image(&tree(), list).unwrap(), ALL);
    let tree = with_image(&tree(), |image| BTree::open(image, 0, &[5])).unwrap();
    assert_eq!((tree.kind(), tree.record_size(), tree.len(), tree.is_empty()), (5, 2, 11, false));
}

#[test]
fn records_are_found() {
    for sought in 0..80 {
        let found = with_image(&tree(), |image| find(image, sought)).unwrap();
        let expected = ALL.contains(&sought).then(|| sought.to_le_bytes().to_vec());
        assert_eq!(found, expected, "{sought}");
    }
}

#[test]
fn subtrees_are_left_out() {
    with_image(&tree(), |image| {
        let (mut seen, mut bounds) = (Vec::new(), Vec::new());
        let wanted = |left: Option<&[u8]>, right: Option<&[u8]>| {
            bounds.push((left.map(number), right.map(number)));
            Ok(left.is_none_or(|left| number(left) < 32) && right.is_none_or(|right| number(right) > 30))
        };
        let tree = BTree::open(image, 0, &[5]).unwrap();
        let each = |record: &[u8]| {
            seen.push(number(record));
            Ok(())
        };
        tree.walk(image, wanted, each).unwrap();
        let all = [
            (None, Some(50)),
            (Some(50), None),
            (None, Some(20)),
            (Some(20), Some(40)),
            (Some(40), Some(50)),
        ];
        assert_eq!(bounds, all);
        // The records of the visited nodes are included.
        assert_eq!(seen, [20, 30, 31, 40, 50]);
    });
}

#[test]
fn damage_is_refused() {
    let check = |at: usize, bytes: &[u8], message: &str| {
        crate::checksum::ignored(true, || {
            let mut file = tree();
            file[at..at + bytes.len()].copy_from_slice(bytes);
            let error = with_image(&file, list).unwrap_err();
            assert!(error.to_string().contains(message), "{error}");
        });
    };
    check(0, b"X", "signature `BTHD` expected");
    check(4, &[1], "version 1");
    check(5, &[6], "records of type 6");
    check(6, &[11, 0, 0, 0], "nodes of 11 bytes");
    check(10, &[0, 0], "records of 0");
    check(12, &[0xff, 0xff], "depth 65535");
    check(24, &[3], "a node of 3 records, which has room for 1");
    check(64 + 5, &[6], "a node of type 6 in a tree of type 5");
    check(128, b"BTLF", "signature `BTIN` expected");
    check(72, &[0xff; 8], "a pointer to None");
    check(80, &[16], "16 records");
    // The only child of a node is the node itself.
    check(198, &[192, 0], "signature `BTLF` expected");
    let mut file = tree();
    file[450] ^= 1;
    assert!(with_image(&file, list).unwrap_err().to_string().contains("checksum"));
    survives_damage(&tree(), |image| {
        drop(list(image));
        drop(find(image, 31));
    });
}

#[test]
fn a_tree_may_be_empty() {
    let file = Maker::default().raw(b"BTHD").u8s(&[0, 5]).u32s(&[512]).u16s(&[11, 0]).u8s(&[100, 40]);
    let file = file.u64s(&[u64::MAX]).u16s(&[0]).u64s(&[0]).checksum(0).0;
    assert_eq!(with_image(&file, list).unwrap(), []);
    assert_eq!(with_image(&file, |image| find(image, 5)).unwrap(), None);
}

#[test]
fn test_a_total_that_is_not_that_of_the_root_is_refused() {
    let counted = |bytes: &[u8]| with_image(bytes, |image| BTree::open(image, 0, &[5])?.count(image));
    assert_eq!(counted(&tree()).unwrap(), 11);
    for total in [0, 10, 12, u64::MAX] {
        let error = counted(&make_tree(total, 8)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
        assert!(error.to_string().contains("expected 11 records"), "{error}");
    }
    counted(&make_tree(11, 7)).unwrap_err();
    let leaf = Maker::default().raw(b"BTHD").u8s(&[0, 5]).u32s(&[41]).u16s(&[2, 0]).u8s(&[100, 40]);
    counted(&leaf.u64s(&[64]).u16s(&[2]).u64s(&[3]).checksum(0).0).unwrap_err();
    let none = Maker::default().raw(b"BTHD").u8s(&[0, 5]).u32s(&[41]).u16s(&[2, 0]).u8s(&[100, 40]);
    counted(&none.u64s(&[u64::MAX]).u16s(&[0]).u64s(&[3]).checksum(0).0).unwrap_err();
}
