//! Test walk over all objects of intact and damaged files.

use super::chunk_index::{self, ChunkMap};
use super::{attributes, cache_image, group, object, object_header, reference, superblock, virtual_layout};
use crate::model::{Chunk, Class, Dataspace, Datatype, Layout, LinkTarget, ObjectHeader, ObjectKind};
use crate::{Blocks, Fuel, Image, Limits, Overlay, Result, Step, View, checksum, step};
use std::collections::HashSet;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Number of links of a group, and of attributes of an object, that are also looked up by name.
const MAX_LOOKUPS: usize = 40;

/// Result of a walk.
#[derive(Debug, Default, PartialEq, Eq)]
struct WalkSummary {
    groups: usize,
    datasets: usize,
    datatypes: usize,
    attributes: usize,
    /// Links that are not followed: soft, external and user-defined ones.
    links: usize,
    references: usize,
    errors: Vec<String>,
}

struct Walk<'i> {
    image: Image<'i>,
    found: WalkSummary,
    seen: HashSet<u64>,
    /// Number of objects left to visit: damage may make a small file endless.
    left: usize,
}

impl Walk<'_> {
    /// Returns the value, or `None` after recording the error. Passes on errors of kind Need.
    fn keep<T>(&mut self, result: Result<T>) -> Result<Option<T>> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.is_need() => Err(error),
            Err(error) => {
                self.found.errors.push(error.to_string());
                Ok(None)
            }
        }
    }

    fn object(&mut self, address: u64) -> Result<()> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(()) };
        self.left = left;
        if !self.seen.insert(address) {
            return Ok(());
        }
        let Some(header) = self.keep(object_header::parse(self.image, address))? else { return Ok(()) };
        self.attributes(&header)?;
        self.keep(object::modification_time(&header))?;
        drop(object::comment(&header));
        match object::kind(&header) {
            Some(ObjectKind::Group) => self.group(&header)?,
            Some(ObjectKind::Dataset) => {
                self.found.datasets += 1;
                if let Some(dataset) = self.keep(object::dataset(self.image, &header))? {
                    self.storage(&dataset)?;
                }
            }
            Some(ObjectKind::Datatype) => {
                self.found.datatypes += 1;
                self.keep(object::datatype(self.image, &header))?;
            }
            None => self.found.errors.push("an object of no kind".into()),
        }
        Ok(())
    }

    fn group(&mut self, header: &ObjectHeader) -> Result<()> {
        self.found.groups += 1;
        let Some(links) = self.keep(group::links(self.image, header))? else { return Ok(()) };
        let count = self.keep(group::count(self.image, header))?;
        self.same("links", count.as_ref(), Some(&(links.len() as u64)));
        for (number, link) in links.into_iter().enumerate() {
            if number < MAX_LOOKUPS {
                let found = self.keep(group::find(self.image, header, link.name.as_bytes()))?.flatten();
                self.same("a link by name", found.as_ref(), Some(&link));
            }
            match link.target {
                LinkTarget::Hard(address) => self.object(address)?,
                _ => self.found.links += 1,
            }
        }
        let absent = self.keep(group::find(self.image, header, b"no such link"))?.flatten();
        self.same("an absent link", absent.as_ref(), None);
        Ok(())
    }

    fn storage(&mut self, dataset: &object::DatasetHeader) -> Result<()> {
        let chunked = match &dataset.layout {
            Layout::Chunked(chunked) => chunked,
            Layout::Virtual { heap: Some(heap) } => {
                return self.keep(virtual_layout::mappings(self.image, *heap)).map(drop);
            }
            _ => return Ok(()),
        };
        let Dataspace::Simple { dims, max } = &dataset.dataspace else { return Ok(()) };
        let map = ChunkMap { chunked, dims, max, filtered: !dataset.pipeline.is_empty() };
        let Some(all) = self.keep(chunk_index::chunks(self.image, &map))? else { return Ok(()) };
        // The middle third of each dimension.
        let counts = dims.iter().zip(&chunked.dims).map(|(dim, chunk)| dim.div_ceil(*chunk));
        let region: Vec<Range<u64>> = counts.map(|count| count / 3..count - count / 3).collect();
        let within = self.keep(chunk_index::within(self.image, &map, &region))?;
        let inside = |chunk: &Chunk| chunk.scaled.iter().zip(&region).all(|(at, range)| range.contains(at));
        let expected: Vec<Chunk> = all.into_iter().filter(inside).collect();
        self.same("chunks of a region", within.as_ref(), Some(&expected));
        Ok(())
    }

    fn attributes(&mut self, header: &ObjectHeader) -> Result<()> {
        let Some(attributes) = self.keep(attributes::each(self.image, header))? else { return Ok(()) };
        let count = self.keep(attributes::count(self.image, header))?;
        self.same("attributes", count.as_ref(), Some(&(attributes.len() as u64)));
        let names = self.keep(attributes::names(self.image, header))?;
        self.same("names", names.as_ref(), Some(&attributes.iter().map(|(name, _)| name.clone()).collect()));
        for (number, (name, attribute)) in attributes.into_iter().enumerate() {
            self.found.attributes += 1;
            let Some(attribute) = self.keep(attribute)? else { continue };
            if number < MAX_LOOKUPS {
                let found = self.keep(attributes::find(self.image, header, name.as_bytes()))?.flatten();
                self.same("an attribute by name", found.as_ref(), Some(&attribute));
            }
            self.references(&attribute.datatype, &attribute.data)?;
        }
        let absent = self.keep(attributes::find(self.image, header, b"no such attribute"))?.flatten();
        self.same("an absent attribute", absent.as_ref(), None);
        Ok(())
    }

    fn references(&mut self, datatype: &Datatype, data: &[u8]) -> Result<()> {
        let Class::Reference(kind) = datatype.class else { return Ok(()) };
        for element in data.chunks_exact(usize::try_from(datatype.size).unwrap()) {
            self.found.references += 1;
            self.keep(reference::parse(self.image, kind, element))?;
        }
        Ok(())
    }

    fn same<T: PartialEq + std::fmt::Debug>(&mut self, what: &str, found: Option<&T>, expected: Option<&T>) {
        if found != expected {
            self.found.errors.push(format!("{what}: {found:?} instead of {expected:?}"));
        }
    }
}

