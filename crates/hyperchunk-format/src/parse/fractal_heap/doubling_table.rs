//! Which block of a fractal heap has which offsets. Source: specification §III.G, "Doubling table".

use crate::{Cursor, Result, Sizes};

/// How the blocks of a heap grow: the first two rows have blocks of one size, each row after them blocks of twice the size.
#[derive(Debug, Clone, Copy)]
pub(super) struct DoublingTable {
    /// How many blocks a row has, as a power of 2.
    columns: u32,
    /// The size of the first blocks, as a power of 2.
    first: u32,
    /// The size of the largest direct blocks, as a power of 2.
    largest: u32,
    /// How many bits an offset has.
    bits: u32,
    sizes: Sizes,
}

/// A block in an indirect block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) row: u32,
    /// Its number in the indirect block.
    pub(super) number: u64,
    /// Where it starts, from the start of the indirect block.
    pub(super) start: u64,
    /// Its size, or that of all blocks below it.
    pub(super) size: u64,
}

impl DoublingTable {
    /// The table, the root block's address, and how many rows it has.
    pub(super) fn parse(cursor: &mut Cursor<'_>, sizes: Sizes) -> Result<(Self, Option<u64>, u16)> {
        let columns = u64::from(cursor.u16()?);
        let first = cursor.length(sizes)?;
        let largest = match cursor.length(sizes)? {
            // What libhdf5 always uses, where lengths have no room for it. It cannot read such a heap itself.
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
                "{rows} rows of {columns} blocks of {first} to {largest} bytes, with offsets of {bits} bits"
            );
            return Err(cursor.error(message));
        }
        Ok((table, root, rows))
    }

    /// The size of the first row, as a power of 2.
    fn row_bits(&self) -> u32 {
        self.first.saturating_add(self.columns)
    }

    /// The size of the first blocks.
    pub(super) fn first_size(&self) -> u64 {
        1_u64.unbounded_shl(self.first)
    }

    /// How many rows of an indirect block have direct blocks.
    pub(super) fn direct_rows(&self) -> u32 {
        self.largest.saturating_sub(self.first).saturating_add(2)
    }

    /// How many blocks so many rows have.
    pub(super) fn entries(&self, rows: u32) -> u64 {
        u64::from(rows) << self.columns
    }

    /// How many direct blocks an indirect block can have.
    pub(super) fn direct_entries(&self) -> u64 {
        self.entries(self.direct_rows())
    }

    /// The block that has an offset in an indirect block.
    pub(super) fn locate(&self, offset: u64) -> Option<Entry> {
        // The first row, or where a row starts and how large its blocks are.
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

    /// How many rows the indirect block has that stands for so many bytes.
    pub(super) fn rows_of(&self, size: u64) -> Option<u32> {
        size.checked_ilog2()?.checked_sub(self.row_bits())?.checked_add(1)
    }

    /// The width of an offset in the heap.
    pub(super) fn offset_width(&self) -> usize {
        usize::try_from(self.bits.div_ceil(8)).unwrap_or(8)
    }

    /// The width of a length, if objects may be as large as the largest direct blocks.
    pub(super) fn length_width(&self) -> usize {
        usize::try_from(self.largest.div_ceil(8)).unwrap_or(8)
    }

    /// The size of what a block starts with: signature, version, the heap's address and the block's offset.
    pub(super) fn prefix_size(&self) -> u64 {
        5_u64.saturating_add(self.sizes.address.into()).saturating_add(self.offset_width() as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> DoublingTable {
        let sizes = Sizes { address: 8, length: 8 };
        // What libhdf5 uses for links: 4 columns, blocks of 512 to 65536 bytes.
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
        assert_eq!(table().rows_of(131_072), Some(7));
        assert_eq!(table().rows_of(1024), None);
    }
}
