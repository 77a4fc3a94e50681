//! Open files and the requests about them, as JSON.
//!
//! A request has `op` and, except for the op `source`, `file` (the number that `source` returned) and
//! `operation`. An answer has one of `ok` (the result), `error`, and `need` (ranges of files) with `files`
//! (names of files to which a file refers).

use crate::columns::{Columns, narrow, zeros};
use crate::describe;
use crate::source::HostSource;
use hyperchunk::io::Source;
use hyperchunk::model::{Dataspace, LinkTarget, ObjectKind};
use hyperchunk::select::{Axis, Selection};
use hyperchunk::{Dataset, Error, ErrorKind, ExternalPolicy, File, Object, OpenOptions, Result};
use serde_json::{Map, Value, json};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// An answer: JSON, then buffers of values.
pub(crate) type Answer = Vec<Vec<u8>>;

/// Maximum number of objects of a file that stay open.
const MAX_OPEN_OBJECTS: usize = 256;
/// Capacity of the cache for structure in bytes, for all files together.
const STRUCTURE_BYTES: usize = 64 << 20;
/// Maximum size in bytes of the stored elements of one read.
const MAX_READ_BYTES: u64 = 1 << 30;

/// An open file.
struct OpenFile {
    source: Arc<HostSource>,
    /// `None` until its superblock is read.
    file: Option<File>,
    name: Option<String>,
    objects: HashMap<String, Object>,
    datasets: HashMap<String, Dataset>,
}

#[derive(Default)]
struct Session {
    files: HashMap<u32, OpenFile>,
    /// All sources, including files to which other files refer.
    sources: HashMap<u32, Arc<HostSource>>,
    last: u32,
}

thread_local! {
    static SESSION: RefCell<Session> = RefCell::default();
}

/// Stores fetched bytes for an operation.
pub(crate) fn provide(file: u32, operation: u32, offset: f64, bytes: Vec<u8>) {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "an offset; saturating is right"
    )]
    let offset = offset as u64;
    SESSION.with_borrow(|session| {
        if let Some(source) = session.sources.get(&file) {
            source.provide(operation, offset, bytes);
        }
    });
}

/// Answers a request.
pub(crate) fn call(request: &[u8]) -> Answer {
    let mut buffers = Vec::new();
    let answer = SESSION.with_borrow_mut(|session| session.answer(request, &mut buffers));
    let answer = answer.unwrap_or_else(|error| json!({"error": describe::error(&error)}));
    if answer.get("ok").is_none() {
        buffers.clear();
    }
    buffers.insert(0, answer.to_string().into_bytes());
    buffers
}

fn text<'a>(request: &'a Value, field: &str) -> Option<&'a str> {
    request.get(field).and_then(Value::as_str)
}

fn count(request: &Value, field: &str) -> Result<u64> {
    let value = request.get(field).and_then(Value::as_u64);
    value.ok_or_else(|| Error::invalid(format!("the request lacks `{field}`")))
}

fn number(request: &Value, field: &str) -> Result<u32> {
    u32::try_from(count(request, field)?).map_err(|_| Error::invalid(format!("`{field}` is too large")))
}

impl Session {
    fn answer(&mut self, request: &[u8], buffers: &mut Vec<Vec<u8>>) -> Result<Value> {
        let request: Value = serde_json::from_slice(request)
            .map_err(|error| Error::invalid(format!("cannot parse the request: {error}")))?;
        let op = text(&request, "op").unwrap_or_default();
        if op == "source" {
            return self.add_source(&request);
        }
        let id = number(&request, "file")?;
        let operation = number(&request, "operation")?;
        if op == "end" || op == "close" {
            if let Some(opened) = self.files.get(&id) {
                opened.source.end(operation);
            }
            if op == "close" {
                self.close(id);
            }
            return Ok(json!({"ok": null}));
        }
        let closed = || Error::invalid("the file is closed");
        let opened = self.files.get_mut(&id).ok_or_else(closed)?;
        opened.source.begin(operation);
        let result = opened.run(op, &request, buffers);
        // Also checked after a result: code that tolerates errors may have met a range that was not fetched
        // yet.
        let (mut ranges, mut files) = (Vec::new(), Vec::new());
        opened.source.lacks(&mut ranges, &mut files);
        if !ranges.is_empty() || !files.is_empty() {
            let ranges: Vec<Value> =
                ranges.into_iter().map(|(file, range)| json!([file, range.start, range.end])).collect();
            return Ok(json!({"need": ranges, "files": files}));
        }
        opened.source.end(operation);
        match result {
            Ok(value) => Ok(json!({"ok": value})),
            Err(error) if error.is_need() => {
                Err(Error::invalid("an operation failed for missing bytes, but named none"))
            }
            Err(error) => Err(error),
        }
    }

