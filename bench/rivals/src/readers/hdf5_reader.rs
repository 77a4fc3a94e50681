//! hdf5-reader, which reads through `pread` or a mapping.

use super::Task;
use crate::jobs::{Answer, Input, Job, Names, Result, SIDE};
use hdf5_reader::{Hdf5File, OpenOptions, SliceInfo, SliceInfoElem};
use memmap2::Mmap;
use std::path::Path;

type Open = fn(&Path) -> Result<Hdf5File>;

pub(crate) fn task(input: &Input, job: Job) -> Result<Task<'_>> {
    Ok(Box::new(move || answer(|path| Ok(Hdf5File::open(path)?), input, job)))
}

pub(crate) fn task_mapped(input: &Input, job: Job) -> Result<Task<'_>> {
    let open: Open = |path| {
        // SAFETY: the file is not modified.
        let map = unsafe { Mmap::map(&std::fs::File::open(path)?) }?;
        Ok(Hdf5File::from_mmap_with_options(map, OpenOptions::default())?)
    };
    Ok(Box::new(move || answer(open, input, job)))
}

fn answer(open: Open, input: &Input, job: Job) -> Result<Answer> {
    let mut values = Vec::new();
    match job {
        Job::Whole(name) => {
            let array = open(&input.data)?.dataset(name)?.read_array_uncached_parallel::<f32>()?;
            values = array.into_raw_vec_and_offset().0;
        }
        Job::Slices(name) => {
            let file = open(&input.data)?;
            let dataset = file.dataset(name)?;
            for corner in &input.corners {
                let selections =
                    corner.map(|start| SliceInfoElem::Slice { start, end: start + SIDE, step: 1 });
                let slice = dataset.read_slice::<f32>(&SliceInfo { selections: selections.into() })?;
                values.extend(slice);
            }
        }
        Job::Names => {
            let mut names = Names::default();
            for group in open(&input.many)?.root_group()?.groups()? {
                for dataset in group.datasets()? {
                    names.add(group.name(), dataset.name(), dataset.shape().iter().copied());
                }
            }
            return Ok(Answer::Names(names));
        }
    }
    Ok(Answer::Values(values))
}
