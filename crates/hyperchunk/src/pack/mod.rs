//! Packing: copies one or several files to a new file, with another layout, other chunks or other
//! compression.
//!
//! The steps are **list → plan → make → copy → commit**. The objects of the sources are listed with their
//! links. A plan defines for each dataset how it will be stored. Groups, links, attributes and datasets are
//! created in a [`Writer`](crate::write::Writer). Then all threads copy data; chunks that do not change are
//! not decoded. References, and elements of variable length, get the new addresses of what they point to.
//! Content that cannot be copied is an error, except a user block, which is noted; after an error there is no
//! new file.

pub(crate) mod copy;
mod data;
mod extract;
mod filters;
mod in_place;
pub(crate) mod list;
mod live;
pub(crate) mod make;
mod measure;
mod objects;
pub(crate) mod plan;
pub(crate) mod shape;
pub(crate) mod translate;
pub(crate) mod verify;

pub use extract::{ExtractReport, Part, extract};
pub use in_place::pack_in_place;
pub use live::{FindInputs, LiveInput, set_find_inputs};
pub use objects::{ObjectsReport, copy_object};
pub use verify::VerifyReport;

use crate::io::RemoteOptions;
use crate::write::{CreateOptions, FileLayout, LocalSink, Sink, Sync, Writer};
use crate::{Error, File, Result};
use hyperchunk_format::encode::LibVersion;
use list::Contents;
use plan::Plan;
use std::path::Path;
use std::sync::Arc;

/// A file to be packed.
#[derive(Debug, Clone)]
pub struct Input {
    /// The file.
    pub file: File,
    /// Path of the group in the new file to which the file's root group is copied; empty for the root group.
    /// Files with the same path are merged.
    pub into: String,
}

/// Options of packing.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PackOptions {
    /// Oldest release of HDF5 that must be able to read the new file; `None` for the oldest that can.
    pub oldest: Option<LibVersion>,
    /// Number of threads that copy; 0 for the number of processors.
    pub threads: usize,
    /// When data are synced to disk.
    pub sync: Sync,
    /// True to store all structure contiguously at the start of the file.
    pub cloud: bool,
    /// True if an existing file may be replaced.
    pub replace: bool,
    /// True to copy the data of other files into the new one: external raw data, and the values of virtual
    /// datasets, which become ordinary datasets. A virtual dataset that lacks a source is an error.
    pub embed: bool,
    /// Chunking of datasets without a rule.
    pub chunks: Chunking,
    /// Chunking by dataset path. The last rule for a dataset applies.
    pub chunk_rules: Vec<(String, Chunking)>,
    /// Compression of datasets without a rule.
    pub filters: Filtering,
    /// Compression by dataset path. The last rule for a dataset applies.
    pub filter_rules: Vec<(String, Filtering)>,
    /// Approximate maximum number of bytes of data in memory at a time.
    pub memory: u64,
    /// Size of the new file's user block in bytes; `None` to copy the source's user block, if there is one
    /// source and `cloud` is off.
    pub user_block: Option<u64>,
    /// As [`CreateOptions::lasting`].
    pub lasting: bool,
    /// As [`CreateOptions::alignment`].
    pub alignment: u64,
}

impl Default for PackOptions {
    fn default() -> Self {
        Self {
            oldest: None,
            threads: 0,
            sync: Sync::Commit,
            cloud: false,
            replace: false,
            embed: false,
            chunks: Chunking::Keep,
            chunk_rules: Vec::new(),
            filters: Filtering::Keep,
            filter_rules: Vec::new(),
            memory: 64 << 20,
            user_block: None,
            lasting: false,
            alignment: 1,
        }
    }
}

/// Chunking of a dataset.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chunking {
    /// Unchanged.
    Keep,
    /// Chunks of at most 1 MiB; a small dataset keeps its chunks, if it has any.
    Auto,
    /// Chunks of this extent, limited to the dataset's maximum extent.
    Shape(Vec<u64>),
    /// Contiguous storage.
    Contiguous,
}

/// Compression of a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filtering {
    /// Unchanged.
    Keep,
    /// Uncompressed.
    None,
    /// A preset ([`crate::codec::PRESETS`]). As the default for all datasets, it leaves out small ones that are not
    /// chunked, and elements that are references or have variable length. A rule that names a dataset also applies to
    /// a small one, and is an error for such elements.
    Preset(&'static str),
}

