//! Round trips of a file with all kinds of objects through Arrow, and damaged Arrow files.

use super::*;
use crate::types::boolean;
use arrow_array::{ArrayRef, Int32Array, LargeStringArray, RecordBatch, StringArray};
use arrow_schema::{DataType, Field, Schema};
use hyperchunk::digest;
use hyperchunk::model::{
    Attribute, ByteOrder, CharacterSet, Class, Dataspace, Datatype, Member, Name, ReferenceKind,
    StringPadding,
};
use hyperchunk::select::Selection;
use hyperchunk::write::{CreateOptions, DatasetOptions, NewLayout, NewLink, NodeId, Writer};
use hyperchunk::{File, OpenOptions};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A folder that is removed on drop.
struct Temporary(PathBuf);

impl Temporary {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("hyperchunk-arrow-{name}-{}", std::process::id()));
        drop(std::fs::remove_dir_all(&path));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

fn simple(dims: &[u64]) -> Dataspace {
    Dataspace::Simple { dims: dims.to_vec(), max: dims.iter().copied().map(Some).collect() }
}

fn text() -> Datatype {
    let class = Class::VlenString { padding: StringPadding::NullTerminated, charset: CharacterSet::Utf8 };
    Datatype { size: 16, class }
}

/// Writes a file with an object of each kind.
fn source(path: &Path) {
    let mut options = CreateOptions::default();
    options.journal = false;
    let file = Writer::create(path, &options).unwrap();
    let group = file.create_group(NodeId::ROOT, b"group", true).unwrap();
    let make = |name: &str, datatype: Datatype, dims: &[u64], layout: NewLayout, data: &[u8]| {
        let options = DatasetOptions::new(datatype, simple(dims)).with_layout(layout);
        let dataset = file.create_dataset(group, name.as_bytes(), options).unwrap();
        dataset.write(&Selection::All, data).unwrap();
        dataset.id()
    };
    let numbers: Vec<u8> = (0..120_u32).flat_map(|number| number.to_be_bytes()).collect();
    let big = Datatype::integer(4, false, ByteOrder::Big);
    let scale = make("big", big.clone(), &[4, 5, 6], NewLayout::Chunked(vec![2, 5, 2]), &numbers);
    make("bool", boolean(), &[3], NewLayout::Contiguous, &[1, 0, 1]);
    let member = |name: &str, offset, datatype| Member { name: Name::from(name), offset, datatype };
    let class = Class::Compound {
        members: vec![
            member("x", 8, Datatype::ieee(8, ByteOrder::Little)),
            member("n", 0, Datatype::integer(2, true, ByteOrder::Little)),
        ],
    };
    let rows: Vec<u8> = (0..3_i16)
        .flat_map(|row| [&row.to_le_bytes()[..], &[0; 6], &f64::from(row).to_le_bytes()].concat())
        .collect();
    make("rows", Datatype { size: 16, class }, &[3], NewLayout::Compact, &rows);
    let words: Vec<u8> = ["a", "", "long"]
        .iter()
        .flat_map(|word| file.store_sequence(word.len(), word.as_bytes()).unwrap())
        .collect();
    make("words", text(), &[3], NewLayout::Contiguous, &words);
    let sequence = Datatype { size: 16, class: Class::Vlen { base: Box::new(big.clone()) } };
    let stored = file.store_sequence(2, &[0, 0, 0, 1, 0, 0, 0, 2]).unwrap();
    make("sequences", sequence, &[1], NewLayout::Contiguous, &stored);
    let reference = Datatype { size: 8, class: Class::Reference(ReferenceKind::Object1) };
    let address = file.address(scale).unwrap().to_le_bytes();
    make("references", reference.clone(), &[2], NewLayout::Contiguous, &[address, [0; 8]].concat());
    let padded = Class::String { padding: StringPadding::SpacePadded, charset: CharacterSet::Ascii };
    make("padded", Datatype { size: 3, class: padded }, &[2], NewLayout::Contiguous, b"a  bcd");
    file.link(NodeId::ROOT, b"soft", NewLink::Soft(Name::from("/group/big"))).unwrap();
    file.link(group, b"again", NewLink::Hard(scale)).unwrap();
    let named = file.commit_datatype(group, b"type", big.clone()).unwrap();
    let attribute = |name: &str, datatype: Datatype, dataspace: Dataspace, data: Vec<u8>| Attribute {
        name: Name::from(name),
        charset: CharacterSet::Ascii,
        datatype,
        committed: None,
        dataspace,
        data,
        creation_order: None,
    };
    let set = |object, attribute| file.set_attribute(object, attribute).unwrap();
    set(group, attribute("to", reference, Dataspace::Scalar, address.to_vec()));
    set(
        scale,
        attribute(
            "unit",
            text(),
            Dataspace::Scalar,
            file.store_attribute_sequence(1, b"m").unwrap().to_vec(),
        ),
    );
    set(scale, attribute("none", big.clone(), Dataspace::Null, Vec::new()));
    set(scale, attribute("grid", big, simple(&[2, 1]), vec![1; 8]));
    assert_ne!(named, group);
    file.close().unwrap();
}

