//! What a thread is computing: live datasets may read each other, but not in a circle, nor for ever.

use crate::error::{Result, fail};
use crate::profile::Profile;
use crate::stub::LiveId;
use std::cell::{Cell, RefCell};
use std::time::{Duration, Instant};

thread_local! {
    /// The live datasets that this thread is computing, the outermost first.
    static ACTIVE: RefCell<Vec<LiveId>> = const { RefCell::new(Vec::new()) };
    /// Until when: those inside share the time of the outermost.
    static DEADLINE: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// A live dataset that this thread is computing, until it is dropped.
#[derive(Debug)]
pub struct Active(());

impl Active {
    /// Begins with a live dataset.
    ///
    /// # Errors
    /// `Invalid` for a circle, `Limit` when the profile's `chain_depth` or the outermost's `wall_s` is reached.
    pub fn enter(id: LiveId, profile: &Profile) -> Result<Self> {
        ACTIVE.with_borrow_mut(|active| {
            if active.contains(&id) {
                fail!(Invalid, "it reads itself: the inputs of live datasets form a circle")
            }
            let (depth, wall) = (profile.limits.chain_depth, profile.limits.wall_s);
            if active.len() >= depth {
                fail!(
                    Limit,
                    "more than {depth} live datasets read each other (profile {}, `chain_depth`)",
                    profile.name
                )
            }
            let now = Instant::now();
            if active.is_empty() {
                DEADLINE.set(now.checked_add(Duration::from_secs(wall)));
            } else if DEADLINE.get().is_some_and(|end| now > end) {
                fail!(
                    Limit,
                    "over the limit of {wall} s for all live datasets that one read sets off (profile {}, `wall_s`)",
                    profile.name
                )
            }
            active.push(id);
            Ok(Active(()))
        })
    }
}

/// Fails when the time of all live datasets that one read sets off is over.
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
        "over the limit of {wall} s for all live datasets that one read sets off (profile {}, `wall_s`)",
        profile.name
    )
}

impl Drop for Active {
    fn drop(&mut self) {
        ACTIVE.with_borrow_mut(Vec::pop);
    }
}
