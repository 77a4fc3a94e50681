//! Attributes as inputs of functions: they are small, are read whole and are passed by value.

use super::plan::{Plan, absolute};
use crate::errors::{ErrorStackGuard, failure};
use crate::handles::{Handle, c_name};
use crate::library::Library;
use crate::symbols::{CLASS_STRING, Hid, NULL_TERMINATED, SPACE_NULL};
use crate::{Result, fail};
use hyperchunk_expression::Kind;
use hyperchunk_udf::attribute::{place_texts, text_datatype};
use hyperchunk_udf::backend::Backend;
use hyperchunk_udf::datatype::Datatype;
use hyperchunk_udf::escape::escape;
use hyperchunk_udf::record::{MAX_ATTRIBUTE_BYTES, Record, Slot, byte_size};
use std::ffi::{CStr, c_char};

/// The shape and type of an attribute that is an input.
pub(crate) struct AttributeInfo {
    pub(crate) dims: Vec<u64>,
    pub(crate) datatype: Datatype,
    /// Its kind in an expression.
    pub(crate) kind: Option<Kind>,
}

/// Fails if an attribute that is an input is in a file from which inputs are not allowed.
pub(super) fn check_place(library: &'static Library, plan: &Plan, file: &Handle, slot: &Slot) -> Result<()> {
    let Some((object, _)) = plan.verified.record.find_attribute(slot) else { return Ok(()) };
    let path = c_name(&absolute(object))?;
    // SAFETY: a NUL-terminated name; 0 is the default access list.
    let object =
        library.wrap_object(unsafe { (library.f.object_open)(file.id, path.as_ptr(), 0) }, "the object")?;
    plan.outside(library, file)?.check_object(object.id)
}

/// An open attribute.
struct Attribute {
    handle: Handle,
    file_type: Handle,
    dims: Vec<u64>,
}

impl Attribute {
    /// Returns `None` if there is no such object, or it has no such attribute.
    fn open(library: &'static Library, file: Hid, object: &str, name: &str) -> Result<Option<Self>> {
        let _quiet = ErrorStackGuard::new(library);
        let (path, name) = (c_name(&absolute(object))?, c_name(name)?);
        // SAFETY: a NUL-terminated name; 0 is the default access list.
        let object = unsafe { (library.f.object_open)(file, path.as_ptr(), 0) };
        let Ok(object) = library.wrap_object(object, "the object") else { return Ok(None) };
        // SAFETY: an open object and a NUL-terminated name.
        if unsafe { (library.f.attr_exists)(object.id, name.as_ptr()) } <= 0 {
            return Ok(None);
        }
        // SAFETY: as above; 0 is the default access list.
        let id = unsafe { (library.f.attr_open)(object.id, name.as_ptr(), 0) };
        let handle = library.wrap_attribute(id, "it")?;
        // SAFETY: an open attribute; type and space are ours then.
        let (file_type, space) =
            unsafe { ((library.f.attr_type)(handle.id), (library.f.attr_space)(handle.id)) };
        let (file_type, space) =
            (library.wrap_type(file_type, "its type")?, library.wrap_space(space, "its shape")?);
        // SAFETY: an open dataspace.
        if unsafe { (library.f.space_class)(space.id) } == SPACE_NULL {
            fail!(Unsupported, "it has no elements (null dataspace)")
        }
        let dims = library.dims(space.id)?;
        Ok(Some(Attribute { handle, file_type, dims }))
    }

    fn is_text(&self, library: &'static Library) -> bool {
        // SAFETY: an open type.
        unsafe { (library.f.type_class)(self.file_type.id) == CLASS_STRING }
    }

    fn elements(&self) -> Result<usize> {
        let elements = self.dims.iter().try_fold(1u64, |n, &dim| n.checked_mul(dim));
        match elements.filter(|n| (1..=MAX_ATTRIBUTE_BYTES).contains(n)).and_then(|n| usize::try_from(n).ok())
        {
            Some(elements) => Ok(elements),
            None => fail!(Unsupported, "it has {:?} elements; attributes are inputs up to 64 KiB", self.dims),
        }
    }

