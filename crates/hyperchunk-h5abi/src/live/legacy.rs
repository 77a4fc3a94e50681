//! Datasets of HDF5-UDF, converted to records.
//!
//! Their filter has no client data, so nothing in the dataset's header identifies them; they are recognised
//! by the contents of their chunk.

use super::locate::{Target, require_targets, target};
use super::plan::absolute;
use super::record::{VerifiedRecord, first_chunk};
use crate::errors::ErrorStackGuard;
use crate::handles::{Handle, c_name};
use crate::library::Library;
use crate::symbols::{ALL_FILES, Hid, OBJ_DATASET};
use crate::{Error, ErrorKind, Result, fail};
use hyperchunk_udf::audit;
use hyperchunk_udf::backend::Backend;
use hyperchunk_udf::escape::escape;
use hyperchunk_udf::legacy::{LegacyDataset, is_legacy};
use hyperchunk_udf::record::Slot;
use std::sync::Arc;

/// Returns the chunk of a dataset of HDF5-UDF, which holds its function; `None` for other datasets.
pub(crate) fn payload(library: &'static Library, dataset: Hid) -> Result<Option<Vec<u8>>> {
    let plist = library.create_plist(dataset)?;
    if library.live_filter(plist.id).is_none_or(|words| !words.is_empty()) {
        return Ok(None);
    }
    let Some(bytes) = first_chunk(library, dataset)? else {
        fail!(Invalid, "its chunk does not hold a function of HDF5-UDF")
    };
    Ok(is_legacy(&bytes).then_some(bytes))
}

/// Parses the chunk of an open dataset. An error names the dataset.
pub(super) fn parse(library: &'static Library, bytes: &[u8]) -> Result<LegacyDataset> {
    LegacyDataset::parse(bytes).map_err(|error| {
        let _quiet = ErrorStackGuard::new(library);
        let holds = |&dataset: &Hid| payload(library, dataset).ok().flatten().is_some_and(|b| b == bytes);
        let Some(dataset) = library.open_ids(ALL_FILES, OBJ_DATASET).into_iter().find(holds) else {
            return error;
        };
        let path = library.object_file(dataset).map(|file| library.object_name(file.id, library.f.file_name));
        error.about(format!(
            "{}:{}",
            path.unwrap_or_default(),
            library.object_name(dataset, library.f.id_name)
        ))
    })
}

/// Finds the open datasets whose chunk is `bytes`, with their plans: one for each file, as
/// [`locate`](super::locate::locate) does.
pub(super) fn locate(library: &'static Library, legacy: &LegacyDataset, bytes: &[u8]) -> Result<Vec<Target>> {
    let _quiet = ErrorStackGuard::new(library);
    let mut targets: Vec<Target> = Vec::new();
    for dataset in library.open_ids(ALL_FILES, OBJ_DATASET) {
        if payload(library, dataset).ok().flatten().is_none_or(|other| other != bytes) {
            continue;
        }
        let file = library.object_file(dataset)?;
        let instance = library.instance(&file)?;
        if targets.iter().any(|(_, plan)| plan.instance == instance) {
            continue;
        }
        targets.push(target(library, dataset, &file, instance, legacy.digest, || {
            verified(library, &file, dataset, legacy).map(Arc::new).map_err(|error| {
                let path = library.object_name(file.id, library.f.file_name);
                let name = library.object_name(dataset, library.f.id_name);
                audit::note(&audit::Event {
                    file: &path,
                    dataset: &name,
                    record: legacy.digest,
                    signer: legacy.fingerprint(),
                    profile: None,
                    language: legacy.language_name(),
                    error: Some(&error),
                });
                let text = format!("({}, of HDF5-UDF): {error}", escape(&legacy.backend, 20));
                Error::new(error.kind(), text).about(format!("{path}:{name}"))
            })
        })?);
    }
    require_targets(targets)
}

/// Creates the record of a dataset of HDF5-UDF.
pub(crate) fn verified(
    library: &'static Library,
    file: &Handle,
    dataset: Hid,
    legacy: &LegacyDataset,
) -> Result<VerifiedRecord> {
    // Check that the signer is trusted before examining anything else in the file.
    legacy.profile()?;
    let dims = library.dims(library.dataset_space(dataset)?.id)?;
    let (_, datatype) = library.unpadded_type(library.dataset_type(dataset)?.id)?;
    // Native code depends on the layout of structures; interpreters access members by name.
    let exact = legacy.language()? == Backend::Cpp;
    let slots = |names: &[String]| -> Result<Vec<Slot>> {
        names.iter().map(|name| slot(library, file, name, exact)).collect()
    };
    let record = legacy.record(dims, datatype, slots(&legacy.inputs)?, slots(&legacy.scratch)?)?;
    let signer = legacy.fingerprint();
    Ok(VerifiedRecord { digest: legacy.digest, record, signer, legacy: Some(legacy.clone()) })
}

/// Creates a slot with the current shape and type of a dataset named in the header, which does not record
/// them.
fn slot(library: &'static Library, file: &Handle, name: &str, exact: bool) -> Result<Slot> {
    let about = |e: Error| Error::new(e.kind(), format!("{:?}: {e}", escape(name, 80)));
    let read = || {
        let dataset = library
            .open_dataset(file.id, &c_name(&absolute(name))?)
            .map_err(|e| Error::new(ErrorKind::NotFound, e.message().to_owned()))?;
        let dims = library.dims(library.dataset_space(dataset.id)?.id)?;
        let file_type = library.dataset_type(dataset.id)?;
        let (_, datatype) = library.memory_type(file_type.id)?;
        if exact && datatype.flat_number().is_none() {
            check_layout(library, file_type.id)?;
        }
        Ok(Slot { name: name.to_owned(), datatype, dims })
    };
    read().map_err(about)
}

/// Fails if the type's layout in the file differs from C's. Compiled code uses the file's layout, so such a
/// dataset cannot be passed to it.
pub(super) fn check_layout(library: &'static Library, file_type: Hid) -> Result<()> {
    let (memory, datatype) = library.unpadded_type(file_type)?;
    // SAFETY: open identifiers.
    if unsafe { (library.f.type_equal)(memory.id, file_type) } <= 0 {
        fail!(
            Unsupported,
            "it is {} in another layout or another byte order than C's, which functions of HDF5-UDF cannot use yet: attach the source again",
            escape(&datatype.name(), 200)
        )
    }
    Ok(())
}
