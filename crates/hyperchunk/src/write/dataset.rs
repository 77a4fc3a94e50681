//! Handle of a dataset that is open for writing.

use super::chunk_key::Key;
use super::chunks::{Chunks, Data, Elements, NewChunk};
use super::journal::Entry;
use super::options::{DatasetOptions, NewLayout};
use super::tree::{DatasetNode, NodeId};
use super::writer::Writer;
use super::{committed_places, message_limits};
use crate::{Error, ErrorKind, Result, live, room};
use hyperchunk_format::convert::Conversion;
use hyperchunk_format::encode::LibVersion;
use hyperchunk_format::model::{
    AllocationTime, Dataspace, Datatype, FillTime, FillValue, FillWhen, Pipeline,
};
use hyperchunk_format::select::Selection;
use std::sync::{Arc, PoisonError};

/// A dataset of a file that is open for writing. Cheap to clone; may be used by several threads at once.
#[derive(Debug, Clone)]
pub struct DatasetWriter {
    pub(super) file: Writer,
    pub(super) id: NodeId,
    pub(super) node: Arc<DatasetNode>,
}

/// Number of bytes that one thread copies at a time.
const COPY_BYTES: usize = 16 << 20;

/// A range of a file for [`DatasetWriter::copy_parts`].
#[derive(Debug, Clone, Copy)]
pub struct FilePart<'a> {
    /// Byte offset in the dataset's data to which the range is copied.
    pub at: u64,
    /// The file.
    pub file: &'a std::fs::File,
    /// Offset of the range in the file.
    pub from: u64,
    /// Length of the range in bytes.
    pub length: u64,
}

/// A chunk for [`DatasetWriter::write_chunks`]: offset of its first element, stored bytes, and filter mask.
pub type DirectChunk<'a> = (&'a [u64], &'a [u8], u32);

/// Chunks for [`DatasetWriter::write_chunk_run`].
#[derive(Debug, Clone, Copy)]
pub struct ChunkRun<'a> {
    /// Offsets of the chunks' first elements, each with one number for each dimension.
    pub offsets: &'a [u64],
    /// Stored bytes of all chunks, contiguous.
    pub data: &'a [u8],
    /// Size of each chunk in bytes; `None` if all sizes are equal.
    pub sizes: Option<&'a [u64]>,
    /// Filter mask of each chunk; `None` if all filters were applied.
    pub masks: Option<&'a [u32]>,
}

impl DatasetOptions {
    /// Creates options for a contiguous dataset without filters.
    #[must_use]
    pub fn new(datatype: Datatype, dataspace: Dataspace) -> Self {
        Self {
            datatype,
            committed: None,
            dataspace,
            layout: NewLayout::Contiguous,
            pipeline: Pipeline::new(),
            fill: FillValue {
                value: FillWhen::Default,
                allocation: AllocationTime::Default,
                time: FillTime::IfSet,
            },
            track_order: false,
        }
    }

    /// Sets the layout.
    #[must_use]
    pub fn with_layout(self, layout: NewLayout) -> Self {
        Self { layout, ..self }
    }

    /// Sets the filters.
    #[must_use]
    pub fn with_pipeline(self, pipeline: Pipeline) -> Self {
        Self { pipeline, ..self }
    }
}

impl DatasetWriter {
    /// Returns the object number.
    #[must_use]
    pub fn id(&self) -> NodeId {
        self.id
    }

    /// Returns the file.
    #[must_use]
    pub fn file(&self) -> &Writer {
        &self.file
    }

    /// Returns the type of the elements.
    #[must_use]
    pub fn datatype(&self) -> &Datatype {
        &self.node.datatype
    }

    /// Returns the current extent.
    #[must_use]
    pub fn dims(&self) -> Vec<u64> {
        self.node.dims()
    }

    /// Returns the extent of the chunks; `None` if the dataset is not chunked.
    #[must_use]
    pub fn chunk(&self) -> Option<&[u64]> {
        match &self.node.data {
            Data::Chunked(chunks) => Some(&chunks.dims),
            _ => None,
        }
    }

