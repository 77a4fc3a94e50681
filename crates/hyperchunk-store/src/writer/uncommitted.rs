//! Reading in a writing process: the epoch that a writer adds to, overlaid with the writer's own
//! data.

use super::log_writer::LogWriter;
use crate::arrow_files::Segment;
use crate::format::fragment_offset::{inside, is_in};
use crate::read::pieces::{Fuel, Hits, Pieces};
use crate::read::plan::{DatasetInfo, Find, Logs, ReadResources, read};
use crate::read::snapshot::{PreparedDataset, Store};
use crate::{DatasetWrites, Definition, Headers};
use hyperchunk::OpenOptions;
use hyperchunk::internal::{ChunkCache, MIN_BYTES_PER_THREAD, Output};
use hyperchunk::io::Source;
use hyperchunk::{Error, Result};
use hyperchunk_format::select::Selection;
use std::sync::{Arc, PoisonError, RwLock};

/// Number of the writer's own log, among the logs of its epoch.
const OWN_LOG: u64 = u64::MAX;

/// State for reading a dataset, including its latest writes.
#[derive(Debug, Clone)]
pub(crate) struct OwnReader {
    about: Arc<DatasetInfo>,
    /// Pieces of this writer.
    own: Arc<RwLock<Pieces>>,
    /// The base epoch and the dataset in it.
    base: Option<(Arc<Store>, Arc<PreparedDataset>)>,
}

impl OwnReader {
    /// Prepares reading a dataset with all its writes; `dims` are the base extent and the current
    /// extent.
    pub(crate) fn new(
        definition: &Definition,
        dims: (&[u64], &[u64]),
        written: &[&DatasetWrites],
        base: Option<(Arc<Store>, Arc<PreparedDataset>)>,
    ) -> Result<Self> {
        let own = Pieces::own(dims.0, written)?;
        let about = Arc::new(DatasetInfo::new(definition, dims.1)?);
        Ok(Self { about, own: Arc::new(RwLock::new(own)), base })
    }

    /// Adds later writes.
    pub(crate) fn add(
        &mut self,
        definition: &Definition,
        dims: &[u64],
        written: &DatasetWrites,
    ) -> Result<()> {
        if self.about.dims != dims {
            self.about = Arc::new(DatasetInfo::new(definition, dims)?);
        }
        let mut own = self.own.write().unwrap_or_else(PoisonError::into_inner);
        written.pieces.iter().try_for_each(|piece| own.push(&piece))?;
        written.extents.iter().for_each(|extent| own.push_extent(extent));
        Ok(())
    }
}

impl LogWriter {
    /// Reads elements of a dataset in their current state in this process: the base epoch, overlaid
    /// with this writer's own data, in the order of the selection and in the dataset's datatype.
    ///
    /// # Errors
    /// NotFound if no dataset has that number; Invalid if the selection does not fit the extent or
    /// the buffer; as [`hyperchunk::Dataset::read`].
    pub fn read(&self, dataset: u32, selection: &Selection, out: &mut [u8]) -> Result<()> {
        let reading = self.reading(dataset)?;
        let about = &reading.about;
        let wanted = selection.count(&about.dims)?;
        let bytes = usize::try_from(wanted).ok().and_then(|wanted| wanted.checked_mul(about.element));
        if bytes != Some(out.len()) {
            let message =
                format!("a buffer of {} bytes for {wanted} elements of {} bytes", out.len(), about.element);
            return Err(Error::invalid(message));
        }
        if wanted == 0 {
            return Ok(());
        }
        let options = OpenOptions::default();
        let worth = usize::try_from(out.len() as u64 / MIN_BYTES_PER_THREAD).unwrap_or(usize::MAX).max(1);
        let threads = if worth > 1 { options.thread_count().min(worth) } else { 1 };
        let output = Output::new(out, about.element, about.element, None);
        let layers = reading.base.as_ref().map_or(0, |(_, known)| known.layers());
        let logs: Arc<dyn Logs> = Arc::new(CombinedLogs {
            writer: self.clone(),
            own: Arc::new(OwnLog(self.clone(), self.segment(dataset)?)),
            base: reading.base.clone(),
            layers,
        });
        let means = ReadResources { threads, limits: &options.limits };
        read(about, &logs, &reading, selection, &output, means, None)
    }
}

impl Find for OwnReader {
    fn find(
        &self,
        wanted: &[u64],
        bounds: (usize, &Fuel),
        see: &mut dyn FnMut(&[u64], &mut Vec<u64>) -> bool,
        hits: &mut Hits,
    ) -> Result<bool> {
        let own = self.own.read().unwrap_or_else(PoisonError::into_inner);
        let mut layers = 0;
        if let Some((_, known)) = &self.base {
            layers = known.layers();
            if !known.pieces().find(wanted, (0, own.clip_extent()), bounds, see, hits)? {
                return Ok(false);
            }
        }
        own.find(wanted, (layers, None), bounds, see, hits)
    }

    fn has_fields(&self) -> bool {
        let of_base = self.base.as_ref().is_some_and(|(_, known)| known.has_fields());
        of_base || self.own.read().unwrap_or_else(PoisonError::into_inner).has_fields()
    }
}

/// The logs of the base epoch, followed by the writer's own.
#[derive(Debug)]
struct CombinedLogs {
    writer: LogWriter,
    own: Arc<dyn Source>,
    base: Option<(Arc<Store>, Arc<PreparedDataset>)>,
    /// Number of layers of the base epoch.
    layers: u32,
}

impl Logs for CombinedLogs {
    fn log(&self, layer: u32) -> Result<Arc<dyn Source>> {
        match &self.base {
            Some((store, known)) if layer < self.layers => {
                store.log_with_fragment(known.layer(layer).log, known)
            }
            _ => Ok(Arc::clone(&self.own)),
        }
    }

    fn extent(&self, layer: u32) -> (u64, u64) {
        match &self.base {
            Some((_, known)) if layer < self.layers => known.extent(layer),
            _ => (OWN_LOG, u64::MAX),
        }
    }

    fn name(&self, layer: u32) -> String {
        match &self.base {
            Some((store, known)) if layer < self.layers => store.log_name(known.layer(layer).log),
            _ => self.writer.log().display().to_string(),
        }
    }

    fn headers(&self, layer: u32) -> Option<&Headers> {
        match &self.base {
            Some((store, _)) if layer < self.layers => Some(store.headers()),
            // Data written by this process are not verified.
            _ => None,
        }
    }

    fn chunks(&self) -> &ChunkCache {
        self.writer.chunks()
    }
}

/// The log of this process; all pieces that refer to it were written out.
#[derive(Debug)]
struct OwnLog(LogWriter, Option<Arc<Segment>>);

impl Source for OwnLog {
    fn size(&self) -> u64 {
        u64::MAX
    }

    fn read_at(&self, offset: u64, buffer: &mut [u8]) -> Result<()> {
        if let Some(segment) = self.1.as_ref().filter(|_| is_in(offset)) {
            return segment.read(inside(offset), buffer);
        }
        self.0.read_log(offset, buffer)
    }
}
