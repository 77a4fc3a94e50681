//! Copying of objects into a file that is open for writing.

use super::list::{Contents, Item};
use super::make::{self, CreatedObjects, Outside};
use super::{Input, PackOptions, PackPlan, copy, live, plan};
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
    /// Number of chunks that were encoded again, plus the number of selections whose elements were read and
    /// written.
    pub pieces_rewritten: u64,
    /// Number of references that became null in the copy, as they refer to objects that were not copied.
    pub null_references: u64,
    /// Notes for the user about links and data that refer to other files, and about live datasets whose inputs
    /// were not copied with them.
    pub notes: Vec<String>,
}

/// Copies an object and all objects below it, and links the copy at `place`, where no link may exist. Stored
/// chunks are copied without decoding. References to copied objects refer to the copies. References to other
/// objects are kept if `source` is in the writer's own file (`is_own`); otherwise they become null.
///
/// # Errors
/// The errors of reading the source and of writing; Unsupported for content that cannot be copied. After an
/// error, the writer has objects without a link, and should be discarded.
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
        let message = "cannot copy the object: it needs a newer version of the format than the file has";
        return Err(source.with_context(Error::unsupported(message)));
    }
    let packing = PackPlan { contents, plans, options: options.clone(), oldest };
    let mut made = CreatedObjects::new(packing.contents.items.len());
    made.outside = if is_own { Outside::Stays } else { Outside::Null };
    made.copies_types = !is_own;
    make::make_in(&packing, writer, &mut made)?;
    let copied = copy::copy(&packing, writer, &made, &|_| ())?;
    packing.contents.check_unchanged()?;
    let first = made.nodes.first().copied().flatten();
    let first = first.ok_or_else(|| Error::invalid("the object has not been created in the new file"))?;
    writer.link(place.group, place.name.as_bytes(), NewLink::Hard(first))?;
    let mut notes = packing.contents.notes(&packing.options, true);
    notes.extend(live::notes(&packing, writer, &made, &|item| new_path(&packing, writer, place, item))?);
    let count = |kind| packing.contents.items.iter().filter(|item| item.object.kind() == kind).count();
    Ok(ObjectsReport {
        groups: count(ObjectKind::Group),
        datasets: count(ObjectKind::Dataset),
        datatypes: count(ObjectKind::Datatype),
        attributes: made.attributes,
        chunks_copied: copied.copied_chunks,
        pieces_rewritten: copied.rewritten,
        null_references: made.lost.load(Ordering::Relaxed),
        notes,
    })
}

/// Returns the path of the copy of an item.
fn new_path(packing: &PackPlan, writer: &Writer, place: &LinkPlace, item: &Item) -> Result<Vec<u8>> {
    let start = packing.contents.items.first().map_or(&b"/"[..], |first| first.path.as_slice());
    let below = item.path.strip_prefix(start).unwrap_or_default();
    let group = writer.find_path(place.group)?.unwrap_or_default();
    let mut path = Vec::new();
    for part in [group.as_slice(), place.name.as_bytes(), below] {
        for name in part.split(|byte| *byte == b'/').filter(|name| !name.is_empty()) {
            path.push(b'/');
            path.extend_from_slice(name);
        }
    }
    Ok(path)
}
