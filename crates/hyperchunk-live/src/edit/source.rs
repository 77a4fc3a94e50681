//! Reading the program to attach: a source, or a WebAssembly module.

use super::attach::{Program, SourceText};
use super::fail;
use hyperchunk_udf::backend::Backend;
use hyperchunk_udf::cpp::wasm::Language;
use hyperchunk_udf::cuda;
use hyperchunk_udf::datatype::Datatype;
use hyperchunk_udf::error::{Error, ErrorKind, Result};
use hyperchunk_udf::host::{Programs, compile_wasm};
use hyperchunk_udf::record::CompiledForm;
use hyperchunk_udf::scan::Scan;
use hyperchunk_udf::spec::{FunctionDatasets, OutputSpec, normal_name};
use hyperchunk_udf::wasm;
use std::path::Path;

/// Maximum size of a source, in bytes.
const MAX_SOURCE_BYTES: u64 = 16 << 20;

/// Reads the program. `wanted` is the back end that the user asked for.
pub(super) fn read(program: Program<'_>, wanted: Option<Backend>) -> Result<SourceText> {
    let path = match program {
        Program::File(path) => path,
        Program::Expression(_) if wanted.is_some_and(|w| w != Backend::Expression) => {
            fail!(Syntax, "an expression has no other back end")
        }
        Program::Expression(text) => {
            let (backend, shown) = (Backend::Expression, "the expression".to_owned());
            return Ok(source_text(backend, text.to_owned(), None, shown));
        }
    };
    let shown = path.display().to_string();
    let natural = Backend::from_path(path)?;
    let backend = match (wanted, natural) {
        (Some(Backend::Wasm), Backend::Cpp) => Backend::Wasm,
        (Some(wanted), natural) if wanted != natural => {
            let text = format!("a {} source does not run as {}", natural.short_name(), wanted.short_name());
            return Err(Error::new(ErrorKind::Syntax, text).about(shown));
        }
        _ => natural,
    };
    let bytes = read_file(path)?;
    if backend == Backend::Wasm && is(path, "wasm") {
        return Ok(source_text(backend, String::new(), Some(bytes), shown));
    }
    match String::from_utf8(bytes) {
        Ok(source) => Ok(source_text(backend, source, None, shown)),
        Err(_) => Err(Error::new(ErrorKind::Syntax, "the source is not UTF-8 text").about(shown)),
    }
}

fn source_text(backend: Backend, text: String, module: Option<Vec<u8>>, shown: String) -> SourceText {
    SourceText { backend, text, module, shown, keep_attributes: false }
}

fn is(path: &Path, extension: &str) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case(extension))
}

/// Returns the datasets of a module: the names in the module, or else the described outputs, and the user's
/// `inputs`.
pub(super) fn named(module: &[u8], specs: &[OutputSpec], inputs: &[String]) -> Result<Scan> {
    let wasm::Module { datasets: mut names, seed, clock } = wasm::check(module)?;
    if names.is_empty() {
        names.extend(specs.iter().map(|s| s.name.clone()));
    }
    for input in inputs {
        if normal_name(input).is_empty() || input.contains('\0') {
            fail!(Syntax, "{input:?} cannot be the name of a dataset")
        }
        if !names.contains(input) {
            names.push(input.clone());
        }
    }
    Ok(Scan { names, seed, clock })
}

/// Returns the module itself, or compiles one from the source.
pub(super) fn compile<'a>(
    module: Option<Vec<u8>>,
    language: Language,
    source: &str,
    slots: impl IntoIterator<Item = (&'a str, &'a Datatype)>,
    programs: &Programs,
) -> Result<CompiledForm> {
    match module {
        Some(object) => Ok(CompiledForm { target: wasm::TARGET.into(), object }),
        None => Ok(compile_wasm(language, source, slots, programs)?),
    }
}

/// Checks that the datasets match a CUDA source's parameters. Runs before compiling, so that messages name
/// the file's datasets.
pub(super) fn check_cuda(source: &str, resolved: &FunctionDatasets) -> Result<()> {
    let dataset = |name, datatype, dims, output| cuda::Dataset { name, datatype, dims, start: &[], output };
    let outputs = resolved.outputs.iter().map(|o| dataset(&o.name, &o.datatype, &o.dims, true));
    let inputs = resolved.inputs.iter().map(|i| dataset(&i.name, &i.datatype, &i.dims, false));
    let datasets: Vec<_> = outputs.chain(inputs).collect();
    cuda::Program::parse(source)?.check(&datasets)
}

fn read_file(path: &Path) -> Result<Vec<u8>> {
    let about = || path.display().to_string();
    let meta = std::fs::metadata(path).map_err(|e| match e.kind() {
        std::io::ErrorKind::NotFound => {
            Error::new(ErrorKind::NotFound, "there is no such source").about(about())
        }
        _ => Error::io(about(), &e),
    })?;
    if meta.len() > MAX_SOURCE_BYTES {
        let text = format!("the source has more than {} MiB", MAX_SOURCE_BYTES >> 20);
        return Err(Error::new(ErrorKind::Limit, text).about(about()));
    }
    std::fs::read(path).map_err(|e| Error::io(about(), &e))
}
