use super::*;
use crate::parse::testing::{Maker, in_steps, survives_damage, with_image};

/// Dataset with one kind of index, and its expected chunks.
struct Case {
    file: Vec<u8>,
    chunked: Chunked,
    dims: Vec<u64>,
    max: Vec<Option<u64>>,
    filtered: bool,
    expected: Vec<Chunk>,
    /// Number of fetches if no bytes are available.
    rounds: usize,
}

impl Case {
    fn map(&self) -> ChunkMap<'_> {
        ChunkMap { chunked: &self.chunked, dims: &self.dims, max: &self.max, filtered: self.filtered }
    }

    /// Lists all chunks and the chunks of every region, with all bytes available and with none.
    fn check(&self) {
        let listed = with_image(&self.file, |image| chunks(image, &self.map())).unwrap();
        assert_eq!(listed, self.expected);
        let (listed, rounds) = in_steps(&self.file, |image| chunks(image, &self.map()));
        assert_eq!((listed.unwrap(), rounds), (self.expected.clone(), self.rounds));
        for region in regions(&self.dims) {
            let inside =
                |chunk: &&Chunk| chunk.scaled.iter().zip(&region).all(|(at, range)| range.contains(at));
            let expected: Vec<Chunk> = self.expected.iter().filter(inside).cloned().collect();
            let listed = with_image(&self.file, |image| within(image, &self.map(), &region)).unwrap();
            assert_eq!(listed, expected, "{region:?}");
        }
    }

    /// Lists chunks of damaged files.
    fn damage(&self) {
        survives_damage(&self.file, |image| {
            if let Ok(chunks) = chunks(image, &self.map()) {
                assert!(chunks.len() < 1000);
            }
            drop(within(image, &self.map(), &vec![1..2; self.dims.len()]));
        });
    }

    /// Checks the error for the file with these bytes replaced and checksums ignored.
    fn refused(&self, at: usize, bytes: &[u8], message: &str) {
        let mut file = self.file.clone();
        file[at..at + bytes.len()].copy_from_slice(bytes);
        crate::checksum::ignored(true, || {
            let error = with_image(&file, |image| chunks(image, &self.map())).unwrap_err();
            assert!(error.to_string().contains(message), "{error}");
        });
    }
}

/// Returns all boxes of a grid of up to two dimensions.
fn regions(dims: &[u64]) -> Vec<Vec<Range<u64>>> {
    let ranges = |dim: u64| (0..=dim).flat_map(move |start| (start..=dim).map(move |end| start..end));
    match dims {
        [one] => ranges(*one).map(|range| vec![range]).collect(),
        [one, two] => ranges(*one).flat_map(|a| ranges(*two).map(move |b| vec![a.clone(), b])).collect(),
        _ => unimplemented!(),
    }
}

fn chunk(scaled: &[u64], address: u64, size: u64, filter_mask: u32) -> Chunk {
    Chunk { scaled: scaled.to_vec(), address, size, filter_mask }
}

fn chunked(dims: &[u64], element_size: u64, version: u8, index: ChunkIndex) -> Chunked {
    Chunked { dims: dims.to_vec(), element_size, edge_chunks_unfiltered: false, version, index }
}

const UNDEFINED: u64 = u64::MAX;

/// Creates a tree of two leaves; chunks of 2 × 3 elements of 4 bytes, filtered. The last chunk is outside the
/// extent.
fn btree_v1() -> Case {
    let node = |maker: Maker, at: usize, level: u8, children: u16| {
        maker.to(at).raw(b"TREE").u8s(&[1, level]).u16s(&[children]).u64s(&[UNDEFINED; 2])
    };
    let key = |maker: Maker, size: u32, mask: u32, offset: [u64; 2]| {
        maker.u32s(&[size, mask]).u64s(&offset).u64s(&[0])
    };
    let mut file = key(node(Maker::default(), 0, 1, 2), 10, 0, [0, 0]).u64s(&[256]);
    file = key(file, 12, 1, [2, 0]).u64s(&[512]);
    file = key(file, 0, 0, [8, 6]);
    file = key(node(file, 256, 0, 2), 10, 0, [0, 0]).u64s(&[1000]);
    file = key(file, 11, 0, [0, 3]).u64s(&[1100]);
    file = key(file, 12, 1, [2, 0]);
    file = key(node(file, 512, 0, 3), 12, 1, [2, 0]).u64s(&[1200]);
    file = key(file, 13, 2, [4, 3]).u64s(&[1300]);
    file = key(file, 14, 0, [6, 3]).u64s(&[1400]);
    // The last key of a tree has a 1 in the coordinate that is 0 elsewhere: 4, the size of an element.
    file = file.u32s(&[0; 2]).u64s(&[8, 6, 4]);
    Case {
        file: file.0,
        chunked: chunked(&[2, 3], 4, 3, ChunkIndex::BTreeV1 { address: Some(0) }),
        dims: vec![5, 4],
        max: vec![None, Some(4)],
        filtered: true,
        expected: vec![
            chunk(&[0, 0], 1000, 10, 0),
            chunk(&[0, 1], 1100, 11, 0),
            chunk(&[1, 0], 1200, 12, 1),
            chunk(&[2, 1], 1300, 13, 2),
        ],
        // The first read is as large as a usual node.
        rounds: 1,
    }
}

