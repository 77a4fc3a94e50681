//! `hyperchunk arrow`.

mod check;
mod export;
mod fix;
mod import;

use crate::Outcome;
use clap::Subcommand;

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Write datasets as files of Arrow or Parquet: one as a file, a group or a whole file as a folder.
    Export(export::Arguments),
    /// Make an HDF5 file of a folder that was exported, or of a file of Arrow or Parquet.
    Import(import::Arguments),
    /// Make a file readable as Arrow, too: in place where that can be, else as a copy.
    Fix(fix::Arguments),
    /// Tell whether the Arrow side of a file is what its HDF5 side is, and why not.
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

/// A number of things.
fn many(count: u64, one: &str) -> String {
    format!("{count} {one}{}", if count == 1 { "" } else { "s" })
}
