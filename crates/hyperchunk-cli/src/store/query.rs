//! Queries: `hyperchunk store query` and `zones`.

use crate::Outcome;
use crate::describe;
use crate::get::parse_slices;
use crate::progress::{bytes, count};
use crate::source::SourceOptions;
use clap::Args;
use hyperchunk::Dataset;
use hyperchunk_store::query::Queries as _;
use hyperchunk_store::query::{Predicate, RankBy, Top, ZoneState, ZoneStats};
use hyperchunk_store::{Extreme, Hyperslab, Statistics};
use hyperchunk_udf::escape::escape;
use serde_json::{Value, json};

#[derive(Args, Debug)]
pub(crate) struct DatasetArguments {
    /// The HDF5 file; may be a URL.
    file: String,
    /// Path of the dataset.
    path: String,
    /// Query only this part: for each axis an index or START:STOP.
    #[arg(long = "box", value_name = "SLICES", allow_hyphen_values = true)]
    part: Option<String>,
    /// Epoch of the store; without it, the newest.
    #[arg(long)]
    epoch: Option<u64>,
    /// Print the result as JSON.
    #[arg(long)]
    json: bool,
    #[command(flatten)]
    source: SourceOptions,
}

#[derive(Args, Debug)]
#[command(after_help = QUERY_HELP)]
pub(crate) struct Query {
    #[command(flatten)]
    target: DatasetArguments,
    /// Condition on each value, such as 'value > 12'.
    #[arg(required_unless_present = "top", allow_hyphen_values = true)]
    predicate: Option<String>,
    /// Read the boxes, and print up to COUNT matching values with their indices.
    #[arg(long, value_name = "COUNT")]
    values: Option<u64>,
    /// Print the first COUNT zones in the order of --by, instead of a query.
    #[arg(long, value_name = "COUNT", conflicts_with_all = ["predicate", "values"])]
    top: Option<usize>,
    /// Order of zones for --top: max, min, sum, mean, nan or range.
    #[arg(long, default_value = "max", requires = "top")]
    by: RankBy,
}

const QUERY_HELP: &str = "\
Prints boxes that may hold such values; no value outside them matches. The statistics come from the writers of
a store, if they recorded them, or from `hyperchunk analyze`.

Examples:
  hyperchunk store query run.h5 /ocean/h 'value > 12'
  hyperchunk store query run.h5 /ocean/h '0 <= value < 1e-3 or isnan(value)' --box 0:10,5:7 --values 20
  hyperchunk store query run.h5 /ocean/h --top 3 --by max";

#[derive(Args, Debug)]
pub(crate) struct Zones {
    #[command(flatten)]
    target: DatasetArguments,
}

impl DatasetArguments {
    fn open(&self) -> Result<(Dataset, Option<Hyperslab>), Box<dyn std::error::Error>> {
        let mut options = self.source.open_options();
        options.epoch = self.epoch;
        let file = SourceOptions::open_with(&self.file, &options)?;
        let path = format!("/{}", self.path.trim_matches('/'));
        let dataset = file.root()?.named("/").group()?.get(path.as_bytes())?.dataset()?;
        let Some(part) = &self.part else { return Ok((dataset, None)) };
        let mut slab = Hyperslab::default();
        for (steps, _) in parse_slices(part, dataset.dims())? {
            if steps.step != 1 {
                return Err("expected START:STOP, without a step, in --box".into());
            }
            slab.start.push(steps.start);
            slab.count.push(steps.count);
        }
        Ok((dataset, Some(slab)))
    }
}

pub(super) fn text(value: Extreme) -> String {
    match value {
        Extreme::Float(value) => value.to_string(),
        Extreme::Signed(value) => value.to_string(),
        Extreme::Unsigned(value) => value.to_string(),
    }
}

pub(super) fn number(value: Extreme) -> Value {
    match value {
        Extreme::Float(value) => json!(value),
        Extreme::Signed(value) => json!(value),
        Extreme::Unsigned(value) => json!(value),
    }
}

fn range(slab: &Hyperslab) -> String {
    let axes = slab.start.iter().zip(&slab.count);
    let axes: Vec<String> = axes.map(|(start, count)| format!("{start}:{}", start + count)).collect();
    if axes.is_empty() { "the only element".to_owned() } else { axes.join(", ") }
}

pub(super) fn index(index: &[u64]) -> String {
    let numbers: Vec<String> = index.iter().map(ToString::to_string).collect();
    format!("[{}]", numbers.join(", "))
}

fn pair(slab: &Hyperslab) -> Value {
    json!({ "start": slab.start, "count": slab.count })
}

fn summary(statistics: &Statistics) -> Value {
    let value = |extreme: Option<(Extreme, u64)>| extreme.map(|(value, _)| number(value));
    json!({
        "count": statistics.count, "nan": statistics.nan, "min": value(statistics.min),
        "max": value(statistics.max), "sum": statistics.sum,
    })
}

