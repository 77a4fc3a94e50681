//! References as stored in elements of datasets. Source: specification §IV.A.2.d, class 7, and §VIII.B and C;
//! HDF5 2.x `H5R__encode` and `H5T__ref_disk_write` for revised references.

use super::{Bytes, LibVersion, UNDEFINED, fit, selection};
use crate::model::{Name, Reference, ReferenceKind, RegionSelection, StoredSelection};
use crate::{Error, Result};

const STRUCTURE: &str = "reference";
const OBJECT: u8 = 2;
const REGION: u8 = 3;
const ATTRIBUTE: u8 = 4;
const EXTERNAL: u8 = 0x01;

/// Location of a global heap object: its collection, its index and its size.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HeapObject {
    /// Address of the collection.
    pub address: u64,
    /// Index.
    pub index: u32,
    /// Size in bytes.
    pub size: u32,
}

/// Returns the size of an element of that kind.
#[must_use]
pub fn size(kind: ReferenceKind) -> u64 {
    match kind {
        ReferenceKind::Object1 => 8,
        ReferenceKind::Region1 => 12,
        ReferenceKind::Object2 | ReferenceKind::Region2 | ReferenceKind::Attribute => 18,
    }
}

/// Encodes the global heap object of a reference; `None` if it needs none.
///
/// # Errors
/// Invalid if a reference of that kind cannot have this target; the errors of selections.
pub fn heap_object(
    kind: ReferenceKind,
    reference: &Reference,
    oldest: LibVersion,
) -> Result<Option<Vec<u8>>> {
    object(kind, reference, oldest).map_err(|error| error.within(STRUCTURE))
}

fn object(kind: ReferenceKind, reference: &Reference, oldest: LibVersion) -> Result<Option<Vec<u8>>> {
    if matches!(reference.address, 0 | UNDEFINED) {
        return Err(Error::invalid("a reference to an undefined address"));
    }
    let mut bytes = Bytes::new();
    match (kind, reference) {
        (ReferenceKind::Object1, Reference { file: None, region: None, attribute: None, .. })
        | (ReferenceKind::Object2, Reference { file: None, region: None, attribute: None, .. }) => {
            return Ok(None);
        }
        (ReferenceKind::Region1, Reference { file: None, region: Some(region), attribute: None, .. }) => {
            bytes.u64(reference.address).raw(&selection::encode(&region.selection, oldest)?);
        }
        (ReferenceKind::Object2, Reference { region: None, attribute: None, .. }) => {
            token(reference, &mut bytes)?;
        }
        (ReferenceKind::Region2, Reference { region: Some(region), attribute: None, .. }) => {
            token(reference, &mut bytes)?;
            let selection = selection::encode(&region.selection, oldest)?;
            bytes.u32(fit(selection.len(), "bytes of a selection")?).u32(rank(region)?).raw(&selection);
        }
        (ReferenceKind::Attribute, Reference { region: None, attribute: Some(attribute), .. }) => {
            token(reference, &mut bytes)?;
            string(attribute, &mut bytes)?;
        }
        _ => {
            return Err(Error::invalid(format!(
                "a reference of kind {kind:?} cannot have the target {reference:?}"
            )));
        }
    }
    Ok(Some(bytes.into_vec()))
}

/// Appends the address of the object, and the name of its file if it is another one.
fn token(reference: &Reference, bytes: &mut Bytes) -> Result<()> {
    bytes.u8(8).u64(reference.address);
    reference.file.as_ref().map_or(Ok(()), |file| string(file, bytes))
}

fn string(name: &Name, bytes: &mut Bytes) -> Result<()> {
    let name = super::message::name_bytes(name, STRUCTURE)?;
    bytes.u16(fit(name.len(), "bytes of a name")?).raw(name);
    Ok(())
}

/// Returns the rank of the extent in which a region was selected.
fn rank(region: &RegionSelection) -> Result<u32> {
    let rank = match (&region.dims, &region.selection) {
        (Some(dims), _) => dims.len(),
        (None, StoredSelection::Points { rank, .. } | StoredSelection::Blocks { rank, .. }) => *rank,
        (None, StoredSelection::Regular(slabs)) => slabs.len(),
        (None, StoredSelection::None | StoredSelection::All) => {
            return Err(Error::invalid("a region whose rank is unknown: set its extent"));
        }
    };
    fit(rank, "dimensions")
}

