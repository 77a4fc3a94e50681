//! Conversion of attributes to JSON.

use super::zarr::number;
use crate::{Dataset, Object, Result};
use hyperchunk_format::model::{Attribute, Class, Dataspace, LinkTarget, ReferenceKind};
use serde_json::{Map, Value, json};
use std::collections::HashMap;

/// Attributes that HDF5 and netCDF use internally, which are omitted.
const INTERNAL_ATTRIBUTES: [&[u8]; 9] = [
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
/// Maximum size of an attribute in bytes; larger ones are omitted.
const MAX_ATTRIBUTE_BYTES: usize = 1 << 20;

/// Returns the attributes of a group.
pub(super) fn group(object: &Object) -> Result<Value> {
    plain(object).map(Value::Object)
}

/// Names for unnamed axes. Axes of equal length in a group share a name, as in netCDF-C and h5netcdf.
#[derive(Default)]
pub(super) struct UnnamedAxes {
    /// Lengths and names, by group.
    known: HashMap<String, Vec<(u64, String)>>,
}

impl UnnamedAxes {
    /// Returns the name of an axis of a dataset whose other axes have the names `taken`.
    fn name(&mut self, path: &str, length: u64, taken: &[String]) -> String {
        let group = path.rsplit_once('/').map_or("", |(group, _)| group);
        let known = self.known.entry(group.to_owned()).or_default();
        let found = known.iter().find(|(known, name)| *known == length && !taken.contains(name));
        if let Some((_, name)) = found {
            return name.clone();
        }
        let name = format!("phony_dim_{}", known.len());
        known.push((length, name.clone()));
        name
    }
}

/// Returns the attributes of a dataset, and the names of its axes, which have these lengths.
pub(super) fn array(dataset: &Dataset, lengths: &[u64], unnamed: &mut UnnamedAxes) -> Result<Value> {
    let mut attributes = plain(dataset.object())?;
    let mut names: Vec<String> = Vec::with_capacity(lengths.len());
    for (axis, length) in lengths.iter().enumerate() {
        let name = match axis_name(dataset, axis)? {
            Some(name) => name,
            None => unnamed.name(dataset.object().path().unwrap_or_default(), *length, &names),
        };
        names.push(name);
    }
    attributes.insert("_ARRAY_DIMENSIONS".into(), json!(names));
    Ok(Value::Object(attributes))
}

/// Converts an error about damaged contents to `None`; an error of reading is passed on.
fn stored<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_of_reading() => Err(error),
        Err(_) => Ok(None),
    }
}

/// Returns an object's attributes; ones that JSON cannot express are omitted.
pub(crate) fn plain(object: &Object) -> Result<Map<String, Value>> {
    let mut attributes = Map::new();
    for (name, attribute) in stored(object.each_attribute())?.unwrap_or_default() {
        let Some(attribute) = stored(attribute)?.filter(|_| !INTERNAL_ATTRIBUTES.contains(&name.as_bytes()))
        else {
            continue;
        };
        if let Some((name, value)) = name.as_str().zip(value(object, &attribute)?) {
            attributes.insert(name.to_owned(), value);
        }
    }
    Ok(attributes)
}

/// Converts a value to JSON; `None` for values that JSON cannot express.
fn value(object: &Object, attribute: &Attribute) -> Result<Option<Value>> {
    let size = usize::try_from(attribute.datatype.size).unwrap_or(usize::MAX).max(1);
    if attribute.data.len() > MAX_ATTRIBUTE_BYTES || matches!(attribute.dataspace, Dataspace::Null) {
        return Ok(None);
    }
    let mut sequences = object.file().sequences();
    let mut elements = Vec::new();
    for element in attribute.data.chunks_exact(size) {
        let value = match &attribute.datatype.class {
            Class::String { .. } => {
                let end = element.iter().position(|byte| *byte == 0).unwrap_or(element.len());
                let text = element.get(..end).unwrap_or_default();
                Some(json!(String::from_utf8_lossy(text).trim_end_matches(' ')))
            }
            Class::VlenString { .. } => {
                stored(sequences.string(element))?.map(|text| json!(String::from_utf8_lossy(text)))
            }
            _ => number(&attribute.datatype, element),
        };
        let Some(value) = value else { return Ok(None) };
        elements.push(value);
    }
    // A single element becomes a plain value, since netCDF stores single values as lists of one.
    Ok(Some(match <[Value; 1]>::try_from(elements) {
        Ok([one]) => one,
        Err(elements) => Value::Array(elements),
    }))
}

/// Returns the name of an axis: the name of its dimension scale, or of the dataset itself if that is a scale.
fn axis_name(dataset: &Dataset, axis: usize) -> Result<Option<String>> {
    Ok(match stored(dataset.object().attribute(b"DIMENSION_LIST"))?.flatten() {
        Some(list) => stored(scale(dataset, axis, &list))?.flatten(),
        None => {
            let class = stored(dataset.object().attribute(b"CLASS"))?.flatten();
            let is_scale = class.is_some_and(|class| class.data.starts_with(b"DIMENSION_SCALE"));
            let path = dataset.object().path().filter(|_| is_scale && dataset.dims().len() == 1);
            path.filter(|_| axis == 0).and_then(leaf)
        }
    })
}

/// Returns the last name of a path.
fn leaf(path: &str) -> Option<String> {
    path.rsplit('/').next().map(str::to_owned).filter(|name| !name.is_empty())
}

/// Returns the name of an axis's first dimension scale.
fn scale(dataset: &Dataset, axis: usize, list: &Attribute) -> Result<Option<String>> {
    let object = dataset.object();
    let Class::Vlen { base } = &list.datatype.class else { return Ok(None) };
    let size = usize::try_from(list.datatype.size).unwrap_or(usize::MAX).max(1);
    let Some(element) = list.data.chunks_exact(size).nth(axis) else { return Ok(None) };
    let mut sequences = object.file().sequences();
    let Some((_, bytes)) = sequences.get(element, base)? else { return Ok(None) };
    let first = usize::try_from(base.size).ok().and_then(|size| bytes.get(..size));
    let Some(first) = first else { return Ok(None) };
    match object.file().reference(ReferenceKind::Object1, first)? {
        Some(reference) => name_in_groups_above(object, reference.address),
        None => Ok(None),
    }
}

/// Returns an object's name in one of the groups above a dataset, the nearest first.
fn name_in_groups_above(object: &Object, address: u64) -> Result<Option<String>> {
    let Some(path) = object.path() else { return Ok(None) };
    let mut folder = path.to_owned();
    while let Some(at) = folder.rfind('/') {
        folder.truncate(at);
        let group = object.file().root()?.group()?;
        let group = if folder.is_empty() { group } else { group.get(folder.as_bytes())?.group()? };
        let links = group.links()?;
        let found = links.iter().find(|link| link.target == LinkTarget::Hard(address));
        if let Some(name) = found.and_then(|link| link.name.as_str()) {
            return Ok(Some(name.to_owned()));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_a_group_go_on_after_its_subgroups() {
        let mut axes = UnnamedAxes::default();
        assert_eq!(axes.name("/a/first", 3, &[]), "phony_dim_0");
        assert_eq!(axes.name("/a/inner/x", 7, &[]), "phony_dim_0");
        assert_eq!(axes.name("/a/last", 5, &[]), "phony_dim_1");
        assert_eq!(axes.name("/a/last", 3, &[]), "phony_dim_0");
        assert_eq!(axes.name("/a/square", 3, &["phony_dim_0".into()]), "phony_dim_2");
    }
}
