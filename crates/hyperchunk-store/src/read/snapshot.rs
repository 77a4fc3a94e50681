//! Reading the datasets of a committed store.

use super::pieces::{Fuel, Hits, Layer, Pieces};
use crate::arrow_files;
use crate::format::checksums::Headers;
use crate::format::fragment_offset;
use crate::format::manifest;
use crate::format::manifest::Manifest;
use crate::format::stamp;
use crate::location::bucket::parts;
use crate::location::site::{Site, SiteBuf};
use crate::read::plan::{DatasetInfo, Find, Logs, ReadResources, read};
use crate::{DatasetId, Marker};
use hyperchunk::ExternalPolicy;
use hyperchunk::companion::is_distrust;
use hyperchunk::internal::{ChunkCache, Output, Parts, refused, rounds};
use hyperchunk::io::Source;
use hyperchunk::storage::FileLocation;
use hyperchunk::{Error, ErrorKind, Limits, Result};
use hyperchunk_format::model::{ChunkIndex, Chunked, Dataspace, Layout};
use hyperchunk_format::parse::object::DatasetHeader;
use hyperchunk_format::select::Selection;
use std::collections::{BTreeSet, HashMap};
use std::fmt;
use std::ops::Range;
use std::path::Path;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

/// Maximum number of logs that are kept open.
const MAX_OPEN_LOGS: usize = 512;
/// Maximum size of a manifest in bytes.
const MAX_MANIFEST_BYTES: u64 = 1 << 34;

/// The stores of a file's datasets, by epoch: one, except for files that were assembled by hand.
#[derive(Debug, Default)]
pub(crate) struct Stores(Mutex<HashMap<u64, Arc<Store>>>);

/// Number of a log, and name of a table of its writer.
type TableKey = (u32, Arc<str>);

/// An epoch of a store.
pub(crate) struct Store {
    manifest: Arc<Manifest>,
    /// Location of the logs: the folder of a local file, or the siblings of a remote one.
    place: StoreLocation,
    logs: Mutex<HashMap<u32, Arc<dyn Source>>>,
    /// Logs joined with their fragments, by log and table.
    joined: Mutex<HashMap<TableKey, Arc<arrow_files::JoinedSource>>>,
    datasets: Vec<OnceLock<Arc<PreparedDataset>>>,
    headers: Headers,
    chunks: ChunkCache,
    /// Size of the manifest in bytes.
    size: u64,
}

enum StoreLocation {
    Site(SiteBuf),
    Beside(Arc<dyn Source>, String),
}

/// A dataset of an epoch, prepared for reading.
#[derive(Debug)]
pub(crate) struct PreparedDataset {
    pub(crate) about: Arc<DatasetInfo>,
    pieces: Pieces,
    /// Table that it is a column of, and whether any of its pieces are in fragments.
    table: Option<Arc<str>>,
    in_fragments: bool,
}

/// A dataset of a store.
#[derive(Debug, Clone)]
pub(crate) struct ShardedDataset {
    marker: Marker,
    pub(crate) state: State,
}

#[derive(Debug, Clone)]
pub(crate) enum State {
    Committed(Arc<Store>, usize),
    /// Reason why it cannot be read.
    Missing(Error),
}

impl Stores {
    /// Makes the set of one epoch: the one whose skeleton the file is.
    pub(crate) fn with(store: Store) -> Self {
        Self(Mutex::new(HashMap::from([(store.manifest.number, Arc::new(store))])))
    }

    fn epoch(&self, home: &FileLocation<'_>, epoch: u64) -> Result<Arc<Store>> {
        let mut stores = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(store) = stores.get(&epoch) {
            return Ok(Arc::clone(store));
        }
        let store = Arc::new(Store::open(home, epoch)?);
        stores.insert(epoch, Arc::clone(&store));
        Ok(store)
    }
}

