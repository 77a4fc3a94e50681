use super::*;

const SIZES: Sizes = Sizes { address: 4, length: 4 };

fn check(bytes: &[u8], expected: Option<Layout>) {
    assert_eq!(parse(&mut Cursor::new(bytes, "", 0), SIZES).ok(), expected, "{bytes:?}");
}

fn chunked(
    version: u8,
    dims: &[u64],
    element_size: u64,
    index: ChunkIndex,
    unfiltered: bool,
) -> Option<Layout> {
    let dims = dims.to_vec();
    Some(Layout::Chunked(Chunked { dims, element_size, edge_chunks_unfiltered: unfiltered, version, index }))
}

#[test]
fn old_versions() {
    check(
        &[1, 1, 0, 0, 0, 0, 0, 0, 9, 0, 0, 0, 2, 0, 0, 0, 7, 8],
        Some(Layout::Compact { data: vec![7, 8] }),
    );
    let contiguous = Some(Layout::Contiguous { address: Some(5), size: None });
    check(&[2, 1, 1, 0, 0, 0, 0, 0, 5, 0, 0, 0, 3, 0, 0, 0], contiguous);
    let index = ChunkIndex::BTreeV1 { address: Some(5) };
    let bytes = [2, 2, 2, 0, 0, 0, 0, 0, 5, 0, 0, 0, 3, 0, 0, 0, 8, 0, 0, 0];
    check(&bytes, chunked(2, &[3], 8, index, false));
}

#[test]
fn version_3_has_sizes() {
    check(&[3, 0, 2, 0, 7, 8], Some(Layout::Compact { data: vec![7, 8] }));
    let contiguous = Some(Layout::Contiguous { address: None, size: Some(24) });
    check(&[3, 1, 255, 255, 255, 255, 24, 0, 0, 0], contiguous);
    let index = ChunkIndex::BTreeV1 { address: None };
    let bytes = [3, 2, 3, 255, 255, 255, 255, 3, 0, 0, 0, 2, 0, 0, 0, 8, 0, 0, 0];
    check(&bytes, chunked(3, &[3, 2], 8, index, false));
}

#[test]
fn version_4_has_indexes() {
    let at = Some(5);
    check(
        &[4, 2, 0, 2, 1, 3, 8, 1, 5, 0, 0, 0],
        chunked(4, &[3], 8, ChunkIndex::Single { address: at, filtered: None }, false),
    );
    let single = ChunkIndex::Single { address: at, filtered: Some((20, 1)) };
    check(&[5, 2, 3, 2, 1, 3, 8, 1, 20, 0, 0, 0, 1, 0, 0, 0, 5, 0, 0, 0], chunked(5, &[3], 8, single, true));
    check(
        &[4, 2, 0, 2, 2, 0, 1, 8, 0, 2, 5, 0, 0, 0],
        chunked(4, &[256], 8, ChunkIndex::Implicit { address: at }, false),
    );
    check(
        &[4, 2, 0, 2, 1, 3, 8, 3, 10, 5, 0, 0, 0],
        chunked(4, &[3], 8, ChunkIndex::FixedArray { address: at }, false),
    );
    let extensible = ChunkIndex::ExtensibleArray { address: at };
    check(&[4, 2, 0, 2, 1, 3, 8, 4, 32, 4, 4, 16, 10, 5, 0, 0, 0], chunked(4, &[3], 8, extensible, false));
    let tree = ChunkIndex::BTreeV2 { address: at };
    check(&[4, 2, 0, 2, 1, 3, 8, 5, 0, 8, 0, 0, 100, 40, 5, 0, 0, 0], chunked(4, &[3], 8, tree, false));
    check(&[4, 3, 5, 0, 0, 0, 1, 0, 0, 0], Some(Layout::Virtual { heap: Some((5, 1)) }));
    check(&[4, 3, 255, 255, 255, 255, 0, 0, 0, 0], Some(Layout::Virtual { heap: None }));
}

#[test]
fn damage() {
    check(&[], None); // no bytes
    check(&[6, 1], None); // version 6
    check(&[2, 0, 1, 0, 0, 0, 0, 0, 5, 0, 0, 0], None); // no dimensions
    check(&[2, 1, 2, 0, 0, 0, 0, 0, 5, 0, 0, 0, 8, 0, 0, 0], None); // chunks with only an element size
    check(&[3, 2, 34, 255, 255, 255, 255], None); // 34 dimensions
    check(&[3, 2, 2, 5, 0, 0, 0, 0, 0, 0, 0, 8, 0, 0, 0], None); // chunks of 0 elements
    check(&[3, 3, 5, 0, 0, 0, 1, 0, 0, 0], None); // a virtual layout in version 3
    check(&[3, 0, 9, 0, 7], None); // 1 byte of compact data instead of 9
    check(&[4, 2, 4, 2, 1, 3, 8, 1, 5, 0, 0, 0], None); // unknown flag 4
    check(&[4, 2, 0, 2, 9, 3, 8, 1, 5, 0, 0, 0], None); // dimensions of 9 bytes
    check(&[4, 2, 0, 2, 1, 3, 8, 0, 5, 0, 0, 0], None); // chunk index of type 0
    check(&[4, 2, 0, 2, 1, 3, 8, 3, 0, 5, 0, 0, 0], None); // a parameter of the index is 0
}
