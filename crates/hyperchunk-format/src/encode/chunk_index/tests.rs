use super::*;
use crate::encode::blocks::one_after_another;
use crate::model::Chunked;
use crate::{ErrorKind, Fuel, Image, Limits, parse};

/// Deterministic pseudorandom numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % end
    }
}

/// Dataset and the kind of index for its chunks.
struct Case {
    kind: Kind,
    chunked: Chunked,
    dims: Vec<u64>,
    max: Vec<Option<u64>>,
    filtered: bool,
}

impl Case {
    /// Creates a case with elements of 4 bytes.
    fn new(kind: Kind, chunk: &[u64], dims: &[u64], max: &[Option<u64>], filtered: bool) -> Self {
        let version = if kind == Kind::BTreeV1 { 3 } else { 4 };
        let index = ChunkIndex::Implicit { address: None };
        let chunked =
            Chunked { dims: chunk.to_vec(), element_size: 4, edge_chunks_unfiltered: false, version, index };
        Self { kind, chunked, dims: dims.to_vec(), max: max.to_vec(), filtered }
    }

    fn map(&self) -> ChunkMap<'_> {
        ChunkMap { chunked: &self.chunked, dims: &self.dims, max: &self.max, filtered: self.filtered }
    }

    /// Returns all chunks of the extent, in order.
    fn all(&self) -> Vec<Chunk> {
        let counts: Vec<u64> =
            self.dims.iter().zip(&self.chunked.dims).map(|(d, c)| d.div_ceil(*c)).collect();
        let bytes = self.chunked.dims.iter().product::<u64>() * 4;
        let place = |number: u64| {
            let mut rest = number;
            let mut scaled: Vec<u64> = counts
                .iter()
                .rev()
                .map(|count| {
                    let at = rest % count;
                    rest /= count;
                    at
                })
                .collect();
            scaled.reverse();
            scaled
        };
        (0..counts.iter().product())
            .map(|number| Chunk {
                scaled: place(number),
                address: 10_000 + number * bytes,
                size: if self.filtered { 1 + number % bytes } else { bytes },
                filter_mask: if self.filtered { number as u32 & 3 } else { 0 },
            })
            .collect()
    }

    /// Encodes at two addresses, checks that only the addresses differ, and reads the chunks again.
    fn check(&self, chunks: &[Chunk]) {
        let first = encode(self.kind, &self.map(), chunks, &mut one_after_another(0)).unwrap();
        let base = 4096;
        let second = encode(self.kind, &self.map(), chunks, &mut one_after_another(base as u64)).unwrap();
        assert_eq!(first.blocks.bytes.len(), second.blocks.bytes.len());
        for (EncodedIndex { blocks: Blocks { bytes, .. }, index }, base) in [(first, 0), (second, base)] {
            let mut file = vec![0; base];
            file.extend(bytes);
            if self.kind == Kind::Implicit {
                // The chunks must be in the file.
                let end = chunks.last().map_or(0, |chunk| chunk.address + chunk.size);
                file.resize(end as usize, 0);
            }
            let chunked = Chunked { index, ..self.chunked.clone() };
            let map = ChunkMap { chunked: &chunked, ..self.map() };
            let mut expected = chunks.to_vec();
            expected.sort_by(|a, b| a.scaled.cmp(&b.scaled));
            let (limits, view) = (Limits::default(), &file.as_slice());
            let fuel = Fuel::new(&limits);
            let image = Image::new(view, 0, SIZES, &limits, &fuel);
            let read = parse::chunk_index::chunks(image, &map).unwrap();
            assert!(read == expected, "{:?}: {} of {}", self.kind, read.len(), expected.len());
        }
    }

    /// Checks with all chunks, with some, in any order, and with only the last.
    fn check_all(&self) {
        let mut chunks = self.all();
        self.check(&chunks);
        let last: Vec<Chunk> = chunks.iter().rev().take(1).cloned().collect();
        self.check(&last);
        let mut numbers = Numbers(chunks.len() as u64);
        for share in [2, 20, 1000] {
            chunks.retain(|_| numbers.below(share) == 0 || share == 2 && numbers.below(3) > 0);
            for number in (1..chunks.len()).rev() {
                chunks.swap(number, numbers.below(number as u64) as usize);
            }
            self.check(&chunks);
        }
    }

    fn refused(&self, chunks: &[Chunk], kind: ErrorKind, message: &str) {
        let error = encode(self.kind, &self.map(), chunks, &mut one_after_another(0)).unwrap_err();
        assert!(error.kind() == kind && error.to_string().contains(message), "{error:?}");
    }
}

