//! `hyperchunk recover`.

use crate::Outcome;
use clap::Args;
use hyperchunk::write;
use std::path::PathBuf;

#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct Arguments {
    /// The file that was being written, by the name that it would have: FILE, not FILE.partial.
    file: PathBuf,
    /// Print what was got back as JSON.
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
A file that Hyperchunk writes is FILE.partial until it is committed, with FILE.journal beside it. If the program is killed, both
stay; this makes FILE of them, with every chunk that was written in full. A FILE that was committed before gets what was written
after that. Ends with status 1 if something that had been written is not there as it was.

Example:
  hyperchunk recover run42.h5";

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let path = &arguments.file;
    // Whoever names what is there means the file that it is part of.
    let named = path.extension().filter(|suffix| *suffix == "partial" || *suffix == "journal");
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
                "torn_bytes": found.torn,
            })
        );
    } else {
        say!("{shown}: {} datasets, {} chunks", found.datasets, found.chunks);
    }
    if found.lost.is_empty() {
        return Ok(());
    }
    for what in found.lost.iter().take(100) {
        crate::complain(&format!("lost: {what}"));
    }
    Err(format!("{} parts of {shown} were written, but are not there as they were", found.lost.len()).into())
}
