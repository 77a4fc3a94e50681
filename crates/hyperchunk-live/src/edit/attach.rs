//! Attaching a function to a file.
//!
//! The source is parsed, its inputs are found, it is loaded in the sandbox, signed, and stored. All outputs
//! are one commit, so an interrupted attach leaves the file as it was.

use super::attributes::{self as attributes_given, Value};
use super::dimensions;
use super::fail;
use super::list::names;
use super::lookup::look_up;
use super::open::open;
use super::source;
use super::store::store;
use crate::sources;
use hyperchunk::File;
use hyperchunk_expression::Expression;
use hyperchunk_udf::backend::Backend;
use hyperchunk_udf::chunking::{self, Chunking, Growth};
use hyperchunk_udf::cpp::wasm::Language;
use hyperchunk_udf::cuda;
use hyperchunk_udf::datatype::Datatype;
use hyperchunk_udf::error::{Error, ErrorKind, Result};
use hyperchunk_udf::escape::escape;
use hyperchunk_udf::host::{Job, JobSlot, Programs, Session, Source, compile_cpp, compile_cuda};
use hyperchunk_udf::keys;
use hyperchunk_udf::profile::Profile;
use hyperchunk_udf::record::{CompiledForm, MAX_SEED, Needs, Record, Slot};
use hyperchunk_udf::scan::{self, Scan};
use hyperchunk_udf::signature::SigningKey;
use hyperchunk_udf::spec::{self, FunctionDatasets, InputInfo, OutputInfo, OutputSpec};
use hyperchunk_udf::stub::LiveId;
use hyperchunk_udf::trust;
use hyperchunk_udf::wasm;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;

