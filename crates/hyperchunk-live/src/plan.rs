//! Plans for computing the chunks of a live dataset in an open file: checked once, used for each chunk.

use crate::inputs::name_input;
use crate::to_udf_error;
use crate::{expression, inputs, sources, stored};
use hyperchunk::model::{Class, Dataspace};
use hyperchunk::{Dataset, File};
use hyperchunk_expression::Program;
use hyperchunk_udf::audit;
use hyperchunk_udf::backend::Backend;
use hyperchunk_udf::error::{Error, ErrorKind, Result};
use hyperchunk_udf::escape::escape;
use hyperchunk_udf::host::mapped::State;
use hyperchunk_udf::host::results::Results;
use hyperchunk_udf::host::{
    Job, JobSlot, Pool, Programs, Session, SessionKey, Source, cache, compiled_form, handle,
};
use hyperchunk_udf::legacy::LegacyDataset;
use hyperchunk_udf::profile::Profile;
use hyperchunk_udf::record::{ATTRIBUTE, FILTER_ID, MAX_RECORD_BYTES, Record, Slot};
use hyperchunk_udf::signature::{self, Fingerprint};
use hyperchunk_udf::stub::{RecordDigest, RecordLocation, Stub};
use hyperchunk_udf::trust;
use std::fs::Metadata;
use std::sync::{Arc, Mutex};

/// First word of the client data of the filter.
pub(crate) const CLIENT_DATA_VERSION: u32 = 1;
/// Maximum number of cached plans, over all files.
const MAX_CACHED_PLANS: usize = 64;

/// Plan for the live dataset of an open file.
#[derive(Debug)]
pub(crate) struct Plan {
    /// Engine's number of the open file.
    instance: u64,
    /// Version of the user's [trust configuration](trust::stamp) at creation.
    trust: u64,
    pub(crate) digest: RecordDigest,
    pub(crate) record: Record,
    signer: Option<Fingerprint>,
    pub(crate) profile: Profile,
    /// Path of the dataset, for messages.
    name: String,
    /// Path or URL of the file, for messages.
    file_path: String,
    /// Source of each slot's data, in the order of [`Record::slots`].
    pub(crate) key: Arc<SessionKey>,
    /// Expression of the record, if it has one.
    pub(crate) program: Option<Program>,
    /// Cache of results, if enabled.
    pub(crate) results: Option<Results>,
    /// True if HDF5-UDF wrote the dataset.
    legacy: bool,
    /// True if inputs that are read whole are stored in the file, so that they do not change.
    pub(crate) constant: bool,
}

static PLANS: Mutex<Vec<Arc<Plan>>> = Mutex::new(Vec::new());

/// Returns the plan for a dataset and one of its stubs.
pub(crate) fn of(dataset: &Dataset, stub: &Stub, legacy: Option<&LegacyDataset>) -> Result<Arc<Plan>> {
    let instance = dataset.object().file().instance();
    let trust = trust::stamp();
    let same = |plan: &&Arc<Plan>| {
        (plan.instance, plan.digest, plan.record.id, plan.trust) == (instance, stub.record, stub.id, trust)
            && plan.record.output.dims == dataset.dims()
    };
    if let Some(plan) = cache(&PLANS).and_then(|plans| plans.iter().find(same).map(Arc::clone)) {
        return Ok(plan);
    }
    let plan = Arc::new(Plan::new(dataset, stub, legacy)?);
    if let Some(mut plans) = cache(&PLANS) {
        if plans.len() >= MAX_CACHED_PLANS {
            plans.remove(0);
        }
        plans.push(Arc::clone(&plan));
    }
    Ok(plan)
}

fn fail<T>(kind: ErrorKind, message: impl Into<String>) -> Result<T> {
    Err(Error::new(kind, message))
}

