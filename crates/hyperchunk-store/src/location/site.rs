//! Location of a store: the file at the user's path and the folder next to it, with the operations
//! that a commit needs.

use super::bucket::Bucket;
use super::file_identity::FileIdentity;
use super::lock;
use crate::format::id::WriterId;
use crate::{log_path, store_folder};
use hyperchunk::companion::{self, Trust};
use hyperchunk::internal::positioned::write_all_at;
use hyperchunk::io::{LocalFile, RemoteOptions, Source};
use hyperchunk::write::Sync;
use hyperchunk::{Error, ErrorKind, Result, output};
use std::fmt::Debug;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Maximum number of concurrent requests.
const MAX_CONCURRENT_REQUESTS: usize = 16;
/// Maximum number of symbolic links that are followed, as in Linux.
const MAX_SYMLINKS: usize = 40;

/// Operations on a store's folder and on its file. Names are names of files in the folder.
pub(crate) trait Folder: Debug {
    /// Returns the path of the file, for messages and for locating its neighbours.
    fn path(&self) -> &Path;

    /// Returns the path of a file in the folder, for messages.
    fn place(&self, name: &str) -> PathBuf;

    /// Makes the folder, if necessary.
    ///
    /// # Errors
    /// Io.
    fn make(&self) -> Result<()>;

    /// Returns the names in the folder; empty if the folder does not exist.
    ///
    /// # Errors
    /// Io.
    fn list(&self) -> Result<Vec<String>>;

    /// Returns the size in bytes of a file in the folder.
    ///
    /// # Errors
    /// NotFound; Io.
    fn size(&self, name: &str) -> Result<u64>;

    /// Returns the age of a file in the folder; `None` if it is unknown, or if files in the folder
    /// are always complete.
    fn age(&self, name: &str) -> Option<Duration>;

    /// Opens a file in the folder for random access.
    ///
    /// # Errors
    /// NotFound; Io.
    fn open(&self, name: &str) -> Result<Arc<dyn Source>>;

    /// Reads a whole file in the folder.
    ///
    /// # Errors
    /// NotFound; Limit if it has more than `largest` bytes; Io.
    fn read(&self, name: &str, largest: u64) -> Result<Vec<u8>>;

    /// Creates a file in the folder, unless one of that name exists: of several concurrent callers,
    /// exactly one succeeds.
    ///
    /// # Errors
    /// Io.
    fn create(&self, name: &str, bytes: &[u8], sync: bool) -> Result<bool>;

    /// Returns whether the file itself exists.
    ///
    /// # Errors
    /// Io.
    fn has_file(&self) -> Result<bool>;

    /// Reads the whole file itself.
    ///
    /// # Errors
    /// NotFound; Io.
    fn file(&self) -> Result<Vec<u8>>;

    /// Replaces the file itself atomically: opening it finds either the old or the new one. `old`
    /// is the identity of the old one, if known.
    ///
    /// # Errors
    /// Io.
    fn replace(&self, bytes: &[u8], old: Option<&FileIdentity>, sync: Sync) -> Result<()>;

    /// Prevents other programs from opening the file to write, as long as the returned lock lives.
    fn hold(&self) -> Result<Option<fs::File>> {
        Ok(None)
    }
}

/// Location of a store. Cheap to copy; made from a path, or from a [`SiteBuf`].
#[derive(Debug, Clone, Copy)]
pub struct Site<'a>(SiteLocation<'a>);

#[derive(Debug, Clone, Copy)]
enum SiteLocation<'a> {
    Local(Local<'a>),
    Bucket(&'a Bucket),
}

/// Owned location of a store.
#[derive(Debug, Clone)]
pub struct SiteBuf(OwnedSiteLocation);

#[derive(Debug, Clone)]
enum OwnedSiteLocation {
    Local(PathBuf),
    Bucket(Bucket),
}

impl<'a> From<&'a Path> for Site<'a> {
    fn from(path: &'a Path) -> Self {
        Self(SiteLocation::Local(Local(path)))
    }
}

