//! `hyperchunk arrow`.

mod check;
mod export;
mod fix;
mod import;

use crate::Outcome;
use clap::Subcommand;

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Write datasets as Arrow or Parquet: one dataset as a file, a group or a whole file as a folder.
    Export(export::Arguments),
    /// Make an HDF5 file of an exported folder, or of an Arrow or Parquet file.
    Import(import::Arguments),
    /// Make an HDF5 file readable as Arrow, too: in place if possible, otherwise as a copy.
    Fix(fix::Arguments),
    /// Check whether Arrow programs find the same data in a file as HDF5 programs.
    Check(check::Arguments),
}

pub(crate) fn run(command: &Command) -> Outcome {
    match command {
        Command::Export(arguments) => export::run(arguments),
        Command::Import(arguments) => import::run(arguments),
        Command::Fix(arguments) => fix::run(arguments),
        Command::Check(arguments) => check::run(arguments),
    }
}

/// Returns a count with its noun, in the plural if needed.
fn plural(count: u64, one: &str) -> String {
    format!("{count} {one}{}", if count == 1 { "" } else { "s" })
}
