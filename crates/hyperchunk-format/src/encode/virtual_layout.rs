//! Mappings of a virtual dataset. Source: specification §III.E, "Global Heap Block for Virtual Datasets",
//! version 0.

use super::{Bytes, LibVersion, selection};
use crate::model::{SourceName, VirtualMapping};
use crate::parse::virtual_layout::check;
use crate::{Error, Result};

const NAME: &str = "virtual dataset's mappings";

/// Encodes the mappings as an object of the global heap.
///
/// # Errors
/// Unsupported if the release `oldest` has no virtual datasets, or no such selection; Invalid if no library
/// would accept the mappings.
pub fn encode(mappings: &[VirtualMapping], oldest: LibVersion) -> Result<Vec<u8>> {
    encoded(mappings, oldest).map_err(|error| error.within(NAME))
}

fn encoded(mappings: &[VirtualMapping], oldest: LibVersion) -> Result<Vec<u8>> {
    const VERSION: u8 = 0;
    if oldest < LibVersion::V110 {
        return Err(Error::unsupported("HDF5 1.8 has no virtual datasets"));
    }
    let mut bytes = Bytes::new();
    bytes.u8(VERSION).u64(mappings.len() as u64);
    for mapping in mappings {
        check(mapping).map_err(Error::invalid)?;
        bytes.raw(&source_name(&mapping.file)?).u8(0).raw(&source_name(&mapping.dataset)?).u8(0);
        for part in [&mapping.source, &mapping.target] {
            bytes.raw(&selection::encode(part, oldest)?);
        }
    }
    bytes.checksum();
    Ok(bytes.into_vec())
}

/// Encodes a name, with `%b` between its parts and `%%` for `%`.
fn source_name(name: &SourceName) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for (number, part) in name.parts.iter().enumerate() {
        if number > 0 {
            bytes.extend(b"%b");
        }
        for byte in part.as_bytes() {
            if *byte == b'%' {
                bytes.push(b'%');
            }
            bytes.push(*byte);
        }
    }
    if bytes.is_empty() || bytes.contains(&0) {
        let message = format!("the name `{}` is empty or contains a NUL", bytes.escape_ascii());
        return Err(Error::invalid(message));
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::model::{Hyperslab, Name, StoredSelection};
    use crate::parse::testing::{Maker, with_image};

    fn name(parts: &[&str]) -> SourceName {
        SourceName { parts: parts.iter().map(|part| Name::from(*part)).collect() }
    }

    fn slab(count: Option<u64>) -> StoredSelection {
        StoredSelection::Regular(vec![Hyperslab { start: 1, stride: 2, count, block: Some(1) }])
    }

    fn mapping(file: &[&str], source: StoredSelection, target: StoredSelection) -> VirtualMapping {
        VirtualMapping { file: name(file), dataset: name(&["/a/b"]), source, target }
    }

    /// Creates a collection with the mappings as object 1.
    fn collection(object: &[u8]) -> Vec<u8> {
        let file = Maker::default().raw(b"GCOL").u8s(&[1, 0, 0, 0]).u64s(&[4096]);
        let file = file.u16s(&[1, 1, 0, 0]).u64s(&[object.len() as u64]).raw(object);
        let at = file.0.len().next_multiple_of(8);
        file.to(at).u16s(&[0; 4]).u64s(&[4096 - at as u64]).to(4096).0
    }

    #[test]
    fn what_is_written_is_read() {
        let mappings = [
            mapping(&["a.h5"], StoredSelection::All, StoredSelection::All),
            mapping(&["."], slab(Some(4)), slab(Some(4))),
            mapping(&["50% of ", "%", ""], slab(Some(4)), slab(None)),
            mapping(&["b.h5"], slab(None), slab(None)),
            mapping(&["b.h5"], StoredSelection::None, StoredSelection::None),
        ];
        for count in 0..=mappings.len() {
            for oldest in [LibVersion::V110, LibVersion::V200] {
                let object = encode(&mappings[..count], oldest).unwrap();
                let found = with_image(&collection(&object), |image| {
                    crate::parse::virtual_layout::mappings(image, (0, 1))
                });
                assert_eq!(found.unwrap(), mappings[..count]);
            }
        }
    }

    #[test]
    fn what_makes_no_sense_is_not_written() {
        let refused = |mapping: VirtualMapping| assert!(encode(&[mapping], LibVersion::V110).is_err());
        assert!(encode(&[], LibVersion::V18).is_err());
        refused(mapping(&[""], StoredSelection::All, StoredSelection::All));
        refused(mapping(&["a\0b"], StoredSelection::All, StoredSelection::All));
        refused(mapping(&[], StoredSelection::All, StoredSelection::All));
        refused(mapping(&["a", ""], StoredSelection::All, StoredSelection::All));
        refused(mapping(&["a"], slab(Some(4)), slab(None)));
        refused(mapping(&["a"], StoredSelection::Points { rank: 1, coordinates: vec![1] }, slab(Some(1))));
    }
}
