//! Key files and their folder.
//!
//! `$XDG_CONFIG_HOME/hyperchunk` (or `~/.config/hyperchunk`) has `keys/self.key` (the private seed, mode
//! 0600), `keys/self.pub`, `profiles/<name>/keys/<fingerprint>.pub` and `revoked/<fingerprint>` (see
//! `trust`). Files are named after fingerprints: no content of a file becomes a path. Reading a dataset never
//! writes here.

use crate::error::{Error, ErrorKind, Result, fail};
use crate::os;
use crate::signature::{Fingerprint, SigningKey};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use std::io::{Read as _, Write as _};
use std::path::{Path, PathBuf};

const PRIVATE: &str = "hyperchunk-private-key-v1";
const PUBLIC: &str = "hyperchunk-public-key-v1";
const MAX_KEY_FILE_BYTES: u64 = 4096;
/// Maximum number of entries read from a folder.
const MAX_FOLDER_ENTRIES: usize = 100_000;

/// Returns whether this is a set-uid or set-gid program, whose environment and home belong to another user.
pub fn is_set_uid() -> bool {
    os::is_set_uid()
}

/// Returns the folder of the user's keys and profiles.
///
/// # Errors
/// `Refused` in a set-uid program, whose environment belongs to another user; `NotFound` without a home.
pub fn config_dir() -> Result<PathBuf> {
    if is_set_uid() {
        fail!(Refused, "a set-uid program does not use its caller's keys")
    }
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    if let Some(dir) = absolute("XDG_CONFIG_HOME") {
        return Ok(dir.join("hyperchunk"));
    }
    match absolute(os::HOME) {
        Some(home) => Ok(home.join(".config").join("hyperchunk")),
        None => fail!(NotFound, "no home folder: set {} or XDG_CONFIG_HOME", os::HOME),
    }
}

/// Returns `$XDG_STATE_HOME/hyperchunk`, or `~/.local/state/hyperchunk`.
pub(crate) fn state_dir() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|p| p.is_absolute());
    absolute("XDG_STATE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".local").join("state")))
        .map(|state| state.join("hyperchunk"))
}

/// Public key with the labels in its file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PublicKey {
    /// Key.
    pub key: [u8; 32],
    /// Label for display.
    pub name: String,
    /// Label for display.
    pub email: String,
}

impl PublicKey {
    /// Returns the text of a public key file.
    pub fn to_text(&self) -> String {
        format!("{PUBLIC}\nkey {}\nname {}\nemail {}\n", BASE64.encode(self.key), self.name, self.email)
    }

    /// Parses the text of a public key file.
    ///
    /// # Errors
    /// `Key` when it is not one.
    pub fn from_text(text: &str) -> Result<Self> {
        let (key, name, email) = fields(text, PUBLIC, "key")?;
        Ok(PublicKey { key, name, email })
    }
}

/// Returns the path of the user's own private key.
///
/// # Errors
/// The errors of [`config_dir`].
pub fn own_key_path() -> Result<PathBuf> {
    Ok(config_dir()?.join("keys").join("self.key"))
}

/// Creates the user's own key if there is none, as HDF5-UDF's programs expect. Returns its fingerprint and
/// path for a message.
///
/// # Errors
/// The errors of [`create_own_key`].
pub fn make_missing_key() -> Result<Option<(Fingerprint, PathBuf)>> {
    if own_public_key()?.is_some() {
        return Ok(None);
    }
    let key = create_own_key("", "")?;
    Ok(Some((key.fingerprint(), own_key_path()?)))
}

