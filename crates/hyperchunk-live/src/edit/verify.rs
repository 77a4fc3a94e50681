//! Checks that each chunk of a live dataset holds its own stub.
//!
//! A reader cannot check this: HDF5 does not tell a filter which chunk it reads.

use super::lookup::look_up;
use super::open::open;
use super::{fail, lookup};
use crate::{attributes, plan, sources, to_udf_error};
use hyperchunk::Dataset;
use hyperchunk::model::Chunk;
use hyperchunk_udf::chunking::chunk_numbers;
use hyperchunk_udf::error::{Error, ErrorKind, Result};
use hyperchunk_udf::escape::escape;
use hyperchunk_udf::legacy::LegacyDataset;
use hyperchunk_udf::record::{MAX_RECORD_BYTES, Record};
use hyperchunk_udf::spec::ExpressionInput;
use hyperchunk_udf::stub::{MAX_STUB_BYTES, RecordDigest, Stub};
use std::collections::HashMap;
use std::path::Path;

/// Reads every stub of the live dataset at `dataset`, whose record is `record` with the bytes `json`; returns
/// their number.
///
/// # Errors
/// `Invalid` with the first chunk that does not hold its own stub.
pub(super) fn verify_stubs(path: &Path, dataset: &str, record: &Record, json: &str) -> Result<u64> {
    let file = open(path, false)?;
    let found = lookup::dataset(&file.file, dataset)?;
    let chunks = found.chunks().map_err(|error| to_udf_error(&error))?;
    let chunks: HashMap<&[u64], &Chunk> = chunks.iter().map(|chunk| (&*chunk.scaled, chunk)).collect();
    let digest = RecordDigest::compute(json.as_bytes());
    let mut count = 0;
    for chunk in chunk_numbers(&record.output.dims, &record.chunk) {
        let wrong = |e: Error| Error::new(ErrorKind::Invalid, format!("chunk {chunk:?}: {e}"));
        let bytes = stored(&found, chunks.get(&*chunk).copied()).map_err(wrong)?;
        let (stub, trailing) = Stub::split(&bytes).map_err(wrong)?;
        if trailing.is_some_and(|trailing| trailing != json.as_bytes()) {
            fail!(Invalid, "chunk {chunk:?} holds another record")
        }
        if (stub.id, stub.record) != (record.id, digest) {
            fail!(Invalid, "chunk {chunk:?} holds the stub of another live dataset or record")
        }
        if stub.chunk != chunk {
            fail!(Invalid, "chunk {chunk:?} holds the stub of chunk {:?}", stub.chunk)
        }
        count += 1;
    }
    Ok(count)
}

/// Checks that the inputs of a record exist with the recorded shapes and types.
///
/// # Errors
/// `NotFound`, or `Invalid` with the first input that differs.
pub(super) fn check_inputs(path: &Path, record: &Record) -> Result<()> {
    let file = open(path, false)?;
    for input in &record.inputs {
        sources::check(&file.file, record, input)
            .map_err(|e| Error::new(e.kind(), format!("input {:?}: {e}", escape(&input.name, 80))))?;
        let about = |text: String| {
            Error::new(ErrorKind::Invalid, format!("input {:?} {text}", escape(&input.name, 80)))
        };
        if record.find_attribute(input).is_some() {
            attributes::open(&file.file, record, input)
                .map_err(|e| Error::new(e.kind(), format!("input {:?}: {e}", escape(&input.name, 80))))?;
            continue;
        }
        match look_up(&file.file, record.backend, &input.name, &mut HashMap::new())? {
            None => return Err(about("is not in the file".into())),
            Some(ExpressionInput { info: found, .. })
                if !record.fits(input, &found.dims) || found.datatype != input.datatype =>
            {
                let (now, then) = (found.datatype.name(), input.datatype.name());
                let text = format!(
                    "is {now} {:?} now, and was {then} {:?} when the function was attached; attach it again",
                    found.dims, input.dims
                );
                return Err(about(text));
            }
            Some(_) => {}
        }
    }
    Ok(())
}

/// Returns the record that a reader would derive from a dataset of HDF5-UDF, if it can run here.
///
/// # Errors
/// Errors of reading it, up to the worker's start.
pub(super) fn check_legacy(path: &Path, dataset: &str, legacy: &LegacyDataset) -> Result<Record> {
    let file = open(path, false)?;
    let dataset = lookup::dataset(&file.file, dataset)?;
    let (record, _) = plan::record_from_legacy(&dataset, legacy)?;
    plan::check_shape(&dataset, &record, true)?;
    Ok(record)
}

/// Reads the stored bytes of a chunk: a stub, and perhaps a record.
fn stored(dataset: &Dataset, chunk: Option<&Chunk>) -> Result<Vec<u8>> {
    let size = chunk.map_or(0, |chunk| chunk.size);
    let is_stub = usize::try_from(size).is_ok_and(|n| n > 0 && n <= MAX_RECORD_BYTES + MAX_STUB_BYTES);
    let Some(chunk) = chunk.filter(|_| is_stub) else {
        fail!(Invalid, "it has {size} bytes, which is not a stub")
    };
    dataset.read_chunk_raw(chunk).map_err(|error| to_udf_error(&error))
}
