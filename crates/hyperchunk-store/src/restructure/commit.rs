//! Commit of a layout: it becomes an HDF5 file with the dataset at its path.

use super::boxes::Grid;
use super::job::{DATA_OFFSET, Files, Job, read_request};
use super::order::Slots;
use super::{CONTENTS, LAYOUT, PARTIAL, names};
use hyperchunk::internal::contents;
use hyperchunk::internal::pack::needed;
use hyperchunk::internal::positioned::read_exact_at;
use hyperchunk::output::{self, Folder};
use hyperchunk::write::{
    CreateOptions, DatasetOptions, DatasetWriter, DirectChunk, NewLayout, NodeId, Sync, Writer,
};
use hyperchunk::{Error, ErrorKind, Result};
use hyperchunk_format::encode::LibVersion;
use hyperchunk_format::model::{AllocationTime, Class, Dataspace};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Number of bytes of chunks copied at a time.
const BATCH_BYTES: u64 = 4 << 20;

/// Result of a commit.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct CommitReport {
    /// Path of the layout.
    pub path: PathBuf,
    /// True if this call completed it; false if it was complete before.
    pub now: bool,
    /// Attributes that refer to other objects of the source, and were left out.
    pub left_out: Vec<String>,
}

impl Job {
    /// Writes the layout's file, once all tasks are done. Any process may call it, also repeatedly.
    ///
    /// # Errors
    /// Invalid if tasks are not done; Changed if the source was written to; errors of writing.
    pub fn commit(&self, sync: Sync) -> Result<CommitReport> {
        let before = || Ok(CommitReport { path: self.result(), now: false, left_out: Vec::new() });
        if self.result().exists() {
            self.keep(sync)?;
            if self.output.is_none() {
                self.settle(&self.result());
            }
            self.supersede()?;
            return before();
        }
        // For a separate output file, durability is up to the user; a layout next to the source is
        // used by all readers of the source.
        let unsynced = names::unsynced(&self.folder).filter(|_| self.output.is_none() && sync == Sync::Never);
        let sync = if unsynced.is_none() && self.output.is_none() && sync == Sync::Never {
            Sync::Commit
        } else {
            sync
        };
        let layout = unsynced.unwrap_or_else(|| self.folder.join(LAYOUT));
        let mut left_out = Vec::new();
        let files = if layout.exists() { None } else { self.files()? };
        if let Some(files) = files {
            for pass in 0..self.plan.passes.len() {
                let missing = self.missing(&files, pass)?;
                if missing > 0 {
                    let message = format!("{missing} of {} tasks are not done", self.plan.tasks());
                    return Err(Error::invalid(message).file(self.folder.display()));
                }
            }
            self.source.check_unchanged()?;
            let made = if self.is_encoded() {
                self.gather(&files, &layout, sync)
            } else {
                self.surround(&layout, sync)
            };
            match made {
                Ok(names) => left_out = names,
                // Another process completed it first.
                Err(_) if self.is_committed() => return before(),
                Err(error) => return Err(error),
            }
        }
        match &self.output {
            None => {
                self.tighten(&layout);
                self.settle(&layout);
                self.supersede()?;
            }
            Some(output) => {
                match self.give(&layout, output) {
                    // Another process of the same job completed it first.
                    Err(error) if error.kind() == io::ErrorKind::NotFound && output.exists() => {
                        return before();
                    }
                    renamed => renamed.map_err(|error| self.refused("rename", output, &error))?,
                }
                drop(fs::remove_dir_all(&self.folder));
            }
        }
        Ok(CommitReport { path: self.result(), now: true, left_out })
    }

    /// Finishes the folder of a layout that has its final name: stores the digest of the source, and
    /// deletes leftovers. A process that was killed may have left this undone.
    fn settle(&self, layout: &Path) {
        if !self.folder.join(CONTENTS).exists() {
            self.note_contents();
        }
        names::tidy(&self.folder, layout);
    }

