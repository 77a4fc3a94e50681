//! Parts of the engine that `hyperchunk-store` builds on. They change with the engine: this is not a stable
//! interface.

pub use crate::external::refused;
pub use crate::read::{
    ChunkCache, MIN_BYTES_PER_THREAD, Output, Part, Parts, Scratch, Stretch, placed, spread,
};

/// Digests of local files.
pub mod contents {
    pub use crate::contents::{MAX_FILE_BYTES, of};
}

/// Edits that were interrupted in the middle of a commit.
pub mod edits {
    use crate::{Result, write};
    use std::path::Path;

    /// Completes or discards an interrupted edit of a file whose bytes are read without [`crate::File::open`].
    ///
    /// # Errors
    /// Changed if another program has changed the file since; Io if the file cannot be written.
    pub fn settle(file: &Path) -> Result<()> {
        write::settle_in_file(file)
    }

    /// Completes or discards an interrupted edit of a file that is about to be created or replaced.
    ///
    /// # Errors
    /// As [`settle`]; Exists for a journal whose file no longer exists.
    pub fn settle_to_replace(file: &Path) -> Result<()> {
        write::settle_to_replace(file)
    }
}

/// The container of sidecar files.
pub mod frame {
    pub use crate::index::frame::{Frame, HEADER_BYTES, SectionLocation, pack, put_identity, take_identity};
    pub use crate::index::packed::{put, take};
}

/// Positioned reads and writes of local files.
pub mod positioned {
    pub use crate::os::{read_exact_at, write_all_at};
}

/// Rounds of requests.
pub mod rounds {
    pub use crate::io::rounds::alone;
}

/// Uploads of objects in parts.
pub mod upload {
    pub use crate::io::upload::{CreateOutcome, ListedObject, PartCallback, StoredObject, Upload};
}

/// Steps of packing.
pub mod pack {
    pub use crate::pack::copy::{CopyCounts, copy, copy_choice};
    pub use crate::pack::list::{Contents, Item};
    pub use crate::pack::make::{CreatedObjects, attribute, make_dataset, tracked};
    pub use crate::pack::plan::{Plan, dataset_plan, is_empty, needed};
    pub use crate::pack::shape::good_chunk;
    pub use crate::pack::translate::{Translation, is_null_reference};
    pub use crate::pack::verify::compare_chunks;
}