#[test]
fn version_1_trees_of_any_depth() {
    for count in [0, 1, 2, 63, 64, 65, 128, 129, 4096, 4097, 20_000] {
        for filtered in [false, true] {
            let case = Case::new(Kind::BTreeV1, &[7], &[count * 7], &[None], filtered);
            case.check(&case.all());
        }
    }
    let case = Case::new(Kind::BTreeV1, &[2, 3, 1], &[19, 20, 21], &[Some(30), None, None], true);
    let mut chunks = case.all();
    case.check(&chunks);
    chunks.retain(|chunk| chunk.size % 7 == 3);
    chunks.reverse();
    case.check(&chunks);
}

#[test]
fn what_cannot_be_indexed_is_refused() {
    let case = Case::new(Kind::BTreeV1, &[2, 3], &[10, 10], &[None, None], false);
    let all = case.all();
    let change = |change: &dyn Fn(&mut Chunk)| {
        let mut chunks = all.clone();
        change(&mut chunks[3]);
        chunks
    };
    let invalid = ErrorKind::Invalid;
    case.refused(&change(&|chunk| chunk.scaled = vec![0, 2]), invalid, "duplicate chunk [0, 2]");
    case.refused(&change(&|chunk| chunk.scaled = vec![0]), invalid, "in a dataset of rank 2");
    case.refused(&change(&|chunk| chunk.size = 23), invalid, "all are of 24 bytes");
    case.refused(&change(&|chunk| chunk.filter_mask = 1), invalid, "without filters");
    case.refused(&change(&|chunk| chunk.address = u64::MAX), invalid, "at 0xffffffffffffffff");
    let filtered =
        Case { filtered: true, ..Case::new(Kind::BTreeV1, &[2, 3], &[10, 10], &[None, None], true) };
    filtered.refused(&change(&|chunk| chunk.size = 0), invalid, "of 0 bytes");
    filtered.refused(&change(&|chunk| chunk.size = 1 << 32), ErrorKind::Limit, "need HDF5 2.0");
    let mut new = Case::new(Kind::FixedArray, &[2, 3], &[10, 10], &[None, None], true);
    new.refused(&change(&|chunk| chunk.size = 1 << 16), ErrorKind::Limit, "too large for the index");
    new.chunked.version = 3;
    new.refused(&all, invalid, "in a layout of version 3");
    let flat = Case::new(Kind::BTreeV1, &[2, 3], &[10], &[None], false);
    flat.refused(&[], invalid, "chunks of [2, 3] elements in a dataset of rank 1");
    let larger = Case::new(Kind::BTreeV1, &[2], &[10], &[Some(9)], false);
    larger.refused(&[], invalid, "larger than its maximum extent");
    let error =
        encode(Kind::BTreeV1, &case.map(), &all, &mut one_after_another(u64::MAX - 1000)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
}

#[test]
fn chunks_beyond_the_extent_are_left_out() {
    let case = Case::new(Kind::BTreeV1, &[2, 3], &[10, 10], &[None, None], false);
    let shrunk =
        Case { dims: vec![3, 7], ..Case::new(Kind::BTreeV1, &[2, 3], &[10, 10], &[None, None], false) };
    let inside = shrunk.all();
    let all = case.all();
    let kept: Vec<Chunk> =
        all.iter().filter(|chunk| inside.iter().any(|other| other.scaled == chunk.scaled)).cloned().collect();
    assert_eq!(kept.len(), 6);
    let encoded = |chunks| encode(Kind::BTreeV1, &shrunk.map(), chunks, &mut one_after_another(0)).unwrap();
    assert_eq!(encoded(&all), encoded(&kept));
    shrunk.check(&kept);
}

#[test]
fn the_kind_is_that_of_libhdf5() {
    let check = |dims: &[u64], max: &[Option<u64>], filtered, early, expected| {
        assert_eq!(choose(dims, max, &[4, 5], filtered, early, LibVersion::V110), expected);
        assert_eq!(choose(dims, max, &[4, 5], filtered, early, LibVersion::V200), expected);
        assert_eq!(choose(dims, max, &[4, 5], filtered, early, LibVersion::V18), Kind::BTreeV1);
    };
    let fixed = [Some(4), Some(5)];
    check(&[4, 5], &fixed, false, true, Kind::Single);
    check(&[4, 5], &fixed, true, false, Kind::Single);
    check(&[4, 4], &fixed, false, true, Kind::FixedArray);
    check(&[8, 5], &[Some(8), Some(5)], false, true, Kind::Implicit);
    check(&[8, 5], &[Some(8), Some(5)], true, true, Kind::FixedArray);
    check(&[8, 5], &[Some(8), Some(5)], false, false, Kind::FixedArray);
    check(&[8, 5], &[Some(8), None], false, true, Kind::ExtensibleArray);
    check(&[8, 5], &[None, Some(8)], true, true, Kind::ExtensibleArray);
    check(&[8, 5], &[None, None], false, false, Kind::BTreeV2);
    // Unlike libhdf5, which would create arrays of these sizes, or fail.
    check(&[8, 5], &[Some(1 << 14), Some(5 << 12)], false, false, Kind::FixedArray);
    check(&[8, 5], &[Some(1 << 14), Some(1 + (5 << 12))], false, false, Kind::BTreeV2);
    check(&[8, 5], &[Some(u64::MAX), Some(u64::MAX)], false, true, Kind::BTreeV2);
    check(&[8, 5], &[None, Some(5 << 31)], false, false, Kind::ExtensibleArray);
    check(&[9, 5], &[None, Some(5 << 31)], false, false, Kind::BTreeV2);
}

#[test]
fn arrays_of_all_sizes() {
    for filtered in [false, true] {
        // Around the ends of the index block, of data blocks, of the directly addressed ones, of pages.
        for count in [1, 2, 4, 5, 19, 20, 21, 52, 53, 243, 244, 245, 499, 1024, 1025, 2049, 8201] {
            Case::new(Kind::FixedArray, &[7], &[count * 7 - 3], &[Some(count * 7)], filtered).check_all();
            Case::new(Kind::FixedArray, &[7], &[count * 4], &[Some(count * 11)], filtered).check_all();
            Case::new(Kind::ExtensibleArray, &[7], &[count * 7 - 3], &[None], filtered).check_all();
        }
        // Data blocks with 2, 4 and 8 pages.
        let mut numbers = Numbers(1);
        for (count, share) in [(131_061, 2), (150_000, 1000), (400_000, 30_000), (1_100_000, 30_000)] {
            let case = Case::new(Kind::ExtensibleArray, &[1], &[count], &[None], filtered);
            let mut chunks = case.all();
            chunks.retain(|chunk| chunk.scaled == [count - 1] || numbers.below(share) == 0);
            case.check(&chunks);
        }
    }
}

#[test]
fn arrays_of_many_dimensions() {
    let dims = [19, 20, 21];
    let fixed = [Some(25), Some(20), Some(40)];
    for filtered in [false, true] {
        Case::new(Kind::FixedArray, &[2, 3, 1], &dims, &fixed, filtered).check_all();
        for unlimited in 0..3 {
            let mut max = fixed;
            max[unlimited] = None;
            Case::new(Kind::ExtensibleArray, &[2, 3, 1], &dims, &max, filtered).check_all();
            let max = [None, Some(3), None, Some(9)];
            for unlimited in [0, 2] {
                let mut max = max;
                max[unlimited] = Some(17);
                Case::new(Kind::ExtensibleArray, &[1, 2, 3, 4], &[6, 3, 10, 9], &max, filtered).check_all();
            }
        }
    }
}

#[test]
fn arrays_that_would_be_too_large_are_refused() {
    let far = |at: u64| vec![Chunk { scaled: vec![at], address: 5, size: 4, filter_mask: 0 }];
    let end = 1 << 40;
    let case = Case::new(Kind::FixedArray, &[1], &[end], &[Some(end)], false);
    case.refused(&far(7), ErrorKind::Limit, "use a version 2 B-tree");
    let case = Case::new(Kind::ExtensibleArray, &[1], &[end], &[None], false);
    case.refused(&far(1 << 32), ErrorKind::Limit, "beyond the 4294967296");
    let chunk = Chunk { scaled: vec![1, 0], ..far(0)[0].clone() };
    let case = Case::new(Kind::ExtensibleArray, &[1, 1], &[end, end], &[None, Some(u64::MAX)], false);
    case.refused(&[chunk], ErrorKind::Limit, "beyond the 4294967296");
}

#[test]
fn chunks_without_a_structure() {
    for filtered in [false, true] {
        let case = Case::new(Kind::Single, &[4, 3], &[4, 2], &[Some(4), Some(3)], filtered);
        case.check(&case.all());
        case.check(&[]);
    }
    let invalid = ErrorKind::Invalid;
    let case = Case::new(Kind::Single, &[4, 3], &[4, 2], &[Some(4), None], false);
    case.refused(&case.all(), invalid, "smaller than the dataset's maximum extent");
    let case = Case::new(Kind::Single, &[4, 3], &[4, 4], &[Some(4), Some(4)], false);
    case.refused(&case.all(), invalid, "the dataset has more");
    case.refused(&case.all()[1..], invalid, "smaller than the dataset");

    let case = Case::new(Kind::Implicit, &[4, 3], &[9, 5], &[Some(9), Some(5)], false);
    let mut all = case.all();
    let encoded = encode(Kind::Implicit, &case.map(), &all, &mut one_after_another(0)).unwrap();
    assert_eq!(encoded, EncodedIndex::from(ChunkIndex::Implicit { address: Some(10_000) }));
    case.check(&[]);
    case.refused(&all[1..], invalid, "an implicit index of 5 chunks, and the dataset has more");
    assert!(side_by_side(&case.map(), &all));
    assert!(!side_by_side(&case.map(), &all[1..]));
    assert!(!side_by_side(&case.map(), &all[..5]));
    assert!(!side_by_side(&case.map(), &[]));
    all.reverse();
    assert!(side_by_side(&case.map(), &all));
    all.swap(1, 4);
    assert!(side_by_side(&case.map(), &all), "the order in which they are told does not matter");
    all.swap(1, 4);
    all.reverse();
    let filtered = Case::new(Kind::FixedArray, &[4, 3], &[9, 5], &[Some(9), Some(5)], true);
    assert!(!side_by_side(&filtered.map(), &all));
    let grows = Case::new(Kind::FixedArray, &[4, 3], &[9, 5], &[Some(10), Some(5)], false);
    assert!(!side_by_side(&grows.map(), &all));
    let mut swapped = all.clone();
    let places = (swapped[1].address, swapped[2].address);
    (swapped[2].address, swapped[1].address) = places;
    assert!(!side_by_side(&case.map(), &swapped));
    all[3].address += 1;
    assert!(!side_by_side(&case.map(), &all));
    case.refused(&all, invalid, "chunk [1, 1] is not contiguous");
    let case = Case::new(Kind::Implicit, &[4, 3], &[9, 5], &[Some(9), None], false);
    case.refused(&case.all(), invalid, "unlimited");
}

#[test]
fn extents_of_many_more_chunks_than_have_a_number() {
    let dims = [u64::MAX, 1 << 62, 1 << 40];
    let places =
        [[5, 3, 1], [5, 1 << 61, 7], [5, (1 << 61) + 1, 0], [(1 << 63) - 1, 1, 1], [(1 << 63) - 1, 2, 0]];
    let chunks = [2, 0, 4, 1, 3].map(|place| Chunk {
        scaled: places[place].to_vec(),
        address: 100 + place as u64,
        size: 8,
        filter_mask: 0,
    });
    for kind in [Kind::BTreeV1, Kind::BTreeV2] {
        let case = Case::new(kind, &[2, 1, 1], &dims, &[None; 3], false);
        case.check(&chunks);
        let twice = [chunks.as_slice(), &chunks[2..3]].concat();
        case.refused(&twice, ErrorKind::Invalid, "duplicate chunk [9223372036854775807, 2, 0]");
    }
}

#[test]
fn version_2_trees_of_any_depth() {
    for filtered in [false, true] {
        // Around the ends of a leaf, and of a tree with one level above the leaves.
        for count in [1, 2, 84, 85, 88, 92, 93, 127, 128, 129, 5000, 9000, 20_000] {
            Case::new(Kind::BTreeV2, &[7], &[count * 7], &[None], filtered).check_all();
        }
        let max = [None, Some(40), None];
        Case::new(Kind::BTreeV2, &[2, 3, 1], &[19, 20, 21], &max, filtered).check_all();
        Case::new(Kind::BTreeV2, &[2, 3, 1], &[19, 20, 21], &[None; 3], filtered).check_all();
    }
}

#[test]
fn whatever_is_written_is_read() {
    let mut numbers = Numbers(7);
    let mut seen = std::collections::HashMap::new();
    for _ in 0..2000 {
        let rank = 1 + numbers.below(4) as usize;
        let many = [0, 300, 40, 12, 6][rank];
        let chunk: Vec<u64> = (0..rank).map(|_| 1 + numbers.below(5)).collect();
        let single = numbers.below(8) == 0;
        let mut extent = |chunk: &u64| if single { *chunk } else { numbers.below(many * chunk) };
        let dims: Vec<u64> = chunk.iter().map(&mut extent).collect();
        let unlimited = if single { 0 } else { [0, 0, 2, 7][numbers.below(4) as usize] };
        let max: Vec<Option<u64>> = dims
            .iter()
            .map(|dim| match numbers.below(8) {
                number if number < unlimited => None,
                number => Some(dim + (number & 1 & u64::from(!single)) * numbers.below(2 * many)),
            })
            .collect();
        let filtered = numbers.below(2) == 1;
        let oldest = [LibVersion::V18, LibVersion::V110, LibVersion::V200, LibVersion::V110]
            [numbers.below(4) as usize];
        let mut kind = choose(&dims, &max, &chunk, filtered, numbers.below(4) == 0, oldest);
        if oldest > LibVersion::V18 && numbers.below(8) == 0 {
            kind = Kind::BTreeV2;
        }
        let mut case = Case::new(kind, &chunk, &dims, &max, filtered);
        case.chunked.version = if oldest == LibVersion::V200 { 5 } else { case.chunked.version };
        let mut chunks = case.all();
        if kind != Kind::Implicit {
            let share = [1, 1, 2, 5, 100][numbers.below(5) as usize];
            chunks.retain(|_| numbers.below(share) == 0);
        }
        case.check(&chunks);
        // Chunks left over after the dataset shrank are ignored.
        let encoded = encode(kind, &case.map(), &chunks, &mut one_after_another(8)).unwrap();
        let mut beyond: Vec<u64> = dims.iter().zip(&chunk).map(|(dim, chunk)| dim.div_ceil(*chunk)).collect();
        beyond.iter_mut().skip(1).for_each(|at| *at = numbers.below(*at + 3));
        chunks.insert(
            numbers.below(chunks.len() as u64 + 1) as usize,
            Chunk { scaled: beyond, address: 3, size: 2, filter_mask: 1 },
        );
        assert_eq!(encode(kind, &case.map(), &chunks, &mut one_after_another(8)).unwrap(), encoded);
        *seen.entry((kind, filtered)).or_insert(0) += 1;
    }
    assert!(seen.len() == 11 && seen.values().all(|count| *count > 10), "{seen:?}");
}

#[test]
fn what_grows_in_place_is_what_is_encoded_at_once() {
    for (kind, max) in [(Kind::ExtensibleArray, None), (Kind::FixedArray, Some(9000))] {
        for filtered in [false, true] {
            let all = Case::new(kind, &[1], &[5000], &[max], filtered).all();
            let (mut places, mut end) = (ArrayPlaces::default(), 64_u64);
            let mut file = vec![0; 64];
            for length in [0, 1, 2, 3, 4, 5, 7, 100, 101, 1500, 5000] {
                let case = Case::new(kind, &[1], &[length], &[max], filtered);
                let chunks = &all[..length as usize];
                let before = end;
                let mut take = |size: u64| {
                    end += size;
                    Ok(end - size)
                };
                let made = encode_in_place(kind, &case.map(), chunks, &mut places, &mut take).unwrap();
                let again = encode_in_place(kind, &case.map(), chunks, &mut places, &mut |_| unreachable!());
                assert_eq!(again.unwrap(), made);
                assert!(end >= before);
                file.resize(end as usize, 0);
                for (address, bytes) in &made.parts {
                    file[*address as usize..][..bytes.len()].copy_from_slice(bytes);
                }
                let chunked = Chunked { index: made.index, ..case.chunked.clone() };
                let map = ChunkMap { chunked: &chunked, ..case.map() };
                let (limits, view) = (Limits::default(), &file.as_slice());
                let fuel = Fuel::new(&limits);
                let image = Image::new(view, 0, SIZES, &limits, &fuel);
                assert_eq!(parse::chunk_index::chunks(image, &map).unwrap(), chunks);
            }
        }
    }
    let case = Case::new(Kind::BTreeV2, &[1, 1], &[2, 2], &[None, None], false);
    let tree =
        encode_in_place(case.kind, &case.map(), &case.all(), &mut ArrayPlaces::default(), &mut |_| Ok(0));
    assert_eq!(tree.unwrap_err().kind(), ErrorKind::Unsupported);
}
