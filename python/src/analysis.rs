//! Analyses of stores: functions that compute results from data as they are written.

use crate::edit::to_python;
use crate::errors;
use hyperchunk_live::observe::summary::{self, AnalysisEntry, Summary};
use hyperchunk_live::observe::{Analyses, Analysis, AnalysisOptions, Backfill, backend, make};
use hyperchunk_store::format::analysis_values::{Number, Pairs, Value};
use hyperchunk_store::{AnalysisId, LogWriter};
use hyperchunk_udf::error::Error;
use hyperchunk_udf::record::{Declaration, Failure};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use std::collections::BTreeMap;
use std::path::PathBuf;

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(analysis_make, module)?)?;
    module.add_function(wrap_pyfunction!(analysis_look, module)?)?;
    module.add_function(wrap_pyfunction!(store_analyses, module)?)?;
    module.add_function(wrap_pyfunction!(store_results, module)?)?;
    module.add_function(wrap_pyfunction!(store_backfill, module)?)?;
    module.add_function(wrap_pyfunction!(store_unseen, module)?)?;
    module.add_function(wrap_pyfunction!(store_look, module)?)?;
    Ok(())
}

/// Returns an error unless every record is a valid analysis.
pub(crate) fn check(given: &[Vec<u8>]) -> Result<(), Error> {
    given.iter().try_for_each(|record| Analysis::parse(record).map(drop))
}

/// `(id, name, calls, failures, seconds, last error or None)` of an analysis in a writer.
pub(crate) type Report = (String, String, u64, u64, f64, Option<String>);

pub(crate) fn reports(analyses: &Analyses) -> Vec<Report> {
    let reports = analyses.reports().into_iter();
    reports.map(|r| (r.id.to_string(), r.name, r.calls, r.failures, r.time.as_secs_f64(), r.reason)).collect()
}

/// Keyword arguments that declare an analysis.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct DeclareOptions {
    name: String,
    version: String,
    datasets: Vec<String>,
    time_ms: u64,
    memory: u64,
    bytes: u64,
    failure: String,
    merge: BTreeMap<String, String>,
    unsigned: bool,
    backend: Option<String>,
}

/// Creates the record of an analysis: tries its source in the sandbox and signs it.
#[pyfunction]
#[pyo3(signature = (path, source, **keywords))]
fn analysis_make<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = crate::paths::path)] path: PathBuf,
    source: String,
    keywords: Option<&Bound<'py, PyDict>>,
) -> PyResult<Bound<'py, PyBytes>> {
    let missing = || pyo3::exceptions::PyValueError::new_err("the options are missing");
    let given = keywords.ok_or_else(missing)?.extract::<DeclareOptions>()?;
    let made = || -> Result<Analysis, Error> {
        let declaration = Declaration {
            name: given.name,
            version: given.version,
            datasets: given.datasets,
            time_ms: given.time_ms,
            memory: given.memory,
            bytes: given.bytes,
            failure: Failure::from_name(&given.failure)?,
            merge: given.merge,
        };
        let backend = backend(&path, given.backend.as_deref())?;
        let options = AnalysisOptions { backend, source: &source, declaration, unsigned: given.unsigned };
        make(&options).map_err(|error| error.about(path.display().to_string()))
    };
    let analysis = py.detach(made).map_err(|error| to_python(py, &error))?;
    Ok(PyBytes::new(py, &analysis.bytes))
}

/// Describes the record of an analysis: its contents, whether it may run on this machine, and in which
/// profile.
#[pyfunction]
fn analysis_look<'py>(py: Python<'py>, record: &[u8]) -> PyResult<Bound<'py, PyDict>> {
    let analysis = py.detach(|| Analysis::parse(record)).map_err(|error| to_python(py, &error))?;
    describe(py, &analysis)
}

