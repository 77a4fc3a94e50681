//! Tests of pieces and runs against a list of all selected coordinates.

use super::*;
use crate::ErrorKind;
use crate::model::{Hyperslab, StoredSelection};
use std::collections::{BTreeMap, BTreeSet};

mod mapping;

/// Deterministic pseudorandom numbers (xorshift).
struct Dice(u64);

impl Dice {
    /// Returns a number less than `end`.
    fn below(&mut self, end: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end.max(1)
    }

    fn axis(&mut self, extent: u64) -> Axis {
        if extent == 0 {
            return [Axis::range(0..0), Axis::List(vec![]), Axis::steps(3, 2, 0)][self.below(3) as usize]
                .clone();
        }
        let start = self.below(extent);
        let left = extent - start;
        match self.below(6) {
            0 => Axis::range(0..extent),
            1 => Axis::range(start..start + self.below(left + 1)),
            2 => {
                let step = 1 + self.below(4);
                Axis::steps(start, step, self.below(left.div_ceil(step) + 1))
            }
            3 => {
                let block = 1 + self.below(left.min(4));
                let stride = block + self.below(4);
                Axis::Range { start, stride, block, count: self.below((left - block) / stride + 2) }
            }
            4 => {
                let block = 1 + self.below(4);
                let stride = block + self.below(4);
                let most = left / stride * block + (left % stride).min(block);
                Axis::Cut { start, stride, block, length: self.below(most + 1) }
            }
            _ => {
                let count = self.below(2 * extent);
                let mut list: Vec<u64> = (0..count).map(|_| self.below(extent)).collect();
                if self.below(2) == 0 {
                    list.sort_unstable();
                }
                Axis::List(list)
            }
        }
    }

    fn selection(&mut self, dims: &[u64]) -> Selection {
        let rank = dims.len();
        let empty = dims.contains(&0);
        match self.below(if rank == 0 { 3 } else { 8 }) {
            0 => Selection::All,
            1 => Selection::None,
            5 if !empty => {
                let count = self.below(30);
                let coordinates =
                    (0..count).flat_map(|_| dims.iter().map(|dim| self.below(*dim)).collect::<Vec<_>>());
                Selection::Points { rank, coordinates: coordinates.collect() }
            }
            6 if !empty => {
                let mut corners = Vec::new();
                for _ in 0..self.below(6) {
                    let first: Vec<u64> = dims.iter().map(|dim| self.below(*dim)).collect();
                    let last: Vec<u64> =
                        first.iter().zip(dims).map(|(at, dim)| at + self.below(dim - at)).collect();
                    corners.extend(first.into_iter().chain(last));
                }
                Selection::Blocks(Blocks::new(rank, &corners).unwrap())
            }
            _ => Selection::Axes(dims.iter().map(|dim| self.axis(*dim)).collect()),
        }
    }

    fn extent(&mut self, rank: u64) -> Vec<u64> {
        let most = [12, 40, 12, 7, 5, 3][rank as usize];
        (0..rank).map(|_| if self.below(25) == 0 { 0 } else { 1 + self.below(most) }).collect()
    }
}

/// Expands the indices of an axis.
fn indices(axis: &Axis) -> Vec<u64> {
    match axis {
        Axis::Range { start, stride, count, block } => {
            (0..*count).flat_map(|at| (0..*block).map(move |index| start + at * stride + index)).collect()
        }
        Axis::Cut { start, stride, block, length } => {
            (0..*length).map(|at| start + at / block * stride + at % block).collect()
        }
        Axis::List(list) => list.clone(),
    }
}

