//! Building of a collection. Files are read in parallel, each in as few round trips as its structure allows.

use super::layout::{Concat, DatasetLayout, FileLayout, describe, dimension_length};
use super::predicted::{PredictedSource, Prediction};
use super::statistics::put_unknown;
use super::{Collection, CollectionFile, CollectionVariable, SkippedFile, Units, format, resolved};
use crate::companion::Trust;
use crate::index::{Identity, Index, IndexOption, Tables};
use crate::io::{self, Source, interrupt};
use crate::output::{self, Folder, Output};
use crate::read::{Read, read_many, spread};
use crate::{Dataset, Error, ErrorKind, File, OpenOptions, Result};
use bytes::Bytes;
use hyperchunk_format::model::Name;
use hyperchunk_format::select::Selection;
use std::collections::{BTreeMap, HashSet};
use std::io::Write as _;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Maximum number of files that are read in parallel over a network.
const MAX_FILES_AT_ONCE: usize = 24;
/// Maximum size in bytes of the values of one coordinate in one file.
const MAX_COORDINATE_BYTES: usize = 256 << 20;

/// Options for making a collection.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct CollectOptions {
    /// Axis along which files are joined; `None` for the only unlimited dimension of the first file.
    pub concat: Option<Concat>,
    /// True to skip files that cannot be read or have another layout, instead of failing.
    pub skip: bool,
}

/// Content of one file: everything that a collection may store of it.
struct CollectedFile {
    file: CollectionFile,
    index: Bytes,
    /// Stored values of coordinates, by path.
    values: BTreeMap<Vec<u8>, Vec<u8>>,
    layout: FileLayout,
}

/// Content of one file that is compared with the first one: without its layout, which takes more memory than
/// the rest.
struct JoinedFile {
    file: CollectionFile,
    index: Bytes,
    /// One for each variable of the collection.
    parts: Vec<Part>,
}

/// Content of one dataset of one file.
struct Part {
    /// Extent along the joined axis.
    length: Option<u64>,
    /// Stored values of a coordinate.
    values: Option<Vec<u8>>,
    /// Units and calendar, if they are not the first file's.
    units: Option<Units>,
}