impl<'a> From<&'a PathBuf> for Site<'a> {
    fn from(path: &'a PathBuf) -> Self {
        Self(SiteLocation::Local(Local(path)))
    }
}

impl<'a> From<&'a SiteBuf> for Site<'a> {
    fn from(site: &'a SiteBuf) -> Self {
        site.site()
    }
}

impl From<Site<'_>> for SiteBuf {
    fn from(site: Site<'_>) -> Self {
        Self(match site.0 {
            SiteLocation::Local(path) => OwnedSiteLocation::Local(path.0.to_owned()),
            SiteLocation::Bucket(bucket) => OwnedSiteLocation::Bucket(bucket.clone()),
        })
    }
}

impl SiteBuf {
    /// As [`SiteBuf::new`], but follows symbolic links of the file ([`real_file`]).
    #[must_use]
    pub fn find(name: &Path, remote: &RemoteOptions) -> Self {
        let found = Self::new(name, remote);
        match found.0 {
            OwnedSiteLocation::Local(path) => Self(OwnedSiteLocation::Local(real_file(&path))),
            OwnedSiteLocation::Bucket(_) => found,
        }
    }

    /// As [`SiteBuf::find`], to change the store.
    ///
    /// # Errors
    /// Invalid for another user's link: see [`output::target`].
    pub fn find_to_change(name: &Path, remote: &RemoteOptions) -> Result<Self> {
        let found = Self::new(name, remote);
        match found.0 {
            OwnedSiteLocation::Local(path) => Ok(Self(OwnedSiteLocation::Local(output::target(&path)?))),
            OwnedSiteLocation::Bucket(_) => Ok(found),
        }
    }

    /// Returns the location of the store of the file at a path or a URL, without following links;
    /// `remote` has the options for URLs.
    #[must_use]
    pub fn new(name: &Path, remote: &RemoteOptions) -> Self {
        let url =
            name.to_str().filter(|name| hyperchunk::io::local_path(name).as_deref() != Some(Path::new(name)));
        Self(match url.map(|url| (url, hyperchunk::io::local_path(url))) {
            Some((url, None)) => OwnedSiteLocation::Bucket(Bucket::new(url, remote)),
            Some((_, Some(path))) => OwnedSiteLocation::Local(path),
            None => OwnedSiteLocation::Local(name.to_owned()),
        })
    }

    /// Borrows the location.
    #[must_use]
    pub fn site(&self) -> Site<'_> {
        Site(match &self.0 {
            OwnedSiteLocation::Local(path) => SiteLocation::Local(Local(path)),
            OwnedSiteLocation::Bucket(bucket) => SiteLocation::Bucket(bucket),
        })
    }
}

impl<'a> Site<'a> {
    /// Returns the operations on this location.
    pub(crate) fn operations(&self) -> &(dyn Folder + 'a) {
        match &self.0 {
            SiteLocation::Local(local) => local,
            SiteLocation::Bucket(bucket) => *bucket,
        }
    }

