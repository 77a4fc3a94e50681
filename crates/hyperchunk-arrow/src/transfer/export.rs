//! Export of HDF5 objects to Arrow files.

use super::dataset::DatasetTable;
use super::folder::{self, Listing};
use super::manifest::{self, Kind, MANIFEST};
use super::sink::{Format, Sink, io};
use crate::types::metadata::{ARROW_TYPE, VALID};
use crate::types::{ConversionOptions, Strings};
use crate::{Error, ErrorKind, Result, Table, TableOptions};
use hyperchunk::model::ObjectKind;
use hyperchunk::output::{self, NewFolder};
use hyperchunk::{Dataset, File, Object};
use std::path::{Path, PathBuf};

/// Options of an export.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct ExportOptions {
    /// Conversion options. Text that is not UTF-8 is exported as stored, with a note.
    pub conversion: ConversionOptions,
    /// Replace an existing target.
    pub replace: bool,
    /// Omit datasets that cannot be exported, with a note, instead of failing.
    pub keep_going: bool,
    /// Maximum size of a dataset, in bytes.
    pub most_bytes: Option<u64>,
}

/// The result of an export.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ExportSummary {
    /// The number of groups.
    pub groups: u64,
    /// The number of datasets.
    pub datasets: u64,
    /// The number of committed datatypes.
    pub datatypes: u64,
    /// The number of rows, of all datasets.
    pub rows: u64,
    /// The number of written bytes.
    pub bytes: u64,
    /// Notes for the user.
    pub notes: Vec<String>,
    /// The paths of omitted datasets, with the reasons.
    pub missing: Vec<(String, String)>,
}

/// A planned export.
#[derive(Debug)]
pub struct Export {
    what: ExportTarget,
    options: ExportOptions,
    /// The input file, if it is on this machine.
    input: Option<PathBuf>,
}

#[derive(Debug)]
enum ExportTarget {
    One(Dataset),
    All { source: String, listed: Listing },
    Rows(Table),
}

impl Export {
    /// Plans the export of an object: a dataset becomes one file, a group a folder with all its contents.
    ///
    /// # Errors
    /// Errors of reading; Invalid for a committed datatype.
    pub fn new(object: &Object, options: ExportOptions) -> Result<Self> {
        let what = match object.kind() {
            ObjectKind::Dataset if was_column(object)? => return Self::from_columns(object, options),
            ObjectKind::Dataset => ExportTarget::One(object.dataset()?),
            ObjectKind::Group => {
                let file: &File = object.file();
                let listed = folder::list(file, object, options.keep_going)?;
                let source =
                    file.path().and_then(Path::file_name).map(|name| name.to_string_lossy().into_owned());
                ExportTarget::All { source: source.unwrap_or_default(), listed }
            }
            ObjectKind::Datatype => {
                return Err(Error::invalid("a committed datatype has no values to export"));
            }
        };
        Ok(Self { what, options, input: input(object) })
    }

    /// Plans the export of a group's datasets as the columns of one table.
    ///
    /// # Errors
    /// As [`Table::from_object`].
    pub fn from_columns(object: &Object, options: ExportOptions) -> Result<Self> {
        let table = TableOptions { conversion: options.conversion, ..TableOptions::default() };
        Ok(Self {
            what: ExportTarget::Rows(Table::from_object(object, &table)?),
            options,
            input: input(object),
        })
    }

    /// Returns whether the result is a folder.
    #[must_use]
    pub fn is_folder(&self) -> bool {
        matches!(self.what, ExportTarget::All { .. })
    }

    /// Returns the datasets to export.
    pub fn datasets(&self) -> impl Iterator<Item = &Dataset> {
        let (one, all) = match &self.what {
            ExportTarget::One(dataset) => (Some(dataset), &[][..]),
            ExportTarget::All { listed, .. } => (None, &listed.datasets[..]),
            ExportTarget::Rows(_) => (None, &[][..]),
        };
        one.into_iter().chain(all.iter().flatten())
    }

