//! Reading data: plan → fetch → decode → scatter, on as many threads as help.

pub(crate) mod ahead;
mod boxes;
mod cache;
mod chunked;
mod clusters;
mod contiguous;
mod fetch;
mod live;
mod many;
mod output;
mod place;
mod stretches;
mod table;
pub(crate) mod virtual_dataset;
mod workers;

pub use cache::ChunkCache;
pub(crate) use chunked::read_stored;
pub use fetch::{Part, Parts, Scratch};
pub use output::Output;
pub(crate) use table::{ChunkTable, all_chunks, all_chunks_and_extents, chunks_within};
pub(crate) use virtual_dataset::extent as virtual_extent;

use crate::dataset::Dataset;
use crate::live::within_read;
use crate::torn;
use crate::{Error, Result};
pub use boxes::{StoredBox, StoredPiece};
use hyperchunk_format::convert::Conversion;
use hyperchunk_format::model::{Dataspace, Datatype, Layout};
use hyperchunk_format::select::Selection;
pub use many::{Read, read_many};
pub use stretches::{Stretch, placed};
pub use workers::spread;

/// Minimum number of bytes for each thread. Smaller reads are done by the calling thread, since starting
/// others takes longer.
pub const MIN_BYTES_PER_THREAD: u64 = 1 << 20;
/// Size in bytes of stored elements up to which a conversion is always allowed.
const MIN_SCRATCH_BYTES: usize = 16 << 20;

impl Dataset {
    /// Reads elements as they are stored, in the order of the selection, into `out`, which must have exactly
    /// their size. Unwritten elements are read as the fill value. Variable-length elements are handles into
    /// the global heap ([`crate::File::sequences`]).
    ///
    /// # Errors
    /// Invalid if the selection does not fit the extent or the buffer; Truncated, Corrupt, Filter,
    /// MissingFilter, Limit or Io, with the offset in the file. After an error the buffer's contents are
    /// undefined.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::select::Selection;
    /// use hyperchunk::{File, OpenOptions};
    ///
    /// let file = File::open("examples/scene.h5", &OpenOptions::default())?;
    /// let count = file.root()?.group()?.get("count")?.dataset()?;
    /// let mut bytes = [0; 4];
    /// count.read(&Selection::All, &mut bytes)?;
    /// assert_eq!(i32::from_le_bytes(bytes), 24);
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn read(&self, selection: &Selection, out: &mut [u8]) -> Result<()> {
        self.read_with(selection, None, self.element_size()?, out)
    }

    /// Reads as [`Dataset::read`], converted to another datatype.
    ///
    /// # Errors
    /// As [`Dataset::read`]; Conversion if HDF5 has no conversion between the two.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::select::Selection;
    /// use hyperchunk::{File, OpenOptions};
    ///
    /// let file = File::open("examples/scene.h5", &OpenOptions::default())?;
    /// use hyperchunk::model::{ByteOrder, Datatype};
    ///
    /// let temperature = file.root()?.group()?.get("temperature")?.dataset()?;
    /// let mut bytes = [0; 8];
    /// temperature.read_as(&Selection::ranges([3..4, 5..6]), &Datatype::ieee(8, ByteOrder::Big), &mut bytes)?;
    /// assert_eq!(f64::from_be_bytes(bytes), 23.0);
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn read_as(&self, selection: &Selection, memory: &Datatype, out: &mut [u8]) -> Result<()> {
        let conversion =
            Conversion::new(self.datatype(), memory).map_err(|error| self.with_context(error))?;
        let size = usize::try_from(memory.size)
            .map_err(|_| Error::limit("elements larger than the address space"))?;
        self.read_with(selection, Some(&conversion).filter(|conversion| !conversion.is_copy()), size, out)
    }

    /// Reads as [`Dataset::read_as`], with a prepared conversion to elements of `size` bytes.
    ///
    /// # Errors
    /// As [`Dataset::read`].
    pub fn read_converted(
        &self,
        selection: &Selection,
        conversion: &Conversion,
        size: usize,
        out: &mut [u8],
    ) -> Result<()> {
        self.read_with(selection, Some(conversion).filter(|conversion| !conversion.is_copy()), size, out)
    }

    fn read_with(
        &self,
        selection: &Selection,
        conversion: Option<&Conversion>,
        size: usize,
        out: &mut [u8],
    ) -> Result<()> {
        if self.read_layout(selection, conversion, size, out) {
            return self.unchanged(Ok(()));
        }
        match self.output(selection, conversion, size, out)? {
            Some(output) => self.fill_output(selection, &output).map_err(|error| self.with_context(error)),
            None => Ok(()),
        }
    }

    /// Returns the result of a read if the file did not change meanwhile. The data of a sharded store are
    /// in other files, which are only appended to.
    fn unchanged<T>(&self, read: Result<T>) -> Result<T> {
        if self.0.sharded.is_some() { read } else { self.object().file().unchanged(read) }
    }

    /// Reads from another layout of the dataset, if one costs less. A layout that cannot be read is
    /// ignored.
    fn read_layout(
        &self,
        selection: &Selection,
        conversion: Option<&Conversion>,
        size: usize,
        out: &mut [u8],
    ) -> bool {
        self.layout_for(selection)
            .is_some_and(|layout| layout.read_with(selection, conversion, size, out).is_ok())
    }