impl Collection {
    /// Reads the structure of files and the values of their coordinates. `progress` is called with the number
    /// of finished files.
    ///
    /// # Errors
    /// Invalid for an empty list of files, a dimension that the first file lacks, and a file whose layout
    /// differs from the first file's; the errors of opening the files. With [`CollectOptions::skip`], only
    /// the first file's errors.
    pub fn collect(
        names: &[String],
        options: &OpenOptions,
        how: &CollectOptions,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Result<Self> {
        let names: Vec<String> = names.iter().map(|name| absolute(name)).collect::<Result<_>>()?;
        let (first_name, others) =
            names.split_first().ok_or_else(|| Error::invalid("cannot make a collection of no files"))?;
        let (first, prediction) = member(first_name, options, &Arc::default())?;
        let prediction = Arc::new(prediction);
        progress(1);
        let concat = match &how.concat {
            Some(concat) => concat.clone(),
            None => Concat::choose(&first.layout).map_err(|error| error.file(first_name))?,
        };
        let described = first.layout.iter().map(|(path, dataset)| variable(path, dataset, &concat));
        let variables: Vec<CollectionVariable> =
            described.collect::<Result<_>>().map_err(|error| error.file(first_name))?;
        if variables.iter().all(|variable| variable.axis.is_none()) {
            let message = format!("cannot join the files: the first file has no dimension {concat}");
            return Err(Error::invalid(message).file(first_name));
        }
        let mut collection = Self::empty(concat, variables);
        collection.check(&first, &first).map_err(|error| error.file(first_name))?;
        let found = collection.members(others, options, how, &first, (&prediction, 1), progress)?;
        let first = collection.joined(first, None);
        collection.push(first);
        for (name, file) in others.iter().zip(found) {
            collection.add(name, file);
        }
        Ok(collection)
    }

    /// Adds the files that are not yet in the collection; returns their number. Of its own files only the
    /// first is read again, for its layout and coordinates.
    ///
    /// # Errors
    /// As [`Collection::collect`].
    pub fn append(
        &mut self,
        names: &[String],
        options: &OpenOptions,
        how: &CollectOptions,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Result<usize> {
        let mut known: HashSet<String> = self.files.iter().map(|file| real(&file.name)).collect();
        let new = names.iter().filter(|name| known.insert(real(name))).map(|name| absolute(name));
        let new: Vec<String> = new.collect::<Result<_>>()?;
        let file = self.open(0, options)?;
        let layout = describe(&file)?;
        let values = coordinate_values(&file, &layout)?;
        let first = CollectedFile { file: self.file(0)?.clone(), index: Bytes::new(), values, layout };
        let found = self.members(&new, options, how, &first, (&Arc::default(), 0), progress)?;
        // A file that was skipped before gets the reason of this call.
        let again: HashSet<&String> = new.iter().collect();
        self.skipped.retain(|file| !again.contains(&file.name));
        for (name, file) in new.iter().zip(found) {
            self.add(name, file);
        }
        Ok(new.len())
    }

    /// Reads files in parallel; returns a result for each name, in order. A file to be skipped is an error.
    fn members(
        &self,
        names: &[String],
        options: &OpenOptions,
        how: &CollectOptions,
        first: &CollectedFile,
        (prediction, done): (&Arc<Prediction>, usize),
        progress: &(dyn Fn(usize) + Sync),
    ) -> Result<Vec<Result<JoinedFile>>> {
        let found: Mutex<Vec<Option<Result<JoinedFile>>>> = Mutex::new(names.iter().map(|_| None).collect());
        let is_remote = names.iter().any(|name| io::local_path(name).is_none());
        let threads = if is_remote { MAX_FILES_AT_ONCE } else { options.thread_count() };
        let done = AtomicUsize::new(done);
        spread(
            threads.min(names.len()),
            names.iter().enumerate(),
            || (),
            |(), (number, name)| {
                let read = member(name, options, prediction).and_then(|(member, _)| {
                    self.check(&member, first).map_err(|error| error.file(io::without_secrets(name)))?;
                    Ok(self.joined(member, Some(&first.layout)))
                });
                let read = match read {
                    Err(error) if !how.skip => return Err(error),
                    read => read,
                };
                if let Some(slot) = found.lock().unwrap_or_else(PoisonError::into_inner).get_mut(number) {
                    *slot = Some(read);
                }
                progress(done.fetch_add(1, Ordering::Relaxed) + 1);
                Ok(())
            },
        )?;
        // A file whose read was cancelled is not skipped: the whole call fails.
        interrupt::check(interrupt::current_interrupt().as_ref())?;
        let found = found.into_inner().unwrap_or_else(PoisonError::into_inner);
        let missing = || Err(Error::new(ErrorKind::Io, "interrupted"));
        Ok(found.into_iter().map(|member| member.unwrap_or_else(missing)).collect())
    }

    fn axis(&self, path: &[u8]) -> Option<usize> {
        self.variables.iter().find(|variable| variable.path == path).and_then(|variable| variable.axis)
    }

    /// Checks that a file has the layout of the first one.
    fn check(&self, member: &CollectedFile, first: &CollectedFile) -> Result<()> {
        let differs = |path: &[u8], reason: &str| {
            let message = format!("cannot join this file with the others: {reason}");
            Err(Error::invalid(message).object(Name::from(path)))
        };
        for (path, dataset) in &first.layout {
            let Some(own) = member.layout.get(path) else {
                return differs(path, "the first file has this dataset, this file does not");
            };
            let axis = self.axis(path);
            if let Some(reason) = own.difference(dataset, axis) {
                return differs(path, &reason);
            }
            let kept = own.has_kept_values().then_some(axis).flatten();
            if kept
                .is_some_and(|axis| own.dims.get(axis) != Some(&dimension_length(&member.layout, own, axis)))
            {
                return differs(path, "it is shorter than its dimension");
            }
            if axis.is_none() && member.values.get(path) != first.values.get(path) {
                return differs(path, "its values differ from the first file's");
            }
        }
        self.check_elements(member)?;
        match member.layout.keys().find(|path| !first.layout.contains_key(*path)) {
            Some(path) => differs(path, "this file has this dataset, the first file does not"),
            None => Ok(()),
        }
    }

    /// Checks that a joined dataset of a file has its elements in that file: a collection opens no further files.
    fn check_elements(&self, member: &CollectedFile) -> Result<()> {
        let joined = |(path, dataset): &(&Vec<u8>, &DatasetLayout)| {
            self.axis(path).is_some() && !dataset.has_kept_values()
        };
        let mut first = None;
        for (path, dataset) in member.layout.iter().filter(joined) {
            match dataset.elsewhere {
                None => return Ok(()),
                Some(advice) => first = first.or(Some((path, advice))),
            }
        }
        let Some((path, advice)) = first else { return Ok(()) };
        let message = format!(
            "cannot collect the file: expected datasets with their elements in the file itself, got only ones with \
             elements in other files; {advice}"
        );
        Err(Error::invalid(message).object(Name::from(&**path)))
    }

    fn add(&mut self, name: &str, file: Result<JoinedFile>) {
        match file {
            Ok(file) => self.push(file),
            Err(error) => {
                self.skipped.push(SkippedFile { name: name.to_owned(), reason: error.to_string() });
            }
        }
    }

    /// Extracts the parts of a file that the collection stores. `first` is the layout of the first file;
    /// `None` if `member` is the first file.
    fn joined(&self, mut member: CollectedFile, first: Option<&FileLayout>) -> JoinedFile {
        let units = |dataset: &DatasetLayout| dataset.units().map(|text| text.map(str::to_owned));
        let mut parts = Vec::with_capacity(self.variables.len());
        for variable in &self.variables {
            // Of coordinates that are not joined, only the first file's values are stored: all files have the
            // same.
            let is_kept = variable.axis.is_some() || first.is_none();
            let values = member.values.remove(&variable.path).filter(|_| is_kept);
            let dataset = member.layout.get(&variable.path);
            let length = variable
                .axis
                .map(|axis| dataset.map_or(0, |dataset| dimension_length(&member.layout, dataset, axis)));
            let own = dataset.map(units).unwrap_or_default();
            let differs = variable.axis.is_some()
                && first.is_some_and(|first| own != first.get(&variable.path).map(units).unwrap_or_default());
            parts.push(Part { length, values, units: differs.then_some(own) });
        }
        JoinedFile { file: member.file, index: member.index, parts }
    }

    fn push(&mut self, file: JoinedFile) {
        let number = self.files.len() as u64;
        for (variable, part) in self.variables.iter_mut().zip(file.parts) {
            if let Some(length) = part.length {
                Arc::make_mut(&mut variable.lengths).push(length);
            }
            if let Some(statistics) = &mut variable.statistics {
                put_unknown(statistics);
            }
            if let Some(values) = part.values {
                variable.values.get_or_insert_default().extend_from_slice(&values);
            }
            if let Some(units) = part.units {
                variable.units.insert(number, units);
            }
        }
        self.files.push(file.file);
        self.indexes.push(file.index);
    }
}

fn variable(path: &[u8], dataset: &DatasetLayout, concat: &Concat) -> Result<CollectionVariable> {
    let axis = concat.axis(dataset).map_err(|error| error.object(Name::from(path)))?;
    Ok(CollectionVariable {
        path: path.to_vec(),
        axis,
        lengths: Arc::default(),
        values: None,
        units: BTreeMap::new(),
        statistics: None,
    })
}

/// Makes the name of a local file absolute.
fn absolute(name: &str) -> Result<String> {
    let Some(path) = io::local_path(name) else { return Ok(name.to_owned()) };
    let path = std::path::absolute(&path)
        .map_err(|error| Error::new(ErrorKind::Io, format!("cannot resolve the path: {error}")).file(name))?;
    path.into_os_string()
        .into_string()
        .map_err(|path| Error::unsupported("cannot join a file whose name is not UTF-8").file(path.display()))
}

/// Returns the canonical name of a file: the path with symbolic links resolved, or the URL.
fn real(name: &str) -> String {
    let path = io::local_path(name).and_then(|path| std::fs::canonicalize(path).ok());
    path.map_or_else(|| name.to_owned(), |path| path.to_string_lossy().into_owned())
}

/// Checkpoints: the finished part of a collection that is being built, in a file of its own. It has a mark,
/// so that it cannot be confused with a collection of the user.
impl Collection {
    /// Opens the finished part that an interrupted call has written; `None` if the file does not exist.
    ///
    /// # Errors
    /// Invalid for a symbolic link, for a file whose owner is neither this user nor root, for a file that
    /// other users may write to, and for a file that is not a finished part; Io for a folder that is missing
    /// or is reached through another user's symbolic link; the errors of [`Collection::parse`]. The messages
    /// name a remedy.
    pub fn open_part(path: &Path, options: &OpenOptions) -> Result<Option<Self>> {
        output::check_folder_path(path)?;
        let shown = path.display().to_string();
        let read = || -> Result<Option<(Self, bool)>> {
            let Some(file) = Trust::for_reader().open(path, 0)? else { return Ok(None) };
            let bytes = format::COLLECTION.read(&file)?;
            let (mut part, is_part) = format::parse_part(bytes.into(), &options.limits)?;
            for file in &mut part.files {
                file.name = resolved(&file.name, &shown, false)?;
            }
            Ok(Some((part, is_part)))
        };
        let found = read().map_err(|error| {
            let message =
                format!("{}; delete {shown} to begin again, or name another output", error.message());
            error.with_message(message).file(&shown)
        })?;
        match found {
            Some((_, false)) => Err(Error::invalid(format!(
                "cannot store finished files in {shown}: expected no file, or the part that an interrupted \
                 call finished, got a complete collection; move it away, or name another output"
            ))),
            found => Ok(found.map(|(part, _)| part)),
        }
    }

    /// Writes the collection to a file as a finished part. `replace` is true if an earlier part may be
    /// replaced.
    ///
    /// # Errors
    /// As [`Collection::encode_for`] and [`output::write`].
    pub fn save_part(&self, path: &Path, replace: bool) -> Result<()> {
        let bytes = format::mark_part(&self.encode_for(path)?)?;
        let mut output = Output::create(path, replace)?;
        output.write_all(&bytes).map_err(|error| {
            Error::new(ErrorKind::Io, format!("cannot write {}: {error}", path.display()))
        })?;
        // With a permissive umask other users could write to the file, and `open_part` would reject it.
        output.tighten(Path::new(""));
        output.finish()
    }

    /// Deletes the finished part, once the collection is complete. Does nothing if the file does not exist.
    ///
    /// # Errors
    /// As [`Collection::open_part`]; Io.
    pub fn delete_part(path: &Path, options: &OpenOptions) -> Result<()> {
        if Self::open_part(path, options)?.is_none() {
            return Ok(());
        }
        let deleted = Folder::open_parent(path).and_then(|(folder, name)| folder.remove(&name));
        deleted
            .map_err(|error| Error::new(ErrorKind::Io, format!("cannot delete {}: {error}", path.display())))
    }
}

/// Reads one file.
fn member(
    name: &str,
    options: &OpenOptions,
    prediction: &Arc<Prediction>,
) -> Result<(CollectedFile, Prediction)> {
    let options = OpenOptions { index: IndexOption::Never, ..options.clone() };
    let predicted = match io::local_path(name) {
        Some(_) => None,
        None => {
            // The prediction replaces the read-ahead.
            let remote = io::RemoteOptions { read_ahead: 0, ..options.remote.clone() };
            let source = io::open(name, &remote).map_err(|error| error.file(io::without_secrets(name)))?;
            Some(Arc::new(PredictedSource::new(source, prediction)))
        }
    };
    let file = match &predicted {
        Some(source) => {
            let source: Arc<dyn Source> = Arc::<PredictedSource>::clone(source);
            File::from_source(source, Some(io::without_secrets(name).into()), &options)?
        }
        None => File::open_url(name, &options)?,
    };
    let built = Index::build(&file, &Tables::new())?;
    if let Some((path, error)) = built.errors.into_iter().next() {
        return Err(file.with_context(error.object(Name::from(&*path))));
    }
    let index = Bytes::from(built.bytes);
    let file = file.with_index(Index::open(index.clone(), name, &options.limits)?)?;
    let identity = Identity::from_source(&**file.source())
        .ok_or_else(|| file.with_context(Error::invalid("cannot determine the version of this file")))?;
    let layout = describe(&file)?;
    let values = coordinate_values(&file, &layout)?;
    let prediction = predicted.map(|source| source.finish()).unwrap_or_default();
    let file = CollectionFile { name: name.to_owned(), identity };
    Ok((CollectedFile { file, index, values, layout }, prediction))
}

/// Reads the values of a file's coordinates, in one round trip.
fn coordinate_values(file: &File, layout: &FileLayout) -> Result<BTreeMap<Vec<u8>, Vec<u8>>> {
    let root = file.root()?.group()?;
    let mut datasets: Vec<(Vec<u8>, Dataset, Vec<u8>)> = Vec::new();
    for (path, _) in layout.iter().filter(|(_, dataset)| dataset.has_kept_values()) {
        let dataset = root.get(path)?.dataset()?;
        let size = dataset.elements()?.saturating_mul(dataset.datatype().size);
        let size = usize::try_from(size).unwrap_or(usize::MAX);
        if size > MAX_COORDINATE_BYTES {
            let message = format!("the coordinate has {size} bytes; the limit is {MAX_COORDINATE_BYTES}");
            return Err(dataset.with_context(Error::limit(message)));
        }
        datasets.push((path.clone(), dataset, crate::room::zeros(size)?));
    }
    let everything = Selection::All;
    let reads = datasets
        .iter_mut()
        .map(|(_, dataset, out)| Read { dataset, selection: &everything, conversion: None, out })
        .collect();
    read_many(reads)?;
    Ok(datasets.into_iter().map(|(path, _, values)| (path, values)).collect())
}
