//! Datasets in the memory of a GPU.

mod dlpack;
mod errors;
mod live;
mod read;

use crate::dataset::Dataset;
use crate::datatype::Conversion;
use crate::errors::to_python;
use crate::memory::fill;
use crate::selection::Selection;
use dlpack::{Element, Tensor};
use errors::{Failure, cuda_error};
use hyperchunk_cuda::ingest::Report;
use hyperchunk_cuda::{DeviceMemory, Driver, Stream};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyTuple};
use std::path::PathBuf;
use std::sync::Arc;

/// An array on a GPU. Everything exported from it keeps its memory alive.
#[pyclass(frozen, module = "hyperchunk._core")]
#[derive(Debug)]
pub(crate) struct DeviceArray {
    memory: Arc<DeviceMemory>,
    shape: Vec<i64>,
    element: Element,
    report: Option<Report>,
    host_fallback_reason: Option<String>,
}

#[pymethods]
impl DeviceArray {
    /// Extent of the array.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, &self.shape)
    }

    /// Ordinal of the GPU.
    #[getter]
    fn device(&self) -> u32 {
        self.memory.context().ordinal()
    }

    /// Device address; 0 if the array is empty.
    #[getter]
    fn address(&self) -> u64 {
        if self.memory.bytes() == 0 { 0 } else { self.memory.address() }
    }

    /// Size in bytes.
    #[getter]
    fn nbytes(&self) -> usize {
        self.memory.bytes()
    }

    /// Report of the transfer, if chunks were copied as stored. Counts: bytes stored, bytes copied,
    /// bytes read by cuFile; chunks decoded by the GPU, by the processor, and by the processor
    /// after the GPU failed or did not try; blocks computed by kernels. Seconds: reading, and on the
    /// GPU copying, decompressing and arranging.
    #[getter]
    fn report(&self) -> Option<([u64; 7], [f64; 4])> {
        self.report.map(|report| {
            let [stored, uploaded, direct] = [report.stored, report.uploaded, report.direct];
            let [on_gpu, on_cpu, again] = [report.on_gpu, report.on_cpu, report.again];
            let counts = [stored, uploaded, direct, on_gpu, on_cpu, again, report.computed];
            let times = [report.reading, report.copying, report.decompressing, report.arranging];
            (counts, times.map(|time| time.as_secs_f64()))
        })
    }

    /// Reason why the elements passed through host memory, if they did.
    #[getter]
    fn host_fallback_reason(&self) -> Option<&str> {
        self.host_fallback_reason.as_deref()
    }

    /// Copies the array into host memory of exactly its size.
    fn download(&self, py: Python<'_>, out: &Bound<'_, PyAny>) -> PyResult<()> {
        fill(out, |out| {
            let copied = py.detach(|| {
                let stream = Stream::new(self.memory.context())?;
                stream.download(&self.memory, 0, out)
            });
            copied.map_err(|error| cuda_error(py, &error))
        })
    }

    /// Exports a DLPack capsule: versioned if requested, of a copy on the GPU if requested.
    fn dlpack<'py>(&self, py: Python<'py>, versioned: bool, copy: bool) -> PyResult<Bound<'py, PyCapsule>> {
        let memory = if copy {
            let copied = py.detach(|| {
                let memory = DeviceMemory::alloc(self.memory.context(), self.memory.bytes())?;
                let stream = Stream::new(self.memory.context())?;
                stream.copy(&self.memory, 0, &memory, 0, self.memory.bytes())?;
                stream.synchronize()?;
                Ok(Arc::new(memory))
            });
            copied.map_err(|error| cuda_error(py, &error))?
        } else {
            Arc::clone(&self.memory)
        };
        dlpack::capsule(py, Tensor::new(memory, &self.shape, self.element), versioned, copy)
    }
}

/// Reads a selection into the memory of a GPU. `element` is the kind and size in bytes of an element after
/// the conversion; `shape` is the extent of the result.
#[pyfunction]
pub(crate) fn read_to_device(
    py: Python<'_>,
    dataset: &Dataset,
    selection: &Selection,
    conversion: Option<&Conversion>,
    shape: Vec<i64>,
    element: (char, usize),
    device: u32,
) -> PyResult<DeviceArray> {
    let (kind, size) = element;
    let element = Element::new(kind, size).ok_or_else(|| {
        PyValueError::new_err(format!("a GPU array cannot have elements of kind {kind:?} and {size} bytes"))
    })?;
    let found = py.detach(|| {
        let selection = selection.within(dataset.0.dims())?;
        let bytes =
            shape.iter().try_fold(size, |bytes, extent| bytes.checked_mul(usize::try_from(*extent).ok()?));
        let bytes =
            bytes.ok_or_else(|| hyperchunk::Error::limit("the result is larger than the address space"))?;
        let wanted =
            read::ReadRequest { dataset: &dataset.0, selection: &selection, conversion, element, bytes };
        read::read(&wanted, device)
    });
    match found {
        Ok(read::GpuArray { memory, report, host_fallback_reason }) => {
            Ok(DeviceArray { memory: Arc::new(memory), shape, element, report, host_fallback_reason })
        }
        Err(Failure::Read(error)) => Err(to_python(py, &error)),
        Err(Failure::Cuda(error)) => Err(cuda_error(py, &error)),
    }
}

/// Returns the path of NVIDIA's driver and the CUDA version that it supports.
#[pyfunction]
fn cuda_driver(py: Python<'_>) -> PyResult<(PathBuf, (u32, u32))> {
    let driver = py.detach(Driver::load).map_err(|error| cuda_error(py, &error))?;
    Ok((driver.path().to_owned(), driver.version()))
}

/// A GPU: name, compute capability, bytes of memory, UUID.
type Gpu<'py> = (String, (u32, u32), u64, Bound<'py, PyBytes>);

/// Lists the GPUs that this process may use.
#[pyfunction]
fn cuda_devices(py: Python<'_>) -> PyResult<Vec<Gpu<'_>>> {
    let found = py.detach(|| Driver::load()?.devices()).map_err(|error| cuda_error(py, &error))?;
    let gpus = found.into_iter();
    Ok(gpus.map(|gpu| (gpu.name, gpu.capability, gpu.memory, PyBytes::new(py, &gpu.uuid))).collect())
}

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_class::<DeviceArray>()?;
    module.add_function(wrap_pyfunction!(cuda_driver, module)?)?;
    module.add_function(wrap_pyfunction!(cuda_devices, module)?)?;
    module.add_function(wrap_pyfunction!(read_to_device, module)?)
}
