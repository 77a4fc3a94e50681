use super::*;
use crate::walk::{Next, VisitedItem};
use crate::{File, Object, OpenOptions};
use hyperchunk_format::model::ObjectKind;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

const FIXTURES: [(&str, &[u8]); 6] = [
    ("old", include_bytes!("../../../hyperchunk-format/fixtures/old.hdf5")),
    ("new", include_bytes!("../../../hyperchunk-format/fixtures/new.hdf5")),
    ("shared", include_bytes!("../../../hyperchunk-format/fixtures/shared.hdf5")),
    ("cached", include_bytes!("../../../hyperchunk-format/fixtures/cached.hdf5")),
    ("old chunks", include_bytes!("../../fixtures/chunks_old.hdf5")),
    ("new chunks", include_bytes!("../../fixtures/chunks_new.hdf5")),
];

/// A file in memory that counts its reads.
#[derive(Debug)]
struct CountingSource(Vec<u8>, AtomicU64);

impl CountingSource {
    fn new(bytes: &[u8]) -> Arc<Self> {
        Arc::new(Self(bytes.to_vec(), AtomicU64::new(0)))
    }

    fn reads(&self) -> u64 {
        self.1.load(Ordering::Relaxed)
    }
}

impl Source for CountingSource {
    fn size(&self) -> u64 {
        self.0.len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        self.1.fetch_add(1, Ordering::Relaxed);
        io::Memory::new(&*self.0).read_at(offset, buffer)
    }

    fn version(&self) -> Option<String> {
        Some("etag:\"1\"".into())
    }
}

fn open(source: &Arc<CountingSource>, index: IndexOption) -> Result<File> {
    let options = OpenOptions { index, external: crate::ExternalPolicy::Never, ..OpenOptions::default() };
    File::from_source(Arc::clone(source) as Arc<dyn Source>, None, &options)
}

fn given(bytes: Vec<u8>) -> IndexOption {
    IndexOption::Given(Arc::new(Index::open(bytes, "test.hcindex", &Limits::default()).unwrap()))
}

/// Describes everything but raw data, as text.
fn describe(file: &File) -> BTreeMap<String, String> {
    let mut all = BTreeMap::new();
    let root = file.root().unwrap();
    file.walk(&root, b"/", &mut |visit| {
        let text = match visit.found {
            VisitedItem::Object(object) => describe_object(object),
            other => format!("{other:?}"),
        };
        // A group whose links cannot be read is visited twice.
        all.entry(String::from_utf8_lossy(visit.path).into_owned())
            .or_insert_with(String::new)
            .push_str(&text);
        Ok(Next::Enter)
    })
    .unwrap();
    all
}

fn describe_object(object: &Object) -> String {
    let mut text = format!("{:?} {:?}", object.kind(), object.each_attribute());
    let mut sequences = object.file().sequences();
    for attribute in object.attributes().unwrap_or_default() {
        if let hyperchunk_format::model::Class::VlenString { .. } = attribute.datatype.class {
            for element in attribute.data.chunks_exact(usize::try_from(attribute.datatype.size).unwrap()) {
                text.push_str(&format!("{:?}", sequences.string(element)));
            }
        }
        text.push_str(&format!("{:?}", object.attribute(attribute.name.as_bytes())));
    }
    text.push_str(&format!("{:?} {:?}", object.attribute(b"not there"), object.attribute_count()));
    match object.kind() {
        ObjectKind::Dataset => match object.dataset() {
            Ok(dataset) => {
                text.push_str(&format!("{:?} {:?}", dataset.0.header, dataset.chunks()));
                text.push_str(&format!("{:?}", dataset.mappings()));
            }
            Err(error) => text.push_str(&error.to_string()),
        },
        ObjectKind::Group => {
            let group = object.group().unwrap();
            text.push_str(&format!("{:?} {:?}", group.len(), group.link(b"not there")));
            for link in group.links().unwrap_or_default() {
                text.push_str(&format!("{:?}", group.link(link.name.as_bytes())));
            }
        }
        ObjectKind::Datatype => text.push_str(&format!("{:?}", object.datatype())),
    }
    text
}

