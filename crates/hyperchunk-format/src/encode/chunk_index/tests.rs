use super::*;
use crate::ErrorKind;
use crate::model::Chunked;
use crate::parse;
use crate::parse::testing::with_image;

/// A dataset and an index of its chunks to be.
struct Case {
    kind: Kind,
    chunked: Chunked,
    dims: Vec<u64>,
    max: Vec<Option<u64>>,
    filtered: bool,
}

impl Case {
    /// Chunks of elements of 4 bytes.
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

    /// All chunks of the extent, in order.
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
                address: 1_000_000 + number * bytes,
                size: if self.filtered { 1 + number % bytes } else { bytes },
                filter_mask: if self.filtered { number as u32 & 3 } else { 0 },
            })
            .collect()
    }

    /// Encodes at two places, checks that only the place differs, and reads the chunks again.
    fn check(&self, chunks: &[Chunk]) {
        let first = encode(self.kind, &self.map(), chunks, 0).unwrap();
        let base = 4096;
        let second = encode(self.kind, &self.map(), chunks, base as u64).unwrap();
        assert_eq!(first.bytes.len(), second.bytes.len());
        for (Encoded { bytes, index }, base) in [(first, 0), (second, base)] {
            let mut file = vec![0; base];
            file.extend(bytes);
            let chunked = Chunked { index, ..self.chunked.clone() };
            let map = ChunkMap { chunked: &chunked, ..self.map() };
            let mut expected = chunks.to_vec();
            expected.sort_by(|a, b| a.scaled.cmp(&b.scaled));
            let read = with_image(&file, |image| parse::chunk_index::chunks(image, &map)).unwrap();
            assert!(read == expected, "{:?}: {} of {}", self.kind, read.len(), expected.len());
        }
    }

    fn refused(&self, chunks: &[Chunk], kind: ErrorKind, message: &str) {
        let error = encode(self.kind, &self.map(), chunks, 0).unwrap_err();
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
    case.refused(&change(&|chunk| chunk.scaled = vec![0, 2]), invalid, "chunk [0, 2] is there twice");
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
    larger.refused(&[], invalid, "larger than the largest extent");
    let error = encode(Kind::BTreeV1, &case.map(), &all, u64::MAX - 1000).unwrap_err();
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
    let encoded = |chunks| encode(Kind::BTreeV1, &shrunk.map(), chunks, 0).unwrap();
    assert_eq!(encoded(&all), encoded(&kept));
    shrunk.check(&kept);
}

#[test]
fn the_kind_is_that_of_libhdf5() {
    let check = |dims: &[u64], max: &[Option<u64>], filtered, early, expected| {
        assert_eq!(choose(dims, max, &[4, 5], filtered, early, Oldest::V110), expected);
        assert_eq!(choose(dims, max, &[4, 5], filtered, early, Oldest::V200), expected);
        assert_eq!(choose(dims, max, &[4, 5], filtered, early, Oldest::V18), Kind::BTreeV1);
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
}
