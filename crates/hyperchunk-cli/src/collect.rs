//! `hyperchunk collect`.

mod batches;

use crate::progress::{Counter, count};
use crate::source::StoreOptions;
use crate::{INTERRUPTED, Outcome, Status};
use clap::{Args, ValueEnum};
use hyperchunk::collection::{CollectOptions, Collection, Concat};
use hyperchunk::io::{self, Ask};
use hyperchunk::output::{self, Kind};
use hyperchunk::{Error, ErrorKind, OpenOptions};
use hyperchunk_store::query::collected;
use hyperchunk_udf::escape::escape;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

/// Interval at which waiting for names polls for an interrupt.
const POLL_INTERVAL: Duration = Duration::from_millis(100);

#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct Arguments {
    /// The files, in the order in which they are joined; may be URLs. `-` reads names from standard input, one a
    /// line.
    #[arg(required = true)]
    files: Vec<String>,
    /// The collection to write: NAME.hcx.
    #[arg(short, long, value_name = "PATH")]
    output: PathBuf,
    /// The dimension along which the files are joined; 0 joins the first axes of all datasets. Without it, the only
    /// unlimited dimension of the first file.
    #[arg(long, value_name = "DIMENSION")]
    concat: Option<String>,
    /// Action for a file that cannot be read or has another layout than the first one.
    #[arg(long, value_enum, default_value_t = Mismatch::Error)]
    on_mismatch: Mismatch,
    /// Keep the minimum, the maximum and the number of NaNs of a dataset in each file, which a query uses to leave out
    /// files; its values are read once. May be given several times.
    #[arg(long, value_name = "DATASET")]
    statistics: Vec<String>,
    /// Add the files that the collection does not have yet. Its files are not read again.
    #[arg(long)]
    append: bool,
    /// Replace an existing output.
    #[arg(long)]
    overwrite: bool,
    #[command(flatten)]
    store: StoreOptions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Mismatch {
    /// Fail, and name the file.
    Error,
    /// Leave the file out, and say why.
    Skip,
}

const HELP: &str = "\
A collection keeps the structure of all files and the values of their coordinates, so that opening all of them takes
a few requests. The files stay where they are. After each 1,000 files, the finished part is kept in
NAME.partial.hcx, from which the same command goes on if it was interrupted. xarray opens it with engine=\"hyperchunk\", Python with
hyperchunk.open_collection.

