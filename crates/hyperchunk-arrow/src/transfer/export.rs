//! HDF5 → files of Arrow.

use super::dataset::DatasetTable;
use super::folder::{self, Listed};
use super::manifest::{self, Kind, MANIFEST};
use super::sink::{Format, Sink, io};
use crate::types::{Look, Strings};
use crate::{Error, ErrorKind, Result, Table, TableOptions};
use hyperchunk::model::ObjectKind;
use hyperchunk::output::{self, NewFolder};
use hyperchunk::{Dataset, File, Object};
use std::path::{Path, PathBuf};

/// How objects are exported.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ExportOptions {
    /// How HDF5 data look as Arrow. Text that is not UTF-8 is exported as stored, with a note.
    pub look: Look,
    /// Whether what is at the target may be replaced.
    pub replace: bool,
    /// Whether datasets that cannot be exported are left out, with a note, in place of an error.
    pub keep_going: bool,
    /// Datasets of more bytes than this cannot be exported.
    pub most_bytes: Option<u64>,
}

/// What was exported.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Exported {
    /// How many groups.
    pub groups: u64,
    /// How many datasets.
    pub datasets: u64,
    /// How many committed datatypes.
    pub datatypes: u64,
    /// How many rows, of all datasets.
    pub rows: u64,
    /// How many bytes were written.
    pub bytes: u64,
    /// What the user should know.
    pub notes: Vec<String>,
    /// The paths of datasets that were left out, and why.
    pub missing: Vec<(String, String)>,
}

/// An export that is planned.
#[derive(Debug)]
pub struct Export {
    what: What,
    options: ExportOptions,
    /// The file that is read, if it is of this machine.
    input: Option<PathBuf>,
}

#[derive(Debug)]
enum What {
    One(Dataset),
    All { source: String, listed: Listed },
    Rows(Table),
}

impl Export {
    /// Of an object: a dataset becomes one file, a group a folder with all that is in it.
    ///
    /// # Errors
    /// Those of reading; Invalid for a committed datatype.
    pub fn new(object: &Object, options: ExportOptions) -> Result<Self> {
        let what = match object.kind() {
            ObjectKind::Dataset => What::One(object.dataset()?),
            ObjectKind::Group => {
                let file: &File = object.file();
                let listed = folder::list(file, object, options.keep_going)?;
                let source =
                    file.path().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
                What::All { source: source.unwrap_or_default(), listed }
            }
            ObjectKind::Datatype => {
                return Err(Error::invalid("a committed datatype has no values to export"));
            }
        };
        Ok(Self { what, options, input: input(object) })
    }

    /// Of the datasets of a group, as the columns of one table.
    ///
    /// # Errors
    /// As [`Table::of_object`].
    pub fn of_columns(object: &Object, options: ExportOptions) -> Result<Self> {
        let table = TableOptions { look: options.look, ..TableOptions::default() };
        Ok(Self { what: What::Rows(Table::of_object(object, &table)?), options, input: input(object) })
    }

    /// Whether it becomes a folder.
    #[must_use]
    pub fn is_folder(&self) -> bool {
        matches!(self.what, What::All { .. })
    }

    /// The datasets in it.
    pub fn datasets(&self) -> impl Iterator<Item = &Dataset> {
        let (one, all) = match &self.what {
            What::One(dataset) => (Some(dataset), &[][..]),
            What::All { listed, .. } => (None, &listed.datasets[..]),
            What::Rows(_) => (None, &[][..]),
        };
        one.into_iter().chain(all.iter().flatten())
    }

    /// How many bytes of data there are, before compression.
    #[must_use]
    pub fn total(&self) -> u64 {
        if let What::Rows(table) = &self.what {
            let widths = table
                .schema()
                .fields()
                .iter()
                .map(|field| field.data_type().primitive_width().unwrap_or(8) as u64)
                .sum();
            return table.rows().saturating_mul(widths);
        }
        self.datasets().fold(0, |sum: u64, dataset| sum.saturating_add(bytes(dataset)))
    }

    /// Makes the file or the folder. `progress` gets how many bytes of [`Export::total`] were written, a part at a time.
    ///
    /// # Errors
    /// Those of reading and of the system; Unsupported, with the name of the object, for what has no place in Arrow. Then
    /// there is nothing at `target` that was not there before.
    pub fn write(&self, target: &Path, format: Format, progress: &dyn Fn(u64)) -> Result<Exported> {
        let mut exported = Exported::default();
        let inputs: Vec<&Path> = self.input.iter().map(PathBuf::as_path).collect();
        if self.is_folder() {
            // One that is replaced is looked at below.
            output::check(target, true, &inputs)
                .or_else(|error| if target.is_dir() { Ok(()) } else { Err(error) })?;
        } else {
            output::check(target, self.options.replace, &inputs)?;
        }
        match &self.what {
            What::One(dataset) => {
                self.dataset(dataset, target, format, self.options.replace, progress, &mut exported)?;
            }
            What::All { source, listed } => {
                exported.notes.clone_from(&listed.notes);
                self.folder(source, listed, target, progress, &mut exported)?;
            }
            What::Rows(table) => {
                let mut sink = Sink::create(target, format, &table.schema(), self.options.replace)?;
                let mut batches = table.batches()?;
                while let Some(batch) = batches.next_batch()? {
                    sink.write(&batch)?;
                    progress(batch.get_array_memory_size() as u64);
                }
                exported.datasets = table.schema().fields().len() as u64;
                exported.rows = table.rows();
                exported.bytes = sink.finish()?;
            }
        }
        Ok(exported)
    }

