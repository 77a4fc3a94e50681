//! Fields of elements: separate writes of members of a compound.

use super::{Dataset, LogWriter};
use crate::Hyperslab;
use crate::format::piece::is_of_members;
use crate::format::record::Body;
use hyperchunk::{Error, Result};
use std::ops::Range;

impl Dataset {
    /// Returns the boxes that are not empty, after checking that all are inside the extent and
    /// match the number of bytes, with `size` bytes an element.
    pub(super) fn inside(&self, boxes: &[Hyperslab], size: u64, bytes: &[u8]) -> Result<Vec<Hyperslab>> {
        let name = |error: Error| error.object(String::from_utf8_lossy(&self.definition.path));
        let mut needed = 0_u64;
        for slab in boxes {
            slab.check(self.dims.len()).map_err(name)?;
            if slab.count.contains(&0) {
                continue;
            }
            let mut inside = slab.start.iter().zip(&slab.count).zip(&self.dims);
            if inside.any(|((start, count), dim)| start + count > *dim) {
                let message = format!(
                    "a box of {:?} at {:?} reaches beyond the extent {:?}",
                    slab.count, slab.start, self.dims
                );
                return Err(name(Error::invalid(message)));
            }
            let size = slab.elements().map_err(name)?.checked_mul(size);
            needed = size
                .and_then(|size| needed.checked_add(size))
                .ok_or_else(|| name(Error::limit("boxes of 2^64 bytes or more")))?;
        }
        if needed != bytes.len() as u64 {
            return Err(name(Error::invalid(format!(
                "got {} bytes for boxes of {needed} bytes",
                bytes.len()
            ))));
        }
        Ok(boxes.iter().filter(|slab| !slab.count.contains(&0)).cloned().collect())
    }
}

impl LogWriter {
    /// Writes fields of the elements of boxes: adjacent members of a compound, given as a byte
    /// range of each element. `bytes` has the fields of each element in C order, box by box. Other
    /// bytes of the elements do not change.
    ///
    /// # Errors
    /// Invalid for a range that is not of whole members; as [`LogWriter::write_boxes`].
    pub fn write_fields(
        &self,
        dataset: u32,
        boxes: &[Hyperslab],
        range: Range<u64>,
        bytes: &[u8],
    ) -> Result<()> {
        let mut state = self.state()?;
        let known = state.dataset(dataset)?;
        let datatype = &known.definition.datatype;
        if range.start == 0 && range.end == datatype.size {
            drop(state);
            return self.write_boxes(dataset, boxes, bytes);
        }
        if !is_of_members(datatype, &range) {
            let message = format!(
                "cannot write fields: bytes {range:?} of an element are not whole members of a compound"
            );
            return Err(Error::invalid(message).object(String::from_utf8_lossy(&known.definition.path)));
        }
        let (Ok(first), Ok(size)) = (u32::try_from(range.start), u32::try_from(range.end - range.start))
        else {
            return Err(Error::limit("fields of elements of more than 4 GiB"));
        };
        let boxes = known.inside(boxes, u64::from(size), bytes)?;
        if boxes.is_empty() {
            return Ok(());
        }
        let element = known.definition.element_size();
        let body = Body::Fields { first, size, boxes: boxes.clone() };
        self.put_record(&mut state, dataset, body, bytes, None)?;
        drop(state);
        if self.0.observer.get().is_none() {
            return Ok(());
        }
        // Observers receive whole elements.
        for slab in &boxes {
            let length =
                slab.elements()?.checked_mul(element).and_then(|length| usize::try_from(length).ok());
            let mut whole =
                hyperchunk::room::zeros(length.ok_or_else(|| Error::limit("a box larger than memory"))?)?;
            self.read(dataset, &slab.to_selection(), &mut whole)?;
            self.notify_observer(dataset, std::slice::from_ref(slab), false, Some(&whole))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
