//! What tells of a store.

use super::change::print_uploads;
use crate::Outcome;
use crate::progress::bytes;
use crate::source::Reach;
use clap::Args;
use hyperchunk::store::status::{LogState, Skeleton, Status as State};
use hyperchunk::store::verify::{self, VerifyReport};
use hyperchunk_udf::escape::escape;
use serde_json::json;
use std::path::{Path, PathBuf};

#[derive(Args, Debug)]
pub(crate) struct Status {
    /// The file: FILE, beside which FILE.d lies; or a URL.
    file: PathBuf,
    /// Print it as JSON, all writers included.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reach: Reach,
}

fn look(file: &Path, reach: &Reach) -> Result<State, Box<dyn std::error::Error>> {
    let state = State::read(&reach.site(file))?;
    if state.is_store() {
        return Ok(state);
    }
    let shown = escape(&file.display().to_string(), 2000);
    Err(format!("{shown}: there is no store: no folder {shown}.d").into())
}

/// So many writers are named one by one.
const NAMED: usize = 20;

pub(super) fn status(arguments: &Status) -> Outcome {
    let state = look(&arguments.file, &arguments.reach)?;
    if arguments.json {
        say!("{}", state.to_json());
        return Ok(());
    }
    let shown = escape(&arguments.file.display().to_string(), 2000);
    match state.epochs.iter().rev().find(|epoch| epoch.complete) {
        Some(epoch) => {
            say!("{shown}: epoch {}, {} datasets of {} logs", epoch.number, epoch.datasets, epoch.logs)
        }
        None => say!("{shown}: nothing is committed"),
    }
    let (logs, manifests) = (bytes(state.log_bytes), bytes(state.manifest_bytes));
    say!("logs: {}, {logs}; epochs: {}, {manifests}", state.logs.len(), state.epochs.len());
    let of = |name: &str| state.logs.iter().filter(|log| log.state() == name).collect::<Vec<_>>();
    for (name, meaning) in [
        ("finished", "done, and not committed: run `hyperchunk store commit`"),
        ("flushed", "open, and all that they wrote is flushed: `hyperchunk store commit --flushed` takes it"),
        (
            "writing",
            "at work or stopped: `hyperchunk store commit --flushed` takes what they flushed, `hyperchunk store \
             recover` what a stopped one wrote whole",
        ),
        ("failed", "at an end, and could not write all: `hyperchunk store recover` takes what is whole"),
        ("torn", "gone before anything was written"),
        ("damaged", "not to be committed"),
        ("hidden", "hidden by one that began the file anew: `hyperchunk store vacuum` deletes them"),
    ] {
        let logs = of(name);
        if logs.is_empty() {
            continue;
        }
        let are = if logs.len() == 1 { "writer is" } else { "writers are" };
        say!("{} {are} {meaning}", logs.len());
        for log in logs.iter().take(NAMED) {
            say!("  {}", line(log));
        }
        if logs.len() > NAMED {
            say!("  … and {} more (--json)", logs.len() - NAMED);
        }
    }
    print_uploads(&state.uploads);
    for conflict in &state.conflicts {
        let path = escape(&String::from_utf8_lossy(&conflict.path), 2000);
        say!("conflict: {path}: {}", conflict.outcome());
    }
    match &state.skeleton {
        Skeleton::Missing => say!("{shown} itself is missing: `hyperchunk store link` makes it again"),
        Skeleton::Other if state.epochs.is_empty() => {
            say!("{shown} waits for the first commit, or is another file")
        }
        Skeleton::Other => say!(
            "{shown} is another file, or waits for a commit: move it away, and `hyperchunk store link` makes the store's file again"
        ),
        Skeleton::Of { epoch, linked, edited } => {
            let total = linked.linked + linked.unlinked;
            say!("plain HDF5 reads {} of {total} datasets, of epoch {epoch}", linked.linked);
            if *edited {
                say!("it was changed since, by another program; the next commit keeps that");
            }
            if let Some(missing) = linked.missing.first() {
                let missing = escape(missing, 2000);
                say!("{missing} is not there: if the store was moved, run `hyperchunk store link`");
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
    if log.runs {
        line.push_str(", which runs here");
    }
    if let Some(damage) = &log.damage {
        line.push_str(&format!(": {}", escape(damage, 500)));
    }
    line
}

#[derive(Args, Debug)]
pub(crate) struct Ls {
    /// The file: FILE, beside which FILE.d lies; or a URL.
    file: PathBuf,
    /// Print them as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reach: Reach,
}

pub(super) fn ls(arguments: &Ls) -> Outcome {
    let state = look(&arguments.file, &arguments.reach)?;
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
    /// The file: FILE, beside which FILE.d lies; or a URL.
    file: PathBuf,
    /// Print what was compared as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    reach: Reach,
}

const VERIFY_HELP: &str = "\
Reads all logs. Ends with status 1 if something is not as it was written, and names the place. What was written without checksums
cannot be compared.";

pub(super) fn verify(arguments: &Verify) -> Outcome {
    look(&arguments.file, &arguments.reach)?;
    let VerifyReport { logs, bytes: looked, damaged, .. } =
        verify::verify(&arguments.reach.site(&arguments.file))?;
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
        crate::complain(message);
    }
    Err(format!("{} logs are not as they were written", damaged.len()).into())
}
