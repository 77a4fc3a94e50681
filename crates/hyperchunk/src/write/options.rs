//! Options for creating files and datasets.

use crate::io::Locking;
use hyperchunk_format::encode::LibVersion;
use hyperchunk_format::model::{Dataspace, Datatype, ExternalFile, FillValue, Pipeline, VirtualMapping};

/// Options for creating a file.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CreateOptions {
    /// Oldest release of HDF5 that must be able to read the file.
    pub oldest: LibVersion,
    /// Newest release whose format may be used for content that the format of `oldest` does not support;
    /// [`Writer::notices`](super::Writer::notices) reports each use. Content that needs a newer format than
    /// `oldest` and `newest` is an error. Virtual datasets are exempt: they always need HDF5 1.10.
    pub newest: LibVersion,
    /// Number of threads that compress; 0 for the number of processors.
    pub threads: usize,
    /// When data are synced to disk.
    pub sync: Sync,
    /// Location of the structure in the file.
    pub layout: FileLayout,
    /// Alignment of chunks and contiguous data in bytes.
    pub alignment: u64,
    /// Minimum size in bytes of aligned data.
    pub alignment_threshold: u64,
    /// True to replace an existing file when the new one is committed; false to fail if the file exists.
    pub replace: bool,
    /// True to keep a journal beside a local file until it is closed. If this process is killed,
    /// `hyperchunk recover` restores the complete data from it. Without a journal, a rewritten chunk of the
    /// same size is overwritten in place.
    pub journal: bool,
    /// Maximum number of bytes of partially written chunks that are kept in memory until the rest is written.
    pub waiting_bytes: usize,
    /// Size of the user block, the bytes before the superblock: 0, or a power of two of at least 512.
    /// [`Writer::write_user_block`](super::Writer::write_user_block) writes it.
    pub user_block: u64,
    /// True to never reuse freed space, neither by this writer nor by programs that change the file later, so
    /// that data keep their addresses. HDF5 1.8 can read such a file, but refuses to change it.
    pub lasting: bool,
    /// Locking of a local file: exclusive for this writer until the first commit, shared with readers after
    /// that.
    pub locking: Locking,
    /// True to mark the file in its superblock while a commit of an edit is written to it. Programs that do
    /// not use Hyperchunk's journal then refuse the file; after an interruption they do so until the commit
    /// is completed. Each commit syncs two more times.
    pub guard: bool,
}

impl Default for CreateOptions {
    fn default() -> Self {
        Self {
            oldest: LibVersion::V18,
            newest: LibVersion::V18,
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
            guard: false,
        }
    }
}

/// When written data are synced to disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    /// Never: a power failure may leave an empty file.
    Never,
    /// Before a commit returns.
    Commit,
    /// Before each write returns.
    Write,
}

/// Location of a file's structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileLayout {
    /// After the data.
    AtEnd,
    /// Before the data, in a page reserved for it; after the data if it does not fit. The file stores the
    /// size of this first page, so that a reader over a network fetches it with one request.
    InFront {
        /// Size of the first page: a power of two from 512 bytes to 1 GiB.
        page: u64,
    },
}

/// Options for creating a dataset.
#[derive(Debug, Clone)]
pub struct DatasetOptions {
    /// Type of the elements.
    pub datatype: Datatype,
    /// Address of the committed datatype, if the dataset uses one.
    pub committed: Option<u64>,
    /// Extent and maximum extent.
    pub dataspace: Dataspace,
    /// Layout of the data.
    pub layout: NewLayout,
    /// Filters of the chunks.
    pub pipeline: Pipeline,
    /// Fill value, for elements that were never written.
    pub fill: FillValue,
    /// True to track the creation order of attributes.
    pub track_order: bool,
}

/// Layout of a new dataset's data.
#[derive(Debug, Clone, PartialEq)]
pub enum NewLayout {
    /// In the object header, at most 65,520 bytes.
    Compact,
    /// Contiguous.
    Contiguous,
    /// In chunks of this extent.
    Chunked(Vec<u64>),
    /// As raw data in external files.
    External(Vec<ExternalFile>),
    /// In other datasets (a virtual dataset).
    Virtual(Vec<VirtualMapping>),
}
