//! Recompiling and re-signing a live dataset from its stored source.

use super::attach::AttachedDataset;
use super::list::find;
use super::open::open;
use super::{fail, lookup, store};
use crate::{plan, sources, to_udf_error};
use hyperchunk_udf::backend::Backend;
use hyperchunk_udf::cpp::wasm::Language;
use hyperchunk_udf::cuda;
use hyperchunk_udf::error::{Error, ErrorKind, Result};
use hyperchunk_udf::host::{
    Job, JobSlot, Programs, Session, Source, compile_cpp, compile_cuda, compile_wasm,
};
use hyperchunk_udf::keys;
use hyperchunk_udf::profile::Profile;
use hyperchunk_udf::record::{Needs, Record};
use hyperchunk_udf::trust;
use hyperchunk_udf::wasm;
use std::path::Path;

/// Compiles the live dataset for this machine, if its language is compiled, and signs it with the user's key.
/// The dataset's id, links and other attributes stay. With `take_over`, this also replaces another user's
/// signature or signs an unsigned dataset.
///
/// # Errors
/// `Refused` for a dataset not signed with the user's key without `take_over`; `Invalid` for an invalid
/// record; errors of compiling and signing.
pub fn rebuild(path: &Path, dataset: &str, take_over: bool) -> Result<AttachedDataset> {
    let about = |e: Error| e.about(format!("{}:{dataset}", path.display()));
    let entry = find(path, dataset)?;
    let (mut record, signer) = entry.record.map_err(about)?;
    let key = keys::own_key()?;
    trust::check_revoked(&key.fingerprint())?;
    if signer != Some(key.fingerprint()) && !take_over {
        let who = signer.map_or_else(|| "nobody".to_owned(), |f| f.to_string());
        return Err(about(Error::new(
            ErrorKind::Refused,
            format!(
                "it is signed by {who}, and rebuilding would sign it with your key: look at what it does (hyperchunk udf show --source), then add --take-over"
            ),
        )));
    }
    if let Some(name) = record.uncut.first() {
        let name = hyperchunk_udf::escape::escape(name, 80);
        return Err(about(Error::new(
            ErrorKind::Unsupported,
            format!(
                "it has grown to the shape of {name:?}, which is read whole, but would be read in blocks by a record of that shape: let it grow further, then rebuild it"
            ),
        )));
    }
    let programs = Programs::find()?;
    let slots = || record.slots().map(|s| (s.name.as_str(), &s.datatype));
    let language = record.compiled.as_ref().and_then(|c| Language::with_target(&c.target));
    record.compiled = match (record.backend, language) {
        (Backend::Cpp, _) => Some(compile_cpp(&record.source, slots(), &programs).map_err(about)?),
        (Backend::Wasm, Some(language)) => {
            Some(compile_wasm(language, &record.source, slots(), &programs).map_err(about)?)
        }
        (Backend::Cuda, _) => {
            let program = cuda::Program::parse(&record.source).map_err(about)?;
            Some(compile_cuda(&program, &record.source, slots(), &programs).map_err(about)?)
        }
        // A module runs on every machine as it is.
        (Backend::Wasm, None) => record.compiled,
        _ => None,
    };
    if let (Backend::Wasm, Some(compiled)) = (record.backend, &record.compiled) {
        let module = wasm::check(&compiled.object).map_err(about)?;
        if module.seed && record.needs.seed.is_none() {
            record.needs.seed = Some(Needs::new_seed().map_err(about)?);
        }
        record.needs.clock |= module.clock;
    }
    if record.backend == Backend::Cuda {
        record.check_cuda_plan().map_err(about)?;
    } else if record.backend.has_worker() {
        try_record(&record, &programs).map_err(about)?;
    }
    // The signature also covers the current sources of the inputs.
    {
        let file = open(path, false).map_err(about)?;
        sources::add(&file.file, &mut record).map_err(about)?;
    }
    record.created = keys::now();
    key.sign(&mut record);
    let bytes = record.encode()?;
    Record::parse(&bytes)?;
    write(path, dataset, &record, &bytes).map_err(about)?;
    let chunks = record.output.dims.iter().zip(&record.chunk).map(|(&d, &c)| d.div_ceil(c)).product();
    Ok(AttachedDataset { json: String::from_utf8_lossy(&bytes).into_owned(), record, chunks })
}

/// Loads the source in the sandbox, so that a mistake shows before anything is written.
fn try_record(record: &Record, programs: &Programs) -> Result<()> {
    let outputs = 1 + record.inputs.len()..;
    let slot =
        |n: usize| if n == 0 || outputs.contains(&n) { Source::Output(64) } else { Source::Copied(64) };
    let slots = record.slots().enumerate().map(|(n, s)| JobSlot {
        name: s.name.clone(),
        datatype: s.datatype.clone(),
        source: slot(n),
    });
    let job = Job {
        backend: record.backend,
        source: &record.source,
        compiled: record.compiled.as_ref().map(|c| c.object.as_slice()),
        profile: &Profile::named("self")?,
        file_path: "",
        slots: slots.collect(),
        files: Vec::new(),
        needs: record.needs,
    };
    Session::start(&job, programs).map(drop)
}

fn write(path: &Path, dataset: &str, record: &Record, bytes: &[u8]) -> Result<()> {
    let file = open(path, true)?;
    let found = lookup::dataset(&file.file, dataset)?;
    let words = plan::client_data(&found);
    if words.and_then(|words| words.get(1..)) != Some(&record.id.to_words()[..]) {
        fail!(Invalid, "its record belongs to another live dataset")
    }
    let writer = file.writer()?.dataset(file.node(found.object().address())?);
    store::write(&writer.map_err(|error| to_udf_error(&error))?, record, bytes)?;
    file.commit()
}
