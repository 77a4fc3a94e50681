//! Precedence of a dataset's pieces, and conflicts between writers of one epoch.
//!
//! Parts of a dataset are in order of precedence: by epoch, then by the priority of their writers,
//! then by the times when these began, then by their ids. Within a part, later writes cover earlier ones. An extent that shrinks
//! clips earlier writes of the same writer and of earlier epochs.

use crate::format::manifest::StoredDataset;
use crate::location::site::Site;
use crate::read::log_cache::LogCache;
use crate::{Conflict, Definition, Hyperslab, Log, LogPart, Manifest, Part, Piece, PieceForm};
use hyperchunk::{Error, Result};
use hyperchunk_format::codec::Decoder;
use std::sync::Arc;

/// Maximum number of pairs of overlapping pieces that are compared.
const MAX_PAIRS: usize = 1 << 22;
/// Number of bytes of two pieces compared at a time.
const COMPARED_BYTES: u64 = 4 << 20;
/// Maximum size in bytes of a box that is composed for a comparison.
const MAX_BOX_BYTES: u64 = 64 << 20;
/// Maximum number of layers visited to resolve a writer's own overwrites.
const MAX_VISITED_LAYERS: usize = 1 << 26;

/// A piece, and the part of its box (`seen`) that no later change of the extent clipped.
#[derive(Debug, Clone)]
pub(crate) struct Layer {
    /// Number of its part.
    pub(crate) part: usize,
    pub(crate) piece: Piece,
    pub(crate) seen: Hyperslab,
}

/// Reduces each dimension to the smaller of the two.
fn shrink_to(dims: &mut [u64], other: &[u64]) {
    for (dim, other) in dims.iter_mut().zip(other) {
        *dim = (*dim).min(*other);
    }
}

/// Returns all pieces of a dataset that are not clipped away entirely, lowest first.
pub(crate) fn layers(stored: &StoredDataset) -> impl Iterator<Item = Layer> + '_ {
    let clips: Vec<(u64, &[u64])> = stored
        .parts
        .iter()
        .flat_map(|part| part.written.extents.iter().map(|extent| (part.epoch, &*extent.dims)))
        .collect();
    stored.parts.iter().enumerate().flat_map(move |(number, part)| {
        let mut after = stored.extent.clone();
        for (_, dims) in clips.iter().filter(|(epoch, _)| *epoch > part.epoch) {
            shrink_to(&mut after, dims);
        }
        // Clip for writes before each change of extent.
        let mut own: Vec<(u64, Vec<u64>)> = Vec::new();
        let mut before = after.clone();
        for extent in part.written.extents.iter().rev() {
            shrink_to(&mut before, &extent.dims);
            own.push((extent.order, before.clone()));
        }
        own.reverse();
        part.written.pieces.iter().filter_map(move |piece| {
            let next = own.partition_point(|(order, _)| *order < piece.order);
            let dims = own.get(next).map_or(&after, |(_, dims)| dims);
            let seen = piece.slab.clipped(dims)?;
            Some(Layer { part: number, piece, seen })
        })
    })
}

/// Iterates over the runs of a box that are contiguous in both of two boxes around it: the offset
/// in each, and the length, in elements.
pub(crate) fn rows(
    of: &Hyperslab,
    first: &Hyperslab,
    second: &Hyperslab,
) -> impl Iterator<Item = (u64, u64, u64)> + use<> {
    let rank = of.start.len();
    let strides = |slab: &Hyperslab| {
        let mut strides = vec![1_u64; rank];
        for axis in (1..rank).rev() {
            strides[axis - 1] = strides[axis].saturating_mul(slab.count[axis]);
        }
        strides
    };
    let strides = [strides(first), strides(second)];
    let offset = |slab: &Hyperslab, strides: &[u64]| {
        of.start.iter().zip(&slab.start).zip(strides).fold(0_u64, |sum, ((at, start), stride)| {
            sum.saturating_add(at.saturating_sub(*start).saturating_mul(*stride))
        })
    };
    let starts = [offset(first, &strides[0]), offset(second, &strides[1])];
    // After this axis, all three boxes have equal counts.
    let mut axis = rank.saturating_sub(1);
    while axis > 0 && of.count[axis] == first.count[axis] && of.count[axis] == second.count[axis] {
        axis -= 1;
    }
    let length = of.count.iter().skip(axis).fold(1_u64, |product, count| product.saturating_mul(*count));
    let outer: Vec<u64> = of.count.iter().take(axis).copied().collect();
    let mut next = (!of.count.contains(&0)).then(|| vec![0_u64; axis]);
    std::iter::from_fn(move || {
        let at = next.take()?;
        let place = |start: u64, strides: &[u64]| {
            at.iter()
                .zip(strides)
                .fold(start, |sum, (at, stride)| sum.saturating_add(at.saturating_mul(*stride)))
        };
        let row = (place(starts[0], &strides[0]), place(starts[1], &strides[1]), length);
        let mut after = at;
        for axis in (0..outer.len()).rev() {
            after[axis] += 1;
            if after[axis] < outer[axis] {
                next = Some(after);
                break;
            }
            after[axis] = 0;
        }
        Some(row)
    })
}

