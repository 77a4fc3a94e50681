//! Checks of live datasets, whose chunks hold stubs instead of values. The engine does not read these; a crate above
//! it registers the checks, once per process.

use super::report::Evidence;
use crate::{Dataset, Result};
use std::sync::OnceLock;

/// Checks of live datasets, which run nothing of them.
#[derive(Debug, Clone, Copy)]
pub struct LiveChecks {
    /// Checks the record against the first stub, and its signature.
    ///
    /// # Errors
    /// Corrupt if they do not match; the errors of reading.
    pub record: fn(&Dataset) -> Result<()>,
    /// Checks the stored bytes of a chunk.
    ///
    /// # Errors
    /// Corrupt for bytes that are not the dataset's own stub.
    pub chunk: fn(&Dataset, &[u8]) -> Result<Evidence>,
}

static CHECKS: OnceLock<LiveChecks> = OnceLock::new();

/// Sets the process's checks of live datasets. Without them, their chunks are copied unchecked. Later calls have no
/// effect.
pub fn set_live_checks(checks: LiveChecks) {
    CHECKS.get_or_init(|| checks);
}

/// Checks the record of a live dataset.
pub(super) fn record(dataset: &Dataset) -> Result<()> {
    CHECKS.get().map_or(Ok(()), |checks| (checks.record)(dataset))
}

/// Checks a chunk of a live dataset.
pub(super) fn chunk(dataset: &Dataset, bytes: &[u8]) -> Result<Evidence> {
    CHECKS.get().map_or(Ok(Evidence::Unchecked), |checks| (checks.chunk)(dataset, bytes))
}
