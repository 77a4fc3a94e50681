//! `hyperchunk recover`.

use crate::Outcome;
use crate::progress::count;
use clap::Args;
use hyperchunk::write;
use std::path::PathBuf;

#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct Arguments {
    /// The file that was being written: FILE, not FILE.partial.
    file: PathBuf,
    /// Print a report as JSON, with the losses and changes.
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
Until it is committed, a file that Hyperchunk writes is FILE.partial, with FILE.journal beside it. If the
program is killed, both stay, and `recover` makes FILE of them, with every completely written chunk. If FILE
was committed before, it gets the data written since; data that another program changed in place stay as they
are, and are listed. The exit status is 1 if any written data are lost.

If a program was interrupted while it edited FILE, FILE.redo stays. `recover` completes the commit, or discards it
if FILE.redo is incomplete. Any other program of Hyperchunk that opens FILE does the same.

Example:
  hyperchunk recover run42.h5";

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let path = &arguments.file;
    // FILE.partial, FILE.journal and FILE.redo stand for FILE.
    let named =
        path.extension().filter(|suffix| ["partial", "journal", "redo"].iter().any(|one| suffix == one));
    let path = if named.is_some() { path.with_extension("") } else { path.clone() };
    let found = write::recover(&path)?;
    let shown = hyperchunk_udf::escape::escape(&path.display().to_string(), 2000);
    if arguments.json {
        say!(
            "{}",
            serde_json::json!({
                "file": path.display().to_string(),
                "datasets": found.datasets,
                "chunks": found.chunks,
                "lost": found.lost,
                "changed": found.changed,
                "torn_bytes": found.torn,
                "edit": found.edit,
            })
        );
    } else if found.edit {
        say!("{shown}: the interrupted edit is settled");
    } else {
        let datasets = count(found.datasets as u64, "dataset", "datasets");
        say!("{shown}: {datasets}, {}", count(found.chunks as u64, "chunk", "chunks"));
    }
    for what in found.changed.iter().take(100) {
        crate::print_message(&format!("changed since its commit, kept as it is: {what}"));
    }
    if found.lost.is_empty() {
        return Ok(());
    }
    for what in found.lost.iter().take(100) {
        crate::print_message(&format!("lost: {what}"));
    }
    Err(format!("{} written parts of {shown} are lost", found.lost.len()).into())
}