Examples:
  hyperchunk collect granules/*.nc -o all.hcx
  hyperchunk collect s3://bucket/day1.nc s3://bucket/day2.nc -o days.hcx --concat time --anonymous
  hyperchunk collect granules/*.nc -o all.hcx --append
  hyperchunk collect ATL03*.h5 -o all.hcx --concat 0 --statistics /gt1l/heights/h_ph";

pub(crate) fn run(arguments: &Arguments) -> Outcome {
    let (done, is_interrupted) = io::with_process_interrupt(|ask| collect(arguments, ask));
    match done {
        Err(_) if is_interrupted => Err(Status(INTERRUPTED, how_to_go_on(arguments)).into()),
        done => done.map_err(in_options),
    }
}

/// Names the option as it is given to the command, rather than to the function.
fn in_options(error: Box<dyn std::error::Error>) -> Box<dyn std::error::Error> {
    let text = error.to_string();
    match text.contains("concat=") {
        true => text.replace("concat=0", "--concat 0").replace("concat=", "--concat").into(),
        false => error,
    }
}

fn how_to_go_on(arguments: &Arguments) -> String {
    let partial = arguments.output.with_extension("partial.hcx");
    match arguments.append {
        true => format!("interrupted: {} is as it was", arguments.output.display()),
        false if partial.exists() => {
            format!("interrupted: the same command goes on from {}", partial.display())
        }
        false => "interrupted: nothing was written; the same command begins again".into(),
    }
}

fn collect(arguments: &Arguments, ask: &Ask) -> Outcome {
    output::accept(&arguments.output, &[Kind::Collection])?;
    let names = names(&arguments.files, ask)?;
    let inputs: Vec<&Path> = names.iter().map(Path::new).collect();
    output::check(&arguments.output, arguments.overwrite || arguments.append, &inputs)?;
    output::check_folder_path(&arguments.output)?;
    let mut options = OpenOptions::default();
    options.remote = arguments.store.options();
    let mut how = CollectOptions::default();
    how.skip = arguments.on_mismatch == Mismatch::Skip;
    how.concat = arguments.concat.as_ref().map(|name| match name.as_str() {
        "0" => Concat::FirstAxis,
        name => Concat::Dimension(name.to_owned()),
    });
    let shown = escape(&arguments.output.display().to_string(), 2000);
    let counter = Mutex::new(Counter::new());
    let progress = |done: usize| {
        if let Ok(counter) = counter.lock() {
            counter.show(|| format!("{done} of {} files", names.len()));
        }
    };
    let given = arguments.statistics.iter().map(|path| format!("/{}", path.trim_matches('/')).into_bytes());
    let mut statistics: Vec<Vec<u8>> = given.collect();
    let gathering = |done: usize, total: usize| {
        if let Ok(counter) = counter.lock() {
            counter.show(|| format!("statistics of {done} of {total} files"));
        }
    };
    let partial = arguments.output.with_extension("partial.hcx");
    let (mut collection, has_part) = match arguments.append {
        true => {
            let name = arguments.output.display().to_string();
            let mut collection = Collection::open_url(&name, &options)?;
            if how.concat.as_ref().is_some_and(|concat| concat != collection.concat()) {
                let message = format!("{shown} is joined along {}", collection.concat());
                return Err(Error::invalid(message).into());
            }
            collection.append(&names, &options, &how, &progress)?;
            statistics.extend(collection.paths_with_statistics());
            (collection, false)
        }
        false => batches::collect(&names, &options, &how, &statistics, &partial, &progress)?,
    };
    statistics.sort_unstable();
    statistics.dedup();
    collected::gather(&mut collection, &statistics, &options, &gathering)?;
    drop(counter);
    if ask() {
        return Err(interrupted().into());
    }
    let bytes = collection.encode_for(&arguments.output)?;
    output::write(&arguments.output, &bytes, arguments.overwrite || arguments.append)?;
    if has_part {
        Collection::delete_part(&partial, &options)?;
    }
    for skipped in collection.skipped() {
        crate::print_message(&format!("warning: left out {}: {}", skipped.name, skipped.reason));
    }
    say!(
        "{shown}: {} bytes for {}, joined along {}",
        bytes.len(),
        count(collection.files().len() as u64, "file", "files"),
        escape(&collection.concat().to_string(), 200)
    );
    Ok(())
}

/// Returns the names, those of standard input included.
fn names(given: &[String], ask: &Ask) -> Result<Vec<String>, Error> {
    let failed = |error| Error::invalid(format!("cannot read standard input: {error}"));
    let mut names = Vec::new();
    for name in given {
        if name != "-" {
            names.push(name.clone());
            continue;
        }
        // On a separate thread, because a blocking read does not notice an interrupt.
        let (sender, lines) = mpsc::channel();
        let read = move || std::io::stdin().lines().try_for_each(|line| sender.send(line));
        std::thread::Builder::new().name("hyperchunk-names".into()).spawn(read).map_err(failed)?;
        loop {
            match lines.recv_timeout(POLL_INTERVAL) {
                Ok(line) => {
                    let line = line.map_err(failed)?;
                    if !line.trim().is_empty() {
                        names.push(line.trim().to_owned());
                    }
                }
                Err(RecvTimeoutError::Timeout) if ask() => return Err(interrupted()),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => break,
            }
        }
    }
    Ok(names)
}

fn interrupted() -> Error {
    Error::new(ErrorKind::Io, "interrupted")
}
