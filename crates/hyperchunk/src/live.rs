//! Live datasets: their chunks hold a note of which function computes them. This engine knows no function; whoever runs them
//! says so once for the process.

use crate::file::ExternalPolicy;
use crate::{Dataset, Error, Result};
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// The number of the filter of live datasets.
pub const FILTER: u16 = 31300;

/// Computes chunks of live datasets.
pub trait Evaluator: Sync {
    /// Fills `chunk` with the chunk whose note is `stub`: elements as the dataset's datatype has them. It may read other
    /// datasets, which may be live, too. Many threads ask at once.
    ///
    /// # Errors
    /// Refused or Function, with the reason; others if an input cannot be read. What is in `chunk` then means nothing.
    fn evaluate(&self, dataset: &Dataset, stub: &[u8], chunk: &mut [u8]) -> Result<()>;
}

thread_local! {
    static ALONE: Cell<bool> = const { Cell::new(false) };
}

/// Does something whose reads start no other threads: whoever computes knows by its thread what it is computing.
pub fn on_this_thread<T>(work: impl FnOnce() -> T) -> T {
    struct Before(bool);
    impl Drop for Before {
        fn drop(&mut self) {
            ALONE.set(self.0);
        }
    }
    let _before = Before(ALONE.replace(true));
    work()
}

thread_local! {
    static INPUTS: Cell<Option<ExternalPolicy>> = const { Cell::new(None) };
}

/// Reads inputs of a function: of the other files that the file names, at most those of `policy` are opened on this thread, and
/// only regular files outside of `/proc`, `/sys` and `/dev`.
pub fn with_inputs<T>(policy: ExternalPolicy, work: impl FnOnce() -> T) -> T {
    struct Before(Option<ExternalPolicy>);
    impl Drop for Before {
        fn drop(&mut self) {
            INPUTS.set(self.0);
        }
    }
    let before = INPUTS.get();
    let _before = Before(before);
    // The inputs of a live dataset that is an input are inputs of the outer one, too.
    INPUTS.set(Some(before.map_or(policy, |before| before.max(policy))));
    work()
}

/// Which other files may be opened for what this thread reads, if that are inputs of a function.
pub(crate) fn inputs_policy() -> Option<ExternalPolicy> {
    INPUTS.get()
}

thread_local! {
    static READ: RefCell<Option<Arc<Spent>>> = const { RefCell::new(None) };
}

/// The time that functions have computed for one read of a program's, with all that it sets off.
#[derive(Debug, Default)]
pub struct Spent(AtomicU64);

impl Spent {
    /// The time so far, of all threads together.
    #[must_use]
    pub fn so_far(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }

    /// Adds to it.
    pub fn add(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        // A sum of times that have passed does not overflow.
        self.0.fetch_add(micros, Ordering::Relaxed);
    }
}

/// What functions have spent of the read that this thread is part of.
#[must_use]
pub fn spent() -> Option<Arc<Spent>> {
    READ.try_with(|read| read.borrow().clone()).ok().flatten()
}

/// Sets what this thread's reads are counted to. A thread that ends, on which HDF5 closes files, has no place for it any more.
fn set_account(account: Option<Arc<Spent>>) {
    drop(READ.try_with(|read| read.replace(account)));
}

/// Does a part of a read: of the one that `of` is the account of, or of this thread's, or of a new one.
pub(crate) fn within_read<T>(of: Option<Arc<Spent>>, work: impl FnOnce() -> T) -> T {
    struct Before(Option<Arc<Spent>>);
    impl Drop for Before {
        fn drop(&mut self) {
            set_account(self.0.take());
        }
    }
    let before = spent();
    let account = of.or_else(|| before.clone()).unwrap_or_default();
    set_account(Some(account));
    let _before = Before(before);
    work()
}

/// Whether reads of this thread start no others.
pub(crate) fn is_alone() -> bool {
    ALONE.get()
}

static EVALUATOR: OnceLock<&'static dyn Evaluator> = OnceLock::new();

/// Says who computes live datasets in this process. The first one stays.
pub fn set_evaluator(evaluator: &'static dyn Evaluator) {
    EVALUATOR.get_or_init(|| evaluator);
}

impl Dataset {
    /// Whether a function computes its values. A dataset that a program made with the properties of a live one has values, where the filter
    /// was left out.
    #[must_use]
    pub fn is_live(&self) -> bool {
        let filter = self.pipeline().iter().find(|filter| filter.id == FILTER);
        filter.is_some_and(|filter| !filter.optional || self.first_note().is_ok_and(|note| note.is_some()))
    }

    /// Who computes it, if it is live and somebody can.
    pub(crate) fn evaluator(&self) -> Result<Option<&'static dyn Evaluator>> {
        match EVALUATOR.get().filter(|_| self.is_live()) {
            Some(_) if self.pipeline().len() > 1 => {
                Err(Error::unsupported("a live dataset with filters beside the one that computes it"))
            }
            evaluator => Ok(evaluator.copied()),
        }
    }
}
