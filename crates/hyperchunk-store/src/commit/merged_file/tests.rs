use super::*;
use crate::format::stamp::Stamp;
use crate::{Manifest, Marker};
use hyperchunk::write::{
    CreateOptions, DatasetOptions, DatasetWriter, MemorySink, NewLayout, NewLink, NodeId, Writer,
};
use hyperchunk::{Object, OpenOptions};
use hyperchunk_format::model::{
    Attribute, ByteOrder, CharacterSet, Class, Dataspace, Datatype, ExternalFile, FillWhen, LinkTarget,
    Member, Name, ReferenceKind, StringPadding,
};
use hyperchunk_format::select::Selection;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

const A: WriterId = WriterId([1; 16]);
const B: WriterId = WriterId([2; 16]);

fn stamp(number: u64) -> Stamp {
    Stamp::of(&Manifest { number, ..Manifest::default() })
}

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

fn simple(dims: &[u64]) -> Dataspace {
    Dataspace::Simple { dims: dims.to_vec(), max: dims.iter().copied().map(Some).collect() }
}

/// A file in memory that is being written.
struct Image {
    sink: Arc<MemorySink>,
    file: Writer,
}

impl Image {
    fn new() -> Self {
        let sink = Arc::new(MemorySink::default());
        let file = Writer::create_in(Arc::<MemorySink>::clone(&sink), None, &CreateOptions::default());
        let image = Self { sink, file: file.unwrap() };
        image.file.track_root_order(true).unwrap();
        image
    }

    fn group(&self, parent: NodeId, name: &str) -> NodeId {
        self.file.create_group(parent, name.as_bytes(), true).unwrap()
    }

    fn native(&self, parent: NodeId, name: &str, values: &[i32]) -> DatasetWriter {
        let options = DatasetOptions::new(int32(), simple(&[values.len() as u64]));
        let made = self.file.create_dataset(parent, name.as_bytes(), options).unwrap();
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        made.write(&Selection::All, &bytes).unwrap();
        made
    }

    fn stored(&self, parent: NodeId, name: &str, id: u8) -> NodeId {
        let marker = Marker { dataset: DatasetId([id; 16]), epoch: 0 };
        let layout = NewLayout::External(vec![marker.to_external_file(false)]);
        let options = DatasetOptions::new(int32(), simple(&[8])).with_layout(layout);
        self.file.create_dataset(parent, name.as_bytes(), options).unwrap().id()
    }

    fn attribute(&self, node: NodeId, name: &str, datatype: Datatype, data: Vec<u8>) {
        let attribute = Attribute {
            name: Name::from(name),
            charset: CharacterSet::Ascii,
            committed: None,
            dataspace: simple(&[data.len() as u64 / datatype.size]),
            datatype,
            data,
            creation_order: None,
        };
        self.file.set_attribute(node, attribute).unwrap();
    }

    fn number(&self, node: NodeId, name: &str, value: i32) {
        self.attribute(node, name, int32(), value.to_le_bytes().to_vec());
    }

    fn string(&self, node: NodeId, name: &str, value: &str) {
        let data = self.file.store_attribute_sequence(value.len(), value.as_bytes()).unwrap();
        self.attribute(node, name, text(), data.to_vec());
    }

    fn address(&self, node: NodeId) -> [u8; 8] {
        self.file.address(node).unwrap().to_le_bytes()
    }

    fn add_scale(&self, scale: NodeId, users: &[(NodeId, u32)]) {
        let member = |name: &str, offset, datatype| Member { name: name.into(), offset, datatype };
        let index = Datatype::integer(4, false, ByteOrder::Little);
        let members = vec![member("dataset", 0, reference()), member("dimension", 8, index)];
        let datatype = Datatype { size: 16, class: Class::Compound { members } };
        let entry = |(node, index): &(NodeId, u32)| {
            [&self.address(*node)[..], &index.to_le_bytes(), &[0; 4]].concat()
        };
        self.attribute(scale, "REFERENCE_LIST", datatype, users.iter().flat_map(entry).collect());
    }

    fn dimensions(&self, variable: NodeId, scales: &[NodeId]) {
        let element = |scale: &NodeId| self.file.store_attribute_sequence(1, &self.address(*scale)).unwrap();
        let datatype = Datatype { size: 16, class: Class::Vlen { base: Box::new(reference()) } };
        self.attribute(variable, "DIMENSION_LIST", datatype, scales.iter().flat_map(element).collect());
    }