impl ShardedDataset {
    /// Opens the dataset of a marker. Replaces the stub's description in the header by the
    /// dataset's own.
    pub(crate) fn open(
        stores: &Stores,
        home: &FileLocation<'_>,
        marker: Marker,
        header: &mut DatasetHeader,
    ) -> Result<Self> {
        let missing = |error| Ok(Self { marker, state: State::Missing(error) });
        if marker.epoch == 0 {
            let file = home.path.map_or_else(|| "FILE".to_owned(), |path| path.display().to_string());
            let message = format!(
                "the dataset is in a sharded store that is not committed: run `hyperchunk store commit {file}`"
            );
            return missing(Error::new(ErrorKind::NotFound, message));
        }
        let store = match stores.epoch(home, marker.epoch) {
            Ok(store) => store,
            Err(error) if error.is_of_reading() || error.kind() == ErrorKind::Need => return Err(error),
            Err(error) => return missing(error),
        };
        let Some(number) = store.manifest.datasets.iter().position(|stored| stored.id == marker.dataset)
        else {
            let message = format!(
                "epoch {} of the store has no dataset {}: the folder of logs belongs to another file, or is incomplete",
                marker.epoch, marker.dataset
            );
            return missing(Error::new(ErrorKind::NotFound, message));
        };
        let stored = &store.manifest.datasets[number];
        let definition = &stored.definition;
        if header.datatype.size != definition.element_size() {
            let message = format!(
                "the file has elements of {} bytes, but its store has {}",
                header.datatype.size,
                definition.element_size()
            );
            return missing(Error::corrupt(message));
        }
        if !(matches!(header.dataspace, Dataspace::Scalar | Dataspace::Null) && stored.extent.is_empty()) {
            header.dataspace = Dataspace::Simple { dims: stored.extent.clone(), max: definition.max.clone() };
        }
        header.layout = match &definition.chunk {
            Some(dims) => Layout::Chunked(Chunked {
                dims: dims.clone(),
                element_size: definition.element_size(),
                edge_chunks_unfiltered: false,
                version: 4,
                index: ChunkIndex::BTreeV2 { address: None },
            }),
            None => Layout::Contiguous { address: None, size: None },
        };
        header.pipeline.clone_from(&definition.pipeline);
        header.fill = definition.fill.clone();
        header.external.clear();
        Ok(Self { marker, state: State::Committed(store, number) })
    }

    /// Returns whether the store was found.
    pub(crate) fn is_committed(&self) -> bool {
        matches!(self.state, State::Committed(..))
    }

    /// Returns whether the store exists but is not trusted, since other users may have changed it.
    pub(crate) fn is_refused(&self) -> bool {
        matches!(&self.state, State::Missing(error) if is_distrust(&error.to_string()))
    }

    /// Returns whether the logs are reached over a network.
    pub(crate) fn is_remote(&self) -> bool {
        match &self.state {
            State::Committed(store, _) => match &store.place {
                StoreLocation::Beside(..) => true,
                StoreLocation::Site(site) => site.site().local().is_none(),
            },
            State::Missing(_) => false,
        }
    }

    /// Returns the marker, which names the dataset and its epoch.
    pub(crate) fn marker(&self) -> Marker {
        self.marker
    }

    /// Returns the epoch and its record of the dataset.
    pub(crate) fn stored(&self) -> Option<(&Manifest, &manifest::StoredDataset)> {
        let State::Committed(store, number) = &self.state else { return None };
        Some((&store.manifest, store.manifest.datasets.get(*number)?))
    }

    /// Returns the number of its pieces.
    pub(crate) fn pieces(&self) -> u64 {
        let State::Committed(store, number) = &self.state else { return 0 };
        let parts = store.manifest.datasets[*number].parts.iter();
        parts.map(|part| part.written.pieces.len()).fold(0, u64::saturating_add)
    }