    /// Returns the path, if it is a local file.
    #[must_use]
    pub fn local(&self) -> Option<&'a Path> {
        match self.0 {
            SiteLocation::Local(local) => Some(local.0),
            SiteLocation::Bucket(_) => None,
        }
    }

    /// Returns the bucket, if the store is in an object store.
    #[must_use]
    pub fn bucket(&self) -> Option<&'a Bucket> {
        match self.0 {
            SiteLocation::Local(_) => None,
            SiteLocation::Bucket(bucket) => Some(bucket),
        }
    }

    /// Returns whether there is something of a store, apart from the file itself.
    ///
    /// # Errors
    /// Io.
    pub(crate) fn has_store(&self) -> Result<bool> {
        match self.local() {
            Some(path) => Ok(crate::has_store(path)),
            None => Ok(!self.operations().list()?.is_empty()),
        }
    }

    /// Maps a function over items, concurrently if each call waits for the network.
    pub(crate) fn map_concurrently<T, R>(
        &self,
        items: &[T],
        work: impl Fn(&T) -> R + std::marker::Sync,
    ) -> Vec<R>
    where
        T: std::marker::Sync,
        R: Send,
    {
        if self.local().is_some() || items.len() < 2 {
            return items.iter().map(work).collect();
        }
        let next = AtomicUsize::new(0);
        let done: Mutex<Vec<(usize, R)>> = Mutex::default();
        std::thread::scope(|scope| {
            for _ in 0..items.len().min(MAX_CONCURRENT_REQUESTS) {
                scope.spawn(|| {
                    while let number = next.fetch_add(1, Ordering::Relaxed)
                        && let Some(item) = items.get(number)
                    {
                        let result = work(item);
                        done.lock().unwrap_or_else(PoisonError::into_inner).push((number, result));
                    }
                });
            }
        });
        let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        done.sort_unstable_by_key(|(number, _)| *number);
        done.into_iter().map(|(_, result)| result).collect()
    }

    /// Returns the location independent of the working folder.
    ///
    /// # Errors
    /// Io.
    pub fn absolute(&self) -> Result<SiteBuf> {
        match self.0 {
            SiteLocation::Local(Local(path)) => {
                if let Some(url) = path.to_str().filter(|name| hyperchunk::io::local_path(name).is_none()) {
                    return Err(no_path(url));
                }
                let absolute = std::path::absolute(path).map_err(|error| refused("find", path, &error))?;
                Ok(SiteBuf(OwnedSiteLocation::Local(absolute)))
            }
            SiteLocation::Bucket(bucket) => Ok(SiteBuf(OwnedSiteLocation::Bucket(bucket.clone()))),
        }
    }
}

/// Follows symbolic links until the file itself, even if it does not exist yet. A store belongs to
/// that file, its folder is next to it, and the link is kept. Links of parent folders need no
/// treatment. A path in a cycle of links is returned unchanged; opening it reports the cycle.
#[must_use]
pub fn real_file(path: &Path) -> PathBuf {
    let mut at = path.to_owned();
    for _ in 0..MAX_SYMLINKS {
        let Ok(target) = fs::read_link(&at) else { return at };
        at = match at.parent() {
            Some(folder) => folder.join(target),
            None => target,
        };
    }
    path.to_owned()
}

/// Reference to a log, by its path or by its writer.
#[derive(Debug, Clone, Copy)]
pub struct LogName<'a>(LogReference<'a>);

#[derive(Debug, Clone, Copy)]
enum LogReference<'a> {
    Path(&'a Path),
    Of(Site<'a>, WriterId),
}

impl<'a> From<&'a Path> for LogName<'a> {
    fn from(path: &'a Path) -> Self {
        Self(LogReference::Path(path))
    }
}

impl<'a> From<&'a PathBuf> for LogName<'a> {
    fn from(path: &'a PathBuf) -> Self {
        Self(LogReference::Path(path))
    }
}

impl<'a> From<(Site<'a>, WriterId)> for LogName<'a> {
    fn from((site, writer): (Site<'a>, WriterId)) -> Self {
        Self(LogReference::Of(site, writer))
    }
}

impl LogName<'_> {
    /// Returns its path.
    pub(crate) fn path(&self) -> PathBuf {
        match self.0 {
            LogReference::Path(path) => path.to_owned(),
            LogReference::Of(site, writer) => match site.local() {
                Some(path) => log_path(path, writer),
                None => site.operations().place(&log_name(writer)),
            },
        }
    }
}

/// Owned reference to a log.
#[derive(Debug, Clone)]
pub(crate) enum LogNameBuf {
    Path(PathBuf),
    Of(SiteBuf, WriterId),
}

