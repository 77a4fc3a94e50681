//! Checks that each chunk of a live dataset holds its own stub.
//!
//! A reader cannot check this: HDF5 does not tell a filter which chunk it reads.

use super::attach::look_up;
use super::open::open;
use crate::errors::failure;
use crate::handles::c_name;
use crate::library::Library;
use crate::live::legacy::verified;
use crate::live::{attributes, check_shape, sources};
use crate::symbols::Hid;
use crate::{Error, ErrorKind, Result, fail};
use hyperchunk_udf::chunking::chunk_numbers;
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
pub(super) fn verify_stubs(
    library: &'static Library,
    path: &Path,
    dataset: &str,
    record: &Record,
    json: &str,
) -> Result<u64> {
    let file = open(library, path, false)?;
    let handle = library.open_dataset(file.handle.id, &c_name(dataset)?)?;
    let digest = RecordDigest::compute(json.as_bytes());
    let mut count = 0;
    for chunk in chunk_numbers(&record.output.dims, &record.chunk) {
        let wrong = |e: Error| Error::new(ErrorKind::Invalid, format!("chunk {chunk:?}: {e}"));
        let bytes = stored(library, handle.id, &chunk, &record.chunk).map_err(wrong)?;
        let (stub, behind) = Stub::split(&bytes).map_err(wrong)?;
        if behind.is_some_and(|behind| behind != json.as_bytes()) {
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
pub(super) fn check_inputs(library: &'static Library, path: &Path, record: &Record) -> Result<()> {
    let file = open(library, path, false)?;
    for input in &record.inputs {
        sources::check(library, file.handle.id, record, input)
            .map_err(|e| Error::new(e.kind(), format!("input {:?}: {e}", escape(&input.name, 80))))?;
        let about = |text: String| {
            Error::new(ErrorKind::Invalid, format!("input {:?} {text}", escape(&input.name, 80)))
        };
        if record.find_attribute(input).is_some() {
            attributes::check(library, record, file.handle.id, input)
                .map_err(|e| Error::new(e.kind(), format!("input {:?}: {e}", escape(&input.name, 80))))?;
            continue;
        }
        match look_up(library, file.handle.id, record.backend, &input.name, &mut HashMap::new())? {
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
pub(super) fn check_legacy(
    library: &'static Library,
    path: &Path,
    dataset: &str,
    legacy: &LegacyDataset,
) -> Result<Record> {
    let file = open(library, path, false)?;
    let handle = library.open_dataset(file.handle.id, &c_name(dataset)?)?;
    let verified = verified(library, &file.handle, handle.id, legacy)?;
    check_shape(library, handle.id, &verified)?;
    Ok(verified.record)
}

/// Reads the stored bytes of a chunk: a stub, and perhaps a record.
fn stored(library: &'static Library, dataset: Hid, chunk: &[u64], shape: &[u64]) -> Result<Vec<u8>> {
    let offset: Vec<u64> = chunk.iter().zip(shape).map(|(n, s)| n.saturating_mul(*s)).collect();
    let mut size = 0;
    // SAFETY: the offset has the dataset's rank, or HDF5 refuses the call; one live integer.
    if unsafe { (library.f.dataset_chunk_size)(dataset, offset.as_ptr(), &raw mut size) } < 0 {
        return Err(failure(library, "its size"));
    }
    let Some(bytes) = usize::try_from(size).ok().filter(|&n| n > 0 && n <= MAX_RECORD_BYTES + MAX_STUB_BYTES)
    else {
        fail!(Invalid, "it has {size} bytes, which is no stub")
    };
    let mut buffer = vec![0u8; bytes];
    let mut mask = 0u32;
    // SAFETY: as above, and the buffer has the size that HDF5 returned.
    let rc = unsafe {
        (library.f.dataset_read_chunk)(dataset, 0, offset.as_ptr(), &raw mut mask, buffer.as_mut_ptr().cast())
    };
    if rc < 0 {
        return Err(failure(library, "its bytes"));
    }
    Ok(buffer)
}