/// Result of packing.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct PackReport {
    /// Number of groups in the sources.
    pub groups: usize,
    /// Number of datasets.
    pub datasets: usize,
    /// Number of committed datatypes.
    pub datatypes: usize,
    /// Number of attributes.
    pub attributes: u64,
    /// Number of chunks that were copied without decoding.
    pub chunks_copied: u64,
    /// Number of chunks that were decoded and encoded again, plus the number of selections whose elements
    /// were read and written.
    pub chunks_rewritten: u64,
    /// Size of the new file in bytes.
    pub size: u64,
    /// Oldest release of HDF5 that can read the new file.
    pub oldest: LibVersion,
    /// Size of the first page, if it holds all structure.
    pub page: Option<u64>,
    /// Notes for the user: omitted parts, references to other files, and live datasets whose input paths lead
    /// to other objects in the new file.
    pub notes: Vec<String>,
}

/// Plan of a packing: the objects of the sources, and how each dataset will be stored.
#[derive(Debug)]
pub struct PackPlan {
    #[doc(hidden)]
    pub contents: Contents,
    #[doc(hidden)]
    pub plans: Vec<Option<Plan>>,
    #[doc(hidden)]
    pub options: PackOptions,
    #[doc(hidden)]
    pub oldest: LibVersion,
}

impl PackPlan {
    /// Lists the objects in the sources, and plans how they will be stored.
    ///
    /// # Errors
    /// The errors of reading the sources; Unsupported for content that cannot be copied; Invalid for an empty
    /// list of sources, and for rules whose dataset is missing or which do not fit their dataset; NotFound for a
    /// virtual dataset that lacks a source, if its values are to be copied.
    pub fn new(inputs: Vec<Input>, options: PackOptions) -> Result<Self> {
        if inputs.is_empty() {
            return Err(Error::invalid("nothing to pack: expected at least one file"));
        }
        let contents = Contents::list(inputs)?;
        let (plans, needed) = plan::plan(&contents, &options)?;
        let oldest = match options.oldest {
            Some(oldest) => oldest,
            None => needed,
        };
        Ok(Self { contents, plans, options, oldest })
    }

