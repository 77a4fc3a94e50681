//! Changes of objects whose headers have few and short messages: each is right, or refused.

use super::super::options::{DatasetOptions, NewLayout};
use super::super::sink::MemorySink;
use super::super::tree::NewLink;
use super::*;
use crate::Object;
use hyperchunk_format::model::{
    Attribute, ByteOrder, CharacterSet, Class, Dataspace, Datatype, Member, ObjectKind,
};
use std::collections::{BTreeMap, BTreeSet};

/// Bytes of the files that are changed, by a name for messages.
fn files() -> Vec<(String, Vec<u8>)> {
    let mut files = vec![
        ("of libhdf5, old".to_owned(), include_bytes!("../../../fixtures/small_old.hdf5").to_vec()),
        ("of libhdf5, new".to_owned(), include_bytes!("../../../fixtures/small_new.hdf5").to_vec()),
    ];
    for oldest in [LibVersion::V18, LibVersion::V110] {
        for track in [false, true] {
            files.push((format!("own, {oldest:?}, {track}"), own(oldest, track)));
        }
    }
    files
}

fn integer(size: u16) -> Datatype {
    Datatype::integer(size, true, ByteOrder::Little)
}

fn compound() -> Datatype {
    let member = Member { name: "a".into(), offset: 0, datatype: integer(1) };
    Datatype { class: Class::Compound { members: vec![member] }, size: 1 }
}

fn extent(dims: &[u64], grows: bool) -> Dataspace {
    let max = dims.iter().map(|dim| (!grows).then_some(*dim)).collect();
    Dataspace::Simple { dims: dims.to_vec(), max }
}

/// Makes a file of this library. `track`: with times, and orders of creation.
fn own(oldest: LibVersion, track: bool) -> Vec<u8> {
    let sink = Arc::new(MemorySink::default());
    let options = CreateOptions { oldest, newest: LibVersion::V200, ..CreateOptions::default() };
    let file = Writer::create_in(Arc::<MemorySink>::clone(&sink), None, &options).unwrap();
    let root = NodeId::ROOT;
    file.track_root_order(track).unwrap();
    let times = |id: NodeId| {
        if track {
            file.track_times(id).unwrap();
        }
        id
    };
    times(file.create_group(root, b"group", track).unwrap());
    let mut types = Vec::new();
    for (name, datatype) in [("type_i1", integer(1)), ("type_i4", integer(4)), ("type_compound", compound())]
    {
        types.push(times(file.commit_datatype(root, name.as_bytes(), datatype).unwrap()));
    }
    let options = |dataspace: Dataspace| {
        let mut options = DatasetOptions::new(integer(1), dataspace);
        options.track_order = track;
        options
    };
    for (name, dataspace) in
        [("null", Dataspace::Null), ("scalar", Dataspace::Scalar), ("one", extent(&[1], false))]
    {
        times(file.create_dataset(root, name.as_bytes(), options(dataspace)).unwrap().id());
    }
    let mut typed = DatasetOptions::new(integer(4), extent(&[2], false));
    typed.committed = Some(file.address(types[1]).unwrap());
    times(file.create_dataset(root, b"typed", typed).unwrap().id());
    let chunked = options(extent(&[3], true)).with_layout(NewLayout::Chunked(vec![2]));
    times(file.create_dataset(root, b"chunked", chunked).unwrap().id());
    let compact = options(extent(&[1], false)).with_layout(NewLayout::Compact);
    times(file.create_dataset(root, b"compact", compact).unwrap().id());
    file.close().unwrap();
    sink.bytes()
}

fn attribute(name: &str, count: usize) -> Attribute {
    Attribute {
        name: name.into(),
        charset: CharacterSet::Ascii,
        datatype: integer(1),
        committed: None,
        dataspace: extent(&[count as u64], false),
        data: vec![7; count],
        creation_order: None,
    }
}

/// A change of an object with a name in the root group.
type Change = fn(&Writer, NodeId, &[u8]) -> Result<()>;

