//! Analyses: functions that see the data written to a store.

use crate::Outcome;
use crate::progress::{bytes as size, count};
use crate::restructure::parse_share;
use clap::{Args, ValueEnum};
use hyperchunk_live::observe::summary::{self, AnalysisEntry};
use hyperchunk_live::observe::{Analysis, AnalysisOptions, Backfill, backend, make};
use hyperchunk_store::commit::{CommitOptions, commit};
use hyperchunk_store::format::analysis_values::{Number, Pairs, Value};
use hyperchunk_store::restructure::cut;
use hyperchunk_store::{KnownStore, LogWriter, Ticket, WriterOptions};
use hyperchunk_udf::escape::escape;
use hyperchunk_udf::record::{Declaration, Failure};
use serde_json::{Value as Json, json};
use std::path::{Path, PathBuf};

/// Maximum number of failed boxes printed without --boxes.
const MAX_SHOWN_BOXES: usize = 20;

#[derive(Args, Debug)]
pub(crate) struct List {
    /// The HDF5 file, with FILE.d beside it.
    file: PathBuf,
    /// Epoch to read; without it, the newest.
    #[arg(long, value_name = "NUMBER")]
    epoch: Option<u64>,
    /// Print the analyses as JSON, with their sources.
    #[arg(long)]
    json: bool,
}

pub(super) fn list(arguments: &List) -> Outcome {
    let manifest = summary::epoch(&arguments.file, arguments.epoch)?;
    let all = summary::list(&arguments.file, &manifest)?;
    if arguments.json {
        say!("{}", Json::Array(all.iter().map(listed_json).collect()));
        return Ok(());
    }
    for listed in &all {
        let id = listed.known.analysis;
        let analysis = match &listed.analysis {
            Ok(analysis) => analysis,
            Err(error) => {
                say!("{id}: damaged: {}", escape(&error.to_string(), 500));
                continue;
            }
        };
        let declared = &analysis.declaration;
        let ended = if listed.known.runs { "" } else { ", removed" };
        let language = analysis.record.backend.short_name();
        say!("{} {} ({language}) {id}{ended}", escape(&declared.name, 100), escape(&declared.version, 100));
        let datasets: Vec<String> = declared.datasets.iter().map(|name| escape(name, 200)).collect();
        say!("  analyses {}", datasets.join(", "));
        let signed =
            analysis.signer.map_or_else(|| "unsigned".to_owned(), |signer| format!("signed by {signer}"));
        match analysis.profile() {
            Ok(profile) => say!("  {signed}, runs here in profile {}", profile.name),
            Err(error) => say!("  {signed}; {}", escape(&error.to_string(), 1000)),
        }
        say!(
            "  {} ms, {} of memory and {} of results a call; failures: {}",
            declared.time_ms,
            size(declared.memory),
            size(declared.bytes),
            declared.failure.name()
        );
    }
    if all.is_empty() {
        say!("{}: no analyses", escape(&arguments.file.display().to_string(), 2000));
    }
    Ok(())
}

fn listed_json(listed: &AnalysisEntry) -> Json {
    let mut row = json!({ "id": listed.known.analysis.to_string(), "runs": listed.known.runs });
    let more = match &listed.analysis {
        Err(error) => json!({ "damage": error.to_string() }),
        Ok(analysis) => {
            let (declared, profile) = (&analysis.declaration, analysis.profile());
            json!({
                "name": declared.name, "version": declared.version, "datasets": declared.datasets,
                "language": analysis.record.backend.short_name(), "source": analysis.record.source,
                "time_ms": declared.time_ms, "memory": declared.memory, "bytes": declared.bytes,
                "failure": declared.failure.name(), "merge": declared.merge,
                "signer": analysis.signer.map(|signer| signer.to_string()),
                "profile": profile.as_ref().ok().map(|profile| &profile.name),
                "refused": profile.as_ref().err().map(ToString::to_string),
            })
        }
    };
    if let (Some(row), Json::Object(more)) = (row.as_object_mut(), more) {
        row.extend(more);
    }
    row
}

#[derive(Args, Debug)]
#[command(after_help = "\
Runs nothing: reads the results that functions returned while data were written, and merges them by the rules
of each analysis.

Example:
  hyperchunk store results run.h5 /ocean/h")]
