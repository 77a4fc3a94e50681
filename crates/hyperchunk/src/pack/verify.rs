//! Comparison of a new file with its sources.

use super::list::Item;
use super::plan::{CopyMethod, mappings};
use super::shape::ChunkGroups;
use super::translate::Translation;
use super::{PackPlan, live};
use crate::read::spread;
use crate::write::NewLayout;
use crate::{Dataset, Error, ErrorKind, File, Object, Result, digest};
use hyperchunk_format::model::{Layout, Link, LinkTarget, Name, Reference};
use hyperchunk_format::select::Selection;
use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::{AtomicU64, Ordering};

/// Result of a comparison: numbers of compared objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct VerifyReport {
    /// Number of datasets.
    pub datasets: u64,
    /// Number of attributes.
    pub attributes: u64,
    /// Number of links.
    pub links: u64,
}

/// An object and its copy.
struct ObjectPair<'a> {
    number: usize,
    item: &'a Item,
    new: Object,
}

pub(super) fn verify(
    packing: &PackPlan,
    new: &File,
    progress: &(dyn Fn(u64) + Sync),
) -> Result<VerifyReport> {
    let mut verified = VerifyReport::default();
    let pairs = pairs(packing, new, &mut verified)?;
    // Numbers of items by address in the new file.
    let items: HashMap<u64, usize> = pairs.iter().map(|pair| (pair.new.address(), pair.number)).collect();
    let attributes = AtomicU64::new(0);
    let datasets = AtomicU64::new(0);
    spread(
        packing.threads(),
        pairs.iter(),
        || (),
        |(), pair| {
            let compare = || -> Result<()> {
                let count = compare_attributes(packing, pair, new, &items)?;
                attributes.fetch_add(count, Ordering::Relaxed);
                if pair.item.dataset.is_some() {
                    datasets.fetch_add(1, Ordering::Relaxed);
                    progress(compare_datasets(packing, pair, &items)?);
                }
                Ok(())
            };
            compare().map_err(|error| pair.item.object.with_context(error))
        },
    )?;
    verified.attributes = attributes.into_inner();
    verified.datasets = datasets.into_inner();
    Ok(verified)
}

fn differs(what: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Corrupt, format!("the new file differs from the source: {what}"))
}

/// Finds the copies of all objects by following links, and compares links, kinds and comments.
fn pairs<'a>(packing: &'a PackPlan, new: &File, verified: &mut VerifyReport) -> Result<Vec<ObjectPair<'a>>> {
    let contents = &packing.contents;
    let mut copies: Vec<Option<Object>> = vec![None; contents.items.len()];
    for (input, root) in contents.roots.iter().enumerate() {
        let into = contents.inputs[input].into.as_bytes();
        copies[*root] = Some(new.root()?.group()?.get(into)?);
    }
    let mut pairs = Vec::with_capacity(copies.len());
    let merged = |number: usize| {
        contents.roots.contains(&number)
            && (contents.inputs.len() > 1 || !contents.inputs[0].into.trim_matches('/').is_empty())
    };
    for (number, item) in contents.items.iter().enumerate() {
        let named = |error: Error| item.object.with_context(error);
        let copy = copies[number].clone().ok_or_else(|| named(differs("it is missing")))?;
        if copy.kind() != item.object.kind() {
            return Err(named(differs("the kind of object")));
        }
        if copy.comment()? != item.object.comment()? {
            return Err(named(differs("its comment")));
        }
        if item.dataset.is_none() && item.object.group().is_ok() {
            let links = copy.group()?.links()?;
            if links.len() != item.links.len() && !merged(number) {
                return Err(named(differs(format_args!("{} links, not {}", links.len(), item.links.len()))));
            }
            let links: HashMap<&Name, &Link> = links.iter().map(|link| (&link.name, link)).collect();
            for link in &item.links {
                verified.links += 1;
                let wrong = || named(differs(format_args!("the link {}", link.name)));
                let found = links.get(&link.name).ok_or_else(wrong)?;
                let LinkTarget::Hard(old) = link.target else {
                    let expected = match &link.target {
                        LinkTarget::Soft(path) => {
                            let moved = contents.moved(item.input, path.as_bytes());
                            LinkTarget::Soft(moved.map_or_else(|| path.clone(), |path| Name::from(&*path)))
                        }
                        other => other.clone(),
                    };
                    if found.target != expected {
                        return Err(wrong());
                    }
                    continue;
                };
                let LinkTarget::Hard(address) = found.target else { return Err(wrong()) };
                let to = contents.find(item.input, old).ok_or_else(wrong)?;
                match &copies[to] {
                    Some(known) if known.address() != address => return Err(wrong()),
                    Some(_) => {}
                    None => copies[to] = Some(new.object(address).map_err(named)?),
                }
            }
        }
        pairs.push(ObjectPair { number, item, new: copy });
    }
    Ok(pairs)
}

