//! Writers that fail: a failing call changes nothing, and complete data are recovered.

use super::journal::{Entry, Journal, NewDataset};
use super::*;
use crate::{Error, ErrorKind, File, OpenOptions, Result};
use hyperchunk_format::codec::{Codec, Context, EncodeContext, EncodeOutcome, register_codec};
use hyperchunk_format::model::{
    AllocationTime, Attribute, ByteOrder, CharacterSet, Class, Dataspace, Datatype, FillWhen, Filter, Member,
    Name,
};
use hyperchunk_format::select::Selection;
use std::path::PathBuf;
use std::sync::Arc;

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("hyperchunk-failing-{name}-{}", std::process::id()));
        drop(std::fs::remove_dir_all(&path));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

fn int32() -> Datatype {
    Datatype::integer(4, true, ByteOrder::Little)
}

fn space(dims: &[u64]) -> Dataspace {
    Dataspace::Simple { dims: dims.to_vec(), max: dims.iter().map(|dim| Some(*dim)).collect() }
}

/// A compound with more members than fit into an object header message.
fn wide() -> Datatype {
    let member = |number: u32| Member {
        name: Name::from(format!("field_{number}").as_bytes()),
        offset: u64::from(number) * 4,
        datatype: int32(),
    };
    let members: Vec<Member> = (0..4000).map(member).collect();
    Datatype { class: Class::Compound { members }, size: 16_000 }
}

fn attribute(name: &str, datatype: Datatype) -> Attribute {
    let data = vec![7; usize::try_from(datatype.size).unwrap()];
    Attribute {
        name: Name::from(name.as_bytes()),
        charset: CharacterSet::Ascii,
        datatype,
        dataspace: Dataspace::Scalar,
        data,
        committed: None,
        creation_order: None,
    }
}

fn options(datatype: Datatype) -> DatasetOptions {
    DatasetOptions::new(datatype, space(&[4]))
}

fn values(path: &std::path::Path, name: &str) -> Vec<u8> {
    let file = File::open(path, &OpenOptions::default()).unwrap();
    let dataset = file.root().unwrap().group().unwrap().get(name.as_bytes()).unwrap().dataset().unwrap();
    let mut bytes = vec![0; 16];
    dataset.read(&Selection::All, &mut bytes).unwrap();
    bytes
}

