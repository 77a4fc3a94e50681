//! Packing: copies one or several files into a new one, with another layout, other chunks or other
//! compression.
//!
//! A pack is **list → plan → make → copy → commit**. The objects of the sources are listed with their
//! links. A plan says for each dataset how it will be stored. Groups, links, attributes and datasets are
//! made in a [`Writer`](crate::write::Writer). Then all threads copy data; chunks that do not change are
//! not decoded. References and sequences are rewritten to the new addresses of their objects. Anything that
//! cannot be copied is an error, before the new file has its name.

pub(crate) mod copy;
mod data;
mod extract;
mod filters;
mod in_place;
pub(crate) mod list;
pub(crate) mod make;
mod measure;
mod objects;
pub(crate) mod plan;
pub(crate) mod shape;
pub(crate) mod translate;
pub(crate) mod verify;

pub use extract::{ExtractReport, Part, extract};
pub use in_place::pack_in_place;
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
    /// The group of the new file that its root group becomes: names with `/` between them; empty for the
    /// root group. Files that go to the same group are merged.
    pub into: String,
}

/// Options of packing.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PackOptions {
    /// The oldest release of HDF5 that must be able to read the new file; `None` for the oldest that can.
    pub oldest: Option<LibVersion>,
    /// Number of threads that copy; 0 for the number of processors.
    pub threads: usize,
    /// Time at which data must have reached the disk.
    pub sync: Sync,
    /// True to put all structure at the start of the file, in one piece.
    pub cloud: bool,
    /// True if an existing file may be replaced.
    pub replace: bool,
    /// True to store data of other files in the new one: external raw data, and virtual datasets as plain
    /// ones.
    pub embed: bool,
    /// Chunking of datasets that no rule names.
    pub chunks: Chunking,
    /// Chunking by dataset: the last rule that names a dataset counts.
    pub chunk_rules: Vec<(String, Chunking)>,
    /// Compression of datasets that no rule names.
    pub filters: Filtering,
    /// Compression by dataset: the last rule that names a dataset counts.
    pub filter_rules: Vec<(String, Filtering)>,
    /// Approximate number of bytes of data held in memory at a time.
    pub memory: u64,
    /// Number of bytes before the new file's superblock; `None` to copy the source's user block, if there
    /// is one source and `cloud` is off.
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
    /// Chunks of about a megabyte, if the dataset is not small.
    Auto,
    /// Chunks of this extent, or of the dataset's where that is smaller.
    Shape(Vec<u64>),
    /// Contiguous.
    Contiguous,
}

/// Compression of a dataset.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filtering {
    /// Unchanged.
    Keep,
    /// Uncompressed.
    None,
    /// By a preset ([`crate::codec::PRESETS`]), if the dataset is not small and its elements are stored in
    /// it, not in the heap.
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
    /// Number of chunks that were decoded and encoded again, and of pieces of data that were read and
    /// written.
    pub chunks_rewritten: u64,
    /// The size of the new file, in bytes.
    pub size: u64,
    /// The oldest release of HDF5 that can read it.
    pub oldest: LibVersion,
    /// The size of its first page, if that holds all structure.
    pub page: Option<u64>,
    /// Notes for the user: omitted parts, and references to other files.
    pub notes: Vec<String>,
}

/// A planned pack.
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
    /// The errors of reading the sources; Unsupported for content that cannot be copied; Invalid for rules
    /// that name no dataset or make no sense, and for names that come twice.
    pub fn new(inputs: Vec<Input>, options: PackOptions) -> Result<Self> {
        if inputs.is_empty() {
            return Err(Error::invalid("nothing to pack"));
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

    /// Makes the new file. `progress` gets the number of bytes of [`PackPlan::total`] that were copied, a
    /// part at a time.
    ///
    /// # Errors
    /// The errors of reading the sources and of writing; then there is no new file.
    pub fn write(&self, path: &Path, progress: &(dyn Fn(u64) + std::marker::Sync)) -> Result<PackReport> {
        self.contents.check_not_a_source(path)?;
        let options = self.create_options()?;
        let sink = Arc::new(LocalSink::create(path, options.sync, options.replace, options.locking)?);
        let name = path.to_string_lossy();
        let packed = Writer::create_in(Arc::<LocalSink>::clone(&sink), Some(&name), &options)
            .and_then(|writer| self.fill(&writer, Some(path), progress));
        if packed.is_err() {
            // The first error is the one to report.
            drop(sink.discard());
        }
        packed
    }

    /// Makes the new file at a URL: an object of a store, sent part by part while it is made, without a
    /// local copy. The object appears when all of it is sent.
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
            // The first error is the one to report.
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

    /// Makes the new file in a sink.
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

    /// `path` is what the new file will replace.
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
        writer.close()?;
        let count = |kind| self.contents.items.iter().filter(|item| item.object.kind() == kind).count();
        use hyperchunk_format::model::ObjectKind;
        Ok(PackReport {
            groups: count(ObjectKind::Group),
            datasets: count(ObjectKind::Dataset),
            datatypes: count(ObjectKind::Datatype),
            attributes: made.attributes,
            chunks_copied: copied.as_they_are,
            chunks_rewritten: copied.anew,
            size: writer.size(),
            oldest: self.oldest,
            page: match writer.options().layout {
                FileLayout::InFront { page } => Some(page),
                FileLayout::AtEnd => None,
            },
            notes: self
                .contents
                .notes(&self.options, self.options.user_block.or_else(|| self.user_block()).is_some()),
        })
    }

    /// Returns the size of the user block to copy from the source, if there is one to keep.
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

    /// Compares the new file with the sources: all links, types, extents and attributes, and the digest of
    /// each attribute and dataset. `progress` is as in [`PackPlan::write`].
    ///
    /// # Errors
    /// Corrupt with the name of the first object that differs; the errors of reading.
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
