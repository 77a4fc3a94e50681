//! Attributes of objects that are open for reading.

use crate::handles::Handle;
use crate::read::{ReadObject, length, numbered};
use crate::{foreign, guard::guard, guard::guard_with, put_dims, types};
use hyperchunk::convert::Conversion;
use hyperchunk::model::Attribute;
use hyperchunk::values::strings;
use hyperchunk::{Error, ErrorKind, Result};
use std::ffi::{c_char, c_int, c_void};

/// Returns an attribute of an object.
///
/// # Safety
/// `name` is a string.
pub(crate) unsafe fn attribute(object: &ReadObject, name: *const c_char) -> Result<Attribute> {
    // SAFETY: the caller's promise.
    let name = unsafe { foreign::text(name, "the name") }?;
    object.object().attribute(name)?.ok_or_else(|| {
        let message = format!("there is no attribute {}", String::from_utf8_lossy(name));
        object.object().with_context(Error::new(ErrorKind::NotFound, message))
    })
}

/// Returns the number of attributes of an object.
#[unsafe(no_mangle)]
pub extern "C" fn hc_attr_count(object: i64) -> i64 {
    guard(|| length(Handle::to_read(object)?.attributes()?.len()))
}

/// Returns the name of an attribute.
///
/// # Safety
/// `buf` is NULL or has room for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hc_attr_name(object: i64, number: i64, buf: *mut c_char, size: usize) -> i64 {
    guard(|| {
        let object = Handle::to_read(object)?;
        let name = numbered(object.attributes()?, number, "attribute")?;
        // SAFETY: the program's promise.
        unsafe { foreign::copy_text(name.as_bytes(), buf, size) }
    })
}

/// Returns the number of an attribute's dimensions, and its extent.
///
/// # Safety
/// `name` is a string; `dims` is NULL or has room for `room` values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hc_attr_dims(
    object: i64,
    name: *const c_char,
    room: c_int,
    dims: *mut u64,
) -> c_int {
    guard(|| {
        let object = Handle::to_read(object)?;
        // SAFETY: the program's promise.
        let found = unsafe { attribute(&object, name) }?;
        // SAFETY: the program's promise.
        unsafe { put_dims(found.dataspace.dims(), room, dims) }
    })
}

/// Reads the values of an attribute.
///
/// # Safety
/// `name` is a string; `values` is NULL or has room for `room` values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hc_get_numbers(
    object: i64,
    name: *const c_char,
    number: c_int,
    room: usize,
    values: *mut c_void,
) -> i64 {
    guard(|| {
        let object = Handle::to_read(object)?;
        // SAFETY: the program's promise.
        let found = unsafe { attribute(&object, name) }?;
        let named = |error: Error| object.object().with_context(error);
        let too_many = || named(Error::limit("the attribute is larger than the address space"));
        let count =
            found.dataspace.elements().and_then(|count| usize::try_from(count).ok()).ok_or_else(too_many)?;
        if values.is_null() {
            return length(count);
        }
        if room < count {
            let message = format!("`values` has room for {room} values, expected {count}");
            return Err(named(Error::invalid(message)));
        }
        let memory = match number {
            types::STORED => found.datatype.clone(),
            number => types::datatype(number)?,
        };
        let size = usize::try_from(memory.size)
            .ok()
            .and_then(|size| size.checked_mul(count))
            .ok_or_else(too_many)?;
        // SAFETY: the program's promise: there is room for `room` values, and `count` is not more.
        let out = unsafe { foreign::room(values, size, "values") }?;
        if number == types::STORED {
            let short = || named(Error::corrupt(format!("the attribute has less than {size} bytes of data")));
            let data = found.data.get(..size).ok_or_else(short)?;
            out.copy_from_slice(data);
        } else {
            let conversion = Conversion::new(&found.datatype, &memory).map_err(named)?;
            conversion.run(&found.data, out, count).map_err(named)?;
        }
        length(count)
    })
}

/// Returns the strings of an attribute.
///
/// # Safety
/// `name` is a string.
unsafe fn read_strings(object: i64, name: *const c_char) -> Result<Vec<Vec<u8>>> {
    let object = Handle::to_read(object)?;
    // SAFETY: the caller's promise.
    let found = unsafe { attribute(&object, name) }?;
    strings(object.object().file(), &found.datatype, &found.data)
        .map_err(|error| object.object().with_context(error))
}

/// Reads the only string of an attribute.
///
/// # Safety
/// `name` is a string; `buf` is NULL or has room for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hc_get_string(
    object: i64,
    name: *const c_char,
    buf: *mut c_char,
    size: usize,
) -> i64 {
    guard(|| {
        // SAFETY: the program's promise.
        let found = unsafe { read_strings(object, name) }?;
        let [text] = &found[..] else {
            let message = format!(
                "cannot read the attribute: expected one string, got {}; use hc_get_strings",
                found.len()
            );
            return Err(Error::invalid(message));
        };
        // SAFETY: the program's promise.
        unsafe { foreign::copy_text(text, buf, size) }
    })
}

/// Reads all strings of an attribute.
///
/// # Safety
/// `name` is a string; `number` is NULL or has room for a value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hc_get_strings(
    object: i64,
    name: *const c_char,
    number: *mut usize,
) -> *mut *mut c_char {
    guard_with(std::ptr::null_mut(), || {
        // SAFETY: the program's promise.
        let found = unsafe { read_strings(object, name) }?;
        // SAFETY: the program's promise.
        unsafe { foreign::write_out(number, found.len()) };
        Ok(foreign::give_strings(&found))
    })
}
