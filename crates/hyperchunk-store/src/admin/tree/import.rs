//! Import of a tree of folders into an HDF5 file.

use super::stream::{Reader, is_stream};
use super::{JSON_SUFFIX, append_suffix, escape_text, escaped, object_path, refused};
use hyperchunk::internal::pack::{Translation, needed};
use hyperchunk::write::{CreateOptions, DatasetOptions, DatasetWriter, NewLayout, NewLink, NodeId, Writer};
use hyperchunk::{Error, ErrorKind, Limits, Result, output};
use hyperchunk_format::codec::Encoder;
use hyperchunk_format::encode::LibVersion;
use hyperchunk_format::model::{
    AllocationTime, Attribute, CharacterSet, Dataspace, Datatype, FillTime, FillValue, FillWhen, Filter,
    Name, ObjectKind, Pipeline,
};
use hyperchunk_format::parse::message;
use hyperchunk_format::select::{Axis, Selection};
use hyperchunk_format::{Cursor, Sizes};
use serde_json::Value;
use std::collections::HashMap;
use std::fs;
use std::io::Read as _;
use std::path::Path;

/// Maximum size of a JSON file in bytes.
const MAX_JSON_BYTES: u64 = 64 << 20;
/// Maximum nesting depth of groups.
const MAX_DEPTH: usize = 1024;
/// Approximate number of bytes written at a time.
const WRITE_BYTES: u64 = 16 << 20;
/// Maximum size in bytes of a chunk with which filters are tried.
const MAX_SAMPLE_BYTES: u64 = 64 << 20;
/// HDF5's filter scale-offset, which rounds: applied to its own result, it may change values again.
const SCALE_OFFSET: u16 = 6;
/// Attribute with the record of a live dataset.
const LIVE_RECORD: &[u8] = b"hyperchunk_udf";

/// An object of the tree.
struct Object {
    path: Vec<u8>,
    about: Value,
    kind: ObjectKind,
}

/// Creates an HDF5 file from an exported folder. `options.oldest` is raised if an object needs a later
/// release.
///
/// # Errors
/// NotFound or Corrupt for an incomplete tree; Io; errors of writing. In these cases no new file is
/// left.
pub fn import(folder: &Path, out: &Path, options: &CreateOptions) -> Result<super::ExportReport> {
    output::accept(out, &[output::Kind::Hdf5])?;
    output::check_folder(out, folder)?;
    output::check(out, options.replace, &[])?;
    let mut objects = Vec::new();
    collect(folder, b"/".to_vec(), &mut objects)?;
    let mut oldest = options.oldest;
    for object in &objects {
        let types = object.about.get("datatype").into_iter().chain(
            list(&object.about, "attributes").iter().filter_map(|attribute| attribute.get("datatype")),
        );
        for value in types {
            oldest = oldest.max(needed(&datatype(value)?)?);
        }
        let chunk = numbers(object.about.get("chunks")).unwrap_or_default();
        let bytes = chunk.iter().fold(1 << 10, |size: u64, dim| size.saturating_mul(*dim));
        if bytes >> 10 > u64::from(u32::MAX) {
            oldest = LibVersion::V200;
        }
    }
    let mut options = options.clone();
    options.oldest = oldest;
    options.journal = false;
    let writer = Writer::create(out, &options)?;
    let made = fill(folder, &objects, &writer).and_then(|exported| writer.close().map(|()| exported));
    made.inspect_err(|_| drop(writer.discard()))
}

/// Lists all objects, groups before their members.
fn collect(folder: &Path, root: Vec<u8>, objects: &mut Vec<Object>) -> Result<()> {
    let mut waiting = vec![(root, ObjectKind::Group, 0)];
    while let Some((path, kind, depth)) = waiting.pop() {
        if depth > MAX_DEPTH {
            return Err(Error::limit(format!("groups nest deeper than {MAX_DEPTH}")));
        }
        let place = object_path(folder, &path);
        let file = if kind == ObjectKind::Group {
            place.join(JSON_SUFFIX)
        } else {
            append_suffix(&place, JSON_SUFFIX)
        };
        let about = read_json(&file)?;
        for link in list(&about, "links").iter().rev() {
            let Some(to) = link.get("hard").and_then(Value::as_str).map(unescape_text) else { continue };
            let own = below(&path, &parse_name(link)?);
            if to != own {
                continue;
            }
            let place = object_path(folder, &own);
            let kind = if place.is_dir() {
                ObjectKind::Group
            } else {
                parse_kind(&read_json(&append_suffix(&place, JSON_SUFFIX))?)?
            };
            waiting.push((own, kind, depth + 1));
        }
        objects.push(Object { path, about, kind });
    }
    Ok(())
}

