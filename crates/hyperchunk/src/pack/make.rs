//! Creation of the new file's objects, without their data.

use super::PackPlan;
use super::list::Item;
use super::translate::{AddressContext, Translation};
use crate::write::{DatasetOptions, DatasetWriter, NewLayout, NewLink, NodeId, Writer};
use crate::{Error, Result};
use hyperchunk_format::model::{
    AllocationTime, Attribute, FillValue, FillWhen, Layout, LinkTarget, Name, ObjectKind,
};
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// Maximum number of target objects recorded for references that became null.
const MAX_LOST_TARGETS: usize = 20;

/// Handling of references to objects that are not copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Outside {
    /// Replaces their address by the undefined address.
    Undefined,
    /// Replaces them by null references.
    Null,
    /// Keeps them: the copy is in the same file.
    Stays,
}

/// The objects of the new file, by item.
#[derive(Debug)]
pub struct CreatedObjects {
    /// New object of each item; `None` if it is not created.
    pub nodes: Vec<Option<NodeId>>,
    /// New dataset of each item; `None` if it is no dataset or not created.
    pub datasets: Vec<Option<DatasetWriter>>,
    /// Number of attributes that were created.
    pub(super) attributes: u64,
    pub(crate) outside: Outside,
    /// Number of references that became null.
    pub(super) lost: AtomicU64,
    /// Addresses of the first [`MAX_LOST_TARGETS`] objects to which these references pointed.
    lost_targets: Mutex<BTreeSet<u64>>,
    /// True if committed datatypes that are used, but not among the items, are created, too.
    pub(super) copies_types: bool,
    /// These datatypes, by input and address in it.
    unlinked_types: Mutex<HashMap<(usize, u64), NodeId>>,
}

impl CreatedObjects {
    /// Creates an empty list for this number of items.
    pub fn new(items: usize) -> Self {
        Self {
            nodes: vec![None; items],
            datasets: vec![None; items],
            attributes: 0,
            outside: Outside::Undefined,
            lost: AtomicU64::new(0),
            lost_targets: Mutex::default(),
            copies_types: false,
            unlinked_types: Mutex::default(),
        }
    }

    /// Returns the number of references that became null since the last call, and the addresses of the first
    /// objects to which they pointed.
    pub(crate) fn take_lost(&self) -> (u64, BTreeSet<u64>) {
        let mut targets = self.lost_targets.lock().unwrap_or_else(PoisonError::into_inner);
        (self.lost.swap(0, Ordering::Relaxed), std::mem::take(&mut targets))
    }

    fn node(&self, item: usize) -> Result<NodeId> {
        let node = self.nodes.get(item).copied().flatten();
        node.ok_or_else(|| Error::invalid("the object has not been created in the new file"))
    }

    /// Returns the address in the new file of the object that has address `old` in a source. For a missing
    /// object, `None`, or 0 if references to it become null.
    pub fn address(
        &self,
        packing: &PackPlan,
        writer: &Writer,
        input: usize,
        old: u64,
    ) -> Result<Option<u64>> {
        let found = self.object_address(packing, writer, input, old)?;
        if found.is_none() && self.outside == Outside::Null {
            // An undefined address referred to nothing before.
            if old == u64::MAX {
                return Ok(Some(0));
            }
            self.lost.fetch_add(1, Ordering::Relaxed);
            let mut targets = self.lost_targets.lock().unwrap_or_else(PoisonError::into_inner);
            if targets.len() < MAX_LOST_TARGETS {
                targets.insert(old);
            }
            return Ok(Some(0));
        }
        Ok(found)
    }

    /// Returns the address in the new file of the committed datatype that a dataset or an attribute of an item
    /// uses. If it is no item, it is created without a link, as libhdf5 does; one that cannot be read is left out,
    /// since its users have the datatype, too.
    fn committed(
        &self,
        packing: &PackPlan,
        writer: &Writer,
        item: &Item,
        old: Option<u64>,
    ) -> Result<Option<u64>> {
        let Some(old) = old else { return Ok(None) };
        let found = self.object_address(packing, writer, item.input, old)?;
        if found.is_some() || !self.copies_types {
            return Ok(found);
        }
        let file = item.object.file();
        let Ok(datatype) = file.object(old).and_then(|object| object.datatype()) else { return Ok(None) };
        let mut types = self.unlinked_types.lock().unwrap_or_else(PoisonError::into_inner);
        let node = match types.get(&(item.input, old)) {
            Some(node) => *node,
            None => {
                let datatype = Translation::new(&datatype, file.superblock().sizes)?.datatype;
                let node = writer.commit_datatype(NodeId::ROOT, b"", datatype)?;
                types.insert((item.input, old), node);
                node
            }
        };
        writer.address(node).map(Some)
    }