const CHANGES: [(&str, Change); 13] = [
    ("move", |file, id, name| {
        file.link(NodeId::ROOT, b"moved", NewLink::Hard(id))?;
        file.unlink(NodeId::ROOT, name)
    }),
    ("second link", |file, id, _| file.link(NodeId::ROOT, b"second", NewLink::Hard(id))),
    ("link in a group", |file, id, _| {
        let group = file.object(b"/group")?;
        file.link(group, b"second", NewLink::Hard(id))
    }),
    ("removal", |file, _, name| file.unlink(NodeId::ROOT, name)),
    ("attribute", |file, id, _| file.set_attribute(id, attribute("a", 1))),
    ("two attributes", |file, id, _| {
        file.set_attribute(id, attribute("a", 1))?;
        file.set_attribute(id, attribute("b", 300))
    }),
    ("dense attributes", |file, id, _| {
        (0..12).try_for_each(|number| file.set_attribute(id, attribute(&format!("a{number}"), number)))
    }),
    ("large attribute", |file, id, _| file.set_attribute(id, attribute("a", 100_000))),
    ("attribute and none", |file, id, _| {
        file.set_attribute(id, attribute("a", 1))?;
        file.flush()?;
        file.delete_attribute(id, b"a")
    }),
    ("comment", |file, id, _| file.set_comment(id, Some("c".into()))),
    ("child or size", |file, id, _| match file.kind(id)? {
        ObjectKind::Group => file.create_group(id, b"child", false).map(drop),
        ObjectKind::Dataset => match file.dataset(id)?.dims() {
            dims if dims == [3] => file.dataset(id)?.resize(&[5]),
            _ => Ok(()),
        },
        ObjectKind::Datatype => {
            let mut options = DatasetOptions::new(file.datatype(id)?, extent(&[1], false));
            options.committed = Some(file.address(id)?);
            file.create_dataset(NodeId::ROOT, b"user", options).map(drop)
        }
    }),
    ("use without a name", |file, id, name| {
        if file.kind(id)? != ObjectKind::Datatype {
            return Ok(());
        }
        let mut options = DatasetOptions::new(file.datatype(id)?, extent(&[1], false));
        options.committed = Some(file.address(id)?);
        file.create_dataset(NodeId::ROOT, b"user", options)?;
        file.unlink(NodeId::ROOT, name)?;
        file.flush()?;
        // This would get the space of the type, if it were free.
        file.set_attribute(file.object(b"/user")?, attribute("a", 5))
    }),
    ("use as an attribute's type", |file, id, _| {
        if file.kind(id)? != ObjectKind::Datatype {
            return Ok(());
        }
        let datatype = file.datatype(id)?;
        let size = usize::try_from(datatype.size).unwrap();
        let committed = Some(file.address(id)?);
        let used = Attribute { dataspace: Dataspace::Scalar, datatype, committed, ..attribute("t", size) };
        file.set_attribute(NodeId::ROOT, used)
    }),
];

/// What leads to each object, by its address: links, and uses of a datatype.
type Links = BTreeMap<u64, BTreeSet<String>>;

/// Reads each object of a file whole. Returns their descriptions by path, without the number of links.
fn read(bytes: &[u8], what: &str) -> BTreeMap<String, String> {
    let file = File::from_bytes(bytes.to_vec(), &OpenOptions::default()).unwrap();
    let (mut found, mut links) = (BTreeMap::new(), Links::new());
    let root = file.root().unwrap_or_else(|error| panic!("{what}: /: {error}"));
    links.insert(root.address(), ["the superblock".to_owned()].into());
    let mut open = vec![(String::new(), root, Vec::new())];
    while let Some((path, object, mut above)) = open.pop() {
        let described = describe(&object, &mut links);
        found.insert(path.clone(), described.unwrap_or_else(|error| panic!("{what}: {path}: {error}")));
        if object.kind() != ObjectKind::Group || above.contains(&object.address()) {
            continue;
        }
        above.push(object.address());
        for link in object.group().unwrap().links().unwrap() {
            let child = object.group().unwrap().get(link.name.as_bytes());
            let child = child.unwrap_or_else(|error| panic!("{what}: {path}/{}: {error}", link.name));
            let known = links.entry(child.address()).or_default();
            known.insert(format!("{} {}", object.address(), link.name));
            open.push((format!("{path}/{}", link.name), child, above.clone()));
        }
    }
    for (address, all) in &links {
        // A type that is used needs no link.
        let object = file.object(*address).unwrap_or_else(|error| panic!("{what}: at {address}: {error}"));
        let stored = object.header().reference_count;
        assert_eq!(usize::try_from(stored).unwrap(), all.len(), "{what}: links to {address}: {all:?}");
    }
    found
}