fn parse_kind(about: &Value) -> Result<ObjectKind> {
    match about.get("kind").and_then(Value::as_str) {
        Some("group") => Ok(ObjectKind::Group),
        Some("dataset") => Ok(ObjectKind::Dataset),
        Some("datatype") => Ok(ObjectKind::Datatype),
        other => Err(Error::corrupt(format!("an object of unknown kind {other:?}"))),
    }
}

fn fill(folder: &Path, objects: &[Object], writer: &Writer) -> Result<super::ExportReport> {
    let mut nodes: HashMap<&[u8], NodeId> = HashMap::new();
    let mut done = super::ExportReport::default();
    for object in objects {
        let tracked = object.about.get("tracked").and_then(Value::as_bool).unwrap_or(false);
        let node = match object.kind {
            ObjectKind::Group if object.path == b"/" => {
                writer.track_root_order(tracked)?;
                NodeId::ROOT
            }
            ObjectKind::Group => writer.create_group(NodeId::ROOT, b"", tracked)?,
            ObjectKind::Datatype => {
                done.datatypes += 1;
                let datatype = new_type(&field(&object.about, "datatype")?)?;
                writer.commit_datatype(NodeId::ROOT, b"", datatype)?
            }
            ObjectKind::Dataset => continue,
        };
        done.groups += u64::from(object.kind == ObjectKind::Group);
        nodes.insert(&object.path, node);
    }
    let mut datasets = Vec::new();
    for object in objects.iter().filter(|object| object.kind == ObjectKind::Dataset) {
        let made = dataset(writer, object, &nodes, &mut done.notes)
            .map_err(|error| error.object(Name::from(&*object.path)))?;
        nodes.insert(&object.path, made.id());
        datasets.push((object, made));
    }
    let find = |path: &[u8]| nodes.get(path).copied();
    for object in objects {
        let Some(node) = find(&object.path) else { continue };
        let named = |error: Error| error.object(Name::from(&*object.path));
        if let Some(comment) = object.about.get("comment").and_then(Value::as_str) {
            writer.set_comment(node, Some(Name::from(&*unescape_text(comment))))?;
        }
        for link in list(&object.about, "links") {
            let target = target(link, &find).map_err(named)?;
            writer.link(node, &parse_name(link)?, target).map_err(named)?;
        }
        for value in list(&object.about, "attributes") {
            if is_live(object) && parse_name(value)? == LIVE_RECORD {
                continue;
            }
            attribute(folder, writer, object, node, value, &find).map_err(named)?;
            done.attributes += 1;
        }
    }
    for (object, made) in &datasets {
        let bytes = data(folder, writer, object, made, &find);
        done.bytes += bytes.map_err(|error| error.object(Name::from(&*object.path)))?;
        done.datasets += 1;
    }
    Ok(done)
}

fn target(link: &Value, find: &dyn Fn(&[u8]) -> Option<NodeId>) -> Result<NewLink> {
    let text = |key: &str| link.get(key).and_then(Value::as_str).map(unescape_text);
    if let Some(path) = text("hard") {
        let node = find(&path);
        return node.map(NewLink::Hard).ok_or_else(|| {
            Error::corrupt(format!("a hard link to {}, which does not exist", Name::from(&*path)))
        });
    }
    if let Some(path) = text("soft") {
        return Ok(NewLink::Soft(Name::from(&*path)));
    }
    if let (Some(file), Some(path)) = (text("file"), text("path")) {
        return Ok(NewLink::External { file: Name::from(&*file), path: Name::from(&*path) });
    }
    let class = link.get("class").and_then(Value::as_u64).and_then(|class| u8::try_from(class).ok());
    let data = link.get("data").and_then(Value::as_str).and_then(unhex);
    match class.zip(data) {
        Some((class, data)) => Ok(NewLink::User { class, data }),
        None => Err(Error::corrupt("a link of unknown kind")),
    }
}