/// Minimum number of rows that are read in one request with the gaps between them, if these are small.
const MIN_GAP_ROWS: usize = 16;

/// Copies the elements of `wanted` from a piece to the buffer of a block. Both the piece and the
/// block contain `wanted`.
pub(crate) fn copy_elements(
    log: &Log,
    definition: &Definition,
    piece: &Piece,
    wanted: &Hyperslab,
    (block, out): (&Hyperslab, &mut [u8]),
) -> Result<()> {
    let element = definition.element_size();
    let size = piece.form.size(element);
    let whole_size = usize::try_from(element).map_err(|_| Error::limit("larger than memory"))?;
    let short = || Error::corrupt("a piece with fewer bytes than its box").at(piece.offset);
    let narrow = |elements: u64| {
        let bytes = elements.checked_mul(size).and_then(|bytes| usize::try_from(bytes).ok());
        bytes.ok_or_else(|| Error::limit("larger than memory"))
    };
    // Buffer with bytes of the piece, and the first element in it.
    let mut decoder = Decoder::default();
    let mut span = Vec::new();
    let (known, first) = match piece.form {
        PieceForm::Raw | PieceForm::Fields { .. } => {
            let (mut ends, mut count, mut needed) = (None, 0, 0_u64);
            for (_, from, length) in rows(wanted, block, &piece.slab) {
                let (start, _) = ends.unwrap_or((from, 0));
                ends = Some((start, from + length));
                count += 1;
                needed += length;
            }
            let Some((start, end)) = ends else { return Ok(()) };
            if count >= MIN_GAP_ROWS && end - start <= needed.saturating_mul(2) {
                hyperchunk::room::resize(&mut span, narrow(end - start)?)?;
                log.read_piece(definition, piece.offset.saturating_add(start * size), &mut span)?;
                (Some(&*span), start)
            } else {
                (None, 0)
            }
        }
        PieceForm::Chunk { mask } => {
            let length = usize::try_from(piece.length).map_err(|_| Error::limit("larger than memory"))?;
            hyperchunk::room::resize(&mut span, length)?;
            log.read_piece(definition, piece.offset, &mut span)?;
            let whole = narrow(piece.slab.elements()?)?;
            (Some(decoder.decode(&definition.pipeline, mask, &span, whole)?), 0)
        }
    };
    let mut row = Vec::new();
    for (to, from, length) in rows(wanted, block, &piece.slab) {
        let outer = |elements: u64| usize::try_from(elements).ok()?.checked_mul(whole_size);
        let ends = outer(to).zip(outer(to.saturating_add(length)));
        let place = ends.and_then(|(start, end)| out.get_mut(start..end)).ok_or_else(short)?;
        let length = narrow(length)?;
        match known {
            Some(known) => {
                let from = narrow(from - first)?;
                let stored = known.get(from..from.saturating_add(length)).ok_or_else(short)?;
                if !piece.form.put(whole_size, stored, place) {
                    return Err(short());
                }
            }
            None if piece.form.is_fields() => {
                hyperchunk::room::resize(&mut row, length)?;
                log.read_piece(definition, piece.offset.saturating_add(from * size), &mut row)?;
                if !piece.form.put(whole_size, &row, place) {
                    return Err(short());
                }
            }
            None => log.read_piece(definition, piece.offset.saturating_add(from * size), place)?,
        }
    }
    Ok(())
}

