//! `hyperchunk arrow`.

mod export;
mod import;

use crate::Outcome;
use clap::Subcommand;

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Write datasets as files of Arrow or Parquet: one as a file, a group or a whole file as a folder.
    Export(export::Arguments),
    /// Make an HDF5 file of a folder that was exported, or of a file of Arrow or Parquet.
    Import(import::Arguments),
}

pub(crate) fn run(command: &Command) -> Outcome {
    match command {
        Command::Export(arguments) => export::run(arguments),
        Command::Import(arguments) => import::run(arguments),
    }
}

/// A number of things.
fn many(count: u64, one: &str) -> String {
    format!("{count} {one}{}", if count == 1 { "" } else { "s" })
}
