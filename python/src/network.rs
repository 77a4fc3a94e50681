//! Files over a network: options from Python, and sources read by Python objects.

use bytes::Bytes;
use hyperchunk::io::{Counters, Land, Remote, RemoteOptions, RequestCost, Source};
use hyperchunk::{Error, ErrorKind, Result};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::ops::{Range, RangeInclusive};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Maximum size in bytes of a setting: far above any useful one, and small enough that sums do not overflow.
const MAX_BYTES: u64 = 1 << 40;
/// Minimum and maximum of a time limit, in seconds.
const MIN_SECONDS: f64 = 0.001;
const MAX_SECONDS: f64 = 1e9;
/// Maximum number of requests of one file at a time.
const MAX_CONCURRENCY: u64 = 1 << 16;
/// Minimum and maximum size of a part of an upload in bytes: most stores refuse other sizes.
const MIN_PART_BYTES: u64 = 5 << 20;
const MAX_PART_BYTES: u64 = 1 << 30;
/// Maximum number of parts of an upload at a time: an upload has no more.
const MAX_PARTS_AT_ONCE: u64 = 10_000;

/// Parses the options of a dictionary.
///
/// # Errors
/// InvalidError for a value that is not allowed; TypeError for an unknown name or a value of a wrong type.
pub(crate) fn options(settings: &Bound<'_, PyDict>) -> PyResult<RemoteOptions> {
    let mut options = RemoteOptions::default();
    for (key, value) in settings {
        let key: String = key.extract()?;
        let setting = Setting { name: &key, value: &value };
        match key.as_str() {
            "store" => options.store = value.extract()?,
            "timeout" => options.timeout = setting.seconds(MIN_SECONDS)?,
            "connect_timeout" => options.connect_timeout = setting.seconds(MIN_SECONDS)?,
            "retries" => options.retries = setting.integer(0..=u64::from(u32::MAX))?,
            "retry_timeout" => options.retry_timeout = setting.seconds(0.0)?,
            "concurrency" => options.concurrency = setting.integer(1..=MAX_CONCURRENCY)?,
            "first_read" => options.first_read = setting.integer(0..=MAX_BYTES)?,
            "read_ahead" => options.read_ahead = setting.integer(0..=MAX_BYTES)?,
            "block" => options.block = setting.integer(64..=MAX_BYTES)?,
            "gap" => options.gap = setting.integer(0..=MAX_BYTES)?,
            "largest_request" => options.largest_request = setting.integer(1..=MAX_BYTES)?,
            "part" => options.part = setting.integer(MIN_PART_BYTES..=MAX_PART_BYTES)?,
            "parts_at_once" => options.parts_at_once = setting.integer(1..=MAX_PARTS_AT_ONCE)?,
            "over_read" => options.over_read = setting.number(0.0..=f64::INFINITY)?,
            other => {
                return Err(PyTypeError::new_err(format!("unknown network option: {other:?}")));
            }
        }
    }
    Ok(options)
}

/// A setting in the argument `network`.
struct Setting<'a, 'py> {
    name: &'a str,
    value: &'a Bound<'py, PyAny>,
}

impl Setting<'_, '_> {
    fn integer<T: TryFrom<u64>>(&self, allowed: RangeInclusive<u64>) -> PyResult<T> {
        let given = self.value.extract::<u64>();
        let fit = given.as_ref().ok().filter(|given| allowed.contains(*given));
        let fit = fit.and_then(|given| T::try_from(*given).ok());
        let expected = || format!("an integer from {} to {}", allowed.start(), allowed.end());
        fit.ok_or_else(|| self.unfit(&expected(), given.err()))
    }

    fn number(&self, allowed: RangeInclusive<f64>) -> PyResult<f64> {
        let given = self.value.extract::<f64>();
        let fit = given.as_ref().ok().filter(|given| allowed.contains(*given)).copied();
        let expected = || format!("a number from {} to {}", allowed.start(), allowed.end());
        fit.ok_or_else(|| self.unfit(&expected(), given.err()))
    }

    fn seconds(&self, least: f64) -> PyResult<Duration> {
        self.number(least..=MAX_SECONDS).map(Duration::from_secs_f64)
    }

    /// Returns the exception for a value that is not `expected`. `error` is that of its conversion.
    fn unfit(&self, expected: &str, error: Option<PyErr>) -> PyErr {
        let py = self.value.py();
        let got = self.value.repr().map_or_else(|_| "another value".into(), |shown| shown.to_string());
        let message =
            format!("cannot use the network setting `{}`: expected {expected}, got {got}", self.name);
        match error {
            Some(error) if error.is_instance_of::<PyTypeError>(py) => PyTypeError::new_err(message),
            _ => crate::errors::exception(py, "InvalidError", &message),
        }
    }
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
