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
    /// A folder that was exported, or a file: IPC (file or stream) or Parquet.
    #[arg(value_name = "IN")]
    source: PathBuf,
    /// The HDF5 file to make.
    #[arg(value_name = "OUT")]
    out: PathBuf,
    /// Replace OUT if it is there.
    #[arg(long)]
    overwrite: bool,
    /// The path that a table gets. Without it: the one that it was exported from, or the name of its file.
    #[arg(long, value_name = "/PATH")]
    name: Option<String>,
    /// A table that never was HDF5 becomes one dataset of compounds, in place of a group with a dataset for each column.
    #[arg(long)]
    compound: bool,
    /// The oldest HDF5 that must be able to read OUT, where its types allow that.
    #[arg(long, value_enum, default_value = "v18")]
    libver: Version,
    /// Print what was done as JSON.
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
What was exported becomes what it was. A table of other origin becomes a group of columns; where some rows of a column are
null, a dataset NAME__valid says which are not.
OUT has its name when it is whole.

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
        crate::complain(&format!("note: {note}"));
    }
    say!(
        "{}: {}, {} and {}, {} in {seconds:.1} s",
        escape(&arguments.out.to_string_lossy(), 2000),
        super::many(imported.datasets, "dataset"),
        super::many(imported.groups, "group"),
        super::many(imported.attributes, "attribute"),
        progress::bytes(imported.bytes),
    );
    Ok(())
}

/// How many bytes a file, or all in a folder, have.
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
