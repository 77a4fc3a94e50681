//! Jobs of `bench/reading.py`, and their answers.

use std::path::PathBuf;

pub(crate) type Result<T> = std::result::Result<T, Box<dyn std::error::Error>>;

/// Rows and columns of a small slice.
pub(crate) const SIDE: u64 = 8;

/// A job.
#[derive(Clone, Copy)]
pub(crate) enum Job {
    /// Reads a whole dataset of `data.h5`.
    Whole(&'static str),
    /// Reads the slices of [`SIDE`] rows and columns at [`Input::corners`] of a dataset of
    /// `data.h5`, one after another.
    Slices(&'static str),
    /// Lists the names and shapes of the datasets in the groups of `many.h5`.
    Names,
}

pub(crate) const JOBS: [(&str, Job); 7] = [
    ("shuffle + deflate", Job::Whole("deflate")),
    ("chunked, no filter", Job::Whole("chunked")),
    ("contiguous", Job::Whole("contiguous")),
    ("names and shapes", Job::Names),
    ("100 slices, contiguous", Job::Slices("contiguous")),
    ("100 slices, chunked", Job::Slices("chunked")),
    ("100 slices, deflate", Job::Slices("deflate")),
];

/// Input files.
pub(crate) struct Input {
    pub(crate) data: PathBuf,
    pub(crate) many: PathBuf,
    /// First row and column of each slice.
    pub(crate) corners: Vec<[u64; 2]>,
}

impl Input {
    pub(crate) fn open(folder: PathBuf) -> Result<Self> {
        let corners = std::fs::read(folder.join("corners.json"))?;
        let corners = serde_json::from_slice(&corners)?;
        Ok(Self { data: folder.join("data.h5"), many: folder.join("many.h5"), corners })
    }
}

/// Result of a job.
pub(crate) enum Answer {
    /// Elements in order, slice after slice.
    Values(Vec<f32>),
    Names(Names),
}

/// Summary of names and shapes, sufficient to check that all were listed.
#[derive(Default, Debug, PartialEq)]
pub(crate) struct Names {
    datasets: u64,
    letters: u64,
    elements: u64,
}

impl Names {
    /// Adds a dataset: the names of its group and of itself, without slashes, and its shape.
    pub(crate) fn add(&mut self, group: &str, name: &str, shape: impl IntoIterator<Item = u64>) {
        self.datasets += 1;
        self.letters += (group.len() + name.len()) as u64;
        self.elements += shape.into_iter().product::<u64>();
    }
}

impl Answer {
    /// Checks the answer against libhdf5's.
    pub(crate) fn check(&self, expected: &Self) -> Result<()> {
        match (self, expected) {
            (Self::Values(values), Self::Values(expected)) if values == expected => Ok(()),
            (Self::Names(names), Self::Names(expected)) if names == expected => Ok(()),
            (Self::Names(names), Self::Names(expected)) => {
                Err(format!("wrong: lists {} datasets of {}", names.datasets, expected.datasets).into())
            }
            _ => Err("wrong values".into()),
        }
    }
}
