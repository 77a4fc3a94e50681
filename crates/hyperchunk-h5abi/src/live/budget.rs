//! Time limit on the computations of one read call of an application.
//!
//! HDF5 does not tell a filter where a read begins. But each call of HDF5's API clears the error stack, and
//! no operation within a read does. So once a thread's functions have computed for half of the limit, a
//! marker message is pushed on the error stack, and as long as it remains there, the same call is running.
//! Short reads never push one.

use crate::errors::{Area, push};
use crate::library::Library;
use crate::static_symbols::is_absent;
use crate::symbols::Hid;
use crate::{Result, fail};
use hyperchunk_udf::profile::Profile;
use std::cell::Cell;
use std::ffi::c_void;
use std::time::{Duration, Instant};

/// Computing time of a thread.
#[derive(Clone, Copy)]
struct Account {
    /// The library whose error stack is used.
    library: usize,
    /// Nesting depth of live datasets being computed as inputs of each other.
    depth: u32,
    /// Time spent computing; of the current call only, once `marked` is set.
    spent: Duration,
    /// True if the marker message was pushed.
    marked: bool,
    /// Limit in seconds from the outermost dataset's profile.
    limit: u64,
}

thread_local! {
    static ACCOUNT: Cell<Account> =
        const { Cell::new(Account { library: 0, depth: 0, spent: Duration::ZERO, marked: false, limit: u64::MAX }) };
}

/// Guard for the computation of one chunk. It must be dropped last, after all other work on the chunk.
pub(crate) struct Computation {
    library: &'static Library,
    start: Instant,
}

impl Computation {
    /// Begins a computation. Must precede all other calls of the library, because they clear the error stack.
    pub(crate) fn begin(library: &'static Library) -> Self {
        let mut account = ACCOUNT.get();
        if account.depth == 0 {
            let same = account.library == library.base();
            if !same || (account.marked && messages(library) == 0) {
                (account.spent, account.marked) = (Duration::ZERO, false);
            }
            account.library = library.base();
        }
        account.depth += 1;
        ACCOUNT.set(account);
        Computation { library, start: Instant::now() }
    }
}

impl Drop for Computation {
    fn drop(&mut self) {
        let mut account = ACCOUNT.get();
        account.depth = account.depth.saturating_sub(1);
        if account.depth == 0 {
            account.spent = account.spent.saturating_add(self.start.elapsed());
            if !account.marked && account.spent > Duration::from_secs(account.limit) / 2 {
                (account.spent, account.marked) = (Duration::ZERO, true);
            }
            if account.marked && messages(self.library) == 0 {
                push(self.library, Area::Live, "earlier chunks of this call took long to compute");
            }
        }
        ACCOUNT.set(account);
    }
}

/// Fails if the current read has computed for longer than the profile allows. The failure comes between the
/// limit and 1.5 times the limit.
///
/// # Errors
/// `Limit`.
pub(super) fn check(profile: &Profile) -> Result<()> {
    let mut account = ACCOUNT.get();
    let limit = profile.limits.read_s;
    if account.depth == 1 {
        account.limit = limit;
        ACCOUNT.set(account);
    }
    if account.marked && account.spent > Duration::from_secs(limit) {
        fail!(
            Limit,
            "over the limit of {limit} s of computing for one read (profile {}, `read_s`); read it in parts, or raise the limit",
            profile.name
        )
    }
    Ok(())
}

/// Returns the number of messages on the library's error stack.
fn messages(library: &'static Library) -> isize {
    type Count = unsafe extern "C" fn(Hid) -> isize;
    let symbol = library.optional(c"H5Eget_num");
    if symbol.is_null() || is_absent(symbol.cast_const()) {
        return 0;
    }
    // SAFETY: the symbol is libhdf5's, whose headers give it this type; 0 is the default stack.
    unsafe { std::mem::transmute::<*mut c_void, Count>(symbol)(0) }
}
