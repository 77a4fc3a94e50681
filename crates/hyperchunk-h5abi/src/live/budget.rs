//! How long functions compute for one read of a program's.
//!
//! HDF5 does not tell a filter where a read begins. But each call of its interface clears the error stack, and nothing within a read does: so
//! once a thread's functions have computed for a while, a message is left there, and while it stays it is the same call. Short reads never
//! see one.

use crate::errors::{Area, push};
use crate::library::Library;
use crate::static_symbols::is_absent;
use crate::symbols::Hid;
use crate::{Result, fail};
use hyperchunk_udf::profile::Profile;
use std::cell::Cell;
use std::ffi::c_void;
use std::time::{Duration, Instant};

#[derive(Clone, Copy)]
struct Account {
    /// The library whose error stack is looked at.
    library: usize,
    /// Live datasets that are being computed, one for another.
    depth: u32,
    /// What was computed: for the one call, once it is marked.
    spent: Duration,
    marked: bool,
    /// Seconds that the outermost's profile allows.
    limit: u64,
}

thread_local! {
    static ACCOUNT: Cell<Account> =
        const { Cell::new(Account { library: 0, depth: 0, spent: Duration::ZERO, marked: false, limit: u64::MAX }) };
}

/// The computation of one chunk, until it is dropped, which has to be the last that is done of it.
pub(crate) struct Computation {
    library: &'static Library,
    start: Instant,
}

impl Computation {
    /// Begins, before any other call of the library.
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
                push(self.library, Area::Live, "more was computed before in this call");
            }
        }
        ACCOUNT.set(account);
    }
}

/// Fails where the read that this thread is part of has computed for longer than a profile allows: not before that, and at half as long
/// again.
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

/// The messages on the library's error stack.
fn messages(library: &'static Library) -> isize {
    type Count = unsafe extern "C" fn(Hid) -> isize;
    let symbol = library.optional(c"H5Eget_num");
    if symbol.is_null() || is_absent(symbol.cast_const()) {
        return 0;
    }
    // SAFETY: the symbol is libhdf5's, whose headers give it this type; 0 is the default stack.
    unsafe { std::mem::transmute::<*mut c_void, Count>(symbol)(0) }
}
