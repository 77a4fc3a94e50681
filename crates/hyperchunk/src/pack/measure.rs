//! Size of a new file's structure, measured by making it once without data.

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
        Err(Error::unsupported("nothing was kept"))
    }

    fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn publish(&self, _: u64) -> Result<()> {
        Ok(())
    }
}

/// Returns the size of a page that holds all structure.
pub(super) fn page(packing: &PackPlan, options: &CreateOptions) -> Result<u64> {
    let mut options = options.clone();
    options.layout = FileLayout::InFront { page: MAX_FIRST_PAGE_BYTES };
    let writer = Writer::create_in(Arc::new(NullSink), None, &options)?;
    let made = make::make(packing, &writer)?;
    let parts = packing.contents.items.iter().zip(&packing.plans).zip(&made.datasets);
    for ((item, plan), new) in parts {
        let (Some(old), Some(plan), Some(new)) = (&item.dataset, plan, new) else { continue };
        let NewLayout::Chunked(chunk) = &plan.layout else { continue };
        let places = data::new_chunks(old, plan)?;
        if places.is_empty() {
            continue;
        }
        // Without filters, all chunks have the same size; with them, the size does not matter.
        let size = chunk.iter().fold(plan.translation.datatype.size, |size, dim| size.saturating_mul(*dim));
        let size = if plan.pipeline.is_empty() { size } else { 1 };
        let size = usize::try_from(size).map_err(|_| Error::limit("a chunk larger than memory"))?;
        let bytes = crate::room::zeros(size)?;
        for place in places {
            let offset: Vec<u64> = place.iter().zip(chunk).map(|(place, dim)| place * dim).collect();
            new.write_chunk(&offset, &bytes, 0)?;
        }
    }
    let size = writer.front_size()?;
    let page = size.checked_next_power_of_two().filter(|page| *page <= MAX_FIRST_PAGE_BYTES);
    page.map(|page| page.max(4096))
        .ok_or_else(|| Error::limit(format!("a structure of {size} bytes: a page has 1 GiB at most")))
}
