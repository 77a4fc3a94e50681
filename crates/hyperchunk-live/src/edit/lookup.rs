//! Looking up the inputs of a function by their names.

use super::types::stored_type;
use super::{absolute, fail};
use crate::{attributes, expression, inputs, to_udf_error};
use hyperchunk::model::Dataspace;
use hyperchunk::{Dataset, File, Object};
use hyperchunk_expression::Kind;
use hyperchunk_udf::backend::Backend;
use hyperchunk_udf::datatype::Datatype;
use hyperchunk_udf::error::{Error, ErrorKind, Result};
use hyperchunk_udf::escape::escape;
use hyperchunk_udf::spec::{ExpressionInput, InputInfo};
use std::collections::HashMap;

/// The storage layout of an input.
pub(super) struct InputLayout {
    /// The shape of its chunks, if it has any.
    pub(super) chunk: Option<Vec<u64>>,
    /// Its maximum shape.
    pub(super) largest: Vec<u64>,
}

/// Returns the object at a path, if every link on it exists and resolves to an object.
pub(super) fn object(file: &File, path: &str) -> Result<Option<Object>> {
    let found = file.root().and_then(|root| root.named("/").group()?.get(path.as_bytes()));
    match found {
        Ok(object) => Ok(Some(object)),
        Err(error) if error.kind() == hyperchunk::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(to_udf_error(&error)),
    }
}

/// Returns the dataset at a path.
pub(super) fn dataset(file: &File, path: &str) -> Result<Dataset> {
    let found = file.root().and_then(|root| root.named("/").group()?.get(path.as_bytes())?.dataset());
    found.map_err(|error| to_udf_error(&error))
}

/// Looks up an input: a dataset, or an attribute by a name of the form `object@attribute`. Adds a dataset's
/// layout to `stored`.
pub(super) fn look_up(
    file: &File,
    backend: Backend,
    name: &str,
    stored: &mut HashMap<String, InputLayout>,
) -> Result<Option<ExpressionInput>> {
    let about = |e: Error| Error::new(e.kind(), format!("input {:?}: {e}", escape(name, 80)));
    match object(file, &absolute(name))? {
        None => attribute(file, backend, name).map_err(about),
        Some(object) => found(&object, backend, name, stored).map(Some).map_err(about),
    }
}

/// Describes the dataset that is an input, and adds its layout to `stored`.
pub(super) fn found(
    object: &Object,
    backend: Backend,
    name: &str,
    stored: &mut HashMap<String, InputLayout>,
) -> Result<ExpressionInput> {
    let dataset = object.dataset().map_err(|error| to_udf_error(&error))?;
    inputs::not_null(&dataset)?;
    let dims = dataset.dims().to_vec();
    let largest = match dataset.dataspace() {
        Dataspace::Simple { max, .. } => {
            max.iter().map(|max| max.unwrap_or(hyperchunk_udf::record::UNLIMITED)).collect()
        }
        _ => dims.clone(),
    };
    let (datatype, kind) = input_type(backend, dataset.datatype())?;
    let chunk = dataset.chunked().map(|chunked| chunked.dims.clone());
    stored.insert(name.to_owned(), InputLayout { chunk, largest });
    let as_in_file = stored_type(dataset.datatype()).unwrap_or_else(|| datatype.clone());
    let info = InputInfo { name: name.to_owned(), dims, datatype, stored: as_in_file, attribute: None };
    Ok(ExpressionInput { info, kind })
}

/// Returns the type in the record of an input, and for an expression its kind.
fn input_type(backend: Backend, datatype: &hyperchunk::model::Datatype) -> Result<(Datatype, Option<Kind>)> {
    if backend != Backend::Expression {
        return Ok((inputs::memory_type(datatype)?.0, None));
    }
    match expression::number(datatype) {
        Some((kind, number)) => Ok((number.into(), Some(kind))),
        None => {
            // Reports the reason if functions cannot use the datatype either.
            inputs::memory_type(datatype)?;
            fail!(Unsupported, "its datatype is not a number, and expressions compute with numbers only")
        }
    }
}

/// Looks up an attribute by a name of the form `object@attribute`.
fn attribute(file: &File, backend: Backend, label: &str) -> Result<Option<ExpressionInput>> {
    for (at, _) in label.rmatch_indices('@') {
        let (Some(path), Some(name)) = (label.get(..at), label.get(at + 1..)) else { continue };
        if path.is_empty() || name.is_empty() {
            continue;
        }
        let Some(object) = object(file, &absolute(path))? else { continue };
        let attribute = object.attribute(name.as_bytes()).map_err(|error| to_udf_error(&error))?;
        let Some(attribute) = attribute else { continue };
        let found = attributes::describe(&object, attribute, backend)?;
        let (dims, datatype) = (found.dims, found.element);
        let stored = datatype.clone();
        let attribute = Some(name.to_owned());
        let info = InputInfo { name: label.to_owned(), dims, datatype, stored, attribute };
        return Ok(Some(ExpressionInput { info, kind: found.kind }));
    }
    Ok(None)
}

/// Returns an error for an input that is missing.
pub(super) fn missing(name: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("input {:?} is not in the file", escape(name, 80)))
}