    /// Returns whether the dataset has filters.
    #[must_use]
    pub fn is_filtered(&self) -> bool {
        !self.node.pipeline.is_empty()
    }

    fn named(&self, error: Error) -> Error {
        self.file.0.named(error)
    }

    /// Writes the selected elements. `data` has them contiguously, in the dataset's type.
    ///
    /// # Errors
    /// Invalid if the selection exceeds the extent, or `data` has the wrong size; the filters' errors; the
    /// sink's.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::model::{ByteOrder, Dataspace, Datatype};
    /// use hyperchunk::select::Selection;
    /// use hyperchunk::write::{CreateOptions, DatasetOptions, MemorySink, NewLayout, NodeId, Writer};
    /// use std::sync::Arc;
    ///
    /// let file = Writer::create_in(Arc::new(MemorySink::default()), None, &CreateOptions::default())?;
    /// let dataspace = Dataspace::Simple { dims: vec![4, 6], max: vec![None, Some(6)] };
    /// let options = DatasetOptions::new(Datatype::ieee(4, ByteOrder::Little), dataspace)
    ///     .with_layout(NewLayout::Chunked(vec![2, 3]));
    /// let data = file.create_dataset(NodeId::ROOT, b"data", options)?;
    /// let row: Vec<u8> = (0..6).flat_map(|number| (number as f32).to_le_bytes()).collect();
    /// data.write(&Selection::ranges([0..1, 0..6]), &row)?;
    /// file.close()?;
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn write(&self, selection: &Selection, data: &[u8]) -> Result<()> {
        self.write_elements(selection, &Elements { data, size: self.node.element_size, conversion: None })
    }

    /// Converts elements of another type and writes them, as [`DatasetWriter::write`] does. Members of a compound
    /// that `datatype` lacks stay as they are, as in libhdf5: the elements are read first.
    ///
    /// # Errors
    /// As [`DatasetWriter::write`]; Conversion if HDF5 does not convert between the types; of such a part of a
    /// compound, those of [`Writer::snapshot`] and of the read.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::model::{ByteOrder, Dataspace, Datatype};
    /// use hyperchunk::select::Selection;
    /// use hyperchunk::write::{CreateOptions, DatasetOptions, MemorySink, NewLayout, NodeId, Writer};
    /// use std::sync::Arc;
    ///
    /// let file = Writer::create_in(Arc::new(MemorySink::default()), None, &CreateOptions::default())?;
    /// let dataspace = Dataspace::Simple { dims: vec![4, 6], max: vec![None, Some(6)] };
    /// let options = DatasetOptions::new(Datatype::ieee(4, ByteOrder::Little), dataspace)
    ///     .with_layout(NewLayout::Chunked(vec![2, 3]));
    /// let data = file.create_dataset(NodeId::ROOT, b"data", options)?;
    /// // Integers, converted.
    /// data.write_as(&Selection::All, &Datatype::integer(1, false, ByteOrder::Little), &[7; 24])?;
    /// file.close()?;
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn write_as(&self, selection: &Selection, datatype: &Datatype, data: &[u8]) -> Result<()> {
        let conversion = Conversion::new(datatype, &self.node.datatype)?;
        let size = usize::try_from(datatype.size)
            .map_err(|_| Error::limit("an element exceeds the address space"))?;
        if conversion.is_partial() {
            return self.write_members(selection, &conversion, data, size);
        }
        let conversion = (!conversion.is_copy()).then_some(conversion);
        self.write_elements(selection, &Elements { data, size, conversion })
    }

    /// Changes the members of selected elements that `conversion` has.
    fn write_members(
        &self,
        selection: &Selection,
        conversion: &Conversion,
        data: &[u8],
        size: usize,
    ) -> Result<()> {
        self.check_stored()?;
        let _one = self.node.members.lock().unwrap_or_else(PoisonError::into_inner);
        let count = data.len() / size.max(1);
        let mut elements = room::zeros(count.saturating_mul(self.node.element_size))?;
        {
            let _reading = self.file.reading();
            self.file.snapshot_object(self.id)?.dataset()?.read(selection, &mut elements)?;
        }
        conversion.run(data, &mut elements, count).map_err(|error| self.named(error))?;
        self.write(selection, &elements)
    }