    /// Returns the address in the new file of the object that has address `old` in a source; `None` if it is
    /// missing.
    fn object_address(
        &self,
        packing: &PackPlan,
        writer: &Writer,
        input: usize,
        old: u64,
    ) -> Result<Option<u64>> {
        let node = packing.contents.find(input, old).and_then(|item| self.nodes.get(item).copied().flatten());
        let node = match node {
            None if self.outside == Outside::Stays => writer.edited_object(old),
            node => node,
        };
        node.map(|node| writer.address(node)).transpose()
    }
}

/// Creates all objects, their links and attributes.
pub(super) fn make(packing: &PackPlan, writer: &Writer) -> Result<CreatedObjects> {
    let mut made = CreatedObjects::new(packing.contents.items.len());
    make_in(packing, writer, &mut made)?;
    Ok(made)
}

/// Creates all objects, their links and attributes, and adds the objects to `made`.
pub(super) fn make_in(packing: &PackPlan, writer: &Writer, made: &mut CreatedObjects) -> Result<()> {
    let contents = &packing.contents;
    let mut roots = HashMap::new();
    for (number, item) in contents.items.iter().enumerate() {
        let named = |error: Error| item.object.with_context(error);
        let tracked = tracked(item);
        let node = match item.object.kind() {
            ObjectKind::Group => {
                let tracked = tracked || item.object.group()?.tracks_order()?;
                if contents.roots.contains(&number) {
                    root(packing, writer, item, tracked, &mut roots)?
                } else {
                    writer.create_group(NodeId::ROOT, b"", tracked)?
                }
            }
            ObjectKind::Datatype => {
                let sizes = item.object.file().superblock().sizes;
                let datatype = Translation::new(&item.object.datatype()?, sizes).map_err(named)?.datatype;
                writer.commit_datatype(NodeId::ROOT, b"", datatype).map_err(named)?
            }
            // Datasets are created later, as they may use any committed datatype.
            ObjectKind::Dataset => continue,
        };
        made.nodes[number] = Some(node);
    }
    for (number, item) in contents.items.iter().enumerate() {
        if item.dataset.is_some() {
            let dataset = make_dataset(packing, writer, made, number, tracked(item));
            let dataset = dataset.map_err(|error| item.object.with_context(error))?;
            made.nodes[number] = Some(dataset.id());
            made.datasets[number] = Some(dataset);
        }
    }
    for (number, item) in contents.items.iter().enumerate() {
        links(packing, writer, made, number, item)?;
        made.attributes += attributes(packing, writer, made, number, item)
            .map_err(|error| item.object.with_context(error))?;
        if let Some(comment) = item.object.comment()? {
            writer.set_comment(made.node(number)?, Some(comment))?;
        }
    }
    Ok(())
}

/// Returns whether the creation order of the item's attributes is tracked.
pub fn tracked(item: &Item) -> bool {
    item.object.header().attribute_order_tracked
}

/// Creates or finds the group of the new file to which a source's root group is copied.
fn root(
    packing: &PackPlan,
    writer: &Writer,
    item: &Item,
    tracked: bool,
    roots: &mut HashMap<Vec<u8>, NodeId>,
) -> Result<NodeId> {
    let into = &packing.contents.inputs[item.input].into;
    let mut node = NodeId::ROOT;
    let mut path = Vec::new();
    let names: Vec<&str> = into.split('/').filter(|name| !name.is_empty()).collect();
    if names.is_empty() && tracked {
        writer.track_root_order(true)?;
    }
    for (depth, name) in names.iter().enumerate() {
        path.extend([b"/", name.as_bytes()].concat());
        node = match roots.get(&path) {
            Some(node) => *node,
            None => {
                let last = depth + 1 == names.len();
                let made = writer.create_group(node, name.as_bytes(), tracked && last)?;
                roots.insert(path.clone(), made);
                made
            }
        };
    }
    Ok(node)
}

