//! Element-wise merge of native datasets that several writers filled.
//!
//! The value of an element before a write is known from the writer's base, or is the fill value. The
//! new value of an element is taken if one writer changed it, or if several changed it to the same
//! value. Different new values are a conflict.

use super::Merge;
use super::tree::NodeKind;
use hyperchunk::internal::pack::{CreatedObjects, copy_choice, dataset_plan};
use hyperchunk::pack::{Chunking, Filtering};
use hyperchunk::write::{DatasetWriter, Writer};
use hyperchunk::{Error, ErrorKind, Result, digest};
use hyperchunk_format::model::{Dataspace, FillWhen};
use hyperchunk_format::select::Selection;
use std::collections::HashSet;

/// Maximum number of elements of a dataset that is merged element by element.
const MAX_ELEMENTS: u64 = 1 << 22;

/// Result of merging the elements of two datasets.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum MergeOutcome {
    /// No element-wise comparison is possible.
    NotComparable,
    /// Number of conflicting elements, and the index of the first.
    Conflicts(u64, Vec<u64>),
    /// There are no conflicts.
    Merged,
}

/// Elements of a dataset of the new file that is merged from several.
#[derive(Debug)]
pub(super) struct Elements {
    /// Digests of all elements.
    digests: Vec<[u8; 32]>,
    /// Source objects of replaced elements, with the elements' numbers in the source's row-major order. Later
    /// entries take precedence.
    from: Vec<(usize, Vec<u64>)>,
}

impl Merge {
    /// Merges the elements of a native dataset that differ from its base. Its extent may differ from the current
    /// one: the larger one is kept, if it is larger in all dimensions.
    pub(super) fn merge_elements(
        &mut self,
        base: Option<usize>,
        item: usize,
        node: usize,
    ) -> Result<MergeOutcome> {
        let NodeKind::Native(now) = self.nodes[node].kind else { return Ok(MergeOutcome::NotComparable) };
        if !self.same_except_extent(now, item)? {
            return Ok(MergeOutcome::NotComparable);
        }
        let base = match base {
            Some(base)
                if matches!(self.node_kind(base), NodeKind::Native(_))
                    && self.same_except_extent(base, item)? =>
            {
                Some(base)
            }
            _ => None,
        };
        let (ours_dims, theirs_dims) =
            (self.native(now)?.dims().to_vec(), self.native(item)?.dims().to_vec());
        let base_dims = base.map(|base| Ok::<_, Error>(self.native(base)?.dims().to_vec())).transpose()?;
        let is_grown = |dims: &[u64]| base_dims.as_deref().is_none_or(|base| contains(dims, base));
        let dims = match () {
            () if ours_dims == theirs_dims => &ours_dims,
            // A smaller extent hides elements that others may have written.
            () if !is_grown(&ours_dims) || !is_grown(&theirs_dims) => return Ok(MergeOutcome::NotComparable),
            () if contains(&ours_dims, &theirs_dims) => &ours_dims,
            () if contains(&theirs_dims, &ours_dims) => &theirs_dims,
            () => return Ok(MergeOutcome::NotComparable),
        };
        let (Some(theirs), unwritten) = (self.digests(item)?, self.unwritten(item)?) else {
            return Ok(MergeOutcome::NotComparable);
        };
        let before = match base {
            Some(base) => match self.digests(base)? {
                Some(before) => before,
                None => return Ok(MergeOutcome::NotComparable),
            },
            None => Vec::new(),
        };
        let mut elements = match self.nodes[node].elements.take() {
            Some(elements) => elements,
            None => match self.digests(now)? {
                Some(digests) => Elements { digests, from: Vec::new() },
                None => return Ok(MergeOutcome::NotComparable),
            },
        };
        let at = |digests: &[[u8; 32]], own: &[u64], number: u64| {
            let number = usize::try_from(renumber(number, dims, own)?).ok()?;
            digests.get(number).copied()
        };
        let count: u64 = dims.iter().product();
        let mut merged = Vec::with_capacity(elements.digests.len().max(theirs.len()));
        let (mut kept, mut taken, mut conflicts, mut first) = (HashSet::new(), Vec::new(), 0, None);
        for number in 0..count {
            let before = base_dims.as_deref().and_then(|base| at(&before, base, number)).unwrap_or(unwritten);
            let ours = at(&elements.digests, &ours_dims, number).unwrap_or(before);
            let theirs = at(&theirs, &theirs_dims, number).unwrap_or(before);
            if theirs == before || theirs == ours {
                if theirs != ours && *dims != ours_dims {
                    kept.insert(number);
                }
                merged.push(ours);
                continue;
            }
            if ours != before {
                conflicts += 1;
                first.get_or_insert(number);
            }
            merged.push(theirs);
            taken.extend(renumber(number, dims, &theirs_dims));
        }
        let conflict = first.map(|first| coordinates(dims, first));
        if *dims == ours_dims {
            if !taken.is_empty() {
                elements.from.push((item, taken));
            }
        } else {
            // The larger dataset is copied, and the elements of the current one are written over it.
            let of =
                |own: &[u64], number: &u64| renumber(*number, own, dims).is_some_and(|at| kept.contains(&at));
            let mut numbers: Vec<u64> =
                kept.iter().filter_map(|number| renumber(*number, dims, &ours_dims)).collect();
            numbers.sort_unstable();
            let mut from = vec![(now, numbers)];
            for (item, mut numbers) in std::mem::take(&mut elements.from) {
                let own = self.native(item)?.dims().to_vec();
                numbers.retain(|number| of(&own, number));
                from.push((item, numbers));
            }
            from.retain(|(_, numbers)| !numbers.is_empty());
            elements.from = from;
            self.nodes[node].kind = NodeKind::Native(item);
        }
        elements.digests = merged;
        self.nodes[node].elements = Some(elements);
        Ok(match conflict {
            Some(first) => MergeOutcome::Conflicts(conflicts, first),
            None => MergeOutcome::Merged,
        })
    }

