//! Assignment of keys to profiles, and revoked keys.
//!
//! `profiles/<name>/keys/<fingerprint>.pub` puts a key into a profile, `revoked/<fingerprint>` revokes it; in
//! the user's folder, and for all users in the administrator's (see `system`). Only the commands of [`add`],
//! [`revoke`] and [`remove`] write here; reading a dataset never does.

mod stamp;

use crate::error::{Error, ErrorKind, Result, fail};
use crate::escape::escape;
use crate::keys::{self, PublicKey};
use crate::profile::{Profile, is_name};
use crate::signature::Fingerprint;
use crate::system::{self, Policy};
use std::path::{Path, PathBuf};

pub use stamp::stamp;

const FINGERPRINT: &str = "hyperchunk-fingerprint-v1";
const REVOKED: &str = "hyperchunk-revoked-key-v1";

/// Known key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KnownKey {
    /// Fingerprint.
    pub fingerprint: Fingerprint,
    /// Key, unless only its fingerprint was given.
    pub key: Option<[u8; 32]>,
    /// Label for display.
    pub name: String,
    /// Label for display.
    pub email: String,
    /// Profile that lists it, or the time of its revocation.
    pub place: KeyList,
    /// Set if the administrator listed it, for all users.
    pub shared: bool,
}

/// List that contains a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum KeyList {
    /// Profile of this name.
    Profile(String),
    /// Revoked keys, with the time of revocation.
    Revoked(String),
}

impl KnownKey {
    /// Creates the entry of a key in `profile`.
    pub fn new(key: &PublicKey, profile: &str) -> Self {
        KnownKey {
            fingerprint: Fingerprint::from_public_key(&key.key),
            key: Some(key.key),
            name: key.name.clone(),
            email: key.email.clone(),
            place: KeyList::Profile(profile.to_owned()),
            shared: false,
        }
    }

    /// Returns the profile that lists the key; `None` for a revoked key.
    pub fn profile(&self) -> Option<&str> {
        match &self.place {
            KeyList::Profile(profile) => Some(profile),
            KeyList::Revoked(_) => None,
        }
    }

    /// Returns the time of revocation, if it is revoked.
    pub fn revoked(&self) -> Option<&str> {
        match &self.place {
            KeyList::Profile(_) => None,
            KeyList::Revoked(since) => Some(since),
        }
    }

    fn to_text(&self) -> String {
        let KnownKey { fingerprint, name, email, .. } = self;
        match self.key {
            Some(key) => PublicKey { key, name: name.clone(), email: email.clone() }.to_text(),
            None => format!("{FINGERPRINT}\nfingerprint {fingerprint}\nname {name}\nemail {email}\n"),
        }
    }

    fn from_text(text: &str, profile: &str) -> Result<Self> {
        if text.lines().next() != Some(FINGERPRINT) {
            return PublicKey::from_text(text).map(|key| KnownKey::new(&key, profile));
        }
        let field = |label: &str| {
            let line = text.lines().find_map(|l| l.strip_prefix(label)?.strip_prefix(' '));
            line.unwrap_or_default().to_owned()
        };
        Ok(KnownKey {
            fingerprint: Fingerprint::parse(&field("fingerprint"))?,
            key: None,
            name: field("name"),
            email: field("email"),
            place: KeyList::Profile(profile.to_owned()),
            shared: false,
        })
    }
}

/// Folder with `profiles` and `revoked`: the user's own, or the administrator's.
struct Lists {
    folder: PathBuf,
    shared: bool,
}

impl Lists {
    fn own() -> Result<Self> {
        keys::config_dir().map(|folder| Lists { folder, shared: false })
    }

    fn shared() -> Self {
        Lists { folder: system::folder(), shared: true }
    }

    /// Returns both. Without a home folder (a service, a set-uid program) there is only the administrator's.
    fn all() -> Vec<Self> {
        Lists::own().into_iter().chain([Lists::shared()]).collect()
    }

