//! Names of served files: single files, and the contents of folders.

use hyperchunk::companion::Trust;
use hyperchunk::internal::edits;
use hyperchunk::io::{LocalFile, Source as _};
use hyperchunk::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::fs::File;
use std::path::{Path, PathBuf};

/// Maximum length of a name, in bytes.
const MAX_NAME_BYTES: usize = 4096;
/// Maximum depth of nested folders in a listing.
const MAX_DEPTH: usize = 32;
/// Maximum number of folder entries examined for one listing.
const MAX_ENTRIES: usize = 1 << 20;

/// The served files and folders.
#[derive(Debug, Clone)]
pub(super) struct Roots {
    /// Single files by name, and their paths.
    files: BTreeMap<String, PathBuf>,
    /// Folders; the first that contains a name is used.
    folders: Vec<PathBuf>,
}

/// An opened file within the served files and folders.
#[derive(Debug)]
pub(super) struct ServedFile {
    pub(super) path: PathBuf,
    pub(super) file: LocalFile,
    /// True if the server was started with this file or its owner, rather than with a folder.
    pub(super) alone: bool,
}

/// Returns a text that changes when the file is changed or replaced.
pub(super) fn version(file: &LocalFile) -> String {
    let changed = file.version().unwrap_or_default();
    #[cfg(unix)]
    let changed = {
        use std::os::unix::fs::MetadataExt as _;
        let inode = file.as_file().metadata().map_or(0, |metadata| metadata.ino());
        format!("{changed}-{inode:x}")
    };
    format!("{changed}-{}", file.size())
}

fn missing(name: &str) -> Error {
    Error::new(ErrorKind::NotFound, format!("no file of the name {name:?} is served"))
}

/// Returns whether a component of a path begins with a dot: hidden files are neither listed nor read.
fn is_hidden(path: &Path) -> bool {
    path.components().any(|part| part.as_os_str().as_encoded_bytes().starts_with(b"."))
}

/// Checks that a name is relative and stays inside its folder.
fn check(name: &str) -> Result<()> {
    let bad = |why: &str| Err(Error::invalid(format!("invalid file name {:?}: {why}", shortened(name))));
    if name.len() > MAX_NAME_BYTES {
        return bad("it is too long");
    }
    if name.contains(['\0', '\\']) {
        return bad("it contains NUL or a backslash");
    }
    if name.starts_with('/') || name.as_bytes().get(1) == Some(&b':') {
        return bad("it must be relative");
    }
    if name.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return bad("a part of it is empty, `.` or `..`");
    }
    Ok(())
}

/// Returns the start of a text, for messages.
pub(super) fn shortened(text: &str) -> String {
    text.chars().take(200).collect()
}

fn cannot(what: &str, path: &Path, error: &std::io::Error) -> Error {
    let kind = if error.kind() == std::io::ErrorKind::NotFound { ErrorKind::NotFound } else { ErrorKind::Io };
    Error::new(kind, format!("cannot {what}: {error}")).file(path.display())
}

impl Roots {
    /// Makes the roots from paths of files and folders.
    ///
    /// # Errors
    /// NotFound or Io from the system; Invalid if two files have one name.
    pub(super) fn new(paths: &[PathBuf]) -> Result<Self> {
        let (mut files, mut folders) = (BTreeMap::new(), Vec::new());
        for path in paths {
            let real = std::fs::canonicalize(path)
                .map_err(|error| cannot("serve this path: expected a file or a folder", path, &error))?;
            if real.is_dir() {
                folders.push(real);
                continue;
            }
            let name = path.file_name().and_then(|name| name.to_str());
            let name = name.ok_or_else(|| Error::invalid("its name is not UTF-8").file(path.display()))?;
            if files.insert(name.to_owned(), real).is_some() {
                return Err(Error::invalid(format!("cannot serve two files with the name {name:?}")));
            }
        }
        Ok(Self { files, folders })
    }

    /// Opens the file with a name.
    pub(super) fn open(&self, name: &str) -> Result<ServedFile> {
        check(name)?;
        let (path, root) = self.place(name).ok_or_else(|| missing(name))?;
        let real = std::fs::canonicalize(&path).map_err(|_| missing(name))?;
        if !root.is_beneath(&real) {
            return Err(missing(name));
        }
        let refused =
            |error: Error| Error::new(error.kind(), format!("cannot open {name:?}: {}", error.message()));
        let companion = match root {
            // The same companion files are trusted as by a local reader of the file. The second value is the
            // number of folders between the owner and the companion.
            Root::File(owner) if *owner != path => {
                Some((owner, if name.contains('/') { name.split('/').count() - 1 } else { 0 }))
            }
            _ => None,
        };
        let file = match companion {
            Some((owner, folders)) => {
                let opened = Trust::for_path(owner).open(&path, folders).map_err(refused)?;
                opened.ok_or_else(|| missing(name))?
            }
            None => edits::settle(&real).and_then(|()| LocalFile::open(&real)).map_err(refused)?,
        };
        let alone = matches!(root, Root::File(_));
        // Check the opened file again: the path may have been replaced by a link meanwhile.
        if opened_path(file.as_file()).is_some_and(|opened| !root.is_beneath(&opened)) {
            return Err(missing(name));
        }
        Ok(ServedFile { path: real, file, alone })
    }

