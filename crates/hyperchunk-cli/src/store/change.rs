//! Commands that change a store, or make a file of it.

use super::LinkKind;
use super::show::no_store;
use crate::Outcome;
use crate::progress::bytes;
use crate::source::StoreOptions;
use clap::Args;
use hyperchunk::write::Sync;
use hyperchunk_store::admin::vacuum::VacuumOptions;
use hyperchunk_store::commit::external_links::{Links, UnlinkedReason};
use hyperchunk_store::commit::{CommitOptions, CommitReport, DeferredLog};
use hyperchunk_store::{BegunUpload, Session};
use hyperchunk_udf::escape::escape;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Args, Debug)]
#[command(after_help = COMMIT_HELP)]
pub(crate) struct Commit {
    /// The HDF5 file, with FILE.d beside it; may be a URL.
    file: PathBuf,
    /// Also commit active writers, up to their last flush.
    #[arg(long)]
    flushed: bool,
    #[command(flatten)]
    common: CommitArguments,
    #[command(flatten)]
    remote: StoreOptions,
}

const COMMIT_HELP: &str = "\
Commits all finished writers. Active and killed writers are left alone; `hyperchunk store recover` also takes
the killed ones. If two writers wrote different values to one place, nothing is committed and the error names
the conflict; with `--on-conflict warn` the data are committed, with the values that the error calls visible.
A log that cannot be committed because of its contents is set aside and named; the others are committed.

Example:
  hyperchunk store commit run.h5";

#[derive(Args, Debug)]
pub(crate) struct Recover {
    /// The HDF5 file, with FILE.d beside it; may be a URL.
    file: PathBuf,
    #[command(flatten)]
    common: CommitArguments,
    #[command(flatten)]
    remote: StoreOptions,
}

#[derive(Args, Debug)]
struct CommitArguments {
    /// Commit only writers of the session with this name (HYPERCHUNK_SESSION).
    #[arg(long, value_name = "NAME")]
    session: Option<String>,
    /// Reaction to writers that wrote different values to one place: commit nothing, or commit and list the
    /// conflicts.
    #[arg(long, value_enum, default_value = "error")]
    on_conflict: OnConflict,
    /// Take only the raw data of logs whose structure cannot be merged: datasets at the paths that they were
    /// created with.
    #[arg(long)]
    data_only: bool,
    /// Links by which plain HDF5 finds the data.
    #[arg(long, value_enum, default_value = "absolute")]
    link: LinkKind,
    /// Do not wait until the epoch is on the disk.
    #[arg(long)]
    no_sync: bool,
    /// Print a report as JSON.
    #[arg(long)]
    json: bool,
}

#[derive(clap::ValueEnum, Debug, Clone, Copy, PartialEq, Eq)]
enum OnConflict {
    Error,
    Warn,
}

impl CommitArguments {
    fn options(&self) -> CommitOptions {
        let mut options = CommitOptions::default();
        options.session = self.session.as_deref().map(Session::named);
        options.conflicts_are_errors = self.on_conflict == OnConflict::Error;
        options.data_only = self.data_only;
        options.link = self.link.into();
        options.sync = if self.no_sync { Sync::Never } else { Sync::Commit };
        options
    }
}

fn display(path: &Path) -> String {
    escape(&path.display().to_string(), 2000)
}

fn text(bytes: &[u8]) -> String {
    escape(&String::from_utf8_lossy(bytes), 2000)
}

pub(super) fn commit(arguments: &Commit) -> Outcome {
    let mut options = arguments.common.options();
    options.flushed = arguments.flushed;
    commit_with(&arguments.file, &arguments.remote, &options, arguments.common.json)
}

pub(super) fn recover(arguments: &Recover) -> Outcome {
    let mut options = arguments.common.options();
    options.salvage = true;
    commit_with(&arguments.file, &arguments.remote, &options, arguments.common.json)
}

