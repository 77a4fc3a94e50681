//! Files made with cycles, deep nesting or claimed sizes beyond any machine.

use crate::CpuTime;
use crate::maker::*;
use crate::memory;
use crate::targets::whole::{self, Bounds, Summary};
use hyperchunk::{ErrorKind, File, OpenOptions};
use std::time::Duration;

/// Memory limit for reading everything: this many times the size of the file, its declared sizes, and this
/// constant.
const TIMES: usize = 10;
const SMALL: usize = 8 << 20;

/// Reads all of a file, and checks that time and memory are justified by its size and its declared sizes.
///
/// If `HYPERCHUNK_KEEP` names a folder, the files are kept there as seeds for the fuzzer.
fn survives(name: &str, file: &[u8]) -> Summary {
    if let Some(folder) = std::env::var_os("HYPERCHUNK_KEEP") {
        std::fs::write(std::path::Path::new(&folder).join(format!("{name}.h5")), file).unwrap();
    }
    let before = memory::reset();
    let start = CpuTime::now();
    let summary = whole::read(file, Bounds { dataset: 4 << 20, total: 16 << 20 });
    let time = start.elapsed();
    let (peak, largest) = memory::peaks();
    let peak = peak - before;
    let most = file.len() * TIMES + summary.declared as usize + SMALL;
    assert!(time < Duration::from_secs(10), "{name}: {time:?}");
    assert!(peak < most, "{name}: {peak} bytes for a file of {}, largest piece {largest}", file.len());
    println!("{name}: {} bytes, {time:?}, peak {peak}, {summary:?}", file.len());
    summary
}

fn failed(summary: &Summary) -> bool {
    !summary.errors.is_empty()
}

fn options() -> OpenOptions {
    let mut options = OpenOptions::default();
    options.threads = 1;
    options
}

#[test]
fn hard_links_in_circles() {
    let _alone = crate::alone();
    // Groups that all link to each other, and to themselves.
    let mut maker = Maker::new();
    let size =
        header(&[&[link_info()][..], &(0..60).map(|_| hard("g00", 0)).collect::<Vec<_>>()].concat()).len();
    let rooms: Vec<u64> = (0..60).map(|_| maker.room(size)).collect();
    for room in &rooms {
        let links = rooms.iter().enumerate().map(|(number, room)| hard(&format!("g{number:02}"), *room));
        let all: Vec<Message> = [link_info()].into_iter().chain(links).collect();
        maker.put(*room, &header(&all));
    }
    let root = rooms[0];
    let summary = survives("hard links", &maker.file(root));
    assert_eq!((summary.objects, failed(&summary)), (60, false));
}

#[test]
fn soft_links_in_circles() {
    let _alone = crate::alone();
    let mut links = vec![
        soft("a", "b"),
        soft("b", "/a"),
        soft("self", "self"),
        soft("deep", "deep/x"),
        soft("here", "."),
    ];
    // Each link resolves the next one twice: 2^40 steps.
    links.extend(
        (0..40)
            .map(|number| soft(&format!("s{number:02}"), &format!("s{:02}/s{:02}", number + 1, number + 1))),
    );
    links.push(soft("s40", "/"));
    links.push(soft("long", &"here/".repeat(5000)));
    let summary = survives("soft links", &Maker::new().group(&links));
    assert!(failed(&summary));
}

