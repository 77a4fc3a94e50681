//! Comparison of objects in two files.

use super::tree::NodeKind;
use super::{Author, Merge};
use crate::DatasetId;
use hyperchunk::internal::pack::{Translation, compare_chunks, is_empty};
use hyperchunk::{Dataset, Error, ErrorKind, Result, digest};
use hyperchunk_format::model::{
    Attribute, Dataspace, Datatype, FillWhen, Layout, LinkTarget, Name, Reference,
};
use std::collections::{HashMap, HashSet};

impl Merge {
    fn new_type(&self, item: usize, datatype: &Datatype) -> Result<Datatype> {
        let object = &self.packing.contents.items[item].object;
        let sizes = object.file().superblock().sizes;
        Ok(Translation::new(datatype, sizes).map_err(|error| object.with_context(error))?.datatype)
    }

    /// Returns a function that describes a reference's target in a form that is comparable between
    /// files.
    pub(super) fn follow(&self, item: usize) -> impl Fn(&Reference) -> Vec<u8> + '_ {
        let input = self.packing.contents.items[item].input;
        move |reference: &Reference| {
            let region = reference.region.as_ref().map(|region| &region.selection);
            let found =
                reference.file.is_none().then(|| self.packing.contents.find(input, reference.address));
            // A dataset of the store is identified by its id, independent of its path.
            let name = |to: usize| match self.node_kind(to) {
                NodeKind::Stored { id, .. } if !self.identities.get(&id).is_some_and(|it| it.nameless) => {
                    id.to_string()
                }
                _ => format!("{:?}", Name::from(&*self.packing.contents.items[to].path)),
            };
            let path = found.flatten().map(name);
            format!("{path:?} {:?} {region:?} {:?}", reference.file, reference.attribute).into_bytes()
        }
    }

    pub(super) fn same_datatype(&self, one: usize, other: usize) -> Result<bool> {
        let datatype = |item: usize| {
            let datatype = self.packing.contents.items[item].object.datatype()?;
            self.new_type(item, &datatype)
        };
        Ok(datatype(one)? == datatype(other)?)
    }

    pub(super) fn same_attribute(
        &self,
        one: (usize, &Attribute),
        other: (usize, &Attribute),
    ) -> Result<bool> {
        let (first, second) = (one.1, other.1);
        if first.dataspace != second.dataspace
            || self.new_type(one.0, &first.datatype)? != self.new_type(other.0, &second.datatype)?
        {
            return Ok(false);
        }
        if !first.datatype.has_vlen() && !first.datatype.has_reference() {
            return Ok(first.data == second.data);
        }
        let digest = |(item, attribute): (usize, &Attribute)| {
            let file = self.packing.contents.items[item].object.file();
            digest::attribute_following(file, attribute, &self.follow(item))
        };
        Ok(digest(one)? == digest(other)?)
    }

    /// Returns whether two native datasets are equal except for their elements and attributes.
    pub(super) fn same_description(&self, one: usize, other: usize) -> Result<bool> {
        Ok(self.native(one)?.dims() == self.native(other)?.dims() && self.same_except_extent(one, other)?)
    }

    /// Returns whether two native datasets are equal except for their extents, elements and attributes.
    pub(super) fn same_except_extent(&self, one: usize, other: usize) -> Result<bool> {
        let (first, second) = (self.native(one)?, self.native(other)?);
        let description = |dataset: &Dataset| {
            let kind = match dataset.layout() {
                Layout::Chunked(chunked) => Some(chunked.dims.clone()),
                Layout::Compact { .. } | Layout::Contiguous { .. } => None,
                // Compared by their sources.
                Layout::Virtual { .. } => Some(Vec::new()),
            };
            let space = match dataset.dataspace() {
                Dataspace::Simple { max, .. } => Some(max.clone()),
                _ => None,
            };
            (kind, std::mem::discriminant(dataset.dataspace()), dataset.dims().len(), space)
        };
        Ok(description(first) == description(second)
            && self.new_type(one, first.datatype())? == self.new_type(other, second.datatype())?
            && filters(first) == filters(second)
            && first.external() == second.external()
            && first.mappings() == second.mappings()
            && self.same_fill(one, other)?)
    }

    fn same_fill(&self, one: usize, other: usize) -> Result<bool> {
        let (first, second) = (&self.native(one)?.fill().value, &self.native(other)?.fill().value);
        match (first, second) {
            // The stored bytes may be references to a heap.
            (FillWhen::User(_), FillWhen::User(_)) => Ok(self.unwritten(one)? == self.unwritten(other)?),
            (first, second) => Ok(first == second),
        }
    }

    /// Returns whether two native datasets are equal, apart from their attributes.
    pub(super) fn same_data(&self, one: usize, other: usize) -> Result<bool> {
        let (first, second) = (self.native(one)?, self.native(other)?);
        let same = self.same_description(one, other)?;
        if !same || !first.external().is_empty() || !first.mappings().is_empty() {
            return Ok(same);
        }
        let plain = !first.datatype().has_vlen() && !first.datatype().has_reference();
        if first.chunked().is_some() && plain {
            return match compare_chunks(first, second) {
                Err(error) if error.is_of_reading() => Err(error),
                compared => Ok(compared.is_ok()),
            };
        }
        match (is_empty(first)?, is_empty(second)?) {
            (true, true) => return Ok(true),
            (false, false) => {}
            _ if first.chunked().is_none() => return Ok(false),
            _ => {}
        }
        let digest = |dataset: &Dataset, item| match digest::dataset_following(dataset, &self.follow(item)) {
            // Data that cannot be compared count as different.
            Err(error) if error.kind() == ErrorKind::MissingFilter => Ok(None),
            digest => digest.map(Some),
        };
        let live = first.is_live();
        let digests = if live { (None, None) } else { (digest(first, one)?, digest(second, other)?) };
        Ok(digests.0.is_some() && digests.0 == digests.1)
    }

    /// Returns whether an author changed an object of its base, or anything below it. Raw data of
    /// the store's datasets are not compared.
    pub(super) fn differs(&self, author: Author, base: Option<usize>, item: usize) -> Result<bool> {
        let Some(base) = base else { return Ok(true) };
        let items = &self.packing.contents.items;
        let mut open = vec![(base, item)];
        let mut seen = HashSet::new();
        let mut reached: Option<HashSet<DatasetId>> = None;
        while let Some((base, item)) = open.pop() {
            if !seen.insert((base, item)) {
                continue;
            }
            let (before, after) = (&items[base], &items[item]);
            if !self.may_match(self.node_kind(base), self.node_kind(item))?
                || !self.same_attributes(author, base, item)?
            {
                return Ok(true);
            }
            if let (NodeKind::Native(one), NodeKind::Native(other)) =
                (self.node_kind(base), self.node_kind(item))
                && !self.same_data(one, other)?
            {
                return Ok(true);
            }
            if let NodeKind::Stored { id, .. } = self.node_kind(item)
                && author
                    .writer
                    .is_some_and(|writer| self.element_writers(self.node_kind(item)).contains(&writer))
            {
                // If another writer moved it, its elements are visible under the new path.
                let reached =
                    reached.get_or_insert_with(|| self.datasets().into_iter().map(|(id, _)| id).collect());
                if !reached.contains(&id) {
                    return Ok(true);
                }
            }
            let links: HashMap<&Name, _> = before.links.iter().map(|link| (&link.name, link)).collect();
            if author.deletes && before.links.len() != after.links.len() {
                return Ok(true);
            }
            for link in &after.links {
                let Some(old) = links.get(&link.name) else { return Ok(true) };
                let (old, new) = match (&old.target, &link.target) {
                    (LinkTarget::Hard(old), LinkTarget::Hard(new)) => (*old, *new),
                    (old, new) if old == new => continue,
                    _ => return Ok(true),
                };
                let contents = &self.packing.contents;
                match (contents.find(before.input, old), contents.find(after.input, new)) {
                    (Some(old), Some(new)) => open.push((old, new)),
                    (None, None) => {}
                    _ => return Ok(true),
                }
            }
        }
        Ok(false)
    }

    fn same_attributes(&self, author: Author, base: usize, item: usize) -> Result<bool> {
        let before = self.packing.contents.items[base].object.attributes()?;
        let after = self.packing.contents.items[item].object.attributes()?;
        if author.deletes && before.len() != after.len() {
            return Ok(false);
        }
        for attribute in &after {
            let Some(old) = before.iter().find(|old| old.name == attribute.name) else { return Ok(false) };
            if !self.same_attribute((base, old), (item, attribute))? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    pub(super) fn native(&self, item: usize) -> Result<&Dataset> {
        let found = self.packing.contents.items.get(item).and_then(|item| item.dataset.as_ref());
        found.ok_or_else(|| Error::invalid("the object is not a dataset"))
    }
}

fn filters(dataset: &Dataset) -> Vec<(u16, bool, Vec<u32>)> {
    let filters = dataset.pipeline().iter();
    filters.map(|filter| (filter.id, filter.optional, filter.parameters.clone())).collect()
}
