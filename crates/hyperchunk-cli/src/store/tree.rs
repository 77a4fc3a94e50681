//! Conversion between HDF5 files and trees of folders.

use crate::Outcome;
use crate::progress::bytes;
use clap::Args;
use hyperchunk::write::CreateOptions;
use hyperchunk::{File, OpenOptions};
use hyperchunk_store::admin::tree::{self, ExportReport};
use hyperchunk_udf::escape::escape;
use serde_json::json;
use std::path::{Path, PathBuf};

#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct Export {
    /// The file: a committed store, or any HDF5 file.
    file: PathBuf,
    /// The folder to make.
    #[arg(long, value_name = "DIR")]
    tree: PathBuf,
    /// Print a report as JSON.
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
Groups become folders; datasets and attributes become files of their raw elements, each with a JSON
description beside it. Any tool can read the files (numpy.fromfile), and `hyperchunk store import` makes an
HDF5 file of them again. Live datasets are computed, and become ordinary datasets.

Example:
  hyperchunk store export run.h5 --tree run";

#[derive(Args, Debug)]
pub(crate) struct Import {
    /// Folder that `hyperchunk store export` made.
    folder: PathBuf,
    /// The HDF5 file to make.
    out: PathBuf,
    /// Replace an existing OUT.
    #[arg(long)]
    overwrite: bool,
    /// Print a report as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn export(arguments: &Export) -> Outcome {
    let file = File::open(&arguments.file, &OpenOptions::default())?;
    let done = tree::export(&file, &arguments.tree)?;
    print(&arguments.tree, &done, arguments.json);
    Ok(())
}

pub(super) fn import(arguments: &Import) -> Outcome {
    let mut options = CreateOptions::default();
    options.replace = arguments.overwrite;
    let done = tree::import(&arguments.folder, &arguments.out, &options)?;
    print(&arguments.out, &done, arguments.json);
    Ok(())
}

fn print(path: &Path, done: &ExportReport, as_json: bool) {
    let ExportReport { groups, datasets, datatypes, attributes, .. } = done;
    for note in &done.notes {
        crate::print_message(&format!("note: {note}"));
    }
    if as_json {
        say!(
            "{}",
            json!({ "groups": groups, "datasets": datasets, "datatypes": datatypes, "attributes": attributes,
                "bytes": done.bytes, "notes": done.notes })
        );
        return;
    }
    let shown = escape(&path.display().to_string(), 2000);
    say!("{shown}: {groups} groups, {datasets} datasets, {attributes} attributes, {}", bytes(done.bytes));
}
