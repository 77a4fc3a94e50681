//! Inverse CDF 9/7 wavelet transform, in SPERR's order of operations, for bit-identical results.

use super::Dims;
use std::array::from_fn;

/// Number of columns transformed at a time: one cache line.
const LANES: usize = 8;

// Factors of the lifting steps, derived from the filter's coefficients (Cohen, Daubechies, Feauveau, 1992,
// page 551).
const H: [f64; 5] = [0.602949018236, 0.266864118443, -0.078223266529, -0.016864118443, 0.026748757411];
const R0: f64 = H[0] - 2.0 * H[4] * H[1] / H[3];
const R1: f64 = H[2] - H[4] - H[4] * H[1] / H[3];
const S0: f64 = H[1] - H[3] - H[3] * R0 / R1;
const T0: f64 = H[0] - 2.0 * (H[2] - H[4]);
const ALPHA: f64 = H[4] / H[3];
const BETA: f64 = H[3] / R1;
const GAMMA: f64 = R1 / S0;
const DELTA: f64 = S0 / T0;
const EPSILON: f64 = std::f64::consts::SQRT_2 * T0;
const INVERSE_EPSILON: f64 = 1.0 / EPSILON;

/// Returns the number of halvings of a side: down to 9 elements, at most six.
pub(super) fn levels(length: usize) -> u32 {
    (0..6).find(|level| low_length(length, *level) < 9).unwrap_or(6)
}

/// Returns the number of halvings of a volume along all three axes at once, if its shape allows that.
pub(super) fn dyadic_levels(dims: Dims) -> Option<u32> {
    let [x, y, z] = dims;
    if y < 2 || z < 2 {
        return None;
    }
    let (plane, depth) = (levels(x.min(y)), levels(z));
    (plane == depth || (plane >= 5 && depth >= 5)).then_some(plane.min(depth))
}

/// Returns the length of the low-pass part after `levels` halvings, each rounding up.
pub(super) fn low_length(length: usize, levels: u32) -> usize {
    (0..levels).fold(length, |length, _| length.div_ceil(2))
}

/// Inverts the transform of a plane (third side 1) or a volume; first axis fastest.
pub(super) fn invert(data: &mut [f64], dims: Dims) {
    let [x, y, z] = dims;
    let plane = x.saturating_mul(y);
    let mut work = Work::default();
    if z == 1 {
        return invert_plane(data, x, y, &mut work);
    }
    if let Some(count) = dyadic_levels(dims) {
        for level in (0..count).rev() {
            let (width, rows, depth) = (low_length(x, level), low_length(y, level), low_length(z, level));
            for row in 0..rows {
                work.columns(data, row.saturating_mul(x), width, plane, &[depth]);
            }
            for plane in data.chunks_exact_mut(plane.max(1)).take(depth) {
                work.level(plane, x, width, rows);
            }
        }
        return;
    }
    for plane in data.chunks_exact_mut(plane.max(1)) {
        invert_plane(plane, x, y, &mut work);
    }
    let lengths: Vec<_> = (0..levels(z)).rev().map(|level| low_length(z, level)).collect();
    for row in 0..y {
        work.columns(data, row.saturating_mul(x), x, plane, &lengths);
    }
}

fn invert_plane(plane: &mut [f64], x: usize, y: usize, work: &mut Work) {
    for level in (0..levels(x.min(y))).rev() {
        work.level(plane, x, low_length(x, level), low_length(y, level));
    }
}

/// Reusable buffers.
#[derive(Default)]
struct Work {
    columns: Vec<[f64; LANES]>,
    woven_columns: Vec<[f64; LANES]>,
    woven_row: Vec<[f64; 1]>,
}

impl Work {
    /// Inverts one level of the corner of `width` × `rows` elements, in a plane with rows of `stride`
    /// elements: first the columns, then the rows.
    fn level(&mut self, plane: &mut [f64], stride: usize, width: usize, rows: usize) {
        self.columns(plane, 0, width, stride, &[rows]);
        for row in plane.chunks_exact_mut(stride.max(1)).take(rows) {
            let (row, _) = row.get_mut(..width).unwrap_or_default().as_chunks_mut::<1>();
            synthesize(row, &mut self.woven_row);
        }
    }