#[cfg(target_os = "linux")]
#[test]
fn a_call_whose_note_fails_changes_nothing() {
    let folder = Folder::new("note");
    let path = folder.0.join("a.h5");
    let file = Writer::create(&path, &CreateOptions::default()).unwrap();
    let kept = file.create_dataset(NodeId::ROOT, b"kept", options(int32())).unwrap();
    kept.write(&Selection::All, &[1; 16]).unwrap();
    file.link(NodeId::ROOT, b"old", NewLink::Soft(Name::from("/kept"))).unwrap();
    file.set_attribute(kept.id(), attribute("old", int32())).unwrap();
    let growing = Dataspace::Simple { dims: vec![4], max: vec![None] };
    let growing = DatasetOptions::new(int32(), growing).with_layout(NewLayout::Chunked(vec![2]));
    let growing = file.create_dataset(NodeId::ROOT, b"growing", growing).unwrap();
    let compact = options(int32()).with_layout(NewLayout::Compact);
    let compact = file.create_dataset(NodeId::ROOT, b"compact", compact).unwrap();
    let tree = || format!("{:?}", file.0.tree());
    type Call<'a> = (&'a str, Box<dyn Fn() -> Result<()> + 'a>);
    let calls: Vec<Call<'_>> = vec![
        ("group", Box::new(|| file.create_group(NodeId::ROOT, b"g", true).map(drop))),
        ("dataset", Box::new(|| file.create_dataset(NodeId::ROOT, b"d", options(int32())).map(drop))),
        ("nameless", Box::new(|| file.create_group(NodeId::ROOT, b"", true).map(drop))),
        ("datatype", Box::new(|| file.commit_datatype(NodeId::ROOT, b"t", int32()).map(drop))),
        ("link", Box::new(|| file.link(NodeId::ROOT, b"l", NewLink::Hard(kept.id())))),
        ("unlink", Box::new(|| file.unlink(NodeId::ROOT, b"old"))),
        ("new attribute", Box::new(|| file.set_attribute(kept.id(), attribute("a", int32())))),
        (
            "attribute",
            Box::new(|| {
                file.set_attribute(kept.id(), attribute("old", Datatype::integer(8, true, ByteOrder::Little)))
            }),
        ),
        ("no attribute", Box::new(|| file.delete_attribute(kept.id(), b"old"))),
        ("comment", Box::new(|| file.set_comment(kept.id(), Some(Name::from("c"))))),
        ("order", Box::new(|| file.track_root_order(true))),
        ("address", Box::new(|| file.address(kept.id()).map(drop))),
        ("resize", Box::new(|| growing.resize(&[6]))),
        ("compact", Box::new(|| compact.write(&Selection::All, &[9; 16]))),
        ("chunk", Box::new(|| growing.write(&Selection::All, &[3; 24]))),
    ];
    for (name, call) in calls {
        let before = tree();
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let journal = file.0.journal.as_ref().unwrap();
        let own = journal.redirect(full);
        let error = call().unwrap_err();
        drop(journal.redirect(own));
        assert!(error.to_string().contains("cannot write the journal"), "{name}: {error}");
        if name != "address" && name != "chunk" {
            assert_eq!(tree(), before, "{name}");
        }
        call().unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    drop((file, kept, growing, compact));
    let found = recover(&path).unwrap();
    assert_eq!((found.lost, found.torn), (vec![], 0));
    assert_eq!(values(&path, "kept"), [1; 16]);
    assert_eq!(values(&path, "compact"), [9; 16]);
}

