//! Keys and profiles, for `hyperchunk.trust`.

use crate::edit::to_python;
use hyperchunk_live::edit;
use hyperchunk_udf::error::Error;
use hyperchunk_udf::keys;
use hyperchunk_udf::profile::{self, Profile};
use hyperchunk_udf::signature::Fingerprint;
use hyperchunk_udf::trust::{self, KnownKey};
use pyo3::prelude::*;
use std::path::PathBuf;

pub(crate) fn add(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add_function(wrap_pyfunction!(trust_list, module)?)?;
    module.add_function(wrap_pyfunction!(trust_add, module)?)?;
    module.add_function(wrap_pyfunction!(trust_move, module)?)?;
    module.add_function(wrap_pyfunction!(trust_revoke, module)?)?;
    module.add_function(wrap_pyfunction!(trust_remove, module)?)?;
    module.add_function(wrap_pyfunction!(trust_import, module)?)?;
    module.add_function(wrap_pyfunction!(trust_profiles, module)?)?;
    module.add_function(wrap_pyfunction!(make_missing_key, module)?)?;
    Ok(())
}

/// `(fingerprint, profile or None, revoked since or None, name, email, system-wide)` of a key.
type Key = (String, Option<String>, Option<String>, String, String, bool);

fn row(listed: KnownKey) -> Key {
    let (profile, revoked) = (listed.profile(), listed.revoked());
    (
        listed.fingerprint.to_string(),
        profile.map(str::to_owned),
        revoked.map(str::to_owned),
        listed.name,
        listed.email,
        listed.shared,
    )
}

/// Creates the user's own key if there is none: its fingerprint and its file.
#[pyfunction]
fn make_missing_key(py: Python<'_>) -> PyResult<Option<(String, PathBuf)>> {
    let made = py.detach(keys::make_missing_key).map_err(|e| to_python(py, &e))?;
    Ok(made.map(|(fingerprint, path)| (fingerprint.to_string(), path)))
}

/// Returns the keys, and the reason why some are unusable, if any are.
#[pyfunction]
fn trust_list(py: Python<'_>) -> PyResult<(Vec<Key>, Option<String>)> {
    let read = || -> Result<_, Error> {
        let (known, bad) = trust::known()?;
        Ok((known.into_iter().map(row).collect(), bad))
    };
    py.detach(read).map_err(|e| to_python(py, &e))
}

#[pyfunction]
fn trust_add(
    py: Python<'_>,
    key: String,
    profile: String,
    name: Option<String>,
    even_if_revoked: bool,
) -> PyResult<Key> {
    let put = || -> Result<_, Error> {
        let mut listed = edit::named_key(&key, &profile)?;
        if let Some(name) = name {
            listed.name = name;
        }
        trust::add(&listed, even_if_revoked)?;
        Ok(row(listed))
    };
    py.detach(put).map_err(|e| to_python(py, &e))
}

#[pyfunction]
fn trust_move(py: Python<'_>, fingerprint: String, profile: String) -> PyResult<Key> {
    py.detach(|| trust::move_to(&Fingerprint::parse(&fingerprint)?, &profile).map(row))
        .map_err(|e: Error| to_python(py, &e))
}

#[pyfunction]
fn trust_revoke(py: Python<'_>, fingerprint: String) -> PyResult<()> {
    let revoke = || {
        let fingerprint = Fingerprint::parse(&fingerprint)?;
        let known = trust::find(&fingerprint)?;
        trust::revoke(&fingerprint, known.as_ref().map_or("", |listed| &listed.name), &keys::now())
    };
    py.detach(revoke).map_err(|e: Error| to_python(py, &e))
}

#[pyfunction]
fn trust_remove(py: Python<'_>, fingerprint: String) -> PyResult<()> {
    py.detach(|| trust::forget(&Fingerprint::parse(&fingerprint)?)).map_err(|e: Error| to_python(py, &e))
}

/// `(text, warnings, name or None, file or None)` of the profile.
type ImportedProfile = (String, Vec<String>, Option<String>, Option<PathBuf>);

#[pyfunction]
fn trust_import(
    py: Python<'_>,
    #[pyo3(from_py_with = crate::paths::path)] file: PathBuf,
    name: Option<String>,
    dry_run: bool,
) -> PyResult<ImportedProfile> {
    let imported =
        py.detach(|| profile::import_file(&file, name.as_deref(), dry_run)).map_err(|e| to_python(py, &e))?;
    let (name, path) = imported.made.unzip();
    Ok((imported.toml, imported.warnings, name, path))
}

#[pyfunction]
fn trust_profiles(py: Python<'_>) -> PyResult<Vec<String>> {
    py.detach(Profile::names).map_err(|e| to_python(py, &e))
}