fn describe(object: &Object, links: &mut Links) -> Result<String> {
    let attributes = object.attributes()?;
    for attribute in &attributes {
        let user = format!("attribute {} of {}", attribute.name, object.address());
        attribute.committed.into_iter().for_each(|address| {
            links.entry(address).or_default().insert(user.clone());
        });
    }
    let content = match object.kind() {
        ObjectKind::Group => String::new(),
        ObjectKind::Datatype => format!("{:?}", object.datatype()?),
        ObjectKind::Dataset => {
            let dataset = object.dataset()?;
            if let Some(address) = dataset.committed() {
                links.entry(address).or_default().insert(format!("dataset {}", object.address()));
            }
            let size = dataset.dataspace().elements().unwrap_or(0) * dataset.datatype().size;
            let mut bytes = vec![0; usize::try_from(size).unwrap()];
            dataset.read(&hyperchunk_format::select::Selection::All, &mut bytes)?;
            format!("{:?} {:?} {bytes:?}", dataset.datatype(), dataset.dataspace())
        }
    };
    Ok(format!("{content} {attributes:?} {:?}", object.comment()?))
}

/// Returns the names in the root group.
fn names(bytes: &[u8]) -> Vec<String> {
    let file = File::from_bytes(bytes.to_vec(), &OpenOptions::default()).unwrap();
    let links = file.root().unwrap().group().unwrap().links().unwrap();
    links.iter().map(|link| link.name.to_string()).collect()
}

/// File in a folder of its own.
struct Place(std::path::PathBuf);

