//! Attributes in JSON.

use super::zarr::number;
use crate::{Dataset, Object};
use hyperchunk_format::model::{Attribute, Class, Dataspace, ReferenceKind};
use serde_json::{Map, Value, json};

/// What belongs to HDF5's and netCDF's bookkeeping.
const HIDDEN: [&[u8]; 9] = [
    b"REFERENCE_LIST",
    b"CLASS",
    b"DIMENSION_LIST",
    b"NAME",
    b"_Netcdf4Dimid",
    b"_Netcdf4Coordinates",
    b"_nc3_strict",
    b"_NCProperties",
    b"_NCCOPY",
];
/// Longer attributes are left out, in bytes.
const LONGEST: usize = 1 << 20;

/// The attributes of a group.
pub(super) fn group(object: &Object) -> Value {
    Value::Object(plain(object))
}

/// The attributes of a dataset, and the names of its axes.
pub(super) fn array(dataset: &Dataset, rank: usize) -> Value {
    let mut attributes = plain(dataset.object());
    let names: Vec<String> = (0..rank).map(|axis| axis_name(dataset, axis)).collect();
    attributes.insert("_ARRAY_DIMENSIONS".into(), json!(names));
    Value::Object(attributes)
}

fn plain(object: &Object) -> Map<String, Value> {
    let mut attributes = Map::new();
    for (name, attribute) in object.each_attribute().unwrap_or_default() {
        let hidden = HIDDEN.contains(&name.as_bytes());
        let value = attribute.ok().filter(|_| !hidden).and_then(|attribute| value(object, &attribute));
        if let Some((name, value)) = name.as_str().zip(value) {
            attributes.insert(name.to_owned(), value);
        }
    }
    attributes
}

/// A value in JSON; `None` for what JSON cannot say.
fn value(object: &Object, attribute: &Attribute) -> Option<Value> {
    if attribute.data.len() > LONGEST {
        return None;
    }
    let size = usize::try_from(attribute.datatype.size).ok()?.max(1);
    let mut sequences = object.file().sequences();
    let mut elements = attribute.data.chunks_exact(size).map(|element| match &attribute.datatype.class {
        Class::String { .. } => {
            let end = element.iter().position(|byte| *byte == 0).unwrap_or(element.len());
            element.get(..end).map(|text| json!(String::from_utf8_lossy(text).trim_end_matches(' ')))
        }
        Class::VlenString { .. } => {
            sequences.string(element).ok().map(|text| json!(String::from_utf8_lossy(text)))
        }
        _ => number(&attribute.datatype, element),
    });
    match attribute.dataspace {
        Dataspace::Null => None,
        Dataspace::Scalar => elements.next()?,
        Dataspace::Simple { .. } => {
            let elements: Vec<Value> = elements.collect::<Option<_>>()?;
            // One value in a list is what netCDF makes of a value.
            match <[Value; 1]>::try_from(elements) {
                Ok([one]) => Some(one),
                Err(elements) => Some(Value::Array(elements)),
            }
        }
    }
}

/// The name of an axis: that of its scale, or of the dataset itself if that is one, or one made up.
fn axis_name(dataset: &Dataset, axis: usize) -> String {
    scale(dataset, axis).unwrap_or_else(|| format!("phony_dim_{axis}"))
}

fn scale(dataset: &Dataset, axis: usize) -> Option<String> {
    let object = dataset.object();
    let leaf = |path: &str| path.rsplit('/').next().map(str::to_owned).filter(|name| !name.is_empty());
    if let Ok(Some(list)) = object.attribute(b"DIMENSION_LIST") {
        let Class::Vlen { base } = &list.datatype.class else { return None };
        let size = usize::try_from(list.datatype.size).ok()?;
        let element = list.data.chunks_exact(size.max(1)).nth(axis)?;
        let mut sequences = object.file().sequences();
        let (_, bytes) = sequences.get(element, base).ok()??;
        let first = bytes.get(..usize::try_from(base.size).ok()?)?;
        let reference = object.file().reference(ReferenceKind::Object1, first).ok()??;
        return path_of(object, reference.address).and_then(|path| leaf(&path));
    }
    let class = object.attribute(b"CLASS").ok()??;
    (class.data.starts_with(b"DIMENSION_SCALE") && dataset.dims().len() == 1)
        .then(|| object.path().and_then(leaf))?
}

/// The path of an object in the groups above a dataset.
fn path_of(object: &Object, address: u64) -> Option<String> {
    let mut folder = object.path()?.to_owned();
    while let Some(at) = folder.rfind('/') {
        folder.truncate(at);
        let group = object.file().root().ok()?.group().ok()?;
        let group =
            if folder.is_empty() { group } else { group.get(folder.as_bytes()).ok()?.group().ok()? };
        let links = group.links().ok()?;
        let found = links.iter().find(|link| {
            matches!(link.target, hyperchunk_format::model::LinkTarget::Hard(target) if target == address)
        });
        if let Some(name) = found.and_then(|link| link.name.as_str()) {
            return Some(format!("{folder}/{name}"));
        }
    }
    None
}