    /// Adds a file: one to open, or one to which `parent` refers by the name `link`, which may be missing.
    fn add_source(&mut self, request: &Value) -> Result<Value> {
        let name = text(request, "name").map(str::to_owned);
        let parent = match request.get("parent") {
            Some(_) => {
                let found = self.sources.get(&number(request, "parent")?).map(Arc::clone);
                Some(found.ok_or_else(|| Error::invalid("the file is closed"))?)
            }
            None => None,
        };
        let link = text(request, "link").unwrap_or_default();
        if let (Some(parent), Some(true)) = (&parent, request.get("missing").and_then(Value::as_bool)) {
            drop(parent.set_sibling(link, None));
            return Ok(json!({"ok": null}));
        }
        let size = count(request, "size")?;
        self.last =
            self.last.checked_add(1).ok_or_else(|| Error::limit("more than 2^32 files were opened"))?;
        // Versions of a file may be unknown, so each open file has blocks of its own in the cache.
        let identity = format!("{}:{}", self.last, name.as_deref().unwrap_or_default());
        let made = HostSource::new(self.last, size, identity);
        let Some(parent) = parent else {
            self.sources.insert(made.id, Arc::clone(&made));
            let (objects, datasets) = (HashMap::new(), HashMap::new());
            let answer = json!({"ok": made.id});
            self.files.insert(made.id, OpenFile { source: made, file: None, name, objects, datasets });
            return Ok(answer);
        };
        let kept = parent.set_sibling(link, Some(made));
        let kept = kept.ok_or_else(|| Error::invalid("the file was reported as missing before"))?;
        self.sources.insert(kept.id, Arc::clone(&kept));
        Ok(json!({"ok": kept.id}))
    }

    fn close(&mut self, id: u32) {
        self.files.remove(&id);
        // The sources that remain belong to open files, or to files to which these refer.
        self.sources.remove(&id);
        let mut used = HashSet::new();
        self.files.values().for_each(|opened| opened.source.all(&mut used));
        self.sources.retain(|id, _| used.contains(id));
    }
}

impl OpenFile {
    fn run(&mut self, op: &str, request: &Value, buffers: &mut Vec<Vec<u8>>) -> Result<Value> {
        if op == "open" {
            return self.open(text(request, "external"));
        }
        match op {
            "object" => {
                let object = self.object(request)?;
                self.describe(request, &object)
            }
            "links" => {
                let links = self.object(request)?.group()?.links()?;
                Ok(links.iter().map(describe::link).collect())
            }
            "members" => self.members(request),
            "attributes" => {
                let object = self.object(request)?;
                attributes(&object, buffers)
            }
            "prefetch" => {
                let object = self.object(request)?;
                object.file().prefetch(&object, true, None)?;
                Ok(Value::Null)
            }
            "read" => read(&self.dataset(request)?, request, buffers),
            _ => Err(Error::invalid(format!("no operation `{op}`"))),
        }
    }

    fn open(&mut self, external: Option<&str>) -> Result<Value> {
        hyperchunk::io::set_metadata_cache_bytes(STRUCTURE_BYTES);
        let mut options = OpenOptions::default();
        options.threads = 1;
        options.index = hyperchunk::index::IndexOption::Never;
        options.external = match external {
            Some("anywhere") => ExternalPolicy::Anywhere,
            Some("beside") => ExternalPolicy::Beside,
            _ => ExternalPolicy::Never,
        };
        let source = Arc::clone(&self.source) as Arc<dyn Source>;
        let file = File::from_source(source, self.name.clone().map(Into::into), &options)?;
        let superblock = file.superblock().version;
        self.file = Some(file);
        Ok(json!({"superblock": superblock}))
    }