/// Returns a function that describes a reference's target by the item, so that descriptions are equal in both
/// files.
fn follow<'a>(find: impl Fn(u64) -> Option<usize> + 'a) -> impl Fn(&Reference) -> Vec<u8> + 'a {
    move |reference: &Reference| {
        let region = reference.region.as_ref().map(|region| &region.selection);
        let to = if reference.file.is_some() { Some(usize::MAX) } else { find(reference.address) };
        format!("{to:?} {:?} {region:?} {:?}", reference.file, reference.attribute).into_bytes()
    }
}

fn compare_attributes(
    packing: &PackPlan,
    pair: &ObjectPair<'_>,
    new: &File,
    items: &HashMap<u64, usize>,
) -> Result<u64> {
    let old = pair.item.object.attributes()?;
    let copies = pair.new.attributes()?;
    let root = packing.contents.roots.contains(&pair.number);
    if copies.len() != old.len() && !(root && packing.contents.inputs.len() > 1) {
        return Err(differs(format_args!("{} attributes instead of {}", copies.len(), old.len())));
    }
    let copies: HashMap<&Name, _> = copies.iter().map(|copy| (&copy.name, copy)).collect();
    let file = pair.item.object.file();
    let input = pair.item.input;
    for attribute in &old {
        let wrong = || differs(format_args!("attribute {}", attribute.name));
        let copy = copies.get(&attribute.name).ok_or_else(wrong)?;
        let datatype = Translation::new(&attribute.datatype, file.superblock().sizes)?.datatype;
        if copy.datatype != datatype || copy.dataspace != attribute.dataspace {
            return Err(wrong());
        }
        let there = follow(|address| packing.contents.find(input, address));
        let here = follow(|address| items.get(&address).copied());
        if digest::attribute_following(file, attribute, &there)?
            != digest::attribute_following(new, copy, &here)?
        {
            return Err(wrong());
        }
    }
    Ok(old.len() as u64)
}

