//! Relative errors: the logarithms or ratios of the values are predicted; the signs are separate.

use super::element::Real;
use super::exact::Reals;
use super::{QuantizedStream, damaged};
use crate::Result;
use crate::codec::with_room;

/// SZ's maximum number of intervals for ratios.
const MAX_INTERVALS: u32 = 1 << 16;

/// Converts logarithms to base 2 back to values.
pub(super) fn from_logarithms<T: Real>(values: &mut [T], lowest: T, signs: Option<&[u8]>) {
    for (number, value) in values.iter_mut().enumerate() {
        *value = if *value < lowest { T::default() } else { T::from_f64(value.to_f64().exp2()) };
        if is_negative(signs, number) {
            *value = value.opposite();
        }
    }
}

/// Inserts zeros and signs.
pub(super) fn finish_ratios<T: Real>(values: &mut [T], lowest: T, signs: Option<&[u8]>) {
    for (number, value) in values.iter_mut().enumerate() {
        if *value < lowest && (signs.is_none() || *value >= T::default()) {
            *value = T::default();
        } else if is_negative(signs, number) {
            *value = value.negative();
        }
    }
}

fn is_negative(signs: Option<&[u8]>, number: usize) -> bool {
    signs.and_then(|signs| signs.get(number)).is_some_and(|sign| *sign != 0)
}

/// Decodes values whose ratios to their predictions are powers of one base.
pub(super) fn ratios<T: Real>(
    dims: &[usize],
    stored: &QuantizedStream,
    mut exact: Reals<'_>,
) -> Result<Vec<T>> {
    if stored.intervals > MAX_INTERVALS {
        return Err(damaged(format!("{} intervals of ratios", stored.intervals)));
    }
    let radius = (stored.intervals / 2).cast_signed();
    let base = 1.0 + stored.precision;
    let exponent = 2.0 - f64::powi(2.0, i32::from(stored.plus_bits).wrapping_neg());
    let table: Vec<f64> = (0..stored.intervals)
        .map(|code| base.powf(exponent * f64::from(code.cast_signed().wrapping_sub(radius))))
        .collect();
    let ratio = |code: i32| {
        let ratio = usize::try_from(code).ok().and_then(|code| table.get(code).copied());
        ratio.ok_or_else(|| damaged("a ratio beyond the intervals"))
    };
    let shape = match *dims {
        [x] => [1, 1, x],
        [y, x] => [1, y, x],
        [z, y, x] => [z, y, x],
        [a, b, y, x] => [a.saturating_mul(b), y, x],
        _ => return Err(damaged(format!("{} axes", dims.len()))),
    };
    let [planes, rows, columns] = shape;
    let rank = dims.len().min(3);
    let mut values: Vec<T> = with_room(stored.codes.len())?;
    let mut codes = stored.codes.iter();
    let plane = rows.saturating_mul(columns);
    // In one dimension, predictions follow the unsigned reconstruction, not the values with their signs.
    let mut before = T::default();
    for z in 0..planes {
        for y in 0..rows {
            for x in 0..columns {
                let code = codes.next().copied().unwrap_or_default();
                let value = if code == 0 || (rank > 1 && values.is_empty()) {
                    exact.next()?
                } else {
                    let back = |steps: usize| {
                        let index = values.len().checked_sub(steps);
                        index.and_then(|index| values.get(index)).copied().unwrap_or_default()
                    };
                    let prediction = match (rank, z > 0, y > 0, x) {
                        (1, ..) => before,
                        (_, false, false, 0 | 1) => back(1),
                        (2, _, false, _) => back(1).product(back(1)).quotient(back(2)),
                        (2, _, true, 0) => back(columns),
                        (2, _, true, _) => {
                            back(1).product(back(columns)).quotient(back(columns.saturating_add(1)))
                        }
                        (_, z, y, x) => T::from_f64(prediction(&back, [plane, columns], (z, y, x))),
                    };
                    T::from_f64(prediction.absolute().to_f64() * ratio(code)?)
                };
                before = value;
                values.push(value);
            }
        }
    }
    Ok(values)
}

/// Returns the prediction in a volume, in double precision.
fn prediction<T: Real>(
    back: &impl Fn(usize) -> T,
    [plane, row]: [usize; 2],
    place: (bool, bool, usize),
) -> f64 {
    let both = plane.saturating_add(row);
    let at = |steps: usize| back(steps).to_f64();
    match place {
        (false, false, _) => at(1) * at(1) / at(2),
        (false, true, 0) => at(row),
        (false, true, _) => at(1) * at(row) / at(row.saturating_add(1)),
        (true, false, 0) => at(plane),
        (true, false, _) => at(1) * at(plane) / at(plane.saturating_add(1)),
        (true, true, 0) => at(row) * at(plane) / at(both),
        (true, true, _) => {
            at(1) * at(row) * at(plane) * at(both.saturating_add(1))
                / (at(row.saturating_add(1)) * at(both) * at(plane.saturating_add(1)))
        }
    }
}