pub(crate) struct Results {
    /// The HDF5 file, with FILE.d beside it.
    file: PathBuf,
    /// Path of the dataset.
    dataset: String,
    /// Epoch to read; without it, the newest.
    #[arg(long, value_name = "NUMBER")]
    epoch: Option<u64>,
    /// List every box.
    #[arg(long)]
    boxes: bool,
    /// Print everything as JSON.
    #[arg(long)]
    json: bool,
}

pub(super) fn results(arguments: &Results) -> Outcome {
    let manifest = summary::epoch(&arguments.file, arguments.epoch)?;
    let name = format!("/{}", arguments.dataset.trim_matches('/'));
    let all = summary::summaries(&arguments.file, &manifest, name.as_bytes())?;
    if arguments.json {
        let rows = all.iter().map(|summary| {
            let found = summary.results.groups.iter().flat_map(|group| &group.found);
            let boxes = found.map(|found| {
                json!({
                    "start": found.slab.start, "count": found.slab.count, "writer": found.writer.to_string(),
                    "epoch": found.epoch, "values": found.found.as_ref().ok().map(to_json),
                    "failure": found.found.as_ref().err(),
                })
            });
            json!({
                "id": summary.results.analysis.to_string(),
                "name": summary.analysis.as_ref().ok().map(|analysis| &analysis.declaration.name),
                "version": summary.analysis.as_ref().ok().map(|analysis| &analysis.declaration.version),
                "values": summary.whole.as_ref().map(to_json),
                "parts": summary.results.groups.iter().zip(&summary.groups).map(|(group, merged)| json!({
                    "writer": group.writer.to_string(), "epoch": group.epoch, "boxes": group.found.len(),
                    "values": merged.as_ref().map(to_json),
                })).collect::<Vec<_>>(),
                "boxes": boxes.collect::<Vec<_>>(), "bytes_scanned": summary.results.bytes_scanned,
            })
        });
        say!("{}", Json::Array(rows.collect()));
        return Ok(());
    }
    for summary in &all {
        let (id, read) = (summary.results.analysis, size(summary.results.bytes_scanned));
        let name = match &summary.analysis {
            Ok(analysis) => {
                let declared = &analysis.declaration;
                format!("{} {}", escape(&declared.name, 100), escape(&declared.version, 100))
            }
            Err(error) => format!("{id}: {}", escape(&error.to_string(), 500)),
        };
        let found = || summary.results.groups.iter().flat_map(|group| &group.found);
        let failed = found().filter(|found| found.found.is_err()).count();
        say!(
            "{name}: {} of {}, {failed} failed; {read} read",
            count(found().count() as u64, "box", "boxes"),
            count(writers(summary) as u64, "writer", "writers")
        );
        if let Some(whole) = &summary.whole {
            say!("  {}", line(whole));
        }
        let most = if arguments.boxes { usize::MAX } else { MAX_SHOWN_BOXES };
        let listed = found().filter(|found| arguments.boxes || found.found.is_err());
        for found in listed.take(most) {
            let told = match &found.found {
                Ok(pairs) => line(pairs),
                Err(reason) => escape(reason, 500),
            };
            say!("  {:?} at {:?}: {told}", found.slab.count, found.slab.start);
        }
    }
    if all.is_empty() {
        say!("{}: no results", escape(&name, 2000));
    }
    Ok(())
}

fn writers(summary: &summary::Summary) -> usize {
    let mut writers: Vec<_> = summary.results.groups.iter().map(|group| group.writer).collect();
    writers.sort_unstable();
    writers.dedup();
    writers.len()
}

fn number(number: Number) -> Json {
    match number {
        Number::Signed(value) => json!(value),
        Number::Unsigned(value) => json!(value),
        // JSON has no infinities and NaNs; they become strings.
        Number::Double(value) if value.is_finite() => json!(value),
        Number::Double(value) => json!(value.to_string()),
    }
}

fn to_json(pairs: &Pairs) -> Json {
    let value = |value: &Value| match value {
        Value::Number(one) => number(*one),
        Value::Text(text) => json!(text),
        Value::List(list) => Json::Array(list.iter().copied().map(number).collect()),
    };
    Json::Object(pairs.0.iter().map(|(key, found)| (key.clone(), value(found))).collect())
}

fn line(pairs: &Pairs) -> String {
    let all = to_json(pairs);
    let all = all.as_object().into_iter().flatten();
    let all: Vec<String> = all.map(|(key, value)| format!("{} = {value}", escape(key, 100))).collect();
    escape(&all.join(", "), 2000)
}

