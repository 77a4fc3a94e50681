//! Other files on which an input depends, found through the engine.

use crate::to_udf_error;
use hyperchunk::model::{LinkTarget, SourceName};
use hyperchunk::{File, model::ObjectKind};
use hyperchunk_udf::error::{Error, ErrorKind, Result};
use hyperchunk_udf::record::{Record, Slot};
use hyperchunk_udf::sources::{Sources, Target};

/// Maximum depth of nested virtual datasets.
const MAX_DEPTH: usize = 16;

/// Fails if an input depends on other files than its record lists.
pub(crate) fn check(file: &File, record: &Record, input: &Slot) -> Result<()> {
    let name = record.find_attribute(input).map_or(input.name.as_str(), |(object, _)| object);
    let mut found = Sources::default();
    object(file, format!("/{}", name.trim_start_matches('/')).as_bytes(), &mut found, 0)?;
    hyperchunk_udf::sources::check(record, input, &found)
}

/// Adds the other files that the inputs depend on to the record.
pub(crate) fn add(file: &File, record: &mut Record) -> Result<()> {
    record.sources.clear();
    for input in &record.inputs {
        let name = record.find_attribute(input).map_or(input.name.as_str(), |(object, _)| object);
        let mut found = Sources::default();
        object(file, format!("/{}", name.trim_start_matches('/')).as_bytes(), &mut found, 0)?;
        if !found.is_empty() {
            record.sources.insert(input.name.clone(), found.listed());
        }
    }
    Ok(())
}

fn object(file: &File, path: &[u8], found: &mut Sources, depth: usize) -> Result<()> {
    let root = file.root().and_then(|root| root.group()).map_err(|error| to_udf_error(&error))?;
    let followed = found.follow(path, |at| {
        let link = match root.link_at(at) {
            Err(error) if error.kind() == hyperchunk::ErrorKind::NotFound => None,
            link => link.map_err(|error| to_udf_error(&error))?,
        };
        Ok(match link.map(|link| link.target) {
            Some(LinkTarget::Soft(path)) => Target::Soft(path.as_bytes().to_vec()),
            Some(LinkTarget::External { file, path }) => {
                Target::External { file: file.as_bytes().to_vec(), path: path.as_bytes().to_vec() }
            }
            _ => Target::Here,
        })
    });
    let Some(path) = followed? else { return Ok(()) };
    // A missing object has no values.
    let Ok(object) = root.get(&path) else { return Ok(()) };
    if object.kind() != ObjectKind::Dataset {
        return Ok(());
    }
    let dataset = object.dataset().map_err(|error| to_udf_error(&error))?;
    // The logs of a store belong to its file.
    if dataset.store().is_some() {
        return Ok(());
    }
    for raw in dataset.external() {
        found.add(raw.name.as_bytes(), b"");
    }
    if depth >= MAX_DEPTH && !dataset.mappings().is_empty() {
        let message = format!("virtual datasets are nested more than {MAX_DEPTH} deep");
        return Err(Error::new(ErrorKind::Limit, message));
    }
    for mapping in dataset.mappings() {
        let (other, source) = (source_path(&mapping.file), source_path(&mapping.dataset));
        if other == b"." {
            let path = [b"/", source.as_slice()].concat();
            self::object(file, &path, found, depth + 1)?;
        } else {
            found.add(&other, &source);
        }
    }
    Ok(())
}

/// Returns the name of a source, as written in the file if it is a printf-style name.
fn source_path(name: &SourceName) -> Vec<u8> {
    match name.parts.as_slice() {
        [one] => one.as_bytes().to_vec(),
        parts => {
            let parts: Vec<Vec<u8>> = parts
                .iter()
                .map(|part| {
                    part.as_bytes()
                        .iter()
                        .flat_map(|&byte| if byte == b'%' { vec![byte; 2] } else { vec![byte] })
                        .collect()
                })
                .collect();
            parts.join(&b"%b"[..])
        }
    }
}
