//! Markers: identification of a store's datasets in a skeleton, the HDF5 file that other programs see.
//!
//! In a skeleton, a store's dataset is a contiguous dataset whose data are in external files. The last of
//! these is the marker: its name contains the dataset's id in the store and the epoch. Renaming, further
//! links and references need no bookkeeping, because opening the dataset finds the marker. If the marker is
//! the only external file, its size is unlimited and libhdf5 fails to read or write the dataset. If it
//! follows log segments that contain all data, libhdf5 never reads it. A dataset with more segments than an
//! external file list can have is a virtual dataset instead; the paths of its source blocks contain the same
//! information.

use super::DatasetId;
use crate::walk::{Next, VisitedItem};
use crate::{Dataset, File, Result};
use hyperchunk_format::model::{ExternalFile, Name, ObjectKind, VirtualMapping};

/// Advice to the user. It is a part of the marker's file name, which libhdf5 reports when it fails.
pub const ADVICE: &str =
    "these data are in a sharded store: read them with hyperchunk, or run hyperchunk store link or pack";

/// Prefix of the external file name that marks a store's dataset. No folder of this name must exist.
pub const MARKER: &str = "/.hyperchunk-store/";

/// Identity of the store's dataset that a native dataset (the stub) represents.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Marker {
    /// The dataset.
    pub dataset: DatasetId,
    /// Epoch of the skeleton that contains the marker; 0 if the skeleton is not committed.
    pub epoch: u64,
}

impl Marker {
    /// Returns the marker of a dataset with these external files; `None` if it belongs to no store.
    #[must_use]
    pub fn from_external_files(files: &[ExternalFile]) -> Option<Self> {
        let name = files.last()?.name.as_str()?.strip_prefix(MARKER)?;
        let mut parts = name.splitn(3, '/');
        let dataset = DatasetId::from_hex(parts.next()?)?;
        let epoch = parts.next()?.parse().ok()?;
        Some(Self { dataset, epoch })
    }

    /// Returns the marker of a dataset, which may be a virtual one; `None` if it belongs to no store.
    #[must_use]
    pub fn from_dataset(dataset: &Dataset) -> Option<Self> {
        Self::from_external_files(dataset.external()).or_else(|| Self::from_mappings(dataset.mappings()))
    }

    /// Returns the marker of a virtual dataset with these mappings; `None` if it belongs to no store.
    #[must_use]
    pub fn from_mappings(mappings: &[VirtualMapping]) -> Option<Self> {
        let first = mappings.first()?;
        let ([file], [dataset]) = (&*first.file.parts, &*first.dataset.parts) else { return None };
        Self::from_block_path((file.as_str()? == ".").then_some(dataset.as_str())??)
    }

    /// Parses the marker of a virtual dataset from the path of one of its source blocks.
    #[must_use]
    pub fn from_block_path(path: &str) -> Option<Self> {
        let mut parts = path.strip_prefix(MARKER)?.split('/');
        let dataset = DatasetId::from_hex(parts.next()?)?;
        let epoch = parts.next()?.parse().ok()?;
        parts.next()?.parse::<usize>().ok()?;
        parts.next().is_none().then_some(Self { dataset, epoch })
    }

    /// Returns the path of a block of the dataset.
    #[must_use]
    pub fn block(&self, number: usize) -> String {
        format!("{MARKER}{}/{}/{number}", self.dataset, self.epoch)
    }

    /// Returns the datasets of a file that belong to stores, each with its path. Damaged groups
    /// are skipped.
    ///
    /// # Errors
    /// Errors of reading the file.
    pub fn find_all(file: &File) -> Result<Vec<(Vec<u8>, Self, Dataset)>> {
        let mut all = Vec::new();
        file.walk(&file.root()?, b"/", &mut |visit| {
            match visit.found {
                // A group whose bytes could not be read may have datasets.
                VisitedItem::Broken(error) if error.is_of_reading() => return Err(error),
                VisitedItem::Object(object) if object.kind() == ObjectKind::Dataset => {
                    let dataset = object.dataset()?;
                    if let Some(marker) = Self::from_dataset(&dataset) {
                        all.push((visit.path.to_vec(), marker, dataset));
                    }
                }
                _ => {}
            }
            Ok(Next::Enter)
        })?;
        Ok(all)
    }

