//! Size of a new file's structure, measured by creating the file without data in a sink that discards it.

use super::{PackPlan, data, make};
use crate::write::{CreateOptions, FileLayout, NewLayout, Sink, Writer};
use crate::{Error, Result};
use std::sync::Arc;

/// Maximum size of the first page, in bytes.
const MAX_FIRST_PAGE_BYTES: u64 = 1 << 30;

/// Sink that discards all writes.
#[derive(Debug)]
struct NullSink;

impl Sink for NullSink {
    fn write_at(&self, _: u64, _: &[u8]) -> Result<()> {
        Ok(())
    }

    fn read_at(&self, _: u64, _: &mut [u8]) -> Result<()> {
        Err(Error::unsupported("cannot read: the sink discards all data"))
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn publish(&self, _: u64) -> Result<()> {
        Ok(())
    }
}

/// Returns the size of a page that can hold all structure, a power of two.
pub(super) fn page(packing: &PackPlan, options: &CreateOptions) -> Result<u64> {
    let mut options = options.clone();
    options.layout = FileLayout::InFront { page: MAX_FIRST_PAGE_BYTES };
    let writer = Writer::create_in(Arc::new(NullSink), None, &options)?;
    let made = make::make(packing, &writer)?;
    let parts = packing.contents.items.iter().zip(&packing.plans).zip(&made.datasets);
    for ((item, plan), new) in parts {
        let (Some(old), Some(plan), Some(new)) = (&item.dataset, plan, new) else { continue };
        let NewLayout::Chunked(chunk) = &plan.layout else { continue };
        let chunks = data::new_chunks(old, plan)?;
        if chunks.is_empty() {
            continue;
        }
        // Without filters, chunks must have their full size. With filters, the stored size is arbitrary; it
        // does not change the size of the index.
        let size = chunk.iter().fold(plan.translation.datatype.size, |size, dim| size.saturating_mul(*dim));
        let size = if plan.pipeline.is_empty() { size } else { 1 };
        let size = usize::try_from(size).map_err(|_| Error::limit("a chunk exceeds the address space"))?;
        let bytes = crate::room::zeros(size)?;
        for scaled in chunks {
            let offset: Vec<u64> = scaled.iter().zip(chunk).map(|(index, dim)| index * dim).collect();
            new.write_chunk(&offset, &bytes, 0)?;
        }
    }
    let size = writer.front_size()?;
    let page = size.checked_next_power_of_two().filter(|page| *page <= MAX_FIRST_PAGE_BYTES);
    page.map(|page| page.max(4096))
        .ok_or_else(|| Error::limit(format!("the structure has {size} bytes; a page has at most 1 GiB")))
}
