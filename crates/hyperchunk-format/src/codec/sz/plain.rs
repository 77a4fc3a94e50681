//! Lorenzo prediction from preceding elements, as in SZ 1.4.

use super::element::Element;
use crate::Result;
use crate::codec::error_bounded::grid::{Grid, Lorenzo};
use crate::codec::with_room;

/// Reconstructs the elements of a chunk from their codes: 0 for an exact value; otherwise `step` computes the
/// element from its prediction.
pub(super) fn fill<T: Element>(
    dims: &[usize],
    codes: &[i32],
    mut exact: impl FnMut() -> Result<T>,
    step: impl Fn(T::Sum, i32) -> T,
) -> Result<Vec<T>> {
    // Four axes are a sequence of volumes.
    let (volumes, volume) = match *dims {
        [first, ref volume @ ..] if volume.len() == 3 => (first, volume),
        _ => (1, dims),
    };
    let mut grid = Grid::<T::Sum>::new(volume, 1)?;
    let rank = volume.len();
    let whole = grid.whole();
    let unused = 3_usize.saturating_sub(rank);
    let [x, y, z] = [[1, 0, 0], [0, 1, 0], [0, 0, 1]]
        .map(|back: [usize; 3]| grid.distance(back.get(unused..).unwrap_or_default()));
    let lorenzo = match rank {
        1 => Lorenzo::new(&[z], 1),
        2 => Lorenzo::new(&[y, z], 1),
        // The order of summation differs from the one of `Lorenzo::new`.
        _ => Lorenzo::of([&[z], &[y], &[x], &[y, z], &[x, y], &[x, z], &[x, y, z]]),
    };
    let line = Lorenzo::new(&[z], 2);

    let mut values = with_room(codes.len())?;
    let mut codes = codes.iter();
    let mut failed = None;
    for _ in 0..volumes {
        grid.each(whole, |data, index, [_, i, j, k]| {
            let code = codes.next().copied().unwrap_or_default();
            let first = i == 0 && j == 0;
            let value = if failed.is_some() {
                T::default()
            } else if code == 0 || (first && k == 0) {
                exact().unwrap_or_else(|error| {
                    failed = Some(error);
                    T::default()
                })
            } else {
                let lorenzo = if first && k > 1 && rank > 1 { &line } else { &lorenzo };
                step(lorenzo.predict(data, index), code)
            };
            values.push(value);
            value.widen()
        });
    }
    match failed {
        Some(error) => Err(error),
        None => Ok(values),
    }
}
