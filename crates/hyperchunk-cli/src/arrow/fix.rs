//! `hyperchunk arrow fix`.

use super::check;
use crate::Outcome;
use crate::progress::Progress;
use clap::Args;
use hyperchunk_arrow::dual::{self, FixOptions};
use hyperchunk_udf::escape::escape;
use std::path::PathBuf;
use std::sync::Mutex;

#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct Arguments {
    /// The HDF5 file.
    file: PathBuf,
    /// Write an Arrow-readable copy, and leave FILE unchanged. Needed if columns are compressed, or the file
    /// has no user block that is large enough.
    #[arg(short, long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Group of the columns; without it, the group that the file's Arrow schema names, or the root group.
    #[arg(long)]
    group: Option<String>,
    /// Names of the columns, separated by commas; without them, all datasets of the group that can be
    /// columns.
    #[arg(long, value_delimiter = ',')]
    columns: Option<Vec<String>>,
    /// Replace an existing OUT.
    #[arg(long)]
    overwrite: bool,
    /// Print a report as JSON.
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
In place, the Arrow metadata are written into the user block and after the data, the superblock last. Only
misaligned values are copied, to the end of the file. No other program may have the file open.

Examples:
  hyperchunk arrow fix particles.h5
  hyperchunk arrow fix particles.h5 --group /Timestep_3 --columns x,y,z
  hyperchunk arrow fix old.h5 -o new.h5 --group /Timestep_0";

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let mut options = FixOptions::default();
    options.group.clone_from(&arguments.group);
    options.columns.clone_from(&arguments.columns);
    options.replace = arguments.overwrite;
    let fixed = match &arguments.output {
        None => dual::fix(&arguments.file, &options)?,
        Some(out) => {
            let progress = Mutex::new(None);
            let total = |total: u64| {
                if let Ok(mut progress) = progress.lock() {
                    *progress = Some(Progress::new(total));
                }
            };
            let add = |bytes: u64| {
                if let Ok(mut progress) = progress.lock()
                    && let Some(progress) = progress.as_mut()
                {
                    progress.add(bytes);
                }
            };
            dual::fix_to(&arguments.file, out, &options, &total, &add)?
        }
    };
    let file = arguments.output.as_ref().unwrap_or(&arguments.file);
    let shown = escape(&file.display().to_string(), 2000);
    if arguments.json {
        let mut told = check::as_json(&fixed.checked);
        told["notes"] = fixed.notes.clone().into();
        told["changed"] = fixed.changed.into();
        say!("{told}");
        return Ok(());
    }
    for note in &fixed.notes {
        crate::print_message(&format!("note: {note}"));
    }
    check::say(&shown, &fixed.checked);
    if !fixed.changed {
        say!("  nothing to do");
    }
    Ok(())
}
