//! Extraction of a dataset, or of a part of it, to a new file.

use super::filters;
use super::translate::{AddressContext, Translation};
use crate::slabs::{Steps, split_into_slabs};
use crate::write::{CreateOptions, DatasetOptions, DatasetWriter, NewLayout, NodeId, Writer};
use crate::{Dataset, Error, Result};
use hyperchunk_format::codec::{self, Target};
use hyperchunk_format::model::{AllocationTime, Class, Dataspace, FillValue, FillWhen, Name, Pipeline};
use hyperchunk_format::select::{Axis, Selection};
use std::ops::Range;
use std::path::Path;

/// Part of a dataset: indices along each axis, and whether the axis is kept; a dropped axis has one index.
pub type Part = Vec<(Steps, bool)>;

/// Result of an extraction.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExtractReport {
    /// Extent of the new dataset.
    pub dims: Vec<u64>,
    /// Total size of its elements in bytes.
    pub bytes: u64,
    /// Attributes that were omitted, as they refer to other objects, which are not in the new file.
    pub left_out: Vec<Name>,
}

/// Creates a file with a dataset, or a part of it, at the same path and with the same datatype, attributes,
/// chunks and compression. A live dataset is computed. `progress` is called with the number of bytes copied
/// since the last call.
///
/// # Errors
/// The errors of reading and writing; Unsupported for a dataset of references, whose targets would be
/// missing; NotFound for a virtual dataset that lacks a source of the part. On an error, no file is created.
pub fn extract(
    dataset: &Dataset,
    part: &Part,
    path: impl AsRef<Path>,
    replace: bool,
    memory: u64,
    progress: &mut dyn FnMut(u64),
) -> Result<ExtractReport> {
    let bounds: Vec<Range<u64>> = part.iter().map(|(steps, _)| bounds(*steps)).collect();
    dataset.check_sources_of(&bounds)?;
    let options = CreateOptions { replace, journal: false, ..CreateOptions::default() };
    let path = path.as_ref();
    let writer = Writer::create(path, &options)?;
    let made = fill(dataset, part, &writer, memory, progress).and_then(|made| {
        dataset.object().file().check_unread(path)?;
        writer.close().map(|()| made)
    });
    if made.is_err() {
        drop(writer.discard());
    }
    made.map_err(|error| dataset.with_context(error))
}

/// Returns the range from the first to the last index.
fn bounds(steps: Steps) -> Range<u64> {
    let last =
        steps.count.checked_sub(1).map(|last| steps.start.saturating_add(last.saturating_mul(steps.step)));
    last.map_or(0..0, |last| steps.start..last.saturating_add(1))
}

fn fill(
    dataset: &Dataset,
    part: &Part,
    writer: &Writer,
    memory: u64,
    progress: &mut dyn FnMut(u64),
) -> Result<ExtractReport> {
    if dataset.datatype().has_reference() {
        return Err(Error::unsupported(
            "cannot extract references: the objects that they refer to would be missing in the new file; pack the \
             whole file",
        ));
    }
    let kept = || part.iter().filter(|(_, stays)| *stays);
    let dims: Vec<u64> = kept().map(|(steps, _)| steps.count).collect();
    let translation = Translation::new(dataset.datatype(), dataset.object().file().superblock().sizes)?;
    let size = translation.datatype.size;
    let bytes = dims.iter().try_fold(size, |bytes, dim| bytes.checked_mul(*dim));
    let bytes = bytes.ok_or_else(|| Error::limit("the elements have more than 2^64 - 1 bytes"))?;
    let made = make(dataset, part, &dims, &translation, writer)?;
    let no_address = |_| Ok(None);
    let file = dataset.object().file();
    let axes: Vec<Steps> = part.iter().map(|(steps, _)| *steps).collect();
    let mut buffer = Vec::new();
    for slab in split_into_slabs(dataset, axes, memory.max(1)) {
        let count = slab.count(dataset.dims())?.checked_mul(dataset.datatype().size);
        let count = count.and_then(|count| usize::try_from(count).ok());
        crate::room::resize(
            &mut buffer,
            count.ok_or_else(|| Error::limit("the elements exceed the address space"))?,
        )?;
        dataset.read(&slab, &mut buffer)?;
        let to = target_selection(&slab, part)?;
        if translation.is_copy() {
            made.write(&to, &buffer)?;
        } else {
            if matches!(dataset.datatype().class, Class::Vlen { .. } | Class::VlenString { .. }) {
                file.load_heaps(&buffer)?;
            }
            let ends = AddressContext { file, writer, address: &no_address, attribute: false };
            made.write(&to, &translation.run(&buffer, &ends)?)?;
        }
        progress(buffer.len() as u64);
    }
    let left_out = attributes(dataset, writer, made.id())?;
    Ok(ExtractReport { dims, bytes, left_out })
}

