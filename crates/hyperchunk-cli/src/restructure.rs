//! `hyperchunk restructure`, and `hyperchunk store work`.

use crate::Outcome;
use crate::progress::{Progress, bytes};
use crate::source::SourceOptions;
use clap::{Args, Subcommand};
use hyperchunk::OpenOptions;
use hyperchunk::output;
use hyperchunk::write::Sync;
use hyperchunk_store::restructure::{self, Chunking, CommitReport, Job, Order, Request, State, WorkReport};
use hyperchunk_udf::escape::escape;
use serde_json::json;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

#[derive(Args, Debug)]
#[command(after_help = HELP, args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    make: Make,
}

#[derive(Subcommand, Debug)]
enum Command {
    /// List the layouts of a file's datasets.
    Layouts(Layouts),
    /// Delete a layout. The file itself does not change.
    Rm(Remove),
    /// Do a share of the tasks of a layout that `--begin` began, as one of several processes.
    Work(Work),
}

#[derive(Args, Debug)]
struct Make {
    /// The HDF5 file; may be a URL if OUT is given.
    #[arg(required = true)]
    file: Option<String>,
    /// Path of the dataset.
    #[arg(required = true)]
    dataset: Option<String>,
    /// Order in which chunks are stored, and the dimensions along which they are longest: row, column,
    /// hilbert,
    /// or dimensions from the slowest to the fastest, such as 2,0,1.
    #[arg(long, value_name = "ORDER", value_parser = order, default_value = "row")]
    order: Order,
    /// Shape of the chunks, such as 100x200. Without it, chunks have about a megabyte.
    #[arg(long, value_name = "SHAPE", value_parser = shape, conflicts_with_all = ["target", "favor"])]
    chunk: Option<Numbers>,
    /// Approximate size of a chunk.
    #[arg(long, value_name = "BYTES", value_parser = size)]
    target: Option<u64>,
    /// Dimensions along which chunks are longest, in descending order, such as 1,0.
    #[arg(long, value_name = "AXES", value_parser = axes)]
    favor: Option<Numbers>,
    /// Filters: none, gzip:LEVEL, zstd:LEVEL, lz4, lzf, or a preset (deflate, fast, small).
    #[arg(long, default_value = "none")]
    codec: String,
    /// Memory bound. A bound that is too small is refused before anything is written.
    #[arg(long, value_name = "BYTES", value_parser = size, default_value = "256MiB")]
    memory: u64,
    /// Epoch of a sharded store; without it, the newest.
    #[arg(long, value_name = "N")]
    epoch: Option<u64>,
    /// Make a separate file instead of a layout in FILE.d.
    #[arg(long, value_name = "OUT")]
    output: Option<PathBuf>,
    /// Delete the dataset's other layouts once this one is complete. The dataset itself always stays.
    #[arg(long, conflicts_with = "output")]
    replace: bool,
    /// Only print the plan and its cost.
    #[arg(long, conflicts_with = "begin")]
    dry_run: bool,
    /// Only begin; the tasks are done by `hyperchunk restructure work FILE ID --task-range i/n`, in any
    /// number of processes.
    #[arg(long, conflicts_with = "output")]
    begin: bool,
    /// Number of threads, fewer if the memory bound requires it; 0: one for each processor.
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
    /// Do not wait until the layout is on the disk.
    #[arg(long)]
    no_sync: bool,
    /// Print a report as JSON; with --dry-run or --begin, the plan.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    source: SourceOptions,
}

const HELP: &str = "\
A layout is stored beside the file, in FILE.d/layouts, and does not change the file. Hyperchunk then reads
each selection from the layout with the lowest cost; once the file is written to, its layouts are no longer
read. Run the same command again to continue an interrupted one.

Examples:
  hyperchunk restructure run.h5 /t --order column --memory 64MiB
  hyperchunk restructure run.h5 /t --chunk 365x10x10 --codec zstd:3
  hyperchunk restructure run.h5 /t --order column --output columns.h5
  hyperchunk restructure run.h5 /t --order hilbert --dry-run
  hyperchunk restructure layouts run.h5";

/// List of numbers in one argument.
#[derive(Debug, Clone)]
struct Numbers(Vec<u64>);

fn numbers(text: &str) -> Option<Vec<u64>> {
    text.split(['x', ',']).map(|number| number.trim().parse().ok()).collect()
}

fn shape(text: &str) -> Result<Numbers, String> {
    let numbers = numbers(text).filter(|numbers| !numbers.contains(&0));
    numbers.map(Numbers).ok_or_else(|| "expected a shape such as 10x20".into())
}

