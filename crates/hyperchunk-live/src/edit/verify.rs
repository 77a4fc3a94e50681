//! Checks that each chunk of a live dataset holds its own stub, and that its inputs could be read.
//!
//! A reader cannot check the stubs: HDF5 does not tell a filter which chunk it reads.

use super::list::entry;
use super::open::open;
use super::{absolute, fail, lookup};
use crate::{attributes, inputs, plan, sources, to_udf_error};
use hyperchunk::model::Chunk;
use hyperchunk::{Dataset, File};
use hyperchunk_udf::backend::Backend;
use hyperchunk_udf::chunking::chunk_numbers;
use hyperchunk_udf::error::{Error, ErrorKind, Result};
use hyperchunk_udf::escape::escape;
use hyperchunk_udf::host::{Programs, probe};
use hyperchunk_udf::legacy::LegacyDataset;
use hyperchunk_udf::profile::{InputFiles, Profile};
use hyperchunk_udf::record::{MAX_RECORD_BYTES, Record, Slot};
use hyperchunk_udf::spec::ExpressionInput;
use hyperchunk_udf::stub::{LiveId, MAX_STUB_BYTES, RecordDigest, Stub};
use std::collections::{BTreeMap, BTreeSet, HashMap};
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

/// Checks that a reader could read the inputs of the live dataset at `dataset`, whose record is `record`: they exist
/// with the recorded shapes and types, where the profile permits inputs, and those that are live datasets would run
/// here, too, in a chain that is neither a cycle nor too long. Nothing of them is run.
///
/// # Errors
/// The reason why an input cannot be read: `NotFound`, `Invalid`, `Refused`, `Limit`.
pub(super) fn check_inputs(path: &Path, dataset: &str, record: &Record, profile: &Profile) -> Result<()> {
    let file = open(path, false)?;
    let dataset = lookup::dataset(&file.file, &absolute(dataset))?;
    Chain::default().live(&dataset, record, profile, InputFiles::Any)
}

/// Live datasets that read each other.
#[derive(Default)]
struct Chain {
    /// The live datasets on the way from the first one to the current one.
    active: Vec<LiveId>,
    /// Number of live datasets before each one that was checked, by its file, its address and the permitted
    /// locations of inputs.
    checked: BTreeMap<(u64, u64, InputFiles), usize>,
    /// Languages and profiles whose workers were tried.
    probed: BTreeSet<(&'static str, String)>,
}

impl Chain {
    /// Checks a live dataset that is read. `permitted` are the locations that the live datasets before it permit.
    fn live(
        &mut self,
        dataset: &Dataset,
        record: &Record,
        profile: &Profile,
        permitted: InputFiles,
    ) -> Result<()> {
        if self.active.contains(&record.id) {
            fail!(Invalid, "it reads itself: the inputs of live datasets form a cycle")
        }
        let (before, most) = (self.active.len(), profile.limits.chain_depth);
        if before >= most {
            fail!(
                Limit,
                "more than {most} live datasets read each other (profile {}, `chain_depth`)",
                profile.name
            )
        }
        let permitted = permitted.min(profile.inputs);
        let file = dataset.object().file();
        let place = (file.instance(), dataset.object().address(), permitted);
        if self.checked.get(&place).is_some_and(|checked| *checked >= before) {
            return Ok(());
        }
        self.active.push(record.id);
        let inputs = inputs::allowed(profile, || {
            record.inputs.iter().try_for_each(|input| {
                let named =
                    |e: Error| Error::new(e.kind(), format!("input {:?}: {e}", escape(&input.name, 80)));
                self.input(file, record, input, permitted).map_err(named)
            })
        });
        self.active.pop();
        inputs?;
        self.checked.insert(place, before);
        Ok(())
    }

    fn input(&mut self, file: &File, record: &Record, input: &Slot, permitted: InputFiles) -> Result<()> {
        sources::check(file, record, input)?;
        if record.find_attribute(input).is_some() {
            return attributes::open(file, record, input).map(drop);
        }
        let found = lookup::object(file, &absolute(&input.name))?;
        let Some(found) = found else { fail!(NotFound, "it is not in the file") };
        let ExpressionInput { info, .. } =
            lookup::found(&found, record.backend, &input.name, &mut HashMap::new())?;
        if !record.fits(input, &info.dims) || info.datatype != input.datatype {
            let now = escape(&info.datatype.name(), 200);
            fail!(
                Invalid,
                "{}",
                inputs::difference(record, input, (now.as_str(), &info.dims[..]), "function")
            )
        }
        let dataset = found.dataset().map_err(|error| to_udf_error(&error))?;
        for source in dataset.value_datasets().map_err(|error| to_udf_error(&error))? {
            if source.is_live() {
                self.nested(&source, permitted).map_err(|e| {
                    Error::new(e.kind(), format!("it is a live dataset that does not run here: {e}"))
                })?;
            }
        }
        Ok(())
    }

    /// Checks a live dataset that is the input of another one.
    fn nested(&mut self, dataset: &Dataset, permitted: InputFiles) -> Result<()> {
        let name = dataset.object().path().unwrap_or_default();
        let Some(entry) = entry(dataset.object(), name)? else { return Ok(()) };
        let profile = entry.profile?;
        let record = match (&entry.legacy, entry.record) {
            (Some(legacy), _) => plan::record_from_legacy(dataset, legacy)?.0,
            (None, record) => record?.0,
        };
        self.live(dataset, &record, &profile, permitted)?;
        let backend = worker_backend(record.backend, entry.legacy.is_some());
        if backend.has_worker() && self.probed.insert((backend.short_name(), profile.name.clone())) {
            probe(backend, &profile, &Programs::find()?, false)?;
        }
        Ok(())
    }
}

/// Returns the language whose worker shows whether a function runs here.
pub(super) fn worker_backend(backend: Backend, is_legacy: bool) -> Backend {
    match backend {
        // Trying C++ would need a compiler, the compiled form of HDF5-UDF does not: check Lua's sandbox, which is
        // equivalent.
        Backend::Cpp if is_legacy => Backend::Lua,
        other => other,
    }
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
