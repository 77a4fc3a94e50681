//! Export of a file as a tree of folders: groups become folders; datasets and attributes become
//! files, with descriptions in JSON files next to them.
//!
//! The plugin of the paper that the crate is based on stored its data like that; any program that
//! reads files can use it. [`import()`] creates an equivalent HDF5 file from the folders.
//!
//! A dataset `D` is the file `D` with its elements in row-major order and in its datatype, and
//! `D~.json` with its description; its attribute `A` is the file `D~A`. A group is a folder that
//! contains `~.json` and `~A`. Names with characters of special meaning are
//! percent-encoded, as in URLs. Sequences, strings of variable length and references have no fixed form;
//! their files are streams ([`stream`]).

mod import;
mod stream;

pub use import::import;

use hyperchunk::internal::pack::{Contents, Item};
use hyperchunk::output::{NewFolder, check_new, create_new};
use hyperchunk::pack::Input;
use hyperchunk::slabs::slabs;
use hyperchunk::{Dataset, Error, ErrorKind, File, Result};
use hyperchunk_format::encode::{LibVersion, message};
use hyperchunk_format::model::{
    AllocationTime, Attribute, CharacterSet, Dataspace, Datatype, FillTime, FillWhen, Filter, LinkTarget,
    Name, ObjectKind,
};
use serde_json::{Map, Value, json};
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

/// Number of bytes of a dataset read at a time.
const READ_BYTES: u64 = 16 << 20;
/// Suffix of the name of an object's JSON file.
const JSON_SUFFIX: &str = "~.json";

/// Result of an export or an import.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ExportReport {
    /// Number of groups.
    pub groups: u64,
    /// Number of datasets.
    pub datasets: u64,
    /// Number of committed datatypes.
    pub datatypes: u64,
    /// Number of attributes.
    pub attributes: u64,
    /// Number of bytes of data.
    pub bytes: u64,
    /// Notes for the user about what an import changed.
    pub notes: Vec<String>,
}

/// Exports every object of a file to a new folder.
///
/// # Errors
/// Io, also if the folder exists; Unsupported for references of HDF5 1.12 (`H5T_STD_REF`); NotFound for a virtual
/// dataset that lacks a source; errors of reading the file.
pub fn export(file: &File, folder: &Path) -> Result<ExportReport> {
    check_new(folder).map_err(|error| Error::new(ErrorKind::Io, error.message()))?;
    let contents = Contents::list(vec![Input { file: file.clone(), into: String::new() }])?;
    contents.items.iter().filter_map(|item| item.dataset.as_ref()).try_for_each(Dataset::check_sources)?;
    let made = NewFolder::create(folder, false)?;
    let mut exported = ExportReport::default();
    for item in &contents.items {
        let object = |error: Error| error.object(Name::from(&*item.path).to_string());
        export_object(&contents, item, made.path(), &mut exported).map_err(object)?;
    }
    made.finish()?;
    Ok(exported)
}

fn export_object(contents: &Contents, item: &Item, folder: &Path, exported: &mut ExportReport) -> Result<()> {
    let (place, about_at) = match item.object.kind() {
        ObjectKind::Group => {
            exported.groups += 1;
            let place = object_path(folder, &item.path);
            if item.path != b"/" {
                fs::create_dir(&place).map_err(|error| refused("create the folder", &place, &error))?;
            }
            (place.clone(), place.join(JSON_SUFFIX))
        }
        _ => {
            let place = object_path(folder, &item.path);
            (place.clone(), append_suffix(&place, JSON_SUFFIX))
        }
    };
    let mut about = Map::new();
    let kind = match item.object.kind() {
        ObjectKind::Group => "group",
        ObjectKind::Dataset => "dataset",
        ObjectKind::Datatype => "datatype",
    };
    about.insert("kind".into(), kind.into());
    about.insert("tracked".into(), is_tracked(item)?.into());
    if let Some(comment) = item.object.comment()? {
        about.insert("comment".into(), escape_text(comment.as_bytes()).into());
    }
    match item.object.kind() {
        ObjectKind::Group => {
            let links = item.links.iter().map(|link| link_value(contents, item, &link.name, &link.target));
            about.insert("links".into(), links.collect::<Result<Vec<_>>>()?.into());
        }
        ObjectKind::Datatype => {
            exported.datatypes += 1;
            about.insert("datatype".into(), datatype_value(&item.object.datatype()?)?);
        }
        ObjectKind::Dataset => {
            exported.datasets += 1;
            if let Some(dataset) = &item.dataset {
                dataset_values(contents, item, dataset, &mut about)?;
                exported.bytes += data(contents, item, dataset, &place)?;
            }
        }
    }
    let mut all = item.object.attributes()?;
    all.sort_by_key(|attribute| attribute.creation_order);
    let mut list = Vec::with_capacity(all.len());
    for attribute in all {
        let bytes = stream::write(contents, item.input, &attribute.datatype, &attribute.data)?;
        let name = escaped(attribute.name.as_bytes());
        let file = match item.object.kind() {
            ObjectKind::Group => place.join(format!("~{name}")),
            _ => append_suffix(&place, &format!("~{name}")),
        };
        write_new(&file, &bytes)?;
        exported.attributes += 1;
        list.push(attribute_value(contents, item.input, &attribute)?);
    }
    about.insert("attributes".into(), list.into());
    let mut text = serde_json::to_vec_pretty(&Value::Object(about))
        .map_err(|error| Error::corrupt(error.to_string()))?;
    text.push(b'\n');
    write_new(&about_at, &text)
}

