//! Collections: many files as one.

use crate::dataset::Dataset;
use crate::errors::{opening, to_python};
use crate::file::{File, given, options};
use crate::query::number;
use crate::table::{Zones, asked, zones};
use hyperchunk::collection::{CollectOptions, Collection as Inner, Concat, FileStatistics, open_datasets};
use hyperchunk::{OpenOptions, io, output};
use hyperchunk_arrow::view;
use hyperchunk_store::Extreme;
use hyperchunk_store::query::{self, collected};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::collections::{BTreeMap, HashMap};
use std::iter::repeat;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Path, axis, lengths as 64-bit numbers, stored values of a coordinate, and units and calendar by file.
type Variable<'py> = (
    Bound<'py, PyBytes>,
    Option<usize>,
    Bound<'py, PyBytes>,
    Option<Bound<'py, PyBytes>>,
    BTreeMap<u64, (Option<String>, Option<String>)>,
);

/// Count, number of NaN, minimum, maximum.
type Summary<'py> = (u64, u64, Option<Bound<'py, PyAny>>, Option<Bound<'py, PyAny>>);

/// Handle of a collection.
#[pyclass(frozen, module = "hyperchunk._core")]
#[derive(Debug)]
pub(crate) struct Collection {
    inner: Mutex<Inner>,
    options: OpenOptions,
}

fn how(concat: Option<&Bound<'_, PyAny>>, skip: bool) -> PyResult<CollectOptions> {
    let mut how = CollectOptions::default();
    how.skip = skip;
    how.concat = concat.map(|name| match name.extract::<String>() {
        Ok(name) => Concat::Dimension(name),
        Err(_) => Concat::FirstAxis,
    });
    Ok(how)
}

/// Calls a Python function with the number of finished files. Its first exception is kept, and raised at the
/// end.
fn reporter<'a>(
    progress: Option<&'a Py<PyAny>>,
    failed: &'a Mutex<Option<PyErr>>,
) -> impl Fn(usize) + Sync + 'a {
    move |done| {
        let Some(progress) = progress else { return };
        let called = Python::attach(|py| progress.call1(py, (done,)).map(drop));
        if let Err(error) = called {
            failed.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(error);
        }
    }
}

fn raise(failed: Mutex<Option<PyErr>>) -> PyResult<()> {
    failed.into_inner().unwrap_or_else(PoisonError::into_inner).map_or(Ok(()), Err)
}

