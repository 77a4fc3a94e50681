//! The parts of a dataset, each where a log has it.

use super::bytes::LARGEST_RANK;
use crate::{Error, Result};
use hyperchunk_format::select::{Axis, Choice};
use std::ops::Range;

/// A box of elements: where it starts, and how far it reaches.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Slab {
    /// Its first element, slowest dimension first.
    pub start: Vec<u64>,
    /// How many elements it has along each dimension.
    pub count: Vec<u64>,
}

impl Slab {
    /// A box.
    #[must_use]
    pub fn new(start: impl Into<Vec<u64>>, count: impl Into<Vec<u64>>) -> Self {
        Self { start: start.into(), count: count.into() }
    }

    /// How many elements it has.
    ///
    /// # Errors
    /// Limit if more than 2⁶⁴ - 1.
    pub fn elements(&self) -> Result<u64> {
        let product = self.count.iter().try_fold(1_u64, |product, count| product.checked_mul(*count));
        product.ok_or_else(|| Error::limit("more than 2^64 elements"))
    }

    /// Whether it makes sense for a dataset of so many dimensions.
    pub(crate) fn check(&self, rank: usize) -> Result<()> {
        if self.start.len() != rank || self.count.len() != rank || rank > LARGEST_RANK {
            let message = format!(
                "a box of {} and {} dimensions for a dataset of {rank}",
                self.start.len(),
                self.count.len()
            );
            return Err(Error::invalid(message));
        }
        for (start, count) in self.start.iter().zip(&self.count) {
            if start.checked_add(*count).is_none() {
                return Err(Error::invalid(format!("a box of {count} elements that starts at {start}")));
            }
        }
        self.elements().map(drop)
    }

    /// What it has in common with another.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Option<Self> {
        let mut common = Self::default();
        for ((start, count), (other_start, other_count)) in
            self.start.iter().zip(&self.count).zip(other.start.iter().zip(&other.count))
        {
            let first = *start.max(other_start);
            let end = start.saturating_add(*count).min(other_start.saturating_add(*other_count));
            if end <= first {
                return None;
            }
            common.start.push(first);
            common.count.push(end - first);
        }
        Some(common)
    }

    /// The smallest box around it and another.
    pub(crate) fn around(&self, other: &Self) -> Self {
        let mut both = Self::default();
        for ((start, count), (other_start, other_count)) in
            self.start.iter().zip(&self.count).zip(other.start.iter().zip(&other.count))
        {
            let first = *start.min(other_start);
            let end = start.saturating_add(*count).max(other_start.saturating_add(*other_count));
            both.start.push(first);
            both.count.push(end - first);
        }
        both
    }

    /// It as a selection.
    pub(crate) fn choice(&self) -> Choice {
        let axes = self.start.iter().zip(&self.count);
        Choice::Axes(axes.map(|(start, count)| Axis::range(*start..start.saturating_add(*count))).collect())
    }

    /// What of it lies inside an extent.
    #[must_use]
    pub fn clipped(&self, dims: &[u64]) -> Option<Self> {
        self.intersection(&Self::new(vec![0; dims.len()], dims))
    }
}

/// How the bytes of a piece are to be taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Place {
    /// Elements as the dataset's datatype has them, in C order of the box.
    Raw,
    /// A chunk as it was written: through the filters that the mask does not leave out.
    Chunk {
        /// Which filters were left out.
        mask: u32,
    },
    /// Some bytes of each element, in C order of the box: members of a compound that lie side by side. What an element has
    /// beside them is what lies below.
    Fields {
        /// The first of these bytes in an element.
        first: u32,
        /// How many.
        size: u32,
    },
}

impl Place {
    /// Whether it is a chunk as it was written.
    #[must_use]
    pub fn is_chunk(self) -> bool {
        matches!(self, Self::Chunk { .. })
    }

    /// Whether elements have more than what it has of them.
    #[must_use]
    pub fn is_fields(self) -> bool {
        matches!(self, Self::Fields { .. })
    }

