//! Live datasets that are copied, moved or removed: their inputs, and checks of their records and stubs.

use crate::{plan, to_engine_error};
use hyperchunk::pack::LiveInput;
use hyperchunk::salvage::Evidence;
use hyperchunk::{Dataset, Error, Result};
use hyperchunk_udf::error::ErrorKind;
use hyperchunk_udf::legacy::{LegacyDataset, Signer, is_legacy};
use hyperchunk_udf::record::{Record, Slot};
use hyperchunk_udf::stub::Stub;

/// Returns the inputs of a live dataset; none if its record is damaged.
///
/// # Errors
/// The errors of reading the record.
pub(crate) fn inputs(dataset: &Dataset) -> Result<Vec<LiveInput>> {
    if let Some(note) = dataset.first_note()?
        && is_of_hdf5_udf(dataset, &note)
    {
        let legacy = LegacyDataset::parse(&note);
        let names = legacy.map(|legacy| legacy.inputs).unwrap_or_default().into_iter();
        return Ok(names.map(|name| LiveInput { path: name.clone(), name }).collect());
    }
    let bytes = match plan::read_record(dataset) {
        Ok((bytes, _)) => bytes,
        Err(error) if error.kind() == ErrorKind::Io => return Err(to_engine_error(&error)),
        Err(_) => return Ok(Vec::new()),
    };
    let Ok(record) = Record::parse(&bytes) else { return Ok(Vec::new()) };
    let input = |slot: &Slot| {
        let path = record.find_attribute(slot).map_or(slot.name.as_str(), |(object, _)| object);
        LiveInput { name: slot.name.clone(), path: path.to_owned() }
    };
    Ok(record.inputs.iter().map(input).collect())
}

/// Returns whether the bytes of a chunk are a function of HDF5-UDF.
fn is_of_hdf5_udf(dataset: &Dataset, chunk: &[u8]) -> bool {
    is_legacy(chunk) && plan::client_data(dataset).is_some_and(<[u32]>::is_empty)
}

/// Checks that the record of a live dataset is the one to which its first chunk belongs, and that its signature is
/// valid. A first chunk that is missing or damaged is left to [`check_chunk`], and a record of a later version is no
/// damage.
///
/// # Errors
/// Corrupt; the errors of reading.
pub(crate) fn check_record(dataset: &Dataset) -> Result<()> {
    let note = match dataset.first_note() {
        Err(error) if error.is_of_reading() => return Err(error),
        note => note.ok().flatten(),
    };
    let Some(note) = note.filter(|note| !is_of_hdf5_udf(dataset, note)) else { return Ok(()) };
    let Ok(stub) = Stub::parse(&note) else { return Ok(()) };
    match plan::verified(dataset, &stub) {
        Err(error) if error.kind() == ErrorKind::Io => Err(to_engine_error(&error)),
        Err(error) if error.kind() == ErrorKind::Invalid => {
            Err(Error::corrupt(format!("the live dataset is damaged: {error}")))
        }
        _ => Ok(()),
    }
}

/// Checks that the stored bytes of a chunk are a stub of the live dataset, or a function of HDF5-UDF.
///
/// # Errors
/// Corrupt.
pub(crate) fn check_chunk(dataset: &Dataset, chunk: &[u8]) -> Result<Evidence> {
    if is_of_hdf5_udf(dataset, chunk) {
        return match LegacyDataset::parse(chunk) {
            Ok(LegacyDataset { signer: Signer::Known(_), .. }) => Ok(Evidence::Checksum),
            Ok(LegacyDataset { signer: Signer::Nobody, .. }) => Ok(Evidence::Decoded),
            Ok(_) => {
                Err(Error::corrupt("its signature (of HDF5-UDF) is invalid: the compiled form was changed"))
            }
            Err(error) => Err(Error::corrupt(error.to_string())),
        };
    }
    match Stub::parse(chunk) {
        Ok(stub) if plan::matches_stub(dataset, &stub) => Ok(Evidence::Checksum),
        Ok(_) => Err(Error::corrupt("the chunk holds the stub of another live dataset")),
        // A stub of a later version.
        Err(error) if error.kind() == ErrorKind::Unsupported && chunk.starts_with(b"HCLD") => {
            Ok(Evidence::Unchecked)
        }
        Err(error) => Err(Error::corrupt(error.to_string())),
    }
}
