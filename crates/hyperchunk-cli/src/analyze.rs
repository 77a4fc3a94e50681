//! `hyperchunk analyze`.

use crate::Outcome;
use crate::describe;
use crate::progress::{Progress, bytes};
use crate::source::SourceOptions;
use clap::Args;
use hyperchunk::query::zonemap;
use std::sync::{Mutex, PoisonError};

#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct Arguments {
    /// The HDF5 file; may be a URL.
    file: String,
    /// The datasets' paths; all that have numbers, if none is given.
    datasets: Vec<String>,
    /// Print what was looked at as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    source: SourceOptions,
}

const HELP: &str = "\
Looks at all values once, on all processors, and keeps for each chunk, or for each megabyte, the smallest and the largest one and the
like: in FILE.hczones beside it, or in the cache folder for a URL. Queries read that instead of the data; they refuse it once
the file changed.

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
        crate::complain(&format!("warning: {}: left out: {}", describe::name(path), error.message()));
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
                "looked_at": analyzed.bytes_scanned, "left_out": analyzed.skipped.len(),
            })
        );
        return Ok(());
    }
    say!(
        "{shown}: {} for {zones} zones of {} datasets, {} looked at",
        bytes(analyzed.bytes.len() as u64),
        analyzed.datasets.len(),
        bytes(analyzed.bytes_scanned)
    );
    Ok(())
}
