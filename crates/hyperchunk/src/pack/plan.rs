//! Storage plan of each dataset.

use super::list::{Contents, Item};
use super::shape::good_chunk;
use super::translate::Translation;
use super::{Chunking, Filtering, PackOptions, filters};
use crate::storage::Marker;
use crate::write::NewLayout;
use crate::{Dataset, Error, Result};
use hyperchunk_format::codec::{self, Target};
use hyperchunk_format::encode::{LibVersion, message};
use hyperchunk_format::model::{
    Attribute, Dataspace, Datatype, Layout, Name, ObjectKind, Pipeline, VirtualMapping,
};
use std::collections::HashMap;

/// Size in bytes below which datasets stay contiguous.
const MIN_CHUNKED_BYTES: u64 = 16 << 10;
/// Maximum size of compact data, in bytes.
const MAX_COMPACT_BYTES: u64 = 65_520;

/// Storage plan of a dataset.
#[derive(Debug)]
pub struct Plan {
    pub(crate) translation: Translation,
    pub(crate) dataspace: Dataspace,
    pub(crate) layout: NewLayout,
    pub(crate) pipeline: Pipeline,
    pub(crate) how: CopyMethod,
    /// Number of bytes to copy, before compression.
    pub(crate) bytes: u64,
}

impl Plan {
    /// Returns the oldest release of HDF5 that supports the layout.
    pub fn oldest(&self) -> LibVersion {
        match &self.layout {
            NewLayout::Chunked(chunk) => {
                let size = self.translation.datatype.size;
                let bytes = chunk.iter().fold(size, |size, dim| size.saturating_mul(*dim));
                if u32::try_from(bytes).is_err() { LibVersion::V200 } else { LibVersion::V18 }
            }
            NewLayout::Virtual(_) => LibVersion::V110,
            _ => LibVersion::V18,
        }
    }
}

/// Way of copying a dataset's data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CopyMethod {
    /// Nothing to copy: there are no data, or they stay in other files.
    Nothing,
    /// Copies chunks in their stored form.
    Stored,
    /// Decodes chunks and encodes them with other filters; their extent stays the same.
    Recoded,
    /// Reads and writes elements.
    Elements,
}

/// Plans all items; returns the plans and the oldest release that can read the new file.
pub(super) fn plan(contents: &Contents, options: &PackOptions) -> Result<(Vec<Option<Plan>>, LibVersion)> {
    let mut plans = Vec::with_capacity(contents.items.len());
    let mut oldest = LibVersion::default();
    let chunkings = rules_by_item(contents, &options.chunk_rules)?;
    let filterings = rules_by_item(contents, &options.filter_rules)?;
    if let (Chunking::Contiguous, Filtering::Preset(preset)) = (&options.chunks, &options.filters) {
        return Err(contradiction(preset));
    }
    for (number, item) in contents.items.iter().enumerate() {
        let named = |error: Error| item.object.with_context(error);
        let sizes = item.object.file().superblock().sizes;
        let mut needs = |datatype: &Datatype| -> Result<()> {
            let datatype = Translation::new(datatype, sizes).map_err(named)?.datatype;
            oldest = oldest.max(needed(&datatype).map_err(named)?);
            Ok(())
        };
        if item.object.kind() == ObjectKind::Datatype {
            needs(&item.object.datatype()?)?;
        }
        for Attribute { datatype, .. } in item.object.attributes()? {
            needs(&datatype)?;
        }
        let Some(dataset) = &item.dataset else {
            plans.push(None);
            continue;
        };
        needs(dataset.datatype())?;
        let rules = Rules::new(
            (chunkings.get(&number).copied(), &options.chunks),
            (filterings.get(&number).copied(), &options.filters),
        );
        let plan = ruled_plan(contents, item, dataset, options.embed, rules.map_err(named)?);
        let plan = plan.map_err(named)?;
        oldest = oldest.max(plan.oldest());
        plans.push(Some(plan));
    }
    Ok((plans, oldest))
}

