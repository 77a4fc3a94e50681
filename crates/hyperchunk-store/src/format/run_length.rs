//! Run-length encoding of pieces: a regular pattern of writes is one entry, regardless of their
//! number.
//!
//! A piece is a tuple of numbers. Consecutive pieces whose tuples differ by a constant step form a
//! run, stored as the first tuple, the step and a count. Runs of equal form whose first tuples
//! differ by a constant step form a run of runs. A loop over time steps around a loop over
//! datasets, written in gathered batches, makes three such levels.

use super::piece::{Hyperslab, Piece, PieceForm};
use super::record::get_fields;
use crate::format::varint::{MAX_LIST_ITEMS, MAX_RANK, Out, count, difference, number};
use hyperchunk::{Error, Result};
use hyperchunk_format::Cursor;

/// Maximum nesting of runs; loops of programs are rarely deeper.
const MAX_LEVELS: usize = 4;
/// Flag, added to twice the number of a run's levels, for pieces that are chunks.
const CHUNK_FLAG: u64 = 1;
/// Flag for fields. Readers without support for fields take it for too many levels.
const FIELDS_FLAG: u64 = 1 << 4;
const _: () = assert!(FIELDS_FLAG >> 1 > MAX_LEVELS as u64, "fields must be more levels than there may be");

/// Pieces of one dataset in one log, in the order in which they were written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PackedPieces {
    rank: usize,
    runs: Vec<Run>,
}

/// Pieces whose tuples form a loop or nested loops.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) form: PieceForm,
    pub(crate) base: Vec<u64>,
    /// From the innermost loop outwards: the count, and the step between consecutive tuples.
    pub(crate) levels: Vec<(u64, Vec<u64>)>,
}

impl Run {
    pub(crate) fn len(&self) -> u64 {
        self.levels.iter().fold(1, |product: u64, (count, _)| product.saturating_mul(*count))
    }

    pub(crate) fn at(&self, mut index: u64, tuple: &mut Vec<u64>) {
        tuple.clone_from(&self.base);
        for (count, step) in &self.levels {
            let turn = index % count;
            index /= count;
            add(tuple, step, turn);
        }
    }
}

fn add(tuple: &mut [u64], step: &[u64], times: u64) {
    for (value, step) in tuple.iter_mut().zip(step) {
        *value = value.wrapping_add(step.wrapping_mul(times));
    }
}

fn differences(from: &[u64], to: &[u64]) -> Vec<u64> {
    from.iter().zip(to).map(|(from, to)| to.wrapping_sub(*from)).collect()
}

/// Returns start, count, offset, length, order and head as one tuple.
fn tuple(piece: &Piece) -> Vec<u64> {
    let mut tuple = Vec::with_capacity(2 * piece.slab.start.len() + 4);
    tuple.extend_from_slice(&piece.slab.start);
    tuple.extend_from_slice(&piece.slab.count);
    tuple.extend_from_slice(&[piece.offset, piece.length, piece.order, piece.head]);
    tuple
}

impl PackedPieces {
    /// Returns an empty list for a dataset of the given rank.
    #[must_use]
    pub fn new(rank: usize) -> Self {
        Self { rank, runs: Vec::new() }
    }

    /// Appends a piece.
    pub fn push(&mut self, piece: &Piece) {
        let next = tuple(piece);
        if let Some(last) = self.runs.last_mut().filter(|last| last.form == piece.form) {
            match last.levels.as_mut_slice() {
                [] => {
                    let step = differences(&last.base, &next);
                    last.levels.push((2, step));
                    return;
                }
                [(count, step)] => {
                    let fits = last.base.iter().zip(step.iter()).zip(&next);
                    if fits
                        .into_iter()
                        .all(|((base, step), next)| base.wrapping_add(step.wrapping_mul(*count)) == *next)
                    {
                        *count += 1;
                        return;
                    }
                    if *count == 2 {
                        // Two pieces that the third does not continue are not a run; the second may
                        // begin one.
                        let mut second = last.base.clone();
                        add(&mut second, step, 1);
                        let step = differences(&second, &next);
                        last.levels.clear();
                        self.runs.push(Run { form: piece.form, base: second, levels: vec![(2, step)] });
                        return;
                    }
                }
                _ => {}
            }
        }
        self.runs.push(Run { form: piece.form, base: next, levels: Vec::new() });
    }

    /// Appends pieces that are packed already.
    pub fn append(&mut self, other: &Self) {
        self.runs.extend_from_slice(&other.runs);
    }

    /// Returns the same pieces shifted along the first dimension.
    #[must_use]
    pub(crate) fn shifted(&self, by: u64) -> Self {
        let mut shifted = self.clone();
        for run in shifted.runs.iter_mut().filter(|_| self.rank > 0) {
            if let Some(first) = run.base.first_mut() {
                *first = first.wrapping_add(by);
            }
        }
        shifted
    }

