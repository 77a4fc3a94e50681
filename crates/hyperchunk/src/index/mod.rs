//! Indexes of files: small companions with a copy of a file's structure and the locations of its chunks, so
//! that opening the file and finding a dataset and its chunks need no request. The format:
//! `docs/formats/sidecar.md`.

mod build;
pub(crate) mod frame;
mod layout;
pub(crate) mod packed;
mod view;

pub use build::{DatasetChunks, NewIndex, Tables};
pub(crate) use packed::{put, take};
pub(crate) use view::IndexedView;

use crate::companion::{self, Trust};
use crate::io::{self, LocalFile, Source};
use crate::{Error, ErrorKind, Limits, OpenOptions, Result};
use bytes::Bytes;
use hyperchunk_format::model::Chunk;
use layout::{Directory, Section};
use sha2::{Digest as _, Sha256};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Suffix that is appended to a file's name to name its index.
pub const SUFFIX: &str = ".hcindex";

/// Checks that an index may be written at `path`: that there is no file, or an index.
///
/// # Errors
/// Exists for another file.
pub fn check_replaced(path: &Path) -> Result<()> {
    let way = "move it away (--overwrite replaces it; in Python, overwrite=True)";
    companion::check_replaced(path, layout::INDEX.signature, layout::INDEX.one, way)
}

/// Locations to search for a file's index.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub enum IndexOption {
    /// For a local file: beside it (`FILE.hcindex`), then in the cache folder. For a file over a network:
    /// in the cache folder alone, which costs no request. An index of another version of the file is not
    /// used.
    #[default]
    Auto,
    /// As `Auto`, but also beside a file over a network, at the cost of a request.
    Beside,
    /// In this file. It is an error if the index is of another version of the file, or of another file.
    /// Opening a URL then takes no request if the index knows the object's ETag, and the error comes with
    /// the first read.
    Path(PathBuf),
    /// This index, with the same errors.
    Given(Arc<Index>),
    /// No index is used.
    Never,
}

/// Identity of the file that an index describes: equal identities mean equal bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Identity {
    /// Its size in bytes.
    pub size: u64,
    /// Its version: [`Source::version`].
    pub version: String,
}

/// Separator between the version of a file and the digest of its contents, where a companion keeps both.
const CONTENTS: &str = ";contents:";

impl Identity {
    /// Returns this identity with a digest of the file's contents added to the version.
    pub fn with_contents(mut self, digest: &str) -> Self {
        self.version.push_str(CONTENTS);
        self.version.push_str(digest);
        self
    }

    /// Returns the version without the digest, and the digest of the contents if there is one.
    pub fn parts(&self) -> (&str, Option<&str>) {
        match self.version.split_once(CONTENTS) {
            Some((version, digest)) => (version, Some(digest)),
            None => (&self.version, None),
        }
    }

    /// Returns the identity of a source; `None` if its version is unknown.
    #[must_use]
    pub fn from_source(source: &dyn Source) -> Option<Self> {
        source.version().map(|version| Self { size: source.size(), version })
    }

    /// Returns the current identity of a source: a local file may have been written to since it was opened.
    #[must_use]
    pub fn now(source: &dyn Source) -> Option<Self> {
        match source.file() {
            Some(file) => io::now(file).map(|(size, version)| Self { size, version }),
            None => Self::from_source(source),
        }
    }
}

/// An open index. Sections are decompressed when they are needed.
pub struct Index {
    bytes: Bytes,
    directory: Directory,
    /// The decompressed sections of the structure.
    unpacked: Vec<OnceLock<Result<Ranges>>>,
    limits: Limits,
    name: String,
}

/// Ranges of the file with their bytes.
struct Ranges {
    /// The ranges, in ascending order and without overlap, each with its start in `bytes`.
    places: Vec<(Range<u64>, usize)>,
    bytes: Vec<u8>,
}

