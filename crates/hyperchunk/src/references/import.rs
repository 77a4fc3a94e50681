//! Import of kerchunk's references.

use crate::index::{DatasetChunks, Tables};
use crate::{Error, Result};
use hyperchunk_format::model::Chunk;
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};

/// Reads the locations of a file's chunks from kerchunk's JSON, version 1 or the older one without a version.
/// Arrays with chunks that are inlined in the references, or are in another file, are omitted; an index then
/// takes their chunks from the file itself.
///
/// `url` is the file's name; another name is accepted if it is the only one in the references.
///
/// # Errors
/// Invalid if the text is not such JSON, or if the references are to other files; Unsupported for generated
/// references.
pub fn import(text: &[u8], url: &str) -> Result<Tables> {
    let document: Value = serde_json::from_slice(text)
        .map_err(|error| invalid(format!("cannot parse the references as JSON: {error}")))?;
    let Value::Object(document) = document else {
        return Err(invalid("the references must be a JSON object"));
    };
    let refs = match document.get("refs") {
        Some(Value::Object(refs)) => refs,
        Some(_) => return Err(invalid("`refs` must be a JSON object")),
        None => &document,
    };
    if document.get("gen").is_some_and(|made| made.as_array().is_none_or(|made| !made.is_empty())) {
        return Err(Error::unsupported("generated references (`gen`) are not supported"));
    }
    let templates = document.get("templates").and_then(Value::as_object);
    let expand = |name: &str| {
        let mut name = name.to_owned();
        for (template, text) in templates.into_iter().flatten() {
            if let Some(text) = text.as_str() {
                name = name.replace(&format!("{{{{{template}}}}}"), text);
            }
        }
        name
    };
    let names: HashSet<String> = refs
        .values()
        .filter_map(|value| value.as_array()?.first()?.as_str())
        .collect::<HashSet<_>>()
        .into_iter()
        .map(expand)
        .collect();
    if names.len() > 1 && !names.contains(url) {
        return Err(invalid(format!("the references are to {} files, none of which is {url}", names.len())));
    }
    let here = |name: &str| names.len() == 1 || expand(name) == url;
    let mut tables = Tables::new();
    let mut refused = HashSet::new();
    for (array, metadata) in arrays(refs)? {
        let Some(chunk) = extents(&metadata) else { continue };
        tables.insert(
            format!("/{array}").into_bytes(),
            DatasetChunks { chunk, chunks: Vec::new(), filters: filters(&metadata) },
        );
    }
    for (key, value) in refs {
        // Chunks are in `array/0.0`, or in `array/0/0`.
        let Some((array, place)) = split(key, &tables) else { continue };
        let Some(scaled) = place.split(['.', '/']).map(|at| at.parse().ok()).collect::<Option<Vec<u64>>>()
        else {
            continue;
        };
        let Some(table) = tables.get_mut(&array) else { continue };
        let scaled = if table.chunk.is_empty() { Vec::new() } else { scaled };
        let parts = value.as_array().map(Vec::as_slice);
        match parts {
            Some([Value::String(name), offset, length]) if here(name) => {
                let (Some(address), Some(size)) = (offset.as_u64(), length.as_u64()) else {
                    return Err(invalid(format!("`{key}`: offset and length must be unsigned integers")));
                };
                table.chunks.push(Chunk { scaled, address, size, filter_mask: 0 });
            }
            _ => {
                refused.insert(array);
            }
        }
    }
    tables.retain(|array, _| !refused.contains(array));
    Ok(tables)
}

fn invalid(message: impl Into<String>) -> Error {
    Error::invalid(message)
}

/// Lists the arrays, with their `.zarray` metadata.
fn arrays(refs: &serde_json::Map<String, Value>) -> Result<BTreeMap<&str, Value>> {
    let mut arrays = BTreeMap::new();
    for (key, value) in refs {
        let Some(array) = key.strip_suffix("/.zarray") else { continue };
        let metadata = match value {
            Value::String(text) => serde_json::from_str(text)
                .map_err(|error| invalid(format!("cannot parse `{key}` as JSON: {error}")))?,
            other => other.clone(),
        };
        arrays.insert(array, metadata);
    }
    Ok(arrays)
}

/// Returns the extent of a chunk.
fn extents(metadata: &Value) -> Option<Vec<u64>> {
    metadata.get("chunks")?.as_array()?.iter().map(Value::as_u64).collect()
}

/// Returns the number of filters of its chunks.
fn filters(metadata: &Value) -> usize {
    let listed = metadata.get("filters").and_then(Value::as_array).map_or(0, Vec::len);
    listed + usize::from(metadata.get("compressor").is_some_and(Value::is_object))
}

/// Splits a key into the array's name and the coordinates of a chunk in it.
fn split<'k>(key: &'k str, tables: &Tables) -> Option<(Vec<u8>, &'k str)> {
    let mut end = key.len();
    while let Some(at) = key.get(..end)?.rfind('/') {
        let array = format!("/{}", key.get(..at)?).into_bytes();
        if tables.contains_key(&array) {
            return Some((array, key.get(at + 1..)?));
        }
        end = at;
    }
    None
}
