//! Writing for concurrent readers (SWMR). Readers of libhdf5 keep the addresses of object headers and chunk
//! indexes, so a flush updates these in place, in an order in which each intermediate state of the file can
//! be read.
//!
//! `begin_swmr` commits the file with the flags of a SWMR writer. From then on no space is freed, and a flush
//! writes for each changed dataset: chunks (always to new addresses), new and changed blocks of the chunk
//! index from the leaves upwards, then the object header with extent and address of the index. Each is one
//! write, with a checksum. Closing the file commits it as usual, without the flags.
//!
//! Source: *RFC: SWMR Requirements and Use Cases*; specification §II.A, §IV.A.1.b, §VII.C and D.

use super::chunks::Data;
use super::commit::{FrozenDataset, Structure, freeze};
use super::tree::{DatasetNode, NodeId, NodeKind};
use super::writer::{Inner, Writer};
use crate::{Error, Result};
use hyperchunk_format::checksum::lookup3;
use hyperchunk_format::encode::chunk_index::{self, ArrayPlaces, Kind};
use hyperchunk_format::encode::message::{self, layout};
use hyperchunk_format::encode::{LibVersion, object_header, superblock};
use hyperchunk_format::model::{ChunkIndex, Chunked, Dataspace, Layout};
use hyperchunk_format::parse::chunk_index::ChunkMap;
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

/// State of a file in SWMR mode.
#[derive(Debug)]
pub(super) struct Swmr {
    root: u64,
    extension: Option<u64>,
    datasets: Vec<SwmrDataset>,
}

/// A dataset whose structure is updated in place.
#[derive(Debug)]
struct SwmrDataset {
    id: NodeId,
    address: u64,
    header: Vec<u8>,
    index: Option<Index>,
    dims: Vec<u64>,
}

/// A chunk index that is updated in place.
#[derive(Debug)]
struct Index {
    kind: Kind,
    places: ArrayPlaces,
    /// Checksum of each block that was written, by address.
    written: HashMap<u64, u32>,
}

impl Writer {
    /// Begins SWMR mode. Readers of libhdf5 and Hyperchunk that open the file for SWMR see flushed data after
    /// a refresh. Objects and attributes that are created from now on are added to the file when it is
    /// closed.
    ///
    /// # Errors
    /// Unsupported unless the file is a new local file in a format of HDF5 1.10 or later (`oldest`), and for
    /// datasets that cannot grow in place: those with two or more unlimited dimensions, with variable-length
    /// elements, or to which references point; as [`Writer::flush`].
    pub fn begin_swmr(&self) -> Result<()> {
        let _in_use = self.0.open()?;
        let mut last = self.0.commits();
        if self.0.swmr().is_some() {
            return Ok(());
        }
        self.0.check_swmr().map_err(|error| self.0.named(error))?;
        self.0.space.keep();
        let changes = self.changes();
        let begin = || {
            self.0.place_contiguous()?;
            let structure = self.0.commit_marked()?;
            *self.0.swmr() = Some(self.0.follow(&structure)?);
            self.0.flush_swmr()
        };
        begin().map_err(|error| self.0.named(error))?;
        *last = Some(changes);
        Ok(())
    }

    /// Returns whether the file is in SWMR mode.
    #[must_use]
    pub fn is_swmr(&self) -> bool {
        self.0.swmr().is_some()
    }
}

impl Inner {
    pub(super) fn swmr(&self) -> MutexGuard<'_, Option<Swmr>> {
        self.swmr.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn check_swmr(&self) -> Result<()> {
        let refuse = |what: &str| {
            Err(Error::unsupported(format!(
                "cannot write in SWMR mode: expected a new local file with libver=\"latest\", got {what}; flush() commits \
                 what was written, and readers open the file again"
            )))
        };
        let has_second_format = self.second_format.read().unwrap_or_else(PoisonError::into_inner).is_some();
        if self.edit.is_some() {
            return refuse("an edit of an existing file");
        }
        if self.options.oldest < LibVersion::V110 {
            return refuse("a file for releases before HDF5 1.10");
        }
        if self.sink.kept().is_some()
            || has_second_format
            || self.front_start().is_some()
            || self.options.lasting
        {
            return refuse("one that is streamed, in memory, paged, or in two formats");
        }
        let tree = self.tree();
        for id in tree.reachable() {
            let node = tree.node(id)?;
            let NodeKind::Dataset(dataset) = &node.kind else { continue };
            let refused = match self.refusal(dataset) {
                None if node.pinned.is_some() => Some("a dataset that references or scales point to"),
                refused => refused,
            };
            if let Some(refused) = refused {
                return refuse(&format!("{refused} (object {})", tree.node_path(id)));
            }
        }
        Ok(())
    }