impl Place {
    fn new(name: &str) -> Self {
        let folder = std::env::temp_dir().join(format!("hyperchunk-headers-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        Self(folder)
    }

    /// Edits a file of these bytes. Returns its bytes after that, and whether the edit was refused.
    fn edited(&self, bytes: &[u8], edit: impl FnOnce(&Writer) -> Result<()>) -> (Vec<u8>, Option<Error>) {
        let path = self.0.join("a.h5");
        std::fs::write(&path, bytes).unwrap();
        let options = CreateOptions { sync: super::super::Sync::Never, ..CreateOptions::default() };
        let writer = Writer::edit(&path, &options).unwrap();
        let done = edit(&writer).and_then(|()| writer.close());
        if done.is_err() {
            writer.discard().unwrap();
        }
        drop(writer);
        (std::fs::read(&path).unwrap(), done.err())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// Returns whether an error is the documented one about headers that cannot be edited.
fn is_documented(error: &Error) -> bool {
    error.kind() == ErrorKind::Unsupported && error.to_string().contains("hyperchunk pack")
}

#[test]
fn test_each_change_of_a_small_object_is_right_or_refused() {
    let place = Place::new("each");
    let mut refused = 0;
    for (kind, before) in files() {
        let told = read(&before, &kind);
        for name in names(&before) {
            for (change, apply) in CHANGES {
                let what = format!("{kind}: {change} of {name}");
                let edit = |file: &Writer| {
                    let id = file.object(name.as_bytes())?;
                    apply(file, id, name.as_bytes())
                };
                let (after, error) = place.edited(&before, edit);
                let mut found = read(&after, &what);
                if let Some(error) = error {
                    assert!(is_documented(&error), "{what}: {error}");
                    assert_eq!(found, told, "{what}");
                    refused += 1;
                    continue;
                }
                if change == "move" {
                    let moved = found.remove("/moved").unwrap();
                    assert!(found.insert(format!("/{name}"), moved).is_none(), "{what}");
                }
                for (path, described) in &told {
                    let is_changed = *path == format!("/{name}") || path.is_empty();
                    let is_plain = matches!(change, "move" | "second link" | "link in a group");
                    if !is_changed || is_plain {
                        assert_eq!(found.get(path), Some(described), "{what}: {path}");
                    }
                }
                // A second session finds what it needs.
                let again = |file: &Writer| match file.object(name.as_bytes()) {
                    Ok(id) => file.set_attribute(id, attribute("again", 5)),
                    Err(_) => Ok(()),
                };
                let (after, error) = place.edited(&after, again);
                assert!(error.as_ref().is_none_or(is_documented), "{what}, again: {error:?}");
                read(&after, &format!("{what}, again"));
            }
        }
    }
    println!("{refused} changes refused");
}

#[test]
fn test_new_objects_with_an_address_are_right() {
    let place = Place::new("new");
    for (kind, before) in files() {
        for with_flush in [false, true] {
            let edit = |file: &Writer| {
                let root = NodeId::ROOT;
                let mut made = Vec::new();
                for (name, datatype) in
                    [("new_i1", integer(1)), ("new_i4", integer(4)), ("new_compound", compound())]
                {
                    made.push(file.commit_datatype(root, name.as_bytes(), datatype)?);
                }
                made.push(file.create_group(root, b"new_group", false)?);
                let options = DatasetOptions::new(integer(1), Dataspace::Scalar);
                made.push(file.create_dataset(root, b"new_scalar", options)?.id());
                for id in made {
                    file.address(id)?;
                    if with_flush {
                        file.flush()?;
                        file.link(root, format!("link_{}", id.number()).as_bytes(), NewLink::Hard(id))?;
                    }
                }
                Ok(())
            };
            let (after, error) = place.edited(&before, edit);
            assert!(error.is_none(), "{kind}: {error:?}");
            let found = read(&after, &kind);
            assert_eq!(found["/new_i4"], format!("{:?} [] None", integer(4)), "{kind}");
            assert_eq!(
                found.len(),
                read(&before, &kind).len() + if with_flush { 10 } else { 5 },
                "{kind}, {with_flush}"
            );
        }
    }
}

#[test]
fn test_a_datatype_without_a_name_stays_while_it_is_used() {
    let sink = Arc::new(MemorySink::default());
    let file = Writer::create_in(Arc::<MemorySink>::clone(&sink), None, &CreateOptions::default()).unwrap();
    let root = NodeId::ROOT;
    for name in ["dataset", "attribute", "neither"] {
        let id = file.commit_datatype(root, name.as_bytes(), compound()).unwrap();
        let committed = Some(file.address(id).unwrap());
        match name {
            "dataset" => {
                let mut options = DatasetOptions::new(compound(), extent(&[3], false));
                options.committed = committed;
                file.create_dataset(root, b"user", options).unwrap();
            }
            "attribute" => {
                let used = Attribute { datatype: compound(), committed, ..attribute("a", 1) };
                file.set_attribute(root, used).unwrap();
            }
            _ => {}
        }
        file.unlink(root, name.as_bytes()).unwrap();
    }
    file.close().unwrap();
    let found = read(&sink.bytes(), "new");
    assert_eq!(found.keys().collect::<Vec<_>>(), ["", "/user"]);
    // An edit keeps them, until their last use goes.
    let place = Place::new("unlinked");
    let (after, error) = place.edited(&sink.bytes(), |file| {
        file.unlink(root, b"user")?;
        file.delete_attribute(root, b"a")
    });
    assert!(error.is_none(), "{error:?}");
    assert_eq!(read(&after, "edited").len(), 1);
}

#[test]
fn test_many_changes_in_one_session_are_right() {
    let place = Place::new("many");
    for (kind, before) in files() {
        let all = names(&before);
        let mut state = 7_u64;
        let mut next = |count: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            usize::try_from(state >> 33).unwrap() % count
        };
        let edit = |file: &Writer| {
            for _ in 0..200 {
                let (name, (change, apply)) = (&all[next(all.len())], CHANGES[next(CHANGES.len())]);
                let Ok(id) = file.object(name.as_bytes()) else { continue };
                if name == "group" && change == "link in a group" {
                    // A group that holds itself stays, with all in it, when no path leads to it any more.
                    continue;
                }
                if let Err(error) = apply(file, id, name.as_bytes()) {
                    let is_usual = matches!(error.kind(), ErrorKind::Exists | ErrorKind::NotFound);
                    assert!(is_usual || is_documented(&error), "{kind}: {change} of {name}: {error}");
                }
                if next(3) == 0 {
                    file.flush()?;
                }
            }
            Ok(())
        };
        let (after, error) = place.edited(&before, edit);
        assert!(error.is_none(), "{kind}: {error:?}");
        read(&after, &kind);
    }
}

#[test]
fn test_header_whose_place_is_promised_keeps_its_size() {
    let sink = Arc::new(MemorySink::default());
    let file = Writer::create_in(Arc::<MemorySink>::clone(&sink), None, &CreateOptions::default()).unwrap();
    let group = file.create_group(NodeId::ROOT, b"group", false).unwrap();
    file.address(group).unwrap();
    file.address(NodeId::ROOT).unwrap();
    file.track_root_order(false).unwrap();
    for error in [file.track_times(group).unwrap_err(), file.track_root_order(true).unwrap_err()] {
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
    }
    file.close().unwrap();
    read(&sink.bytes(), "promised");
}