    /// Reads the strings, without padding.
    fn texts(&self, library: &'static Library) -> Result<Vec<Vec<u8>>> {
        let elements = self.elements()?;
        // SAFETY: a copy of an open type, then closed by its handle.
        let memory =
            library.wrap_type(unsafe { (library.f.type_copy)(self.file_type.id) }, "a string type")?;
        // SAFETY: open types.
        let (size, variable) =
            unsafe { ((library.f.type_size)(memory.id), (library.f.type_is_variable_string)(memory.id) > 0) };
        if variable {
            let mut pointers: Vec<*mut c_char> = vec![std::ptr::null_mut(); elements];
            // SAFETY: strings of variable length are read into one pointer each.
            if unsafe { (library.f.attr_read)(self.handle.id, memory.id, pointers.as_mut_ptr().cast()) } < 0 {
                return Err(failure(library, "cannot read it"));
            }
            let texts = pointers.iter().map(|&pointer| match pointer.is_null() {
                true => Vec::new(),
                // SAFETY: HDF5 terminates the strings that it reads.
                false => unsafe { CStr::from_ptr(pointer) }.to_bytes().to_vec(),
            });
            let texts = texts.collect();
            let space = library.space(&[elements as u64])?;
            // SAFETY: allocated by attr_read for this type and number of elements.
            unsafe { (library.f.vlen_reclaim)(memory.id, space.id, 0, pointers.as_mut_ptr().cast()) };
            return Ok(texts);
        }
        let room = size.saturating_add(1);
        let bytes = room.checked_mul(elements).filter(|&bytes| bytes as u64 <= 2 * MAX_ATTRIBUTE_BYTES);
        let Some(bytes) = bytes else {
            fail!(Unsupported, "it is larger than 64 KiB, the maximum size of an attribute that is an input")
        };
        let mut buffer = vec![0u8; bytes];
        // SAFETY: a type of ours, and a buffer with room for `elements` strings of it.
        let read = unsafe {
            (library.f.type_set_size)(memory.id, room) >= 0
                && (library.f.type_set_strpad)(memory.id, NULL_TERMINATED) >= 0
                && (library.f.attr_read)(self.handle.id, memory.id, buffer.as_mut_ptr().cast()) >= 0
        };
        if !read {
            return Err(failure(library, "cannot read it"));
        }
        Ok(buffer
            .chunks_exact(room)
            .map(|text| text.split(|&b| b == 0).next().unwrap_or_default().to_vec())
            .collect())
    }
}

/// Finds an attribute of an object of the file; `None` when there is none.
pub(crate) fn find(
    library: &'static Library,
    backend: Backend,
    file: Hid,
    object: &str,
    name: &str,
) -> Result<Option<AttributeInfo>> {
    let Some(attribute) = Attribute::open(library, file, object, name)? else { return Ok(None) };
    let (datatype, kind) = if attribute.is_text(library) {
        (text_datatype(&attribute.texts(library)?)?, None)
    } else {
        let (_, datatype, kind) = library.input_type(backend, attribute.file_type.id)?;
        (datatype, kind)
    };
    attribute.elements()?;
    if datatype.has_pointers() || byte_size(&attribute.dims, &datatype) > MAX_ATTRIBUTE_BYTES {
        fail!(Unsupported, "it is {}, and attributes are inputs up to 64 KiB", escape(&datatype.name(), 80))
    }
    Ok(Some(AttributeInfo { dims: attribute.dims, datatype, kind }))
}

/// Checks an input that is an attribute against its record; returns its kind in an expression.
pub(crate) fn check(
    library: &'static Library,
    record: &Record,
    file: Hid,
    input: &Slot,
) -> Result<Option<Kind>> {
    let Some((object, name)) = record.find_attribute(input) else { fail!(Invalid, "it is not an attribute") };
    let Some(found) = find(library, record.backend, file, object, name)? else {
        fail!(NotFound, "there is no such attribute in the file")
    };
    // The length of strings is part of their value, so it is not compared.
    let texts = [&found.datatype, &input.datatype].iter().all(|d| matches!(d, Datatype::Text(_)));
    if !record.fits(input, &found.dims) || (!texts && found.datatype != input.datatype) {
        fail!(
            Invalid,
            "it is {} {:?} now, and was {} {:?} when the function was attached; attach it again",
            escape(&found.datatype.name(), 200),
            found.dims,
            escape(&input.datatype.name(), 200),
            input.dims
        )
    }
    Ok(found.kind)
}

/// Reads the current value of an attribute.
pub(super) fn read(
    library: &'static Library,
    record: &Record,
    file: Hid,
    input: &Slot,
    to: &mut [u8],
) -> Result<()> {
    let Some((object, name)) = record.find_attribute(input) else { fail!(Invalid, "it is not an attribute") };
    check(library, record, file, input)?;
    let Some(attribute) = Attribute::open(library, file, object, name)? else {
        fail!(NotFound, "there is no such attribute in the file")
    };
    let bytes = usize::try_from(input.bytes()).ok().and_then(|bytes| to.get_mut(..bytes));
    let Some(to) = bytes else { fail!(Worker, "the buffer is too small for an attribute") };
    if let Datatype::Text(room) = input.datatype {
        return place_texts(&attribute.texts(library)?, room, to);
    }
    let (native, ..) = library.input_type(record.backend, attribute.file_type.id)?;
    // SAFETY: an open attribute with the checked number of elements, in the memory type that the record
    // names.
    if unsafe { (library.f.attr_read)(attribute.handle.id, native.id, to.as_mut_ptr().cast()) } < 0 {
        return Err(failure(library, "cannot read it"));
    }
    Ok(())
}
