#![allow(clippy::cast_possible_truncation, clippy::cast_possible_wrap, reason = "small numbers")]

use super::*;
use crate::{ErrorKind, File, OpenOptions};
use hyperchunk_format::codec::Decoder;
use hyperchunk_format::encode::LibVersion;
use hyperchunk_format::model::{
    AllocationTime, Attribute, ByteOrder, CharacterSet, Dataspace, Datatype, FillWhen, Filter, Name,
};
use hyperchunk_format::select::{Axis, Selection};
use std::sync::Arc;

fn space(dims: &[u64]) -> Dataspace {
    Dataspace::Simple { dims: dims.to_vec(), max: dims.iter().map(|dim| Some(*dim)).collect() }
}

fn endless(dims: &[u64]) -> Dataspace {
    Dataspace::Simple { dims: dims.to_vec(), max: dims.iter().map(|_| None).collect() }
}

fn int32() -> Datatype {
    Datatype::integer(4, true, ByteOrder::Little)
}

fn deflate() -> Vec<Filter> {
    let filter = |id, parameters| Filter { id, optional: true, name: None, parameters };
    vec![filter(2, vec![4]), filter(1, vec![1])]
}

fn chunked(dataspace: Dataspace, chunk: &[u64]) -> DatasetOptions {
    DatasetOptions::new(int32(), dataspace).with_layout(NewLayout::Chunked(chunk.to_vec()))
}

fn numbers(range: std::ops::Range<i32>) -> Vec<u8> {
    range.flat_map(i32::to_le_bytes).collect()
}

struct TestFile {
    sink: Arc<MemorySink>,
    file: Writer,
}

fn made(change: impl FnOnce(&mut CreateOptions)) -> TestFile {
    let sink = Arc::new(MemorySink::default());
    let mut options = CreateOptions::default();
    change(&mut options);
    let file = Writer::create_in(Arc::<MemorySink>::clone(&sink), None, &options).unwrap();
    TestFile { sink, file }
}

impl TestFile {
    fn read(&self) -> File {
        File::from_bytes(self.sink.bytes(), &OpenOptions::default()).unwrap()
    }
}

fn values(file: &File, path: &str, selection: &Selection) -> Vec<i32> {
    let dataset = file.root().unwrap().group().unwrap().get(path.as_bytes()).unwrap().dataset().unwrap();
    let count = selection.count(dataset.dims()).unwrap();
    let mut bytes = vec![0; usize::try_from(count).unwrap() * 4];
    dataset.read(selection, &mut bytes).unwrap();
    bytes.chunks_exact(4).map(|four| i32::from_le_bytes(four.try_into().unwrap())).collect()
}

const VERSIONS: [LibVersion; 3] = [LibVersion::V18, LibVersion::V110, LibVersion::V200];

#[test]
fn layouts_are_read_back() {
    for oldest in VERSIONS {
        for (filters, dataspace) in [
            (vec![], space(&[10, 7])),
            (deflate(), space(&[10, 7])),
            (deflate(), endless(&[10, 7])),
            (vec![], endless(&[10, 7])),
        ] {
            let made = made(|options| options.oldest = oldest);
            let group = made.file.create_group(NodeId::ROOT, b"g", false).unwrap();
            let data = numbers(0..70);
            let options = chunked(dataspace.clone(), &[4, 3]).with_pipeline(filters.clone());
            let dataset = made.file.create_dataset(group, b"chunked", options).unwrap();
            dataset.write(&Selection::All, &data).unwrap();
            for (name, layout) in [("compact", NewLayout::Compact), ("contiguous", NewLayout::Contiguous)] {
                let options = DatasetOptions::new(int32(), space(&[10, 7])).with_layout(layout);
                let dataset = made.file.create_dataset(group, name.as_bytes(), options).unwrap();
                dataset.write(&Selection::All, &data).unwrap();
            }
            let expected: Vec<i32> = (0..70).collect();
            for file in [made.file.snapshot().unwrap(), {
                made.file.close().unwrap();
                made.read()
            }] {
                for name in ["g/chunked", "g/compact", "g/contiguous"] {
                    assert_eq!(values(&file, name, &Selection::All), expected, "{oldest:?} {name}");
                }
            }
        }
    }
}