impl From<LogName<'_>> for LogNameBuf {
    fn from(name: LogName<'_>) -> Self {
        match name.0 {
            LogReference::Of(site, writer) if site.local().is_none() => Self::Of(site.into(), writer),
            _ => Self::Path(name.path()),
        }
    }
}

impl LogNameBuf {
    /// Opens the log.
    pub(crate) fn open(&self) -> Result<Arc<dyn Source>> {
        match self {
            Self::Path(path) => Ok(Arc::new(open_log(path)?)),
            Self::Of(site, writer) => match site.site().bucket() {
                Some(bucket) => bucket.log(*writer),
                None => site.site().operations().open(&log_name(*writer)),
            },
        }
    }

    /// Opens another file of its folder.
    pub(crate) fn open_sibling(&self, name: &str) -> Result<Arc<dyn Source>> {
        match self {
            Self::Path(path) => {
                let path = path.parent().unwrap_or(Path::new("")).join(name);
                Ok(Arc::new(open_log(&path).map_err(|error| error.file(path.display()))?))
            }
            Self::Of(site, _) => site.site().operations().open(name),
        }
    }
}

/// Opens a file in the folder of a store after a check of its permissions. A file elsewhere is
/// opened without the check.
fn open_log(path: &Path) -> Result<LocalFile> {
    match companion::owner_of_log(path) {
        Some(owner) => companion::open_of_store(&owner, path),
        None => LocalFile::open(path),
    }
}

/// Creates a log in the folder of the store of the file at `path`, and the folder if necessary. Nothing is
/// written to a folder that another user made, or reached through a link that another user planted.
pub(crate) fn create_log(path: &Path, log: &Path) -> Result<fs::File> {
    let (trust, at) = (Trust::for_writer(path), store_folder(path));
    // Before the file exists, its permissions do not say who else may write to the folder.
    let has_file = trust.has_file();
    let is_there = if has_file { trust.folder(&at)? } else { trust.folder_of_owner(&at)? };
    if !is_there && let Err(error) = Site::from(path).operations().make() {
        // Another writer may have made it at this moment.
        if has_file || !trust.folder_of_owner(&at)? {
            return Err(error);
        }
    }
    let cannot = |error: io::Error| refused("create", log, &error);
    let (folder, name) = output::Folder::open_parent(log).map_err(cannot)?;
    // The opened folder may be another one than the checked path.
    let metadata = folder.metadata().map_err(cannot)?;
    if has_file {
        trust.check(&at, &metadata)?;
    } else {
        trust.check_file_owner(&at, &metadata)?;
    }
    folder.create(&name, 0, 0o666).map_err(cannot)
}

/// Returns the name of a writer's log in the folder.
#[must_use]
pub(crate) fn log_name(writer: WriterId) -> String {
    format!("{writer}.log")
}

/// A local file.
#[derive(Debug, Clone, Copy)]
struct Local<'a>(&'a Path);

impl Local<'_> {
    /// Refuses URLs, so that operations without support for object stores do not use a folder of
    /// that name instead.
    fn is_a_path(&self) -> Result<()> {
        // The store of a symbolic link belongs to the link's target.
        if fs::symlink_metadata(self.0).is_ok_and(|file| file.file_type().is_symlink()) {
            if let Err(error) = fs::metadata(self.0)
                && error.kind() != io::ErrorKind::NotFound
            {
                return Err(refused("follow", self.0, &error));
            }
            let message = "cannot use the folder of a store beside a symbolic link: expected the path of the file itself, got that \
                           of a link; follow it first (store::real_file, SiteBuf::find)";
            return Err(Error::invalid(message).file(self.0.display()));
        }
        match self.0.to_str().filter(|name| hyperchunk::io::local_path(name).is_none()) {
            Some(url) => Err(no_path(url)),
            None => Ok(()),
        }
    }
}

fn no_path(url: &str) -> Error {
    let message = "this operation is not supported for a store in an object store";
    Error::unsupported(message).file(hyperchunk::io::without_secrets(url))
}

