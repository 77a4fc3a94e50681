//! Iteration over elements at equal distances.

/// Calls `f` with each of `count` pairs of elements, one of `from` and one of `to`. Elements begin every `from_step` and
/// `to_step` bytes, and each is passed with the bytes up to the next one. With a `from_step` of 0, the elements of `from`
/// have no bytes; with a `to_step` of 0, there is nothing to write, and `f` is not called.
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
