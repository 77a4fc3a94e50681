use super::*;
use crate::model::Hyperslab;
use crate::parse::testing::{Maker, survives_damage, with_image};

const ALL: [u32; 4] = [3, 1, 0, 0];

/// Selects every second element from 1 on: `count` of them or, for 0xffff, all.
fn slab(maker: Maker, count: u16) -> Maker {
    maker.u32s(&[2, 3]).u8s(&[1, 2]).u32s(&[1]).u16s(&[1, 2, count, 1])
}

fn selection(count: Option<u64>) -> StoredSelection {
    StoredSelection::Regular(vec![Hyperslab { start: 1, stride: 2, count, block: Some(1) }])
}

fn name(parts: &[&str]) -> SourceName {
    SourceName { parts: parts.iter().map(|part| Name::from(*part)).collect() }
}

/// Creates a collection with the mappings as object 1.
fn collection(mappings: Maker) -> Vec<u8> {
    let object = mappings.checksum(0).0;
    let file = Maker::default().raw(b"GCOL").u8s(&[1, 0, 0, 0]).u64s(&[4096]);
    let file = file.u16s(&[1, 1, 0, 0]).u64s(&[object.len() as u64]).raw(&object);
    let at = file.0.len().next_multiple_of(8);
    file.to(at).u16s(&[0; 4]).u64s(&[4096 - at as u64]).to(4096).0
}

fn parsed(maker: Maker) -> Result<Vec<VirtualMapping>> {
    with_image(&collection(maker), |image| mappings(image, (0, 1)))
}

fn version_0(count: u64) -> Maker {
    Maker::default().u8s(&[0]).u64s(&[count])
}

#[test]
fn version_0_has_names_and_selections() {
    let maker = version_0(2).raw(b"a.h5\0x\0").u32s(&ALL);
    let maker = slab(slab(slab(maker, 4).raw(b".\0/g/d%%%b_%b\0"), 4), 0xffff);
    let expected = [
        VirtualMapping {
            file: name(&["a.h5"]),
            dataset: name(&["x"]),
            source: StoredSelection::All,
            target: selection(Some(4)),
        },
        VirtualMapping {
            file: name(&["."]),
            dataset: name(&["/g/d%", "_", ""]),
            source: selection(Some(4)),
            target: selection(None),
        },
    ];
    assert_eq!(parsed(maker).unwrap(), expected);
    assert_eq!(parsed(version_0(0)).unwrap(), []);
}

#[test]
fn version_1_shares_names() {
    let maker = Maker::default().u8s(&[1]).u64s(&[4]);
    let maker = slab(slab(maker.u8s(&[0]).raw(b"file\0set\0"), 4), 4);
    let maker = slab(slab(maker.u8s(&[SAME_FILE]).raw(b"other\0"), 4), 4);
    let maker = slab(slab(maker.u8s(&[FILE_SHARED]).u64s(&[0]).raw(b"new\0"), 4), 4);
    let maker = slab(slab(maker.u8s(&[FILE_SHARED | DATASET_SHARED]).u64s(&[1, 2]), 4), 4);
    let names: Vec<String> = parsed(maker)
        .unwrap()
        .iter()
        .map(|mapping| format!("{:?}{:?}", mapping.file.parts, mapping.dataset.parts))
        .collect();
    let expected = [r#"["file"]["set"]"#, r#"["."]["other"]"#, r#"["file"]["new"]"#, r#"["."]["new"]"#];
    assert_eq!(names, expected);
}

#[test]
fn what_makes_no_sense_is_refused() {
    let check = |maker: Maker, message: &str| {
        let error = parsed(maker).unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
    };
    let names = |file: &str, dataset: &str| {
        version_0(1).raw(file.as_bytes()).u8s(&[0]).raw(dataset.as_bytes()).u8s(&[0])
    };
    check(Maker::default().u8s(&[2]).u64s(&[0]), "version 2");
    check(version_0(1 << 60), "virtual_mappings");
    check(version_0(1), "closing NUL");
    check(version_0(1).raw(b"abc"), "closing NUL");
    check(slab(slab(names("a%", "b"), 4), 4), "neither `b` nor `%`");
    check(slab(slab(names("a", "%d"), 4), 4), "neither `b` nor `%`");
    check(slab(slab(names("a%b", "b"), 4), 4), "names with `%b`");
    check(slab(slab(names("a", "b"), 4), 0xffff), "a limited source");
    check(slab(slab(names("a%b", "b"), 0xffff), 0xffff), "names with `%b`");
    check(slab(slab(names("a", "b"), 0xffff), 4), "an unlimited source");
    check(slab(names("a", "b").u32s(&[1, 1, 0, 0, 1, 1, 7]), 1), "points");
    check(slab(slab(names("a", "b"), 4), 4).u8s(&[0]), "1 bytes more");
    let version_1 = |flags: u8| Maker::default().u8s(&[1]).u64s(&[1]).u8s(&[flags]);
    check(version_1(8), "flags 0x08");
    check(version_1(FILE_SHARED).u64s(&[0]), "shared with mapping 0");
    check(version_1(SAME_FILE | DATASET_SHARED).u64s(&[u64::MAX]), "shared with mapping");
    let error = with_image(&collection(version_0(0)), |image| mappings(image, (0, 2))).unwrap_err();
    assert!(error.to_string().contains("no object 2"), "{error}");
    let mut file = collection(version_0(0));
    file[33] ^= 1;
    assert!(with_image(&file, |image| mappings(image, (0, 1))).is_err());
}

#[test]
fn a_long_name_shared_by_many_is_not_copied_without_end() {
    let mut maker = Maker::default().u8s(&[1]).u64s(&[60]).u8s(&[SAME_FILE]).raw(&[b'x'; 3000]).u8s(&[0]);
    maker = maker.u32s(&ALL).u32s(&ALL);
    for _ in 1..60 {
        maker = maker.u8s(&[SAME_FILE | DATASET_SHARED]).u64s(&[0]).u32s(&[0, 1, 0, 0]).u32s(&[0, 1, 0, 0]);
    }
    let object = maker.checksum(0).0;
    let limits = crate::Limits { metadata_bytes: 100_000, ..crate::Limits::default() };
    let fuel = crate::Fuel::new(&limits);
    let sizes = crate::Sizes { address: 8, length: 8 };
    let none: &[u8] = &[];
    let error = parse(Image::new(&none, 0, sizes, &limits, &fuel), &object, 0).unwrap_err();
    assert!(error.to_string().contains("bytes of names"), "{error}");
}

#[test]
fn damage_is_survived() {
    let maker = Maker::default().u8s(&[1]).u64s(&[2]);
    let maker = slab(slab(maker.u8s(&[0]).raw(b"f%b\0s\0"), 4), 0xffff);
    let maker = slab(slab(maker.u8s(&[FILE_SHARED | DATASET_SHARED]).u64s(&[0, 0]), 4), 0xffff);
    survives_damage(&maker.checksum(0).0, |image| {
        let object = image.read("", 0, image.left(0)).unwrap_or_default();
        drop(parse(image, &object, 0));
    });
}
