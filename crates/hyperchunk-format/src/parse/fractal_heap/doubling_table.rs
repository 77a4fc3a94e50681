//! Doubling table: the mapping from heap offsets to blocks of a fractal heap. Source: specification §III.G,
//! "Doubling table".

use crate::{Cursor, Result, Sizes};

/// Growth of a heap's blocks: the first two rows have blocks of the same size, and each later row has blocks
/// of twice the size.
#[derive(Debug, Clone, Copy)]
pub(super) struct DoublingTable {
    /// Base-2 logarithm of the number of blocks in a row.
    columns: u32,
    /// Base-2 logarithm of the size of the first blocks.
    first: u32,
    /// Base-2 logarithm of the size of the largest direct blocks.
    largest: u32,
    /// Number of bits of an offset.
    bits: u32,
    sizes: Sizes,
}

/// Entry of an indirect block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) row: u32,
    /// Index in the indirect block.
    pub(super) number: u64,
    /// Offset of the block from the start of the indirect block.
    pub(super) start: u64,
    /// Size of the block, including its subtree.
    pub(super) size: u64,
}

impl DoublingTable {
    /// Reads the table, the root block's address and its number of rows.
    pub(super) fn parse(cursor: &mut Cursor<'_>, sizes: Sizes) -> Result<(Self, Option<u64>, u16)> {
        let columns = u64::from(cursor.u16()?);
        let first = cursor.length(sizes)?;
        let largest = match cursor.length(sizes)? {
            // libhdf5's constant value, which does not fit a two-byte length. libhdf5 itself cannot read such
            // a heap.
            0 if sizes.length == 2 => 1 << 16,
            largest => largest,
        };
        let bits = cursor.u16()?;
        cursor.skip(2)?;
        let root = cursor.address(sizes)?;
        let rows = cursor.u16()?;
        let table = Self {
            columns: columns.checked_ilog2().unwrap_or(0),
            first: first.checked_ilog2().unwrap_or(0),
            largest: largest.checked_ilog2().unwrap_or(0),
            bits: bits.into(),
            sizes,
        };
        if !columns.is_power_of_two()
            || !first.is_power_of_two()
            || !largest.is_power_of_two()
            || largest < first
            || table.bits > 64
            || table.bits < table.row_bits()
            || u32::from(rows) > table.bits.saturating_sub(table.row_bits()).saturating_add(1)
        {
            let message = format!(
                "invalid: {rows} rows of {columns} blocks of {first} to {largest} bytes, {bits}-bit offsets"
            );
            return Err(cursor.error(message));
        }
        Ok((table, root, rows))
    }

    /// Returns the base-2 logarithm of the first row's size.
    fn row_bits(&self) -> u32 {
        self.first.saturating_add(self.columns)
    }

    /// Returns the size of the first blocks.
    pub(super) fn first_size(&self) -> u64 {
        1_u64.unbounded_shl(self.first)
    }

    /// Returns the number of rows of an indirect block that have direct blocks.
    pub(super) fn direct_rows(&self) -> u32 {
        self.largest.saturating_sub(self.first).saturating_add(2)
    }

    /// Returns the number of blocks in the first `rows` rows.
    pub(super) fn entries(&self, rows: u32) -> u64 {
        u64::from(rows) << self.columns
    }

    /// Returns the maximum number of direct blocks in an indirect block.
    pub(super) fn direct_entries(&self) -> u64 {
        self.entries(self.direct_rows())
    }

    /// Returns the entry for an offset in an indirect block.
    pub(super) fn locate(&self, offset: u64) -> Option<Entry> {
        // Row, start of the row, and base-2 logarithm of its block size.
        let (row, row_start, bits) = match offset.checked_ilog2() {
            Some(high) if high >= self.row_bits() => {
                let row = high.checked_sub(self.row_bits())?.checked_add(1)?;
                (row, 1_u64.checked_shl(high)?, self.first.checked_add(row)?.checked_sub(1)?)
            }
            _ => (0, 0, self.first),
        };
        let column = offset.checked_sub(row_start)?.checked_shr(bits)?;
        Some(Entry {
            row,
            number: self.entries(row).checked_add(column)?,
            start: row_start.checked_add(column.checked_shl(bits)?)?,
            size: 1_u64.checked_shl(bits)?,
        })
    }

    /// Returns the number of rows of an indirect block that spans `size` bytes.
    pub(super) fn count_rows(&self, size: u64) -> Option<u32> {
        size.checked_ilog2()?.checked_sub(self.row_bits())?.checked_add(1)
    }

    /// Returns the width of an offset in the heap.
    pub(super) fn offset_width(&self) -> usize {
        usize::try_from(self.bits.div_ceil(8)).unwrap_or(8)
    }

    /// Returns the width of a length if objects may be as large as the largest direct blocks.
    pub(super) fn length_width(&self) -> usize {
        usize::try_from(self.largest.div_ceil(8)).unwrap_or(8)
    }

    /// Returns the size of a block's prefix: signature, version, address of the heap and offset of the block.
    pub(super) fn prefix_size(&self) -> u64 {
        5_u64.saturating_add(self.sizes.address.into()).saturating_add(self.offset_width() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> DoublingTable {
        let sizes = Sizes { address: 8, length: 8 };
        // Values of libhdf5 for links: 4 columns, blocks of 512 to 65536 bytes.
        DoublingTable { columns: 2, first: 9, largest: 16, bits: 32, sizes }
    }

    #[test]
    fn every_offset_has_its_block() {
        let check = |offset: u64, row: u32, number: u64, start: u64, size: u64| {
            assert_eq!(table().locate(offset), Some(Entry { row, number, start, size }), "{offset}");
        };
        check(0, 0, 0, 0, 512);
        check(511, 0, 0, 0, 512);
        check(512, 0, 1, 512, 512);
        check(2047, 0, 3, 1536, 512);
        check(2048, 1, 4, 2048, 512);
        check(4095, 1, 7, 3584, 512);
        check(4096, 2, 8, 4096, 1024);
        check(8191, 2, 11, 7168, 1024);
        check(0xffff_ffff, 21, 87, 0xe000_0000, 0x2000_0000);
        check(u64::MAX, 53, 215, 0xe000_0000_0000_0000, 0x2000_0000_0000_0000);
        assert_eq!(table().direct_rows(), 9);
        assert_eq!(table().count_rows(131_072), Some(7));
        assert_eq!(table().count_rows(1024), None);
    }
}
