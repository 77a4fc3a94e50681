//! The readers.

mod hdf5_pure;
mod hdf5_reader;
mod hidefix;
mod hyperchunk;
pub(crate) mod libhdf5;
mod rust_hdf5;

use crate::jobs::{Answer, Input, Job, Result};

/// A prepared job.
pub(crate) type Task<'a> = Box<dyn FnOnce() -> Result<Answer> + 'a>;

/// Prepares a job; the preparation is not timed.
pub(crate) type Reader = for<'a> fn(&'a Input, Job) -> Result<Task<'a>>;

pub(crate) const ALL: [(&str, Reader); 9] = [
    ("hyperchunk", hyperchunk::task),
    ("hidefix", hidefix::task),
    ("hdf5-reader", hdf5_reader::task),
    ("hdf5-reader, mapped", hdf5_reader::task_mapped),
    ("hdf5-pure", hdf5_pure::task),
    ("hdf5-pure, streaming", hdf5_pure::task_streaming),
    ("rust-hdf5", rust_hdf5::task),
    ("hyperchunk, ready", hyperchunk::task_ready),
    ("hidefix, ready", hidefix::task_ready),
];