    /// Returns the path of a name; for a missing file, the path that it would have.
    pub(super) fn place(&self, name: &str) -> Option<(PathBuf, Root<'_>)> {
        let (first, rest) = name.split_once('/').unwrap_or((name, ""));
        if let Some(path) = self.files.get(first).filter(|_| rest.is_empty()) {
            return Some((path.clone(), Root::File(path)));
        }
        // Companions of a file: its sharded store, its index.
        for (suffix, is_folder) in [(".d", true), (hyperchunk::index::SUFFIX, false)] {
            let owner = first.strip_suffix(suffix).and_then(|owner| self.files.get(owner));
            if let Some(owner) = owner.filter(|_| is_folder != rest.is_empty()) {
                let mut path = owner.as_os_str().to_owned();
                path.push(suffix);
                let path = PathBuf::from(path);
                let path = if is_folder { path.join(rest) } else { path };
                return Some((path, Root::File(owner)));
            }
        }
        if is_hidden(Path::new(name)) {
            return None;
        }
        let there = self.folders.iter().find(|folder| folder.join(name).exists());
        let folder = there.or_else(|| self.folders.first())?;
        Some((folder.join(name), Root::Folder(folder)))
    }

    /// Returns the path for a new file with a name.
    pub(super) fn for_new(&self, name: &str) -> Result<PathBuf> {
        check(name)?;
        let refused = |why: &str| Error::invalid(format!("cannot create the file {name:?}: {why}"));
        match self.place(name) {
            Some((path, Root::Folder(folder))) => {
                let parent = path.parent().and_then(|parent| std::fs::canonicalize(parent).ok());
                let beneath = parent.is_some_and(|parent| parent.starts_with(folder));
                let plain = std::fs::symlink_metadata(&path).map_or(true, |there| there.is_file());
                if beneath && plain {
                    Ok(path)
                } else {
                    Err(refused("its folder does not exist, or the path is not a file"))
                }
            }
            Some((path, Root::File(_))) if self.files.values().any(|file| *file == path) => Ok(path),
            _ => Err(refused("expected a name in a served folder, not hidden and not a companion's")),
        }
    }

    /// Passes the names of served files to `visit`, sorted within each folder, until it returns false.
    ///
    /// Omits hidden files and the logs of stores, and does not resolve links. Examines at most `MAX_ENTRIES`
    /// entries, to a depth of `MAX_DEPTH`.
    pub(super) fn each(&self, visit: &mut dyn FnMut(&str) -> bool) {
        for name in self.files.keys() {
            if !visit(name) {
                return;
            }
        }
        let mut left = MAX_ENTRIES;
        for folder in &self.folders {
            if !walk(folder, "", MAX_DEPTH, &mut left, visit) {
                return;
            }
        }
    }

    /// Removes the paths of this machine from a message.
    pub(super) fn without_paths(&self, message: &str) -> String {
        let mut message = message.to_owned();
        for folder in &self.folders {
            let prefix = format!("{}/", folder.display());
            message = message.replace(&prefix, "");
        }
        for (name, path) in &self.files {
            message = message.replace(&path.display().to_string(), name);
        }
        message
    }
}

/// The file or folder in which a name was found.
#[derive(Debug, Clone, Copy)]
pub(super) enum Root<'a> {
    File(&'a Path),
    Folder(&'a Path),
}

impl Root<'_> {
    fn is_beneath(self, path: &Path) -> bool {
        match self {
            Self::Folder(folder) => path.strip_prefix(folder).is_ok_and(|below| !is_hidden(below)),
            Self::File(file) => {
                let beside = |suffix: &str| {
                    let mut name = file.as_os_str().to_owned();
                    name.push(suffix);
                    PathBuf::from(name)
                };
                path == file || path == beside(hyperchunk::index::SUFFIX) || path.starts_with(beside(".d"))
            }
        }
    }
}