fn open(path: &Path) -> File {
    File::open(path, &OpenOptions::default()).unwrap()
}

/// Returns digests of all values, by path; references as the paths of their targets.
fn digests(path: &Path) -> Vec<String> {
    let file = open(path);
    let mut found = Vec::new();
    file.walk(&file.root().unwrap(), b"/", &mut |visit| {
        use hyperchunk::walk::{Next, VisitedItem};
        let path = String::from_utf8_lossy(visit.path).into_owned();
        if let VisitedItem::Object(object) = visit.found {
            for attribute in object.attributes().unwrap() {
                let digest = digest::attribute(&file, &attribute).unwrap().digest;
                let digest = if attribute.datatype.has_reference() { "reference".into() } else { digest };
                found.push(format!("{path}@{} {:?} {digest}", attribute.name, attribute.dataspace));
            }
            if let Ok(dataset) = object.dataset() {
                let digest = digest::dataset(&dataset, u64::MAX).unwrap().digest;
                let digest = if dataset.datatype().has_reference() { "reference".into() } else { digest };
                let chunks = dataset.chunked().map(|chunked| chunked.dims.clone());
                found.push(format!(
                    "{path} {:?} {:?} {chunks:?} {digest}",
                    dataset.datatype(),
                    dataset.dataspace()
                ));
            }
        } else {
            found.push(format!("{path} {:?}", visit.link.map(|link| &link.name)));
        }
        Ok(Next::Enter)
    })
    .unwrap();
    found
}

#[test]
fn a_file_of_everything() {
    let folder = Temporary::new("everything");
    let (old, new, arrow) = (folder.at("old.h5"), folder.at("new.h5"), folder.at("arrow"));
    source(&old);
    let file = open(&old);
    let root = file.root().unwrap().named("/");
    let export = Export::new(&root, ExportOptions::default()).unwrap();
    let exported = export.write(&arrow, Format::File, &|_| ()).unwrap();
    assert_eq!((exported.datasets, exported.groups, exported.datatypes), (7, 2, 1));
    assert!(arrow.join("group/rows.arrow").is_file() && exported.notes.is_empty());
    // Existing files are not replaced.
    assert!(export.write(&arrow, Format::File, &|_| ()).is_err());
    let imported = import(&arrow, &new, &ImportOptions::default(), &|_| ()).unwrap();
    assert_eq!((imported.datasets, imported.attributes, imported.notes), (7, 4, vec![]));
    assert_eq!(digests(&old), digests(&new));
    let back = open(&new);
    let references =
        back.root().unwrap().group().unwrap().get(b"/group/references").unwrap().dataset().unwrap();
    let mut stored = [0; 16];
    references.read(&Selection::All, &mut stored).unwrap();
    let reference = back.reference(ReferenceKind::Object1, &stored[..8]).unwrap().unwrap();
    let path = back.paths().unwrap().find(reference.address).unwrap();
    assert!(path == b"/group/big" || path == b"/group/again", "{path:?}");
    assert_eq!(back.reference(ReferenceKind::Object1, &stored[8..]).unwrap(), None);
}

