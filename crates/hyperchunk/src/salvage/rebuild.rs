//! Writing of the new file with the undamaged content, by the code of packing.

use super::check::ObjectCheck;
use super::copying::Pair;
use super::find::{FoundObject, KnownObjects};
use super::report::{Condition, Loss, SalvageReport, SalvagedObject};
use super::{LOST_AND_FOUND, MISSING_ATTRIBUTE, SalvageOptions, Step, structure};
use crate::pack::list::{Contents, Item};
use crate::pack::make::{self, CreatedObjects, Outside};
use crate::pack::plan::{self, CopyMethod, Plan};
use crate::pack::translate::Translation;
use crate::pack::{Chunking, Filtering, Input, PackOptions, PackPlan, copy};
use crate::write::{CreateOptions, DatasetWriter, LocalSink, NewLink, NodeId, Sink as _, Writer};
use crate::{Dataset, Error, File, Result};
use hyperchunk_format::encode::LibVersion;
use hyperchunk_format::model::{
    Attribute, ByteOrder, CharacterSet, Dataspace, Datatype, LinkTarget, Name, ObjectKind,
};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// Writes the new file; returns a report with the condition of each object.
pub(super) fn rebuild(
    found: KnownObjects,
    checks: Vec<ObjectCheck>,
    file: &File,
    output: &Path,
    options: &SalvageOptions,
    damage: Vec<String>,
    progress: &(dyn Fn(Step, u64) + Sync),
) -> Result<SalvageReport> {
    let mut salvage = Rebuild::plan(found, checks, file, options);
    salvage.report.damage = damage;
    let create = CreateOptions {
        oldest: salvage.packing.oldest,
        threads: options.threads,
        replace: options.replace,
        user_block: salvage.packing.user_block().unwrap_or(0),
        ..CreateOptions::default()
    };
    let name = output.to_string_lossy();
    salvage.packing.contents.check_not_a_source(output)?;
    loop {
        let planned = salvage.report.clone();
        let sink = Arc::new(LocalSink::create(output, create.sync, create.replace, create.locking)?);
        let written = Writer::create_in(Arc::<LocalSink>::clone(&sink), Some(&name), &create)
            .and_then(|writer| salvage.write(&writer, output, progress));
        let failed = match written {
            Ok(failed) if failed.is_empty() => return Ok(salvage.report),
            Ok(failed) => failed,
            Err(error) => {
                // An error of `discard` is ignored: the first error is reported.
                drop(sink.discard());
                return Err(error);
            }
        };
        // Some damage was detected only while copying. The file is written again, without these datasets.
        sink.discard()?;
        salvage.report = planned;
        for (number, error) in failed {
            salvage.lose(number, &error);
            salvage.packing.plans[number] = None;
        }
    }
}

/// State of writing the new file.
struct Rebuild {
    packing: PackPlan,
    /// Result of the check, for each item.
    checks: Vec<ObjectCheck>,
    /// For each item, whether it is linked from `lost+found`.
    tops: Vec<bool>,
    report: SalvageReport,
    /// Indices of objects in the report by address.
    numbers: HashMap<u64, usize>,
    partial: bool,
}

impl Rebuild {
    fn plan(found: KnownObjects, checks: Vec<ObjectCheck>, file: &File, options: &SalvageOptions) -> Self {
        let mut report = SalvageReport { objects: Vec::new(), damage: Vec::new(), size: 0 };
        let mut tops = Vec::new();
        let mut items = Vec::new();
        for (object, checked) in found.objects.into_iter().zip(&checks) {
            let mut entry = SalvagedObject::new(
                Name::from(&*object.path),
                Some(object.object.address()),
                Some(object.object.kind()),
            );
            entry.condition = checked.condition;
            entry.evidence = checked.evidence;
            entry.reason.clone_from(&checked.reason);
            entry.missing.clone_from(&checked.missing);
            entry.orphan = object.orphan;
            entry.losses = KnownObjects::losses(&object);
            entry.structure = Some(structure::evidence(&object));
            report.objects.push(entry);
            let shallow = object.path.iter().filter(|byte| **byte == b'/').count() == 2;
            tops.push(object.orphan && shallow);
            let FoundObject { object, dataset, path, links, .. } = object;
            items.push(Item { input: 0, object, dataset, path, links });
        }
        report.objects.extend(found.lost);
        let numbers = report.objects.iter().enumerate();
        let numbers = numbers.filter_map(|(number, object)| Some((object.address?, number))).collect();
        let inputs = vec![Input { file: file.clone(), into: String::new() }];
        let contents = Contents::from_items(inputs, items);
        let pack_options =
            PackOptions { threads: options.threads, memory: options.memory.max(1), ..PackOptions::default() };
        let plans = Vec::new();
        let mut packing = PackPlan { contents, plans, options: pack_options, oldest: LibVersion::default() };
        packing.plans = (0..packing.contents.items.len()).map(|_| None).collect();
        let mut salvage = Self { packing, checks, tops, report, numbers, partial: options.partial };
        salvage.plan_datasets();
        salvage
    }