    /// Stores the digest of the source's contents, so that the layout is also used for copies of the
    /// source. Without it, the layout is used for this file alone.
    fn note_contents(&self) {
        let source = &self.source;
        if source.dataset.store().is_some() {
            return;
        }
        if let Ok(Some((_, digest))) = contents::of(&**source.file.source())
            && source.check_unchanged().is_ok()
        {
            let path = self.folder.join(CONTENTS);
            drop(output::write(&path, digest.as_bytes(), true).map(|()| self.tighten(&path)));
        }
    }

    /// Renames the layout to the requested output, unless that exists.
    fn give(&self, layout: &Path, output: &Path) -> io::Result<()> {
        let ((from, unfinished), (to, name)) = (Folder::open_parent(layout)?, Folder::open_parent(output)?);
        from.rename(&unfinished, (&to, &name), false)
    }

    /// Deletes the other complete layouts of the dataset, if requested. Readers of one continue
    /// with another, or with the dataset.
    fn supersede(&self) -> Result<()> {
        let all = self.folder.parent().filter(|_| !self.request.keep && self.output.is_none());
        for entry in all.and_then(|all| fs::read_dir(all).ok()).into_iter().flatten().flatten() {
            let folder = entry.path();
            let other = folder != self.folder && names::whole(&folder).is_some();
            if other && read_request(&folder).is_ok_and(|(found, _)| found.dataset == self.request.dataset) {
                match fs::remove_dir_all(&folder) {
                    // Another process deleted it first.
                    Err(_) if !folder.exists() => {}
                    removed => removed.map_err(|error| self.refused("delete", &folder, &error))?,
                }
            }
        }
        Ok(())
    }

    /// Syncs a layout that was committed without syncing, and gives it its final name.
    fn keep(&self, sync: Sync) -> Result<()> {
        let unsynced = names::unsynced(&self.folder).filter(|path| sync != Sync::Never && path.exists());
        let Some(unsynced) = unsynced.filter(|_| self.output.is_none()) else { return Ok(()) };
        let layout = self.folder.join(LAYOUT);
        // Windows syncs only files that are open for writing.
        let options = fs::File::options().read(true).write(cfg!(windows)).to_owned();
        let kept = options
            .open(&unsynced)
            .and_then(|file| file.sync_all())
            .and_then(|()| fs::rename(&unsynced, &layout));
        match kept {
            // Another process renamed it first.
            Err(_) if layout.exists() => Ok(()),
            kept => kept.map_err(|error| self.refused("sync", &unsynced, &error)),
        }
    }

    /// Writes the structure around chunks that are already in place.
    fn surround(&self, layout: &Path, sync: Sync) -> Result<Vec<String>> {
        let end = DATA_OFFSET + self.chunks.len() * self.chunk_bytes;
        let writer = Writer::around(&self.folder.join(PARTIAL), layout, end, &self.options(sync)?)?;
        let (dataset, left_out) = self.make(&writer)?;
        for number in 0..self.chunks.len() {
            let place = self.chunks.place(number);
            let slot = self.slots.slot(&self.chunks, &place);
            dataset.place_chunk(&self.chunks.slab(&place).start, DATA_OFFSET + slot * self.chunk_bytes)?;
        }
        writer.close()?;
        Ok(left_out)
    }

    /// Copies filtered chunks to one file, in order.
    fn gather(&self, files: &Files, layout: &Path, sync: Sync) -> Result<Vec<String>> {
        // A unique name, since other processes may do the same.
        let own = self.folder.join(format!("{PARTIAL}.{}", crate::WriterId::new()));
        let writer = Writer::create(&own, &self.options(sync)?)?;
        let made = self.make(&writer).and_then(|(dataset, left_out)| {
            self.copy(files, &dataset)?;
            writer.close()?;
            Ok(left_out)
        });
        let left_out = made.inspect_err(|_| drop(writer.discard()))?;
        fs::rename(&own, layout).map_err(|error| self.refused("rename", layout, &error))?;
        Ok(left_out)
    }