/// Reads the elements of a box that the piece contains. Bytes outside of fields are zero.
pub(crate) fn fetch(
    log: &Log,
    definition: &Definition,
    piece: &Piece,
    wanted: &Hyperslab,
) -> Result<Vec<u8>> {
    let bytes = wanted.elements()?.checked_mul(definition.element_size());
    let bytes = bytes.and_then(|bytes| usize::try_from(bytes).ok());
    let mut out = hyperchunk::room::zeros(bytes.ok_or_else(|| Error::limit("larger than memory"))?)?;
    copy_elements(log, definition, piece, wanted, (wanted, &mut out))?;
    Ok(out)
}

/// State for comparing the writes to a dataset by writers of an epoch.
struct Comparison<'a> {
    stored: &'a StoredDataset,
    layers: Vec<Layer>,
    logs: &'a LogCache<'a>,
    /// Number of layers that may still be visited.
    looks: usize,
}

/// Returns the conflicts of an epoch in a dataset. Writers of different priority are not in
/// conflict. With `collective`, the first part of the epoch is a write common to all of them.
pub(crate) fn conflicts(
    manifest: &Manifest,
    stored: &StoredDataset,
    path: &[u8],
    store: Site<'_>,
    collective: bool,
) -> Result<Vec<Conflict>> {
    let new = |part: &Part| part.epoch == manifest.number;
    let common = if collective { stored.parts.iter().position(new) } else { None };
    let touched = stored.parts.iter().filter(|part| new(part) && !part.written.pieces.is_empty());
    if touched.count() < 2 {
        return Ok(Vec::new());
    }
    let of_epoch = |number: usize| stored.parts.get(number).is_some_and(new) && Some(number) != common;
    let priority = |part: usize| part_log(manifest, stored, part).map(|log| log.priority);
    let compared = |below, above| priority(below) == priority(above);
    differences(manifest, stored, path, store, &of_epoch, &compared)
}

/// Returns the differences between recovered parts of stopped writers and the parts above them: of
/// later epochs, and of other stopped writers.
pub(crate) fn conflicts_with_later(
    manifest: &Manifest,
    stored: &StoredDataset,
    path: &[u8],
    store: Site<'_>,
    stopped: &dyn Fn(&Part) -> bool,
) -> Result<Vec<Conflict>> {
    let of_stopped = |number: usize| stored.parts.get(number).is_some_and(stopped);
    let Some(first) = (0..stored.parts.len()).find(|number| of_stopped(*number)) else {
        return Ok(Vec::new());
    };
    let later = |number: usize| number >= first;
    differences(manifest, stored, path, store, &later, &|below, _| of_stopped(below))
}

/// Returns the log of a part.
fn part_log<'a>(manifest: &'a Manifest, stored: &StoredDataset, part: usize) -> Option<&'a LogPart> {
    manifest.logs.get(stored.parts.get(part)?.log as usize)
}

/// Returns the differences between parts: considers the parts for which `is_considered` is true, and of
/// these the pairs of a lower and an upper part for which `compared` is true.
fn differences(
    manifest: &Manifest,
    stored: &StoredDataset,
    path: &[u8],
    store: Site<'_>,
    is_considered: &dyn Fn(usize) -> bool,
    compared: &dyn Fn(usize, usize) -> bool,
) -> Result<Vec<Conflict>> {
    let layers: Vec<Layer> = layers(stored).filter(|layer| is_considered(layer.part)).collect();
    let places = |layer: usize| layers[layer].piece.form;
    let mut meetings: Vec<(usize, usize, Hyperslab)> = Vec::new();
    overlaps(&layers, &stored.extent, &mut |one, other, common| {
        let (below, above) = (one.min(other), one.max(other));
        let same_bytes = places(below).common(places(above), stored.definition.element_size()).is_some();
        if same_bytes && compared(layers[below].part, layers[above].part) {
            meetings.push((below, above, common));
        }
        Ok(meetings.len() < MAX_PAIRS)
    })?;
    let complete = meetings.len() < MAX_PAIRS;
    let logs = LogCache::new(store, manifest);
    let mut comparison = Comparison { stored, layers, logs: &logs, looks: MAX_VISITED_LAYERS };
    let mut found: Vec<(usize, usize, Hyperslab, u64)> = Vec::new();
    for (below, above, common) in meetings {
        if comparison.is_same(below, above, &common)? {
            continue;
        }
        let parts = (comparison.layers[below].part, comparison.layers[above].part);
        match found.iter_mut().find(|(first, second, ..)| (*first, *second) == parts) {
            Some((_, _, slab, count)) => {
                *slab = slab.bounding_box(&common);
                *count += 1;
            }
            None => found.push((parts.0, parts.1, common, 1)),
        }
    }
    let writer = |part: usize| part_log(manifest, stored, part).map(|log| log.writer).unwrap_or_default();
    let all = found.into_iter().map(|(below, above, slab, count)| Conflict {
        path: path.to_vec(),
        slab,
        what: match (count, complete) {
            (1, true) => "different data".to_owned(),
            (count, true) => format!("different data, in {count} places of this box"),
            (count, false) => format!("different data, in {count} places of this box at least"),
        },
        kept: writer(above),
        other: writer(below),
    });
    Ok(all.collect())
}