    /// Combines runs into runs of runs.
    pub fn pack(&mut self) {
        for _ in 1..MAX_LEVELS {
            let before = self.runs.len();
            let mut packed: Vec<Run> = Vec::new();
            // Number of levels of the last run before its outermost level was added here.
            let mut grown: Option<usize> = None;
            for run in self.runs.drain(..) {
                let Some(last) = packed.last_mut().filter(|last| last.form == run.form) else {
                    packed.push(run);
                    grown = None;
                    continue;
                };
                match grown {
                    Some(inner) if inner == run.levels.len() && last.levels[..inner] == run.levels[..] => {
                        let (count, step) = &mut last.levels[inner];
                        let mut expected = last.base.clone();
                        add(&mut expected, step, *count);
                        if expected == run.base {
                            *count += 1;
                            continue;
                        }
                    }
                    None if last.levels == run.levels
                        && !run.levels.is_empty()
                        && run.levels.len() < MAX_LEVELS =>
                    {
                        let step = differences(&last.base, &run.base);
                        last.levels.push((2, step));
                        grown = Some(run.levels.len());
                        continue;
                    }
                    _ => {}
                }
                packed.push(run);
                grown = None;
            }
            self.runs = packed;
            if self.runs.len() == before {
                break;
            }
        }
    }