#[test]
fn what_hdf5_cannot_hold_is_left_out_and_named() {
    let folder = Folder::new("unencodable");
    let path = folder.0.join("a.h5");
    let file = Writer::create(&path, &CreateOptions::default()).unwrap();
    let kept = file.create_dataset(NodeId::ROOT, b"kept", options(int32())).unwrap();
    kept.write(&Selection::All, &[1; 16]).unwrap();
    // Journalled by an earlier release, which found out at the commit.
    let made = |datatype: Datatype, fill: Vec<u8>| {
        let DatasetOptions { dataspace, layout, pipeline, fill: mut value, .. } = options(datatype.clone());
        value.allocation = AllocationTime::Late;
        if !fill.is_empty() {
            value.value = FillWhen::User(fill);
        }
        Entry::Dataset(Box::new(NewDataset {
            datatype,
            committed: None,
            dataspace,
            layout,
            pipeline,
            fill: value,
            track_order: false,
        }))
    };
    let opaque = Datatype { class: Class::Opaque { tag: Name::from("") }, size: 65_530 };
    let (group, root) = (NodeId(6), NodeId::ROOT);
    let link = |name: &str, target| Entry::Link { group: root, name: Name::from(name), target };
    let mut entries = vec![
        made(wide(), Vec::new()),
        link("wide", NewLink::Hard(NodeId(2))),
        Entry::Attribute { object: NodeId(2), attribute: attribute("of a lost one", int32()) },
        Entry::Begins { object: NodeId(2), address: 4096 },
        made(opaque, vec![1; 65_530]),
        link("fill", NewLink::Hard(NodeId(3))),
        Entry::Datatype(wide()),
        link("datatype", NewLink::Hard(NodeId(4))),
        link("soft", NewLink::Soft(Name::from(&vec![b'x'; 100_000][..]))),
        link("gone", NewLink::Soft(Name::from(&vec![b'x'; 100_000][..]))),
        Entry::Unlink { group: root, name: Name::from("gone") },
        Entry::Attribute { object: root, attribute: attribute("wide attribute", wide()) },
        Entry::Attribute { object: root, attribute: attribute("mended", wide()) },
        Entry::Attribute { object: root, attribute: attribute("mended", int32()) },
        Entry::Comment { object: root, comment: Some(Name::from(&vec![b'c'; 70_000][..])) },
        made(int32(), Vec::new()),
        link("after", NewLink::Hard(NodeId(5))),
        Entry::Group { track_order: true },
        link("many", NewLink::Hard(group)),
    ];
    let byte = || Datatype::integer(1, true, ByteOrder::Little);
    for _ in 0..66_000 {
        entries.push(Entry::Attribute { object: group, attribute: attribute("again", byte()) });
        entries.push(Entry::NoAttribute { object: group, name: Name::from("again") });
    }
    entries.push(Entry::Attribute { object: group, attribute: attribute("last", byte()) });
    file.0.note(&entries).unwrap();
    drop((file, kept));
    let found = recover(&path).unwrap();
    for part in [
        "/wide: ",
        "/fill: ",
        "/datatype: ",
        "/soft: ",
        "attribute wide attribute of /",
        "its comment",
        "/many",
    ] {
        assert!(found.lost.iter().any(|lost| lost.contains(part)), "{part}: {:?}", found.lost);
    }
    assert_eq!(found.lost.len(), 7, "{:?}", found.lost);
    assert_eq!(values(&path, "kept"), [1; 16]);
    let open = File::open(&path, &OpenOptions::default()).unwrap();
    let root = open.root().unwrap();
    let mut names: Vec<String> =
        root.group().unwrap().links().unwrap().iter().map(|link| link.name.to_string()).collect();
    names.sort();
    assert_eq!(names, ["after", "kept", "many"]);
    assert_eq!(root.attributes().unwrap().len(), 1);
    assert_eq!(root.group().unwrap().get(b"many").unwrap().attributes().unwrap().len(), 1);
}

/// A disk that refuses writes of more than a given size.
#[derive(Debug, Default)]
struct SmallDisk(MemorySink, std::sync::atomic::AtomicUsize);

