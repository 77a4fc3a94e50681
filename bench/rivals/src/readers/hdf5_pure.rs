//! hdf5-pure, which reads the file into memory first, or streams it. It only supports slices of
//! whole rows.

use super::Task;
use crate::jobs::{Answer, Input, Job, Names, Result, SIDE};
use hdf5_pure::File;
use std::path::Path;

type Open = fn(&Path) -> Result<File>;

pub(crate) fn task(input: &Input, job: Job) -> Result<Task<'_>> {
    Ok(Box::new(move || answer(|path| Ok(File::open(path)?), input, job)))
}

pub(crate) fn task_streaming(input: &Input, job: Job) -> Result<Task<'_>> {
    Ok(Box::new(move || answer(|path| Ok(File::open_streaming(path)?), input, job)))
}

fn answer(open: Open, input: &Input, job: Job) -> Result<Answer> {
    let mut values = Vec::new();
    match job {
        Job::Whole(name) => values = open(&input.data)?.dataset(name)?.read_f32()?,
        Job::Slices(name) => {
            let file = open(&input.data)?;
            let dataset = file.dataset(name)?;
            let columns = usize::try_from(dataset.shape()?[1])?;
            for [row, column] in &input.corners {
                let rows = dataset.read_f32_rows(*row, SIDE)?;
                let column = usize::try_from(*column)?;
                for row in rows.chunks_exact(columns) {
                    values.extend_from_slice(&row[column..column + usize::try_from(SIDE)?]);
                }
            }
        }
        Job::Names => {
            let mut names = Names::default();
            for (group, members) in open(&input.many)?.root().iter_groups()? {
                for (name, dataset) in members.iter_datasets()? {
                    names.add(&group, &name, dataset.shape()?);
                }
            }
            return Ok(Answer::Names(names));
        }
    }
    Ok(Answer::Values(values))
}