fn commit_with(path: &Path, remote: &StoreOptions, options: &CommitOptions, as_json: bool) -> Outcome {
    let site = remote.site_to_change(path)?;
    let hyperchunk_store::commit::Outcome { made, set_aside, .. } =
        hyperchunk_store::commit::commit_all(&site, options)?;
    if options.salvage
        && !as_json
        && let Some(bucket) = site.site().bucket()
    {
        print_uploads(&bucket.uploads()?);
    }
    let Some(made) = made else {
        let status = hyperchunk_store::admin::status::Status::read(&site)?;
        if !status.is_store() {
            return Err(no_store(path).into());
        }
        if as_json {
            say!("{}", json!({ "epoch": null, "set_aside": set_aside_json(&set_aside) }));
        } else {
            let open = status.logs.iter().filter(|log| log.waiting() > 0).count();
            let hint = if open > 0 {
                format!("; {open} writers are not done (`hyperchunk store status`)")
            } else {
                String::new()
            };
            say!("{}: nothing new to commit{hint}", display(path));
        }
        return tell_set_aside(&set_aside);
    };
    if as_json {
        say!("{}", to_json(&made));
    } else {
        print(path, &made);
    }
    tell_set_aside(&set_aside)
}

/// Prints the logs that were set aside; an error if any data in them are not committed.
fn tell_set_aside(set_aside: &[DeferredLog]) -> Outcome {
    let mut missing = None;
    for aside in set_aside {
        if aside.has_data {
            let reason = escape(&aside.reason.to_string(), 2000);
            say!("writer {}: only its raw data are committed, not its structure: {reason}", aside.writer);
        } else {
            missing.get_or_insert(aside);
        }
    }
    match missing {
        Some(aside) => Err(aside.error().into()),
        None => Ok(()),
    }
}

fn set_aside_json(set_aside: &[DeferredLog]) -> serde_json::Value {
    let all = set_aside.iter().map(|aside| {
        json!({
            "writer": aside.writer.to_string(), "reason": aside.reason.to_string(), "has_data": aside.has_data,
        })
    });
    all.collect()
}

/// Prints incomplete uploads.
pub(super) fn print_uploads(uploads: &[BegunUpload]) {
    if uploads.is_empty() {
        return;
    }
    say!(
        "{} uploads are incomplete: their writers are active, or were stopped and have lost the data sent since \
         their last flush (`hyperchunk store vacuum --uploads SECONDS` aborts older ones)",
        uploads.len()
    );
    for begun in uploads.iter().take(20) {
        say!("  {} from byte {}, begun {} s ago", begun.writer, begun.from, begun.age.as_secs());
    }
}

fn to_json(made: &CommitReport) -> serde_json::Value {
    json!({
        "epoch": made.manifest.number,
        "writers": made.writers.iter().map(ToString::to_string).collect::<Vec<_>>(),
        "datasets": made.manifest.datasets.len(),
        "conflicts": made.manifest.conflicts.iter().map(|conflict| json!({
            "path": String::from_utf8_lossy(&conflict.path), "what": conflict.what, "start": conflict.slab.start,
            "count": conflict.slab.count, "kept": conflict.kept.to_string(), "other": conflict.other.to_string(),
        })).collect::<Vec<_>>(),
        "left": made.left.iter().map(|left| left.header.writer.to_string()).collect::<Vec<_>>(),
        "links": links_json(&made.links),
        "set_aside": set_aside_json(&made.set_aside),
    })
}

fn links_json(links: &Links) -> serde_json::Value {
    let links = links.iter().map(|(path, link)| {
        let (segments, reason) = match link {
            Ok(segments) => (Some(segments), None),
            Err(reason) => (None, Some(reason.to_string())),
        };
        json!({ "path": String::from_utf8_lossy(path), "segments": segments, "reason": reason })
    });
    links.collect()
}

fn print(path: &Path, made: &CommitReport) {
    let (writers, datasets) = (made.writers.len(), made.manifest.datasets.len());
    say!("{}: epoch {}, of {writers} writers; {datasets} datasets", display(path), made.manifest.number);
    for conflict in &made.manifest.conflicts {
        let place = if conflict.slab.start.is_empty() {
            String::new()
        } else {
            format!(" at {:?}, {:?} elements", conflict.slab.start, conflict.slab.count)
        };
        let path = text(&conflict.path);
        say!("conflict: {path}{place}: {}: {}", text(conflict.what.as_bytes()), conflict.outcome());
    }
    if !made.left.is_empty() {
        say!("not committed: {} active or stopped writers", made.left.len());
    }
    print_links(&made.links);
}

