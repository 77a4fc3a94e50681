//! Mappings of a virtual dataset. Source: specification §III.E, "Global Heap Block for Virtual Datasets";
//! version 1: HDF5 2.x, H5Dvirtual.c.

use super::global_heap::Collection;
use super::selection;
use crate::model::{Name, SourceName, StoredSelection, VirtualMapping};
use crate::{Cursor, Error, Image, Result};

const NAME: &str = "virtual dataset's mappings";

/// Flags of a version 1 mapping: the origin of its names.
const FILE_SHARED: u8 = 1;
const DATASET_SHARED: u8 = 2;
const SAME_FILE: u8 = 4;

/// Reads the mappings in a global heap object, given by its collection's address and its index.
///
/// # Errors
/// Corrupt, Truncated, Unsupported, Limit; Need.
pub fn mappings(image: Image<'_>, heap: (u64, u32)) -> Result<Vec<VirtualMapping>> {
    let (address, index) = heap;
    let collection = Collection::open(image, address)?;
    let offset = image.offset(address)?;
    let object = collection
        .object(index)
        .ok_or_else(|| Error::corrupt(format!("no object {index} in the heap")).within(NAME).at(offset))?;
    image.visit()?;
    parse(image, object, offset).map_err(|error| error.within(NAME).at(offset))
}

/// Reads the mappings from the bytes of a global heap object at offset `offset`.
///
/// # Errors
/// As [`mappings`].
pub fn parse(image: Image<'_>, object: &[u8], offset: u64) -> Result<Vec<VirtualMapping>> {
    let mut cursor = Cursor::new(crate::checksum::split_checked(object)?, NAME, offset);
    let version = cursor.version(0..=1)?;
    let count = cursor.length(image.sizes)?;
    if count > image.limits.virtual_mappings {
        return Err(Error::limit(format!("{count} mappings, more than the limit `virtual_mappings`")));
    }
    let mut mappings: Vec<VirtualMapping> = Vec::new();
    let mut names = 0_u64;
    for _ in 0..count {
        let flags = if version == 0 { 0 } else { cursor.u8()? };
        if flags > FILE_SHARED | DATASET_SHARED | SAME_FILE {
            return Err(cursor.error(format!("a mapping with flags {flags:#04x}")));
        }
        let file = if flags & SAME_FILE != 0 {
            SourceName { parts: vec![Name::from(".")] }
        } else if flags & FILE_SHARED != 0 {
            shared(&mut cursor, image, &mappings)?.file.clone()
        } else {
            source_name(&mut cursor)?
        };
        let dataset = if flags & DATASET_SHARED != 0 {
            shared(&mut cursor, image, &mappings)?.dataset.clone()
        } else {
            source_name(&mut cursor)?
        };
        // A name is stored once, but many mappings may share it.
        let parts = file.parts.iter().chain(&dataset.parts);
        names = parts.fold(names, |sum, part| sum.saturating_add(part.as_bytes().len() as u64));
        if names > image.limits.metadata_bytes {
            return Err(Error::limit(format!(
                "{names} bytes of names in one virtual dataset, more than the limit `metadata_bytes`"
            )));
        }
        let source = selection::parse(&mut cursor)?;
        let target = selection::parse(&mut cursor)?;
        let mapping = VirtualMapping { file, dataset, source, target };
        check(&mapping).map_err(|message| cursor.error(message.into()))?;
        mappings.push(mapping);
    }
    if cursor.left() > 0 {
        return Err(cursor.error(format!("{} bytes more than the mappings have", cursor.left())));
    }
    Ok(mappings)
}

/// Returns the earlier mapping that has the shared name.
fn shared<'m>(
    cursor: &mut Cursor<'_>,
    image: Image<'_>,
    mappings: &'m [VirtualMapping],
) -> Result<&'m VirtualMapping> {
    let origin = cursor.length(image.sizes)?;
    let mapping = usize::try_from(origin).ok().and_then(|origin| mappings.get(origin));
    mapping.ok_or_else(|| {
        cursor.error(format!("a name shared with mapping {origin}, which is not an earlier one"))
    })
}

/// Reads a name and splits it at each `%b`; `%%` stands for `%`.
fn source_name(cursor: &mut Cursor<'_>) -> Result<SourceName> {
    let bytes = cursor.until_nul()?;
    let mut parts = Vec::new();
    let mut part = Vec::new();
    let mut rest = bytes.iter();
    while let Some(byte) = rest.next() {
        match (byte, if *byte == b'%' { rest.next() } else { None }) {
            (b'%', Some(b'b')) => parts.push(Name::from(&*std::mem::take(&mut part))),
            (b'%', Some(b'%')) => part.push(b'%'),
            (b'%', _) => {
                let name = bytes.escape_ascii();
                return Err(
                    cursor.error(format!("`%` in the name `{name}` is followed by neither `b` nor `%`"))
                );
            }
            (byte, _) => part.push(*byte),
        }
    }
    parts.push(Name::from(&*part));
    Ok(SourceName { parts })
}

/// Checks, without reading the datasets, that libhdf5 allows a mapping.
pub(crate) fn check(mapping: &VirtualMapping) -> std::result::Result<(), &'static str> {
    let VirtualMapping { file, dataset, source, target } = mapping;
    if matches!(source, StoredSelection::Points { .. }) || matches!(target, StoredSelection::Points { .. }) {
        return Err("a mapping selects points");
    }
    let many_sources = file.parts.len() > 1 || dataset.parts.len() > 1;
    match (is_unlimited(target), is_unlimited(source)) {
        (true, false) if !many_sources => Err("a limited source with an unlimited target"),
        (true, true) | (false, _) if many_sources => {
            Err("names with `%b` need a limited source and an unlimited target")
        }
        (false, true) => Err("an unlimited source with a limited target"),
        _ => Ok(()),
    }
}

/// True if a selection is unlimited, that is, grows with the dataset.
fn is_unlimited(selection: &StoredSelection) -> bool {
    let StoredSelection::Regular(axes) = selection else { return false };
    axes.iter().any(|axis| axis.count.is_none() || axis.block.is_none())
}

#[cfg(test)]
mod tests;