    /// Returns the number of pieces.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.runs.iter().fold(0, |sum: u64, run| sum.saturating_add(run.len()))
    }

    /// Returns whether there are no pieces.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.runs.is_empty()
    }

    /// Returns the number of packed entries.
    #[must_use]
    pub fn entries(&self) -> usize {
        self.runs.len()
    }

    /// Returns the rank of the pieces.
    pub(crate) fn rank(&self) -> usize {
        self.rank
    }

    pub(crate) fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// Returns whether a piece may have an offset with one of the bits of `mask`, the highest bits
    /// of offsets. Exact except for unrealistically long runs, which are bounded instead of
    /// enumerated, so that a damaged count cannot cost time.
    pub(crate) fn may_have_offset_bits(&self, mask: u64) -> bool {
        const MAX_ENUMERATED_RUNS: u64 = 1024;
        let at = 2 * self.rank;
        self.runs.iter().any(|run| {
            let base = run.base.get(at).copied().unwrap_or_default();
            if run.len() <= MAX_ENUMERATED_RUNS {
                let mut tuple = Vec::new();
                return (0..run.len()).any(|index| {
                    run.at(index, &mut tuple);
                    tuple.get(at).is_some_and(|place| place & mask != 0)
                });
            }
            let ends = run.levels.iter().fold((i128::from(base), i128::from(base)), |(low, high), level| {
                let step = level.1.get(at).copied().unwrap_or_default().cast_signed();
                let way = i128::from(step).saturating_mul(i128::from(level.0.saturating_sub(1)));
                (low.saturating_add(way.min(0)), high.saturating_add(way.max(0)))
            });
            ends.0 < 0 || ends.1 >= i128::from(mask & mask.wrapping_neg())
        })
    }

    /// Iterates over all pieces, in the order in which they were written.
    pub fn iter(&self) -> impl Iterator<Item = Piece> + '_ {
        let rank = self.rank;
        self.runs.iter().flat_map(move |run| {
            let mut tuple = Vec::new();
            (0..run.len()).map(move |index| {
                run.at(index, &mut tuple);
                let mut rest = tuple[2 * rank..].iter().copied();
                let mut next = || rest.next().unwrap_or_default();
                Piece {
                    slab: Hyperslab::new(&tuple[..rank], &tuple[rank..2 * rank]),
                    offset: next(),
                    length: next(),
                    order: next(),
                    head: next(),
                    form: run.form,
                }
            })
        })
    }

    pub(crate) fn encode(&self, out: &mut Out) {
        out.number(self.rank as u64);
        out.number(self.runs.len() as u64);
        let mut before = vec![0; 2 * self.rank + 4];
        for run in &self.runs {
            let levels = (run.levels.len() as u64) << 1;
            match run.form {
                PieceForm::Raw => out.number(levels),
                PieceForm::Chunk { mask } => {
                    out.number(levels | CHUNK_FLAG);
                    out.number(u64::from(mask));
                }
                PieceForm::Fields { first, size } => {
                    out.number(levels | FIELDS_FLAG);
                    out.number(u64::from(first));
                    out.number(u64::from(size));
                }
            }
            for (base, before) in run.base.iter().zip(&before) {
                out.difference(base.wrapping_sub(*before));
            }
            before.clone_from(&run.base);
            for (count, step) in &run.levels {
                out.number(*count);
                for step in step {
                    out.difference(*step);
                }
            }
        }
    }

    pub(crate) fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        let rank = usize::try_from(number(cursor)?).unwrap_or(usize::MAX);
        if rank > MAX_RANK {
            return Err(cursor.error(format!("pieces of {rank} dimensions")));
        }
        let width = 2 * rank + 4;
        let runs = count(cursor, width + 1)?;
        let mut packed = Self { rank, runs: Vec::with_capacity(runs) };
        let mut before = vec![0_u64; width];
        let mut total = 0_u64;
        for _ in 0..runs {
            let head = number(cursor)?;
            let levels = (head & !FIELDS_FLAG) >> 1;
            if levels > MAX_LEVELS as u64 {
                return Err(cursor.error(format!("runs of {levels} levels")));
            }
            let form = match head & (CHUNK_FLAG | FIELDS_FLAG) {
                0 => PieceForm::Raw,
                CHUNK_FLAG => PieceForm::Chunk { mask: u32::try_from(number(cursor)?).unwrap_or(u32::MAX) },
                FIELDS_FLAG => {
                    let (first, size) = get_fields(cursor)?;
                    PieceForm::Fields { first, size }
                }
                _ => return Err(cursor.error("a run of chunks and fields".to_owned())),
            };
            let mut base = Vec::with_capacity(width);
            for before in &before {
                base.push(before.wrapping_add(difference(cursor)?));
            }
            before.clone_from(&base);
            let mut run = Run { form, base, levels: Vec::new() };
            for _ in 0..levels {
                let count = number(cursor)?;
                if count == 0 {
                    return Err(cursor.error("a run of no pieces".to_owned()));
                }
                let step = (0..width).map(|_| difference(cursor)).collect::<Result<_>>()?;
                run.levels.push((count, step));
            }
            total = total.saturating_add(run.len());
            packed.runs.push(run);
        }
        if total > MAX_LIST_ITEMS {
            return Err(Error::limit(format!("{total} pieces of one dataset in one log")));
        }
        Ok(packed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(pieces: &[Piece], rank: usize, entries: usize) {
        let mut packed = PackedPieces::new(rank);
        for piece in pieces {
            packed.push(piece);
        }
        packed.pack();
        assert!(packed.iter().eq(pieces.iter().cloned()));
        assert_eq!(packed.len(), pieces.len() as u64);
        for mask in [1 << 8, 1 << 13, 1 << 62] {
            let highest = pieces.iter().all(|piece| piece.offset < mask << 1);
            let lies = pieces.iter().any(|piece| piece.offset & mask != 0);
            assert!(!highest || packed.may_have_offset_bits(mask) == lies, "{mask}");
        }
        assert!(packed.entries() <= entries, "{} entries for {} pieces", packed.entries(), pieces.len());
        let mut out = Out::default();
        packed.encode(&mut out);
        let again = PackedPieces::decode(&mut Cursor::new(&out.0, "test", 0)).unwrap();
        assert_eq!(again, packed);
        for cut in 0..out.0.len().min(64) {
            assert!(
                PackedPieces::decode(&mut Cursor::new(&out.0[..cut], "test", 0)).is_err()
                    || pieces.is_empty()
            );
        }
    }

    fn piece(start: u64, offset: u64, order: u64, head: u64) -> Piece {
        Piece { slab: Hyperslab::new([start], [10]), offset, length: 10, form: PieceForm::Raw, order, head }
    }

    #[test]
    fn a_regular_pattern_is_one_entry() {
        check(&[], 1, 0);
        let strided: Vec<Piece> = (0..1000).map(|i| piece(40 * i, 128 + 100 * i, i, 100 * i)).collect();
        check(&strided, 1, 1);
        // Batches of 63 writes with a header between them.
        let batched: Vec<Piece> =
            (0..6300).map(|i| piece(40 * i, 10 * i + i / 63 * 77, i, i / 63 * (630 + 77))).collect();
        check(&batched, 1, 1);
        // The same, in time steps with gaps.
        let steps: Vec<Piece> = (0..6300)
            .map(|i| piece(40 * i + i / 630 * 100_000, 10 * i + i / 63 * 77 + i / 630 * 9, i, 5))
            .collect();
        check(&steps, 1, 1);
    }

    #[test]
    fn irregular_pieces_come_back() {
        let mut state = 1_u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            state >> 40
        };
        let pieces: Vec<Piece> = (0..500)
            .map(|i| Piece {
                form: match next() % 7 {
                    0 => PieceForm::Chunk { mask: 3 },
                    1 | 2 => PieceForm::Fields { first: 8, size: 4 },
                    _ => PieceForm::Raw,
                },
                slab: Hyperslab::new([next() % 3, i], [next() % 2 + 1, 4]),
                ..piece(0, i * 64, i, 0)
            })
            .collect();
        check(&pieces, 2, 500);
    }
}