    /// Inverts several levels, with increasing `lengths`, of the `width` columns from `start` on; their
    /// elements are `stride` apart.
    fn columns(&mut self, data: &mut [f64], start: usize, width: usize, stride: usize, lengths: &[usize]) {
        let (Some(&length), Some(data)) = (lengths.last(), data.get_mut(start..)) else { return };
        for first in (0..width).step_by(LANES) {
            let end = width.min(first.saturating_add(LANES));
            self.columns.clear();
            for row in data.chunks(stride.max(1)).take(length) {
                let values = row.get(first..end).unwrap_or_default();
                self.columns.push(from_fn(|lane| values.get(lane).copied().unwrap_or_default()));
            }
            for length in lengths {
                synthesize(self.columns.get_mut(..*length).unwrap_or_default(), &mut self.woven_columns);
            }
            for (row, values) in data.chunks_mut(stride.max(1)).zip(&self.columns) {
                let row = row.get_mut(first..end).unwrap_or_default();
                row.iter_mut().zip(values).for_each(|(to, from)| *to = *from);
            }
        }
    }
}

/// Inverts one level. `signal` has its low-pass half, including the odd element, and then its high-pass half.
fn synthesize<const N: usize>(signal: &mut [[f64; N]], woven: &mut Vec<[f64; N]>) {
    let Some((even, odd)) = signal.split_at_mut_checked(signal.len().div_ceil(2)) else { return };
    for values in odd.iter_mut() {
        values.iter_mut().for_each(|value| *value *= -EPSILON);
    }
    lift_even(even, odd, INVERSE_EPSILON, DELTA);
    lift_odd(odd, even, GAMMA);
    lift_even(even, odd, 1.0, BETA);
    lift_odd(odd, even, ALPHA);

    woven.clear();
    for (even, odd) in even.iter().zip(odd.iter()) {
        woven.extend([*even, *odd]);
    }
    if even.len() > odd.len() {
        woven.extend(even.last());
    }
    signal.copy_from_slice(woven);
}

/// Computes `even = even · scale - factor · (both odd neighbours)`; the signal is mirrored at its ends.
fn lift_even<const N: usize>(even: &mut [[f64; N]], odd: &[[f64; N]], scale: f64, factor: f64) {
    let Some((first, even)) = even.split_first_mut() else { return };
    if let Some(right) = odd.first() {
        *first = from_fn(|lane| at(first, lane) * scale - 2.0 * factor * at(right, lane));
    }
    for ((even, left), right) in even.iter_mut().zip(odd).zip(odd.get(1..).unwrap_or_default()) {
        *even = from_fn(|lane| at(even, lane) * scale - factor * (at(left, lane) + at(right, lane)));
    }
    if let Some(last) = even.get_mut(odd.len().wrapping_sub(1))
        && let Some(side) = odd.last()
    {
        *last = from_fn(|lane| at(last, lane) * scale - factor * (at(side, lane) + at(side, lane)));
    }
}

/// Computes `odd -= factor · (both even neighbours)`; the signal is mirrored at its end.
fn lift_odd<const N: usize>(odd: &mut [[f64; N]], even: &[[f64; N]], factor: f64) {
    for ((odd, left), right) in odd.iter_mut().zip(even).zip(even.get(1..).unwrap_or_default()) {
        *odd = from_fn(|lane| at(odd, lane) - factor * (at(left, lane) + at(right, lane)));
    }
    if odd.len() == even.len()
        && let (Some(last), Some(side)) = (odd.last_mut(), even.last())
    {
        *last = from_fn(|lane| at(last, lane) - factor * (at(side, lane) + at(side, lane)));
    }
}

#[expect(clippy::indexing_slicing, reason = "called for the lanes that an array has, so the check vanishes")]
fn at<const N: usize>(values: &[f64; N], lane: usize) -> f64 {
    values[lane]
}
