//! The live datasets of a file.

use super::dimensions;
use super::open::open;
use crate::errors::failure;
use crate::handles::c_name;
use crate::library::Library;
use crate::live::is_computed;
use crate::live::legacy::payload;
use crate::live::record::{VerifiedRecord, read};
use crate::symbols::{Hid, ID_DATASET};
use crate::{Error, ErrorKind, Result, fail};
use hyperchunk_udf::keys::PublicKey;
use hyperchunk_udf::legacy::{LegacyDataset, Signer};
use hyperchunk_udf::profile::Profile;
use hyperchunk_udf::record::{ATTRIBUTE, Record};
use hyperchunk_udf::signature::Fingerprint;
use hyperchunk_udf::stub::RecordLocation;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
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
pub fn list(library: &'static Library, path: &Path) -> Result<Vec<Entry>> {
    let file = open(library, path, false)?;
    let names = links(library, file.handle.id).map_err(|e| e.about(path.display().to_string()))?;
    let mut entries = Vec::new();
    for name in &names {
        if let Some(entry) = entry(library, file.handle.id, name)? {
            entries.push(entry);
        }
    }
    Ok(entries)
}

/// Returns the names of all links of a file, sorted.
fn links(library: &'static Library, file: Hid) -> Result<Vec<CString>> {
    let mut names: Vec<CString> = Vec::new();
    const BY_NAME: c_int = 0;
    const INCREASING: c_int = 0;
    // SAFETY: the visitor gets the list that outlives the call.
    let rc = unsafe { (library.f.link_visit)(file, BY_NAME, INCREASING, collect, (&raw mut names).cast()) };
    if rc < 0 { Err(failure(library, "cannot list the file")) } else { Ok(names) }
}

/// Returns the names of all links of an open file as text.
pub(super) fn names(library: &'static Library, file: Hid) -> Result<Vec<String>> {
    Ok(links(library, file)?.iter().map(|name| name.to_string_lossy().into_owned()).collect())
}

unsafe extern "C" fn collect(_: Hid, name: *const c_char, _: *const c_void, list: *mut c_void) -> c_int {
    // SAFETY: HDF5 passes a NUL-terminated name, and the list is ours.
    unsafe { (*list.cast::<Vec<CString>>()).push(CStr::from_ptr(name).to_owned()) };
    0
}

/// Finds the live dataset at `dataset` of the file.
///
/// # Errors
/// `NotFound` when there is no dataset of that name or it is not live.
pub fn find(library: &'static Library, path: &Path, dataset: &str) -> Result<Entry> {
    let file = open(library, path, false)?;
    let about = |e: Error| e.about(format!("{}:{dataset}", path.display()));
    let name = c_name(dataset)?;
    match entry(library, file.handle.id, &name).map_err(about)? {
        Some(entry) => Ok(entry),
        None => Err(about(Error::new(ErrorKind::NotFound, "there is no live dataset of this name"))),
    }
}

/// Removes a live dataset. Its inputs stay.
///
/// # Errors
/// `NotFound` when it is not a live dataset, `Io`.
pub fn remove(library: &'static Library, path: &Path, dataset: &str) -> Result<()> {
    find(library, path, dataset)?;
    let file = open(library, path, true)?;
    let name = c_name(dataset)?;
    dimensions::forget(library, file.handle.id, library.open_dataset(file.handle.id, &name)?.id)?;
    // SAFETY: a NUL-terminated name; 0 is the default access list.
    if unsafe { (library.f.link_delete)(file.handle.id, name.as_ptr(), 0) } < 0 {
        return Err(failure(library, "cannot remove it").about(format!("{}:{dataset}", path.display())));
    }
    Ok(())
}

fn entry(library: &'static Library, file: Hid, name: &CStr) -> Result<Option<Entry>> {
    // A link may dangle, or point to a missing file: then it is not a live dataset of this file.
    // SAFETY: a NUL-terminated name; 0 is the default access list.
    let id = unsafe { (library.f.object_open)(file, name.as_ptr(), 0) };
    let Ok(object) = library.wrap_object(id, "an object") else { return Ok(None) };
    // SAFETY: an open identifier.
    if unsafe { (library.f.id_type)(object.id) } != ID_DATASET {
        return Ok(None);
    }
    let plist = library.create_plist(object.id)?;
    if library.live_filter(plist.id).is_none() || !is_computed(library, object.id, plist.id) {
        return Ok(None);
    }
    let path = format!("/{}", name.to_string_lossy().trim_start_matches('/'));
    // SAFETY: an open identifier.
    let mut stub_bytes = unsafe { (library.f.dataset_storage_size)(object.id) };
    let missing = || {
        Error::new(
            ErrorKind::Invalid,
            format!("it has no record (in its first chunk or in the attribute {ATTRIBUTE})"),
        )
    };
    let stored = read(library, object.id);
    if let Ok(None) = &stored
        && let Some(chunk) = payload(library, object.id).ok().flatten()
    {
        return Ok(Some(legacy_entry(path, stub_bytes, &chunk)));
    }
    let (bytes, place) = match stored.and_then(|b| b.ok_or_else(missing)) {
        Ok((bytes, place)) => (Ok(bytes), place),
        Err(error) => (Err(error), RecordLocation::Attribute),
    };
    let json = bytes.as_deref().map_or_else(|_| String::new(), |b| String::from_utf8_lossy(b).into_owned());
    if place == RecordLocation::Chunk {
        stub_bytes = stub_bytes.saturating_sub(json.len() as u64);
    }
    let grown = |mut v: VerifiedRecord| {
        v.record = v.record.grown(&library.dims(library.dataset_space(object.id)?.id)?)?;
        Ok(v)
    };
    let verified = bytes.as_deref().map_err(Clone::clone).and_then(VerifiedRecord::new).and_then(grown);
    let profile = match &verified {
        Ok(v) => Profile::for_signer(v.signer).and_then(|p| p.allow(v.record.backend, v.signer).map(|()| p)),
        Err(e) => Err(e.clone()),
    };
    Ok(Some(Entry {
        path,
        stub_bytes,
        record_bytes: json.len() as u64,
        place,
        json,
        record: verified.map(|v| (v.record, v.signer)),
        legacy: None,
        profile,
    }))
}

/// Makes an entry from the data that HDF5-UDF wrote into a dataset's only chunk.
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
