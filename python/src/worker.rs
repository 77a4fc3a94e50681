//! Python runtime of the worker: runs in a forked child of the warm interpreter, never in a reader.

use crate::flat_buffer::FlatBuffer;
use hyperchunk_sandbox as sandbox;
use hyperchunk_udf::datatype::{Datatype, ElementType, identifiers};
use hyperchunk_udf::error::{Error, ErrorKind, Result};
use hyperchunk_udf::host::mentions;
use hyperchunk_udf::protocol::Setup;
use hyperchunk_udf::worker::{self, CallSlot, Runtime};
use pyo3::exceptions::PyConnectionError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyTuple};
use std::os::fd::{IntoRawFd, OwnedFd};

/// Serves the host on descriptor 3, with `lib` as the module that functions see; returns the exit
/// status.
#[pyfunction]
pub(crate) fn serve(lib: Bound<'_, PyAny>) -> i32 {
    // A function that reads files with this package must start no threads, since its profile may
    // not grant them.
    hyperchunk::live::on_this_thread(|| {
        worker::serve(&[], &mut |setup, _, _| {
            // The process is not locked down yet: import only the modules that the profile names,
            // and search the function's source without parsing it.
            Python::attach(|_| {
                let granted = setup.grants.imports.iter();
                preload(&lib, granted.filter(|module| setup.compiled || is_named(&setup.source, module)))?;
                if !setup.grants.connect.is_empty() {
                    grant_network(&lib)?;
                }
                worker::threads::leave_behind(|| fork(&lib))
            })?;
            Ok(Box::new(PythonRuntime {
                lib: lib.clone().unbind(),
                entry: None,
                flush: Vec::new(),
                has_seed: setup.seed.is_some(),
                memory: setup.memory,
                partial: setup.partial,
                // Seeding takes longer than many functions, so it is done only if the source
                // mentions random numbers.
                reseeds: setup.seed.is_some() || setup.compiled || setup.source.contains("random"),
            }) as Box<dyn Runtime>)
        })
    })
}

/// True if a source contains the name of a module's package as a word.
fn is_named(source: &str, module: &str) -> bool {
    mentions(source, module.split('.').next().unwrap_or(module))
}

/// Forks through Python's `os.fork`; returns 0 in the child.
fn fork(lib: &Bound<'_, PyAny>) -> Result<i32> {
    let pid = lib.call_method0("_fork").and_then(|pid| pid.extract());
    pid.map_err(|e| Error::new(ErrorKind::Worker, format!("the worker's Python cannot fork: {e}")))
}

/// Makes the calling process the parent of workers whose own parent exits, and ends it when its own parent,
/// the process `host`, ends.
#[pyfunction]
pub(crate) fn adopt_orphans(host: i32) -> PyResult<()> {
    let adopt = || {
        worker::threads::end_with_parent(host)?;
        worker::threads::adopt_orphans()
    };
    adopt().map_err(|e: Error| pyo3::exceptions::PyOSError::new_err(e.to_string()))
}

/// Imports modules that the profile grants.
fn preload<'a>(lib: &Bound<'_, PyAny>, modules: impl Iterator<Item = &'a String>) -> Result<()> {
    for module in modules {
        lib.py().import(module.as_str()).and_then(|_| lib.call_method1("_warm", (module,))).map_err(|e| {
            let text = format!(
                "the profile grants `import {module}`, but the worker's Python cannot import it: {e}"
            );
            Error::new(ErrorKind::Worker, text)
        })?;
    }
    Ok(())
}

/// Imports the modules for connections, and lets the function request them.
fn grant_network(lib: &Bound<'_, PyAny>) -> Result<()> {
    wrap_pyfunction!(connect, lib.py())
        .and_then(|connect| lib.call_method1("_grant_network", (connect,)))
        .map(drop)
        .map_err(|e| {
            Error::new(ErrorKind::Worker, format!("the worker's Python cannot use the network: {e}"))
        })
}

/// Returns a connected descriptor for `host:port`.
#[pyfunction]
fn connect(py: Python<'_>, target: &str) -> PyResult<i32> {
    py.detach(|| worker::connect(target))
        .map(IntoRawFd::into_raw_fd)
        .map_err(|e| PyConnectionError::new_err(e.message().to_owned()))
}

