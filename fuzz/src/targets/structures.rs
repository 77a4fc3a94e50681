//! Structures of whole files, each alone: wherever its signature is in the bytes, it is parsed.

use hyperchunk_format::model::Superblock;
use hyperchunk_format::model::{Dataspace, Layout, ObjectHeader};
use hyperchunk_format::parse::btree_v2::BTree;
use hyperchunk_format::parse::chunk_index::{self, ChunkMap};
use hyperchunk_format::parse::fractal_heap::FractalHeap;
use hyperchunk_format::parse::global_heap::Collection;
use hyperchunk_format::parse::local_heap::LocalHeap;
use hyperchunk_format::parse::{
    attributes, btree_v1, cache_image, group, object, object_header, superblock, virtual_layout,
};
use hyperchunk_format::{Cursor, Fuel, Image, Limits, Sizes};

/// How many structures of a kind are looked at.
const MAX_STRUCTURES: usize = 200;

/// Calls `run` with the image of a file; without a superblock that can be read, addresses are offsets of eight bytes.
fn with(data: &[u8], run: impl FnOnce(Image<'_>, Option<&Superblock>)) {
    let limits = Limits::default();
    let fuel = Fuel::new(&limits);
    let superblock = superblock::parse(&data, &limits, &fuel).ok();
    let fuel = Fuel::new(&limits);
    let sizes = superblock.as_ref().map_or(Sizes { address: 8, length: 8 }, |superblock| superblock.sizes);
    let base = superblock.as_ref().map_or(0, |superblock| superblock.base);
    let image = Image::new(&data, base, sizes, &limits, &fuel);
    let table = superblock.as_ref().and_then(|superblock| superblock.shared_messages);
    run(image.with_shared_messages(table), superblock.as_ref());
}

/// The addresses of a signature.
fn places(data: &[u8], signature: &[u8; 4], base: u64) -> Vec<u64> {
    let found = data.windows(4).enumerate().filter(|(_, bytes)| bytes == signature);
    found.filter_map(|(at, _)| (at as u64).checked_sub(base)).take(MAX_STRUCTURES).collect()
}

fn each(data: &[u8], signature: &[u8; 4], run: impl Fn(Image<'_>, u64)) {
    with(data, |image, superblock| {
        let base = superblock.map_or(0, |superblock| superblock.base);
        places(data, signature, base).into_iter().for_each(|address| run(image, address));
    });
}

pub(super) fn superblock(data: &[u8]) {
    with(data, |image, superblock| {
        if let Some(superblock) = superblock {
            let _ = superblock::check_flags(superblock);
            let _ = superblock::check_end(superblock, data.len() as u64);
            let _ = cache_image::entries(image, superblock);
        }
    });
}

pub(super) fn btree_v1(data: &[u8]) {
    each(data, b"TREE", |image, address| {
        let _ = btree_v1::group_leaves(image, address);
        let _ = btree_v1::find_group_leaf(image, address, &mut |offset| Ok(offset.cmp(&64)));
    });
}

pub(super) fn btree_v2(data: &[u8]) {
    const KINDS: [u8; 11] = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11];
    each(data, b"BTHD", |image, address| {
        if let Ok(tree) = BTree::open(image, address, &KINDS) {
            let _ = tree.records(image);
            let _ = tree.find(image, &mut |record| Ok(record.cmp(&[0x55; 8])));
        }
    });
}

pub(super) fn fractal_heap(data: &[u8]) {
    each(data, b"FRHP", |image, address| {
        let Ok(heap) = FractalHeap::open(image, address) else { return };
        // Ids of each kind, at places across the heap.
        for first in [0x00, 0x10, 0x20, 0x2f, 0x30, 0x40] {
            for place in [0_u64, 1, 22, 100, 600, 5000, 70_000, 1 << 31, u64::MAX] {
                let mut id = vec![first];
                id.extend_from_slice(&place.to_le_bytes());
                id.extend_from_slice(&[9; 32]);
                id.truncate(usize::try_from(heap.id_length()).unwrap_or(9).clamp(1, 41));
                let _ = heap.object(image, &id);
            }
        }
    });
}

pub(super) fn global_heap(data: &[u8]) {
    each(data, b"GCOL", |image, address| {
        if let Ok(collection) = Collection::open(image, address) {
            let _ = (0..20).map(|index| collection.object(index).map_or(0, <[u8]>::len)).sum::<usize>();
        }
        for index in 1..4 {
            let _ = virtual_layout::mappings(image, (address, index));
        }
    });
}

pub(super) fn local_heap(data: &[u8]) {
    each(data, b"HEAP", |image, address| {
        if let Ok(heap) = LocalHeap::open(image, address) {
            for offset in [0, 8, 17, 1000, u64::MAX] {
                let _ = heap.name(offset);
            }
        }
    });
}

/// Object headers: those with a signature, and one at the root's address.
fn headers(data: &[u8], run: impl Fn(Image<'_>, &ObjectHeader)) {
    with(data, |image, superblock| {
        let base = superblock.map_or(0, |superblock| superblock.base);
        let root = superblock.map(|superblock| superblock.root);
        let mut addresses = places(data, b"OHDR", base);
        addresses.extend(root);
        // Version 1 has no signature: all that looks like its start.
        let old =
            data.windows(4).enumerate().step_by(8).filter(|(_, bytes)| bytes[..2] == [1, 0] && bytes[3] == 0);
        addresses.extend(old.filter_map(|(at, _)| (at as u64).checked_sub(base)).take(MAX_STRUCTURES));
        for address in addresses {
            if let Ok(header) = object_header::parse(image, address) {
                run(image, &header);
            }
        }
    });
}

pub(super) fn object_header(data: &[u8]) {
    headers(data, |_, header| {
        let _ = (object::kind(header), object::comment(header));
        let _ = object::modification_time(header);
    });
}

pub(super) fn group(data: &[u8]) {
    headers(data, |image, header| {
        let _ = group::storage(image, header);
        let _ = group::count(image, header);
        let Ok(links) = group::links(image, header) else { return };
        for link in links.iter().take(4) {
            let _ = group::find(image, header, link.name.as_bytes());
        }
        let _ = group::find(image, header, b"no such link");
    });
}

pub(super) fn attributes(data: &[u8]) {
    headers(data, |image, header| {
        let _ = attributes::count(image, header);
        let _ = attributes::names(image, header);
        let Ok(all) = attributes::each(image, header) else { return };
        for (name, _) in all.iter().take(4) {
            let _ = attributes::find(image, header, name.as_bytes());
        }
        let _ = attributes::find(image, header, b"no such attribute");
    });
}

/// Datasets with their messages, shared ones too, and the index of their chunks.
pub(super) fn dataset(data: &[u8]) {
    headers(data, |image, header| {
        let Ok(dataset) = object::dataset(image, header) else { return };
        let (Layout::Chunked(chunked), Dataspace::Simple { dims, max }) =
            (&dataset.layout, &dataset.dataspace)
        else {
            return;
        };
        let map = ChunkMap { chunked, dims, max, filtered: !dataset.pipeline.is_empty() };
        let _ = chunk_index::chunks(image, &map);
        let counts = dims.iter().zip(&chunked.dims).map(|(dim, chunk)| dim.div_ceil(*chunk));
        let region: Vec<_> = counts.map(|count| count / 3..count - count / 3).collect();
        let _ = chunk_index::within(image, &map, &region);
    });
}

/// Elements of variable length: count, address, index.
pub(super) fn handles(data: &[u8]) {
    with(data, |image, _| {
        for element in data.chunks_exact(16).take(MAX_STRUCTURES) {
            let mut cursor = Cursor::new(element, "handle", 0);
            let parsed = cursor.u32().and_then(|_| cursor.address(image.sizes));
            if let Ok(Some(address)) = parsed {
                let _ =
                    Collection::open(image, address).map(|collection| collection.object(1).map(<[u8]>::len));
            }
        }
    });
}
