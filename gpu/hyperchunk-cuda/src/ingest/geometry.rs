//! Boxes: copies of a part of a chunk to a part of the array, in the form that the kernels use.

use crate::Result;
use crate::error::fail;

/// Maximum number of dimensions in the kernels; boxes with more are split.
pub(super) const MAX_RANK: usize = 8;

/// A dimension of a copy: its size, and the strides in bytes on both sides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Axis {
    pub(super) size: u64,
    pub(super) from: u64,
    pub(super) to: u64,
}

/// A copy of a box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Copy {
    /// The start, in bytes from the start of the chunk and of the array.
    pub(super) from: u64,
    pub(super) to: u64,
    /// Dimensions, innermost first; dimensions that are contiguous on both sides are merged. The first one's
    /// strides are single bytes.
    pub(super) axes: Vec<Axis>,
}

impl Copy {
    /// Returns the copy of `size` elements from `from` on in a chunk of shape `chunk`, to `to` on in an array
    /// of shape `dims`.
    pub(super) fn new(
        chunk: &[u64],
        from: &[u64],
        dims: &[u64],
        to: &[u64],
        size: &[u64],
        element: u64,
    ) -> Result<Copy> {
        let rank = dims.len();
        if [chunk.len(), from.len(), to.len(), size.len()].iter().any(|length| *length != rank) {
            fail!(Invalid, "the positions of a part do not have {rank} dimensions")
        }
        let mut copy = Copy { from: 0, to: 0, axes: vec![Axis { size: element, from: 1, to: 1 }] };
        let (mut from_step, mut to_step) = (element, element);
        for axis in (0..rank).rev() {
            let fits = |start: u64, whole: u64| start.checked_add(size[axis]).is_some_and(|end| end <= whole);
            if !fits(from[axis], chunk[axis]) || !fits(to[axis], dims[axis]) {
                fail!(
                    Invalid,
                    "a part of {size:?} elements does not fit at {from:?} of a chunk {chunk:?} and {to:?} of an array {dims:?}"
                )
            }
            let (Some(from_next), Some(to_next)) =
                (from_step.checked_mul(chunk[axis]), to_step.checked_mul(dims[axis]))
            else {
                fail!(Limit, "an array of {dims:?} elements in chunks of {chunk:?} has more than 2^64 bytes")
            };
            // No overflow: less than the next stride.
            copy.from += from[axis] * from_step;
            copy.to += to[axis] * to_step;
            copy.push(Axis { size: size[axis], from: from_step, to: to_step });
            (from_step, to_step) = (from_next, to_next);
        }
        Ok(copy)
    }

    /// Returns the copy of one element to all positions of a box.
    pub(super) fn fill(dims: &[u64], to: &[u64], size: &[u64], element: u64) -> Result<Copy> {
        let mut copy = Copy::new(dims, to, dims, to, size, element)?;
        let mut axes = std::mem::take(&mut copy.axes);
        copy.from = 0;
        copy.axes = vec![Axis { size: element, from: 1, to: 1 }];
        // The innermost dimension may be a merged one: split it at the element.
        if let Some(first) = axes.first_mut() {
            *first = Axis { size: first.size / element.max(1), from: 0, to: element };
        }
        for axis in axes {
            copy.push(Axis { from: 0, ..axis });
        }
        Ok(copy)
    }

    fn push(&mut self, axis: Axis) {
        if axis.size == 1 {
            return;
        }
        if let Some(last) = self.axes.last_mut()
            && axis.from == last.size * last.from
            && axis.to == last.size * last.to
        {
            last.size *= axis.size;
            return;
        }
        self.axes.push(axis);
    }

    /// Returns the number of bytes that are copied.
    pub(super) fn bytes(&self) -> u64 {
        self.axes.iter().map(|axis| axis.size).product()
    }

    /// Returns the distance from the first byte that is read to the end of the last.
    pub(super) fn span(&self) -> u64 {
        if self.bytes() == 0 {
            return 0;
        }
        self.axes.iter().map(|axis| (axis.size - 1) * axis.from).sum::<u64>() + 1
    }

    /// Returns whether the copy is contiguous on both sides.
    pub(super) fn is_plain(&self) -> bool {
        self.axes.len() == 1
    }

