//! Computation of one chunk.

use super::locate::{Target, is_client_data_for, locate};
use super::plan::{Plan, absolute};
use super::stored;
use super::vlen_strings::VlenStrings;
use super::{attributes, budget, cycle_check, legacy};
use crate::chunk_buffer::ChunkBuffer;
use crate::errors::{ErrorStackGuard, PREFIX, failure};
use crate::handles::c_name;
use crate::library::Library;
use crate::symbols::Hid;
use crate::{Error, Result, fail};
use hyperchunk_udf::escape::escape;
use hyperchunk_udf::host::vlen_strings::too_large;
use hyperchunk_udf::host::{ActiveEvaluation, BlockContext, Reader, Session, SessionKey, Strings};
use hyperchunk_udf::legacy::is_legacy;
use hyperchunk_udf::record::{Block, Slot, byte_size};
use hyperchunk_udf::stored::DecodeSupport;
use hyperchunk_udf::stub::{RecordLocation, Stub};
use std::sync::Arc;

/// Computes the values of the chunk whose stub is `stub`.
///
/// `client` is the client data of the dataset's filter: HDF5 passes nothing else about the dataset.
pub(crate) fn evaluate(library: &'static Library, stub: &[u8], client: &[u32]) -> Result<ChunkBuffer> {
    if cfg!(target_endian = "big") {
        fail!(Unsupported, "live datasets are not computed on big-endian machines yet")
    }
    if is_legacy(stub) {
        if !client.is_empty() {
            fail!(Invalid, "the chunk holds a function of HDF5-UDF: expected a stub")
        }
        let legacy = legacy::parse(library, stub)?;
        let targets = legacy::locate(library, &legacy, stub)?;
        let chunk = vec![0; legacy.dims.len()];
        let stub = Stub { id: legacy.id(), record: legacy.digest, place: RecordLocation::Chunk, chunk };
        return compute_targets(library, &stub, &targets);
    }
    let stub = Stub::parse(stub)?;
    if !is_client_data_for(client, stub.id) {
        fail!(Invalid, "the chunk holds the stub of another live dataset")
    }
    let targets = locate(library, &stub)?;
    compute_targets(library, &stub, &targets)
}

/// Computes the chunk for each of these datasets, whose results must agree.
fn compute_targets(library: &'static Library, stub: &Stub, targets: &[Target]) -> Result<ChunkBuffer> {
    let Some(((dataset, first), others)) = targets.split_first() else {
        fail!(Worker, "no plan for the dataset")
    };
    budget::check(&first.profile).map_err(|e| first.explain(&e))?;
    let _active = ActiveEvaluation::enter(stub.id, &first.profile).map_err(|e| first.explain(&e))?;
    let mut chunk = compute_and_note(library, stub, *dataset, first)?;
    for (dataset, other) in others {
        // Several copies of one file are open, and HDF5 does not tell which is read. If their results agree,
        // it does not matter.
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

/// Computes a chunk, and records the outcome in the audit log, if there is one.
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
    let bytes = record.chunk_bytes();
    let Ok(total) = usize::try_from(bytes) else {
        fail!(Limit, "a chunk of {bytes} bytes does not fit into the address space")
    };
    let calls = BlockContext {
        record,
        digest: plan.verified.digest,
        key: &plan.key,
        results: plan.results.as_ref(),
        constant: plan.constant.then_some(plan.instance),
    };
    calls.compute((&offset, &shape), &Inputs { library, dataset, plan }, |session| {
        let mut chunk = ChunkBuffer::new(library, total)?;
        record.place_block(&shape, chunk.uninitialised(), |from, to| session.take_output(0, from, to))?;
        Ok(chunk)
    })
}

/// Reader of a live dataset's inputs through the library.
struct Inputs<'a> {
    library: &'static Library,
    /// The live dataset.
    dataset: Hid,
    plan: &'a Plan,
}

