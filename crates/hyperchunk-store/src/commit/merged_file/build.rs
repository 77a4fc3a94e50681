//! Writing of the merged file.

use super::Merge;
use super::tree::{Attr, NodeKind, Target};
use crate::commit::virtual_blocks;
use crate::commit::virtual_blocks::Blocks;
use crate::format::stamp;
use crate::format::stamp::Stamp;
use crate::{DatasetId, Definition, Marker};
use hyperchunk::internal::pack::{
    CreatedObjects, Translation, attribute as write_attribute, copy, dataset_plan, is_null_reference,
    make_dataset, needed,
};
use hyperchunk::pack::{Chunking, Filtering};
use hyperchunk::write::{
    CreateOptions, DatasetOptions, DatasetWriter, MemorySink, NewLayout, NewLink, NodeId, Sync, Writer,
};
use hyperchunk::{Error, Result};
use hyperchunk_format::encode::LibVersion;
use hyperchunk_format::model::{
    AllocationTime, Attribute, Class, Dataspace, Datatype, ExternalFile, FillTime, FillValue, FillWhen,
    LinkTarget, ReferenceKind,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A dataset of the store as represented in a skeleton.
#[derive(Debug, Clone)]
pub struct SkeletonDataset {
    /// Datatype of its elements.
    pub datatype: Datatype,
    /// Its extent.
    pub dims: Vec<u64>,
    /// Segments of logs that hold all its data; `None` if it cannot be read without the store.
    pub segments: Option<Vec<ExternalFile>>,
    /// Blocks that hold its data, if there are too many segments.
    pub blocks: Option<Blocks>,
    /// Value of unwritten elements.
    pub fill: FillWhen,
    /// Its definition, if no epoch has it yet.
    pub definition: Option<Arc<Definition>>,
}

impl Merge {
    /// Writes the new skeleton, for an epoch of a store.
    ///
    /// # Errors
    /// Invalid if a dataset of [`Merge::datasets`] is not in `stored`; errors of reading the
    /// sources, and of writing.
    pub fn write(&mut self, stamp: Stamp, stored: &HashMap<DatasetId, SkeletonDataset>) -> Result<Vec<u8>> {
        let datatypes = stored.values().map(|shown| &shown.datatype);
        let oldest = datatypes
            .map(needed)
            .try_fold(self.prepare()?, |oldest, needed| Ok::<_, Error>(oldest.max(needed?)))?;
        let sink = Arc::new(MemorySink::default());
        let mut options = CreateOptions::default();
        options.oldest = oldest;
        options.threads = 1;
        options.sync = Sync::Never;
        let writer = Writer::create_in(Arc::<MemorySink>::clone(&sink), None, &options)?;
        stamp::write(&writer, stamp)?;
        let epoch = stamp.epoch();
        self.build(&writer, &|id| Some(marker_options(Marker { dataset: id, epoch }, stored.get(&id)?)))?;
        let mut virtual_ones: Vec<_> =
            stored.iter().filter_map(|(id, shown)| Some((*id, shown, shown.blocks.as_ref()?))).collect();
        virtual_ones.sort_by_key(|(id, _, _)| *id);
        if !virtual_ones.is_empty() {
            let group = writer.create_group(NodeId::ROOT, hyperchunk::storage::BLOCKS, false)?;
            for (dataset, shown, blocks) in virtual_ones {
                virtual_blocks::make(&writer, group, Marker { dataset, epoch }, &shown.datatype, blocks)?;
            }
        }
        writer.close()?;
        Ok(sink.bytes())
    }

    /// Creates all objects in a new file; `options` returns the creation options of the store's
    /// datasets. Returns these datasets, which have no data yet. [`Merge::prepare`] must be called
    /// first.
    pub(crate) fn build(
        &self,
        writer: &Writer,
        options: &dyn Fn(DatasetId) -> Option<DatasetOptions>,
    ) -> Result<HashMap<DatasetId, DatasetWriter>> {
        let reached = self.reachable_nodes();
        let nodes = self.objects(writer, &reached, options)?;
        for node in &reached {
            self.write_links(writer, *node, &nodes)?;
        }
        let mut made = self.created_objects(&nodes);
        for node in &reached {
            self.write_attributes(writer, *node, &nodes, &made)?;
        }
        let mut stored = HashMap::new();
        for node in &reached {
            let Some(Some(id)) = nodes.get(*node) else { continue };
            match self.nodes[*node].kind {
                NodeKind::Native(item) => made.datasets[item] = Some(writer.dataset(*id)?),
                NodeKind::Stored { id: dataset, .. } => {
                    stored.insert(dataset, writer.dataset(*id)?);
                }
                NodeKind::Group | NodeKind::Datatype(_) => {}
            }
        }
        copy(&self.packing, writer, &made, &|_| ())?;
        for node in &reached {
            if let NodeKind::Native(item) = self.nodes[*node].kind
                && let Some(dataset) = &made.datasets[item]
            {
                self.write_elements(writer, &made, *node, dataset)?;
            }
        }
        Ok(stored)
    }

    /// Plans the copies of native datasets; returns the oldest release that can read all objects
    /// except the store's datasets.
    pub(crate) fn prepare(&mut self) -> Result<LibVersion> {
        let mut oldest = LibVersion::default();
        let mut plans: Vec<_> = self.packing.contents.items.iter().map(|_| None).collect();
        for node in self.reachable_nodes().into_iter().map(|node| &self.nodes[node]) {
            let mut needs = |item: usize, datatype: &Datatype| -> Result<()> {
                let object = &self.packing.contents.items[item].object;
                let sizes = object.file().superblock().sizes;
                let datatype =
                    Translation::new(datatype, sizes).map_err(|error| object.with_context(error))?.datatype;
                oldest = oldest.max(needed(&datatype).map_err(|error| object.with_context(error))?);
                Ok(())
            };
            for attr in &node.attributes {
                needs(attr.item, &attr.attribute.datatype)?;
            }
            match node.kind {
                NodeKind::Group | NodeKind::Stored { .. } => {}
                NodeKind::Datatype(item) => {
                    needs(item, &self.packing.contents.items[item].object.datatype()?)?
                }
                NodeKind::Native(item) => {
                    let listed = &self.packing.contents.items[item];
                    let Some(dataset) = &listed.dataset else { continue };
                    needs(item, dataset.datatype())?;
                    let keep = (&Chunking::Keep, &Filtering::Keep);
                    let plan = dataset_plan(&self.packing.contents, listed, dataset, false, keep);
                    let plan = plan.map_err(|error| listed.object.with_context(error))?;
                    oldest = oldest.max(plan.oldest());
                    plans[item] = Some(plan);
                }
            }
        }
        self.packing.oldest = oldest;
        self.packing.plans = plans;
        Ok(oldest)
    }

    /// Returns the object of the new file for each object of each source file.
    fn created_objects(&self, nodes: &[Option<NodeId>]) -> CreatedObjects {
        let mut made = CreatedObjects::new(self.node_of.len());
        for (place, node) in made.nodes.iter_mut().zip(&self.node_of) {
            *place = node.and_then(|node| nodes.get(node).copied().flatten());
        }
        made
    }

    /// Creates all objects; users of committed datatypes after the datatypes.
    fn objects(
        &self,
        writer: &Writer,
        reached: &[usize],
        options: &dyn Fn(DatasetId) -> Option<DatasetOptions>,
    ) -> Result<Vec<Option<NodeId>>> {
        let mut nodes = vec![None; self.nodes.len()];
        for number in reached {
            let node = &self.nodes[*number];
            nodes[*number] = match node.kind {
                NodeKind::Group if *number == 0 => {
                    writer.track_root_order(node.tracked)?;
                    Some(NodeId::ROOT)
                }
                NodeKind::Group => Some(writer.create_group(NodeId::ROOT, b"", node.tracked)?),
                NodeKind::Datatype(item) => {
                    let object = &self.packing.contents.items[item].object;
                    let sizes = object.file().superblock().sizes;
                    let datatype = Translation::new(&object.datatype()?, sizes)?.datatype;
                    Some(writer.commit_datatype(NodeId::ROOT, b"", datatype)?)
                }
                NodeKind::Native(_) | NodeKind::Stored { .. } => None,
            };
        }
        let made = self.created_objects(&nodes);
        for number in reached {
            let node = &self.nodes[*number];
            let named = |error: Error| error.object(String::from_utf8_lossy(&node.path));
            let dataset = match node.kind {
                NodeKind::Native(item) => {
                    make_dataset(&self.packing, writer, &made, item, node.tracked).map_err(named)?
                }
                NodeKind::Stored { id, item } => {
                    let none = || named(Error::invalid(format!("no definition of the dataset {id}")));
                    let mut options = options(id).ok_or_else(none)?;
                    options.track_order = node.tracked;
                    options.committed = match item {
                        Some(item) => self.committed(writer, &made, item)?,
                        None => None,
                    };
                    writer.create_dataset(NodeId::ROOT, b"", options).map_err(named)?
                }
                _ => continue,
            };
            nodes[*number] = Some(dataset.id());
        }
        for number in reached {
            if let (Some(comment), Some(id)) = (&self.nodes[*number].comment, nodes[*number]) {
                writer.set_comment(id, Some(comment.clone()))?;
            }
        }
        Ok(nodes)
    }

    /// Returns the address of the committed datatype that a marker uses.
    fn committed(&self, writer: &Writer, made: &CreatedObjects, item: usize) -> Result<Option<u64>> {
        let item = &self.packing.contents.items[item];
        match item.dataset.as_ref().and_then(|dataset| dataset.committed()) {
            Some(old) => made.address(&self.packing, writer, item.input, old),
            None => Ok(None),
        }
    }

    fn write_links(&self, writer: &Writer, number: usize, nodes: &[Option<NodeId>]) -> Result<()> {
        let Some(group) = nodes[number] else { return Ok(()) };
        for link in self.nodes[number].links() {
            let target = match &link.target {
                Target::Node(to) => match nodes[*to] {
                    Some(to) => NewLink::Hard(to),
                    None => continue,
                },
                Target::Elsewhere(LinkTarget::Soft(path)) => NewLink::Soft(path.clone()),
                Target::Elsewhere(LinkTarget::External { file, path }) => {
                    NewLink::External { file: file.clone(), path: path.clone() }
                }
                Target::Elsewhere(LinkTarget::User { class, data }) => {
                    NewLink::User { class: *class, data: data.clone() }
                }
                Target::Elsewhere(LinkTarget::Hard(_)) => continue,
            };
            writer.link(group, link.name.as_bytes(), target)?;
        }
        Ok(())
    }

    fn write_attributes(
        &self,
        writer: &Writer,
        number: usize,
        nodes: &[Option<NodeId>],
        made: &CreatedObjects,
    ) -> Result<()> {
        let Some(id) = nodes[number] else { return Ok(()) };
        let node = &self.nodes[number];
        let named = |error: Error| error.object(String::from_utf8_lossy(&node.path));
        for attr in &node.attributes {
            let new = |item: usize, attribute: &Attribute| {
                let item = &self.packing.contents.items[item];
                write_attribute(&self.packing, writer, made, item, attribute.clone(), true)
            };
            let mut attribute = new(attr.item, &attr.attribute).map_err(named)?;
            let all = std::iter::once(Ok(attribute.clone()))
                .chain(attr.also.iter().map(|(item, attribute)| new(*item, attribute)));
            if let Some(entries) = reference_list(attr)? {
                let all: Vec<Attribute> = all.collect::<Result<_>>().map_err(named)?;
                let Some(data) = union(&entries, &all) else { continue };
                let count = data.len() as u64 / attribute.datatype.size.max(1);
                attribute.dataspace = Dataspace::Simple { dims: vec![count], max: vec![Some(count)] };
                attribute.data = data;
            }
            writer.set_attribute(id, attribute).map_err(named)?;
        }
        Ok(())
    }
}

/// Returns the creation options of a store's dataset in a skeleton.
fn marker_options(marker: Marker, stored: &SkeletonDataset) -> DatasetOptions {
    let dims = stored.dims.clone();
    let max = dims.iter().copied().map(Some).collect();
    let dataspace = if dims.is_empty() { Dataspace::Scalar } else { Dataspace::Simple { dims, max } };
    if let Some(blocks) = &stored.blocks {
        let (layout, fill) = virtual_blocks::layout(marker, blocks);
        let mut options = DatasetOptions::new(stored.datatype.clone(), dataspace).with_layout(layout);
        options.fill = fill;
        return options;
    }
    let segments = stored.segments.as_deref().filter(|_| !stored.dims.contains(&0));
    let mut files = segments.unwrap_or_default().to_vec();
    let defining = stored.definition.as_ref().filter(|_| segments.is_none());
    let entry = defining.and_then(|definition| definition.to_external_file(&marker).ok());
    files.push(entry.unwrap_or_else(|| marker.to_external_file(segments.is_some())));
    let mut options =
        DatasetOptions::new(stored.datatype.clone(), dataspace).with_layout(NewLayout::External(files));
    // If the data cannot be read, there must be no fill value in their place.
    let value = if segments.is_some() { stored.fill.clone() } else { FillWhen::Undefined };
    options.fill = FillValue { value, allocation: AllocationTime::Late, time: FillTime::Never };
    options
}

/// Layout of an element of `REFERENCE_LIST`, the list of the datasets that use a dimension scale: its
/// size, and the offsets of the reference and of the dimension's number.
struct Entries {
    size: usize,
    reference: usize,
    index: usize,
}

/// Returns the layout of the elements of an attribute that is such a list; `None` for other attributes.
fn reference_list(attr: &Attr) -> Result<Option<Entries>> {
    let Class::Compound { members } = &attr.attribute.datatype.class else { return Ok(None) };
    let [first, second] = &**members else { return Ok(None) };
    let is_reference = first.datatype.class == Class::Reference(ReferenceKind::Object1);
    if attr.attribute.name.as_bytes() != b"REFERENCE_LIST" || !is_reference || second.datatype.size != 4 {
        return Ok(None);
    }
    let narrow = |size: u64| usize::try_from(size).map_err(|_| Error::limit("an element larger than memory"));
    let (size, reference, index) =
        (narrow(attr.attribute.datatype.size)?, narrow(first.offset)?, narrow(second.offset)?);
    // References in files with narrow addresses are widened, so the list is left as it is.
    Ok((first.datatype.size == 8).then_some(Entries { size, reference, index }))
}

/// Merges the elements of all lists without duplicates and dangling references; `None` if there are
/// no elements.
fn union(entries: &Entries, lists: &[Attribute]) -> Option<Vec<u8>> {
    let mut seen = HashSet::new();
    let mut data = Vec::new();
    for element in lists.iter().flat_map(|list| list.data.chunks_exact(entries.size.max(1))) {
        let part = |at: usize, length: usize| element.get(at..at.saturating_add(length)).unwrap_or_default();
        let reference = part(entries.reference, 8);
        if !is_null_reference(reference) && seen.insert((reference.to_vec(), part(entries.index, 4).to_vec()))
        {
            data.extend_from_slice(element);
        }
    }
    (!data.is_empty()).then_some(data)
}