    fn folder(
        &self,
        source: &str,
        listed: &Listed,
        target: &Path,
        progress: &dyn Fn(u64),
        exported: &mut Exported,
    ) -> Result<()> {
        let there = target.symlink_metadata().is_ok();
        let ours = target.join(MANIFEST).is_file();
        let empty = there && std::fs::read_dir(target).is_ok_and(|mut files| files.next().is_none());
        if there && !empty && !(self.options.replace && ours) {
            let message = if self.options.replace {
                "cannot replace the folder: it is there already, and no folder of an earlier export"
            } else {
                "cannot write the folder: it is there already (--overwrite replaces it)"
            };
            return Err(Error::invalid(message).file(target.display()));
        }
        let made = NewFolder::create(target, there)?;
        self.fill(source, listed, made.path(), progress, exported)?;
        made.finish()
    }

    fn fill(
        &self,
        source: &str,
        listed: &Listed,
        folder: &Path,
        progress: &dyn Fn(u64),
        exported: &mut Exported,
    ) -> Result<()> {
        let mut entries = listed.entries.clone();
        for (entry, dataset) in entries.iter_mut().zip(&listed.datasets) {
            match entry.kind {
                Kind::Group => exported.groups += 1,
                Kind::Datatype => exported.datatypes += 1,
                Kind::Dataset => {}
            }
            if let Some(why) = &entry.missing {
                exported.missing.push((entry.path.clone(), why.clone()));
                entry.file = None;
            }
            let (Some(dataset), Some(file)) = (dataset, &entry.file) else { continue };
            let path = folder.join(file);
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent).map_err(|error| io(parent, &error))?;
            }
            match self.dataset(dataset, &path, Format::File, false, progress, exported) {
                Err(error) if self.options.keep_going => {
                    exported.missing.push((entry.path.clone(), error.to_string()));
                    entry.missing = Some(error.to_string());
                    entry.file = None;
                }
                done => done?,
            }
        }
        let path = folder.join(MANIFEST);
        let bytes = manifest::write(&entries, source);
        exported.bytes += bytes.len() as u64;
        output::write(&path, &bytes, false)
    }

    fn dataset(
        &self,
        dataset: &Dataset,
        target: &Path,
        format: Format,
        replace: bool,
        progress: &dyn Fn(u64),
        exported: &mut Exported,
    ) -> Result<()> {
        if let Some(most) = self.options.most_bytes
            && bytes(dataset) > most
        {
            let message = format!("{} bytes of data, more than {most}", bytes(dataset));
            let path = dataset.object().path().unwrap_or_default();
            return Err(Error::limit(message).object(path));
        }
        let written = table(dataset, &self.options.look, target, format, replace, progress);
        let (rows, size) = match written {
            Err(error)
                if error.kind() == ErrorKind::Conversion && self.options.look.strings == Strings::Text =>
            {
                let look = Look { strings: Strings::Stored, ..self.options.look };
                let path = dataset.object().path().unwrap_or_default();
                exported
                    .notes
                    .push(format!("{path}: {}: its strings are exported as stored", error.message()));
                table(dataset, &look, target, format, replace, progress)?
            }
            written => written?,
        };
        exported.datasets += 1;
        exported.rows += rows;
        exported.bytes += size;
        Ok(())
    }
}

/// The file of this machine that an object is in.
fn input(object: &Object) -> Option<PathBuf> {
    let file: &File = object.file();
    file.path().filter(|_| !file.is_remote()).map(Path::to_owned)
}

/// How many bytes of data a dataset has.
fn bytes(dataset: &Dataset) -> u64 {
    let elements = dataset.elements().unwrap_or(u64::MAX);
    elements.saturating_mul(dataset.datatype().size)
}

/// Exports a dataset as one file; how many rows it has, and how large the file is.
fn table(
    dataset: &Dataset,
    look: &Look,
    target: &Path,
    format: Format,
    replace: bool,
    progress: &dyn Fn(u64),
) -> Result<(u64, u64)> {
    let table = DatasetTable::new(dataset, look)?;
    let mut sink = Sink::create(target, format, table.schema(), replace)?;
    let each = table.bytes().checked_div(table.rows()).unwrap_or(0);
    for rows in table.ranges() {
        let count = rows.end - rows.start;
        sink.write(&table.batch(rows)?)?;
        progress(each.saturating_mul(count));
    }
    Ok((table.rows(), sink.finish()?))
}