#[expect(clippy::cast_precision_loss, reason = "a percentage")]
fn percent(part: u64, all: u64) -> String {
    let percent = part as f64 / (all.max(1)) as f64 * 100.0;
    if percent >= 1.0 { format!("{percent:.0} %") } else { format!("{percent:.2} %") }
}

pub(super) fn query(arguments: &Query) -> Outcome {
    let (dataset, part) = arguments.target.open()?;
    if let Some(count) = arguments.top {
        return top(&dataset.top(count, arguments.by, part.as_ref())?, arguments.target.json);
    }
    let predicate: Predicate = arguments.predicate.as_deref().unwrap_or_default().parse()?;
    let answer = dataset.query(&predicate, part.as_ref())?;
    let mut bytes_scanned = answer.bytes_scanned;
    let mut values: Vec<(Vec<u64>, Extreme)> = Vec::new();
    let mut found = 0_u64;
    if let Some(most) = arguments.values {
        let mut matches = dataset.matches(&predicate, &answer)?;
        while let Some(more) = matches.next()? {
            let numbers = matches.numbers(&more);
            found += numbers.len() as u64;
            let rank = dataset.dims().len();
            for (at, value) in numbers.into_iter().enumerate() {
                if values.len() as u64 >= most {
                    break;
                }
                values.push((more.indices.iter().skip(at * rank).take(rank).copied().collect(), value));
            }
        }
        bytes_scanned += matches.bytes_scanned();
    }
    if arguments.target.json {
        let boxes: Vec<Value> = answer.boxes.iter().map(pair).collect();
        let mut all = json!({
            "boxes": boxes, "bytes_scanned": bytes_scanned, "bytes_candidate": answer.bytes_candidate, "unknown": answer.unknown,
            "total": answer.total,
        });
        if arguments.values.is_some() {
            let values = values.iter();
            all["values"] =
                values.map(|(at, value)| json!({ "index": at, "value": number(*value) })).collect();
            all["found"] = json!(found);
        }
        say!("{all}");
        return Ok(());
    }
    if arguments.values.is_some() {
        for (at, value) in &values {
            say!("{}  {}", index(at), text(*value));
        }
        let more = found.saturating_sub(values.len() as u64);
        say!(
            "{found} values{}",
            if more > 0 { format!(", of which {more} are not shown") } else { String::new() }
        );
    } else {
        for slab in &answer.boxes {
            say!("{}", range(slab));
        }
        let (left, part) = (bytes(answer.bytes_candidate), percent(answer.bytes_candidate, answer.total));
        let boxes = count(answer.boxes.len() as u64, "box", "boxes");
        say!("{boxes}, {left} of {} ({part})", bytes(answer.total));
    }
    if answer.unknown > 0 {
        say!("{} have no statistics", bytes(answer.unknown));
    }
    say!("read {} ({})", bytes(bytes_scanned), percent(bytes_scanned, answer.total));
    Ok(())
}

fn top(top: &Top, json: bool) -> Outcome {
    if json {
        let zones = top.zones.iter().map(|zone: &ZoneStats| {
            json!({
                "value": number(zone.value), "index": zone.index, "box": pair(&zone.slab),
                "summary": summary(&zone.statistics), "writer": zone.writer.map(|writer| writer.to_string()),
                "epoch": zone.epoch,
            })
        });
        let zones: Vec<Value> = zones.collect();
        say!("{}", json!({ "zones": zones, "bytes_scanned": top.bytes_scanned, "total": top.total }));
        return Ok(());
    }
    for zone in &top.zones {
        let mut line = text(zone.value);
        if let Some(at) = &zone.index {
            line.push_str(&format!(" at {}", index(at)));
        }
        line.push_str(&format!(" in {}", range(&zone.slab)));
        if let (Some(writer), Some(epoch)) = (zone.writer, zone.epoch) {
            line.push_str(&format!(", writer {writer}, epoch {epoch}"));
        }
        say!("{line}");
    }
    say!(
        "read {} of {} ({})",
        bytes(top.bytes_scanned),
        bytes(top.total),
        percent(top.bytes_scanned, top.total)
    );
    Ok(())
}

pub(super) fn zones(arguments: &Zones) -> Outcome {
    let (dataset, part) = arguments.target.open()?;
    let zones = dataset.zones(part.as_ref())?;
    if arguments.target.json {
        let zones = zones.iter().map(|zone| {
            json!({
                "boxes": zone.boxes.iter().map(pair).collect::<Vec<_>>(),
                "summary": zone.statistics.as_ref().map(summary), "exact": zone.exact,
                "writer": zone.writer.map(|writer| writer.to_string()), "epoch": zone.epoch,
            })
        });
        say!("{}", Value::Array(zones.collect()));
        return Ok(());
    }
    let all = part.unwrap_or_else(|| Hyperslab::new(vec![0; dataset.dims().len()], dataset.dims()));
    let known = zones.iter().filter(|zone| zone.statistics.is_some()).count();
    let path = escape(&arguments.target.path, 2000);
    say!("{path}: {}, {} zones, {known} with statistics", describe::extent(dataset.dims()), zones.len());
    for line in draw_map(&zones, &all) {
        say!("{line}");
    }
    Ok(())
}

