//! Reads of virtual datasets. Source: specification §III.H; HDF5 "Virtual Dataset" RFC for unlimited
//! extents.

use super::output::Output;
use crate::dataset::{Dataset, Inner};
use crate::object::Object;
use crate::{Error, ErrorKind, Result};
use hyperchunk_format::model::{
    Hyperslab, Layout, Name, ObjectKind, SourceName, StoredSelection, VirtualMapping,
};
use hyperchunk_format::select::{Axis, Selection, map};
use std::cell::Cell;
use std::ops::Range;

/// Divisor of the limit `virtual_mappings` that gives the maximum number of sources that one read may open
/// through other virtual datasets. Their number could otherwise grow exponentially with the depth.
const NESTED_DIVISOR: u64 = 4;

thread_local! {
    /// Number of nested virtual datasets that this thread is reading.
    static DEPTH: Cell<u32> = const { Cell::new(0) };
    /// Number of sources opened below the outermost one.
    static OPENED: Cell<u64> = const { Cell::new(0) };
}

/// Guard that counts the nesting of virtual datasets.
struct Inside;

impl Inside {
    fn enter(object: &Object) -> Result<Self> {
        let depth = DEPTH.get();
        if depth >= object.file().options().limits.virtual_depth {
            let message = "virtual datasets are nested too deep (limit `virtual_depth`), or in a cycle";
            return Err(object.with_context(Error::limit(message)));
        }
        if depth == 0 {
            OPENED.set(0);
        }
        DEPTH.set(depth + 1);
        Ok(Self)
    }

    /// Counts a source that is opened.
    fn count(object: &Object) -> Result<()> {
        if DEPTH.get() < 2 {
            return Ok(());
        }
        let most = object.file().options().limits.virtual_mappings / NESTED_DIVISOR;
        let opened = OPENED.get() + 1;
        OPENED.set(opened);
        if opened > most {
            let message = format!(
                "more than {most} sources of nested virtual datasets (a quarter of the limit `virtual_mappings`)"
            );
            return Err(object.with_context(Error::limit(message)));
        }
        Ok(())
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        DEPTH.set(DEPTH.get() - 1);
    }
}

/// Returns the current extent of a virtual dataset. In the dimension of an unlimited mapping, it reaches to
/// the end of the last available source.
pub(crate) fn extent(inner: &Inner) -> Result<Vec<u64>> {
    if !inner.mappings.iter().any(|mapping| unlimited(&mapping.target).is_some()) {
        return Ok(inner.dims.clone());
    }
    let _inside = Inside::enter(&inner.object)?;
    let mut reached: Vec<Option<u64>> = vec![None; inner.dims.len()];
    let mut least = vec![0; inner.dims.len()];
    for mapping in &inner.mappings {
        match unlimited(&mapping.target) {
            Some((axis, slab)) => {
                let end = match mapping.dataset.parts.len() > 1 || mapping.file.parts.len() > 1 {
                    true => end_of_blocks(inner, mapping, slab)?,
                    false => end_of_slices(slab, slices(inner, mapping)?),
                };
                if let Some(reached) = reached.get_mut(axis) {
                    *reached = Some(reached.unwrap_or(0).max(end));
                }
            }
            None => {
                if let Some(bounds) = Selection::resolve(&mapping.target, &inner.dims)?.bounds(&inner.dims)? {
                    least.iter_mut().zip(bounds).for_each(|(least, bound)| *least = bound.end.max(*least));
                }
            }
        }
    }
    let dims = inner.dims.iter().zip(reached).zip(least);
    Ok(dims.map(|((dim, reached), least)| reached.map_or(*dim, |reached| reached.max(least))).collect())
}

/// Returns the dimension in which a selection is unlimited, and its hyperslab there, if there is one.
fn unlimited(selection: &StoredSelection) -> Option<(usize, Hyperslab)> {
    let StoredSelection::Regular(slabs) = selection else { return None };
    let slabs = slabs.iter().enumerate();
    slabs.map(|(axis, slab)| (axis, *slab)).find(|(_, slab)| slab.count.is_none() || slab.block.is_none())
}

/// Returns the number of indices that the mapping's selection in the source currently has in its unlimited
/// dimension.
fn slices(inner: &Inner, mapping: &VirtualMapping) -> Result<u64> {
    let Some((axis, slab)) = unlimited(&mapping.source) else {
        return Err(Error::corrupt("a mapping is unlimited in the virtual dataset but not in the source"));
    };
    let Some(source) = open(&inner.object, mapping, 0)? else { return Ok(0) };
    let left = source.dims().get(axis).copied().unwrap_or(0).saturating_sub(slab.start);
    Ok(match slab.block {
        Some(block) if block < slab.stride => {
            let whole = left / slab.stride;
            whole * block + (left - whole * slab.stride).min(block)
        }
        _ => left,
    })
}

