//! All access to memory of the C program.

use hyperchunk::{Error, Result};
use std::ffi::{CStr, c_char, c_void};

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

/// Returns memory of the program that is to be written.
///
/// # Safety
/// Nothing else uses it meanwhile; it is NULL, or has room for `size` bytes.
pub(crate) unsafe fn room<'a>(pointer: *mut c_void, size: usize, what: &str) -> Result<&'a mut [u8]> {
    if size == 0 {
        return Ok(&mut []);
    }
    if pointer.is_null() {
        return Err(Error::invalid(format!("{what} is NULL")));
    }
    if isize::try_from(size).is_err() {
        return Err(Error::limit(format!("{size} bytes are more than memory has")));
    }
    // SAFETY: not NULL, not too large; bytes have no alignment; the rest is the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts_mut(pointer.cast(), size) })
}

/// Copies a text with a NUL at its end to the program, as much as there is room for; returns its whole length.
///
/// # Safety
/// `pointer` is NULL, or has room for `size` bytes.
pub(crate) unsafe fn copy_text(text: &[u8], pointer: *mut c_char, size: usize) -> Result<i64> {
    if !pointer.is_null() && size > 0 {
        let fits = text.len().min(size - 1);
        // SAFETY: `size` bytes can be written, of which these are some.
        unsafe { write_all(pointer.cast(), text.get(..fits).unwrap_or_default()) };
        // SAFETY: less than `size`.
        unsafe { write_out(pointer.add(fits), 0) };
    }
    i64::try_from(text.len()).map_err(|_| Error::limit("a text larger than memory"))
}

/// Words before the pointers of an array of strings: the number of words of its memory.
const HEADER_WORDS: usize = 1;

/// Copies strings to memory that the program gives back by [`take_strings`]: an array of pointers with a NULL at its end,
/// followed by the strings.
pub(crate) fn give_strings(strings: &[Vec<u8>]) -> *mut *mut c_char {
    let bytes: usize = strings.iter().map(|string| string.len() + 1).sum();
    let first = HEADER_WORDS + strings.len() + 1;
    let words = first + bytes.div_ceil(size_of::<usize>());
    let memory = Box::into_raw(vec![0_usize; words].into_boxed_slice()).cast::<usize>();
    // SAFETY: `words` words are there, and `first` is less.
    let (mut text, pointers) = unsafe { (memory.add(first).cast::<u8>(), memory.add(HEADER_WORDS)) };
    // SAFETY: the first word.
    unsafe { write_out(memory, words) };
    for (number, string) in strings.iter().enumerate() {
        // SAFETY: there is a word for each string before `first`, and room for all strings, with a zero after each,
        // from there on.
        unsafe {
            write_all(text, string);
            write_out(pointers.cast::<*mut u8>().add(number), text);
            text = text.add(string.len() + 1);
        }
    }
    pointers.cast()
}

/// Frees memory from [`give_strings`].
///
/// # Safety
/// It is NULL, or such memory, and nothing uses it any more.
pub(crate) unsafe fn take_strings(pointers: *mut *mut c_char) {
    if pointers.is_null() {
        return;
    }
    // SAFETY: the caller's promise: the header is before the pointers.
    let memory = unsafe { pointers.cast::<usize>().sub(HEADER_WORDS) };
    // SAFETY: the first word is there.
    let words = unsafe { memory.read() };
    // SAFETY: a boxed slice of this number of words was given.
    drop(unsafe { Box::from_raw(std::ptr::slice_from_raw_parts_mut(memory, words)) });
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
