//! Commands that describe a store.

use super::change::print_uploads;
use crate::Outcome;
use crate::progress::{bytes, count};
use crate::source::StoreOptions;
use clap::Args;
use hyperchunk_store::admin::status::{LogState, Skeleton, Status as State};
use hyperchunk_store::admin::verify::{self, VerifyReport};
use hyperchunk_udf::escape::escape;
use serde_json::json;
use std::path::{Path, PathBuf};

#[derive(Args, Debug)]
pub(crate) struct Status {
    /// The HDF5 file, with FILE.d beside it; may be a URL.
    file: PathBuf,
    /// Print the status as JSON, with all writers.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    remote: StoreOptions,
}

fn read_status(file: &Path, remote: &StoreOptions) -> Result<State, Box<dyn std::error::Error>> {
    let state = State::read(&remote.site(file))?;
    if state.is_store() {
        return Ok(state);
    }
    Err(no_store(file).into())
}

/// Returns the message for an ordinary file.
pub(super) fn no_store(file: &Path) -> String {
    let shown = escape(&file.display().to_string(), 2000);
    if hyperchunk_store::store_folder(file).is_dir() {
        return format!("{shown}: there is no store: {shown}.d has only second layouts of an ordinary file");
    }
    let got = if file.exists() { "an ordinary HDF5 file" } else { "no file" };
    format!("{shown}: there is no store: no folder {shown}.d; expected the file of a store, got {got}")
}

/// Maximum number of writers listed for each state.
const MAX_LISTED_WRITERS: usize = 20;

pub(super) fn status(arguments: &Status) -> Outcome {
    let state = read_status(&arguments.file, &arguments.remote)?;
    if arguments.json {
        say!("{}", state.to_json());
        return Ok(());
    }
    let shown = escape(&arguments.file.display().to_string(), 2000);
    match state.epochs.iter().rev().find(|epoch| epoch.complete) {
        Some(epoch) => {
            let datasets = count(epoch.datasets as u64, "dataset", "datasets");
            say!("{shown}: epoch {}, {datasets} of {}", epoch.number, count(epoch.logs as u64, "log", "logs"))
        }
        None => say!("{shown}: nothing is committed"),
    }
    let (logs, manifests) = (bytes(state.log_bytes), bytes(state.manifest_bytes));
    say!("logs: {}, {logs}; epochs: {}, {manifests}", state.logs.len(), state.epochs.len());
    let in_state = |name: &str| state.logs.iter().filter(|log| log.state() == name).collect::<Vec<_>>();
    for (name, meaning) in [
        ("finished", "done, but not committed: run `hyperchunk store commit`"),
        ("flushed", "active, with all data flushed: `hyperchunk store commit --flushed` commits them"),
        (
            "stopped",
            "stopped without closing its log: `hyperchunk store recover` commits all complete writes",
        ),
        (
            "writing",
            "active or stopped: `hyperchunk store commit --flushed` commits their flushed data, `hyperchunk \
             store recover` the complete writes of stopped ones",
        ),
        (
            "failed",
            "done, but could not write all data: `hyperchunk store recover` commits the complete writes",
        ),
        ("torn", "stopped before writing anything"),
        ("damaged", "damaged and cannot be committed"),
        ("hidden", "hidden by a writer that created the file again: `hyperchunk store vacuum` deletes them"),
    ] {
        let logs = in_state(name);
        if logs.is_empty() {
            continue;
        }
        let are = if logs.len() == 1 { "writer is" } else { "writers are" };
        say!("{} {are} {meaning}", logs.len());
        for log in logs.iter().take(MAX_LISTED_WRITERS) {
            say!("  {}", line(log));
        }
        if logs.len() > MAX_LISTED_WRITERS {
            say!("  … and {} more (--json)", logs.len() - MAX_LISTED_WRITERS);
        }
    }
    print_uploads(&state.uploads);
    for conflict in &state.conflicts {
        let path = escape(&String::from_utf8_lossy(&conflict.path), 2000);
        say!("conflict: {path}: {}", conflict.outcome());
    }
    match &state.skeleton {
        Skeleton::Missing => say!("{shown} itself is missing: `hyperchunk store link` creates it again"),
        Skeleton::Other if state.epochs.is_empty() => {
            say!("{shown} has no committed data yet, or is another file")
        }
        Skeleton::Other => say!(
            "{shown} is another file, or has no committed data yet: move it away, and `hyperchunk store \
             link` creates the store's file again"
        ),
        Skeleton::Of { epoch, linked, edited } => {
            let total = linked.linked + linked.unlinked;
            say!("plain HDF5 reads {} of {total} datasets, of epoch {epoch}", linked.linked);
            if *edited {
                say!(
                    "the file was changed after that commit, by `hyperchunk store link` or another program; the next commit keeps the changes"
                );
            }
            if let Some(missing) = linked.missing.first() {
                let missing = escape(missing, 2000);
                say!("{missing} does not exist: if the store was moved, run `hyperchunk store link`");
            }
        }
    }
    Ok(())
}

