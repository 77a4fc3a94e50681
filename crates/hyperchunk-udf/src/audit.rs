//! Audit log: which live datasets were computed, and who signed them. Off unless enabled.
//!
//! `audit.toml` in the user's folder, else in the administrator's, or `$HYPERCHUNK_AUDIT` enables it. The log
//! has one line of JSON for each live dataset and verdict in each process, appended by one write. A full file
//! is renamed to `….1`, replacing the previous one.
//!
//! **Invariant:** the log never makes a read fail or wait.

use crate::cache::cache;
use crate::error::{Error, ErrorKind, Result, fail};
use crate::keys;
use crate::os;
use crate::settings;
use crate::signature::Fingerprint;
use crate::stub::RecordDigest;
use crate::system;
use serde::Deserialize;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// Default size in bytes at which the log is rotated.
const MAX_LOG_BYTES: u64 = 10 << 20;
/// Maximum number of remembered events.
const MAX_REMEMBERED_EVENTS: usize = 4096;
/// Maximum number of lines about one file from one process.
const MAX_FILE_EVENTS: usize = 64;
const VARIABLE: &str = "HYPERCHUNK_AUDIT";

/// Location and size of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Setting {
    /// Path.
    pub file: PathBuf,
    /// Size in bytes at which it is rotated.
    pub max_bytes: u64,
}

/// Evaluation, or refusal, of a live dataset.
#[derive(Clone, Copy, Debug)]
pub struct Event<'a> {
    /// Path of the file.
    pub file: &'a str,
    /// Path of the dataset in it.
    pub dataset: &'a str,
    /// Digest of the record.
    pub record: RecordDigest,
    /// Signer.
    pub signer: Option<Fingerprint>,
    /// Name of the profile, if one was found.
    pub profile: Option<&'a str>,
    /// Language.
    pub language: &'a str,
    /// Reason why the dataset was not computed; `None` if it was.
    pub error: Option<&'a Error>,
}

impl<'a> Event<'a> {
    /// Makes the event of a dataset with an invalid record or signature, whose other fields cannot be
    /// trusted.
    pub fn invalid(file: &'a str, dataset: &'a str, record: RecordDigest, error: &'a Error) -> Self {
        Event { file, dataset, record, signer: None, profile: None, language: "unknown", error: Some(error) }
    }

    fn verdict(&self) -> &'static str {
        match self.error.map(Error::kind) {
            None => "computed",
            Some(ErrorKind::Refused | ErrorKind::Key | ErrorKind::Invalid) => "refused",
            Some(ErrorKind::Violation) => "stopped",
            Some(ErrorKind::Limit) => "limit",
            Some(_) => "failed",
        }
    }

    /// Returns the line that replaces this and all further events of the file.
    fn last_line(&self, now: &str) -> String {
        let mut line = serde_json::json!({
            "time": now,
            "verdict": "more",
            "file": absolute(self.file).chars().take(1000).collect::<String>(),
            "reason": format!("{MAX_FILE_EVENTS} or more events of this file in one process: the rest is not logged"),
            "pid": std::process::id(),
        })
        .to_string();
        line.push('\n');
        line
    }

    fn line(&self, now: &str) -> String {
        let short = |text: &str| text.chars().take(1000).collect::<String>();
        let program = std::fs::read_link("/proc/self/exe").unwrap_or_default();
        let mut line = serde_json::json!({
            "time": now,
            "verdict": self.verdict(),
            "file": short(&absolute(self.file)),
            "dataset": short(self.dataset),
            "language": self.language,
            "key": self.signer.map(|f| f.to_string()),
            "profile": self.profile,
            "reason": self.error.map(|e| short(e.message())),
            "record": self.record.0.iter().map(|b| format!("{b:02x}")).collect::<String>(),
            "program": short(&program.display().to_string()),
            "pid": std::process::id(),
        })
        .to_string();
        line.push('\n');
        line
    }
}

/// Returns a file's absolute path, since the working directory is not recorded. URLs stay.
fn absolute(file: &str) -> String {
    if file.is_empty() || file.contains("://") {
        return file.to_owned();
    }
    std::path::absolute(file).map_or_else(|_| file.to_owned(), |path| path.display().to_string())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    version: u32,
    enabled: bool,
    file: Option<PathBuf>,
    max_mib: Option<u64>,
}

/// Returns this user's setting, or `None` if the log is off.
///
/// # Errors
/// `Key` when `audit.toml` or the variable is malformed, or another user could have written the file: then
/// there is no log.
pub fn setting() -> Result<Option<Setting>> {
    // In a set-uid program, environment and home belong to another user.
    let Ok(config) = keys::config_dir() else { return Ok(None) };
    let mut setting = None;
    let path = config.join("audit.toml");
    let shared = system::folder().join("audit.toml");
    // The user's own setting takes precedence over the administrator's.
    let (path, text) = match keys::read_own(&path, 0o022)? {
        Some(text) => (path, Some(text)),
        None => (shared.clone(), system::read(&shared)?),
    };
    if let Some(text) = text {
        setting = read_setting(&text).map_err(|e| e.about(path.display().to_string()))?;
    }
    let Some(word) = std::env::var_os(VARIABLE) else { return Ok(setting) };
    let named = PathBuf::from(&word);
    match word.to_str() {
        Some("" | "0") => Ok(None),
        Some("1") if setting.is_some() => Ok(setting),
        Some("1") => default_file().map(|file| Some(Setting { file, max_bytes: MAX_LOG_BYTES })),
        _ if named.is_absolute() => {
            let max_bytes = setting.map_or(MAX_LOG_BYTES, |s| s.max_bytes);
            Ok(Some(Setting { file: named, max_bytes }))
        }
        _ => fail!(Key, "{VARIABLE} is neither 0, 1 nor an absolute path"),
    }
}

