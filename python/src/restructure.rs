//! Layouts: planning, running tasks, and listing.

use crate::errors::{opening, to_python};
use crate::store::sync;
use hyperchunk::{OpenOptions, Result};
use hyperchunk_store::restructure::{self, Job, Request};
use pyo3::prelude::*;
use std::path::{Path, PathBuf};

/// A layout under construction.
#[pyclass(frozen, module = "hyperchunk._core")]
#[derive(Debug)]
pub(crate) struct LayoutJob(Job);

impl LayoutJob {
    fn run<T: Send>(&self, py: Python<'_>, work: impl FnOnce(&Job) -> Result<T> + Send) -> PyResult<T> {
        py.detach(|| work(&self.0)).map_err(|e| to_python(py, &e))
    }
}

#[pymethods]
impl LayoutJob {
    /// Plans a request (JSON) for a file. Writes nothing.
    #[new]
    #[pyo3(signature = (file, request, output=None))]
    fn new(
        py: Python<'_>,
        file: &str,
        request: &str,
        #[pyo3(from_py_with = crate::paths::optional)] output: Option<PathBuf>,
    ) -> PyResult<Self> {
        let job = py
            .detach(|| Job::new(file, Request::parse(request)?, output.as_deref(), &OpenOptions::default()));
        job.map(Self).map_err(|e| opening(py, &e))
    }

    /// Name of the layout.
    #[getter]
    fn id(&self) -> &str {
        self.0.id()
    }

    /// Request in its canonical form, from which the name is derived.
    #[getter]
    fn request(&self) -> String {
        self.0.request().to_json()
    }

    /// Path of the finished layout.
    #[getter]
    fn path(&self) -> PathBuf {
        self.0.result()
    }

    /// Number of tasks in each pass.
    #[getter]
    fn tasks(&self) -> Vec<u64> {
        self.0.plan().passes.iter().map(|pass| pass.tiles.len()).collect()
    }

    /// Returns the layout and its plan as JSON.
    fn describe(&self, threads: usize) -> String {
        let threads =
            if threads == 0 { std::thread::available_parallelism().map_or(1, usize::from) } else { threads };
        self.0.to_json(threads).to_string()
    }

    /// Creates the files to which tasks write.
    fn start(&self, py: Python<'_>) -> PyResult<()> {
        self.run(py, Job::start)
    }

    /// Runs tasks of a pass; returns the number done now, and the number done before.
    fn work(
        &self,
        py: Python<'_>,
        number: usize,
        first: u64,
        end: u64,
        threads: usize,
    ) -> PyResult<(u64, u64)> {
        let worked = self.run(py, |job| job.work(number, first..end, threads, &|_| {}))?;
        Ok((worked.done, worked.skipped))
    }

    /// Returns whether the layout is committed, the number of finished tasks, and the number of all
    /// tasks.
    fn progress(&self, py: Python<'_>) -> PyResult<(bool, u64, u64)> {
        let progress = self.run(py, Job::progress)?;
        Ok((progress.committed, progress.done, progress.tasks))
    }

    /// Commits the layout's file; returns the names of attributes that were left out.
    fn commit(&self, py: Python<'_>, when: &str) -> PyResult<Vec<String>> {
        let sync = sync(when)?;
        self.run(py, |job| job.commit(sync)).map(|committed| committed.left_out)
    }

    fn __repr__(&self) -> String {
        format!("<layout {}>", self.0.id())
    }
}

/// Name, request, file or folder, bytes, state.
type LayoutRow = (String, String, PathBuf, u64, &'static str);

/// Lists the layouts of a file: name, request, the file if it is in use and else the folder, bytes,
/// and state.
#[pyfunction]
fn layouts(
    py: Python<'_>,
    #[pyo3(from_py_with = crate::paths::path)] file: PathBuf,
) -> PyResult<Vec<LayoutRow>> {
    let all = py.detach(|| restructure::layouts(&file)).map_err(|e| opening(py, &e))?;
    let all = all.into_iter().map(|one| {
        let state = match one.state {
            restructure::State::Used => "used",
            restructure::State::Unfinished => "unfinished",
            restructure::State::Stale => "stale",
        };
        let used = one.path.filter(|_| one.state == restructure::State::Used);
        (one.id, one.request.to_json(), used.unwrap_or(one.folder), one.bytes, state)
    });
    Ok(all.collect())
}

/// Deletes a layout.
#[pyfunction]
fn remove_layout(
    py: Python<'_>,
    #[pyo3(from_py_with = crate::paths::path)] file: PathBuf,
    id: &str,
) -> PyResult<()> {
    let removed = py.detach(|| restructure::remove(Path::new(&file), id));
    removed.map(drop).map_err(|e| to_python(py, &e))
}

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<LayoutJob>()?;
    module.add_function(wrap_pyfunction!(layouts, module)?)?;
    module.add_function(wrap_pyfunction!(remove_layout, module)?)
}
