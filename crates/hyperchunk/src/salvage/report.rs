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
    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Incomplete => "incomplete",
            Self::Lost => "lost",
        }
    }
}

/// Evidence that a dataset's data are those that were written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Evidence {
    /// None: the data are there, but damage inside them would not show.
    Unchecked,
    /// They decode to the right size. Most damage shows.
    Decoded,
    /// They agree with a checksum.
    Checksum,
}

impl Evidence {
    /// Returns its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Unchecked => "not checkable",
            Self::Decoded => "decoded",
            Self::Checksum => "checksum",
        }
    }
}

/// A part of an object that is lost.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Loss {
    /// The name: of an attribute; `links` or `attributes` if the names are lost, too.
    pub name: String,
    /// The reason.
    pub reason: String,
}

/// A missing part of a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MissingPart {
    /// Index of its first element.
    pub start: Vec<u64>,
    /// Number of elements along each axis.
    pub count: Vec<u64>,
}

/// What became of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct SalvagedObject {
    /// The path in the new file, or the lost one.
    pub path: Name,
    /// The address of its header in the damaged file.
    pub address: Option<u64>,
    /// The kind, if known.
    pub kind: Option<ObjectKind>,
    /// The condition.
    pub condition: Condition,
    /// True if it is in the new file.
    pub written: bool,
    /// True if no link leads to it. It may have been deleted before the file was damaged.
    pub orphan: bool,
    /// Evidence for a dataset's data; `None` if it has none in this file.
    pub evidence: Option<Evidence>,
    /// Evidence for its structure: header, index or links, committed datatype and heaps. `None` if it is lost.
    pub structure: Option<Evidence>,
    /// The reason why it is not whole.
    pub reason: Option<String>,
    /// Missing parts of a dataset; empty if all is missing.
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
    /// All objects, and those known to be lost.
    pub objects: Vec<SalvagedObject>,
    /// Damage that belongs to no object, and notes.
    pub damage: Vec<String>,
    /// The size of the new file, in bytes.
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