fn read_setting(text: &str) -> Result<Option<Setting>> {
    let file: File = match settings::parse(text) {
        Ok(file) => file,
        Err(error) => fail!(Key, "{error}"),
    };
    if file.version != 1 {
        fail!(Key, "version {} is not supported by this version of hyperchunk", file.version)
    }
    let path = match file.file {
        Some(path) if !path.is_absolute() => fail!(Key, "`file` is not an absolute path"),
        Some(path) => path,
        None => default_file()?,
    };
    let max_bytes = file.max_mib.map_or(MAX_LOG_BYTES, |n| n.clamp(1, 1 << 20) << 20);
    Ok(file.enabled.then_some(Setting { file: path, max_bytes }))
}

fn default_file() -> Result<PathBuf> {
    match keys::state_dir() {
        Some(dir) => Ok(dir.join("audit.jsonl")),
        None => fail!(Key, "no home folder for the log: set XDG_STATE_HOME, or `file` in audit.toml"),
    }
}

struct LoggedEvents {
    process: u32,
    events: HashSet<u64>,
    /// Number of events for each file.
    files: HashMap<u64, usize>,
}

static LOGGED: Mutex<Option<LoggedEvents>> = Mutex::new(None);

/// Logs `event` if the log is on; a repetition is not logged while this process remembers the event. For a
/// file with many live datasets, only the first events are logged, and a note that there are more: one file
/// cannot displace the entries of others.
pub fn note(event: &Event<'_>) {
    let count = count_event(event);
    if (1..=MAX_FILE_EVENTS).contains(&count)
        && let Ok(Some(setting)) = setting()
    {
        let now = keys::now();
        let line = if count < MAX_FILE_EVENTS { event.line(&now) } else { event.last_line(&now) };
        // A log that cannot be written must not fail the read.
        let _ = append(&setting, line.as_bytes());
    }
}

/// Returns the event's number within its file; 0 for a duplicate.
fn count_event(event: &Event<'_>) -> usize {
    let mut hasher = DefaultHasher::new();
    (event.file, event.dataset, event.record, event.verdict(), event.profile).hash(&mut hasher);
    let Some(mut noted) = cache(&LOGGED) else { return 1 };
    let process = std::process::id();
    let noted = match noted.as_mut() {
        Some(noted) if noted.process == process && noted.events.len() < MAX_REMEMBERED_EVENTS => noted,
        _ => noted.insert(LoggedEvents { process, events: HashSet::new(), files: HashMap::new() }),
    };
    if !noted.events.insert(hasher.finish()) {
        return 0;
    }
    let mut hasher = DefaultHasher::new();
    event.file.hash(&mut hasher);
    let count = noted.files.entry(hasher.finish()).or_default();
    *count += 1;
    *count
}

/// Appends a line.
///
/// # Errors
/// `Io`, and `Key` when the file is not the user's own.
pub fn append(setting: &Setting, line: &[u8]) -> Result<()> {
    let path = &setting.file;
    let about = |e: &std::io::Error| Error::io(path.display(), e);
    let mut file = open(path)?;
    let size = file.metadata().map_err(|e| about(&e))?.len();
    if size > 0 && size.saturating_add(line.len() as u64) > setting.max_bytes {
        rotate(path, &file);
        file = open(path)?;
    }
    file.write_all(line).map_err(|e| about(&e))
}

/// Renames the full log, unless another process is doing so or has done so.
fn rotate(path: &Path, full: &std::fs::File) {
    // Does not wait.
    if full.try_lock().is_err() {
        return;
    }
    if os::is_at(full, path) {
        let mut old = path.as_os_str().to_owned();
        old.push(".1");
        // A log that cannot be renamed grows further; doctor reports its size.
        let _ = std::fs::rename(path, old);
    }
}

fn open(path: &Path) -> Result<std::fs::File> {
    let about = || path.display().to_string();
    if let Some(dir) = path.parent().filter(|dir| Some(*dir) == keys::state_dir().as_deref()) {
        let made = os::private_folders().create(dir);
        made.map_err(|e| Error::io(dir.display(), &e))?;
    }
    let file = os::open(os::set_mode(std::fs::OpenOptions::new().append(true).create(true), 0o600), path)
        .map_err(|e| Error::io(about(), &e))?;
    let meta = file.metadata().map_err(|e| Error::io(about(), &e))?;
    if !meta.is_file() || !os::is_own(&meta) {
        return Err(Error::new(ErrorKind::Key, "the log must be a regular file that you own").about(about()));
    }
    Ok(file)
}

#[cfg(test)]
mod tests;
