//! hidefix: makes an index through libhdf5, then reads by itself.

use super::Task;
use crate::jobs::{Answer, Input, Job, Names, Result, SIDE};
use hdf5_metno::File;
use hidefix::idx::DatasetD;
use hidefix::prelude::*;

pub(crate) fn task(input: &Input, job: Job) -> Result<Task<'_>> {
    Ok(Box::new(move || match job {
        Job::Whole(name) => whole(input, &index(input, name)?),
        Job::Slices(name) => slices(input, &index(input, name)?),
        Job::Names => names(&Index::index(&input.many)?),
    }))
}

/// Prepares the job with the index made.
pub(crate) fn task_ready(input: &Input, job: Job) -> Result<Task<'_>> {
    let (Job::Whole(name) | Job::Slices(name)) = job else {
        return Err("nothing to prepare".into());
    };
    let index = index(input, name)?;
    Ok(Box::new(move || match job {
        Job::Slices(_) => slices(input, &index),
        _ => whole(input, &index),
    }))
}

/// Returns the index of one dataset: faster than the file's.
fn index(input: &Input, name: &str) -> Result<DatasetD<'static>> {
    Ok(File::open(&input.data)?.dataset(name)?.index()?)
}

fn whole(input: &Input, index: &DatasetD<'_>) -> Result<Answer> {
    let array = index.as_par_reader(&input.data)?.values_dyn_par::<f32, _>(..)?;
    Ok(Answer::Values(array.into_raw_vec_and_offset().0))
}

fn slices(input: &Input, index: &DatasetD<'_>) -> Result<Answer> {
    let mut reader = index.as_reader(&input.data)?;
    let mut values = Vec::new();
    for corner in &input.corners {
        values.extend(reader.values::<f32, _>((corner, &[SIDE, SIDE]))?);
    }
    Ok(Answer::Values(values))
}

fn names(index: &Index<'_>) -> Result<Answer> {
    let mut names = Names::default();
    for (group, members) in index.groups() {
        for (name, dataset) in members.datasets() {
            names.add(group, name, dataset.shape().iter().copied());
        }
    }
    Ok(Answer::Names(names))
}
