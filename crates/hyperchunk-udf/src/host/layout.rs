//! Layout of a job's data in the memory that host and worker share.

use super::cpu_affinity;
use super::job::{Job, JobSlot, Source};
use crate::error::{Result, fail};
use crate::protocol::{PROTOCOL_VERSION, STATUS_BYTES, Segment, Setup, SetupSlot, Task};
use crate::stored::StoredBlock;
use std::path::PathBuf;

/// Padding after each buffer: functions written for other versions write one element past the end.
const GUARD_BYTES: u64 = 4096;
pub(super) const PAGE_BYTES: u64 = 4096;

/// Location of a slot's data.
#[derive(Debug)]
pub(super) struct Region {
    pub(super) segment: u32,
    pub(super) offset: u64,
    pub(super) bytes: u64,
    pub(super) output: bool,
}

fn align(n: u64) -> Option<u64> {
    n.checked_next_multiple_of(PAGE_BYTES)
}

/// Places every slot. Returns the regions, the size of the memory writable by the worker, and of the
/// read-only one.
pub(super) fn lay_out(job: &Job<'_>) -> Result<(Vec<Region>, u64, u64)> {
    let mut arena = Some(STATUS_BYTES as u64);
    let mut inputs = Some(0);
    let copied = |s: &JobSlot| matches!(s.source, Source::Copied(_) | Source::Stored(_));
    let mut mapped = 1 + u32::from(job.slots.iter().any(copied));
    let mut regions = Vec::with_capacity(job.slots.len());
    let take = |total: &mut Option<u64>, bytes: u64| {
        let offset = (*total)?;
        *total = offset.checked_add(bytes)?.checked_add(GUARD_BYTES).and_then(align);
        Some(offset)
    };
    for slot in &job.slots {
        let region = match slot.source {
            Source::Output(bytes) => {
                take(&mut arena, bytes).map(|offset| Region { segment: 0, offset, bytes, output: true })
            }
            Source::Copied(bytes) => {
                take(&mut inputs, bytes).map(|offset| Region { segment: 1, offset, bytes, output: false })
            }
            Source::Stored(elements) => {
                let bytes = elements.saturating_add(StoredBlock::room(elements));
                take(&mut inputs, bytes).map(|offset| Region { segment: 1, offset, bytes, output: false })
            }
            Source::Mapped { bytes, .. } => {
                mapped += 1;
                Some(Region { segment: mapped - 1, offset: 0, bytes, output: false })
            }
        };
        match region {
            Some(region) => regions.push(region),
            None => fail!(Limit, "{} is too large", crate::escape::escape(&slot.name, 80)),
        }
    }
    match (arena, inputs) {
        (Some(arena), Some(inputs)) => Ok((regions, arena, inputs)),
        _ => fail!(Limit, "the inputs and outputs are too large together"),
    }
}

/// Builds the message that a worker receives before it locks itself down.
pub(super) fn set_up(
    job: &Job<'_>,
    task: Task,
    regions: &[Region],
    (arena_bytes, input_bytes): (u64, u64),
    (folder, partial): (Option<PathBuf>, bool),
) -> Setup {
    let mut segments = vec![Segment { offset: 0, bytes: arena_bytes, writable: true, piece: false }];
    if input_bytes > 0 {
        segments.push(Segment { offset: 0, bytes: input_bytes, writable: false, piece: false });
    }
    for slot in &job.slots {
        if let Source::Mapped { offset, bytes, .. } = slot.source {
            segments.push(Segment { offset, bytes, writable: false, piece: true });
        }
    }
    Setup {
        protocol: PROTOCOL_VERSION,
        backend: job.backend.json_name().into(),
        jit: job.profile.jit,
        fine_clocks: job.profile.fine_clocks,
        memory: job.profile.limits.memory,
        cpu_s: job.profile.limits.cpu_s,
        grants: job.profile.grants.clone(),
        file_bytes: job.profile.limits.file,
        file_path: job.file_path.into(),
        slots: job
            .slots
            .iter()
            .zip(regions)
            .map(|(s, r)| SetupSlot { name: s.name.clone(), datatype: s.datatype.name(), output: r.output })
            .collect(),
        segments,
        source: job.source.into(),
        compiled: job.compiled.is_some(),
        task,
        seed: job.needs.seed,
        no_clock: job.needs.no_clock(job.profile),
        stored: job.takes_stored(),
        wide: cpu_affinity::is_wide(),
        folder,
        partial,
    }
}
