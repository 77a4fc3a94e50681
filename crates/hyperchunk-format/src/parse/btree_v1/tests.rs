use super::*;
use crate::parse::testing::{Maker, survives_damage, with_image};

const UNDEFINED: u64 = u64::MAX;

/// Creates a root of level 1 at 0, with leaves at 64 and 128; keys are codes of single letters.
fn group() -> Vec<u8> {
    let node = |maker: Maker, level, entries: &[u64]| {
        let children = (entries.len() / 2) as u16;
        maker.raw(b"TREE").u8s(&[0, level]).u16s(&[children]).u64s(&[UNDEFINED; 2]).u64s(entries)
    };
    let file = node(Maker::default(), 1, &[0, 64, 50, 128, 99]);
    let file = node(file.to(64), 0, &[0, 1000, 50]);
    node(file.to(128), 0, &[50, 1001, 70, 1002, 99]).0
}

fn find(image: Image<'_>, name: u64) -> Result<Option<u64>> {
    find_group_leaf(image, 0, &mut |key| Ok(key.cmp(&name)))
}

#[test]
fn group_is_listed_and_searched() {
    let file = group();
    assert_eq!(with_image(&file, |image| group_leaves(image, 0)).unwrap(), [1000, 1001, 1002]);
    for (name, leaf) in [
        (0, None),
        (1, Some(1000)),
        (50, Some(1000)),
        (51, Some(1001)),
        (70, Some(1001)),
        (71, Some(1002)),
        (99, Some(1002)),
        (100, None),
    ] {
        assert_eq!(with_image(&file, |image| find(image, name)).unwrap(), leaf, "{name}");
    }
}

#[test]
fn damaged_groups_are_refused() {
    let check = |at: usize, byte: u8, message: &str| {
        let mut file = group();
        file[at] = byte;
        let error = with_image(&file, |image| group_leaves(image, 0)).unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
    };
    check(0, b'X', "signature `TREE` expected");
    check(4, 1, "type 1 instead of 0");
    check(5, 2, "level");
    check(6, 60, "the file ends");
    // The root as its own child: the levels do not decrease.
    check(32, 0, "level");
    check(64 + 5, 1, "level");
    survives_damage(&group(), |image| {
        drop(group_leaves(image, 0));
        drop(find(image, 60));
    });
}

#[test]
fn a_cycle_ends() {
    // 256 levels; all children of a node are the next node.
    let mut file = Maker::default();
    for level in (0..=255_u8).rev() {
        let next = (u64::from(255 - level) + 1) * 1024;
        let entries: Vec<u64> = (0..60).flat_map(|key| [key, next]).chain([61]).collect();
        file = file.to(1024 * usize::from(255 - level));
        file = file.raw(b"TREE").u8s(&[0, level]).u16s(&[60]).u64s(&[UNDEFINED; 2]).u64s(&entries);
    }
    let error = with_image(&file.0, |image| group_leaves(image, 0)).unwrap_err();
    assert!(error.to_string().contains("overlap or form a cycle"), "{error}");
}

#[test]
fn an_empty_group_has_no_leaves() {
    let file = Maker::default().raw(b"TREE").u8s(&[0, 0]).u16s(&[0]).u64s(&[UNDEFINED; 2]).0;
    assert_eq!(with_image(&file, |image| group_leaves(image, 0)).unwrap(), []);
    assert_eq!(with_image(&file, |image| find(image, 5)).unwrap(), None);
}
