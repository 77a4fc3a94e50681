//! `hyperchunk store follow`: a standing query.

use super::query::{index, number, text};
use crate::Outcome;
use crate::progress::bytes;
use crate::source::SourceOptions;
use clap::Args;
use hyperchunk::model::ObjectKind;
use hyperchunk::query::Predicate;
use hyperchunk::store::follow::{Follow as Standing, Polled, Seen};
use hyperchunk::walk::{Found, Next};
use hyperchunk::{File, OpenOptions};
use hyperchunk_arrow::flight::Signals;
use serde_json::{Value, json};
use std::path::PathBuf;
use std::time::{Duration, Instant};

#[derive(Args, Debug)]
#[command(after_help = HELP)]
pub(crate) struct Follow {
    /// The store's file.
    file: PathBuf,
    /// What is asked of each value, with the dataset's name in it; or the dataset's path.
    #[arg(value_name = "PREDICATE|PATH")]
    asked: String,
    /// Behind a path: what is asked of each value.
    #[arg(value_name = "PREDICATE")]
    predicate: Option<String>,
    /// Print an object of JSON for each write that has any, and one at the end.
    #[arg(long)]
    json: bool,
    /// Print no more values of a write.
    #[arg(long, value_name = "COUNT", default_value_t = 10)]
    values: usize,
    /// End as soon as something was found.
    #[arg(long)]
    once: bool,
    /// End when all writers are done that have begun.
    #[arg(long)]
    until_done: bool,
    /// End after so many seconds.
    #[arg(long, value_name = "SECONDS", value_parser = seconds)]
    timeout: Option<Duration>,
    /// Look every so many seconds.
    #[arg(long, value_name = "SECONDS", default_value = "0.1", value_parser = seconds)]
    interval: Duration,
}

const HELP: &str = "\
Looks at what writers flush as it comes, without locks, and reads only what their statistics do not rule out. What was committed
before is not looked at: that is for `hyperchunk store query`. It goes on until Ctrl-C, unless an option ends it.

Examples:
  hyperchunk store follow run.h5 'max(h) > 12'
  hyperchunk store follow run.h5 /ocean/h 'value > 12 or isnan(value)' --json --until-done
  hyperchunk store follow run.h5 'min(/ocean/depth) < 0' --once --timeout 3600";

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds: f64 = text.parse().map_err(|_| "not a number of seconds".to_owned())?;
    Duration::try_from_secs_f64(seconds).map_err(|error| error.to_string())
}

/// Why it ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ended {
    Asked,
    Found,
    Done,
    TimeOut,
}

impl Ended {
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
        None => Predicate::of_dataset(&arguments.asked)?,
    };
    let path = dataset(&arguments.file, &name)?;
    let signals = Signals::listen();
    let end = arguments.timeout.and_then(|time| Instant::now().checked_add(time));
    let mut standing = Standing::new(&arguments.file, &path, predicate)?;
    let (mut found, mut looked_at) = (0_u64, 0_u64);
    let ended = loop {
        let polled = standing.poll()?;
        looked_at = looked_at.saturating_add(polled.looked_at);
        for seen in &polled.seen {
            found = found.saturating_add(show(seen, arguments));
        }
        let late = end.is_some_and(|end| Instant::now() >= end);
        if let Some(ended) = ends(&polled, arguments, late, signals.received()) {
            break ended;
        }
        // What is left of much is looked at at once.
        let wait = if polled.looked_at > 0 { Duration::ZERO } else { arguments.interval };
        let left = end.map_or(wait, |end| wait.min(end.saturating_duration_since(Instant::now())));
        if signals.wait_for(left) {
            break Ended::Asked;
        }
    };
    if arguments.json {
        say!("{}", json!({ "ended": ended.word(), "found": found, "looked_at": looked_at }));
    } else {
        say!("{found} values, looked at {} ({})", bytes(looked_at), ended.word());
    }
    Ok(())
}

fn ends(polled: &Polled, arguments: &Follow, late: bool, asked: bool) -> Option<Ended> {
    match () {
        () if asked => Some(Ended::Asked),
        () if arguments.once && !polled.seen.is_empty() => Some(Ended::Found),
        () if arguments.until_done && polled.done => Some(Ended::Done),
        () if late => Some(Ended::TimeOut),
        () => None,
    }
}

/// Prints what was found in a write; returns how many values that is.
fn show(seen: &Seen, arguments: &Follow) -> u64 {
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

/// The path of the dataset of a name: a path, or the last name of one.
fn dataset(file: &std::path::Path, name: &str) -> Result<Vec<u8>, Box<dyn std::error::Error>> {
    let wanted = name.trim_matches('/').as_bytes();
    let is_whole = name.starts_with('/');
    // The connector's writers have the structure in their logs until they are done.
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
        (None, []) => Err(format!("the store has no dataset {name}").into()),
        (None, several) => {
            let names: Vec<_> = several.iter().take(8).map(|path| String::from_utf8_lossy(path)).collect();
            Err(format!("which dataset is {name}? There are {}", names.join(", ")).into())
        }
    }
}

fn walk(file: &File, each: &mut dyn FnMut(&[u8])) -> hyperchunk::Result<()> {
    file.walk(&file.root()?, b"/", &mut |visit| {
        if let Found::Object(object) = visit.found
            && object.kind() == ObjectKind::Dataset
        {
            each(visit.path);
        }
        Ok(Next::Enter)
    })?;
    Ok(())
}
