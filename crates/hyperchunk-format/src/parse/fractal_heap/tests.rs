use super::*;
use crate::parse::testing::{Maker, in_steps, survives_damage, with_image};

const UNDEFINED: u64 = u64::MAX;
/// Addresses in the files below: the root block, and an indirect block in it.
const ROOT: usize = 400;
const NESTED: usize = 600;
const HUGE_TREE: usize = 2000;

/// Properties of a heap.
#[derive(Clone, Copy, Default)]
struct Kind {
    id_length: u16,
    filtered: bool,
    checksums: bool,
    indirect: bool,
}

impl Kind {
    /// Creates a heap with two blocks a row: two rows of 64 bytes, a row of 128, then rows of indirect
    /// blocks.
    fn file(self) -> Vec<u8> {
        // Pipeline version 2: shuffle, for elements of 4 bytes.
        let pipeline = Maker::default().u8s(&[2, 1]).u16s(&[2, 0, 1]).u32s(&[4]).0;
        let filter_length = if self.filtered { pipeline.len() } else { 0 };
        let file = Maker::default().raw(b"FRHP").u8s(&[0]).u16s(&[self.id_length, filter_length as u16]);
        let file = file.u8s(&[if self.checksums { 2 } else { 0 }]).u32s(&[100]);
        let file = file.u64s(&[3, HUGE_TREE as u64, 0, UNDEFINED]).u64s(&[1024, 0, 0, 0, 0, 0, 0, 0]);
        let rows = if self.indirect { 4 } else { 0 };
        let mut file = file.u16s(&[2]).u64s(&[64, 128]).u16s(&[16, 1]).u64s(&[ROOT as u64]).u16s(&[rows]);
        if self.filtered {
            file = file.u64s(&[64]).u32s(&[0]).raw(&pipeline);
        }
        file = file.checksum(0);
        if self.indirect {
            // Blocks of the root: the first of 64 bytes, the first of 128, and a nested block that has one.
            let entries =
                [(800, 0), (0, 0), (0, 0), (0, 0), (1000, 256), (0, 0), (NESTED as u64, 512), (0, 0)];
            file = self.indirect_block(file, ROOT, 0, &entries);
            file = self.indirect_block(file, NESTED, 512, &[(0, 0), (0, 0), (1200, 640), (0, 0)]);
            file = self.direct_block(file, 800, 64, 0, b"first");
            file = self.direct_block(file, 1000, 128, 256, b"second");
            file = self.direct_block(file, 1200, 64, 640, b"third");
        } else {
            file = self.direct_block(file, ROOT, 64, 0, b"first");
        }
        self.huge_tree(file).0
    }

    fn prefix(file: Maker, at: usize, signature: &[u8; 4], offset: u64) -> Maker {
        file.to(at).raw(signature).u8s(&[0]).u64s(&[0]).u16s(&[offset as u16])
    }

    fn indirect_block(self, file: Maker, at: usize, offset: u64, entries: &[(u64, u64)]) -> Maker {
        let mut file = Self::prefix(file, at, b"FHIB", offset);
        for (number, (address, _)) in entries.iter().enumerate() {
            file = file.u64s(&[if *address == 0 { UNDEFINED } else { *address }]);
            if self.filtered && number < 6 {
                let size = if *address == 1000 { 128 } else { 64 };
                // One block skipped the filter.
                file = file.u64s(&[size]).u32s(&[u32::from(*address == 1200)]);
            }
        }
        file.checksum(at)
    }

    /// Creates a direct block with one object, 20 bytes after its start.
    fn direct_block(self, file: Maker, at: usize, size: usize, offset: u64, object: &[u8]) -> Maker {
        let mut block = Self::prefix(Maker::default(), 0, b"FHDB", offset).to(20).raw(object).to(size).0;
        if self.checksums {
            let sum = checksum::lookup3(&block);
            block[15..19].copy_from_slice(&sum.to_le_bytes());
        }
        if self.filtered && at != 1200 {
            block = shuffled(&block);
        }
        file.to(at).raw(&block)
    }

