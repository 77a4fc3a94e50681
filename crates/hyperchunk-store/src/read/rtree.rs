//! An R-tree over boxes, stored as flat arrays without pointers.
#![expect(clippy::cast_possible_truncation, reason = "boxes are numbered in 32 bits")]

/// Number of children of a tree node.
const MAX_CHILDREN: usize = 8;

/// Boxes, each with a number. A box is `2 × rank` values: start and end of each dimension.
#[derive(Debug, Clone, Default)]
pub(crate) struct RTree {
    rank: usize,
    numbers: Vec<u32>,
    /// The boxes in order of their start; the bounding boxes of each `MAX_CHILDREN` of them; and so on up
    /// to the root.
    levels: Vec<Vec<u64>>,
}

/// Returns whether two boxes have an element in common.
pub(crate) fn meet(a: &[u64], b: &[u64]) -> bool {
    a.chunks_exact(2).zip(b.chunks_exact(2)).all(|(a, b)| a[0] < b[1] && b[0] < a[1])
}

/// Returns whether the first box contains the second.
pub(crate) fn holds(outer: &[u64], inner: &[u64]) -> bool {
    outer
        .chunks_exact(2)
        .zip(inner.chunks_exact(2))
        .all(|(outer, inner)| outer[0] <= inner[0] && outer[1] >= inner[1])
}

impl RTree {
    /// Builds the tree; `boxes` holds one box for each of `numbers`.
    pub(crate) fn new(rank: usize, boxes: &[u64], numbers: &[u32]) -> Self {
        let width = 2 * rank;
        let of = |at: u32| &boxes[at as usize * width..(at as usize + 1) * width];
        let mut order: Vec<u32> = (0..numbers.len()).map(|at| at as u32).collect();
        if !order.is_sorted_by(|a, b| of(*a) <= of(*b)) {
            order.sort_by(|a, b| of(*a).cmp(of(*b)));
        }
        let mut levels = vec![order.iter().flat_map(|at| of(*at)).copied().collect::<Vec<u64>>()];
        let mut count = numbers.len();
        while count > 1 && rank > 0 {
            let below = &levels[levels.len() - 1];
            let mut level = Vec::with_capacity(count.div_ceil(MAX_CHILDREN) * width);
            for children in below.chunks(MAX_CHILDREN * width) {
                let mut around = children[..width].to_vec();
                for child in children.chunks_exact(width).skip(1) {
                    for (around, child) in around.chunks_exact_mut(2).zip(child.chunks_exact(2)) {
                        around[0] = around[0].min(child[0]);
                        around[1] = around[1].max(child[1]);
                    }
                }
                level.extend_from_slice(&around);
            }
            count = count.div_ceil(MAX_CHILDREN);
            levels.push(level);
        }
        let numbers = order.iter().map(|at| numbers[*at as usize]).collect();
        Self { rank, numbers, levels }
    }

    /// Returns the number of boxes.
    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// Appends the boxes and their numbers to the given lists, to build a larger tree of them.
    pub(crate) fn take_into(self, boxes: &mut Vec<u64>, numbers: &mut Vec<u32>) {
        numbers.extend(self.numbers);
        boxes.extend(self.levels.into_iter().next().unwrap_or_default());
    }

    /// Calls `each` with the number of every box that intersects `wanted`, until it returns an
    /// error.
    pub(crate) fn each<E>(
        &self,
        wanted: &[u64],
        each: &mut impl FnMut(u32) -> Result<(), E>,
    ) -> Result<(), E> {
        if self.rank == 0 {
            return self.numbers.iter().try_for_each(|number| each(*number));
        }
        let top = self.levels.len().saturating_sub(1);
        let width = 2 * self.rank;
        // Level and position of the nodes still to be visited.
        let mut left: Vec<(usize, usize)> =
            (0..self.levels[top].len() / width).rev().map(|at| (top, at)).collect();
        while let Some((level, at)) = left.pop() {
            if !meet(&self.levels[level][at * width..(at + 1) * width], wanted) {
                continue;
            }
            if level == 0 {
                each(self.numbers[at])?;
            } else {
                let below = self.levels[level - 1].len() / width;
                let children = at * MAX_CHILDREN..((at + 1) * MAX_CHILDREN).min(below);
                left.extend(children.rev().map(|child| (level - 1, child)));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_meet_are_found() {
        let mut state = 7_u64;
        let mut next = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below
        };
        for rank in 0..4 {
            for count in [0_u32, 1, 7, 8, 9, 100, 600] {
                let mut one = |boxes: &mut Vec<u64>| {
                    for _ in 0..rank {
                        let start = next(100);
                        boxes.extend([start, start + 1 + next(12)]);
                    }
                };
                let mut boxes = Vec::new();
                (0..count).for_each(|_| one(&mut boxes));
                let numbers: Vec<u32> = (0..count).map(|at| at + 5).collect();
                let tree = RTree::new(rank, &boxes, &numbers);
                assert_eq!(tree.len(), count as usize);
                for _ in 0..50 {
                    let mut wanted = Vec::new();
                    one(&mut wanted);
                    let width = 2 * rank;
                    let expected: Vec<u32> = numbers
                        .iter()
                        .copied()
                        .enumerate()
                        .filter(|(at, _)| meet(&boxes[at * width..(at + 1) * width], &wanted))
                        .map(|(_, number)| number)
                        .collect();
                    let mut found = Vec::new();
                    tree.each::<()>(&wanted, &mut |number| {
                        found.push(number);
                        Ok(())
                    })
                    .unwrap();
                    found.sort_unstable();
                    assert_eq!(found, expected);
                }
            }
        }
    }
}