    fn finish(self) -> File {
        self.file.close().unwrap();
        File::from_bytes(self.sink.bytes(), &OpenOptions::default()).unwrap()
    }
}

fn image(make: impl FnOnce(&Image)) -> File {
    let image = Image::new();
    make(&image);
    image.finish()
}

fn change(writer: WriterId, base: Option<&File>, image: &File) -> Change {
    Change {
        writer,
        base: base.cloned(),
        image: image.clone(),
        deletes: true,
        in_place: false,
        written: HashSet::new(),
    }
}

fn built(merge: &mut Merge) -> File {
    let stored = merge.datasets().into_iter().map(|(id, _)| {
        let (datatype, dims, fill) = (int32(), vec![8], FillWhen::Default);
        (id, SkeletonDataset { datatype, dims, segments: None, blocks: None, fill, definition: None })
    });
    let stored: HashMap<_, _> = stored.collect();
    File::from_bytes(merge.write(stamp(3), &stored).unwrap(), &OpenOptions::default()).unwrap()
}

fn merged(current: Option<&File>, changes: &[Change]) -> (File, Vec<String>) {
    let mut merge = Merge::new(current, changes).unwrap();
    let file = built(&mut merge);
    (file, merge.conflicts().iter().map(ToString::to_string).collect())
}

fn get(file: &File, path: &str) -> Object {
    file.root().unwrap().group().unwrap().get(path.as_bytes()).unwrap()
}

fn names(file: &File, path: &str) -> Vec<String> {
    let mut links = get(file, path).group().unwrap().links().unwrap();
    links.sort_by_key(|link| link.creation_order);
    links.iter().map(|link| link.name.to_string()).collect()
}

fn values(file: &File, path: &str) -> Vec<i32> {
    let dataset = get(file, path).dataset().unwrap();
    let mut bytes = vec![0; usize::try_from(dataset.elements().unwrap() * 4).unwrap()];
    dataset.read(&Selection::All, &mut bytes).unwrap();
    bytes.chunks_exact(4).map(|four| i32::from_le_bytes(four.try_into().unwrap())).collect()
}

fn number(file: &File, path: &str, name: &str) -> Option<i32> {
    let found = get(file, path).attribute(name.as_bytes()).unwrap()?;
    Some(i32::from_le_bytes(found.data.try_into().unwrap()))
}

fn marker(file: &File, path: &str) -> Option<Marker> {
    Marker::from_external_files(get(file, path).dataset().unwrap().external())
}

#[test]
fn equal_images_of_many_writers_become_one() {
    let make = |order: i32| {
        image(|image| {
            let group = image.group(NodeId::ROOT, "z");
            image.group(NodeId::ROOT, "a");
            let data = image.stored(group, "data", 7);
            image.native(group, "native", &[1, 2, 3]);
            image.string(data, "units", "K");
            image.number(NodeId::ROOT, "order", order);
        })
    };
    let (file, conflicts) = merged(None, &[change(A, None, &make(1)), change(B, None, &make(1))]);
    assert_eq!(conflicts, [""; 0]);
    assert_eq!(
        (names(&file, "/"), names(&file, "z")),
        (vec!["z".into(), "a".into()], vec!["data".into(), "native".into()])
    );
    assert_eq!(marker(&file, "z/data"), Some(Marker { dataset: DatasetId([7; 16]), epoch: 3 }));
    assert_eq!(get(&file, "z/data").dataset().unwrap().dims(), [8]);
    assert_eq!(values(&file, "z/native"), [1, 2, 3]);
    let units = get(&file, "z/data").attribute(b"units").unwrap().unwrap();
    assert_eq!(file.sequences().string(&units.data).unwrap(), b"K");
    assert_eq!(number(&file, "/", "order"), Some(1));
}

#[test]
fn additions_of_all_writers_are_kept_in_their_order() {
    let one = image(|image| {
        let group = image.group(NodeId::ROOT, "group");
        image.native(group, "first", &[1]);
        image.number(group, "x", 1);
    });
    let other = image(|image| {
        image.native(NodeId::ROOT, "before", &[0]);
        let group = image.group(NodeId::ROOT, "group");
        image.native(group, "aaa", &[2]);
        image.number(group, "y", 2);
    });
    let (file, conflicts) = merged(None, &[change(A, None, &one), change(B, None, &other)]);
    assert_eq!(conflicts, [""; 0]);
    assert_eq!(names(&file, "/"), ["group", "before"]);
    assert_eq!(names(&file, "group"), ["first", "aaa"]);
    assert_eq!((number(&file, "group", "x"), number(&file, "group", "y")), (Some(1), Some(2)));
}

