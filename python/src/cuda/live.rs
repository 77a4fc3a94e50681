//! Live datasets computed by kernels, with results kept on the GPU.

use super::errors::Failure;
use super::read::ReadRequest;
use hyperchunk::StoredPiece;
use hyperchunk_cuda::ingest::{BlockCopier, BlockPart, Report};
use hyperchunk_cuda::{Context, DeviceMemory, ErrorKind};
use hyperchunk_live::device::{ComputeOutcome, Device, compute};
use std::os::fd::OwnedFd;
use std::sync::Arc;

/// Computes into memory on a GPU, if the dataset's kernels can; otherwise the inner `Err` gives the
/// reason.
pub(super) fn computed_there(
    wanted: &ReadRequest<'_>,
    context: &Arc<Context>,
    memory: &DeviceMemory,
) -> Result<Result<Report, String>, Failure> {
    let dataset = wanted.dataset;
    if !dataset.is_live() {
        return Ok(Err(
            "the processor decoded them: the selection is not a box of chunks or of contiguous data of \
                       one file, or its elements are converted"
                .to_owned(),
        ));
    }
    if wanted.conversion.is_some() {
        return Ok(Err("its elements are converted".to_owned()));
    }
    let bytes = wanted.selection.count(dataset.dims())?.checked_mul(dataset.datatype().size);
    if bytes != Some(memory.bytes() as u64) {
        let message = "the selection and the shape of the result have different numbers of elements";
        return Err(hyperchunk::Error::invalid(message).into());
    }
    let mut array = Array { wanted, context, memory, lent: None };
    Ok(match compute(dataset, wanted.selection, &mut array)? {
        ComputeOutcome::There(blocks) => {
            let mut report = Report::default();
            report.computed = blocks;
            Ok(report)
        }
        ComputeOutcome::Not(why) => Err(why),
    })
}

/// Destination array of a live dataset.
struct Array<'a> {
    wanted: &'a ReadRequest<'a>,
    context: &'a Arc<Context>,
    memory: &'a DeviceMemory,
    /// Memory that is lent to the worker, and the kernel that copies from it.
    lent: Option<(DeviceMemory, BlockCopier)>,
}

impl Array<'_> {
    fn name(&self) -> String {
        self.wanted.dataset.object().path().unwrap_or("(no name)").to_owned()
    }
}

impl Device for Array<'_> {
    type Error = Failure;

    fn lend(&mut self, bytes: u64) -> Result<Result<(OwnedFd, u64), String>, Failure> {
        // Workers use GPU 0 only.
        if self.context.ordinal() != 0 {
            return Ok(Err("kernels compute on GPU 0".to_owned()));
        }
        let bytes = usize::try_from(bytes).unwrap_or(usize::MAX);
        let (lent, descriptor) = match DeviceMemory::shareable(self.context, bytes) {
            Ok(made) => made,
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                return Ok(Err(error.message().to_owned()));
            }
            Err(error) => return Err(error.within(format_args!("{}: a block of it", self.name())).into()),
        };
        let bytes = lent.bytes() as u64;
        self.lent = Some((lent, BlockCopier::new(self.context)?));
        Ok(Ok((descriptor, bytes)))
    }

    fn place(&mut self, piece: &StoredPiece, block: &[u64]) -> Result<(), Failure> {
        let name = self.name();
        let Some((lent, placing)) = &mut self.lent else {
            return Err(hyperchunk::Error::invalid("no memory was lent for a block").into());
        };
        let shape = self.wanted.selection.shape(self.wanted.dataset.dims());
        let part = BlockPart {
            block,
            from: &piece.from,
            dims: &shape,
            to: &piece.to,
            size: &piece.count,
            element: usize::try_from(self.wanted.dataset.datatype().size).unwrap_or(usize::MAX),
        };
        placing.place(&part, lent, self.memory).map_err(|error| error.within(name).into())
    }
}
