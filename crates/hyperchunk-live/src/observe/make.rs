//! Creation of an analysis: its source is loaded in the sandbox, and its record is signed.

use super::call::slots;
use super::{Analysis, Error, ErrorKind, Result};
use hyperchunk_udf::backend::Backend;
use hyperchunk_udf::cpp::TARGET;
use hyperchunk_udf::cpp::wasm::Language;
use hyperchunk_udf::datatype::{Datatype, ElementType};
use hyperchunk_udf::host::{Job, Programs, Session, cache, compile_cpp, compile_wasm};
use hyperchunk_udf::keys;
use hyperchunk_udf::observe::{self, CONTROL, DATA, RESULTS};
use hyperchunk_udf::profile::Profile;
use hyperchunk_udf::record::{CompiledForm, Declaration, Needs, Record, Slot};
use hyperchunk_udf::trust;
use hyperchunk_udf::wasm::TARGET_CPP;
use std::path::Path;
use std::sync::{Arc, Mutex};

/// Parameters for creating an analysis.
#[derive(Debug, Clone)]
pub struct AnalysisOptions<'a> {
    /// Language.
    pub backend: Backend,
    /// Source.
    pub source: &'a str,
    /// Declaration.
    pub declaration: Declaration,
    /// Skips signing: the analysis then runs in the profile `untrusted` everywhere.
    pub unsigned: bool,
}

/// Returns the language of a source by its extension, unless another one is named. C++ may be compiled to
/// WebAssembly.
///
/// # Errors
/// `Unsupported` for languages without support for analyses.
pub fn backend(path: &Path, named: Option<&str>) -> Result<Backend> {
    let written = Backend::from_path(path)?;
    let known = matches!(written, Backend::Lua | Backend::Python | Backend::Cpp);
    match named {
        Some("wasm") if written == Backend::Cpp => Ok(Backend::Wasm),
        None if known => Ok(written),
        Some(name) if known && name == written.short_name() => Ok(written),
        _ => {
            let message = "analyses are written in Lua, Python or C++; C++ may be compiled to WebAssembly (backend wasm)";
            Err(Error::new(ErrorKind::Unsupported, message).about(path.display().to_string()))
        }
    }
}

/// Creates the record of an analysis.
///
/// # Errors
/// `Failed` with the language's error for the source; `Key` without a signing key; `Invalid`, `Limit` or
/// `Unsupported` for an invalid declaration.
pub fn make(options: &AnalysisOptions<'_>) -> Result<Analysis> {
    let programs = Programs::find()?;
    let key = if options.unsigned { None } else { Some(keys::own_key()?) };
    if let Some(key) = &key {
        trust::check_revoked(&key.fingerprint())?;
    }
    let bytes = options.declaration.bytes;
    let mut record = Record {
        // The same declaration and source give the same identity: several processes that create an analysis
        // create one.
        id: options.declaration.identity(options.backend, options.source),
        backend: options.backend,
        output: Slot { name: RESULTS.into(), datatype: ElementType::UInt8.into(), dims: vec![bytes] },
        inputs: Vec::new(),
        scratch: Vec::new(),
        chunk: vec![bytes],
        blockwise: false,
        halo: Vec::new(),
        maximum: Vec::new(),
        uncut: Vec::new(),
        attributes: std::collections::BTreeMap::new(),
        sources: std::collections::BTreeMap::new(),
        needs: Needs::default(),
        analysis: Some(options.declaration.clone()),
        created: String::new(),
        source: options.source.to_owned(),
        compiled: None,
        signature: None,
    };
    // Checks before compilation or execution. A WebAssembly module is added later.
    let backend = if options.backend == Backend::Wasm { Backend::Cpp } else { options.backend };
    Record::parse_analysis(&Record { backend, ..record.clone() }.encode()?)?;
    if matches!(options.backend, Backend::Cpp | Backend::Wasm) {
        let source = observe::wrapped(options.backend, options.source)?;
        record.compiled = Some(compile(options.backend, &source, &programs)?);
    }
    try_source(&record, &programs)?;
    if let Some(key) = &key {
        key.sign(&mut record);
    }
    Analysis::parse(&record.encode()?)
}

/// Loads the source in the sandbox, so that errors appear now rather than at the first write.
fn try_source(record: &Record, programs: &Programs) -> Result<()> {
    let source = worker_source(record, programs)?;
    let job = Job {
        backend: record.backend,
        source: &source.source,
        compiled: source.compiled.as_deref().map(Vec::as_slice),
        profile: &Profile::named("self")?,
        file_path: "",
        slots: slots(ElementType::Float64.into(), 64, 64),
        files: Vec::new(),
        needs: Needs::default(),
    };
    Session::start(&job, programs).map(drop)
}

/// Compiles the source, which is C++ for both backends. WebAssembly requires all names in advance, and the
/// data may be of any type.
fn compile(backend: Backend, source: &str, programs: &Programs) -> Result<CompiledForm> {
    let byte = Datatype::from(ElementType::UInt8);
    match backend {
        Backend::Wasm => {
            let slots = [(RESULTS, &byte), (DATA, &byte), (CONTROL, &byte)];
            compile_wasm(Language::Cpp, source, slots, programs)
        }
        _ => compile_cpp(source, [(RESULTS, &byte)], programs),
    }
}

/// Source and object code for the worker.
pub(super) struct WorkerSource {
    pub(super) source: String,
    pub(super) compiled: Option<Arc<Vec<u8>>>,
}

/// Returns the source of an analysis in the form for the worker. C++ is compiled once a process, unless the
/// record has object code for this machine.
pub(super) fn worker_source(record: &Record, programs: &Programs) -> Result<WorkerSource> {
    static COMPILED: Mutex<Vec<(String, Arc<Vec<u8>>)>> = Mutex::new(Vec::new());
    const MAX_CACHED_OBJECTS: usize = 16;
    let source = observe::wrapped(record.backend, &record.source)?;
    let target = match record.backend {
        Backend::Cpp => TARGET,
        Backend::Wasm => TARGET_CPP,
        _ => return Ok(WorkerSource { source, compiled: None }),
    };
    if let Some(stored) = record.compiled.as_ref().filter(|compiled| compiled.target == target) {
        return Ok(WorkerSource { source, compiled: Some(Arc::new(stored.object.clone())) });
    }
    let known = cache(&COMPILED)
        .and_then(|list| list.iter().find(|(text, _)| *text == source).map(|(_, object)| Arc::clone(object)));
    if let Some(object) = known {
        return Ok(WorkerSource { source, compiled: Some(object) });
    }
    if record.backend == Backend::Wasm {
        // A reading machine may have no compiler for it.
        return Err(Error::new(
            ErrorKind::Invalid,
            "the record has no WebAssembly module that was compiled from C++",
        ));
    }
    let object = Arc::new(compile(record.backend, &source, programs)?.object);
    if let Some(mut list) = cache(&COMPILED) {
        if list.len() >= MAX_CACHED_OBJECTS {
            list.remove(0);
        }
        list.push((source.clone(), Arc::clone(&object)));
    }
    Ok(WorkerSource { source, compiled: Some(object) })
}
