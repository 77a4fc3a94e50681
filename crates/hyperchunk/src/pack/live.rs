//! Inputs of live datasets in a copy. A record names its inputs by their paths, and is signed, so that a copy of
//! a live dataset reads what has these paths in the new file. That may be other data than in the source.

use super::PackPlan;
use super::list::Item;
use super::make::{CreatedObjects, Outside};
use crate::write::{NodeId, Target, Writer};
use crate::{Dataset, Error, ErrorKind, File, Object, Result};
use hyperchunk_format::model::Name;
use std::collections::HashMap;
use std::sync::OnceLock;

/// Maximum number of notes about single inputs; further ones are counted.
const MAX_NOTES: usize = 20;

/// Input of a live dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LiveInput {
    /// Its name in the record.
    pub name: String,
    /// Path of the dataset, or of the object whose attribute is read.
    pub path: String,
}

impl LiveInput {
    /// Returns the path from the root.
    #[must_use]
    pub fn absolute(&self) -> String {
        format!("/{}", self.path.trim_matches('/'))
    }

    /// Returns the kind of input, for messages.
    #[must_use]
    pub fn noun(&self) -> &'static str {
        if self.name == self.path { "dataset" } else { "attribute" }
    }
}

/// Function that returns the inputs of a live dataset. A damaged record has none.
pub type FindInputs = fn(&Dataset) -> Result<Vec<LiveInput>>;

static FIND_INPUTS: OnceLock<FindInputs> = OnceLock::new();

/// Sets the process's function that finds the inputs of live datasets, since the engine does not read their
/// records. Without it, copies of live datasets are not checked. Later calls have no effect.
pub fn set_find_inputs(find: FindInputs) {
    FIND_INPUTS.get_or_init(|| find);
}

/// Returns the inputs of an item that is a live dataset.
fn inputs(item: &Item) -> Result<Vec<LiveInput>> {
    match (&item.dataset, FIND_INPUTS.get()) {
        (Some(dataset), Some(find)) if dataset.is_live() => find(dataset),
        _ => Ok(Vec::new()),
    }
}

/// Returns the object at a path of a file; `None` if there is none, or it cannot be followed.
fn object(file: &File, path: &str) -> Result<Option<Object>> {
    match file.root()?.group()?.get(path.as_bytes()) {
        Err(error) if error.is_of_reading() => Err(error),
        found => Ok(found.ok()),
    }
}

/// What the copy of a live dataset finds at the path of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Finding {
    /// The copy of the same input, or nothing, as in the source.
    Same,
    /// The input itself, in a copy within one file, although it was copied, too.
    Original,
    /// Something else.
    Other,
    /// Nothing.
    Missing,
}

fn find(
    packing: &PackPlan,
    writer: &Writer,
    made: &CreatedObjects,
    item: &Item,
    input: &LiveInput,
) -> Result<Finding> {
    let file = item.object.file();
    let path = input.absolute();
    let old = object(file, &path)?;
    let new = match writer.resolve(NodeId::ROOT, path.as_bytes()) {
        Err(error) if error.kind() == ErrorKind::NotFound => None,
        new => Some(new?),
    };
    let node = match (&old, new) {
        (None, None) => return Ok(Finding::Same),
        (Some(_), None) => return Ok(Finding::Missing),
        // External links are copied as they are.
        (Some(old), Some(Target::Elsewhere { .. })) if !old.file().same(file) => return Ok(Finding::Same),
        (_, Some(Target::Elsewhere { .. })) => return Ok(Finding::Other),
        (_, Some(Target::Here(node))) => node,
    };
    let Some(old) = old.filter(|old| old.file().same(file)) else { return Ok(Finding::Other) };
    let copied = packing.contents.find(item.input, old.address());
    let copied = copied.and_then(|number| made.nodes.get(number).copied().flatten());
    if copied == Some(node) {
        return Ok(Finding::Same);
    }
    let stays = made.outside == Outside::Stays && writer.edited_object(old.address()) == Some(node);
    Ok(match (stays, copied) {
        (true, Some(_)) => Finding::Original,
        (true, None) => Finding::Same,
        (false, _) => Finding::Other,
    })
}

/// Returns a note for each input of a copied live dataset that is not the copy of the same input in the new
/// file. `place` returns the path of an item in the new file.
pub(super) fn notes(
    packing: &PackPlan,
    writer: &Writer,
    made: &CreatedObjects,
    place: &dyn Fn(&Item) -> Result<Vec<u8>>,
) -> Result<Vec<String>> {
    let mut notes = Vec::new();
    let mut more = 0_u64;
    for item in &packing.contents.items {
        for input in inputs(item).map_err(|error| item.object.with_context(error))? {
            let found = find(packing, writer, made, item, &input)?;
            if found == Finding::Same {
                continue;
            }
            if notes.len() >= MAX_NOTES {
                more += 1;
                continue;
            }
            let reads = format!(
                "live dataset {} reads {}",
                Name::from(&*place(item)?),
                Name::from(input.name.as_bytes())
            );
            let noun = input.noun();
            notes.push(match found {
                Finding::Missing => format!(
                    "{reads}, which is not in this file: it cannot be read; attach it again (`hyperchunk udf attach`)"
                ),
                Finding::Original => format!(
                    "{reads}, and not its copy: attach it again (`hyperchunk udf attach`) if it should read the copy"
                ),
                _ if made.outside == Outside::Undefined => format!(
                    "{reads}, which is another {noun} in this file: attach it again (`hyperchunk udf attach`)"
                ),
                _ => format!(
                    "{reads}, which was not copied with it: it reads the {noun} that this file has there; if that \
                     is another one, attach it again (`hyperchunk udf attach`)"
                ),
            });
        }
    }
    if more > 0 {
        notes.push(format!("{more} more inputs of live datasets are other ones than in the source, too"));
    }
    Ok(notes)
}

/// Checks that the copy of a live dataset finds the copies of its inputs in the new file. `items` are the
/// items by the addresses of their copies.
pub(super) fn check_inputs(
    packing: &PackPlan,
    item: &Item,
    new: &File,
    items: &HashMap<u64, usize>,
) -> Result<()> {
    let file = item.object.file();
    for input in inputs(item)? {
        let path = input.absolute();
        let (old, copy) = (object(file, &path)?, object(new, &path)?);
        let what = match (old, copy) {
            (None, None) => continue,
            (Some(_), None) => "missing",
            (Some(old), Some(copy)) if !old.file().same(file) && !copy.file().same(new) => continue,
            (Some(old), Some(copy)) if old.file().same(file) && copy.file().same(new) => {
                let number = packing.contents.find(item.input, old.address());
                if number.is_some() && number == items.get(&copy.address()).copied() {
                    continue;
                }
                "another one there"
            }
            _ => "another one there",
        };
        let message = format!(
            "the new file differs from the source: the input {} of the live dataset is {what}; attach it again \
             (`hyperchunk udf attach`)",
            Name::from(input.name.as_bytes())
        );
        return Err(Error::new(ErrorKind::Corrupt, message));
    }
    Ok(())
}
