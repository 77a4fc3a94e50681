//! Collections: many files of one layout as one. A collection keeps an index of each file, the values of their
//! coordinates, and how many rows each file has, so that opening all of them takes no request to a file. The format:
//! `docs/formats/collection.md`.

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

/// Suffix of a collection's file.
pub const SUFFIX: &str = ".hcx";

/// Number of bytes of a collection in a store that are requested first: all of one of a few thousand files.
const FIRST_READ_BYTES: u64 = 8 << 20;
/// Minimum number of files for each thread that opens files.
const OPENS_A_THREAD: usize = 4;
/// Maximum number of files that are opened side by side where opening takes requests.
const MAX_OPENS_AT_ONCE: usize = 32;

/// Units and calendar of a coordinate.
pub type Units = [Option<String>; 2];

/// Many files of one layout, joined along an axis.
#[derive(Debug, Clone)]
pub struct Collection {
    concat: Concat,
    files: Vec<CollectionFile>,
    variables: Vec<CollectionVariable>,
    skipped: Vec<SkippedFile>,
    indexes: Vec<Bytes>,
    /// The URL that it was read from.
    address: Option<String>,
}

/// A file of a collection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectionFile {
    /// Path or URL.
    pub name: String,
    /// The version of the file that was collected.
    pub identity: Identity,
}

/// A file that was left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SkippedFile {
    /// Path or URL.
    pub name: String,
    /// The error of reading it, or the difference from the first file.
    pub reason: String,
}

/// A dataset of all files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CollectionVariable {
    /// Path in each file.
    pub path: Vec<u8>,
    /// The axis along which the files' datasets are joined; `None` if the first file's dataset stands for all.
    pub axis: Option<usize>,
    /// Extent of each file's dataset along that axis; empty without one. Variables that were parsed share it.
    pub lengths: Arc<Vec<u64>>,
    /// Stored values of a coordinate, of all files one after another.
    pub values: Option<Vec<u8>>,
    /// Units and calendar of files in which they are not the first file's, by place of the file.
    pub units: BTreeMap<u64, Units>,
    /// Encoded statistics of each file, if some were gathered ([`CollectionVariable::file_statistics`]).
    statistics: Option<Vec<u8>>,
}

/// A file of a collection, with its index.
#[derive(Debug, Clone)]
pub struct Member {
    file: CollectionFile,
    index: Bytes,
    /// The URL of the collection that names a file on a web server.
    #[cfg(feature = "cloud")]
    named_by: Option<String>,
}

impl Member {
    /// Returns the index of the file.
    ///
    /// # Errors
    /// As [`Index::open`]; Corrupt if it is of another version.
    pub fn index(&self, limits: &Limits) -> Result<Index> {
        let index = Index::open(self.index.clone(), &self.file.name, limits)?;
        if *index.identity() != self.file.identity {
            let message = "the index of this file in the collection is of another version";
            return Err(Error::corrupt(message).file(&self.file.name));
        }
        Ok(index)
    }

    /// Opens the file. This takes no request if the store has ETags; then a file that changed since is an error at
    /// the first read.
    ///
    /// # Errors
    /// Changed if the file is not the version that was collected; as [`File::open_url`].
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
                let message = "the file is not the version that was collected: collect it again";
                Error::new(ErrorKind::Changed, message).file(&self.file.name)
            }
            _ => error,
        })
    }
}