    /// Returns the size of all data before compression, in bytes.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.plans.iter().flatten().fold(0, |sum, plan| sum.saturating_add(plan.bytes))
    }

    /// Writes the new file. `progress` is called with the number of bytes, of [`PackPlan::total`], that were
    /// copied since the last call.
    ///
    /// # Errors
    /// The errors of reading the sources and of writing; then no new file is created.
    pub fn write(&self, path: &Path, progress: &(dyn Fn(u64) + std::marker::Sync)) -> Result<PackReport> {
        self.contents.check_not_a_source(path)?;
        let options = self.create_options()?;
        let sink = Arc::new(LocalSink::create(path, options.sync, options.replace, options.locking)?);
        let name = path.to_string_lossy();
        let packed = Writer::create_in(Arc::<LocalSink>::clone(&sink), Some(&name), &options)
            .and_then(|writer| self.fill(&writer, Some(path), progress));
        if packed.is_err() {
            // An error of `discard` is ignored: the first error is reported.
            drop(sink.discard());
        }
        packed
    }

    /// Writes the new file as an object of an object store, by multipart upload and without a local copy. The
    /// object exists once the upload is complete.
    ///
    /// # Errors
    /// As [`PackPlan::write`], and [`Writer::create_url`].
    pub fn write_url(
        &self,
        url: &str,
        remote: &RemoteOptions,
        progress: &(dyn Fn(u64) + std::marker::Sync),
    ) -> Result<PackReport> {
        let writer = Writer::create_url(url, &self.create_options()?, remote)?;
        let packed = self.fill(&writer, None, progress);
        if packed.is_err() {
            // An error of `discard` is ignored: the first error is reported.
            drop(writer.discard());
        }
        packed
    }

    /// Returns the options of the new file.
    fn create_options(&self) -> Result<CreateOptions> {
        let mut options = CreateOptions::default();
        options.oldest = self.oldest;
        options.threads = self.options.threads;
        options.sync = self.options.sync;
        options.replace = self.options.replace;
        options.lasting = self.options.lasting;
        options.alignment = self.options.alignment;
        options.user_block = self.options.user_block.unwrap_or_else(|| self.user_block().unwrap_or(0));
        if self.options.cloud {
            options.layout = FileLayout::InFront { page: measure::page(self, &options)? };
        }
        Ok(options)
    }

    /// Writes the new file to a sink.
    ///
    /// # Errors
    /// As [`PackPlan::write`].
    pub fn write_to(
        &self,
        sink: Arc<dyn Sink>,
        name: Option<&str>,
        progress: &(dyn Fn(u64) + std::marker::Sync),
    ) -> Result<PackReport> {
        self.fill(&Writer::create_in(sink, name, &self.create_options()?)?, None, progress)
    }

    /// Writes objects and data, and closes the file. `path` is the new file's final path.
    fn fill(
        &self,
        writer: &Writer,
        path: Option<&Path>,
        progress: &(dyn Fn(u64) + std::marker::Sync),
    ) -> Result<PackReport> {
        let made = make::make(self, writer)?;
        if self.options.user_block.is_none()
            && let Some(size) = self.user_block()
        {
            self.copy_user_block(writer, size)?;
        }
        let copied = copy::copy(self, writer, &made, progress)?;
        self.contents.check_unchanged()?;
        path.map_or(Ok(()), |path| self.contents.check_unread(path))?;
        let live_notes = if self.moves_paths() {
            live::notes(self, writer, &made, &|item| {
                let moved = self.contents.moved(item.input, &item.path);
                Ok(moved.unwrap_or_else(|| item.path.clone()))
            })?
        } else {
            Vec::new()
        };
        writer.close()?;
        let count = |kind| self.contents.items.iter().filter(|item| item.object.kind() == kind).count();
        use hyperchunk_format::model::ObjectKind;
        Ok(PackReport {
            groups: count(ObjectKind::Group),
            datasets: count(ObjectKind::Dataset),
            datatypes: count(ObjectKind::Datatype),
            attributes: made.attributes,
            chunks_copied: copied.copied_chunks,
            chunks_rewritten: copied.rewritten,
            size: writer.size(),
            oldest: self.oldest,
            page: match writer.options().layout {
                FileLayout::InFront { page } => Some(page),
                FileLayout::AtEnd => None,
            },
            notes: {
                let user_block = self.options.user_block.or_else(|| self.user_block()).is_some();
                let mut notes = self.contents.notes(&self.options, user_block);
                notes.extend(live_notes);
                notes
            },
        })
    }

    /// Returns whether a path may lead to another object in the new file than in its source.
    fn moves_paths(&self) -> bool {
        !matches!(&self.contents.inputs[..], [one] if one.into.trim_matches('/').is_empty())
    }

    /// Returns the size of the source's user block; `None` if there is none to copy.
    pub(crate) fn user_block(&self) -> Option<u64> {
        if self.options.cloud {
            return None;
        }
        self.contents.user_block()
    }

    pub(crate) fn copy_user_block(&self, writer: &Writer, size: u64) -> Result<()> {
        let Some(input) = self.contents.inputs.first() else { return Ok(()) };
        let mut buffer = vec![0; 1 << 16];
        let mut at = 0;
        while at < size {
            let step = usize::try_from(size - at).unwrap_or(usize::MAX).min(buffer.len());
            let Some(part) = buffer.get_mut(..step) else { break };
            input.file.0.source.read_at(at, part)?;
            if part.iter().any(|byte| *byte != 0) {
                writer.write_user_block(at, part)?;
            }
            at += step as u64;
        }
        Ok(())
    }

    /// Compares the new file with the sources: all links, types, extents and attributes, the digest of each
    /// attribute and dataset, and the inputs of live datasets. `progress` is as in [`PackPlan::write`].
    ///
    /// # Errors
    /// Corrupt with the name of an object that differs; the errors of reading.
    pub fn verify(&self, new: &File, progress: &(dyn Fn(u64) + std::marker::Sync)) -> Result<VerifyReport> {
        verify::verify(self, new, progress)
    }

    fn threads(&self) -> usize {
        match self.options.threads {
            0 => std::thread::available_parallelism().map_or(1, usize::from),
            threads => threads,
        }
    }
}

#[cfg(test)]
mod tests;
#[cfg(test)]
mod virtual_tests;
