//! Conversion of HDF5-UDF's rules (`~/.config/hdf5-udf/PROFILE/PROFILE.json`) to a profile.
//!
//! Its rules are single system calls and path patterns; ours are grants. Rules without a counterpart are
//! omitted, with a warning: the result never allows more than the rules did.

use super::{Grants, Profile};
use crate::error::{Error, ErrorKind, Result, fail};
use crate::escape::escape;
use serde_json::Value;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// Profile converted from HDF5-UDF's rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedProfile {
    /// Text of its `profile.toml`.
    pub toml: String,
    /// Omitted rules, with the reasons.
    pub warnings: Vec<String>,
}

/// Profile converted from a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ImportedFile {
    /// Text of its `profile.toml`.
    pub toml: String,
    /// Omitted rules, with the reasons.
    pub warnings: Vec<String>,
    /// Name and file of the profile, unless it was a dry run.
    pub made: Option<(String, PathBuf)>,
}

/// Creates a profile called `name`, or after the file, from the rules in a file of HDF5-UDF.
///
/// # Errors
/// The errors of [`import`] and of creating a profile.
pub fn import_file(file: &Path, name: Option<&str>, dry_run: bool) -> Result<ImportedFile> {
    let about = |e: Error| e.about(file.display().to_string());
    let meta = std::fs::metadata(file).map_err(|e| Error::io(file.display(), &e))?;
    if meta.len() > 1 << 20 {
        return Err(about(Error::new(ErrorKind::Limit, "has more than 1 MiB")));
    }
    let text = std::fs::read_to_string(file).map_err(|e| Error::io(file.display(), &e))?;
    let ImportedProfile { toml, warnings } = import(&text).map_err(about)?;
    if dry_run {
        return Ok(ImportedFile { toml, warnings, made: None });
    }
    let stem = file.file_stem().map(|s| s.to_string_lossy().into_owned()).unwrap_or_default();
    let name = name.unwrap_or(&stem);
    if Profile::NAMES.contains(&name) {
        fail!(Exists, "{name} is a built-in profile: give the new one another --name")
    }
    let path = Profile::create(name, &toml)?;
    Ok(ImportedFile { toml, warnings, made: Some((name.to_owned(), path)) })
}

/// Calls that every function has, so that a rule that allows them adds nothing.
const ALWAYS: [&str; 21] = [
    "brk",
    "clock_gettime",
    "close",
    "exit",
    "exit_group",
    "fstat",
    "futex",
    "getpid",
    "getrandom",
    "gettid",
    "lseek",
    "madvise",
    "mmap",
    "mmap2",
    "mprotect",
    "munmap",
    "read",
    "rt_sigprocmask",
    "rt_sigreturn",
    "sched_yield",
    "write",
];
/// Calls that come with granted paths.
const FILES: [&str; 14] = [
    "access",
    "fcntl",
    "getdents64",
    "ioctl",
    "lstat",
    "newfstatat",
    "open",
    "openat",
    "pread64",
    "readv",
    "stat",
    "statx",
    "uname",
    "writev",
];
const NETWORK: [&str; 9] =
    ["accept", "bind", "connect", "getsockopt", "listen", "recvfrom", "sendto", "setsockopt", "socket"];
const PROCESSES: [&str; 5] = ["execve", "execveat", "fork", "vfork", "kill"];
/// Folders of Python modules and system libraries: these are loaded before the lock-down.
const LIBRARIES: [&str; 4] = ["site-packages", "dist-packages", "/lib", "ld-linux"];

#[derive(Default)]
struct Rules {
    grants: Grants,
    /// Calls with the rule `false`.
    denied: Vec<String>,
    warnings: Vec<String>,
}

/// Converts the text of a rule file to a profile.
///
/// # Errors
/// `Syntax` when it is not a rule file: rules that are only partly understood are not imported.
pub fn import(text: &str) -> Result<ImportedProfile> {
    let value: Value = match serde_json::from_str(text) {
        Ok(value) => value,
        Err(error) => fail!(Syntax, "this is not JSON: {error}"),
    };
    let Value::Object(keys) = &value else { fail!(Syntax, "this is not a JSON object") };
    let Some(Value::Bool(sandbox)) = keys.get("sandbox") else {
        fail!(Syntax, "this is not a profile of HDF5-UDF: it has no key \"sandbox\" that is true or false")
    };
    let mut rules = Rules::default();
    if !sandbox {
        rules.warn(
            "\"sandbox\": false: the sandbox is never switched off; grant what the functions need".into(),
        );
    }
    for (key, value) in keys {
        match key.as_str() {
            "sandbox" => {}
            "syscalls" => rules.calls(value)?,
            "filesystem" => rules.files(value)?,
            comment if comment.starts_with('#') => {}
            other => rules.warn(format!("{:?} is not known and was left out", escape(other, 60))),
        }
    }
    rules.apply_denials();
    Ok(ImportedProfile { toml: rules.toml(), warnings: rules.warnings })
}