#[test]
fn different_contents_of_one_name_are_a_conflict_that_names_both_writers() {
    let make = |value: i32, id| {
        image(|image| {
            image.native(NodeId::ROOT, "native", &[value]);
            image.stored(NodeId::ROOT, "data", id);
            image.number(NodeId::ROOT, "rank", value);
            image.file.link(NodeId::ROOT, b"soft", NewLink::Soft(Name::from(&*format!("/{value}")))).unwrap();
            if id == 7 {
                image.group(NodeId::ROOT, "kind");
            } else {
                image.native(NodeId::ROOT, "kind", &[]);
            }
        })
    };
    let (file, conflicts) = merged(None, &[change(A, None, &make(1, 7)), change(B, None, &make(2, 8))]);
    assert_eq!(conflicts.len(), 5, "{conflicts:?}");
    for (what, of) in [
        "/native: different values of 1 element, the first at [0]",
        "/data: different objects",
        "/, attribute rank: different values",
        "/soft",
        "/kind",
    ]
    .iter()
    .map(|what| (what, conflicts.iter().filter(|text| text.starts_with(what)).collect::<Vec<_>>()))
    {
        assert_eq!(of.len(), 1, "{what} {conflicts:?}");
        assert!(of[0].contains(&A.to_string()) && of[0].contains(&B.to_string()), "{of:?}");
    }
    assert_eq!((values(&file, "native"), number(&file, "/", "rank")), (vec![2], Some(2)));
    assert_eq!(marker(&file, "data").unwrap().dataset, DatasetId([8; 16]));
}

#[test]
fn what_a_writer_deleted_is_deleted_and_what_it_left_alone_is_kept() {
    let base = image(|image| {
        let group = image.group(NodeId::ROOT, "group");
        image.native(group, "old", &[1]);
        image.native(group, "changed", &[1]);
        image.stored(group, "data", 7);
        image.number(group, "gone", 1);
        image.number(group, "kept", 1);
    });
    let one = image(|image| {
        let group = image.group(NodeId::ROOT, "group");
        image.native(group, "changed", &[5]);
        image.stored(group, "data", 7);
        image.number(group, "kept", 1);
    });
    let other = image(|image| {
        let group = image.group(NodeId::ROOT, "group");
        image.native(group, "old", &[1]);
        image.native(group, "changed", &[1]);
        image.stored(group, "renamed", 7);
        image.number(group, "gone", 1);
        image.number(group, "kept", 9);
        image.native(group, "new", &[3]);
    });
    let (file, conflicts) =
        merged(Some(&base), &[change(A, Some(&base), &one), change(B, Some(&base), &other)]);
    assert_eq!(conflicts, [""; 0]);
    assert_eq!(names(&file, "group"), ["changed", "renamed", "new"]);
    assert_eq!((number(&file, "group", "gone"), number(&file, "group", "kept")), (None, Some(9)));
    assert_eq!((values(&file, "group/changed"), values(&file, "group/new")), (vec![5], vec![3]));
    assert_eq!(marker(&file, "group/renamed").unwrap().dataset, DatasetId([7; 16]));
}

#[test]
fn a_writer_with_an_older_base_changes_only_what_it_changed() {
    let base = image(|image| {
        image.native(NodeId::ROOT, "a", &[1]);
        image.number(NodeId::ROOT, "n", 1);
    });
    let newer = image(|image| {
        image.native(NodeId::ROOT, "a", &[2]);
        image.native(NodeId::ROOT, "b", &[2]);
        image.number(NodeId::ROOT, "n", 2);
    });
    let late = image(|image| {
        image.native(NodeId::ROOT, "a", &[1]);
        image.native(NodeId::ROOT, "c", &[3]);
        image.number(NodeId::ROOT, "n", 1);
    });
    let (file, conflicts) = merged(Some(&newer), &[change(A, Some(&base), &late)]);
    assert_eq!(conflicts, [""; 0]);
    assert_eq!(names(&file, "/"), ["a", "b", "c"]);
    assert_eq!((values(&file, "a"), number(&file, "/", "n")), (vec![2], Some(2)));
}