/// Expands all selected coordinates, in order.
fn coordinates(selection: &Selection, dims: &[u64]) -> Vec<Vec<u64>> {
    let grid = |lines: Vec<Vec<u64>>| {
        let mut all = vec![vec![]];
        for line in lines {
            all = all.iter().flat_map(|at| line.iter().map(|i| [at.as_slice(), &[*i]].concat())).collect();
        }
        all
    };
    match selection {
        Selection::None => vec![],
        Selection::All => grid(dims.iter().map(|dim| (0..*dim).collect()).collect()),
        Selection::Axes(axes) => grid(axes.iter().map(indices).collect()),
        Selection::Points { rank, coordinates } => coordinates.chunks(*rank).map(<[u64]>::to_vec).collect(),
        Selection::Blocks(_) => panic!("needs the boxes"),
    }
}

fn union(corners: &[u64], rank: usize) -> Vec<Vec<u64>> {
    let mut all = BTreeSet::new();
    for corners in corners.chunks(2 * rank) {
        let axes = (0..rank).map(|at| Axis::range(corners[at]..corners[rank + at] + 1)).collect();
        all.extend(coordinates(&Selection::Axes(axes), &[]));
    }
    all.into_iter().collect()
}

fn linear(at: &[u64], dims: &[u64]) -> u64 {
    at.iter().zip(dims).fold(0, |sum, (index, dim)| sum * dim + index)
}

/// Compares all properties of a selection with its list of coordinates.
fn check(selection: &Selection, dims: &[u64], chunk: &[u64], expected: &[Vec<u64>]) {
    let context = format!("{selection:?} of {dims:?} in chunks of {chunk:?}");
    assert_eq!(selection.count(dims).unwrap(), expected.len() as u64, "{context}");
    assert_eq!(selection.shape(dims).iter().product::<u64>(), expected.len() as u64, "{context}");

    let runs: Vec<_> = runs(selection, dims).unwrap().collect();
    assert!(runs.windows(2).all(|pair| pair[0].0 + pair[0].1 != pair[1].0), "{context}: {runs:?}");
    let elements: Vec<u64> = runs.iter().flat_map(|(first, count)| *first..first + count).collect();
    let wanted: Vec<u64> = expected.iter().map(|at| linear(at, dims)).collect();
    assert_eq!(elements, wanted, "{context}");

    // For each chunk: position in the result → element in the chunk.
    let mut wanted: BTreeMap<Vec<u64>, BTreeMap<usize, usize>> = BTreeMap::new();
    for (place, at) in expected.iter().enumerate() {
        let number = at.iter().zip(chunk).map(|(index, chunk)| index / chunk).collect();
        let rest: Vec<u64> = at.iter().zip(chunk).map(|(index, chunk)| index % chunk).collect();
        wanted.entry(number).or_default().insert(place, linear(&rest, chunk) as usize);
    }
    let chunks: Vec<Vec<u64>> = wanted.keys().cloned().collect();
    let mut met = Vec::new();
    for piece in chunk_selections(selection, dims, chunk).unwrap() {
        let mut found = BTreeMap::new();
        let add = |source, target, count| {
            for at in 0..count {
                assert_eq!(found.insert(target + at, source + at), None, "{context}");
            }
            Ok::<(), ()>(())
        };
        piece.runs(add).unwrap();
        assert_eq!(Some(&found), wanted.get(piece.chunk()), "{context} chunk {:?}", piece.chunk());
        assert_eq!(piece.count(), found.len(), "{context}");
        if let Some(run) = piece.only_run() {
            assert_eq!(run.elements(), found.len(), "{context}");
        }
        met.push(piece.chunk().to_vec());
    }
    assert_eq!(met, chunks, "{context}");

    let region = selection.chunk_region(dims, chunk).unwrap();
    let ends = |at: usize| {
        let numbers = chunks.iter().map(|chunk| chunk[at]);
        numbers.clone().min().map_or(0..0, |first| first..numbers.max().unwrap() + 1)
    };
    assert_eq!(region, (0..dims.len()).map(ends).collect::<Vec<_>>(), "{context}");
}

