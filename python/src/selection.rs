//! Selections passed from Python.

use crate::errors::to_python;
use hyperchunk::model::{Hyperslab, StoredSelection};
use hyperchunk::select::{self, Axis};
use hyperchunk::{Error, Result};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use std::borrow::Cow;

/// Selection of elements of a dataset.
#[pyclass(frozen, module = "hyperchunk._core")]
#[derive(Debug, PartialEq)]
pub(crate) struct Selection(SelectionSource);

#[derive(Debug, PartialEq)]
enum SelectionSource {
    /// A selection requested by the caller.
    Asked(select::Selection),
    /// A selection as a file stores it.
    Stored(StoredSelection),
}

impl Selection {
    /// Resolves the selection for a dataset of this extent.
    pub(crate) fn within(&self, dims: &[u64]) -> Result<Cow<'_, select::Selection>> {
        match &self.0 {
            SelectionSource::Asked(selection) => Ok(Cow::Borrowed(selection)),
            SelectionSource::Stored(selection) => select::Selection::resolve(selection, dims).map(Cow::Owned),
        }
    }
}

/// Limit for the number of coordinates in the list of boxes that a file stores for a selection.
const MOST_CORNERS: usize = 1 << 22;

impl Selection {
    /// Converts the selection to its form in a file.
    pub(crate) fn stored(&self, dims: &[u64]) -> Result<StoredSelection> {
        Ok(match &self.0 {
            SelectionSource::Stored(selection) => selection.clone(),
            SelectionSource::Asked(select::Selection::All) => StoredSelection::All,
            SelectionSource::Asked(select::Selection::Points { rank, coordinates }) => {
                StoredSelection::Points { rank: *rank, coordinates: coordinates.clone() }
            }
            SelectionSource::Asked(selection) if selection.count(dims)? == 0 => StoredSelection::None,
            SelectionSource::Asked(select::Selection::Axes(axes)) => match regular(axes) {
                Some(slabs) => StoredSelection::Regular(slabs),
                None => boxes(axes)?,
            },
            SelectionSource::Asked(_) => {
                return Err(Error::unsupported("cannot store a selection of arbitrary boxes"));
            }
        })
    }
}

/// Returns one hyperslab per axis, if each axis is a regular pattern.
fn regular(axes: &[Axis]) -> Option<Vec<Hyperslab>> {
    let slab = |axis: &Axis| match *axis {
        Axis::Range { start, stride, count, block } => {
            Some(Hyperslab { start, stride: stride.max(1), count: Some(count), block: Some(block) })
        }
        _ => None,
    };
    axes.iter().map(slab).collect()
}

/// Converts lists of indices to boxes, given by their first and last corners.
fn boxes(axes: &[Axis]) -> Result<StoredSelection> {
    let spans: Vec<Vec<(u64, u64)>> = axes.iter().map(spans).collect::<Result<_>>()?;
    let count = spans.iter().try_fold(1_usize, |count, spans| count.checked_mul(spans.len()));
    let rank = axes.len();
    let Some(count) = count.filter(|count| count.saturating_mul(2 * rank) <= MOST_CORNERS) else {
        return Err(Error::limit("the selection has too many boxes to be stored in a file"));
    };
    let mut corners = Vec::with_capacity(count * 2 * rank);
    for number in 0..count {
        let mut rest = number;
        let mut chosen = vec![(0, 0); rank];
        for (place, spans) in chosen.iter_mut().zip(&spans).rev() {
            *place = spans[rest % spans.len()];
            rest /= spans.len();
        }
        corners.extend(chosen.iter().map(|(first, _)| *first));
        corners.extend(chosen.iter().map(|(_, last)| *last));
    }
    Ok(StoredSelection::Blocks { rank, corners })
}

/// Returns the first and last index of each run of consecutive indices.
fn spans(axis: &Axis) -> Result<Vec<(u64, u64)>> {
    match axis {
        Axis::Range { start, count: 1, block, .. } => Ok(vec![(*start, start + block - 1)]),
        Axis::Range { start, stride, count, block } if stride == block => {
            Ok(vec![(*start, start + count * block - 1)])
        }
        Axis::Range { start, stride, count, block } => {
            let first = |number| start + number * stride;
            if *count > MOST_CORNERS as u64 {
                return Err(Error::limit("the selection has too many boxes to be stored in a file"));
            }
            Ok((0..*count).map(|number| (first(number), first(number) + block - 1)).collect())
        }
        Axis::List(indices) => {
            let mut spans: Vec<(u64, u64)> = Vec::new();
            for index in indices {
                match spans.last_mut() {
                    Some((_, last)) if *last + 1 == *index => *last = *index,
                    _ => spans.push((*index, *index)),
                }
            }
            Ok(spans)
        }
        _ => Err(Error::unsupported("cannot store such a selection")),
    }
}

