use super::*;
use crate::commit::{CommitOptions, commit};
use crate::tests::{Folder, options};
use crate::{Definition, LogWriter};
use hyperchunk::OpenOptions;
use hyperchunk::pack::{PackOptions, PackPlan};
use hyperchunk::write::{
    CreateOptions, DatasetOptions, MemorySink, NewLayout, NewLink, NodeId, Sync, Writer,
};
use hyperchunk_format::codec::{Target, preset};
use hyperchunk_format::model::{ByteOrder, Class, Member, ReferenceKind, StringPadding};
use hyperchunk_format::select::Selection;
use std::sync::Arc;

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

fn attribute(name: &[u8], datatype: Datatype, data: Vec<u8>) -> Attribute {
    let count = data.len() as u64 / datatype.size;
    Attribute {
        name: Name::from(name),
        charset: CharacterSet::Utf8,
        datatype,
        committed: None,
        dataspace: simple(&[count], false),
        data,
        creation_order: None,
    }
}

/// Makes a file with names that are special to file systems, and elements of all forms.
fn source() -> File {
    let sink = Arc::new(MemorySink::default());
    let file = Writer::create_in(Arc::<MemorySink>::clone(&sink), None, &CreateOptions::default()).unwrap();
    file.track_root_order(true).unwrap();
    let group = file.create_group(NodeId::ROOT, "grüße".as_bytes(), true).unwrap();
    let odd = file.create_group(group, b"..", false).unwrap();
    let numbers =
        DatasetOptions::new(int32(), simple(&[30, 7], true)).with_layout(NewLayout::Chunked(vec![8, 3]));
    let target = Target { datatype: &int32(), chunk: &[8, 3], fill: &FillWhen::Default };
    let numbers = numbers.with_pipeline(preset("deflate", &target).unwrap());
    let numbers = file.create_dataset(odd, b"a~b%c:\\.json", numbers).unwrap();
    let data: Vec<u8> = (0..210_i32).flat_map(i32::to_le_bytes).collect();
    numbers.write(&Selection::All, &data).unwrap();
    file.link(NodeId::ROOT, b"again", NewLink::Hard(numbers.id())).unwrap();
    file.link(group, b"up", NewLink::Hard(NodeId::ROOT)).unwrap();
    file.link(group, b"soft", NewLink::Soft("/again".into())).unwrap();
    file.link(group, b"other", NewLink::External { file: "x.h5".into(), path: "/y".into() }).unwrap();
    file.link(group, b"own", NewLink::User { class: 70, data: vec![0, 255] }).unwrap();
    file.set_comment(group, Some("50 % of it".into())).unwrap();
    let named = file.commit_datatype(NodeId::ROOT, b"named", int32()).unwrap();
    let committed = Some(file.address(named).unwrap());
    let mut plain = DatasetOptions::new(int32(), Dataspace::Scalar);
    plain.committed = committed;
    plain.fill.value = FillWhen::User(vec![1, 2, 3, 4]);
    let plain = file.create_dataset(group, b"\xff\xfe", plain).unwrap();
    plain.write(&Selection::All, &[9; 4]).unwrap();
    file.create_dataset(NodeId::ROOT, b"null", DatasetOptions::new(int32(), Dataspace::Null)).unwrap();
    let store = |text: &str| file.store_sequence(text.len(), text.as_bytes()).unwrap();
    let words = DatasetOptions::new(text(), simple(&[3], true)).with_layout(NewLayout::Chunked(vec![2]));
    let words = file.create_dataset(NodeId::ROOT, b"words", words).unwrap();
    words.write(&Selection::All, &[store("eins"), store(""), store("drei")].concat()).unwrap();
    let address = |node| file.address(node).unwrap().to_le_bytes();
    let sequence = Datatype { size: 16, class: Class::Vlen { base: Box::new(reference()) } };
    let member = |name: &str, offset, datatype| Member { name: name.into(), offset, datatype };
    let members =
        vec![member("many", 8, sequence.clone()), member("n", 0, int32()), member("one", 24, reference())];
    let compound = Datatype { size: 32, class: Class::Compound { members } };
    let both = [address(group), address(numbers.id())].concat();
    let many = file.store_sequence(2, &both).unwrap();
    let element = [&5_i32.to_le_bytes()[..], &[0; 4], &many, &address(plain.id())].concat();
    let pair = file.create_dataset(odd, b"pair", DatasetOptions::new(compound, simple(&[2], false))).unwrap();
    pair.write(&Selection::All, &[element, vec![0; 32]].concat()).unwrap();
    let list = file.store_sequence(2, &both).unwrap().to_vec();
    file.set_attribute(numbers.id(), attribute(b"DIMENSION_LIST", sequence, list)).unwrap();
    file.set_attribute(NodeId::ROOT, attribute(b"a/b ~%", text(), store("value").to_vec())).unwrap();
    for name in ["z", "y"] {
        let value = Attribute { committed, ..attribute(name.as_bytes(), int32(), vec![3; 8]) };
        file.set_attribute(group, value).unwrap();
    }
    file.close().unwrap();
    File::from_bytes(sink.bytes(), &OpenOptions::default()).unwrap()
}

