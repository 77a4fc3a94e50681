//! References as stored in elements of datasets. Source: specification §IV.A.2.d, class 7, and §VIII.B and C;
//! HDF5 2.x `H5R__decode` and `H5T__ref_disk_*` for revised references.

use super::global_heap::Collection;
use super::selection;
use crate::model::{Name, Reference, ReferenceKind, RegionSelection};
use crate::{Cursor, Error, Fuel, Image, Limits, Result, Sizes};

const STRUCTURE: &str = "reference";

/// Reads the reference in an element; `None` for a null reference.
///
/// # Errors
/// Corrupt or Unsupported if the reference or its global heap object is damaged.
pub fn parse(image: Image<'_>, kind: ReferenceKind, element: &[u8]) -> Result<Option<Reference>> {
    parse_with(image, kind, element, &mut |address, index| {
        let object = Collection::open(image, address)?.object(index).map(<[u8]>::to_vec);
        object.ok_or_else(|| {
            Error::corrupt(format!("the global heap at {address:#x} has no object {index}")).within(STRUCTURE)
        })
    })
}

/// Reads a reference as [`parse`], with another source of global heap objects: `heap` gets a collection's
/// address and an index.
///
/// # Errors
/// As [`parse`]; the errors of `heap`.
pub fn parse_with(
    image: Image<'_>,
    kind: ReferenceKind,
    element: &[u8],
    heap: &mut dyn FnMut(u64, u32) -> Result<Vec<u8>>,
) -> Result<Option<Reference>> {
    let mut cursor = Cursor::new(element, STRUCTURE, 0);
    match kind {
        ReferenceKind::Object1 => {
            // An undefined address is an error for following the reference, not for reading it.
            let address = cursor.address(image.sizes)?.unwrap_or(u64::MAX);
            Ok(Some(to(address)).filter(|reference| reference.address != 0))
        }
        ReferenceKind::Region1 => {
            let Some((address, index)) = heap_id(image, &mut cursor)? else { return Ok(None) };
            let object = heap(address, index)?;
            let mut cursor = Cursor::new(&object, "region reference", 0);
            let address = cursor.address(image.sizes)?.unwrap_or(u64::MAX);
            let region = RegionSelection { dims: None, selection: selection::parse(&mut cursor)? };
            Ok(Some(Reference { region: Some(region), ..to(address) }))
        }
        ReferenceKind::Object2 | ReferenceKind::Region2 | ReferenceKind::Attribute => {
            revised(image, &mut cursor, heap)
        }
    }
}

/// Reads a reference without its file: from an element with addresses of 8 bytes, and the global heap object
/// to which the element points.
///
/// # Errors
/// As [`parse`].
pub fn parse_apart(kind: ReferenceKind, element: &[u8], object: &[u8]) -> Result<Option<Reference>> {
    let limits = Limits::default();
    let fuel = Fuel::new(&limits);
    let nothing: &[u8] = &[];
    let image = Image::new(&nothing, 0, Sizes::WRITTEN, &limits, &fuel);
    parse_with(image, kind, element, &mut |_, _| Ok(object.to_vec()))
}

fn to(address: u64) -> Reference {
    Reference { file: None, address, region: None, attribute: None }
}

/// Reads a collection's address and an index; `None` if the address is 0.
fn heap_id(image: Image<'_>, cursor: &mut Cursor<'_>) -> Result<Option<(u64, u32)>> {
    let address = cursor.address(image.sizes)?;
    let index = cursor.u32()?;
    let address =
        address.ok_or_else(|| cursor.error("the address of the reference's heap is undefined".into()))?;
    Ok(Some((address, index)).filter(|_| address != 0))
}

/// Reads a revised reference. Its own type field gives its kind, since one datatype is used for all kinds.
fn revised(
    image: Image<'_>,
    cursor: &mut Cursor<'_>,
    heap: &mut dyn FnMut(u64, u32) -> Result<Vec<u8>>,
) -> Result<Option<Reference>> {
    const OBJECT: u8 = 2;
    const REGION: u8 = 3;
    const ATTRIBUTE: u8 = 4;
    const EXTERNAL: u8 = 0x01;
    let (kind, flags) = (cursor.u8()?, cursor.u8()?);
    let external = flags & EXTERNAL != 0;
    if kind == OBJECT && !external {
        return object(cursor).map(|address| Some(to(address)));
    }
    cursor.skip(4)?;
    let Some((address, index)) = heap_id(image, cursor)? else { return Ok(None) };
    if !(OBJECT..=ATTRIBUTE).contains(&kind) {
        return Err(cursor.error(format!("a reference of unknown type {kind}")));
    }
    let bytes = heap(address, index)?;
    let mut cursor = Cursor::new(&bytes, STRUCTURE, 0);
    let mut reference = to(object(&mut cursor)?);
    if external {
        reference.file = Some(string(&mut cursor)?);
    }
    if kind == REGION {
        // Size and rank of the selection, which are repeated in it.
        cursor.skip(8)?;
        reference.region = Some(RegionSelection { dims: None, selection: selection::parse(&mut cursor)? });
    } else if kind == ATTRIBUTE {
        reference.attribute = Some(string(&mut cursor)?);
    }
    Ok(Some(reference))
}

