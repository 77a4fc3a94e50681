//! libhdf5 through hdf5-metno: the expected answers.

use crate::jobs::{Answer, Input, Job, Names, Result, SIDE};
use hdf5_metno::File;

pub(crate) fn expected(input: &Input, job: Job) -> Result<Answer> {
    let name = match job {
        Job::Names => return names(input),
        Job::Whole(name) | Job::Slices(name) => name,
    };
    let dataset = File::open(&input.data)?.dataset(name)?;
    let values = dataset.read_raw::<f32>()?;
    if matches!(job, Job::Whole(_)) {
        return Ok(Answer::Values(values));
    }
    let columns = dataset.shape()[1];
    let mut slices = Vec::new();
    for [row, column] in &input.corners {
        for row in *row..row + SIDE {
            let start = usize::try_from(row)? * columns + usize::try_from(*column)?;
            slices.extend_from_slice(&values[start..start + usize::try_from(SIDE)?]);
        }
    }
    Ok(Answer::Values(slices))
}

fn names(input: &Input) -> Result<Answer> {
    let mut names = Names::default();
    let file = File::open(&input.many)?;
    for group in file.member_names()? {
        let members = file.group(&group)?;
        for name in members.member_names()? {
            names.add(&group, &name, members.dataset(&name)?.shape().iter().map(|dim| *dim as u64));
        }
    }
    Ok(Answer::Names(names))
}