    /// Returns the total size of the data before compression, in bytes.
    #[must_use]
    pub fn total(&self) -> u64 {
        if let ExportTarget::Rows(table) = &self.what {
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

    /// Writes the file or the folder. `progress` is called after each written batch with its number of bytes;
    /// they add up to about [`Export::total`].
    ///
    /// # Errors
    /// Errors of reading and of the system; Unsupported, with the name of the object, for data that Arrow
    /// cannot represent. On an error, `target` is unchanged.
    pub fn write(&self, target: &Path, format: Format, progress: &dyn Fn(u64)) -> Result<ExportSummary> {
        let mut exported = ExportSummary::default();
        let inputs: Vec<&Path> = self.input.iter().map(PathBuf::as_path).collect();
        if self.is_folder() {
            // A folder that is replaced is checked below.
            output::check(target, true, &inputs)
                .or_else(|error| if target.is_dir() { Ok(()) } else { Err(error) })?;
        } else {
            output::check(target, self.options.replace, &inputs)?;
        }
        match &self.what {
            ExportTarget::One(dataset) => {
                self.dataset(dataset, target, format, self.options.replace, progress, &mut exported)?;
            }
            ExportTarget::All { source, listed } => {
                exported.notes.clone_from(&listed.notes);
                self.folder(source, listed, target, progress, &mut exported)?;
            }
            ExportTarget::Rows(table) => {
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
        listed: &Listing,
        target: &Path,
        progress: &dyn Fn(u64),
        exported: &mut ExportSummary,
    ) -> Result<()> {
        let there = target.symlink_metadata().is_ok();
        let ours = target.join(MANIFEST).is_file();
        let empty = there && std::fs::read_dir(target).is_ok_and(|mut files| files.next().is_none());
        if there && !empty && !(self.options.replace && ours) {
            let message = if self.options.replace {
                "cannot replace the folder: it is not empty and was not written by an earlier export"
            } else {
                "cannot write the folder: it exists already (--overwrite replaces it)"
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
        listed: &Listing,
        folder: &Path,
        progress: &dyn Fn(u64),
        exported: &mut ExportSummary,
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
        exported: &mut ExportSummary,
    ) -> Result<()> {
        if let Some(most) = self.options.most_bytes
            && bytes(dataset) > most
        {
            let message = format!("{} bytes of data exceed the limit of {most}", bytes(dataset));
            let path = dataset.object().path().unwrap_or_default();
            return Err(Error::limit(message).object(path));
        }
        let written = table(dataset, &self.options.conversion, target, format, replace, progress);
        let (rows, size) = match written {
            Err(error)
                if error.kind() == ErrorKind::Conversion
                    && self.options.conversion.strings == Strings::Text =>
            {
                let conversion = ConversionOptions { strings: Strings::Stored, ..self.options.conversion };
                let path = dataset.object().path().unwrap_or_default();
                exported
                    .notes
                    .push(format!("{path}: {}: its strings are exported as stored", error.message()));
                table(dataset, &conversion, target, format, replace, progress)?
            }
            written => written?,
        };
        exported.datasets += 1;
        exported.rows += rows;
        exported.bytes += size;
        Ok(())
    }
}

/// Returns whether attributes of a dataset name the type or the nulls that it had as a column of an imported table.
fn was_column(object: &Object) -> Result<bool> {
    Ok(object.attribute(ARROW_TYPE)?.is_some() || object.attribute(VALID)?.is_some())
}

/// Returns the local file that contains an object.
fn input(object: &Object) -> Option<PathBuf> {
    let file: &File = object.file();
    file.path().filter(|_| !file.is_remote()).map(Path::to_owned)
}

/// Returns the size of a dataset's data in bytes.
fn bytes(dataset: &Dataset) -> u64 {
    let elements = dataset.elements().unwrap_or(u64::MAX);
    elements.saturating_mul(dataset.datatype().size)
}

/// Exports a dataset as one file; returns its number of rows, and the size of the file.
fn table(
    dataset: &Dataset,
    conversion: &ConversionOptions,
    target: &Path,
    format: Format,
    replace: bool,
    progress: &dyn Fn(u64),
) -> Result<(u64, u64)> {
    let table = DatasetTable::new(dataset, conversion)?;
    let mut sink = Sink::create(target, format, table.schema(), replace)?;
    let each = table.bytes().checked_div(table.rows()).unwrap_or(0);
    for rows in table.ranges() {
        let count = rows.end - rows.start;
        sink.write(&table.batch(rows)?)?;
        progress(each.saturating_mul(count));
    }
    Ok((table.rows(), sink.finish()?))
}