/// An axis from Python: start, stride, count and block, or a list of indices as bytes.
#[derive(FromPyObject)]
enum AnyAxis<'py> {
    Pattern((u64, u64, u64, u64)),
    List(Bound<'py, PyBytes>),
}

/// Reads 64-bit numbers in native byte order, as NumPy stores them.
fn numbers(bytes: &[u8]) -> Vec<u64> {
    bytes.chunks_exact(8).map(|number| u64::from_ne_bytes(number.try_into().unwrap_or_default())).collect()
}

/// Creates a selection from `start, step, count` for each dimension: `count` indices, every `step`th from
/// `start`.
pub(crate) fn slab(numbers: &[u64]) -> select::Selection {
    let axes = numbers.chunks_exact(3).map(|axis| match axis {
        [start, step, count] => Axis::steps(*start, *step, *count),
        _ => Axis::range(0..0),
    });
    select::Selection::Axes(axes.collect())
}

#[pymethods]
impl Selection {
    /// Selects all elements.
    #[staticmethod]
    fn all() -> Self {
        Self(SelectionSource::Asked(select::Selection::All))
    }

    /// Selects by axis; one entry per dimension.
    #[staticmethod]
    fn axes(axes: Vec<AnyAxis<'_>>) -> Self {
        let axes = axes.into_iter().map(|axis| match axis {
            AnyAxis::Pattern((start, stride, count, block)) => Axis::Range { start, stride, count, block },
            AnyAxis::List(indices) => Axis::List(numbers(indices.as_bytes())),
        });
        Self(SelectionSource::Asked(select::Selection::Axes(axes.collect())))
    }

    /// Selects single elements, by the coordinates of one after another.
    #[staticmethod]
    fn points(rank: usize, coordinates: &[u8]) -> Self {
        Self(SelectionSource::Asked(select::Selection::Points { rank, coordinates: numbers(coordinates) }))
    }

    /// Creates a selection from its form in a file, as `description` returns it.
    #[staticmethod]
    fn selected(description: &Bound<'_, PyTuple>) -> PyResult<Self> {
        parse(description).map(|selection| Self(SelectionSource::Stored(selection)))
    }

    /// Returns the number of selected elements in a dataset of this extent.
    fn count(&self, py: Python<'_>, dims: Vec<u64>) -> PyResult<u64> {
        self.within(&dims).and_then(|selection| selection.count(&dims)).map_err(|e| to_python(py, &e))
    }

    /// Returns the selection as a file stores it; the input of `selected`.
    fn description<'py>(&self, py: Python<'py>, dims: Vec<u64>) -> PyResult<Bound<'py, PyTuple>> {
        describe(py, &self.stored(&dims).map_err(|e| to_python(py, &e))?)
    }

    fn __eq__(&self, other: &Self) -> bool {
        self.0 == other.0
    }

    fn __repr__(&self) -> String {
        format!("{:?}", self.0)
    }
}

/// Converts a stored selection to a Python tuple.
pub(crate) fn describe<'py>(py: Python<'py>, selection: &StoredSelection) -> PyResult<Bound<'py, PyTuple>> {
    match selection {
        StoredSelection::None => ("none",).into_pyobject(py),
        StoredSelection::All => ("all",).into_pyobject(py),
        StoredSelection::Points { rank, coordinates } => ("points", *rank, coordinates).into_pyobject(py),
        StoredSelection::Blocks { rank, corners } => ("blocks", *rank, corners).into_pyobject(py),
        StoredSelection::Regular(slabs) => {
            let slabs = slabs.iter().map(|slab| (slab.start, slab.stride, slab.count, slab.block));
            ("regular", PyTuple::new(py, slabs.collect::<Vec<_>>())?).into_pyobject(py)
        }
    }
}

pub(crate) fn parse(description: &Bound<'_, PyTuple>) -> PyResult<StoredSelection> {
    let kind = description.get_item(0)?.extract::<String>()?;
    let item = |index: usize| description.get_item(index);
    match kind.as_str() {
        "none" => Ok(StoredSelection::None),
        "all" => Ok(StoredSelection::All),
        "points" => {
            Ok(StoredSelection::Points { rank: item(1)?.extract()?, coordinates: item(2)?.extract()? })
        }
        "blocks" => Ok(StoredSelection::Blocks { rank: item(1)?.extract()?, corners: item(2)?.extract()? }),
        "regular" => {
            let slabs = item(1)?.extract::<Vec<(u64, u64, Option<u64>, Option<u64>)>>()?;
            let slab = |(start, stride, count, block)| Hyperslab { start, stride, count, block };
            Ok(StoredSelection::Regular(slabs.into_iter().map(slab).collect()))
        }
        _ => Err(PyValueError::new_err(format!("unknown kind of selection: {kind}"))),
    }
}
