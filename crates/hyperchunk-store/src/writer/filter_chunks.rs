//! Filtering of whole chunks while they are written, on several threads.

use crate::read::hyperslabs::boxes;
use crate::{Hyperslab, LogWriter, OwnDataset};
use hyperchunk::internal::spread;
use hyperchunk::{Error, Result};
use hyperchunk_format::codec::Encoder;
use hyperchunk_format::select::{ChunkSelection, Selection, chunk_selections};

/// Minimum number of bytes per thread.
const MIN_BYTES_PER_THREAD: usize = 128 << 10;

/// Buffers of one thread.
#[derive(Default)]
struct Scratch {
    elements: Vec<u8>,
    encoder: Encoder,
}

impl LogWriter {
    /// As [`LogWriter::write`], but chunks that the selection covers completely are passed through
    /// the dataset's filters, on up to `threads` threads (0: one a processor). Partly covered
    /// chunks are stored as plain elements. A chunk at the edge of a dimension that may grow counts
    /// as partly covered, since another writer may have the rest of it. Without filters it is the
    /// same as `write`.
    ///
    /// # Errors
    /// As [`LogWriter::write`]; errors of a filter.
    pub fn write_filtered(
        &self,
        dataset: u32,
        selection: &Selection,
        bytes: &[u8],
        threads: usize,
    ) -> Result<()> {
        let OwnDataset { definition, dims, .. } = self.dataset(dataset)?;
        let name = |error: Error| error.object(String::from_utf8_lossy(&definition.path));
        let chosen = boxes(selection, &dims).map_err(name)?;
        let ([slab], Some(chunk), false) =
            (chosen.as_slice(), definition.chunk.as_deref(), definition.pipeline.is_empty())
        else {
            return self.write_boxes(dataset, &chosen, bytes);
        };
        let element = usize::try_from(definition.element_size()).unwrap_or(usize::MAX);
        let size_of = |slab: &Hyperslab| -> Result<usize> {
            let size = usize::try_from(slab.elements()?).ok().and_then(|count| count.checked_mul(element));
            size.ok_or_else(|| Error::limit("a box larger than memory"))
        };
        if size_of(slab).map_err(name)? != bytes.len() {
            // Returns the error for the wrong length.
            return self.write_boxes(dataset, &chosen, bytes);
        }
        let whole = size_of(&Hyperslab::new(vec![0; chunk.len()], chunk)).map_err(name)?;
        let bounds: Vec<u64> = definition.max.iter().map(|max| max.unwrap_or(u64::MAX)).collect();
        let bounds = Hyperslab::new(vec![0; bounds.len()], bounds);
        let fill = definition.unwritten();
        let processors = || std::thread::available_parallelism().map_or(1, usize::from);
        let threads = if threads == 0 { processors() } else { threads };
        let threads = threads.min(bytes.len() / MIN_BYTES_PER_THREAD).max(1);
        let work = |scratch: &mut Scratch, piece: ChunkSelection| -> Result<()> {
            let offset: Vec<u64> =
                piece.chunk().iter().zip(chunk).map(|(at, size)| at.saturating_mul(*size)).collect();
            let stored = Hyperslab::new(offset.as_slice(), chunk);
            let there = stored
                .intersection(&bounds)
                .ok_or_else(|| Error::invalid("a chunk outside the maximum extent"))?;
            let part = stored.intersection(slab).ok_or_else(|| Error::invalid("a chunk outside its box"))?;
            if part != there {
                scratch.elements.clear();
                piece.runs(|_, from, count| {
                    scratch.elements.extend_from_slice(elements(bytes, from, count, element)?);
                    Ok(())
                })?;
                return self.put_boxes(dataset, &[part], &scratch.elements);
            }
            hyperchunk::room::resize(&mut scratch.elements, whole)?;
            if part != stored {
                fill_elements(&mut scratch.elements, fill);
            }
            piece.runs(|to, from, count| {
                let from = elements(bytes, from, count, element)?;
                let to = to.saturating_mul(element);
                let place = scratch.elements.get_mut(to..to.saturating_add(from.len()));
                place.ok_or_else(|| Error::invalid("elements outside their chunk"))?.copy_from_slice(from);
                Ok(())
            })?;
            let (filtered, mask) = scratch.encoder.encode(&definition.pipeline, &scratch.elements)?;
            self.put_chunk(dataset, &offset, mask, filtered)
        };
        spread(threads, chunk_selections(selection, &dims, chunk).map_err(name)?, Scratch::default, work)
            .map_err(name)?;
        self.notify_observer(dataset, &chosen, false, Some(bytes))
    }
}