#[test]
fn chunks_in_a_version_1_tree() {
    let case = btree_v1();
    case.check();
    case.damage();
    case.refused(288, &[1], "expected a multiple of 2");
    case.refused(336, &[4], "expected a multiple of 3");
    case.refused(328, &[0; 16], "not in order");
    case.refused(0, b"X", "signature `TREE`");
    // The stored size is taken from the key, filtered or not; the reader of the chunk must detect a mismatch.
    Case { filtered: false, ..btree_v1() }.check();
}

/// Creates a root with one record and two leaves; chunks of one element, filtered: sizes have 2 bytes.
fn btree_v2() -> Case {
    let record = |maker: Maker, number: u16, scaled: [u64; 2]| {
        maker.u64s(&[1000 + u64::from(number)]).u16s(&[number]).u32s(&[u32::from(number) + 1]).u64s(&scaled)
    };
    let file = Maker::default().raw(b"BTHD").u8s(&[0, 11]).u32s(&[200]).u16s(&[30, 1]).u8s(&[100, 40]);
    let file = file.u64s(&[64]).u16s(&[1]).u64s(&[5]).checksum(0).to(64).raw(b"BTIN").u8s(&[0, 11]);
    let file = record(file, 3, [1, 2]).u64s(&[256]).u8s(&[2]).u64s(&[512]).u8s(&[2]).checksum(64);
    let file = file.to(256).raw(b"BTLF").u8s(&[0, 11]);
    let file = record(record(file, 1, [0, 1]), 2, [0, 3]).checksum(256);
    let file = file.to(512).raw(b"BTLF").u8s(&[0, 11]);
    let file = record(record(file, 4, [2, 0]), 5, [2, 1 << 60]).checksum(512);
    Case {
        file: file.0,
        chunked: chunked(&[1, 1], 4, 4, ChunkIndex::BTreeV2 { address: Some(0) }),
        dims: vec![3, 4],
        max: vec![None, None],
        filtered: true,
        expected: vec![
            chunk(&[0, 1], 1001, 1, 2),
            chunk(&[0, 3], 1002, 2, 3),
            chunk(&[1, 2], 1003, 3, 4),
            chunk(&[2, 0], 1004, 4, 5),
        ],
        rounds: 3,
    }
}

#[test]
fn chunks_in_a_version_2_tree() {
    let case = btree_v2();
    case.check();
    case.damage();
    case.refused(5, &[10], "records of type 10");
    case.refused(10, &[31], "records of 31 bytes instead of 30");
    case.refused(256 + 6 + 14, &[2], "not in order");
}

