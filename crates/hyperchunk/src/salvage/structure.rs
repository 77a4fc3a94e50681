//! Evidence for an object's structure: whether checksums cover all metadata that lead to its data.

use super::check::is_flat;
use super::find::FoundObject;
use super::report::Evidence;
use crate::{Dataset, Object};
use hyperchunk_format::model::{ChunkIndex, Layout, ObjectKind};

/// Type of the symbol table message of an old-style group, whose B-tree and heap have no checksums.
const SYMBOL_TABLE: u16 = 0x11;

/// Returns [`Evidence::Checksum`] if checksums cover an object's header, its index or links, its committed
/// datatype and its heaps; otherwise [`Evidence::Unchecked`].
pub(super) fn evidence(object: &FoundObject) -> Evidence {
    let covered = has_checksum(&object.object)
        && match &object.dataset {
            Some(dataset) => covers(dataset),
            None => object.object.kind() != ObjectKind::Group || !is_old_group(&object.object),
        };
    if covered { Evidence::Checksum } else { Evidence::Unchecked }
}

fn has_checksum(object: &Object) -> bool {
    object.header().version > 1
}

fn is_old_group(object: &Object) -> bool {
    object.header().messages.iter().any(|message| message.kind == SYMBOL_TABLE)
}

fn covers(dataset: &Dataset) -> bool {
    let layout = match dataset.layout() {
        Layout::Chunked(chunked) => !matches!(chunked.index, ChunkIndex::BTreeV1 { .. }),
        Layout::Virtual { .. } => false,
        _ => true,
    };
    let committed = dataset.committed().is_none_or(|address| {
        dataset.object().file().object(address).is_ok_and(|datatype| has_checksum(&datatype))
    });
    layout && committed && is_flat(dataset) && dataset.external().is_empty()
}
