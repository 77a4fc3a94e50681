//! Datasets and their properties; [`crate::read`] reads them.

use crate::object::Object;
use crate::read::ChunkTable;
use crate::storage::{DatasetStorage, FileLocation, Marker, UnregisteredDataset};
use crate::{Error, ErrorKind, File, Result};
use hyperchunk_format::model::{
    Chunk, Chunked, Dataspace, Datatype, ExternalFile, FillTime, FillValue, FillWhen, Filter, Layout,
    VirtualMapping,
};
use hyperchunk_format::parse::extents::Extent;
use hyperchunk_format::parse::object::{self, DatasetHeader};
use hyperchunk_format::parse::virtual_layout;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::ops::Range;
use std::sync::{Arc, OnceLock};

/// A dataset. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Dataset(pub(crate) Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) object: Object,
    pub(crate) header: DatasetHeader,
    /// The extent: the header's, except for a virtual dataset of unlimited extent.
    pub(crate) dims: Vec<u64>,
    pub(crate) mappings: Vec<VirtualMapping>,
    /// The data of a dataset of a sharded store.
    pub(crate) sharded: Option<Arc<dyn DatasetStorage>>,
    pub(crate) table: OnceLock<ChunkTable>,
}

impl Dataset {
    pub(crate) fn open(object: Object) -> Result<Self> {
        let mut header = object.parse(object::dataset)?;
        let mut mappings = match &header.layout {
            Layout::Virtual { heap: Some(heap) } => {
                object.parse(|image, _| virtual_layout::mappings(image, *heap))?
            }
            _ => Vec::new(),
        };
        let sharded = sharded(&object, &mut header, &mappings)?;
        if sharded.is_some() {
            mappings.clear();
        }
        let dims = header.dataspace.dims().to_vec();
        let mut inner = Inner { object, header, dims, mappings, sharded, table: OnceLock::new() };
        if !inner.mappings.is_empty() {
            inner.dims = crate::read::virtual_extent(&inner)?;
        }
        Ok(Self(Arc::new(inner)))
    }

    /// Returns the underlying [`Object`].
    #[must_use]
    pub fn object(&self) -> &Object {
        &self.0.object
    }

    /// Returns the type of its elements.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::{File, OpenOptions};
    ///
    /// let file = File::open("examples/scene.h5", &OpenOptions::default())?;
    /// use hyperchunk::model::Class;
    ///
    /// let temperature = file.root()?.group()?.get("temperature")?.dataset()?;
    /// assert!(matches!(temperature.datatype().class, Class::Float(_)));
    /// assert_eq!(temperature.datatype().size, 4);
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    #[must_use]
    pub fn datatype(&self) -> &Datatype {
        &self.0.header.datatype
    }

    /// Returns the address of its committed datatype, if it uses one.
    #[must_use]
    pub fn committed(&self) -> Option<u64> {
        self.0.header.committed
    }

    /// Returns its dataspace as in the header. The actual extent is [`Dataset::dims`].
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::{File, OpenOptions};
    ///
    /// let file = File::open("examples/scene.h5", &OpenOptions::default())?;
    /// use hyperchunk::model::Dataspace;
    ///
    /// let count = file.root()?.group()?.get("count")?.dataset()?;
    /// assert_eq!(*count.dataspace(), Dataspace::Scalar);
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    #[must_use]
    pub fn dataspace(&self) -> &Dataspace {
        &self.0.header.dataspace
    }

    /// Returns its extent, slowest dimension first. The extent of an unlimited virtual dataset depends on
    /// its sources' current contents.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::{File, OpenOptions};
    ///
    /// let file = File::open("examples/scene.h5", &OpenOptions::default())?;
    /// let temperature = file.root()?.group()?.get("temperature")?.dataset()?;
    /// assert_eq!(temperature.dims(), [4, 6]);
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    #[must_use]
    pub fn dims(&self) -> &[u64] {
        &self.0.dims
    }

