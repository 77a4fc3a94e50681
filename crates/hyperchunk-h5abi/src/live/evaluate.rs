//! One chunk, computed.

use super::legacy;
use super::locate::{Target, is_client_data_of, locate};
use super::plan::{Plan, absolute};
use super::texts::Texts;
use crate::errors::{PREFIX, Quiet, failure};
use crate::filter::ChunkBuffer;
use crate::handles::c_name;
use crate::library::Library;
use crate::symbols::Hid;
use crate::{Error, ErrorKind, Result, fail};
use hyperchunk_udf::escape::escape;
use hyperchunk_udf::expression::as_room;
use hyperchunk_udf::host::results;
use hyperchunk_udf::host::texts::{limit, too_large};
use hyperchunk_udf::host::{Active, Pool, Session, Source};
use hyperchunk_udf::legacy::is_legacy;
use hyperchunk_udf::record::{Block, Record, Slot, bytes_of};
use hyperchunk_udf::stub::{LiveId, RecordDigest, Stub};
use std::mem::MaybeUninit;

/// The bytes of the chunk that `stub` stands for.
///
/// `client` is the client data of the filter of the dataset that is read: the only thing that HDF5 tells about it.
pub(crate) fn evaluate(library: &'static Library, stub: &[u8], client: &[u32]) -> Result<ChunkBuffer> {
    if cfg!(target_endian = "big") {
        fail!(Unsupported, "live datasets are not computed on big-endian machines yet")
    }
    if is_legacy(stub) {
        if !client.is_empty() {
            fail!(Invalid, "the chunk holds a function of HDF5-UDF, and not the stub that it should")
        }
        let legacy = legacy::parse(library, stub)?;
        let targets = legacy::locate(library, &legacy, stub)?;
        let chunk = vec![0; legacy.dims.len()];
        return of_targets(library, &Stub { id: legacy.id(), record: legacy.digest, chunk }, &targets);
    }
    let stub = Stub::parse(stub)?;
    if !is_client_data_of(client, stub.id) {
        fail!(Invalid, "the chunk holds the stub of another live dataset than the one that is read")
    }
    let targets = locate(library, &stub)?;
    of_targets(library, &stub, &targets)
}

/// The chunk of one of these datasets, which have to agree.
fn of_targets(library: &'static Library, stub: &Stub, targets: &[Target]) -> Result<ChunkBuffer> {
    let Some(((dataset, first), others)) = targets.split_first() else { fail!(Worker, "no plan") };
    let _active = Active::enter(stub.id, &first.profile).map_err(|e| first.explain(&e))?;
    let mut chunk = compute_and_note(library, stub, *dataset, first)?;
    for (dataset, other) in others {
        // Copies of one file are open together, and HDF5 does not tell which is read. If they agree it does not matter.
        let mut again = compute_and_note(library, stub, *dataset, other)?;
        if !same(&mut chunk, &mut again) {
            fail!(
                Unsupported,
                "{} and {} are both open, hold the same live dataset and compute different values; HDF5 does not tell which of them is read. Close one, or attach the function again in one of them",
                escape(&first.file_path, 200),
                escape(&other.file_path, 200)
            )
        }
    }
    Ok(chunk)
}

fn same(a: &mut ChunkBuffer, b: &mut ChunkBuffer) -> bool {
    let (a, b) = (a.uninitialised(), b.uninitialised());
    // SAFETY: compute() has filled every byte of both.
    a.len() == b.len() && unsafe { libc::memcmp(a.as_ptr().cast(), b.as_ptr().cast(), a.len()) } == 0
}

/// Computes a chunk, and notes in the audit log, if there is one, that it was or why not.
fn compute_and_note(
    library: &'static Library,
    stub: &Stub,
    dataset: Hid,
    plan: &Plan,
) -> Result<ChunkBuffer> {
    let outcome = compute(library, stub, dataset, plan);
    let profile = Some(plan.profile.name.as_str());
    plan.verified.note(&plan.file_path, &plan.name, profile, outcome.as_ref().err());
    outcome.map_err(|e| plan.explain(&e))
}

