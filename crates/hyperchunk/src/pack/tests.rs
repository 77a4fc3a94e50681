use super::*;
use crate::write::{DatasetOptions, DatasetWriter, MemorySink, NewLayout, NewLink, NodeId};
use crate::{ErrorKind, OpenOptions};
use hyperchunk_format::model::{
    Attribute, ByteOrder, CharacterSet, Class, Dataspace, Datatype, FillWhen, Layout, LinkTarget, Member,
    Name, ReferenceKind, StringPadding,
};
use hyperchunk_format::select::Selection;

fn nothing(_: u64) {}

fn int32() -> Datatype {
    Datatype::integer(4, true, ByteOrder::Little)
}

fn text() -> Datatype {
    let class = Class::VlenString { padding: StringPadding::NullTerminated, charset: CharacterSet::Utf8 };
    Datatype { size: 16, class }
}

fn reference() -> Datatype {
    Datatype { size: 8, class: Class::Reference(ReferenceKind::Object1) }
}

fn simple(dims: &[u64], grows: bool) -> Dataspace {
    let max = dims.iter().map(|dim| (!grows).then_some(*dim)).collect();
    Dataspace::Simple { dims: dims.to_vec(), max }
}

fn attribute(name: &str, datatype: Datatype, data: Vec<u8>) -> Attribute {
    let count = data.len() as u64 / datatype.size;
    Attribute {
        name: Name::from(name),
        charset: CharacterSet::Ascii,
        datatype,
        committed: None,
        dataspace: simple(&[count], false),
        data,
        creation_order: None,
    }
}

fn new_file() -> (Arc<MemorySink>, Writer) {
    let sink = Arc::new(MemorySink::default());
    let writer = Writer::create_in(Arc::<MemorySink>::clone(&sink), None, &CreateOptions::default());
    (sink, writer.unwrap())
}

fn opened(sink: &MemorySink) -> File {
    File::from_bytes(sink.bytes(), &OpenOptions::default()).unwrap()
}

fn strings(file: &Writer, texts: &[&str]) -> Vec<u8> {
    texts.iter().flat_map(|text| file.store_sequence(text.len(), text.as_bytes()).unwrap()).collect()
}

/// Makes a compressed dataset of 100 x 50 numbers in chunks of 30 x 20.
fn numbers(file: &Writer, parent: NodeId, name: &[u8]) -> DatasetWriter {
    let datatype = int32();
    let target =
        hyperchunk_format::codec::Target { datatype: &datatype, chunk: &[30, 20], fill: &FillWhen::Default };
    let options = DatasetOptions::new(int32(), simple(&[100, 50], true))
        .with_layout(NewLayout::Chunked(vec![30, 20]))
        .with_pipeline(hyperchunk_format::codec::preset("deflate", &target).unwrap());
    let dataset = file.create_dataset(parent, name, options).unwrap();
    let data: Vec<u8> = (0..5000_i32).flat_map(i32::to_le_bytes).collect();
    dataset.write(&Selection::All, &data).unwrap();
    dataset
}