/// Reads an object token: in HDF5 files, an address preceded by its size.
fn object(cursor: &mut Cursor<'_>) -> Result<u64> {
    let size = usize::from(cursor.u8()?);
    if size > 16 {
        return Err(cursor.error(format!("an object token of {size} bytes")));
    }
    cursor.uint(size)
}

fn string(cursor: &mut Cursor<'_>) -> Result<Name> {
    let length = cursor.u16()?;
    let bytes = cursor.take(length.into())?;
    Ok(bytes.split(|byte| *byte == 0).next().unwrap_or_default().into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::StoredSelection;
    use crate::parse::testing::{Maker, with_image};

    /// Parses an element; the heap has `object` at address 64, index 1.
    fn parsed(kind: ReferenceKind, element: &[u8], object: &[u8]) -> Result<Option<Reference>> {
        with_image(&[], |image| {
            parse_with(image, kind, element, &mut |address, index| {
                assert_eq!((address, index), (64, 1));
                Ok(object.to_vec())
            })
        })
    }

    fn check(kind: ReferenceKind, element: Maker, object: &[u8], expected: Option<Reference>) {
        assert_eq!(parsed(kind, &element.0, object).unwrap(), expected);
    }

    fn u64s(numbers: &[u64]) -> Maker {
        Maker::default().u64s(numbers)
    }

    fn region() -> Option<RegionSelection> {
        let selection = StoredSelection::Points { rank: 1, coordinates: vec![5] };
        Some(RegionSelection { dims: None, selection })
    }

    const POINT: &[u32] = &[1, 1, 0, 0, 1, 1, 5];

    #[test]
    fn first_kind() {
        check(ReferenceKind::Object1, u64s(&[96]), &[], Some(to(96)));
        check(ReferenceKind::Object1, u64s(&[0]), &[], None);
        check(ReferenceKind::Object1, u64s(&[u64::MAX]), &[], Some(to(u64::MAX)));
        let object = u64s(&[96]).u32s(POINT).0;
        let expected = Reference { region: region(), ..to(96) };
        check(ReferenceKind::Region1, u64s(&[64]).u32s(&[1]), &object, Some(expected));
        check(ReferenceKind::Region1, u64s(&[0]).u32s(&[0]), &[], None);
    }

    #[test]
    fn revised_kind() {
        let element = |kind, flags, size: usize| {
            Maker::default().u8s(&[kind, flags]).u32s(&[u32::try_from(size).unwrap()]).u64s(&[64]).u32s(&[1])
        };
        let kind = ReferenceKind::Object2;
        check(kind, Maker::default().u8s(&[2, 0, 8]).u64s(&[96]).u8s(&[0; 7]), &[], Some(to(96)));
        check(kind, Maker::default().u8s(&[0; 18]), &[], None);
        let object = Maker::default().u8s(&[8]).u64s(&[96]).raw(b"\x04\0f.h5").0;
        let expected = Reference { file: Some("f.h5".into()), ..to(96) };
        check(kind, element(2, 1, object.len()), &object, Some(expected));
        let object = Maker::default().u8s(&[8]).u64s(&[96]).u32s(&[28, 1]).u32s(POINT).0;
        let expected = Reference { region: region(), ..to(96) };
        check(ReferenceKind::Region2, element(3, 0, object.len()), &object, Some(expected));
        let object = Maker::default().u8s(&[8]).u64s(&[96]).raw(b"\x01\0a").0;
        let expected = Reference { attribute: Some("a".into()), ..to(96) };
        check(ReferenceKind::Attribute, element(4, 0, object.len()), &object, Some(expected));
    }

    #[test]
    fn damage() {
        let refused = |kind, element: Maker, object: &[u8]| {
            assert!(parsed(kind, &element.0, object).is_err());
        };
        refused(ReferenceKind::Object1, Maker::default().u32s(&[96]), &[]);
        refused(ReferenceKind::Region1, u64s(&[u64::MAX]).u32s(&[1]), &[]);
        refused(ReferenceKind::Region1, u64s(&[64]).u32s(&[1]), &[1, 2, 3]);
        refused(
            ReferenceKind::Object2,
            Maker::default().u8s(&[5, 0, 0, 0, 0, 0]).u64s(&[64]).u32s(&[1]),
            &[],
        );
        refused(ReferenceKind::Object2, Maker::default().u8s(&[2, 0, 17]).raw(&[0; 17]), &[]);
        let element = Maker::default().u8s(&[4, 0, 0, 0, 0, 0]).u64s(&[64]).u32s(&[1]);
        refused(ReferenceKind::Attribute, element, b"\x01\x60\x05\0a");
    }
}
