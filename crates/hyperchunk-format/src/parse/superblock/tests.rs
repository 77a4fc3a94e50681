use super::*;
use crate::parse::testing::{Maker, survives_damage};

fn parsed(file: &[u8]) -> Result<Superblock> {
    let limits = Limits::default();
    parse(&file, &limits, &Fuel::new(&limits))
}

fn refused(file: &[u8], kind: ErrorKind, message: &str) {
    let error = parsed(file).unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    assert!(error.to_string().contains(message), "{error}");
}

/// Creates version 0 or 1 with offsets and lengths of 4 bytes, at `offset`.
fn old(version: u8, offset: usize, base: u32, driver: u32) -> Vec<u8> {
    let maker = Maker::default().to(offset).raw(SIGNATURE);
    let maker = maker.u8s(&[version, 0, 0, 0, 0, 4, 4, 0]).u16s(&[5, 17]).u32s(&[0]);
    let maker = if version == 1 { maker.u16s(&[33, 0]) } else { maker };
    maker.u32s(&[base, u32::MAX, base + 400, driver]).u32s(&[0, 96]).to(offset + 400).0
}

/// Creates version 2 or 3.
fn new(version: u8, flags: u8, numbers: [u64; 4]) -> Vec<u8> {
    let maker = Maker::default().raw(SIGNATURE).u8s(&[version, 8, 8, flags]);
    maker.u64s(&numbers).checksum(0).to(400).0
}

/// Creates an object header of version 1 with one message, at 200.
fn with_extension(kind: u16, data: &[u8]) -> Vec<u8> {
    let mut data = data.to_vec();
    data.resize(data.len().next_multiple_of(8), 0);
    let size = u16::try_from(data.len()).unwrap();
    let file = new(2, 0, [0, 200, 400, 48])[..200].to_vec();
    let header = Maker(file).u8s(&[1, 0, 1, 0]).u32s(&[1, u32::from(size) + 8, 0]);
    header.u16s(&[kind, size]).u32s(&[0]).raw(&data).to(400).0
}

#[test]
fn old_versions() {
    let superblock = parsed(&old(0, 0, 0, u32::MAX)).unwrap();
    assert_eq!(superblock.sizes, Sizes { address: 4, length: 4 });
    assert_eq!((superblock.version, superblock.base, superblock.end, superblock.root), (0, 0, 400, 96));
    assert_eq!((superblock.group_leaf_k, superblock.group_internal_k, superblock.chunk_k), (5, 17, 32));
    assert_eq!(parsed(&old(1, 0, 0, u32::MAX)).unwrap().chunk_k, 33);
}

#[test]
fn user_blocks() {
    for offset in [512, 1024, 65536] {
        let place = u32::try_from(offset).unwrap();
        // The stored base is correct, or predates the user block.
        for base in [place, 0] {
            let file = old(0, offset, base, u32::MAX);
            let superblock = parsed(&file).unwrap();
            assert_eq!((superblock.base, superblock.end), (u64::from(place), 400));
            assert!(check_end(&superblock, file.len() as u64).is_ok());
            let error = check_end(&superblock, file.len() as u64 - 1).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Truncated);
        }
    }
    refused(&old(0, 513, 0, u32::MAX), ErrorKind::NotHdf5, "signature");
    refused(b"", ErrorKind::NotHdf5, "signature");
}

#[test]
fn new_versions() {
    let superblock = parsed(&new(3, 0, [0, u64::MAX, 400, 48])).unwrap();
    assert_eq!((superblock.version, superblock.end, superblock.root), (3, 400, 48));
    assert_eq!((superblock.group_leaf_k, superblock.group_internal_k, superblock.chunk_k), (4, 16, 32));
    assert!(check_flags(&superblock).is_ok());
    for (version, flags, locked) in [(2, 5, false), (3, 1, true), (3, 2, false), (3, 4, true), (3, 5, true)] {
        let superblock = parsed(&new(version, flags, [0, u64::MAX, 400, 48])).unwrap();
        assert_eq!(check_flags(&superblock).is_err(), locked, "{version} {flags}");
    }
    let mut damaged = new(2, 0, [0, u64::MAX, 400, 48]);
    damaged[40] ^= 1;
    refused(&damaged, ErrorKind::Corrupt, "checksum");
}