fn dataset(
    writer: &Writer,
    object: &Object,
    nodes: &HashMap<&[u8], NodeId>,
    notes: &mut Vec<String>,
) -> Result<DatasetWriter> {
    let about = &object.about;
    let datatype = new_type(&field(about, "datatype")?)?;
    let mut dataspace = dataspace(&field(about, "dataspace")?)?;
    let chunk = numbers(about.get("chunks")).filter(|chunk| !chunk.is_empty());
    if let (Dataspace::Simple { dims, max }, None) = (&mut dataspace, &chunk) {
        // Contiguous data cannot grow.
        *max = dims.iter().copied().map(Some).collect();
    }
    let pipeline = match &chunk {
        Some(chunk) => pipeline(object, chunk, datatype.size, notes)?,
        None => Pipeline::new(),
    };
    let layout = chunk.map_or(NewLayout::Contiguous, NewLayout::Chunked);
    let mut options = DatasetOptions::new(datatype, dataspace).with_layout(layout).with_pipeline(pipeline);
    let fill = about.get("fill").unwrap_or(&Value::Null);
    options.fill = parse_fill_value(fill);
    if is_stream(&options.datatype) {
        let stream = fill.get("value").and_then(|value| value.get("stream")).and_then(Value::as_str);
        options.fill.value = match (stream.map(unhex), options.fill.value) {
            (Some(stream), _) => {
                let stream =
                    stream.ok_or_else(|| Error::corrupt("the stream of a fill value is not hexadecimal"))?;
                let find = |path: &[u8]| nodes.get(path).copied();
                let reader = Reader { writer, find: &find, attribute: true };
                FillWhen::User(reader.all(&options.datatype, &stream)?)
            }
            (None, FillWhen::User(_)) => {
                let message =
                    "a fill value that consists of addresses in another file; export the file again";
                return Err(Error::unsupported(message).object(escape_text(&object.path)));
            }
            (None, value) => value,
        };
    }
    options.track_order = about.get("tracked").and_then(Value::as_bool).unwrap_or(false);
    options.committed = committed(writer, about, nodes)?;
    writer.create_dataset(NodeId::ROOT, b"", options)
}

/// Returns whether an object was a live dataset: its values were computed when it was exported.
fn is_live(object: &Object) -> bool {
    list(&object.about, "filters")
        .iter()
        .any(|filter| filter.get("id").and_then(Value::as_u64) == Some(hyperchunk::live::FILTER.into()))
}

/// Returns the filters of a dataset; none, with a note, for those that cannot be applied to its values.
fn pipeline(object: &Object, chunk: &[u64], size: u64, notes: &mut Vec<String>) -> Result<Pipeline> {
    let name = Name::from(&*object.path);
    if is_live(object) {
        notes.push(format!(
            "{name} was a live dataset: its values are stored; `hyperchunk udf attach` makes it a live one again"
        ));
        return Ok(Pipeline::new());
    }
    let filters: Pipeline = list(&object.about, "filters").iter().map(filter).collect::<Result<_>>()?;
    let bytes = chunk.iter().fold(size, |bytes, dim| bytes.saturating_mul(*dim));
    let why = if filters.iter().any(|filter| filter.id == SCALE_OFFSET) {
        Some("scale-offset may change its values".to_owned())
    } else if filters.is_empty() || bytes > MAX_SAMPLE_BYTES {
        None
    } else {
        let zeros = vec![0; usize::try_from(bytes).unwrap_or(0)];
        Encoder::new().encode(&filters, &zeros).err().map(|error| error.to_string())
    };
    Ok(match why {
        Some(why) => {
            notes.push(format!("{name} is stored without its filters: {why}"));
            Pipeline::new()
        }
        None => filters,
    })
}

fn committed(writer: &Writer, about: &Value, nodes: &HashMap<&[u8], NodeId>) -> Result<Option<u64>> {
    let path = about.get("committed").and_then(Value::as_str).map(unescape_text);
    let node = path.and_then(|path| nodes.get(&*path).copied());
    node.map(|node| writer.address(node)).transpose()
}

