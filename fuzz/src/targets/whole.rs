//! A whole file: opened, walked, everything in it read.

use hyperchunk::model::{Dataspace, LinkTarget, ObjectKind};
use hyperchunk::walk::{Next, Visit, VisitedItem};
use hyperchunk::{Dataset, Error, ErrorKind, File, Object, OpenOptions, digest};
use std::collections::BTreeMap;

/// What reading a file came to.
#[derive(Debug, Default)]
pub struct Summary {
    /// The most bytes that it may hold at once because the file declares them: a dataset's elements, a chunk.
    pub declared: u64,
    /// All bytes of datasets that were read.
    pub total: u64,
    /// How many objects were visited.
    pub objects: u64,
    /// How many datasets and attributes were read.
    pub values: u64,
    /// Errors by kind.
    pub errors: BTreeMap<&'static str, u64>,
}

impl Summary {
    /// Counts an error, or returns the value.
    fn keep<T>(&mut self, result: Result<T, Error>) -> Option<T> {
        result
            .map_err(|error| {
                // As messages are for people, making them is part of the job.
                assert!(!error.to_string().is_empty());
                *self.errors.entry(name(error.kind())).or_default() += 1;
            })
            .ok()
    }
}

/// A kind of error as a word.
#[must_use]
pub fn name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::NotHdf5 => "not HDF5",
        ErrorKind::Truncated => "truncated",
        ErrorKind::Corrupt => "corrupt",
        ErrorKind::Unsupported => "unsupported",
        ErrorKind::MissingFilter => "missing filter",
        ErrorKind::Filter => "filter",
        ErrorKind::Locked => "locked",
        ErrorKind::Limit => "limit",
        ErrorKind::NotFound => "not found",
        ErrorKind::Invalid => "invalid",
        ErrorKind::Conversion => "conversion",
        ErrorKind::Io => "io",
        ErrorKind::Changed => "changed",
        ErrorKind::Need => panic!("a need has left the parser"),
        _ => "other",
    }
}

/// How much is read.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Datasets with more bytes are not read.
    pub dataset: u64,
    /// Datasets beyond this sum are not read.
    pub total: u64,
}

/// Reads all of an open file.
#[must_use]
pub fn summarize_file(file: &File, bounds: Bounds) -> Summary {
    let mut summary = Summary::default();
    walk(file, bounds, &mut summary);
    summary
}

/// Reads all of a file in memory.
#[must_use]
pub fn read(bytes: &[u8], bounds: Bounds) -> Summary {
    let mut summary = Summary::default();
    let mut options = OpenOptions::default();
    options.threads = 1;
    options.external = hyperchunk::ExternalPolicy::Never;
    options.ignore_locks = true;
    options.allow_truncated = true;
    // The caller's bytes are shared: they are not part of what reading takes.
    let opened = File::from_bytes(bytes, &options);
    if let Some(file) = summary.keep(opened) {
        walk(&file, bounds, &mut summary);
    }
    summary
}

fn walk(file: &File, bounds: Bounds, summary: &mut Summary) {
    let Some(root) = summary.keep(file.root()) else { return };
    let walked = file.walk(&root, b"/", &mut |visit: Visit<'_>| {
        match visit.found {
            VisitedItem::Object(object) => one(object, bounds, summary),
            VisitedItem::Broken(error) => drop(summary.keep(Err::<(), _>(error))),
            VisitedItem::Again(_) => {}
            VisitedItem::Link => {
                // Soft links are followed from the root, whatever they say: they must end.
                if let Some(LinkTarget::Soft(_)) = visit.link.map(|link| &link.target) {
                    let found = root.group().and_then(|group| group.get(visit.path));
                    summary.keep(found);
                }
            }
        }
        Ok(Next::Enter)
    });
    summary.keep(walked);
}

fn one(object: &Object, bounds: Bounds, summary: &mut Summary) {
    summary.objects += 1;
    summary.keep(object.comment());
    summary.keep(object.modification_time());
    let attributes = summary.keep(object.attributes()).unwrap_or_default();
    for attribute in &attributes {
        summary.values += 1;
        let digest = digest::attribute(object.file(), attribute);
        summary.keep(digest);
    }
    if let Some(last) = attributes.last() {
        let found = object.attribute(last.name.as_bytes());
        summary.keep(found);
    }
    drop(attributes);
    match object.kind() {
        ObjectKind::Group => group(object, summary),
        ObjectKind::Datatype => drop(summary.keep(object.datatype())),
        ObjectKind::Dataset => {
            if let Some(dataset) = summary.keep(object.dataset()) {
                values(&dataset, bounds, summary);
            }
        }
    }
}

fn group(object: &Object, summary: &mut Summary) {
    let Some(group) = summary.keep(object.group()) else { return };
    let count = group.len();
    summary.keep(count);
    let order = group.tracks_order();
    summary.keep(order);
    let Some(links) = summary.keep(group.links()) else { return };
    for link in links.iter().take(3).chain(links.last()) {
        let found = group.link(link.name.as_bytes());
        summary.keep(found);
    }
}

fn values(dataset: &Dataset, bounds: Bounds, summary: &mut Summary) {
    let size = match dataset.dataspace() {
        Dataspace::Null => Some(0),
        _ => summary
            .keep(dataset.elements())
            .and_then(|elements| elements.checked_mul(dataset.datatype().size)),
    };
    let chunks = dataset.chunks();
    let chunks = summary.keep(chunks).map_or(0, |chunks| chunks.len());
    let Some(size) = size.filter(|size| *size <= bounds.dataset && summary.total + *size <= bounds.total)
    else {
        return;
    };
    if dataset.datatype().size <= bounds.dataset {
        summary.declared = summary.declared.max(dataset.datatype().size);
        let fill = dataset.fill_bytes();
        summary.keep(fill);
    }
    let chunk = dataset.chunked().map_or(0, |chunked| {
        chunked.dims.iter().fold(chunked.element_size, |product, dim| product.saturating_mul(*dim))
    });
    let chunk = if chunks == 0 { 0 } else { chunk };
    summary.declared = summary.declared.max(size.saturating_add(chunk));
    summary.total += size;
    summary.values += 1;
    let digest = digest::dataset(dataset, bounds.dataset);
    summary.keep(digest);
}