    /// Returns the number of elements.
    ///
    /// # Errors
    /// Limit if there are more than 2⁶⁴ - 1.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::{File, OpenOptions};
    ///
    /// let file = File::open("examples/scene.h5", &OpenOptions::default())?;
    /// let temperature = file.root()?.group()?.get("temperature")?.dataset()?;
    /// assert_eq!(temperature.elements()?, 24);
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn elements(&self) -> Result<u64> {
        let elements = match &self.0.header.dataspace {
            Dataspace::Simple { .. } if self.0.dims.contains(&0) => Some(0),
            Dataspace::Simple { .. } => {
                self.0.dims.iter().try_fold(1_u64, |product, dim| product.checked_mul(*dim))
            }
            other => other.elements(),
        };
        elements.ok_or_else(|| self.with_context(Error::limit("more than 2^64 - 1 elements")))
    }

    /// Returns the layout of its data.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.0.header.layout
    }

    /// Returns its chunked layout, if it has one.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::{File, OpenOptions};
    ///
    /// let file = File::open("examples/scene.h5", &OpenOptions::default())?;
    /// let temperature = file.root()?.group()?.get("temperature")?.dataset()?;
    /// assert_eq!(temperature.chunked().map(|chunked| chunked.dims.clone()), Some(vec![2, 3]));
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    #[must_use]
    pub fn chunked(&self) -> Option<&Chunked> {
        match &self.0.header.layout {
            Layout::Chunked(chunked) => Some(chunked),
            _ => None,
        }
    }

    /// Returns its filters.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::{File, OpenOptions};
    ///
    /// let file = File::open("examples/scene.h5", &OpenOptions::default())?;
    /// let temperature = file.root()?.group()?.get("temperature")?.dataset()?;
    /// let filters: Vec<u16> = temperature.pipeline().iter().map(|filter| filter.id).collect();
    /// assert_eq!(filters, [2, 1], "shuffle, then deflate");
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    #[must_use]
    pub fn pipeline(&self) -> &[Filter] {
        &self.0.header.pipeline
    }

    /// Returns its fill value, for elements that were never written.
    #[must_use]
    pub fn fill(&self) -> &FillValue {
        &self.0.header.fill
    }

    /// Returns the fill value in the file's datatype; zeros if none is defined.
    ///
    /// # Errors
    /// Corrupt if the stored fill value does not have the size of an element.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::{File, OpenOptions};
    ///
    /// let file = File::open("examples/scene.h5", &OpenOptions::default())?;
    /// let temperature = file.root()?.group()?.get("temperature")?.dataset()?;
    /// assert_eq!(temperature.fill_bytes()?, [0; 4]);
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn fill_bytes(&self) -> Result<Vec<u8>> {
        let size = self.element_size()?;
        match &self.0.header.fill.value {
            FillWhen::User(bytes) if bytes.len() == size => Ok(bytes.clone()),
            FillWhen::User(bytes) if !bytes.is_empty() => {
                let message = format!("a fill value of {} bytes for elements of {size} bytes", bytes.len());
                Err(self.with_context(Error::corrupt(message)))
            }
            _ => crate::room::zeros(size).map_err(|error| self.with_context(error)),
        }
    }

    /// Returns the value that unwritten elements are read as: the fill value, or zeros if none is defined or
    /// the fill time is `H5D_FILL_TIME_NEVER`, as in libhdf5. `None` means zeros.
    ///
    /// # Errors
    /// As [`Dataset::fill_bytes`].
    pub fn unwritten(&self) -> Result<Option<Vec<u8>>> {
        match (self.0.header.fill.time, &self.0.header.fill.value) {
            (FillTime::Never, _) => Ok(None),
            (_, FillWhen::User(bytes)) if !bytes.is_empty() => self.fill_bytes().map(Some),
            _ => Ok(None),
        }
    }

    /// Returns the external files that hold its raw data, if any.
    #[must_use]
    pub fn external(&self) -> &[ExternalFile] {
        &self.0.header.external
    }

    /// Returns its marker if it is a dataset of a sharded store. Its data and properties then come from the
    /// store.
    #[must_use]
    pub fn store(&self) -> Option<Marker> {
        self.0.sharded.as_ref().map(|sharded| sharded.marker())
    }

    /// Returns its data if it is a dataset of a sharded store.
    #[doc(hidden)]
    #[must_use]
    pub fn storage(&self) -> Option<&dyn DatasetStorage> {
        self.0.sharded.as_deref()
    }

    /// Returns the number of separately written pieces of its data in a sharded store, if it is known.
    #[must_use]
    pub fn pieces(&self) -> Option<u64> {
        self.0.sharded.as_ref().and_then(|sharded| sharded.pieces())
    }

    /// Returns the sources of a virtual dataset.
    #[must_use]
    pub fn mappings(&self) -> &[VirtualMapping] {
        &self.0.mappings
    }

    /// Checks that the sources of a virtual dataset exist, before its values are copied: a read takes the fill value
    /// where a source is missing, and a copy would make it permanent. Other datasets pass.
    ///
    /// # Errors
    /// NotFound, with the name of a missing source; the errors of opening the sources.
    pub fn check_sources(&self) -> Result<()> {
        let all: Vec<Range<u64>> = self.dims().iter().map(|dim| 0..*dim).collect();
        self.check_sources_of(&all)
    }

    /// Checks the sources of the part of a virtual dataset within these bounds, as [`Dataset::check_sources`].
    pub(crate) fn check_sources_of(&self, part: &[Range<u64>]) -> Result<()> {
        // A sharded store makes the sources of its virtual datasets for HDF5, from its logs.
        let is_stored = self.store().is_some() || Marker::from_dataset(self).is_some();
        if is_stored || !matches!(self.layout(), Layout::Virtual { .. }) {
            return Ok(());
        }
        crate::read::virtual_dataset::check_sources(self, part)
    }

    /// Returns all stored chunks, in row-major order of their scaled coordinates.
    ///
    /// # Errors
    /// If their index cannot be read; Unsupported for a dataset of a sharded store, whose data are not stored
    /// in chunks of the file.
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::{File, OpenOptions};
    ///
    /// let file = File::open("examples/scene.h5", &OpenOptions::default())?;
    /// let temperature = file.root()?.group()?.get("temperature")?.dataset()?;
    /// let chunks = temperature.chunks()?;
    /// assert_eq!(chunks.len(), 4);
    /// assert_eq!(chunks[3].scaled, [1, 1]);
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn chunks(&self) -> Result<Vec<Chunk>> {
        if self.0.sharded.is_some() {
            let message =
                "the dataset is in a sharded store: its data are stored in logs, not in chunks of the file";
            return Err(self.with_context(Error::unsupported(message)));
        }
        crate::read::all_chunks(self)
    }

    /// Returns all stored chunks, and the file extents of their index that are known for certain.
    pub(crate) fn chunks_and_extents(&self) -> Result<(Vec<Chunk>, Vec<Extent>)> {
        crate::read::all_chunks_and_extents(self)
    }

    /// Returns the scaled coordinates of the chunks that contain written data.
    ///
    /// # Errors
    /// As [`Dataset::chunks`]; for a sharded store, the reason why it cannot be read, or Limit for too many
    /// chunks.
    pub fn written_chunks(&self) -> Result<Vec<Vec<u64>>> {
        match (&self.0.sharded, self.chunked()) {
            (Some(sharded), Some(chunked)) => {
                let limits = &self.object().file().options().limits;
                sharded.written_cells(&chunked.dims, limits).map_err(|error| self.with_context(error))
            }
            _ => Ok(self.chunks()?.into_iter().map(|chunk| chunk.scaled).collect()),
        }
    }

    /// Returns a fingerprint of where the elements with indices `rows` on `axis` are stored. Chunked: for
    /// each chunk index on `axis` that `rows` touches, that index and a hash of its chunks' coordinates,
    /// addresses, sizes and filter masks. Contiguous: `(0, address)`. Empty for other layouts and for sharded
    /// stores.
    ///
    /// # Errors
    /// If the chunk index cannot be read; Invalid if there is no such axis.
    pub fn placement(&self, axis: usize, rows: &Range<u64>) -> Result<Vec<(u64, u64)>> {
        if axis >= self.dims().len() {
            return Err(self.with_context(Error::invalid(format!(
                "no axis {axis} in {} dimensions",
                self.dims().len()
            ))));
        }
        let digest = |chunks: &[Chunk]| {
            let mut hasher = DefaultHasher::new();
            for chunk in chunks {
                (&chunk.scaled, chunk.address, chunk.size, chunk.filter_mask).hash(&mut hasher);
            }
            hasher.finish()
        };
        let chunked = match self.layout() {
            _ if self.0.sharded.is_some() => return Ok(Vec::new()),
            Layout::Chunked(chunked) => chunked,
            Layout::Contiguous { address: Some(address), .. } => return Ok(vec![(0, *address)]),
            _ => return Ok(Vec::new()),
        };
        let length = chunked.dims.get(axis).copied().unwrap_or(1).max(1);
        let region = (0..self.dims().len()).map(|other| match other == axis {
            true => rows.start / length..rows.end.div_ceil(length),
            false => 0..u64::MAX,
        });
        let mut chunks = crate::read::chunks_within(self, chunked, &region.collect::<Vec<_>>())?;
        let layer = |chunk: &Chunk| chunk.scaled.get(axis).copied().unwrap_or(0);
        chunks.sort_by_key(layer);
        let parts = chunks.chunk_by(|one, other| layer(one) == layer(other));
        Ok(parts.map(|part| (part.first().map_or(0, layer), digest(part))).collect())
    }

    /// Returns the stored bytes of a chunk.
    ///
    /// # Errors
    /// Truncated or Io; Limit if it is larger than the maximum chunk size; as [`Dataset::chunks`].
    ///
    /// # Examples
    /// ```
    /// use hyperchunk::{File, OpenOptions};
    ///
    /// let file = File::open("examples/scene.h5", &OpenOptions::default())?;
    /// let temperature = file.root()?.group()?.get("temperature")?.dataset()?;
    /// let first = &temperature.chunks()?[0];
    /// assert_eq!(temperature.read_chunk_raw(first)?.len() as u64, first.size);
    /// # Ok::<(), hyperchunk::Error>(())
    /// ```
    pub fn read_chunk_raw(&self, chunk: &Chunk) -> Result<Vec<u8>> {
        if self.0.sharded.is_some() {
            return self.chunks().map(|_| Vec::new());
        }
        let mut bytes = Vec::new();
        let read = crate::read::read_stored(self, chunk, &mut bytes);
        self.object().file().unchanged(read)?;
        Ok(bytes)
    }

    /// Returns the size of an element in bytes.
    pub(crate) fn element_size(&self) -> Result<usize> {
        let size = usize::try_from(self.0.header.datatype.size);
        size.map_err(|_| self.with_context(Error::limit("elements larger than the address space")))
    }

    /// Adds the names of this dataset and its file to an error.
    #[must_use]
    pub fn with_context(&self, error: Error) -> Error {
        self.0.object.with_context(error)
    }
}

