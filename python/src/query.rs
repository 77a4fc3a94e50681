//! Queries: finding the zones and elements that satisfy a predicate.

use crate::dataset::Dataset;
use crate::errors::to_python;
use crate::file::File;
use hyperchunk::Result;
use hyperchunk_store::query::Queries as _;
use hyperchunk_store::query::{self, Answer, Predicate, RankBy, zonemap};
use hyperchunk_store::{Extreme, Hyperslab, Statistics};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyFloat, PyInt};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// A box: its first index and its extent.
type Box = (Vec<u64>, Vec<u64>);
/// Count, number of NaN, minimum, maximum, sum.
type Summary<'py> = (u64, u64, Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>, f64);
/// A zone: boxes, statistics, whether they are exact, writer, epoch.
type Zone<'py> = (Vec<Box>, Option<Summary<'py>>, bool, Option<String>, Option<u64>);
/// A top-ranked zone: box, value, its index, statistics, writer, epoch.
type Shard<'py> = (Box, Bound<'py, PyAny>, Option<Vec<u64>>, Summary<'py>, Option<String>, Option<u64>);

/// A query and its answer.
#[pyclass(frozen, module = "hyperchunk._core")]
#[derive(Debug)]
pub(crate) struct Query {
    dataset: hyperchunk::Dataset,
    predicate: Predicate,
    answer: Answer,
}

/// Iterator over the matching values, read part by part.
#[pyclass(frozen, module = "hyperchunk._core")]
#[derive(Debug)]
pub(crate) struct Matches(Mutex<query::Matches>);

pub(crate) fn number(py: Python<'_>, value: Extreme) -> Bound<'_, PyAny> {
    match value {
        Extreme::Float(value) => PyFloat::new(py, value).into_any(),
        Extreme::Signed(value) => PyInt::new(py, value).into_any(),
        Extreme::Unsigned(value) => PyInt::new(py, value).into_any(),
    }
}

fn summary<'py>(py: Python<'py>, statistics: &Statistics) -> Summary<'py> {
    let value = |extreme: Option<(Extreme, u64)>| extreme.map(|(value, _)| number(py, value));
    let (min, max) = (value(statistics.min), value(statistics.max));
    (statistics.count, statistics.nan, min, max, statistics.sum)
}

fn pair(slab: &Hyperslab) -> Box {
    (slab.start.clone(), slab.count.clone())
}

fn part(slab: Option<Box>) -> Option<Hyperslab> {
    slab.map(|(start, count)| Hyperslab::new(start, count))
}

fn run<T: Send>(py: Python<'_>, work: impl FnOnce() -> Result<T> + Send) -> PyResult<T> {
    py.detach(work).map_err(|e| to_python(py, &e))
}

#[pymethods]
impl Query {
    /// Queries a dataset, or a box of it; with `or_all`, also a dataset without statistics.
    #[new]
    #[pyo3(signature = (dataset, predicate, slab, or_all=false))]
    fn new(
        py: Python<'_>,
        dataset: &Dataset,
        predicate: &str,
        slab: Option<Box>,
        or_all: bool,
    ) -> PyResult<Self> {
        let predicate: Predicate = predicate.parse().map_err(|e| to_python(py, &e))?;
        let dataset = dataset.0.clone();
        let slab = part(slab);
        let answer = run(py, || match or_all {
            true => dataset.query_all(&predicate, slab.as_ref()),
            false => dataset.query(&predicate, slab.as_ref()),
        })?;
        Ok(Self { dataset, predicate, answer })
    }

    /// Predicate of the query.
    #[getter]
    fn predicate(&self) -> String {
        self.predicate.to_string()
    }

    /// Boxes that may hold matching values.
    #[getter]
    fn boxes(&self) -> Vec<Box> {
        self.answer.boxes.iter().map(pair).collect()
    }

    /// Bytes of statistics read; bytes in the boxes; bytes in those boxes without statistics; bytes
    /// in the queried region.
    #[getter]
    fn bytes(&self) -> (u64, u64, u64, u64) {
        (self.answer.bytes_scanned, self.answer.bytes_candidate, self.answer.unknown, self.answer.total)
    }