fn line(log: &LogState) -> String {
    let mut line = format!("{} {}", log.writer, bytes(log.size));
    if let Some(header) = &log.header {
        line.push_str(&format!(", process {}", header.process));
    }
    if log.runs == Some(true) {
        line.push_str(", running here");
    }
    if let Some(damage) = &log.damage {
        line.push_str(&format!(": {}", escape(damage, 500)));
    }
    line
}

#[derive(Args, Debug)]
pub(crate) struct Ls {
    /// The HDF5 file, with FILE.d beside it; may be a URL.
    file: PathBuf,
    /// Print the datasets as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    remote: StoreOptions,
}

pub(super) fn ls(arguments: &Ls) -> Outcome {
    let state = read_status(&arguments.file, &arguments.remote)?;
    if arguments.json {
        say!("{}", state.to_json()["datasets"]);
        return Ok(());
    }
    for dataset in &state.datasets {
        let extent: Vec<String> = dataset.extent.iter().map(ToString::to_string).collect();
        let path = escape(&String::from_utf8_lossy(&dataset.path), 2000);
        let (written, all) = (bytes(dataset.written), bytes(dataset.bytes));
        let mut line =
            format!("{path}  {}  {written} written of {all}, {} pieces", extent.join("x"), dataset.pieces);
        if let Some(statistics) = &dataset.statistics
            && let (Some((min, _)), Some((max, _))) = (statistics.min, statistics.max)
        {
            line.push_str(&format!(", {} to {}", min.as_f64(), max.as_f64()));
        }
        say!("{line}");
    }
    Ok(())
}

#[derive(Args, Debug)]
#[command(after_help = VERIFY_HELP)]
pub(crate) struct Verify {
    /// The HDF5 file, with FILE.d beside it; may be a URL.
    file: PathBuf,
    /// Print a report as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    remote: StoreOptions,
}

const VERIFY_HELP: &str = "\
Reads all logs. The exit status is 1 if data are damaged, and the error says where. Data written without
checksums cannot be compared.";

pub(super) fn verify(arguments: &Verify) -> Outcome {
    read_status(&arguments.file, &arguments.remote)?;
    let VerifyReport { logs, bytes: looked, damaged, .. } =
        verify::verify(&arguments.remote.site(&arguments.file))?;
    if arguments.json {
        say!("{}", json!({ "logs": logs, "bytes": looked, "damaged": damaged }));
    } else {
        let shown = escape(&arguments.file.display().to_string(), 2000);
        say!("{shown}: {logs} logs, {} compared", bytes(looked));
    }
    if damaged.is_empty() {
        return Ok(());
    }
    for message in damaged.iter().take(100) {
        crate::print_message(message);
    }
    Err(format!("{} logs are damaged", damaged.len()).into())
}
