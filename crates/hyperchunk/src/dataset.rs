//! Datasets: what they are; reading them is in [`crate::read`].

use crate::object::Object;
use crate::read::ChunkTable;
use crate::store::{Home, Marker, Sharded};
use crate::{Error, ErrorKind, File, Result};
use hyperchunk_format::model::{
    Chunk, Chunked, Dataspace, Datatype, ExternalFile, FillTime, FillValue, FillWhen, Filter, Layout,
    VirtualMapping,
};
use hyperchunk_format::parse::object::{self, DatasetHeader};
use hyperchunk_format::parse::virtual_layout;
use std::sync::{Arc, OnceLock};

/// A dataset. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Dataset(pub(crate) Arc<Inner>);

#[derive(Debug)]
pub(crate) struct Inner {
    pub(crate) object: Object,
    pub(crate) header: DatasetHeader,
    /// The extent: the header's, but for a virtual dataset of no fixed extent.
    pub(crate) dims: Vec<u64>,
    pub(crate) mappings: Vec<VirtualMapping>,
    /// Of a dataset of a sharded store: where its data are.
    pub(crate) sharded: Option<Sharded>,
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

    /// It as an object.
    #[must_use]
    pub fn object(&self) -> &Object {
        &self.0.object
    }

    /// The type of its elements.
    #[must_use]
    pub fn datatype(&self) -> &Datatype {
        &self.0.header.datatype
    }

    /// The committed datatype that it uses, by the address of its header.
    #[must_use]
    pub fn committed(&self) -> Option<u64> {
        self.0.header.committed
    }

    /// Its dataspace as the header has it. The extent that counts is [`Dataset::dims`].
    #[must_use]
    pub fn dataspace(&self) -> &Dataspace {
        &self.0.header.dataspace
    }

    /// Its extent, slowest dimension first. That of a virtual dataset without bounds depends on what its sources have now.
    #[must_use]
    pub fn dims(&self) -> &[u64] {
        &self.0.dims
    }

    /// How many elements it has.
    ///
    /// # Errors
    /// Limit if more than 2⁶⁴ - 1.
    pub fn elements(&self) -> Result<u64> {
        let elements = match &self.0.header.dataspace {
            Dataspace::Simple { .. } if self.0.dims.contains(&0) => Some(0),
            Dataspace::Simple { .. } => {
                self.0.dims.iter().try_fold(1_u64, |product, dim| product.checked_mul(*dim))
            }
            other => other.elements(),
        };
        elements.ok_or_else(|| self.name(Error::limit("more than 2^64 elements")))
    }