fn attribute(
    folder: &Path,
    writer: &Writer,
    object: &Object,
    node: NodeId,
    value: &Value,
    find: &dyn Fn(&[u8]) -> Option<NodeId>,
) -> Result<()> {
    let name = parse_name(value)?;
    let place = object_path(folder, &object.path);
    let file = match object.kind {
        ObjectKind::Group => place.join(format!("~{}", escaped(&name))),
        _ => append_suffix(&place, &format!("~{}", escaped(&name))),
    };
    let stream = fs::read(&file).map_err(|error| refused("read", &file, &error))?;
    let datatype = new_type(&field(value, "datatype")?)?;
    let reader = Reader { writer, find, attribute: true };
    let path = value.get("committed").and_then(Value::as_str).map(unescape_text);
    let committed = path.and_then(|path| find(&path)).map(|node| writer.address(node)).transpose()?;
    let utf8 = value.get("utf8").and_then(Value::as_bool).unwrap_or(false);
    writer.set_attribute(
        node,
        Attribute {
            name: Name::from(&*name),
            charset: if utf8 { CharacterSet::Utf8 } else { CharacterSet::Ascii },
            data: reader.all(&datatype, &stream)?,
            datatype,
            committed,
            dataspace: dataspace(&field(value, "dataspace")?)?,
            creation_order: None,
        },
    )
}

/// Writes the data of a dataset, slab by slab.
fn data(
    folder: &Path,
    writer: &Writer,
    object: &Object,
    dataset: &DatasetWriter,
    find: &dyn Fn(&[u8]) -> Option<NodeId>,
) -> Result<u64> {
    let place = object_path(folder, &object.path);
    let mut file = fs::File::open(&place).map_err(|error| refused("read", &place, &error))?;
    let size = file.metadata().map_err(|error| refused("read the size of", &place, &error))?.len();
    if size == 0 {
        return Ok(0);
    }
    let dims = dataset.dims();
    let element = dataset.datatype().size;
    if is_stream(dataset.datatype()) {
        let mut stream = Vec::new();
        file.read_to_end(&mut stream).map_err(|error| refused("read", &place, &error))?;
        let reader = Reader { writer, find, attribute: false };
        dataset.write(&Selection::All, &reader.all(dataset.datatype(), &stream)?)?;
        return Ok(size);
    }
    let all = dims.iter().try_fold(element, |size, dim| size.checked_mul(*dim));
    if all != Some(size) {
        let expected = all.map_or_else(|| "2^64 or more".to_owned(), |all| all.to_string());
        let message = format!("{} has {size} bytes, expected {expected}", place.display());
        return Err(Error::corrupt(message));
    }
    let Some(count) = dims.first().copied() else {
        let size_in_memory = usize::try_from(size).map_err(|_| Error::limit("larger than memory"))?;
        let mut bytes = hyperchunk::room::zeros(size_in_memory)?;
        file.read_exact(&mut bytes).map_err(|error| refused("read", &place, &error))?;
        dataset.write(&Selection::All, &bytes)?;
        return Ok(size);
    };
    let row = (size / count.max(1)).max(1);
    let chunk = dataset.chunk().and_then(|chunk| chunk.first().copied()).unwrap_or(1);
    let step = ((WRITE_BYTES / row).max(1) / chunk * chunk).max(chunk);
    let mut at = 0;
    while at < count {
        let rows = step.min(count - at);
        let length = usize::try_from(rows * row).map_err(|_| Error::limit("larger than memory"))?;
        let mut bytes = hyperchunk::room::zeros(length)?;
        file.read_exact(&mut bytes).map_err(|error| refused("read", &place, &error))?;
        let axes = dims
            .iter()
            .enumerate()
            .map(|(axis, dim)| if axis == 0 { Axis::range(at..at + rows) } else { Axis::range(0..*dim) });
        dataset.write(&Selection::Axes(axes.collect()), &bytes)?;
        at += rows;
    }
    Ok(size)
}

fn read_json(path: &Path) -> Result<Value> {
    let size = fs::metadata(path).map_err(|error| refused("read", path, &error))?.len();
    if size > MAX_JSON_BYTES {
        return Err(Error::limit(format!(
            "{}: {size} bytes of JSON, more than {MAX_JSON_BYTES}",
            path.display()
        )));
    }
    let bytes = fs::read(path).map_err(|error| refused("read", path, &error))?;
    serde_json::from_slice(&bytes)
        .map_err(|error| Error::new(ErrorKind::Corrupt, format!("{}: {error}", path.display())))
}