/// The program to attach.
#[derive(Debug, Clone, Copy)]
pub enum Program<'a> {
    /// A source file, whose language follows from its name.
    File(&'a Path),
    /// An expression.
    Expression(&'a str),
}

/// Options of [`attach`].
#[derive(Debug, Clone, Default)]
pub struct Options {
    /// Replace existing datasets with the outputs' names.
    pub overwrite: bool,
    /// Do not sign: the function runs in the profile `untrusted` everywhere.
    pub unsigned: bool,
    /// The back end, if the source's name does not determine it: [`Backend::Wasm`] for C++.
    pub backend: Option<Backend>,
    /// Datasets that a WebAssembly module reads in addition to those it names itself.
    pub inputs: Vec<String>,
    /// The shape of the chunks. Without it, expressions get the fastest shape to read, and programs see whole
    /// arrays.
    pub chunking: Option<Chunking>,
    /// Number of elements by which a block of an input is extended at each side: one number for each
    /// dimension, or one for all.
    pub halo: Vec<u64>,
    /// How far the dataset may grow; without it, not at all.
    pub growth: Option<Growth>,
    /// Seed of the random numbers; without it, a new one if the function uses random numbers.
    pub seed: Option<u64>,
    /// Attributes to write to each output.
    pub attributes: Vec<(String, Value)>,
    /// Check everything, write nothing.
    pub dry_run: bool,
}

/// The result of attaching one output.
#[derive(Debug)]
pub struct AttachedDataset {
    /// The record.
    pub record: Record,
    /// The record as it is stored.
    pub json: String,
    /// The number of chunks.
    pub chunks: u64,
}

/// Attaches a program to the file at `path`, once for each output.
///
/// # Errors
/// `Syntax` for a source or description that cannot be parsed, `NotFound`, `Exists` (without
/// [`overwrite`](Options::overwrite)), `Failed` with a compiler's message, `Key` without a signing key, `Io`.
pub fn attach(
    path: &Path,
    program: Program<'_>,
    outputs: &[String],
    options: &Options,
) -> Result<Vec<AttachedDataset>> {
    let program = source::read(program, options.backend)?;
    if program.module.is_none() && !options.inputs.is_empty() {
        fail!(Syntax, "inputs can be named only for WebAssembly modules; in a source they are found")
    }
    let specs = outputs.iter().map(|o| OutputSpec::parse(o)).collect::<Result<Vec<_>>>()?;
    attach_source(path, program, &specs, options)
}

/// A program after reading its file.
pub(super) struct SourceText {
    pub(super) backend: Backend,
    /// Empty for a module.
    pub(super) text: String,
    /// A WebAssembly module.
    pub(super) module: Option<Vec<u8>>,
    /// The program's name in messages.
    pub(super) shown: String,
    /// True if the outputs keep the attributes of the datasets that they replace.
    pub(super) keep_attributes: bool,
}

/// Attaches a program that was read already.
pub(super) fn attach_source(
    path: &Path,
    program: SourceText,
    specs: &[OutputSpec],
    options: &Options,
) -> Result<Vec<AttachedDataset>> {
    let SourceText { backend, text: source, module, shown, keep_attributes } = program;
    let chosen = options.chunking.clone().unwrap_or(match backend {
        Backend::Expression => Chunking::Auto,
        _ => Chunking::Whole,
    });
    let programs = Programs::find()?;
    let python = if backend == Backend::Python { Some(programs.python()?) } else { None };
    let in_source = |e: Error| e.about(shown.clone());
    let scan = match &module {
        Some(module) => source::named(module, specs, &options.inputs).map_err(in_source)?,
        None => scan::scan(backend, &source, python.as_deref()).map_err(in_source)?,
    };
    let key = if options.unsigned { None } else { Some(keys::own_key()?) };
    if let Some(key) = &key {
        trust::check_revoked(&key.fingerprint())?;
    }
    attributes_given::check(&options.attributes)?;
    let opened = open(path, !options.dry_run)?;
    let file = &opened.file;
    let mut stored = HashMap::new();
    let mut missing: Vec<String> = Vec::new();
    let mut find = |name: &str| {
        let found = look_up(file, backend, name, &mut stored)?;
        if found.is_none() {
            missing.push(name.to_owned());
        }
        Ok(found)
    };
    let resolved = if backend == Backend::Expression {
        let expression = Expression::parse(&source).map_err(|e| in_source(e.into()))?;
        spec::resolve_expression(&expression, specs, &mut find)
    } else {
        spec::resolve(&scan, specs, &mut |name| Ok(find(name)?.map(|found| found.info)))
    };
    let checked = resolved.and_then(|resolved| {
        if specs.is_empty() && resolved.outputs.len() > 1 {
            spec::check_undescribed(&resolved, &names(file)?)?;
        }
        Ok(resolved)
    });
    let advise = |error: Error| match similar_name(file, &missing) {
        Some(name) if error.kind() == ErrorKind::Syntax && !error.message().contains("did you mean") => {
            error.advise(format_args!("did you mean {name}?"))
        }
        _ => error,
    };
    let resolved = checked.map_err(|e| advise(e).about(path.display().to_string()))?;
    let compiled = match backend {
        Backend::Cpp => {
            let outputs = resolved.outputs.iter().map(|o| (o.name.as_str(), &o.datatype));
            let inputs = resolved.inputs.iter().map(|i| (i.name.as_str(), &i.datatype));
            Some(compile_cpp(&source, outputs.chain(inputs), &programs).map_err(in_source)?)
        }
        Backend::Cuda => {
            let outputs = resolved.outputs.iter().map(|o| (o.name.as_str(), &o.datatype));
            let inputs = resolved.inputs.iter().map(|i| (i.name.as_str(), &i.datatype));
            source::check_cuda(&source, &resolved).map_err(in_source)?;
            let program = cuda::Program::parse(&source).map_err(in_source)?;
            Some(compile_cuda(&program, &source, outputs.chain(inputs), &programs).map_err(in_source)?)
        }
        Backend::Wasm => {
            let outputs = resolved.outputs.iter().map(|o| (o.name.as_str(), &o.datatype));
            let inputs = resolved.inputs.iter().map(|i| (i.name.as_str(), &i.datatype));
            let language = Language::from_path(Path::new(&shown));
            Some(
                source::compile(module, language, &source, outputs.chain(inputs), &programs)
                    .map_err(in_source)?,
            )
        }
        _ => None,
    };
    let needs = needs(backend, &scan, compiled.as_ref(), options.seed).map_err(in_source)?;
    // Loading a kernel needs a GPU. Its launch arguments were checked when it was compiled.
    if backend.has_worker() && backend != Backend::Cuda {
        try_source(backend, &source, compiled.as_ref(), needs, &resolved, &programs).map_err(in_source)?;
    }
    let empty = |i: &&InputInfo| i.dims.contains(&0) && resolved.outputs.iter().all(|o| o.dims != i.dims);
    if let Some(input) = resolved.inputs.iter().find(empty) {
        let text = format!("input {:?} has no elements", escape(&input.name, 80));
        return Err(Error::new(ErrorKind::Unsupported, text).about(path.display().to_string()));
    }
    let mut attached = Vec::new();
    for output in &resolved.outputs {
        let alike = resolved
            .inputs
            .iter()
            .filter(|i| i.dims == output.dims && i.attribute.is_none())
            .filter_map(|i| stored.get(&i.name));
        let (chunks, largest): (Vec<_>, Vec<_>) = alike.map(|s| (s.chunk.clone(), s.largest.clone())).unzip();
        let maximum = match &options.growth {
            Some(growth) => {
                growth.largest(&output.dims, &largest, &chosen).map_err(|e| e.about("--maxshape"))?
            }
            None => Vec::new(),
        };
        if output.dims.contains(&0) && maximum.is_empty() {
            let text = "it would have no elements, since its inputs have none; only a dataset that grows with them (`--maxshape inputs`) may start like that";
            return Err(Error::new(ErrorKind::Syntax, text).about(output.name.clone()));
        }
        let bounds = if maximum.is_empty() { &output.dims } else { &maximum };
        let chunk = chosen.shape(&output.dims, bounds, &output.datatype, &chunks)?;
        let halo = chunking::halo(&options.halo, &chosen, backend, &output.dims, &resolved.inputs)
            .map_err(|e| e.about("--halo"))?;
        let blocks = BlockShape { chunk, blockwise: chosen.blockwise(), halo, maximum };
        let made = ProgramForm { backend, source: &source, compiled: compiled.as_ref(), needs };
        let record = record(file, made, &resolved, output, blocks, key.as_ref())?;
        if backend == Backend::Cuda {
            record.check_cuda_plan().map_err(in_source)?;
        }
        let like = resolved.inputs.iter().filter(|i| i.dims == output.dims && i.attribute.is_none());
        let scales = dimensions::input_scales(file, like.map(|i| i.name.as_str()), output.dims.len())
            .map_err(|e| e.about(path.display().to_string()))?;
        let one = store(&opened, record, options, scales, keep_attributes)
            .map_err(|e| e.about(format!("{}:{}", path.display(), output.name)))?;
        attached.push(one);
    }
    opened.commit().map_err(|e| e.about(path.display().to_string()))?;
    Ok(attached)
}

/// Returns the name in the file of which one of `missing` may be a misspelling.
fn similar_name(file: &File, missing: &[String]) -> Option<String> {
    if missing.is_empty() {
        return None;
    }
    let all = names(file).ok()?;
    missing.iter().find_map(|name| spec::similar_name(name, &all)).map(|similar| escape(similar, 100))
}

/// Loads the source in the sandbox, so that mistakes show now and not at the first read.
fn try_source(
    backend: Backend,
    source: &str,
    compiled: Option<&CompiledForm>,
    needs: Needs,
    resolved: &FunctionDatasets,
    programs: &Programs,
) -> Result<()> {
    let slot = |name: &str, datatype: &Datatype, source| JobSlot {
        name: name.to_owned(),
        datatype: datatype.clone(),
        source,
    };
    let outputs = resolved.outputs.iter().map(|o| slot(&o.name, &o.datatype, Source::Output(64)));
    let inputs = resolved.inputs.iter().map(|i| slot(&i.name, &i.datatype, Source::Copied(64)));
    let job = Job {
        backend,
        source,
        compiled: compiled.map(|c| c.object.as_slice()),
        profile: &Profile::named("self")?,
        file_path: "",
        slots: outputs.chain(inputs).collect(),
        files: Vec::new(),
        needs,
    };
    Session::start(&job, programs).map(drop)
}

/// The division of a dataset into blocks.
struct BlockShape {
    chunk: Vec<u64>,
    blockwise: bool,
    halo: Vec<u64>,
    maximum: Vec<u64>,
}

/// Returns a function's requirements in addition to its inputs, from the calls in its source or the imports
/// of its module.
fn needs(backend: Backend, scan: &Scan, compiled: Option<&CompiledForm>, seed: Option<u64>) -> Result<Needs> {
    if let Some(seed) = seed
        && (!backend.has_worker() || backend == Backend::Cuda || seed > MAX_SEED)
    {
        fail!(
            Syntax,
            "a seed of {seed}: only programs that run on a processor have a seed, of at most {MAX_SEED}"
        )
    }
    let module = match (backend, compiled) {
        (Backend::Wasm, Some(compiled)) => wasm::check(&compiled.object)?,
        _ => wasm::Module { seed: scan.seed, clock: scan.clock, ..wasm::Module::default() },
    };
    let seed = match seed {
        None if module.seed => Some(Needs::new_seed()?),
        seed => seed,
    };
    Ok(Needs { seed, clock: module.clock })
}

/// A program in the form in which its records store it.
#[derive(Clone, Copy)]
struct ProgramForm<'a> {
    backend: Backend,
    source: &'a str,
    compiled: Option<&'a CompiledForm>,
    needs: Needs,
}

