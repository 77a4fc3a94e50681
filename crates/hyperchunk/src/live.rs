//! Live datasets: their chunks hold a note of which function computes them. This engine knows no function; whoever runs them
//! says so once for the process.

use crate::{Dataset, Error, Result};
use std::cell::Cell;
use std::sync::OnceLock;

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