impl Sink for SmallDisk {
    fn write_at(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        if bytes.len() > self.1.load(std::sync::atomic::Ordering::Relaxed) {
            return Err(Error::new(ErrorKind::Io, "no room"));
        }
        self.0.write_at(offset, bytes)
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.0.read_at(offset, buffer)
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn publish(&self, size: u64) -> Result<()> {
        self.0.publish(size)
    }
}

#[test]
fn chunks_without_room_do_not_keep_others_from_their_places() {
    let sink = Arc::new(SmallDisk::default());
    sink.1.store(10_000, std::sync::atomic::Ordering::Relaxed);
    let file = Writer::create_in(Arc::<SmallDisk>::clone(&sink), None, &CreateOptions::default()).unwrap();
    let byte = Datatype::integer(1, true, ByteOrder::Little);
    let mut datasets = Vec::new();
    for (name, size) in [("large", 50_000), ("small", 1000), ("other", 500)] {
        let options =
            DatasetOptions::new(byte.clone(), space(&[size])).with_layout(NewLayout::Chunked(vec![size]));
        let dataset = file.create_dataset(NodeId::ROOT, name.as_bytes(), options).unwrap();
        let part = Selection::Axes(vec![hyperchunk_format::select::Axis::range(0..size - 1)]);
        dataset.write(&part, &vec![7; usize::try_from(size - 1).unwrap()]).unwrap();
        datasets.push(dataset);
    }
    let waiting = || file.0.waiting_bytes.load(std::sync::atomic::Ordering::Relaxed);
    assert_eq!(waiting(), 51_500);
    file.close().unwrap_err();
    assert_eq!(waiting(), 50_000);
    sink.1.store(usize::MAX, std::sync::atomic::Ordering::Relaxed);
    file.close().unwrap();
    let read = File::from_bytes(sink.0.bytes(), &OpenOptions::default()).unwrap();
    for (name, size) in [("large", 50_000), ("small", 1000), ("other", 500)] {
        let dataset = read.root().unwrap().group().unwrap().get(name.as_bytes()).unwrap().dataset().unwrap();
        let mut bytes = vec![0; size];
        dataset.read(&Selection::All, &mut bytes).unwrap();
        assert_eq!(bytes.iter().filter(|byte| **byte == 7).count(), size - 1);
    }
}

#[test]
fn attributes_that_cannot_be_counted_are_refused_at_the_call() {
    let file = Writer::create_in(Arc::new(MemorySink::default()), None, &CreateOptions::default()).unwrap();
    let group = file.create_group(NodeId::ROOT, b"g", true).unwrap();
    let byte = || Datatype::integer(1, true, ByteOrder::Little);
    file.set_attribute(group, attribute("first", byte())).unwrap();
    file.0.tree_mut().node_mut(group).unwrap().next_attribute = 65_534;
    file.set_attribute(group, attribute("last", byte())).unwrap();
    let error = file.set_attribute(group, attribute("one more", byte())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Limit);
    file.set_attribute(group, attribute("first", byte())).unwrap();
    let long = Some(Name::from(&vec![b'c'; 70_000][..]));
    assert_eq!(file.set_comment(group, long).unwrap_err().kind(), ErrorKind::Limit);
    file.close().unwrap();
}

#[cfg(unix)]
#[test]
fn links_under_the_names_of_a_writer_are_not_followed() {
    use std::os::unix::fs::symlink;
    let folder = Folder::new("links");
    let (path, victim) = (folder.0.join("a.h5"), folder.0.join("victim"));
    std::fs::write(&victim, "five years of work").unwrap();
    for name in ["a.h5.partial", "a.h5.journal"] {
        let planted = folder.0.join(name);
        symlink("victim", &planted).unwrap();
        let error = Writer::create(&path, &CreateOptions::default()).unwrap_err();
        assert!(error.to_string().contains("is there"), "{error}");
        recover(&path).unwrap_err();
        std::fs::remove_file(&planted).unwrap();
    }
    let file = Writer::create(&path, &CreateOptions::default()).unwrap();
    file.create_group(NodeId::ROOT, b"g", false).unwrap();
    drop(file);
    // The journal is the user's, but the unfinished file is another user's.
    std::fs::remove_file(folder.0.join("a.h5.partial")).unwrap();
    symlink("victim", folder.0.join("a.h5.partial")).unwrap();
    let error = recover(&path).unwrap_err();
    assert!(error.to_string().contains("expected a regular file"), "{error}");
    assert_eq!(std::fs::read(&victim).unwrap(), b"five years of work");
    let names = std::fs::read_dir(&folder.0).unwrap().count();
    assert_eq!(names, 3);
}

#[test]
fn another_file_in_the_place_of_the_unfinished_one_is_not_renamed() {
    let folder = Folder::new("exchanged");
    let path = folder.0.join("a.h5");
    std::fs::write(&path, "the old one").unwrap();
    let file = Writer::create(&path, &CreateOptions::default()).unwrap();
    let partial = folder.0.join("a.h5.partial");
    std::fs::rename(&partial, folder.0.join("elsewhere")).unwrap();
    std::fs::write(&partial, "theirs").unwrap();
    let error = file.close().unwrap_err().to_string();
    assert!(error.contains("another program deleted it") && error.contains("hyperchunk recover"), "{error}");
    assert_eq!(std::fs::read(&path).unwrap(), b"the old one");
}

#[test]
fn an_unfinished_file_without_a_journal_goes_with_its_writer() {
    let folder = Folder::new("scratch");
    let path = folder.0.join("a.h5");
    let options = CreateOptions { journal: false, ..CreateOptions::default() };
    let file = Writer::create(&path, &options).unwrap();
    let name = std::fs::read_dir(&folder.0).unwrap().next().unwrap().unwrap().file_name();
    let name = name.to_str().unwrap();
    assert!(name.starts_with(".a.h5.") && name.ends_with(".part"), "{name}");
    drop(file);
    assert_eq!(std::fs::read_dir(&folder.0).unwrap().count(), 0);
    let file = Writer::create(&path, &options).unwrap();
    file.close().unwrap();
    drop(file);
    assert!(path.exists());
}

/// Puts a folder in the place of a file, so that it cannot be deleted as one.
#[cfg(unix)]
fn occupy(path: &std::path::Path) {
    std::fs::remove_file(path).unwrap();
    std::fs::create_dir(path).unwrap();
}

#[cfg(unix)]
#[test]
fn test_the_first_error_of_a_create_is_told_and_the_journal_named() {
    let folder = Folder::new("create");
    let path = folder.0.join("a.h5");
    let journal = Journal::create(&path).unwrap();
    let name = folder.0.join("a.h5.journal");
    occupy(&name);
    let first = Error::new(ErrorKind::Exists, "cannot create the file: it exists").with_os_code(17);
    let error = journal::delete_unstarted(first, Some(&journal));
    assert_eq!((error.kind(), error.os_code()), (ErrorKind::Exists, Some(17)));
    let text = error.to_string();
    assert!(text.contains("cannot create the file: it exists; "), "{text}");
    assert!(text.contains("cannot delete the journal") && text.contains("delete it"), "{text}");
    assert!(text.contains(&name.display().to_string()), "{text}");
}

#[cfg(unix)]
#[test]
fn test_a_discard_that_failed_releases_the_lock_and_can_be_repeated() {
    let folder = Folder::new("discard");
    let path = folder.0.join("a.h5");
    let (partial, journal) = (LocalSink::partial_path(&path), folder.0.join("a.h5.journal"));
    let file = Writer::create(&path, &CreateOptions::default()).unwrap();
    let kept = folder.0.join("kept");
    std::fs::hard_link(&partial, &kept).unwrap();
    occupy(&partial);
    let error = file.discard().unwrap_err();
    assert!(error.to_string().contains("delete"), "{error}");
    file.create_group(NodeId::ROOT, b"g", false).unwrap_err();
    let other = std::fs::OpenOptions::new().write(true).open(&kept).unwrap();
    other.try_lock().unwrap();
    assert!(journal.exists());
    // As if its folder could be written to again.
    std::fs::remove_dir(&partial).unwrap();
    std::fs::rename(&kept, &partial).unwrap();
    file.discard().unwrap();
    assert!(!partial.exists() && !journal.exists());
    file.discard().unwrap();
    Writer::create(&path, &CreateOptions::default()).unwrap().discard().unwrap();
}

#[cfg(unix)]
#[test]
fn test_a_journal_that_could_not_be_deleted_is_deleted_by_the_next_call() {
    for discards in [false, true] {
        let folder = Folder::new(&format!("end-{discards}"));
        let path = folder.0.join("a.h5");
        let file = Writer::create(&path, &CreateOptions::default()).unwrap();
        let end = || if discards { file.discard() } else { file.close() };
        let (journal, kept) = (folder.0.join("a.h5.journal"), folder.0.join("kept"));
        std::fs::hard_link(&journal, &kept).unwrap();
        occupy(&journal);
        end().unwrap_err();
        std::fs::remove_dir(&journal).unwrap();
        std::fs::rename(&kept, &journal).unwrap();
        end().unwrap();
        assert!(!journal.exists());
        end().unwrap();
    }
}

#[test]
fn test_a_file_that_cannot_be_started_leaves_no_journal() {
    let folder = Folder::new("full");
    let path = folder.0.join("a.h5");
    let journal = Journal::create(&path).unwrap();
    // It has no room for anything.
    let sink = Arc::new(SmallDisk::default());
    let error = Writer::start(sink, None, &CreateOptions::default(), Some(journal)).unwrap_err();
    assert!(error.to_string().contains("no room"), "{error}");
    assert!(!folder.0.join("a.h5.journal").exists());
}

/// Makes writers of each kind: of a new file with a journal, of one in memory, and of an edited file.
fn writers(folder: &Folder) -> Vec<(&'static str, Writer)> {
    let options = CreateOptions::default();
    let edited = folder.0.join("edited.h5");
    Writer::create(&edited, &options).unwrap().close().unwrap();
    vec![
        ("new", Writer::create(folder.0.join("new.h5"), &options).unwrap()),
        ("in memory", Writer::create_in(Arc::new(MemorySink::default()), None, &options).unwrap()),
        ("edited", Writer::edit(&edited, &options).unwrap()),
    ]
}

#[test]
fn test_what_hdf5_cannot_hold_is_refused_at_the_call() {
    let folder = Folder::new("refused");
    let root = NodeId::ROOT;
    let ones = Dataspace::Simple { dims: vec![1; 33], max: vec![Some(1); 33] };
    let mapping = |file: &str, dataset: &str| {
        let name = |text: &str| hyperchunk_format::model::SourceName { parts: vec![Name::from(text)] };
        hyperchunk_format::model::VirtualMapping {
            file: name(file),
            dataset: name(dataset),
            source: hyperchunk_format::model::StoredSelection::All,
            target: hyperchunk_format::model::StoredSelection::All,
        }
    };
    let outside = |name: &str| {
        let file =
            hyperchunk_format::model::ExternalFile { name: Name::from(name), offset: 0, size: Some(16) };
        options(int32()).with_layout(NewLayout::External(vec![file]))
    };
    let filtered = |count: usize, parameters: usize| {
        let filter = Filter { id: 32_000, optional: true, name: None, parameters: vec![0; parameters] };
        let mut made = options(int32()).with_layout(NewLayout::Chunked(vec![4]));
        made.pipeline = vec![filter; count];
        made
    };
    for (kind, file) in writers(&folder) {
        let kept = file.create_dataset(root, b"kept", options(int32())).unwrap();
        kept.write(&Selection::All, &[1; 16]).unwrap();
        let soft = |path: &str| NewLink::Soft(Name::from(path));
        let external = |file: &str, path: &str| NewLink::External { file: file.into(), path: path.into() };
        let links = [
            soft(""),
            soft("/x\0y"),
            external("", "/x"),
            external("a.h5", ""),
            external("a\0.h5", "/x"),
            external("a.h5", "/x\0"),
            external(&"x".repeat(70_000), "/x"),
            NewLink::User { class: 64, data: vec![] },
            NewLink::User { class: 70, data: vec![0; 70_000] },
        ];
        let wrong = Attribute { dataspace: ones.clone(), ..attribute("n", int32()) };
        let virtual_ = |file: &str, name: &str| {
            options(int32()).with_layout(NewLayout::Virtual(vec![mapping(file, name)]))
        };
        let datasets = [
            virtual_("a\0.h5", "/x"),
            virtual_("", "/x"),
            virtual_("a.h5", ""),
            outside(""),
            outside("a\0b"),
            filtered(33, 1),
            filtered(1, 20_000),
            DatasetOptions::new(int32(), ones.clone()),
        ];
        let before = format!("{:?}", file.0.tree());
        let mut calls: Vec<(String, Result<()>)> = Vec::new();
        for link in links {
            calls.push((format!("{link:?}"), file.link(root, b"l", link)));
        }
        for dataset in datasets {
            calls.push((format!("{dataset:?}"), file.create_dataset(root, b"d", dataset).map(drop)));
        }
        for object in [root, kept.id()] {
            calls.push(("set".into(), file.set_attribute(object, wrong.clone())));
            calls.push(("replace".into(), file.replace_attribute(object, wrong.clone())));
        }
        calls.push(("comment".into(), file.set_comment(root, Some("a\0b".into()))));
        for (call, done) in calls {
            let error = done.expect_err(&format!("{kind}: {call:.100}"));
            let is_usual =
                matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Limit | ErrorKind::Unsupported);
            assert!(is_usual, "{kind}: {call:.100}: {error}");
        }
        assert_eq!(format!("{:?}", file.0.tree()), before, "{kind}");
        file.close().unwrap();
    }
    assert_eq!(values(&folder.0.join("new.h5"), "kept"), [1; 16]);
    assert_eq!(values(&folder.0.join("edited.h5"), "kept"), [1; 16]);
}

