//! Access to the memory of the C program.

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
        return Err(Error::invalid(format!(
            "invalid array of {count} values: its address is not aligned, or it exceeds the address space"
        )));
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

/// Returns a buffer of the program as a slice to write to.
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
        return Err(Error::limit(format!("{what} of {size} bytes is larger than the address space")));
    }
    // SAFETY: not NULL, not too large; bytes have no alignment; the rest is the caller's promise.
    Ok(unsafe { std::slice::from_raw_parts_mut(pointer.cast(), size) })
}

/// Copies a text to the program, truncated to `size` bytes with a NUL at its end; returns the text's whole
/// length.
///
/// # Safety
/// `pointer` is NULL, or has room for `size` bytes.
pub(crate) unsafe fn copy_text(text: &[u8], pointer: *mut c_char, size: usize) -> Result<i64> {
    if !pointer.is_null() && size > 0 {
        let fits = text.len().min(size - 1);
        // SAFETY: `size` bytes can be written, and `fits` is less.
        unsafe { write_all(pointer.cast(), text.get(..fits).unwrap_or_default()) };
        // SAFETY: `fits` is less than `size`.
        unsafe { write_out(pointer.add(fits), 0) };
    }
    i64::try_from(text.len()).map_err(|_| Error::limit("the text is too long: its length exceeds an int64_t"))
}

/// Number of machine words before the pointers of an array of strings; there is one, the allocation's size in
/// words.
const HEADER_WORDS: usize = 1;

/// Copies strings to new memory, which [`take_strings`] frees: an array of pointers with a NULL at its end,
/// followed by the strings.
pub(crate) fn give_strings(strings: &[Vec<u8>]) -> *mut *mut c_char {
    let bytes: usize = strings.iter().map(|string| string.len() + 1).sum();
    let first = HEADER_WORDS + strings.len() + 1;
    let words = first + bytes.div_ceil(size_of::<usize>());
    let memory = Box::into_raw(vec![0_usize; words].into_boxed_slice()).cast::<usize>();
    // SAFETY: the allocation has `words` words; `first` and `HEADER_WORDS` are within it.
    let (mut text, pointers) = unsafe { (memory.add(first).cast::<u8>(), memory.add(HEADER_WORDS)) };
    // SAFETY: the allocation has at least one word.
    unsafe { write_out(memory, words) };
    for (number, string) in strings.iter().enumerate() {
        // SAFETY: before `first` there is a word for each string; from `first` on, room for all strings with
        // a zero after each.
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
/// It is NULL, or memory from [`give_strings`] that is not freed and no longer used.
pub(crate) unsafe fn take_strings(pointers: *mut *mut c_char) {
    if pointers.is_null() {
        return;
    }
    // SAFETY: the caller's promise: `give_strings` put the header before the pointers.
    let memory = unsafe { pointers.cast::<usize>().sub(HEADER_WORDS) };
    // SAFETY: `give_strings` wrote the first word.
    let words = unsafe { memory.read() };
    // SAFETY: `give_strings` allocated a boxed slice of this number of words.
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