fn write_new(path: &Path, bytes: &[u8]) -> Result<()> {
    let written = create_new(path).and_then(|mut file| file.write_all(bytes));
    written.map_err(|error| refused("write", path, &error))
}

fn is_tracked(item: &Item) -> Result<bool> {
    let links = item.object.kind() == ObjectKind::Group && item.object.group()?.tracks_order()?;
    Ok(links || hyperchunk::internal::pack::tracked(item))
}

/// Writes the data of a dataset.
fn data(contents: &Contents, item: &Item, dataset: &Dataset, place: &Path) -> Result<u64> {
    let write = |error: &io::Error| refused("write", place, error);
    let mut file = io::BufWriter::new(create_new(place).map_err(|error| write(&error))?);
    let mut written = 0;
    if *dataset.dataspace() == Dataspace::Null {
        return Ok(0);
    }
    let mut buffer = Vec::new();
    for slab in slabs(dataset, READ_BYTES) {
        let bytes = slab.count(dataset.dims())?.checked_mul(dataset.datatype().size);
        let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok());
        hyperchunk::room::resize(&mut buffer, bytes.ok_or_else(|| Error::limit("larger than memory"))?)?;
        dataset.read(&slab, &mut buffer)?;
        let bytes = stream::write(contents, item.input, dataset.datatype(), &buffer)?;
        file.write_all(&bytes).map_err(|error| write(&error))?;
        written += bytes.len() as u64;
    }
    file.flush().map_err(|error| write(&error))?;
    Ok(written)
}

fn dataset_values(
    contents: &Contents,
    item: &Item,
    dataset: &Dataset,
    about: &mut Map<String, Value>,
) -> Result<()> {
    about.insert("datatype".into(), datatype_value(dataset.datatype())?);
    let dataspace = match dataset.dataspace() {
        Dataspace::Simple { max, .. } => {
            Dataspace::Simple { dims: dataset.dims().to_vec(), max: max.clone() }
        }
        other => other.clone(),
    };
    about.insert("dataspace".into(), dataspace_value(&dataspace));
    about.insert("chunks".into(), dataset.chunked().map(|chunked| chunked.dims.clone()).into());
    about.insert("filters".into(), dataset.pipeline().iter().map(filter_value).collect::<Vec<_>>().into());
    about.insert("fill".into(), fill_value(contents, item.input, dataset)?);
    about.insert("committed".into(), committed(contents, item.input, dataset.committed()).into());
    Ok(())
}

/// Returns the path of the committed datatype at an address.
fn committed(contents: &Contents, input: usize, address: Option<u64>) -> Option<String> {
    let item = contents.items.get(contents.find(input, address?)?)?;
    Some(escape_text(&item.path))
}

fn attribute_value(contents: &Contents, input: usize, attribute: &Attribute) -> Result<Value> {
    Ok(json!({
        "name": escape_text(attribute.name.as_bytes()),
        "utf8": attribute.charset == CharacterSet::Utf8,
        "datatype": datatype_value(&attribute.datatype)?,
        "dataspace": dataspace_value(&attribute.dataspace),
        "committed": committed(contents, input, attribute.committed),
    }))
}