    /// Returns the cells of a grid in which data were written.
    pub(crate) fn written_cells(&self, grid: &[u64], limits: &Limits) -> Result<Vec<Vec<u64>>> {
        let (store, number) = match &self.state {
            State::Committed(store, number) => (store, *number),
            State::Missing(error) => return Err(error.clone()),
        };
        store.prepared_dataset(number)?.touched(grid, limits)
    }

    /// Reads a selection.
    pub(crate) fn read<'a>(
        &self,
        selection: &Selection,
        output: &'a Output<'a>,
        (threads, limits): (usize, &Limits),
        parts: Option<&mut Parts<'a>>,
    ) -> Result<()> {
        let (store, number) = match &self.state {
            State::Committed(store, number) => (store, *number),
            State::Missing(error) => return Err(error.clone()),
        };
        let known = store.prepared_dataset(number)?;
        let logs: Arc<dyn Logs> = Arc::new(DatasetLogs(Arc::clone(store), Arc::clone(&known)));
        read(&known.about, &logs, &*known, selection, output, ReadResources { threads, limits }, parts)
    }
}

impl Store {
    /// Opens an epoch of the store of a file.
    pub(crate) fn open(home: &FileLocation<'_>, epoch: u64) -> Result<Self> {
        let name = manifest::manifest_name(epoch);
        let absent = |error: Error| match error.kind() {
            ErrorKind::NotFound => {
                let message = format!(
                    "the dataset is in a sharded store, and its epoch {epoch} does not exist: the folder with the name of the \
                     file and `.d` must be beside the file (a hard link, or a file that was copied or moved alone, has none)"
                );
                Error::new(ErrorKind::NotFound, message)
            }
            _ => error,
        };
        if home.external == ExternalPolicy::Never {
            return Err(refused(&name.as_str().into()));
        }
        let Some(path) = home.path else {
            let message = "the dataset is in a sharded store, and a file in memory has no folder beside it";
            return Err(Error::unsupported(message));
        };
        let (place, manifest, size) = match home.source.remote() {
            None => {
                let path = crate::real_file(path);
                let manifest = Manifest::epoch(&path, epoch).map_err(absent)?;
                let size = std::fs::metadata(Manifest::path(&path, epoch)).map_or(0, |file| file.len());
                (StoreLocation::Site(Site::from(&path).into()), manifest, size)
            }
            Some(_) => {
                let place = StoreLocation::Beside(Arc::clone(home.source), format!("{}.d", base_name(path)));
                let source = place.open(&name).map_err(absent)?;
                let size = source.size();
                if size > MAX_MANIFEST_BYTES {
                    return Err(Error::limit(format!(
                        "a manifest of {size} bytes, more than {MAX_MANIFEST_BYTES}"
                    ))
                    .file(place.name(&name)));
                }
                let length = usize::try_from(size).map_err(|_| Error::limit("larger than memory"))?;
                let mut bytes = hyperchunk::room::zeros(length)?;
                source.read_at(0, &mut bytes).map_err(|error| error.file(place.name(&name)))?;
                let manifest = Manifest::decode(&bytes).map_err(|error| error.file(place.name(&name)))?;
                (place, Arc::new(manifest), size)
            }
        };
        if manifest.number != epoch {
            let message = format!("the manifest of epoch {epoch} says that it is epoch {}", manifest.number);
            return Err(Error::corrupt(message).file(place.name(&name)));
        }
        if !stamp::may_be_of(&stamp::start_of(&**home.source)?, &manifest) {
            let message = format!(
                "the dataset is in a sharded store: expected the folder of this file beside it, got that of another store or of \
                 another copy of the store ({}); move the file's own folder there, or use the file that belongs to this one \
                 (`hyperchunk store link` makes it again once this file is moved away)",
                place.name(&name)
            );
            return Err(Error::new(ErrorKind::NotFound, message));
        }
        Ok(Self { size, ..Self::new(manifest, place) })
    }