/// Returns the oldest release of HDF5 that supports a datatype.
pub fn needed(datatype: &Datatype) -> Result<LibVersion> {
    let versions = [LibVersion::V18, LibVersion::V110];
    let is_supported = |version: &LibVersion| message::datatype::encode(datatype, *version).is_ok();
    match versions.into_iter().find(is_supported) {
        Some(version) => Ok(version),
        None => message::datatype::encode(datatype, LibVersion::V200).map(|_| LibVersion::V200),
    }
}

/// Returns the rule for each item that has one. A rule may use any path to an item; the last rule for it
/// applies.
fn rules_by_item<'o, T>(contents: &Contents, rules: &'o [(String, T)]) -> Result<HashMap<usize, &'o T>> {
    let mut ruled = HashMap::new();
    for (path, rule) in rules {
        let found = contents.at_path(path)?;
        if found.is_empty() {
            return Err(Error::invalid("cannot apply a rule: there is no such dataset").object(path));
        }
        ruled.extend(found.into_iter().map(|item| (item, rule)));
    }
    Ok(ruled)
}

/// Rules for a dataset.
#[derive(Clone, Copy)]
struct Rules<'o> {
    chunking: &'o Chunking,
    filtering: &'o Filtering,
    /// True if a rule for this dataset asks for chunks: what it cannot have is an error then.
    wants_chunks: bool,
    /// True if a rule for this dataset asks for filters.
    wants_filters: bool,
}

impl<'o> Rules<'o> {
    /// Creates the rules from those for the dataset, if there are any, and those for all.
    fn new(
        (chunking, all_chunking): (Option<&'o Chunking>, &'o Chunking),
        (filtering, all_filtering): (Option<&'o Filtering>, &'o Filtering),
    ) -> Result<Self> {
        let wants_chunks = matches!(chunking, Some(Chunking::Auto | Chunking::Shape(_)));
        let wants_filters = matches!(filtering, Some(Filtering::Preset(_)));
        let is_own_layout = chunking.is_some();
        let chunking = chunking.unwrap_or(all_chunking);
        let filtering = match (filtering, chunking) {
            (Some(filtering), _) => filtering,
            // The rule for this dataset has precedence over the filters for all.
            (None, Chunking::Contiguous) if is_own_layout => &Filtering::None,
            (None, _) => all_filtering,
        };
        match (chunking, filtering) {
            (Chunking::Contiguous, Filtering::Preset(preset)) => Err(contradiction(preset)),
            _ => Ok(Self { chunking, filtering, wants_chunks, wants_filters }),
        }
    }

    /// Returns the error if the dataset cannot have what a rule for it asks for, because of `why`.
    fn refuse(&self, why: &str) -> Result<()> {
        match (self.wants_filters, self.wants_chunks) {
            (true, _) => Err(Error::invalid(format!("cannot apply filters to the dataset: {why}"))),
            (false, true) => Err(Error::invalid(format!("cannot give the dataset chunks: {why}"))),
            (false, false) => Ok(()),
        }
    }
}

/// Returns the error for filters of contiguous data.
fn contradiction(preset: &str) -> Error {
    Error::invalid(format!(
        "cannot apply the filters {preset} to contiguous data: only chunks have filters; choose chunks (auto), or the \
         filters none"
    ))
}

/// Plans one dataset.
pub fn dataset_plan(
    contents: &Contents,
    item: &Item,
    dataset: &Dataset,
    embed: bool,
    (chunking, filtering): (&Chunking, &Filtering),
) -> Result<Plan> {
    let rules = Rules { chunking, filtering, wants_chunks: false, wants_filters: false };
    ruled_plan(contents, item, dataset, embed, rules)
}

