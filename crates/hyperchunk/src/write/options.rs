//! How files and datasets are made.

use crate::io::Locking;
use hyperchunk_format::encode::Oldest;
use hyperchunk_format::model::{Dataspace, Datatype, ExternalFile, FillValue, Pipeline, VirtualMapping};

/// How a file is made.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CreateOptions {
    /// The oldest release of HDF5 that must be able to read it.
    pub oldest: Oldest,
    /// The newest whose format may be used for what has no older one: then [`Writer::notices`](super::Writer::notices) says
    /// so. What needs a newer one than this and `oldest` is an error that says so; virtual datasets are always as of HDF5 1.10.
    pub newest: Oldest,
    /// How many threads compress; 0 for as many as there are processors.
    pub threads: usize,
    /// When data must have reached the disk.
    pub sync: Sync,
    /// Where structure lies.
    pub layout: FileLayout,
    /// Chunks and contiguous data begin at a multiple of this, in bytes of the file.
    pub alignment: u64,
    /// Only what has so many bytes begins there.
    pub alignment_threshold: u64,
    /// Whether a file of the same name may be there; if not, it is an error, else it is replaced when the new one is committed.
    pub replace: bool,
    /// Whether a journal is kept beside a file of this machine until it is closed, from which `hyperchunk recover` gets back
    /// what was whole if this process is killed. Without one, chunks of the same size are written over in place.
    pub journal: bool,
    /// How many bytes of chunks that are not written in full may wait in memory for the rest.
    pub waiting_bytes: usize,
    /// How many bytes of the file come before the HDF5 superblock, for others than HDF5: 0, or a power of two from 512 on.
    /// [`Writer::write_user_block`](super::Writer::write_user_block) writes them.
    pub user_block: u64,
    /// Whether bytes stay where they are for as long as the file lives: neither this writer nor programs that change the
    /// file later use space again that became free. HDF5 1.8 may read such a file, but refuses to change it.
    pub lasting: bool,
    /// Whether a file of this machine is locked: for this writer alone until the first commit, for it and readers after that.
    pub locking: Locking,
}

impl Default for CreateOptions {
    fn default() -> Self {
        Self {
            oldest: Oldest::V18,
            newest: Oldest::V18,
            threads: 0,
            sync: Sync::Commit,
            layout: FileLayout::AtEnd,
            alignment: 1,
            alignment_threshold: 0,
            replace: true,
            journal: true,
            waiting_bytes: 64 << 20,
            user_block: 0,
            lasting: false,
            locking: Locking::Default,
        }
    }
}

/// When data must have reached the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    /// When the system likes: a power failure may leave an empty file.
    Never,
    /// Before a commit ends.
    Commit,
    /// Before each write ends.
    Write,
}

/// Where a file's structure lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileLayout {
    /// Behind the data.
    AtEnd,
    /// In front of the data, in so many bytes that are kept free for it; behind them if it does not fit. The file says how
    /// large this first page is, so that a reader over a network fetches it with one request.
    InFront {
        /// The size of the first page: a power of two from 512 bytes to 1 GiB.
        page: u64,
    },
}

/// How a dataset is made.
#[derive(Debug, Clone)]
pub struct DatasetOptions {
    /// The type of its elements.
    pub datatype: Datatype,
    /// The committed datatype that it uses, by its address.
    pub committed: Option<u64>,
    /// Its extent.
    pub dataspace: Dataspace,
    /// Where its data will lie.
    pub layout: NewLayout,
    /// The filters of its chunks.
    pub pipeline: Pipeline,
    /// What never-written elements are.
    pub fill: FillValue,
    /// Whether the order in which attributes are made is tracked.
    pub track_order: bool,
}

/// Where the data of a new dataset will lie.
#[derive(Debug, Clone, PartialEq)]
pub enum NewLayout {
    /// With the structure; up to 64 KiB.
    Compact,
    /// In one piece.
    Contiguous,
    /// In chunks of these dimensions.
    Chunked(Vec<u64>),
    /// In other files, as they are.
    External(Vec<ExternalFile>),
    /// In other datasets.
    Virtual(Vec<VirtualMapping>),
}
