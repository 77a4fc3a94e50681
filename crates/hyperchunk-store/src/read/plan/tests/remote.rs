//! Stores at a source whose reads are requests.

use super::*;
use hyperchunk::io::{Counters, Land, Remote, RemoteOptions, RequestCost, Source};
use hyperchunk::{Read, read_many};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::Ordering;

/// Files that are read by requests.
#[derive(Debug)]
struct TestRemote {
    files: Arc<HashMap<String, Vec<u8>>>,
    name: String,
    options: RemoteOptions,
    counters: Arc<Counters>,
}

impl TestRemote {
    fn bytes(&self) -> &[u8] {
        &self.files[&self.name]
    }
}

impl Source for TestRemote {
    fn size(&self) -> u64 {
        self.bytes().len() as u64
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> hyperchunk::Result<()> {
        self.counters.requests.fetch_add(1, Ordering::Relaxed);
        let start = usize::try_from(offset).unwrap();
        buffer.copy_from_slice(&self.bytes()[start..start + buffer.len()]);
        Ok(())
    }

    fn remote(&self) -> Option<&dyn Remote> {
        Some(self)
    }
}

impl Remote for TestRemote {
    fn fetch(&self, ranges: &[Range<u64>], land: &mut Land<'_>) -> hyperchunk::Result<()> {
        self.counters.requests.fetch_add(ranges.len() as u64, Ordering::Relaxed);
        // In reverse, since the order must not matter.
        for (number, range) in ranges.iter().enumerate().rev() {
            let range = usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap();
            land(number, bytes::Bytes::copy_from_slice(&self.bytes()[range]))?;
        }
        Ok(())
    }

    fn identity(&self) -> &str {
        &self.name
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn options(&self) -> &RemoteOptions {
        &self.options
    }

    fn cost(&self) -> RequestCost {
        RequestCost::default()
    }

    fn sibling(&self, name: &str) -> Option<hyperchunk::Result<Arc<dyn Source>>> {
        let folder = self.name.rsplit_once('/').map_or("", |(folder, _)| folder);
        let name = format!("{folder}/{name}");
        if !self.files.contains_key(&name) {
            return Some(Err(hyperchunk::Error::new(ErrorKind::NotFound, "no such file")));
        }
        let (files, counters) = (Arc::clone(&self.files), Arc::clone(&self.counters));
        Some(Ok(Arc::new(Self { files, name, options: self.options.clone(), counters })))
    }
}

/// Returns the files of a store as in an object store.
fn upload(path: &Path, change: impl Fn(&str, &mut Vec<u8>)) -> TestRemote {
    static COUNT: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let count = COUNT.fetch_add(1, Ordering::Relaxed);
    let base = format!("s3://bucket-{count}/{}", path.file_name().unwrap().display());
    let mut files = HashMap::from([(base.clone(), std::fs::read(path).unwrap())]);
    for entry in std::fs::read_dir(store_folder(path)).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        let mut bytes = std::fs::read(entry.path()).unwrap();
        change(&name, &mut bytes);
        files.insert(format!("{base}.d/{name}"), bytes);
    }
    let (options, counters) = (RemoteOptions::default(), Arc::default());
    TestRemote { files: Arc::new(files), name: base, options, counters }
}

fn open(fake: TestRemote) -> (Dataset, Arc<Counters>) {
    let (name, counters) = (fake.name.clone(), Arc::clone(&fake.counters));
    let file = File::from_source(Arc::new(fake), Some(name.into()), &OpenOptions::default()).unwrap();
    let dataset = file.root().unwrap().group().unwrap().get(b"a").unwrap().named("/a").dataset().unwrap();
    (dataset, counters)
}

#[test]
fn few_requests_bring_what_is_read() {
    let folder = Folder::new();
    let (path, log, model) = small_and_large(&folder);
    let (dataset, counters) = open(upload(&path, |_, _| ()));
    let before = counters.now()[0];
    assert_eq!(all(&dataset).unwrap(), model);
    // Pieces that cover others are fetched after them.
    let requests = counters.now()[0] - before;
    assert!(requests < 16, "{requests}");
    let column = Selection::Axes(vec![Axis::range(0..800), Axis::range(500..501)]);
    let points = Selection::Points { rank: 2, coordinates: (0..400).map(|at| at * 7919 % 800).collect() };
    for selection in [&column, &points] {
        let elements = elements(selection, &[800, 1000]);
        let expected: Vec<u8> = elements.iter().map(|at| model[(at[0] * 1000 + at[1]) as usize]).collect();
        let (mut one, mut other) = (vec![0; expected.len()], vec![0; expected.len()]);
        let reads =
            [&mut one, &mut other].map(|out| Read { dataset: &dataset, selection, conversion: None, out });
        read_many(reads.into()).unwrap();
        assert!(one == expected && other == expected);
    }
    // Damage is detected there, too.
    let name = log.file_name().unwrap().to_str().unwrap().to_owned();
    let manifest = Manifest::epoch(&path, 1).unwrap();
    let first = manifest.datasets[0].parts[0].written.pieces.iter().next().unwrap().offset;
    let damaged = upload(&path, |file, bytes| {
        if file == name {
            bytes[usize::try_from(first).unwrap() + 1000] ^= 1;
        }
    });
    let text = all(&open(damaged).0).unwrap_err().to_string();
    assert!(text.contains("checksum") && text.contains(&name), "{text}");
}

#[test]
fn stores_are_read_alike_here_and_there() {
    let mut random = Random(9);
    for seed in 0..8 {
        let folder = Folder::new();
        let path = folder.0.join("a.h5");
        let definition = random_definition(&mut random);
        for _ in 0..2 {
            let writer = LogWriter::create(&path, &options()).unwrap();
            let number = writer.define(&definition).unwrap();
            random_steps(&writer, number, &definition, definition.chunk.is_some(), &mut random);
            writer.close().unwrap();
            commit(&path, &never()).unwrap();
        }
        let here = dataset(&path, "a");
        let (there, _) = open(upload(&path, |_, _| ()));
        for selection in choices(&mut random, here.dims()) {
            let count = usize::try_from(selection.count(here.dims()).unwrap()).unwrap();
            let (mut one, mut other) = (vec![1; 2 * count], vec![2; 2 * count]);
            here.read(&selection, &mut one).unwrap();
            there.read(&selection, &mut other).unwrap();
            assert!(one == other, "seed {seed}: {selection:?}");
        }
    }
}
