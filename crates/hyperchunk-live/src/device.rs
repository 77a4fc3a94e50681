//! Live datasets computed into memory of the caller's device: their values are never in this machine's
//! memory.
//!
//! The worker gets memory for one block. The device then copies the computed block to its position in the
//! caller's array, which no worker can access.

use crate::evaluate::{Inputs, calls, plan_chunk};
use crate::inputs::allowed;
use crate::plan::Plan;
use crate::to_engine_error;
use hyperchunk::select::Selection;
use hyperchunk::{Dataset, StoredBox, StoredPiece};
use hyperchunk_udf::backend::Backend;
use hyperchunk_udf::error::Error;
use hyperchunk_udf::host::{ActiveEvaluation, DeviceWorker, Source};
use hyperchunk_udf::stub::Stub;
use std::os::fd::{AsFd as _, OwnedFd};

/// Number of stubs to read at once.
const STUBS_PER_READ: usize = 4096;

/// Device with an array that receives a live dataset.
pub trait Device {
    /// Error of the device.
    type Error: From<hyperchunk::Error>;

    /// Allocates shareable memory for a block of `bytes` bytes. Returns a descriptor for a worker and the
    /// size of the memory; the inner `Err` is the reason why the device cannot share memory.
    ///
    /// # Errors
    /// Errors of the device, such as insufficient memory.
    fn lend(&mut self, bytes: u64) -> Result<Result<(OwnedFd, u64), String>, Self::Error>;

    /// Copies the selected part of a block from the start of the memory to its position in the array. `block`
    /// is the shape of the block. The memory may be overwritten after the call returns.
    ///
    /// # Errors
    /// Errors of the device.
    fn place(&mut self, piece: &StoredPiece, block: &[u64]) -> Result<(), Self::Error>;
}

/// Outcome of a computation on a device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ComputeOutcome {
    /// The array is complete; the number of computed blocks.
    There(u64),
    /// Reason why the dataset must be read like any other. The array's content is unspecified.
    Not(String),
}

/// Computes a selection of a live dataset on a device, under the same trust and limits as a read.
///
/// # Errors
/// Errors of reading it, and of the device.
pub fn compute<D: Device>(
    dataset: &Dataset,
    selection: &Selection,
    device: &mut D,
) -> Result<ComputeOutcome, D::Error> {
    let not = |why: &str| Ok(ComputeOutcome::Not(why.to_owned()));
    let Some(found) = dataset.live_box(selection)? else {
        return not("the selection is not a box of chunks that a function computes");
    };
    let stubs = read_stubs(dataset, &found)?;
    let Some(first) = stubs.first() else { return Ok(ComputeOutcome::There(0)) };
    if Stub::parse(first).is_err() {
        return not("it is not of Hyperchunk's own format");
    }
    let (first, plan) =
        plan_chunk(dataset, first).map_err(|error| dataset.with_context(to_engine_error(&error)))?;
    let record = &plan.record;
    if record.backend != Backend::Cuda {
        return Ok(ComputeOutcome::Not(format!(
            "its function is in {}, which computes on the processor",
            record.backend.short_name()
        )));
    }
    if plan.results.is_some() {
        return not("its results are cached, and therefore pass through this machine's memory");
    }
    let element = u64::try_from(record.output.datatype.size()).unwrap_or(u64::MAX);
    if record.output.datatype.is_converted() || element != dataset.datatype().size {
        return not("its elements are converted from the function's type to the file's");
    }
    let bytes = match plan.key.slots.first().map(|slot| slot.source) {
        Some(Source::Output(bytes)) => bytes,
        _ => return not("its function has no output"),
    };
    let (memory, room) = match device.lend(bytes)? {
        Ok(lent) => lent,
        Err(why) => return Ok(ComputeOutcome::Not(why)),
    };
    let file = dataset.object().file();
    let failed = |plan: &Plan, error: &Error| {
        D::Error::from(dataset.with_context(to_engine_error(&plan.explain(error))))
    };
    let (calls, inputs) = (calls(file, &plan), Inputs { file, plan: &plan });
    let lent = calls.lend(&inputs, memory.as_fd(), room).map_err(|error| {
        plan.note(Some(&error));
        failed(&plan, &error)
    })?;
    let mut lending = match lent {
        Ok(lending) => lending,
        Err(why) => return Ok(ComputeOutcome::Not(why)),
    };
    let mut count = 0;
    for (piece, bytes) in found.pieces.iter().zip(&stubs) {
        if hyperchunk::io::is_interrupted() {
            return Err(hyperchunk::Error::new(hyperchunk::ErrorKind::Io, "interrupted").into());
        }
        let stub = Stub::parse(bytes).map_err(|error| failed(&plan, &error))?;
        if (stub.id, stub.record) != (first.id, first.record) {
            return not("its chunks are of several functions");
        }
        let computed = block(&plan, &stub, &mut lending);
        plan.note(computed.as_ref().err());
        let shape = computed.map_err(|error| failed(&plan, &error))?;
        device.place(piece, &shape)?;
        count += 1;
    }
    lending.end().map_err(|error| failed(&plan, &error))?;
    Ok(ComputeOutcome::There(count))
}

/// Computes the block of a stub, and returns its shape.
fn block(
    plan: &Plan,
    stub: &Stub,
    lending: &mut DeviceWorker<'_, Inputs<'_>>,
) -> hyperchunk_udf::error::Result<Vec<u64>> {
    let _active = ActiveEvaluation::enter(stub.id, &plan.profile)?;
    let (offset, shape) = plan.record.block(&stub.chunk)?;
    allowed(&plan.profile, || lending.compute((&offset, &shape)))?;
    Ok(shape)
}

/// Reads the stored chunks of a box: the stubs.
fn read_stubs(dataset: &Dataset, found: &StoredBox) -> Result<Vec<Vec<u8>>, hyperchunk::Error> {
    let length = |piece: &StoredPiece| {
        let range = piece.range.as_ref().map_or(0, |range| range.end - range.start);
        usize::try_from(range).unwrap_or(usize::MAX)
    };
    let mut stubs: Vec<Vec<u8>> = found.pieces.iter().map(|piece| vec![0; length(piece)]).collect();
    for (number, batch) in stubs.chunks_mut(STUBS_PER_READ).enumerate() {
        let places = batch.iter_mut().enumerate();
        let places = places.map(|(index, stub)| (number * STUBS_PER_READ + index, stub.as_mut_slice()));
        dataset.read_pieces(found, places.collect())?;
    }
    Ok(stubs)
}