fn link_value(contents: &Contents, item: &Item, name: &Name, target: &LinkTarget) -> Result<Value> {
    let name = escape_text(name.as_bytes());
    Ok(match target {
        LinkTarget::Hard(address) => {
            let to = contents.find(item.input, *address).and_then(|to| contents.items.get(to));
            let to = to.ok_or_else(|| Error::corrupt(format!("the hard link {name} points to no object")))?;
            json!({ "name": name, "hard": escape_text(&to.path) })
        }
        LinkTarget::Soft(path) => json!({ "name": name, "soft": escape_text(path.as_bytes()) }),
        LinkTarget::External { file, path } => {
            json!({ "name": name, "file": escape_text(file.as_bytes()), "path": escape_text(path.as_bytes()) })
        }
        LinkTarget::User { class, data } => json!({ "name": name, "class": class, "data": hex(data) }),
    })
}

fn datatype_value(datatype: &Datatype) -> Result<Value> {
    let bytes = message::datatype::encode(datatype, LibVersion::V200)?;
    // Only for types that NumPy represents identically.
    let numpy = hyperchunk::npy::describe(datatype, 0).ok().filter(|(memory, _)| memory == datatype);
    let numpy = numpy.map(|(_, text)| text.trim_matches('\'').to_owned());
    Ok(json!({ "size": datatype.size, "numpy": numpy, "message": hex(&bytes) }))
}

fn dataspace_value(dataspace: &Dataspace) -> Value {
    match dataspace {
        Dataspace::Null => json!({ "kind": "null" }),
        Dataspace::Scalar => json!({ "kind": "scalar" }),
        Dataspace::Simple { dims, max } => json!({ "kind": "simple", "dims": dims, "max": max }),
    }
}

fn filter_value(filter: &Filter) -> Value {
    json!({
        "id": filter.id, "optional": filter.optional, "parameters": filter.parameters,
        "name": filter.name.as_ref().map(|name| escape_text(name.as_bytes())),
    })
}

fn fill_value(contents: &Contents, input: usize, dataset: &Dataset) -> Result<Value> {
    let fill = dataset.fill();
    let value = match &fill.value {
        FillWhen::Default => json!("default"),
        FillWhen::Undefined => json!("undefined"),
        // Its bytes are references into this file.
        FillWhen::User(bytes) if stream::is_stream(dataset.datatype()) => {
            json!({ "stream": hex(&stream::write(contents, input, dataset.datatype(), bytes)?) })
        }
        FillWhen::User(bytes) => json!({ "bytes": hex(bytes) }),
    };
    let allocation = match fill.allocation {
        AllocationTime::Default => "default",
        AllocationTime::Early => "early",
        AllocationTime::Late => "late",
        AllocationTime::Incremental => "incremental",
    };
    let time = match fill.time {
        FillTime::Allocation => "allocation",
        FillTime::Never => "never",
        FillTime::IfSet => "if set",
    };
    Ok(json!({ "value": value, "allocated": allocation, "written": time }))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Encodes bytes as text, reversibly: escapes `%` and bytes that are not UTF-8.
fn escape_text(bytes: &[u8]) -> String {
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains('%') => text.to_owned(),
        _ => bytes.iter().map(|byte| plain_or_escaped(*byte, byte.is_ascii() && *byte != b'%')).collect(),
    }
}

fn plain_or_escaped(byte: u8, plain: bool) -> String {
    if plain { char::from(byte).to_string() } else { format!("%{byte:02X}") }
}

/// Encodes a name as a unique file name of one component.
fn escaped(name: &[u8]) -> String {
    let text = std::str::from_utf8(name).ok();
    let means_something =
        |byte: u8| matches!(byte, b'%' | b'~' | b'/' | b'\\' | b':') || byte.is_ascii_control();
    match text {
        Some(text) if !name.iter().any(|byte| means_something(*byte)) && !text.starts_with('.') => {
            text.to_owned()
        }
        _ => name
            .iter()
            .enumerate()
            .map(|(at, byte)| {
                let plain = byte.is_ascii() && !means_something(*byte) && !(at == 0 && *byte == b'.');
                plain_or_escaped(*byte, plain)
            })
            .collect(),
    }
}

/// Returns the path of an object's file or folder.
fn object_path(folder: &Path, path: &[u8]) -> PathBuf {
    let names = path.split(|byte| *byte == b'/').filter(|name| !name.is_empty());
    names.fold(folder.to_owned(), |place, name| place.join(escaped(name)))
}

/// Appends text to the last component of a path.
fn append_suffix(path: &Path, more: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(more);
    PathBuf::from(name)
}

fn refused(what: &str, path: &Path, error: &io::Error) -> Error {
    let kind = if error.kind() == io::ErrorKind::NotFound { ErrorKind::NotFound } else { ErrorKind::Io };
    Error::new(kind, format!("cannot {what} {}: {error}", path.display()))
}

#[cfg(test)]
mod tests;