impl Index {
    /// Opens an index from its bytes. `name` is for messages.
    ///
    /// # Errors
    /// Invalid if the bytes are not an index; Corrupt, Truncated or Unsupported if they are damaged or of a
    /// later version.
    pub fn open(bytes: impl Into<Bytes>, name: &str, limits: &Limits) -> Result<Self> {
        let bytes = bytes.into();
        let directory = layout::parse(&bytes).map_err(|error| error.file(name))?;
        let unpacked = directory.structure.iter().map(|_| OnceLock::new()).collect();
        Ok(Self { bytes, directory, unpacked, limits: limits.clone(), name: name.into() })
    }

    /// Reads an index from a file.
    ///
    /// # Errors
    /// As [`Index::open`]; NotFound or Io from the system.
    pub fn read(path: &Path, limits: &Limits) -> Result<Self> {
        let name = path.display().to_string();
        let file = LocalFile::open(path).map_err(|error| error.file(&name))?;
        Self::from_source(&file, &name, limits)
    }

    fn from_source(source: &dyn Source, name: &str, limits: &Limits) -> Result<Self> {
        let bytes = layout::INDEX.read(source).map_err(|error| error.file(name))?;
        Self::open(bytes, name, limits)
    }

    /// Returns the identity of the described file.
    #[must_use]
    pub fn identity(&self) -> &Identity {
        &self.directory.identity
    }

    /// Returns its name, for messages.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns its size in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns whether it has no bytes; always false.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the number of chunks in its tables.
    #[must_use]
    pub fn chunk_count(&self) -> u64 {
        self.directory.tables.iter().fold(0, |count, table| count.saturating_add(table.count))
    }

    /// Checks that it describes this file.
    ///
    /// # Errors
    /// Changed, if not.
    pub fn check(&self, found: Option<&Identity>) -> Result<()> {
        let known = self.identity();
        let message = match found {
            Some(found) if found == known => return Ok(()),
            Some(found) => format!(
                "the index is for a file of {} bytes ({}), but this file has {} bytes ({}): make it again with \
                 `hyperchunk index`",
                known.size, known.version, found.size, found.version
            ),
            None => "cannot use the index: the version of this file is unknown".into(),
        };
        Err(Error::new(ErrorKind::Changed, message).file(&self.name))
    }

    /// Returns bytes of the file, if the index contains all of them.
    ///
    /// # Errors
    /// Corrupt or Limit if the section with them is damaged.
    pub fn bytes(&self, offset: u64, length: usize) -> Result<Option<&[u8]>> {
        let Some(end) = offset.checked_add(length as u64) else { return Ok(None) };
        let after = self.directory.structure.partition_point(|section| section.span.start <= offset);
        let Some(number) = after.checked_sub(1) else { return Ok(None) };
        let (Some(section), Some(unpacked)) =
            (self.directory.structure.get(number), self.unpacked.get(number))
        else {
            return Ok(None);
        };
        if end > section.span.end {
            return Ok(None);
        }
        let ranges = unpacked.get_or_init(|| self.unpack(section)).as_ref().map_err(Clone::clone)?;
        Ok(ranges.find(offset, end))
    }

    fn unpack(&self, section: &Section) -> Result<Ranges> {
        let most = self.limits.metadata_bytes.max(section.span.end.saturating_sub(section.span.start));
        let bytes = section.unpack(&self.bytes, most.saturating_mul(2))?;
        Ranges::parse(bytes, &section.span)
    }
}

impl Index {
    /// Returns all chunks of the dataset whose header is at `address`, in row-major order; `None` if the
    /// index has no table of them. `grid` is the number of chunks along each axis, `end` the end of the file
    /// relative to its base address.
    ///
    /// # Errors
    /// Corrupt or Limit if the table is damaged, or is for another dataset.
    pub fn chunks(&self, address: u64, grid: &[u64], end: u64) -> Result<Option<Vec<Chunk>>> {
        let tables = &self.directory.tables;
        let Ok(at) = tables.binary_search_by_key(&address, |table| table.object) else { return Ok(None) };
        let Some(table) = tables.get(at) else { return Ok(None) };
        if table.count > self.limits.visits || table.count > self.identity().size {
            let message = format!("{} chunks in a file of {} bytes", table.count, self.identity().size);
            return Err(Error::limit(message).within(packed::NAME).file(&self.name));
        }
        let most = table
            .count
            .saturating_mul(layout::MAX_CHUNK_ENTRY_BYTES)
            .saturating_add(layout::MAX_TABLE_HEAD_BYTES);
        let bytes = table.unpack(&self.bytes, most);
        let chunks = bytes.and_then(|bytes| packed::unpack(&bytes, grid, table.count, end));
        chunks.map(Some).map_err(|error| error.file(&self.name))
    }
}

