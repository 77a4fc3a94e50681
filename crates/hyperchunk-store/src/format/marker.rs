//! Definitions in markers: a dataset can be described before its first log and epoch exist.

use crate::{Definition, MARKER, Marker};
use hyperchunk::Result;
use hyperchunk::storage::ADVICE;
use hyperchunk_format::model::{ExternalFile, Name};

/// Prefix of an encoded definition in the name.
const DEFINITION: &str = "definition/";

impl Definition {
    /// Returns a marker as an external file that contains the dataset's definition, for use
    /// before the first log and epoch.
    ///
    /// # Errors
    /// As [`Definition::encode`].
    pub fn to_external_file(&self, marker: &Marker) -> Result<ExternalFile> {
        let bytes: String = self.encode()?.iter().map(|byte| format!("{byte:02x}")).collect();
        let name = format!("{MARKER}{}/{}/{DEFINITION}{bytes}/{ADVICE}", marker.dataset, marker.epoch);
        Ok(ExternalFile { name: Name::from(&*name), offset: 0, size: None })
    }

    /// Returns the definition contained in a dataset's marker, if there is one.
    #[must_use]
    pub fn from_external_files(files: &[ExternalFile]) -> Option<Self> {
        let marker = Marker::from_external_files(files)?;
        let name = files.last()?.name.as_str()?.strip_prefix(MARKER)?;
        let digits = name.splitn(3, '/').nth(2)?.strip_prefix(DEFINITION)?.split('/').next()?;
        let pairs = digits.as_bytes().chunks_exact(2);
        let bytes: Option<Vec<u8>> =
            pairs.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect();
        let definition = Self::decode(&bytes?).ok()?;
        (definition.id().ok()? == marker.dataset).then_some(definition)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DatasetId;
    use hyperchunk_format::model::{ByteOrder, Datatype};

    #[test]
    fn a_marker_can_say_what_its_dataset_is() {
        let definition = Definition::new("/a/ü", Datatype::ieee(4, ByteOrder::Big), vec![3, 0]);
        let marker = Marker { dataset: definition.id().unwrap(), epoch: 0 };
        let file = definition.to_external_file(&marker).unwrap();
        assert_eq!(Marker::from_external_files(std::slice::from_ref(&file)), Some(marker));
        assert_eq!(Definition::from_external_files(&[file]), Some(definition.clone()));
        assert_eq!(Definition::from_external_files(&[marker.to_external_file(false)]), None);
        let other = Marker { dataset: DatasetId([1; 16]), epoch: 0 };
        assert_eq!(
            Definition::from_external_files(&[definition.to_external_file(&other).unwrap()]),
            None,
            "it is of another"
        );
    }
}
