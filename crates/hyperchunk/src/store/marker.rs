//! How a dataset of a store looks to those who know nothing of stores.
//!
//! In every skeleton it is a contiguous dataset whose data lie in external files. The last of them is the marker: its name
//! says which dataset of the store this is, and of which epoch. Renaming, further links and references need no bookkeeping:
//! who opens the dataset finds the marker. Alone, without a bound, it makes libhdf5 fail, reading and writing; behind
//! segments of logs that hold all data, nobody looks at it.

use super::{DatasetId, MARKER};
use crate::walk::{Found, Next};
use crate::{Dataset, File, Result};
use hyperchunk_format::model::{ExternalFile, Name, ObjectKind};

/// What to do when a program fails with this name.
const ADVICE: &str =
    "these data are in a sharded store: read them with hyperchunk, or run hyperchunk store link or pack";

/// Which dataset of a store a native dataset stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Marker {
    /// The dataset.
    pub dataset: DatasetId,
    /// The epoch whose skeleton it is in; 0 in one that is not committed.
    pub epoch: u64,
}

impl Marker {
    /// The marker of a dataset with these external files; `None` if it belongs to no store.
    #[must_use]
    pub fn of(files: &[ExternalFile]) -> Option<Self> {
        let name = files.last()?.name.as_str()?.strip_prefix(MARKER)?;
        let mut parts = name.splitn(3, '/');
        let dataset = DatasetId::from_hex(parts.next()?)?;
        let epoch = parts.next()?.parse().ok()?;
        Some(Self { dataset, epoch })
    }

    /// All datasets of stores that a file leads to, each with a path.
    ///
    /// # Errors
    /// Those of reading the file.
    pub fn all(file: &File) -> Result<Vec<(Vec<u8>, Self, Dataset)>> {
        let mut all = Vec::new();
        file.walk(&file.root()?, b"/", &mut |visit| {
            if let Found::Object(object) = visit.found
                && object.kind() == ObjectKind::Dataset
            {
                let dataset = object.dataset()?;
                if let Some(marker) = Self::of(dataset.external()) {
                    all.push((visit.path.to_vec(), marker, dataset));
                }
            }
            Ok(Next::Enter)
        })?;
        Ok(all)
    }

    /// It as an external file: behind segments that hold all data, or alone.
    #[must_use]
    pub fn entry(&self, linked: bool) -> ExternalFile {
        let name = format!("{MARKER}{}/{}/{ADVICE}", self.dataset, self.epoch);
        ExternalFile { name: Name::from(&*name), offset: 0, size: linked.then_some(1) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_marker_is_found_by_its_name_alone() {
        let marker = Marker { dataset: DatasetId([7; 16]), epoch: 12 };
        let data = ExternalFile { name: "/logs/a.log".into(), offset: 128, size: Some(40) };
        assert_eq!(Marker::of(&[marker.entry(false)]), Some(marker));
        assert_eq!(Marker::of(&[data.clone(), marker.entry(true)]), Some(marker));
        assert_eq!(marker.entry(true).size, Some(1));
        assert_eq!(marker.entry(false).size, None);
        let last = [marker.entry(true), data];
        assert_eq!(Marker::of(&last), None, "it is the last one, or none");
        for name in ["", "/.hyperchunk-store/", "/.hyperchunk-store/00/1", "/.hyperchunk-store/x/1/y"] {
            let file = ExternalFile { name: name.into(), offset: 0, size: None };
            assert_eq!(Marker::of(&[file]), None, "{name}");
        }
        let short = format!("/.hyperchunk-store/{}/3", marker.dataset);
        let file = ExternalFile { name: Name::from(&*short), offset: 0, size: None };
        assert_eq!(Marker::of(&[file]).map(|marker| marker.epoch), Some(3));
    }
}