impl Comparison<'_> {
    fn log(&self, layer: usize) -> Result<Arc<Log>> {
        let part = self.layers.get(layer).and_then(|layer| self.stored.parts.get(layer.part));
        self.logs.get(part.ok_or_else(|| Error::corrupt("a layer without a log"))?.log)
    }

    /// Returns whether two writers left the same data in a box. Data that a writer overwrote itself
    /// do not count.
    fn is_same(&mut self, below: usize, above: usize, common: &Hyperslab) -> Result<bool> {
        let (first, second) = (self.log(below)?, self.log(above)?);
        let (one, other) = (&self.layers[below], &self.layers[above]);
        if is_same_elements(&self.stored.definition, (&first, &one.piece), (&second, &other.piece), common)? {
            return Ok(true);
        }
        let size = common.elements()?.saturating_mul(self.stored.definition.element_size());
        let alone = |layer: &Layer| {
            let part = self.stored.parts.get(layer.part);
            part.is_some_and(|part| part.written.pieces.len() <= 1)
        };
        if size > MAX_BOX_BYTES || self.looks == 0 || (alone(one) && alone(other)) {
            return Ok(false);
        }
        let parts = (one.part, other.part);
        let (one, other) = (self.compose(parts.0, common)?, self.compose(parts.1, common)?);
        // If a writer wrote only some fields of an element, only these are compared.
        let both = one.0.iter().zip(&other.0).zip(one.1.iter().zip(&other.1));
        Ok(both.into_iter().all(|((a, b), (in_one, in_other))| a == b || !in_one || !in_other))
    }

    /// Composes the final data of one writer in a box, and marks the bytes that it wrote.
    fn compose(&mut self, part: usize, common: &Hyperslab) -> Result<(Vec<u8>, Vec<bool>)> {
        let element = self.stored.definition.element_size();
        let size = common.elements()?.saturating_mul(element);
        let size = usize::try_from(size).map_err(|_| Error::limit("larger than memory"))?;
        let mut out = hyperchunk::room::zeros(size)?;
        let mut written = hyperchunk::room::filled(false, size)?;
        let narrow = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        for number in 0..self.layers.len() {
            self.looks = self.looks.saturating_sub(1);
            let wanted = Some(&self.layers[number]).filter(|layer| layer.part == part);
            let Some(wanted) = wanted.and_then(|layer| layer.seen.intersection(common)) else { continue };
            let (log, piece) = (self.log(number)?, &self.layers[number].piece);
            copy_elements(&log, &self.stored.definition, piece, &wanted, (common, &mut out))?;
            let bytes = piece.form.range(element);
            for (start, _, length) in rows(&wanted, common, common) {
                let row = narrow(start * element)..narrow((start + length) * element);
                let row = written.get_mut(row).unwrap_or_default();
                for element in row.chunks_exact_mut(narrow(element).max(1)) {
                    let own = element.get_mut(narrow(bytes.start)..narrow(bytes.end));
                    own.unwrap_or_default().fill(true);
                }
            }
        }
        Ok((out, written))
    }
}