    /// Checks that the dataset can be written; an edit cannot change all datasets.
    fn check_writable(&self) -> Result<()> {
        let checked = self.node.check_writable().and_then(|()| self.file.0.check_editable(self.id));
        checked.map_err(|error| self.named(error))
    }

    /// Checks that the dataset can be written, and that its elements are stored.
    fn check_stored(&self) -> Result<()> {
        self.check_writable()?;
        if self.node.pipeline.iter().any(|filter| filter.id == live::FILTER) {
            let message = "cannot write or resize a live dataset: its values are computed; to replace it, remove it \
                           first, `hyperchunk udf rm FILE:DATASET`";
            return Err(self.named(Error::unsupported(message)));
        }
        Ok(())
    }

    fn write_elements(&self, selection: &Selection, elements: &Elements<'_>) -> Result<()> {
        let _in_use = self.file.0.open()?;
        self.check_stored()?;
        // Counted before the write, too, so that a snapshot that is taken during the write becomes stale.
        self.file.0.changed();
        let written = self.node.write(&self.file.0, selection, elements);
        self.file.0.changed();
        written.map_err(|error| self.named(self.located(error)))
    }

    /// Adds the dataset's path to an error. No lock may be held.
    fn located(&self, error: Error) -> Error {
        match committed_places::paths(&self.file.0.tree()).get(&self.id) {
            Some(path) => error.object(String::from_utf8_lossy(path)),
            None => error,
        }
    }