    fn new(manifest: Arc<Manifest>, place: StoreLocation) -> Self {
        let datasets = manifest.datasets.iter().map(|_| OnceLock::new()).collect();
        let (logs, headers, chunks) = (Mutex::default(), Headers::default(), ChunkCache::default());
        Self { manifest, place, logs, joined: Mutex::default(), datasets, headers, chunks, size: 0 }
    }

    /// Returns the epoch of a store whose site and manifest are known.
    pub(crate) fn from_manifest(site: Site<'_>, manifest: &Arc<Manifest>) -> Self {
        Self::new(Arc::clone(manifest), StoreLocation::Site(site.into()))
    }

    /// Returns the cache of batch headers.
    pub(crate) fn headers(&self) -> &Headers {
        &self.headers
    }

    /// Returns the size of the manifest in bytes.
    pub(crate) fn size(&self) -> u64 {
        self.size
    }

    pub(crate) fn stored(&self, number: usize) -> &manifest::StoredDataset {
        &self.manifest.datasets[number]
    }

    /// Returns the writer of a part of a dataset, and the epoch that committed it.
    pub(crate) fn origin(&self, part: &manifest::Part) -> Option<(crate::WriterId, u64)> {
        let log = self.manifest.logs.get(part.log as usize);
        log.map(|log| (log.writer, part.epoch))
    }

    /// Returns the length up to which a log is committed.
    pub(crate) fn committed_length(&self, number: u32) -> u64 {
        self.manifest.logs.get(number as usize).map_or(0, |part| part.length)
    }

    pub(crate) fn log_name(&self, number: u32) -> String {
        let part = self.manifest.logs.get(number as usize);
        part.map_or_else(String::new, |part| self.place.name(&format!("{}.log", part.writer)))
    }

    /// Returns a dataset, if the epoch has it.
    pub(crate) fn dataset(&self, id: &DatasetId) -> Result<Option<Arc<PreparedDataset>>> {
        let number = self.manifest.datasets.iter().position(|stored| stored.id == *id);
        number.map(|number| self.prepared_dataset(number)).transpose()
    }

    /// Returns the skeleton stored in the manifest.
    pub(crate) fn image(&self) -> &[u8] {
        &self.manifest.image
    }

    pub(crate) fn prepared_dataset(&self, number: usize) -> Result<Arc<PreparedDataset>> {
        if let Some(known) = self.datasets[number].get() {
            return Ok(Arc::clone(known));
        }
        let known = Arc::new(PreparedDataset::new(&self.manifest, number)?);
        Ok(Arc::clone(self.datasets[number].get_or_init(|| known)))
    }

    /// Returns a log, joined with the fragment of its writer that has rows of the dataset.
    pub(crate) fn log_with_fragment(
        self: &Arc<Self>,
        number: u32,
        known: &PreparedDataset,
    ) -> Result<Arc<dyn Source>> {
        match self.with_fragment(number, known)? {
            Some(joined) => Ok(joined),
            None => self.log(number),
        }
    }

    fn with_fragment(
        self: &Arc<Self>,
        number: u32,
        known: &PreparedDataset,
    ) -> Result<Option<Arc<arrow_files::JoinedSource>>> {
        let Some(table) = known.table.as_ref().filter(|_| known.in_fragments) else { return Ok(None) };
        let key = (number, Arc::clone(table));
        let mut all = self.joined.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(joined) = all.get(&key) {
            return Ok(Some(Arc::clone(joined)));
        }
        let log = self.log(number)?;
        let writer = self.manifest.logs.get(number as usize).map(|part| part.writer).unwrap_or_default();
        let (name, store) = (arrow_files::table_file_name(table, writer), Arc::downgrade(self));
        let open = move || {
            let store = store.upgrade().ok_or_else(|| Error::invalid("the store is closed"))?;
            store.place.open(&name).map_err(|error| error.file(store.place.name(&name)))
        };
        let joined = Arc::new(arrow_files::JoinedSource::new(log, Box::new(open)));
        if all.len() >= MAX_OPEN_LOGS {
            all.clear();
        }
        all.insert(key, Arc::clone(&joined));
        Ok(Some(joined))
    }

