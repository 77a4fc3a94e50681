//! Inputs with variable-length strings.
//!
//! In the file, an element has a handle for each such string, which refers to the heap of the dataset's own
//! file. Each string is looked up once, within the profile's limits, and appended after the elements for the
//! worker.

use crate::inputs::{memory_type, open, read_block};
use crate::plan::Plan;
use crate::to_udf_error;
use hyperchunk::File;
use hyperchunk::model::{Class, Datatype};
use hyperchunk_udf::datatype::Datatype as Element;
use hyperchunk_udf::error::{Error, ErrorKind, Result};
use hyperchunk_udf::host::vlen_strings::{VlenStrings, too_large};
use hyperchunk_udf::record::{Block, Slot, byte_size};

/// Number of elements to read at once, with their heaps.
const WINDOW_ELEMENTS: usize = 4096;

/// Part of an element: its position in the data read by the engine, and in the element.
#[derive(Debug, PartialEq, Eq)]
enum ElementPart {
    Copy { from: usize, to: usize, bytes: usize },
    Text { from: usize, to: usize },
}

/// Reads a block of an input. Elements and strings together may have at most `limit` bytes.
pub(crate) fn read(
    file: &File,
    plan: &Plan,
    slot: &Slot,
    (offset, shape): &Block,
    limit: u64,
) -> Result<VlenStrings> {
    let over = || too_large(&plan.profile);
    let dataset = open(file, &plan.record, slot)?;
    let (element, stored) = memory_type(dataset.datatype())?;
    let size = usize::try_from(stored.size).map_err(|_| over())?.max(1);
    let count =
        usize::try_from(byte_size(shape, &slot.datatype)).map_err(|_| over())? / element.size().max(1);
    let mut parts = Vec::new();
    collect_parts(&element, &stored, 0, 0, &mut parts)?;
    let mut texts = VlenStrings::new(&element, byte_size(shape, &slot.datatype), limit, over)?;
    let wanted = count.checked_mul(size).filter(|&bytes| bytes as u64 <= limit).ok_or_else(over)?;
    let mut handles = Vec::new();
    handles.try_reserve_exact(wanted).map_err(|_| over())?;
    handles.resize(wanted, 0);
    read_block(&dataset, &stored, (offset, shape), &mut handles)?;
    // Handles are valid only in the dataset's own file, which an external link may point to.
    let home = dataset.object().file();
    let mut sequences = home.sequences();
    let handle = home.handle_size();
    for (window, first) in
        handles.chunks(size.saturating_mul(WINDOW_ELEMENTS)).zip((0..).step_by(WINDOW_ELEMENTS))
    {
        if home.is_remote() {
            let all = window.chunks_exact(size).flat_map(|stored| {
                parts.iter().filter_map(move |part| match part {
                    ElementPart::Text { from, .. } => stored.get(*from..)?.get(..handle),
                    ElementPart::Copy { .. } => None,
                })
            });
            home.load_heaps(&all.flatten().copied().collect::<Vec<u8>>()).map_err(|e| to_udf_error(&e))?;
        }
        for (stored, n) in window.chunks_exact(size).zip(first..) {
            let at = n * element.size();
            for part in &parts {
                let lost = || Error::new(ErrorKind::Worker, "a part of an element is outside it");
                match *part {
                    ElementPart::Copy { from, to, bytes } => {
                        let from = stored.get(from..).and_then(|s| s.get(..bytes)).ok_or_else(lost)?;
                        let to = texts.elements().get_mut(at + to..).and_then(|e| e.get_mut(..bytes));
                        to.ok_or_else(lost)?.copy_from_slice(from);
                    }
                    ElementPart::Text { from, to } => {
                        let stored = stored.get(from..).and_then(|s| s.get(..handle)).ok_or_else(lost)?;
                        let text = sequences.string(stored).map_err(|error| to_udf_error(&error))?;
                        texts.put(at + to, text, over)?;
                    }
                }
            }
        }
    }
    Ok(texts)
}

/// Collects the parts of an element that is read as `stored`, from position `from` there to position `to`.
fn collect_parts(
    element: &Element,
    stored: &Datatype,
    from: usize,
    to: usize,
    parts: &mut Vec<ElementPart>,
) -> Result<()> {
    match (element, &stored.class) {
        (Element::Pointer, _) => parts.push(ElementPart::Text { from, to }),
        _ if !element.has_pointers() => parts.push(ElementPart::Copy { from, to, bytes: element.size() }),
        (Element::Compound(compound), Class::Compound { members }) => {
            for (member, stored) in compound.members().iter().zip(members) {
                let offset = usize::try_from(stored.offset).unwrap_or(usize::MAX);
                collect_parts(
                    &member.datatype,
                    &stored.datatype,
                    from.saturating_add(offset),
                    to.saturating_add(member.offset),
                    parts,
                )?;
            }
        }
        (Element::Array(base, _), Class::Array { base: stored, .. }) => {
            let size = usize::try_from(stored.size).unwrap_or(usize::MAX);
            for n in 0..element.elements() {
                collect_parts(
                    base,
                    stored,
                    from.saturating_add(n.saturating_mul(size)),
                    to.saturating_add(n.saturating_mul(base.size())),
                    parts,
                )?;
            }
        }
        _ => {
            return Err(Error::new(
                ErrorKind::Worker,
                "the type of an element does not match the type as which it is read",
            ));
        }
    }
    Ok(())
}