    fn copy(&self, files: &Files, dataset: &DatasetWriter) -> Result<()> {
        let mut waiting: Vec<(Vec<u64>, Vec<u8>, u32)> = Vec::new();
        let mut bytes = 0;
        for (slot, number) in (0..).zip(in_order(&self.slots, &self.chunks)) {
            let place = self.chunks.place(number);
            let (length, mask) = self.entry(files, slot)?;
            let mut chunk = hyperchunk::room::zeros(self.narrow(length)?)?;
            read_exact_at(files.encoded()?, slot * self.chunk_bytes, &mut chunk).map_err(|error| {
                Error::new(ErrorKind::Io, format!("cannot read a chunk: {error}")).at(slot * self.chunk_bytes)
            })?;
            bytes += length;
            waiting.push((self.chunks.slab(&place).start, chunk, mask));
            if bytes >= BATCH_BYTES {
                flush(dataset, &mut waiting)?;
                bytes = 0;
            }
        }
        flush(dataset, &mut waiting)
    }

    fn options(&self, sync: Sync) -> Result<CreateOptions> {
        let oldest = needed(self.source.dataset.datatype())?.max(LibVersion::V110);
        let mut options = CreateOptions::default();
        (options.oldest, options.newest) = (oldest, LibVersion::V200);
        (options.sync, options.replace) = (sync, true);
        // An interrupted file is written again, so it needs no journal.
        options.journal = false;
        Ok(options)
    }

    /// Creates the dataset and its parent groups.
    fn make(&self, writer: &Writer) -> Result<(DatasetWriter, Vec<String>)> {
        let source = &self.source.dataset;
        let dims = source.dims().to_vec();
        let max = dims.iter().copied().map(Some).collect();
        let mut options = DatasetOptions::new(source.datatype().clone(), Dataspace::Simple { dims, max })
            .with_layout(NewLayout::Chunked(self.chunks.cell().to_vec()))
            .with_pipeline(self.pipeline.clone());
        options.fill = source.fill().clone();
        options.fill.allocation = AllocationTime::Default;
        let mut group = NodeId::ROOT;
        let mut names = self.request.dataset.split('/').filter(|name| !name.is_empty()).peekable();
        let dataset = loop {
            let name = names.next().ok_or_else(|| Error::invalid("a dataset without a name"))?;
            if names.peek().is_none() {
                break writer.create_dataset(group, name.as_bytes(), options)?;
            }
            group = writer.create_group(group, name.as_bytes(), false)?;
        };
        let mut left_out = Vec::new();
        for (name, attribute) in source.object().each_attribute()? {
            let mut attribute = attribute?;
            let leads = attribute.datatype.any(&mut |part| {
                matches!(part.class, Class::Reference(_) | Class::Vlen { .. } | Class::VlenString { .. })
            });
            if leads {
                left_out.push(name.to_string());
                continue;
            }
            attribute.committed = None;
            attribute.creation_order = None;
            writer.set_attribute(dataset.id(), attribute)?;
        }
        Ok((dataset, left_out))
    }
}

/// Returns the chunks' numbers in the order of the file.
fn in_order(slots: &Slots, chunks: &Grid) -> Vec<u64> {
    let mut all: Vec<(u64, u64)> =
        (0..chunks.len()).map(|number| (slots.slot(chunks, &chunks.place(number)), number)).collect();
    all.sort_unstable();
    all.into_iter().map(|(_, number)| number).collect()
}

fn flush(dataset: &DatasetWriter, waiting: &mut Vec<(Vec<u64>, Vec<u8>, u32)>) -> Result<()> {
    let all: Vec<DirectChunk<'_>> =
        waiting.iter().map(|(offset, bytes, mask)| (&**offset, &**bytes, *mask)).collect();
    if !all.is_empty() {
        dataset.write_chunks(&all)?;
    }
    waiting.clear();
    Ok(())
}