struct PythonRuntime {
    lib: Py<PyAny>,
    entry: Option<Py<PyAny>>,
    flush: Vec<Py<PyAny>>,
    has_seed: bool,
    /// Limit of memory in bytes.
    memory: u64,
    reseeds: bool,
    partial: bool,
}

impl Runtime for PythonRuntime {
    fn sandbox_runtime(&self) -> sandbox::Runtime {
        sandbox::Runtime::Python
    }

    fn load(&mut self, setup: &Setup, compiled: Option<OwnedFd>) -> Result<()> {
        let compiled = compiled.map(worker::read_compiled).transpose()?;
        Python::attach(|py| self.load_source(py, setup, compiled).map_err(|e| self.failed(py, &e)))
    }

    fn seed(&mut self, seed: u64) -> Result<()> {
        if !self.reseeds {
            return Ok(());
        }
        Python::attach(|py| {
            let told = (seed, self.has_seed);
            self.lib
                .bind(py)
                .call_method1("_set_seed", told)
                .map(drop)
                .map_err(|e| failed(py, &e, self.memory))
        })
    }

    fn call(&mut self, slots: &[CallSlot<'_>]) -> Result<()> {
        Python::attach(|py| self.run(py, slots).map_err(|e| self.failed(py, &e)))
    }
}

impl PythonRuntime {
    /// Converts an exception to an error. A worker with only some of the modules exits instead:
    /// another one tries the call again.
    fn failed(&self, py: Python<'_>, error: &PyErr) -> Error {
        if self.partial {
            worker::end_lacking_modules();
        }
        failed(py, error, self.memory)
    }

    fn load_source(&mut self, py: Python<'_>, setup: &Setup, compiled: Option<Vec<u8>>) -> PyResult<()> {
        let lib = self.lib.bind(py);
        lib.setattr("_file_path", &setup.file_path)?;
        lib.setattr("_no_clock", &setup.no_clock)?;
        lib.setattr("_is_legacy", compiled.is_some())?;
        let globals = PyDict::new(py);
        globals.set_item("__name__", "udf")?;
        globals.set_item("lib", lib)?;
        let builtins = py.import("builtins")?;
        globals.set_item("__builtins__", &builtins)?;
        let code = match &compiled {
            None => builtins.getattr("compile")?.call1((&setup.source, "udf.py", "exec", 0, true))?,
            Some(bytes) => unmarshal(py, bytes)?,
        };
        builtins.getattr("exec")?.call1((code, &globals))?;
        if compiled.is_some() {
            // HDF5-UDF puts its own `lib` before the function and fills it later.
            globals.set_item("lib", lib)?;
        }
        match globals.get_item("dynamic_dataset")? {
            Some(entry) if entry.is_callable() => self.entry = Some(entry.unbind()),
            _ => {
                let message = "the source defines no function dynamic_dataset";
                return Err(pyo3::exceptions::PyNameError::new_err(message));
            }
        }
        let sys = py.import("sys")?;
        for stream in ["stdout", "stderr"] {
            self.flush.push(sys.getattr(stream)?.getattr("flush")?.unbind());
        }
        Ok(())
    }

    fn run(&self, py: Python<'_>, slots: &[CallSlot<'_>]) -> PyResult<()> {
        let buffers = PyDict::new(py);
        for slot in slots {
            let dims = PyTuple::new(py, slot.dims)?.unbind();
            let buffer = FlatBuffer::new(slot, dims).into_object(py)?;
            let told = (&buffer, slot.datatype.type_name_for_lib(), layout(py, slot.datatype)?);
            buffers.set_item(slot.name, self.lib.bind(py).call_method1("_slot", told)?)?;
        }
        let lib = self.lib.bind(py);
        lib.setattr("_slots", buffers)?;
        let starts = slots.iter().map(|slot| PyTuple::new(py, slot.start)).collect::<PyResult<Vec<_>>>()?;
        lib.setattr("_starts", starts)?;
        let Some(entry) = &self.entry else {
            return Err(pyo3::exceptions::PyRuntimeError::new_err(
                "the function was called before it was loaded",
            ));
        };
        let outcome = entry.bind(py).call0();
        for flush in &self.flush {
            flush.bind(py).call0()?;
        }
        let result = outcome?;
        if !result.is_none() {
            lib.call_method1("_check_result", (result,))?;
        }
        Ok(())
    }
}