/// Walks a file, starting at its superblock.
fn walk(view: &dyn View, most: usize) -> Result<WalkSummary> {
    let limits = Limits::default();
    let fuel = Fuel::new(&limits);
    let superblock = superblock::parse(view, &limits, &fuel)?;
    superblock::check_flags(&superblock)?;
    superblock::check_end(&superblock, view.size())?;
    let under = Image::new(view, superblock.base, superblock.sizes, &limits, &fuel);
    let patches = cache_image::entries(under, &superblock)?;
    let patches = patches.into_iter().map(|(address, bytes)| (superblock.base + address, bytes));
    let view = Overlay::new(view, patches.collect::<Vec<_>>());
    let image = Image::new(&view, superblock.base, superblock.sizes, &limits, &fuel)
        .with_shared_messages(superblock.shared_messages);
    let mut walk = Walk { image, found: WalkSummary::default(), seen: HashSet::new(), left: most };
    walk.object(superblock.root)?;
    Ok(walk.found)
}

const FIXTURES: [(&str, &[u8]); 4] = [
    ("old", include_bytes!("../../fixtures/old.hdf5")),
    ("new", include_bytes!("../../fixtures/new.hdf5")),
    ("shared", include_bytes!("../../fixtures/shared.hdf5")),
    ("cached", include_bytes!("../../fixtures/cached.hdf5")),
];

#[test]
fn whole_files() {
    let expected = WalkSummary {
        groups: 2,
        datasets: 15,
        datatypes: 1,
        attributes: 60,
        links: 14,
        references: 2,
        errors: Vec::new(),
    };
    for (name, file) in FIXTURES {
        assert_eq!(walk(&file, usize::MAX).unwrap(), expected, "{name}");
    }
}

