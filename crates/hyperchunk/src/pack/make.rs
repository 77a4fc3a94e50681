//! Making the objects of the new file, without their data.

use super::Packing;
use super::list::Item;
use super::translate::{Ends, Translation};
use crate::write::{DatasetOptions, DatasetWriter, NewLayout, NewLink, NodeId, Writer};
use crate::{Error, Result};
use hyperchunk_format::model::{
    AllocationTime, Attribute, FillValue, FillWhen, Layout, LinkTarget, Name, ObjectKind,
};
use std::collections::HashMap;

/// What was made: for each item its object in the new file, and its dataset.
pub(super) struct Made {
    pub(super) nodes: Vec<NodeId>,
    pub(super) datasets: Vec<Option<DatasetWriter>>,
    pub(super) attributes: u64,
}

impl Made {
    /// The address of an object in the new file, by that in a source.
    pub(super) fn address(
        &self,
        packing: &Packing,
        writer: &Writer,
        input: usize,
        old: u64,
    ) -> Result<Option<u64>> {
        let node = packing.contents.find(input, old).and_then(|item| self.nodes.get(item));
        node.map(|node| writer.address(*node)).transpose()
    }
}

/// Makes all objects, their links and attributes.
pub(super) fn make(packing: &Packing, writer: &Writer) -> Result<Made> {
    let contents = &packing.contents;
    let count = contents.items.len();
    let mut made =
        Made { nodes: Vec::with_capacity(count), datasets: Vec::with_capacity(count), attributes: 0 };
    let mut roots = HashMap::new();
    for (number, item) in contents.items.iter().enumerate() {
        let named = |error: Error| item.object.name(error);
        let tracked = item.object.header().attribute_order_tracked;
        let mut dataset = None;
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
            // Those may use committed datatypes that come later.
            ObjectKind::Dataset => NodeId::ROOT,
        };
        made.nodes.push(node);
        made.datasets.push(dataset.take());
    }
    for (number, item) in contents.items.iter().enumerate() {
        if item.dataset.is_some() {
            let dataset = make_dataset(packing, writer, &made, number, item, tracked(item));
            let dataset = dataset.map_err(|error| item.object.name(error))?;
            made.nodes[number] = dataset.id();
            made.datasets[number] = Some(dataset);
        }
    }
    for (number, item) in contents.items.iter().enumerate() {
        links(packing, writer, &made, number, item)?;
        made.attributes +=
            attributes(packing, writer, &made, number, item).map_err(|error| item.object.name(error))?;
        if let Some(comment) = item.object.comment()? {
            writer.set_comment(made.nodes[number], Some(comment))?;
        }
    }
    Ok(made)
}

fn tracked(item: &Item) -> bool {
    item.object.header().attribute_order_tracked
}

/// The group that a source's root group becomes.
fn root(
    packing: &Packing,
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
    for (place, name) in names.iter().enumerate() {
        path.extend([b"/", name.as_bytes()].concat());
        node = match roots.get(&path) {
            Some(node) => *node,
            None => {
                let last = place + 1 == names.len();
                let made = writer.create_group(node, name.as_bytes(), tracked && last)?;
                roots.insert(path.clone(), made);
                made
            }
        };
    }
    Ok(node)
}

fn make_dataset(
    packing: &Packing,
    writer: &Writer,
    made: &Made,
    number: usize,
    item: &Item,
    track_order: bool,
) -> Result<DatasetWriter> {
    let none = || Error::invalid("a dataset without a plan");
    let plan = packing.plans.get(number).and_then(Option::as_ref).ok_or_else(none)?;
    let dataset = item.dataset.as_ref().ok_or_else(none)?;
    let address = |old| made.address(packing, writer, item.input, old);
    let mut fill = dataset.fill().clone();
    if let FillWhen::User(value) = &fill.value {
        let ends = Ends { file: item.object.file(), writer, address: &address, attribute: true };
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
    let committed = match dataset.committed() {
        Some(old) => address(old)?,
        None => None,
    };
    let mut options = DatasetOptions::new(plan.translation.datatype.clone(), plan.dataspace.clone())
        .with_layout(plan.layout.clone())
        .with_pipeline(plan.pipeline.clone());
    options.committed = committed;
    options.fill = fill;
    options.track_order = track_order;
    writer.create_dataset(NodeId::ROOT, b"", options)
}

fn links(packing: &Packing, writer: &Writer, made: &Made, number: usize, item: &Item) -> Result<()> {
    let contents = &packing.contents;
    for link in &item.links {
        let target = match &link.target {
            LinkTarget::Hard(old) => {
                let to = contents.find(item.input, *old).and_then(|to| made.nodes.get(to));
                NewLink::Hard(*to.ok_or_else(|| item.object.name(Error::corrupt("a link to nothing")))?)
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
        let linked = writer.link(made.nodes[number], link.name.as_bytes(), target);
        linked.map_err(|error| error.object(format_args!("{} in {}", link.name, Name::from(&*item.path))))?;
    }
    Ok(())
}

fn attributes(packing: &Packing, writer: &Writer, made: &Made, number: usize, item: &Item) -> Result<u64> {
    let mut all = item.object.attributes()?;
    if tracked(item) {
        all.sort_by_key(|attribute| attribute.creation_order);
    }
    let count = all.len() as u64;
    let address = |old| made.address(packing, writer, item.input, old);
    let ends = Ends { file: item.object.file(), writer, address: &address, attribute: true };
    let node = made.nodes[number];
    let shared = packing.contents.inputs.len() > 1 && packing.contents.roots.contains(&number);
    for attribute in all {
        let named = |error: Error| {
            let message = format!("attribute {}: {}", attribute.name, error.message());
            Error::new(error.kind(), message)
        };
        let sizes = item.object.file().superblock().sizes;
        let translation = Translation::new(&attribute.datatype, sizes).map_err(named)?;
        let new = Attribute {
            data: translation.run(&attribute.data, &ends).map_err(named)?,
            datatype: translation.datatype,
            committed: attribute.committed.map(address).transpose()?.flatten(),
            ..attribute.clone()
        };
        if shared && let Some(other) = writer.attribute(node, new.name.as_bytes())? {
            let same =
                other.datatype == new.datatype && other.dataspace == new.dataspace && other.data == new.data;
            if !same {
                return Err(Error::invalid(format!(
                    "attribute {} has another value in another file that goes to the same group",
                    new.name
                )));
            }
            continue;
        }
        writer.set_attribute(node, new).map_err(named)?;
    }
    Ok(count)
}