    pub(crate) fn log(&self, number: u32) -> Result<Arc<dyn Source>> {
        if let Some(log) = self.logs.lock().unwrap_or_else(PoisonError::into_inner).get(&number) {
            return Ok(Arc::clone(log));
        }
        let part = self
            .manifest
            .logs
            .get(number as usize)
            .ok_or_else(|| Error::corrupt("a piece refers to a log that does not exist"))?;
        let name = format!("{}.log", part.writer);
        let named = |error: Error| error.file(self.place.name(&name));
        let log = self.place.open(&name);
        let log = log.and_then(|log| {
            // In an object store, each flush ends a part of the log.
            parts::join(log, part.writer, Some(part.length), &|name| self.place.open(name))
        });
        let log = log.map_err(named)?;
        if log.size() < part.length {
            let message = format!("the log has {} bytes, of which {} are committed", log.size(), part.length);
            return Err(named(Error::new(ErrorKind::Truncated, message)));
        }
        let mut logs = self.logs.lock().unwrap_or_else(PoisonError::into_inner);
        if logs.len() >= MAX_OPEN_LOGS {
            logs.clear();
        }
        logs.insert(number, Arc::clone(&log));
        Ok(log)
    }
}

impl StoreLocation {
    fn open(&self, name: &str) -> Result<Arc<dyn Source>> {
        match self {
            Self::Site(site) => site.site().operations().open(name),
            Self::Beside(file, folder) => {
                let remote = file.remote().ok_or_else(|| Error::invalid("a file that is not remote"))?;
                let sibling = rounds::alone(|| remote.sibling(&format!("{folder}/{name}")));
                sibling.unwrap_or_else(|| {
                    Err(Error::unsupported(
                        "cannot open a sharded store: its file's source gives no access to other files",
                    ))
                })
            }
        }
    }

    fn name(&self, name: &str) -> String {
        match self {
            Self::Site(site) => site.site().operations().place(name).display().to_string(),
            Self::Beside(_, folder) => format!("{folder}/{name}"),
        }
    }
}

/// Returns the last component of the name of a remote file.
fn base_name(path: &Path) -> String {
    let text = path.to_string_lossy();
    let web = text.get(..4).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http"));
    let end = if web { text.find(['?', '#']) } else { None };
    let text = &text[..end.unwrap_or(text.len())];
    let name = text.rsplit('/').next().unwrap_or_default();
    let decoded = if web { hyperchunk::io::percent_decoded(name) } else { None };
    decoded.unwrap_or_else(|| name.to_owned())
}

impl PreparedDataset {
    fn new(manifest: &Arc<Manifest>, number: usize) -> Result<Self> {
        let stored = &manifest.datasets[number];
        let pieces = Pieces::committed(manifest, number)?;
        let about = Arc::new(DatasetInfo::new(&stored.definition, &stored.extent)?);
        let mut written = stored.parts.iter().map(|part| &part.written.pieces);
        let in_fragments = written.any(|pieces| pieces.may_have_offset_bits(fragment_offset::FRAGMENT_FLAG));
        Ok(Self {
            about,
            pieces,
            table: arrow_files::table_name(&stored.definition).map(Arc::from),
            in_fragments,
        })
    }

    pub(crate) fn pieces(&self) -> &Pieces {
        &self.pieces
    }