/// Returns whether a virtual dataset's source, a dataset of the same file, exists.
fn is_there(file: &File, source: &VirtualMapping) -> Result<bool> {
    let Some(path) = source.dataset.parts.first() else { return Ok(false) };
    match file.root()?.group()?.get(path.as_bytes()) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Finds the data of a dataset of a sharded store, and completes its header. If the store is missing, a
/// dataset whose first virtual source exists, or that lists external files besides the marker, is treated as
/// an ordinary one.
fn sharded(
    object: &Object,
    header: &mut DatasetHeader,
    mappings: &[VirtualMapping],
) -> Result<Option<Arc<dyn DatasetStorage>>> {
    let file = object.file();
    let marker = Marker::from_external_files(&header.external).or_else(|| Marker::from_mappings(mappings));
    let Some(marker) = marker.filter(|_| !file.options().ignore_stores) else { return Ok(None) };
    let Some(storage) = file.storage() else { return Ok(Some(Arc::new(UnregisteredDataset(marker)))) };
    let home =
        FileLocation { path: file.located(), source: &file.0.source, external: file.options().external };
    let sharded = storage.dataset(&home, marker, header).map_err(|error| object.with_context(error))?;
    // For a refused store, libhdf5's view would differ from the store's contents.
    if sharded.is_committed() || sharded.is_refused() {
        return Ok(Some(sharded));
    }
    let is_readable = match mappings.first() {
        // A virtual dataset that was copied into another file has lost its source blocks, and would be
        // read as fill values.
        Some(first) => is_there(file, first)?,
        None => header.external.len() > 1,
    };
    Ok(Some(sharded).filter(|_| !is_readable))
}