fn compute(library: &'static Library, stub: &Stub, dataset: Hid, plan: &Plan) -> Result<ChunkBuffer> {
    let record = &plan.verified.record;
    let (offset, shape) = record.block(&stub.chunk)?;
    if let Some(program) = &plan.program {
        return super::expression::compute(library, dataset, plan, program, (&offset, &shape));
    }
    let texts = read_texts(library, dataset, plan, (&offset, &shape))?;
    let key = plan.key.with_room(texts.iter().map(|(n, texts)| (*n, texts.bytes())));
    let mut session = plan.session(library, dataset, &key)?;
    // A worker that ended by itself while it was idle says so only when it is called.
    let outcome = match run(library, dataset, plan, &mut session, &texts, (&offset, &shape)) {
        Err(_) if session.ended_idle() => {
            session = plan.session(library, dataset, &key)?;
            run(library, dataset, plan, &mut session, &texts, (&offset, &shape))
        }
        outcome => outcome,
    };
    outcome?;
    let chunk = take_output(library, plan, &mut session, &shape)?;
    Pool::global().put(key, session);
    Ok(chunk)
}

fn run(
    library: &'static Library,
    dataset: Hid,
    plan: &Plan,
    session: &mut Session,
    texts: &[(usize, Texts)],
    (offset, shape): (&[u64], &[u64]),
) -> Result<()> {
    let record = &plan.verified.record;
    for (n, texts) in texts {
        let Some((to, at)) = session.input_address(*n).and_then(|at| Some((session.input(*n)?, at))) else {
            fail!(Worker, "no memory for an input")
        };
        texts.place(to, at)?;
    }
    let parts: Vec<Block> = record.parts(offset, shape).collect();
    for (n, ((slot, source), part)) in record.slots().zip(&plan.key.slots).zip(&parts).enumerate() {
        if !matches!(source.source, Source::Copied(_)) || slot.datatype.has_pointers() {
            continue;
        }
        // What was read whole from a file that nobody can write stays as it is.
        if !record.is_cut(slot) && plan.read_only && session.stamp == plan.instance {
            continue;
        }
        let Some(to) = session.input(n) else { fail!(Worker, "no memory for an input") };
        read_input(library, dataset, plan, slot, (&part.0, &part.1), to)?;
    }
    session.stamp = plan.instance;
    let blocks = record.slots().zip(&plan.key.slots).zip(parts).map(|((slot, job), part)| {
        let skip = match job.source {
            Source::Mapped { .. } => slot.first_byte(&part.0),
            _ => 0,
        };
        (skip, part)
    });
    let from = (plan.verified.digest, plan.key.file_path.as_str());
    results::call(session, plan.results.as_ref(), record, from, blocks.collect())
}

/// Reads the inputs that have strings of variable length: how long they are decides what memory a worker needs.
fn read_texts(
    library: &'static Library,
    dataset: Hid,
    plan: &Plan,
    (offset, shape): (&[u64], &[u64]),
) -> Result<Vec<(usize, Texts)>> {
    let record = &plan.verified.record;
    let mut left = limit(&plan.profile);
    let mut found = Vec::new();
    let parts = record.parts(offset, shape);
    for (n, (slot, part)) in
        record.slots().zip(parts).enumerate().filter(|(_, (s, _))| s.datatype.has_pointers())
    {
        let (offset, shape) = (part.0.as_slice(), part.1.as_slice());
        let (bytes, over) = (bytes_of(shape, &slot.datatype), || too_large(&plan.profile));
        let texts = Texts::read(library, &slot.datatype, bytes, left, over, |to, transfer| {
            read_block(library, dataset, record, slot, (offset, shape), to, transfer)
        })
        .map_err(|e| of_input(&e, plan, slot))?;
        left = left.saturating_sub(texts.bytes());
        found.push((n, texts));
    }
    Ok(found)
}

/// Reads a block of an input through the library, which converts it to the machine's types. The input may itself be
/// live: then this thread comes back here.
pub(super) fn read_input(
    library: &'static Library,
    live: Hid,
    plan: &Plan,
    slot: &Slot,
    block: (&[u64], &[u64]),
    to: &mut [u8],
) -> Result<()> {
    read_block(library, live, &plan.verified.record, slot, block, to, 0).map_err(|e| of_input(&e, plan, slot))
}

/// An error of reading an input, which may be live itself.
fn of_input(error: &Error, plan: &Plan, slot: &Slot) -> Error {
    match error.message().rsplit_once(PREFIX) {
        // The reason of a live dataset in the chain, without the messages of those between.
        Some((_, reason)) => Error::new(error.kind(), format!("an input failed: {PREFIX}{reason}"))
            .about(format!("{}:{}", plan.file_path, plan.name)),
        None => {
            let name = escape(&slot.name, 80);
            Error::new(error.kind(), format!("input {name:?}: {error}"))
        }
    }
}