/// Returns the present path of an open file, if the system provides it.
fn opened_path(file: &File) -> Option<PathBuf> {
    #[cfg(target_os = "linux")]
    {
        use std::os::fd::AsRawFd as _;
        std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()
    }
    #[cfg(not(target_os = "linux"))]
    {
        let _ = file;
        None
    }
}

fn walk(
    folder: &Path,
    prefix: &str,
    depth: usize,
    left: &mut usize,
    visit: &mut dyn FnMut(&str) -> bool,
) -> bool {
    let Ok(entries) = std::fs::read_dir(folder) else { return true };
    let mut found: Vec<_> = entries.flatten().take(*left).collect();
    *left -= found.len();
    found.sort_by_key(std::fs::DirEntry::file_name);
    for entry in found {
        let name = entry.file_name();
        let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) else { continue };
        let name = format!("{prefix}{name}");
        // Links are listed unresolved; `open` refuses those that lead outside. Linked folders are not
        // searched.
        let Ok(kind) = entry.file_type() else { continue };
        if kind.is_dir() {
            // The logs of a store are not listed.
            let is_store = name.strip_suffix(".d").is_some_and(|owner| {
                owner.rsplit('/').next().is_some_and(|owner| folder.join(owner).is_file())
            });
            if depth > 0 && !is_store && !walk(&entry.path(), &format!("{name}/"), depth - 1, left, visit) {
                return false;
            }
        } else if !visit(&name) {
            return false;
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_down() {
        let base = std::env::temp_dir().join(format!("hyperchunk-names-{}", std::process::id()));
        let folder = base.join("served");
        std::fs::create_dir_all(folder.join("sub/deep")).unwrap();
        std::fs::create_dir_all(base.join("one.h5.d")).unwrap();
        for name in
            ["served/a.h5", "served/sub/b.h5", "secret", "one.h5", "one.h5.d/log", "one.h5.hcindex", "two.h5"]
        {
            std::fs::write(base.join(name), name).unwrap();
        }
        #[cfg(unix)]
        {
            use std::os::unix::fs::symlink;
            symlink(base.join("secret"), folder.join("out")).unwrap();
            symlink("../secret", folder.join("out2")).unwrap();
            symlink(&base, folder.join("outdir")).unwrap();
            symlink("a.h5", folder.join("in")).unwrap();
            symlink(".hidden", folder.join("in-hidden")).unwrap();
            symlink(base.join("two.h5"), base.join("one.h5.d/out")).unwrap();
        }
        std::fs::create_dir_all(folder.join("sub/.deep")).unwrap();
        for name in [".hidden", "sub/.deep/c.h5"] {
            std::fs::write(folder.join(name), name).unwrap();
        }
        let roots = Roots::new(&[folder.clone(), base.join("one.h5")]).unwrap();
        let check = |name: &str, good: bool| {
            assert_eq!(roots.open(name).is_ok(), good, "{name:?}");
        };
        for name in ["a.h5", "sub/b.h5", "one.h5", "one.h5.d/log", "one.h5.hcindex"] {
            check(name, true);
        }
        check("in", cfg!(unix));
        for name in [
            "",
            ".",
            "..",
            "/",
            "/etc/passwd",
            "../secret",
            "sub/../../secret",
            "sub/../a.h5",
            "sub//b.h5",
            "sub",
            "a.h5/",
            "out",
            "out2",
            "outdir/secret",
            "one.h5.d/../secret",
            "one.h5.d/out",
            "one.h5.d",
            "two.h5",
            "one.h5/x",
            "a\0.h5",
            "a\\b",
            "C:x",
            "one.h5.hcindex/x",
            &"a/".repeat(3000),
            "sub/deep",
            ".hidden",
            "sub/.deep/c.h5",
            "in-hidden",
        ] {
            check(name, false);
        }
        assert!(roots.for_new("new.h5").is_ok());
        assert!(roots.for_new("sub/new.h5").is_ok());
        assert!(roots.for_new("one.h5").is_ok());
        for name in ["../new.h5", "not/new.h5", "outdir/new.h5", "sub", "out", "one.h5.d/x"] {
            assert!(roots.for_new(name).is_err(), "{name}");
        }
        let mut listed = Vec::new();
        roots.each(&mut |name| {
            listed.push(name.to_owned());
            true
        });
        let links: &[&str] = if cfg!(unix) { &["in", "in-hidden", "out", "out2", "outdir"] } else { &[] };
        let expected: Vec<&str> = [&["one.h5", "a.h5"], links, &["sub/b.h5"]].concat();
        assert_eq!(listed, expected);
        std::fs::remove_dir_all(base).unwrap();
    }
}