#[test]
fn like_the_list_of_coordinates() {
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    for _ in 0..4000 {
        let rank = dice.below(5);
        let dims = dice.extent(rank);
        let chunk: Vec<u64> = dims.iter().map(|dim| 1 + dice.below(dim + 2)).collect();
        let selection = dice.selection(&dims);
        if matches!(selection, Selection::Blocks(_)) {
            continue;
        }
        check(&selection, &dims, &chunk, &coordinates(&selection, &dims));
    }
}

#[test]
fn blocks_are_a_union() {
    let mut dice = Dice(77);
    for round in 0..1500 {
        let rank = 1 + dice.below(4);
        let dims: Vec<u64> = (0..rank).map(|_| 1 + dice.below([0, 60, 14, 7, 5][rank as usize])).collect();
        let chunk: Vec<u64> = dims.iter().map(|dim| 1 + dice.below(dim + 2)).collect();
        let mut corners = Vec::new();
        for _ in 0..dice.below(if round % 3 == 0 { 30 } else { 6 }) {
            let first: Vec<u64> = dims.iter().map(|dim| dice.below(*dim)).collect();
            let last: Vec<u64> =
                first.iter().zip(&dims).map(|(at, dim)| at + dice.below((dim - at).min(5))).collect();
            corners.extend(first.into_iter().chain(last));
        }
        let selection = Selection::Blocks(Blocks::new(rank as usize, &corners).unwrap());
        check(&selection, &dims, &chunk, &union(&corners, rank as usize));
    }
}

#[test]
fn strided_runs_copy_what_runs_do() {
    let mut dice = Dice(5);
    for _ in 0..1000 {
        let rank = 1 + dice.below(4);
        let dims = dice.extent(rank);
        let chunk: Vec<u64> = dims.iter().map(|dim| 1 + dice.below(dim + 2)).collect();
        let selection = dice.selection(&dims);
        let size = [1, 2, 3, 4, 8, 12, 16][dice.below(7) as usize];
        let source: Vec<u8> =
            (0..chunk.iter().product::<u64>() as usize * size).map(|_| dice.below(256) as u8).collect();
        let count = selection.count(&dims).unwrap() as usize;
        let (mut plain, mut strided) = (vec![0; count * size], vec![0; count * size]);
        let mut columns = vec![0; count * size];
        for piece in chunk_selections(&selection, &dims, &chunk).unwrap() {
            let copy = |from: usize, to: usize, count: usize| {
                plain[to * size..][..count * size].copy_from_slice(&source[from * size..][..count * size]);
                Ok::<(), ()>(())
            };
            piece.runs(copy).unwrap();
            let copy = |run: Run| {
                let target = &mut strided[run.target * size..][..run.elements() * size];
                if run.copy(size, &source, target) { Ok(()) } else { Err(()) }
            };
            piece.strided(copy).unwrap();
            let copy = |column: Column| {
                let (from, to) = column.spans().unwrap();
                assert!((column.source + from) * size <= source.len() && column.target + to <= count);
                for number in 0..column.count {
                    let from = (column.source + number * column.source_step) * size;
                    let to = (column.target + number * column.target_step) * size;
                    let bytes = column.block * size;
                    columns[to..][..bytes].copy_from_slice(&source[from..][..bytes]);
                }
                Ok::<(), ()>(())
            };
            piece.columns(copy).unwrap();
        }
        assert_eq!(plain, columns, "{selection:?} of {dims:?} in chunks of {chunk:?}");
        assert_eq!(plain, strided, "{selection:?} of {dims:?} in chunks of {chunk:?}");
    }
}