    fn plan_datasets(&mut self) {
        let mut oldest = LibVersion::default();
        for number in 0..self.packing.contents.items.len() {
            match self.plan_item(number) {
                Ok((plan, needed)) => {
                    oldest = oldest.max(needed);
                    self.packing.plans[number] = plan;
                }
                Err(error) => self.lose(number, &error),
            }
        }
        self.packing.oldest = oldest;
    }

    fn lose(&mut self, number: usize, reason: &Error) {
        if let Some(entry) = self.report.objects.get_mut(number) {
            entry.condition = Condition::Lost;
            entry.reason = Some(reason.to_string());
            entry.missing.clear();
            (entry.evidence, entry.structure) = (None, None);
        }
    }

    /// Plans one object; also returns the oldest library version that supports its datatypes.
    fn plan_item(&self, number: usize) -> Result<(Option<Plan>, LibVersion)> {
        let item = &self.packing.contents.items[number];
        let sizes = item.object.file().superblock().sizes;
        let needed = |datatype: &Datatype| plan::needed(&Translation::new(datatype, sizes)?.datatype);
        let mut oldest = LibVersion::default();
        if item.object.kind() == ObjectKind::Datatype {
            oldest = needed(&item.object.datatype()?)?;
        }
        if let Ok(attributes) = item.object.each_attribute() {
            for attribute in attributes.into_iter().filter_map(|(_, attribute)| attribute.ok()) {
                oldest = needed(&attribute.datatype).map_or(oldest, |needed| needed.max(oldest));
            }
        }
        let Some(dataset) = item.dataset.as_ref().filter(|_| self.is_wanted(number)) else {
            return Ok((None, oldest));
        };
        oldest = oldest.max(needed(dataset.datatype())?);
        let keep = (&Chunking::Keep, &Filtering::Keep);
        if self.checks[number].condition == Condition::Whole {
            let plan = plan::dataset_plan(&self.packing.contents, item, dataset, false, keep)?;
            oldest = oldest.max(plan.oldest());
            return Ok((Some(plan), oldest));
        }
        let plan = self.plan_incomplete(item, dataset)?;
        oldest = oldest.max(plan.oldest());
        Ok((Some(plan), oldest))
    }

    /// Plans an incomplete dataset, without reading its chunk index.
    fn plan_incomplete(&self, item: &Item, dataset: &Dataset) -> Result<Plan> {
        use crate::write::NewLayout;
        let translation = Translation::new(dataset.datatype(), item.object.file().superblock().sizes)?;
        let layout = match dataset.chunked() {
            Some(chunked) => NewLayout::Chunked(chunked.dims.clone()),
            None => NewLayout::Contiguous,
        };
        Ok(Plan {
            translation,
            dataspace: dataset.dataspace().clone(),
            layout,
            pipeline: dataset.pipeline().to_vec(),
            how: CopyMethod::Nothing,
            bytes: 0,
        })
    }

    /// Returns whether an object goes into the new file.
    fn is_wanted(&self, number: usize) -> bool {
        match self.report.objects.get(number).map(|entry| entry.condition) {
            Some(Condition::Whole) => true,
            Some(Condition::Incomplete) => self.partial,
            _ => false,
        }
    }

    /// Writes the new file; returns the datasets that cannot be copied. If there are any, the file is not
    /// closed.
    fn write(
        &mut self,
        writer: &Writer,
        output: &Path,
        progress: &(dyn Fn(Step, u64) + Sync),
    ) -> Result<Vec<(usize, Error)>> {
        let made = self.make(writer)?;
        if let Some(size) = self.packing.user_block() {
            self.packing.copy_user_block(writer, size)?;
        }
        let count = self.packing.contents.items.len();
        let mut failed = Vec::new();
        // Datasets are copied one at a time, so that an error can be attributed to its dataset.
        let mut one = CreatedObjects::new(count);
        one.nodes.clone_from(&made.nodes);
        one.outside = Outside::Null;
        for number in 0..count {
            one.datasets[number].clone_from(&made.datasets[number]);
            let copied = self.copy(writer, &one, number, &|bytes| progress(Step::Copy, bytes));
            one.datasets[number] = None;
            self.lost_references(&one, number, "references");
            match copied {
                Err(error) if error.is_of_reading() => return Err(error),
                Err(error) => failed.push((number, error)),
                Ok(()) => {}
            }
        }
        if !failed.is_empty() {
            return Ok(failed);
        }
        self.packing.contents.check_unread(output)?;
        writer.close()?;
        self.report.size = writer.size();
        Ok(failed)
    }