/// Opens a dataset of several files side by side; files that are open already are given with their members.
///
/// # Errors
/// As [`Member::open`]; NotFound if a file has no such dataset, Invalid if its datatype is not `datatype`. They name
/// the file.
pub fn open_datasets(
    members: &[(Member, Option<File>)],
    path: &[u8],
    datatype: Option<&Datatype>,
    options: &OpenOptions,
) -> Result<Vec<(File, Dataset)>> {
    let found: Mutex<Vec<Option<(File, Dataset)>>> = Mutex::new(vec![None; members.len()]);
    // Where the store has no ETags, opening takes a request.
    let waits = members
        .iter()
        .any(|(member, open)| open.is_none() && !member.file.identity.version.starts_with("etag:"))
        && members.iter().any(|(member, _)| io::local_path(&member.file.name).is_none());
    let threads = if waits { MAX_OPENS_AT_ONCE } else { options.thread_count() };
    spread(
        threads.min(members.len().div_ceil(OPENS_A_THREAD)),
        members.iter().enumerate(),
        || (),
        |(), (place, (member, open))| {
            let file = open.clone().map_or_else(|| member.open(options), Ok)?;
            let dataset = file.root()?.group()?.get(path)?.dataset()?;
            if datatype.is_some_and(|datatype| datatype != dataset.datatype()) {
                let message = "its datatype is not the first file's: collect the files again";
                return Err(dataset.name(Error::invalid(message)));
            }
            if let Some(slot) = found.lock().unwrap_or_else(PoisonError::into_inner).get_mut(place) {
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
    /// Invalid if it is no collection; Corrupt, Truncated or Unsupported if it is damaged or of a later version;
    /// Refused if it comes over a network and names local files; the errors of [`io::open`].
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

    /// Returns its files, in order.
    #[must_use]
    pub fn files(&self) -> &[CollectionFile] {
        &self.files
    }

    /// Returns the datasets of all files, sorted by path.
    #[must_use]
    pub fn variables(&self) -> &[CollectionVariable] {
        &self.variables
    }

    /// Returns files that were left out.
    #[must_use]
    pub fn skipped(&self) -> &[SkippedFile] {
        &self.skipped
    }

    fn file(&self, place: usize) -> Result<&CollectionFile> {
        let count = self.files.len();
        self.files
            .get(place)
            .ok_or_else(|| Error::invalid(format!("file {place} of a collection of {count}")))
    }

    /// Checks that a token would be sent to one web server alone.
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

    /// Opens one of its files: see [`Member::open`].
    ///
    /// # Errors
    /// Invalid if there is no such file; as [`Member::open`].
    pub fn open(&self, place: usize, options: &OpenOptions) -> Result<File> {
        self.member(place)?.open(options)
    }

    /// Returns one of its files with its index.
    ///
    /// # Errors
    /// Invalid if there is no such file.
    pub fn member(&self, place: usize) -> Result<Member> {
        let index = self.indexes.get(place).cloned().unwrap_or_default();
        let file = self.file(place)?.clone();
        // Credentials of object stores sign a request, and are not sent.
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

    /// Encodes it.
    ///
    /// # Errors
    /// Limit if it has more files than the format can hold.
    pub fn encode(&self) -> Result<Vec<u8>> {
        format::encode(self)
    }

    /// Encodes it for a file at `path`: files in its folder, or below it, have names relative to it.
    ///
    /// # Errors
    /// As [`Collection::encode`]; Io if the folder cannot be found.
    pub fn encode_for(&self, path: &Path) -> Result<Vec<u8>> {
        let absolute = std::path::absolute(path).map_err(|error| {
            Error::new(ErrorKind::Io, format!("cannot find its folder: {error}")).file(path.display())
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

    /// Returns a digest of all but the names of its files: equal for equal collections.
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
    // As parsers of URLs do.
    let url: String = url.chars().filter(|c| !c.is_ascii_control() && *c != ' ').collect();
    let (scheme, rest) = url.split_once("://").unwrap_or_default();
    let host = rest.split(['/', '?', '#', '\\']).next().unwrap_or_default();
    let host = host.rsplit_once('@').map_or(host, |(_, host)| host);
    format!("{scheme}://{host}").to_ascii_lowercase()
}

/// Returns the path or URL that a name in a collection stands for: relative ones count from the collection.
fn resolved(name: &str, collection: &str, is_remote: bool) -> Result<String> {
    let Some(path) = io::local_path(name) else { return Ok(name.to_owned()) };
    let is_below =
        |path: &Path| path.components().all(|part| matches!(part, Component::Normal(_) | Component::CurDir));
    // A web server decodes the name.
    let is_below = is_below(&path) && is_below(Path::new(&name.replace("%2e", ".").replace("%2E", ".")));
    if is_remote {
        let address = collection.split(['?', '#']).next().unwrap_or_default();
        return match address.rsplit_once('/').filter(|_| is_below) {
            Some((folder, _)) => Ok(format!("{folder}/{name}")),
            None => {
                let message = format!(
                    "a collection over a network names the local file {name}: expected URLs; download the collection to use it"
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
        .map_err(|error| Error::new(ErrorKind::Io, format!("cannot find its folder: {error}")))?;
    let joined = own.parent().unwrap_or(&own).join(path);
    joined.into_os_string().into_string().map_err(|_| Error::unsupported("its folder's name is not UTF-8"))
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
