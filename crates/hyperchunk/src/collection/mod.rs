//! Collections: many files with the same layout, joined to one. A collection stores an index of each file,
//! the values of the coordinates, and the number of rows of each file. So it can be opened without a request
//! to any of its files. `docs/formats/collection.md` describes the format.

mod build;
mod format;
mod layout;
mod predicted;
mod statistics;

pub use build::CollectOptions;
pub use layout::Concat;
pub use statistics::FileStatistics;

use crate::index::{Identity, Index, IndexOption};
use crate::io::{self, Remote};
use crate::read::spread;
use crate::{Dataset, Error, ErrorKind, File, Limits, OpenOptions, Result};
use bytes::Bytes;
use hyperchunk_format::model::Datatype;
use sha2::{Digest as _, Sha256};
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Component, Path};
use std::sync::{Arc, Mutex, PoisonError};

/// File name suffix of a collection.
pub const SUFFIX: &str = ".hcx";

/// Number of bytes of a remote collection that are requested first. A collection of a few thousand files is
/// smaller.
const FIRST_READ_BYTES: u64 = 8 << 20;
/// Minimum number of files for each thread that opens files.
const OPENS_PER_THREAD: usize = 4;
/// Maximum number of files that are opened in parallel where opening takes requests.
const MAX_OPENS_AT_ONCE: usize = 32;

/// Attributes `units` and `calendar` of a coordinate.
pub type Units = [Option<String>; 2];

/// Many files of one layout, joined along an axis.
#[derive(Debug, Clone)]
pub struct Collection {
    concat: Concat,
    files: Vec<CollectionFile>,
    variables: Vec<CollectionVariable>,
    skipped: Vec<SkippedFile>,
    indexes: Vec<Bytes>,
    /// URL from which the collection was read; `None` for a local file.
    address: Option<String>,
}

/// A file of a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectionFile {
    /// Path or URL.
    pub name: String,
    /// Version of the file when it was collected.
    pub identity: Identity,
}

/// A file that was skipped.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedFile {
    /// Path or URL.
    pub name: String,
    /// The error of reading it, or the difference from the first file.
    pub reason: String,
}

/// A dataset that all files have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectionVariable {
    /// Path in each file.
    pub path: Vec<u8>,
    /// Axis along which the files' datasets are joined; `None` if they are equal, and the first file's is
    /// used.
    pub axis: Option<usize>,
    /// Extent of each file's dataset along that axis; empty without one. Parsed variables with equal extents
    /// share the list.
    pub lengths: Arc<Vec<u64>>,
    /// Stored values of a coordinate, of all files in order.
    pub values: Option<Vec<u8>>,
    /// Units and calendar of the files in which they differ from the first file's, by index of the file.
    pub units: BTreeMap<u64, Units>,
    /// Encoded statistics of each file, if any were collected ([`CollectionVariable::file_statistics`]).
    statistics: Option<Vec<u8>>,
}

/// A file of a collection, with its index.
#[derive(Debug, Clone)]
pub struct Member {
    file: CollectionFile,
    index: Bytes,
    /// URL of the collection, if it was read over a network and this file is on a web server.
    #[cfg(feature = "cloud")]
    named_by: Option<String>,
}

impl Member {
    /// Returns the index of the file.
    ///
    /// # Errors
    /// As [`Index::open`]; Corrupt if the index belongs to another version of the file.
    pub fn index(&self, limits: &Limits) -> Result<Index> {
        let index = Index::open(self.index.clone(), &self.file.name, limits)?;
        if *index.identity() != self.file.identity {
            let message = "the collection's index of this file belongs to another version of it";
            return Err(Error::corrupt(message).file(&self.file.name));
        }
        Ok(index)
    }

    /// Opens the file. This takes no request if the server has ETags; a file that has changed is then
    /// detected at the first read.
    ///
    /// # Errors
    /// Changed if the file has changed since it was collected; as [`File::open_url`].
    pub fn open(&self, options: &OpenOptions) -> Result<File> {
        let index = self.index(&options.limits)?;
        let options = OpenOptions { index: IndexOption::Given(Arc::new(index)), ..options.clone() };
        #[cfg(feature = "cloud")]
        let options = self.named_by.iter().fold(options, |mut options, collection| {
            options.remote.store.push((io::NAMED_BY.into(), collection.clone()));
            options
        });
        File::open_url(&self.file.name, &options).map_err(|error| match error.kind() {
            ErrorKind::Changed => {
                let message = "the file has changed since it was collected: collect it again";
                Error::new(ErrorKind::Changed, message).file(&self.file.name)
            }
            _ => error,
        })
    }
}

