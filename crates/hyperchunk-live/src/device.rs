//! Live datasets whose kernels compute into memory of a device that the caller has: their values are never in this machine's.
//!
//! The worker is lent memory for one block. What is computed there is copied, on the device, to its place in the caller's array, which
//! no worker ever sees.

use crate::evaluate::{Inputs, calls, planned};
use crate::inputs::allowed;
use crate::of_engine;
use crate::plan::Plan;
use hyperchunk::select::Choice;
use hyperchunk::{Dataset, StoredBox, StoredPiece};
use hyperchunk_udf::backend::Backend;
use hyperchunk_udf::error::Error;
use hyperchunk_udf::host::{Active, Lending, Source};
use hyperchunk_udf::stub::Stub;
use std::os::fd::{AsFd as _, OwnedFd};

/// So many notes are read at once.
const NOTES: usize = 4096;

/// A device with an array that a live dataset becomes.
pub trait Device {
    /// What goes wrong there.
    type Error: From<hyperchunk::Error>;

    /// Takes memory for a block of so many bytes, with a descriptor for a worker, and how large it is. `Err` within with why the device
    /// cannot share any.
    ///
    /// # Errors
    /// Too little memory, say.
    fn lend(&mut self, bytes: u64) -> Result<Result<(OwnedFd, u64), String>, Self::Error>;

    /// Copies what is wanted of the block of this shape, which begins where the memory does, to its place in the array. The memory may be
    /// written again when it returns.
    ///
    /// # Errors
    /// Those of the device.
    fn place(&mut self, piece: &StoredPiece, block: &[u64]) -> Result<(), Self::Error>;
}

/// What became of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Computed {
    /// The array is whole; so many blocks were computed.
    There(u64),
    /// Why it has to be read as any other dataset. The array is in any state.
    Not(String),
}

/// Computes a selection of a live dataset on a device, under the same trust and limits as a read.
///
/// # Errors
/// Those of reading it; those of the device.
pub fn compute<D: Device>(dataset: &Dataset, choice: &Choice, device: &mut D) -> Result<Computed, D::Error> {
    let not = |why: &str| Ok(Computed::Not(why.to_owned()));
    let Some(found) = dataset.live_box(choice)? else {
        return not("the selection is no box of chunks that a function computes");
    };
    let notes = notes(dataset, &found)?;
    let Some(first) = notes.first() else { return Ok(Computed::There(0)) };
    if Stub::parse(first).is_err() {
        return not("it is not of Hyperchunk's own format");
    }
    let (first, plan) = planned(dataset, first).map_err(|error| dataset.name(of_engine(&error)))?;
    let record = &plan.record;
    if record.backend != Backend::Cuda {
        return Ok(Computed::Not(format!(
            "its function is in {}, which computes on the processor",
            record.backend.short_name()
        )));
    }
    if plan.results.is_some() {
        return not("results are kept, in the memory of this machine");
    }
    let element = u64::try_from(record.output.datatype.size()).unwrap_or(u64::MAX);
    if record.output.datatype.is_converted() || element != dataset.datatype().size {
        return not("its elements are converted on the way from the function to the file's type");
    }
    let bytes = match plan.key.slots.first().map(|slot| slot.source) {
        Some(Source::Output(bytes)) => bytes,
        _ => return not("its function has no output"),
    };
    let (memory, room) = match device.lend(bytes)? {
        Ok(lent) => lent,
        Err(why) => return Ok(Computed::Not(why)),
    };
    let file = dataset.object().file();
    let failed = |plan: &Plan, error: &Error| D::Error::from(dataset.name(of_engine(&plan.explain(error))));
    let (calls, inputs) = (calls(file, &plan), Inputs { file, plan: &plan });
    let lent = calls.lend(&inputs, memory.as_fd(), room).map_err(|error| {
        plan.note(Some(&error));
        failed(&plan, &error)
    })?;
    let mut lending = match lent {
        Ok(lending) => lending,
        Err(why) => return Ok(Computed::Not(why)),
    };
    let mut count = 0;
    for (piece, note) in found.pieces.iter().zip(&notes) {
        if hyperchunk::io::is_interrupted() {
            return Err(hyperchunk::Error::new(hyperchunk::ErrorKind::Io, "interrupted").into());
        }
        let stub = Stub::parse(note).map_err(|error| failed(&plan, &error))?;
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
    Ok(Computed::There(count))
}

/// Computes the block that a stub stands for, and returns its shape.
fn block(
    plan: &Plan,
    stub: &Stub,
    lending: &mut Lending<'_, Inputs<'_>>,
) -> hyperchunk_udf::error::Result<Vec<u64>> {
    let _active = Active::enter(stub.id, &plan.profile)?;
    let (offset, shape) = plan.record.block(&stub.chunk)?;
    allowed(&plan.profile, || lending.compute((&offset, &shape)))?;
    Ok(shape)
}

/// What the chunks of a box hold.
fn notes(dataset: &Dataset, found: &StoredBox) -> Result<Vec<Vec<u8>>, hyperchunk::Error> {
    let length = |piece: &StoredPiece| {
        let range = piece.range.as_ref().map_or(0, |range| range.end - range.start);
        usize::try_from(range).unwrap_or(usize::MAX)
    };
    let mut notes: Vec<Vec<u8>> = found.pieces.iter().map(|piece| vec![0; length(piece)]).collect();
    for (number, notes) in notes.chunks_mut(NOTES).enumerate() {
        let places = notes.iter_mut().enumerate();
        let places = places.map(|(place, note)| (number * NOTES + place, note.as_mut_slice()));
        dataset.read_pieces(found, places.collect())?;
    }
    Ok(notes)
}