fn ruled_plan(
    contents: &Contents,
    item: &Item,
    dataset: &Dataset,
    embed: bool,
    rules: Rules<'_>,
) -> Result<Plan> {
    let sizes = dataset.object().file().superblock().sizes;
    let translation = Translation::new(dataset.datatype(), sizes)?;
    let elsewhere = |dataspace: Dataspace, layout| Plan {
        translation: translation.clone(),
        dataspace,
        layout,
        pipeline: dataset.pipeline().to_vec(),
        how: CopyMethod::Nothing,
        bytes: 0,
    };
    let header = dataset.dataspace().clone();
    let is_elsewhere = !dataset.external().is_empty() || matches!(dataset.layout(), Layout::Virtual { .. });
    if !embed && is_elsewhere && dataset.store().is_none() && Marker::from_dataset(dataset).is_none() {
        rules.refuse("its data are in other files or datasets, and are not copied; --embed copies them")?;
    }
    if !embed && !dataset.external().is_empty() {
        return Ok(elsewhere(header, NewLayout::External(dataset.external().to_vec())));
    }
    // A dataset of a sharded store is copied by its values: the new file has no folder with the store's logs.
    let embed = embed || dataset.store().is_some() || Marker::from_dataset(dataset).is_some();
    if !embed && matches!(dataset.layout(), Layout::Virtual { .. }) {
        return Ok(elsewhere(header, NewLayout::Virtual(mappings(contents, item.input, dataset))));
    }
    dataset.check_sources()?;
    let mut dataspace = header;
    if let Dataspace::Simple { dims, max } = &mut dataspace {
        // The extent of a virtual dataset depends on its sources and may differ from the header's.
        *dims = dataset.dims().to_vec();
        for (dim, max) in dims.iter().zip(max) {
            *max = max.map(|max| max.max(*dim));
        }
    }
    let live = dataset.is_live();
    if live {
        rules.refuse("it is a live dataset, whose chunks hold its function")?;
    }
    if !translation.is_copy() && rules.wants_filters {
        rules.refuse(
            "its elements are references or have variable length, and what they refer to is not in its chunks",
        )?;
    }
    match &dataspace {
        Dataspace::Simple { dims, .. } if !dims.is_empty() => {}
        Dataspace::Null => rules.refuse("it has a null dataspace, and so no elements")?,
        _ => rules.refuse("it is a scalar, which has no chunks")?,
    }
    let keep = Rules { chunking: &Chunking::Keep, filtering: &Filtering::Keep, ..rules };
    let rules = if live { keep } else { rules };
    let Rules { chunking, filtering, .. } = rules;
    let size = translation.datatype.size;
    let too_large = || Error::limit("the dataset has more than 2^64 - 1 bytes");
    let bytes = dataset.elements()?.checked_mul(size).ok_or_else(too_large)?;
    let chunk = choose_chunk(dataset, &dataspace, &translation, rules, bytes)?;
    if let Dataspace::Simple { dims, max } = &mut dataspace
        && chunk.is_none()
    {
        *max = dims.iter().copied().map(Some).collect();
    }
    let Some(chunk) = chunk else {
        let compact = matches!(dataset.layout(), Layout::Compact { .. }) && bytes <= MAX_COMPACT_BYTES;
        let layout =
            if compact && *chunking == Chunking::Keep { NewLayout::Compact } else { NewLayout::Contiguous };
        let how = if is_empty(dataset)? || bytes == 0 { CopyMethod::Nothing } else { CopyMethod::Elements };
        return Ok(Plan { translation, dataspace, layout, pipeline: Pipeline::new(), how, bytes });
    };
    let target = Target { datatype: &translation.datatype, chunk: &chunk, fill: &dataset.fill().value };
    let same_chunk = dataset.chunked().is_some_and(|chunked| chunked.dims == chunk);
    let pipeline = match filtering {
        Filtering::None => Pipeline::new(),
        // Heap handles and addresses do not compress, and the data that they refer to are not in the chunks.
        Filtering::Preset(preset) if translation.is_copy() => codec::preset(preset, &target)?,
        _ if same_chunk && translation.datatype == *dataset.datatype() => dataset.pipeline().to_vec(),
        _ => filters::adapt(dataset.pipeline(), &target)?,
    };
    let how = match same_chunk && translation.is_copy() {
        _ if is_empty(dataset)? || bytes == 0 => CopyMethod::Nothing,
        true if dataset.store().is_some() => CopyMethod::Elements,
        true if pipeline == dataset.pipeline() => CopyMethod::Stored,
        true => CopyMethod::Recoded,
        false => CopyMethod::Elements,
    };
    if live && how == CopyMethod::Elements {
        return Err(Error::unsupported("cannot copy the live dataset: its values would have to be computed"));
    }
    Ok(Plan { translation, dataspace, layout: NewLayout::Chunked(chunk), pipeline, how, bytes })
}

