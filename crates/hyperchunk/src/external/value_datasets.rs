//! The datasets that hold the values of a dataset, in this file and others.

use crate::{Dataset, Error, ErrorKind, Result};
use hyperchunk_format::model::{Name, ObjectKind, SourceName};
use std::collections::HashSet;

/// Maximum depth of nested virtual datasets.
const MAX_DEPTH: usize = 16;

impl Dataset {
    /// Returns the datasets that hold its values: itself, or the sources of a virtual dataset, and theirs. Missing
    /// sources are omitted; of numbered sources, the first one stands for all. Opens the other files that it names,
    /// but reads no values.
    ///
    /// # Errors
    /// The errors of opening a file, also one that must not be opened; Limit for virtual datasets that are nested
    /// too deep.
    pub fn value_datasets(&self) -> Result<Vec<Self>> {
        let mut found = Vec::new();
        add(self, &mut HashSet::new(), &mut found, 0)?;
        Ok(found)
    }
}

fn add(
    dataset: &Dataset,
    seen: &mut HashSet<(u64, u64)>,
    found: &mut Vec<Dataset>,
    depth: usize,
) -> Result<()> {
    let file = dataset.object().file();
    if !seen.insert((file.instance(), dataset.object().address())) {
        return Ok(());
    }
    if depth > MAX_DEPTH {
        return Err(Error::limit(format!("virtual datasets are nested more than {MAX_DEPTH} deep")));
    }
    for raw in dataset.external() {
        match file.0.external.open_raw(file, &raw.name) {
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            opened => drop(opened?),
        }
    }
    // The values of a store are in its logs.
    if dataset.store().is_some() || dataset.mappings().is_empty() {
        found.push(dataset.clone());
        return Ok(());
    }
    for mapping in dataset.mappings() {
        let (name, path) = (first(&mapping.file), first(&mapping.dataset));
        let other =
            if name.as_bytes() == b"." { Ok(file.clone()) } else { file.0.external.open(file, &name) };
        match other.and_then(|other| other.root()?.named("/").group()?.get(path.as_bytes())) {
            Ok(source) if source.kind() == ObjectKind::Dataset => {
                add(&source.dataset()?, seen, found, depth + 1)?;
            }
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// Returns the name of a source, with the number 0 if it is numbered.
fn first(name: &SourceName) -> Name {
    let parts: Vec<&[u8]> = name.parts.iter().map(Name::as_bytes).collect();
    Name::from(parts.join(&b"0"[..]).as_slice())
}