#[test]
fn test_recovery_leaves_out_what_an_earlier_release_journalled() {
    let folder = Folder::new("links");
    let path = folder.0.join("a.h5");
    let file = Writer::create(&path, &CreateOptions::default()).unwrap();
    let kept = file.create_dataset(NodeId::ROOT, b"kept", options(int32())).unwrap();
    kept.write(&Selection::All, &[1; 16]).unwrap();
    let group = NodeId::ROOT;
    let link = |name: &str, target| Entry::Link { group, name: Name::from(name), target };
    file.0
        .note(&[
            link("soft", NewLink::Soft("".into())),
            link("external", NewLink::External { file: "".into(), path: "/x".into() }),
            link("good", NewLink::Soft("/kept".into())),
            Entry::Comment { object: group, comment: Some("a\0b".into()) },
        ])
        .unwrap();
    drop((file, kept));
    let found = recover(&path).unwrap();
    assert_eq!(found.lost.len(), 3, "{:?}", found.lost);
    assert_eq!(values(&path, "kept"), [1; 16]);
    let read = File::open(&path, &OpenOptions::default()).unwrap();
    assert_eq!(read.root().unwrap().group().unwrap().len().unwrap(), 2);
}

/// Codec that refuses every chunk.
#[derive(Debug)]
struct RefusingCodec;