    /// Returns the widest unit in which the box can be copied, given the start of both sides.
    pub(super) fn unit(&self, from: u64, to: u64) -> u64 {
        let steps = self.axes.iter().skip(1).fold(0, |all, axis| all | axis.from | axis.to);
        let all = steps | self.axes[0].size | (from + self.from) | (to + self.to) | 16;
        1 << all.trailing_zeros()
    }

    /// Splits the copy into parts of at most `most` dimensions each.
    pub(super) fn with_rank(self, most: usize) -> Vec<Copy> {
        let mut copies = vec![self];
        while copies[0].axes.len() > most {
            copies = copies
                .into_iter()
                .flat_map(|mut copy| {
                    let outer = copy.axes.pop().unwrap_or(Axis { size: 0, from: 0, to: 0 });
                    (0..outer.size).map(move |place| Copy {
                        from: copy.from + place * outer.from,
                        to: copy.to + place * outer.to,
                        axes: copy.axes.clone(),
                    })
                })
                .collect();
            if copies.is_empty() {
                return copies;
            }
        }
        copies
    }

    /// Splits the copy into parts that each read at most `most` bytes, few of which are not needed.
    pub(super) fn cut(self, most: u64, to: &mut Vec<Copy>) {
        let (span, bytes) = (self.span(), self.bytes());
        if bytes == 0 {
            return;
        }
        // Gaps smaller than a block are cheaper to read than to skip.
        if span <= most && (span <= 1 << 16 || span / 4 <= bytes) {
            to.push(self);
            return;
        }
        let last = self.axes.len() - 1;
        let outer = self.axes[last];
        if outer.size < 2 {
            to.push(self);
            return;
        }
        // Each part gets as much of the outermost dimension as fits; if a single index is too large, it is
        // split further.
        let inner = Copy { axes: self.axes[..last].to_vec(), ..self.clone() };
        let dense = last == 0 || {
            let span = inner.span();
            (outer.from - span.min(outer.from)) * 3 <= span
        };
        let one = if last == 0 { outer.from } else { outer.from.max(inner.span()) };
        let block = if dense { most } else { most.min(1 << 16) };
        let count = (block / one.max(1)).clamp(1, outer.size);
        let count = if last == 0 && count > 16 { count & !15 } else { count };
        let mut start = 0;
        while start < outer.size {
            let size = count.min(outer.size - start);
            let mut part = Copy {
                from: self.from + start * outer.from,
                to: self.to + start * outer.to,
                axes: self.axes[..last].to_vec(),
            };
            if size > 1 || last == 0 {
                part.axes.push(Axis { size, ..outer });
            }
            if part.axes.len() == self.axes.len() && size == outer.size {
                // Further splitting gains nothing.
                to.push(part);
            } else {
                part.cut(most, to);
            }
            start += size;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Performs a copy, byte by byte.
    fn apply(copy: &Copy, from: &[u8], to: &mut [u8]) {
        fn at(axes: &[Axis], from: u64, to: u64, with: &mut impl FnMut(u64, u64)) {
            match axes {
                [] => with(from, to),
                [inner @ .., axis] => {
                    for place in 0..axis.size {
                        at(inner, from + place * axis.from, to + place * axis.to, with);
                    }
                }
            }
        }
        at(&copy.axes, copy.from, copy.to, &mut |source, target| {
            to[usize::try_from(target).unwrap()] = from[usize::try_from(source).unwrap()];
        });
    }

    struct Random(u64);

    impl Random {
        fn below(&mut self, end: u64) -> u64 {
            self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (self.0 >> 33) % end
        }
    }

    #[test]
    fn boxes_merged_cut_and_expanded_copy_the_same() {
        let mut random = Random(10);
        for round in 0..2000 {
            let rank = random.below(5) as usize;
            let element = [1, 2, 4, 8, 3, 12][random.below(6) as usize];
            let mut shape = |most: u64| (0..rank).map(|_| random.below(most) + 1).collect::<Vec<_>>();
            let (chunk, dims) = (shape(6), shape(6));
            let size: Vec<u64> = (0..rank).map(|d| random.below(chunk[d].min(dims[d]) + 1)).collect();
            let from: Vec<u64> = (0..rank).map(|d| random.below(chunk[d] - size[d] + 1)).collect();
            let to: Vec<u64> = (0..rank).map(|d| random.below(dims[d] - size[d] + 1)).collect();
            let bytes = |shape: &[u64]| (shape.iter().product::<u64>() * element) as usize;
            let source: Vec<u8> = (0..bytes(&chunk)).map(|_| random.below(255) as u8 + 1).collect();
            let copy = Copy::new(&chunk, &from, &dims, &to, &size, element).unwrap();
            assert_eq!(copy.bytes(), size.iter().product::<u64>() * element);
            let mut plain = vec![0; bytes(&dims)];
            apply(&copy, &source, &mut plain);
            // The same, element by element.
            let mut expected = vec![0; bytes(&dims)];
            let mut place = vec![0; rank];
            'all: while size.iter().all(|size| *size > 0) {
                let index = |shape: &[u64], start: &[u64]| {
                    (0..rank).fold(0, |all, d| all * shape[d] + start[d] + place[d]) * element
                };
                for byte in 0..element {
                    expected[(index(&dims, &to) + byte) as usize] =
                        source[(index(&chunk, &from) + byte) as usize];
                }
                for d in (0..rank).rev() {
                    place[d] += 1;
                    if place[d] < size[d] {
                        continue 'all;
                    }
                    place[d] = 0;
                }
                break;
            }
            assert!(plain == expected, "{round}");
            let unit = copy.unit(0, 0);
            assert!([copy.axes[0].size, copy.from, copy.to].iter().all(|at| at.is_multiple_of(unit)));
            let most = random.below(60) + 1;
            let mut parts = Vec::new();
            copy.clone().cut(most.max(element), &mut parts);
            let mut cut = vec![0; bytes(&dims)];
            for part in parts.into_iter().flat_map(|part| part.with_rank(2)) {
                apply(&part, &source, &mut cut);
            }
            assert!(cut == expected, "{round}: {copy:?} cut to {most}");
            let mut filled = vec![0; bytes(&dims)];
            let fill = Copy::fill(&dims, &to, &size, element).unwrap();
            apply(&fill, &source[..element as usize], &mut filled);
            let whole: Vec<u8> = expected
                .iter()
                .enumerate()
                .map(|(at, byte)| if *byte == 0 { 0 } else { source[at % element as usize] })
                .collect();
            assert!(filled == whole, "{round}: {fill:?}");
        }
    }

    #[test]
    fn large_pieces_are_read_in_blocks_and_narrow_ones_without_what_is_between() {
        let check = |size: &[u64; 2], most: u64| {
            let dims = [1 << 14, 1 << 14];
            let copy = Copy::new(&dims, &[0, 5], size, &[0, 0], size, 4).unwrap();
            let mut parts = Vec::new();
            copy.clone().cut(most, &mut parts);
            assert!(parts.iter().all(|part| part.span() <= most), "{size:?}");
            assert_eq!(parts.iter().map(Copy::bytes).sum::<u64>(), copy.bytes());
            (parts.len(), parts.iter().map(Copy::span).sum::<u64>() / copy.bytes())
        };
        assert_eq!(check(&[1 << 14, (1 << 14) - 5], 4 << 20), (256, 1));
        assert_eq!(check(&[1 << 14, 2], 4 << 20), (1 << 14, 1));
        assert_eq!(check(&[1, 1 << 13], 1 << 12), (8, 1));
    }

    #[test]
    fn what_does_not_fit_is_refused() {
        for (chunk, from, dims, to, size) in [
            ([4, 4], [1, 0], [9, 9], [0, 0], [4, 4]),
            ([4, 4], [0, 0], [9, 9], [8, 0], [4, 4]),
            ([4, 4], [u64::MAX, 0], [9, 9], [0, 0], [1, 1]),
            ([u64::MAX, u64::MAX], [0, 0], [9, 9], [0, 0], [1, 1]),
        ] {
            Copy::new(&chunk, &from, &dims, &to, &size, 4).unwrap_err();
        }
        Copy::new(&[4], &[0, 0], &[4, 4], &[0, 0], &[1, 1], 4).unwrap_err();
    }
}
