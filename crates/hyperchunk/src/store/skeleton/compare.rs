//! What is the same in two files.

use super::Merge;
use super::tree::Thing;
use crate::pack::plan;
use crate::pack::translate::Translation;
use crate::pack::verify::compare_chunks;
use crate::{Dataset, Error, ErrorKind, Result, digest};
use hyperchunk_format::model::{Attribute, Datatype, Layout, Name, Reference};

impl Merge {
    fn new_type(&self, item: usize, datatype: &Datatype) -> Result<Datatype> {
        let object = &self.packing.contents.items[item].object;
        let sizes = object.file().superblock().sizes;
        Ok(Translation::new(datatype, sizes).map_err(|error| object.name(error))?.datatype)
    }

    /// What a reference leads to, in words that are the same for all files.
    fn follow(&self, item: usize) -> impl Fn(&Reference) -> Vec<u8> + '_ {
        let input = self.packing.contents.items[item].input;
        move |reference: &Reference| {
            let region = reference.region.as_ref().map(|region| &region.selection);
            let found =
                reference.file.is_none().then(|| self.packing.contents.find(input, reference.address));
            // A dataset of the store is itself by whatever path, and another one of the same path is another one.
            let name = |to: usize| match self.thing(to) {
                Thing::Stored { id, .. } => id.to_string(),
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

    /// Whether two native datasets are the same, their attributes left aside.
    pub(super) fn same_data(&self, one: usize, other: usize) -> Result<bool> {
        let (first, second) = (self.native(one)?, self.native(other)?);
        let description = |dataset: &Dataset| {
            let kind = match dataset.layout() {
                Layout::Chunked(chunked) => Some(chunked.dims.clone()),
                Layout::Compact { .. } | Layout::Contiguous { .. } => None,
                // By their sources.
                Layout::Virtual { .. } => Some(Vec::new()),
            };
            (kind, dataset.dataspace().clone(), dataset.fill().value.clone())
        };
        let same = description(first) == description(second)
            && self.new_type(one, first.datatype())? == self.new_type(other, second.datatype())?
            && filters(first) == filters(second)
            && first.external() == second.external()
            && first.mappings() == second.mappings();
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
        match (plan::is_empty(first)?, plan::is_empty(second)?) {
            (true, true) => return Ok(true),
            (false, false) => {}
            _ if first.chunked().is_none() => return Ok(false),
            _ => {}
        }
        let digest = |dataset: &Dataset, item| match digest::dataset_following(dataset, &self.follow(item)) {
            // What cannot be compared is not the same.
            Err(error) if error.kind() == ErrorKind::MissingFilter => Ok(None),
            digest => digest.map(Some),
        };
        let live = first.is_live();
        let digests = if live { (None, None) } else { (digest(first, one)?, digest(second, other)?) };
        Ok(digests.0.is_some() && digests.0 == digests.1)
    }

    fn native(&self, item: usize) -> Result<&Dataset> {
        let found = self.packing.contents.items.get(item).and_then(|item| item.dataset.as_ref());
        found.ok_or_else(|| Error::invalid("an object that is no dataset"))
    }
}

fn filters(dataset: &Dataset) -> Vec<(u16, bool, Vec<u32>)> {
    let filters = dataset.pipeline().iter();
    filters.map(|filter| (filter.id, filter.optional, filter.parameters.clone())).collect()
}