#[test]
fn parts_of_chunks_wait_for_the_rest() {
    let made = made(|options| options.waiting_bytes = 200);
    let mut options = chunked(endless(&[20, 20]), &[6, 5]).with_pipeline(deflate());
    options.fill.value = FillWhen::User(7_i32.to_le_bytes().to_vec());
    let dataset = made.file.create_dataset(NodeId::ROOT, b"d", options).unwrap();
    let mut model = vec![7_i32; 400];
    let mut next = 100;
    for step in 0..60_u64 {
        let (row, column) = (step * 7 % 18, step * 5 % 17);
        let selection = Selection::Axes(vec![Axis::range(row..row + 2), Axis::range(column..column + 3)]);
        dataset.write(&selection, &numbers(next..next + 6)).unwrap();
        for place in 0..6 {
            let (r, c) = (row as usize + place / 3, column as usize + place % 3);
            model[r * 20 + c] = next + place as i32;
        }
        next += 6;
        if step % 9 == 0 {
            assert_eq!(values(&made.file.snapshot().unwrap(), "d", &Selection::All), model, "{step}");
        }
        if step % 20 == 19 {
            made.file.flush().unwrap();
            assert_eq!(values(&made.read(), "d", &Selection::All), model);
        }
    }
    made.file.close().unwrap();
    assert_eq!(values(&made.read(), "d", &Selection::All), model);
}

