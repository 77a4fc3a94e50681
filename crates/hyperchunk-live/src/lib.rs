//! Live datasets in files from any source that the engine reads. Functions run in the same sandbox and under
//! the same trust as in the plugin for libhdf5, but without libhdf5.
//!
//! **Invariant:** nothing from a file is executed, loaded or compiled in this process.

mod attributes;
mod chunked;
mod copies;
#[cfg(target_os = "linux")]
pub mod device;
pub mod edit;
mod evaluate;
mod expression;
mod inputs;
pub mod observe;
mod plan;
mod sources;
mod stored;
mod vlen_strings;

pub use chunked::ChunkedInput;

use hyperchunk::live::{Evaluator, set_evaluator};
use hyperchunk::pack::set_find_inputs;
use hyperchunk::salvage::{LiveChecks, set_live_checks};
use hyperchunk::{Dataset, Error, ErrorKind, Result};

/// Registers the evaluator of live datasets, and stores, with the engine. Call it once a process.
pub fn enable() {
    set_evaluator(&WorkerEvaluator);
    register_checks();
    hyperchunk_store::register();
    hyperchunk_udf::host::set_interrupt(hyperchunk::io::is_interrupted);
}

/// Lets the engine check the live datasets that it copies: their inputs when it packs, their records and stubs when it
/// salvages. Nothing of them runs. [`enable`] does this, too.
pub fn register_checks() {
    set_find_inputs(copies::inputs);
    set_live_checks(LiveChecks { record: copies::check_record, chunk: copies::check_chunk });
}

/// Evaluator that runs functions in workers.
struct WorkerEvaluator;

impl Evaluator for WorkerEvaluator {
    fn evaluate(&self, dataset: &Dataset, stub: &[u8], chunk: &mut [u8]) -> Result<()> {
        evaluate::chunk(dataset, stub, chunk).map_err(|error| to_engine_error(&error))
    }
}

/// Converts to an error of the engine. The message already names the file and the dataset.
fn to_engine_error(error: &hyperchunk_udf::error::Error) -> Error {
    use hyperchunk_udf::error::ErrorKind as Kind;
    let kind = match error.kind() {
        Kind::Refused | Kind::Violation | Kind::Key => ErrorKind::Refused,
        Kind::Limit => ErrorKind::Limit,
        Kind::Unsupported => ErrorKind::Unsupported,
        Kind::Invalid | Kind::Syntax => ErrorKind::Corrupt,
        Kind::NotFound => ErrorKind::NotFound,
        Kind::Io => ErrorKind::Io,
        _ => ErrorKind::Function,
    };
    Error::new(kind, error.to_string())
}

/// Converts to an error of live datasets.
fn to_udf_error(error: &Error) -> hyperchunk_udf::error::Error {
    use hyperchunk_udf::error::ErrorKind as Kind;
    let kind = match error.kind() {
        ErrorKind::Refused => Kind::Refused,
        ErrorKind::Function => Kind::Failed,
        ErrorKind::Limit => Kind::Limit,
        ErrorKind::NotFound => Kind::NotFound,
        ErrorKind::Unsupported | ErrorKind::MissingFilter => Kind::Unsupported,
        ErrorKind::Corrupt | ErrorKind::Truncated | ErrorKind::Filter | ErrorKind::Invalid => Kind::Invalid,
        _ => Kind::Io,
    };
    hyperchunk_udf::error::Error::new(kind, error.to_string())
}
