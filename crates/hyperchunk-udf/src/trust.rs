//! Which keys are in which profile, and which were revoked.
//!
//! `profiles/<name>/keys/<fingerprint>.pub` puts a key into a profile, `revoked/<fingerprint>` takes all trust from it.
//! Only the commands of [`add`], [`revoke`] and [`remove`] write here; reading a dataset never does.

use crate::error::{Error, ErrorKind, Result, fail};
use crate::escape::escape;
use crate::keys::{self, PublicKey};
use crate::profile::{Profile, is_name};
use crate::signature::Fingerprint;
use std::path::PathBuf;

const FINGERPRINT: &str = "hyperchunk-fingerprint-v1";
const REVOKED: &str = "hyperchunk-revoked-key-v1";

/// A key that somebody knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listed {
    /// Its fingerprint.
    pub fingerprint: Fingerprint,
    /// The key, unless only its fingerprint was given.
    pub key: Option<[u8; 32]>,
    /// A label for people.
    pub name: String,
    /// A label for people.
    pub email: String,
    /// Where it is: a profile's name, or that it was revoked and when.
    pub place: Place,
}

/// Where a key is listed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// In this profile.
    Profile(String),
    /// Revoked, at this time.
    Revoked(String),
}

impl Listed {
    /// A key that is about to be listed in `profile`.
    pub fn new(key: &PublicKey, profile: &str) -> Self {
        Listed {
            fingerprint: Fingerprint::of(&key.key),
            key: Some(key.key),
            name: key.name.clone(),
            email: key.email.clone(),
            place: Place::Profile(profile.to_owned()),
        }
    }

    fn to_text(&self) -> String {
        let Listed { fingerprint, name, email, .. } = self;
        match self.key {
            Some(key) => PublicKey { key, name: name.clone(), email: email.clone() }.to_text(),
            None => format!("{FINGERPRINT}\nfingerprint {fingerprint}\nname {name}\nemail {email}\n"),
        }
    }

    fn from_text(text: &str, profile: &str) -> Result<Self> {
        if text.lines().next() != Some(FINGERPRINT) {
            return PublicKey::from_text(text).map(|key| Listed::new(&key, profile));
        }
        let field = |label: &str| {
            let line = text.lines().find_map(|l| l.strip_prefix(label)?.strip_prefix(' '));
            line.unwrap_or_default().to_owned()
        };
        Ok(Listed {
            fingerprint: Fingerprint::parse(&field("fingerprint"))?,
            key: None,
            name: field("name"),
            email: field("email"),
            place: Place::Profile(profile.to_owned()),
        })
    }
}

fn list_path(profile: &str, fingerprint: &Fingerprint) -> Result<PathBuf> {
    let keys = keys::config_dir()?.join("profiles").join(profile).join("keys");
    Ok(keys.join(format!("{}.pub", fingerprint.file_stem())))
}

fn revoked_path(fingerprint: &Fingerprint) -> Result<PathBuf> {
    Ok(keys::config_dir()?.join("revoked").join(fingerprint.file_stem()))
}

/// The name of the profile in which functions of this key run.
///
/// # Errors
/// `Refused` when it was revoked; `Key` when a file that decides is unsafe, or two profiles list it.
pub(crate) fn profile_of(fingerprint: &Fingerprint) -> Result<String> {
    // Without a home of our own (a service, a set-uid program) nobody is known.
    let Ok(config) = keys::config_dir() else { return Ok("untrusted".into()) };
    check_revoked(fingerprint)?;
    // A list of distrust that cannot be read may have this key.
    if lists("untrusted", fingerprint)? != Some(false) {
        return Ok("untrusted".into());
    }
    let mut found = Vec::new();
    for profile in keys::list_folder(&config.join("profiles"))? {
        if is_name(&profile) && lists(&profile, fingerprint)? == Some(true) {
            found.push(profile);
        }
    }
    found.sort();
    match found.as_slice() {
        [] => {}
        [one] => return Ok(one.clone()),
        [first, second, ..] => fail!(
            Key,
            "refused to run: its key {fingerprint} is in two profiles, {first} and {second}; choose: hyperchunk trust move {fingerprint} PROFILE"
        ),
    }
    match keys::own_public_key()? {
        Some(own) if Fingerprint::of(&own.key) == *fingerprint => Ok("self".into()),
        _ => Ok("untrusted".into()),
    }
}

/// Fails when the key was revoked.
///
/// # Errors
/// `Refused`, with when and with the way out.
pub fn check_revoked(fingerprint: &Fingerprint) -> Result<()> {
    let path = revoked_path(fingerprint)?;
    match std::fs::symlink_metadata(&path) {
        // Whatever the file is like: revoking is on the safe side.
        Ok(_) => {
            let (name, since) = revocation(fingerprint).unwrap_or_default();
            let who = if name.is_empty() { String::new() } else { format!(" ({})", escape(&name, 80)) };
            let when = if since.is_empty() { String::new() } else { format!(" on {}", escape(&since, 40)) };
            fail!(
                Refused,
                "refused to run: its key {fingerprint}{who} was revoked{when} (profile: none). If that was a mistake: hyperchunk trust add {fingerprint} --profile PROFILE --even-if-revoked"
            )
        }
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(()),
        Err(e) if path.parent().is_some_and(|dir| std::fs::symlink_metadata(dir).is_ok()) => {
            let why = format!("refused to run: the list of revoked keys cannot be read: {e}");
            Err(Error::new(ErrorKind::Refused, why).about(path.display().to_string()))
        }
        // Nothing of the folder can be looked at: then nobody is known.
        Err(_) => Ok(()),
    }
}