    /// Creates all objects, their attributes and links. Whatever cannot be created is reported as a loss.
    fn make(&mut self, writer: &Writer) -> Result<CreatedObjects> {
        let count = self.packing.contents.items.len();
        let root = self.packing.contents.inputs[0].file.superblock().root;
        let mut made = CreatedObjects::new(count);
        made.outside = Outside::Null;
        for number in 0..count {
            let item = &self.packing.contents.items[number];
            // Datasets are created later, as they may use any committed datatype.
            if item.dataset.is_some() {
                continue;
            }
            let node = match item.object.kind() {
                ObjectKind::Group => {
                    let order = item.object.group().and_then(|group| group.tracks_order()).unwrap_or(false);
                    let tracked = make::tracked(item) || order;
                    if item.object.address() == root && item.path == b"/" {
                        if tracked {
                            writer.track_root_order(true)?;
                        }
                        Ok(NodeId::ROOT)
                    } else {
                        writer.create_group(NodeId::ROOT, b"", tracked)
                    }
                }
                _ => item.object.datatype().and_then(|datatype| {
                    let sizes = item.object.file().superblock().sizes;
                    let datatype = Translation::new(&datatype, sizes)?.datatype;
                    writer.commit_datatype(NodeId::ROOT, b"", datatype)
                }),
            };
            self.record(&mut made, number, node.map(|node| (node, None)))?;
        }
        for number in 0..count {
            if self.packing.plans[number].is_some() {
                let tracked = make::tracked(&self.packing.contents.items[number]);
                let dataset = make::make_dataset(&self.packing, writer, &made, number, tracked);
                self.record(&mut made, number, dataset.map(|dataset| (dataset.id(), Some(dataset))))?;
                self.lost_references(&made, number, "references of the fill value");
            }
        }
        for number in 0..count {
            if let Some(node) = made.nodes[number] {
                self.links(writer, &made, number, node)?;
                self.attributes(writer, &made, number, node)?;
            }
        }
        self.lost_and_found(writer, &made)?;
        Ok(made)
    }

    fn record(
        &mut self,
        made: &mut CreatedObjects,
        number: usize,
        node: Result<(NodeId, Option<DatasetWriter>)>,
    ) -> Result<()> {
        match node {
            Err(error) if error.is_of_reading() => return Err(error),
            Err(error) => self.lose(number, &error),
            Ok((node, dataset)) => {
                made.nodes[number] = Some(node);
                made.datasets[number] = dataset;
                self.report.objects[number].written = true;
            }
        }
        Ok(())
    }

    fn loss(&mut self, number: usize, name: impl ToString, reason: impl ToString) {
        let loss = Loss { name: name.to_string(), reason: reason.to_string() };
        self.report.objects[number].losses.push(loss);
    }

    /// Reports the references that were replaced by null references since the last call.
    fn lost_references(&mut self, made: &CreatedObjects, number: usize, name: impl ToString) {
        let (count, targets) = made.take_lost();
        if count == 0 {
            return;
        }
        let named = targets.iter().map(|address| {
            let path = self.numbers.get(address).and_then(|number| self.report.objects.get(*number));
            path.map_or_else(|| format!("address {address:#x}"), |object| object.path.to_string())
        });
        let named: Vec<String> = named.collect();
        let reason = format_args!("{count} became null: the new file lacks {}", named.join(", ")).to_string();
        self.loss(number, name, reason);
    }

    /// Copies the undamaged data of an item.
    fn copy(
        &self,
        writer: &Writer,
        made: &CreatedObjects,
        number: usize,
        progress: &(dyn Fn(u64) + Sync),
    ) -> Result<()> {
        let (item, checked) = (&self.packing.contents.items[number], &self.checks[number]);
        let (Some(old), Some(new), Some(plan)) =
            (&item.dataset, &made.datasets[number], &self.packing.plans[number])
        else {
            return Ok(());
        };
        let pair = Pair { packing: &self.packing, writer, made, item, old, new, plan };
        match checked.condition {
            Condition::Whole if pair.is_sparse() => pair.copy_data(progress),
            Condition::Whole => copy::copy_item(&self.packing, writer, made, number, progress).map(drop),
            Condition::Incomplete => pair.copy_parts(checked, progress),
            Condition::Lost => Ok(()),
        }
    }

