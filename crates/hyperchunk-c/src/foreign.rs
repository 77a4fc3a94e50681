//! All access to memory of the C program.

use hyperchunk::{Error, Result};
use std::ffi::{CStr, c_char};

/// Returns a string of the program, as bytes.
///
/// # Safety
/// It is NULL, or ends with NUL and does not change while the result is used.
pub(crate) unsafe fn text<'a>(pointer: *const c_char, what: &str) -> Result<&'a [u8]> {
    if pointer.is_null() {
        return Err(Error::invalid(format!("{what} is NULL")));
    }
    // SAFETY: not NULL; the rest is the caller's promise.
    Ok(unsafe { CStr::from_ptr(pointer) }.to_bytes())
}

/// Returns an array of the program; `None` for NULL.
///
/// # Safety
/// It is NULL, or has `count` values that do not change while the result is used.
pub(crate) unsafe fn array<'a, T: Copy>(pointer: *const T, count: usize) -> Result<Option<&'a [T]>> {
    if pointer.is_null() {
        return Ok(None);
    }
    if !pointer.is_aligned()
        || count.checked_mul(size_of::<T>()).is_none_or(|size| isize::try_from(size).is_err())
    {
        return Err(Error::invalid(format!("{count} values at an address where none can be")));
    }
    // SAFETY: not NULL, aligned, not too large; the rest is the caller's promise.
    Ok(Some(unsafe { std::slice::from_raw_parts(pointer, count) }))
}

/// Returns an array that must not be NULL unless it has no values.
///
/// # Safety
/// As [`array`].
pub(crate) unsafe fn required_array<'a, T: Copy>(
    pointer: *const T,
    count: usize,
    what: &str,
) -> Result<&'a [T]> {
    // SAFETY: the caller's promise.
    match unsafe { array(pointer, count) }? {
        Some(values) => Ok(values),
        None if count == 0 => Ok(&[]),
        None => Err(Error::invalid(format!("{what} is NULL"))),
    }
}

/// Writes a value for the program, unless the pointer is NULL.
///
/// # Safety
/// `place` is NULL, or a value can be written there.
pub(crate) unsafe fn write_out<T>(place: *mut T, value: T) {
    if !place.is_null() {
        // SAFETY: not NULL; the rest is the caller's promise.
        unsafe { place.write_unaligned(value) }
    }
}

/// Writes bytes for the program.
///
/// # Safety
/// As many bytes can be written to `place`, which is not NULL.
pub(crate) unsafe fn write_all(place: *mut u8, bytes: &[u8]) {
    // SAFETY: the caller's promise; memory of this library is not the program's.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), place, bytes.len()) }
}