    /// Returns the reason why a dataset cannot be updated in place; `None` if it can.
    fn refusal(&self, dataset: &DatasetNode) -> Option<&'static str> {
        let Data::Chunked(chunks) = &dataset.data else { return None };
        let Dataspace::Simple { dims, max } = dataset.dataspace() else { return None };
        let kind = self.index_kind(dataset, &dims, &max, &chunks.dims);
        match kind {
            _ if dataset.has_vlen => Some("a chunked dataset of variable-length sequences or strings"),
            Kind::BTreeV1 | Kind::BTreeV2 => Some(
                "a dataset with two or more unlimited dimensions, or more chunks than an array of them can have",
            ),
            _ => None,
        }
    }

    fn index_kind(&self, dataset: &DatasetNode, dims: &[u64], max: &[Option<u64>], chunk: &[u64]) -> Kind {
        let oldest = dataset.oldest(self.options.oldest);
        chunk_index::choose(dims, max, chunk, !dataset.pipeline.is_empty(), false, oldest)
    }

    /// Allocates contiguous datasets. Readers of libhdf5 refuse data past the end that the file had when they
    /// opened it.
    fn place_contiguous(&self) -> Result<()> {
        let tree = self.tree();
        for id in tree.reachable() {
            if let NodeKind::Dataset(dataset) = &tree.node(id)?.kind
                && matches!(&dataset.data, Data::Contiguous { size: 1.., .. })
            {
                dataset.begin(self, 0)?;
            }
        }
        Ok(())
    }

    /// Records the addresses at which a commit has stored the datasets.
    fn follow(&self, structure: &Structure) -> Result<Swmr> {
        let tree = self.tree();
        let mut datasets = Vec::new();
        for place in &structure.places {
            let NodeKind::Dataset(dataset) = &tree.node(place.id)?.kind else { continue };
            let from = usize::try_from(place.start + place.header).unwrap_or(usize::MAX);
            let to =
                usize::try_from(place.start + place.length).unwrap_or(usize::MAX).min(structure.region.len());
            let header = structure.region.get(from..to).unwrap_or_default().to_vec();
            let index = match (&dataset.data, dataset.dataspace()) {
                (Data::Chunked(chunks), Dataspace::Simple { dims, max }) => Some(Index {
                    kind: self.index_kind(dataset, &dims, &max, &chunks.dims),
                    places: ArrayPlaces::default(),
                    written: HashMap::new(),
                }),
                _ => None,
            };
            let address = structure.start + place.start + place.header;
            datasets.push(SwmrDataset { id: place.id, address, header, index, dims: dataset.dims() });
        }
        Ok(Swmr { root: structure.root, extension: structure.extension, datasets })
    }

    /// Makes written data visible to SWMR readers.
    pub(super) fn flush_swmr(&self) -> Result<()> {
        self.flush_waiting()?;
        let mut swmr = self.swmr();
        let Some(swmr) = swmr.as_mut() else { return Ok(()) };
        let tree = self.tree();
        let frozen = freeze(&tree, true);
        for followed in &mut swmr.datasets {
            let NodeKind::Dataset(dataset) = &tree.node(followed.id)?.kind else { continue };
            let Some(frozen) = frozen.get(followed.id.0).and_then(Option::as_ref) else { continue };
            self.flush_dataset(followed, dataset, frozen)
                .map_err(|error| error.object(tree.node_path(followed.id)))?;
        }
        let end = self.space.end();
        let mut bytes = superblock::encode(3, swmr.root, end, swmr.extension, self.options.user_block)?;
        superblock::mark_swmr(&mut bytes)?;
        self.note_commit(&bytes, 0, &[])?;
        self.sink.write_at(0, &bytes)?;
        self.sink.sync()
    }

    fn flush_dataset(
        &self,
        followed: &mut SwmrDataset,
        dataset: &DatasetNode,
        frozen: &FrozenDataset,
    ) -> Result<()> {
        let oldest = dataset.oldest(self.options.oldest);
        let dims = frozen.dataspace.dims();
        if followed.dims.iter().zip(dims).any(|(before, now)| now < before) {
            return Err(Error::unsupported(
                "cannot flush the dataset in SWMR mode: its extent may only grow, but has become smaller",
            ));
        }
        let layout = match (&dataset.data, &mut followed.index, &frozen.dataspace) {
            (Data::Chunked(chunks), Some(index), Dataspace::Simple { dims, max }) => {
                let version = if u32::try_from(chunks.bytes).is_err() { 5 } else { 4 };
                let mut chunked = Chunked {
                    dims: chunks.dims.clone(),
                    element_size: dataset.datatype.size,
                    edge_chunks_unfiltered: false,
                    version,
                    index: ChunkIndex::BTreeV2 { address: None },
                };
                let map = ChunkMap { chunked: &chunked, dims, max, filtered: !dataset.pipeline.is_empty() };
                let mut take = |length: u64| self.take_aligned(length, 8);
                let encoded = chunk_index::encode_in_place(
                    index.kind,
                    &map,
                    &frozen.chunks,
                    &mut index.places,
                    &mut take,
                )?;
                for (address, bytes) in &encoded.parts {
                    let sum = lookup3(bytes);
                    if index.written.get(address) != Some(&sum) {
                        self.sink.write_at(*address, bytes)?;
                        index.written.insert(*address, sum);
                    }
                }
                chunked.index = encoded.index;
                Some(Layout::Chunked(chunked))
            }
            (Data::Compact(_) | Data::Contiguous { .. }, ..) => Some(self.layout_in_header(dataset, frozen)?),
            _ => None,
        };
        let mut header = followed.header.clone();
        let dataspace = message::dataspace::encode(&frozen.dataspace)?;
        object_header::replace(&mut header, message::DATASPACE, &dataspace)?;
        if let Some(layout) = layout {
            object_header::replace(&mut header, message::LAYOUT, &layout::encode(&layout, oldest)?)?;
        }
        if header != followed.header {
            self.sink.write_at(followed.address, &header)?;
            followed.header = header;
            followed.dims = dims.to_vec();
        }
        Ok(())
    }

    /// Ends SWMR mode, before the last commit; returns whether the file was in SWMR mode.
    pub(super) fn end_swmr(&self) -> Result<bool> {
        if self.swmr().is_none() {
            return Ok(false);
        }
        self.flush_swmr()?;
        self.swmr().take();
        self.changes.fetch_add(1, Ordering::AcqRel);
        Ok(true)
    }
}
