//! Report of a salvage.

use hyperchunk_format::model::{Name, ObjectKind};

/// Condition of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Condition {
    /// Nothing is missing.
    Whole,
    /// Parts of a dataset are missing.
    Incomplete,
    /// Nothing can be read.
    Lost,
}

impl Condition {
    /// Returns the name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Incomplete => "incomplete",
            Self::Lost => "lost",
        }
    }
}

/// Evidence that bytes are the ones that were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Evidence {
    /// None: the bytes can be read, but damage inside them cannot be detected.
    Unchecked,
    /// The filters decode them to the expected size. This detects most damage.
    Decoded,
    /// A checksum matches.
    Checksum,
}

impl Evidence {
    /// Returns the name in reports.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Unchecked => "not checkable",
            Self::Decoded => "decoded",
            Self::Checksum => "checksum",
        }
    }
}

/// Lost part of an object: an attribute, a link, references or the comment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// Name of the part: an attribute's name, `link NAME`, `references`; `links` or `attributes` if the
    /// names are lost, too.
    pub name: String,
    /// Reason of the loss.
    pub reason: String,
}

/// A missing part of a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingPart {
    /// Index of the first element along each axis.
    pub start: Vec<u64>,
    /// Number of elements along each axis.
    pub count: Vec<u64>,
}

/// Result for one object.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SalvagedObject {
    /// Path in the new file; for a lost object, in the damaged file.
    pub path: Name,
    /// Address of the object header in the damaged file.
    pub address: Option<u64>,
    /// Kind of the object, if known.
    pub kind: Option<ObjectKind>,
    /// Condition of the object.
    pub condition: Condition,
    /// True if the object is in the new file.
    pub written: bool,
    /// True if no link leads to the object. It may have been deleted before the file was damaged.
    pub orphan: bool,
    /// Evidence for a dataset's data; `None` if it has no data in this file.
    pub evidence: Option<Evidence>,
    /// Evidence for the structure: header, index or links, committed datatype and heaps. `None` if it is
    /// lost.
    pub structure: Option<Evidence>,
    /// Reason why the object is not whole.
    pub reason: Option<String>,
    /// Missing parts of a dataset; empty if the whole dataset is missing.
    pub missing: Vec<MissingPart>,
    /// Lost attributes and links.
    pub losses: Vec<Loss>,
}

impl SalvagedObject {
    pub(super) fn new(path: Name, address: Option<u64>, kind: Option<ObjectKind>) -> Self {
        Self {
            path,
            address,
            kind,
            condition: Condition::Whole,
            written: false,
            orphan: false,
            evidence: None,
            structure: None,
            reason: None,
            missing: Vec::new(),
            losses: Vec::new(),
        }
    }
}

impl SalvagedObject {
    fn to_json(&self) -> serde_json::Value {
        let losses = self.losses.iter().map(|loss| (loss.name.clone(), loss.reason.clone().into()));
        let missing = self.missing.iter().map(|part| serde_json::json!([part.start, part.count]));
        serde_json::json!({
            "path": self.path.to_string(),
            "address": self.address,
            "kind": self.kind.map(|kind| format!("{kind:?}").to_lowercase()),
            "condition": self.condition.name(),
            "written": self.written,
            "orphan": self.orphan,
            "checked": self.evidence.map(Evidence::name),
            "structure": self.structure.map(Evidence::name),
            "reason": self.reason,
            "missing": missing.collect::<Vec<_>>(),
            "losses": losses.collect::<serde_json::Map<_, _>>(),
        })
    }
}

/// Result of a salvage.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SalvageReport {
    /// All objects that were found, and those known to be lost.
    pub objects: Vec<SalvagedObject>,
    /// Damage that belongs to no object, and notes.
    pub damage: Vec<String>,
    /// Size of the new file in bytes.
    pub size: u64,
}

impl SalvageReport {
    /// Returns whether nothing is known to be lost.
    #[must_use]
    pub fn is_whole(&self) -> bool {
        let whole = |object: &SalvagedObject| {
            object.condition == Condition::Whole && object.written && object.losses.is_empty()
        };
        self.damage.is_empty() && self.objects.iter().all(whole)
    }

    /// Returns the report as JSON: `whole`, `bytes`, `damage` and `objects`.
    #[must_use]
    pub fn to_json(&self) -> serde_json::Value {
        let objects: Vec<serde_json::Value> = self.objects.iter().map(SalvagedObject::to_json).collect();
        serde_json::json!({
            "whole": self.is_whole(),
            "bytes": self.size,
            "damage": self.damage,
            "objects": objects,
        })
    }

    /// Counts the objects of a kind in a condition.
    #[must_use]
    pub fn count(&self, kind: Option<ObjectKind>, condition: Condition) -> usize {
        let counted = |object: &&SalvagedObject| object.kind == kind && object.condition == condition;
        self.objects.iter().filter(counted).count()
    }
}
