//! Bytes placed by the caller: for data in a certain order, or between bytes of another format.

use super::chunks::Data;
use super::dataset::DatasetWriter;
use super::options::{CreateOptions, DatasetOptions};
use super::sink::LocalSink;
use super::tree::{NewLink, NodeId};
use super::writer::Writer;
use crate::write::embedded_format::Companion;
use crate::{Error, ErrorKind, Result};
use hyperchunk_format::model::{Dataspace, Name};
use std::io::IoSlice;
use std::path::Path;
use std::sync::{Arc, PoisonError};

impl Writer {
    /// Reserves bytes of the file for the caller, at a multiple of `alignment` of the file. Returns their
    /// address, which counts from the end of the user block.
    ///
    /// # Errors
    /// Limit if they are too many; Invalid if the file has a journal, which cannot record writes that it
    /// does not see.
    pub fn reserve(&self, length: u64, alignment: u64) -> Result<u64> {
        let _in_use = self.0.open()?;
        if self.0.journal.is_some() || !alignment.is_power_of_two() {
            let message = "bytes of a file with a journal, or an alignment that is no power of two";
            return Err(self.0.named(Error::invalid(message)));
        }
        self.0.take_aligned(length, alignment).map_err(|error| self.0.named(error))
    }

    /// Continues an unfinished local file whose data are already before `end`;
    /// [`DatasetWriter::place_chunk`] declares where. It gets the name `path` at the commit.
    ///
    /// # Errors
    /// NotFound or Io if it does not exist.
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
    /// Invalid if the range is outside it; the sink's.
    pub fn write_user_block(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        let _in_use = self.0.open()?;
        let end = offset.checked_add(bytes.len() as u64);
        if end.is_none_or(|end| end > self.0.options.user_block) {
            let message = format!("{} bytes at {offset} of a user block", bytes.len());
            return Err(self.0.named(Error::invalid(message)));
        }
        self.0.file.write_at(offset, bytes).map_err(|error| self.0.named(error))
    }

    /// Makes a dataset that replaces one of the same name, if there is one, and takes over its links and
    /// attributes.
    ///
    /// # Errors
    /// As [`Writer::create_dataset`]; Invalid if the name belongs to another kind of object.
    pub fn supplant(
        &self,
        parent: NodeId,
        name: &[u8],
        mut options: DatasetOptions,
    ) -> Result<DatasetWriter> {
        let Some(link) = self.find(parent, name)? else { return self.create_dataset(parent, name, options) };
        let NewLink::Hard(old) = link else {
            return Err(self.0.named(Error::new(ErrorKind::Exists, format!("{} exists", Name::from(name)))));
        };
        options.track_order = self.0.tree().node(old)?.track_order;
        self.0.tree().dataset(old)?;
        let made = self.create_dataset(parent, b"", options)?;
        self.0.tree_mut().supplant(old, made.id())?;
        self.0.changed();
        Ok(made)
    }

    /// Adds another format to the file, from the next commit on. Nothing may be written during a commit.
    pub fn accompany(&self, companion: Arc<dyn Companion>) {
        *self.0.companion.write().unwrap_or_else(PoisonError::into_inner) = Some(companion);
        self.0.changed();
    }
}

impl DatasetWriter {
    /// Declares that a chunk is stored in reserved bytes, unfiltered.
    ///
    /// # Errors
    /// Invalid if the dataset has no chunks or has filters, or none begins there.
    pub fn place_chunk(&self, offset: &[u64], address: u64) -> Result<()> {
        let _in_use = self.file.0.open()?;
        let chunks = self.own_chunks()?;
        if self.is_filtered() {
            return Err(self
                .file
                .0
                .named(Error::invalid("chunks that go through filters have no known size")));
        }
        let scaled = self.scaled(chunks, offset)?;
        chunks.place_at(&self.file.0, &scaled, address);
        self.file.0.changed();
        Ok(())
    }

    /// Sets the extent and its bounds, regardless of the old ones. Nothing is written or freed.
    ///
    /// # Errors
    /// Invalid if the dataset has no chunks, or has another number of dimensions.
    pub fn redefine(&self, dataspace: Dataspace) -> Result<()> {
        let _in_use = self.file.0.open()?;
        let rank = self.own_chunks()?.dims.len();
        let agrees = matches!(&dataspace, Dataspace::Simple { dims, max }
            if dims.len() == rank && max.len() == rank
                && dims.iter().zip(max).all(|(dim, max)| max.is_none_or(|max| *dim <= max)));
        if !agrees {
            return Err(self.file.0.named(Error::invalid("an extent that the dataset cannot have")));
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
            return Err(self.file.0.named(Error::invalid("the dataset is not stored in one piece")));
        };
        *address.lock().unwrap_or_else(PoisonError::into_inner) = Some(start);
        self.file.0.changed();
        Ok(())
    }
}
