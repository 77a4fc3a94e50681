//! Live datasets: each chunk is a stub that names the function which computes it. The engine runs no
//! functions; a crate above it registers an evaluator, once per process.

use crate::file::ExternalPolicy;
use crate::{Dataset, Error, Result};
use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// HDF5 filter number of live datasets.
pub const FILTER: u16 = 31300;

/// Evaluator that computes chunks of live datasets.
pub trait Evaluator: Sync {
    /// Computes the chunk with the given stub into `chunk`: elements of the dataset's datatype. It may read
    /// other datasets, which may be live, too. Called from many threads at once.
    ///
    /// # Errors
    /// Refused or Function, with the reason; others if an input cannot be read. The contents of `chunk` are
    /// then undefined.
    fn evaluate(&self, dataset: &Dataset, stub: &[u8], chunk: &mut [u8]) -> Result<()>;
}

thread_local! {
    static ALONE: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work` so that its reads start no other threads: evaluators keep their current dataset in
/// thread-local state.
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

/// Runs `work`, which reads a function's inputs. Meanwhile this thread opens other files that a file names
/// only if `policy` allows them and they are regular files outside of `/proc`, `/sys` and `/dev`.
pub fn with_inputs<T>(policy: ExternalPolicy, work: impl FnOnce() -> T) -> T {
    struct Before(Option<ExternalPolicy>);
    impl Drop for Before {
        fn drop(&mut self) {
            INPUTS.set(self.0);
        }
    }
    let before = INPUTS.get();
    let _before = Before(before);
    // The inputs of a live dataset that is itself an input are inputs of the outer one, too.
    INPUTS.set(Some(before.map_or(policy, |before| before.max(policy))));
    work()
}

/// Returns the policy for other files while this thread reads a function's inputs.
pub(crate) fn inputs_policy() -> Option<ExternalPolicy> {
    INPUTS.get()
}

thread_local! {
    static READ: RefCell<Option<Arc<ComputeTime>>> = const { RefCell::new(None) };
}

/// Computing time of functions for one read by the program, including all reads that it causes.
#[derive(Debug, Default)]
pub struct ComputeTime(AtomicU64);

impl ComputeTime {
    /// Returns the time until now, of all threads together.
    #[must_use]
    pub fn so_far(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }

    /// Adds to the time.
    pub fn add(&self, time: Duration) {
        let micros = u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        // A sum of elapsed times does not overflow.
        self.0.fetch_add(micros, Ordering::Relaxed);
    }
}

/// Returns the computing time of functions in the read that this thread is part of.
#[must_use]
pub fn spent() -> Option<Arc<ComputeTime>> {
    READ.try_with(|read| read.borrow().clone()).ok().flatten()
}

/// Sets the account of this thread's reads. Does nothing in a thread that is ending (HDF5 closes files
/// there), which no longer has thread-local values.
fn set_account(account: Option<Arc<ComputeTime>>) {
    drop(READ.try_with(|read| read.replace(account)));
}

/// Runs a part of a read. Computing time is added to the account `of` if it is given, else to this thread's
/// current account, else to a new one.
pub fn within_read<T>(of: Option<Arc<ComputeTime>>, work: impl FnOnce() -> T) -> T {
    struct Before(Option<Arc<ComputeTime>>);
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

/// Returns whether reads of this thread start no other threads.
pub(crate) fn is_alone() -> bool {
    ALONE.get()
}

static EVALUATOR: OnceLock<&'static dyn Evaluator> = OnceLock::new();

/// Sets the process's evaluator of live datasets. Later calls have no effect.
pub fn set_evaluator(evaluator: &'static dyn Evaluator) {
    EVALUATOR.get_or_init(|| evaluator);
}

impl Dataset {
    /// Returns whether a function computes its values. If the filter is optional and was skipped, the values
    /// are stored ones: for example in a dataset created with a live dataset's property list.
    #[must_use]
    pub fn is_live(&self) -> bool {
        let filter = self.pipeline().iter().find(|filter| filter.id == FILTER);
        filter.is_some_and(|filter| !filter.optional || self.first_note().is_ok_and(|note| note.is_some()))
    }

    /// Returns the evaluator if the dataset is live and an evaluator is set.
    pub(crate) fn evaluator(&self) -> Result<Option<&'static dyn Evaluator>> {
        match EVALUATOR.get().filter(|_| self.is_live()) {
            Some(_) if self.pipeline().len() > 1 => Err(Error::unsupported(
                "a live dataset must have no filters besides the one that computes it",
            )),
            evaluator => Ok(evaluator.copied()),
        }
    }
}
