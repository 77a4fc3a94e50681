//! Boxes of a dataset, and their location in a log.

use crate::format::varint::MAX_RANK;
use hyperchunk::{Error, Result};
use hyperchunk_format::model::{Class, Datatype};
use hyperchunk_format::select::{Axis, Selection};
use std::ops::Range;

/// A box of elements: start and extent.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Hyperslab {
    /// First element, slowest dimension first.
    pub start: Vec<u64>,
    /// Number of elements along each dimension.
    pub count: Vec<u64>,
}

impl Hyperslab {
    /// Makes a box.
    #[must_use]
    pub fn new(start: impl Into<Vec<u64>>, count: impl Into<Vec<u64>>) -> Self {
        Self { start: start.into(), count: count.into() }
    }

    /// Returns the number of elements.
    ///
    /// # Errors
    /// Limit if more than 2⁶⁴ - 1.
    pub fn elements(&self) -> Result<u64> {
        let product = self.count.iter().try_fold(1_u64, |product, count| product.checked_mul(*count));
        product.ok_or_else(|| Error::limit("more than 2^64 elements"))
    }

    /// Checks that the box is valid for a dataset of the given rank.
    pub(crate) fn check(&self, rank: usize) -> Result<()> {
        if self.start.len() != rank || self.count.len() != rank || rank > MAX_RANK {
            let message = format!(
                "a box of {} and {} dimensions for a dataset of {rank} dimensions",
                self.start.len(),
                self.count.len()
            );
            return Err(Error::invalid(message));
        }
        for (start, count) in self.start.iter().zip(&self.count) {
            if start.checked_add(*count).is_none() {
                return Err(Error::invalid(format!(
                    "a box of {count} elements from {start} on ends beyond 2^64"
                )));
            }
        }
        self.elements().map(drop)
    }

    /// Returns the intersection with another box.
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

    /// Returns the bounding box of both.
    pub(crate) fn bounding_box(&self, other: &Self) -> Self {
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

    /// Returns the box as a selection.
    pub(crate) fn to_selection(&self) -> Selection {
        let axes = self.start.iter().zip(&self.count);
        Selection::Axes(
            axes.map(|(start, count)| Axis::range(*start..start.saturating_add(*count))).collect(),
        )
    }

    /// Returns the part of the box inside an extent.
    #[must_use]
    pub fn clipped(&self, dims: &[u64]) -> Option<Self> {
        self.intersection(&Self::new(vec![0; dims.len()], dims))
    }
}

/// Form of a piece's bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PieceForm {
    /// Elements in the dataset's datatype, in C order of the box.
    Raw,
    /// A stored chunk, passed through the filters that the mask does not exclude.
    Chunk {
        /// Filters that were skipped.
        mask: u32,
    },
    /// A byte range of each element, in C order of the box: adjacent members of a compound. The
    /// other bytes of the elements come from the pieces below.
    Fields {
        /// First of these bytes in an element.
        first: u32,
        /// Number of bytes.
        size: u32,
    },
}

impl PieceForm {
    /// Returns whether it is a stored chunk.
    #[must_use]
    pub fn is_chunk(self) -> bool {
        matches!(self, Self::Chunk { .. })
    }

    /// Returns whether it holds only some bytes of each element.
    #[must_use]
    pub fn is_fields(self) -> bool {
        matches!(self, Self::Fields { .. })
    }

    /// Returns the range of bytes that it holds of elements of `element` bytes.
    #[must_use]
    pub fn range(self, element: u64) -> Range<u64> {
        match self {
            Self::Raw | Self::Chunk { .. } => 0..element,
            Self::Fields { first, size } => u64::from(first)..u64::from(first) + u64::from(size),
        }
    }

    /// Returns the number of bytes that it holds of each element of `element` bytes.
    #[must_use]
    pub fn size(self, element: u64) -> u64 {
        match self {
            Self::Raw | Self::Chunk { .. } => element,
            Self::Fields { size, .. } => u64::from(size),
        }
    }

    /// Returns whether it hides `below` completely in elements that both have.
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

    /// Returns the bytes of elements of `element` bytes that both have.
    #[must_use]
    pub fn common(self, other: Self, element: u64) -> Option<Range<u64>> {
        let (one, two) = (self.range(element), other.range(element));
        let both = one.start.max(two.start)..one.end.min(two.end);
        Some(both).filter(|both| !both.is_empty())
    }

    /// Copies `stored`, the bytes that it holds of consecutive elements, into `elements` of `element`
    /// bytes each. Returns `false` if the numbers of elements differ, or the bytes are outside of an
    /// element.
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
        // With a constant length, the copy is one instruction.
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

/// A box of a dataset with the location of its bytes in a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The elements. A chunk may reach past the extent.
    pub slab: Hyperslab,
    /// Offset of its bytes in the log; with `FRAGMENT_FLAG` set, in the writer's fragment of a table.
    pub offset: u64,
    /// Number of its bytes.
    pub length: u64,
    /// Form of its bytes.
    pub form: PieceForm,
    /// Number of its record in the log: a later piece covers an earlier one.
    pub order: u64,
    /// Offset of the batch of its record; the batch's header has the checksum.
    pub head: u64,
}

/// A change of extent in a log: it clips earlier writes of the same writer and of earlier epochs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extent {
    /// Number of its record in the log.
    pub order: u64,
    /// The new extent.
    pub dims: Vec<u64>,
}

impl Extent {
    /// Returns the clip, given the extent before: new sizes of dimensions that shrank, `u64::MAX` for others;
    /// `None` if none shrank. Growth clips nothing, not even the elements of
    /// chunks outside the extent, as in HDF5.
    pub(crate) fn clip(&self, before: &[u64]) -> Option<Self> {
        let both = self.dims.iter().zip(before);
        let dims: Vec<u64> = both.map(|(new, old)| if new < old { *new } else { u64::MAX }).collect();
        dims.iter().any(|dim| *dim != u64::MAX).then_some(Self { order: self.order, dims })
    }
}

/// Returns the extent of a block of whole rows, of about `bytes` bytes.
pub(crate) fn block_extent(extent: &[u64], size: u64, bytes: u64) -> Vec<u64> {
    let mut slab = vec![1; extent.len()];
    let mut room = (bytes / size.max(1)).max(1);
    for (step, dim) in slab.iter_mut().zip(extent).rev() {
        *step = room.min((*dim).max(1));
        room /= *step;
        if *step < *dim {
            break;
        }
        room = room.max(1);
    }
    slab
}

/// Returns whether a byte range of an element consists of adjacent whole members of its compound.
pub(crate) fn is_of_members(datatype: &Datatype, range: &Range<u64>) -> bool {
    let Class::Compound { members } = &datatype.class else { return false };
    let mut inside: Vec<Range<u64>> = members
        .iter()
        .map(|member| member.offset..member.offset.saturating_add(member.datatype.size))
        .filter(|member| member.start < range.end && range.start < member.end)
        .collect();
    inside.sort_unstable_by_key(|member| member.start);
    let mut at = range.start;
    for member in &inside {
        if member.start != at {
            return false;
        }
        at = member.end;
    }
    !range.is_empty() && at == range.end
}