#[test]
fn a_table_of_other_origin() {
    let folder = Temporary::new("table");
    let schema = Arc::new(Schema::new(vec![
        Field::new("n", DataType::Int32, true),
        Field::new("s", DataType::Utf8, true),
        Field::new("l", DataType::LargeUtf8, false),
    ]));
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int32Array::from(vec![Some(1), None, Some(3)])),
        Arc::new(StringArray::from(vec![Some("a"), Some(""), None])),
        Arc::new(LargeStringArray::from(vec!["x", "y", "z"])),
    ];
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns).unwrap();
    for (name, format) in [("t.arrow", Format::File), ("t.arrows", Format::Stream)] {
        let (path, to) = (folder.at(name), folder.at("t.h5"));
        let mut sink = sink::Sink::create(&path, format, &schema, true).unwrap();
        sink.write(&batch).unwrap();
        sink.write(&batch).unwrap();
        sink.finish().unwrap();
        let options = ImportOptions { replace: true, ..ImportOptions::default() };
        let imported = import(&path, &to, &options, &|_| ()).unwrap();
        assert_eq!((imported.datasets, imported.rows), (4, 6));
        let file = open(&to);
        let group = file.root().unwrap().group().unwrap();
        let read = |name: &str, size: usize| {
            let dataset = group.get(format!("/t/{name}").as_bytes()).unwrap().dataset().unwrap();
            let mut bytes = vec![0; size];
            dataset.read(&Selection::All, &mut bytes).unwrap();
            bytes
        };
        assert_eq!(read("n__valid", 6), [1, 0, 1, 1, 0, 1]);
        assert!(
            imported.notes.iter().any(|note| note.contains("dataset n__valid, which marks the valid rows"))
        );
        assert_eq!(read("n", 24)[..12], [1, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0]);
        let words = group.get(b"/t/s").unwrap().dataset().unwrap();
        let table = DatasetTable::new(&words, &crate::ConversionOptions::default()).unwrap();
        let batch = table.batch(0..6).unwrap();
        let expected = LargeStringArray::from(vec![Some("a"), Some(""), None, Some("a"), Some(""), None]);
        assert_eq!(&**batch.column(0), &expected as &dyn arrow_array::Array);
    }
}

/// A deterministic generator of numbers.
fn numbers(mut state: u64) -> impl FnMut() -> u64 {
    move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    }
}

#[test]
fn damaged_files_are_errors() {
    let folder = Temporary::new("damaged");
    let (old, arrow, new) = (folder.at("old.h5"), folder.at("arrow"), folder.at("new.h5"));
    source(&old);
    let root = open(&old).root().unwrap().named("/");
    Export::new(&root, ExportOptions::default()).unwrap().write(&arrow, Format::File, &|_| ()).unwrap();
    let options = ImportOptions { replace: true, ..ImportOptions::default() };
    let mut next = numbers(7);
    let mut refused = 0;
    for name in ["hyperchunk.json", "group/rows.arrow", "group/words.arrow", "group/references.arrow"] {
        let path = arrow.join(name);
        let whole = std::fs::read(&path).unwrap();
        for round in 0..60 {
            let mut bytes = whole.clone();
            if round % 3 == 0 {
                bytes.truncate(usize::try_from(next()).unwrap() % whole.len());
            } else {
                for _ in 0..=round % 5 {
                    let at = usize::try_from(next()).unwrap() % bytes.len();
                    bytes[at] = if round % 2 == 0 { 0xFF } else { next().to_le_bytes()[0] };
                }
            }
            std::fs::write(&path, &bytes).unwrap();
            // Some bytes have no meaning, some are values; all others must cause an error soon.
            refused += usize::from(import(&arrow, &new, &options, &|_| ()).is_err());
        }
        std::fs::write(&path, &whole).unwrap();
    }
    assert!(refused > 80, "{refused}");
    import(&arrow, &new, &options, &|_| ()).unwrap();
}

#[test]
fn paths_out_of_the_folder_are_refused() {
    let folder = Temporary::new("paths");
    let (old, arrow, new) = (folder.at("old.h5"), folder.at("arrow"), folder.at("new.h5"));
    source(&old);
    let root = open(&old).root().unwrap().named("/");
    Export::new(&root, ExportOptions::default()).unwrap().write(&arrow, Format::File, &|_| ()).unwrap();
    let manifest = arrow.join("hyperchunk.json");
    let whole = std::fs::read_to_string(&manifest).unwrap();
    for other in ["../arrow/group/rows.arrow", "/etc/passwd", ""] {
        std::fs::write(&manifest, whole.replace("group/rows.arrow", other)).unwrap();
        let error = import(&arrow, &new, &ImportOptions::default(), &|_| ()).unwrap_err();
        assert!(error.to_string().contains("outside"), "{error}");
        assert!(!new.exists());
    }
}