impl Folder for Local<'_> {
    fn path(&self) -> &Path {
        self.0
    }

    fn place(&self, name: &str) -> PathBuf {
        store_folder(self.0).join(name)
    }

    fn make(&self) -> Result<()> {
        let folder = store_folder(self.0);
        // If other users could have created the folder, they could change the data in it.
        if Trust::for_writer(self.0).folder(&folder)? {
            return Ok(());
        }
        self.is_a_path()?;
        output::target(self.0)?;
        output::make_folders(&folder)?;
        if self.0.exists() {
            companion::tighten(&folder, self.0);
        }
        Ok(())
    }

    fn list(&self) -> Result<Vec<String>> {
        let folder = store_folder(self.0);
        if !Trust::for_path(self.0).folder(&folder)? {
            return self.is_a_path().map(|()| Vec::new());
        }
        let entries = fs::read_dir(&folder).map_err(|error| refused("read", &folder, &error))?;
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| refused("read", &folder, &error))?;
            // The store's own names are ASCII.
            names.extend(entry.file_name().into_string());
        }
        Ok(names)
    }

    fn size(&self, name: &str) -> Result<u64> {
        let path = self.place(name);
        fs::metadata(&path).map(|metadata| metadata.len()).map_err(|error| refused("open", &path, &error))
    }

    fn age(&self, name: &str) -> Option<Duration> {
        fs::metadata(self.place(name)).and_then(|metadata| metadata.modified()).ok()?.elapsed().ok()
    }

    fn open(&self, name: &str) -> Result<Arc<dyn Source>> {
        Ok(Arc::new(companion::open_of_store(self.0, &self.place(name))?))
    }

    fn read(&self, name: &str, largest: u64) -> Result<Vec<u8>> {
        let path = self.place(name);
        let file = match companion::open_of_store(self.0, &path) {
            Err(error) if error.kind() == ErrorKind::NotFound => return self.is_a_path().and(Err(error)),
            opened => opened?,
        };
        let size = file.size();
        if size > largest {
            return Err(
                Error::limit(format!("a file of {size} bytes, more than {largest}")).file(path.display())
            );
        }
        let mut bytes = Vec::new();
        let room = usize::try_from(size).ok().and_then(|size| bytes.try_reserve_exact(size).ok());
        room.ok_or_else(|| Error::limit(format!("no memory for {size} bytes")).file(path.display()))?;
        let read = io::Read::read_to_end(&mut io::Read::take(file.as_file(), size), &mut bytes);
        read.map_err(|error| refused("read", &path, &error))?;
        Ok(bytes)
    }

    fn create(&self, name: &str, bytes: &[u8], sync: bool) -> Result<bool> {
        let path = self.place(name);
        let file = match fs::File::options().create_new(true).write(true).open(&path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(false),
            Err(error) => return Err(refused("create", &path, &error)),
        };
        let written =
            write_all_at(&file, 0, bytes).and_then(|()| if sync { file.sync_all() } else { Ok(()) });
        written.map_err(|error| refused("write", &path, &error))?;
        // Windows cannot sync folders.
        if sync && cfg!(unix) {
            let folder = store_folder(self.0);
            fs::File::open(&folder)
                .and_then(|folder| folder.sync_all())
                .map_err(|error| refused("write out", &folder, &error))?;
        }
        Ok(true)
    }

    fn has_file(&self) -> Result<bool> {
        Ok(self.0.exists())
    }

    fn file(&self) -> Result<Vec<u8>> {
        fs::read(self.0).map_err(|error| refused("read", self.0, &error))
    }

    fn replace(&self, bytes: &[u8], old: Option<&FileIdentity>, sync: Sync) -> Result<()> {
        let path = self.0;
        let _held = self.hold()?;
        let refused = |error: &io::Error| refused("replace", path, error);
        let (folder, name) = output::Folder::open_parent(path).map_err(|error| refused(&error))?;
        let mut temporary = name.clone();
        temporary.push(format!(".{}.new", WriterId::new()));
        let write = || -> io::Result<()> {
            let mut file = folder.create(&temporary, 0, 0o666)?;
            io::Write::write_all(&mut file, bytes)?;
            let old = old.map(|old| old.permissions.clone());
            if let Some(old) = old.or_else(|| Some(fs::metadata(path).ok()?.permissions())) {
                // Keep the file's permissions.
                file.set_permissions(old)?;
            }
            if sync != Sync::Never {
                file.sync_all()?;
            }
            folder.rename(&temporary, (&folder, &name), true)?;
            if sync != Sync::Never {
                // Ignored if the system cannot sync folders.
                folder.sync();
            }
            Ok(())
        };
        write().map_err(|error| {
            drop(folder.remove(&temporary));
            refused(&error)
        })
    }

    fn hold(&self) -> Result<Option<fs::File>> {
        lock::hold(self.0)
    }
}

