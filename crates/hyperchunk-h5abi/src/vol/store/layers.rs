//! All data written to one dataset, by earlier epochs, by other writers and by this process, and the overlay
//! that gives its elements.

use super::peers::PEERS_EPOCH;
use super::pieces::Pieces;
use hyperchunk::codec::Decoder;
use hyperchunk::{Error, Result};
use hyperchunk_store::{DatasetWrites, Definition, Hyperslab, LogWriter, Piece, PieceForm, WriterBytes};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The location of a layer's bytes.
#[derive(Debug, Clone)]
pub(super) enum Source {
    /// In the log of another writer.
    Other(Arc<WriterBytes>),
    /// In our own log, whose end may be in memory; with the number of the dataset.
    Own(LogWriter, u32),
}

impl Source {
    fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        match self {
            Source::Other(bytes) => bytes.read_at(offset, out),
            Source::Own(writer, number) => writer.read_piece(*number, offset, out),
        }
    }
}

/// The data of a dataset in one log.
#[derive(Debug)]
pub(super) struct Layer {
    pub(super) source: Source,
    pub(super) pieces: Pieces,
    /// Layers of a later epoch clip layers of earlier ones; layers of one epoch do not clip each other.
    pub(super) epoch: u64,
}

/// Returns whether an extent in a layer of epoch `later` clips a layer of epoch `earlier`. Layers of peers
/// neither clip nor are clipped: they will be in the same epoch as our own data. Data that peers cut off stay
/// until that is committed, since our extent differs from theirs.
fn clips(later: u64, earlier: u64) -> bool {
    later > earlier && earlier != PEERS_EPOCH && later != PEERS_EPOCH
}

impl Layer {
    /// Creates a layer from the known pieces and extents.
    pub(super) fn new(source: Source, epoch: u64, written: &DatasetWrites) -> Self {
        let mut pieces = Pieces::default();
        written.pieces.iter().for_each(|piece| pieces.push(piece));
        written.extents.iter().for_each(|extent| pieces.clip(extent));
        Layer { source, pieces, epoch }
    }
}

/// The layers of a dataset, from the bottom to the top.
#[derive(Debug, Default)]
pub(super) struct Layers {
    pub(super) all: Vec<Layer>,
    decoder: Decoder,
    /// The last decoded chunk: the layer and order of its piece, and its elements.
    decoded: Option<(usize, u64, Vec<u8>)>,
    /// Caches of the written chunks, and of all chunks of the extent, sorted.
    written_chunks: Option<Arc<Vec<Vec<u64>>>>,
    allocated: Option<Arc<Vec<Vec<u64>>>>,
}

impl Layers {
    /// Adds a layer on top.
    pub(super) fn push(&mut self, layer: Layer) {
        self.all.push(layer);
    }

    /// Drops cached data derived from the layers, which have changed.
    pub(super) fn forget(&mut self) {
        self.decoded = None;
        self.written_chunks = None;
        self.allocated = None;
    }

    /// Returns the offsets of the written chunks, sorted.
    pub(super) fn written_chunks(&mut self, chunk: &[u64]) -> Arc<Vec<Vec<u64>>> {
        if let Some(written_chunks) = &self.written_chunks {
            return Arc::clone(written_chunks);
        }
        let mut found = BTreeSet::new();
        for layer in &self.all {
            let under = under(&self.all, layer);
            layer.pieces.in_chunks(chunk, under.as_deref(), &mut |slab| add_chunks(&mut found, slab, chunk));
        }
        let found = Arc::new(Vec::from_iter(found));
        self.written_chunks = Some(Arc::clone(&found));
        found
    }

    /// Returns whether one raw piece of a layer covers a box entirely, and nothing overlaps it.
    pub(super) fn is_covered_by(&self, layer: usize, slab: &Hyperslab) -> bool {
        covering(&self.all, slab).is_some_and(|(number, _)| number == layer)
    }