fn compare_datasets(packing: &PackPlan, pair: &ObjectPair<'_>, items: &HashMap<u64, usize>) -> Result<u64> {
    let copy = pair.new.dataset()?;
    let none = || Error::invalid("the dataset has not been planned");
    let old = pair.item.dataset.as_ref().ok_or_else(none)?;
    let plan = packing.plans.get(pair.number).and_then(Option::as_ref).ok_or_else(none)?;
    if *copy.datatype() != plan.translation.datatype {
        return Err(differs("its datatype"));
    }
    match &plan.layout {
        // The data are in other files or datasets.
        NewLayout::External(files) => {
            return if copy.external() == files { Ok(0) } else { Err(differs("its external files")) };
        }
        NewLayout::Virtual(_) => {
            let same = copy.mappings() == mappings(&packing.contents, pair.item.input, old);
            return if same { Ok(0) } else { Err(differs("its sources")) };
        }
        _ => {}
    }
    if *copy.dataspace() != plan.dataspace {
        return Err(differs("its extent"));
    }
    if old.is_live() {
        compare_chunks(old, &copy)?;
        if packing.moves_paths() {
            live::check_inputs(packing, pair.item, copy.object().file(), items)?;
        }
        return Ok(plan.bytes);
    }
    if plan.how == CopyMethod::Nothing && old.external().is_empty() && old.chunked().is_none() {
        // All elements are the fill value, which is compared instead of them.
        let same = copy.fill_bytes()?.len() as u64 == plan.translation.datatype.size;
        return if same { Ok(plan.bytes) } else { Err(differs("its fill value")) };
    }
    let input = pair.item.input;
    let there = follow(|address| packing.contents.find(input, address));
    let here = follow(|address| items.get(&address).copied());
    if let Some(parts) = stored_parts(old, &copy)? {
        let never = |dataset: &Dataset, follow: &digest::Follow<'_>| {
            digest::element_following(dataset, &dataset.fill_bytes()?, follow)
        };
        if never(old, &there)? != never(&copy, &here)? {
            return Err(differs("its fill value"));
        }
        let compared = digest::parts_following(old, &parts, &there)
            .and_then(|first| Ok(first == digest::parts_following(&copy, &parts, &here)?));
        return match compared {
            Err(error) if error.kind() == ErrorKind::MissingFilter && plan.how == CopyMethod::Stored => {
                compare_chunks(old, &copy).map(|()| plan.bytes)
            }
            Ok(false) => Err(differs("its values")),
            compared => compared.map(|_| plan.bytes),
        };
    }
    let first = match digest::dataset_following(old, &there) {
        // Chunks that cannot be decoded here were copied as stored.
        Err(error) if error.kind() == ErrorKind::MissingFilter && plan.how == CopyMethod::Stored => {
            return compare_chunks(old, &copy).map(|()| plan.bytes);
        }
        first => first?,
    };
    let same = first == digest::dataset_following(&copy, &here)?;
    if same { Ok(plan.bytes) } else { Err(differs("its values")) }
}

/// Returns the parts of a dataset that are stored in either file; `None` if they are half of the dataset or
/// more. All other elements are fill values in both files, and reading them would take as long as reading
/// data.
fn stored_parts(old: &Dataset, copy: &Dataset) -> Result<Option<Vec<Selection>>> {
    let Some(chunked) = old.chunked() else { return Ok(None) };
    let volume = |chunk: &[u64]| chunk.iter().fold(1_u64, |product, dim| product.saturating_mul(*dim));
    let mut grid = chunked.dims.clone();
    match copy.layout() {
        Layout::Contiguous { address: None, .. } => {}
        Layout::Chunked(chunked) if volume(&chunked.dims) > volume(&grid) => grid.clone_from(&chunked.dims),
        Layout::Chunked(_) => {}
        _ => return Ok(None),
    }
    let boxes = ChunkGroups::new(old.dims(), &grid, 1);
    let mut keys = BTreeSet::new();
    for dataset in [old, copy] {
        if let Some(chunked) = dataset.chunked() {
            let chunks = dataset.written_chunks()?;
            keys.extend(boxes.touched(&chunked.dims, chunks.iter().map(|chunk| &**chunk)));
        }
    }
    let cells = old.dims().iter().zip(&grid).map(|(dim, chunk)| dim.div_ceil((*chunk).max(1)));
    let all = cells.fold(1_u64, u64::saturating_mul);
    let sparse = (keys.len() as u64) < all / 2;
    Ok(sparse.then(|| keys.iter().map(|key| boxes.selection(key)).collect()))
}

/// Compares the stored bytes of chunks. A live dataset is not computed.
pub fn compare_chunks(old: &Dataset, copy: &Dataset) -> Result<()> {
    let copies = copy.chunks()?;
    let olds = old.chunks()?;
    // Names of filters are not compared: the writer stores none for the library's own filters.
    let filters = |dataset: &Dataset| -> Vec<_> {
        let parts =
            dataset.pipeline().iter().map(|filter| (filter.id, filter.optional, filter.parameters.clone()));
        parts.collect()
    };
    if olds.len() != copies.len() || filters(copy) != filters(old) {
        return Err(differs("its chunks"));
    }
    for (one, other) in olds.iter().zip(&copies) {
        let same = one.scaled == other.scaled
            && one.filter_mask == other.filter_mask
            && old.read_chunk_raw(one)? == copy.read_chunk_raw(other)?;
        if !same {
            return Err(differs("its chunks"));
        }
    }
    Ok(())
}