    /// Returns another layout of the dataset that serves a selection at a lower cost.
    fn layout_for(&self, selection: &Selection) -> Option<Self> {
        self.object().file().storage()?.cheapest(self, selection)
    }

    /// Checks a read's buffer and wraps it; `None` if there is nothing to read.
    fn output<'a>(
        &self,
        selection: &Selection,
        conversion: Option<&'a Conversion>,
        size: usize,
        out: &'a mut [u8],
    ) -> Result<Option<Output<'a>>> {
        let wanted = selection.count(self.dims()).map_err(|error| self.with_context(error))?;
        let wanted = if matches!(self.dataspace(), Dataspace::Null) { 0 } else { wanted };
        if usize::try_from(wanted).ok().and_then(|wanted| wanted.checked_mul(size)) != Some(out.len()) {
            let message =
                format!("the buffer has {} bytes, expected {wanted} elements of {size} bytes", out.len());
            return Err(self.with_context(Error::invalid(message)));
        }
        if wanted == 0 {
            return Ok(None);
        }
        let stored = self.element_size()?;
        if conversion.is_some() {
            self.check_scratch(stored, size).map_err(|error| self.with_context(error))?;
        }
        Ok(Some(Output::new(out, stored, size, conversion)))
    }

    /// Checks that a conversion does not need much more memory for the stored elements than for the result.
    /// Without this, a file could claim unwritten elements of any size.
    pub(crate) fn check_scratch(&self, stored: usize, memory: usize) -> Result<()> {
        let file = usize::try_from(self.object().file().size()).unwrap_or(usize::MAX);
        if stored > MIN_SCRATCH_BYTES.max(file).max(memory.saturating_mul(16)) {
            let message = format!(
                "cannot convert {stored} bytes to {memory}: the conversion needs far more memory than the result and \
                 the file"
            );
            return Err(Error::limit(message));
        }
        Ok(())
    }

    /// Reads into an output of the right size.
    fn fill_output(&self, selection: &Selection, output: &Output<'_>) -> Result<()> {
        // All functions that a read may run share one budget.
        if matches!(self.layout(), Layout::Virtual { .. }) || self.evaluator()?.is_some() {
            return self.unchanged(within_read(None, || self.fill_by_layout(selection, output)));
        }
        let followed = self.object().file().is_followed();
        torn::again(followed, || self.unchanged(self.fill_by_layout(selection, output)))
    }

    fn fill_by_layout(&self, selection: &Selection, output: &Output<'_>) -> Result<()> {
        let file = self.object().file();
        if let (Some(evaluator), Layout::Chunked(chunked)) = (self.evaluator()?, self.layout()) {
            self.prepare(selection)?;
            return live::read(evaluator, self, chunked, selection, output);
        }
        if self.is_remote() {
            let mut parts = Parts::default();
            parts.ahead = ahead::prepare(self, selection)?;
            self.plan(selection, output, &mut parts)?;
            return parts.run(self.threads_for(output.bytes()), file.options().limits.in_flight_bytes);
        }
        if let Some(sharded) = &self.0.sharded {
            let means = (self.threads_for(output.bytes()), &file.options().limits);
            return sharded.read(selection, output, means, None);
        }
        match self.layout() {
            Layout::Chunked(chunked) => chunked::read(self, chunked, selection, output),
            Layout::Virtual { .. } => virtual_dataset::read(self, selection, output),
            Layout::Compact { .. } | Layout::Contiguous { .. } => contiguous::read(self, selection, output),
        }
    }

    /// Returns whether the data are read over a network.
    pub(crate) fn is_remote(&self) -> bool {
        match &self.0.sharded {
            Some(sharded) => sharded.is_remote(),
            None => self.object().file().is_remote(),
        }
    }

    /// Loads the metadata needed to plan a read.
    fn prepare(&self, selection: &Selection) -> Result<()> {
        match self.layout() {
            _ if self.0.sharded.is_some() => Ok(()),
            Layout::Chunked(chunked) => chunked::prepare(self, chunked, selection),
            _ => Ok(()),
        }
    }

    /// Lists the parts of files over a network that a read needs. Other data are read at once.
    fn plan<'a>(
        &'a self,
        selection: &Selection,
        output: &'a Output<'a>,
        parts: &mut Parts<'a>,
    ) -> Result<()> {
        if let Some(sharded) = &self.0.sharded {
            let means = (self.threads_for(output.bytes()), &self.object().file().options().limits);
            return sharded.read(selection, output, means, Some(parts));
        }
        match self.layout() {
            Layout::Chunked(chunked) => match self.evaluator()? {
                Some(evaluator) => live::read(evaluator, self, chunked, selection, output),
                None => chunked::plan(self, chunked, selection, output, parts),
            },
            Layout::Virtual { .. } => virtual_dataset::read(self, selection, output),
            Layout::Compact { .. } | Layout::Contiguous { .. } => {
                contiguous::plan(self, selection, output, parts)
            }
        }
    }

    /// Returns the number of threads for a read of this many bytes.
    fn threads_for(&self, bytes: u64) -> usize {
        let worth = usize::try_from(bytes / MIN_BYTES_PER_THREAD).unwrap_or(usize::MAX);
        self.object().file().options().thread_count().min(worth.max(1))
    }
}