/// Creates the dataset of an item as planned, without data and without a link.
pub fn make_dataset(
    packing: &PackPlan,
    writer: &Writer,
    made: &CreatedObjects,
    number: usize,
    track_order: bool,
) -> Result<DatasetWriter> {
    let none = || Error::invalid("the dataset has not been planned");
    let item = packing.contents.items.get(number).ok_or_else(none)?;
    let plan = packing.plans.get(number).and_then(Option::as_ref).ok_or_else(none)?;
    let dataset = item.dataset.as_ref().ok_or_else(none)?;
    let address = |old| made.address(packing, writer, item.input, old);
    let mut fill = dataset.fill().clone();
    if let FillWhen::User(value) = &fill.value {
        let ends = AddressContext { file: item.object.file(), writer, address: &address, attribute: true };
        fill.value = FillWhen::User(plan.translation.run(value, &ends)?);
    }
    let same_layout = matches!(
        (dataset.layout(), &plan.layout),
        (Layout::Chunked(_), NewLayout::Chunked(_))
            | (Layout::Contiguous { .. }, NewLayout::Contiguous | NewLayout::External(_))
            | (Layout::Compact { .. }, NewLayout::Compact)
            | (Layout::Virtual { .. }, NewLayout::Virtual(_))
    );
    if !same_layout {
        fill = FillValue { allocation: AllocationTime::Default, ..fill };
    }
    let committed = made.committed(packing, writer, item, dataset.committed())?;
    let mut options = DatasetOptions::new(plan.translation.datatype.clone(), plan.dataspace.clone())
        .with_layout(plan.layout.clone())
        .with_pipeline(plan.pipeline.clone());
    options.committed = committed;
    options.fill = fill;
    options.track_order = track_order;
    writer.create_dataset(NodeId::ROOT, b"", options)
}

fn links(
    packing: &PackPlan,
    writer: &Writer,
    made: &CreatedObjects,
    number: usize,
    item: &Item,
) -> Result<()> {
    let contents = &packing.contents;
    for link in &item.links {
        let target = match &link.target {
            LinkTarget::Hard(old) => {
                let to = contents.find(item.input, *old).and_then(|to| made.node(to).ok());
                let missing = || Error::corrupt(format!("the target of the link {} is missing", link.name));
                NewLink::Hard(to.ok_or_else(|| item.object.with_context(missing()))?)
            }
            LinkTarget::Soft(path) => {
                let moved = contents.moved(item.input, path.as_bytes());
                NewLink::Soft(moved.map_or_else(|| path.clone(), |path| Name::from(&*path)))
            }
            LinkTarget::External { file, path } => {
                NewLink::External { file: file.clone(), path: path.clone() }
            }
            LinkTarget::User { class, data } => NewLink::User { class: *class, data: data.clone() },
        };
        let linked = writer.link(made.node(number)?, link.name.as_bytes(), target);
        linked.map_err(|error| error.object(format_args!("{} in {}", link.name, Name::from(&*item.path))))?;
    }
    Ok(())
}

fn attributes(
    packing: &PackPlan,
    writer: &Writer,
    made: &CreatedObjects,
    number: usize,
    item: &Item,
) -> Result<u64> {
    let mut all = item.object.attributes()?;
    if tracked(item) {
        all.sort_by_key(|attribute| attribute.creation_order);
    }
    let count = all.len() as u64;
    let node = made.node(number)?;
    let shared = packing.contents.inputs.len() > 1 && packing.contents.roots.contains(&number);
    for old in all {
        let new = attribute(packing, writer, made, item, old, false)?;
        if shared && let Some(other) = writer.attribute(node, new.name.as_bytes())? {
            let same =
                other.datatype == new.datatype && other.dataspace == new.dataspace && other.data == new.data;
            if !same {
                return Err(Error::invalid(format!(
                    "cannot merge the files into one group: they have different values of the attribute {}",
                    new.name
                )));
            }
            continue;
        }
        let name = new.name.clone();
        writer.set_attribute(node, new).map_err(|error| name_attribute(&name, error))?;
    }
    Ok(count)
}

/// Translates an attribute of an item for the new file, including its references. With `detaches`, missing
/// dimension scales are removed from the attribute `DIMENSION_LIST`.
pub fn attribute(
    packing: &PackPlan,
    writer: &Writer,
    made: &CreatedObjects,
    item: &Item,
    old: Attribute,
    detaches: bool,
) -> Result<Attribute> {
    let address = |old| made.address(packing, writer, item.input, old);
    let ends = AddressContext { file: item.object.file(), writer, address: &address, attribute: true };
    let named = |error| name_attribute(&old.name, error);
    let translation =
        Translation::new(&old.datatype, item.object.file().superblock().sizes).map_err(named)?;
    let is_of_scales = detaches && old.name.as_bytes() == b"DIMENSION_LIST";
    let translation = if is_of_scales { translation.without_dangling() } else { translation };
    Ok(Attribute {
        data: translation.run(&old.data, &ends).map_err(named)?,
        datatype: translation.datatype,
        committed: made.committed(packing, writer, item, old.committed)?,
        ..old.clone()
    })
}

fn name_attribute(name: &Name, error: Error) -> Error {
    let message = format!("attribute {name}: {}", error.message());
    Error::new(error.kind(), message)
}