/// Maximum number of columns of a map.
const MAP_COLUMNS: u64 = 72;
const MAP_ROWS: u64 = 18;
const SHADES: [char; 5] = ['·', '░', '▒', '▓', '█'];

/// Returns a map of the zones' maxima along the first two axes longer than one. A cell shows the largest
/// maximum of its zones.
fn draw_map(zones: &[ZoneState], all: &Hyperslab) -> Vec<String> {
    let mut axes = (0..all.count.len()).filter(|axis| all.count[*axis] > 1);
    let (first, second) = (axes.next(), axes.next());
    // A single axis is drawn horizontally.
    let (down, along) = if second.is_some() { (first, second) } else { (None, first) };
    let length = |axis: Option<usize>| axis.map_or(1, |axis| all.count[axis]);
    let (rows, columns) = (length(down).min(MAP_ROWS), length(along).min(MAP_COLUMNS));
    let mut cells: Vec<Option<f64>> = vec![None; usize::try_from(rows * columns).unwrap_or(0)];
    let mut unknown = vec![false; cells.len()];
    let cell = |axis: Option<usize>, slab: &Hyperslab, parts: u64| match axis {
        None => 0..1,
        Some(axis) => {
            let scale = |at: u64| (at.saturating_sub(all.start[axis])).saturating_mul(parts);
            let end = scale(slab.start[axis] + slab.count[axis]).div_ceil(all.count[axis]);
            scale(slab.start[axis]) / all.count[axis]..end.min(parts)
        }
    };
    for zone in zones {
        let value = zone.statistics.as_ref().and_then(|statistics| statistics.max);
        for slab in &zone.boxes {
            for row in cell(down, slab, rows) {
                for column in cell(along, slab, columns) {
                    let Ok(at) = usize::try_from(row * columns + column) else { continue };
                    match (value, &zone.statistics) {
                        (Some((value, _)), _) => {
                            cells[at] =
                                Some(cells[at].map_or(value.as_f64(), |known| known.max(value.as_f64())));
                        }
                        (None, None) => unknown[at] = true,
                        _ => {}
                    }
                }
            }
        }
    }
    let finite = || cells.iter().flatten().copied().filter(|value| value.is_finite());
    let (low, high) = (finite().fold(f64::INFINITY, f64::min), finite().fold(f64::NEG_INFINITY, f64::max));
    let shade = |value: f64| {
        let part = if high > low { (value - low) / (high - low) } else { 1.0 };
        SHADES[1 + [0.25, 0.5, 0.75].iter().filter(|step| part > **step).count()]
    };
    let columns = usize::try_from(columns).unwrap_or(1).max(1);
    let mut lines: Vec<String> = cells
        .chunks(columns)
        .zip(unknown.chunks(columns))
        .map(|(cells, unknown)| {
            let cells = cells.iter().zip(unknown);
            cells
                .map(|(cell, unknown)| match (cell, unknown) {
                    (_, true) => '?',
                    (Some(value), _) => shade(*value),
                    (None, _) => SHADES[0],
                })
                .collect()
        })
        .collect();
    if low <= high {
        lines.push(format!("largest values: ░ {low} to █ {high}; · nothing written, ? no statistics"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_shows_where_values_are_large() {
        let zone = |start: [u64; 2], value: Option<f64>| {
            let mut statistics = Statistics::NONE;
            statistics.max = value.map(|value| (Extreme::Float(value), 0));
            (Hyperslab::new(start, [10, 50]), value.map(|_| statistics))
        };
        let all = [zone([0, 0], Some(1.0)), zone([0, 50], Some(9.0)), zone([10, 0], None)];
        let states: Vec<ZoneState> =
            all.into_iter().map(|(slab, statistics)| ZoneState::new(vec![slab], statistics)).collect();
        let lines = draw_map(&states, &Hyperslab::new([0, 0], [30, 100]));
        assert_eq!(lines.len(), 19);
        assert_eq!(lines[0], format!("{}{}", "░".repeat(36), "█".repeat(36)));
        assert!(lines[8].starts_with('?') && lines[17].chars().all(|c| c == '·'));
        assert!(lines[18].contains("░ 1 to █ 9"));
        let line = draw_map(&states, &Hyperslab::new([0, 0], [1, 100]));
        assert_eq!(line.len(), 2);
    }
}
