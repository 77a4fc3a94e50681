//! Iteration over elements at equal distances.

/// Calls `f` with each of `count` elements: the bytes from its start up to the next element.
#[inline]
pub(super) fn each(
    from: &[u8],
    from_step: usize,
    to: &mut [u8],
    to_step: usize,
    count: usize,
    mut f: impl FnMut(&[u8], &mut [u8]),
) {
    if to_step == 0 {
        return;
    }
    if from_step == 0 {
        to.chunks_mut(to_step).take(count).for_each(|to| f(&[], to));
        return;
    }
    to.chunks_mut(to_step).zip(from.chunks(from_step)).take(count).for_each(|(to, from)| f(from, to));
}
