//! Prediction by interpolation: each level fills in the elements halfway between known ones, axis by axis.

use super::quantizer::{Indices, Quantizer};
use super::{check_dims, damaged};
use crate::codec::error_bounded::value::Value;
use crate::codec::filled;
use crate::{Cursor, Result};

pub(super) fn decode<T: Value>(
    cursor: &mut Cursor<'_>,
    dims: &[usize],
    count: usize,
    output: &mut Vec<u8>,
) -> Result<()> {
    check_dims(cursor, dims)?;
    let block = cursor.u32()? as usize;
    let cubic = match cursor.u32()? {
        0 => false,
        1 => true,
        other => return Err(damaged(format!("an unknown interpolation {other}"))),
    };
    let order = permutation(dims.len(), cursor.u32()?)?;
    if block == 0 {
        return Err(damaged("blocks without elements"));
    }
    let mut quantizer = Quantizer::read::<T>(cursor)?;
    let error_bound = quantizer.error_bound;
    let mut indices = Indices::read(cursor, count)?;

    let mut data = filled(T::default(), count)?;
    if let Some(first) = data.first_mut() {
        *first = quantizer.recover(T::default(), indices.next());
    }
    let levels =
        dims.iter().map(|side| usize::BITS.wrapping_sub(side.saturating_sub(1).leading_zeros())).max();
    for level in (1..=levels.unwrap_or_default()).rev() {
        quantizer.error_bound = if level >= 3 { error_bound * 0.5 } else { error_bound };
        let stride = 1_usize.unbounded_shl(level.wrapping_sub(1));
        let size = stride.saturating_mul(block);
        let mut start = vec![0; dims.len()];
        loop {
            fill(&mut data, dims, &order, &start, size, stride, &mut |data, line| {
                line.fill(data, cubic, &mut |prediction| quantizer.recover(prediction, indices.next()));
            });
            if !advance(&mut start, dims, size) {
                break;
            }
        }
    }
    quantizer.check()?;
    T::write(&data, output)
}

/// Returns the permutation of the axes with this number, in lexicographic order.
fn permutation(rank: usize, number: u32) -> Result<Vec<usize>> {
    let mut left: Vec<usize> = (0..rank).collect();
    let mut number = number as usize;
    let mut order = Vec::new();
    for remaining in (1..=rank).rev() {
        let following: usize = (1..remaining).product();
        let place = number.checked_div(following).filter(|place| *place < left.len());
        let place = place.ok_or_else(|| damaged("an unknown order of the axes"))?;
        number = number.checked_rem(following).unwrap_or_default();
        order.push(left.remove(place));
    }
    Ok(order)
}

/// Moves to the next block, last axis fastest; returns false after the last one.
fn advance(start: &mut [usize], dims: &[usize], size: usize) -> bool {
    for (start, side) in start.iter_mut().zip(dims).rev() {
        *start = start.saturating_add(size);
        if *start < *side {
            return true;
        }
        *start = 0;
    }
    false
}

/// Elements at equal distances.
struct Line {
    start: usize,
    count: usize,
    step: usize,
}

/// Calls `line` for each line of a block in which every second element is to be filled in.
fn fill<T>(
    data: &mut [T],
    dims: &[usize],
    order: &[usize],
    start: &[usize],
    size: usize,
    stride: usize,
    line: &mut impl FnMut(&mut [T], Line),
) {
    // For each axis, in order: start and last element of the block, and stride.
    let axes: Vec<_> = order
        .iter()
        .map(|axis| {
            let step = dims.iter().skip(axis.saturating_add(1)).product::<usize>();
            let start = start.get(*axis).copied().unwrap_or_default();
            let last = dims.get(*axis).map_or(0, |side| side.saturating_sub(1));
            (start, start.saturating_add(size).min(last), step)
        })
        .collect();
    for (number, (first, last, step)) in axes.iter().enumerate() {
        // Along the preceding axes all elements of the level are known; along the others every second one.
        let mut loops = Vec::with_capacity(3);
        for (other, (start, end, step)) in axes.iter().enumerate().filter(|(other, _)| *other != number) {
            let by = if other < number { stride } else { stride.saturating_mul(2) };
            let start = if *start == 0 { 0 } else { start.saturating_add(by) };
            loops.push((start, *end, by, *step));
        }
        let count = last.saturating_sub(*first).checked_div(stride).unwrap_or_default().saturating_add(1);
        each(&loops, first.saturating_mul(*step), &mut |start| {
            line(data, Line { start, count, step: step.saturating_mul(stride) });
        });
    }
}

/// Runs nested loops given as (first, last, step, stride).
fn each(loops: &[(usize, usize, usize, usize)], base: usize, body: &mut impl FnMut(usize)) {
    match loops.split_first() {
        Some(((first, last, by, step), inner)) => {
            let mut at = *first;
            while at <= *last {
                each(inner, base.saturating_add(at.saturating_mul(*step)), body);
                at = at.saturating_add(*by);
            }
        }
        None => body(base),
    }
}

impl Line {
    /// Fills in every second element.
    #[expect(
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects,
        reason = "the last element is checked at the top; the loops stay before it"
    )]
    fn fill<T: Value>(&self, data: &mut [T], cubic: bool, recover: &mut impl FnMut(T) -> T) {
        let Self { start, count, step } = *self;
        let last = count.saturating_sub(1).checked_mul(step).and_then(|length| length.checked_add(start));
        if count < 2 || last.is_none_or(|last| last >= data.len()) {
            return;
        }
        let place = |number: usize| start + number * step;
        if !cubic || count < 5 {
            for number in (1..count - 1).step_by(2) {
                let terms = [(data[place(number - 1)], 1), (data[place(number + 1)], 1)];
                data[place(number)] = recover(T::mean(terms, 2));
            }
            if count % 2 == 0 {
                let before = data[place(count - 2)];
                data[place(count - 1)] = recover(if count < 4 {
                    before
                } else {
                    T::from_f64(-0.5 * data[place(count - 4)].to_f64() + 1.5 * before.to_f64())
                });
            }
            return;
        }
        let mut number = 3;
        while number + 3 < count {
            let [a, b] = [data[place(number - 3)], data[place(number - 1)]];
            let [c, d] = [data[place(number + 1)], data[place(number + 3)]];
            data[place(number)] = recover(T::mean([(a, -1), (b, 9), (c, 9), (d, -1)], 16));
            number += 2;
        }
        let [a, b, c] = [0, 2, 4].map(|number| data[place(number)]);
        data[place(1)] = recover(T::mean([(a, 3), (b, 6), (c, -1)], 8));
        let [a, b, c] = [data[place(number - 3)], data[place(number - 1)], data[place(number + 1)]];
        data[place(number)] = recover(T::mean([(a, -1), (b, 6), (c, 3)], 8));
        if count % 2 == 0 {
            let [a, b, c] = [6, 4, 2].map(|back| data[place(count - back)]);
            data[place(count - 1)] = recover(T::mean([(a, 3), (b, -10), (c, 15)], 8));
        }
    }
}
