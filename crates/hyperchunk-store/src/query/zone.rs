//! Zones of a dataset: their visible parts and statistics.

use super::judge::Outcomes;
use super::zonemap::zoned_beside;
use super::{Elements, Predicate};
use crate::{Hyperslab, Statistics, WriterId, sharded};
use hyperchunk::{Dataset, Error, Limits, Result};

/// A set of elements, with statistics if there are any.
#[derive(Debug)]
pub(crate) struct Zone {
    /// Its visible parts; the boxes do not overlap.
    pub(crate) seen: Vec<Hyperslab>,
    /// Statistics; `None` if unknown.
    pub(crate) statistics: Option<Statistics>,
    /// True if the statistics describe exactly the visible part, which is one box. Otherwise they
    /// are only bounds.
    pub(crate) whole: bool,
    /// Writer and epoch, in a store.
    pub(crate) origin: Option<(WriterId, u64)>,
}

/// Zone map of a part of a dataset.
#[derive(Debug)]
pub(crate) struct ZoneMap {
    pub(crate) zones: Vec<Zone>,
    /// Unwritten elements, if requested.
    pub(crate) bare: Vec<Hyperslab>,
    /// Number of bytes that were read.
    pub(crate) bytes_scanned: u64,
    /// True if none of these boxes overlap.
    pub(crate) disjoint: bool,
}

/// A request for a zone map.
pub(crate) struct ZoneRequest<'a> {
    pub(crate) wanted: &'a Hyperslab,
    /// Filter of zones by their statistics.
    pub(crate) keep: &'a dyn Fn(&Statistics) -> bool,
    /// Include unwritten elements.
    pub(crate) bare: bool,
    pub(crate) limits: &'a Limits,
}

/// A zone of a dataset, for users.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ZoneState {
    /// Its visible parts.
    pub boxes: Vec<Hyperslab>,
    /// Statistics; `None` if unknown.
    pub statistics: Option<Statistics>,
    /// True if the statistics describe exactly these boxes. Otherwise a part of the zone is covered
    /// by other data.
    pub exact: bool,
    /// Writer of the data, in a store.
    pub writer: Option<WriterId>,
    /// Epoch that committed them, in a store.
    pub epoch: Option<u64>,
}

impl ZoneState {
    /// Makes a zone of boxes with exact statistics.
    #[must_use]
    pub fn new(boxes: Vec<Hyperslab>, statistics: Option<Statistics>) -> Self {
        Self { boxes, statistics, exact: true, writer: None, epoch: None }
    }
}

/// Returns the requested box after checking it, or the box of the whole dataset.
pub(crate) fn requested_box(dataset: &Dataset, slab: Option<&Hyperslab>) -> Result<Hyperslab> {
    let all = Hyperslab::new(vec![0; dataset.dims().len()], dataset.dims());
    let Some(slab) = slab else { return Ok(all) };
    slab.check(dataset.dims().len()).map_err(|error| dataset.with_context(error))?;
    if slab.intersection(&all).as_ref() != Some(slab) && !slab.count.contains(&0) {
        let message = format!(
            "a box of {:?} at {:?} reaches beyond the extent {:?}",
            slab.count,
            slab.start,
            dataset.dims()
        );
        return Err(dataset.with_context(Error::invalid(message)));
    }
    Ok(slab.clone())
}

/// Returns the zone map of a part of the dataset.
pub(crate) fn zone_map(dataset: &Dataset, ask: &ZoneRequest<'_>) -> Result<ZoneMap> {
    if ask.wanted.count.contains(&0) {
        return Ok(ZoneMap { zones: Vec::new(), bare: Vec::new(), bytes_scanned: 0, disjoint: true });
    }
    let found = match sharded(dataset) {
        Some(sharded) => sharded.zoned(ask),
        None => zoned_beside(dataset, ask),
    };
    found.map_err(|error| dataset.with_context(error))
}

/// See [`super::Queries::zones`].
pub(super) fn zones(dataset: &Dataset, slab: Option<&Hyperslab>) -> Result<Vec<ZoneState>> {
    Elements::from_datatype(dataset.datatype()).map_err(|error| dataset.with_context(error))?;
    let wanted = requested_box(dataset, slab)?;
    let limits = &dataset.object().file().options().limits;
    let zoned = zone_map(dataset, &ZoneRequest { wanted: &wanted, keep: &|_| true, bare: false, limits })?;
    let state = |zone: Zone| ZoneState {
        boxes: zone.seen,
        statistics: zone.statistics,
        exact: zone.whole,
        writer: zone.origin.map(|(writer, _)| writer),
        epoch: zone.origin.map(|(_, epoch)| epoch),
    };
    Ok(zoned.zones.into_iter().map(state).collect())
}

/// Returns whether unwritten elements may match.
pub(crate) fn fill_may_match(dataset: &Dataset, elements: Elements, predicate: &Predicate) -> Result<bool> {
    let fill = dataset.unwritten()?.unwrap_or_else(|| vec![0; elements.size()]);
    let Outcomes { yes, .. } = predicate.judge(&elements.statistics(&fill), elements.size());
    Ok(yes)
}
