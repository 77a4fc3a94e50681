//! Ranking of the zones of a dataset by their statistics, for questions such as: where is the
//! biggest wave?

use super::answer::{element_index, read_parts};
use super::judge::order;
use super::zone::{requested_box, zone_map};
use super::{Elements, Zone, ZoneRequest};
use crate::{Extreme, Hyperslab, Statistics, WriterId};
use hyperchunk::{Dataset, Error, Result};
use std::cmp::Ordering;
use std::collections::BinaryHeap;
use std::str::FromStr;

/// Criterion of the ranking. The largest comes first; for the minimum, the smallest.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum RankBy {
    /// Maximum.
    Max,
    /// Minimum.
    Min,
    /// Sum.
    Sum,
    /// Mean.
    Mean,
    /// Number of NaNs.
    Nan,
    /// Maximum minus minimum.
    Range,
}

impl FromStr for RankBy {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Ok(match text {
            "max" => Self::Max,
            "min" => Self::Min,
            "sum" => Self::Sum,
            "mean" => Self::Mean,
            "nan" => Self::Nan,
            "range" => Self::Range,
            other => {
                let message = format!("by must be max, min, sum, mean, nan or range, not {other:?}");
                return Err(Error::invalid(message));
            }
        })
    }
}

/// A zone with its statistics.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct ZoneStats {
    /// Its box, or the bounding box of its visible parts.
    pub slab: Hyperslab,
    /// Value of the criterion.
    pub value: Extreme,
    /// Index of the maximum or minimum, if that is the criterion.
    pub index: Option<Vec<u64>>,
    /// Statistics of its visible elements.
    pub statistics: Statistics,
    /// Writer of the data, in a store.
    pub writer: Option<WriterId>,
    /// Epoch that committed them, in a store.
    pub epoch: Option<u64>,
}

/// The first zones of a ranking.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct Top {
    /// The zones in order.
    pub zones: Vec<ZoneStats>,
    /// Number of bytes of statistics and elements that were read.
    pub bytes_scanned: u64,
    /// Size of the ranked region in bytes.
    pub total: u64,
}

/// A zone in the priority queue.
struct RankedZone {
    /// Exact value of the criterion, or a bound; `None` if unknown, which comes first.
    key: Option<Extreme>,
    /// The result, once it is exact.
    stats: Option<ZoneStats>,
    zone: Option<Zone>,
    /// True if smaller keys come first.
    smallest: bool,
}

impl RankBy {
    fn value(self, statistics: &Statistics) -> Option<Extreme> {
        #[expect(clippy::cast_precision_loss, reason = "a mean is computed in floating point")]
        let mean = |statistics: &Statistics| {
            let count = statistics.count.checked_sub(statistics.nan).filter(|count| *count > 0)?;
            Some(Extreme::Float(statistics.sum / count as f64))
        };
        match self {
            Self::Max => statistics.max.map(|(value, _)| value),
            Self::Min => statistics.min.map(|(value, _)| value),
            Self::Sum => Some(Extreme::Float(statistics.sum)),
            Self::Mean => mean(statistics),
            Self::Nan => Some(Extreme::Unsigned(statistics.nan)),
            Self::Range => {
                let (low, high) = (statistics.min?.0, statistics.max?.0);
                Some(match (low, high) {
                    (Extreme::Signed(low), Extreme::Signed(high)) => Extreme::Unsigned(high.abs_diff(low)),
                    (Extreme::Unsigned(low), Extreme::Unsigned(high)) => {
                        Extreme::Unsigned(high.saturating_sub(low))
                    }
                    (low, high) => Extreme::Float(high.as_f64() - low.as_f64()),
                })
            }
        }
    }

    /// Returns whether the value of a zone bounds the value of its parts.
    fn is_bound(self) -> bool {
        matches!(self, Self::Max | Self::Min | Self::Nan | Self::Range)
    }
}