fn field(value: &Value, name: &str) -> Result<Value> {
    value
        .get(name)
        .cloned()
        .ok_or_else(|| Error::corrupt(format!("the JSON of an object or attribute lacks `{name}`")))
}

fn list<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

fn parse_name(value: &Value) -> Result<Vec<u8>> {
    let name = value.get("name").and_then(Value::as_str).map(unescape_text);
    name.ok_or_else(|| Error::corrupt("a link or an attribute without a name"))
}

fn numbers(value: Option<&Value>) -> Option<Vec<u64>> {
    value?.as_array()?.iter().map(Value::as_u64).collect()
}

fn below(path: &[u8], name: &[u8]) -> Vec<u8> {
    let slash: &[u8] = if path.ends_with(b"/") { b"" } else { b"/" };
    [path, slash, name].concat()
}

/// Reverses [`escape_text`].
fn unescape_text(text: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let escape = (*first == b'%').then(|| after.get(..2)).flatten();
        let value = escape
            .and_then(|two| std::str::from_utf8(two).ok())
            .and_then(|two| u8::from_str_radix(two, 16).ok());
        match value {
            Some(value) => {
                bytes.push(value);
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    bytes
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks_exact(2);
    digits.map(|two| u8::from_str_radix(std::str::from_utf8(two).ok()?, 16).ok()).collect()
}

/// Decodes a datatype as exported.
fn datatype(value: &Value) -> Result<Datatype> {
    let bytes = value.get("message").and_then(Value::as_str).and_then(unhex);
    let bytes = bytes.ok_or_else(|| Error::corrupt("a datatype without a valid `message`"))?;
    message::datatype::parse(&mut Cursor::new(&bytes, "datatype", 0), &Limits::default())
}

/// Decodes a datatype; sequences and references get the new file's width of addresses.
fn new_type(value: &Value) -> Result<Datatype> {
    let old = datatype(value)?;
    if !is_stream(&old) {
        return Ok(old);
    }
    // Types of files with narrow addresses become wider.
    let sizes = Sizes { address: 8, length: 8 };
    Ok(Translation::new(&old, sizes)?.datatype)
}

fn dataspace(value: &Value) -> Result<Dataspace> {
    let wrong = || Error::corrupt("a dataspace of unknown kind");
    Ok(match value.get("kind").and_then(Value::as_str) {
        Some("null") => Dataspace::Null,
        Some("scalar") => Dataspace::Scalar,
        Some("simple") => {
            let dims = numbers(value.get("dims")).ok_or_else(wrong)?;
            let max = value.get("max").and_then(Value::as_array).ok_or_else(wrong)?;
            Dataspace::Simple { dims, max: max.iter().map(Value::as_u64).collect() }
        }
        _ => return Err(wrong()),
    })
}

fn filter(value: &Value) -> Result<Filter> {
    let wrong = || Error::corrupt("a filter without a valid `id`");
    let id =
        value.get("id").and_then(Value::as_u64).and_then(|id| u16::try_from(id).ok()).ok_or_else(wrong)?;
    let parameters = numbers(value.get("parameters")).unwrap_or_default();
    Ok(Filter {
        id,
        optional: value.get("optional").and_then(Value::as_bool).unwrap_or(false),
        name: value.get("name").and_then(Value::as_str).map(|name| Name::from(&*unescape_text(name))),
        parameters: parameters.into_iter().filter_map(|number| u32::try_from(number).ok()).collect(),
    })
}

fn parse_fill_value(value: &Value) -> FillValue {
    let text = |key: &str| value.get(key).and_then(Value::as_str);
    let bytes =
        value.get("value").and_then(|value| value.get("bytes")).and_then(Value::as_str).and_then(unhex);
    FillValue {
        value: match (bytes, text("value")) {
            (Some(bytes), _) => FillWhen::User(bytes),
            (None, Some("undefined")) => FillWhen::Undefined,
            _ => FillWhen::Default,
        },
        // Determined by the new layout.
        allocation: AllocationTime::Default,
        time: match text("written") {
            Some("allocation") => FillTime::Allocation,
            Some("never") => FillTime::Never,
            _ => FillTime::IfSet,
        },
    }
}