#[test]
fn one_deletes_what_the_other_changes() {
    let base = image(|image| {
        image.native(NodeId::ROOT, "a", &[1]);
    });
    let changed = image(|image| {
        image.native(NodeId::ROOT, "a", &[2]);
    });
    let without = image(|_| ());
    for (first, second) in [(&changed, &without), (&without, &changed)] {
        let changes = [change(A, Some(&base), first), change(B, Some(&base), second)];
        let (file, conflicts) = merged(Some(&base), &changes);
        assert!(conflicts[0].starts_with("/a: one deleted it, the other changed it"), "{conflicts:?}");
        assert_eq!(values(&file, "a"), [2], "what was changed stays");
    }
}

#[test]
fn a_deleted_group_stays_if_something_below_it_was_changed() {
    let make = |attribute: bool, more: bool| {
        image(|image| {
            let group = image.group(NodeId::ROOT, "g");
            let below = image.group(group, "h");
            let data = image.stored(below, "d", 7);
            image.native(below, "n", &[1]);
            if attribute {
                image.number(data, "k", 1);
            }
            if more {
                image.group(below, "new");
            }
        })
    };
    let (base, without) = (make(false, false), image(|_| ()));
    for changed in [make(true, false), make(false, true)] {
        for (first, second) in [(&changed, &without), (&without, &changed)] {
            let changes = [change(A, Some(&base), first), change(B, Some(&base), second)];
            let (file, conflicts) = merged(Some(&base), &changes);
            assert_eq!(conflicts.len(), 1, "{conflicts:?}");
            assert!(conflicts[0].starts_with("/g: one deleted it"), "{conflicts:?}");
            assert!(names(&file, "g/h").starts_with(&["d".to_owned(), "n".to_owned()]));
        }
    }
    let changes = [change(A, Some(&base), &base.clone()), change(B, Some(&base), &without)];
    let (file, conflicts) = merged(Some(&base), &changes);
    assert_eq!((conflicts, names(&file, "/")), (vec![], vec![]), "nothing was changed");
}

#[test]
fn an_image_of_additions_deletes_nothing() {
    let base = image(|image| {
        let group = image.group(NodeId::ROOT, "group");
        image.stored(group, "data", 7);
        image.native(NodeId::ROOT, "native", &[1]);
        image.number(group, "old", 1);
        image.number(group, "changed", 1);
    });
    let more = image(|image| {
        let group = image.group(NodeId::ROOT, "group");
        image.number(group, "changed", 2);
        image.number(group, "new", 3);
        image.native(NodeId::ROOT, "native", &[4]);
    });
    let additions = Change { deletes: false, ..change(A, Some(&base), &more) };
    let (file, conflicts) = merged(Some(&base), std::slice::from_ref(&additions));
    assert_eq!(conflicts, [""; 0]);
    assert_eq!(names(&file, "group"), ["data"]);
    let read = |name: &str| number(&file, "group", name);
    assert_eq!((read("old"), read("changed"), read("new")), (Some(1), Some(2), Some(3)));
    assert_eq!(values(&file, "native"), [4]);
    // A group that another writer deletes is kept, since objects were added to it.
    let changes =
        [additions, change(B, Some(&base), &image(|image| drop(image.native(NodeId::ROOT, "native", &[1]))))];
    let (file, conflicts) = merged(Some(&base), &changes);
    assert!(conflicts[0].starts_with("/group: one deleted it"), "{conflicts:?}");
    assert_eq!(number(&file, "group", "new"), Some(3));
}

#[test]
fn links_of_all_kinds_and_a_second_name_of_one_object() {
    let make = || {
        image(|image| {
            let group = image.group(NodeId::ROOT, "group");
            let data = image.stored(group, "data", 7);
            image.file.link(NodeId::ROOT, b"again", NewLink::Hard(data)).unwrap();
            image.file.link(group, b"up", NewLink::Hard(NodeId::ROOT)).unwrap();
            image.file.link(group, b"soft", NewLink::Soft("/group/data".into())).unwrap();
            let other = NewLink::External { file: "x.h5".into(), path: "/y".into() };
            image.file.link(group, b"other", other).unwrap();
            image.file.link(group, b"own", NewLink::User { class: 200, data: vec![1, 2] }).unwrap();
            image.file.set_comment(group, Some("about".into())).unwrap();
        })
    };
    let (file, conflicts) = merged(None, &[change(A, None, &make()), change(B, None, &make())]);
    assert_eq!(conflicts, [""; 0]);
    assert_eq!(names(&file, "group"), ["data", "up", "soft", "other", "own"]);
    assert_eq!(get(&file, "again").address(), get(&file, "group/data").address());
    assert_eq!(get(&file, "group/up").address(), file.root().unwrap().address());
    assert_eq!(get(&file, "group/soft").address(), get(&file, "again").address());
    let links = get(&file, "group").group().unwrap().links().unwrap();
    let target = |name: &str| links.iter().find(|link| link.name == name.into()).unwrap().target.clone();
    assert_eq!(target("own"), LinkTarget::User { class: 200, data: vec![1, 2] });
    assert!(matches!(target("other"), LinkTarget::External { .. }));
    assert_eq!(get(&file, "group").comment().unwrap(), Some("about".into()));
}

