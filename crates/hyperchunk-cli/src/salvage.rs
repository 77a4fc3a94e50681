//! `hyperchunk salvage`.

use crate::progress::{self, Counter};
use crate::{Outcome, Status};
use clap::Args;
use hyperchunk::model::ObjectKind;
use hyperchunk::output;
use hyperchunk::salvage::{
    Condition, Evidence, SalvageOptions, SalvageReport, SalvagedObject, Step, salvage,
};
use hyperchunk_udf::escape::escape;
use std::path::PathBuf;
use std::sync::Mutex;

/// Exit status if the output is written, but something is lost.
const LOSS_STATUS: i32 = 3;
/// Maximum number of objects and losses that are listed.
const MAX_LISTED_OBJECTS: usize = 100;

#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct Arguments {
    /// The damaged file. It is only read.
    file: PathBuf,
    /// The new file.
    #[arg(short, long)]
    output: PathBuf,
    /// Also write datasets of which parts are missing. The attribute hyperchunk_salvage_missing lists these
    /// parts, which read as the fill value.
    #[arg(long)]
    partial: bool,
    /// Replace an existing output.
    #[arg(long)]
    overwrite: bool,
    /// Number of threads; 0: one for each processor.
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
    /// Print a report as JSON.
    #[arg(long)]
    json: bool,
}

const HELP: &str = "\
For files of any program that are truncated, were never closed, or are damaged. Objects are found by the links that
survive. Objects without a link are found by their headers, and go to /lost+found. A dataset is copied if all of it
can be read and decoded. Damage inside data without a checksum cannot be detected: such datasets are reported as
`not checkable`.

The exit status is 0 if nothing is lost, 3 if the output is written but something is lost.

Examples:
  hyperchunk salvage broken.h5 -o good.h5
  hyperchunk salvage broken.h5 -o good.h5 --partial --json > report.json";

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    output::accept(&arguments.output, &[output::Kind::Hdf5])?;
    let mut options = SalvageOptions::default();
    options.partial = arguments.partial;
    options.replace = arguments.overwrite;
    options.threads = arguments.threads;
    let progress = Mutex::new((Counter::new(), None, 0_u64));
    let report = salvage(&arguments.file, &arguments.output, &options, &|step, bytes| {
        if let Ok(mut progress) = progress.lock() {
            let (counter, last, done) = &mut *progress;
            let before = if *last == Some(step) { *done } else { 0 };
            (*last, *done) = (Some(step), before.saturating_add(bytes));
            counter.show(|| format!("{}: {}", label(step), progress::bytes(*done)));
        }
    });
    drop(progress);
    let report = report?;
    if arguments.json {
        say!("{}", report.to_json());
        eprint!("{}", summary(arguments, &report));
    } else {
        say!("{}", summary(arguments, &report).trim_end());
    }
    name_losses(&report);
    if report.is_whole() {
        return Ok(());
    }
    let shown = escape(&arguments.file.display().to_string(), 2000);
    Err(Status(LOSS_STATUS, format!("{shown} is damaged: the report names what is lost")).into())
}

fn label(step: Step) -> &'static str {
    match step {
        Step::Check => "checked",
        Step::Scan => "scanned for objects without a link",
        Step::Copy => "copied",
    }
}

fn summary(arguments: &Arguments, report: &SalvageReport) -> String {
    let mut text = String::new();
    let output = escape(&arguments.output.display().to_string(), 2000);
    let datasets = |condition| report.count(Some(ObjectKind::Dataset), condition);
    let (whole, incomplete) = (datasets(Condition::Whole), datasets(Condition::Incomplete));
    let lost = report.objects.iter().filter(|object| object.condition == Condition::Lost).count();
    let groups = report.count(Some(ObjectKind::Group), Condition::Whole);
    let written = if arguments.partial { "written in part" } else { "left out" };
    put!(
        text,
        "{output}: {}; {whole} datasets and {groups} groups whole, {incomplete} datasets incomplete ({written}), {lost} \
         objects lost",
        progress::bytes(report.size)
    );
    let evidence =
        |evidence| report.objects.iter().filter(|object| object.evidence == Some(evidence)).count();
    let (sums, decoded, unchecked) =
        (evidence(Evidence::Checksum), evidence(Evidence::Decoded), evidence(Evidence::Unchecked));
    if sums + decoded + unchecked > 0 {
        put!(text, "  data checked by checksums: {sums}, by decoding: {decoded}, not checkable: {unchecked}");
    }
    let orphans = report.objects.iter().filter(|object| object.orphan).count();
    if orphans > 0 {
        put!(
            text,
            "  {orphans} objects that no link leads to are in /lost+found; they may have been deleted before"
        );
    }
    text
}

fn name_losses(report: &SalvageReport) {
    for damage in report.damage.iter().take(MAX_LISTED_OBJECTS) {
        crate::print_message(&format!("damage: {damage}"));
    }
    for object in report.objects.iter().filter(|object| !is_whole(object)).take(MAX_LISTED_OBJECTS) {
        let reason = object.reason.as_deref().unwrap_or("parts of it are lost");
        let path = object.path.to_string();
        if object.condition != Condition::Whole {
            crate::print_message(&format!("{}: {path}: {reason}", object.condition.name()));
        }
        for loss in object.losses.iter().take(MAX_LISTED_OBJECTS) {
            crate::print_message(&format!("lost: {} of {path}: {}", loss.name, loss.reason));
        }
    }
}

fn is_whole(object: &SalvagedObject) -> bool {
    object.condition == Condition::Whole && object.losses.is_empty()
}
