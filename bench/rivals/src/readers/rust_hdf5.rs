//! rust-hdf5, which lists all datasets when it opens a file.

use super::Task;
use crate::jobs::{Answer, Input, Job, Names, Result, SIDE};
use rust_hdf5::H5File;

pub(crate) fn task(input: &Input, job: Job) -> Result<Task<'_>> {
    Ok(Box::new(move || answer(input, job)))
}

fn answer(input: &Input, job: Job) -> Result<Answer> {
    let mut values = Vec::new();
    match job {
        Job::Whole(name) => values = H5File::open(&input.data)?.dataset(name)?.read_raw::<f32>()?,
        Job::Slices(name) => {
            let file = H5File::open(&input.data)?;
            let dataset = file.dataset(name)?;
            let side = usize::try_from(SIDE)?;
            for [row, column] in &input.corners {
                let starts = [usize::try_from(*row)?, usize::try_from(*column)?];
                values.extend(dataset.read_slice::<f32>(&starts, &[side, side])?);
            }
        }
        Job::Names => {
            let mut names = Names::default();
            let file = H5File::open(&input.many)?;
            for path in file.dataset_names() {
                let (group, name) = path.split_once('/').ok_or("a dataset outside the groups")?;
                names.add(group, name, file.dataset(&path)?.shape().iter().map(|dim| *dim as u64));
            }
            return Ok(Answer::Names(names));
        }
    }
    Ok(Answer::Values(values))
}
