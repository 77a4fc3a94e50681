//! Space that the caller manages: for data in a certain order, or between bytes of another format.

use super::chunks::Data;
use super::dataset::DatasetWriter;
use super::options::{CreateOptions, DatasetOptions};
use super::sink::LocalSink;
use super::tree::{NewLink, NodeId};
use super::writer::Writer;
use crate::write::embedded_format::SecondFormat;
use crate::{Error, ErrorKind, Result};
use hyperchunk_format::model::{Dataspace, Name};
use std::io::IoSlice;
use std::path::Path;
use std::sync::{Arc, PoisonError};

impl Writer {
    /// Reserves bytes of the file for the caller, at a file offset that is a multiple of `alignment`. Returns
    /// their address, which is relative to the end of the user block.
    ///
    /// # Errors
    /// Limit for too many bytes; Invalid if `alignment` is not a power of two, or the file has a journal,
    /// which cannot record the caller's writes.
    pub fn reserve(&self, length: u64, alignment: u64) -> Result<u64> {
        let _in_use = self.0.open()?;
        if self.0.journal.is_some() || !alignment.is_power_of_two() {
            let message =
                "cannot reserve bytes: the file has a journal, or the alignment is not a power of two";
            return Err(self.0.named(Error::invalid(message)));
        }
        self.0.take_aligned(length, alignment).map_err(|error| self.0.named(error))
    }

    /// Continues an unfinished local file, `partial`, whose data have been written before `end`. The caller
    /// declares their addresses with [`DatasetWriter::place_chunk`]. The commit renames the file to `path`.
    ///
    /// # Errors
    /// NotFound or Io if the file cannot be opened; Invalid if `partial` and `path` are in different folders.
    pub fn around(partial: &Path, path: &Path, end: u64, options: &CreateOptions) -> Result<Self> {
        let options = CreateOptions { journal: false, user_block: 0, ..options.clone() };
        let sink = Arc::new(LocalSink::unfinished_at(partial, path)?.synced(options.sync));
        Ok(Self::over(sink, Some(&path.to_string_lossy()), &options, None, end))
    }

    /// Writes parts contiguously to reserved bytes.
    ///
    /// # Errors
    /// The sink's.
    pub fn write_reserved(&self, address: u64, parts: &mut [IoSlice<'_>]) -> Result<()> {
        let _in_use = self.0.open()?;
        let written = self.0.sink.write_parts_at(address, parts);
        written.map_err(|error| self.0.named(error))
    }

    /// Reads reserved bytes.
    ///
    /// # Errors
    /// The sink's.
    pub fn read_reserved(&self, address: u64, buffer: &mut [u8]) -> Result<()> {
        self.0.sink.read_at(address, buffer).map_err(|error| self.0.named(error))
    }

    /// Writes to the user block.
    ///
    /// # Errors
    /// Invalid if the range is outside of the user block; the sink's.
    pub fn write_user_block(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let _in_use = self.0.open()?;
        let end = offset.checked_add(bytes.len() as u64);
        if end.is_none_or(|end| end > self.0.options.user_block) {
            let size = self.0.options.user_block;
            let message = format!("{} bytes at {offset} of a user block of {size} bytes", bytes.len());
            return Err(self.0.named(Error::invalid(message)));
        }
        self.0.file.write_at(offset, bytes).map_err(|error| self.0.named(error))
    }

    /// Creates a dataset. It replaces an existing dataset with the same name, and takes over all links to it
    /// and its attributes.
    ///
    /// # Errors
    /// As [`Writer::create_dataset`]; Invalid if the name belongs to another kind of object; Exists for a
    /// soft or external link.
    pub fn supplant(
        &self,
        parent: NodeId,
        name: &[u8],
        mut options: DatasetOptions,
    ) -> Result<DatasetWriter> {
        let Some(link) = self.find(parent, name)? else { return self.create_dataset(parent, name, options) };
        let NewLink::Hard(old) = link else {
            let message = format!("{} exists", Name::from(name));
            return Err(self.0.named(Error::new(ErrorKind::Exists, message)));
        };
        options.track_order = self.0.tree().node(old)?.track_order;
        self.0.tree().dataset(old)?;
        let made = self.create_dataset(parent, b"", options)?;
        self.0.tree_mut().supplant(old, made.id())?;
        self.0.changed();
        Ok(made)
    }

    /// Adds a second format to the file, from the next commit on. No thread may then write during a commit.
    pub fn set_second_format(&self, format: Arc<dyn SecondFormat>) {
        *self.0.second_format.write().unwrap_or_else(PoisonError::into_inner) = Some(format);
        self.0.changed();
    }
}

impl DatasetWriter {
    /// Declares that an unfiltered chunk is stored in reserved bytes.
    ///
    /// # Errors
    /// Invalid if the dataset is not chunked or has filters, or no chunk begins at `offset`.
    pub fn place_chunk(&self, offset: &[u64], address: u64) -> Result<()> {
        let _in_use = self.file.0.open()?;
        let chunks = self.own_chunks()?;
        if self.is_filtered() {
            return Err(self
                .file
                .0
                .named(Error::invalid("cannot place a chunk of a dataset that has filters")));
        }
        let scaled = self.scaled(chunks, offset)?;
        chunks.place_at(&self.file.0, &scaled, address);
        self.file.0.changed();
        Ok(())
    }

    /// Sets the extent and the maximum extent, regardless of the old ones. Nothing is written or freed.
    ///
    /// # Errors
    /// Invalid if the dataset is not chunked, for another number of dimensions, and for an extent that
    /// exceeds its maximum.
    pub fn redefine(&self, dataspace: Dataspace) -> Result<()> {
        let _in_use = self.file.0.open()?;
        let rank = self.own_chunks()?.dims.len();
        let agrees = matches!(&dataspace, Dataspace::Simple { dims, max }
            if dims.len() == rank && max.len() == rank
                && dims.iter().zip(max).all(|(dim, max)| max.is_none_or(|max| *dim <= max)));
        if !agrees {
            return Err(self.file.0.named(Error::invalid("the extent does not match the dataset")));
        }
        *self.node.dataspace.write().unwrap_or_else(PoisonError::into_inner) = dataspace;
        self.file.0.changed();
        Ok(())
    }

    /// Declares that the contiguous data are stored in reserved bytes.
    ///
    /// # Errors
    /// Invalid if the dataset is not contiguous.
    pub fn place(&self, start: u64) -> Result<()> {
        let _in_use = self.file.0.open()?;
        let Data::Contiguous { address, .. } = &self.node.data else {
            return Err(self.file.0.named(Error::invalid("the dataset is not contiguous")));
        };
        *address.lock().unwrap_or_else(PoisonError::into_inner) = Some(start);
        self.file.0.changed();
        Ok(())
    }
}
