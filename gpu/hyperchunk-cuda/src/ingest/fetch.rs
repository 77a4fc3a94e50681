//! Reading a batch with several threads.

use super::ChunkBytes;
use super::plan::{Conversion, Task};
use super::prepare::{PreparedTask, is_for_cufile, prepare};
use super::slot::{Slot, TaskOffsets};
use crate::cufile::RegisteredFile;
use crate::error::fail;
use crate::{Error, ErrorKind, Result};
use hyperchunk_format::codec::Decoder;
use std::sync::{Mutex, PoisonError};

impl<'a> Slot<'a> {
    /// Reads all tasks with several threads.
    pub(super) fn read(
        &mut self,
        tasks: &'a [Task<'a>],
        places: &[TaskOffsets],
        registered: Option<&RegisteredFile<'_>>,
    ) -> Result<Vec<PreparedTask>> {
        let Some(pinned) = &mut self.pinned else { fail!(Failed, "no page-locked memory") };
        let mut order: Vec<usize> = (0..tasks.len()).collect();
        order.sort_by_key(|number| places[*number].at);
        let mut rest = pinned.as_mut_slice();
        let mut passed = 0;
        let mut work = Vec::with_capacity(tasks.len());
        for number in order {
            let place = places[number].at;
            let (_, after) = rest.split_at_mut(place - passed);
            let (own, after) = after.split_at_mut(tasks[number].room());
            passed = place + own.len();
            rest = after;
            work.push((number, own));
        }
        let count = match self.options.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            count => count,
        };
        let count = count.min(work.len()).max(1);
        let (request, array, stored) = (self.request, self.array, self.stored.as_ref());
        let context = &self.context;
        let work = Mutex::new(work.into_iter().enumerate());
        let one = || -> Result<Vec<(usize, PreparedTask)>, (usize, Error)> {
            let (mut decoder, mut scratch) = (Decoder::default(), Vec::new());
            let mut done = Vec::new();
            loop {
                let next = work.lock().unwrap_or_else(PoisonError::into_inner).next();
                let Some((turn, (number, to))) = next else { return Ok(done) };
                let task = &tasks[number];
                let read = match (registered, task.stored, stored) {
                    (Some(file), ChunkBytes::At { offset, .. }, Some(stored)) if is_for_cufile(task) => {
                        if places[number].direct {
                            // Within the array: `Copy::new` checked that.
                            file.read_at(context, array + task.copies[0].to, 0, task.bytes(), offset)
                        } else {
                            file.read(stored, places[number].at, task.bytes(), offset)
                        }
                        .map(|()| true)
                    }
                    _ => Ok(false),
                };
                let prepared = match read {
                    Ok(true) => {
                        let needs_host =
                            matches!(task.how, Conversion::Gpu { .. }) && task.bytes() < task.raw;
                        PreparedTask { by_cufile: true, needs_host, ..PreparedTask::default() }
                    }
                    // If cuFile cannot read the data, read them without cuFile, which reports the same errors
                    // of the file.
                    Ok(false) | Err(_) => prepare(task, request, to, &mut decoder, &mut scratch)
                        .map_err(|error| (turn, error))?,
                };
                done.push((number, prepared));
            }
        };
        let mut all = vec![PreparedTask::default(); tasks.len()];
        let found = if count == 1 {
            vec![one()]
        } else {
            std::thread::scope(|scope| {
                let threads: Vec<_> = (0..count).map(|_| scope.spawn(one)).collect();
                threads.into_iter().map(|thread| thread.join().unwrap_or_else(|_| panicked())).collect()
            })
        };
        // Chunks are taken in order, so that the first failing chunk always determines the error.
        let mut first: Option<(usize, Error)> = None;
        for list in found {
            match list {
                Ok(list) => list.into_iter().for_each(|(number, prepared)| all[number] = prepared),
                Err((turn, error)) if first.as_ref().is_none_or(|(before, _)| turn < *before) => {
                    first = Some((turn, error));
                }
                Err(_) => {}
            }
        }
        match first {
            Some((_, error)) => Err(error),
            None => Ok(all),
        }
    }
}

#[cold]
fn panicked<T>() -> Result<T, (usize, Error)> {
    Err((usize::MAX, Error::new(ErrorKind::Failed, "a thread that reads chunks panicked")))
}