#[test]
fn a_tree_leads_back_to_the_same_file() {
    let folder = Folder::new();
    let (tree, out) = (folder.0.join("tree"), folder.0.join("out.h5"));
    let file = source();
    let exported = export(&file, &tree).unwrap();
    assert_eq!((exported.groups, exported.datasets, exported.datatypes, exported.attributes), (3, 5, 1, 4));
    assert_eq!(fs::metadata(tree.join("grüße/%2E./a%7Eb%25c%3A%5C.json")).unwrap().len(), 840);
    assert_eq!(fs::read(tree.join("~a%2Fb %7E%25")).unwrap()[8..], *b"value");
    let about: Value = serde_json::from_slice(&fs::read(tree.join("words~.json")).unwrap()).unwrap();
    assert_eq!(about["dataspace"]["dims"][0], 3);
    assert_eq!(export(&file, &tree).unwrap_err().kind(), ErrorKind::Io);
    let mut never = CreateOptions::default();
    never.sync = Sync::Never;
    let imported = import(&tree, &out, &never).unwrap();
    assert_eq!(imported, exported);
    let new = File::open(&out, &OpenOptions::default()).unwrap();
    let input = Input { file, into: String::new() };
    PackPlan::new(vec![input], PackOptions::default()).unwrap().verify(&new, &|_| ()).unwrap();
    let group = new.root().unwrap().group().unwrap().get("grüße".as_bytes()).unwrap();
    let names: Vec<String> = group.attribute_names().unwrap().iter().map(Name::to_string).collect();
    assert_eq!(names, ["z", "y"], "the order of their making");
}

#[test]
fn a_store_is_exported_as_it_is_read() {
    let folder = Folder::new();
    let (path, tree) = (folder.0.join("a.h5"), folder.0.join("tree"));
    let definition = Definition::new("/g/data", int32(), vec![4, 2]);
    for half in 0..2_u8 {
        let writer = LogWriter::create(&path, &options()).unwrap();
        let dataset = writer.define(&definition).unwrap();
        writer.write_box(dataset, &[2 * u64::from(half), 0], &[2, 2], &[half + 1; 16]).unwrap();
        writer.close().unwrap();
    }
    commit(&path, &CommitOptions { sync: Sync::Never, ..CommitOptions::default() }).unwrap().unwrap();
    export(&File::open(&path, &OpenOptions::default()).unwrap(), &tree).unwrap();
    assert_eq!(fs::read(tree.join("g/data")).unwrap(), [[1; 16], [2; 16]].concat());
}

#[test]
fn a_tree_that_is_not_whole_makes_no_file() {
    let folder = Folder::new();
    let (tree, out) = (folder.0.join("tree"), folder.0.join("out.h5"));
    let file = source();
    export(&file, &tree).unwrap();
    fs::write(tree.join("words"), [1, 2, 3]).unwrap();
    assert_eq!(import(&tree, &out, &CreateOptions::default()).unwrap_err().kind(), ErrorKind::Corrupt);
    fs::remove_file(tree.join("words")).unwrap();
    assert_eq!(import(&tree, &out, &CreateOptions::default()).unwrap_err().kind(), ErrorKind::NotFound);
    fs::write(tree.join("~.json"), b"{").unwrap();
    assert_eq!(import(&tree, &out, &CreateOptions::default()).unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(fs::read_dir(&folder.0).unwrap().count(), 1, "the tree alone");
}