    fn file(&self) -> Result<&File> {
        self.file.as_ref().ok_or_else(|| Error::invalid("the file is not open"))
    }

    /// Returns the key of the object that a request is about.
    fn key(request: &Value) -> Result<String> {
        match (text(request, "path"), request.get("address")) {
            (Some(path), _) => Ok(path.to_owned()),
            (None, Some(_)) => Ok(format!("\0{}", count(request, "address")?)),
            _ => Err(Error::invalid("the request lacks `path` or `address`")),
        }
    }

    fn object(&mut self, request: &Value) -> Result<Object> {
        let key = Self::key(request)?;
        if let Some(known) = self.objects.get(&key) {
            return Ok(known.clone());
        }
        let file = self.file()?;
        let object = match text(request, "path") {
            Some("/") => file.root()?.named("/"),
            Some(path) => file.root()?.group()?.get(path)?,
            None => file.object(count(request, "address")?)?,
        };
        if self.objects.len() >= MAX_OPEN_OBJECTS {
            self.objects.clear();
        }
        self.objects.insert(key, object.clone());
        Ok(object)
    }

    /// Returns a dataset, which caches the index of its chunks.
    fn dataset(&mut self, request: &Value) -> Result<Dataset> {
        let key = Self::key(request)?;
        if let Some(known) = self.datasets.get(&key) {
            return Ok(known.clone());
        }
        let dataset = self.object(request)?.dataset()?;
        if self.datasets.len() >= MAX_OPEN_OBJECTS {
            self.datasets.clear();
        }
        self.datasets.insert(key, dataset.clone());
        Ok(dataset)
    }

    fn describe(&mut self, request: &Value, object: &Object) -> Result<Value> {
        let more = match object.kind() {
            ObjectKind::Group => json!({}),
            ObjectKind::Dataset => describe::dataset(&self.dataset(request)?)?,
            ObjectKind::Datatype => json!({"dtype": describe::datatype(&object.datatype()?)?}),
        };
        let mut described = Map::new();
        described.insert("kind".into(), describe::kind(object.kind()).into());
        described.insert("address".into(), object.address().into());
        if let Value::Object(more) = more {
            described.extend(more);
        }
        Ok(described.into())
    }

    /// Describes the links of a group with the objects to which they lead.
    fn members(&mut self, request: &Value) -> Result<Value> {
        let object = self.object(request)?;
        object.file().prefetch(&object, false, Some(1))?;
        let group = object.group()?;
        let mut members = Vec::new();
        for link in group.links()? {
            let found = match link.target {
                LinkTarget::Hard(address) => object.file().object(address),
                _ => group.get(link.name.as_bytes()),
            };
            let described = found.and_then(|found| {
                let more = match found.kind() {
                    ObjectKind::Dataset => describe::dataset(&found.dataset()?)?,
                    _ => json!({}),
                };
                Ok((found.kind(), more))
            });
            let mut member = describe::link(&link);
            if let Some(fields) = member.as_object_mut() {
                match described {
                    Ok((kind, more)) => {
                        fields.insert("kind".into(), describe::kind(kind).into());
                        if let Value::Object(more) = more {
                            fields.extend(more);
                        }
                    }
                    Err(error) => drop(fields.insert("error".into(), describe::error(&error))),
                }
            }
            members.push(member);
        }
        Ok(members.into())
    }
}

/// Returns all attributes with their values; a damaged one has an error in its place.
fn attributes(object: &Object, buffers: &mut Vec<Vec<u8>>) -> Result<Value> {
    let file = object.file();
    file.prefetch(object, true, Some(0))?;
    let mut all = Vec::new();
    for (name, attribute) in object.each_attribute()? {
        let described = attribute.and_then(|attribute| {
            let elements = narrow(
                attribute
                    .dataspace
                    .elements()
                    .ok_or_else(|| Error::limit("the attribute has 2^64 or more elements"))?,
            )?;
            let dtype = describe::datatype(&attribute.datatype)?;
            let shape = describe::shape(&attribute.dataspace, attribute.dataspace.dims());
            let column = Columns::new(file, buffers).add(&attribute.datatype, attribute.data, elements)?;
            Ok(json!({"dtype": dtype, "shape": shape, "column": column}))
        });
        let mut described = described.unwrap_or_else(|error| {
            let named = object.with_context(error.within("attribute"));
            json!({"error": describe::error(&named)})
        });
        if let Some(fields) = described.as_object_mut() {
            fields.insert("name".into(), name.to_string().into());
        }
        all.push(described);
    }
    Ok(all.into())
}