/// A file with every kind of link and reference.
fn source() -> File {
    let (sink, file) = new_file();
    let group = file.create_group(NodeId::ROOT, b"group", true).unwrap();
    let chunked = numbers(&file, group, b"numbers");
    file.link(NodeId::ROOT, b"again", NewLink::Hard(chunked.id())).unwrap();
    file.link(group, b"up", NewLink::Hard(NodeId::ROOT)).unwrap();
    file.link(group, b"soft", NewLink::Soft("/group/numbers".into())).unwrap();
    file.link(group, b"other", NewLink::External { file: "x.h5".into(), path: "/y".into() }).unwrap();
    file.link(group, b"own", NewLink::User { class: 200, data: vec![1, 2, 3] }).unwrap();
    let named = file.commit_datatype(NodeId::ROOT, b"named", int32()).unwrap();
    let committed = file.address(named).unwrap();
    let mut options = DatasetOptions::new(int32(), simple(&[10], false));
    options.committed = Some(committed);
    options.fill.value = FillWhen::User(vec![1, 0, 0, 0]);
    let plain = file.create_dataset(NodeId::ROOT, b"plain", options.clone()).unwrap();
    plain.write(&Selection::All, &[7; 40]).unwrap();
    file.create_dataset(NodeId::ROOT, b"empty", options).unwrap();
    let compact = DatasetOptions::new(int32(), Dataspace::Scalar).with_layout(NewLayout::Compact);
    file.create_dataset(NodeId::ROOT, b"compact", compact).unwrap().write(&Selection::All, &[9; 4]).unwrap();
    file.create_dataset(NodeId::ROOT, b"null", DatasetOptions::new(int32(), Dataspace::Null)).unwrap();

    let words = DatasetOptions::new(text(), simple(&[5], true)).with_layout(NewLayout::Chunked(vec![2]));
    let words = file.create_dataset(NodeId::ROOT, b"words", words).unwrap();
    words.write(&Selection::All, &strings(&file, &["one", "", "three", "four", "five"])).unwrap();
    // A compound of a reference and a sequence of references.
    let address = |node| file.address(node).unwrap().to_le_bytes();
    let sequence = Datatype { size: 16, class: Class::Vlen { base: Box::new(reference()) } };
    let member = |name: &str, offset, datatype| Member { name: name.into(), offset, datatype };
    let members =
        vec![member("n", 0, int32()), member("ref", 4, reference()), member("refs", 16, sequence.clone())];
    let compound = Datatype { size: 32, class: Class::Compound { members } };
    let both = [address(group), address(plain.id())].concat();
    let element =
        [&5_i32.to_le_bytes()[..], &address(chunked.id()), &[0; 4], &file.store_sequence(2, &both).unwrap()]
            .concat();
    let pair = DatasetOptions::new(compound, simple(&[2], false));
    let pair = file.create_dataset(group, b"pair", pair).unwrap();
    pair.write(&Selection::All, &[element, vec![0; 32]].concat()).unwrap();
    let list = file.store_sequence(2, &both).unwrap().to_vec();
    file.set_attribute(chunked.id(), attribute("DIMENSION_LIST", sequence, list)).unwrap();
    file.set_attribute(chunked.id(), attribute("dangling", reference(), vec![1; 8])).unwrap();
    file.set_attribute(NodeId::ROOT, attribute("title", text(), strings(&file, &["a", "bc"]))).unwrap();
    for name in ["z", "y", "x"] {
        let value = Attribute { committed: Some(committed), ..attribute(name, int32(), vec![3; 8]) };
        file.set_attribute(group, value).unwrap();
    }
    file.set_comment(group, Some("about it".into())).unwrap();
    file.close().unwrap();
    opened(&sink)
}

fn pack(inputs: Vec<Input>, options: PackOptions) -> (PackReport, File) {
    let packing = PackPlan::new(inputs, options).unwrap();
    let sink = Arc::new(MemorySink::default());
    let packed = packing.write_to(Arc::<MemorySink>::clone(&sink), None, &nothing).unwrap();
    let file = opened(&sink);
    let verified = packing.verify(&file, &nothing).unwrap();
    assert_eq!(verified.datasets, packed.datasets as u64);
    assert_eq!(verified.attributes, packed.attributes);
    (packed, file)
}

fn check(change: impl FnOnce(&mut PackOptions)) -> (PackReport, File) {
    let mut options = PackOptions::default();
    change(&mut options);
    pack(vec![Input { file: source(), into: String::new() }], options)
}

fn get(file: &File, path: &str) -> crate::Object {
    file.root().unwrap().group().unwrap().get(path.as_bytes()).unwrap()
}