    /// Creates a B-tree with two huge objects.
    fn huge_tree(self, file: Maker) -> Maker {
        let (kind, size) = if self.filtered { (2, 36) } else { (1, 24) };
        let file =
            file.to(HUGE_TREE).raw(b"BTHD").u8s(&[0, kind]).u32s(&[128]).u16s(&[size, 0]).u8s(&[100, 40]);
        let mut file = file.u64s(&[2100]).u16s(&[2]).u64s(&[2]).checksum(HUGE_TREE);
        file = file.to(2100).raw(b"BTLF").u8s(&[0, kind]);
        for (address, length, number) in [(2300_u64, 8_u64, 1_u64), (2350, 12, 0x0102)] {
            file = file.u64s(&[address, length]);
            if self.filtered {
                file = file.u32s(&[0]).u64s(&[length]);
            }
            file = file.u64s(&[number]);
        }
        let object = |object: &[u8]| if self.filtered { shuffled(object) } else { object.to_vec() };
        file.checksum(2100).to(2300).raw(&object(b"huge one")).to(2350).raw(&object(b"huge another"))
    }
}

/// Shuffles the bytes of elements of 4 bytes, first bytes first.
fn shuffled(bytes: &[u8]) -> Vec<u8> {
    (0..4).flat_map(|byte| bytes.iter().copied().skip(byte).step_by(4)).collect()
}

fn object(file: &[u8], id: &[u8]) -> Result<Vec<u8>> {
    with_image(file, |image| FractalHeap::open(image, 0)?.object(image, id))
}

/// Creates the id of a managed object from its offset and length.
fn managed(offset: u16, length: u8) -> Vec<u8> {
    Maker::default().u8s(&[0]).u16s(&[offset]).u8s(&[length, 0, 0, 0]).0
}

fn kinds() -> impl Iterator<Item = Kind> {
    (0..8).map(|bits| Kind {
        id_length: 7,
        filtered: bits & 1 != 0,
        checksums: bits & 2 != 0,
        indirect: bits & 4 != 0,
    })
}

#[test]
fn managed_objects() {
    for kind in kinds() {
        let file = kind.file();
        assert_eq!(object(&file, &managed(20, 5)).unwrap(), b"first");
        if kind.indirect {
            assert_eq!(object(&file, &managed(256 + 20, 6)).unwrap(), b"second");
            assert_eq!(object(&file, &managed(640 + 20, 5)).unwrap(), b"third");
            let (third, rounds) =
                in_steps(&file, |image| FractalHeap::open(image, 0)?.object(image, &managed(640 + 20, 5)));
            // Header, a second read of it if filtered, and a block of each level.
            assert_eq!((third.unwrap(), rounds), (b"third".to_vec(), if kind.filtered { 5 } else { 4 }));
        }
    }
}

#[test]
fn blocks_are_read_once() {
    with_image(&Kind { id_length: 7, indirect: true, ..Kind::default() }.file(), |image| {
        let heap = FractalHeap::open(image, 0).unwrap();
        // With less fuel than objects.
        for _ in 0..200_000 {
            assert_eq!(heap.object(image, &managed(20, 5)).unwrap(), b"first");
        }
        assert_eq!(heap.id_length(), 7);
    });
}

#[test]
fn an_object_of_many_ids_is_not_given_out_without_end() {
    let file = Kind { id_length: 7, ..Kind::default() }.file();
    let limits = crate::Limits { metadata_bytes: 1000, ..crate::Limits::default() };
    let fuel = crate::Fuel::new(&limits);
    let sizes = crate::Sizes { address: 8, length: 8 };
    let view = &*file;
    let image = Image::new(&view, 0, sizes, &limits, &fuel);
    let heap = FractalHeap::open(image, 0).unwrap();
    let most = (file.len() * 16 + 1000) / 5;
    assert!((0..most).all(|_| heap.object(image, &managed(20, 5)).is_ok()));
    assert!(heap.object(image, &managed(20, 5)).unwrap_err().to_string().contains("overlap"));
}

