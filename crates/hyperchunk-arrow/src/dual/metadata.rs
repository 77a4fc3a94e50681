//! Metadata keys of a dual file's footer.

/// Marks the file as a dual file; the value is the version of the layout.
pub(super) const DUAL: &str = "h5.dual";
/// The version that is written.
pub(super) const VERSION: &str = "1";
/// The path of the group of the columns.
pub(super) const GROUP: &str = "h5.group";
/// The number of commits.
pub(super) const GENERATION: &str = "h5.generation";
/// The size of the file.
pub(super) const END: &str = "h5.end";
/// Prefix in the schema's metadata, followed by a number: the groups above the columns' group.
pub(super) const ABOVE: &str = "h5.above.";