/// Opens a dataset of several files in parallel. A member that is already open is passed with its file.
///
/// # Errors
/// As [`Member::open`]; NotFound if a file has no such dataset, Invalid if its datatype is not `datatype`.
/// The messages name the file.
pub fn open_datasets(
    members: &[(Member, Option<File>)],
    path: &[u8],
    datatype: Option<&Datatype>,
    options: &OpenOptions,
) -> Result<Vec<(File, Dataset)>> {
    let found: Mutex<Vec<Option<(File, Dataset)>>> = Mutex::new(vec![None; members.len()]);
    // Without ETags, opening a file takes a request.
    let waits = members
        .iter()
        .any(|(member, open)| open.is_none() && !member.file.identity.version.starts_with("etag:"))
        && members.iter().any(|(member, _)| io::local_path(&member.file.name).is_none());
    let threads = if waits { MAX_OPENS_AT_ONCE } else { options.thread_count() };
    spread(
        threads.min(members.len().div_ceil(OPENS_PER_THREAD)),
        members.iter().enumerate(),
        || (),
        |(), (number, (member, open))| {
            let file = open.clone().map_or_else(|| member.open(options), Ok)?;
            let dataset = file.root()?.group()?.get(path)?.dataset()?;
            if datatype.is_some_and(|datatype| datatype != dataset.datatype()) {
                let message = "its datatype differs from the first file's: collect the files again";
                return Err(dataset.with_context(Error::invalid(message)));
            }
            if let Some(slot) = found.lock().unwrap_or_else(PoisonError::into_inner).get_mut(number) {
                *slot = Some((file, dataset));
            }
            Ok(())
        },
    )?;
    let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
    Ok(found.into_iter().flatten().collect())
}

impl Collection {
    fn empty(concat: Concat, variables: Vec<CollectionVariable>) -> Self {
        Self { concat, files: Vec::new(), variables, skipped: Vec::new(), indexes: Vec::new(), address: None }
    }

    /// Reads a collection from its path or URL.
    ///
    /// # Errors
    /// Invalid if the file is not a collection; Corrupt, Truncated or Unsupported if it is damaged or of a
    /// later version; Refused for a remote collection that names local files, and for a token that would be
    /// sent to several servers; the errors of [`io::open`].
    pub fn open_url(name: &str, options: &OpenOptions) -> Result<Self> {
        let mut remote = options.remote.clone();
        remote.first_read = remote.first_read.max(FIRST_READ_BYTES);
        let source = io::open(name, &remote).map_err(|error| error.file(name))?;
        let head = source.remote().map(Remote::head).filter(|head| head.len() as u64 == source.size());
        let bytes = match head {
            Some(whole) => whole,
            None => format::COLLECTION.read(&*source).map_err(|error| error.file(name))?.into(),
        };
        let mut collection = Self::parse(bytes, &options.limits).map_err(|error| error.file(name))?;
        let is_remote = source.remote().is_some();
        for file in &mut collection.files {
            file.name = resolved(&file.name, name, is_remote).map_err(|error| error.file(name))?;
        }
        match is_remote {
            true => collection.address = Some(name.to_owned()),
            false => {
                collection.check_credentials(&options.remote.store).map_err(|error| error.file(name))?;
            }
        }
        Ok(collection)
    }

    /// Returns the axis along which the files are joined.
    #[must_use]
    pub fn concat(&self) -> &Concat {
        &self.concat
    }

    /// Returns the files, in order.
    #[must_use]
    pub fn files(&self) -> &[CollectionFile] {
        &self.files
    }

    /// Returns the datasets of all files, sorted by path.
    #[must_use]
    pub fn variables(&self) -> &[CollectionVariable] {
        &self.variables
    }

    /// Returns the files that were skipped.
    #[must_use]
    pub fn skipped(&self) -> &[SkippedFile] {
        &self.skipped
    }

    fn file(&self, number: usize) -> Result<&CollectionFile> {
        let count = self.files.len();
        self.files
            .get(number)
            .ok_or_else(|| Error::invalid(format!("no file {number}: the collection has {count} files")))
    }

    /// Checks that a bearer token in `settings` would be sent to a single web server.
    fn check_credentials(&self, settings: &[(String, String)]) -> Result<()> {
        const TOKENS: [&str; 2] = ["token", "bearer_token"];
        if !settings.iter().any(|(name, _)| TOKENS.contains(&name.to_ascii_lowercase().as_str())) {
            return Ok(());
        }
        let mut servers = self.files.iter().filter(|file| is_web(&file.name)).map(|file| origin(&file.name));
        let Some(first) = servers.next() else { return Ok(()) };
        servers.find(|other| *other != first).map_or(Ok(()), |other| {
            let message = format!(
                "cannot send a token to several servers: expected files on one, got {first} and {other}; open the collection without the token, or its files one by one"
            );
            Err(Error::new(ErrorKind::Refused, message))
        })
    }

