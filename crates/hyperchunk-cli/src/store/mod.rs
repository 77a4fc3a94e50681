//! `hyperchunk store`.

mod analyses;
mod change;
mod follow;
mod query;
mod show;
mod tree;

use crate::Outcome;
use clap::{Subcommand, ValueEnum};
use hyperchunk::store::link::Linking;

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Make an epoch of what writers finished: plain HDF5 reads it from then on.
    Commit(change::Commit),
    /// Tell what a store is made of: epochs, writers, what waits to be committed, conflicts, what plain HDF5 can read.
    Status(show::Status),
    /// List the datasets of a store's epoch, with what was written to them.
    Ls(show::Ls),
    /// Find values: boxes that may hold them, by the statistics that writers kept, or the values themselves.
    Query(query::Query),
    /// Show the zones of a dataset, with a picture of where its values are large.
    Zones(query::Zones),
    /// Tell of values as writers flush them, before anybody commits.
    Follow(follow::Follow),
    /// Commit also what writers wrote that were stopped, up to the last write that was whole.
    Recover(change::Recover),
    /// Compare everything that was written with its checksum.
    Verify(show::Verify),
    /// Say anew where the data lie, for plain HDF5: after a store was moved.
    Link(change::Link),
    /// Make one file of a store that needs nothing else.
    Pack(change::Pack),
    /// Write what an epoch has to one log: fewer, larger pieces.
    Compact(change::Compact),
    /// Write every object of a file to a place of its own below a folder: groups as folders, the rest as files.
    Export(tree::Export),
    /// Make the file that was exported to a folder.
    Import(tree::Import),
    /// Do a share of the tasks of a layout that was begun (`hyperchunk restructure --begin`).
    Work(crate::restructure::Work),
    /// List the functions that see what is written to a store.
    Analyses(analyses::List),
    /// Tell what such functions found in a dataset.
    Results(analyses::Results),
    /// Let a function see what is written from now on.
    AddAnalysis(analyses::Add),
    /// Let a function see nothing more.
    RemoveAnalysis(analyses::Remove),
    /// Let a function see what was written before it was there.
    Backfill(analyses::Fill),
    /// Delete old epochs, and logs that nobody can see any more.
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

/// How plain HDF5 finds the data.
#[derive(ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
enum Names {
    /// By whole paths: from any folder, until the store is moved.
    Absolute,
    /// From the file's own folder: plain HDF5 wants `HDF5_EXTFILE_PREFIX='${ORIGIN}'`.
    Relative,
    /// Not at all.
    None,
}

impl From<Names> for Linking {
    fn from(names: Names) -> Self {
        match names {
            Names::Absolute => Self::Absolute,
            Names::Relative => Self::Relative,
            Names::None => Self::Never,
        }
    }
}