#[test]
fn dimension_scales_of_many_writers_lead_to_each_other() {
    let base = image(|image| {
        let x = image.stored(NodeId::ROOT, "x", 1);
        image.string(x, "CLASS", "DIMENSION_SCALE");
    });
    // Objects have different addresses in each.
    let make = |name: &str, id, extra: usize| {
        image(|image| {
            for number in 0..extra {
                image.native(NodeId::ROOT, &format!("own {name}{number}"), &[0; 40]);
            }
            let x = image.stored(NodeId::ROOT, "x", 1);
            image.string(x, "CLASS", "DIMENSION_SCALE");
            let variable = image.stored(NodeId::ROOT, name, id);
            image.dimensions(variable, &[x]);
            image.add_scale(x, &[(variable, 0)]);
        })
    };
    let (one, other) = (make("v", 2, 1), make("w", 3, 3));
    let changes = [change(A, Some(&base), &one), change(B, Some(&base), &other)];
    let (file, conflicts) = merged(Some(&base), &changes);
    assert_eq!(conflicts, [""; 0]);
    let address = |path: &str| get(&file, path).address().to_le_bytes();
    let list = get(&file, "x").attribute(b"REFERENCE_LIST").unwrap().unwrap();
    let users: Vec<&[u8]> = list.data.chunks_exact(16).map(|entry| &entry[..8]).collect();
    assert_eq!((users, list.dataspace.dims()), (vec![&address("v")[..], &address("w")[..]], &[2][..]));
    for path in ["v", "w"] {
        let list = get(&file, path).attribute(b"DIMENSION_LIST").unwrap().unwrap();
        let mut sequences = file.sequences();
        let (_, scale) = sequences.get(&list.data, &reference()).unwrap().unwrap();
        assert_eq!(scale, address("x"));
    }
}

#[test]
fn references_and_sequences_in_native_datasets_lead_to_the_new_places() {
    let make = |extra: usize| {
        image(|image| {
            for number in 0..extra {
                image.native(NodeId::ROOT, &format!("own{number}"), &[0; 30]);
            }
            let group = image.group(NodeId::ROOT, "group");
            let data = image.stored(group, "data", 7);
            let sequence = Datatype { size: 16, class: Class::Vlen { base: Box::new(reference()) } };
            let member = |name: &str, offset, datatype| Member { name: name.into(), offset, datatype };
            let members = vec![member("one", 0, reference()), member("many", 8, sequence)];
            let datatype = Datatype { size: 24, class: Class::Compound { members } };
            let options = DatasetOptions::new(datatype, simple(&[1]));
            let made = image.file.create_dataset(NodeId::ROOT, b"refs", options).unwrap();
            let both = [image.address(group), image.address(data)].concat();
            let many = image.file.store_sequence(2, &both).unwrap();
            made.write(&Selection::All, &[&image.address(data)[..], &many].concat()).unwrap();
        })
    };
    let (file, conflicts) = merged(None, &[change(A, None, &make(0)), change(B, None, &make(2))]);
    assert_eq!(conflicts, [""; 0], "addresses are other ones, what they lead to is the same");
    let dataset = get(&file, "refs").dataset().unwrap();
    let mut bytes = vec![0; 24];
    dataset.read(&Selection::All, &mut bytes).unwrap();
    let address = |path: &str| get(&file, path).address().to_le_bytes();
    assert_eq!(bytes[..8], address("group/data"));
    let mut sequences = file.sequences();
    let (count, many) = sequences.get(&bytes[8..], &reference()).unwrap().unwrap();
    assert_eq!((count, many), (2, &[address("group"), address("group/data")].concat()[..]));
}

