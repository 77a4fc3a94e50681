//! Offsets of pieces in fragments, the Arrow files beside a log.

/// Flag in the offset of a piece that is in a fragment.
pub(crate) const FRAGMENT_FLAG: u64 = 1 << 62;
/// Number of low bits of such an offset that are the offset in the file. Bits 48 to 61
/// distinguish the tables of a writer, so that its pieces have unique offsets; readers know the
/// table from the dataset.
const OFFSET_BITS: u32 = 48;
/// Maximum number of tables of a writer that have fragments.
pub(crate) const MAX_TABLES: usize = 1 << (62 - OFFSET_BITS);

/// Returns whether an offset is in a fragment.
pub(crate) fn is_in(offset: u64) -> bool {
    offset & FRAGMENT_FLAG != 0
}

/// Returns the offset in the fragment's file.
pub(crate) fn inside(offset: u64) -> u64 {
    offset & ((1 << OFFSET_BITS) - 1)
}

/// Returns the offset in the fragment of a writer's table without [`FRAGMENT_FLAG`], as records store it.
/// Expects `table` < [`MAX_TABLES`] and `offset` < 2^48: larger values wrap.
pub(crate) fn place(table: usize, offset: u64) -> u64 {
    (table as u64) << OFFSET_BITS & (FRAGMENT_FLAG - 1) | inside(offset)
}
