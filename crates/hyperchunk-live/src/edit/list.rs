//! The live datasets of a file.

use super::open::open;
use super::{absolute, dimensions, fail, lookup};
use crate::{plan, to_udf_error};
use hyperchunk::model::ObjectKind;
use hyperchunk::walk::{Next, Visit, VisitedItem};
use hyperchunk::{File, Object};
use hyperchunk_udf::error::{Error, ErrorKind, Result};
use hyperchunk_udf::keys::PublicKey;
use hyperchunk_udf::legacy::{LegacyDataset, Signer, is_legacy};
use hyperchunk_udf::profile::Profile;
use hyperchunk_udf::record::Record;
use hyperchunk_udf::signature::{self, Fingerprint};
use hyperchunk_udf::stub::RecordLocation;
use std::path::Path;

/// A live dataset of a file.
#[derive(Debug)]
pub struct Entry {
    /// Its path in the file.
    pub path: String,
    /// Total size of its stubs, in bytes.
    pub stub_bytes: u64,
    /// Size of its record, in bytes.
    pub record_bytes: u64,
    /// The location of its record.
    pub place: RecordLocation,
    /// The record as it is stored.
    pub json: String,
    /// The record and its signer, or the reason for which it is invalid.
    pub record: Result<(Record, Option<Fingerprint>)>,
    /// The parsed dataset, if HDF5-UDF wrote it. There is no record then.
    pub legacy: Option<LegacyDataset>,
    /// The profile that it would run in here.
    pub profile: Result<Profile>,
}

impl Entry {
    /// Returns the signer, if the signature is valid.
    pub fn signer(&self) -> Option<Fingerprint> {
        match (&self.record, &self.legacy) {
            (Ok((_, signer)), _) => *signer,
            (Err(_), Some(legacy)) => legacy.fingerprint(),
            (Err(_), None) => None,
        }
    }

    /// Returns the error of a dataset that is valid neither as ours nor as HDF5-UDF's.
    pub fn error(&self) -> Option<&Error> {
        self.record.as_ref().err().filter(|_| self.legacy.is_none())
    }

    /// Returns the key that signed it, with its labels; `None` if it is unsigned.
    ///
    /// # Errors
    /// Errors of the record.
    pub fn key(&self) -> Result<Option<PublicKey>> {
        match (&self.record, &self.legacy) {
            (Ok((record, _)), _) => Ok(record.signature.as_ref().map(|signature| PublicKey {
                key: signature.public_key,
                name: signature.name.clone(),
                email: signature.email.clone(),
            })),
            (Err(_), Some(LegacyDataset { signer: Signer::Known(key), .. })) => Ok(Some(key.clone())),
            (Err(_), Some(_)) => Ok(None),
            (Err(error), None) => Err(error.clone()),
        }
    }
}

/// Lists every live dataset of the file, sorted by link name. A dataset with several names is listed once for
/// each.
///
/// # Errors
/// `Io` or `NotFound` when the file cannot be read. A damaged record is an [`Entry`], not an error.
pub fn list(path: &Path) -> Result<Vec<Entry>> {
    let opened = open(path, false)?;
    let names = names(&opened.file).map_err(|e| e.about(path.display().to_string()))?;
    let mut entries = Vec::new();
    for name in &names {
        // A link may dangle, or point to a missing file: then it is not a live dataset of this file.
        let Ok(Some(object)) = lookup::object(&opened.file, &absolute(name)) else { continue };
        entries.extend(entry(&object, name)?);
    }
    Ok(entries)
}

/// Returns the names of all links of a file, without a leading slash, sorted in each group.
pub(super) fn names(file: &File) -> Result<Vec<String>> {
    let mut names = Vec::new();
    let root = file.root().map_err(|error| to_udf_error(&error))?;
    let walked = file.walk(&root, b"/", &mut |visit: Visit<'_>| {
        if visit.link.is_some() {
            names.push(String::from_utf8_lossy(visit.path).trim_start_matches('/').to_owned());
        } else if let VisitedItem::Broken(error) = visit.found {
            return Err(error);
        }
        Ok(Next::Enter)
    });
    walked.map_err(|error| to_udf_error(&error))?;
    Ok(names)
}