/// Returns whether two pieces have the same elements in a common box; of fields, compares the bytes
/// that both have.
pub(crate) fn is_same_elements(
    definition: &Definition,
    one: (&Log, &Piece),
    other: (&Log, &Piece),
    common: &Hyperslab,
) -> Result<bool> {
    if let (PieceForm::Chunk { mask }, PieceForm::Chunk { mask: second }) = (one.1.form, other.1.form)
        && mask == second
        && one.1.length == other.1.length
    {
        let read = |(log, piece): (&Log, &Piece)| -> Result<Vec<u8>> {
            let length = usize::try_from(piece.length).map_err(|_| Error::limit("larger than memory"))?;
            let mut bytes = hyperchunk::room::zeros(length)?;
            log.read_at(piece.offset, &mut bytes)?;
            Ok(bytes)
        };
        if read(one)? == read(other)? {
            return Ok(true);
        }
    }
    let element = definition.element_size();
    let Some(bytes) = one.1.form.common(other.1.form, element) else { return Ok(true) };
    let fetched = |slab: &Hyperslab| -> Result<bool> {
        let (first, second) =
            (fetch(one.0, definition, one.1, slab)?, fetch(other.0, definition, other.1, slab)?);
        if bytes == (0..element) {
            return Ok(first == second);
        }
        let narrow = |bytes: u64| usize::try_from(bytes).unwrap_or(usize::MAX);
        let (size, bytes) = (narrow(element).max(1), narrow(bytes.start)..narrow(bytes.end));
        let mut both = first.chunks_exact(size).zip(second.chunks_exact(size));
        Ok(both.all(|(one, other)| one.get(bytes.clone()) == other.get(bytes.clone())))
    };
    // Compare slab by slab along the first axis.
    let Some(count) = common.count.first().copied() else { return fetched(common) };
    let one_step = (common.elements()? / count.max(1)).saturating_mul(definition.element_size()).max(1);
    let chunked =
        matches!(one.1.form, PieceForm::Chunk { .. }) || matches!(other.1.form, PieceForm::Chunk { .. });
    let step = if chunked { count } else { (COMPARED_BYTES / one_step).max(1) };
    let mut at = 0;
    while at < count {
        let mut slab = common.clone();
        slab.start[0] += at;
        slab.count[0] = step.min(count - at);
        if !fetched(&slab)? {
            return Ok(false);
        }
        at += step;
    }
    Ok(true)
}