pub(crate) fn refused(what: &str, path: &Path, error: &io::Error) -> Error {
    let kind = if error.kind() == io::ErrorKind::NotFound { ErrorKind::NotFound } else { ErrorKind::Io };
    Error::new(kind, format!("cannot {what} {}: {error}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commit::{CommitOptions, commit};
    use crate::{LogWriter, Manifest, WriterOptions, create};

    #[track_caller]
    fn check(name: &str, local: Option<&str>) {
        let site = SiteBuf::new(Path::new(name), &RemoteOptions::default());
        let site = site.site();
        assert_eq!(site.local(), local.map(Path::new), "{name}");
        assert_eq!(site.bucket().is_none(), local.is_some(), "{name}");
        let path = local.unwrap_or(name);
        assert_eq!(site.operations().path(), Path::new(path));
        let log = LogName::from((site, WriterId([1; 16])));
        let expected = format!("{path}.d/{}.log", WriterId([1; 16]));
        assert_eq!(log.path(), Path::new(&expected));
        assert_eq!(site.absolute().unwrap().site().local().is_some(), local.is_some());
    }

    #[test]
    fn names_are_paths_or_urls() {
        check("a.h5", Some("a.h5"));
        check("/x/a b.h5", Some("/x/a b.h5"));
        check("file:///x/a%20b.h5", Some("/x/a b.h5"));
        check("s3://bucket/a/b.h5", None);
        check("gs://bucket/b.h5", None);
    }

    #[test]
    fn a_url_is_never_taken_for_a_path() {
        let url = Path::new("s3://bucket/a.h5");
        let failures = [
            Manifest::newest(url).err(),
            Manifest::epoch(url, 1).err(),
            commit(url, &CommitOptions::default()).err(),
            create(url, &[], None, false, Sync::Never).err(),
            LogWriter::create(url, &WriterOptions::default()).err(),
        ];
        for failure in failures {
            let failure = failure.unwrap();
            assert_eq!(failure.kind(), ErrorKind::Unsupported, "{failure}");
            assert!(failure.to_string().contains("s3://bucket/a.h5"), "{failure}");
        }
        assert!(!Path::new("s3:").exists());
    }

    #[test]
    fn things_are_done_in_order() {
        let bucket = SiteBuf::new(Path::new("s3://bucket/a.h5"), &RemoteOptions::default());
        let things: Vec<u64> = (0..100).collect();
        let wait = |thing: &u64| {
            std::thread::sleep(Duration::from_micros(97 * thing % 500));
            thing * thing
        };
        let expected: Vec<u64> = things.iter().map(|thing| thing * thing).collect();
        for site in [bucket.site(), Site::from(Path::new("a.h5"))] {
            assert_eq!(site.map_concurrently(&things, wait), expected);
            assert!(site.map_concurrently(&[], wait).is_empty());
        }
    }
}