/// A walk over a file fetched in pieces gives the same result, with few requests.
#[test]
fn files_in_pieces() {
    for (name, file) in FIXTURES {
        let mut blocks = Blocks::new(file.len() as u64);
        let mut requests = 0;
        let found = loop {
            match step(&blocks, |view| walk(view, usize::MAX)).unwrap() {
                Step::Done(found) => break found,
                Step::Need(ranges) => {
                    requests += 1;
                    assert!(requests < 400, "{name}");
                    for range in ranges {
                        let bytes = &file[range.start as usize..range.end as usize];
                        blocks.insert(range.start, bytes);
                    }
                }
            }
        };
        assert_eq!(found, walk(&file, usize::MAX).unwrap(), "{name}");
    }
}

/// Deterministic pseudorandom numbers.
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, end: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % end.max(1)
    }
}

/// Damages a file in one to four places.
fn damaged(file: &[u8], numbers: &mut Numbers) -> Vec<u8> {
    const BYTES: [u8; 8] = [0, 1, 2, 8, 0x7f, 0x80, 0xfe, 0xff];
    let mut file = file.to_vec();
    for _ in 0..=numbers.below(4) {
        let at = numbers.below(file.len());
        match numbers.below(6) {
            0 => file[at] = BYTES[numbers.below(BYTES.len())],
            1 => file[at] ^= 1 << numbers.below(8),
            2 => file[at] = file[at].wrapping_add(1),
            3 => {
                let end = (at + (1 << numbers.below(4))).min(file.len());
                file[at..end].fill(BYTES[numbers.below(BYTES.len())]);
            }
            4 => {
                // Bytes copied from another position: addresses that point to something else.
                let from = numbers.below(file.len() - 8.min(file.len()));
                let length = 8.min(file.len() - at).min(file.len() - from);
                file.copy_within(from..from + length, at);
            }
            _ => file.truncate(at.max(1)),
        }
    }
    file
}

/// Returns the number of damaged copies of each file, which an environment variable may raise.
fn rounds(usual: usize) -> usize {
    std::env::var("HYPERCHUNK_MUTATIONS").ok().and_then(|text| text.parse().ok()).unwrap_or(usual)
}

/// Walks damaged copies of a file; none may panic or run long.
fn check_damaged(name: &str, file: &[u8], rounds: usize, numbers: &mut Numbers) {
    for round in 0..rounds {
        let damaged = damaged(file, numbers);
        let start = std::time::Instant::now();
        checksum::ignored(round % 3 != 0, || drop(walk(&&*damaged, 2000)));
        let seconds = start.elapsed().as_secs();
        assert!(seconds < 10, "{name}: round {round} took {seconds} s");
    }
}

#[test]
fn damaged_files() {
    for (name, file) in FIXTURES {
        check_damaged(name, file, rounds(40), &mut Numbers(1));
    }
}

/// Returns the files of the corpus next to the repository with their numbers of datasets; empty if there is
/// no corpus.
fn corpus() -> Vec<(PathBuf, usize)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/corpus");
    let manifest = std::fs::read_to_string(folder.join("manifest.tsv")).unwrap_or_default();
    let mut files = Vec::new();
    for line in manifest.lines().skip(1) {
        let fields: Vec<&str> = line.split('\t').collect();
        if fields[6] == "hdf5" && fields[10] == "ok" {
            files.push((folder.join("files").join(fields[0]), fields[9].parse().unwrap()));
        }
    }
    files
}

#[test]
fn corpus_has_its_datasets() {
    for (path, datasets) in corpus() {
        let file = std::fs::read(&path).unwrap();
        let found = walk(&&*file, usize::MAX).unwrap();
        // Some have objects that the library used for the count cannot open.
        assert!(found.datasets >= datasets, "{} of {datasets} in {}", found.datasets, path.display());
        if !found.errors.is_empty() {
            println!("{}: {:#?}", path.display(), found.errors);
        }
    }
}

#[test]
fn damaged_corpus() {
    let mut numbers = Numbers(2);
    for (path, _) in corpus() {
        let file = std::fs::read(&path).unwrap();
        if file.len() < 50_000 {
            check_damaged(&path.to_string_lossy(), &file, rounds(1), &mut numbers);
        }
    }
}
