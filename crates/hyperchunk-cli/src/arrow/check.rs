//! `hyperchunk arrow check`.

use crate::Outcome;
use clap::Args;
use hyperchunk_arrow::dual::{self, CheckReport};
use hyperchunk_udf::escape::escape;
use serde_json::json;
use std::path::PathBuf;

#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct Arguments {
    /// The HDF5 file.
    file: PathBuf,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
The exit status is 0 if programs that read Arrow find the same data as HDF5 programs, otherwise 1.
Values that an HDF5 program changes in place are changed for Arrow programs, too. After any other change by an
HDF5 program, Arrow programs refuse the file until `hyperchunk arrow fix` has run.";

/// Returns the result of a check as JSON.
pub(super) fn as_json(checked: &CheckReport) -> serde_json::Value {
    json!({
        "current": checked.is_current(),
        "problems": checked.problems,
        "dual": checked.is_dual,
        "group": checked.group,
        "columns": checked.columns,
        "rows": checked.rows,
        "row_groups": checked.row_groups,
        "generation": checked.generation,
    })
}

/// Prints the result of a check as text.
pub(super) fn say(shown: &str, checked: &CheckReport) {
    let group = escape(checked.group.as_deref().unwrap_or("/"), 2000);
    say!(
        "{shown}: HDF5 and Arrow: {} columns of {group}, {} rows in {} row groups",
        checked.columns.len(),
        checked.rows,
        checked.row_groups
    );
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let checked = dual::check(&arguments.file)?;
    let shown = escape(&arguments.file.display().to_string(), 2000);
    if arguments.json {
        say!("{}", as_json(&checked));
    } else if checked.is_current() {
        say(&shown, &checked);
    }
    match checked.problems.first() {
        None => Ok(()),
        Some(problem) => {
            let help = "`hyperchunk arrow fix` restores it";
            let help =
                if checked.is_dual { help } else { "`hyperchunk arrow fix -o` makes an Arrow-readable copy" };
            Err(format!("{shown}: not an Arrow file: {}; {help}", escape(problem, 2000)).into())
        }
    }
}
