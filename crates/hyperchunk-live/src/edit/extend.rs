//! Growing a live dataset to the shape of its inputs.

use super::list::find;
use super::lookup::{look_up, missing};
use super::open::open;
use super::store::write_chunks;
use super::{fail, lookup};
use crate::to_udf_error;
use hyperchunk::File;
use hyperchunk_udf::chunking::chunk_numbers;
use hyperchunk_udf::error::{Error, Result};
use hyperchunk_udf::record::Record;
use hyperchunk_udf::spec::resolution;
use hyperchunk_udf::stub::{RecordDigest, RecordLocation};
use std::collections::HashMap;
use std::path::Path;

/// The result of growing a live dataset.
#[derive(Debug)]
pub struct ExtendedDataset {
    /// Its new shape.
    pub dims: Vec<u64>,
    /// The number of chunks added.
    pub new_chunks: u64,
}

/// Grows a live dataset to the shape `to`, or to that of its inputs, and writes stubs to its new chunks. The
/// record permits growing, so nothing is signed again.
///
/// # Errors
/// `Invalid` for a dataset that cannot grow, or not to that shape; `NotFound`, `Io`.
pub fn extend(path: &Path, dataset: &str, to: Option<&[u64]>) -> Result<ExtendedDataset> {
    let about = |e: Error| e.about(format!("{}:{dataset}", path.display()));
    let entry = find(path, dataset)?;
    let (record, _) = entry.record.map_err(about)?;
    let digest = RecordDigest::compute(entry.json.as_bytes());
    grow(path, dataset, &record, (digest, entry.place), to).map_err(about)
}

fn grow(
    path: &Path,
    dataset: &str,
    record: &Record,
    (digest, place): (RecordDigest, RecordLocation),
    to: Option<&[u64]>,
) -> Result<ExtendedDataset> {
    if record.maximum.is_empty() {
        fail!(Invalid, "it cannot grow; attach it again with --maxshape")
    }
    let file = open(path, true)?;
    let inputs = shape_of_inputs(&file.file, record)?;
    let dims = match (to, &inputs) {
        (Some(dims), _) => dims.to_vec(),
        (None, Some(dims)) => dims.clone(),
        (None, None) => fail!(
            Invalid,
            "it has no input of its own shape to which it could grow; give the shape with --to"
        ),
    };
    let before = &record.output.dims;
    if dims.len() != before.len() || dims.iter().zip(before).any(|(now, before)| now < before) {
        fail!(
            Invalid,
            "it has the shape {} and cannot become {}: live datasets can only grow; attach it again",
            resolution(before),
            resolution(&dims)
        )
    }
    let grown = record.grown(&dims)?;
    if let Some(most) = inputs
        && dims.iter().zip(&most).any(|(now, most)| now > most)
    {
        fail!(
            Invalid,
            "cannot grow to {}: its inputs reach to {} only, and it could not be read; extend the inputs first",
            resolution(&dims),
            resolution(&most)
        )
    }
    let had = |chunk: &[u64]| {
        let ends = before.iter().zip(&record.chunk).map(|(&d, &c)| d.div_ceil(c));
        chunk.iter().zip(ends).all(|(&n, end)| n < end)
    };
    let new: Vec<Vec<u64>> =
        chunk_numbers(&grown.output.dims, &record.chunk).filter(|chunk| !had(chunk)).collect();
    if dims != *before {
        let engine = |error: hyperchunk::Error| to_udf_error(&error);
        let found = lookup::dataset(&file.file, dataset)?;
        let writer = file.writer()?.dataset(file.node(found.object().address())?).map_err(engine)?;
        writer.resize(&dims).map_err(engine)?;
        write_chunks(&writer, &grown, digest, place, new.iter().cloned())?;
        file.commit()?;
    }
    Ok(ExtendedDataset { dims, new_chunks: new.len() as u64 })
}

/// Returns the largest permitted shape for which all inputs of the dataset's shape have enough elements; `None` if it
/// has no such inputs.
fn shape_of_inputs(file: &File, record: &Record) -> Result<Option<Vec<u64>>> {
    let mut shape: Option<Vec<u64>> = None;
    for input in record.inputs.iter().filter(|input| record.is_cut(input)) {
        let Some(found) = look_up(file, record.backend, &input.name, &mut HashMap::new())? else {
            return Err(missing(&input.name));
        };
        let dims = found.info.dims;
        shape = Some(match shape {
            None => dims,
            Some(least) => least.iter().zip(&dims).map(|(a, b)| *a.min(b)).collect(),
        });
    }
    Ok(shape.map(|shape| shape.iter().zip(&record.maximum).map(|(d, most)| *d.min(most)).collect()))
}