    fn path(&self, profile: &str, fingerprint: &Fingerprint) -> PathBuf {
        let keys = self.folder.join("profiles").join(profile).join("keys");
        keys.join(format!("{}.pub", fingerprint.file_stem()))
    }

    fn revoked_path(&self, fingerprint: &Fingerprint) -> PathBuf {
        self.folder.join("revoked").join(fingerprint.file_stem())
    }

    fn read(&self, path: &Path) -> Result<Option<String>> {
        if self.shared { system::read(path) } else { keys::read_own(path, 0o022) }
    }

    /// Returns whether the profile called `profile` lists this key; `None` when its list cannot be read.
    ///
    /// # Errors
    /// `Key` when another user could have written the key's file, or it holds another key than its name says.
    fn lists(&self, profile: &str, fingerprint: &Fingerprint) -> Result<Option<bool>> {
        let path = self.path(profile, fingerprint);
        let Some(text) = self.read(&path)? else {
            let hidden =
                std::fs::symlink_metadata(&path).is_err_and(|e| e.kind() != std::io::ErrorKind::NotFound);
            return Ok((!hidden).then_some(false));
        };
        read_listed(&text, profile, &path, fingerprint).map(|_| Some(true))
    }

    /// Returns the one profile that lists this key.
    fn find_profile(&self, fingerprint: &Fingerprint) -> Result<Option<String>> {
        let mut found = Vec::new();
        for profile in keys::list_folder(&self.folder.join("profiles"))? {
            if is_name(&profile) && self.lists(&profile, fingerprint)? == Some(true) {
                found.push(profile);
            }
        }
        found.sort();
        if let [first, second, ..] = found.as_slice() {
            let choose = match self.shared {
                false => format!("choose: hyperchunk trust move {fingerprint} PROFILE"),
                true => format!("this machine's administrator chooses, in {}", self.folder.display()),
            };
            fail!(
                Key,
                "refused to run: its key {fingerprint} is in two profiles, {first} and {second}; {choose}"
            )
        }
        Ok(found.pop())
    }
}

/// Returns the name of the profile for functions of this key: the one chosen by the user, else by the
/// administrator.
///
/// # Errors
/// `Refused` when the key was revoked; `Key` when a relevant file is unsafe, or two profiles list the key.
pub(crate) fn profile_name(fingerprint: &Fingerprint) -> Result<String> {
    let policy = Policy::load()?;
    check_revoked(fingerprint)?;
    let all = Lists::all();
    for lists in &all {
        // An unreadable list of distrusted keys might contain this one.
        if lists.lists("untrusted", fingerprint)? != Some(false) {
            return Ok("untrusted".into());
        }
    }
    for lists in all.iter().filter(|l| l.shared || policy.user_profiles) {
        if let Some(profile) = lists.find_profile(fingerprint)? {
            return Ok(profile);
        }
    }
    // Without a home folder there is no own key.
    if keys::config_dir().is_err() {
        return Ok("untrusted".into());
    }
    match keys::own_public_key()? {
        Some(own) if Fingerprint::from_public_key(&own.key) == *fingerprint => Ok("self".into()),
        _ => Ok("untrusted".into()),
    }
}

/// Fails when the key was revoked, by the user or for all users.
///
/// # Errors
/// `Refused`, with the time and the way out.
pub fn check_revoked(fingerprint: &Fingerprint) -> Result<()> {
    for lists in Lists::all() {
        let path = lists.revoked_path(fingerprint);
        match std::fs::symlink_metadata(&path) {
            // The content of the file does not matter: revoking is the safe choice.
            Ok(_) => {
                let (name, since) = revocation(&lists, fingerprint).unwrap_or_default();
                let who = if name.is_empty() { String::new() } else { format!(" ({})", escape(&name, 80)) };
                let when =
                    if since.is_empty() { String::new() } else { format!(" on {}", escape(&since, 40)) };
                let out = match lists.shared {
                    false => {
                        format!("hyperchunk trust add {fingerprint} --profile PROFILE --even-if-revoked")
                    }
                    true => format!("this machine's administrator removes {}", path.display()),
                };
                fail!(
                    Refused,
                    "refused to run: its key {fingerprint}{who} was revoked{when} (profile: none). If that was a mistake: {out}"
                )
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e)
                if lists.shared
                    || path.parent().is_some_and(|dir| std::fs::symlink_metadata(dir).is_ok()) =>
            {
                let why = format!("refused to run: the list of revoked keys cannot be read: {e}");
                return Err(Error::new(ErrorKind::Refused, why).about(path.display().to_string()));
            }
            // The whole folder is inaccessible: then no key is known.
            Err(_) => {}
        }
    }
    Ok(())
}

