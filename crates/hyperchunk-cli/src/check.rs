//! `hyperchunk check`.

use crate::Outcome;
use crate::describe;
use crate::json::Text;
use crate::progress::{Counter, bytes, count};
use crate::source::SourceOptions;
use crate::terminal::{Colour, Ink, Terminal};
use clap::Args;
use hyperchunk::check::{Assumptions, Cost, DatasetReport, Finding, Report, Stage, Weight, check_with};
use serde_json::{Value, json};

#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct Arguments {
    /// The HDF5 file; may be a URL.
    file: String,
    /// Print a report as JSON.
    #[arg(long)]
    json: bool,
    /// Assumed milliseconds to the first byte of an answer.
    #[arg(long, value_name = "MS", default_value_t = 25.0, value_parser = not_negative)]
    latency: f64,
    /// Assumed bandwidth of one request, in MB/s.
    #[arg(long, value_name = "MB/S", default_value_t = 80.0, value_parser = not_negative)]
    bandwidth: f64,
    /// Show all datasets, not only the most expensive ones.
    #[arg(short, long)]
    all: bool,
    /// Use colours in the output.
    #[arg(long = "color", alias = "colour", value_name = "WHEN", default_value = "auto")]
    colour: Colour,
    #[command(flatten)]
    source: SourceOptions,
}

const HELP: &str = "\
Costs are for a reader with cold caches and without an index. `trips` are sequential round trips; in brackets,
the minimum that the file's structure forces on a reader that asks for exactly the bytes it needs. `1 %` is
along the first axis.

The exit status is 0 if the file is fit, 1 if a finding is serious or a part of the file cannot be read.

Examples:
  hyperchunk check scene.h5
  hyperchunk check s3://bucket/granule.h5 --anonymous --json";

/// Number of datasets shown without --all.
const MAX_SHOWN_DATASETS: usize = 12;

fn not_negative(text: &str) -> Result<f64, String> {
    let number: f64 = text.parse().map_err(|_| "expected a number")?;
    if number >= 0.0 && number.is_finite() {
        Ok(number)
    } else {
        Err("expected a number of 0 or more".into())
    }
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let file = arguments.source.open_unindexed(&arguments.file)?;
    let assumed = Assumptions::new(arguments.latency / 1000.0, arguments.bandwidth * 1e6);
    let counter = Counter::new();
    let report = check_with(&file, &assumed, &|stage| {
        counter.show(|| match stage {
            Stage::Objects(found) => format!("structure: {found} objects"),
            Stage::Datasets(done, all) => format!("dataset {done} of {all}"),
        });
    })?;
    drop(counter);
    if arguments.json {
        say!("{}", report_json(&report, &arguments.file, (arguments.latency, arguments.bandwidth)));
    } else {
        print(arguments, &report);
    }
    if report.is_fit() {
        return Ok(());
    }
    let serious = report.findings.iter().filter(|finding| finding.weight == Weight::Serious).count();
    let broken = report.errors.len();
    let findings = count(serious as u64, "serious finding", "serious findings");
    let parts = count(broken as u64, "part", "parts");
    Err(match (serious, broken) {
        (_, 0) => format!("not fit for object stores: {findings}"),
        _ => format!("not fit for object stores: {findings}, {parts} cannot be read"),
    }
    .into())
}

fn print(arguments: &Arguments, report: &Report) {
    let terminal = Terminal::new(arguments.colour);
    say!(
        "{} in {}, {}, {}; {} of structure{}",
        bytes(report.size),
        count(report.groups as u64, "group", "groups"),
        count(report.datasets as u64, "dataset", "datasets"),
        count(report.attributes as u64, "attribute", "attributes"),
        bytes(report.structure),
        report.page.map_or_else(String::new, |page| format!(", pages of {}", bytes(page)))
    );
    say!("at {} ms and {} MB/s a request:\n", arguments.latency, arguments.bandwidth);
    say!("{:<34} {:>9} {:>9} {:>9} {:>9}  {:>9}", "", "trips", "requests", "fetched", "needed", "seconds");
    row(terminal, "list everything", &report.list);
    let mut each: Vec<&DatasetReport> = report.each.iter().collect();
    let left = if arguments.all { 0 } else { each.len().saturating_sub(MAX_SHOWN_DATASETS) };
    if left > 0 {
        each.sort_by(|a, b| b.whole.seconds.total_cmp(&a.whole.seconds).then_with(|| a.path.cmp(&b.path)));
        each.truncate(MAX_SHOWN_DATASETS);
    }
    for dataset in each {
        let chunks = match &dataset.chunks {
            Some((chunk, number)) => {
                format!("{} {}", count(*number, "chunk", "chunks"), describe::extent(chunk))
            }
            None => "not in chunks".into(),
        };
        let space = describe::extent(&dataset.dims);
        let line =
            format!("{} {space}, {chunks}, {} stored", describe::name(&dataset.path), bytes(dataset.stored));
        say!("{}", terminal.cut(&line, 0));
        row(terminal, "    whole", &dataset.whole);
        row(terminal, "    1 %", &dataset.slice);
    }
    if left > 0 {
        say!("and {} less (--all)", count(left as u64, "dataset that costs", "datasets that cost"));
    }
    if !report.findings.is_empty() || !report.errors.is_empty() {
        say!("");
    }
    for (path, error) in &report.errors {
        let error = hyperchunk_udf::escape::escape(&error.to_string(), 2000);
        say!("{} {}: {error}", terminal.paint(Ink::Error, "cannot be read:"), describe::name(path));
    }
    for finding in &report.findings {
        print_finding(terminal, finding);
    }
    say!("{}", if report.is_fit() { "fit for object stores" } else { "not fit for object stores" });
}

