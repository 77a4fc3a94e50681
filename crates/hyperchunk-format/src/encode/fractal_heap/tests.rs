use super::*;
use crate::encode::blocks::one_after_another;
use crate::parse;
use crate::parse::testing::with_image;

fn objects(sizes: impl IntoIterator<Item = usize>) -> Vec<Vec<u8>> {
    let object = |(number, size): (usize, usize)| {
        (0..size).map(|at| (number.wrapping_mul(31) ^ at) as u8).collect::<Vec<u8>>()
    };
    sizes.into_iter().enumerate().map(object).collect()
}

/// Writes a heap of these objects and reads them all.
fn check(objects: &[Vec<u8>]) {
    for kind in [LINKS, ATTRIBUTES] {
        let base = 7777;
        let Heap { blocks: Blocks { bytes, .. }, ids } =
            encode(kind, objects, &mut one_after_another(base)).unwrap();
        let other = encode(kind, objects, &mut one_after_another(1 << 40)).unwrap();
        assert_eq!((other.blocks.bytes.len(), &other.ids), (bytes.len(), &ids));
        let mut file = vec![0; base as usize];
        file.extend(bytes);
        with_image(&file, |image| {
            let heap = parse::fractal_heap::FractalHeap::open(image, base).unwrap();
            assert_eq!(heap.id_length(), kind.id_length.into());
            assert_eq!(ids.len(), objects.len() * usize::from(kind.id_length));
            for (id, object) in ids.chunks_exact(kind.id_length.into()).zip(objects) {
                assert!(heap.object(image, id).unwrap() == *object);
            }
        });
    }
}

#[test]
fn what_is_written_is_read() {
    check(&[]);
    for count in [1, 9, 30, 100, 1000, 5000] {
        check(&objects((0..count).map(|number| 20 + number % 50)));
    }
    for size in [1, 490, 491, 492, 1002, 1003, 3000, 4075, 4096, 4097, 70_000] {
        check(&objects([size]));
        check(&objects([size; 30]));
        check(&objects([10, size, 10, 4097, size, 100]));
    }
    // Nested indirect blocks.
    check(&objects((0..3000).map(|number| 4096 - number % 3000)));
}

#[test]
fn offsets_have_their_blocks() {
    assert_eq!((LINKS.direct_rows(), LINKS.direct_prefix(), LINKS.offset_width()), (9, 21, 4));
    assert_eq!((ATTRIBUTES.direct_rows(), ATTRIBUTES.direct_prefix(), ATTRIBUTES.offset_width()), (8, 22, 5));
    let check = |offset, size| assert_eq!(LINKS.direct_size(offset), size, "{offset}");
    check(0, 512);
    check(3584, 512);
    check(4096, 1024);
    check(262_144, 65_536);
    // The first block in the first nested one.
    check(524_288, 512);
    check(524_288 + 4096, 1024);
    check(524_288 + 131_072, 512);
    assert_eq!(LINKS.count_rows(131_072), 7);
    let roots: Vec<u32> = [513, 2048, 2049, 8192, 16_385, 1 << 31].map(|end| LINKS.root_rows(end)).into();
    assert_eq!(roots, [1, 1, 2, 4, 8, 22]);
}

#[test]
fn its_numbers_are_those_of_libhdf5() {
    // Managed space, allocated, next block, objects, free: measured in files of HDF5 2.0.
    let check = |kind: Kind, sizes: &[usize], expected: [u64; 5]| {
        let bytes =
            encode(kind, &objects(sizes.iter().copied()), &mut one_after_another(0)).unwrap().blocks.bytes;
        let number = |at: usize| u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap());
        assert_eq!([number(46), number(54), number(62), number(70), number(30)], expected);
    };
    let sizes =
        |count: usize| (0..count).map(|number| 50 + number.max(1).ilog10() as usize + 2).collect::<Vec<_>>();
    check(ATTRIBUTES, &sizes(9), [1024, 1024, 0, 9, 534]);
    check(ATTRIBUTES, &sizes(20), [4096, 2048, 2048, 20, 2958]);
    check(ATTRIBUTES, &sizes(60), [4096, 4096, 4096, 60, 838]);
    check(ATTRIBUTES, &sizes(300), [32_768, 20_480, 20_480, 300, 16_326]);
    check(ATTRIBUTES, &sizes(3000), [524_288, 196_608, 196_608, 3000, 359_694]);
    check(ATTRIBUTES, &[4500; 10], [0, 0, 0, 0, 0]);
}

#[test]
fn offsets_end() {
    let small = Kind { bits: 12, ..LINKS };
    assert!(encode(small, &objects([480; 7]), &mut one_after_another(0)).is_ok());
    assert_eq!(
        encode(small, &objects([480; 8]), &mut one_after_another(0)).unwrap_err().kind(),
        crate::ErrorKind::Limit
    );
}