/// Returns the label of a revoked key, and the time of its revocation.
fn revocation(lists: &Lists, fingerprint: &Fingerprint) -> Option<(String, String)> {
    let text = keys::read_own(&lists.revoked_path(fingerprint), 0o022).ok()??;
    let field = |label: &str| {
        text.lines().find_map(|l| l.strip_prefix(label)?.strip_prefix(' ')).unwrap_or_default().to_owned()
    };
    Some((field("name"), field("since")))
}

fn read_listed(text: &str, profile: &str, path: &Path, fingerprint: &Fingerprint) -> Result<KnownKey> {
    let listed = KnownKey::from_text(text, profile).map_err(|e| e.about(path.display().to_string()))?;
    if listed.fingerprint != *fingerprint {
        fail!(Key, "{} does not contain the key after which it is named", path.display())
    }
    Ok(listed)
}

/// Lists every key of any list, the user's before the administrator's, with errors for unusable ones.
///
/// # Errors
/// The errors of [`keys::config_dir`], and `Io`.
pub fn list() -> Result<Vec<Result<KnownKey>>> {
    let mut found = Vec::new();
    for lists in [Lists::own()?, Lists::shared()] {
        let mut profiles = keys::list_folder(&lists.folder.join("profiles"))?;
        profiles.retain(|name| is_name(name));
        profiles
            .sort_by_key(|name| (Profile::NAMES.iter().position(|n| n == name).unwrap_or(9), name.clone()));
        for profile in profiles {
            let mut files = keys::list_folder(&lists.folder.join("profiles").join(&profile).join("keys"))?;
            files.sort();
            for file in files {
                let Some(stem) = file.strip_suffix(".pub") else { continue };
                found.push(Fingerprint::parse(stem).and_then(|fingerprint| {
                    let path = lists.path(&profile, &fingerprint);
                    match lists.read(&path)? {
                        Some(text) => {
                            let listed = read_listed(&text, &profile, &path, &fingerprint)?;
                            Ok(KnownKey { shared: lists.shared, ..listed })
                        }
                        None => fail!(Key, "{} cannot be read", path.display()),
                    }
                }));
            }
        }
        let mut revoked = keys::list_folder(&lists.folder.join("revoked"))?;
        revoked.sort();
        for stem in revoked {
            found.push(Fingerprint::parse(&stem).map(|fingerprint| {
                let (name, since) = revocation(&lists, &fingerprint).unwrap_or_default();
                let place = KeyList::Revoked(since);
                KnownKey { fingerprint, key: None, name, email: String::new(), place, shared: lists.shared }
            }));
        }
    }
    Ok(found)
}

/// Returns every known key: the user's own, then the listed ones. Also returns the reason why others are
/// unusable, if any are.
///
/// # Errors
/// The errors of [`list`].
pub fn known() -> Result<(Vec<KnownKey>, Option<String>)> {
    let mut known = Vec::from_iter(keys::own_public_key()?.map(|own| KnownKey::new(&own, "self")));
    let mut bad = Vec::new();
    for listed in list()? {
        match listed {
            Ok(listed) => known.push(listed),
            Err(error) => bad.push(error),
        }
    }
    let more = bad.len().saturating_sub(1);
    let bad = bad.first().map(|e| if more == 0 { e.to_string() } else { format!("{e} (and {more} more)") });
    Ok((known, bad))
}