fn describe<'py>(py: Python<'py>, analysis: &Analysis) -> PyResult<Bound<'py, PyDict>> {
    let (declared, all) = (&analysis.declaration, PyDict::new(py));
    let profile = py.detach(|| analysis.profile());
    all.set_item("id", analysis.id.to_string())?;
    all.set_item("name", &declared.name)?;
    all.set_item("version", &declared.version)?;
    all.set_item("language", analysis.record.backend.short_name())?;
    all.set_item("datasets", &declared.datasets)?;
    all.set_item("time_ms", declared.time_ms)?;
    all.set_item("memory", declared.memory)?;
    all.set_item("bytes", declared.bytes)?;
    all.set_item("failure", declared.failure.name())?;
    all.set_item("merge", &declared.merge)?;
    all.set_item("source", &analysis.record.source)?;
    all.set_item("signer", analysis.signer.map(|signer| signer.to_string()))?;
    let label = analysis.record.signature.as_ref().map(|signature| signature.name.clone());
    all.set_item("signed_by", label)?;
    all.set_item("profile", profile.as_ref().ok().map(|profile| profile.name.clone()))?;
    all.set_item("refused", profile.as_ref().err().map(ToString::to_string))?;
    Ok(all)
}

/// Returns the analyses of an epoch: the description of each, or the reason why its record is
/// invalid.
#[pyfunction]
fn store_analyses<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = crate::paths::path)] path: PathBuf,
    epoch: Option<u64>,
) -> PyResult<Bound<'py, PyList>> {
    let path = hyperchunk_store::real_file(&path);
    let listed = py.detach(|| summary::list(&path, &*summary::epoch(&path, epoch)?));
    let rows = PyList::empty(py);
    for AnalysisEntry { known, analysis } in listed.map_err(|error| to_python(py, &error))? {
        let row = match &analysis {
            Ok(analysis) => describe(py, analysis)?,
            Err(_) => PyDict::new(py),
        };
        row.set_item("id", known.analysis.to_string())?;
        row.set_item("runs", known.runs)?;
        row.set_item("record", PyBytes::new(py, &known.record))?;
        row.set_item("damage", analysis.as_ref().err().map(ToString::to_string))?;
        rows.append(row)?;
    }
    Ok(rows)
}

/// Converts key-value pairs to a Python dictionary.
fn pairs<'py>(py: Python<'py>, pairs: &Pairs) -> PyResult<Bound<'py, PyDict>> {
    let number = |number: &Number| -> PyResult<Bound<'py, PyAny>> {
        Ok(match number {
            Number::Signed(value) => value.into_pyobject(py)?.into_any(),
            Number::Unsigned(value) => value.into_pyobject(py)?.into_any(),
            Number::Double(value) => value.into_pyobject(py)?.into_any(),
        })
    };
    let all = PyDict::new(py);
    for (key, value) in &pairs.0 {
        match value {
            Value::Number(value) => all.set_item(key, number(value)?)?,
            Value::Text(text) => all.set_item(key, text)?,
            Value::List(list) => {
                all.set_item(key, list.iter().map(number).collect::<PyResult<Vec<_>>>()?)?;
            }
        }
    }
    Ok(all)
}

/// Returns the results of analyses for a dataset; with `run`, the functions merge them into one.
#[pyfunction]
fn store_results<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = crate::paths::path)] path: PathBuf,
    dataset: Vec<u8>,
    epoch: Option<u64>,
    run: bool,
) -> PyResult<Bound<'py, PyList>> {
    let path = hyperchunk_store::real_file(&path);
    let read = || -> Result<Vec<(Summary, Option<Pairs>)>, Error> {
        let manifest = summary::epoch(&path, epoch)?;
        let definition = manifest.datasets.iter().find(|stored| stored.definition.path == dataset);
        let all = summary::summaries(&path, &manifest, &dataset)?.into_iter().map(|summary| {
            let ran = match definition.filter(|_| run && summary.whole.is_none()) {
                Some(stored) => summary.run(&stored.definition)?,
                None => None,
            };
            Ok((summary, ran))
        });
        all.collect()
    };
    let rows = PyList::empty(py);
    for (summary, ran) in py.detach(read).map_err(|error| to_python(py, &error))? {
        let row = PyDict::new(py);
        let analysis = summary.analysis.as_ref();
        row.set_item("id", summary.results.analysis.to_string())?;
        row.set_item("name", analysis.ok().map(|analysis| analysis.declaration.name.clone()))?;
        row.set_item("version", analysis.ok().map(|analysis| analysis.declaration.version.clone()))?;
        row.set_item("damage", analysis.err().map(ToString::to_string))?;
        row.set_item("bytes_scanned", summary.results.bytes_scanned)?;
        let whole = summary.whole.as_ref().or(ran.as_ref());
        row.set_item("whole", whole.map(|whole| pairs(py, whole)).transpose()?)?;
        let (parts, boxes) = (PyList::empty(py), PyList::empty(py));
        for (group, merged) in summary.results.groups.iter().zip(&summary.groups) {
            let merged = merged.as_ref().map(|merged| pairs(py, merged)).transpose()?;
            parts.append((group.writer.to_string(), group.epoch, group.found.len(), merged))?;
            for found in &group.found {
                let (start, count) = (found.slab.start.clone(), found.slab.count.clone());
                let (values, failure) = match &found.found {
                    Ok(values) => (Some(pairs(py, values)?), None),
                    Err(reason) => (None, Some(reason)),
                };
                boxes.append((start, count, group.writer.to_string(), group.epoch, values, failure))?;
            }
        }
        row.set_item("parts", parts)?;
        row.set_item("boxes", boxes)?;
        rows.append(row)?;
    }
    Ok(rows)
}