#[test]
fn committed_datatypes_are_shared() {
    let make = || {
        image(|image| {
            let named = image.file.commit_datatype(NodeId::ROOT, b"named", int32()).unwrap();
            let committed = Some(image.file.address(named).unwrap());
            let marker = Marker { dataset: DatasetId([7; 16]), epoch: 0 };
            for (name, layout) in [
                ("native", NewLayout::Contiguous),
                ("data", NewLayout::External(vec![marker.to_external_file(false)])),
            ] {
                let mut options = DatasetOptions::new(int32(), simple(&[8])).with_layout(layout);
                options.committed = committed;
                image.file.create_dataset(NodeId::ROOT, name.as_bytes(), options).unwrap();
            }
        })
    };
    let (file, conflicts) = merged(None, &[change(A, None, &make()), change(B, None, &make())]);
    assert_eq!(conflicts, [""; 0]);
    let named = get(&file, "named").address();
    for path in ["native", "data"] {
        assert_eq!(get(&file, path).dataset().unwrap().committed(), Some(named), "{path}");
    }
}

#[test]
fn definitions_that_no_image_has_get_their_groups() {
    let one = image(|image| {
        let group = image.group(NodeId::ROOT, "a");
        image.stored(group, "there", 7);
        image.native(NodeId::ROOT, "native", &[1]);
    });
    let mut merge = Merge::new(None, &[change(A, None, &one)]).unwrap();
    for (id, path) in [(7, "/a/there"), (8, "/a/b/c/new"), (9, "/native")] {
        merge.add_dataset(DatasetId([id; 16]), path.as_bytes(), B);
        merge.add_dataset(DatasetId([id; 16]), path.as_bytes(), B);
    }
    let file = built(&mut merge);
    let ids: Vec<_> =
        ["a/there", "a/b/c/new", "native"].map(|path| marker(&file, path).unwrap().dataset.0[0]).into();
    assert_eq!(ids, [7, 8, 9]);
    let conflicts = merge.conflicts();
    assert_eq!((conflicts.len(), &*conflicts[0].path), (1, &b"/native"[..]));
    assert_eq!((conflicts[0].first, conflicts[0].last), (Some(A), B));
}

#[test]
fn linked_datasets_have_their_segments_before_the_marker() {
    let one = image(|image| {
        image.stored(NodeId::ROOT, "data", 7);
        image.stored(NodeId::ROOT, "empty", 8);
    });
    let mut merge = Merge::new(None, &[change(A, None, &one)]).unwrap();
    let segments = vec![ExternalFile { name: "a.log".into(), offset: 128, size: Some(32) }];
    let stored = |dims: &[u64]| SkeletonDataset {
        datatype: int32(),
        dims: dims.to_vec(),
        segments: Some(segments.clone()),
        blocks: None,
        fill: FillWhen::Default,
        definition: None,
    };
    let all = HashMap::from([(DatasetId([7; 16]), stored(&[8])), (DatasetId([8; 16]), stored(&[0, 5]))]);
    let file = File::from_bytes(merge.write(stamp(1), &all).unwrap(), &OpenOptions::default()).unwrap();
    let files = get(&file, "data").dataset().unwrap().external().to_vec();
    assert_eq!((&files[..1], files.len(), files[1].size), (&segments[..], 2, Some(1)));
    let empty = get(&file, "empty").dataset().unwrap();
    assert_eq!((empty.dims(), empty.external().len(), empty.external()[0].size), (&[0, 5][..], 1, None));
    assert_eq!(merge.write(stamp(1), &HashMap::new()).unwrap_err().kind(), hyperchunk::ErrorKind::Invalid);
}

#[test]
fn large_groups_of_many_writers_take_no_longer_than_their_links() {
    let make = |first: u32| {
        image(|image| {
            for number in first..first + 3000 {
                let name = format!("{number}");
                image.file.link(NodeId::ROOT, name.as_bytes(), NewLink::Soft("/x".into())).unwrap();
            }
        })
    };
    let images: Vec<File> = (0..4).map(|at| make(1500 * at)).collect();
    let writers = (1..).map(|at| WriterId([at; 16]));
    let changes: Vec<Change> =
        writers.zip(&images).map(|(writer, image)| change(writer, None, image)).collect();
    let start = std::time::Instant::now();
    let (file, conflicts) = merged(None, &changes);
    assert_eq!((names(&file, "/").len(), conflicts.len()), (7500, 0));
    assert!(start.elapsed().as_secs() < 60, "{:?}", start.elapsed());
}

