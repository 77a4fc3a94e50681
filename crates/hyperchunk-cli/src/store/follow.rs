//! `hyperchunk store follow`: a standing query.

use super::query::{index, number, text};
use crate::Outcome;
use crate::progress::bytes;
use crate::source::SourceOptions;
use clap::Args;
use hyperchunk::model::ObjectKind;
use hyperchunk::walk::{Next, VisitedItem};
use hyperchunk::{File, OpenOptions};
use hyperchunk_arrow::flight::Signals;
use hyperchunk_store::WriterId;
use hyperchunk_store::observe::follow::{FlushedMatches, Follow as StandingQuery, PollReport};
use hyperchunk_store::query::Predicate;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::{Duration, Instant};

#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct Follow {
    /// The HDF5 file, with FILE.d beside it.
    file: PathBuf,
    /// Condition on each value, with the dataset's name in it; or the path of the dataset.
    #[arg(value_name = "PREDICATE|PATH")]
    asked: String,
    /// After a path: condition on each value.
    #[arg(value_name = "PREDICATE")]
    predicate: Option<String>,
    /// Print a JSON object for each write that has matches, and one at the end.
    #[arg(long)]
    json: bool,
    /// Maximum number of values printed for each write.
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    values: usize,
    /// End after the first write that has matches.
    #[arg(long)]
    once: bool,
    /// End when all writers that have begun are done, or their processes ended on this machine.
    #[arg(long)]
    until_done: bool,
    /// End after this time.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
    /// Polling interval.
    #[arg(long, value_name = "SECONDS", default_value = "0.1", value_parser = seconds)]
    interval: Duration,
}

const HELP: &str = "\
Watches the data that writers flush, without locks, and reads only data that their statistics do not rule out.
Skips data committed earlier: use `hyperchunk store query` for them. Runs until Ctrl-C, unless an option ends
it.

Examples:
  hyperchunk store follow run.h5 'max(h) > 12'
  hyperchunk store follow run.h5 /ocean/h 'value > 12 or isnan(value)' --json --until-done
  hyperchunk store follow run.h5 'min(/ocean/depth) < 0' --once --timeout 3600";

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "expected a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

/// Reason of the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EndReason {
    Asked,
    Found,
    Done,
    TimeOut,
}

impl EndReason {
    fn word(self) -> &'static str {
        match self {
            Self::Asked => "interrupted",
            Self::Found => "found",
            Self::Done => "done",
            Self::TimeOut => "timeout",
        }
    }
}

pub(super) fn follow(arguments: &Follow) -> Outcome {
    let (name, predicate) = match &arguments.predicate {
        Some(predicate) => (arguments.asked.clone(), predicate.parse()?),
        None => Predicate::parse_with_dataset(&arguments.asked)?,
    };
    let path = dataset(&arguments.file, &name)?;
    let signals = Signals::listen();
    let end = arguments.timeout.and_then(|time| Instant::now().checked_add(time));
    let mut standing = StandingQuery::new(&arguments.file, &path, predicate)?;
    let (mut found, mut bytes_scanned) = (0_u64, 0_u64);
    let ended = loop {
        let polled = standing.poll()?;
        bytes_scanned = bytes_scanned.saturating_add(polled.bytes_scanned);
        for seen in &polled.seen {
            found = found.saturating_add(show(seen, arguments));
        }
        let late = end.is_some_and(|end| Instant::now() >= end);
        if let Some(ended) = end_reason(&polled, arguments, late, signals.received()) {
            if ended == EndReason::Done {
                warn_of(&polled.stopped);
            }
            break ended;
        }
        // A poll reads a limited amount, so more may be waiting.
        let wait = if polled.bytes_scanned > 0 { Duration::ZERO } else { arguments.interval };
        let left = end.map_or(wait, |end| wait.min(end.saturating_duration_since(Instant::now())));
        if signals.wait_for(left) {
            break EndReason::Asked;
        }
    };
    if arguments.json {
        say!("{}", json!({ "ended": ended.word(), "found": found, "bytes_scanned": bytes_scanned }));
    } else {
        say!("{found} values, {} read ({})", bytes(bytes_scanned), ended.word());
    }
    Ok(())
}

