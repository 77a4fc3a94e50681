//! References in Arrow: `{path, raw, selection}`.
//!
//! - `path`: the path of the object; null if it is not in the file.
//! - `raw`: the element, with addresses of 8 bytes, followed by its heap object; empty for a null reference.
//! - `selection`: for a region, the first and the last corner of each block, for display; null if there are
//!   too many, or it is not a region.

use crate::{Error, ErrorKind, Result};
use hyperchunk::File;
use hyperchunk::encode::LibVersion;
use hyperchunk::encode::reference::{HeapObject, encode, heap_object, size};
use hyperchunk::model::{Hyperslab, Name, Reference, ReferenceKind, StoredSelection};
use hyperchunk::parse::reference::parse_apart;
use hyperchunk::write::{NodeId, Target, Writer};

/// Maximum number of coordinates shown as blocks.
const MAX_SHOWN_COORDINATES: usize = 4096;
/// The undefined address.
const UNDEFINED_ADDRESS: u64 = u64::MAX;

/// A reference in Arrow.
#[derive(Debug, Default)]
pub(super) struct ArrowReference {
    pub(super) path: Option<String>,
    pub(super) raw: Vec<u8>,
    pub(super) selection: Option<Vec<u64>>,
}

/// Returns the target of a stored element.
pub(super) fn read_reference(file: &File, kind: ReferenceKind, element: &[u8]) -> Result<ArrowReference> {
    let Some(reference) = file.reference(kind, element)? else { return Ok(ArrowReference::default()) };
    let path = match reference.file {
        None => file.paths()?.find(reference.address),
        Some(_) => file.dereference(&reference).ok().and_then(|object| {
            let paths = object.file().paths().ok()?;
            paths.find(object.address())
        }),
    };
    let path = path.and_then(|path| String::from_utf8(path).ok());
    let selection = reference.region.as_ref().and_then(|region| blocks(&region.selection));
    Ok(ArrowReference { path, raw: raw(kind, &reference)?, selection })
}

/// Returns the `raw` bytes, which do not depend on the file's heap.
fn raw(kind: ReferenceKind, reference: &Reference) -> Result<Vec<u8>> {
    if reference.address == UNDEFINED_ADDRESS && kind == ReferenceKind::Object1 {
        return encode(kind, Some(reference), None);
    }
    let kind = actual_kind(kind, reference);
    let object = heap_object(kind, reference, LibVersion::V200)?;
    let place = match &object {
        None => None,
        Some(object) => {
            let size = u32::try_from(object.len()).map_err(|_| Error::limit("a selection of 4 GiB"))?;
            Some(HeapObject { address: 1, index: 1, size })
        }
    };
    let mut raw = encode(kind, Some(reference), place)?;
    raw.extend(object.unwrap_or_default());
    Ok(raw)
}

/// Returns the actual kind of a reference of HDF5 1.12 (`H5T_STD_REF`), whose datatype holds all kinds.
fn actual_kind(kind: ReferenceKind, reference: &Reference) -> ReferenceKind {
    match (kind, &reference.region, &reference.attribute) {
        (ReferenceKind::Object1 | ReferenceKind::Region1, ..) => kind,
        (_, Some(_), _) => ReferenceKind::Region2,
        (_, _, Some(_)) => ReferenceKind::Attribute,
        _ => ReferenceKind::Object2,
    }
}

/// Returns the corners of a selection's blocks.
fn blocks(selection: &StoredSelection) -> Option<Vec<u64>> {
    match selection {
        StoredSelection::None => Some(Vec::new()),
        StoredSelection::All => None,
        StoredSelection::Points { rank, coordinates } => {
            let twice = |point: &[u64]| [point, point].concat();
            Some(coordinates.chunks((*rank).max(1)).flat_map(twice).collect())
                .filter(|_| coordinates.len() <= MAX_SHOWN_COORDINATES / 2)
        }
        StoredSelection::Blocks { corners, .. } => {
            Some(corners.clone()).filter(|corners| corners.len() <= MAX_SHOWN_COORDINATES)
        }
        StoredSelection::Regular(slabs) => regular(slabs),
    }
}

fn regular(slabs: &[Hyperslab]) -> Option<Vec<u64>> {
    let count = slabs.iter().try_fold(1_u64, |count, slab| count.checked_mul(slab.count?))?;
    let numbers = usize::try_from(count).ok()?.checked_mul(slabs.len())?.checked_mul(2)?;
    if numbers > MAX_SHOWN_COORDINATES || numbers == 0 {
        return None;
    }
    let mut corners = vec![(Vec::new(), Vec::new())];
    for slab in slabs {
        let block = slab.block?.checked_sub(1)?;
        let mut next = Vec::with_capacity(corners.len());
        for (first, last) in &corners {
            for number in 0..slab.count? {
                let start = number.checked_mul(slab.stride)?.checked_add(slab.start)?;
                next.push((
                    [&first[..], &[start]].concat(),
                    [&last[..], &[start.checked_add(block)?]].concat(),
                ));
            }
        }
        corners = next;
    }
    Some(corners.into_iter().flat_map(|(first, last)| [first, last].concat()).collect())
}

/// Stores a reference; returns the element.
pub(super) fn store(
    writer: &Writer,
    kind: ReferenceKind,
    path: Option<&str>,
    raw: &[u8],
    attribute: bool,
) -> Result<Vec<u8>> {
    let wide = usize::try_from(size(kind)).unwrap_or(0);
    let known = if raw.is_empty() {
        None
    } else {
        let (element, object) = raw
            .split_at_checked(wide)
            .ok_or_else(|| Error::corrupt(format!("a reference of {} bytes, expected {wide}", raw.len())))?;
        parse_apart(kind, element, object)?
    };
    let mut reference = match (known, path) {
        (None, None) => return encode(kind, None, None),
        (Some(reference), _) => reference,
        // Created by a program that knows only a path.
        (None, Some(_)) if matches!(kind, ReferenceKind::Object1 | ReferenceKind::Object2) => {
            Reference { file: None, address: UNDEFINED_ADDRESS, region: None, attribute: None }
        }
        (None, Some(path)) => {
            return Err(Error::invalid(format!("a reference to a part of {path} needs its `raw` bytes")));
        }
    };
    if reference.file.is_none() {
        reference.address = match path.map(|path| find(writer, path)).transpose()?.flatten() {
            Some(node) => writer.address(node)?,
            None if path.is_some() && reference.address == UNDEFINED_ADDRESS => {
                let message =
                    format!("a reference to {}, which is not in the file", path.unwrap_or_default());
                return Err(Error::new(ErrorKind::NotFound, message));
            }
            None => UNDEFINED_ADDRESS,
        };
    }
    if reference.address == UNDEFINED_ADDRESS {
        // It stays dangling: use an address without an object.
        return match kind {
            ReferenceKind::Object1 => encode(kind, Some(&reference), None),
            _ => writer.store_reference(
                actual_kind(kind, &reference),
                &Reference { address: UNDEFINED_ADDRESS - 1, ..reference },
                attribute,
            ),
        };
    }
    writer.store_reference(actual_kind(kind, &reference), &reference, attribute)
}

/// Returns the object at a path of a file that is being written, if it exists.
pub(crate) fn find(writer: &Writer, path: &str) -> Result<Option<NodeId>> {
    match writer.resolve(NodeId::ROOT, path.as_bytes()) {
        Ok(Target::Here(node)) => Ok(Some(node)),
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(None),
    }
}

/// Returns the name of an object for a message.
pub(crate) fn display_path(path: &[u8]) -> String {
    Name::from(path).to_string()
}