#[test]
fn extents_change() {
    let made = made(|_| ());
    let mut options = chunked(endless(&[5, 5]), &[4, 4]).with_pipeline(deflate());
    options.fill.value = FillWhen::User((-1_i32).to_le_bytes().to_vec());
    let dataset = made.file.create_dataset(NodeId::ROOT, b"d", options).unwrap();
    dataset.write(&Selection::All, &numbers(0..25)).unwrap();
    dataset.resize(&[3, 2]).unwrap();
    dataset.resize(&[5, 6]).unwrap();
    let mut expected = vec![-1; 30];
    for (row, column) in (0..3).flat_map(|row| (0..2).map(move |column| (row, column))) {
        expected[row * 6 + column] = (row * 5 + column) as i32;
    }
    assert_eq!(values(&made.file.snapshot().unwrap(), "d", &Selection::All), expected);
    assert_eq!(dataset.resize(&[1]).unwrap_err().kind(), ErrorKind::Invalid);
    made.file.close().unwrap();
    assert_eq!(values(&made.read(), "d", &Selection::All), expected);
    assert_eq!(dataset.resize(&[1, 1]).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn chunks_are_written_as_they_are() {
    let made = made(|_| ());
    let options = chunked(space(&[7, 6]), &[4, 3]).with_pipeline(deflate());
    let dataset = made.file.create_dataset(NodeId::ROOT, b"d", options).unwrap();
    // Not deflated at all: the bytes are not checked.
    dataset.write_chunk(&[0, 3], b"whatever", 0).unwrap();
    assert_eq!(dataset.read_chunk(&[0, 3]).unwrap(), Some((b"whatever".to_vec(), 0)));
    assert_eq!(dataset.read_chunk(&[4, 3]).unwrap(), None);
    // Overwritten: smaller in the same place, larger in another.
    let plain = numbers(0..12);
    for _ in 0..3 {
        dataset.write_chunk(&[0, 3], &plain, 3).unwrap();
        dataset.write_chunk(&[0, 3], b"ab", 0).unwrap();
    }
    dataset.write_chunk(&[0, 3], &plain, 3).unwrap();
    let many: [DirectChunk<'_>; 2] = [(&[4, 0], &plain, 3), (&[4, 3], &plain, 3)];
    dataset.write_chunks(&many).unwrap();
    for (offset, problem) in [
        (&[0][..], "expected 2 numbers"),
        (&[1, 0], "multiples of 4"),
        (&[0, 4], "multiples of 3"),
        (&[8, 0], "beyond the extent of 7"),
    ] {
        let error = dataset.write_chunk(offset, &plain, 3).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(problem), "{error}");
    }
    assert_eq!(dataset.write_chunk(&[0, 0], b"", 0).unwrap_err().kind(), ErrorKind::Invalid);
    made.file.close().unwrap();
    let file = made.read();
    assert!(made.file.0.space.end() < 2048 + 6000, "space is used again");
    let chunk = Selection::Axes(vec![Axis::range(0..4), Axis::range(3..6)]);
    assert_eq!(values(&file, "d", &chunk), (0..12).collect::<Vec<_>>());
    let rest = Selection::Axes(vec![Axis::range(0..4), Axis::range(0..3)]);
    assert_eq!(values(&file, "d", &rest), [0; 12]);
    let mut decoder = Decoder::default();
    assert_eq!(decoder.decode(&deflate(), 3, &plain, 48).unwrap(), plain);
}

#[test]
fn chunks_side_by_side_need_no_index() {
    let made = made(|options| options.oldest = LibVersion::V110);
    let dataset = made.file.create_dataset(NodeId::ROOT, b"d", chunked(space(&[7, 6]), &[4, 3])).unwrap();
    let chunk = |start: i32| numbers(start..start + 12);
    let check = |expected: &str, allocation: AllocationTime, chunks: [i32; 4]| {
        let file = made.file.snapshot().unwrap();
        let found = file.root().unwrap().group().unwrap().get(b"d").unwrap().dataset().unwrap();
        let index = format!("{:?}", found.chunked().unwrap().index);
        assert!(index.starts_with(expected), "{index}");
        assert_eq!(found.fill().allocation, allocation);
        for (place, start) in chunks.into_iter().enumerate() {
            let (row, column) = (place as u64 / 2 * 4, place as u64 % 2 * 3);
            let selection = Selection::Axes(vec![Axis::range(row..row + 1), Axis::range(column..column + 3)]);
            let expected = if start < 0 { vec![0; 3] } else { (start..start + 3).collect() };
            assert_eq!(values(&file, "d", &selection), expected);
        }
    };
    let array = ("FixedArray", AllocationTime::Incremental);
    check(array.0, array.1, [-1; 4]);
    dataset.write_chunk(&[0, 0], &chunk(10), 0).unwrap();
    dataset.write_chunk(&[0, 3], &chunk(20), 0).unwrap();
    dataset.write_chunk(&[4, 0], &chunk(30), 0).unwrap();
    check(array.0, array.1, [10, 20, 30, -1]);
    dataset.write_chunk(&[4, 3], &chunk(40), 0).unwrap();
    check("Implicit", AllocationTime::Early, [10, 20, 30, 40]);
    made.file.flush().unwrap();
    // A committed chunk is not overwritten: the new one gets another place.
    dataset.write_chunk(&[0, 3], &chunk(50), 0).unwrap();
    check(array.0, array.1, [10, 50, 30, 40]);
    made.file.close().unwrap();
    assert_eq!(values(&made.read(), "d", &Selection::All)[3..6], [50, 51, 52]);
}

#[test]
fn runs_of_chunks_are_one_write() {
    let folder = Folder::new("runs");
    let path = folder.0.join("a.h5");
    let file = Writer::create(&path, &CreateOptions::default()).unwrap();
    let options = chunked(endless(&[8, 6]), &[4, 3]).with_pipeline(deflate());
    let dataset = file.create_dataset(NodeId::ROOT, b"d", options).unwrap();
    let data = numbers(0..48);
    let offsets = [0, 0, 0, 3, 4, 0, 4, 3];
    let run = ChunkRun { offsets: &offsets, data: &data, sizes: None, masks: Some(&[3; 4]) };
    dataset.write_chunk_run(&run).unwrap();
    let chunk = |row, column| dataset.read_chunk(&[row, column]).unwrap().unwrap();
    assert_eq!(chunk(4, 0), (numbers(24..36), 3));
    // Of different sizes, with one chunk twice: the last one counts.
    let again = ChunkRun { offsets: &offsets[..6], data: b"abbccc", sizes: Some(&[1, 2, 3]), masks: None };
    dataset.write_chunk_run(&again).unwrap();
    let twice = ChunkRun { offsets: &[4, 3, 4, 3], data: b"xxyy", sizes: None, masks: Some(&[0, 1]) };
    dataset.write_chunk_run(&twice).unwrap();
    dataset.write_chunk_run(&ChunkRun { offsets: &[], data: b"", sizes: None, masks: None }).unwrap();
    for (run, problem) in [
        (ChunkRun { offsets: &offsets[..3], ..run }, "3 numbers, expected a multiple of 2"),
        (ChunkRun { masks: Some(&[0; 3]), ..run }, "`masks` must have 4 values"),
        (ChunkRun { data: &data[1..], ..run }, "need `sizes`"),
        (ChunkRun { sizes: Some(&[48, 48, 48, 49]), ..run }, "less than all chunks together"),
        (ChunkRun { sizes: Some(&[48, 48, 48, 47]), ..run }, "1 bytes after the last chunk"),
        (ChunkRun { sizes: Some(&[96, 96, 0, 0]), ..run }, "without bytes"),
        (ChunkRun { offsets: &[0, 0, 0, 3, 4, 0, 8, 3], ..run }, "beyond the extent"),
    ] {
        let error = dataset.write_chunk_run(&run).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(problem), "{error}");
    }
    let found = |dataset: &DatasetWriter, row, column| dataset.read_chunk(&[row, column]).unwrap().unwrap();
    let expected: [(_, _, &[u8], _); 4] =
        [(0, 0, b"a", 0), (0, 3, b"bb", 0), (4, 0, b"ccc", 0), (4, 3, b"yy", 1)];
    for (row, column, bytes, mask) in expected {
        assert_eq!(found(&dataset, row, column), (bytes.to_vec(), mask));
    }
    drop((file, dataset));
    let recovered = recover(&path).unwrap();
    assert_eq!((recovered.chunks, recovered.lost, recovered.torn), (4, vec![], 0));
    let open = File::open(&path, &OpenOptions::default()).unwrap();
    let dataset = open.root().unwrap().group().unwrap().get(b"d").unwrap().dataset().unwrap();
    for (row, column, bytes, mask) in expected {
        let chunks = dataset.chunks().unwrap();
        let chunk = chunks.iter().find(|chunk| chunk.scaled == [row / 4, column / 3]).unwrap();
        assert_eq!((dataset.read_chunk_raw(chunk).unwrap(), chunk.filter_mask), (bytes.to_vec(), mask));
    }
}

#[test]
fn addresses_taken_after_a_snapshot_are_those_of_the_next_one() {
    let made = made(|_| ());
    let file = &made.file;
    let groups: Vec<NodeId> =
        ["a", "b", "c"].map(|name| file.create_group(NodeId::ROOT, name.as_bytes(), false).unwrap()).into();
    for group in groups {
        let address = file.address(group).unwrap();
        assert_eq!(file.snapshot_node(address).unwrap(), Some(group));
        assert_eq!(file.snapshot().unwrap().object(address).unwrap().address(), address);
    }
}

#[test]
fn links_attributes_and_references() {
    let made = made(|_| ());
    let file = &made.file;
    let group = file.create_group(NodeId::ROOT, b"group", true).unwrap();
    let dataset = file.create_dataset(group, b"d", DatasetOptions::new(int32(), Dataspace::Scalar)).unwrap();
    let address = file.address(dataset.id()).unwrap();
    dataset.write(&Selection::All, &numbers(5..6)).unwrap();
    file.link(NodeId::ROOT, b"again", NewLink::Hard(dataset.id())).unwrap();
    file.link(NodeId::ROOT, b"soft", NewLink::Soft("/group/d".into())).unwrap();
    file.link(group, b"up", NewLink::Hard(NodeId::ROOT)).unwrap();
    file.link(group, b"gone", NewLink::Hard(dataset.id())).unwrap();
    file.unlink(group, b"gone").unwrap();
    assert_eq!(file.unlink(group, b"gone").unwrap_err().kind(), ErrorKind::NotFound);
    assert_eq!(file.link(group, b"d", NewLink::Hard(group)).unwrap_err().kind(), ErrorKind::Exists);
    for name in ["", ".", "a/b", "nul\0"] {
        assert!(file.link(group, name.as_bytes(), NewLink::Hard(group)).is_err(), "{name:?}");
    }
    let attribute = |name: &str, value: i32| Attribute {
        name: Name::from(name),
        charset: CharacterSet::Ascii,
        datatype: int32(),
        committed: None,
        dataspace: Dataspace::Scalar,
        data: value.to_le_bytes().to_vec(),
        creation_order: None,
    };
    file.set_attribute(dataset.id(), attribute("b", 1)).unwrap();
    file.set_attribute(dataset.id(), attribute("a", 2)).unwrap();
    file.set_attribute(dataset.id(), attribute("b", 3)).unwrap();
    file.set_attribute(dataset.id(), attribute("c", 3)).unwrap();
    file.delete_attribute(dataset.id(), b"c").unwrap();
    for file in [file.snapshot().unwrap(), {
        file.close().unwrap();
        made.read()
    }] {
        assert_eq!(values(&file, "again", &Selection::All), [5]);
        assert_eq!(values(&file, "soft", &Selection::All), [5]);
        assert_eq!(values(&file, "group/up/group/d", &Selection::All), [5]);
        let object = file.object(address).unwrap();
        let found = object.attributes().unwrap();
        let found: Vec<_> = found.iter().map(|a| (a.name.to_string(), a.data[0])).collect();
        assert_eq!(found, [("a".to_owned(), 2), ("b".to_owned(), 3)]);
    }
}

#[test]
fn who_uses_a_committed_datatype_counts_as_a_link_to_it() {
    let made = made(|_| ());
    let file = &made.file;
    let used = file.commit_datatype(NodeId::ROOT, b"used", int32()).unwrap();
    let unused = file.commit_datatype(NodeId::ROOT, b"unused", int32()).unwrap();
    let [address, other] = [used, unused].map(|datatype| file.address(datatype).unwrap());
    let options =
        DatasetOptions { committed: Some(address), ..DatasetOptions::new(int32(), Dataspace::Scalar) };
    let dataset = file.create_dataset(NodeId::ROOT, b"d", options).unwrap();
    let attribute = Attribute {
        name: Name::from("a"),
        charset: CharacterSet::Ascii,
        datatype: int32(),
        committed: Some(address),
        dataspace: Dataspace::Scalar,
        data: vec![0; 4],
        creation_order: None,
    };
    file.set_attribute(dataset.id(), attribute.clone()).unwrap();
    file.set_attribute(used, attribute).unwrap();
    file.close().unwrap();
    let read = made.read();
    let count = |address| read.object(address).unwrap().header().reference_count;
    assert_eq!((count(address), count(other)), (4, 1));
}

#[test]
fn a_file_has_its_name_when_it_is_committed() {
    let folder = std::env::temp_dir().join(format!("hyperchunk-write-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("a.h5");
    let partial = folder.join("a.h5.partial");
    std::fs::write(&path, "the old one").unwrap();
    let options = CreateOptions::default();
    let file = Writer::create(&path, &options).unwrap();
    let dataset = file.create_dataset(NodeId::ROOT, b"d", chunked(space(&[100, 100]), &[10, 10])).unwrap();
    dataset.write(&Selection::All, &numbers(0..10_000)).unwrap();
    assert_eq!(std::fs::read(&path).unwrap(), b"the old one");
    let unfinished = File::open(&partial, &OpenOptions::default()).unwrap_err();
    assert_eq!(unfinished.kind(), ErrorKind::NotHdf5);
    let again = Writer::create(&path, &options).unwrap_err();
    assert!(again.to_string().contains("hyperchunk recover"), "{again}");
    file.flush().unwrap();
    assert!(!partial.exists());
    let expected: Vec<i32> = (0..10_000).collect();
    assert_eq!(values(&File::open(&path, &OpenOptions::default()).unwrap(), "d", &Selection::All), expected);
    // Bytes that a reader of the last commit may read are not overwritten.
    let reader = File::open(&path, &OpenOptions::default()).unwrap();
    dataset.write(&Selection::All, &numbers(5..10_005)).unwrap();
    assert_eq!(values(&reader, "d", &Selection::All), expected);
    file.close().unwrap();
    let late = reader.root().and_then(|root| root.group()?.get(b"d")).unwrap_err();
    assert_eq!(late.kind(), ErrorKind::Changed);
    assert_eq!(values(&File::open(&path, &OpenOptions::default()).unwrap(), "d", &Selection::All)[0], 5);
    let exists = CreateOptions { replace: false, ..options };
    assert!(Writer::create(&path, &exists).unwrap_err().to_string().contains("exists"));
    // Windows deletes no open file.
    assert!(std::fs::remove_dir_all(&folder).is_ok() || cfg!(windows));
}

/// A temporary folder.
struct Folder(std::path::PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("hyperchunk-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

#[test]
fn what_a_killed_writer_left_is_got_back() {
    let folder = Folder::new("recover");
    for flushed in [false, true] {
        let path = folder.0.join("a.h5");
        drop(std::fs::remove_file(&path));
        let file = Writer::create(&path, &CreateOptions::default()).unwrap();
        let group = file.create_group(NodeId::ROOT, b"g", true).unwrap();
        let options = chunked(endless(&[8, 4]), &[4, 4]).with_pipeline(deflate());
        let dataset = file.create_dataset(group, b"d", options).unwrap();
        let whole = Selection::Axes(vec![Axis::range(0..4), Axis::range(0..4)]);
        dataset.write(&whole, &numbers(0..16)).unwrap();
        let contiguous =
            file.create_dataset(group, b"c", DatasetOptions::new(int32(), space(&[100]))).unwrap();
        contiguous.write(&Selection::Axes(vec![Axis::range(10..20)]), &numbers(10..20)).unwrap();
        let compact = DatasetOptions::new(int32(), space(&[3])).with_layout(NewLayout::Compact);
        file.create_dataset(group, b"k", compact).unwrap().write(&Selection::All, &numbers(7..10)).unwrap();
        if flushed {
            file.flush().unwrap();
        }
        // Overwritten and resized after the commit.
        dataset.write(&whole, &numbers(100..116)).unwrap();
        dataset.resize(&[12, 4]).unwrap();
        let last = Selection::Axes(vec![Axis::range(8..12), Axis::range(0..4)]);
        dataset.write(&last, &numbers(50..66)).unwrap();
        // A partially written chunk, never complete.
        dataset.write(&Selection::Axes(vec![Axis::index(5), Axis::index(0)]), &numbers(1..2)).unwrap();
        let busy = recover(&path).unwrap_err();
        assert!(busy.to_string().contains("another program writes"), "{busy}");
        drop((file, dataset, contiguous));
        assert_eq!(path.exists(), flushed);
        if flushed {
            let open = File::open(&path, &OpenOptions::default()).unwrap();
            assert_eq!(values(&open, "g/d", &whole), (0..16).collect::<Vec<_>>());
        }
        let again = Writer::create(&path, &CreateOptions::default()).unwrap_err();
        assert!(again.to_string().contains("hyperchunk recover"), "{again}");
        let found = recover(&path).unwrap();
        assert_eq!((found.datasets, found.chunks, found.lost, found.torn), (3, 2, vec![], 0));
        let open = File::open(&path, &OpenOptions::default()).unwrap();
        assert_eq!(values(&open, "g/d", &whole), (100..116).collect::<Vec<_>>());
        assert_eq!(values(&open, "g/d", &last), (50..66).collect::<Vec<_>>());
        assert_eq!(values(&open, "g/d", &Selection::All).iter().filter(|value| **value == 0).count(), 16);
        let expected: Vec<i32> =
            (0..100).map(|value| if (10..20).contains(&value) { value } else { 0 }).collect();
        assert_eq!(values(&open, "g/c", &Selection::All), expected);
        assert_eq!(values(&open, "g/k", &Selection::All), [7, 8, 9]);
        assert_eq!(recover(&path).unwrap_err().kind(), ErrorKind::NotFound);
    }
}

#[test]
fn damaged_chunks_are_lost_and_named() {
    let folder = Folder::new("damaged");
    let path = folder.0.join("a.h5");
    let file = Writer::create(&path, &CreateOptions::default()).unwrap();
    let dataset = file.create_dataset(NodeId::ROOT, b"d", chunked(space(&[2000]), &[1000])).unwrap();
    dataset.write(&Selection::All, &numbers(0..2000)).unwrap();
    drop((file, dataset));
    let partial = folder.0.join("a.h5.partial");
    let mut bytes = std::fs::read(&partial).unwrap();
    let zeroed = bytes.len() - 4000;
    bytes[zeroed..].fill(0);
    std::fs::write(&partial, bytes).unwrap();
    let journal = folder.0.join("a.h5.journal");
    let mut entries = std::fs::read(&journal).unwrap();
    entries.extend_from_slice(&[9; 5]);
    std::fs::write(&journal, entries).unwrap();
    let found = recover(&path).unwrap();
    assert_eq!((found.chunks, found.torn), (1, 5));
    assert_eq!(found.lost.len(), 1);
    assert!(found.lost[0].contains("of /d"), "{:?}", found.lost);
    assert_eq!(
        values(&File::open(&path, &OpenOptions::default()).unwrap(), "d", &Selection::All).len(),
        2000
    );
}

#[test]
fn many_links_and_attributes() {
    for (oldest, track_order) in VERSIONS.into_iter().flat_map(|oldest| [(oldest, false), (oldest, true)]) {
        let made = made(|options| options.oldest = oldest);
        let group = made.file.create_group(NodeId::ROOT, b"g", track_order).unwrap();
        for number in (0..300).rev() {
            made.file.create_group(group, format!("n{number}").as_bytes(), false).unwrap();
            let attribute = Attribute {
                name: Name::from(format!("a{number}").as_str()),
                charset: CharacterSet::Ascii,
                datatype: int32(),
                committed: None,
                dataspace: Dataspace::Scalar,
                data: i32::to_le_bytes(number).to_vec(),
                creation_order: None,
            };
            made.file.set_attribute(group, attribute).unwrap();
        }
        made.file.close().unwrap();
        let file = made.read();
        let object = file.root().unwrap().group().unwrap().get(b"g").unwrap();
        let names: Vec<String> = object.attribute_names().unwrap().iter().map(ToString::to_string).collect();
        assert_eq!(names.len(), 300);
        assert_eq!(names[0], if track_order { "a299" } else { "a0" });
        assert_eq!(object.attribute(b"a7").unwrap().unwrap().data, [7, 0, 0, 0]);
        assert_eq!(object.group().unwrap().links().unwrap().len(), 300);
    }
}

#[test]
fn structure_in_front() {
    for page in [4096, 65_536] {
        let made = made(|options| options.layout = FileLayout::InFront { page });
        let options = chunked(space(&[4000]), &[10]).with_pipeline(deflate());
        let dataset = made.file.create_dataset(NodeId::ROOT, b"d", options).unwrap();
        dataset.write(&Selection::All, &numbers(0..4000)).unwrap();
        made.file.close().unwrap();
        let file = made.read();
        assert_eq!(values(&file, "d", &Selection::All), (0..4000).collect::<Vec<_>>());
        // 400 chunks do not fit into 4 KiB.
        assert_eq!(file.superblock().root < page, page == 65_536);
        assert!(file.superblock().extension.is_some());
    }
    let sink = Arc::new(MemorySink::default());
    let wrong = CreateOptions { layout: FileLayout::InFront { page: 5000 }, ..CreateOptions::default() };
    assert!(Writer::create_in(sink, None, &wrong).is_err());
}

#[test]
fn data_in_other_files() {
    use hyperchunk_format::model::ExternalFile;
    let made = made(|_| ());
    let files = vec![
        ExternalFile { name: "a.raw".into(), offset: 4, size: Some(8) },
        ExternalFile { name: "b.raw".into(), offset: 0, size: Some(32) },
    ];
    let options = DatasetOptions::new(int32(), space(&[10])).with_layout(NewLayout::External(files.clone()));
    made.file.create_dataset(NodeId::ROOT, b"d", options).unwrap();
    made.file.close().unwrap();
    let dataset = made.read().root().unwrap().group().unwrap().get(b"d").unwrap().dataset().unwrap();
    assert_eq!(dataset.external(), files);
}

#[test]
fn newer_formats_are_used_where_they_are_needed_and_then_said() {
    let large = || chunked(space(&[3 << 30]), &[2 << 30]).with_pipeline(deflate());
    let strict = made(|_| ());
    let refused = strict.file.create_dataset(NodeId::ROOT, b"d", large()).unwrap_err();
    assert_eq!(refused.kind(), ErrorKind::Limit);
    let made = made(|options| options.newest = LibVersion::V200);
    made.file.create_dataset(NodeId::ROOT, b"plain", chunked(space(&[8]), &[4])).unwrap();
    assert_eq!(made.file.notices(), Vec::<String>::new());
    let dataset = made.file.create_dataset(NodeId::ROOT, b"d", large()).unwrap();
    let expected = "chunks of 4 GiB and more, of the dataset d: HDF5 before 2.0 cannot read it";
    assert_eq!(made.file.notices(), [expected]);
    assert_eq!(made.file.notices(), Vec::<String>::new());
    dataset.write_chunk(&[2 << 30], b"whatever", 0).unwrap();
    made.file.close().unwrap();
    let file = made.read();
    let versions = ["plain", "d"].map(|name| {
        let dataset = file.root().unwrap().group().unwrap().get(name.as_bytes()).unwrap().dataset().unwrap();
        dataset.chunked().unwrap().version
    });
    assert_eq!(versions, [3, 5], "others stay as old as they can");
    let dataset = file.root().unwrap().group().unwrap().get(b"d").unwrap().dataset().unwrap();
    assert_eq!(dataset.read_chunk_raw(&dataset.chunks().unwrap()[0]).unwrap(), b"whatever");
}

#[test]
fn virtual_datasets() {
    use hyperchunk_format::model::{SourceName, StoredSelection, VirtualMapping};
    let folder = Folder::new("virtual");
    let path = folder.0.join("a.h5");
    let name = |text: &str| SourceName { parts: vec![Name::from(text)] };
    let mapping = VirtualMapping {
        file: name("."),
        dataset: name("/source"),
        source: StoredSelection::All,
        target: StoredSelection::All,
    };
    for killed in [false, true] {
        let file = Writer::create(&path, &CreateOptions::default()).unwrap();
        let source = file.create_dataset(NodeId::ROOT, b"source", chunked(space(&[10]), &[5])).unwrap();
        source.write(&Selection::All, &numbers(0..10)).unwrap();
        let options =
            DatasetOptions::new(int32(), space(&[10])).with_layout(NewLayout::Virtual(vec![mapping.clone()]));
        file.create_dataset(NodeId::ROOT, b"v", options).unwrap();
        if killed {
            drop((file, source));
            recover(&path).unwrap();
        } else {
            file.close().unwrap();
        }
        let file = File::open(&path, &OpenOptions::default()).unwrap();
        assert_eq!(values(&file, "v", &Selection::All), (0..10).collect::<Vec<_>>());
    }
}

#[test]
fn what_waits_outside_a_smaller_extent_is_gone() {
    let part = Selection::Axes(vec![Axis::index(7)]);
    // Without a journal, the waiting chunk is already stored, and is overwritten in place.
    let made = made(|_| ());
    let dataset = made.file.create_dataset(NodeId::ROOT, b"d", chunked(endless(&[8]), &[4])).unwrap();
    dataset.write(&Selection::All, &numbers(1..9)).unwrap();
    dataset.write(&part, &numbers(50..51)).unwrap();
    dataset.resize(&[2]).unwrap();
    dataset.resize(&[8]).unwrap();
    made.file.close().unwrap();
    assert_eq!(values(&made.read(), "d", &Selection::All), [1, 2, 0, 0, 0, 0, 0, 0]);

    let folder = Folder::new("shrunk");
    let path = folder.0.join("a.h5");
    let file = Writer::create(&path, &CreateOptions::default()).unwrap();
    let dataset = file.create_dataset(NodeId::ROOT, b"d", chunked(endless(&[8]), &[4])).unwrap();
    dataset.write(&part, &numbers(50..51)).unwrap();
    dataset.resize(&[2]).unwrap();
    dataset.resize(&[8]).unwrap();
    drop((file, dataset));
    recover(&path).unwrap();
    assert_eq!(values(&File::open(&path, &OpenOptions::default()).unwrap(), "d", &Selection::All), [0; 8]);
}

/// Ends files with the name of another object.
#[derive(Debug)]
struct EmbeddedNames(NodeId, NodeId);

impl SecondFormat for EmbeddedNames {
    fn plan(&self) -> Result<Plan> {
        let sealed = vec![
            SealedObject { object: self.1, remainder: 5, behind: 11 },
            SealedObject { object: self.0, remainder: 3, behind: 0 },
        ];
        Ok(Plan { front: 13, sealed })
    }

    fn fill(&self, places: &Offsets) -> Result<FormatBytes> {
        assert_eq!((places.front % 8, places.checksums[0] % 8, places.checksums[1] % 8), (0, 5, 3));
        assert_eq!(places.end, places.checksums[1] + 4);
        let sealed = vec![(*b"DATA", vec![1; 11]), (*b"THER", Vec::new())];
        Ok(FormatBytes { front: vec![2; 13], sealed, ending: *b"THE O " })
    }
}

#[test]
fn a_file_behind_a_user_block_that_ends_as_another_format() {
    let sink = Arc::new(MemorySink::default());
    let mut options = CreateOptions::default();
    (options.user_block, options.lasting) = (4096, true);
    let file = Writer::create_in(Arc::<MemorySink>::clone(&sink), None, &options).unwrap();
    file.write_user_block(0, b"THE START").unwrap();
    assert!(file.write_user_block(4090, &[0; 7]).is_err());
    let space = space(&[1000]);
    let float = Datatype::ieee(4, ByteOrder::Little);
    let made = DatasetOptions::new(float, space);
    let start = file.reserve(4000, 4096).unwrap();
    assert_eq!((start + 4096) % 4096, 0);
    let group = file.create_group(NodeId::ROOT, b"group", false).unwrap();
    let data = file.create_dataset(group, b"data", made.clone()).unwrap();
    for number in 0..20 {
        file.create_group(group, format!("more {number}").as_bytes(), false).unwrap();
    }
    file.write_reserved(start, &mut [std::io::IoSlice::new(&[7; 4000])]).unwrap();
    data.place(start).unwrap();
    let other = file.create_dataset(NodeId::ROOT, b"other", made).unwrap();
    other.write(&Selection::All, &[9; 4000]).unwrap();
    file.set_second_format(Arc::new(EmbeddedNames(group, data.id())));
    let look = |file: &File| {
        for (path, value) in [("group/data", 7), ("other", 9)] {
            let data = file.root().unwrap().group().unwrap().get(path.as_bytes()).unwrap().dataset().unwrap();
            let mut bytes = vec![0; 4000];
            data.read(&Selection::All, &mut bytes).unwrap();
            assert_eq!(bytes, vec![value; 4000]);
        }
    };
    look(&file.snapshot().unwrap());
    for _ in 0..2 {
        file.set_comment(group, Some("changed".into())).unwrap();
        file.flush().unwrap();
        let bytes = sink.bytes();
        assert!(
            bytes.starts_with(b"THE START") && bytes.ends_with(b"THE O THER"),
            "{:?}",
            &bytes[bytes.len() - 20..]
        );
        let found = File::from_bytes(bytes.clone(), &OpenOptions::default()).unwrap();
        assert_eq!((found.superblock().base, found.superblock().end + 4096), (4096, bytes.len() as u64));
        look(&found);
    }
    for bad in [256, 1000] {
        let options = CreateOptions { user_block: bad, ..CreateOptions::default() };
        assert!(Writer::create_in(Arc::new(MemorySink::default()), None, &options).is_err());
    }
}