/// Finds the live dataset at `dataset` of the file.
///
/// # Errors
/// `NotFound` when there is no dataset of that name or it is not live.
pub fn find(path: &Path, dataset: &str) -> Result<Entry> {
    let opened = open(path, false)?;
    let about = |e: Error| e.about(format!("{}:{dataset}", path.display()));
    let found = match lookup::object(&opened.file, &absolute(dataset)).map_err(about)? {
        Some(object) => entry(&object, dataset).map_err(about)?,
        None => None,
    };
    found.ok_or_else(|| about(Error::new(ErrorKind::NotFound, "there is no live dataset of this name")))
}

/// Removes a live dataset. Its inputs stay.
///
/// # Errors
/// `NotFound` when it is not a live dataset, `Io`.
pub fn remove(path: &Path, dataset: &str) -> Result<()> {
    find(path, dataset)?;
    let about = |e: Error| e.about(format!("{}:{dataset}", path.display()));
    let opened = open(path, true)?;
    let remove = || -> Result<()> {
        let found = lookup::dataset(&opened.file, &absolute(dataset))?;
        if found.object().file().same(&opened.file) {
            dimensions::forget(&opened, opened.node(found.object().address())?)?;
        }
        opened.writer()?.remove(absolute(dataset).as_bytes(), false).map_err(|error| to_udf_error(&error))
    };
    remove().map_err(about)?;
    opened.commit().map_err(about)
}

/// Returns the entry of an object; `None` if it is not a live dataset.
pub(super) fn entry(object: &Object, name: &str) -> Result<Option<Entry>> {
    if object.kind() != ObjectKind::Dataset {
        return Ok(None);
    }
    let dataset = object.dataset().map_err(|error| to_udf_error(&error))?;
    if !dataset.is_live() {
        return Ok(None);
    }
    let path = absolute(name);
    let stored = dataset.chunks().map_err(|error| to_udf_error(&error));
    let mut stub_bytes = stored.iter().flatten().map(|chunk| chunk.size).fold(0, u64::saturating_add);
    if let Ok(Some(note)) = dataset.first_note()
        && is_legacy(&note)
        && plan::client_data(&dataset).is_some_and(<[u32]>::is_empty)
    {
        return Ok(Some(legacy_entry(path, stub_bytes, &note)));
    }
    let (bytes, place) = match plan::read_record(&dataset) {
        Ok((bytes, place)) => (Ok(bytes), place),
        Err(error) => (Err(error), RecordLocation::Attribute),
    };
    let json = bytes.as_deref().map_or_else(|_| String::new(), |b| String::from_utf8_lossy(b).into_owned());
    if place == RecordLocation::Chunk {
        stub_bytes = stub_bytes.saturating_sub(json.len() as u64);
    }
    let verified = bytes.as_deref().map_err(Clone::clone).and_then(|bytes| {
        let record = Record::parse(bytes)?;
        let signer = signature::verify(&record)?;
        Ok((record.grown(dataset.dims())?, signer))
    });
    let profile = match &verified {
        Ok((record, signer)) => {
            Profile::for_signer(*signer).and_then(|p| p.allow(record.backend, *signer).map(|()| p))
        }
        Err(e) => Err(e.clone()),
    };
    Ok(Some(Entry {
        path,
        stub_bytes,
        record_bytes: json.len() as u64,
        place,
        json,
        record: verified,
        legacy: None,
        profile,
    }))
}

/// Returns the entry of a dataset of HDF5-UDF, from its only chunk.
fn legacy_entry(path: String, stub_bytes: u64, chunk: &[u8]) -> Entry {
    let parsed = LegacyDataset::parse(chunk);
    let profile = parsed.as_ref().map_err(Clone::clone).and_then(LegacyDataset::profile);
    let error = match &parsed {
        Ok(legacy) => Error::new(ErrorKind::Unsupported, format!("it was written by HDF5-UDF ({legacy})")),
        Err(error) => error.clone(),
    };
    let json = parsed.as_ref().map_or_else(|_| String::new(), |legacy| legacy.header.clone());
    Entry {
        path,
        stub_bytes,
        record_bytes: json.len() as u64,
        place: RecordLocation::Chunk,
        json,
        record: Err(error),
        legacy: parsed.ok(),
        profile,
    }
}

/// Splits `FILE:/DATASET` at the last `:/`.
///
/// # Errors
/// `Syntax`.
pub fn split_target(text: &str) -> Result<(&str, &str)> {
    match text.rfind(":/") {
        Some(at) => Ok((text.get(..at).unwrap_or(""), text.get(at + 1..).unwrap_or(""))),
        None => fail!(Syntax, "write FILE:/DATASET, for example scene.h5:/NDVI"),
    }
}