/// The label of a revoked key, and since when it is.
fn revocation(fingerprint: &Fingerprint) -> Option<(String, String)> {
    let text = keys::read_own(&revoked_path(fingerprint).ok()?, 0o022).ok()??;
    let field = |label: &str| {
        text.lines().find_map(|l| l.strip_prefix(label)?.strip_prefix(' ')).unwrap_or_default().to_owned()
    };
    Some((field("name"), field("since")))
}

/// Whether the profile called `profile` lists this key; `None` when its list cannot be looked at.
///
/// # Errors
/// `Key` when the key's file could have been written by somebody else, or holds another key than its name says.
fn lists(profile: &str, fingerprint: &Fingerprint) -> Result<Option<bool>> {
    let path = list_path(profile, fingerprint)?;
    let Some(text) = keys::read_own(&path, 0o022)? else {
        let hidden =
            std::fs::symlink_metadata(&path).is_err_and(|e| e.kind() != std::io::ErrorKind::NotFound);
        return Ok((!hidden).then_some(false));
    };
    read_listed(&text, profile, &path, fingerprint).map(|_| Some(true))
}

fn read_listed(
    text: &str,
    profile: &str,
    path: &std::path::Path,
    fingerprint: &Fingerprint,
) -> Result<Listed> {
    let listed = Listed::from_text(text, profile).map_err(|e| e.about(path.display().to_string()))?;
    if listed.fingerprint != *fingerprint {
        fail!(Key, "{} does not hold the key that it is named after", path.display())
    }
    Ok(listed)
}

/// Every key that is listed anywhere, and why others are not usable.
///
/// # Errors
/// Those of [`keys::config_dir`], and `Io`.
pub fn list() -> Result<Vec<Result<Listed>>> {
    let config = keys::config_dir()?;
    let mut found = Vec::new();
    for profile in Profile::names()? {
        let mut files = keys::list_folder(&config.join("profiles").join(&profile).join("keys"))?;
        files.sort();
        for file in files {
            let Some(stem) = file.strip_suffix(".pub") else { continue };
            found.push(Fingerprint::parse(stem).and_then(|fingerprint| {
                let path = list_path(&profile, &fingerprint)?;
                match keys::read_own(&path, 0o022)? {
                    Some(text) => read_listed(&text, &profile, &path, &fingerprint),
                    None => fail!(Key, "{} cannot be read", path.display()),
                }
            }));
        }
    }
    let mut revoked = keys::list_folder(&config.join("revoked"))?;
    revoked.sort();
    for stem in revoked {
        found.push(Fingerprint::parse(&stem).map(|fingerprint| {
            let (name, since) = revocation(&fingerprint).unwrap_or_default();
            Listed { fingerprint, key: None, name, email: String::new(), place: Place::Revoked(since) }
        }));
    }
    Ok(found)
}

/// The key with this fingerprint as a profile lists it.
///
/// # Errors
/// Those of [`list`].
pub fn find(fingerprint: &Fingerprint) -> Result<Option<Listed>> {
    let in_profile = |l: &Listed| l.fingerprint == *fingerprint && matches!(l.place, Place::Profile(_));
    Ok(list()?.into_iter().flatten().find(in_profile))
}

/// Puts a key into a profile, and takes it out of every other.
///
/// # Errors
/// `Refused` when it was revoked, unless `even_if_revoked`; `NotFound` when there is no such profile; `Key` for labels
/// that are no labels; `Io`.
pub fn add(listed: &Listed, even_if_revoked: bool) -> Result<()> {
    let Place::Profile(profile) = &listed.place else { fail!(Key, "a revoked key is in no profile") };
    keys::check_label(&listed.name)?;
    keys::check_label(&listed.email)?;
    Profile::named(profile)?;
    if profile == "self" {
        fail!(
            Refused,
            "profile self is for your own key alone; put others' into default, or into a profile of yours"
        )
    }
    let fingerprint = &listed.fingerprint;
    let revoked = revoked_path(fingerprint)?;
    if !even_if_revoked {
        check_revoked(fingerprint)?;
    }
    // First where it shall be, then not elsewhere: what fails in between leaves a key in two profiles, which runs nothing.
    keys::replace(&list_path(profile, fingerprint)?, &listed.to_text())?;
    unlist(fingerprint, Some(profile))?;
    if even_if_revoked {
        keys::delete(&revoked)?;
    }
    Ok(())
}

/// Takes all trust from a key, for good: what it signed is refused, in every profile.
///
/// # Errors
/// `Io`.
pub fn revoke(fingerprint: &Fingerprint, name: &str, now: &str) -> Result<()> {
    keys::check_label(name)?;
    let text = format!("{REVOKED}\nfingerprint {fingerprint}\nname {name}\nsince {now}\n");
    keys::replace(&revoked_path(fingerprint)?, &text)?;
    unlist(fingerprint, None)
}

/// Takes a key out of every profile: it is then unknown. Returns whether it was in one.
///
/// # Errors
/// `Io`.
pub fn remove(fingerprint: &Fingerprint) -> Result<bool> {
    let known = find(fingerprint)?.is_some();
    unlist(fingerprint, None)?;
    Ok(known)
}

fn unlist(fingerprint: &Fingerprint, but: Option<&String>) -> Result<()> {
    for profile in Profile::names()?.iter().filter(|p| Some(*p) != but) {
        keys::delete(&list_path(profile, fingerprint)?)?;
    }
    Ok(())
}