#[test]
fn contradictions() {
    refused(&new(4, 0, [0, u64::MAX, 400, 48]), ErrorKind::Unsupported, "version 4");
    refused(&new(2, 8, [0, u64::MAX, 400, 48]), ErrorKind::Corrupt, "flags");
    refused(&new(2, 0, [u64::MAX, u64::MAX, 400, 48]), ErrorKind::Corrupt, "undefined");
    refused(&new(2, 0, [400, u64::MAX, 400, 48]), ErrorKind::Corrupt, "not before the end");
    refused(&new(2, 0, [0, u64::MAX, 400, 400]), ErrorKind::Corrupt, "beyond the end");
    refused(&new(2, 0, [0, u64::MAX, 400, u64::MAX]), ErrorKind::Corrupt, "undefined");
    refused(&new(2, 0, [0, 400, 400, 48]), ErrorKind::Corrupt, "beyond the end");
    let changed = |at: usize, byte: u8| {
        let mut file = old(0, 0, 0, u32::MAX);
        file[at] = byte;
        file
    };
    refused(&changed(13, 3), ErrorKind::Corrupt, "offsets of 3");
    refused(&changed(9, 1), ErrorKind::Corrupt, "version 1 of the free-space storage");
    refused(&changed(16, 0), ErrorKind::Corrupt, "K is 0");
    refused(&changed(31, 0), ErrorKind::Corrupt, "free space");
}

#[test]
fn split_files() {
    let with_driver = |name: &[u8]| {
        let mut file = old(0, 0, 0, 100);
        file[108..116].copy_from_slice(name);
        file
    };
    refused(&with_driver(b"NCSAmult"), ErrorKind::Unsupported, "`multi` driver");
    refused(&with_driver(b"NCSAfami"), ErrorKind::Unsupported, "`family` driver");
    assert!(parsed(&with_driver(b"LANLsomE")).is_ok());
    assert!(parsed(&old(0, 0, 0, 399)).is_ok());
    let message = Maker::default().raw(b"\0NCSAmult\x02\0ab").0;
    refused(&with_extension(message::DRIVER_INFORMATION, &message), ErrorKind::Unsupported, "`multi`");
}

#[test]
fn extensions() {
    let parsed = |kind, data: Maker| parsed(&with_extension(kind, &data.0));
    let table = Maker::default().u8s(&[0]).u64s(&[300]).u8s(&[2]);
    let found = parsed(message::SHARED_MESSAGE_TABLE, table).unwrap().shared_messages;
    assert_eq!(found, Some(SharedMessageTable { address: 300, indexes: 2 }));
    let k = parsed(message::BTREE_K, Maker::default().u8s(&[0]).u16s(&[7, 8, 9])).unwrap();
    assert_eq!((k.chunk_k, k.group_internal_k, k.group_leaf_k), (7, 8, 9));
    let image = |address, size| {
        let data = Maker::default().u8s(&[0]).u64s(&[address, size]);
        parsed(message::CACHE_IMAGE, data).map(|superblock| superblock.cache_image)
    };
    assert_eq!(image(300, 100).unwrap(), Some(CacheImage { address: 300, size: 100 }));
    assert_eq!(image(u64::MAX, 0).unwrap(), None);
    assert!(image(300, 101).is_err());
    assert!(image(u64::MAX - 1, 9).is_err());
}

#[test]
fn damage_is_survived() {
    let limits = Limits::default();
    let table = Maker::default().u8s(&[0]).u64s(&[300]).u8s(&[2]).0;
    for file in [old(1, 0, 0, 100), with_extension(message::SHARED_MESSAGE_TABLE, &table)] {
        survives_damage(&file, |image| {
            let bytes = image.read_up_to("", 0, 400).unwrap_or_default();
            drop(parse(&&*bytes, &limits, &Fuel::new(&limits)));
        });
    }
}