impl Collection {
    /// Returns the statistics of a dataset in each file.
    fn kept(&self, py: Python<'_>, path: &[u8]) -> PyResult<Option<Vec<Option<FileStatistics>>>> {
        let inner = self.lock();
        let found = inner.variable(path).and_then(|variable| variable.file_statistics(inner.files().len()));
        found.map_err(|error| to_python(py, &error))
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Collection {
    /// Creates a collection of files.
    #[staticmethod]
    #[pyo3(signature = (names, *, concat, skip, progress, **keywords))]
    fn collect(
        py: Python<'_>,
        names: Vec<String>,
        concat: Option<&Bound<'_, PyAny>>,
        skip: bool,
        progress: Option<Py<PyAny>>,
        keywords: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Self> {
        let options = options(given(keywords)?)?;
        let how = how(concat, skip)?;
        let failed = Mutex::new(None);
        let inner =
            py.detach(|| Inner::collect(&names, &options, &how, &reporter(progress.as_ref(), &failed)));
        raise(failed)?;
        let inner = Mutex::new(inner.map_err(|error| opening(py, &error))?);
        Ok(Self { inner, options })
    }

    /// Opens a collection by its path or URL.
    #[staticmethod]
    #[pyo3(signature = (name, **keywords))]
    fn open(py: Python<'_>, name: &str, keywords: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let options = options(given(keywords)?)?;
        let inner = py.detach(|| Inner::open_url(name, &options)).map_err(|error| opening(py, &error))?;
        Ok(Self { inner: Mutex::new(inner), options })
    }

    /// Adds files that the collection does not have yet; returns their number.
    #[pyo3(signature = (names, *, skip, progress))]
    fn append(
        &self,
        py: Python<'_>,
        names: Vec<String>,
        skip: bool,
        progress: Option<Py<PyAny>>,
    ) -> PyResult<usize> {
        let how = how(None, skip)?;
        let failed = Mutex::new(None);
        let added = py.detach(|| {
            // A failure leaves the collection as it was.
            let mut inner = self.lock().clone();
            let report = reporter(progress.as_ref(), &failed);
            let added = inner.append(&names, &self.options, &how, &report)?;
            *self.lock() = inner;
            Ok(added)
        });
        raise(failed)?;
        added.map_err(|error| opening(py, &error))
    }

    /// Name of the dimension along which files are joined; None for the first axes of all datasets.
    #[getter]
    fn concat(&self) -> Option<String> {
        match self.lock().concat() {
            Concat::Dimension(name) => Some(name.clone()),
            Concat::FirstAxis => None,
        }
    }

    /// Paths or URLs of the files.
    fn names(&self) -> Vec<String> {
        self.lock().files().iter().map(|file| file.name.clone()).collect()
    }

    /// Files that were left out, each with the reason.
    fn skipped(&self) -> Vec<(String, String)> {
        self.lock().skipped().iter().map(|file| (file.name.clone(), file.reason.clone())).collect()
    }

    /// Datasets of all files. Datasets that share their lengths have the same bytes object.
    fn variables<'py>(&self, py: Python<'py>) -> Vec<Variable<'py>> {
        let inner = self.lock();
        let mut lists: HashMap<*const u64, Bound<'py, PyBytes>> = HashMap::new();
        let described = inner.variables().iter().map(|variable| {
            let units = variable
                .units
                .iter()
                .map(|(place, [units, calendar])| (*place, (units.clone(), calendar.clone())));
            let lengths = lists.entry(variable.lengths.as_ptr()).or_insert_with(|| {
                let bytes: Vec<u8> =
                    variable.lengths.iter().flat_map(|length| length.to_ne_bytes()).collect();
                PyBytes::new(py, &bytes)
            });
            (
                PyBytes::new(py, &variable.path),
                variable.axis,
                lengths.clone(),
                variable.values.as_ref().map(|values| PyBytes::new(py, values)),
                units.collect(),
            )
        });
        described.collect()
    }

    /// Reads datasets once, and keeps statistics of each file; files that have statistics are not read again.
    #[pyo3(signature = (paths, *, progress))]
    fn gather(&self, py: Python<'_>, paths: Vec<Vec<u8>>, progress: Option<Py<PyAny>>) -> PyResult<()> {
        let failed = Mutex::new(None);
        let gathered = py.detach(|| {
            let mut inner = self.lock().clone();
            let report = reporter(progress.as_ref(), &failed);
            collected::gather(&mut inner, &paths, &self.options, &|done, _| report(done))?;
            *self.lock() = inner;
            Ok(())
        });
        raise(failed)?;
        gathered.map_err(|error: hyperchunk::Error| opening(py, &error))
    }

    /// Paths of the datasets with statistics.
    fn paths_with_statistics<'py>(&self, py: Python<'py>) -> Vec<Bound<'py, PyBytes>> {
        self.lock().paths_with_statistics().iter().map(|path| PyBytes::new(py, path)).collect()
    }

    /// Statistics of a dataset in each file, as numbers of the type of `like`: count, number of NaN, minimum,
    /// maximum. None if there are none.
    fn statistics<'py>(
        &self,
        py: Python<'py>,
        path: &[u8],
        like: &Dataset,
    ) -> PyResult<Option<Vec<Option<Summary<'py>>>>> {
        let Some(found) = self.kept(py, path)? else { return Ok(None) };
        let described = found.iter().map(|file| {
            let Some(file) = file else { return Ok(None) };
            let bounds = collected::bounds(file, like.0.datatype()).map_err(|e| to_python(py, &e))?;
            let (low, high) = bounds.and_then(|bounds| bounds.numbers).unzip();
            let number = |value: Option<Extreme>| value.map(|value| number(py, value));
            Ok(Some((file.count, file.nan, number(low), number(high))))
        });
        described.collect::<PyResult<_>>().map(Some)
    }

    /// Returns for each of some files, given as pairs of its number and its number of elements, whether it
    /// may have elements that match a predicate; None if there are no statistics.
    fn may_match(
        &self,
        py: Python<'_>,
        path: &[u8],
        like: &Dataset,
        predicate: &str,
        files: Vec<(usize, u64)>,
    ) -> PyResult<Option<Vec<bool>>> {
        let Some(found) = self.kept(py, path)? else { return Ok(None) };
        let predicate: query::Predicate = predicate.parse().map_err(|e| to_python(py, &e))?;
        let datatype = like.0.datatype();
        let may = files.iter().map(|(file, count)| {
            predicate.may_match(found.get(*file).and_then(Option::as_ref), *count, datatype)
        });
        may.collect::<hyperchunk::Result<_>>().map(Some).map_err(|e| to_python(py, &e))
    }

    /// Returns the statistics of columns, each with its path and a dataset, and the files in which a predicate may be
    /// true; the files have the rows up to `ends`. None if no column has statistics.
    #[pyo3(signature = (ends, columns, predicate=None, nan="unordered"))]
    fn zones<'py>(
        &self,
        py: Python<'py>,
        ends: Vec<u64>,
        columns: Vec<(String, Vec<u8>, PyRef<'py, Dataset>)>,
        predicate: Option<&str>,
        nan: &str,
    ) -> PyResult<Option<Zones<'py>>> {
        let predicate = predicate.map(|predicate| asked(py, predicate, nan)).transpose()?;
        let starts = std::iter::once(0).chain(ends.iter().copied());
        let counts: Vec<u64> = starts.zip(&ends).map(|(start, end)| end.saturating_sub(start)).collect();
        let mut known = Vec::new();
        for (name, path, like) in columns {
            let Some(found) = self.kept(py, &path)? else { continue };
            let bounds = found.iter().zip(&counts).map(|(file, count)| match file {
                // A dataset may have fewer rows than its dimension.
                Some(file) if file.count == *count => collected::bounds(file, like.0.datatype()),
                _ => Ok(None),
            });
            let bounds = bounds.collect::<hyperchunk::Result<Vec<_>>>().map_err(|e| to_python(py, &e))?;
            known.push((name, bounds));
        }
        if known.is_empty() {
            return Ok(None);
        }
        Ok(Some(zones(py, &view::Zones::new(ends, known), predicate)))
    }

    /// Opens one of the files.
    fn open_file(&self, py: Python<'_>, place: usize) -> PyResult<File> {
        let opened = py.detach(|| {
            let member = self.lock().member(place)?;
            member.open(&self.options)
        });
        opened.map(File).map_err(|error| opening(py, &error))
    }

    /// Opens a dataset of several files, of the datatype of `like`; returns each file with it. `open` has the files
    /// that are open already.
    fn open_datasets(
        &self,
        py: Python<'_>,
        places: Vec<usize>,
        open: Vec<Option<PyRef<'_, File>>>,
        path: &[u8],
        like: &Dataset,
    ) -> PyResult<Vec<(File, Dataset)>> {
        let open = open.iter().map(|file| file.as_ref().map(|file| file.0.clone())).chain(repeat(None));
        let members: hyperchunk::Result<Vec<_>> = {
            let inner = self.lock();
            places.iter().zip(open).map(|(place, open)| Ok((inner.member(*place)?, open))).collect()
        };
        let members = members.map_err(|error| to_python(py, &error))?;
        let found = py.detach(|| open_datasets(&members, path, Some(like.0.datatype()), &self.options));
        let found = found.map_err(|error| opening(py, &error))?;
        Ok(found.into_iter().map(|(file, dataset)| (File(file), Dataset(dataset))).collect())
    }

    /// Writes the collection to a file.
    fn save(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = crate::paths::path)] path: PathBuf,
        overwrite: bool,
    ) -> PyResult<()> {
        let save = || {
            let inner = self.lock();
            let inputs: Vec<PathBuf> =
                inner.files().iter().filter_map(|file| io::local_path(&file.name)).collect();
            let inputs: Vec<&Path> = inputs.iter().map(PathBuf::as_path).collect();
            output::check(&path, overwrite, &inputs)?;
            output::write(&path, &inner.encode_for(&path)?, overwrite)
        };
        py.detach(save).map_err(|e| to_python(py, &e))
    }

    /// Opens the finished part of a collection that an interrupted call left, if there is one.
    #[staticmethod]
    #[pyo3(signature = (path, **keywords))]
    fn open_part(
        py: Python<'_>,
        #[pyo3(from_py_with = crate::paths::path)] path: PathBuf,
        keywords: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<Option<Self>> {
        let options = options(given(keywords)?)?;
        let found = py.detach(|| Inner::open_part(&path, &options)).map_err(|error| opening(py, &error))?;
        Ok(found.map(|inner| Self { inner: Mutex::new(inner), options }))
    }

    /// Saves the collection as the finished part of one that is still being collected.
    fn save_part(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = crate::paths::path)] path: PathBuf,
        replace: bool,
    ) -> PyResult<()> {
        py.detach(|| self.lock().save_part(&path, replace)).map_err(|e| to_python(py, &e))
    }

    /// Deletes the finished part of a collection that is complete now.
    fn delete_part(
        &self,
        py: Python<'_>,
        #[pyo3(from_py_with = crate::paths::path)] path: PathBuf,
    ) -> PyResult<()> {
        py.detach(|| Inner::delete_part(&path, &self.options)).map_err(|e| to_python(py, &e))
    }

    /// Digest of the collection without the names of the files.
    fn digest(&self, py: Python<'_>) -> PyResult<String> {
        py.detach(|| self.lock().digest()).map_err(|error| to_python(py, &error))
    }

    /// Encoded bytes of the collection.
    fn encoded<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let bytes = py.detach(|| self.lock().encode()).map_err(|error| to_python(py, &error))?;
        Ok(PyBytes::new(py, &bytes))
    }

    /// Parses the bytes of a collection.
    #[staticmethod]
    #[pyo3(signature = (data, **keywords))]
    fn decode(py: Python<'_>, data: Vec<u8>, keywords: Option<&Bound<'_, PyDict>>) -> PyResult<Self> {
        let options = options(given(keywords)?)?;
        let inner = py.detach(|| Inner::parse(data.into(), &options.limits));
        let inner = inner.map_err(|error| opening(py, &error))?;
        Ok(Self { inner: Mutex::new(inner), options })
    }
}

/// Lists the objects directly below a URL.
#[pyfunction]
#[pyo3(signature = (url, **keywords))]
pub(crate) fn list_objects(
    py: Python<'_>,
    url: &str,
    keywords: Option<&Bound<'_, PyDict>>,
) -> PyResult<Vec<String>> {
    let options = options(given(keywords)?)?;
    let listed = py.detach(|| io::list(url, &options.remote));
    let listed = listed.map_err(|error| opening(py, &error))?;
    Ok(listed.into_iter().map(|listed| listed.name).collect())
}