#[test]
fn a_name_that_was_moved_away_and_back_is_the_last_one() {
    let make = |order: [&str; 3]| {
        image(|image| {
            for name in order {
                image.stored(NodeId::ROOT, name, name.as_bytes()[0]);
            }
        })
    };
    let (base, edited) = (make(["a", "b", "c"]), make(["a", "c", "b"]));
    let (file, conflicts) = merged(Some(&base), &[change(B, Some(&base), &edited)]);
    assert_eq!((conflicts, names(&file, "/")), (vec![], vec!["a".into(), "c".into(), "b".into()]));
    // With another writer in the group, the order stays, and new links come last.
    let more = image(|image| {
        image.stored(NodeId::ROOT, "new", 9);
    });
    let additions = Change { deletes: false, ..change(A, Some(&base), &more) };
    let (file, _) = merged(Some(&base), &[additions, change(B, Some(&base), &edited)]);
    assert_eq!(names(&file, "/"), ["a", "b", "c", "new"]);
}

#[test]
fn objects_of_a_file_that_was_written_anew_are_known_by_their_names() {
    let make = |names: &[&str]| {
        image(|image| {
            for name in names {
                let group = image.group(NodeId::ROOT, name);
                image.number(group, "first letter", i32::from(name.as_bytes()[0]));
            }
        })
    };
    let (base, more) = (make(&["a", "b", "c"]), make(&["0", "a", "b"]));
    assert_eq!(get(&base, "a").address(), get(&more, "0").address(), "another object has the address");
    let (file, conflicts) = merged(Some(&base), &[change(B, Some(&base), &more)]);
    assert_eq!(conflicts, [""; 0]);
    assert_eq!(names(&file, "/"), ["0", "a", "b"]);
    for name in ["0", "a", "b"] {
        assert_eq!(number(&file, name, "first letter"), Some(i32::from(name.as_bytes()[0])), "{name}");
    }
}

#[test]
fn a_dataset_that_was_written_to_and_deleted_stays() {
    let base = image(|image| {
        let group = image.group(NodeId::ROOT, "g");
        image.stored(group, "x", 1);
    });
    let deleted = image(|image| {
        image.group(NodeId::ROOT, "g");
    });
    let emptied = image(|_| {});
    for (gone, path) in [(&deleted, "/g/x"), (&emptied, "/g")] {
        for (writes, deletes) in [(A, B), (B, A)] {
            let written = HashSet::from([DatasetId([1; 16])]);
            let mut changes = [
                Change { written, ..change(writes, Some(&base), &base) },
                change(deletes, Some(&base), gone),
            ];
            changes.sort_by_key(|change| change.writer);
            let merge = Merge::new(Some(&base), &changes).unwrap();
            assert_eq!(merge.datasets(), [(DatasetId([1; 16]), b"/g/x".to_vec())]);
            let found: Vec<_> = merge.conflicts().iter().map(|found| found.path.clone()).collect();
            assert_eq!(found, [path.as_bytes()], "{writes} wrote");
        }
        let written = HashSet::from([DatasetId([1; 16])]);
        let both = [Change { written, ..change(A, Some(&base), gone) }, change(B, Some(&base), gone)];
        let merge = Merge::new(Some(&base), &both).unwrap();
        assert!(merge.datasets().is_empty() && merge.conflicts().is_empty());
    }
}

#[test]
fn elements_of_a_dataset_that_another_moved_are_no_conflict() {
    let base = image(|image| {
        let group = image.group(NodeId::ROOT, "g");
        image.stored(group, "x", 1);
    });
    let moved = image(|image| {
        image.group(NodeId::ROOT, "g");
        image.stored(NodeId::ROOT, "y", 1);
    });
    for (writes, moves) in [(A, B), (B, A)] {
        let written = HashSet::from([DatasetId([1; 16])]);
        let mut changes =
            [Change { written, ..change(writes, Some(&base), &base) }, change(moves, Some(&base), &moved)];
        changes.sort_by_key(|change| change.writer);
        let merge = Merge::new(Some(&base), &changes).unwrap();
        assert_eq!(merge.datasets(), [(DatasetId([1; 16]), b"/y".to_vec())]);
        assert_eq!(merge.conflicts(), []);
    }
}
