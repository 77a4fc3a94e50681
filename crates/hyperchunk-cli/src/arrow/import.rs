//! `hyperchunk arrow import`.

use crate::Outcome;
use crate::progress::{self, Progress};
use clap::{Args, ValueEnum};
use hyperchunk::encode::LibVersion;
use hyperchunk_arrow::transfer::{ImportOptions, ImportSummary, import};
use hyperchunk_udf::escape::escape;
use serde_json::json;
use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::time::Instant;

#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct Arguments {
    /// A folder that `arrow export` made, an IPC file or stream, or a Parquet file.
    #[arg(value_name = "IN")]
    source: PathBuf,
    /// The HDF5 file to make.
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// Replace an existing OUT.
    #[arg(long)]
    overwrite: bool,
    /// Path for the table. Without it: the path that it was exported from, or the name of its file.
    #[arg(long, value_name = "/PATH")]
    name: Option<String>,
    /// Store a table that does not come from HDF5 as one dataset of compounds, instead of a group of columns.
    #[arg(long)]
    compound: bool,
    /// Oldest version of HDF5 that must be able to read OUT, where its types allow that.
    #[arg(long, value_enum, default_value = "v18")]
    libver: Version,
    /// Print a report as JSON.
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
Exported objects are restored. A table from elsewhere becomes a group with a dataset for each column;
if a column has nulls, the dataset NAME__valid marks the rows that are not null.
OUT appears when it is complete.

Examples:
  hyperchunk arrow import run/ run.h5
  hyperchunk arrow import events.parquet events.h5 --name /events
  hyperchunk arrow import table.arrow table.h5 --compound";

#[derive(ValueEnum, Debug, Clone, Copy)]
enum Version {
    V18,
    V110,
    V200,
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let started = Instant::now();
    let mut options = ImportOptions::default();
    options.replace = arguments.overwrite;
    options.name.clone_from(&arguments.name);
    options.compound = arguments.compound;
    options.oldest = match arguments.libver {
        Version::V18 => LibVersion::V18,
        Version::V110 => LibVersion::V110,
        Version::V200 => LibVersion::V200,
    };
    let progress = RefCell::new(Progress::new(size(&arguments.source)));
    let add = |bytes| progress.borrow_mut().add(bytes);
    let imported = import(&arguments.source, &arguments.out, &options, &add)?;
    drop(progress);
    let seconds = started.elapsed().as_secs_f64();
    if arguments.json {
        say!("{}", as_json(&arguments.out, &imported, seconds));
        return Ok(());
    }
    for note in &imported.notes {
        crate::print_message(&format!("note: {note}"));
    }
    say!(
        "{}: {}, {} and {}, {} in {seconds:.1} s",
        escape(&arguments.out.to_string_lossy(), 2000),
        super::plural(imported.datasets, "dataset"),
        super::plural(imported.groups, "group"),
        super::plural(imported.attributes, "attribute"),
        progress::bytes(imported.bytes),
    );
    Ok(())
}

/// Returns the size in bytes of a file, or of all files in a folder.
fn size(path: &Path) -> u64 {
    let mut total = 0_u64;
    let mut open = vec![path.to_owned()];
    while let Some(path) = open.pop() {
        let Ok(metadata) = path.symlink_metadata() else { continue };
        match std::fs::read_dir(&path) {
            Ok(files) if metadata.is_dir() => open.extend(files.flatten().map(|file| file.path())),
            _ => total += metadata.len(),
        }
    }
    total
}

fn as_json(out: &Path, imported: &ImportSummary, seconds: f64) -> serde_json::Value {
    json!({
        "out": out.to_string_lossy(),
        "groups": imported.groups,
        "datasets": imported.datasets,
        "datatypes": imported.datatypes,
        "attributes": imported.attributes,
        "rows": imported.rows,
        "bytes": imported.bytes,
        "notes": imported.notes,
        "seconds": seconds,
    })
}
