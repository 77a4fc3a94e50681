//! The metadata of a column about its dataset, and of a table about its object.

use crate::types::metadata::{self, FILL, LAYOUT, PATH, SPACE};
use crate::{Result, attributes_to_metadata};
use hyperchunk::model::{Class, Datatype, FillWhen, Layout};
use hyperchunk::{Dataset, Object};
use serde_json::{Value, json};
use std::collections::HashMap;

/// The reason for which existing attributes are not in the metadata.
const ATTRIBUTES_ERROR: &str = "h5.attrs.error";

/// Returns the metadata that are needed to create the dataset again.
pub(super) fn dataset(dataset: &Dataset) -> Result<HashMap<String, String>> {
    let mut found = object(dataset.object())?;
    found.insert(SPACE.to_owned(), metadata::space(dataset.dataspace()));
    found.insert(LAYOUT.to_owned(), layout(dataset).to_string());
    if let FillWhen::User(fill) = &dataset.fill().value
        && !fill.is_empty()
    {
        found.insert(FILL.to_owned(), metadata::encode_base64(fill));
    }
    Ok(found)
}

/// Returns the path and the attributes of an object.
pub(super) fn object(object: &Object) -> Result<HashMap<String, String>> {
    let mut found = HashMap::new();
    if let Some(path) = object.path() {
        found.insert(PATH.to_owned(), path.to_owned());
    }
    // Finding the targets of references needs a walk over the whole file.
    let far =
        object.file().is_remote() && object.attributes()?.iter().any(|attribute| refers(&attribute.datatype));
    if far {
        found.insert(ATTRIBUTES_ERROR.to_owned(), "references are not looked up over a network".to_owned());
        return Ok(found);
    }
    match attributes_to_metadata(object) {
        Ok(attributes) => found.extend(attributes),
        Err(error) if error.is_of_reading() => return Err(error),
        // An attribute without an Arrow equivalent must not prevent using the table.
        Err(error) => drop(found.insert(ATTRIBUTES_ERROR.to_owned(), error.to_string())),
    }
    Ok(found)
}

/// Returns whether elements are references, or contain some.
fn refers(datatype: &Datatype) -> bool {
    datatype.any(&mut |part| matches!(part.class, Class::Reference(_)))
}

fn layout(dataset: &Dataset) -> Value {
    let name = match dataset.layout() {
        _ if dataset.store().is_some() => "store",
        Layout::Compact { .. } => "compact",
        Layout::Contiguous { .. } if !dataset.external().is_empty() => "external",
        Layout::Contiguous { .. } => "contiguous",
        Layout::Chunked(_) => "chunked",
        Layout::Virtual { .. } => "virtual",
    };
    let mut layout = json!({ "layout": name });
    if let Some(chunked) = dataset.chunked() {
        layout["chunks"] = json!(chunked.dims);
    }
    if !dataset.pipeline().is_empty() {
        let filters = dataset.pipeline().iter().map(|filter| {
            let name = filter.name.as_ref().map(ToString::to_string);
            json!({ "id": filter.id, "name": name, "parameters": filter.parameters })
        });
        layout["filters"] = filters.collect();
    }
    layout
}