impl Ranges {
    /// Parses a section's content.
    fn parse(bytes: Vec<u8>, span: &Range<u64>) -> Result<Self> {
        let mut cursor = hyperchunk_format::Cursor::new(&bytes, layout::STRUCTURE, span.start);
        let count = take(&mut cursor)?;
        let count = usize::try_from(count).ok().filter(|count| *count <= cursor.left() / 2);
        let count =
            count.ok_or_else(|| cursor.error("the number of ranges exceeds the section's bytes".into()))?;
        let mut places = Vec::with_capacity(count);
        let (mut next, mut at) = (span.start, 0_usize);
        for _ in 0..count {
            let (gap, length) = (take(&mut cursor)?, take(&mut cursor)?);
            let start = next.checked_add(gap);
            let end = start.and_then(|start| start.checked_add(length)).filter(|end| *end <= span.end);
            let (Some(start), Some(end)) = (start, end) else {
                return Err(cursor.error("a range outside its section".into()));
            };
            places.push((start..end, at));
            next = end;
            at = usize::try_from(length).ok().and_then(|length| at.checked_add(length)).unwrap_or(usize::MAX);
        }
        if at != cursor.left() {
            return Err(cursor.error(format!("{} bytes for ranges of {at} bytes in all", cursor.left())));
        }
        let start = cursor.position();
        places.iter_mut().for_each(|(_, at)| *at += start);
        Ok(Self { places, bytes })
    }

    fn find(&self, offset: u64, end: u64) -> Option<&[u8]> {
        let after = self.places.partition_point(|(range, _)| range.start <= offset);
        let (range, at) = self.places.get(after.checked_sub(1)?)?;
        if end > range.end {
            return None;
        }
        let start = at.checked_add(usize::try_from(offset - range.start).ok()?)?;
        self.bytes.get(start..start.checked_add(usize::try_from(end - offset).ok()?)?)
    }
}

impl std::fmt::Debug for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Index")
            .field("name", &self.name)
            .field("identity", self.identity())
            .finish_non_exhaustive()
    }
}

/// Outcome of the search for an index.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum IndexState {
    /// No search, or no index found.
    None,
    /// The index of this name is used.
    Used(String),
    /// An index was found but not used, for this reason.
    Ignored(String),
}