impl Plan {
    /// Checks the dataset against its record, and locates the inputs.
    fn new(dataset: &Dataset, stub: &Stub, legacy: Option<&LegacyDataset>) -> Result<Self> {
        let trusted = trust::stamp();
        let file = dataset.object().file();
        let name = dataset.object().path().unwrap_or("(no name)").to_owned();
        let file_path =
            file.path().map_or_else(|| "(in memory)".to_owned(), |path| path.display().to_string());
        let shown = file.options().shown_as.as_ref().map(|path| path.display().to_string());
        let named = |error: Error| error.about(format!("{file_path}:{name}"));
        let verified = match legacy {
            Some(legacy) => record_from_legacy(dataset, legacy),
            None => verified(dataset, stub),
        };
        let (record, signer) = verified.map_err(|error| {
            let invalid = audit::Event::invalid(&file_path, &name, stub.record, &error);
            match legacy {
                Some(legacy) => {
                    let (signer, language) = (legacy.fingerprint(), legacy.language_name());
                    audit::note(&audit::Event { signer, language, ..invalid });
                    let text = format!("({}, of HDF5-UDF): {error}", escape(&legacy.backend, 20));
                    named(Error::new(error.kind(), text))
                }
                None => {
                    audit::note(&invalid);
                    named(error)
                }
            }
        })?;
        let record = record.grown(dataset.dims()).map_err(named)?;
        let note = |profile: Option<&str>, error: &Error| {
            let language = record.backend.short_name();
            let error = Some(error);
            let (file, dataset, record) = (file_path.as_str(), name.as_str(), stub.record);
            audit::note(&audit::Event { file, dataset, record, signer, profile, language, error });
        };
        let profile =
            legacy.map_or_else(|| Profile::for_signer(signer), LegacyDataset::profile).map_err(|error| {
                note(None, &error);
                let key = signer.map_or_else(|| "unsigned".to_owned(), |signer| format!("key {signer}"));
                named(Error::new(error.kind(), format!("({}, {key}): {error}", record.backend.short_name())))
            })?;
        if let Err(error) = profile.allow(record.backend, signer) {
            note(Some(&profile.name), &error);
        }
        let instance = file.instance();
        let results = Results::for_record(&record, &profile);
        let mut plan = Self {
            instance,
            trust: trusted,
            digest: stub.record,
            key: Arc::new(SessionKey {
                // A file that is not on disk is identified only by the engine's number.
                file: (u64::MAX, instance),
                version: (0, 0, 0),
                record: stub.record,
                profile: profile.clone(),
                file_path: shown.unwrap_or_else(|| file_path.clone()),
                slots: Vec::new(),
            }),
            record,
            signer,
            profile,
            name,
            file_path,
            program: None,
            results,
            legacy: legacy.is_some(),
            constant: true,
        };
        let (key, constant) =
            inputs::allowed(&plan.profile, || plan.checked(dataset)).map_err(|error| plan.explain(&error))?;
        (plan.key, plan.constant) = (Arc::new(key), constant);
        if plan.record.backend == Backend::Expression {
            let program = inputs::allowed(&plan.profile, || expression::prepare(file, &plan.record));
            let program = program.map_err(|error| plan.explain(&error))?;
            plan.program = Some(program);
        }
        Ok(plan)
    }

    /// Returns the key of a worker, and whether inputs that are read whole are constant.
    fn checked(&self, dataset: &Dataset) -> Result<(SessionKey, bool)> {
        let (record, file) = (&self.record, dataset.object().file());
        self.profile.allow(record.backend, self.signer)?;
        check_shape(dataset, record, self.legacy)?;
        let on_disk = file.on_disk().and_then(|file| file.metadata().ok());
        let output = |slot: &Slot| JobSlot {
            name: slot.name.clone(),
            datatype: slot.datatype.clone(),
            source: Source::Output(record.part_bytes(slot, false)),
        };
        let mut slots = vec![output(&record.output)];
        let mut constant = true;
        for input in &record.inputs {
            sources::check(file, record, input).map_err(|error| name_input(&error, input))?;
            if record.find_attribute(input).is_some() {
                crate::attributes::open(file, record, input).map_err(|error| name_input(&error, input))?;
                let source = Source::Copied(record.part_bytes(input, true));
                slots.push(JobSlot { name: input.name.clone(), datatype: input.datatype.clone(), source });
                continue;
            }
            let open = match record.backend {
                Backend::Expression => expression::dataset(file, record, input),
                _ => inputs::open(file, record, input),
            };
            let opened = open.map_err(|error| name_input(&error, input))?;
            constant &= record.is_cut(input) || inputs::is_stored_in(file, &opened);
            let whole_pieces = !record.is_cut(input) || record.blocks_are_pieces();
            let source = match inputs::place(file, input, &opened) {
                // Cached results are keyed by the bytes of their inputs, so these must be read.
                Some(offset) if on_disk.is_some() && whole_pieces && self.results.is_none() => {
                    Source::Mapped { file: 0, offset, bytes: input.bytes() }
                }
                _ if record.backend == Backend::Cuda
                    && self.results.is_none()
                    && stored::may_come(input, &opened) =>
                {
                    Source::Stored(record.part_bytes(input, true))
                }
                _ => Source::Copied(record.part_bytes(input, true)),
            };
            slots.push(JobSlot { name: input.name.clone(), datatype: input.datatype.clone(), source });
        }
        slots.extend(record.scratch.iter().map(output));
        let mut key = SessionKey { slots, ..SessionKey::clone(&self.key) };
        if let Some(m) = on_disk {
            if file.options().shown_as.is_none()
                && let Ok(path) = std::path::absolute(&key.file_path)
            {
                key.file_path = path.display().to_string();
            }
            (key.file, key.version) = state(&m);
        }
        Ok((key, constant))
    }

