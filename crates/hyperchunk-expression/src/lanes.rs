//! Views of bytes as elements.

use std::mem::MaybeUninit;

/// Element in memory.
///
/// # Safety
/// Every bit pattern is a valid value, and there is no padding.
pub(crate) unsafe trait Lane: Copy + 'static {}

macro_rules! lanes {
    ($($t:ty)*) => {$(
        // SAFETY: a primitive number.
        unsafe impl Lane for $t {}
    )*};
}
lanes!(u8 u16 u32 u64 i8 i16 i32 i64 f32 f64);

/// Returns `bytes` as elements; `None` if they are not aligned, or end within an element.
pub(crate) fn view<T: Lane>(bytes: &[u8]) -> Option<&[T]> {
    let pointer = bytes.as_ptr().cast::<T>();
    if !pointer.is_aligned() || !bytes.len().is_multiple_of(size_of::<T>()) {
        return None;
    }
    // SAFETY: aligned, inside the bytes, and any bits are a value of a plain type.
    Some(unsafe { std::slice::from_raw_parts(pointer, bytes.len() / size_of::<T>()) })
}

/// Returns `bytes` as memory for elements, under the same conditions.
pub(crate) fn view_mut<T: Lane>(bytes: &mut [MaybeUninit<u8>]) -> Option<&mut [MaybeUninit<T>]> {
    let pointer = bytes.as_mut_ptr().cast::<MaybeUninit<T>>();
    if !pointer.is_aligned() || !bytes.len().is_multiple_of(size_of::<T>()) {
        return None;
    }
    // SAFETY: aligned, inside the bytes, borrowed as long as they are; written elements have no padding.
    Some(unsafe { std::slice::from_raw_parts_mut(pointer, bytes.len() / size_of::<T>()) })
}

/// Returns the bytes of a register.
pub(crate) fn bytes(words: &[u64], length: usize) -> Option<&[u8]> {
    // SAFETY: the bytes of initialised words.
    unsafe { std::slice::from_raw_parts(words.as_ptr().cast::<u8>(), size_of_val(words)) }.get(..length)
}

/// Returns the bytes of a register for writing.
pub(crate) fn bytes_mut(words: &mut [u64], length: usize) -> Option<&mut [MaybeUninit<u8>]> {
    // SAFETY: as above. The receiver must leave these bytes initialised; the kernels write each of them or
    // nothing.
    unsafe { std::slice::from_raw_parts_mut(words.as_mut_ptr().cast(), size_of_val(words)) }.get_mut(..length)
}

/// Returns bytes as memory for [`Program::evaluate_into`](super::Program::evaluate_into).
pub fn as_output_bytes(bytes: &mut [u8]) -> &mut [MaybeUninit<u8>] {
    // SAFETY: the same memory; the kernels never write uninitialised values.
    unsafe { std::slice::from_raw_parts_mut(bytes.as_mut_ptr().cast(), bytes.len()) }
}

/// Copies bytes into memory of the same length.
pub fn copy(from: &[u8], to: &mut [MaybeUninit<u8>]) {
    for (to, &from) in to.iter_mut().zip(from) {
        to.write(from);
    }
}