    /// Writes the elements that come from other objects than the copied one.
    pub(super) fn write_elements(
        &self,
        writer: &Writer,
        made: &CreatedObjects,
        node: usize,
        dataset: &DatasetWriter,
    ) -> Result<()> {
        let Some(elements) = &self.nodes[node].elements else { return Ok(()) };
        let dataset_dims = dataset.dims();
        for (item, numbers) in &elements.from {
            let (listed, old) = (&self.packing.contents.items[*item], self.native(*item)?);
            let keep = (&Chunking::Keep, &Filtering::Keep);
            let plan = dataset_plan(&self.packing.contents, listed, old, false, keep)?;
            let dims = old.dims();
            let is_all = numbers.len() == elements.digests.len() && dims == dataset_dims;
            let selection = if is_all {
                Selection::All
            } else {
                let coordinates = numbers.iter().flat_map(|number| coordinates(dims, *number)).collect();
                Selection::Points { rank: dims.len(), coordinates }
            };
            copy_choice(&self.packing, writer, made, (listed, old, dataset), &plan, &selection)
                .map_err(|error| old.with_context(error))?;
        }
        Ok(())
    }

    /// Returns a digest of each element; `None` if there are too many, or they cannot be read here.
    fn digests(&self, item: usize) -> Result<Option<Vec<[u8; 32]>>> {
        let dataset = self.native(item)?;
        let elsewhere = !dataset.external().is_empty() || !dataset.mappings().is_empty() || dataset.is_live();
        if elsewhere || *dataset.dataspace() == Dataspace::Null || dataset.elements()? > MAX_ELEMENTS {
            return Ok(None);
        }
        match digest::elements_following(dataset, &self.follow(item)) {
            Err(error) if error.kind() == ErrorKind::MissingFilter => Ok(None),
            digests => digests.map(Some),
        }
    }

    /// Returns the digest of an element that was never written.
    pub(super) fn unwritten(&self, item: usize) -> Result<[u8; 32]> {
        let dataset = self.native(item)?;
        let size =
            usize::try_from(dataset.datatype().size).map_err(|_| Error::limit("larger than memory"))?;
        let bytes = match &dataset.fill().value {
            FillWhen::User(value) if value.len() == size => value.clone(),
            _ => hyperchunk::room::zeros(size)?,
        };
        digest::element_following(dataset, &bytes, &self.follow(item))
    }
}

/// Returns whether an extent is at least as large as another one in each dimension.
fn contains(dims: &[u64], other: &[u64]) -> bool {
    dims.len() == other.len() && dims.iter().zip(other).all(|(dim, other)| dim >= other)
}

/// Returns the number of an element of an extent in another extent; `None` if it is outside.
fn renumber(number: u64, from: &[u64], to: &[u64]) -> Option<u64> {
    if from == to {
        return Some(number);
    }
    coordinates(from, number).iter().zip(to).try_fold(0_u64, |sum, (place, dim)| {
        (place < dim).then(|| sum.saturating_mul(*dim).saturating_add(*place))
    })
}

/// Returns the index of an element, by its number in row-major order.
fn coordinates(dims: &[u64], number: u64) -> Vec<u64> {
    let mut left = number;
    let mut place = vec![0; dims.len()];
    for (at, dim) in place.iter_mut().zip(dims).rev() {
        *at = left % (*dim).max(1);
        left /= (*dim).max(1);
    }
    place
}
