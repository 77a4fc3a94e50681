//! Live datasets for Python: attaching, listing and verifying them, and conversion of errors to exceptions.

use hyperchunk_live::edit;
use hyperchunk_udf::backend::Backend;
use hyperchunk_udf::chunking;
use hyperchunk_udf::error::{Error, ErrorKind};
use pyo3::prelude::*;
use std::path::PathBuf;

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(attach, module)?)?;
    module.add_function(wrap_pyfunction!(list_live, module)?)?;
    module.add_function(wrap_pyfunction!(remove, module)?)?;
    module.add_function(wrap_pyfunction!(extend, module)?)?;
    module.add_function(wrap_pyfunction!(verify_live, module)?)?;
    module.add_function(wrap_pyfunction!(explain_live, module)?)?;
    module.add_function(wrap_pyfunction!(rebuild_live, module)?)?;
    module.add_function(wrap_pyfunction!(convert_live, module)?)?;
    Ok(())
}

/// Returns the class in `hyperchunk.exceptions` for a kind of error.
fn class_name(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Syntax => "UdfSyntaxError",
        ErrorKind::Unsupported => "UnsupportedError",
        ErrorKind::NotFound => "NotFoundError",
        ErrorKind::Exists => "ExistsError",
        ErrorKind::Invalid => "InvalidRecordError",
        ErrorKind::Refused => "RefusedError",
        ErrorKind::Violation => "SandboxError",
        ErrorKind::Limit => "LimitError",
        ErrorKind::Failed => "UdfError",
        ErrorKind::Worker => "WorkerError",
        ErrorKind::Key => "KeyFileError",
        _ => "HyperchunkError",
    }
}

pub(crate) fn to_python(py: Python<'_>, error: &Error) -> PyErr {
    let class = py.import("hyperchunk.exceptions").and_then(|m| m.getattr(class_name(error.kind())));
    match class.and_then(|c| c.call1((error.to_string(),))) {
        Ok(value) => PyErr::from_value(value),
        Err(other) => other,
    }
}

/// Value of an attribute.
#[derive(FromPyObject)]
enum Value {
    Integer(i64),
    Number(f64),
    Text(String),
}

impl From<Value> for edit::Value {
    fn from(value: Value) -> Self {
        match value {
            Value::Integer(value) => Self::Integer(value),
            Value::Number(value) => Self::Number(value),
            Value::Text(value) => Self::Text(value),
        }
    }
}

#[pyfunction]
#[pyo3(signature = (file, source, expression, backend, inputs, outputs, chunks, halo, maxshape, seed, attributes, overwrite, unsigned, dry_run))]
#[expect(clippy::too_many_arguments, reason = "the keyword arguments of hyperchunk.udf.attach")]
fn attach(
    py: Python<'_>,
    #[pyo3(from_py_with = crate::paths::path)] file: PathBuf,
    #[pyo3(from_py_with = crate::paths::optional)] source: Option<PathBuf>,
    expression: Option<String>,
    backend: Option<String>,
    inputs: Vec<String>,
    outputs: Vec<String>,
    chunks: Option<String>,
    halo: Vec<u64>,
    maxshape: Option<String>,
    seed: Option<u64>,
    attributes: Vec<(String, Value)>,
    overwrite: bool,
    unsigned: bool,
    dry_run: bool,
) -> PyResult<Vec<String>> {
    py.detach(|| {
        let growth = chunking::growth(maxshape.as_deref())?;
        let chunking = chunking::from_option(chunks.as_deref())?;
        let backend = match backend.as_deref() {
            None => None,
            Some("wasm") => Some(Backend::Wasm),
            Some(_) => return Err(Error::new(ErrorKind::Syntax, "backend must be None or \"wasm\"")),
        };
        let attributes = attributes.into_iter().map(|(name, value)| (name, value.into())).collect();
        let options = edit::Options {
            overwrite,
            unsigned,
            backend,
            inputs,
            chunking,
            halo,
            growth,
            seed,
            attributes,
            dry_run,
        };
        let program = match (&expression, &source) {
            (Some(text), _) => edit::Program::Expression(text),
            (None, Some(path)) => edit::Program::File(path),
            (None, None) => {
                return Err(Error::new(ErrorKind::Syntax, "expected a source or an expression, got neither"));
            }
        };
        let attached = edit::attach(&file, program, &outputs, &options)?;
        Ok(attached.into_iter().map(|a| a.json).collect())
    })
    .map_err(|e: Error| to_python(py, &e))
}