/// Creates a file with one chunk, or with all chunks contiguous.
#[test]
fn chunks_without_a_structure() {
    let single = |filtered: Option<(u64, u32)>, size, mask| Case {
        file: vec![0; 64],
        chunked: chunked(&[4, 3], 2, 4, ChunkIndex::Single { address: Some(40), filtered }),
        dims: vec![4, 2],
        max: vec![Some(4), Some(3)],
        filtered: filtered.is_some(),
        expected: vec![chunk(&[0, 0], 40, size, mask)],
        rounds: 0,
    };
    single(None, 24, 0).check();
    single(Some((7, 1)), 7, 1).check();
    let larger = Case { dims: vec![5, 2], ..single(None, 24, 0) };
    larger.refused(0, &[], "smaller than the dataset");

    let implicit = |bytes| Case {
        file: vec![0; bytes],
        chunked: chunked(&[2, 3], 2, 4, ChunkIndex::Implicit { address: Some(100) }),
        dims: vec![3, 3],
        max: vec![Some(3), Some(9)],
        filtered: false,
        // Space is allocated for the maximum extent.
        expected: vec![chunk(&[0, 0], 100, 12, 0), chunk(&[1, 0], 136, 12, 0)],
        rounds: 0,
    };
    implicit(148).check();
    implicit(148).damage();
    implicit(147).refused(0, &[], "the file ends before the end of 4 chunks");
    let huge = Case { dims: vec![u64::MAX, 3], max: vec![None, Some(9)], ..implicit(1000) };
    huge.refused(0, &[], "the file ends");
}

/// Creates an array of 2 × 5 chunks, 2 × 3 of them in the extent. Filtered records have an address, a size of
/// two bytes and a mask.
fn fixed_array(page_bits: u8, filtered: bool) -> Case {
    let size: u8 = if filtered { 8 + 2 + 4 } else { 8 };
    let element = |maker: Maker, number: u16| {
        let address = if number == 6 { UNDEFINED } else { 1000 + u64::from(number) };
        let maker = maker.u64s(&[address]);
        if filtered { maker.u16s(&[number]).u32s(&[9]) } else { maker }
    };
    let class = u8::from(filtered);
    let file = Maker::default().raw(b"FAHD").u8s(&[0, class, size, page_bits]).u64s(&[10, 64]).checksum(0);
    let mut file = file.to(64).raw(b"FADB").u8s(&[0, class]).u64s(&[0]);
    let page = 1_u16 << page_bits;
    let mut absent = vec![6];
    if page < 10 {
        // The second page is not initialized; its bytes in the file are ignored.
        file = file.u8s(&[if page == 2 { 0b1011_1000 } else { 0b1010_0000 }]).checksum(64);
        absent.extend(page..2 * page);
        for first in (0..10).step_by(page.into()) {
            let start = file.0.len();
            file = (first..10.min(first + page)).fold(file, element).checksum(start);
        }
    } else {
        file = (0..10).fold(file, element).checksum(64);
    }
    let numbers = [0, 1, 2, 5, 6, 7].into_iter().filter(|number| !absent.contains(number));
    let expected = numbers.map(|number| {
        let number = u64::from(number);
        let (stored, mask) = if filtered { (number, 9) } else { (12, 0) };
        chunk(&[number / 5, number % 5], 1000 + number, stored, mask)
    });
    Case {
        file: file.0,
        chunked: chunked(&[2, 2], 3, 4, ChunkIndex::FixedArray { address: Some(0) }),
        dims: vec![4, 6],
        max: vec![Some(4), Some(9)],
        filtered,
        expected: expected.collect(),
        rounds: if page < 10 { 3 } else { 2 },
    }
}

#[test]
fn chunks_in_a_fixed_array() {
    for page_bits in [1, 2, 4, 10] {
        for filtered in [false, true] {
            fixed_array(page_bits, filtered).check();
        }
    }
    fixed_array(2, true).damage();
    let case = fixed_array(4, false);
    case.damage();
    case.refused(5, &[1], "elements of class 1 instead of 0");
    case.refused(6, &[9], "elements of 9 bytes instead of 8");
    case.refused(8, &[0, 0, 0, 0, 0, 0, 0, 1], "more than the limit");
    case.refused(8, &[7], "an array of 7 chunks, and the dataset has more");
    case.refused(70, &[1], "a block of another array");
    let case = fixed_array(1, false);
    case.refused(8, &[0xff; 7], "more than the limit");
}