    /// Reads the elements of a box, in C order; elements that were never written are the fill value.
    pub(super) fn read(&mut self, definition: &Definition, slab: &Hyperslab, out: &mut [u8]) -> Result<()> {
        let element = usize::try_from(definition.element_size())
            .map_err(|_| Error::limit("an element larger than memory"))?;
        let Layers { all, decoder, decoded, .. } = self;
        let one = covering(all, slab);
        if one.is_none() {
            fill(definition, element, out);
        }
        for (number, layer) in all.iter().enumerate() {
            if one.is_some_and(|(only, _)| only != number) {
                continue;
            }
            let mut outcome = Ok(());
            layer.pieces.in_box(slab, under(all, layer).as_deref(), &mut |piece, shown| {
                if outcome.is_err() || one.is_some_and(|(_, order)| order != piece.order) {
                    return;
                }
                outcome = match piece.form {
                    PieceForm::Raw => {
                        paint(&piece.slab, shown, slab, element, &mut |at, to, length| match out
                            .get_mut(to..to.saturating_add(length))
                        {
                            Some(part) => layer.source.read(piece.offset.saturating_add(at as u64), part),
                            None => Err(Error::invalid("a piece outside its box")),
                        })
                    }
                    PieceForm::Fields { size, .. } => {
                        let (size, mut held) = (size as usize, Vec::new());
                        paint(&piece.slab, shown, slab, element, &mut |at, to, length| {
                            let short = || Error::invalid("a piece outside its box");
                            let bytes = |bytes: usize| (bytes / element.max(1)).checked_mul(size);
                            let (at, stored) = bytes(at).zip(bytes(length)).ok_or_else(short)?;
                            held.resize(stored, 0);
                            layer.source.read(piece.offset.saturating_add(at as u64), &mut held)?;
                            let part = out.get_mut(to..to.saturating_add(length)).ok_or_else(short)?;
                            if piece.form.put(element, &held, part) { Ok(()) } else { Err(short()) }
                        })
                    }
                    PieceForm::Chunk { mask } => (|| {
                        let known =
                            matches!(decoded, Some((of, order, _)) if *of == number && *order == piece.order);
                        if !known {
                            let bytes = decode(definition, decoder, &layer.source, piece, mask)?;
                            *decoded = Some((number, piece.order, bytes));
                        }
                        let Some((_, _, chunk)) = decoded.as_ref() else { return Ok(()) };
                        paint(&piece.slab, shown, slab, element, &mut |at, to, length| {
                            let from = chunk.get(at..at.saturating_add(length));
                            match (out.get_mut(to..to.saturating_add(length)), from) {
                                (Some(part), Some(from)) => {
                                    part.copy_from_slice(from);
                                    Ok(())
                                }
                                _ => Err(Error::invalid("a piece outside its box")),
                            }
                        })
                    })(),
                };
            });
            outcome?;
        }
        Ok(())
    }

    /// Returns the offsets of all chunks of an extent, sorted.
    pub(super) fn allocated(&mut self, everything: &Hyperslab, chunk: &[u64]) -> Arc<Vec<Vec<u64>>> {
        let all = self.allocated.get_or_insert_with(|| {
            let mut found = BTreeSet::new();
            if !everything.count.contains(&0) {
                add_chunks(&mut found, everything, chunk);
            }
            Arc::new(Vec::from_iter(found))
        });
        Arc::clone(all)
    }

    /// Calls `found` with each piece that is visible in `slab`, from the bottom up: its layer, and its
    /// visible part.
    pub(super) fn in_box(&self, slab: &Hyperslab, found: &mut dyn FnMut(&Layer, &Piece, &Hyperslab)) {
        for layer in &self.all {
            layer.pieces.in_box(slab, under(&self.all, layer).as_deref(), &mut |piece, shown| {
                found(layer, piece, shown);
            });
        }
    }

    /// Returns the source, the piece and the filter mask of a chunk that was written whole, if nothing
    /// overlaps it and no later extent cuts it.
    pub(super) fn chunk_as_written(&self, slab: &Hyperslab) -> Option<(Source, Piece, u32)> {
        let mut found = None;
        self.in_box(slab, &mut |layer, piece, shown| {
            found = match piece.form {
                PieceForm::Chunk { mask } if piece.slab == *slab && shown == slab => {
                    Some((layer.source.clone(), piece.clone(), mask))
                }
                _ => None,
            };
        });
        found
    }
}

/// Adds the offset of each chunk that intersects a box.
fn add_chunks(found: &mut BTreeSet<Vec<u64>>, slab: &Hyperslab, chunk: &[u64]) {
    let axes = slab.start.iter().zip(&slab.count).zip(chunk);
    let ranges: Vec<(u64, u64, u64)> = axes
        .map(|((start, count), size)| {
            let size = (*size).max(1);
            let last = start.saturating_add(count.saturating_sub(1));
            (start / size, last / size, size)
        })
        .collect();
    let mut at: Vec<u64> = ranges.iter().map(|(first, _, _)| *first).collect();
    loop {
        found.insert(at.iter().zip(&ranges).map(|(at, (_, _, size))| at.saturating_mul(*size)).collect());
        let next = at.iter_mut().zip(&ranges).rev().find_map(|(at, (first, last, _))| {
            if *at < *last {
                *at = at.saturating_add(1);
                return Some(());
            }
            *at = *first;
            None
        });
        if next.is_none() {
            return;
        }
    }
}

/// Returns the smallest extent that later epochs gave a dataset, which clips a layer.
fn under(all: &[Layer], layer: &Layer) -> Option<Vec<u64>> {
    let later = all.iter().filter(|other| clips(other.epoch, layer.epoch));
    later.filter_map(|other| other.pieces.bound()).reduce(|mut one, other| {
        one.iter_mut().zip(&other).for_each(|(dim, other)| *dim = (*dim).min(*other));
        one
    })
}