/// Returns the end of an unlimited selection with this number of indices.
fn end_of_slices(slab: Hyperslab, slices: u64) -> u64 {
    let reach = match slab.block {
        _ if slices == 0 => return 0,
        Some(block) if block < slab.stride && block > 0 => {
            let (whole, rest) = (slices / block, slices % block);
            match rest {
                0 => (whole - 1).saturating_mul(slab.stride).saturating_add(block),
                rest => whole.saturating_mul(slab.stride).saturating_add(rest),
            }
        }
        _ => slices,
    };
    slab.start.saturating_add(reach)
}

/// Returns the end of the last block whose source exists.
fn end_of_blocks(inner: &Inner, mapping: &VirtualMapping, slab: Hyperslab) -> Result<u64> {
    match blocks(&inner.object, mapping)? {
        0 => Ok(0),
        count => {
            let last = (count - 1).saturating_mul(slab.stride).saturating_add(slab.block.unwrap_or(0));
            Ok(slab.start.saturating_add(last))
        }
    }
}

/// Counts the existing sources of a name with a block number (`%b`) in it, up to the first missing one.
fn blocks(object: &Object, mapping: &VirtualMapping) -> Result<u64> {
    let most = object.file().options().limits.virtual_mappings;
    for number in 0..most {
        if open(object, mapping, number)?.is_none() {
            return Ok(number);
        }
    }
    Err(Error::limit(format!("more than {most} sources of a virtual dataset (limit `virtual_mappings`)")))
}