/// See [`super::Queries::top`].
pub(super) fn top(dataset: &Dataset, count: usize, by: RankBy, slab: Option<&Hyperslab>) -> Result<Top> {
    let elements =
        Elements::from_datatype(dataset.datatype()).map_err(|error| dataset.with_context(error))?;
    let wanted = requested_box(dataset, slab)?;
    let limits = &dataset.object().file().options().limits;
    let zoned = zone_map(dataset, &ZoneRequest { wanted: &wanted, keep: &|_| true, bare: false, limits })?;
    let mut bytes_scanned = zoned.bytes_scanned;
    let smallest = by == RankBy::Min;
    let mut heap = BinaryHeap::with_capacity(zoned.zones.len());
    for zone in zoned.zones {
        let known = zone.statistics.filter(|_| zone.whole || by.is_bound());
        let key = known.as_ref().and_then(|statistics| by.value(statistics));
        if known.is_some() && key.is_none() {
            continue;
        }
        heap.push(RankedZone { key, stats: None, zone: Some(zone), smallest });
    }
    let mut ranked = Vec::new();
    while ranked.len() < count {
        let Some(next) = heap.pop() else { break };
        if let Some(stats) = next.stats {
            ranked.push(stats);
            continue;
        }
        let Some(zone) = next.zone else { continue };
        let stats = exact(dataset, &zone, by, elements, &mut bytes_scanned)?;
        if let Some(stats) = stats {
            heap.push(RankedZone { key: Some(stats.value), stats: Some(stats), zone: None, smallest });
        }
    }
    Ok(Top { zones: ranked, bytes_scanned, total: wanted.elements()?.saturating_mul(elements.size() as u64) })
}

/// Returns a zone's exact result. Reads its elements unless its statistics are exact and it is one box.
fn exact(
    dataset: &Dataset,
    zone: &Zone,
    by: RankBy,
    elements: Elements,
    bytes_scanned: &mut u64,
) -> Result<Option<ZoneStats>> {
    let mut all = Statistics::NONE;
    let mut best: Option<(Extreme, Vec<u64>)> = None;
    let mut take = |slab: &Hyperslab, statistics: &Statistics| {
        let place = match by {
            RankBy::Max => statistics.max,
            RankBy::Min => statistics.min,
            _ => None,
        };
        if let Some((value, place)) = place {
            let index = element_index(slab, place);
            let better = best.as_ref().is_none_or(|(known, at)| {
                let compared = order(value, *known);
                let compared = if by == RankBy::Min { compared.reverse() } else { compared };
                compared.then_with(|| at.cmp(&index)).is_gt()
            });
            if better {
                best = Some((value, index));
            }
        }
        all.merge(statistics);
    };
    match (zone.statistics.as_ref().filter(|_| zone.whole), &*zone.seen) {
        (Some(statistics), [slab]) => take(slab, statistics),
        _ => {
            for slab in &zone.seen {
                read_parts(dataset, slab, elements.size(), &mut |part, bytes| {
                    *bytes_scanned = bytes_scanned.saturating_add(bytes.len() as u64);
                    take(part, &elements.statistics(bytes));
                })?;
            }
        }
    }
    let Some(value) = by.value(&all) else { return Ok(None) };
    let around = zone
        .seen
        .iter()
        .skip(1)
        .fold(zone.seen.first().cloned(), |around, slab| around.map(|around| around.bounding_box(slab)));
    Ok(around.map(|slab| ZoneStats {
        slab,
        value,
        index: best.map(|(_, index)| index),
        statistics: all,
        writer: zone.origin.map(|(writer, _)| writer),
        epoch: zone.origin.map(|(_, epoch)| epoch),
    }))
}

impl Ord for RankedZone {
    fn cmp(&self, other: &Self) -> Ordering {
        let keys = match (self.key, other.key) {
            (Some(one), Some(other)) => {
                let compared = order(one, other);
                if self.smallest { compared.reverse() } else { compared }
            }
            (one, other) => one.is_none().cmp(&other.is_none()),
        };
        // Of equal keys, inexact ones come first, then smaller indices.
        let exact = self.stats.is_none().cmp(&other.stats.is_none());
        let place = |ranked: &Self| {
            let stats = ranked.stats.as_ref();
            stats.map(|stats| stats.index.clone().unwrap_or_else(|| stats.slab.start.clone()))
        };
        keys.then(exact).then_with(|| place(other).cmp(&place(self)))
    }
}

impl PartialOrd for RankedZone {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for RankedZone {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for RankedZone {}