    /// Returns the marker as an external file: as the last one after log segments that contain all data
    /// (`linked`), or as the only one.
    #[must_use]
    pub fn to_external_file(&self, linked: bool) -> ExternalFile {
        let name = format!("{MARKER}{}/{}/{ADVICE}", self.dataset, self.epoch);
        ExternalFile { name: Name::from(&*name), offset: 0, size: linked.then_some(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::index::IndexOption;
    use crate::io::{Memory, Source};
    use crate::write::{CreateOptions, DatasetOptions, MemorySink, NewLayout, NodeId, Writer};
    use crate::{Error, ErrorKind, OpenOptions};
    use hyperchunk_format::model::{ByteOrder, Dataspace, Datatype};
    use std::sync::Arc;

    /// A file whose reads at an address fail.
    #[derive(Debug)]
    struct FailingSource(Memory, u64);

    impl Source for FailingSource {
        fn size(&self) -> u64 {
            self.0.size()
        }

        fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
            if (offset..offset + buffer.len() as u64).contains(&self.1) {
                return Err(Error::new(ErrorKind::Io, "the disk does not answer"));
            }
            self.0.read_at(offset, buffer)
        }
    }

    #[test]
    fn a_group_that_cannot_be_read_is_no_group_without_datasets() {
        let marker = Marker { dataset: DatasetId([7; 16]), epoch: 12 };
        let sink = Arc::new(MemorySink::default());
        let made =
            Writer::create_in(Arc::<MemorySink>::clone(&sink), None, &CreateOptions::default()).unwrap();
        // Apart from what is read together with the root.
        made.reserve(1 << 20, 8).unwrap();
        let group = made.create_group(NodeId::ROOT, b"g", false).unwrap();
        let dataspace = Dataspace::Simple { dims: vec![4], max: vec![Some(4)] };
        let layout = NewLayout::External(vec![marker.to_external_file(false)]);
        let options =
            DatasetOptions::new(Datatype::ieee(4, ByteOrder::Little), dataspace).with_layout(layout);
        made.create_dataset(group, b"x", options).unwrap();
        made.close().unwrap();
        let open = |fails_at| {
            let source = FailingSource(Memory::new(sink.bytes()), fails_at);
            let options =
                OpenOptions { ignore_stores: true, index: IndexOption::Never, ..OpenOptions::default() };
            File::from_source(Arc::new(source), None, &options).unwrap()
        };
        let whole = open(u64::MAX);
        let found = Marker::find_all(&whole).unwrap();
        assert_eq!(
            found.iter().map(|(path, marker, _)| (&**path, *marker)).collect::<Vec<_>>(),
            [(b"/g/x".as_slice(), marker)]
        );
        let address = whole.root().unwrap().group().unwrap().get("g").unwrap().address();
        let error = Marker::find_all(&open(address)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io, "{error}");
        assert!(error.to_string().contains("does not answer"), "{error}");
    }

    #[test]
    fn a_marker_is_found_by_its_name_alone() {
        let marker = Marker { dataset: DatasetId([7; 16]), epoch: 12 };
        let data = ExternalFile { name: "/logs/a.log".into(), offset: 128, size: Some(40) };
        assert_eq!(Marker::from_external_files(&[marker.to_external_file(false)]), Some(marker));
        assert_eq!(Marker::from_external_files(&[data.clone(), marker.to_external_file(true)]), Some(marker));
        assert_eq!(marker.to_external_file(true).size, Some(1));
        assert_eq!(marker.to_external_file(false).size, None);
        let last = [marker.to_external_file(true), data];
        assert_eq!(Marker::from_external_files(&last), None, "it is the last one, or none");
        for name in ["", "/.hyperchunk-store/", "/.hyperchunk-store/00/1", "/.hyperchunk-store/x/1/y"] {
            let file = ExternalFile { name: name.into(), offset: 0, size: None };
            assert_eq!(Marker::from_external_files(&[file]), None, "{name}");
        }
        let short = format!("/.hyperchunk-store/{}/3", marker.dataset);
        let file = ExternalFile { name: Name::from(&*short), offset: 0, size: None };
        assert_eq!(Marker::from_external_files(&[file]).map(|marker| marker.epoch), Some(3));
    }
}
