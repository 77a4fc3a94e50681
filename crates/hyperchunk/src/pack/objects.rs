//! Copies of objects into a file that is written or edited.

use super::list::Contents;
use super::make::{self, CreatedObjects, Outside};
use super::{Input, PackOptions, PackPlan, copy, plan};
use crate::write::{LinkPlace, NewLink, Writer};
use crate::{Error, Object, Result};
use hyperchunk_format::model::ObjectKind;
use std::sync::atomic::Ordering;

/// Result of copying an object.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ObjectsReport {
    /// Number of groups.
    pub groups: usize,
    /// Number of datasets.
    pub datasets: usize,
    /// Number of committed datatypes.
    pub datatypes: usize,
    /// Number of attributes.
    pub attributes: u64,
    /// Number of chunks that were copied without decoding.
    pub chunks_copied: u64,
    /// Number of pieces of data that were read and written.
    pub pieces_rewritten: u64,
    /// Number of references to objects outside of the copy, which are null in it.
    pub null_references: u64,
    /// Notes for the user: data in other files.
    pub notes: Vec<String>,
}

/// Copies an object, and all objects below it, to a place whose name must not exist. Stored chunks are copied
/// without decoding. References from copied objects to copied objects lead to the copies. References to other
/// objects stay if `source` is of the writer's own file (`is_own`); otherwise they become null.
///
/// # Errors
/// The errors of reading the source and of writing; Unsupported for contents that cannot be copied. The writer
/// then has objects without a link, and should be discarded.
pub fn copy_object(
    source: &Object,
    writer: &Writer,
    place: &LinkPlace,
    options: &PackOptions,
    is_own: bool,
) -> Result<ObjectsReport> {
    let file = source.file().clone();
    let contents = Contents::list_object(Input { file, into: String::new() }, source.clone())?;
    let (plans, oldest) = plan::plan(&contents, options)?;
    if oldest > writer.options().newest.max(writer.options().oldest) {
        return Err(source.name(Error::unsupported("contents that need a newer format than the file's")));
    }
    let packing = PackPlan { contents, plans, options: options.clone(), oldest };
    let mut made = CreatedObjects::new(packing.contents.items.len());
    made.outside = if is_own { Outside::Stays } else { Outside::Null };
    make::make_in(&packing, writer, &mut made)?;
    let copied = copy::copy(&packing, writer, &made, &|_| ())?;
    packing.contents.check_unchanged()?;
    let first = made.nodes.first().copied().flatten();
    let first = first.ok_or_else(|| Error::invalid("an object that was not made"))?;
    writer.link(place.group, place.name.as_bytes(), NewLink::Hard(first))?;
    let count = |kind| packing.contents.items.iter().filter(|item| item.object.kind() == kind).count();
    Ok(ObjectsReport {
        groups: count(ObjectKind::Group),
        datasets: count(ObjectKind::Dataset),
        datatypes: count(ObjectKind::Datatype),
        attributes: made.attributes,
        chunks_copied: copied.as_they_are,
        pieces_rewritten: copied.anew,
        null_references: made.lost.load(Ordering::Relaxed),
        notes: packing.contents.notes(&packing.options, true),
    })
}