/// Finds the index of a file. `name` is the file's path or URL.
///
/// # Errors
/// Only for an index that the caller named: the errors of [`Index::read`] and [`Index::check`].
pub(crate) fn find(
    option: &IndexOption,
    name: Option<&str>,
    source: &dyn Source,
    limits: &Limits,
) -> Result<(Option<Arc<Index>>, IndexState)> {
    let identity = Identity::from_source(source);
    let used = |index: Arc<Index>| {
        index.check(identity.as_ref())?;
        let state = IndexState::Used(index.name.clone());
        Ok((Some(index), state))
    };
    match option {
        IndexOption::Never => return Ok((None, IndexState::None)),
        IndexOption::Path(path) => return used(Arc::new(Index::read(path, limits)?)),
        IndexOption::Given(index) => return used(Arc::clone(index)),
        IndexOption::Auto | IndexOption::Beside => {}
    }
    let mut state = IndexState::None;
    let Some(name) = name else { return Ok((None, state)) };
    let mut look = |index: Result<Index>| match index.and_then(|index| used(Arc::new(index))) {
        Ok(used) => Some(used),
        Err(error) => {
            if error.kind() != ErrorKind::NotFound {
                state = IndexState::Ignored(error.to_string());
            }
            None
        }
    };
    let mut distrusted = None;
    let mut opened = |found: Result<Option<LocalFile>>| match found {
        Ok(found) => found,
        Err(error) => {
            companion::warn("an index", &error);
            distrusted.get_or_insert(error);
            None
        }
    };
    let mut read =
        |path: PathBuf, file: LocalFile| look(Index::from_source(&file, &path.display().to_string(), limits));
    let beside = source.remote().is_none().then(|| PathBuf::from(format!("{name}{SUFFIX}")));
    let found = beside
        .and_then(|path| {
            let file = opened(Trust::of(source, Path::new(name)).open(&path, 0))?;
            read(path, file)
        })
        .or_else(|| {
            let path = in_cache(name, source)?;
            let file = opened(open_cached(&path))?;
            read(path, file)
        });
    let found = found.or_else(|| {
        let remote = source.remote().filter(|_| matches!(option, IndexOption::Beside))?;
        let path = name.split(['?', '#']).next().unwrap_or_default();
        let beside = format!("{}{SUFFIX}", path.rsplit('/').next().unwrap_or_default());
        look(remote.sibling(&beside)?.and_then(|source| Index::from_source(&*source, &beside, limits)))
    });
    if let (IndexState::None, Some(error)) = (&state, distrusted) {
        state = IndexState::Ignored(error.to_string());
    }
    Ok(found.unwrap_or((None, state)))
}

/// Opens a URL. With an index that the caller named and that knows the object's ETag, this takes no request:
/// each later request asks for this version of the object, and another version is an error.
///
/// # Errors
/// As [`io::open`] and [`Index::read`].
pub(crate) fn open_url(name: &str, options: &OpenOptions) -> Result<(Arc<dyn Source>, OpenOptions)> {
    let mut options = options.clone();
    let index = match &options.index {
        IndexOption::Path(path) => Some(Arc::new(Index::read(path, &options.limits)?)),
        IndexOption::Given(index) => Some(Arc::clone(index)),
        _ => None,
    };
    let known = index.as_ref().and_then(|index| {
        let identity = index.identity();
        io::open_known(name, &options.remote, identity.size, &identity.version)
    });
    if let Some(index) = index {
        options.index = IndexOption::Given(index);
    }
    let source = known.unwrap_or_else(|| io::open(name, &options.remote))?;
    Ok((source, options))
}

/// Returns the path of a file's index in the cache.
fn in_cache(name: &str, source: &dyn Source) -> Option<PathBuf> {
    match source.remote() {
        None => std::path::absolute(name).ok().and_then(|path| cached(&path.display().to_string())),
        Some(_) => cached(name),
    }
}

/// Opens a file in the cache folder, if the folder and the file are trusted.
///
/// # Errors
/// As [`Trust::open`].
pub fn open_cached(path: &Path) -> Result<Option<LocalFile>> {
    if !Trust::cache(path.parent().unwrap_or(Path::new(".")))? {
        return Ok(None);
    }
    Trust::for_reader().open(path, 0)
}

/// Returns the path of the index in the cache folder, given a file's absolute path or URL. The folder is
/// `$HYPERCHUNK_INDEX_CACHE`, else `hyperchunk/index` in `$XDG_CACHE_HOME` or `~/.cache`.
#[must_use]
pub fn cached(name: &str) -> Option<PathBuf> {
    let set =
        |variable: &str| std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
    let folder = set("HYPERCHUNK_INDEX_CACHE").or_else(|| {
        let cache = set("XDG_CACHE_HOME").or_else(|| set("HOME").map(|home| home.join(".cache")));
        cache.map(|cache| cache.join("hyperchunk").join("index"))
    })?;
    let digest = Sha256::digest(io::without_secrets(name).as_bytes());
    let name: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    Some(folder.join(format!("{name}{SUFFIX}")))
}

#[cfg(test)]
mod tests;