fn row(terminal: Terminal, what: &str, cost: &Cost) {
    let trips = format!("{} ({})", cost.rounds, cost.forced);
    let line = format!(
        "{what:<34} {trips:>9} {:>9} {:>9} {:>9}  {:>9.3}",
        cost.requests,
        bytes(cost.bytes),
        bytes(cost.needed),
        cost.seconds
    );
    say!("{}", terminal.paint(Ink::Quiet, &line));
}

fn weight(weight: Weight) -> &'static str {
    match weight {
        Weight::Note => "note",
        Weight::Slow => "slow",
        Weight::Serious => "serious",
    }
}

fn print_finding(terminal: Terminal, finding: &Finding) {
    let ink = match finding.weight {
        Weight::Note => Ink::Quiet,
        Weight::Slow => Ink::Datatype,
        Weight::Serious => Ink::Error,
    };
    say!("{} {}", terminal.paint(ink, &format!("{}:", weight(finding.weight))), finding.what);
    if !finding.advice.is_empty() {
        say!("    better: {}", finding.advice);
    }
    if !finding.paths.is_empty() {
        let paths: Vec<String> = finding.paths.iter().map(|path| describe::name(path)).collect();
        say!("{}", terminal.paint(Ink::Quiet, &terminal.cut(&format!("    {}", paths.join(", ")), 0)));
    }
}

fn cost(cost: &Cost) -> Value {
    json!({
        "round_trips": cost.rounds,
        "round_trips_forced": cost.forced,
        "requests": cost.requests,
        "bytes": cost.bytes,
        "bytes_needed": cost.needed,
        "seconds": cost.seconds,
    })
}

/// Returns a report as JSON. `given` is the file's name as the user gave it; the pair has the assumed latency
/// in milliseconds and bandwidth in MB/s.
pub fn report_json(report: &Report, given: &str, (latency, bandwidth): (f64, f64)) -> String {
    // Paths that are not UTF-8 cannot be values of serde_json, so they are inserted as text.
    let paths = |paths: &[Vec<u8>]| {
        let paths: Vec<String> = paths.iter().map(|path| Text(path).to_string()).collect();
        format!("[{}]", paths.join(", "))
    };
    let datasets: Vec<String> = report
        .each
        .iter()
        .map(|dataset| {
            let about = json!({
                "shape": dataset.dims,
                "bytes": dataset.bytes,
                "stored": dataset.stored,
                "chunk": dataset.chunks.as_ref().map(|(chunk, _)| chunk),
                "chunks": dataset.chunks.as_ref().map(|(_, count)| count),
                "index_round_trips": dataset.index_rounds,
                "whole": cost(&dataset.whole),
                "slice": cost(&dataset.slice),
                "slice_stored": dataset.slice_bytes,
            });
            format!("{}: {about}", Text(&dataset.path))
        })
        .collect();
    let findings: Vec<String> = report
        .findings
        .iter()
        .map(|finding| {
            format!(
                "{{\"weight\": \"{}\", \"kind\": {}, \"what\": {}, \"advice\": {}, \"paths\": {}}}",
                weight(finding.weight),
                json!(finding.kind),
                json!(finding.what),
                json!(finding.advice),
                paths(&finding.paths)
            )
        })
        .collect();
    let errors: Vec<String> = report
        .errors
        .iter()
        .map(|(path, error)| format!("{{\"path\": {}, \"error\": {}}}", Text(path), json!(error.to_string())))
        .collect();
    format!(
        "{{\"file\": {}, \"fit\": {}, \"size\": {}, \"groups\": {}, \"attributes\": {}, \"structure_bytes\": {}, \
         \"page\": {}, \"latency_ms\": {}, \"bandwidth_mb_s\": {}, \"list\": {}, \"datasets\": {{{}}}, \
         \"findings\": [{}], \"errors\": [{}]}}",
        Text(given.as_bytes()),
        report.is_fit(),
        report.size,
        report.groups,
        report.attributes,
        report.structure,
        json!(report.page),
        json!(latency),
        json!(bandwidth),
        cost(&report.list),
        datasets.join(", "),
        findings.join(", "),
        errors.join(", ")
    )
}
