//! Zones of a dataset: what is seen of them, and what they are like.

use super::judge::Maybe;
use super::{Elements, Predicate};
use crate::store::{Slab, Statistics, WriterId};
use crate::{Dataset, Error, Limits, Result};

/// Elements whose statistics are known, or not.
#[derive(Debug)]
pub(crate) struct Zone {
    /// What is seen of it; the boxes do not overlap.
    pub(crate) seen: Vec<Slab>,
    /// `None` where nothing is known.
    pub(crate) statistics: Option<Statistics>,
    /// Whether the statistics are those of what is seen, which is one box. Else they only bound it.
    pub(crate) whole: bool,
    /// Who wrote it, and in which epoch, in a store.
    pub(crate) origin: Option<(WriterId, u64)>,
}

/// What is known of a part of a dataset.
#[derive(Debug)]
pub(crate) struct Zoned {
    pub(crate) zones: Vec<Zone>,
    /// What nobody wrote, if that was asked for.
    pub(crate) bare: Vec<Slab>,
    /// How many bytes were looked at.
    pub(crate) looked_at: u64,
    /// Whether no element is in two of all those boxes.
    pub(crate) disjoint: bool,
}

/// What is asked for.
pub(crate) struct Ask<'a> {
    pub(crate) wanted: &'a Slab,
    /// Whether a zone with these statistics is wanted.
    pub(crate) keep: &'a dyn Fn(&Statistics) -> bool,
    /// Whether what nobody wrote is wanted.
    pub(crate) bare: bool,
    pub(crate) limits: &'a Limits,
}

/// A zone of a dataset, as it is shown.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct ZoneState {
    /// What is seen of it.
    pub boxes: Vec<Slab>,
    /// What it is like; `None` where nothing is known.
    pub statistics: Option<Statistics>,
    /// Whether the statistics are exactly of those boxes. Else something lies over a part of the zone.
    pub exact: bool,
    /// Who wrote it, in a store.
    pub writer: Option<WriterId>,
    /// The epoch that committed it, in a store.
    pub epoch: Option<u64>,
}

impl ZoneState {
    /// Boxes, and what is known of them.
    #[must_use]
    pub fn new(boxes: Vec<Slab>, statistics: Option<Statistics>) -> Self {
        Self { boxes, statistics, exact: true, writer: None, epoch: None }
    }
}

impl Dataset {
    /// The box of the dataset that is asked for; all of it if none is.
    pub(crate) fn asked(&self, slab: Option<&Slab>) -> Result<Slab> {
        let all = Slab::new(vec![0; self.dims().len()], self.dims());
        let Some(slab) = slab else { return Ok(all) };
        slab.check(self.dims().len()).map_err(|error| self.name(error))?;
        if slab.intersection(&all).as_ref() != Some(slab) && !slab.count.contains(&0) {
            let message =
                format!("a box of {:?} at {:?} in an extent of {:?}", slab.count, slab.start, self.dims());
            return Err(self.name(Error::invalid(message)));
        }
        Ok(slab.clone())
    }

    /// What is known of a part of it.
    pub(crate) fn zoned(&self, ask: &Ask<'_>) -> Result<Zoned> {
        if ask.wanted.count.contains(&0) {
            return Ok(Zoned { zones: Vec::new(), bare: Vec::new(), looked_at: 0, disjoint: true });
        }
        let found = match &self.0.sharded {
            Some(sharded) => sharded.zoned(ask),
            None => self.zoned_beside(ask),
        };
        found.map_err(|error| self.name(error))
    }

    /// Its zones, or those of a part of it.
    ///
    /// # Errors
    /// Unsupported for elements that are no plain numbers, and where nothing is known; those of reading what is.
    pub fn zones(&self, slab: Option<&Slab>) -> Result<Vec<ZoneState>> {
        Elements::of(self.datatype()).map_err(|error| self.name(error))?;
        let wanted = self.asked(slab)?;
        let limits = &self.object().file().options().limits;
        let zoned = self.zoned(&Ask { wanted: &wanted, keep: &|_| true, bare: false, limits })?;
        let state = |zone: Zone| ZoneState {
            boxes: zone.seen,
            statistics: zone.statistics,
            exact: zone.whole,
            writer: zone.origin.map(|(writer, _)| writer),
            epoch: zone.origin.map(|(_, epoch)| epoch),
        };
        Ok(zoned.zones.into_iter().map(state).collect())
    }

    /// Whether what nobody wrote may be what is asked for.
    pub(crate) fn fill_may(&self, elements: Elements, predicate: &Predicate) -> Result<bool> {
        let fill = self.unwritten()?.unwrap_or_else(|| vec![0; elements.size()]);
        let Maybe { yes, .. } = predicate.judge(&elements.statistics(&fill), elements.size());
        Ok(yes)
    }
}
