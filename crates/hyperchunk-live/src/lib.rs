//! Live datasets in files that the engine reads, from wherever: their functions run in the same sandbox, under the same trust, as
//! in the plugin for libhdf5; there is no libhdf5 here.
//!
//! **Invariant:** nothing from a file is executed, loaded or compiled in this process.

mod attributes;
mod chunked;
pub mod device;
mod evaluate;
mod expression;
mod inputs;
pub mod observe;
mod plan;
mod sources;
mod stored;
mod texts;

pub use chunked::ChunkedInput;

use hyperchunk::live::{Evaluator, set_evaluator};
use hyperchunk::{Dataset, Error, ErrorKind, Result};

/// Lets the engine compute live datasets. Once for the process.
pub fn enable() {
    set_evaluator(&Functions);
    hyperchunk_udf::host::set_interrupt(hyperchunk::io::is_interrupted);
}

/// Runs functions in workers.
struct Functions;

impl Evaluator for Functions {
    fn evaluate(&self, dataset: &Dataset, stub: &[u8], chunk: &mut [u8]) -> Result<()> {
        evaluate::chunk(dataset, stub, chunk).map_err(|error| of_engine(&error))
    }
}

/// As an error of the engine. Its message says already which dataset of which file it is about.
fn of_engine(error: &hyperchunk_udf::error::Error) -> Error {
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

/// As an error of live datasets.
fn of_function(error: &Error) -> hyperchunk_udf::error::Error {
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
