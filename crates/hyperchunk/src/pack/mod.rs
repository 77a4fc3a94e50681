//! Packing: what is in files, in a new file. Laid out anew, chunked anew, compressed anew, several files in one.
//!
//! A pack is **list → plan → make → copy → commit**. The objects of the sources are listed with their links; a plan says for
//! each dataset how it will be stored; groups, links, attributes and datasets are made in a [`Writer`](crate::write::Writer);
//! then data are copied by all threads, chunks that stay as they are without being decoded. References and sequences lead to
//! where their objects lie in the new file. What cannot be copied is an error, before the new file has its name.

pub(crate) mod copy;
mod data;
mod extract;
mod filters;
pub(crate) mod list;
pub(crate) mod make;
mod measure;
pub(crate) mod plan;
pub(crate) mod shape;
pub(crate) mod translate;
pub(crate) mod verify;

pub use extract::{Extracted, Part, extract};
pub use verify::Verified;

use crate::io::RemoteOptions;
use crate::write::{CreateOptions, FileLayout, LocalSink, Sink, Sync, Writer};
use crate::{Error, File, Result};
use hyperchunk_format::encode::Oldest;
use list::Contents;
use plan::Plan;
use std::path::Path;
use std::sync::Arc;

/// A file that is packed.
#[derive(Debug, Clone)]
pub struct Input {
    /// The file.
    pub file: File,
    /// The group of the new file that its root group becomes: names with `/` between them; empty for the root group. Files
    /// that go to the same group are merged.
    pub into: String,
}

/// How files are packed.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct PackOptions {
    /// The oldest release of HDF5 that must be able to read the new file; `None` for the oldest that can.
    pub oldest: Option<Oldest>,
    /// How many threads copy; 0 for as many as there are processors.
    pub threads: usize,
    /// When data must have reached the disk.
    pub sync: Sync,
    /// Whether all structure lies in front, in one piece.
    pub cloud: bool,
    /// Whether a file of the new one's name may be replaced.
    pub replace: bool,
    /// Whether data of other files are stored in the new one: external raw data, and virtual datasets as plain ones.
    pub embed: bool,
    /// How datasets are chunked that no rule names.
    pub chunks: Chunking,
    /// How datasets are chunked: the last rule that names one counts.
    pub chunk_rules: Vec<(String, Chunking)>,
    /// How datasets are compressed that no rule names.
    pub filters: Filtering,
    /// How datasets are compressed: the last rule that names one counts.
    pub filter_rules: Vec<(String, Filtering)>,
    /// How many bytes of data are held at a time, about.
    pub memory: u64,
    /// How many bytes the new file has before its superblock; `None` for those of the source, and as there, if it is one
    /// file and its structure does not lie in front.
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

/// How a dataset is chunked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chunking {
    /// As it is.
    Keep,
    /// In chunks of about a megabyte, if it is not small.
    Auto,
    /// In chunks of this extent, or of the dataset's where that is smaller.
    Shape(Vec<u64>),
    /// In one piece.
    Contiguous,
}

/// How a dataset is compressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Filtering {
    /// As it is.
    Keep,
    /// Not at all.
    None,
    /// By a preset ([`crate::codec::PRESETS`]); if it is not small, and its elements lie where it lies.
    Preset(&'static str),
}

/// What was made.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Packed {
    /// How many groups the sources have.
    pub groups: usize,
    /// How many datasets.
    pub datasets: usize,
    /// How many committed datatypes.
    pub datatypes: usize,
    /// How many attributes.
    pub attributes: u64,
    /// How many chunks were copied without a look at what is in them.
    pub chunks_copied: u64,
    /// How many chunks were decoded and encoded anew, or pieces of data were read and written.
    pub chunks_rewritten: u64,
    /// The size of the new file.
    pub size: u64,
    /// The oldest release of HDF5 that can read it.
    pub oldest: Oldest,
    /// The size of its first page, if all structure lies there.
    pub page: Option<u64>,
    /// What the user should know: what was left out, and what leads to other files.
    pub notes: Vec<String>,
}

/// A pack that is planned.
#[derive(Debug)]
pub struct Packing {
    pub(crate) contents: Contents,
    pub(crate) plans: Vec<Option<Plan>>,
    pub(crate) options: PackOptions,
    pub(crate) oldest: Oldest,
}

impl Packing {
    /// Lists what is in the sources, and plans how it will be stored.
    ///
    /// # Errors
    /// Those of reading the sources; Unsupported for what cannot be copied; Invalid for rules that name no dataset or make no
    /// sense, and for names that come twice.
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

    /// How many bytes of data there are, before compression.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.plans.iter().flatten().fold(0, |sum, plan| sum.saturating_add(plan.bytes))
    }

    /// Makes the new file. `progress` gets how many bytes of [`Packing::total`] were copied, a part at a time.
    ///
    /// # Errors
    /// Those of reading the sources and of writing; then there is no new file.
    pub fn write(&self, path: &Path, progress: &(dyn Fn(u64) + std::marker::Sync)) -> Result<Packed> {
        self.contents.check_not_a_source(path)?;
        let options = self.create_options()?;
        let sink = Arc::new(LocalSink::create(path, options.sync, options.replace, options.locking)?);
        let name = path.to_string_lossy();
        let packed = Writer::create_in(Arc::<LocalSink>::clone(&sink), Some(&name), &options)
            .and_then(|writer| self.fill(&writer, Some(path), progress));
        if packed.is_err() {
            // The first error is the one that counts.
            drop(sink.discard());
        }
        packed
    }

    /// Makes the new file at a URL: an object of a store, sent part by part while it is made, of which nothing is stored
    /// here. There is no object until all of it is sent.
    ///
    /// # Errors
    /// As [`Packing::write`], and [`Writer::create_url`].
    pub fn write_url(
        &self,
        url: &str,
        remote: &RemoteOptions,
        progress: &(dyn Fn(u64) + std::marker::Sync),
    ) -> Result<Packed> {
        let writer = Writer::create_url(url, &self.create_options()?, remote)?;
        let packed = self.fill(&writer, None, progress);
        if packed.is_err() {
            // The first error is the one that counts.
            drop(writer.discard());
        }
        packed
    }

    /// How the new file is made.
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
    /// As [`Packing::write`].
    pub fn write_to(
        &self,
        sink: Arc<dyn Sink>,
        name: Option<&str>,
        progress: &(dyn Fn(u64) + std::marker::Sync),
    ) -> Result<Packed> {
        self.fill(&Writer::create_in(sink, name, &self.create_options()?)?, None, progress)
    }

    /// `path` is what the new file will replace.
    fn fill(
        &self,
        writer: &Writer,
        path: Option<&Path>,
        progress: &(dyn Fn(u64) + std::marker::Sync),
    ) -> Result<Packed> {
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
        Ok(Packed {
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

    /// The size of the user block that the new file gets from its source, if that has one to keep.
    fn user_block(&self) -> Option<u64> {
        if self.options.cloud {
            return None;
        }
        self.contents.user_block()
    }

    fn copy_user_block(&self, writer: &Writer, size: u64) -> Result<()> {
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

    /// Compares the new file with the sources: all links, types, extents and attributes, and the digest of each attribute and
    /// dataset. `progress` is as in [`Packing::write`].
    ///
    /// # Errors
    /// Corrupt with the name of the first object that is not the same; those of reading.
    pub fn verify(&self, new: &File, progress: &(dyn Fn(u64) + std::marker::Sync)) -> Result<Verified> {
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
