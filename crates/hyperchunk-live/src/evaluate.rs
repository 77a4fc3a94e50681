//! Computation of one chunk.

use crate::inputs::name_input;
use crate::plan::{self, Plan};
use crate::{expression, inputs, stored, vlen_strings};
use hyperchunk::live::spent;
use hyperchunk::{Dataset, File};
use hyperchunk_expression::as_output_bytes;
use hyperchunk_udf::error::{Error, ErrorKind, Result};
use hyperchunk_udf::host::{ActiveEvaluation, BlockContext, Reader, Session, SessionKey, Strings};
use hyperchunk_udf::legacy::{LegacyDataset, is_legacy};
use hyperchunk_udf::record::{Block, Slot};
use hyperchunk_udf::stored::DecodeSupport;
use hyperchunk_udf::stub::{RecordLocation, Stub};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Computes the chunk of `stub`.
pub(crate) fn chunk(dataset: &Dataset, stub: &[u8], to: &mut [u8]) -> Result<()> {
    let (stub, plan) = plan_chunk(dataset, stub)?;
    let account = spent();
    let before = account.as_ref().map_or(Duration::ZERO, |account| account.so_far());
    if before > Duration::from_secs(plan.profile.limits.read_s) {
        let message = format!(
            "over the limit of {} s of computing for one read (profile {}, `read_s`); read it in parts, or raise the limit",
            plan.profile.limits.read_s, plan.profile.name
        );
        return Err(plan.explain(&Error::new(ErrorKind::Limit, message)));
    }
    let start = Instant::now();
    let computed = ActiveEvaluation::enter(stub.id, &plan.profile).and_then(|_active| {
        let (offset, shape) = plan.record.block(&stub.chunk)?;
        inputs::allowed(&plan.profile, || compute(dataset.object().file(), &plan, (&offset, &shape), to))
    });
    if let Some(account) = account {
        // The time of nested computations is already included.
        let inside = account.so_far().saturating_sub(before);
        account.add(start.elapsed().saturating_sub(inside));
    }
    plan.note(computed.as_ref().err());
    computed.map_err(|error| plan.explain(&error))
}

/// Parses the stub in a chunk, and returns it with its plan.
pub(crate) fn plan_chunk(dataset: &Dataset, stub: &[u8]) -> Result<(Stub, Arc<Plan>)> {
    let about = |error: Error| {
        let file = dataset.object().file().path().map(|path| path.display().to_string()).unwrap_or_default();
        error.about(format!("{file}:{}", dataset.object().path().unwrap_or_default()))
    };
    if cfg!(target_endian = "big") {
        let message = "live datasets are not computed on big-endian machines yet";
        return Err(about(Error::new(ErrorKind::Unsupported, message)));
    }
    let (stub, legacy) = parse_stub(dataset, stub).map_err(about)?;
    let plan = plan::of(dataset, &stub, legacy.as_ref())?;
    Ok((stub, plan))
}

/// Parses the stub in a chunk, or creates one for a chunk of HDF5-UDF.
fn parse_stub(dataset: &Dataset, bytes: &[u8]) -> Result<(Stub, Option<LegacyDataset>)> {
    if is_legacy(bytes) && plan::client_data(dataset).is_some_and(<[u32]>::is_empty) {
        let legacy = LegacyDataset::parse(bytes)?;
        let chunk = vec![0; dataset.dims().len()];
        return Ok((
            Stub { id: legacy.id(), record: legacy.digest, place: RecordLocation::Chunk, chunk },
            Some(legacy),
        ));
    }
    let stub = Stub::parse(bytes)?;
    if !plan::matches_stub(dataset, &stub) {
        let message = "the chunk holds the stub of another live dataset than the one that is read";
        return Err(Error::new(ErrorKind::Invalid, message));
    }
    Ok((stub, None))
}

fn compute(file: &File, plan: &Plan, (offset, shape): (&[u64], &[u64]), to: &mut [u8]) -> Result<()> {
    if let Some(program) = &plan.program {
        return expression::compute(file, plan, program, (offset, shape), to);
    }
    calls(file, plan).compute((offset, shape), &Inputs { file, plan }, |session| {
        plan.record.place_block(shape, as_output_bytes(to), |from, to| session.take_output(0, from, to))
    })
}

/// Returns the parameters of the calls by which workers compute blocks.
pub(crate) fn calls<'a>(file: &File, plan: &'a Plan) -> BlockContext<'a> {
    BlockContext {
        record: &plan.record,
        digest: plan.digest,
        key: &plan.key,
        results: plan.results.as_ref(),
        // The engine only reads files that have no writer.
        constant: plan.constant.then(|| file.instance()),
    }
}

/// Inputs of a live dataset, read through the engine.
#[derive(Debug)]
pub(crate) struct Inputs<'a> {
    pub(crate) file: &'a File,
    pub(crate) plan: &'a Plan,
}

impl Reader for Inputs<'_> {
    fn session(&self, key: &Arc<SessionKey>) -> Result<Session> {
        self.plan.session(self.file, key)
    }

    fn input(&self, slot: &Slot, part: &Block, to: &mut [u8]) -> Result<()> {
        inputs::read(self.file, &self.plan.record, slot, part, to).map_err(|error| name_input(&error, slot))
    }

    fn stored(&self, slot: &Slot, part: &Block, decodes: DecodeSupport, to: &mut [u8]) -> Result<u64> {
        let stored = stored::read(self.file, &self.plan.record, slot, part, decodes, to);
        stored.map_err(|error| name_input(&error, slot))
    }

    fn strings(&self, slot: &Slot, part: &Block, left: u64) -> Result<Box<dyn Strings>> {
        let texts = vlen_strings::read(self.file, self.plan, slot, part, left);
        Ok(Box::new(texts.map_err(|error| name_input(&error, slot))?))
    }
}