fn axes(text: &str) -> Result<Numbers, String> {
    numbers(text).map(Numbers).ok_or_else(|| "expected dimensions such as 1,0".into())
}

fn order(text: &str) -> Result<Order, String> {
    match text {
        "row" => Ok(Order::Row),
        "column" => Ok(Order::Column),
        "hilbert" => Ok(Order::Hilbert),
        axes => {
            let axes = numbers(axes).map(|axes| axes.into_iter().map(|axis| usize::try_from(axis).ok()));
            let axes: Option<Vec<usize>> = axes.and_then(Iterator::collect);
            axes.map(Order::Axes)
                .ok_or_else(|| "expected row, column, hilbert or dimensions such as 2,0,1".into())
        }
    }
}

fn size(text: &str) -> Result<u64, String> {
    let size = restructure::parse_byte_count(text).filter(|size| *size > 0);
    size.ok_or_else(|| "expected a number of bytes such as 64MiB".into())
}

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    match &arguments.command {
        None => make(&arguments.make),
        Some(Command::Layouts(arguments)) => list(arguments),
        Some(Command::Rm(arguments)) => remove(arguments),
        Some(Command::Work(arguments)) => work(arguments),
    }
}

fn request(arguments: &Make) -> Request {
    let mut request = Request::new(arguments.dataset.as_deref().unwrap_or_default());
    request.order.clone_from(&arguments.order);
    if let Some(Numbers(shape)) = &arguments.chunk {
        request.chunk = Chunking::Shape(shape.clone());
    } else if let Chunking::Target { bytes, favor } = &mut request.chunk {
        *bytes = arguments.target.unwrap_or(*bytes);
        if let Some(Numbers(axes)) = &arguments.favor {
            *favor = axes.iter().map(|axis| usize::try_from(*axis).unwrap_or(usize::MAX)).collect();
        }
    }
    request.codec.clone_from(&arguments.codec);
    request.memory = arguments.memory;
    request.epoch = arguments.epoch;
    request.keep = !arguments.replace;
    request
}

fn make(arguments: &Make) -> Outcome {
    let file = arguments.file.as_deref().unwrap_or_default();
    if let Some(output) = &arguments.output {
        output::check_new(output)?;
        output::accept(output, &[output::Kind::Hdf5])?;
    }
    let options = arguments.source.open_options();
    let job = Job::new(file, request(arguments), arguments.output.as_deref(), &options)?;
    if arguments.dry_run {
        estimate(&job, arguments);
        return Ok(());
    }
    job.start()?;
    if arguments.begin {
        if arguments.json {
            say!("{}", job.to_json(arguments.threads));
        } else {
            say!("{}: {} tasks", job.id(), job.plan().tasks());
        }
        return Ok(());
    }
    let worked = share(&job, 0, 1, arguments.threads, Duration::ZERO)?;
    let committed = job.commit(sync(arguments.no_sync))?;
    tell(&job, worked, Some(&committed), arguments.json);
    Ok(())
}

fn sync(no_sync: bool) -> Sync {
    if no_sync { Sync::Never } else { Sync::Commit }
}

fn display(path: &Path) -> String {
    escape(&path.display().to_string(), 2000)
}

/// Does a share of the tasks, with a progress bar.
fn share(
    job: &Job,
    part: u64,
    of: u64,
    threads: usize,
    wait: Duration,
) -> Result<WorkReport, hyperchunk::Error> {
    let passes = job.plan().passes.len() as u64;
    let progress = Mutex::new(Progress::new(job.bytes().saturating_mul(passes) / of));
    let each = |bytes| progress.lock().unwrap_or_else(PoisonError::into_inner).add(bytes);
    job.share(part, of, threads, wait, &each)
}

fn tell(job: &Job, worked: WorkReport, committed: Option<&CommitReport>, as_json: bool) {
    let (done, skipped, tasks) = (worked.done, worked.skipped, job.plan().tasks());
    if as_json {
        say!(
            "{}",
            json!({ "id": job.id(), "tasks": tasks, "done": done, "skipped": skipped, "chunk": job.chunk(),
                "committed": committed.is_some(), "path": job.result(), "bytes": job.bytes(),
                "left_out": committed.map(|committed| &committed.left_out) })
        );
        return;
    }
    let chunk = describe(job.chunk());
    match committed {
        None => say!("{}: {done} tasks done, {skipped} done before, of {tasks}", job.id()),
        Some(committed) if committed.now => {
            say!("{}: {}, in chunks of {chunk}", display(&committed.path), bytes(job.bytes()));
        }
        Some(committed) => say!("{}: exists already, in chunks of {chunk}", display(&committed.path)),
    }
    for name in committed.iter().flat_map(|committed| &committed.left_out) {
        say!("not copied: attribute {}, which refers to other parts of the file", escape(name, 2000));
    }
}