/// Returns the entry of the key with this fingerprint in a profile.
///
/// # Errors
/// The errors of [`list`].
pub fn find(fingerprint: &Fingerprint) -> Result<Option<KnownKey>> {
    let in_profile = |l: &KnownKey| l.fingerprint == *fingerprint && matches!(l.place, KeyList::Profile(_));
    Ok(list()?.into_iter().flatten().find(in_profile))
}

/// Puts a key into a profile, and removes it from every other.
///
/// # Errors
/// `Refused` when it was revoked, unless `even_if_revoked`; `NotFound` when there is no such profile; `Key`
/// for invalid labels; `Io`.
pub fn add(listed: &KnownKey, even_if_revoked: bool) -> Result<()> {
    let KeyList::Profile(profile) = &listed.place else { fail!(Key, "a revoked key is in no profile") };
    if profile != "untrusted" && !Policy::load()?.user_profiles {
        fail!(
            Refused,
            "this machine's administrator keeps the lists of trusted keys: {}; yours are ignored",
            system::folder().join("policy.toml").display()
        )
    }
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
    let lists = Lists::own()?;
    if !even_if_revoked {
        check_revoked(fingerprint)?;
    }
    // Added first, then removed elsewhere: a failure in between leaves the key in two profiles, with which no
    // function runs.
    keys::replace(&lists.path(profile, fingerprint), &listed.to_text())?;
    unlist(fingerprint, Some(profile))?;
    if even_if_revoked {
        keys::delete(&lists.revoked_path(fingerprint))?;
    }
    Ok(())
}

/// Revokes a key permanently: functions that it signed are refused, in every profile.
///
/// # Errors
/// `Io`.
pub fn revoke(fingerprint: &Fingerprint, name: &str, now: &str) -> Result<()> {
    keys::check_label(name)?;
    let text = format!("{REVOKED}\nfingerprint {fingerprint}\nname {name}\nsince {now}\n");
    keys::replace(&Lists::own()?.revoked_path(fingerprint), &text)?;
    unlist(fingerprint, None)
}

/// Removes a key from every profile of the user: it is then unknown, unless the administrator lists it.
/// Returns whether it was in one.
///
/// # Errors
/// `Io`.
pub fn remove(fingerprint: &Fingerprint) -> Result<bool> {
    let in_profile = |l: &KnownKey| l.fingerprint == *fingerprint && matches!(l.place, KeyList::Profile(_));
    let known = list()?.into_iter().flatten().any(|l| in_profile(&l) && !l.shared);
    unlist(fingerprint, None)?;
    Ok(known)
}

/// Moves a listed key to another profile.
///
/// # Errors
/// `NotFound` when it is in none, and the errors of [`add`].
pub fn move_to(fingerprint: &Fingerprint, profile: &str) -> Result<KnownKey> {
    let Some(known) = find(fingerprint)? else {
        fail!(NotFound, "{fingerprint} is in no profile: hyperchunk trust add")
    };
    let listed = KnownKey { place: KeyList::Profile(profile.to_owned()), shared: false, ..known };
    add(&listed, false)?;
    Ok(listed)
}

/// Like [`remove`], for a key that has to be in one of the user's profiles.
///
/// # Errors
/// `NotFound` when it is not, and the errors of [`remove`].
pub fn forget(fingerprint: &Fingerprint) -> Result<()> {
    if remove(fingerprint)? {
        return Ok(());
    }
    match find(fingerprint)? {
        Some(_) => fail!(
            NotFound,
            "{fingerprint} is in a profile of this machine's administrator; to distrust it: hyperchunk trust move {fingerprint} untrusted"
        ),
        None => fail!(NotFound, "{fingerprint} is in no profile"),
    }
}

fn unlist(fingerprint: &Fingerprint, but: Option<&String>) -> Result<()> {
    let lists = Lists::own()?;
    let profiles = keys::list_folder(&lists.folder.join("profiles"))?;
    for profile in profiles.iter().filter(|p| is_name(p) && Some(*p) != but) {
        keys::delete(&lists.path(profile, fingerprint))?;
    }
    Ok(())
}