fn record(
    file: &File,
    made: ProgramForm<'_>,
    resolved: &FunctionDatasets,
    output: &OutputInfo,
    blocks: BlockShape,
    key: Option<&SigningKey>,
) -> Result<Record> {
    let slot =
        |o: &OutputInfo| Slot { name: o.name.clone(), datatype: o.datatype.clone(), dims: o.dims.clone() };
    let mut record = Record {
        id: LiveId::random()?,
        backend: made.backend,
        output: slot(output),
        inputs: resolved
            .inputs
            .iter()
            .map(|i| Slot { name: i.name.clone(), datatype: i.datatype.clone(), dims: i.dims.clone() })
            .collect(),
        attributes: resolved
            .inputs
            .iter()
            .filter_map(|i| Some((i.name.clone(), i.attribute.clone()?)))
            .collect(),
        sources: BTreeMap::new(),
        scratch: resolved.outputs.iter().filter(|o| o.name != output.name).map(slot).collect(),
        chunk: blocks.chunk,
        blockwise: blocks.blockwise,
        halo: blocks.halo,
        maximum: blocks.maximum,
        uncut: Vec::new(),
        needs: made.needs,
        analysis: None,
        created: keys::now(),
        source: made.source.to_owned(),
        compiled: made.compiled.cloned(),
        signature: None,
    };
    sources::add(file, &mut record)?;
    if let Some(key) = key {
        key.sign(&mut record);
    }
    // A record that cannot be read back must not be written.
    Record::parse(&record.encode()?)?;
    Ok(record)
}