/// Checks that a file with its index gives the same, and that no structure is read. Returns the sizes:
/// index, chunks.
fn check(name: &str, bytes: &[u8]) -> (usize, u64) {
    let source = CountingSource::new(bytes);
    let file = open(&source, IndexOption::Never).unwrap();
    let expected = describe(&file);
    let built = Index::build(&file, &Tables::new()).unwrap();
    let before = source.reads();
    let indexed = open(&source, given(built.bytes.clone())).unwrap();
    let found = describe(&indexed);
    for (path, text) in &expected {
        assert_eq!(found.get(path), Some(text), "{name}: {path}");
    }
    assert_eq!(found.len(), expected.len(), "{name}");
    if built.errors.is_empty() {
        assert_eq!(source.reads(), before, "{name}: something was read");
    }
    (built.bytes.len(), built.chunks)
}

#[test]
fn structure_comes_from_the_index() {
    for (name, bytes) in FIXTURES {
        let (size, chunks) = check(name, bytes);
        assert!(size < bytes.len() / 3, "{name}: {size} of {} bytes", bytes.len());
        assert_eq!(chunks > 40, name.ends_with("chunks"), "{name}: {chunks} chunks");
    }
}

/// Files of the corpus beside the repository, if it is there.
#[test]
fn corpus() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus");
    let manifest = std::fs::read_to_string(folder.join("manifest.tsv")).unwrap_or_default();
    let mut checked = 0;
    for line in manifest.lines().skip(1) {
        let fields: Vec<&str> = line.split('\t').collect();
        if fields[6] != "hdf5" || fields[10] != "ok" {
            continue;
        }
        let bytes = std::fs::read(folder.join("files").join(fields[0])).unwrap();
        if bytes.len() > 200_000 {
            continue;
        }
        if open(&CountingSource::new(&bytes), IndexOption::Never).is_ok_and(|file| file.root().is_ok()) {
            check(fields[0], &bytes);
            checked += 1;
        }
    }
    println!("{checked} files");
}

#[test]
fn other_files_are_refused() {
    let source = CountingSource::new(FIXTURES[0].1);
    let built = Index::build(&open(&source, IndexOption::Never).unwrap(), &Tables::new()).unwrap();
    let mut other = FIXTURES[0].1.to_vec();
    other.push(0);
    let error = open(&CountingSource::new(&other), given(built.bytes.clone())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Changed);
    assert!(error.to_string().contains("test.hcindex"), "{error}");
    let memory = File::from_source(
        Arc::new(io::Memory::new(FIXTURES[0].1)),
        None,
        &OpenOptions { index: given(built.bytes), ..OpenOptions::default() },
    );
    assert_eq!(memory.unwrap_err().kind(), ErrorKind::Changed);
}

/// Damaged indexes are errors, or change nothing that is checked elsewhere: no panic, no endless loop.
#[test]
fn damage() {
    for (name, bytes) in FIXTURES {
        let source = CountingSource::new(bytes);
        let file = open(&source, IndexOption::Never).unwrap();
        let expected = describe(&file);
        let built = Index::build(&file, &Tables::new()).unwrap().bytes;
        for length in (0..built.len()).step_by(7) {
            let error = Index::open(built[..length].to_vec(), "cut", &Limits::default()).unwrap_err();
            assert!(error.to_string().contains("cut"), "{error}");
        }
        for at in 0..built.len() {
            for change in [1, 0x80] {
                let mut damaged = built.clone();
                damaged[at] ^= change;
                let Ok(index) = Index::open(damaged, "damaged", &Limits::default()) else { continue };
                // Sections have checksums of their own.
                let option = IndexOption::Given(Arc::new(index));
                if let Ok(file) = open(&source, option)
                    && file.root().is_ok()
                {
                    for (path, text) in describe(&file) {
                        let same = expected.get(&path) == Some(&text);
                        assert!(
                            same || text.contains("damaged") || text.contains("unpacked"),
                            "{name} {at} {path}"
                        );
                    }
                }
                if at > 200 && at % 5 != 0 {
                    break;
                }
            }
        }
    }
}

