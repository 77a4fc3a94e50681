//! Tests of mappings against lists of coordinates.

use super::*;

/// Selection, its extent and all its coordinates.
type Side<'a> = (&'a Selection, &'a [u64], &'a [Vec<u64>]);

/// Checks the source element for each place in the result, if any.
fn check(sides: [Side<'_>; 2], asked: &Selection, wanted: &[Vec<u64>]) {
    let [(source, source_dims, from), (target, dims, to)] = sides;
    let context = format!("{source:?} of {source_dims:?} on {target:?} of {dims:?}, {asked:?}");
    let ranks: BTreeMap<&Vec<u64>, usize> = to.iter().zip(0..).collect();
    let expected: Vec<Option<&Vec<u64>>> =
        wanted.iter().map(|at| ranks.get(at).map(|rank| &from[*rank])).collect();
    let mapped = map(source, source_dims, target, dims, asked).unwrap();
    let mut found = vec![None; wanted.len()];
    if let Some(mapped) = &mapped {
        let elements: Vec<u64> = runs(&mapped.source, source_dims)
            .unwrap()
            .flat_map(|(first, count)| first..first + count)
            .collect();
        let put = |from: usize, to: usize, count: usize| {
            for at in 0..count {
                assert_eq!(found[to + at].replace(elements[from + at]), None, "{context}");
            }
            Ok::<(), ()>(())
        };
        mapped.runs(put).unwrap();
        if let Some(place) = mapped.place() {
            assert!(
                found[place..place + elements.len()].iter().zip(&elements).all(|(a, b)| *a == Some(*b)),
                "{context}"
            );
        }
    }
    let expected: Vec<_> = expected.into_iter().map(|at| at.map(|at| linear(at, source_dims))).collect();
    assert_eq!(found, expected, "{context}");
    assert_eq!(mapped.is_none(), expected.iter().all(Option::is_none), "{context}");
}

impl Dice {
    /// Generates a side of a mapping: no lists, no repetitions.
    fn side(&mut self, dims: &[u64], irregular: bool) -> (Selection, Vec<Vec<u64>>) {
        loop {
            if irregular && self.below(2) == 0 {
                let mut corners = Vec::new();
                for _ in 0..1 + self.below(4) {
                    let first: Vec<u64> = dims.iter().map(|dim| self.below(*dim)).collect();
                    let last: Vec<u64> =
                        first.iter().zip(dims).map(|(at, dim)| at + self.below(dim - at)).collect();
                    corners.extend(first.into_iter().chain(last));
                }
                let all = union(&corners, dims.len());
                return (Selection::Blocks(Blocks::new(dims.len(), &corners).unwrap()), all);
            }
            let selection = match self.selection(dims) {
                Selection::Axes(axes) if axes.iter().any(|axis| matches!(axis, Axis::List(_))) => continue,
                Selection::Points { .. } if !irregular => continue,
                Selection::Blocks(_) | Selection::None => continue,
                selection => selection,
            };
            let all = coordinates(&selection, dims);
            let different: BTreeSet<_> = all.iter().collect();
            if !all.is_empty() && different.len() == all.len() {
                return (selection, all);
            }
        }
    }

    fn asked(&mut self, dims: &[u64]) -> (Selection, Vec<Vec<u64>>) {
        loop {
            let selection = self.selection(dims);
            if !matches!(selection, Selection::Blocks(_)) {
                let all = coordinates(&selection, dims);
                return (selection, all);
            }
        }
    }

    /// Generates an extent without zeros.
    fn full(&mut self) -> Vec<u64> {
        let rank = 1 + self.below(3);
        let dims = self.extent(rank);
        dims.into_iter().map(|dim| dim.max(1)).collect()
    }
}

#[test]
fn dimension_by_dimension() {
    let mut dice = Dice(99);
    for _ in 0..3000 {
        let (source_dims, dims) = (dice.full(), dice.full());
        // A source of the target's shape: axes redrawn, shifted and spread, possibly with axes of one index
        // between.
        let (target, to) = dice.side(&dims, false);
        let shape = target.shape(&dims);
        let mut source_axes = Vec::new();
        let mut wide = Vec::new();
        for length in shape.into_iter().filter(|length| *length != 1) {
            if dice.below(4) == 0 {
                source_axes.push(Axis::index(dice.below(3)));
                wide.push(3);
            }
            let (start, stride) = (dice.below(3), 1 + dice.below(3));
            let block = 1 + dice.below(stride);
            source_axes.push(Axis::Cut { start, stride, block, length });
            wide.push(start + length * stride + dice.below(3));
        }
        if source_axes.is_empty() {
            source_axes = source_dims.iter().map(|dim| Axis::index(dice.below(*dim))).collect();
            wide = source_dims;
        }
        let source = Selection::Axes(source_axes);
        let from = coordinates(&source, &wide);
        let (asked, wanted) = dice.asked(&dims);
        check([(&source, &wide, &from), (&target, &dims, &to)], &asked, &wanted);
    }
}

#[test]
fn any_to_any() {
    let mut dice = Dice(4);
    let mut checked = 0;
    while checked < 1500 {
        let (source_dims, dims) = (dice.full(), dice.full());
        let (target, to) = dice.side(&dims, true);
        let (source, from) = dice.side(&source_dims, true);
        // Both sides cut to the same count, as points.
        let count = to.len().min(from.len());
        let cut = |selection: Selection, all: Vec<Vec<u64>>, dims: &[u64]| {
            if all.len() == count {
                return (selection, all);
            }
            let all = all[..count].to_vec();
            (Selection::Points { rank: dims.len(), coordinates: all.concat() }, all)
        };
        let (source, from) = cut(source, from, &source_dims);
        let (target, to) = cut(target, to, &dims);
        let (asked, wanted) = dice.asked(&dims);
        check([(&source, &source_dims, &from), (&target, &dims, &to)], &asked, &wanted);
        checked += 1;
    }
    // Different shapes with the same count.
    for (source_dims, dims) in
        [(vec![2, 6], vec![3, 4]), (vec![12], vec![2, 3, 2]), (vec![4, 3, 5], vec![60])]
    {
        let (from, to) = (coordinates(&Selection::All, &source_dims), coordinates(&Selection::All, &dims));
        for _ in 0..100 {
            let (asked, wanted) = dice.asked(&dims);
            check([(&Selection::All, &source_dims, &from), (&Selection::All, &dims, &to)], &asked, &wanted);
        }
    }
}

#[test]
fn ends_and_errors() {
    let range = |start, end| Selection::Axes(vec![Axis::range(start..end), Axis::range(0..3)]);
    // A source longer than the target, and a shorter one.
    for (source, target) in [(range(0, 9), range(2, 6)), (range(0, 4), range(2, 9))] {
        let mapped = map(&source, &[9, 3], &target, &[9, 3], &Selection::All).unwrap().unwrap();
        assert_eq!(mapped.source, range(0, 4));
        assert_eq!(mapped.place(), Some(6));
    }
    let whole = map(&Selection::All, &[5], &Selection::All, &[5], &Selection::Axes(vec![Axis::index(3)]))
        .unwrap()
        .unwrap();
    assert_eq!((whole.place(), whole.source), (Some(0), Selection::Axes(vec![Axis::index(3)])));
    let scalar = map(
        &Selection::All,
        &[],
        &Selection::Points { rank: 1, coordinates: vec![2] },
        &[5],
        &Selection::All,
    );
    let scalar = scalar.unwrap().unwrap();
    assert_eq!((scalar.place(), scalar.source), (Some(2), Selection::All));
    let error = map(&Selection::All, &[5], &Selection::All, &[2, 3], &Selection::All).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert!(map(&Selection::All, &[0], &Selection::All, &[2, 3], &Selection::All).unwrap().is_none());
    let outside = Selection::Axes(vec![Axis::index(5)]);
    assert_eq!(map(&outside, &[5], &outside, &[6], &Selection::All).unwrap_err().kind(), ErrorKind::Invalid);
    // Huge sides cost nothing.
    let many = Selection::Axes(vec![Axis::steps(0, 2, 1 << 40), Axis::steps(0, 3, 1 << 20)]);
    let dims = [1 << 41, 3 << 20];
    let asked =
        Selection::Axes(vec![Axis::range(1 << 39..(1 << 39) + 9), Axis::range(1 << 21..(1 << 21) + 7)]);
    let mapped = map(&many, &dims, &many, &dims, &asked).unwrap().unwrap();
    assert_eq!(mapped.source.shape(&dims), [5, 2]);
    let turned = Selection::Axes(vec![Axis::steps(0, 3, 1 << 20), Axis::steps(0, 2, 1 << 40)]);
    let mapped = map(&turned, &[dims[1], dims[0]], &many, &dims, &asked).unwrap().unwrap();
    assert_eq!(mapped.source.count(&[dims[1], dims[0]]).unwrap(), 10);
}