    /// Starts to read the boxes.
    fn matches(&self, py: Python<'_>) -> PyResult<Matches> {
        let found = run(py, || self.dataset.matches(&self.predicate, &self.answer))?;
        Ok(Matches(Mutex::new(found)))
    }
}

#[pymethods]
impl Matches {
    /// Returns the next part with matches: indices, each a row of 64-bit numbers, and values.
    fn next<'py>(&self, py: Python<'py>) -> PyResult<Option<(Bound<'py, PyBytes>, Bound<'py, PyBytes>)>> {
        let found = run(py, || self.0.lock().unwrap_or_else(PoisonError::into_inner).next())?;
        Ok(found.map(|found| {
            let indices: Vec<u8> = found.indices.iter().flat_map(|index| index.to_ne_bytes()).collect();
            (PyBytes::new(py, &indices), PyBytes::new(py, &found.values))
        }))
    }

    /// Number of bytes read until now.
    #[getter]
    fn bytes_scanned(&self) -> u64 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).bytes_scanned()
    }
}

/// Returns whether a value, in the representation of a dataset, matches a predicate.
#[pyfunction]
pub(crate) fn value_matches(
    py: Python<'_>,
    dataset: &Dataset,
    predicate: &str,
    value: &[u8],
) -> PyResult<bool> {
    let predicate: Predicate = predicate.parse().map_err(|e| to_python(py, &e))?;
    predicate
        .matches_value(dataset.0.datatype(), value)
        .map_err(|e| to_python(py, &dataset.0.with_context(e)))
}

/// Returns the top zones of a dataset, the number of bytes scanned, and the total.
#[pyfunction]
pub(crate) fn query_top<'py>(
    py: Python<'py>,
    dataset: &Dataset,
    count: usize,
    by: &str,
    slab: Option<Box>,
) -> PyResult<(Vec<Shard<'py>>, u64, u64)> {
    let by: RankBy = by.parse().map_err(|e| to_python(py, &e))?;
    let top = run(py, || dataset.0.top(count, by, part(slab).as_ref()))?;
    let shards = top.zones.iter().map(|shard| {
        let (value, statistics) = (number(py, shard.value), summary(py, &shard.statistics));
        let writer = shard.writer.map(|writer| writer.to_string());
        (pair(&shard.slab), value, shard.index.clone(), statistics, writer, shard.epoch)
    });
    Ok((shards.collect(), top.bytes_scanned, top.total))
}

/// Returns the zones of a dataset.
#[pyfunction]
pub(crate) fn query_zones<'py>(
    py: Python<'py>,
    dataset: &Dataset,
    slab: Option<Box>,
) -> PyResult<Vec<Zone<'py>>> {
    let zones = run(py, || dataset.0.zones(part(slab).as_ref()))?;
    let zones = zones.iter().map(|zone| {
        let statistics = zone.statistics.as_ref().map(|statistics| summary(py, statistics));
        let writer = zone.writer.map(|writer| writer.to_string());
        (zone.boxes.iter().map(pair).collect(), statistics, zone.exact, writer, zone.epoch)
    });
    Ok(zones.collect())
}

/// File of the statistics, datasets with their zone counts, skipped datasets with the reasons,
/// bytes scanned.
type AnalysisResult = (PathBuf, Vec<(String, u64)>, Vec<(String, String)>, u64);

/// Computes statistics of all values of datasets and stores them in a file beside the source.
#[pyfunction]
pub(crate) fn analyze(py: Python<'_>, file: &File, names: Vec<String>) -> PyResult<AnalysisResult> {
    let names: Vec<Vec<u8>> = names.into_iter().map(String::into_bytes).collect();
    let (analyzed, place) = run(py, || {
        let analyzed = zonemap::analyze(&file.0, &names, &|_, _| ())?;
        let place = analyzed.save(&file.0)?;
        Ok((analyzed, place))
    })?;
    let text = |path: &[u8]| String::from_utf8_lossy(path).into_owned();
    let left = analyzed.skipped.iter().map(|(path, error)| (text(path), error.message().to_owned()));
    let datasets = analyzed.datasets.iter().map(|(path, zones)| (text(path), *zones));
    Ok((place, datasets.collect(), left.collect(), analyzed.bytes_scanned))
}
