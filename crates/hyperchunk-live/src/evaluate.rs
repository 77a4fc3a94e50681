//! One chunk, computed.

use crate::plan::{self, Plan, about_input};
use crate::{expression, inputs};
use hyperchunk::{Dataset, File};
use hyperchunk_udf::error::{Error, ErrorKind, Result};
use hyperchunk_udf::host::results;
use hyperchunk_udf::host::{Active, Pool, Session, Source};
use hyperchunk_udf::legacy::{Legacy, is_legacy};
use hyperchunk_udf::record::{Block, bytes_of};
use hyperchunk_udf::stub::Stub;
use std::sync::Arc;

/// Computes the chunk that `stub` stands for.
pub(crate) fn chunk(dataset: &Dataset, stub: &[u8], to: &mut [u8]) -> Result<()> {
    let about = |error: Error| {
        let file = dataset.object().file().path().map(|path| path.display().to_string()).unwrap_or_default();
        error.about(format!("{file}:{}", dataset.object().path().unwrap_or_default()))
    };
    if cfg!(target_endian = "big") {
        let message = "live datasets are not computed on big-endian machines yet";
        return Err(about(Error::new(ErrorKind::Unsupported, message)));
    }
    let (stub, legacy) = noted(dataset, stub).map_err(about)?;
    let plan = plan::of(dataset, &stub, legacy.as_ref())?;
    let computed = Active::enter(stub.id, &plan.profile).and_then(|_active| {
        let (offset, shape) = plan.record.block(&stub.chunk)?;
        compute(dataset.object().file(), &plan, (&offset, &shape), to)
    });
    plan.note(computed.as_ref().err());
    computed.map_err(|error| plan.explain(&error))
}

/// The stub that a chunk holds, or that stands for what HDF5-UDF wrote there.
fn noted(dataset: &Dataset, bytes: &[u8]) -> Result<(Stub, Option<Legacy>)> {
    if is_legacy(bytes) && plan::client_data(dataset).is_some_and(<[u32]>::is_empty) {
        let legacy = Legacy::parse(bytes)?;
        let chunk = vec![0; dataset.dims().len()];
        return Ok((Stub { id: legacy.id(), record: legacy.digest, chunk }, Some(legacy)));
    }
    let stub = Stub::parse(bytes)?;
    if !plan::is_of(dataset, &stub) {
        let message = "the chunk holds the stub of another live dataset than the one that is read";
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    Ok((stub, None))
}

fn compute(file: &File, plan: &Plan, (offset, shape): (&[u64], &[u64]), to: &mut [u8]) -> Result<()> {
    if let Some(program) = &plan.program {
        return expression::compute(file, plan, program, (offset, shape), to);
    }
    let mut session = plan.session(file)?;
    // A worker that ended by itself while it was idle says so only when it is called.
    match run(file, plan, &mut session, (offset, shape)) {
        Err(_) if session.ended_idle() => {
            session = plan.session(file)?;
            run(file, plan, &mut session, (offset, shape))?;
        }
        outcome => outcome?,
    }
    take_output(plan, &mut session, shape, to)?;
    Pool::global().put(Arc::clone(&plan.key), session);
    Ok(())
}

fn run(file: &File, plan: &Plan, session: &mut Session, (offset, shape): (&[u64], &[u64])) -> Result<()> {
    let record = &plan.record;
    let parts: Vec<Block> = record.parts(offset, shape).collect();
    for (n, ((slot, source), part)) in record.slots().zip(&plan.key.slots).zip(&parts).enumerate() {
        if !matches!(source.source, Source::Copied(_)) {
            continue;
        }
        // What was read whole stays as it is: the engine reads files that nobody writes.
        if !record.is_cut(slot) && session.stamp == file.instance() {
            continue;
        }
        let to = session.input(n).ok_or_else(|| Error::new(ErrorKind::Worker, "no memory for an input"))?;
        inputs::read(file, record, slot, part, to).map_err(|error| about_input(&error, slot))?;
    }
    session.stamp = file.instance();
    let blocks = record.slots().zip(&plan.key.slots).zip(parts).map(|((slot, job), part)| {
        let skip = match job.source {
            Source::Mapped { .. } => slot.first_byte(&part.0),
            _ => 0,
        };
        (skip, part)
    });
    let from = (plan.digest, plan.key.file_path.as_str());
    results::call(session, plan.results.as_ref(), record, from, blocks.collect())
}

/// Copies the block out of the shared memory into a chunk, with zeros past the dataset's edges, which nobody sees.
fn take_output(plan: &Plan, session: &mut Session, shape: &[u64], chunk: &mut [u8]) -> Result<()> {
    let record = &plan.record;
    let lost = || Error::new(ErrorKind::Worker, "the result is not where it should be");
    if bytes_of(&record.chunk, &record.output.datatype) != chunk.len() as u64 {
        return Err(lost());
    }
    if shape == record.chunk {
        return session.copy_output(0, 0, chunk).ok_or_else(lost);
    }
    chunk.fill(0);
    for (from, row) in record.rows(shape) {
        let range = usize::try_from(row.start).ok().zip(usize::try_from(row.end).ok());
        let to = range.and_then(|(start, end)| chunk.get_mut(start..end)).ok_or_else(lost)?;
        session.copy_output(0, from, to).ok_or_else(lost)?;
    }
    Ok(())
}