/// Encodes an element; `None` is the null reference. `heap` is the location of the bytes from
/// [`heap_object`], if there are any.
///
/// # Errors
/// Invalid if `heap` is missing, or given but not needed.
pub fn encode(
    kind: ReferenceKind,
    reference: Option<&Reference>,
    heap: Option<HeapObject>,
) -> Result<Vec<u8>> {
    let mut bytes = Bytes::with_capacity(18);
    let size = usize::try_from(size(kind)).unwrap_or(0);
    let Some(reference) = reference else {
        bytes.zeros(size);
        return Ok(bytes.into_vec());
    };
    let number = match kind {
        ReferenceKind::Object1 | ReferenceKind::Object2 => OBJECT,
        ReferenceKind::Region1 | ReferenceKind::Region2 => REGION,
        ReferenceKind::Attribute => ATTRIBUTE,
    };
    match (kind, heap) {
        (ReferenceKind::Object1, None) => {
            bytes.u64(reference.address);
        }
        (ReferenceKind::Region1, Some(heap)) => {
            bytes.u64(heap.address).u32(heap.index);
        }
        (ReferenceKind::Object2, None) if reference.file.is_none() => {
            bytes.u8(OBJECT).u8(0).u8(8).u64(reference.address);
        }
        (ReferenceKind::Object2 | ReferenceKind::Region2 | ReferenceKind::Attribute, Some(heap))
            if number != OBJECT || reference.file.is_some() =>
        {
            let flags = if reference.file.is_some() { EXTERNAL } else { 0 };
            bytes.u8(number).u8(flags).u32(heap.size).u64(heap.address).u32(heap.index);
        }
        _ => {
            return Err(Error::invalid(format!(
                "a missing or unexpected heap object of a reference of kind {kind:?}: {heap:?}"
            ))
            .within(STRUCTURE));
        }
    }
    bytes.pad_to(size);
    Ok(bytes.into_vec())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse;
    use crate::parse::testing::with_image;

    fn to(address: u64) -> Reference {
        Reference { file: None, address, region: None, attribute: None }
    }

    fn region() -> Option<RegionSelection> {
        let selection = StoredSelection::Blocks { rank: 2, corners: vec![0, 1, 2, 3] };
        Some(RegionSelection { dims: None, selection })
    }

    fn check(kind: ReferenceKind, reference: &Reference) {
        let object = heap_object(kind, reference, LibVersion::V18).unwrap();
        let place =
            object.as_ref().map(|object| HeapObject { address: 64, index: 9, size: object.len() as u32 });
        let element = encode(kind, Some(reference), place).unwrap();
        assert_eq!(element.len() as u64, size(kind));
        let found = with_image(&[], |image| {
            parse::reference::parse_with(image, kind, &element, &mut |address, index| {
                assert_eq!((address, index), (64, 9));
                Ok(object.clone().unwrap())
            })
        });
        assert_eq!(found.unwrap().as_ref(), Some(reference));
        let null = encode(kind, None, None).unwrap();
        let found = with_image(&[], |image| parse::reference::parse(image, kind, &null));
        assert_eq!(found.unwrap(), None);
        // A superfluous or a missing heap object.
        let other = if place.is_some() { None } else { Some(HeapObject { address: 64, index: 9, size: 1 }) };
        assert!(encode(kind, Some(reference), other).is_err());
    }

    #[test]
    fn what_is_written_is_read() {
        check(ReferenceKind::Object1, &to(96));
        check(ReferenceKind::Region1, &Reference { region: region(), ..to(96) });
        for file in [None, Some(Name::from("f.h5"))] {
            let to = || Reference { file: file.clone(), ..to(96) };
            check(ReferenceKind::Object2, &to());
            check(ReferenceKind::Region2, &Reference { region: region(), ..to() });
            check(ReferenceKind::Attribute, &Reference { attribute: Some("a".into()), ..to() });
        }
    }

    #[test]
    fn what_makes_no_sense_is_not_written() {
        let refused = |kind, reference: &Reference| {
            assert!(heap_object(kind, reference, LibVersion::V200).is_err(), "{reference:?}");
        };
        refused(ReferenceKind::Object1, &to(0));
        refused(ReferenceKind::Object1, &Reference { region: region(), ..to(96) });
        refused(ReferenceKind::Object1, &Reference { file: Some("f".into()), ..to(96) });
        refused(ReferenceKind::Region1, &to(96));
        refused(ReferenceKind::Region2, &to(96));
        refused(ReferenceKind::Attribute, &Reference { region: region(), ..to(96) });
        refused(ReferenceKind::Attribute, &Reference { attribute: Some("".into()), ..to(96) });
        let all = Some(RegionSelection { dims: None, selection: StoredSelection::All });
        refused(ReferenceKind::Region2, &Reference { region: all, ..to(96) });
    }
}