/// Opens a source; `None` if it is missing, so that its elements are read as the fill value.
fn open(object: &Object, mapping: &VirtualMapping, block: u64) -> Result<Option<Dataset>> {
    Inside::count(object)?;
    let (file, path) = (numbered(&mapping.file, block), numbered(&mapping.dataset, block));
    let here = object.file();
    let found = if file.as_bytes() == b"." { Ok(here.clone()) } else { here.0.external.open(here, &file) };
    let found = found.and_then(|file| file.root()?.named("/").group()?.get(path.as_bytes()));
    match found {
        Ok(source) if source.kind() == ObjectKind::Dataset => source.dataset().map(Some),
        Ok(_) => Ok(None),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Inserts the number of a block into a source's name.
fn numbered(name: &SourceName, block: u64) -> Name {
    let parts: Vec<&[u8]> = name.parts.iter().map(Name::as_bytes).collect();
    Name::from(parts.join(block.to_string().as_bytes()).as_slice())
}

/// Checks that the sources of a part of a virtual dataset exist, before its values are copied: a read takes the
/// fill value for those of missing sources, and a copy would make it permanent. The part is bounded by `asked`.
/// Sources whose names are numbered end at the first missing one.
///
/// # Errors
/// NotFound, with the name of a missing source; the errors of opening the sources.
pub(crate) fn check_sources(dataset: &Dataset, asked: &[Range<u64>]) -> Result<()> {
    let inner = &dataset.0;
    let _inside = Inside::enter(&inner.object)?;
    for mapping in dataset.mappings() {
        let is_numbered = mapping.dataset.parts.len() > 1 || mapping.file.parts.len() > 1;
        let mut target = None;
        let count = match unlimited(&mapping.target) {
            Some(_) if is_numbered => blocks(&inner.object, mapping)?,
            Some(_) => 1,
            None => {
                let all = Selection::resolve(&mapping.target, dataset.dims())?;
                match all.bounds(dataset.dims())? {
                    Some(bounds) if !is_disjoint(&bounds, asked) => target = Some(all),
                    _ => continue,
                }
                1
            }
        };
        for block in 0..count {
            let Some(source) = open(&inner.object, mapping, block)? else {
                return Err(dataset.with_context(missing(&inner.object, mapping, block)));
            };
            if !matches!(source.layout(), Layout::Virtual { .. }) {
                continue;
            }
            let mut part = Some(Selection::resolve(&mapping.source, source.dims())?);
            if let (Some(target), Some(all)) = (&target, &part)
                && !asked.is_empty()
            {
                let asked = Selection::Axes(asked.iter().cloned().map(Axis::range).collect());
                part = map(all, source.dims(), target, dataset.dims(), &asked)?.map(|mapped| mapped.source);
            }
            if let Some(part) = part
                && let Some(bounds) = part.bounds(source.dims())?
            {
                check_sources(&source, &bounds)?;
            }
        }
    }
    Ok(())
}

/// Returns the error for a missing source.
fn missing(object: &Object, mapping: &VirtualMapping, block: u64) -> Error {
    let (file, path) = (numbered(&mapping.file, block), numbered(&mapping.dataset, block));
    let here = object.file();
    let is_here = file.as_bytes() == b".";
    let source = match is_here || here.0.external.open(here, &file).is_ok() {
        true if is_here => format!("dataset {path} in the same file"),
        true => format!("dataset {path} in its source file {file}"),
        false => format!("source file {file}"),
    };
    let message = format!(
        "cannot copy the values of the virtual dataset: expected its {source}, got none, so that its fill value would \
         become permanent; restore the source, or copy the dataset as a virtual one (`pack` or `cp` without --embed)"
    );
    Error::new(ErrorKind::NotFound, message)
}

/// Returns whether two boxes have no common element.
fn is_disjoint(one: &[Range<u64>], other: &[Range<u64>]) -> bool {
    one.iter().zip(other).any(|(one, other)| one.start >= other.end || other.start >= one.end)
}

/// Reads a selection of a virtual dataset.
pub(super) fn read(dataset: &Dataset, selection: &Selection, output: &Output<'_>) -> Result<()> {
    let inner = &dataset.0;
    let _inside = Inside::enter(&inner.object)?;
    let count = usize::try_from(selection.count(dataset.dims())?).map_err(|_| too_large())?;
    // SAFETY: this thread is alone.
    unsafe { output.fill(0, count, dataset.unwritten()?.as_deref()) }?;
    let Some(asked) = selection.bounds(dataset.dims())? else { return Ok(()) };
    for mapping in dataset.mappings() {
        match unlimited(&mapping.target) {
            None => {
                let target = Selection::resolve(&mapping.target, dataset.dims())?;
                part(dataset, mapping, 0, &target, selection, &asked, output)?;
            }
            Some((axis, slab)) if mapping.dataset.parts.len() > 1 || mapping.file.parts.len() > 1 => {
                let extent = dataset.dims().get(axis).copied().unwrap_or(0);
                for number in 0.. {
                    let start = slab.start.saturating_add(slab.stride.saturating_mul(number));
                    if start >= extent {
                        break;
                    }
                    let block = Hyperslab { start, stride: 1, count: Some(1), block: slab.block };
                    let target =
                        Selection::resolve(&with_slab(&mapping.target, axis, block), dataset.dims())?;
                    part(dataset, mapping, number, &target, selection, &asked, output)?;
                }
            }
            Some((axis, slab)) => {
                let end = end_of_slices(slab, slices(inner, mapping)?);
                let mut dims = dataset.dims().to_vec();
                if let Some(dim) = dims.get_mut(axis) {
                    *dim = end.min(*dim);
                }
                let target = Selection::resolve(&mapping.target, &dims)?;
                part(dataset, mapping, 0, &target, selection, &asked, output)?;
            }
        }
    }
    Ok(())
}

fn too_large() -> Error {
    Error::limit("a selection larger than the address space")
}

fn with_slab(selection: &StoredSelection, axis: usize, slab: Hyperslab) -> StoredSelection {
    match selection {
        StoredSelection::Regular(slabs) => {
            let slabs = slabs.iter().enumerate();
            StoredSelection::Regular(slabs.map(|(at, old)| if at == axis { slab } else { *old }).collect())
        }
        other => other.clone(),
    }
}

/// Reads the part of the selection that one source provides.
fn part(
    dataset: &Dataset,
    mapping: &VirtualMapping,
    block: u64,
    target: &Selection,
    selection: &Selection,
    asked: &[Range<u64>],
    output: &Output<'_>,
) -> Result<()> {
    let Some(bounds) = target.bounds(dataset.dims())? else { return Ok(()) };
    if is_disjoint(&bounds, asked) {
        return Ok(());
    }
    let Some(source) = open(&dataset.0.object, mapping, block)? else { return Ok(()) };
    if dataset.datatype().has_vlen() && !source.0.object.file().same(dataset.0.object.file()) {
        // Such elements refer to the global heap of the source's file.
        let message = "cannot read variable-length elements of a virtual dataset from another file";
        return Err(dataset.with_context(Error::unsupported(message)));
    }
    let selected = Selection::resolve(&mapping.source, source.dims())?;
    let Some(mapped) = map(&selected, source.dims(), target, dataset.dims(), selection)? else {
        return Ok(());
    };
    let count = usize::try_from(mapped.source.count(source.dims())?).map_err(|_| too_large())?;
    if let Some(place) = mapped.place().filter(|_| output.is_copy()) {
        // SAFETY: this thread is alone.
        return source.read_as(&mapped.source, dataset.datatype(), unsafe { output.direct(place, count) }?);
    }
    let size = output.stored_size;
    let bytes = count.checked_mul(size).ok_or_else(too_large)?;
    if !output.is_copy() {
        dataset.check_scratch(bytes, count.saturating_mul(output.memory_size))?;
    }
    let mut values = crate::room::zeros(bytes)?;
    source.read_as(&mapped.source, dataset.datatype(), &mut values)?;
    mapped.runs(|from, to, count| {
        let stored = values.get(from * size..(from + count) * size);
        // SAFETY: this thread is alone.
        unsafe { output.put(to, stored.ok_or_else(|| Error::invalid("a run is outside its source"))?) }
    })
}