/// Reads the stored bytes of a piece.
pub(super) fn stored(source: &Source, piece: &Piece) -> Result<Vec<u8>> {
    let length = usize::try_from(piece.length).map_err(|_| Error::limit("a piece larger than memory"))?;
    let mut bytes = Vec::new();
    bytes.try_reserve_exact(length).map_err(|_| Error::limit("no memory for a piece"))?;
    bytes.resize(length, 0);
    source.read(piece.offset, &mut bytes)?;
    Ok(bytes)
}

fn decode(
    definition: &Definition,
    decoder: &mut Decoder,
    source: &Source,
    piece: &Piece,
    mask: u32,
) -> Result<Vec<u8>> {
    let bytes = stored(source, piece)?;
    let size = piece.slab.elements()?.checked_mul(definition.element_size());
    let size = size
        .and_then(|size| usize::try_from(size).ok())
        .ok_or_else(|| Error::limit("a chunk larger than memory"))?;
    Ok(decoder.decode(&definition.pipeline, mask, &bytes, size)?.to_vec())
}

/// Returns the layer and the order of the raw piece that covers a box entirely, if nothing overlaps it, as in
/// most reads.
fn covering(layers: &[Layer], slab: &Hyperslab) -> Option<(usize, u64)> {
    let mut last = None;
    for (number, layer) in layers.iter().enumerate() {
        layer.pieces.in_box(slab, None, &mut |piece, shown| {
            last = (shown == slab && !piece.form.is_fields()).then_some((number, piece.order));
        });
        if layer.pieces.clips() > 0 {
            return None;
        }
    }
    last
}

/// Fills a buffer with the value of elements that were never written.
pub(super) fn fill(definition: &Definition, element: usize, out: &mut [u8]) {
    match definition.unwritten() {
        Some(value) => {
            for to in out.chunks_exact_mut(element.max(1)) {
                to.iter_mut().zip(value).for_each(|(to, from)| *to = *from);
            }
        }
        None => out.fill(0),
    }
}

/// Calls `copy` for every run of elements of `shown` that is contiguous both in `from` and in `to`, with its
/// offset in each and its length in bytes.
pub(super) fn paint(
    from: &Hyperslab,
    shown: &Hyperslab,
    to: &Hyperslab,
    element: usize,
    copy: &mut dyn FnMut(usize, usize, usize) -> Result<()>,
) -> Result<()> {
    let rank = shown.count.len();
    if shown.count.contains(&0) {
        return Ok(());
    }
    let narrow = |n: u64| usize::try_from(n).map_err(|_| Error::limit("a box larger than memory"));
    // Trailing dimensions that are whole in both are merged into one run.
    let mut inner = rank.saturating_sub(1);
    let whole = |axis: usize| {
        let axis_of = |slab: &Hyperslab| slab.count.get(axis).copied();
        axis_of(shown) == axis_of(from) && axis_of(shown) == axis_of(to)
    };
    while inner > 0 && whole(inner) {
        inner = inner.saturating_sub(1);
    }
    let strides = |slab: &Hyperslab| -> Result<Vec<usize>> {
        let mut strides = vec![element; rank];
        let mut size = element;
        for (stride, count) in strides.iter_mut().zip(&slab.count).rev() {
            *stride = size;
            size =
                size.checked_mul(narrow(*count)?).ok_or_else(|| Error::limit("a box larger than memory"))?;
        }
        Ok(strides)
    };
    let (from_strides, to_strides) = (strides(from)?, strides(to)?);
    let offset = |slab: &Hyperslab, strides: &[usize]| -> Result<usize> {
        let mut at = 0_usize;
        for ((shown, start), stride) in shown.start.iter().zip(&slab.start).zip(strides) {
            at = at.saturating_add(narrow(shown.saturating_sub(*start))?.saturating_mul(*stride));
        }
        Ok(at)
    };
    let (mut at, mut place) = (offset(from, &from_strides)?, offset(to, &to_strides)?);
    let run = match (shown.count.get(inner), from_strides.get(inner)) {
        (Some(count), Some(stride)) => narrow(*count)?.saturating_mul(*stride),
        _ => element,
    };
    let mut index = vec![0_u64; inner];
    loop {
        copy(at, place, run)?;
        let mut axis = inner;
        loop {
            let Some(next) = axis.checked_sub(1) else { return Ok(()) };
            axis = next;
            let (Some(index), Some(count), Some(from), Some(to)) =
                (index.get_mut(axis), shown.count.get(axis), from_strides.get(axis), to_strides.get(axis))
            else {
                return Ok(());
            };
            *index = index.saturating_add(1);
            at = at.saturating_add(*from);
            place = place.saturating_add(*to);
            if *index < *count {
                break;
            }
            let back = narrow(*count)?;
            at = at.saturating_sub(from.saturating_mul(back));
            place = place.saturating_sub(to.saturating_mul(back));
            *index = 0;
        }
    }
}