/// Chooses the extent of the chunks; `None` for a dataset that is not chunked.
fn choose_chunk(
    dataset: &Dataset,
    dataspace: &Dataspace,
    translation: &Translation,
    Rules { chunking, filtering, wants_chunks, wants_filters }: Rules<'_>,
    bytes: u64,
) -> Result<Option<Vec<u64>>> {
    let Dataspace::Simple { dims, max } = dataspace else { return Ok(None) };
    if dims.is_empty() {
        return Ok(None);
    }
    let size = translation.datatype.size;
    let grows = dims.iter().zip(max).any(|(dim, max)| *max != Some(*dim));
    let virtual_source = matches!(dataset.layout(), Layout::Virtual { .. });
    let old = dataset.chunked().map(|chunked| chunked.dims.clone());
    // Chunks cannot be larger than the dataset's maximum extent.
    let clipped = |chunk: Vec<u64>| -> Vec<u64> {
        let bounds = chunk.iter().zip(max);
        bounds.map(|(chunk, max)| max.map_or(*chunk, |max| (*chunk).min(max.max(1)))).collect()
    };
    // A small dataset that is named gets what was asked for.
    let small = bytes < MIN_CHUNKED_BYTES && !grows && !wants_chunks && !wants_filters;
    Ok(match chunking {
        Chunking::Keep if old.is_some() => old,
        Chunking::Keep if matches!(filtering, Filtering::Preset(_)) && translation.is_copy() && !small => {
            Some(clipped(good_chunk(dims, size)))
        }
        // A virtual dataset that can grow becomes chunked, as contiguous data cannot grow.
        Chunking::Keep => (virtual_source && grows).then(|| good_chunk(dims, size)),
        Chunking::Auto if small => old,
        Chunking::Auto => Some(clipped(good_chunk(dims, size))),
        Chunking::Contiguous if grows && old.is_some() => {
            let message = "cannot store the dataset contiguously: a dataset that can grow needs chunks";
            return Err(Error::invalid(message));
        }
        Chunking::Contiguous => None,
        Chunking::Shape(shape) if shape.len() != dims.len() || shape.contains(&0) => {
            let message =
                format!("invalid chunk shape {shape:?}: expected {} extents of at least 1", dims.len());
            return Err(Error::invalid(message));
        }
        Chunking::Shape(shape) => Some(clipped(shape.clone())),
    })
}

/// Returns whether no data were ever written to the dataset.
pub fn is_empty(dataset: &Dataset) -> Result<bool> {
    Ok(match dataset.layout() {
        _ if !dataset.external().is_empty() => false,
        _ if dataset.store().is_some() => dataset.pieces() == Some(0),
        Layout::Contiguous { address, .. } => address.is_none(),
        Layout::Chunked(_) => dataset.chunks()?.is_empty(),
        _ => dataset.elements()? == 0,
    })
}

/// Returns the mappings of a virtual dataset, with the new paths of datasets in its own file.
pub(super) fn mappings(contents: &Contents, input: usize, dataset: &Dataset) -> Vec<VirtualMapping> {
    let mut mappings = dataset.mappings().to_vec();
    for mapping in &mut mappings {
        let own = mapping.file.parts == [Name::from(".")];
        if own
            && let Some(first) = mapping.dataset.parts.first_mut()
            && let Some(moved) = contents.moved(input, first.as_bytes())
        {
            *first = Name::from(&*moved);
        } else if own
            && let Some(moved) = contents.moved(input, b"/")
            && let Some(first) = mapping.dataset.parts.first_mut()
            && !first.as_bytes().starts_with(b"/")
        {
            // Paths without a leading slash start at the root group, too.
            *first = Name::from(&*[&moved, b"/".as_slice(), first.as_bytes()].concat());
        }
    }
    mappings
}