#[test]
fn all_comes_along() {
    let (packed, file) = check(|_| ());
    assert_eq!((packed.groups, packed.datasets, packed.datatypes, packed.attributes), (2, 7, 1, 6));
    assert_eq!((packed.chunks_copied, packed.oldest), (12, LibVersion::V18));
    assert_eq!(packed.notes.len(), 1, "{:?}", packed.notes);
    let group = get(&file, "group");
    assert_eq!(group.comment().unwrap(), Some("about it".into()));
    let names: Vec<String> = group.attribute_names().unwrap().iter().map(Name::to_string).collect();
    assert_eq!(names, ["z", "y", "x"], "the order of their making");
    let mut links = group.group().unwrap().links().unwrap();
    links.sort_by_key(|link| link.creation_order);
    let names: Vec<String> = links.iter().map(|link| link.name.to_string()).collect();
    assert_eq!(names, ["numbers", "up", "soft", "other", "own", "pair"]);
    assert_eq!(links[4].target, LinkTarget::User { class: 200, data: vec![1, 2, 3] });
    let numbers = get(&file, "group/numbers");
    let list = numbers.attribute(b"DIMENSION_LIST").unwrap().unwrap();
    let (_, both) =
        file.sequences().get(&list.data, &reference()).unwrap().map(|(n, b)| (n, b.to_vec())).unwrap();
    let expected = [group.address(), get(&file, "plain").address()];
    assert_eq!(both, expected.map(u64::to_le_bytes).concat());
    assert_eq!(get(&file, "plain").dataset().unwrap().committed(), Some(get(&file, "named").address()));
    assert!(matches!(
        get(&file, "empty").dataset().unwrap().layout(),
        Layout::Contiguous { address: None, .. }
    ));
}

#[test]
fn filters_and_chunks_change() {
    let (packed, file) = check(|options| options.filters = Filtering::None);
    assert_eq!((packed.chunks_copied, packed.chunks_rewritten > 12), (0, true));
    assert!(get(&file, "group/numbers").dataset().unwrap().pipeline().is_empty());
    let (_, file) = check(|options| {
        options.filters = Filtering::Preset("fast");
        options.filter_rules.push(("/plain".into(), Filtering::Keep));
    });
    assert_eq!(get(&file, "group/numbers").dataset().unwrap().pipeline()[0].id, 32008);
    for (shape, memory) in [([100, 7], 1), ([1, 50], 3000), ([200, 200], 1 << 20)] {
        let (_, file) = check(|options| {
            options.chunk_rules.push(("group/numbers".into(), Chunking::Shape(shape.to_vec())));
            options.chunk_rules.push(("/words".into(), Chunking::Shape(vec![3])));
            options.chunk_rules.push(("/pair".into(), Chunking::Keep));
            options.chunk_rules.pop();
            options.memory = memory;
        });
        let dataset = get(&file, "again").dataset().unwrap();
        assert_eq!(dataset.chunked().unwrap().dims, shape);
        assert_eq!(dataset.pipeline().iter().map(|filter| filter.id).collect::<Vec<_>>(), [2, 1]);
    }
    let (_, file) = check(|options| options.chunks = Chunking::Auto);
    assert_eq!(get(&file, "again").dataset().unwrap().chunked().unwrap().dims, [100, 50]);
}

#[test]
fn rules_are_checked() {
    let refused = |rule: (&str, Chunking), kind| {
        let mut options = PackOptions::default();
        options.chunk_rules.push((rule.0.into(), rule.1));
        let error = PackPlan::new(vec![Input { file: source(), into: String::new() }], options).unwrap_err();
        assert_eq!(error.kind(), kind);
        assert!(error.to_string().contains(rule.0), "{error}");
    };
    refused(("/nowhere", Chunking::Auto), ErrorKind::Invalid);
    refused(("/again", Chunking::Shape(vec![5])), ErrorKind::Invalid);
    refused(("/again", Chunking::Contiguous), ErrorKind::Invalid);
    refused(("/compact", Chunking::Shape(vec![1])), ErrorKind::Invalid);
    refused(("/null", Chunking::Auto), ErrorKind::Invalid);
}

#[test]
fn rules_that_cannot_apply_are_errors() {
    let plan = |options: PackOptions| {
        PackPlan::new(vec![Input { file: source(), into: String::new() }], options).map(drop)
    };
    let deflate = Filtering::Preset("deflate");
    let refused = |options: PackOptions, why: &str| {
        let error = plan(options).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Invalid);
        assert!(error.to_string().contains(why), "{error}");
    };
    let all = PackOptions { chunks: Chunking::Contiguous, filters: deflate, ..PackOptions::default() };
    refused(all, "only chunks have filters");
    let mut one = PackOptions { filter_rules: vec![("/plain".into(), deflate)], ..PackOptions::default() };
    one.chunk_rules.push(("/plain".into(), Chunking::Contiguous));
    refused(one.clone(), "object /plain");
    // A rule for one dataset has precedence over the filters for all.
    one.filter_rules.clear();
    one.filters = deflate;
    plan(one).unwrap();
    let named =
        |name: &str| PackOptions { filter_rules: vec![(name.to_owned(), deflate)], ..PackOptions::default() };
    refused(named("/compact"), "a scalar");
    refused(named("/null"), "null dataspace");
    refused(named("/words"), "variable length");
    refused(named("/group/pair"), "references");
    // A dataset that is only small gets its filters.
    let (_, file) = check(|options| options.filter_rules.push(("/plain".into(), deflate)));
    let plain = get(&file, "plain").dataset().unwrap();
    assert_eq!((plain.chunked().unwrap().dims.clone(), plain.pipeline().is_empty()), (vec![10], false));
    let (_, file) = check(|options| options.filters = deflate);
    assert!(get(&file, "plain").dataset().unwrap().chunked().is_none());
}