#[test]
fn external_links_in_circles() {
    let _alone = crate::alone();
    let folder = std::env::temp_dir().join(format!("hyperchunk-hostile-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for (file, other) in [("one.h5", "two.h5"), ("two.h5", "one.h5")] {
        let links = [external("x", other, "/x"), external("me", file, "/me")];
        std::fs::write(folder.join(file), Maker::new().group(&links)).unwrap();
    }
    let start = CpuTime::now();
    let file = File::open(folder.join("one.h5"), &options()).unwrap();
    let root = file.root().unwrap().group().unwrap();
    for name in [&b"x"[..], b"me", b"x/x/me/x"] {
        assert_eq!(root.get(name).unwrap_err().kind(), ErrorKind::Limit);
    }
    assert!(start.elapsed() < Duration::from_secs(10));
    drop((file, root));
    std::fs::remove_dir_all(&folder).unwrap();
}

#[cfg(unix)]
#[test]
fn pipes_are_not_waited_for() {
    let _alone = crate::alone();
    let folder = std::env::temp_dir().join(format!("hyperchunk-pipe-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let pipe = folder.join("pipe");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status();
    if made.is_ok_and(|status| status.success()) {
        let error = File::open(&pipe, &options()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
    }
    std::fs::remove_dir_all(&folder).unwrap();
}

/// A root group whose symbol table is `tree`, with a heap of the names `` and `name`.
fn old_group(tree: impl FnOnce(&mut Maker, u64) -> u64) -> Vec<u8> {
    let mut maker = Maker::new();
    let root = header(&[symbol_table(0, 0)]);
    let room = maker.room(root.len());
    let tree = tree(&mut maker, room);
    let heap = maker.next();
    maker.place(&local_heap(heap, b"\0\0\0\0\0\0\0\0name\0\0\0\0"));
    maker.put(room, &header(&[symbol_table(tree, heap)]));
    maker.file(room)
}

#[test]
fn old_groups_that_refer_to_themselves() {
    let _alone = crate::alone();
    let own = old_group(|maker, _| {
        let address = maker.next();
        maker.place(&group_node(1, &[address; 30]))
    });
    assert!(failed(&survives("a node that is its own child", &own)));
    let deep = old_group(|maker, _| {
        // 200 levels of nodes, each with the same child 30 times.
        let mut child = maker.place(&symbols(&[(8, 48)]));
        for level in 0..200 {
            child = maker.place(&group_node(level, &[child; 30]));
        }
        child
    });
    assert!(failed(&survives("levels that multiply", &deep)));
    let wide = old_group(|maker, _| {
        let node = maker.place(&symbols(&[(8, 48); 2000]));
        maker.place(&group_node(0, &[node; 2000]))
    });
    assert!(failed(&survives("a node of symbols again and again", &wide)));
    let header_as_node = old_group(|_, root| root);
    assert!(failed(&survives("a header as a node", &header_as_node)));
    // The group is in itself.
    let inside = old_group(|maker, root| {
        let node = maker.place(&symbols(&[(8, root)]));
        maker.place(&group_node(0, &[node]))
    });
    assert_eq!(survives("a group in itself", &inside).objects, 1);
}

#[test]
fn one_long_name_for_many_links() {
    let _alone = crate::alone();
    let mut maker = Maker::new();
    let room = maker.room(header(&[symbol_table(0, 0)]).len());
    let leaves: Vec<u64> = (0..4).map(|_| maker.place(&symbols(&[(8, room); 2000]))).collect();
    let tree = maker.place(&group_node(0, &leaves));
    let heap = maker.next();
    let names = [&[0; 8][..], &vec![b'n'; 300_000], &[0; 8]].concat();
    maker.place(&local_heap(heap, &names));
    maker.put(room, &header(&[symbol_table(tree, heap)]));
    assert!(failed(&survives("one name", &maker.file(room))));
}

#[test]
fn free_lists_in_circles() {
    let _alone = crate::alone();
    let mut maker = Maker::new();
    let room = maker.room(header(&[symbol_table(0, 0)]).len());
    let tree = maker.place(&group_node(0, &[]));
    let heap = maker.next();
    let mut bytes = local_heap(heap, &u64s(&[0, 8, 16, 8, 24, 0]));
    bytes[16..24].copy_from_slice(&8_u64.to_le_bytes());
    maker.place(&bytes);
    maker.put(room, &header(&[symbol_table(tree, heap)]));
    assert!(failed(&survives("a free list", &maker.file(room))));
}

fn continuation(address: u64, length: u64) -> Message {
    Message(0x10, 0, u64s(&[address, length]))
}

#[test]
fn headers_that_continue_in_circles() {
    let _alone = crate::alone();
    let mut maker = Maker::new();
    let root = maker.next();
    let length = header(&[link_info(), continuation(0, 0)]).len() as u64;
    maker.place(&header(&[link_info(), continuation(root, length)]));
    assert!(failed(&survives("a header that continues in itself", &maker.file(root))));

    let mut maker = Maker::new();
    let block = |next: u64| summed([b"OCHK".to_vec(), messages(&[continuation(next, 28)])].concat());
    let (one, two) = (maker.room(28), maker.room(28));
    maker.put(one, &block(two));
    maker.put(two, &block(one));
    let root = maker.place(&header(&[link_info(), continuation(one, 28)]));
    assert!(failed(&survives("two blocks", &maker.file(root))));

    // A block that continues in itself many times; and a long chain, which is valid.
    let mut maker = Maker::new();
    let one = maker.next();
    let all: Vec<Message> = (0..50).map(|_| continuation(one, 4 + 50 * 20 + 4)).collect();
    maker.place(&summed([b"OCHK".to_vec(), messages(&all)].concat()));
    let root = maker.place(&header(&[link_info(), continuation(one, 4 + 50 * 20 + 4)]));
    assert!(failed(&survives("a block many times", &maker.file(root))));
    let mut maker = Maker::new();
    let rooms: Vec<u64> = (0..5000).map(|_| maker.room(28)).collect();
    for pair in rooms.windows(2) {
        maker.put(pair[0], &block(pair[1]));
    }
    let end = summed([b"OCHK".to_vec(), messages(&[Message(0, 0, vec![0; 16])])].concat());
    maker.put(rooms[4999], &end);
    let root = maker.place(&header(&[link_info(), continuation(rooms[0], 28)]));
    assert!(!failed(&survives("a long chain", &maker.file(root))));
}

#[test]
fn a_million_messages() {
    let _alone = crate::alone();
    let unknown: Vec<Message> = (0..250_000).map(|_| Message(0x1f, 0, Vec::new())).collect();
    survives("messages of no bytes", &Maker::new().group(&unknown));
    let scalar = Message(0x01, 0, vec![2, 0, 0, 0]);
    let attributes: Vec<Message> =
        (0..20_000).map(|number| attribute(&format!("{number:05}"), &integers(1), &scalar, &[7])).collect();
    let summary = survives("attributes", &Maker::new().group(&attributes));
    assert_eq!((summary.values, failed(&summary)), (20_000, false));
}

/// A file with a single dataset of this header.
fn dataset(maker: Maker, all: &[Message]) -> Vec<u8> {
    let mut maker = maker;
    let address = maker.place(&header(all));
    maker.group(&[hard("d", address)])
}

#[test]
fn more_elements_than_there_are_atoms() {
    let _alone = crate::alone();
    const HUGE: u64 = 1 << 60;
    let layouts: [(&str, Message); 5] = [
        ("nowhere", contiguous(UNDEFINED, 0)),
        ("too short", contiguous(48, HUGE)),
        ("small chunks", chunked(UNDEFINED, &[1], 1)),
        ("large chunks", chunked(UNDEFINED, &[u32::MAX], 1)),
        ("a tree", chunked(48, &[4096], 1)),
    ];
    for (name, layout) in layouts {
        for dims in [&[HUGE][..], &[u64::MAX]] {
            let all = [space(dims, &[]), datatype(integers(1)), layout.clone()];
            let file = dataset(Maker::new(), &all);
            survives(name, &file);
        }
    }
    let dims = [1 << 20, 1 << 20, 1 << 20];
    let layout = chunked(UNDEFINED, &[1 << 20, 1 << 20, 1 << 20], 8);
    survives("chunks of 2^63", &dataset(Maker::new(), &[space(&dims, &[]), datatype(integers(8)), layout]));
    // A part of it can still be read, and quickly.
    let all = [space(&[HUGE], &[]), datatype(integers(1)), chunked(UNDEFINED, &[1], 1)];
    let file = File::from_bytes(dataset(Maker::new(), &all), &options()).unwrap();
    let found = file.root().unwrap().group().unwrap().get(b"d").unwrap().dataset().unwrap();
    let start = CpuTime::now();
    let axis = hyperchunk::select::Axis::range(HUGE - (1 << 22)..HUGE);
    let mut out = vec![1; 1 << 22];
    found.read(&hyperchunk::select::Selection::Axes(vec![axis]), &mut out).unwrap();
    assert!(out.iter().all(|byte| *byte == 0));
    assert!(start.elapsed() < Duration::from_secs(5), "{:?}", start.elapsed());
}

/// A small dataset of one chunk that is stored as `stored`.
fn one_chunk(stored: &[u8], filters: &[(u16, &[u32])], extent: u64, chunk: u32, element: u32) -> Vec<u8> {
    let mut maker = Maker::new();
    let chunk_address = maker.place(stored);
    let tree = maker.place(&chunk_leaf(1, stored.len() as u32, chunk_address));
    let all = [
        space(&[extent], &[UNDEFINED]),
        datatype(integers(element)),
        chunked(tree, &[chunk], element),
        pipeline(filters),
    ];
    dataset(maker, &all)
}

/// A deflate bomb of zeros with the maximum run length: a byte of the stream expands to more than 100.
fn bomb(bytes: usize) -> Vec<u8> {
    // A block of fixed codes: literal 0 (8 bits 00110000), then pairs of length 258 (8 bits 11000101) and
    // distance 1 (5 bits).
    let mut bits: Vec<bool> = vec![true, true, false];
    let mut code = |value: u32, width: u32| (0..width).rev().for_each(|bit| bits.push(value >> bit & 1 == 1));
    code(0x30, 8);
    let runs = bytes / 258;
    for _ in 0..runs {
        code(0b1100_0101, 8);
        code(0, 5);
    }
    code(0, 7);
    let mut stream = vec![0x78, 0x9c];
    stream.extend(
        bits.chunks(8).map(|bits| bits.iter().rev().fold(0_u8, |byte, bit| byte << 1 | u8::from(*bit))),
    );
    // Adler-32 of 1 + 258 * runs zeros.
    let length = (1 + 258 * runs) as u32;
    stream.extend((((length % 65_521) << 16) | 1).to_be_bytes());
    stream
}

#[test]
fn bombs() {
    let _alone = crate::alone();
    let stream = bomb(1 << 24);
    let levels: Vec<(u16, &[u32])> = (0..32).map(|_| (1_u16, &[9_u32][..])).collect();
    assert!(failed(&survives("deflate", &one_chunk(&stream, &levels[..1], 10, 1000, 1))));
    survives("many levels", &one_chunk(&stream, &levels, 10, 1000, 1));
    survives("a bomb in a large chunk", &one_chunk(&stream, &levels[..2], 10, 1 << 20, 1));
    let header: Vec<u8> = [&[0; 4][..], &[8], &[0; 16]].concat();
    let scale: &[u32] = &[2, 0, u32::MAX, 0, 8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    assert!(failed(&survives("scaleoffset", &one_chunk(&header, &[(6, scale)], 10, 1000, 8))));
    let nbit: &[u32] = &[8, 0, u32::MAX, 1, 8, 0, 0, 0];
    assert!(failed(&survives("nbit", &one_chunk(&[0; 64], &[(5, nbit)], 10, 1000, 8))));
    let szip = [&0x7fff_ffff_u32.to_le_bytes()[..], &[0; 256]].concat();
    assert!(failed(&survives("szip", &one_chunk(&szip, &[(4, &[141, 32, 8, 256])], 10, 1000, 1))));
}

#[test]
fn a_type_in_nbit_that_nests() {
    let _alone = crate::alone();
    // Arrays of compounds of arrays, hundreds of levels deep.
    let mut parameters: Vec<u32> = vec![0, 0, 1, 3, 1 << 30, 600];
    for _ in 0..600 {
        parameters.extend([0, 2, 1, 3, 1, 600]);
    }
    parameters[0] = parameters.len() as u32;
    assert!(failed(&survives("nbit", &one_chunk(&[0; 64], &[(5, &parameters)], 10, 1000, 8))));
}

#[test]
fn sequences_of_sequences_of_themselves() {
    let _alone = crate::alone();
    // Twenty levels; a heap object that contains itself 200 times at each.
    let mut maker = Maker::new();
    let heap = maker.next();
    let object = handle(200, heap, 1).repeat(200);
    maker.place(&collection(&[object]));
    let mut kind = integers(1);
    for _ in 0..20 {
        kind = sequences(&kind);
    }
    let scalar = Message(0x01, 0, vec![2, 0, 0, 0]);
    let root = [link_info(), attribute("a", &kind, &scalar, &handle(200, heap, 1))];
    let address = maker.place(&header(&root));
    let file = maker.file(address);
    let mut options = options();
    options.limits.sequence_bytes = 16 << 20;
    let start = CpuTime::now();
    let file = File::from_bytes(file, &options).unwrap();
    let root = file.root().unwrap();
    let attribute = root.attributes().unwrap().remove(0);
    let error = hyperchunk::digest::attribute(&file, &attribute).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}

#[test]
fn types_that_nest_without_end() {
    let _alone = crate::alone();
    let mut deep = integers(1);
    for _ in 0..5000 {
        deep = sequences(&deep);
    }
    let all = [space(&[4], &[]), datatype(deep), contiguous(UNDEFINED, 0)];
    assert!(failed(&survives("sequences", &dataset(Maker::new(), &all))));
    // A committed type whose message is shared with itself.
    let mut maker = Maker::new();
    let own = maker.next();
    let shared = Message(0x03, 2, [&[3, 2][..], &u64s(&[own])].concat());
    maker.place(&header(&[shared]));
    let file = maker.group(&[hard("t", own)]);
    assert!(failed(&survives("a type that is itself", &file)));
}

#[test]
fn groups_below_groups_below_groups() {
    let _alone = crate::alone();
    // 3000 levels, names of 500 bytes: paths together have over 700 MB.
    let mut maker = Maker::new();
    let mut below = maker.place(&header(&[link_info()]));
    let name = "n".repeat(500);
    for _ in 0..3000 {
        below = maker.place(&header(&[link_info(), hard(&name, below)]));
    }
    let file = maker.file(below);
    let before = memory::reset();
    let file = File::from_bytes(file, &options()).unwrap();
    let root = file.root().unwrap();
    let mut count = 0;
    file.walk(&root, b"/", &mut |_| {
        count += 1;
        Ok(hyperchunk::walk::Next::Enter)
    })
    .unwrap();
    let peak = memory::peaks().0 - before;
    assert!(count > 1000 && peak < 32 << 20, "{count} visits, {peak} bytes");
}

/// One mapping of a virtual dataset: version 0 of its encoding.
fn mapping(file: &str, path: &str, source: &[u8], target: &[u8]) -> Vec<u8> {
    [file.as_bytes(), b"\0", path.as_bytes(), b"\0", source, target].concat()
}

/// The encoding of a selection of all elements.
fn all() -> Vec<u8> {
    [3_u32, 1, 0, 0].iter().flat_map(|number| number.to_le_bytes()).collect()
}

fn mappings(of: &[Vec<u8>]) -> Vec<u8> {
    summed([&[0][..], &u64s(&[of.len() as u64]), &of.concat()].concat())
}

#[test]
fn virtual_datasets_of_themselves() {
    let _alone = crate::alone();
    let file = |sources: &[&[&str]]| {
        let mut maker = Maker::new();
        let mut links = Vec::new();
        for (number, sources) in sources.iter().enumerate() {
            let each: Vec<Vec<u8>> = sources.iter().map(|path| mapping(".", path, &all(), &all())).collect();
            let heap = maker.place(&collection(&[mappings(&each)]));
            let address =
                maker.place(&header(&[space(&[8], &[]), datatype(integers(1)), virtual_layout(heap)]));
            links.push(hard(&format!("d{number}"), address));
        }
        maker.group(&links)
    };
    assert!(failed(&survives("of itself", &file(&[&["d0"]]))));
    assert!(failed(&survives("of itself, often", &file(&[&["d0"; 20]]))));
    assert!(failed(&survives("in a circle", &file(&[&["d1"; 5], &["d2"; 5], &["d0"; 5]]))));
    // No cycle, but each has the next one ten times: 10^9 reads. A lower limit, for slow builds.
    let mut few = options();
    few.limits.virtual_mappings = 40_000;
    let chain: Vec<Vec<String>> = (1..10).map(|number| vec![format!("d{number}"); 10]).collect();
    let chain: Vec<Vec<&str>> =
        chain.iter().map(|paths| paths.iter().map(String::as_str).collect()).collect();
    let chain: Vec<&[&str]> = chain.iter().map(Vec::as_slice).collect();
    let file = File::from_bytes(file(&chain), &few).unwrap();
    let found = file.root().unwrap().group().unwrap().get(b"d0").unwrap().dataset().unwrap();
    let start = CpuTime::now();
    let read = found.read(&hyperchunk::select::Selection::All, &mut [0; 8]);
    assert_eq!(read.unwrap_err().kind(), ErrorKind::Limit);
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
}