    /// Where its data lie.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.0.header.layout
    }

    /// Its chunks, if it has any.
    #[must_use]
    pub fn chunked(&self) -> Option<&Chunked> {
        match &self.0.header.layout {
            Layout::Chunked(chunked) => Some(chunked),
            _ => None,
        }
    }

    /// Its filters.
    #[must_use]
    pub fn pipeline(&self) -> &[Filter] {
        &self.0.header.pipeline
    }

    /// What never-written elements are.
    #[must_use]
    pub fn fill(&self) -> &FillValue {
        &self.0.header.fill
    }

    /// A never-written element, as stored; zeros where none was defined.
    ///
    /// # Errors
    /// Corrupt if it has not the size of an element.
    pub fn fill_bytes(&self) -> Result<Vec<u8>> {
        let size = self.element_size()?;
        match &self.0.header.fill.value {
            FillWhen::User(bytes) if bytes.len() == size => Ok(bytes.clone()),
            FillWhen::User(bytes) if !bytes.is_empty() => {
                let message = format!("a fill value of {} bytes for elements of {size}", bytes.len());
                Err(self.name(Error::corrupt(message)))
            }
            _ => crate::room::zeros(size).map_err(|error| self.name(error)),
        }
    }

    /// What never-written elements read as: the fill value, but zeros where it must never be written, as in libhdf5. `None`
    /// for zeros.
    ///
    /// # Errors
    /// As [`Dataset::fill_bytes`].
    pub(crate) fn unwritten(&self) -> Result<Option<Vec<u8>>> {
        match (self.0.header.fill.time, &self.0.header.fill.value) {
            (FillTime::Never, _) => Ok(None),
            (_, FillWhen::User(bytes)) if !bytes.is_empty() => self.fill_bytes().map(Some),
            _ => Ok(None),
        }
    }

    /// The files that hold its raw data, if they do not lie in its own.
    #[must_use]
    pub fn external(&self) -> &[ExternalFile] {
        &self.0.header.external
    }

    /// Which dataset of a sharded store it is, if it is one. Its data, and what it is, come from there.
    #[must_use]
    pub fn store(&self) -> Option<Marker> {
        self.0.sharded.as_ref().map(Sharded::marker)
    }

    /// Of how many pieces its data are, if it is of a sharded store.
    #[must_use]
    pub fn pieces(&self) -> Option<u64> {
        self.0.sharded.as_ref().map(Sharded::pieces)
    }

    /// The sources of a virtual dataset.
    #[must_use]
    pub fn mappings(&self) -> &[VirtualMapping] {
        &self.0.mappings
    }

    /// All chunks that are stored, in order of their place.
    ///
    /// # Errors
    /// If their index cannot be read; Unsupported for a dataset of a sharded store, whose data are no chunks of the file.
    pub fn chunks(&self) -> Result<Vec<Chunk>> {
        if self.0.sharded.is_some() {
            let message = "the dataset is in a sharded store: its chunks are pieces of logs, not of the file";
            return Err(self.name(Error::unsupported(message)));
        }
        crate::read::all_chunks(self)
    }

    /// The places in the grid of its chunks where something was written.
    pub(crate) fn touched(&self) -> Result<Vec<Vec<u64>>> {
        match (&self.0.sharded, self.chunked()) {
            (Some(sharded), Some(chunked)) => {
                let limits = &self.object().file().options().limits;
                sharded.touched(&chunked.dims, limits).map_err(|error| self.name(error))
            }
            _ => Ok(self.chunks()?.into_iter().map(|chunk| chunk.scaled).collect()),
        }
    }

    /// The bytes of a chunk as they are stored.
    ///
    /// # Errors
    /// Truncated or Io; Limit if it is larger than chunks may be; as [`Dataset::chunks`].
    pub fn read_chunk_raw(&self, chunk: &Chunk) -> Result<Vec<u8>> {
        if self.0.sharded.is_some() {
            return self.chunks().map(|_| Vec::new());
        }
        let mut bytes = Vec::new();
        let read = crate::read::read_stored(self, chunk, &mut bytes);
        self.object().file().unchanged(read)?;
        Ok(bytes)
    }

    /// How many bytes an element has.
    pub(crate) fn element_size(&self) -> Result<usize> {
        let size = usize::try_from(self.0.header.datatype.size);
        size.map_err(|_| self.name(Error::limit("elements larger than the address space")))
    }

    /// The error, with the names of this dataset and its file.
    #[must_use]
    pub fn name(&self, error: Error) -> Error {
        self.0.object.name(error)
    }
}

/// Whether a source in the file itself is there.
fn is_there(file: &File, source: &VirtualMapping) -> Result<bool> {
    let Some(path) = source.dataset.parts.first() else { return Ok(false) };
    match file.root()?.group()?.get(path.as_bytes()) {
        Ok(_) => Ok(true),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Where the data are of a dataset of a sharded store; its header gets what the dataset is. Where the store is gone, but what
/// libhdf5 reads of it is not, it is a dataset like others.
fn sharded(
    object: &Object,
    header: &mut DatasetHeader,
    mappings: &[VirtualMapping],
) -> Result<Option<Sharded>> {
    let file = object.file();
    let marker = Marker::of(&header.external).or_else(|| Marker::of_sources(mappings));
    let Some(marker) = marker.filter(|_| !file.options().ignore_stores) else { return Ok(None) };
    let home = Home { path: file.path(), source: &file.0.source, external: file.options().external };
    let sharded = Sharded::open(&file.0.stores, &home, marker, header).map_err(|error| object.name(error))?;
    // What libhdf5 would read of one that is refused is not what the store holds now.
    if sharded.is_committed() || sharded.is_refused() {
        return Ok(Some(sharded));
    }
    let is_readable = match mappings.first() {
        // Copied into another file, a virtual dataset has lost its blocks, and would read as fill values.
        Some(first) => is_there(file, first)?,
        None => header.external.len() > 1,
    };
    Ok(Some(sharded).filter(|_| !is_readable))
}