/// Returns the selection of a slab's elements in the new dataset.
fn target_selection(slab: &Selection, part: &Part) -> Result<Selection> {
    let Selection::Axes(axes) = slab else { return Ok(Selection::All) };
    let ranges = axes.iter().zip(part).filter(|(_, (_, stays))| *stays).map(|(axis, (steps, _))| {
        let Axis::Range { start, .. } = axis else {
            return Err(Error::invalid("expected a range of indices along each axis of the slab"));
        };
        let start = start.saturating_sub(steps.start).checked_div(steps.step).unwrap_or(0);
        Ok(Axis::range(start..start.saturating_add(axis.length())))
    });
    let ranges: Vec<Axis> = ranges.collect::<Result<_>>()?;
    Ok(if ranges.is_empty() { Selection::All } else { Selection::Axes(ranges) })
}

/// Creates the dataset and its parent groups, without data.
fn make(
    dataset: &Dataset,
    part: &Part,
    dims: &[u64],
    translation: &Translation,
    writer: &Writer,
) -> Result<DatasetWriter> {
    let path = dataset.object().path().unwrap_or("/dataset").to_owned();
    let mut names = path.split('/').filter(|name| !name.is_empty());
    let name = names.next_back().unwrap_or("dataset");
    let mut group = NodeId::ROOT;
    for name in names {
        group = writer.create_group(group, name.as_bytes(), false)?;
    }
    let space = if dims.is_empty() {
        Dataspace::Scalar
    } else {
        Dataspace::Simple { dims: dims.to_vec(), max: dims.iter().copied().map(Some).collect() }
    };
    let fill = match &dataset.fill().value {
        FillWhen::User(value) if !translation.is_copy() => {
            let no_address = |_| Ok(None);
            let file = dataset.object().file();
            let ends = AddressContext { file, writer, address: &no_address, attribute: true };
            FillWhen::User(translation.run(value, &ends)?)
        }
        value => value.clone(),
    };
    let mut options = DatasetOptions::new(translation.datatype.clone(), space);
    options.fill = FillValue { value: fill, allocation: AllocationTime::Default, ..dataset.fill().clone() };
    let chunk = dataset.chunked().filter(|_| !dims.is_empty() && !dims.contains(&0)).map(|chunked| {
        let kept = chunked.dims.iter().zip(part).filter(|(_, (_, stays))| *stays);
        kept.zip(dims).map(|((chunk, _), dim)| (*chunk).min(*dim)).collect::<Vec<u64>>()
    });
    if let Some(chunk) = chunk {
        let target = Target { datatype: &translation.datatype, chunk: &chunk, fill: &options.fill.value };
        let pipeline = match dataset.is_live() {
            true => Pipeline::new(),
            false => pipeline(dataset, &target)?,
        };
        options = options.with_layout(NewLayout::Chunked(chunk)).with_pipeline(pipeline);
    }
    writer.create_dataset(group, name.as_bytes(), options)
}

/// Adapts the dataset's filters to the new chunks; returns the preset `deflate` if that is not possible.
fn pipeline(dataset: &Dataset, target: &Target<'_>) -> Result<Pipeline> {
    match filters::adapt(dataset.pipeline(), target) {
        Err(_) => codec::preset("deflate", target),
        adapted => adapted,
    }
}

/// Copies the attributes; returns the names of those omitted because they refer to other objects.
fn attributes(dataset: &Dataset, writer: &Writer, to: NodeId) -> Result<Vec<Name>> {
    let no_address = |_| Ok(None);
    let file = dataset.object().file();
    let ends = AddressContext { file, writer, address: &no_address, attribute: true };
    let mut left_out = Vec::new();
    for mut attribute in dataset.object().attributes()? {
        // The copy has the computed values and is not a live dataset.
        if dataset.is_live() && attribute.name.as_bytes() == b"hyperchunk_udf" {
            continue;
        }
        if attribute.datatype.has_reference() {
            left_out.push(attribute.name);
            continue;
        }
        let translation = Translation::new(&attribute.datatype, file.superblock().sizes)?;
        attribute.data = translation.run(&attribute.data, &ends)?;
        (attribute.datatype, attribute.committed) = (translation.datatype, None);
        writer.set_attribute(to, attribute)?;
    }
    Ok(left_out)
}