/// `(path, record as JSON, bytes of stubs, signer or None, profile or None, error or None)` of each live dataset.
type Row = (String, String, u64, Option<String>, Option<String>, Option<String>);

#[pyfunction]
fn list_live(py: Python<'_>, #[pyo3(from_py_with = crate::paths::path)] file: PathBuf) -> PyResult<Vec<Row>> {
    let entries = py.detach(|| edit::list(&file)).map_err(|e: Error| to_python(py, &e))?;
    Ok(entries
        .into_iter()
        .map(|e| {
            let profile = e.profile.as_ref().ok().map(|p| p.name.clone());
            let (signer, error) = (e.signer().map(|f| f.to_string()), e.error().map(ToString::to_string));
            (e.path, e.json, e.stub_bytes, signer, profile, error)
        })
        .collect())
}

#[pyfunction]
fn extend(
    py: Python<'_>,
    #[pyo3(from_py_with = crate::paths::path)] file: PathBuf,
    dataset: String,
    to: Option<Vec<u64>>,
) -> PyResult<Vec<u64>> {
    py.detach(|| edit::extend(&file, &dataset, to.as_deref()))
        .map(|extended| extended.dims)
        .map_err(|e: Error| to_python(py, &e))
}

#[pyfunction]
fn remove(
    py: Python<'_>,
    #[pyo3(from_py_with = crate::paths::path)] file: PathBuf,
    dataset: String,
) -> PyResult<()> {
    py.detach(|| edit::remove(&file, &dataset)).map_err(|e: Error| to_python(py, &e))
}

/// `(path, signer or None, chunks or None, profile or None, sandbox or None, error or None)` of a
/// live dataset.
type Verdict = (String, Option<String>, Option<u64>, Option<String>, Option<String>, Option<String>);

#[pyfunction]
fn verify_live(
    py: Python<'_>,
    #[pyo3(from_py_with = crate::paths::path)] file: PathBuf,
    dataset: Option<String>,
) -> PyResult<Vec<Verdict>> {
    let check = || -> Result<Vec<Verdict>, Error> {
        let entries = match &dataset {
            Some(dataset) => vec![edit::find(&file, dataset)?],
            None => edit::list(&file)?,
        };
        let verdict = |entry: edit::Entry| {
            let checked = edit::check(&file, &entry);
            let (profile, sandbox, why) = match checked.runs {
                Ok((profile, sandbox)) => (Some(profile.name), Some(sandbox), None),
                Err(error) => {
                    (entry.profile.as_ref().ok().map(|p| p.name.clone()), None, Some(error.to_string()))
                }
            };
            let signer = entry.signer().map(|f| f.to_string());
            (entry.path, signer, checked.chunks.ok(), profile, sandbox, why)
        };
        Ok(entries.into_iter().map(verdict).collect())
    };
    py.detach(check).map_err(|e| to_python(py, &e))
}

#[pyfunction]
fn explain_live(
    py: Python<'_>,
    #[pyo3(from_py_with = crate::paths::path)] file: PathBuf,
    dataset: String,
) -> PyResult<String> {
    py.detach(|| hyperchunk_cli::explanation(&file, &dataset)).map_err(|e| to_python(py, &e))
}

#[pyfunction]
fn rebuild_live(
    py: Python<'_>,
    #[pyo3(from_py_with = crate::paths::path)] file: PathBuf,
    dataset: String,
    take_over: bool,
) -> PyResult<String> {
    py.detach(|| edit::rebuild(&file, &dataset, take_over)).map(|one| one.json).map_err(|e| to_python(py, &e))
}

#[pyfunction]
fn convert_live(
    py: Python<'_>,
    #[pyo3(from_py_with = crate::paths::path)] file: PathBuf,
    dataset: String,
    dry_run: bool,
) -> PyResult<Vec<String>> {
    let options = edit::Options { dry_run, ..edit::Options::default() };
    py.detach(|| edit::convert(&file, &dataset, &options))
        .map(|all| all.into_iter().map(|one| one.json).collect())
        .map_err(|e| to_python(py, &e))
}
