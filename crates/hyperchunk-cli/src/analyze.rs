//! `hyperchunk analyze`.

use crate::Outcome;
use crate::describe;
use crate::progress::{Progress, bytes};
use crate::source::SourceOptions;
use clap::Args;
use hyperchunk_store::query::zonemap;
use std::sync::{Mutex, PoisonError};

#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct Arguments {
    /// The HDF5 file; may be a URL.
    file: String,
    /// Paths of datasets; without them, all numeric datasets.
    datasets: Vec<String>,
    /// Print a report as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    source: SourceOptions,
}

const HELP: &str = "\
Reads all values once, on all processors, and records statistics (minimum, maximum and others) for each chunk,
or each megabyte: in FILE.hczones beside the file, or in the cache folder for a URL. Queries read the
statistics instead of the data, and refuse them once the file has changed.

Examples:
  hyperchunk analyze run.h5
  hyperchunk analyze s3://bucket/run.h5 /ocean/h
  hyperchunk store query run.h5 /ocean/h 'value > 12'";

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let file = arguments.source.open(&arguments.file)?;
    let names: Vec<Vec<u8>> =
        arguments.datasets.iter().map(|name| format!("/{}", name.trim_matches('/')).into_bytes()).collect();
    let progress: Mutex<Option<Progress>> = Mutex::new(None);
    let analyzed = zonemap::analyze(&file, &names, &|bytes, total| {
        let mut progress = progress.lock().unwrap_or_else(PoisonError::into_inner);
        progress.get_or_insert_with(|| Progress::new(total)).add(bytes);
    })?;
    drop(progress);
    for (path, error) in &analyzed.skipped {
        crate::print_message(&format!("warning: {}: left out: {}", describe::name(path), error.message()));
    }
    let place = analyzed.save(&file)?;
    let shown = hyperchunk_udf::escape::escape(&place.display().to_string(), 2000);
    let zones: u64 = analyzed.datasets.iter().map(|(_, zones)| zones).sum();
    if arguments.json {
        let datasets = analyzed.datasets.iter().map(
            |(path, zones)| serde_json::json!({ "path": String::from_utf8_lossy(path), "zones": zones }),
        );
        let datasets: Vec<serde_json::Value> = datasets.collect();
        say!(
            "{}",
            serde_json::json!({
                "zones": place.display().to_string(), "bytes": analyzed.bytes.len(), "datasets": datasets,
                "bytes_scanned": analyzed.bytes_scanned, "left_out": analyzed.skipped.len(),
            })
        );
        return Ok(());
    }
    say!(
        "{shown}: {} of statistics for {zones} zones of {} datasets, {} read",
        bytes(analyzed.bytes.len() as u64),
        analyzed.datasets.len(),
        bytes(analyzed.bytes_scanned)
    );
    Ok(())
}