    /// Returns a worker for this plan, either an idle one or a new one.
    ///
    /// `key` is the plan's own, or one with capacity for the strings of one call.
    pub(crate) fn session(&self, file: &File, key: &Arc<SessionKey>) -> Result<Session> {
        if let Some(session) = Pool::global().take(key) {
            return Ok(session);
        }
        let record = &self.record;
        let programs = Programs::find()?;
        let compiled = match record.backend {
            Backend::Cpp | Backend::Wasm | Backend::Cuda => Some(compiled_form(record, &programs)?),
            // Bytecode, which only HDF5-UDF stored.
            _ if self.legacy => record.compiled.as_ref().map(|c| Arc::new(c.object.clone())),
            _ => None,
        };
        let mapped = self.key.slots.iter().any(|slot| matches!(slot.source, Source::Mapped { .. }));
        // A passed descriptor keeps its access mode: the engine's are read-only.
        let on_disk = file.on_disk().filter(|_| mapped);
        let job = Job {
            backend: record.backend,
            source: &record.source,
            compiled: compiled.as_deref().map(Vec::as_slice),
            profile: &self.profile,
            file_path: &key.file_path,
            slots: key.slots.clone(),
            files: on_disk.iter().map(|file| handle(file)).collect(),
            needs: record.needs,
        };
        Session::start(&job, &programs)
    }

    /// Records in the audit log, if there is one, that a chunk was computed, or the error.
    pub(crate) fn note(&self, error: Option<&Error>) {
        audit::note(&audit::Event {
            file: &self.file_path,
            dataset: &self.name,
            record: self.digest,
            signer: self.signer,
            profile: Some(&self.profile.name),
            language: self.record.backend.short_name(),
            error,
        });
    }

    /// Adds the file, the dataset, the language, the key and the profile to an error.
    pub(crate) fn explain(&self, error: &Error) -> Error {
        // An error of a live input dataset already names its origin.
        if error.object().is_some() {
            return error.clone();
        }
        let key = self.signer.map_or_else(|| "unsigned".to_owned(), |signer| format!("key {signer}"));
        let (language, profile) = (self.record.backend.short_name(), &self.profile.name);
        Error::new(error.kind(), format!("({language}, {key}, profile {profile}): {error}"))
            .about(format!("{}:{}", self.file_path, self.name))
    }
}

/// Checks that a dataset has the type, shape and chunks that its record says.
pub(crate) fn check_shape(dataset: &Dataset, record: &Record, legacy: bool) -> Result<()> {
    let chunk = dataset.chunked().map(|chunked| chunked.dims.clone()).unwrap_or_default();
    let wanted = &record.output.datatype;
    let fits = if legacy {
        inputs::file_type(dataset.datatype())? == *wanted
    } else {
        inputs::is_stored_as(dataset.datatype(), wanted)
    };
    if dataset.dims() != record.output.dims || !fits || chunk != record.chunk {
        let message = format!(
            "the dataset is {:?} in chunks of {chunk:?} and its record says {} {:?} in chunks of {:?}",
            dataset.dims(),
            escape(&record.output.datatype.name(), 200),
            record.output.dims,
            record.chunk
        );
        return fail(ErrorKind::Invalid, message);
    }
    Ok(())
}

