//! Conversion of datasets that HDF5-UDF wrote, with their source, to live datasets.

use super::attach::{AttachedDataset, Options, SourceText, attach_source};
use super::list::find;
use super::open::open;
use super::{fail, lookup};
use crate::inputs::memory_type;
use crate::to_udf_error;
use hyperchunk::model::Name;
use hyperchunk::write::{NodeId, Writer};
use hyperchunk_udf::error::{Error, ErrorKind, Result};
use hyperchunk_udf::escape::escape;
use hyperchunk_udf::legacy::LegacyDataset;
use hyperchunk_udf::record::ATTRIBUTE;
use hyperchunk_udf::spec::OutputSpec;
use std::path::Path;

/// Attaches the source that HDF5-UDF stored with the dataset at `dataset`, signed with the user's key.
/// Replaces the dataset and the function's other outputs; their attributes stay.
///
/// # Errors
/// `NotFound` when there is no source, `Unsupported` for a dataset that was renamed or was not written by
/// HDF5-UDF, and the errors of attaching. Nothing is changed then.
pub fn convert(path: &Path, dataset: &str, options: &Options) -> Result<Vec<AttachedDataset>> {
    let about = |e: Error| e.about(format!("{}:{dataset}", path.display()));
    let first = legacy(path, dataset).map_err(about)?;
    let text = first.own_source().map_err(about)?.to_owned();
    let bare = |name: &str| name.trim_start_matches('/').to_owned();
    if bare(dataset) != bare(&first.output) {
        let message = format!(
            "its source computes {:?}, and it was renamed since: give it that name again, convert it, and rename it then",
            escape(&first.output, 80)
        );
        return Err(about(Error::new(ErrorKind::Unsupported, message)));
    }
    let mut specs = Vec::new();
    for name in std::iter::once(&first.output).chain(&first.scratch) {
        let other = legacy(path, name)
            .map_err(|e| {
                Error::new(
                    e.kind(),
                    format!("its function computes {:?}, too: {}", escape(name, 80), e.message()),
                )
            })
            .map_err(about)?;
        if other.source != first.source {
            let message =
                format!("its function computes {:?}, too, which has another source", escape(name, 80));
            return Err(about(Error::new(ErrorKind::Unsupported, message)));
        }
        specs.push(described(path, name).map_err(about)?);
    }
    let program = SourceText {
        backend: first.language()?,
        text,
        module: None,
        shown: "the stored source".to_owned(),
        keep_attributes: true,
    };
    attach_source(path, program, &specs, &Options { overwrite: true, ..options.clone() })
}

fn legacy(path: &Path, dataset: &str) -> Result<LegacyDataset> {
    match find(path, dataset)?.legacy {
        Some(legacy) => Ok(legacy),
        None => {
            fail!(Unsupported, "it was not written by HDF5-UDF; for live datasets of ours there is `rebuild`")
        }
    }
}

/// Returns the name, shape and type of a dataset.
fn described(path: &Path, dataset: &str) -> Result<OutputSpec> {
    let file = open(path, false)?;
    let found = lookup::dataset(&file.file, dataset)?;
    let (datatype, _) = memory_type(found.datatype())?;
    Ok(OutputSpec { name: dataset.to_owned(), dims: Some(found.dims().to_vec()), datatype: Some(datatype) })
}

/// Copies the attributes that `to` lacks from `from`.
pub(super) fn copy_attributes(file: &Writer, from: NodeId, to: NodeId) -> Result<()> {
    let copy = |name: &Name| {
        if file.attribute(to, name.as_bytes())?.is_some() {
            return Ok(());
        }
        match file.attribute(from, name.as_bytes())? {
            Some(attribute) => file.set_attribute(to, attribute),
            None => Ok(()),
        }
    };
    let names = file.attribute_names(from).map_err(|error| to_udf_error(&error))?;
    // The record belongs to the replaced function.
    for name in names.iter().filter(|name| name.as_bytes() != ATTRIBUTE.as_bytes()) {
        copy(name).map_err(|e| {
            let name = escape(&name.to_string(), 80);
            Error::new(to_udf_error(&e).kind(), format!("its attribute {name:?} cannot be kept: {e}"))
        })?;
    }
    Ok(())
}
