//! Copying of incomplete datasets, and of contiguous datasets in sparse files.

use super::check::{ObjectCheck, Rows};
use super::divide::selection;
use super::holes;
use crate::pack::list::Item;
use crate::pack::make::CreatedObjects;
use crate::pack::plan::Plan;
use crate::pack::{PackPlan, copy};
use crate::slabs::slabs;
use crate::write::{DatasetWriter, Writer};
use crate::{Dataset, Error, Result};
use hyperchunk_format::model::{FillWhen, Layout};
use hyperchunk_format::select::{Axis, Selection};

/// Minimum size of a dataset that is searched for holes.
const LARGE_BYTES: u64 = 64 << 20;
/// Number of bytes copied at a time; a step that is entirely in a hole is skipped.
const STEP_BYTES: u64 = 1 << 20;

/// A dataset and its copy.
pub(super) struct Pair<'a> {
    pub(super) packing: &'a PackPlan,
    pub(super) writer: &'a Writer,
    pub(super) made: &'a CreatedObjects,
    pub(super) item: &'a Item,
    pub(super) old: &'a Dataset,
    pub(super) new: &'a DatasetWriter,
    pub(super) plan: &'a Plan,
}

impl Pair<'_> {
    /// Returns whether the dataset has holes that the copy can preserve: zeros that were never written, and
    /// are equal to the fill value.
    pub(super) fn is_sparse(&self) -> bool {
        let Some((start, end)) = self.range().filter(|(start, end)| end - start >= LARGE_BYTES) else {
            return false;
        };
        let zero = match &self.old.fill().value {
            FillWhen::User(bytes) => bytes.iter().all(|byte| *byte == 0),
            _ => true,
        };
        let source = self.old.object().file().source();
        zero && self.plan.translation.is_copy() && holes::begins_in(&**source, start, end)
    }

    /// Returns start and end of a contiguous dataset's data in the file.
    fn range(&self) -> Option<(u64, u64)> {
        let Layout::Contiguous { address: Some(address), .. } = self.old.layout() else { return None };
        let start = self.old.object().file().superblock().base.checked_add(*address)?;
        let size = self.old.elements().ok()?.checked_mul(self.old.datatype().size)?;
        Some((start, start.checked_add(size)?))
    }

    /// Copies a contiguous dataset, except parts that are in holes.
    pub(super) fn copy_data(&self, progress: &(dyn Fn(u64) + Sync)) -> Result<()> {
        let Some((start, _)) = self.range() else { return Ok(()) };
        let file = self.old.object().file();
        let mut data = start..start;
        let mut at = start;
        for slab in slabs(self.old, STEP_BYTES) {
            let bytes = slab.count(self.old.dims())?.saturating_mul(self.old.datatype().size);
            let end = at.saturating_add(bytes);
            if data.end <= at {
                data = holes::next_data(&**file.source(), at);
            }
            if data.start < end {
                self.copy_selection(&slab)?;
            }
            progress(bytes);
            at = end;
        }
        Ok(())
    }

    /// Copies the undamaged parts of an incomplete dataset.
    pub(super) fn copy_parts(&self, checked: &ObjectCheck, progress: &(dyn Fn(u64) + Sync)) -> Result<()> {
        if let Some(rows) = &checked.rows {
            return self.copy_rows(rows, progress);
        }
        for region in &checked.boxes {
            self.copy_selection(&selection(region))?;
        }
        let Some(chunked) = self.old.chunked() else { return Ok(()) };
        for chunk in &checked.chunks {
            let bytes = self.old.read_chunk_raw(chunk)?;
            copy::put_stored(self.old, self.new, chunked, chunk, &bytes)?;
            progress(chunk.size);
        }
        Ok(())
    }

    fn copy_selection(&self, selection: &Selection) -> Result<()> {
        let pair = (self.item, self.old, self.new);
        copy::copy_choice(self.packing, self.writer, self.made, pair, self.plan, selection)
    }

    /// Copies the first rows of a contiguous dataset whose other rows are past the end of the file.
    fn copy_rows(&self, rows: &Rows, progress: &(dyn Fn(u64) + Sync)) -> Result<()> {
        let file = self.old.object().file();
        let step = self.packing.options.memory.checked_div(rows.bytes).unwrap_or(1).max(1);
        let mut first = 0;
        while first < rows.count {
            let end = first.saturating_add(step).min(rows.count);
            let mut buffer = Vec::new();
            let bytes = usize::try_from((end - first).saturating_mul(rows.bytes));
            let bytes = bytes.map_err(|_| Error::limit("a row exceeds the address space"))?;
            crate::room::resize(&mut buffer, bytes)?;
            let at = file.superblock().base.saturating_add(rows.address);
            file.source().read_at(at.saturating_add(first.saturating_mul(rows.bytes)), &mut buffer)?;
            let others = self.old.dims().iter().skip(1).map(|dim| Axis::range(0..*dim));
            let axes = std::iter::once(Axis::range(first..end)).chain(others);
            self.new.write(&Selection::Axes(axes.collect()), &buffer)?;
            progress(buffer.len() as u64);
            first = end;
        }
        Ok(())
    }
}