/// Returns the identity of a file on disk, and the attributes that reveal a change.
pub(crate) fn state(m: &Metadata) -> State {
    hyperchunk::os::version(m)
}

/// Returns the verified record of a dataset, and its signer.
pub(crate) fn verified(dataset: &Dataset, stub: &Stub) -> Result<(Record, Option<Fingerprint>)> {
    let (bytes, _) = read_record(dataset)?;
    if RecordDigest::compute(&bytes) != stub.record {
        let message = "its record is not the one to which its chunks belong: it was changed";
        return fail(ErrorKind::Invalid, message);
    }
    let record = Record::parse(&bytes)?;
    let signer = signature::verify(&record)?;
    Ok((record, signer))
}

/// Converts a dataset of HDF5-UDF to a record; also returns its signer.
pub(crate) fn record_from_legacy(
    dataset: &Dataset,
    legacy: &LegacyDataset,
) -> Result<(Record, Option<Fingerprint>)> {
    // Files are not inspected further before their signer is known to be trusted.
    legacy.profile()?;
    let file = dataset.object().file();
    // Native code depends on the layout of structures; interpreters use names.
    let exact = legacy.language()? == Backend::Cpp;
    let slots = |names: &[String]| {
        names.iter().map(|name| inputs::slot(file, name, exact)).collect::<Result<Vec<_>>>()
    };
    let datatype = inputs::file_type(dataset.datatype())?;
    let record =
        legacy.record(dataset.dims().to_vec(), datatype, slots(&legacy.inputs)?, slots(&legacy.scratch)?)?;
    Ok((record, legacy.fingerprint()))
}

/// Returns the bytes of the record and their location: the first chunk after its stub, or an attribute.
pub(crate) fn read_record(dataset: &Dataset) -> Result<(Vec<u8>, RecordLocation)> {
    if let Some(note) = dataset.first_note().map_err(|error| to_udf_error(&error))?
        && let Ok((Stub { place: RecordLocation::Chunk, .. }, record)) = Stub::split(&note)
    {
        // The attribute is ignored, since the stub says that the record is in the first chunk.
        return match record {
            Some(record) => Ok((record.to_vec(), RecordLocation::Chunk)),
            None => fail(ErrorKind::Invalid, no_record()),
        };
    }
    let attribute = dataset.object().attribute(ATTRIBUTE.as_bytes()).map_err(|error| to_udf_error(&error))?;
    let Some(attribute) = attribute else {
        return fail(ErrorKind::Invalid, no_record());
    };
    let mut sequences = dataset.object().file().sequences();
    let bytes = match attribute.datatype.class {
        Class::String { .. } if matches!(attribute.dataspace, Dataspace::Scalar) => Some(attribute.data),
        Class::VlenString { .. } if matches!(attribute.dataspace, Dataspace::Scalar) => {
            Some(sequences.string(&attribute.data).map_err(|error| to_udf_error(&error))?.to_vec())
        }
        _ => None,
    };
    let Some(mut bytes) = bytes.filter(|bytes| bytes.len() <= MAX_RECORD_BYTES) else {
        return fail(ErrorKind::Invalid, format!("its record (attribute {ATTRIBUTE}) is not a string"));
    };
    let end = bytes.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
    bytes.truncate(end);
    Ok((bytes, RecordLocation::Attribute))
}

fn no_record() -> String {
    format!(
        "it has no record (in its first chunk or in the attribute {ATTRIBUTE}): it was removed, or the dataset was only partly copied"
    )
}

/// Returns whether the client data of the dataset's filter contain the stub's id.
pub(crate) fn matches_stub(dataset: &Dataset, stub: &Stub) -> bool {
    client_data(dataset).is_some_and(|words| {
        words.first() == Some(&CLIENT_DATA_VERSION) && words.get(1..) == Some(&stub.id.to_words()[..])
    })
}

/// Returns the client data of the dataset's filter.
pub(crate) fn client_data(dataset: &Dataset) -> Option<&[u32]> {
    let filter = dataset.pipeline().iter().find(|filter| i32::from(filter.id) == FILTER_ID);
    filter.map(|filter| filter.parameters.as_slice())
}
