//! Remote reads: files over a network give the same contents as local ones, in few round trips.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests may fail")]
#![allow(missing_docs, unreachable_pub, reason = "a test")]

mod source;

use hyperchunk::io::{RemoteOptions, Source};
use hyperchunk::model::ObjectKind;
use hyperchunk::walk::{Next, VisitedItem};
use hyperchunk::{Dataset, File, OpenOptions, Read, digest, read_many, select::Selection};
use source::Requests;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const LARGEST: u64 = 64 << 20;

/// Lists the files to try: the fuzz targets' corpus, and the shared corpus where there is one.
fn files() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files: Vec<PathBuf> = [root.join("fuzz/corpus"), root.join("../shared/corpus/files")]
        .iter()
        .filter_map(|folder| std::fs::read_dir(folder).ok())
        .flat_map(|entries| entries.filter_map(|entry| entry.ok().map(|entry| entry.path())))
        .filter(|path| std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() < 8 << 20))
        .collect();
    files.sort();
    assert!(files.len() > 20, "the files are missing");
    files
}

fn small_blocks(change: impl FnOnce(&mut RemoteOptions)) -> RemoteOptions {
    let mut options = RemoteOptions::default();
    options.block = 512;
    change(&mut options);
    options
}

fn remote(path: &Path, options: RemoteOptions) -> (Arc<Requests>, hyperchunk::Result<File>) {
    let bytes = std::fs::read(path).unwrap();
    let mut requests = Requests::new(bytes, &format!("{path:?} {options:?}"), options);
    let beside = std::fs::read_dir(path.parent().unwrap()).unwrap();
    requests.siblings = beside
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let small = entry.metadata().is_ok_and(|found| found.is_file() && found.len() < 1 << 20);
            Some((
                entry.file_name().into_string().ok()?,
                std::fs::read(entry.path()).ok().filter(|_| small)?.into(),
            ))
        })
        .collect();
    let source = Arc::new(requests);
    let file = File::from_source(Arc::clone(&source) as Arc<dyn Source>, None, &OpenOptions::default());
    (source, file)
}

/// Returns the digest of a dataset's contents, or the kind of its error.
fn content(dataset: &Dataset) -> String {
    match digest::dataset(dataset, LARGEST) {
        Ok(found) => format!("{} {}", found.form, found.digest),
        Err(error) => format!("{:?}", error.kind()),
    }
}

/// Returns all contents of a file, by path.
fn contents(file: &File) -> BTreeMap<Vec<u8>, String> {
    let mut all = BTreeMap::new();
    let Ok(root) = file.root() else { return all };
    file.walk(&root, b"/", &mut |visit| {
        let text = match &visit.found {
            VisitedItem::Object(object) => {
                let attributes = object.each_attribute().map(|all| {
                    all.into_iter()
                        .map(|(name, found)| {
                            let found = found.and_then(|attribute| digest::attribute(file, &attribute));
                            format!("{name} {:?}", found.map_err(|error| error.kind()))
                        })
                        .collect::<Vec<_>>()
                });
                let data = match object.kind() {
                    ObjectKind::Dataset => object.dataset().map(|dataset| content(&dataset)),
                    _ => Ok(String::new()),
                };
                format!("{data:?} {:?}", attributes.map_err(|error| error.kind()))
            }
            VisitedItem::Broken(error) => format!("{:?}", error.kind()),
            other => format!("{other:?}"),
        };
        all.insert(visit.path.to_vec(), text);
        Ok(Next::Enter)
    })
    .unwrap();
    all
}

#[test]
fn the_same_as_local_files() {
    let mut compared = 0;
    for path in files() {
        let local = File::open(&path, &OpenOptions::default());
        let (_, over_network) = remote(&path, small_blocks(|_| {}));
        match (local, over_network) {
            (Ok(local), Ok(over_network)) => {
                // External names resolve differently: beside the remote file, never to local files.
                let (here, there) = (contents(&local), contents(&over_network));
                for (name, value) in here {
                    assert_eq!(
                        there.get(&name),
                        Some(&value),
                        "{} {}",
                        path.display(),
                        String::from_utf8_lossy(&name)
                    );
                    compared += 1;
                }
            }
            (Err(here), Err(there)) => assert_eq!(here.kind(), there.kind(), "{}", path.display()),
            (here, there) => panic!("{}: {:?} {:?}", path.display(), here.err(), there.err()),
        }
    }
    assert!(compared > 50, "{compared}");
}

#[test]
fn all_at_once() {
    for path in files() {
        let (source, file) = remote(&path, small_blocks(|options| options.first_read = 0));
        let Ok(file) = file else { continue };
        let Ok(root) = file.root() else { continue };
        file.prefetch(&root, true, None).unwrap();
        let before = source.counters.now();
        let mut datasets = Vec::new();
        let walked = file.walk(&root, b"/", &mut |visit| {
            if let VisitedItem::Object(object) = visit.found {
                drop(object.each_attribute());
                datasets.extend(object.dataset().ok());
            }
            Ok(Next::Enter)
        });
        walked.unwrap();
        assert_eq!(source.counters.now()[0], before[0], "{}: all was fetched before", path.display());
        datasets.retain(|dataset| {
            let size = dataset.elements().ok().and_then(|count| count.checked_mul(dataset.datatype().size));
            size.is_some_and(|size| size < 1 << 20) && dataset.mappings().is_empty()
        });
        let expected: Vec<_> = datasets.iter().map(|dataset| (dataset, whole(dataset))).collect();
        let readable: Vec<_> =
            expected.into_iter().filter_map(|(dataset, bytes)| Some((dataset, bytes.ok()?))).collect();
        let mut found: Vec<Vec<u8>> = readable.iter().map(|(_, bytes)| vec![7; bytes.len()]).collect();
        let reads = readable.iter().zip(&mut found).map(|((dataset, _), out)| Read {
            dataset,
            selection: &Selection::All,
            conversion: None,
            out,
        });
        read_many(reads.collect()).unwrap();
        for ((dataset, bytes), found) in readable.iter().zip(&found) {
            assert!(bytes == found, "{} {:?}", path.display(), dataset.object().path());
        }
    }
}

fn whole(dataset: &Dataset) -> hyperchunk::Result<Vec<u8>> {
    let size = dataset.elements()? * dataset.datatype().size;
    let mut bytes = vec![0; usize::try_from(size).unwrap()];
    dataset.read(&Selection::All, &mut bytes)?;
    Ok(bytes)
}

#[test]
fn a_failed_request_is_an_error() {
    let mut failures = 0;
    for path in files().into_iter().take(60) {
        let (source, file) =
            remote(&path, small_blocks(|options| options.timeout = std::time::Duration::from_secs(1)));
        let Ok(file) = file else { continue };
        let whole_file = contents(&file);
        for allowed in [0, 1, 3, 10] {
            // The process caches fetched blocks, so each attempt uses another version of the file.
            let (again, file) = remote(&path, small_blocks(|options| options.retries = 100 + allowed));
            let Ok(file) = file else { continue };
            again.left.store(i64::from(allowed), Ordering::Relaxed);
            for (name, value) in contents(&file) {
                assert!(
                    whole_file.get(&name).is_none_or(|whole| *whole == value) || value.contains("Io"),
                    "{} {}: {value}",
                    path.display(),
                    String::from_utf8_lossy(&name)
                );
                failures += u32::from(value.contains("Io"));
            }
        }
        assert!(source.counters.now()[0] > 0);
    }
    assert!(failures > 20, "{failures}");
}