    /// Which bytes of elements of `element` bytes it has.
    #[must_use]
    pub fn range(self, element: u64) -> Range<u64> {
        match self {
            Self::Raw | Self::Chunk { .. } => 0..element,
            Self::Fields { first, size } => u64::from(first)..u64::from(first) + u64::from(size),
        }
    }

    /// How many bytes it has of each element of `element` bytes.
    #[must_use]
    pub fn size(self, element: u64) -> u64 {
        match self {
            Self::Raw | Self::Chunk { .. } => element,
            Self::Fields { size, .. } => u64::from(size),
        }
    }

    /// Whether nothing is to be seen of an element as `below` has it, where this one has the element, too.
    #[must_use]
    pub fn hides(self, below: Self) -> bool {
        match (self, below) {
            (Self::Raw | Self::Chunk { .. }, _) => true,
            (Self::Fields { .. }, Self::Fields { .. }) => {
                let (own, other) = (self.range(0), below.range(0));
                own.start <= other.start && other.end <= own.end
            }
            (Self::Fields { .. }, _) => false,
        }
    }

    /// The bytes of elements of `element` bytes that both have.
    #[must_use]
    pub fn common(self, other: Self, element: u64) -> Option<Range<u64>> {
        let (one, two) = (self.range(element), other.range(element));
        let both = one.start.max(two.start)..one.end.min(two.end);
        Some(both).filter(|both| !both.is_empty())
    }

    /// Puts the bytes that it has of some elements to their place in these elements, of `element` bytes each. `false` if there
    /// are not as many, or they lie outside of an element.
    #[must_use]
    pub fn put(self, element: usize, stored: &[u8], elements: &mut [u8]) -> bool {
        let Self::Fields { first, size } = self else {
            let same = stored.len() == elements.len();
            if same {
                elements.copy_from_slice(stored);
            }
            return same;
        };
        let (first, size) = (first as usize, size as usize);
        let fits = size > 0 && element > 0 && first.checked_add(size).is_some_and(|end| end <= element);
        if !fits || stored.len() / size != elements.len() / element {
            return false;
        }
        // Of a constant length, copying is one instruction.
        match size {
            4 => stored
                .as_chunks::<4>()
                .0
                .iter()
                .zip(elements.chunks_exact_mut(element))
                .for_each(|(from, to)| to[first..first + 4].copy_from_slice(from)),
            8 => stored
                .as_chunks::<8>()
                .0
                .iter()
                .zip(elements.chunks_exact_mut(element))
                .for_each(|(from, to)| to[first..first + 8].copy_from_slice(from)),
            _ => stored
                .chunks_exact(size)
                .zip(elements.chunks_exact_mut(element))
                .for_each(|(from, to)| to[first..first + size].copy_from_slice(from)),
        }
        true
    }
}

/// A part of a dataset, where a log has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The elements. A chunk may reach beyond the extent.
    pub slab: Slab,
    /// Where its bytes begin in the log.
    pub offset: u64,
    /// How many there are.
    pub length: u64,
    /// What they are.
    pub place: Place,
    /// Its number among all that was done in its log: a later one lies over it.
    pub order: u64,
    /// Where the batch with its checksum begins.
    pub head: u64,
}

/// A change of extent in a log: it clips what the same writer and earlier epochs wrote before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extent {
    /// Its number among all that was done in its log.
    pub order: u64,
    /// The extent from then on.
    pub dims: Vec<u64>,
}

impl Extent {
    /// What it clips, `before` being the extent until then: growing clips nothing, also not what chunks have outside, as in
    /// HDF5.
    pub(super) fn clip(&self, before: &[u64]) -> Option<Self> {
        let both = self.dims.iter().zip(before);
        let dims: Vec<u64> = both.map(|(new, old)| if new < old { *new } else { u64::MAX }).collect();
        dims.iter().any(|dim| *dim != u64::MAX).then_some(Self { order: self.order, dims })
    }
}
