//! Options for creating files and datasets.

use crate::io::Locking;
use hyperchunk_format::encode::LibVersion;
use hyperchunk_format::model::{Dataspace, Datatype, ExternalFile, FillValue, Pipeline, VirtualMapping};

/// Options for creating a file.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub struct CreateOptions {
    /// The oldest release of HDF5 that must be able to read it.
    pub oldest: LibVersion,
    /// The newest release whose format may be used for contents that the format of `oldest` cannot hold;
    /// [`Writer::notices`](super::Writer::notices) reports each use. Contents that need a newer format than `oldest` and
    /// `newest` are an error that says so. Virtual datasets are exempt: they always need HDF5 1.10.
    pub newest: LibVersion,
    /// Number of threads that compress; 0 for the number of processors.
    pub threads: usize,
    /// Time at which data must have reached the disk.
    pub sync: Sync,
    /// Place of the structure.
    pub layout: FileLayout,
    /// Alignment of chunks and contiguous data, in bytes of the file.
    pub alignment: u64,
    /// Minimum size in bytes of aligned data.
    pub alignment_threshold: u64,
    /// True if an existing file is replaced when the new one is committed; otherwise it is an error.
    pub replace: bool,
    /// True to keep a journal beside a local file until it is closed. If this process is killed,
    /// `hyperchunk recover` restores the complete data from it. Without one, chunks of the same size are
    /// overwritten in place.
    pub journal: bool,
    /// Maximum number of bytes of partially written chunks that wait in memory for the rest.
    pub waiting_bytes: usize,
    /// Number of bytes before the HDF5 superblock, for other uses: 0, or a power of two from 512 on.
    /// [`Writer::write_user_block`](super::Writer::write_user_block) writes them.
    pub user_block: u64,
    /// True if bytes stay in place for the life of the file: freed space is never used again, neither by
    /// this writer nor by programs that change the file later. HDF5 1.8 may read such a file, but refuses
    /// to change it.
    pub lasting: bool,
    /// Locking of a local file: exclusive for this writer until the first commit, shared with readers after
    /// that.
    pub locking: Locking,
    /// True to let the superblock guard the commits of an edit: while one is put into the file, programs that know
    /// nothing of the journal refuse the file, and after an interruption they refuse it until the commit is completed.
    /// A commit waits for the disk twice more.
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

/// Time at which data must have reached the disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sync {
    /// Left to the system: a power failure may leave an empty file.
    Never,
    /// Before a commit ends.
    Commit,
    /// Before each write ends.
    Write,
}

/// Place of a file's structure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FileLayout {
    /// After the data.
    AtEnd,
    /// Before the data, in a page reserved for it; after the data if it does not fit. The file records the
    /// size of this first page, so that a reader over a network fetches it with one request.
    InFront {
        /// The size of the first page: a power of two from 512 bytes to 1 GiB.
        page: u64,
    },
}

/// Options for creating a dataset.
#[derive(Debug, Clone)]
pub struct DatasetOptions {
    /// The type of its elements.
    pub datatype: Datatype,
    /// The committed datatype that it uses, by its address.
    pub committed: Option<u64>,
    /// Its extent.
    pub dataspace: Dataspace,
    /// The layout of its data.
    pub layout: NewLayout,
    /// The filters of its chunks.
    pub pipeline: Pipeline,
    /// Its fill value, for elements that were never written.
    pub fill: FillValue,
    /// True to track the creation order of attributes.
    pub track_order: bool,
}

/// Layout of a new dataset's data.
#[derive(Debug, Clone, PartialEq)]
pub enum NewLayout {
    /// In the object header; up to 64 KiB.
    Compact,
    /// Contiguous.
    Contiguous,
    /// In chunks of these dimensions.
    Chunked(Vec<u64>),
    /// In other files, as they are.
    External(Vec<ExternalFile>),
    /// In other datasets.
    Virtual(Vec<VirtualMapping>),
}
