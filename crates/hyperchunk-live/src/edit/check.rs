//! Checks whether live datasets are consistent and would run here, without running any of their code.

use super::list::Entry;
use super::verify::{check_inputs, check_legacy, verify_stubs, worker_backend};
use super::{fail, find, split_target};
use hyperchunk_udf::error::{Error, ErrorKind, Result};
use hyperchunk_udf::escape::escape;
use hyperchunk_udf::host::{Programs, probe};
use hyperchunk_udf::keys::PublicKey;
use hyperchunk_udf::legacy::{self, Signer};
use hyperchunk_udf::profile::Profile;
use hyperchunk_udf::signature::Fingerprint;
use hyperchunk_udf::trust::{self, KeyList, KnownKey};
use std::path::Path;

/// The result of a check.
#[derive(Debug)]
pub struct CheckResult {
    /// The number of chunks, if the signature is valid and each chunk holds its stub.
    pub chunks: Result<u64>,
    /// The profile and the sandbox that it would run in.
    pub runs: Result<(Profile, String)>,
}

/// Checks a live dataset of the file at `path`.
pub fn check(path: &Path, entry: &Entry) -> CheckResult {
    let chunks = match (&entry.legacy, &entry.record) {
        (Some(legacy), _) if legacy.signer == Signer::Broken => {
            Err(Error::new(ErrorKind::Invalid, "it was written by HDF5-UDF, and its signature is invalid"))
        }
        (Some(_), _) => Ok(1),
        (None, Ok((record, _))) => verify_stubs(path, &entry.path, record, &entry.json),
        (None, Err(error)) => Err(error.clone()),
    };
    let runs = match &chunks {
        Ok(_) => runs_here(path, entry),
        Err(error) => Err(error.clone()),
    };
    CheckResult { chunks, runs }
}

/// Returns the profile and the sandbox that it would run in.
///
/// # Errors
/// The reason for which it would not run.
pub fn runs_here(path: &Path, entry: &Entry) -> Result<(Profile, String)> {
    let profile = entry.profile.clone()?;
    let backend = match (&entry.legacy, &entry.record) {
        (Some(legacy), _) => {
            let record = check_legacy(path, &entry.path, legacy)?;
            check_inputs(path, &entry.path, &record, &profile)?;
            worker_backend(record.backend, true)
        }
        (None, Ok((record, _))) => {
            check_inputs(path, &entry.path, record, &profile)?;
            worker_backend(record.backend, false)
        }
        (None, Err(error)) => return Err(error.clone()),
    };
    if !backend.has_worker() {
        return Ok((profile, "its own nature: it is no program, and can only compute".into()));
    }
    let probed = probe(backend, &profile, &Programs::find()?, false)?;
    Ok((profile, format!("{} (Landlock {})", probed.layers, probed.landlock_abi)))
}

/// Resolves the key that a user names, about to be listed in `profile`: a key file of ours or of HDF5-UDF, a
/// fingerprint, or `FILE:/DATASET` for the key that signed it.
///
/// # Errors
/// `Syntax` for any other text, `NotFound` when the dataset is unsigned, and errors of reading files.
pub fn named_key(key: &str, profile: &str) -> Result<KnownKey> {
    if Path::new(key).is_file() {
        let text = std::fs::read_to_string(key).map_err(|e| Error::io(escape(key, 300), &e))?;
        let public = match legacy::public_key(&text) {
            Some(public) => public,
            None => PublicKey::from_text(&text).map_err(|e| e.about(key))?,
        };
        return Ok(KnownKey::new(&public, profile));
    }
    if let Ok((file, dataset)) = split_target(key) {
        return match find(Path::new(file), dataset)?.key()? {
            Some(public) => Ok(KnownKey::new(&public, profile)),
            None => Err(Error::new(ErrorKind::NotFound, "it is not signed").about(key)),
        };
    }
    let Ok(fingerprint) = Fingerprint::parse(key) else {
        fail!(Syntax, "{:?} is neither a key file, nor a fingerprint, nor FILE:/DATASET", escape(key, 300))
    };
    let known = trust::find(&fingerprint)?;
    let place = KeyList::Profile(profile.to_owned());
    Ok(known.map(|l| KnownKey { place: place.clone(), shared: false, ..l }).unwrap_or(KnownKey {
        fingerprint,
        key: None,
        name: String::new(),
        email: String::new(),
        place,
        shared: false,
    }))
}