#[test]
fn a_thin_chunk_is_one_column() {
    let columns = |selection: &Selection, dims: &[u64], chunk: &[u64]| {
        let mut found = Vec::new();
        for piece in chunk_selections(selection, dims, chunk).unwrap() {
            let push = |column| {
                found.push(column);
                Ok::<(), ()>(())
            };
            piece.columns(push).unwrap();
        }
        found
    };
    let thin = columns(&Selection::All, &[50, 3], &[50, 1]);
    let column = |target| Column { source: 0, target, source_step: 1, target_step: 3, block: 1, count: 50 };
    assert_eq!(thin, [column(0), column(1), column(2)]);
    assert_eq!(columns(&Selection::All, &[4, 5, 6], &[4, 5, 6]).len(), 1);
    assert_eq!(columns(&Selection::All, &[4, 5, 6], &[4, 5, 1]).len(), 24);
}

#[test]
fn what_lies_together_is_one_run() {
    let count = |selection: &Selection, dims: &[u64], chunk: &[u64]| {
        let mut runs = Vec::new();
        for piece in chunk_selections(selection, dims, chunk).unwrap() {
            let push = |run| {
                runs.push(run);
                Ok::<(), ()>(())
            };
            piece.strided(push).unwrap();
        }
        runs.len()
    };
    let all = Selection::All;
    assert_eq!(count(&all, &[4, 5, 6], &[4, 5, 6]), 1);
    assert_eq!(count(&all, &[4, 5, 6], &[2, 5, 6]), 2);
    assert_eq!(count(&all, &[4, 5, 6], &[1, 1, 6]), 20);
    assert_eq!(count(&all, &[100, 100], &[10, 10]), 1000);
    // A column, every third element, and two columns are one run each.
    assert_eq!(count(&Selection::Axes(vec![Axis::range(0..50), Axis::index(3)]), &[50, 9], &[50, 9]), 1);
    assert_eq!(count(&Selection::Axes(vec![Axis::steps(1, 3, 30)]), &[100], &[100]), 1);
    assert_eq!(count(&Selection::Axes(vec![Axis::range(0..50), Axis::range(3..5)]), &[50, 9], &[50, 9]), 1);
    // One index before whole rows, and a list of consecutive indices.
    assert_eq!(count(&Selection::Axes(vec![Axis::index(3), Axis::range(0..9)]), &[50, 9], &[50, 9]), 1);
    assert_eq!(count(&Selection::Axes(vec![Axis::List(vec![3, 4, 5, 6])]), &[9], &[9]), 1);
    let touching = Selection::Axes(vec![Axis::Range { start: 2, stride: 3, count: 9, block: 3 }]);
    assert_eq!(count(&touching, &[99], &[99]), 1);
}

fn message(selection: &Selection, dims: &[u64]) -> String {
    let error = chunk_selections(selection, dims, &vec![1; dims.len()]).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Invalid);
    assert_eq!(runs(selection, dims).unwrap_err().to_string(), error.to_string());
    error.to_string()
}