    /// Copies ranges of other files to a contiguous dataset, in any order, with `threads` threads. Bytes
    /// outside of all ranges get the fill value.
    ///
    /// # Errors
    /// Invalid if the dataset is not contiguous, a part extends past its end, or the file has a journal; the
    /// sink's.
    pub fn copy_parts(&self, parts: &[FilePart<'_>], threads: usize) -> Result<()> {
        let inner = &self.file.0;
        let _in_use = inner.open()?;
        let size =
            self.node.dataspace().elements().unwrap_or(0).saturating_mul(self.node.element_size as u64);
        let inside = |part: &FilePart<'_>| part.at.checked_add(part.length).is_some_and(|end| end <= size);
        if inner.journal.is_some() || !parts.iter().all(inside) {
            let message =
                "cannot copy the parts: a part extends past the end of the data, or the file has a journal";
            return Err(self.named(Error::invalid(message)));
        }
        let total = parts.iter().fold(0, |sum: u64, part| sum.saturating_add(part.length));
        let copied = self.node.begin(inner, total).and_then(|start| {
            let steps = parts.iter().flat_map(|part| {
                let ends = (0..part.length).step_by(COPY_BYTES).map(move |done| (part, done));
                ends.map(|(part, done)| (part, done, (part.length - done).min(COPY_BYTES as u64)))
            });
            crate::read::spread(
                threads,
                steps,
                || (),
                |(), (part, done, length)| {
                    inner.sink.copy_at(start + part.at + done, part.file, part.from + done, length)
                },
            )
        });
        inner.changed();
        copied.map_err(|error| self.named(error))
    }

    pub(super) fn own_chunks(&self) -> Result<&Chunks> {
        match &self.node.data {
            Data::Chunked(chunks) => Ok(chunks),
            _ => Err(self.named(Error::invalid("the dataset is not stored in chunks"))),
        }
    }

    /// Returns the scaled coordinates of the chunk whose first element is at `offset`.
    pub(super) fn scaled(&self, chunks: &Chunks, offset: &[u64]) -> Result<Key> {
        let dims = self.node.dataspace.read().unwrap_or_else(PoisonError::into_inner);
        self.scaled_in(dims.dims(), chunks, offset)
    }

    fn scaled_in(&self, dims: &[u64], chunks: &Chunks, offset: &[u64]) -> Result<Key> {
        if offset.len() != dims.len() {
            let message =
                format!("invalid chunk offset: expected {} numbers, got {}", dims.len(), offset.len());
            return Err(self.named(Error::invalid(message)));
        }
        for (axis, ((offset, dim), chunk)) in offset.iter().zip(dims).zip(&chunks.dims).enumerate() {
            if offset % chunk != 0 {
                let message = format!("offset {offset} of axis {axis}: chunks begin at multiples of {chunk}");
                return Err(self.named(Error::invalid(message)));
            }
            if offset >= dim {
                let message = format!("offset {offset} of axis {axis} is beyond the extent of {dim}");
                return Err(self.named(Error::invalid(message)));
            }
        }
        Ok(Key::new(offset.len(), offset.iter().zip(&chunks.dims).map(|(offset, chunk)| offset / chunk)))
    }

    fn check_chunk(&self, chunks: &Chunks, data: &[u8]) -> Result<()> {
        if data.is_empty() {
            return Err(self.named(Error::invalid("cannot write a chunk without bytes")));
        }
        if self.node.pipeline.is_empty() && data.len() != chunks.bytes {
            let message = format!(
                "cannot write {} bytes for a chunk of {}: without filters the sizes must be equal",
                data.len(),
                chunks.bytes
            );
            return Err(self.named(Error::invalid(message)));
        }
        let oldest = self.node.oldest(self.file.0.options.oldest);
        let most = oldest < LibVersion::V200;
        if most && u32::try_from(data.len()).is_err() {
            let message =
                "cannot write a chunk of 4 GiB or more: HDF5 before 2.0 cannot read it (use libver \"v200\")";
            return Err(self.named(Error::limit(message)));
        }
        // Number of bytes that the indexes of HDF5 1.10 and later have for a chunk's stored size.
        let width = (chunks.bytes.max(1).ilog2() + 8) / 8 + 1;
        let room = 256_u64.checked_pow(width).unwrap_or(u64::MAX);
        let newer = oldest > LibVersion::V18;
        if newer && !self.node.pipeline.is_empty() && data.len() as u64 >= room {
            let message = format!(
                "cannot write {} bytes for a chunk of {}: too large for the index",
                data.len(),
                chunks.bytes
            );
            return Err(self.named(Error::limit(message)));
        }
        Ok(())
    }

    /// Returns `filter_mask`, or 0 for a dataset without filters.
    fn mask(&self, filter_mask: u32) -> u32 {
        if self.node.pipeline.is_empty() { 0 } else { filter_mask }
    }

    /// Writes a chunk in its stored form, after its filters, without checking the bytes. `offset` is the
    /// index of its first element; a set bit in `filter_mask` means that the filter with that number was not
    /// applied. Source: *RFC: Direct Chunk Write*, Appendix B.
    ///
    /// # Errors
    /// Invalid if the dataset is not chunked, no chunk begins at `offset`, or `data` is empty; the sink's.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::model::{ByteOrder, Dataspace, Datatype};
    /// use hyperchunk::write::{CreateOptions, DatasetOptions, MemorySink, NewLayout, NodeId, Writer};
    /// use std::sync::Arc;
    ///
    /// let file = Writer::create_in(Arc::new(MemorySink::default()), None, &CreateOptions::default())?;
    /// let dataspace = Dataspace::Simple { dims: vec![4, 6], max: vec![None, Some(6)] };
    /// let options = DatasetOptions::new(Datatype::ieee(4, ByteOrder::Little), dataspace)
    ///     .with_layout(NewLayout::Chunked(vec![2, 3]));
    /// let data = file.create_dataset(NodeId::ROOT, b"data", options)?;
    /// // As it is stored: this dataset has no filters.
    /// data.write_chunk(&[2, 0], &[0; 4 * 6], 0)?;
    /// assert_eq!(data.read_chunk(&[2, 0])?.map(|(bytes, _)| bytes.len()), Some(24));
    /// file.close()?;
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn write_chunk(&self, offset: &[u64], data: &[u8], filter_mask: u32) -> Result<()> {
        let _in_use = self.file.0.open()?;
        let chunks = self.own_chunks()?;
        self.check_writable()?;
        self.check_chunk(chunks, data)?;
        let scaled = self.scaled(chunks, offset)?;
        self.file.0.changed();
        chunks.forget_waiting(&self.file.0, &scaled);
        let placed = chunks.place(&self.file.0, &self.node, &scaled, data, self.mask(filter_mask));
        self.file.0.changed();
        placed.map_err(|error| self.named(error))
    }

    /// Writes several chunks contiguously, as [`DatasetWriter::write_chunk`] writes one. This is faster for
    /// small chunks.
    ///
    /// # Errors
    /// As [`DatasetWriter::write_chunk`]. Unless the sink failed, none of the chunks is written then.
    pub fn write_chunks(&self, chunks: &[DirectChunk<'_>]) -> Result<()> {
        let _in_use = self.file.0.open()?;
        let own = self.own_chunks()?;
        self.check_writable()?;
        let mut placed = Vec::with_capacity(chunks.len());
        {
            let dims = self.node.dataspace.read().unwrap_or_else(PoisonError::into_inner);
            for (offset, data, mask) in chunks {
                self.check_chunk(own, data)?;
                placed.push((self.scaled_in(dims.dims(), own, offset)?, *data, self.mask(*mask)));
            }
        }
        self.place_all(own, &placed, None)
    }

    /// Writes chunks that are contiguous in memory, as [`DatasetWriter::write_chunks`], with a single write.
    ///
    /// # Errors
    /// As [`DatasetWriter::write_chunks`]; Invalid if `run` is inconsistent.
    pub fn write_chunk_run(&self, run: &ChunkRun<'_>) -> Result<()> {
        let _in_use = self.file.0.open()?;
        let own = self.own_chunks()?;
        self.check_writable()?;
        let ChunkRun { offsets, data, sizes, masks } = *run;
        let rank = own.dims.len();
        let count = offsets.len() / rank.max(1);
        let wrong = |message: String| Err(self.named(Error::invalid(message)));
        if offsets.len() % rank.max(1) != 0 {
            return wrong(format!("`offsets` has {} numbers, expected a multiple of {rank}", offsets.len()));
        }
        if sizes.is_some_and(|sizes| sizes.len() != count) || masks.is_some_and(|masks| masks.len() != count)
        {
            return wrong(format!("`sizes` and `masks` must have {count} values, one for each chunk"));
        }
        if sizes.is_none() && data.len() % count.max(1) != 0 {
            return wrong(format!(
                "{} bytes cannot be divided into {count} chunks: chunks of different sizes need `sizes`",
                data.len()
            ));
        }
        let equal = data.len() / count.max(1);
        let mut placed = Vec::with_capacity(count);
        let mut rest = data;
        {
            let dims = self.node.dataspace.read().unwrap_or_else(PoisonError::into_inner);
            for (number, offset) in offsets.chunks_exact(rank.max(1)).enumerate() {
                let size = sizes.map_or(Some(equal), |sizes| usize::try_from(sizes[number]).ok());
                let Some((chunk, behind)) = size.and_then(|size| rest.split_at_checked(size)) else {
                    return wrong(format!("`data` has {} bytes, less than all chunks together", data.len()));
                };
                rest = behind;
                self.check_chunk(own, chunk)?;
                let mask = masks.map_or(0, |masks| masks[number]);
                placed.push((self.scaled_in(dims.dims(), own, offset)?, chunk, self.mask(mask)));
            }
        }
        if !rest.is_empty() {
            return wrong(format!("`data` has {} bytes after the last chunk", rest.len()));
        }
        self.place_all(own, &placed, Some(data))
    }

    fn place_all(&self, own: &Chunks, placed: &[NewChunk<'_>], whole: Option<&[u8]>) -> Result<()> {
        if placed.is_empty() {
            return Ok(());
        }
        self.file.0.changed();
        for (scaled, ..) in placed {
            own.forget_waiting(&self.file.0, scaled);
        }
        let done = own.place_all(&self.file.0, &self.node, placed, whole);
        self.file.0.changed();
        done.map_err(|error| self.named(error))
    }

    /// Reads a chunk's stored bytes and the mask of filters that were not applied; `None` if it was never
    /// written.
    ///
    /// # Errors
    /// As [`DatasetWriter::write_chunk`].
    pub fn read_chunk(&self, offset: &[u64]) -> Result<Option<(Vec<u8>, u32)>> {
        let _in_use = self.file.0.open()?;
        self.file.0.check_there(self.id).map_err(|error| self.named(error))?;
        let chunks = self.own_chunks()?;
        let scaled = self.scaled(chunks, offset)?;
        let read =
            chunks.flush(&self.file.0, &self.node).and_then(|()| chunks.read_stored(&self.file.0, &scaled));
        read.map_err(|error| self.named(error))
    }

    /// Changes the extent. Elements outside the new extent are lost; new elements have the fill value.
    ///
    /// # Errors
    /// Invalid if the dataset is not chunked, or `dims` exceeds the maximum extent.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::model::{ByteOrder, Dataspace, Datatype};
    /// use hyperchunk::write::{CreateOptions, DatasetOptions, MemorySink, NewLayout, NodeId, Writer};
    /// use std::sync::Arc;
    ///
    /// let file = Writer::create_in(Arc::new(MemorySink::default()), None, &CreateOptions::default())?;
    /// let dataspace = Dataspace::Simple { dims: vec![4, 6], max: vec![None, Some(6)] };
    /// let options = DatasetOptions::new(Datatype::ieee(4, ByteOrder::Little), dataspace)
    ///     .with_layout(NewLayout::Chunked(vec![2, 3]));
    /// let data = file.create_dataset(NodeId::ROOT, b"data", options)?;
    /// data.resize(&[100, 6])?;
    /// assert_eq!(data.dims(), [100, 6]);
    /// file.close()?;
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn resize(&self, dims: &[u64]) -> Result<()> {
        let _in_use = self.file.0.open()?;
        message_limits::extent(dims, &[]).map_err(|error| self.named(error))?;
        let chunks = self.own_chunks()?;
        self.check_writable()?;
        if dims.iter().zip(self.dims()).any(|(new, old)| *new < old) {
            // Before the extent changes: otherwise a partially written chunk outside the new extent would be
            // journalled as stored after the change.
            chunks.flush(&self.file.0, &self.node).map_err(|error| self.named(error))?;
        }
        self.file.0.changed();
        let shrinks = {
            let mut dataspace = self.node.dataspace.write().unwrap_or_else(PoisonError::into_inner);
            let Dataspace::Simple { dims: old, max } = &mut *dataspace else {
                return Err(self.named(Error::invalid("cannot resize a dataset without dimensions")));
            };
            if dims.len() != old.len() {
                let message = format!("cannot resize: expected {} dimensions, got {}", old.len(), dims.len());
                return Err(self.named(Error::invalid(message)));
            }
            for (axis, (dim, max)) in dims.iter().zip(max.iter()).enumerate() {
                if let Some(max) = max.filter(|max| max < dim) {
                    let message = format!("cannot resize axis {axis} to {dim}: its maximum is {max}");
                    return Err(self.named(Error::new(ErrorKind::Invalid, message)));
                }
            }
            let shrinks = dims.iter().zip(old.iter()).any(|(new, old)| new < old);
            let resized = Entry::Resized { object: self.id, dims: dims.to_vec() };
            self.file.0.note(&[resized]).map_err(|error| self.named(error))?;
            dims.clone_into(old);
            self.node.touch();
            shrinks
        };
        let done = if shrinks { chunks.shrink(&self.file.0, &self.node, dims) } else { Ok(()) };
        self.file.0.changed();
        done.map_err(|error| self.named(error))
    }
}