fn print_links(links: &Links) {
    for (path, link) in links {
        if let Err(reason) = link {
            say!("not readable by plain HDF5: {}: {reason}", text(path));
        }
    }
}

#[derive(Args, Debug)]
pub(crate) struct Link {
    /// The HDF5 file, with FILE.d beside it.
    file: PathBuf,
    /// Store the paths of logs relative to the file's folder; plain HDF5 then needs
    /// HDF5_EXTFILE_PREFIX='${ORIGIN}'.
    #[arg(long, conflicts_with = "none")]
    relative: bool,
    /// Remove the links, so that plain HDF5 reads no data.
    #[arg(long)]
    none: bool,
    /// Print the links as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn link(arguments: &Link) -> Outcome {
    let names = match (arguments.relative, arguments.none) {
        (true, _) => LinkKind::Relative,
        (_, true) => LinkKind::None,
        _ => LinkKind::Absolute,
    };
    let links = hyperchunk_store::commit::external_links::link(&arguments.file, names.into(), Sync::Commit)?;
    let linked = links.iter().filter(|(_, link)| link.is_ok()).count();
    if arguments.json {
        say!("{}", links_json(&links));
    } else {
        say!("{}: {linked} of {} datasets are read by plain HDF5", display(&arguments.file), links.len());
        print_links(&links);
    }
    match links.iter().filter(|(_, link)| *link == Err(UnlinkedReason::ShortLog)).count() {
        0 => Ok(()),
        damaged => Err(format!(
            "{}: expected whole files of the store, got missing or cut off ones, so {damaged} datasets are not linked; \
             `hyperchunk store verify` names the files: restore them from a copy",
            display(&arguments.file)
        )
        .into()),
    }
}

#[derive(Args, Debug)]
pub(crate) struct Pack {
    /// The HDF5 file, with FILE.d beside it; may be a URL.
    file: PathBuf,
    /// The file to make.
    out: PathBuf,
    /// Epoch to pack; without it, the newest.
    #[arg(long, value_name = "N")]
    epoch: Option<u64>,
    /// Replace an existing OUT.
    #[arg(long)]
    overwrite: bool,
    /// Number of threads; 0: one for each processor.
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
    /// Print a report as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    remote: StoreOptions,
}

pub(super) fn pack(arguments: &Pack) -> Outcome {
    let mut options = hyperchunk_store::admin::pack::PackOptions::default();
    options.epoch = arguments.epoch;
    options.replace = arguments.overwrite;
    options.threads = arguments.threads;
    let packed = hyperchunk_store::admin::pack::pack(
        &arguments.remote.site(&arguments.file),
        &arguments.out,
        &options,
    )?;
    if arguments.json {
        say!(
            "{}",
            json!({ "epoch": packed.epoch, "datasets": packed.datasets, "copied": packed.copied,
                "reencoded_bytes": packed.reencoded_bytes, "size": packed.size })
        );
    } else {
        let (size, copied) = (bytes(packed.size), bytes(packed.copied));
        let datasets = packed.datasets;
        say!(
            "{}: {size}, {datasets} datasets of epoch {}; {copied} copied as they are",
            display(&arguments.out),
            packed.epoch
        );
    }
    Ok(())
}

#[derive(Args, Debug)]
#[command(after_help = VACUUM_HELP)]
pub(crate) struct Vacuum {
    /// The HDF5 file, with FILE.d beside it; may be a URL.
    file: PathBuf,
    /// Number of newest epochs to keep.
    #[arg(long, value_name = "N", default_value_t = 1)]
    epochs: usize,
    /// Keep files that changed within the last SECONDS, because readers may have them open.
    #[arg(long, value_name = "SECONDS", default_value_t = 3600)]
    grace: u64,
    /// Only list the files that would be deleted.
    #[arg(long)]
    dry_run: bool,
    /// Print a report as JSON.
    #[arg(long)]
    json: bool,
    /// In an object store, abort incomplete uploads that were begun more than SECONDS ago. Writers that are
    /// still active then fail.
    #[arg(long, value_name = "SECONDS")]
    uploads: Option<u64>,
    #[command(flatten)]
    remote: StoreOptions,
}