/// Creates an array of up to 13 chunks: in the index block, its two data blocks, and two super blocks, the
/// second with pages of 2 chunks.
fn extensible_array(filtered: bool, dims: &[u64], max: &[Option<u64>]) -> Case {
    let size: u8 = if filtered { 8 + 3 + 4 } else { 8 };
    let class = u8::from(filtered);
    let element = |maker: Maker, number: u32| {
        let maker = maker.u64s(&[1000 + u64::from(number)]);
        if filtered { maker.u16s(&[number as u16]).u8s(&[0]).u32s(&[number]) } else { maker }
    };
    let block = |maker: Maker, at: usize, signature: &[u8; 4]| {
        maker.to(at).raw(signature).u8s(&[0, class]).u64s(&[0])
    };
    let parameters = [size, 8, 1, 1, 2, 1];
    let file = Maker::default().raw(b"EAHD").u8s(&[0, class]).u8s(&parameters);
    let file = file.u64s(&[0, 0, 0, 0, 13, 14, 128]).checksum(0);
    let file = element(block(file, 128, b"EAIB"), 0).u64s(&[300, 400, 500, 600]);
    let mut file = file.u64s(&[UNDEFINED; 5]).checksum(128);
    for (at, numbers) in [(300, 1..2), (400, 2..4), (700, 4..6)] {
        file = match at {
            // Super blocks: the second data block of the first was never written, nor were two pages of the
            // second.
            700 => {
                file = block(file, 500, b"EASB").u8s(&[4]).u64s(&[700, UNDEFINED]).checksum(500);
                block(file, 600, b"EASB").u8s(&[8, 0b0110_0000, 0]).u64s(&[800, 900]).checksum(600)
            }
            _ => file,
        };
        file = numbers.fold(block(file, at, b"EADB").u8s(&[0]), element).checksum(at);
    }
    for (at, numbers) in [(800, 8), (900, 12)] {
        file = block(file, at, b"EADB").u8s(&[0]).checksum(at);
        for first in [numbers, numbers + 2] {
            let start = file.0.len();
            file = (first..first + 2).fold(file, element).checksum(start);
        }
    }
    let stored = [0, 1, 2, 3, 4, 5, 10, 11, 12];
    let slowest = max.iter().position(Option::is_none).unwrap();
    let mut expected = Vec::new();
    for number in stored {
        let (size, mask) = if filtered { (number, number as u32) } else { (300, 0) };
        let scaled = match (dims.len(), slowest) {
            (1, _) => vec![number],
            (_, 0) => vec![number / 3, number % 3],
            _ => vec![number % 3, number / 3],
        };
        if scaled.iter().zip(dims).all(|(at, dim)| at < dim) {
            expected.push(chunk(&scaled, 1000 + number, size, mask));
        }
    }
    expected.sort_by(|one, other| one.scaled.cmp(&other.scaled));
    Case {
        file: file.0,
        chunked: chunked(&vec![1; dims.len()], 300, 4, ChunkIndex::ExtensibleArray { address: Some(0) }),
        dims: dims.to_vec(),
        max: max.to_vec(),
        filtered,
        expected,
        // Header, index block, super blocks, data blocks, pages: one fetch each.
        rounds: 5,
    }
}

#[test]
fn chunks_in_an_extensible_array() {
    for filtered in [false, true] {
        extensible_array(filtered, &[20], &[None]).check();
        extensible_array(filtered, &[13], &[None]).check();
        extensible_array(filtered, &[5, 3], &[None, Some(3)]).check();
        extensible_array(filtered, &[3, 5], &[Some(3), None]).check();
        extensible_array(filtered, &[2, 7], &[Some(3), None]).check();
    }
    extensible_array(true, &[3, 5], &[Some(3), None]).damage();
    let case = extensible_array(false, &[20], &[None]);
    case.refused(5, &[1], "elements of class 1");
    case.refused(7, &[65], "parameters 65");
    case.refused(7, &[0], "parameters 0");
    case.refused(9, &[3], "parameters 8, 1, 3");
    case.refused(10, &[0], "parameters 8, 1, 1, 0");
    case.refused(11, &[0], "paged data blocks");
    case.refused(134, &[1], "a block of another array");
    case.refused(300, b"X", "signature `EADB`");
    let limited = Case { max: vec![Some(20)], ..extensible_array(false, &[20], &[None]) };
    limited.refused(0, &[], "without an unlimited dimension");
    let larger = Case { dims: vec![4, 5], ..extensible_array(false, &[3, 5], &[Some(3), None]) };
    larger.refused(0, &[], "larger than its maximum extent");
}