impl Reader for Inputs<'_> {
    fn session(&self, key: &Arc<SessionKey>) -> Result<Session> {
        self.plan.session(self.library, self.dataset, key)
    }

    fn input(&self, slot: &Slot, (offset, shape): &Block, to: &mut [u8]) -> Result<()> {
        read_input(self.library, self.dataset, self.plan, slot, (offset, shape), to)
    }

    fn stored(&self, slot: &Slot, part: &Block, decodes: DecodeSupport, to: &mut [u8]) -> Result<u64> {
        let Inputs { library, dataset, plan } = *self;
        let stored = stored::read(library, dataset, &plan.verified.record, slot, part, decodes, to);
        stored.map_err(|e| input_error(&e, plan, slot))
    }

    fn strings(&self, slot: &Slot, (offset, shape): &Block, left: u64) -> Result<Box<dyn Strings>> {
        let Inputs { library, dataset, plan } = *self;
        let (bytes, over) = (byte_size(shape, &slot.datatype), || too_large(&plan.profile));
        let texts = VlenStrings::read(library, &slot.datatype, bytes, left, over, |to, transfer| {
            read_block(library, dataset, plan, slot, (offset, shape), to, transfer)
        });
        Ok(Box::new(texts.map_err(|e| input_error(&e, plan, slot))?))
    }
}

/// Reads a block of an input: by the engine if possible, else through libhdf5, which converts it to the
/// memory type. The input may itself be live; then libhdf5 re-enters this function in the same thread.
pub(super) fn read_input(
    library: &'static Library,
    live: Hid,
    plan: &Plan,
    slot: &Slot,
    block: (&[u64], &[u64]),
    to: &mut [u8],
) -> Result<()> {
    if plan.verified.record.find_attribute(slot).is_some() {
        let _quiet = ErrorStackGuard::new(library);
        let file = library.object_file(live)?;
        let read = attributes::check_place(library, plan, &file, slot)
            .and_then(|()| attributes::read(library, &plan.verified.record, file.id, slot, to));
        return read.map_err(|e| input_error(&e, plan, slot));
    }
    if plan.read_by_engine(library, live, slot, block, to) {
        return Ok(());
    }
    read_block(library, live, plan, slot, block, to, 0).map_err(|e| input_error(&e, plan, slot))
}

/// Wraps an error of reading an input, which may itself be live.
fn input_error(error: &Error, plan: &Plan, slot: &Slot) -> Error {
    match error.message().rsplit_once(PREFIX) {
        // Keep only the reason of the innermost live dataset in the chain.
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
    plan: &Plan,
    slot: &Slot,
    (offset, shape): (&[u64], &[u64]),
    to: &mut [u8],
    transfer: Hid,
) -> Result<()> {
    let record = &plan.verified.record;
    let _quiet = ErrorStackGuard::new(library);
    let name = c_name(&absolute(&slot.name))?;
    let file = library.object_file(live)?;
    let dataset = library.open_dataset(file.id, &name)?;
    // HDF5 does not support reading a dataset while it is being read, so check for a cycle first.
    cycle_check::check(&plan.live_in(library, &file, (dataset.id, &slot.name))?)?;
    let (native, datatype, _) = library.input_type(record.backend, library.dataset_type(dataset.id)?.id)?;
    let space = library.dataset_space(dataset.id)?;
    if datatype != slot.datatype || !record.fits(slot, &library.dims(space.id)?) {
        fail!(Invalid, "it changed while it was read")
    }
    if byte_size(shape, &datatype) > to.len() as u64 {
        fail!(Worker, "the buffer is too small for a block of {shape:?}")
    }
    // The memory space has the rank of the selection: HDF5 is far slower otherwise.
    let memory = library.space(shape)?;
    const SELECT_SET: i32 = 0;
    let ones: Vec<u64> = vec![1; shape.len()];
    // SAFETY: all lists have the rank of the space; the buffer has room for the block, in the given type.
    let done = unsafe {
        (shape.is_empty()
            || (library.f.space_select)(
                space.id,
                SELECT_SET,
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