    fn links(&mut self, writer: &Writer, made: &CreatedObjects, number: usize, node: NodeId) -> Result<()> {
        for at in 0..self.packing.contents.items[number].links.len() {
            let link = self.packing.contents.items[number].links[at].clone();
            let target = match link.target {
                LinkTarget::Hard(old) => {
                    match self.packing.contents.find(0, old).and_then(|item| made.nodes[item]) {
                        Some(node) => NewLink::Hard(node),
                        // The object's own entry has the reason.
                        None => continue,
                    }
                }
                LinkTarget::Soft(path) => NewLink::Soft(path),
                LinkTarget::External { file, path } => NewLink::External { file, path },
                LinkTarget::User { class, data } => NewLink::User { class, data },
            };
            match writer.link(node, link.name.as_bytes(), target) {
                Err(error) if error.is_of_reading() => return Err(error),
                Err(error) => self.loss(number, format_args!("link {}", link.name), error),
                Ok(()) => {}
            }
        }
        Ok(())
    }

    fn attributes(
        &mut self,
        writer: &Writer,
        made: &CreatedObjects,
        number: usize,
        node: NodeId,
    ) -> Result<()> {
        let listed = self.packing.contents.items[number].object.each_attribute();
        let mut listed = match listed {
            Err(error) if error.is_of_reading() => return Err(error),
            Err(error) => {
                self.loss(number, "attributes", error);
                Vec::new()
            }
            Ok(listed) => listed,
        };
        if make::tracked(&self.packing.contents.items[number]) {
            let order =
                |attribute: &Result<Attribute>| attribute.as_ref().ok().and_then(|one| one.creation_order);
            listed.sort_by_key(|(_, attribute)| order(attribute));
        }
        for (name, attribute) in listed {
            let item = &self.packing.contents.items[number];
            let written = attribute
                .and_then(|old| make::attribute(&self.packing, writer, made, item, old, true))
                .and_then(|new| writer.set_attribute(node, new));
            match written {
                Err(error) if error.is_of_reading() => return Err(error),
                Err(error) => self.loss(number, name, error),
                Ok(()) => self.lost_references(made, number, format_args!("references of {name}")),
            }
        }
        match self.packing.contents.items[number].object.comment() {
            Ok(Some(comment)) => writer.set_comment(node, Some(comment))?,
            Ok(None) => {}
            Err(error) => self.loss(number, "comment", error),
        }
        let missing = &self.report.objects[number].missing;
        if let Some(first) = missing.first() {
            let rank = first.start.len() as u64;
            let values = missing.iter().flat_map(|part| part.start.iter().chain(&part.count));
            let data: Vec<u8> = values.flat_map(|value| value.to_le_bytes()).collect();
            let dims = vec![missing.len() as u64, 2, rank];
            let max = dims.iter().copied().map(Some).collect();
            let attribute = Attribute {
                name: Name::from(MISSING_ATTRIBUTE),
                charset: CharacterSet::Ascii,
                datatype: Datatype::integer(8, false, ByteOrder::Little),
                committed: None,
                dataspace: Dataspace::Simple { dims, max },
                data,
                creation_order: None,
            };
            writer.set_attribute(node, attribute)?;
        }
        Ok(())
    }

    /// Links the objects without a link from the group `lost+found`.
    fn lost_and_found(&mut self, writer: &Writer, made: &CreatedObjects) -> Result<()> {
        let tops = self.tops.iter().enumerate().filter(|(_, top)| **top);
        let tops: Vec<(usize, NodeId)> = tops
            .filter_map(|(number, _)| Some((number, made.nodes.get(number).copied().flatten()?)))
            .collect();
        if tops.is_empty() {
            return Ok(());
        }
        let group = match writer.find(NodeId::ROOT, LOST_AND_FOUND.as_bytes())? {
            Some(NewLink::Hard(node)) if writer.kind(node)? == ObjectKind::Group => node,
            _ => writer.create_group(NodeId::ROOT, LOST_AND_FOUND.as_bytes(), false)?,
        };
        for (number, node) in tops {
            let path = &self.packing.contents.items[number].path;
            let mut name = path.rsplit(|byte| *byte == b'/').next().unwrap_or_default().to_vec();
            // An earlier salvage may have used the name.
            while writer.find(group, &name)?.is_some() {
                name.push(b'+');
            }
            writer.link(group, &name, NewLink::Hard(node))?;
        }
        Ok(())
    }
}