#[test]
fn a_block_that_is_many_is_refused() {
    // Super block 12 has 64 data blocks of 64 chunks, all at one address.
    let block =
        |maker: Maker, at: usize, signature: &[u8; 4]| maker.to(at).raw(signature).u8s(&[0, 0]).u64s(&[0]);
    let file = Maker::default().raw(b"EAHD").u8s(&[0, 0, 8, 20, 0, 1, 1, 10]);
    let file = file.u64s(&[0, 0, 0, 0, 1 << 20, 0, 128]).checksum(0);
    let mut addresses = [UNDEFINED; 21];
    addresses[12] = 400;
    let file = block(file, 128, b"EAIB").u64s(&addresses).checksum(128);
    let file = block(file, 400, b"EASB").u8s(&[0; 3]).u64s(&[1000; 64]).checksum(400);
    let file = block(file, 1000, b"EADB").u8s(&[0; 3]).u64s(&[7; 64]).checksum(1000).0;
    let chunked = chunked(&[1], 1, 4, ChunkIndex::ExtensibleArray { address: Some(0) });
    let map = ChunkMap { chunked: &chunked, dims: &[1 << 60], max: &[None], filtered: false };
    let one = with_image(&file, |image| within(image, &map, &[4095..4096])).unwrap();
    assert_eq!(one, [chunk(&[4095], 7, 1, 0)]);
    let error = with_image(&file, |image| chunks(image, &map)).unwrap_err();
    assert!(error.to_string().contains("parts overlap"), "{error}");
}

#[test]
fn nothing_is_stored_without_an_address_or_an_extent() {
    let indexes = [
        ChunkIndex::BTreeV1 { address: None },
        ChunkIndex::Single { address: None, filtered: None },
        ChunkIndex::Implicit { address: None },
        ChunkIndex::FixedArray { address: None },
        ChunkIndex::ExtensibleArray { address: None },
        ChunkIndex::BTreeV2 { address: None },
    ];
    for index in indexes {
        let chunked = chunked(&[2], 1, 4, index);
        let map = ChunkMap { chunked: &chunked, dims: &[u64::MAX], max: &[None], filtered: false };
        assert_eq!(with_image(&[], |image| chunks(image, &map)).unwrap(), []);
    }
    let case = btree_v1();
    let empty = ChunkMap { dims: &[0, 5], ..case.map() };
    assert_eq!(with_image(&[], |image| chunks(image, &empty)).unwrap(), []);
}

#[test]
fn what_does_not_fit_together_is_refused() {
    let check = |chunk: &[u64], element_size, dims: &[u64], message: &str| {
        let chunked = chunked(chunk, element_size, 4, ChunkIndex::Implicit { address: Some(0) });
        let max = vec![None; dims.len()];
        let map = ChunkMap { chunked: &chunked, dims, max: &max, filtered: false };
        let error = with_image(&[], |image| chunks(image, &map)).unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
    };
    check(&[2, 2], 1, &[5], "chunks of rank 2 in a dataset of rank 1");
    check(&[2, 0], 1, &[5, 5], "without elements");
    check(&[], 1, &[], "rank 0");
    check(&[1 << 32, 1 << 32], 1, &[5, 5], "more than 2⁶⁴ bytes");
    check(&[1, 1, 1], 1, &[1 << 33, 1 << 33, 5], "more than 2⁶⁴ chunks");
    let case = btree_v1();
    let error = with_image(&case.file, |image| within(image, &case.map(), &[0..1])).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

#[test]
fn a_huge_array_that_is_nearly_empty_is_no_work() {
    // 2^60 chunks; only the first page of 2^40 is initialized.
    let file = Maker::default().raw(b"FAHD").u8s(&[0, 0, 8, 40]).u64s(&[1 << 60, 64]).checksum(0);
    let file = file.to(64).raw(b"FADB").u8s(&[0, 0]).u64s(&[0]).u8s(&[0x80]).to(64 + 14 + (1 << 17));
    let file = file.checksum(64).0;
    let chunked = chunked(&[1, 1], 1, 4, ChunkIndex::FixedArray { address: Some(0) });
    let (dims, max) = ([1 << 60, 1], [Some(1 << 60), Some(1)]);
    let map = ChunkMap { chunked: &chunked, dims: &dims, max: &max, filtered: false };
    let far = with_image(&file, |image| within(image, &map, &[1 << 50..1 << 51, 0..1])).unwrap();
    assert_eq!(far, []);
    assert!(with_image(&file, |image| chunks(image, &map)).is_err());
}