    fn touched(&self, grid: &[u64], limits: &Limits) -> Result<Vec<Vec<u64>>> {
        let fuel = Fuel::new(limits);
        let wanted: Vec<u64> = self.about.dims.iter().flat_map(|dim| [0, *dim]).collect();
        let mut touched = BTreeSet::new();
        let mut failed = None;
        let mut see = |visible: &[u64], _: &mut Vec<u64>| {
            let ranges: Vec<Range<u64>> = visible
                .chunks_exact(2)
                .zip(grid.iter().zip(&self.about.dims))
                .map(|(range, (step, dim))| range[0] / step..range[1].min(*dim).div_ceil(*step))
                .collect();
            if ranges.iter().any(Range::is_empty) {
                return false;
            }
            let places = ranges.iter().map(|range| range.end - range.start).fold(1, u64::saturating_mul);
            if let Err(error) = fuel.consume(places) {
                failed.get_or_insert(error);
                return false;
            }
            let mut place: Vec<u64> = ranges.iter().map(|range| range.start).collect();
            loop {
                touched.insert(place.clone());
                let Some(axis) = (0..place.len()).rev().find(|axis| place[*axis] + 1 < ranges[*axis].end)
                else {
                    return false;
                };
                place[axis] += 1;
                (axis + 1..place.len()).for_each(|axis| place[axis] = ranges[axis].start);
            }
        };
        self.pieces.find(&wanted, (0, None), (usize::MAX, &fuel), &mut see, &mut Hits::default())?;
        failed.map_or_else(|| Ok(touched.into_iter().collect()), Err)
    }

    /// Returns the number of layers of its pieces.
    pub(crate) fn layers(&self) -> u32 {
        u32::try_from(self.pieces.layers.len()).unwrap_or(u32::MAX)
    }

    pub(crate) fn layer(&self, layer: u32) -> &Layer {
        &self.pieces.layers[layer as usize]
    }

    /// Returns the number of a layer's log, and the length up to which it may be read.
    pub(crate) fn extent(&self, layer: u32) -> (u64, u64) {
        let layer = self.layer(layer);
        (u64::from(layer.log), layer.length)
    }
}

impl DatasetInfo {
    /// Creates the properties from a definition and the current extent.
    pub(crate) fn new(definition: &crate::Definition, dims: &[u64]) -> Result<Self> {
        let element = usize::try_from(definition.element_size());
        let element = element.map_err(|_| Error::limit("elements larger than the address space"))?;
        let fill = definition.unwritten().map(<[u8]>::to_vec);
        let chunk = definition.chunk.clone().unwrap_or_default();
        Ok(Self { dims: dims.to_vec(), element, chunk, pipeline: definition.pipeline.clone(), fill })
    }
}

impl Find for PreparedDataset {
    fn find(
        &self,
        wanted: &[u64],
        bounds: (usize, &Fuel),
        see: &mut dyn FnMut(&[u64], &mut Vec<u64>) -> bool,
        hits: &mut Hits,
    ) -> Result<bool> {
        self.pieces.find(wanted, (0, None), bounds, see, hits)
    }

    fn has_fields(&self) -> bool {
        self.pieces.has_fields()
    }
}

/// The logs of a dataset's layers.
#[derive(Debug)]
struct DatasetLogs(Arc<Store>, Arc<PreparedDataset>);

impl Logs for DatasetLogs {
    fn log(&self, layer: u32) -> Result<Arc<dyn Source>> {
        self.0.log_with_fragment(self.1.layer(layer).log, &self.1)
    }

    fn fragment(&self, layer: u32) -> Result<Option<Arc<dyn Source>>> {
        let joined = self.0.with_fragment(self.1.layer(layer).log, &self.1)?;
        joined.map(|joined| joined.fragment().map(Arc::clone)).transpose()
    }

    fn extent(&self, layer: u32) -> (u64, u64) {
        self.1.extent(layer)
    }

    fn name(&self, layer: u32) -> String {
        self.0.log_name(self.1.layer(layer).log)
    }

    fn headers(&self, _: u32) -> Option<&Headers> {
        Some(&self.0.headers)
    }

    fn chunks(&self) -> &ChunkCache {
        &self.0.chunks
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("epoch", &self.manifest.number).finish_non_exhaustive()
    }
}

/// Returns the data of a dataset of a store.
pub(crate) fn sharded(dataset: &hyperchunk::Dataset) -> Option<&ShardedDataset> {
    (dataset.storage()? as &dyn std::any::Any).downcast_ref()
}