    /// Opens a file: see [`Member::open`].
    ///
    /// # Errors
    /// Invalid if there is no such file; as [`Member::open`].
    pub fn open(&self, number: usize, options: &OpenOptions) -> Result<File> {
        self.member(number)?.open(options)
    }

    /// Returns a file with its index.
    ///
    /// # Errors
    /// Invalid if there is no such file.
    pub fn member(&self, number: usize) -> Result<Member> {
        let index = self.indexes.get(number).cloned().unwrap_or_default();
        let file = self.file(number)?.clone();
        // Only web servers: credentials of object stores sign requests, and are not sent.
        Ok(Member {
            #[cfg(feature = "cloud")]
            named_by: self.address.clone().filter(|_| is_web(&file.name)),
            file,
            index,
        })
    }

    /// Parses a collection's bytes.
    ///
    /// # Errors
    /// As [`Collection::open_url`].
    pub fn parse(bytes: Bytes, limits: &Limits) -> Result<Self> {
        format::parse(bytes, limits)
    }

    /// Encodes the collection.
    ///
    /// # Errors
    /// Limit if it has more files than the format can hold.
    pub fn encode(&self) -> Result<Vec<u8>> {
        format::encode(self)
    }

    /// Encodes the collection for a file at `path`. Files inside the folder of `path` have names relative to
    /// it.
    ///
    /// # Errors
    /// As [`Collection::encode`]; Io if `path` cannot be made absolute.
    pub fn encode_for(&self, path: &Path) -> Result<Vec<u8>> {
        let absolute = std::path::absolute(path).map_err(|error| {
            Error::new(ErrorKind::Io, format!("cannot make the path absolute: {error}")).file(path.display())
        })?;
        let folder = absolute.parent().unwrap_or(&absolute);
        let mut moved = self.clone();
        for file in &mut moved.files {
            let local = io::local_path(&file.name);
            let below = local.as_deref().and_then(|local| local.strip_prefix(folder).ok());
            if let Some(below) = below.and_then(Path::to_str) {
                file.name = below.to_owned();
            }
        }
        moved.encode()
    }

    /// Returns a digest of the collection without the names of its files. Equal collections have equal
    /// digests, also after their files were moved.
    ///
    /// # Errors
    /// As [`Collection::encode`].
    pub fn digest(&self) -> Result<String> {
        let mut nameless = self.clone();
        nameless.files.iter_mut().for_each(|file| file.name.clear());
        let digest = Sha256::digest(nameless.encode()?);
        Ok(digest.iter().map(|byte| format!("{byte:02x}")).collect())
    }
}

/// Returns whether a name is the URL of a file on a web server.
fn is_web(name: &str) -> bool {
    let scheme = name.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase());
    scheme.is_some_and(|scheme| matches!(scheme.as_str(), "http" | "https"))
}

/// Returns scheme, host and port of a URL.
fn origin(url: &str) -> String {
    // URL parsers ignore these characters, too.
    let url: String = url.chars().filter(|c| !c.is_ascii_control() && *c != ' ').collect();
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    let host = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    format!("{scheme}://{host}").to_ascii_lowercase()
}

/// Resolves a file name in a collection to a path or URL: relative names are relative to the collection's
/// folder.
fn resolved(name: &str, collection: &str, is_remote: bool) -> Result<String> {
    let Some(path) = io::local_path(name) else { return Ok(name.to_owned()) };
    let is_below =
        |path: &Path| path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    // A web server decodes percent-encoded dots, so these are checked decoded.
    let is_below = is_below(&path) && is_below(Path::new(&name.replace("%2e", ".").replace("%2E", ".")));
    if is_remote {
        let address = collection.split(['?', '#']).next().unwrap_or_default();
        return match address.rsplit_once('/').filter(|_| is_below) {
            Some((folder, _)) => Ok(format!("{folder}/{name}")),
            None => {
                let message = format!(
                    "the remote collection names the local file {name}: expected URLs; download the collection to use it"
                );
                Err(Error::new(ErrorKind::Refused, message))
            }
        };
    }
    if path.is_absolute() {
        return Ok(name.to_owned());
    }
    let own = io::local_path(collection).unwrap_or_default();
    let own = std::path::absolute(&own)
        .map_err(|error| Error::new(ErrorKind::Io, format!("cannot make the path absolute: {error}")))?;
    let joined = own.parent().unwrap_or(&own).join(path);
    joined.into_os_string().into_string().map_err(|_| Error::unsupported("the folder's name is not UTF-8"))
}

impl fmt::Display for Concat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Dimension(name) => f.write_str(name),
            Self::FirstAxis => f.write_str("0"),
        }
    }
}

#[cfg(test)]
mod tests;