/// Indexes with a correct digest and wrong entries.
#[test]
fn hostile_directories() {
    let refuse = |directory: &[u8], sections: &[u8], message: &str| {
        let mut bytes = b"\x89HCI\r\n\x1a\n\x01\0\0\0".to_vec();
        bytes.extend_from_slice(&u32::try_from(directory.len()).unwrap().to_le_bytes());
        bytes.extend_from_slice(&((24 + 32 + directory.len() + sections.len()) as u64).to_le_bytes());
        let digest = Sha256::new().chain_update(&bytes).chain_update(directory).finalize();
        bytes.extend_from_slice(&digest);
        bytes.extend_from_slice(directory);
        bytes.extend_from_slice(sections);
        let index = Index::open(bytes, "hostile", &Limits::default());
        let error = index.and_then(|index| {
            index.bytes(0, 1)?;
            index.chunks(1, &[4], 100)
        });
        let error = error.unwrap_err().to_string();
        assert!(error.contains(message), "{message}: {error}");
    };
    refuse(&[], b"", "needed");
    refuse(&[100, 0, 0, 0, 1], b"", "too many");
    refuse(&[100, 0, 0, 0], b"x", "sections end at");
    refuse(&[100, 0xff, 0xff, 0x7f], b"", "version has too many");
    refuse(&[100, 1, 0xff, 0, 0], b"", "not UTF-8");
    refuse(&[100, 0, 0xff, 0xff, 0x7f, 0], b"", "number of sections");
    refuse(&[100, 0, 1, 0, 101, 0, 0, 0], b"", "beyond the end of the file");
    refuse(&[100, 0, 1, 0, 50, 9, 9, 0], b"", "beyond the end");
    refuse(&[100, 0, 1, 0, 50, 1, 9, 0], b"x", "unpacked");
    refuse(&[100, 0, 1, 0, 50, 0, 9, 0], b"", "unpacked");
    refuse(&[100, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0], b"", "not in order");
    refuse(&[100, 0, 0, 1, 1, 101, 0, 0], b"", "101 chunks in a file of 100");
    refuse(&[100, 0, 0, 1, 1, 4, 0, 0xff, 0xff, 0x7f], b"", "more than");
    let section = |content: &[u8]| {
        let packed = zstd::bulk::compress(content, 1).unwrap();
        let (packed_length, length) =
            (u8::try_from(packed.len()).unwrap(), u8::try_from(content.len()).unwrap());
        ([packed_length, length], packed)
    };
    for (content, message) in [
        (&[200_u8, 1][..], "number of ranges"),
        (&[1, 0, 60], "outside its section"),
        (&[1, 0, 4, 0], "1 bytes for ranges of 4"),
        (&[2, 0, 2, 0, 3, 1, 1, 1, 1], "4 bytes for ranges of 5"),
    ] {
        let ([packed, length], bytes) = section(content);
        refuse(&[100, 0, 1, 0, 50, packed, length, 0], &bytes, message);
        let ([packed, length], bytes) = section(b"\x01\x04\x08");
        refuse(&[100, 0, 0, 1, 1, 0, packed, length], &bytes, "hostile");
    }
}

#[test]
fn beside_a_file() {
    let folder = std::env::temp_dir().join(format!("hyperchunk-index-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let path = folder.join("a.h5");
    std::fs::write(&path, FIXTURES[1].1).unwrap();
    let options = OpenOptions::default();
    let file = File::open(&path, &options).unwrap();
    assert_eq!(*file.index_state(), IndexState::None);
    let built = Index::build(&file, &Tables::new()).unwrap();
    let beside = folder.join("a.h5.hcindex");
    std::fs::write(&beside, &built.bytes).unwrap();
    let file = File::open(&path, &options).unwrap();
    assert_eq!(*file.index_state(), IndexState::Used(beside.display().to_string()));
    // After the file is rewritten, the index is of another version.
    let mut changed = FIXTURES[1].1.to_vec();
    changed.push(0);
    std::fs::write(&path, &changed).unwrap();
    let file = File::open(&path, &options).unwrap();
    assert!(matches!(file.index_state(), IndexState::Ignored(why) if why.contains("make it again")));
    let named = OpenOptions { index: IndexOption::Path(beside), ..options };
    assert_eq!(File::open(&path, &named).unwrap_err().kind(), ErrorKind::Changed);
    // Windows deletes no open file.
    assert!(std::fs::remove_dir_all(&folder).is_ok() || cfg!(windows));
}