#[test]
fn several_files() {
    let input = |into: &str| Input { file: source(), into: into.into() };
    let (packed, file) = pack(vec![input("a"), input("deep/b")], PackOptions::default());
    assert_eq!(packed.datasets, 14);
    for path in ["a/group/soft", "deep/b/group/soft", "deep/b/group/up/again"] {
        assert_eq!(get(&file, path).dataset().unwrap().dims(), [100, 50], "{path}");
    }
    assert_eq!(get(&file, "deep/b").attributes().unwrap().len(), 1);
    let packing = PackPlan::new(vec![input(""), input("")], PackOptions::default()).unwrap();
    let error = packing.write_to(Arc::new(MemorySink::default()), None, &nothing).unwrap_err();
    assert!(error.to_string().contains("exists"), "{error}");
}

#[test]
fn structure_in_front() {
    let (packed, file) = check(|options| options.cloud = true);
    let page = packed.page.unwrap();
    let report = crate::check::check(&file, &crate::check::Assumptions::new(0.03, 80e6)).unwrap();
    // The bytes that opening for a listing fetches, and the rest of the page.
    let requests = 1 + u64::from(page > RemoteOptions::MIN_LISTING_BYTES);
    assert_eq!((report.page, report.list.requests), (Some(page), requests), "{report:?}");
    let dataset = get(&file, "again").dataset().unwrap();
    assert!(dataset.chunks().unwrap().iter().all(|chunk| chunk.address >= page));
    assert!(get(&file, "plain").address() < page);
}

#[test]
fn a_file_is_whole_or_not_there() {
    let folder = std::env::temp_dir().join(format!("hyperchunk-pack-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let (sink, file) = new_file();
    let data = numbers(&file, NodeId::ROOT, b"numbers");
    // Bytes that the filters cannot decode.
    data.write_chunk(&[30, 20], b"damaged", 0).unwrap();
    file.close().unwrap();
    let path = folder.join("new.h5");
    let mut options = PackOptions { filters: Filtering::None, ..PackOptions::default() };
    let input = || vec![Input { file: opened(&sink), into: String::new() }];
    let error = PackPlan::new(input(), options.clone()).unwrap().write(&path, &nothing).unwrap_err();
    assert!(error.to_string().contains("object /numbers"), "{error}");
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
    // Chunks copied as stored are not checked; a comparison decodes them.
    options.filters = Filtering::Keep;
    let packing = PackPlan::new(input(), options.clone()).unwrap();
    packing.write(&path, &nothing).unwrap();
    let new = File::open(&path, &OpenOptions::default()).unwrap();
    assert_eq!(packing.verify(&new, &nothing).unwrap_err().kind(), ErrorKind::Filter);
    let error = packing.write(&path, &nothing).unwrap_err();
    assert!(error.to_string().contains("exists"), "{error}");
    options.replace = true;
    let same = vec![Input { file: new, into: String::new() }];
    let error = PackPlan::new(same, options).unwrap().write(&path, &nothing).unwrap_err();
    assert!(error.to_string().contains("one of the files"), "{error}");
    std::fs::remove_dir_all(&folder).unwrap();
}

#[test]
fn differences_are_found() {
    let packing =
        PackPlan::new(vec![Input { file: source(), into: String::new() }], PackOptions::default()).unwrap();
    let (sink, file) = new_file();
    file.close().unwrap();
    let error = packing.verify(&opened(&sink), &nothing).unwrap_err();
    assert!(error.to_string().contains("differs from the source"), "{error}");
}
