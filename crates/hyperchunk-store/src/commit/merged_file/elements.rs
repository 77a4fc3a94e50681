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
    /// Source objects of replaced elements, with the elements' numbers in row-major order. Later
    /// entries take precedence.
    from: Vec<(usize, Vec<u64>)>,
}

impl Merge {
    /// Merges the elements of a native dataset that differ from its base.
    pub(super) fn merge_elements(
        &mut self,
        base: Option<usize>,
        item: usize,
        node: usize,
    ) -> Result<MergeOutcome> {
        let NodeKind::Native(now) = self.nodes[node].kind else { return Ok(MergeOutcome::NotComparable) };
        if !self.same_description(now, item)? {
            return Ok(MergeOutcome::NotComparable);
        }
        let base = match base {
            Some(base)
                if matches!(self.node_kind(base), NodeKind::Native(_))
                    && self.same_description(base, item)? =>
            {
                Some(base)
            }
            _ => None,
        };
        let Some(theirs) = self.digests(item)? else { return Ok(MergeOutcome::NotComparable) };
        let before = match base {
            Some(base) => self.digests(base)?,
            None => Some(vec![self.unwritten(item)?; theirs.len()]),
        };
        let mut elements = match self.nodes[node].elements.take() {
            Some(elements) => elements,
            None => match self.digests(now)? {
                Some(digests) => Elements { digests, from: Vec::new() },
                None => return Ok(MergeOutcome::NotComparable),
            },
        };
        let Some(before) = before.filter(|before| before.len() == elements.digests.len()) else {
            self.nodes[node].elements = Some(elements);
            return Ok(MergeOutcome::NotComparable);
        };
        let (mut taken, mut conflicts, mut first) = (Vec::new(), 0, None);
        for (number, ((ours, theirs), before)) in
            elements.digests.iter_mut().zip(theirs).zip(&before).enumerate()
        {
            if theirs == *before || theirs == *ours {
                continue;
            }
            if ours != before {
                conflicts += 1;
                first.get_or_insert(number as u64);
            }
            *ours = theirs;
            taken.push(number as u64);
        }
        if !taken.is_empty() {
            elements.from.push((item, taken));
        }
        self.nodes[node].elements = Some(elements);
        Ok(match first {
            Some(first) => MergeOutcome::Conflicts(conflicts, coordinates(self.native(item)?.dims(), first)),
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
        for (item, numbers) in &elements.from {
            let (listed, old) = (&self.packing.contents.items[*item], self.native(*item)?);
            let keep = (&Chunking::Keep, &Filtering::Keep);
            let plan = dataset_plan(&self.packing.contents, listed, old, false, keep)?;
            let dims = old.dims();
            let selection = if numbers.len() == elements.digests.len() {
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