const VACUUM_HELP: &str = "\
Readers that opened the file before the last commit read an older epoch, which is deleted. Uncommitted data
are never deleted, unless a writer that created the file again hides them. Files that a program may be making
at this moment are kept for at least 10 minutes, whatever the value of --grace. If the newest epoch lacks a
log, nothing is deleted.";

pub(super) fn vacuum(arguments: &Vacuum) -> Outcome {
    let mut options = VacuumOptions::default();
    options.epochs = arguments.epochs;
    options.grace = Duration::from_secs(arguments.grace);
    options.dry = arguments.dry_run;
    options.uploads = arguments.uploads.map(Duration::from_secs);
    let done = hyperchunk_store::admin::vacuum::vacuum(
        &arguments.remote.site_to_change(&arguments.file)?,
        &options,
    )?;
    if arguments.json {
        let files: Vec<String> = done.files.iter().map(|file| file.display().to_string()).collect();
        say!(
            "{}",
            json!({ "files": files, "bytes": done.bytes, "young": done.young, "dry_run": arguments.dry_run,
                "uploads": done.uploads.len() })
        );
        return Ok(());
    }
    let verb = if arguments.dry_run { "would be deleted" } else { "deleted" };
    for file in &done.files {
        say!("{}", display(file));
    }
    say!("{} files, {}, {verb}", done.files.len(), bytes(done.bytes));
    print_uploads(&done.uploads);
    if done.young > 0 {
        say!(
            "{} files are kept because they changed in the last {} s (--grace), or in the last 10 minutes if a \
             program may be making them",
            done.young,
            arguments.grace
        );
    }
    Ok(())
}

#[derive(Args, Debug)]
#[command(after_help = COMPACT_HELP)]
pub(crate) struct Compact {
    /// The HDF5 file, with FILE.d beside it.
    file: PathBuf,
    /// Approximate number of bytes of data held at a time.
    #[arg(long, value_name = "BYTES", default_value_t = 64 << 20)]
    memory: u64,
    /// Links by which plain HDF5 finds the data.
    #[arg(long, value_enum, default_value = "absolute")]
    link: LinkKind,
    /// Print a report as JSON.
    #[arg(long)]
    json: bool,
}

const COMPACT_HELP: &str = "\
Makes a new epoch with the same contents. The old logs stay for readers of older epochs, until `hyperchunk
store vacuum`. Afterwards, plain HDF5 can also read datasets that had too many pieces for it.";

pub(super) fn compact(arguments: &Compact) -> Outcome {
    let mut options = hyperchunk_store::admin::compact::CompactOptions::default();
    options.memory = arguments.memory;
    options.link = arguments.link.into();
    let done = hyperchunk_store::admin::compact::compact(&arguments.file, &options)?;
    let Some(done) = done else {
        if arguments.json {
            say!("{}", json!({ "epoch": null }));
        } else {
            say!("{}: already in one log, in few pieces", display(&arguments.file));
        }
        return Ok(());
    };
    let (before, after) = done.pieces;
    if arguments.json {
        let replaced: Vec<String> = done.replaced.iter().map(ToString::to_string).collect();
        say!(
            "{}",
            json!({ "epoch": done.manifest.number, "pieces": after, "pieces_before": before, "replaced": replaced,
                "links": links_json(&done.links) })
        );
        return Ok(());
    }
    say!(
        "{}: epoch {}; {before} pieces merged to {after}; {} logs are no longer needed \
         (`hyperchunk store vacuum`)",
        display(&arguments.file),
        done.manifest.number,
        done.replaced.len()
    );
    print_links(&done.links);
    Ok(())
}
