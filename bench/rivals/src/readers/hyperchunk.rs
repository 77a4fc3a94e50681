//! Our own engine.

use super::Task;
use crate::jobs::{Answer, Input, Job, Names, Result, SIDE};
use hyperchunk::model::{LinkTarget, ObjectKind};
use hyperchunk::select::{Axis, Selection};
use hyperchunk::{Dataset, File, OpenOptions};

pub(crate) fn task(input: &Input, job: Job) -> Result<Task<'_>> {
    Ok(Box::new(move || match job {
        Job::Whole(name) => whole(&open(input, name)?),
        Job::Slices(name) => slices(input, &open(input, name)?),
        Job::Names => names(&File::open(&input.many, &OpenOptions::default())?),
    }))
}

/// Prepares the job with the file open and read before, so that its chunk index is loaded.
pub(crate) fn task_ready(input: &Input, job: Job) -> Result<Task<'_>> {
    let (Job::Whole(name) | Job::Slices(name)) = job else {
        return Err("nothing to prepare".into());
    };
    let dataset = open(input, name)?;
    slices(&Input { corners: vec![[0, 0]], data: input.data.clone(), many: input.many.clone() }, &dataset)?;
    Ok(Box::new(move || match job {
        Job::Slices(_) => slices(input, &dataset),
        _ => whole(&dataset),
    }))
}

fn open(input: &Input, name: &str) -> Result<Dataset> {
    let file = File::open(&input.data, &OpenOptions::default())?;
    Ok(file.root()?.group()?.get(name.as_bytes())?.dataset()?)
}

fn whole(dataset: &Dataset) -> Result<Answer> {
    let mut values = vec![0_f32; usize::try_from(dataset.elements()?)?];
    dataset.read(&Selection::All, bytes_of(&mut values))?;
    Ok(Answer::Values(values))
}

fn slices(input: &Input, dataset: &Dataset) -> Result<Answer> {
    let size = usize::try_from(SIDE * SIDE)?;
    let mut values = vec![0_f32; input.corners.len() * size];
    for ([row, column], slice) in input.corners.iter().zip(values.chunks_exact_mut(size)) {
        let choice = Selection::Axes(vec![Axis::range(*row..row + SIDE), Axis::range(*column..column + SIDE)]);
        dataset.read(&choice, bytes_of(slice))?;
    }
    Ok(Answer::Values(values))
}

fn names(file: &File) -> Result<Answer> {
    let mut names = Names::default();
    for group in file.root()?.group()?.links()? {
        let LinkTarget::Hard(address) = group.target else { continue };
        let members = file.object(address)?.group()?;
        for link in members.links()? {
            let LinkTarget::Hard(address) = link.target else { continue };
            let object = file.object(address)?;
            if object.kind() == ObjectKind::Dataset {
                let (group, name) = (group.name.to_string(), link.name.to_string());
                names.add(&group, &name, object.dataset()?.dims().iter().copied());
            }
        }
    }
    Ok(Answer::Names(names))
}

fn bytes_of(values: &mut [f32]) -> &mut [u8] {
    // SAFETY: the same memory, borrowed as long; any bytes are valid floats, and bytes need no
    // alignment.
    unsafe { std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), size_of_val(values)) }
}