/// Reads a part of a dataset.
fn read(dataset: &Dataset, request: &Value, buffers: &mut Vec<Vec<u8>>) -> Result<Value> {
    if matches!(dataset.dataspace(), Dataspace::Null) {
        return Ok(json!({"shape": null}));
    }
    let (selection, shape) = selection(dataset, request).map_err(|error| dataset.with_context(error))?;
    let elements = selection.count(dataset.dims()).map_err(|error| dataset.with_context(error))?;
    let stored = elements.checked_mul(dataset.datatype().size).filter(|bytes| *bytes <= MAX_READ_BYTES);
    let stored = stored.ok_or_else(|| {
        let message =
            format!("{elements} elements of {} bytes exceed the limit of one read", dataset.datatype().size);
        dataset.with_context(Error::limit(message).advise("read a smaller part"))
    })?;
    let mut bytes = zeros(narrow(stored)?)?;
    dataset.read(&selection, &mut bytes).map_err(|error| explained(dataset, error))?;
    let column =
        Columns::new(dataset.object().file(), buffers).add(dataset.datatype(), bytes, narrow(elements)?);
    Ok(json!({"shape": shape, "column": column.map_err(|error| dataset.with_context(error))?}))
}

/// Adds the reason why data of Hyperchunk's own kinds are not read here.
fn explained(dataset: &Dataset, error: Error) -> Error {
    let is_live = dataset.pipeline().iter().any(|filter| filter.id == hyperchunk::live::FILTER);
    if error.kind() != ErrorKind::MissingFilter || !is_live {
        return error;
    }
    let message = "cannot compute a live dataset: expected a function's sandbox, got a reader without one; \
        read it with Hyperchunk for Python or C";
    dataset.with_context(Error::unsupported(message))
}

/// Returns the selection that a request asks for, and the shape of its result.
fn selection(dataset: &Dataset, request: &Value) -> Result<(Selection, Vec<u64>)> {
    let dims = dataset.dims();
    let list = |field: &str, or: &dyn Fn(u64, usize) -> u64| -> Result<Vec<u64>> {
        let Some(given) = request.get(field).filter(|given| !given.is_null()) else {
            return Ok(dims.iter().enumerate().map(|(axis, dim)| or(*dim, axis)).collect());
        };
        let numbers =
            given.as_array().map(|given| given.iter().map(Value::as_u64).collect::<Option<Vec<_>>>());
        let numbers = numbers.flatten().filter(|numbers| numbers.len() == dims.len());
        numbers.ok_or_else(|| {
            let message =
                format!("expected `{field}` as {} whole numbers from 0 on, got {given}", dims.len());
            Error::invalid(message)
        })
    };
    let start = list("start", &|_, _| 0)?;
    let step = list("step", &|_, _| 1)?;
    if step.contains(&0) {
        return Err(Error::invalid("expected steps of 1 or more, got 0"));
    }
    let at = |list: &[u64], axis: usize| list.get(axis).copied().unwrap_or(1);
    let shape = list("count", &|dim, axis| dim.saturating_sub(at(&start, axis)).div_ceil(at(&step, axis)))?;
    if dims.is_empty() {
        return Ok((Selection::All, shape));
    }
    let axes = shape.iter().enumerate().map(|(axis, count)| {
        let (start, step) = (at(&start, axis), at(&step, axis));
        match step {
            1 => start.checked_add(*count).map(|end| Axis::range(start..end)),
            _ => Some(Axis::steps(start, step, *count)),
        }
    });
    let axes: Option<Vec<Axis>> = axes.collect();
    Ok((Selection::Axes(axes.ok_or_else(|| Error::invalid("the selection ends beyond 2^64"))?), shape))
}

#[cfg(test)]
mod tests;