#[test]
fn huge_objects() {
    for kind in kinds() {
        let file = kind.file();
        assert_eq!(object(&file, &[0x10, 1, 0, 0, 0, 0, 0]).unwrap(), b"huge one");
        assert_eq!(object(&file, &[0x10, 2, 1, 0, 0, 0, 0]).unwrap(), b"huge another");
        let error = object(&file, &[0x10, 3, 0, 0, 0, 0, 0]).unwrap_err();
        assert!(error.to_string().contains("huge object 3 is not in the B-tree"), "{error}");
        // Longer ids hold the location themselves.
        let id = Maker::default().u8s(&[0x10]).u64s(&[2350, 12]);
        let id = if kind.filtered { id.u32s(&[0]).u64s(&[12]) } else { id };
        let file = Kind { id_length: id.0.len() as u16, ..kind }.file();
        assert_eq!(object(&file, &id.0).unwrap(), b"huge another");
    }
}

#[test]
fn tiny_objects() {
    let check = |id_length: u16, id: &[u8], expected: &[u8]| {
        let file = Kind { id_length, ..Kind::default() }.file();
        assert_eq!(object(&file, id).unwrap(), expected);
    };
    check(7, b"\x22abc", b"abc");
    check(18, b"\x2fabcdefghijklmnop", b"abcdefghijklmnop");
    check(19, b"\x20\x02abc", b"abc");
    let long = [&[0x21, 0x03][..], &[b'x'; 0x104]].concat();
    check(0x106, &long, &[b'x'; 0x104]);
    assert!(object(&Kind { id_length: 7, ..Kind::default() }.file(), b"\x23abc").is_err());
}

#[test]
fn what_is_not_there_is_refused() {
    let direct = Kind { id_length: 7, checksums: true, ..Kind::default() };
    let indirect = Kind { indirect: true, ..direct };
    let check = |kind: Kind, id: &[u8], message: &str| {
        let error = object(&kind.file(), id).unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
    };
    check(direct, &[], "bytes are needed");
    check(direct, &[0x40; 7], "starts with 0x40");
    check(direct, &[0x30; 7], "starts with 0x30");
    for id in [managed(0, 5), managed(20, 0), managed(1025, 5), managed(20, 101)] {
        check(direct, &id, "in the heap");
    }
    // In the prefix; past the block's end.
    check(direct, &managed(18, 5), "an object of 5 bytes at 18");
    check(direct, &managed(60, 5), "an object of 5 bytes at 60");
    check(indirect, &managed(64 + 20, 5), "lies in no block");
    check(indirect, &managed(900, 5), "lies in no block");
    check(indirect, &managed(1024, 5), "lies in no block");
}

#[test]
fn damage_is_refused() {
    let kind = Kind { id_length: 7, checksums: true, indirect: true, filtered: false };
    let refused = |at: usize, bytes: &[u8], ignored: bool, message: &str| {
        let mut file = kind.file();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        checksum::ignored(ignored, || {
            let error = object(&file, &managed(640 + 20, 5)).unwrap_err();
            assert!(error.to_string().contains(message), "{error}");
        });
    };
    refused(0, b"X", false, "signature `FRHP`");
    refused(14, &[1], false, "checksum");
    refused(110, &[3], true, "rows of 3 blocks");
    refused(112, &[65], true, "blocks of 65");
    refused(120, &[32], true, "to 32 bytes");
    refused(128, &[6], true, "6-bit offsets");
    refused(140, &[11], true, "11 rows");
    refused(140, &[3], true, "lies in no block");
    refused(ROOT + 5, &[1], true, "of the heap at Some(1)");
    refused(NESTED + 13, &[1], true, "a block at 513");
    refused(1200, b"X", true, "signature `FHDB`");
    refused(1200 + 40, &[1], false, "checksum");
    for kind in [kind, Kind { filtered: true, ..kind }] {
        survives_damage(&kind.file()[..1264], |image| {
            if let Ok(heap) = FractalHeap::open(image, 0) {
                drop(heap.object(image, &managed(20, 5)));
                drop(heap.object(image, &managed(640 + 20, 5)));
            }
        });
    }
}