impl Codec for RefusingCodec {
    fn id(&self) -> u16 {
        40_002
    }

    fn name(&self) -> &'static str {
        "never"
    }

    fn decode(&self, _: &[u8], _: &mut Vec<u8>, _: &Context<'_>) -> Result<()> {
        Err(Error::invalid("never"))
    }

    fn encode(&self, _: &[u8], _: &mut Vec<u8>, _: &EncodeContext<'_>) -> Result<EncodeOutcome> {
        Ok(EncodeOutcome::Refused)
    }
}

#[test]
fn test_a_chunk_that_cannot_be_encoded_is_dropped_with_its_dataset() {
    register_codec(Arc::new(RefusingCodec));
    let folder = Folder::new("refused");
    let path = folder.0.join("a.h5");
    Writer::create(&path, &CreateOptions::default()).unwrap().close().unwrap();
    let file = Writer::edit(&path, &CreateOptions::default()).unwrap();
    let kept = file.create_dataset(NodeId::ROOT, b"kept", options(int32())).unwrap();
    kept.write(&Selection::All, &[1; 16]).unwrap();
    let group = file.create_group(NodeId::ROOT, b"g", false).unwrap();
    let filter = Filter { id: 40_002, optional: false, name: None, parameters: Vec::new() };
    let refused = options(int32()).with_layout(NewLayout::Chunked(vec![4])).with_pipeline(vec![filter]);
    let refused = file.create_dataset(group, b"refused", refused).unwrap();
    refused.write(&Selection::Points { rank: 1, coordinates: vec![0] }, &[2; 4]).unwrap();
    assert_eq!(file.flush().unwrap_err().kind(), ErrorKind::Invalid);
    file.unlink(NodeId::ROOT, b"g").unwrap();
    file.close().unwrap();
    assert_eq!(values(&path, "kept"), [1; 16]);
}
