//! Rights that a profile grants in addition to inputs and outputs.
//!
//! Paths become Landlock rules, which apply to everything below them, without exceptions. A folder is
//! therefore never granted if it contains a path that no function may access.

use crate::endpoint::Endpoint;
#[cfg(target_os = "linux")]
use crate::error::{Error, ErrorKind};
use crate::error::{Result, fail};
use crate::escape::escape;
use crate::{host, keys};
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::path::{Component, Path, PathBuf};

/// Folders that are never granted, nor anything below them, nor their ancestors.
const SYSTEM: [&str; 4] = ["/proc", "/sys", "/dev", "/run"];
/// Paths in the user's home that are never granted, nor anything below them, nor their ancestors.
const PRIVATE: [&str; 4] = [".ssh", ".gnupg", ".aws", ".netrc"];

/// Grants of a profile.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grants {
    /// Files and folders that may be read, with everything below them.
    pub read: Vec<PathBuf>,
    /// Files and folders that may be read and written, with everything below them.
    pub write: Vec<PathBuf>,
    /// Python modules that may be imported in addition to the generally permitted ones.
    pub imports: Vec<String>,
    /// Set if threads may be started.
    pub threads: bool,
    /// Set if functions that declare it may read the clock.
    #[serde(default)]
    pub clock: bool,
    /// Set if Python may generate machine code, as Numba does.
    #[serde(default)]
    pub jit: bool,
    /// Endpoints that may be connected.
    pub connect: Vec<Endpoint>,
    /// Set if kernels may run on the GPU.
    #[serde(default)]
    pub gpu: bool,
}

impl Grants {
    /// Returns whether any file is granted.
    pub fn has_files(&self) -> bool {
        !self.read.is_empty() || !self.write.is_empty()
    }

    /// Returns the rights that these grants give to a process.
    #[cfg(target_os = "linux")]
    pub fn rights(&self) -> hyperchunk_sandbox::Rights {
        hyperchunk_sandbox::Rights {
            read: self.read.clone(),
            write: self.write.clone(),
            threads: self.threads,
            connect: !self.connect.is_empty(),
            jit: self.jit,
        }
    }

    /// Parses a path from a profile's file, if it can be granted at all. `~/` is the user's home.
    pub(super) fn path(text: &str, write: bool) -> Result<PathBuf> {
        let home = std::env::var_os("HOME").map(PathBuf::from).filter(|p| p.is_absolute());
        let path = match (text.strip_prefix("~/"), &home) {
            (Some(rest), Some(home)) => home.join(rest),
            _ => PathBuf::from(text),
        };
        let plain = path.components().all(|c| matches!(c, Component::RootDir | Component::Normal(_)));
        if !path.is_absolute() || !plain || text.contains('\0') {
            fail!(Key, "{text:?} is not an absolute path without `..`, and only these can be granted")
        }
        let mut never: Vec<PathBuf> = SYSTEM.iter().map(PathBuf::from).collect();
        never.extend(keys::config_dir());
        never.extend(keys::state_dir());
        // The contents of these folders are trusted: results of other functions, and machine code.
        never.extend(host::cache_folders());
        if write {
            never.extend(programs());
        }
        never.extend(home.iter().flat_map(|h| PRIVATE.iter().map(|p| h.join(p))));
        let real = |p: &PathBuf| std::fs::canonicalize(p).ok();
        let more: Vec<PathBuf> = never.iter().filter_map(real).collect();
        if let Some(other) = never.iter().chain(&more).find(|n| path.starts_with(n) || n.starts_with(&path)) {
            fail!(
                Key,
                "{text:?} is never granted: a grant covers everything below a folder, and this path is, contains or is below {}",
                other.display()
            )
        }
        if write && home.iter().chain(&home.as_ref().and_then(real)).any(|h| is_hidden(&path, h)) {
            fail!(Key, "{text:?} is never granted for writing: programs read their settings from there")
        }
        Ok(path)
    }

    /// Checks that every path exists and contains no symbolic links.
    ///
    /// # Errors
    /// `Refused`, with the path and what to do.
    #[cfg(target_os = "linux")]
    pub fn check(&self, profile: &str) -> Result<()> {
        for path in self.read.iter().chain(&self.write) {
            hyperchunk_sandbox::open_granted(path).map_err(|error| {
                let shown = escape(&path.display().to_string(), 300);
                let text =
                    format!("refused to run: profile {profile} grants {shown}, {}", reason(path, &error));
                Error::new(ErrorKind::Refused, text)
            })?;
        }
        Ok(())
    }

    /// Describes the grants; empty if there are none.
    pub fn describe(&self) -> String {
        let mut words = String::new();
        let mut add = |what: &str, list: Vec<String>| {
            if !list.is_empty() {
                let _ =
                    write!(words, "{}{what} {}", if words.is_empty() { "" } else { "; " }, list.join(", "));
            }
        };
        let paths = |list: &[PathBuf]| list.iter().map(|p| escape(&p.display().to_string(), 300)).collect();
        add("read", paths(&self.read));
        add("read and write", paths(&self.write));
        add("connect to", self.connect.iter().map(Endpoint::to_string).collect());
        add("import", self.imports.clone());
        add("start", if self.threads { vec!["threads".into()] } else { Vec::new() });
        add("make", if self.jit { vec!["machine code".into()] } else { Vec::new() });
        add("use", if self.gpu { vec!["the GPU".into()] } else { Vec::new() });
        add("read", if self.clock { vec!["the clock".into()] } else { Vec::new() });
        words
    }
}

/// Lists the folders of the programs that run functions: the package, and `bin` and `lib` of its Python
/// environment.
fn programs() -> impl Iterator<Item = PathBuf> {
    let found = host::Programs::find().ok();
    let python = found.as_ref().and_then(|programs| programs.python().ok());
    let environment = python.and_then(|python| Some(python.parent()?.parent()?.to_owned()));
    let package = found.as_ref().and_then(|programs| programs.package()).map(Path::to_owned);
    package
        .into_iter()
        .chain(environment.into_iter().flat_map(|folder| ["bin", "lib"].map(|part| folder.join(part))))
}

/// Returns whether a path is in a home folder under a name that starts with a dot.
fn is_hidden(path: &Path, home: &Path) -> bool {
    let first = path.strip_prefix(home).ok().and_then(|rest| rest.components().next());
    first.is_some_and(|c| c.as_os_str().as_encoded_bytes().starts_with(b"."))
}

/// Returns why a granted path cannot be used, and what to do.
#[cfg(target_os = "linux")]
fn reason(path: &Path, error: &std::io::Error) -> String {
    match error.raw_os_error() {
        Some(libc::ENOENT) => "which does not exist; create it, or remove it from the profile".into(),
        Some(libc::ELOOP) => match std::fs::canonicalize(path) {
            Ok(real) => {
                format!("which contains a symbolic link; write {}", escape(&real.display().to_string(), 300))
            }
            Err(_) => "which contains a symbolic link".into(),
        },
        _ => format!("which cannot be opened: {error}"),
    }
}