/// Creates the user's own key. The private file is unreadable for others from its creation on.
///
/// # Errors
/// `Exists` when there is one, `Key` for labels that do not fit on a line, `Io`.
pub fn create_own_key(name: &str, email: &str) -> Result<SigningKey> {
    check_label(name)?;
    check_label(email)?;
    let path = own_key_path()?;
    let dir = path.parent().unwrap_or(Path::new("/"));
    os::private_folders().create(dir).map_err(|e| Error::io(format_args!("{}", dir.display()), &e))?;
    check_folders(&path)?;
    if path.exists() {
        let message = "you have a signing key already, which `hyperchunk key show` prints; to make another one, move it away";
        return Err(Error::new(ErrorKind::Exists, message).about(path.display().to_string()));
    }
    let mut seed = [0; 32];
    getrandom::fill(&mut seed)
        .map_err(|e| Error::new(ErrorKind::Io, format!("cannot get random numbers: {e}")))?;
    let key = SigningKey::from_seed(&seed, name, email);
    let text = format!("{PRIVATE}\nseed {}\nname {name}\nemail {email}\n", BASE64.encode(seed));
    write_new(&path, 0o600, &text)?;
    let public = PublicKey { key: key.public_key(), name: name.into(), email: email.into() };
    let public_path = path.with_extension("pub");
    match std::fs::remove_file(&public_path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => {
            return Err(Error::io(format_args!("{}", public_path.display()), &e));
        }
        _ => write_new(&public_path, 0o644, &public.to_text())?,
    }
    Ok(key)
}

/// Checks that a label fits on a line of a key file.
pub(crate) fn check_label(label: &str) -> Result<()> {
    if label.len() > 200 || label.chars().any(char::is_control) {
        fail!(Key, "a name or e-mail must be one line of at most 200 bytes")
    }
    Ok(())
}

/// Reads the user's own private key.
///
/// # Errors
/// `NotFound` when there is none; `Key` when another user could have read or written it: it is then not used.
pub fn own_key() -> Result<SigningKey> {
    let path = own_key_path()?;
    let Some(text) = read_own(&path, 0o077)? else {
        fail!(NotFound, "there is no signing key yet: run `hyperchunk key new`, or attach with --unsigned")
    };
    let (seed, name, email) =
        fields(&text, PRIVATE, "seed").map_err(|e| e.about(path.display().to_string()))?;
    Ok(SigningKey::from_seed(&seed, name, email))
}

/// Reads the user's own public key, if there is one.
///
/// # Errors
/// `Key` when another user could have written it.
pub fn own_public_key() -> Result<Option<PublicKey>> {
    let path = own_key_path()?.with_extension("pub");
    let text = read_own(&path, 0o022)?;
    text.map(|t| PublicKey::from_text(&t).map_err(|e| e.about(path.display().to_string()))).transpose()
}

/// Reads a file that only this user (or root) can have written; `None` when there is no such file, or no
/// permission to open it. `forbidden` are the permission bits that it must not have.
pub(crate) fn read_own(path: &Path, forbidden: u32) -> Result<Option<String>> {
    let about = || path.display().to_string();
    let opened = os::open(std::fs::OpenOptions::new().read(true), path);
    let mut file = match opened {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(e) if os::is_link(&e) => {
            return Err(
                Error::new(ErrorKind::Key, "is a symbolic link, which is not followed").about(about())
            );
        }
        // An inaccessible home of another user counts as missing.
        Err(e) if e.kind() == std::io::ErrorKind::PermissionDenied => return Ok(None),
        Err(e) => return Err(Error::io(about(), &e)),
    };
    let meta = file.metadata().map_err(|e| Error::io(about(), &e))?;
    if !meta.is_file() || meta.len() > MAX_KEY_FILE_BYTES.max(1 << 16) {
        return Err(Error::new(ErrorKind::Key, "is not a small regular file").about(about()));
    }
    if !os::is_own(&meta) && !os::is_administrators(&meta) {
        return Err(Error::new(ErrorKind::Key, "belongs to another user").about(about()));
    }
    if os::mode(&meta) & forbidden != 0 {
        let fix = if forbidden & 0o044 != 0 { "600" } else { "go-w" };
        let message = format!(
            "others can {} it; run: chmod {fix} {}",
            if fix == "600" { "read" } else { "write" },
            about()
        );
        return Err(Error::new(ErrorKind::Key, message).about(about()));
    }
    check_folders(path)?;
    let mut text = String::new();
    file.read_to_string(&mut text).map_err(|e| Error::io(about(), &e))?;
    Ok(Some(text))
}