/// Finds all pairs of overlapping layers, until `meet` returns false.
fn overlaps(
    layers: &[Layer],
    extent: &[u64],
    meet: &mut dyn FnMut(usize, usize, Hyperslab) -> Result<bool>,
) -> Result<()> {
    // Sweep along the axis where boxes span the smallest part of the extent.
    #[expect(clippy::cast_precision_loss, reason = "an estimate")]
    let part = |axis: usize| {
        let sum: f64 = layers.iter().map(|layer| layer.seen.count[axis] as f64).sum();
        sum / extent[axis].max(1) as f64
    };
    let axis = (0..extent.len()).min_by(|one, other| part(*one).total_cmp(&part(*other)));
    let range = |number: usize| {
        let seen = &layers[number].seen;
        axis.map_or((0, 1), |axis| (seen.start[axis], seen.start[axis].saturating_add(seen.count[axis])))
    };
    let mut order: Vec<usize> = (0..layers.len()).collect();
    order.sort_by_key(|number| range(*number).0);
    let mut active: Vec<usize> = Vec::new();
    for number in order {
        let start = range(number).0;
        active.retain(|other| range(*other).1 > start);
        for other in &active {
            if layers[*other].part != layers[number].part
                && let Some(common) = layers[*other].seen.intersection(&layers[number].seen)
                && !meet(*other, number, common)?
            {
                return Ok(());
            }
        }
        active.push(number);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DatasetWrites, Extent, PackedPieces, Part};
    use hyperchunk_format::model::{ByteOrder, Datatype};

    fn piece(start: &[u64], count: &[u64], order: u64) -> Piece {
        let slab = Hyperslab::new(start, count);
        let length = slab.elements().unwrap();
        Piece { slab, offset: 1000 * order, length, form: PieceForm::Raw, order, head: 0 }
    }

    fn part(log: u32, epoch: u64, pieces: &[Piece], extents: &[(u64, &[u64])]) -> Part {
        let mut packed = PackedPieces::new(pieces.first().map_or(0, |piece| piece.slab.start.len()));
        pieces.iter().for_each(|piece| packed.push(piece));
        let extents =
            extents.iter().map(|(order, dims)| Extent { order: *order, dims: dims.to_vec() }).collect();
        Part { log, epoch, written: DatasetWrites { pieces: packed, extents, ..DatasetWrites::nothing(0) } }
    }

    fn stored(extent: &[u64], parts: Vec<Part>) -> StoredDataset {
        let definition =
            Definition::new("/a", Datatype::integer(1, false, ByteOrder::Little), extent.to_vec());
        StoredDataset { id: definition.id().unwrap(), definition, extent: extent.to_vec(), parts }
    }

    fn seen(stored: &StoredDataset) -> Vec<(usize, Vec<u64>, Vec<u64>)> {
        layers(stored).map(|layer| (layer.part, layer.seen.start, layer.seen.count)).collect()
    }

    #[test]
    fn an_extent_clips_the_same_writer_and_earlier_epochs_only() {
        let full = |order| piece(&[0], &[10], order);
        let parts = vec![
            part(0, 1, &[full(0)], &[]),
            part(1, 2, &[full(0), full(2)], &[(1, &[4]), (3, &[u64::MAX])]),
            part(2, 2, &[full(0)], &[]),
            part(0, 3, &[full(9)], &[]),
        ];
        let expected = [(0, 4), (1, 4), (1, 10), (2, 10), (3, 10)];
        let expected: Vec<_> = expected.iter().map(|(part, count)| (*part, vec![0], vec![*count])).collect();
        assert_eq!(seen(&stored(&[10], parts)), expected);
    }

    #[test]
    fn the_extent_of_the_dataset_clips_all() {
        let parts = vec![part(0, 1, &[piece(&[2, 3], &[5, 5], 0), piece(&[8, 0], &[1, 1], 1)], &[])];
        assert_eq!(seen(&stored(&[4, 20], parts)), [(0, vec![2, 3], vec![2, 5])]);
    }

    #[test]
    fn rows_are_as_long_as_they_can_be() {
        let all = Hyperslab::new([0, 0, 0], [4, 5, 6]);
        let check = |of: Hyperslab, first: &Hyperslab, second: &Hyperslab, expected: &[(u64, u64, u64)]| {
            assert_eq!(rows(&of, first, second).collect::<Vec<_>>(), expected);
        };
        check(all.clone(), &all, &all, &[(0, 0, 120)]);
        let two = Hyperslab::new([1, 0, 0], [2, 5, 6]);
        check(two.clone(), &all, &two, &[(30, 0, 60)]);
        let part = Hyperslab::new([1, 2, 0], [2, 2, 6]);
        check(part.clone(), &all, &part, &[(42, 0, 12), (72, 12, 12)]);
        let other = Hyperslab::new([1, 1, 0], [2, 4, 6]);
        check(part.clone(), &other, &all, &[(6, 42, 12), (30, 72, 12)]);
        check(Hyperslab::new([1, 0, 0], [0, 5, 6]), &all, &all, &[]);
        check(Hyperslab::new([], []), &Hyperslab::default(), &Hyperslab::default(), &[(0, 0, 1)]);
    }

    #[test]
    fn all_overlaps_are_found() {
        let mut state = 7_u64;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        let layers: Vec<Layer> = (0..200)
            .map(|part| {
                let start = [random(90), random(90)];
                let piece = piece(&start, &[1 + random(10), 1 + random(10)], 0);
                Layer { part, seen: piece.slab.clone(), piece }
            })
            .collect();
        let mut found = 0;
        overlaps(&layers, &[100, 100], &mut |one, other, common| {
            assert_eq!(layers[one].seen.intersection(&layers[other].seen), Some(common));
            found += 1;
            Ok(true)
        })
        .unwrap();
        let pairs = (0..200).flat_map(|one| (0..one).map(move |other| (one, other)));
        let expected =
            pairs.filter(|(one, other)| layers[*one].seen.intersection(&layers[*other].seen).is_some());
        assert_eq!(found, expected.count());
    }
}
