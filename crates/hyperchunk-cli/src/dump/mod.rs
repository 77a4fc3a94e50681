//! `hyperchunk dump`.

mod digest;

use crate::Outcome;
use clap::Args;
use hyperchunk::{File, OpenOptions};
use std::path::PathBuf;

#[derive(Args, Debug)]
pub(crate) struct Arguments {
    /// The HDF5 file.
    file: PathBuf,
    /// Print SHA-256 digests of all values as JSON, for comparing files and readers.
    #[arg(long)]
    digest: bool,
    /// Leave out datasets that are larger, with an error in their place.
    #[arg(long, value_name = "BYTES", default_value_t = 512 << 20)]
    max_bytes: u64,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let file = File::open(&arguments.file, &OpenOptions::default())?;
    let failures = digest::print(&file, arguments.max_bytes)?;
    if failures > 0 { Err(format!("{failures} objects or attributes could not be read").into()) } else { Ok(()) }
}