/// Returns the entries of an array of objects with one key each.
fn entries<'a>(value: &'a Value, what: &str) -> Result<Vec<(&'a str, &'a Value)>> {
    let Value::Array(list) = value else { fail!(Syntax, "{what:?} is not a list") };
    let mut found = Vec::new();
    for item in list {
        let Value::Object(object) = item else {
            fail!(Syntax, "{what:?} must contain only objects such as {{\"name\": …}}")
        };
        found.extend(object.iter().filter(|(k, _)| !k.starts_with('#')).map(|(k, v)| (k.as_str(), v)));
    }
    Ok(found)
}

impl Rules {
    fn warn(&mut self, text: String) {
        if !self.warnings.contains(&text) {
            self.warnings.push(text);
        }
    }

    fn calls(&mut self, value: &Value) -> Result<()> {
        for (name, rule) in entries(value, "syscalls")? {
            let shown = escape(name, 60);
            match rule {
                // HDF5-UDF also allowed the call in this case.
                Value::Bool(false) => self.denied.push(name.to_owned()),
                Value::Bool(true) | Value::Object(_) => self.call(name, &shown),
                _ => fail!(Syntax, "the rule of system call {shown:?} is neither true, false nor an object"),
            }
        }
        Ok(())
    }

    fn call(&mut self, name: &str, shown: &str) {
        if ALWAYS.contains(&name) || FILES.contains(&name) {
            return;
        }
        if NETWORK.contains(&name) {
            self.warn("socket calls were left out: write the permitted endpoints below [grant], as connect = [\"host:port\"]".into());
        } else if PROCESSES.contains(&name) {
            self.warn(format!("{shown}: no profile lets functions start or signal processes"));
        } else if name == "clone" || name == "clone3" {
            self.warn(format!(
                "{shown}: for threads, add syscalls = [\"threads\"] to [grant]; processes are never granted"
            ));
        } else {
            self.warn(format!("{shown}: single system calls are not granted; it was left out"));
        }
    }

    fn files(&mut self, value: &Value) -> Result<()> {
        for (pattern, mode) in entries(value, "filesystem")? {
            let shown = escape(pattern, 200);
            let write = match mode.as_str() {
                Some("ro") => false,
                Some("rw") => true,
                _ => fail!(Syntax, "the rule of path {shown:?} is neither \"ro\" nor \"rw\""),
            };
            if !write && LIBRARIES.iter().any(|l| pattern.contains(l)) {
                self.warn(format!("{shown}: not needed; Python modules are granted by `imports`, libraries are loaded before"));
                continue;
            }
            let folder = pattern.strip_suffix("/**").unwrap_or(pattern);
            if folder.contains(['*', '?', '[']) || folder.is_empty() {
                self.warn(format!(
                    "{shown}: patterns are not granted; write the folder itself into the profile"
                ));
                continue;
            }
            match Grants::path(folder, write) {
                Ok(path) if write => self.grants.write.push(path),
                Ok(path) => self.grants.read.push(path),
                Err(error) => self.warn(error.message().to_owned()),
            }
        }
        Ok(())
    }

    fn apply_denials(&mut self) {
        for name in std::mem::take(&mut self.denied) {
            let shown = escape(&name, 60);
            let (reads, writes) = match name.as_str() {
                "open" | "openat" | "read" => (true, true),
                "write" => (false, true),
                _ => (false, false),
            };
            if writes && (reads && self.grants.has_files() || !self.grants.write.is_empty()) {
                self.warn(format!("{shown} is false, so the paths that need it were left out"));
                self.grants.write.clear();
                if reads {
                    self.grants.read.clear();
                }
            } else if ALWAYS.contains(&name.as_str()) {
                self.warn(format!(
                    "{shown} is false, but every function may make this call; without granted paths it reaches no file"
                ));
            }
        }
    }

    fn toml(&self) -> String {
        let mut text = "# Made from a profile of HDF5-UDF.\nversion = 1\n".to_owned();
        if self.grants.has_files() {
            text.push_str("\n[grant]\n");
            for (key, list) in [("read", &self.grants.read), ("write", &self.grants.write)] {
                if list.is_empty() {
                    continue;
                }
                let quoted: Vec<String> =
                    list.iter().map(|p| toml_string(&p.display().to_string())).collect();
                let _ = writeln!(text, "{key} = [{}]", quoted.join(", "));
            }
        }
        text
    }
}

/// Quotes a string for TOML.
fn toml_string(text: &str) -> String {
    let mut quoted = String::from("\"");
    for c in text.chars() {
        match c {
            '"' | '\\' => quoted.extend(['\\', c]),
            c if c.is_control() => {
                let _ = write!(quoted, "\\u{:04X}", u32::from(c));
            }
            c => quoted.push(c),
        }
    }
    quoted.push('"');
    quoted
}