/// Checks that every folder from a key or settings file up to the one called `hyperchunk` belongs to the
/// user or root and is not writable for others, and that none but `hyperchunk` itself is a symbolic link. The
/// folders above are the user's home, or chosen by the user.
fn check_folders(file: &Path) -> Result<()> {
    for dir in file.ancestors().skip(1) {
        let top = dir.file_name().is_none_or(|name| name == "hyperchunk");
        check_folder(dir, top)?;
        if top {
            break;
        }
    }
    Ok(())
}

fn check_folder(dir: &Path, may_be_link: bool) -> Result<()> {
    let meta = if may_be_link { std::fs::metadata(dir) } else { std::fs::symlink_metadata(dir) };
    let meta = meta.map_err(|e| Error::io(dir.display(), &e))?;
    let own = os::is_own(&meta);
    let message = if meta.is_symlink() {
        "is a symbolic link, which is not followed".to_owned()
    } else if !own && !os::is_administrators(&meta) {
        "this folder belongs to another user".to_owned()
    } else if os::mode(&meta) & 0o022 != 0 {
        let sticky = os::mode(&meta) & 0o1000 != 0;
        if sticky || !own {
            // Such as /tmp, whose mode must not change.
            "others can change this folder, so no file below it is used; keep these files below folders that only you or root can change".to_owned()
        } else {
            format!("others can change this folder; run: chmod go-w {}", dir.display())
        }
    } else {
        return Ok(());
    };
    Err(Error::new(ErrorKind::Key, message).about(dir.display().to_string()))
}

/// Lists the names in a folder of key or settings files; empty when there is no such folder.
pub(crate) fn list_folder(dir: &Path) -> Result<Vec<String>> {
    let entries = match std::fs::read_dir(dir) {
        Ok(entries) => entries,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(e) => return Err(Error::io(dir.display(), &e)),
    };
    let mut names = Vec::new();
    for entry in entries.take(MAX_FOLDER_ENTRIES) {
        let entry = entry.map_err(|e| Error::io(dir.display(), &e))?;
        // Our files have only UTF-8 names.
        names.extend(entry.file_name().into_string());
    }
    Ok(names)
}

/// Creates the missing folders of a key or settings file, and [checks](check_folders) all of them.
fn make_folders(path: &Path) -> Result<()> {
    let dir = path.parent().unwrap_or(Path::new("/"));
    os::private_folders().create(dir).map_err(|e| Error::io(dir.display(), &e))?;
    check_folders(path)
}

/// Atomically writes or replaces a key or settings file, and creates missing folders.
pub(crate) fn replace(path: &Path, text: &str) -> Result<()> {
    make_folders(path)?;
    let new = path.with_extension(format!("new-{}", std::process::id()));
    delete(&new)?;
    write_new(&new, 0o600, text)?;
    std::fs::rename(&new, path).map_err(|e| Error::io(path.display(), &e))
}

/// Writes a new key or settings file.
pub(crate) fn create(path: &Path, text: &str) -> Result<()> {
    make_folders(path)?;
    write_new(path, 0o600, text)
}

/// Removes a key or settings file, if it exists.
pub(crate) fn delete(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Error::io(path.display(), &e)),
        _ => Ok(()),
    }
}

/// Returns the current time, as RFC 3339 in UTC.
pub fn now() -> String {
    let seconds = std::time::SystemTime::now()
        .duration_since(std::time::UNIX_EPOCH)
        .map_or(0, |d| i64::try_from(d.as_secs()).unwrap_or(0));
    rfc3339(seconds)
}