/// Effect of a failed analysis on its write.
#[derive(ValueEnum, Debug, Clone, Copy)]
enum OnFailure {
    /// Ignore the failure.
    Skip,
    /// Record the failure with its reason.
    Mark,
    /// Record the failure, and fail the write once the data are written.
    Raise,
}

#[derive(Args, Debug)]
#[command(after_help = "\
The source defines on_write(dataset, box, array), which returns keys with values, and optionally merge(a, b).
It runs in the sandbox of live datasets at every write to these datasets, and its results are stored with the
data. For data written before, run `hyperchunk store backfill`.

Example:
  hyperchunk store add-analysis run.h5 waves.lua /ocean/h --merge max=max --merge 'at=with max'")]
pub(crate) struct Add {
    /// The HDF5 file, with FILE.d beside it.
    file: PathBuf,
    /// Source of the function: .lua, .py or .cpp.
    source: PathBuf,
    /// Datasets to analyse.
    #[arg(required = true)]
    datasets: Vec<String>,
    /// Name of the analysis; without it, the name of the source.
    #[arg(long)]
    name: Option<String>,
    /// Version of the analysis, assigned by its author (not the version of the program).
    #[arg(long = "revision", default_value = "1", value_name = "TEXT")]
    version: String,
    /// Time limit of a call, in milliseconds.
    #[arg(long, default_value_t = 1000, value_name = "MS")]
    time: u64,
    /// Memory limit in MiB, in addition to the data.
    #[arg(long, default_value_t = 256, value_name = "MIB")]
    memory: u64,
    /// Size limit for the results of a call, in bytes.
    #[arg(long, default_value_t = 4096)]
    bytes: u64,
    /// Effect of a failed analysis on the write that it saw; the data are written in any case.
    #[arg(long, value_enum, default_value = "skip")]
    failure: OnFailure,
    /// Rule that merges the values of a key: max, min, sum, first, last, or `with KEY`.
    #[arg(long, value_name = "KEY=RULE")]
    merge: Vec<String>,
    /// Backend, if not the one of the source's extension: wasm for C++ that is compiled to WebAssembly (pip
    /// install ziglang).
    #[arg(long, value_name = "NAME")]
    backend: Option<String>,
    /// Do not sign the function: it runs in the profile `untrusted` everywhere.
    #[arg(long)]
    unsigned: bool,
}

pub(super) fn add(arguments: &Add) -> Outcome {
    let shown = || escape(&arguments.source.display().to_string(), 500);
    let source =
        std::fs::read_to_string(&arguments.source).map_err(|error| format!("{}: {error}", shown()))?;
    let stem = arguments.source.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let mut merge = std::collections::BTreeMap::new();
    for rule in &arguments.merge {
        let (key, rule) = rule.split_once('=').ok_or_else(|| format!("--merge {rule:?} is not KEY=RULE"))?;
        merge.insert(key.to_owned(), rule.to_owned());
    }
    let declaration = Declaration {
        name: arguments.name.clone().or(stem).unwrap_or_default(),
        version: arguments.version.clone(),
        datasets: arguments.datasets.iter().map(|name| format!("/{}", name.trim_matches('/'))).collect(),
        time_ms: arguments.time,
        memory: arguments.memory.saturating_mul(1 << 20),
        bytes: arguments.bytes,
        failure: match arguments.failure {
            OnFailure::Skip => Failure::Skip,
            OnFailure::Mark => Failure::Mark,
            OnFailure::Raise => Failure::Raise,
        },
        merge,
    };
    let backend = backend(&arguments.source, arguments.backend.as_deref())?;
    let options = AnalysisOptions { backend, source: &source, declaration, unsigned: arguments.unsigned };
    let analysis = make(&options).map_err(|error| error.about(arguments.source.display().to_string()))?;
    announce(&arguments.file, &analysis, true)?;
    say!("{}: {} analyses data written from now on", analysis.id, escape(&analysis.declaration.name, 100));
    Ok(())
}

#[derive(Args, Debug)]
pub(crate) struct Remove {
    /// The HDF5 file, with FILE.d beside it.
    file: PathBuf,
    /// Name or id of the analysis. Its results stay.
    analysis: String,
}

pub(super) fn remove(arguments: &Remove) -> Outcome {
    let analysis = find(&arguments.file, &arguments.analysis)?;
    announce(&arguments.file, &analysis, false)?;
    say!("{}: {} is removed", analysis.id, escape(&analysis.declaration.name, 100));
    Ok(())
}

