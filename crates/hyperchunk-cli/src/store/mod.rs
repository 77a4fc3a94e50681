//! `hyperchunk store`.

mod analyses;
mod change;
mod follow;
mod query;
mod show;
mod tree;

use crate::Outcome;
use clap::{Subcommand, ValueEnum};
use hyperchunk_store::commit::external_links::Linking;

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Make an epoch of the data of finished writers, so that plain HDF5 reads it.
    Commit(change::Commit),
    /// Show epochs, writers, uncommitted data, conflicts, and how much plain HDF5 can read.
    Status(show::Status),
    /// List the datasets of the newest epoch, with the bytes written to them.
    Ls(show::Ls),
    /// Find values: boxes that may hold them, by recorded statistics, or the values themselves.
    Query(query::Query),
    /// Show the zones of a dataset, with a map of its large values.
    Zones(query::Zones),
    /// Print matching values as writers flush them, before they are committed.
    Follow(follow::Follow),
    /// Commit the data of killed writers, too, as far as their logs have them.
    Recover(change::Recover),
    /// Compare all written data with their checksums.
    Verify(show::Verify),
    /// Update the locations of the data for plain HDF5, after a store was moved.
    Link(change::Link),
    /// Make one self-contained file of a store.
    Pack(change::Pack),
    /// Rewrite the newest epoch to one log, with fewer, larger pieces.
    Compact(change::Compact),
    /// Write every object of a file to a folder: groups as folders, datasets and attributes as files.
    Export(tree::Export),
    /// Make an HDF5 file of an exported folder.
    Import(tree::Import),
    /// Do a share of the tasks of a layout that `hyperchunk restructure --begin` began.
    Work(crate::restructure::Work),
    /// List the functions that analyse data while they are written.
    Analyses(analyses::List),
    /// Print the results of these functions for a dataset.
    Results(analyses::Results),
    /// Add a function that analyses data written from now on.
    AddAnalysis(analyses::Add),
    /// Stop a function from analysing further data.
    RemoveAnalysis(analyses::Remove),
    /// Run a function over data that were written before it was added.
    Backfill(analyses::Fill),
    /// Delete old epochs and unreachable logs.
    Vacuum(change::Vacuum),
}

pub(crate) fn run(command: &Command) -> Outcome {
    match command {
        Command::Commit(arguments) => change::commit(arguments),
        Command::Status(arguments) => show::status(arguments),
        Command::Ls(arguments) => show::ls(arguments),
        Command::Query(arguments) => query::query(arguments),
        Command::Zones(arguments) => query::zones(arguments),
        Command::Follow(arguments) => follow::follow(arguments),
        Command::Recover(arguments) => change::recover(arguments),
        Command::Verify(arguments) => show::verify(arguments),
        Command::Link(arguments) => change::link(arguments),
        Command::Pack(arguments) => change::pack(arguments),
        Command::Compact(arguments) => change::compact(arguments),
        Command::Export(arguments) => tree::export(arguments),
        Command::Import(arguments) => tree::import(arguments),
        Command::Work(arguments) => crate::restructure::work(arguments),
        Command::Analyses(arguments) => analyses::list(arguments),
        Command::Results(arguments) => analyses::results(arguments),
        Command::AddAnalysis(arguments) => analyses::add(arguments),
        Command::RemoveAnalysis(arguments) => analyses::remove(arguments),
        Command::Backfill(arguments) => analyses::fill(arguments),
        Command::Vacuum(arguments) => change::vacuum(arguments),
    }
}

/// Links by which plain HDF5 finds the data.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
enum LinkKind {
    /// Absolute paths: valid from any folder, until the store is moved.
    Absolute,
    /// Paths relative to the file's folder; plain HDF5 then needs `HDF5_EXTFILE_PREFIX='${ORIGIN}'`.
    Relative,
    /// No links: plain HDF5 reads no data.
    None,
}

impl From<LinkKind> for Linking {
    fn from(names: LinkKind) -> Self {
        match names {
            LinkKind::Absolute => Self::Absolute,
            LinkKind::Relative => Self::Relative,
            LinkKind::None => Self::Never,
        }
    }
}
