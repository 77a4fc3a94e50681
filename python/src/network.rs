//! Files over a network: options from Python, and sources read by Python objects.

use bytes::Bytes;
use hyperchunk::io::{Counters, Land, Remote, RemoteOptions, RequestCost, Source};
use hyperchunk::{Error, ErrorKind, Result};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Parses the options of a dictionary.
pub(crate) fn options(settings: &Bound<'_, PyDict>) -> PyResult<RemoteOptions> {
    let mut options = RemoteOptions::default();
    for (key, value) in settings {
        let key: String = key.extract()?;
        match key.as_str() {
            "store" => options.store = value.extract()?,
            "timeout" => options.timeout = seconds(&value)?,
            "connect_timeout" => options.connect_timeout = seconds(&value)?,
            "retries" => options.retries = value.extract()?,
            "retry_timeout" => options.retry_timeout = seconds(&value)?,
            "concurrency" => options.concurrency = value.extract::<usize>()?.max(1),
            "first_read" => options.first_read = value.extract()?,
            "read_ahead" => options.read_ahead = value.extract()?,
            "block" => options.block = value.extract::<u64>()?.max(64),
            "gap" => options.gap = value.extract()?,
            "largest_request" => options.largest_request = value.extract::<u64>()?.max(1),
            "part" => options.part = value.extract()?,
            "parts_at_once" => options.parts_at_once = value.extract::<usize>()?.max(1),
            "over_read" => options.over_read = value.extract()?,
            other => {
                return Err(PyTypeError::new_err(format!("unknown network option: {other:?}")));
            }
        }
    }
    Ok(options)
}

fn seconds(value: &Bound<'_, PyAny>) -> PyResult<Duration> {
    let seconds: f64 = value.extract()?;
    Duration::try_from_secs_f64(seconds).map_err(|error| PyTypeError::new_err(error.to_string()))
}

/// A source read by a Python object: `fetch([(start, end), …]) -> [bytes, …]`.
#[derive(Debug)]
pub(crate) struct PythonSource {
    object: Py<PyAny>,
    size: u64,
    /// Name and version of the source; `None` if reading it costs no requests.
    identity: Option<String>,
    options: RemoteOptions,
    counters: Counters,
}

impl PythonSource {
    pub(crate) fn new(object: &Bound<'_, PyAny>, options: RemoteOptions) -> PyResult<Self> {
        Ok(Self {
            size: object.getattr("size")?.extract()?,
            identity: object.getattr("identity")?.extract()?,
            object: object.clone().unbind(),
            options,
            counters: Counters::default(),
        })
    }

    /// Fetches ranges and checks the length of each.
    fn get(&self, ranges: &[Range<u64>]) -> Result<Vec<Bytes>> {
        let pairs: Vec<(u64, u64)> = ranges.iter().map(|range| (range.start, range.end)).collect();
        self.counters.requests.fetch_add(pairs.len() as u64, Ordering::Relaxed);
        let found = Python::attach(|py| {
            let found = self.object.bind(py).call_method1("fetch", (pairs,))?;
            let found: Vec<Bound<'_, PyBytes>> = found.extract()?;
            Ok(found.iter().map(|bytes| Bytes::copy_from_slice(bytes.as_bytes())).collect::<Vec<_>>())
        });
        let found = found.map_err(|error: PyErr| failed(&error))?;
        for (place, range) in ranges.iter().enumerate() {
            let length = found.get(place).map_or(0, |bytes| bytes.len() as u64);
            if length != range.end - range.start {
                let message =
                    format!("the source returned {length} bytes instead of {}", range.end - range.start);
                return Err(Error::new(ErrorKind::Io, message).at(range.start));
            }
            self.counters.bytes.fetch_add(length, Ordering::Relaxed);
        }
        Ok(found)
    }
}

fn failed(error: &PyErr) -> Error {
    Python::attach(|py| {
        let changed = py
            .import("hyperchunk.exceptions")
            .and_then(|module| module.getattr("ChangedError"))
            .is_ok_and(|class| error.matches(py, class).unwrap_or(false));
        let kind = if changed { ErrorKind::Changed } else { ErrorKind::Io };
        Error::new(kind, error.to_string())
    })
}

impl Source for PythonSource {
    fn size(&self) -> u64 {
        self.size
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        let range = offset..offset + buffer.len() as u64;
        let found = self.get(std::slice::from_ref(&range))?;
        found.iter().for_each(|bytes| buffer.copy_from_slice(bytes));
        Ok(())
    }

    fn remote(&self) -> Option<&dyn Remote> {
        self.identity.is_some().then_some(self)
    }
}

impl Remote for PythonSource {
    fn fetch(&self, ranges: &[Range<u64>], land: &mut Land<'_>) -> Result<()> {
        self.counters.rounds.fetch_add(1, Ordering::Relaxed);
        let mut place = 0;
        // One group is as large as the concurrency allows: its bytes are processed while the next
        // group is fetched.
        for group in ranges.chunks(self.options.concurrency.max(1)) {
            for bytes in self.get(group)? {
                land(place, bytes)?;
                place += 1;
            }
        }
        Ok(())
    }

    fn identity(&self) -> &str {
        self.identity.as_deref().unwrap_or_default()
    }

    fn counters(&self) -> &Counters {
        &self.counters
    }

    fn options(&self) -> &RemoteOptions {
        &self.options
    }

    fn cost(&self) -> RequestCost {
        RequestCost::default()
    }
}