/// Returns the given range of the caller's elements.
fn elements(bytes: &[u8], first: usize, count: usize, size: usize) -> Result<&[u8]> {
    let range = first.checked_mul(size).zip(count.checked_mul(size));
    let range = range.and_then(|(start, length)| Some(start..start.checked_add(length)?));
    range.and_then(|range| bytes.get(range)).ok_or_else(|| Error::invalid("too few elements"))
}

fn fill_elements(elements: &mut [u8], fill: Option<&[u8]>) {
    match fill {
        Some(fill) if !fill.is_empty() => {
            elements.chunks_exact_mut(fill.len()).for_each(|to| to.copy_from_slice(fill));
        }
        _ => elements.fill(0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tests::{Folder, options};
    use crate::{Definition, PieceForm};
    use hyperchunk_format::model::{ByteOrder, Datatype, FillTime, FillWhen, Filter};
    use hyperchunk_format::select::Axis;

    /// Writes a box over a dataset of sevens, with and without filters. Checks that both read the
    /// same and that `chunks` chunks are stored filtered.
    #[track_caller]
    fn check(axes: [(u64, u64); 2], chunks: usize) {
        check_in([Some(250), Some(190)], axes, chunks);
    }

    #[track_caller]
    fn check_in(max: [Option<u64>; 2], axes: [(u64, u64); 2], chunks: usize) {
        let folder = Folder::new();
        let writer = LogWriter::create(&folder.0.join("a.h5"), &options()).unwrap();
        let filter = |id, parameters| Filter { id, optional: true, name: None, parameters };
        let dims = vec![250, 190];
        let mut definition = Definition::new("/a", Datatype::integer(2, true, ByteOrder::Big), dims.clone());
        definition.max = max.to_vec();
        definition.chunk = Some(vec![100, 50]);
        definition.pipeline = vec![filter(2, vec![2]), filter(1, vec![1])];
        definition.fill.value = FillWhen::User(vec![1, 2]);
        definition.fill.time = FillTime::IfSet;
        let filtered = writer.define(&definition).unwrap();
        definition.path = b"/b".to_vec();
        let plain = writer.define(&definition).unwrap();
        let count = axes.iter().map(|(start, end)| end - start).product::<u64>();
        let bytes: Vec<u8> = (0..count * 2).map(|at| (at * 7 % 251).to_le_bytes()[0]).collect();
        let selection = Selection::Axes(axes.iter().map(|(start, end)| Axis::range(*start..*end)).collect());
        for threads in [1, 3] {
            writer.write_filtered(filtered, &selection, &bytes, threads).unwrap();
        }
        writer.write(plain, &selection, &bytes).unwrap();
        let read = |dataset| {
            let mut out = vec![0; 250 * 190 * 2];
            writer.read(dataset, &Selection::All, &mut out).unwrap();
            out
        };
        assert_eq!(read(filtered), read(plain));
        let stored = writer
            .written(filtered)
            .unwrap()
            .pieces
            .iter()
            .filter(|piece| matches!(piece.form, PieceForm::Chunk { .. }))
            .count();
        assert_eq!(stored, 2 * chunks);
        let error = writer.write_filtered(filtered, &selection, &bytes[1..], 1).unwrap_err();
        assert_eq!(error.kind(), hyperchunk::ErrorKind::Invalid);
    }

    #[test]
    fn whole_chunks_are_filtered() {
        check([(0, 250), (0, 190)], 12);
        check([(100, 200), (50, 150)], 2);
        // A chunk at the edge is whole if all of it inside the extent is written.
        check([(200, 250), (150, 190)], 1);
        check([(30, 220), (0, 190)], 4);
        check([(1, 99), (0, 190)], 0);
        check([(0, 249), (49, 190)], 6);
        // If the extent may grow, others may write the rest of a chunk at the edge.
        check_in([None, Some(190)], [(0, 250), (0, 190)], 8);
        check_in([Some(1000), None], [(0, 250), (0, 190)], 6);
        check_in([Some(300), Some(200)], [(200, 250), (150, 190)], 0);
    }
}
