//! Live datasets that a thread is computing. They may read each other, but neither in a cycle nor without a
//! bound.

use crate::error::{Result, fail};
use crate::profile::Profile;
use crate::stub::LiveId;
use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

thread_local! {
    /// Live datasets that this thread is computing, the outermost first.
    static ACTIVE: RefCell<Vec<LiveId>> = const { RefCell::new(Vec::new()) };
    /// Deadline, which nested live datasets share with the outermost.
    static DEADLINE: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// Guard for a live dataset that this thread is computing.
#[derive(Debug)]
pub struct ActiveEvaluation(());

impl ActiveEvaluation {
    /// Registers a live dataset whose computation starts.
    ///
    /// # Errors
    /// `Invalid` for a cycle, `Limit` when the profile's `chain_depth` or the outermost's `wall_s` is
    /// reached.
    pub fn enter(id: LiveId, profile: &Profile) -> Result<Self> {
        Self::check(|active| active == id)?;
        ACTIVE.with_borrow_mut(|active| {
            let (depth, wall) = (profile.limits.chain_depth, profile.limits.wall_s);
            if active.len() >= depth {
                fail!(
                    Limit,
                    "more than {depth} live datasets read each other (profile {}, `chain_depth`)",
                    profile.name
                )
            }
            if active.is_empty() {
                DEADLINE.set(Instant::now().checked_add(Duration::from_secs(wall)));
            } else {
                in_time(profile)?;
            }
            active.push(id);
            Ok(ActiveEvaluation(()))
        })
    }

    /// Fails if this thread is computing a live dataset for which `is` returns true: reading it would be a
    /// cycle.
    ///
    /// # Errors
    /// `Invalid`.
    pub fn check(is: impl Fn(LiveId) -> bool) -> Result<()> {
        if ACTIVE.with_borrow(|active| active.iter().any(|&id| is(id))) {
            fail!(Invalid, "it reads itself: the inputs of live datasets form a cycle")
        }
        Ok(())
    }
}

/// Fails once the shared time of all live datasets that one read triggers is used up.
///
/// # Errors
/// `Limit`.
pub fn in_time(profile: &Profile) -> Result<()> {
    if DEADLINE.get().is_none_or(|end| Instant::now() <= end) {
        return Ok(());
    }
    let wall = profile.limits.wall_s;
    fail!(
        Limit,
        "over the limit of {wall} s for all live datasets that one read computes (profile {}, `wall_s`)",
        profile.name
    )
}

impl Drop for ActiveEvaluation {
    fn drop(&mut self) {
        ACTIVE.with_borrow_mut(Vec::pop);
    }
}