/// Loads the code object of a `.pyc` file, which only HDF5-UDF stored; its Python version must be
/// this one.
fn unmarshal<'py>(py: Python<'py>, bytes: &[u8]) -> PyResult<Bound<'py, PyAny>> {
    const HEADER: usize = 16;
    let magic: Vec<u8> = py.import("importlib.util")?.getattr("MAGIC_NUMBER")?.extract()?;
    if !bytes.starts_with(&magic) {
        let version: String = py.import("sys")?.getattr("version")?.extract()?;
        let version = version.split(' ').next().unwrap_or_default();
        let text = format!(
            "the bytecode was made by another version of Python than {version}, which runs functions here; set HYPERCHUNK_PYTHON to one of that version, or attach the source again"
        );
        return Err(pyo3::exceptions::PyImportError::new_err(text));
    }
    py.import("marshal")?.getattr("loads")?.call1((bytes.get(HEADER..).unwrap_or_default(),))
}

/// Describes a type as `_records.py` reads it; None for numbers, which the buffer itself returns.
fn layout<'py>(py: Python<'py>, datatype: &Datatype) -> PyResult<Option<Bound<'py, PyAny>>> {
    if datatype.flat_number().is_some() { Ok(None) } else { describe(py, datatype).map(Some) }
}

fn describe<'py>(py: Python<'py>, datatype: &Datatype) -> PyResult<Bound<'py, PyAny>> {
    let size = datatype.size();
    let tuple = match datatype {
        Datatype::Text(_) | Datatype::Utf8(_) => ("text", size).into_pyobject(py)?.into_any(),
        Datatype::Pointer => ("pointer", size).into_pyobject(py)?.into_any(),
        Datatype::Array(base, dims) => {
            let dims = PyTuple::new(py, dims)?;
            ("array", size, describe(py, base)?, dims).into_pyobject(py)?.into_any()
        }
        Datatype::Compound(compound) => {
            let names = identifiers(compound.members().iter().map(|m| m.name.as_str()));
            let members = compound
                .members()
                .iter()
                .zip(names)
                .map(|(m, names)| {
                    (m.name.as_str(), names, m.offset, describe(py, &m.datatype)?).into_pyobject(py)
                })
                .collect::<PyResult<Vec<_>>>()?;
            ("compound", size, members).into_pyobject(py)?.into_any()
        }
        number => {
            let format = number.number().map_or("", ElementType::struct_format);
            ("number", size, format).into_pyobject(py)?.into_any()
        }
    };
    Ok(tuple)
}

/// Formats `ValueError: text (udf.py, line 7)`: the line is the last one in the function's own
/// source. `memory` is the limit of memory in bytes.
fn failed(py: Python<'_>, error: &PyErr, memory: u64) -> Error {
    let mut line = None;
    let mut frame = error.traceback(py).map(Bound::into_any);
    while let Some(current) = frame {
        let file = current
            .getattr("tb_frame")
            .and_then(|f| f.getattr("f_code")?.getattr("co_filename")?.extract::<String>());
        if file.is_ok_and(|f| f == "udf.py") {
            line = current.getattr("tb_lineno").and_then(|n| n.extract::<u64>()).ok();
        }
        frame = current.getattr("tb_next").ok().filter(|n| !n.is_none());
    }
    let place = line.map(|n| format!(" (udf.py, line {n})")).unwrap_or_default();
    if error.is_instance_of::<pyo3::exceptions::PyMemoryError>(py) {
        let (text, limit) = (error.to_string(), memory >> 20);
        let text = text.trim_end_matches([':', ' ']);
        let message = format!("{text}{place}; the limit is {limit} MiB (`memory` of its profile)");
        return Error::new(ErrorKind::Failed, message);
    }
    let hint = if error.is_instance_of::<pyo3::exceptions::PyPermissionError>(py) {
        "; functions have no access to files that their profile does not grant"
    } else if error.is_instance_of::<pyo3::exceptions::PyImportError>(py) {
        "; functions can import NumPy, the parts of the standard library that compute, and what their profile grants (`imports`)"
    } else {
        ""
    };
    Error::new(ErrorKind::Failed, format!("{error}{place}{hint}"))
}