/// Returns a time in seconds since 1970, which must not be negative, as RFC 3339 in UTC.
fn rfc3339(seconds: i64) -> String {
    const DAYS_OF_400_YEARS: i64 = 146_097;
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Years begin with March here, so that a leap day is the last one of its year; day 0 is 0000-03-01.
    let day = days + 719_468;
    let (era, day) = (day.div_euclid(DAYS_OF_400_YEARS), day.rem_euclid(DAYS_OF_400_YEARS));
    let year = (day - day / 1460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + i64::from(month <= 2);
    format!("{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z", second / 3600, second / 60 % 60, second % 60)
}

fn write_new(path: &Path, mode: u32, text: &str) -> Result<()> {
    let opened = os::open(os::set_mode(std::fs::OpenOptions::new().write(true).create_new(true), mode), path);
    let mut file = match opened {
        Ok(file) => file,
        Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {
            return Err(Error::new(ErrorKind::Exists, "already exists").about(path.display().to_string()));
        }
        Err(e) => return Err(Error::io(path.display(), &e)),
    };
    file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(|e| Error::io(path.display(), &e))
}

fn fields(text: &str, kind: &str, what: &str) -> Result<([u8; 32], String, String)> {
    let mut lines = text.lines();
    let bad = || Error::new(ErrorKind::Key, format!("expected a file of kind {kind}"));
    if lines.next() != Some(kind) {
        return Err(bad());
    }
    let mut take = |label: &str| {
        let line = lines.next().ok_or_else(bad)?;
        let rest = line.strip_prefix(label).ok_or_else(bad)?;
        Ok::<_, Error>(rest.strip_prefix(' ').unwrap_or(rest).to_owned())
    };
    let (bytes, name, email) = (take(what)?, take("name")?, take("email")?);
    let key = BASE64.decode(bytes).map_err(|_| bad())?.try_into().map_err(|_| bad())?;
    Ok((key, name, email))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn scratch(name: &str) -> PathBuf {
        let dir = std::env::temp_dir()
            .join(format!("hyperchunk-keys-{name}-{}", std::process::id()))
            .join("hyperchunk");
        std::fs::create_dir_all(&dir).unwrap();
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o700)).unwrap();
        dir
    }

    /// HDF5-UDF wrote private keys with mode 0644.
    #[test]
    fn times_are_of_the_calendar() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_827_696, "2000-02-29T12:34:56Z"),
            (951_868_800, "2000-03-01T00:00:00Z"),
            (1_735_689_599, "2024-12-31T23:59:59Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(rfc3339(seconds), text);
        }
    }

    #[test]
    fn a_file_that_others_can_touch_is_not_read() {
        let dir = scratch("modes");
        let path = dir.join("k");
        std::fs::write(&path, "x").unwrap();
        for (mode, forbidden, fine) in [
            (0o600, 0o077, true),
            (0o640, 0o077, false),
            (0o604, 0o077, false),
            (0o644, 0o022, true),
            (0o664, 0o022, false),
        ] {
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
            assert_eq!(read_own(&path, forbidden).is_ok(), fine, "{mode:o} {forbidden:o}");
        }
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o600)).unwrap();
        std::os::unix::fs::symlink(&path, dir.join("link")).unwrap();
        assert!(read_own(&dir.join("link"), 0).unwrap_err().to_string().contains("symbolic link"));
        assert_eq!(read_own(&dir.join("none"), 0).unwrap(), None);
        std::fs::set_permissions(&dir, std::fs::Permissions::from_mode(0o777)).unwrap();
        assert!(read_own(&path, 0).unwrap_err().to_string().contains("folder"));
        std::fs::remove_dir_all(dir.parent().unwrap()).unwrap();
    }

    #[test]
    fn key_texts() {
        let key = PublicKey { key: [4; 32], name: "Ada L.".into(), email: String::new() };
        assert_eq!(PublicKey::from_text(&key.to_text()).unwrap(), key);
        for bad in
            ["", "x", "hyperchunk-public-key-v1\nkey AAAA\nname \nemail \n", "hyperchunk-public-key-v1\nkey"]
        {
            assert!(PublicKey::from_text(bad).is_err(), "{bad:?}");
        }
    }
}