/// Rounds an estimate for printing.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "an estimate that is not negative"
)]
fn whole(value: f64) -> u64 {
    value as u64
}

fn describe(shape: &[u64]) -> String {
    shape.iter().map(u64::to_string).collect::<Vec<_>>().join(" x ")
}

fn estimate(job: &Job, arguments: &Make) {
    if arguments.json {
        say!("{}", job.to_json(arguments.threads));
        return;
    }
    let plan = job.plan();
    let threads = if arguments.threads == 0 {
        std::thread::available_parallelism().map_or(1, usize::from)
    } else {
        arguments.threads
    };
    say!("{}: {}, in chunks of {}", display(&job.result()), bytes(job.bytes()), describe(job.chunk()));
    for pass in &plan.passes {
        let cost = pass.cost;
        say!(
            "{} tasks, tiles of {}, {} threads: {} read in {:.0} operations, {} written in {:.0}",
            pass.tiles.len(),
            describe(pass.tiles.cell()),
            plan.threads(pass, threads),
            bytes(whole(cost.read)),
            cost.reads,
            bytes(whole(cost.written)),
            cost.writes
        );
    }
    say!("at most {} of memory", bytes(plan.needs(threads)));
    say!("size of the request as JSON: {} bytes", job.request().to_json().len());
}

#[derive(Args, Debug)]
pub(crate) struct Work {
    /// The HDF5 file.
    file: String,
    /// ID of the layout, or a unique prefix of it.
    id: String,
    /// Share of this process: i/n is process i of n, counted from 0.
    #[arg(long, value_name = "I/N", value_parser = parse_share, default_value = "0/1")]
    task_range: (u64, u64),
    /// Before a second pass: maximum number of seconds to wait without progress of other processes.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    wait: u64,
    /// Number of threads, fewer if the memory bound requires it; 0: one for each processor.
    #[arg(long, value_name = "N", default_value_t = 0)]
    threads: usize,
    /// Do not wait until the layout is on the disk.
    #[arg(long)]
    no_sync: bool,
    /// Print a report as JSON.
    #[arg(long)]
    json: bool,
}

/// Parses i/n, for process i of n.
pub(crate) fn parse_share(text: &str) -> Result<(u64, u64), String> {
    let parts = text.split_once('/').and_then(|(part, of)| Some((part.parse().ok()?, of.parse().ok()?)));
    parts.filter(|(part, of)| part < of).ok_or_else(|| "expected i/n, with i from 0 to n - 1".into())
}

pub(crate) fn work(arguments: &Work) -> Outcome {
    let job = Job::open(&arguments.file, &arguments.id, &OpenOptions::default())?;
    let (part, of) = arguments.task_range;
    let worked = share(&job, part, of, arguments.threads, Duration::from_secs(arguments.wait))?;
    let committed = job.commit_if_done(sync(arguments.no_sync))?;
    tell(&job, worked, committed.as_ref(), arguments.json);
    Ok(())
}

#[derive(Args, Debug)]
struct Layouts {
    /// The HDF5 file.
    file: PathBuf,
    /// Print the layouts as JSON.
    #[arg(long)]
    json: bool,
}

fn list(arguments: &Layouts) -> Outcome {
    let all = restructure::layouts(&arguments.file)?;
    let state = |state| match state {
        State::Used => "used",
        State::Unfinished => "unfinished",
        State::Stale => "stale",
    };
    if arguments.json {
        let all = all.iter().map(|one| {
            json!({ "id": one.id, "state": state(one.state), "bytes": one.bytes, "folder": one.folder,
                "request": serde_json::from_str::<serde_json::Value>(&one.request.to_json()).unwrap_or_default() })
        });
        say!("{}", all.collect::<serde_json::Value>());
        return Ok(());
    }
    for one in &all {
        let request = escape(&one.request.to_json(), 2000);
        say!("{}  {:10}  {:>8}  {request}", one.id, state(one.state), bytes(one.bytes));
    }
    if all.is_empty() {
        say!("{}: no layouts", display(&arguments.file));
    }
    Ok(())
}

#[derive(Args, Debug)]
struct Remove {
    /// The HDF5 file.
    file: PathBuf,
    /// ID of the layout, or a unique prefix of it.
    id: String,
}

fn remove(arguments: &Remove) -> Outcome {
    let folder = restructure::remove(&arguments.file, &arguments.id)?;
    say!("{}: deleted", display(&folder));
    Ok(())
}
