//! Keys of a footer's own metadata.

/// Says that the file is HDF5, too: the version of the layout.
pub(super) const DUAL: &str = "h5.dual";
/// The version that is written.
pub(super) const VERSION: &str = "1";
/// The path of the group of the columns.
pub(super) const GROUP: &str = "h5.group";
/// How many commits there were.
pub(super) const GENERATION: &str = "h5.generation";
/// The size of the file.
pub(super) const END: &str = "h5.end";
/// In the schema's metadata, with a number: the groups above that of the columns.
pub(super) const ABOVE: &str = "h5.above.";