/// Runs an analysis on data written before it was declared; returns the number of the epoch.
#[pyfunction]
fn store_backfill(
    py: Python<'_>,
    #[pyo3(from_py_with = crate::paths::path)] path: PathBuf,
    record: Vec<u8>,
    epochs: (u64, u64),
    threads: usize,
) -> PyResult<Option<u64>> {
    let path = hyperchunk_store::real_file(&path);
    let look = || -> Result<Option<u64>, Error> {
        let of_epochs = |epoch| (epochs.0..=epochs.1).contains(&epoch);
        let analysis = Analysis::parse(&record)?;
        let made = Backfill::new(&path, &analysis, of_epochs, None)?.fill(threads)?;
        Ok(made.map(|manifest| manifest.number))
    };
    py.detach(look).map_err(|error| to_python(py, &error))
}

/// Returns the number of an epoch (default: the newest) and the number of its boxes that an analysis has not
/// processed.
#[pyfunction]
#[pyo3(signature = (path, record, epochs, epoch=None))]
fn store_unseen(
    py: Python<'_>,
    #[pyo3(from_py_with = crate::paths::path)] path: PathBuf,
    record: Vec<u8>,
    epochs: (u64, u64),
    epoch: Option<u64>,
) -> PyResult<(u64, usize)> {
    let path = hyperchunk_store::real_file(&path);
    let look = || -> Result<(u64, usize), Error> {
        let analysis = Analysis::parse(&record)?;
        let of_epochs = |epoch| (epochs.0..=epochs.1).contains(&epoch);
        let backfill = Backfill::new(&path, &analysis, of_epochs, epoch)?;
        Ok((backfill.epoch(), backfill.boxes()))
    };
    py.detach(look).map_err(|error| to_python(py, &error))
}

/// Runs an analysis on some of the boxes of an epoch that it has not processed; returns a ticket, or None if
/// they have been processed in the meantime.
#[pyfunction]
fn store_look<'py>(
    py: Python<'py>,
    #[pyo3(from_py_with = crate::paths::path)] path: PathBuf,
    record: Vec<u8>,
    epochs: (u64, u64),
    epoch: u64,
    boxes: (usize, usize),
) -> PyResult<Option<Bound<'py, PyBytes>>> {
    let path = hyperchunk_store::real_file(&path);
    let look = || -> Result<_, Error> {
        let analysis = Analysis::parse(&record)?;
        let of_epochs = |epoch| (epochs.0..=epochs.1).contains(&epoch);
        Backfill::new(&path, &analysis, of_epochs, Some(epoch))?.work(boxes.0..boxes.1)
    };
    let ticket = py.detach(look).map_err(|error| to_python(py, &error))?;
    Ok(ticket.map(|ticket| PyBytes::new(py, &ticket.to_bytes())))
}

/// Attaches an analysis to a dataset, or detaches it.
pub(crate) fn announce(
    py: Python<'_>,
    log: &LogWriter,
    dataset: u32,
    record: &[u8],
    runs: bool,
) -> PyResult<AnalysisId> {
    let analysis = py.detach(|| Analysis::parse(record)).map_err(|error| to_python(py, &error))?;
    let record = if runs { record } else { &[] };
    log.announce(dataset, analysis.id, record).map_err(|error| errors::to_python(py, &error))?;
    Ok(analysis.id)
}
