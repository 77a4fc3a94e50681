//! `hyperchunk.json`, the manifest of a folder of Arrow files: the exported group, followed by the objects
//! below it, each after the group through which it was found.
//!
//! ```json
//! {"format": "hyperchunk-arrow", "version": 1, "source": "run.h5", "objects": [
//!   {"kind": "group", "path": "/", "links": [{"name": "a", "to": 1}, {"name": "b", "soft": "/a"}]},
//!   {"kind": "dataset", "path": "/a", "file": "a.arrow"},
//!   {"kind": "datatype", "path": "/t", "metadata": {"h5.dtype": "…"}}]}
//! ```

use crate::types::metadata::{decode_base64, encode_base64};
use crate::{Error, Result};
use hyperchunk::model::Name;
use serde_json::{Map, Value};
use std::collections::HashMap;

/// The name of the manifest.
pub(super) const MANIFEST: &str = "hyperchunk.json";
const FORMAT: &str = "hyperchunk-arrow";
const VERSION: u64 = 1;

/// An object.
#[derive(Debug, Clone, Default)]
pub(super) struct Entry {
    pub(super) kind: Kind,
    /// The first path under which it was found.
    pub(super) path: String,
    pub(super) metadata: HashMap<String, String>,
    pub(super) comment: Option<Name>,
    pub(super) track_order: bool,
    /// For a group.
    pub(super) links: Vec<(Name, Target)>,
    /// For a dataset: the file of its values.
    pub(super) file: Option<String>,
    /// For an omitted dataset: the reason.
    pub(super) missing: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Kind {
    #[default]
    Group,
    Dataset,
    Datatype,
}

/// The target of a link.
#[derive(Debug, Clone)]
pub(super) enum Target {
    /// An object, by its number.
    Object(usize),
    Soft(Name),
    External(Name, Name),
    User(u8, Vec<u8>),
}

/// Returns text, or base64 for bytes that are not UTF-8.
fn name_to_json(name: &Name) -> Value {
    match name.as_str() {
        Some(text) => text.into(),
        None => serde_json::json!({ "base64": encode_base64(name.as_bytes()) }),
    }
}

fn damaged(what: &str) -> Error {
    Error::corrupt(format!("the manifest {MANIFEST}: {what}"))
}

fn name_from_json(value: &Value) -> Result<Name> {
    if let Some(text) = value.as_str() {
        return Ok(Name::from(text));
    }
    let bytes =
        value.get("base64").and_then(Value::as_str).ok_or_else(|| damaged("a name that is not text"))?;
    decode_base64("base64", bytes).map(|bytes| Name::from(&*bytes))
}

pub(super) fn write(entries: &[Entry], source: &str) -> Vec<u8> {
    let objects: Vec<Value> = entries.iter().map(entry_to_json).collect();
    let manifest = serde_json::json!({
        "format": FORMAT,
        "version": VERSION,
        "source": source,
        "objects": objects,
    });
    serde_json::to_vec_pretty(&manifest).unwrap_or_default()
}

fn entry_to_json(entry: &Entry) -> Value {
    let mut made = Map::new();
    let kind = match entry.kind {
        Kind::Group => "group",
        Kind::Dataset => "dataset",
        Kind::Datatype => "datatype",
    };
    made.insert("kind".into(), kind.into());
    made.insert("path".into(), entry.path.clone().into());
    let mut text = |key: &str, value: &Option<String>| {
        if let Some(value) = value {
            made.insert(key.into(), value.clone().into());
        }
    };
    text("file", &entry.file);
    text("missing", &entry.missing);
    if let Some(comment) = &entry.comment {
        made.insert("comment".into(), name_to_json(comment));
    }
    if entry.track_order {
        made.insert("track_order".into(), true.into());
    }
    if !entry.metadata.is_empty() {
        let sorted: std::collections::BTreeMap<_, _> = entry.metadata.iter().collect();
        let metadata = sorted.into_iter().map(|(key, value)| (key.clone(), Value::from(value.clone())));
        made.insert("metadata".into(), Value::Object(metadata.collect()));
    }
    if entry.kind == Kind::Group {
        let links = entry.links.iter().map(|(name, target)| {
            let mut link = Map::from_iter([("name".to_owned(), name_to_json(name))]);
            match target {
                Target::Object(number) => drop(link.insert("to".into(), (*number).into())),
                Target::Soft(path) => drop(link.insert("soft".into(), name_to_json(path))),
                Target::External(file, path) => {
                    link.insert(
                        "external".into(),
                        Value::Array(vec![name_to_json(file), name_to_json(path)]),
                    );
                }
                Target::User(class, data) => {
                    link.insert("class".into(), (*class).into());
                    link.insert("data".into(), encode_base64(data).into());
                }
            }
            Value::Object(link)
        });
        made.insert("links".into(), Value::Array(links.collect()));
    }
    Value::Object(made)
}

pub(super) fn read(bytes: &[u8]) -> Result<Vec<Entry>> {
    let manifest: Value = serde_json::from_slice(bytes).map_err(|error| damaged(&error.to_string()))?;
    if manifest.get("format").and_then(Value::as_str) != Some(FORMAT) {
        return Err(damaged("unknown format"));
    }
    let version = manifest.get("version").and_then(Value::as_u64);
    if version != Some(VERSION) {
        let got = version.map_or_else(|| "none".to_owned(), |version| version.to_string());
        let message = format!("cannot read the manifest {MANIFEST}: expected version {VERSION}, got {got}");
        return Err(Error::unsupported(message));
    }
    let objects = manifest.get("objects").and_then(Value::as_array).ok_or_else(|| damaged("no objects"))?;
    let entries = objects.iter().map(entry_from_json).collect::<Result<Vec<_>>>()?;
    if entries.first().is_none_or(|root| root.kind != Kind::Group) {
        return Err(damaged("its first object is not a group"));
    }
    let beyond = |target: &Target| matches!(target, Target::Object(number) if *number >= entries.len());
    if entries.iter().flat_map(|entry| &entry.links).any(|(_, target)| beyond(target)) {
        return Err(damaged("a link to a missing object"));
    }
    Ok(entries)
}

fn entry_from_json(value: &Value) -> Result<Entry> {
    let text = |key: &str| value.get(key).and_then(Value::as_str).map(str::to_owned);
    let kind = match text("kind").as_deref() {
        Some("group") => Kind::Group,
        Some("dataset") => Kind::Dataset,
        Some("datatype") => Kind::Datatype,
        _ => return Err(damaged("an object of unknown kind")),
    };
    let mut metadata = HashMap::new();
    for (key, value) in value.get("metadata").and_then(Value::as_object).into_iter().flatten() {
        let value = value.as_str().ok_or_else(|| damaged("metadata that are not text"))?;
        metadata.insert(key.clone(), value.to_owned());
    }
    let links = value.get("links").and_then(Value::as_array).into_iter().flatten();
    Ok(Entry {
        kind,
        path: text("path").unwrap_or_default(),
        metadata,
        comment: value.get("comment").map(name_from_json).transpose()?,
        track_order: value.get("track_order").and_then(Value::as_bool).unwrap_or(false),
        links: links.map(link_from_json).collect::<Result<_>>()?,
        file: text("file"),
        missing: text("missing"),
    })
}

fn link_from_json(value: &Value) -> Result<(Name, Target)> {
    let name = value.get("name").ok_or_else(|| damaged("a link without a name"))?;
    let number = |key: &str| value.get(key).and_then(Value::as_u64);
    let target = if let Some(number) = number("to") {
        Target::Object(usize::try_from(number).unwrap_or(usize::MAX))
    } else if let Some(path) = value.get("soft") {
        Target::Soft(name_from_json(path)?)
    } else if let Some([file, path]) = value.get("external").and_then(Value::as_array).map(Vec::as_slice) {
        Target::External(name_from_json(file)?, name_from_json(path)?)
    } else {
        let class = number("class").and_then(|class| u8::try_from(class).ok());
        let class = class.ok_or_else(|| damaged("a link without a target"))?;
        let data = value.get("data").and_then(Value::as_str).unwrap_or_default();
        Target::User(class, decode_base64("data", data)?)
    };
    Ok((name_from_json(name)?, target))
}