#[test]
fn outside_the_extent() {
    let axes = |axes: &[Axis]| Selection::Axes(axes.to_vec());
    let text = "index 12 is out of range for axis 1 with extent 12";
    assert_eq!(message(&axes(&[Axis::index(0), Axis::index(12)]), &[3, 12]), text);
    assert_eq!(message(&axes(&[Axis::index(0), Axis::List(vec![1, 12])]), &[3, 12]), text);
    assert_eq!(message(&axes(&[Axis::index(0), Axis::range(3..13)]), &[3, 12]), text);
    assert_eq!(message(&axes(&[Axis::index(0), Axis::steps(0, 6, 3)]), &[3, 12]), text);
    assert_eq!(message(&Selection::Points { rank: 2, coordinates: vec![0, 0, 1, 12] }, &[3, 12]), text);
    assert_eq!(message(&Selection::Blocks(Blocks::new(2, &[0, 0, 1, 12]).unwrap()), &[3, 12]), text);
    let text = "a selection of rank 1 in a dataspace of rank 2";
    assert_eq!(message(&axes(&[Axis::index(0)]), &[3, 12]), text);
    let overlap = Axis::Range { start: 0, stride: 2, count: 2, block: 3 };
    assert_eq!(
        message(&axes(&[overlap]), &[12]),
        "blocks of 3 indices, 2 apart, are empty or overlap on axis 0"
    );
    let far = Axis::Range { start: 1, stride: u64::MAX, count: u64::MAX, block: 1 };
    assert_eq!(
        message(&axes(&[far]), &[12]),
        format!("index {} is out of range for axis 0 with extent 12", u64::MAX)
    );
    let many = Axis::Range { start: 1, stride: u64::MAX, count: u64::MAX, block: 7 };
    message(&axes(&[many]), &[12]);
    message(&Selection::Points { rank: 0, coordinates: vec![1] }, &[]);
    assert_eq!(Blocks::new(1, &[3, 2]).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(Blocks::new(2, &[3, 2, 4]).unwrap_err().kind(), ErrorKind::Invalid);
    assert_eq!(Blocks::new(1, &[3, u64::MAX]).unwrap_err().kind(), ErrorKind::Invalid);
}

#[test]
fn extents_beyond_all_bounds() {
    let dims = [1 << 63; 32];
    for selection in [Selection::All, Selection::Axes(vec![Axis::range(0..1 << 40); 32])] {
        assert_eq!(selection.count(&dims).unwrap_err().kind(), ErrorKind::Limit);
        assert_eq!(chunk_selections(&selection, &dims, &[1 << 40; 32]).unwrap_err().kind(), ErrorKind::Limit);
        assert_eq!(runs(&selection, &dims).unwrap_err().kind(), ErrorKind::Limit);
    }
    let last = (1 << 63) - 1;
    let corner = Selection::Axes(vec![Axis::range(last - 1..last + 1); 32]);
    assert_eq!(corner.count(&dims).unwrap(), 1 << 32);
    let mut chunk = [1; 32];
    chunk[31] = 1 << 62;
    let mut all = chunk_selections(&corner, &dims, &chunk).unwrap();
    let first = all.next().unwrap();
    assert_eq!((first.chunk()[0], first.chunk()[31], first.count()), (last - 1, 1, 2));
    assert_eq!(first.only_run().unwrap().source, (1 << 62) - 2);
    assert_eq!(all.nth(998).unwrap().count(), 2);
    let points = Selection::Points { rank: 32, coordinates: [[last; 32], [0; 32], [last; 32]].concat() };
    let all: Vec<_> = chunk_selections(&points, &dims, &chunk).unwrap().collect();
    assert_eq!(all.iter().map(ChunkSelection::count).collect::<Vec<_>>(), [1, 2]);
    let blocks = Selection::Blocks(Blocks::new(32, &[[5; 32], [last; 32]].concat().repeat(1)).map_or_else(
        |error| {
            assert_eq!(error.kind(), ErrorKind::Limit);
            Blocks::new(32, &[[last; 32], [last; 32]].concat()).unwrap()
        },
        |_| panic!("2^2016 elements"),
    ));
    assert_eq!(chunk_selections(&blocks, &dims, &chunk).unwrap().count(), 1);
    assert_eq!(runs(&blocks, &dims).unwrap_err().kind(), ErrorKind::Limit);

    let long = Selection::Axes(vec![Axis::steps(0, 1 << 20, 1 << 43)]);
    assert_eq!(runs(&long, &[1 << 63]).unwrap().nth(3), Some((3 << 20, 1)));
    assert_eq!(chunk_selections(&long, &[1 << 63], &[1 << 20]).unwrap().nth(7).unwrap().chunk(), [7]);
    let whole = Selection::All;
    assert_eq!(runs(&whole, &[u64::MAX]).unwrap().collect::<Vec<_>>(), [(0, u64::MAX)]);
    assert_eq!(chunk_selections(&whole, &[u64::MAX], &[u64::MAX - 1]).unwrap().count(), 2);
}

#[test]
fn nothing_and_one() {
    let empty = Selection::Axes(vec![Axis::range(0..0), Axis::range(0..3)]);
    assert_eq!(chunk_selections(&empty, &[0, 3], &[0, 3]).unwrap().count(), 0);
    assert_eq!(chunk_selections(&empty, &[5, 3], &[2, 2]).unwrap().count(), 0);
    assert_eq!(chunk_selections(&empty, &[5, 3], &[2, 0]).unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(chunk_selections(&empty, &[5, 3], &[2]).unwrap_err().kind(), ErrorKind::Corrupt);
    assert_eq!(runs(&Selection::All, &[]).unwrap().collect::<Vec<_>>(), [(0, 1)]);
    assert_eq!(runs(&Selection::Axes(vec![]), &[]).unwrap().collect::<Vec<_>>(), [(0, 1)]);
    let scalar: Vec<_> = chunk_selections(&Selection::All, &[], &[]).unwrap().collect();
    assert_eq!((scalar.len(), scalar[0].count(), scalar[0].chunk().len()), (1, 1, 0));
}

#[test]
fn boxes_made_to_cost_time() {
    // Crosses: each box overlaps all others, differently on each axis.
    let corners: Vec<u64> = (0..3000).flat_map(|at| [at, at, at, 5000 + at, 5000 + at, 5000 + at]).collect();
    let blocks = Blocks::new(3, &corners);
    assert_eq!(blocks.unwrap_err().kind(), ErrorKind::Limit);
    // A large number of disjoint boxes is accepted.
    let corners: Vec<u64> =
        (0..300 * 300).flat_map(|at| [at / 300 * 2, at % 300 * 2, at / 300 * 2, at % 300 * 2]).collect();
    assert_eq!(Blocks::new(2, &corners).unwrap().count(), 90_000);
}

#[test]
fn stored_selections() {
    let slab = |start, stride, count, block| Hyperslab { start, stride, count, block };
    let resolve = |slab: Hyperslab, extent: u64| {
        let selection = Selection::resolve(&StoredSelection::Regular(vec![slab]), &[extent]).unwrap();
        runs(&selection, &[extent]).unwrap().collect::<Vec<_>>()
    };
    assert_eq!(resolve(slab(1, 3, Some(2), Some(2)), 10), [(1, 2), (4, 2)]);
    assert_eq!(resolve(slab(1, 3, None, Some(2)), 10), [(1, 2), (4, 2), (7, 2)]);
    assert_eq!(resolve(slab(1, 3, None, Some(2)), 11), [(1, 2), (4, 2), (7, 2), (10, 1)]);
    assert_eq!(resolve(slab(1, 3, None, Some(3)), 11), [(1, 10)]);
    assert_eq!(resolve(slab(1, 1, Some(1), None), 11), [(1, 10)]);
    assert_eq!(resolve(slab(1, 3, Some(1), None), 11), [(1, 10)]);
    assert_eq!(resolve(slab(20, 3, None, Some(3)), 11), []);
    assert_eq!(resolve(slab(20, 3, Some(1), None), 11), []);
    assert_eq!(resolve(slab(20, 3, Some(0), Some(1)), 11), []);
    assert_eq!(resolve(slab(2, 1, Some(1), Some(4)), 11), [(2, 4)]);
    let points = StoredSelection::Points { rank: 1, coordinates: vec![4, 5, 1] };
    let selection = Selection::resolve(&points, &[6]).unwrap();
    assert_eq!(runs(&selection, &[6]).unwrap().collect::<Vec<_>>(), [(4, 2), (1, 1)]);
    assert_eq!(Selection::resolve(&points, &[5]).unwrap_err().kind(), ErrorKind::Invalid);
    let blocks = StoredSelection::Blocks { rank: 1, corners: vec![4, 5, 1, 2] };
    let selection = Selection::resolve(&blocks, &[6]).unwrap();
    assert_eq!(runs(&selection, &[6]).unwrap().collect::<Vec<_>>(), [(1, 2), (4, 2)]);
}
