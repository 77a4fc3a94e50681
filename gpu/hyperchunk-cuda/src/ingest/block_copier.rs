//! Copies of blocks that are already on the GPU into an array there.

use super::arrange::{append_boxes, scatter};
use super::geometry::{Copy, MAX_RANK};
use super::tables::Tables;
use crate::error::fail;
use crate::kernels::Kernels;
use crate::{Context, DeviceMemory, Result, Stream};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A copier of parts of blocks into an array.
#[derive(Debug)]
pub struct BlockCopier {
    /// First field, so that it is dropped first.
    stream: Stream,
    kernels: Arc<Kernels>,
    table: Option<DeviceMemory>,
}

/// A part of a block, and its destination.
#[derive(Clone, Copy, Debug)]
pub struct BlockPart<'a> {
    /// The shape of the block.
    pub block: &'a [u64],
    /// The first element of the part in the block.
    pub from: &'a [u64],
    /// The shape of the array.
    pub dims: &'a [u64],
    /// The position of the part in the array.
    pub to: &'a [u64],
    /// Number of elements in each dimension.
    pub size: &'a [u64],
    /// The size of an element in bytes.
    pub element: usize,
}

impl BlockCopier {
    /// Creates a copier for one GPU.
    ///
    /// # Errors
    /// Errors of the driver.
    pub fn new(context: &Arc<Context>) -> Result<BlockCopier> {
        Ok(BlockCopier {
            stream: Stream::new(context)?,
            kernels: Kernels::for_context(context)?,
            table: None,
        })
    }

    /// Copies a part of a block at the start of `from` into an array at the start of `to`. The copy is
    /// complete when this returns, and `from` may be written again.
    ///
    /// # Errors
    /// Invalid if it does not fit; errors of the driver.
    pub fn place(&mut self, part: &BlockPart<'_>, from: &DeviceMemory, to: &DeviceMemory) -> Result<()> {
        let element = part.element as u64;
        let copy = Copy::new(part.block, part.from, part.dims, part.to, part.size, element)?;
        let bytes = |shape: &[u64]| {
            let bytes = shape.iter().try_fold(element, |bytes, size| bytes.checked_mul(*size));
            bytes.and_then(|bytes| usize::try_from(bytes).ok())
        };
        let (Some(block), Some(array)) = (bytes(part.block), bytes(part.dims)) else {
            fail!(Limit, "the block or the array has more bytes than the address space")
        };
        let (source, array) = (from.place(0, block)?, to.place(0, array)?);
        if copy.bytes() == 0 {
            return Ok(());
        }
        let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
        if copy.is_plain() {
            self.stream.copy(from, place(copy.from), to, place(copy.to), place(copy.bytes()))?;
            return self.stream.synchronize();
        }
        let copies = copy.with_rank(MAX_RANK);
        let mut boxes: BTreeMap<u64, Vec<(&Copy, u64)>> = BTreeMap::new();
        for copy in &copies {
            boxes.entry(copy.unit(source, array)).or_default().push((copy, source));
        }
        let mut tables = Tables::default();
        let launches = append_boxes(&boxes, array, &mut tables);
        let bytes = tables.bytes();
        let table = match self.table.take() {
            Some(table) if table.bytes() >= bytes.len() => self.table.insert(table),
            _ => self.table.insert(DeviceMemory::alloc(self.stream.context(), bytes.len().max(1 << 12))?),
        };
        self.stream.upload(table, 0, bytes)?;
        let table = table.address();
        scatter(&self.kernels, &self.stream, false, &launches, table)?;
        self.stream.synchronize()
    }
}