#[derive(Args, Debug)]
pub(crate) struct Fill {
    /// The HDF5 file, with FILE.d beside it.
    file: PathBuf,
    /// Name or id of the analysis.
    analysis: String,
    /// Analyse only data written in these epochs.
    #[arg(long, value_name = "FIRST:LAST")]
    epochs: Option<String>,
    /// Number of threads, each with a worker; 0: one for each processor.
    #[arg(long, default_value_t = 0)]
    threads: usize,
    /// Analyse only a share of the boxes: i/n is process i of n, counted from 0. All processes must name the
    /// same --epoch; each makes an epoch of its results.
    #[arg(long, value_name = "I/N", value_parser = parse_share, requires = "epoch")]
    task_range: Option<(u64, u64)>,
    /// Analyse data without results in this epoch; without it, in the newest (`hyperchunk store status` shows
    /// the epochs).
    #[arg(long, value_name = "N")]
    epoch: Option<u64>,
}

pub(super) fn fill(arguments: &Fill) -> Outcome {
    let analysis = find(&arguments.file, &arguments.analysis)?;
    let (first, last) = match &arguments.epochs {
        None => (0, u64::MAX),
        Some(text) => {
            let ends = text.split_once(':').unwrap_or((text, text));
            let parsed = ends.0.parse().ok().zip(ends.1.parse().ok());
            parsed.ok_or_else(|| format!("--epochs {text:?} is not FIRST:LAST"))?
        }
    };
    let wanted = |epoch| (first..=last).contains(&epoch);
    let backfill = Backfill::new(&arguments.file, &analysis, wanted, arguments.epoch)?;
    let made = match arguments.task_range {
        None => backfill.fill(arguments.threads)?,
        Some((part, of)) => {
            let boxes = backfill.boxes();
            let first = |part| cut(boxes as u64, part, of).try_into().unwrap_or(boxes);
            let ticket = backfill.work(first(part)..first(part + 1))?;
            backfill.commit(ticket.into_iter().collect())?
        }
    };
    match made {
        Some(manifest) => {
            say!("epoch {} has the results of {}", manifest.number, escape(&analysis.declaration.name, 100))
        }
        None => say!("nothing to do: all data have results of {}", escape(&analysis.declaration.name, 100)),
    }
    Ok(())
}

/// Returns the analysis with this name or id; of several versions, the active one.
fn find(file: &Path, name: &str) -> Result<Analysis, Box<dyn std::error::Error>> {
    let manifest = summary::epoch(file, None)?;
    let mut found = Vec::new();
    for listed in summary::list(file, &manifest)? {
        let by_id = listed.known.analysis.to_string() == name;
        if let Ok(analysis) = listed.analysis
            && (by_id || analysis.declaration.name == name)
        {
            found.push((listed.known.runs, analysis));
        }
    }
    if found.iter().any(|(runs, _)| *runs) {
        found.retain(|(runs, _)| *runs);
    }
    match <[_; 1]>::try_from(found) {
        Ok([(_, analysis)]) => Ok(analysis),
        Err(found) => Err(format!(
            "expected one analysis, got {} of the name {:?}; `hyperchunk store analyses` lists them",
            found.len(),
            escape(name, 100)
        )
        .into()),
    }
}

fn announce(file: &Path, analysis: &Analysis, runs: bool) -> Outcome {
    let manifest = summary::epoch(file, None)?;
    let mut options = WriterOptions::default();
    options.known = Some(KnownStore { store: manifest.store, epoch: manifest.number, seen: None });
    let names = &analysis.declaration.datasets;
    let stored = |name: &String| {
        let found = manifest.datasets.iter().find(|stored| stored.definition.path == name.as_bytes());
        found.ok_or_else(|| format!("dataset {} not found in the store", escape(name, 500)))
    };
    let stored = names.iter().map(stored).collect::<Result<Vec<_>, _>>()?;
    let writer = LogWriter::create(file, &options)?;
    let announced = stored.iter().try_for_each(|stored| {
        let record: &[u8] = if runs { &analysis.bytes } else { &[] };
        writer.announce(writer.define(&stored.definition)?, analysis.id, record)
    });
    let ticket: Ticket = announced.and_then(|()| writer.close())?;
    let mut options = CommitOptions::default();
    options.tickets = vec![ticket];
    commit(file, &options)?;
    Ok(())
}