/// Names the writers that were stopped, on standard error.
fn warn_of(stopped: &[WriterId]) {
    for writer in stopped {
        eprintln!(
            "hyperchunk: warning: the process of writer {writer} ended without closing its log, so data that it did not flush were not \
             followed; commit the complete writes with `hyperchunk store recover`"
        );
    }
}

fn end_reason(polled: &PollReport, arguments: &Follow, late: bool, asked: bool) -> Option<EndReason> {
    match () {
        () if asked => Some(EndReason::Asked),
        () if arguments.once && !polled.seen.is_empty() => Some(EndReason::Found),
        () if arguments.until_done && polled.done => Some(EndReason::Done),
        () if late => Some(EndReason::TimeOut),
        () => None,
    }
}

/// Prints the matches of a write; returns their number.
fn show(seen: &FlushedMatches, arguments: &Follow) -> u64 {
    let numbers = seen.numbers();
    let count = numbers.len();
    let rank = seen.indices.len() / count.max(1);
    let at = |place: usize| seen.indices.get(place * rank..(place + 1) * rank).unwrap_or_default();
    let shown = numbers.iter().take(arguments.values).enumerate();
    if arguments.json {
        let values: Vec<Value> =
            shown.map(|(place, value)| json!({ "index": at(place), "value": number(*value) })).collect();
        say!(
            "{}",
            json!({ "writer": seen.writer.to_string(), "appended": seen.appended, "found": count, "values": values })
        );
    } else {
        let rows = if seen.appended { " of its appended rows" } else { "" };
        for (place, value) in shown {
            say!("{}  {}{rows}, writer {}", index(at(place)), text(*value), seen.writer);
        }
        if count > arguments.values {
            say!("and {} more, writer {}", count - arguments.values, seen.writer);
        }
    }
    count as u64
}

/// Returns the path of the dataset with this name: its path, or the end of it.
fn dataset(file: &std::path::Path, name: &str) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let wanted = name.trim_matches('/').as_bytes();
    let is_whole = name.starts_with('/');
    // Until they are done, the connector's writers keep the structure in their logs.
    if is_whole && std::fs::metadata(file).is_ok_and(|metadata| metadata.len() == 0) {
        return Ok([b"/", wanted].concat());
    }
    let file = SourceOptions::open_with(&file.to_string_lossy(), &OpenOptions::default())?;
    let (mut exact, mut last): (Option<Vec<u8>>, Vec<Vec<u8>>) = (None, Vec::new());
    walk(&file, &mut |path| {
        let short = path.strip_prefix(b"/").unwrap_or(path);
        if short == wanted {
            exact = Some(path.to_vec());
        } else if !is_whole && short.ends_with(wanted) && short[..short.len() - wanted.len()].ends_with(b"/")
        {
            last.push(path.to_vec());
        }
    })?;
    match (exact, last.as_slice()) {
        (Some(path), _) => Ok(path),
        (None, [path]) => Ok(path.clone()),
        (None, []) => Err(format!("dataset {name} not found in the store").into()),
        (None, several) => {
            let names: Vec<_> = several.iter().take(8).map(|path| String::from_utf8_lossy(path)).collect();
            Err(format!("expected one dataset, got several of the name {name}: {}", names.join(", ")).into())
        }
    }
}

fn walk(file: &File, each: &mut dyn FnMut(&[u8])) -> hyperchunk::Result<()> {
    file.walk(&file.root()?, b"/", &mut |visit| {
        if let VisitedItem::Object(object) = visit.found
            && object.kind() == ObjectKind::Dataset
        {
            each(visit.path);
        }
        Ok(Next::Enter)
    })?;
    Ok(())
}