fn read_block(
    library: &'static Library,
    live: Hid,
    record: &Record,
    slot: &Slot,
    (offset, shape): (&[u64], &[u64]),
    to: &mut [u8],
    transfer: Hid,
) -> Result<()> {
    let _quiet = Quiet::new(library);
    let name = c_name(&absolute(&slot.name))?;
    let file = library.file_of(live)?;
    let dataset = library.open_dataset(file.id, &name)?;
    // HDF5 does not bear reading a dataset while it is being read, so a circle is looked for before.
    let words = library.live_filter(library.create_plist(dataset.id)?.id);
    match words {
        Some(words) if words.is_empty() => {
            if let Some(bytes) = legacy::payload(library, dataset.id)? {
                let digest = RecordDigest::of(&bytes);
                Active::check(|id| id == LiveId(digest.0))?;
            }
        }
        Some(words) => Active::check(|id| is_client_data_of(&words, id))?,
        None => {}
    }
    let (native, datatype, _) = library.input_type(record.backend, library.dataset_type(dataset.id)?.id)?;
    let space = library.dataset_space(dataset.id)?;
    if datatype != slot.datatype || !record.fits(slot, &library.dims(space.id)?) {
        fail!(Invalid, "it changed while it was read")
    }
    if bytes_of(shape, &datatype) > to.len() as u64 {
        fail!(Worker, "no room for a block of {shape:?}")
    }
    // The memory space has the rank of the selection: HDF5 is far slower otherwise.
    let memory = library.space(shape)?;
    const SET: i32 = 0;
    let ones: Vec<u64> = vec![1; shape.len()];
    // SAFETY: all lists have the rank of the space; the buffer has room for the block, in the type that is given.
    let done = unsafe {
        (shape.is_empty()
            || (library.f.space_select)(
                space.id,
                SET,
                offset.as_ptr(),
                ones.as_ptr(),
                shape.as_ptr(),
                ones.as_ptr(),
            ) >= 0
            || shape.is_empty())
            && (library.f.dataset_read)(
                dataset.id,
                native.id,
                memory.id,
                space.id,
                transfer,
                to.as_mut_ptr().cast(),
            ) >= 0
    };
    if done { Ok(()) } else { Err(failure(library, "cannot read it")) }
}

/// Copies the block out of the shared memory into a chunk, with zeros past the dataset's edges, which nobody sees.
fn take_output(
    library: &'static Library,
    plan: &Plan,
    session: &mut Session,
    shape: &[u64],
) -> Result<ChunkBuffer> {
    let record = &plan.verified.record;
    let bytes = record.chunk_bytes();
    let Ok(total) = usize::try_from(bytes) else { fail!(Limit, "a chunk of {bytes} bytes") };
    let mut chunk = ChunkBuffer::new(library, total)?;
    place_rows(record, shape, chunk.uninitialised(), |from, to| session.take_output(0, from, to))?;
    Ok(chunk)
}

/// Fills a chunk from a block of its shape, or of the part of it that is inside the dataset. `take` copies what begins at a
/// byte of the block.
pub(super) fn place_rows(
    record: &Record,
    shape: &[u64],
    to: &mut [MaybeUninit<u8>],
    mut take: impl FnMut(u64, &mut [MaybeUninit<u8>]) -> Option<()>,
) -> Result<()> {
    let lost = || Error::new(ErrorKind::Worker, "the result is not where it should be");
    if record.output.datatype.is_converted() {
        let mut block = Vec::new();
        let bytes = usize::try_from(bytes_of(shape, &record.output.datatype)).unwrap_or(usize::MAX);
        if block.try_reserve_exact(bytes).is_err() {
            fail!(Limit, "no memory for {bytes} bytes")
        }
        block.resize(bytes, 0);
        take(0, as_room(&mut block)).ok_or_else(lost)?;
        to.fill(MaybeUninit::new(0));
        // SAFETY: every byte was initialised just now.
        let chunk = unsafe { std::slice::from_raw_parts_mut(to.as_mut_ptr().cast::<u8>(), to.len()) };
        return record.store_block(shape, &block, chunk).ok_or_else(lost);
    }
    if shape == record.chunk {
        return take(0, to).ok_or_else(lost);
    }
    to.fill(MaybeUninit::new(0));
    for (from, row) in record.rows(shape) {
        let range = usize::try_from(row.start).ok().zip(usize::try_from(row.end).ok());
        let to = range.and_then(|(start, end)| to.get_mut(start..end)).ok_or_else(lost)?;
        take(from, to).ok_or_else(lost)?;
    }
    Ok(())
}
