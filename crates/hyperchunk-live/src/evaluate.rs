//! One chunk, computed.

use crate::plan::{self, Plan, about_input};
use crate::{expression, inputs, texts};
use hyperchunk::{Dataset, File};
use hyperchunk_udf::error::{Error, ErrorKind, Result};
use hyperchunk_udf::host::results;
use hyperchunk_udf::host::texts::{Texts, limit};
use hyperchunk_udf::host::{Active, Pool, Session, Source};
use hyperchunk_udf::legacy::{Legacy, is_legacy};
use hyperchunk_udf::record::{Block, bytes_of};
use hyperchunk_udf::stub::Stub;

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
    let parts: Vec<Block> = plan.record.parts(offset, shape).collect();
    let texts = read_texts(file, plan, &parts)?;
    let key = plan.key.with_room(texts.iter().map(|(n, texts)| (*n, texts.bytes())));
    let mut session = plan.session(file, &key)?;
    // A worker that ended by itself while it was idle says so only when it is called.
    match run(file, plan, &mut session, &texts, parts.clone()) {
        Err(_) if session.ended_idle() => {
            session = plan.session(file, &key)?;
            run(file, plan, &mut session, &texts, parts)?;
        }
        outcome => outcome?,
    }
    take_output(plan, &mut session, shape, to)?;
    Pool::global().put(key, session);
    Ok(())
}

/// Reads the inputs that have strings of variable length: how long they are decides what memory a worker needs.
fn read_texts(file: &File, plan: &Plan, parts: &[Block]) -> Result<Vec<(usize, Texts)>> {
    let mut left = limit(&plan.profile);
    let mut found = Vec::new();
    for (n, (slot, part)) in plan.record.slots().zip(parts).enumerate() {
        if slot.datatype.has_pointers() {
            let texts = texts::read(file, plan, slot, part, left).map_err(|e| about_input(&e, slot))?;
            left = left.saturating_sub(texts.bytes());
            found.push((n, texts));
        }
    }
    Ok(found)
}

fn run(
    file: &File,
    plan: &Plan,
    session: &mut Session,
    texts: &[(usize, Texts)],
    parts: Vec<Block>,
) -> Result<()> {
    let record = &plan.record;
    let no_memory = || Error::new(ErrorKind::Worker, "no memory for an input");
    for (n, texts) in texts {
        let at = session.input_address(*n).ok_or_else(no_memory)?;
        texts.place(session.input(*n).ok_or_else(no_memory)?, at)?;
    }
    for (n, ((slot, source), part)) in record.slots().zip(&plan.key.slots).zip(&parts).enumerate() {
        if !matches!(source.source, Source::Copied(_)) || slot.datatype.has_pointers() {
            continue;
        }
        // What was read whole stays as it is: the engine reads files that nobody writes.
        if !record.is_cut(slot) && session.stamp == file.instance() {
            continue;
        }
        let to = session.input(n).ok_or_else(no_memory)?;
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

/// The error of memory that is not there.
pub(crate) fn no_room(bytes: u64) -> Error {
    Error::new(ErrorKind::Limit, format!("no memory for {bytes} bytes"))
}

/// Copies the block out of the shared memory into a chunk, with zeros past the dataset's edges, which nobody sees.
fn take_output(plan: &Plan, session: &mut Session, shape: &[u64], chunk: &mut [u8]) -> Result<()> {
    let record = &plan.record;
    let lost = || Error::new(ErrorKind::Worker, "the result is not where it should be");
    if record.chunk_bytes() != chunk.len() as u64 {
        return Err(lost());
    }
    if record.output.datatype.is_converted() {
        let bytes = bytes_of(shape, &record.output.datatype);
        let mut block = Vec::new();
        let length = usize::try_from(bytes).unwrap_or(usize::MAX);
        block.try_reserve_exact(length).map_err(|_| no_room(bytes))?;
        block.resize(length, 0);
        session.copy_output(0, 0, &mut block).ok_or_else(lost)?;
        chunk.fill(0);
        return record.store_block(shape, &block, chunk).ok_or_else(lost);
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
