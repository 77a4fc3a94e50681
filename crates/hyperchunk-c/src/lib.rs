//! C interface: the reader and writer of `include/hyperchunk.h`, and HDF5-UDF's interface of
//! `include/hdf5-udf.h`. These headers document each function. They are written by hand; `tests/headers.rs`
//! compares them with the functions.
//!
//! Each exported function runs inside `guard`. All access to the program's memory goes through `foreign`.

mod foreign;
mod guard;
mod handles;
pub mod read;
pub mod read_attributes;
mod types;
pub mod udf;

use guard::guard;
use handles::Handle;
use hyperchunk::codec;
use hyperchunk::io::RemoteOptions;
use hyperchunk::model::{
    Attribute, CharacterSet, Class, Dataspace, Datatype, Name, ObjectKind, StringPadding,
};
use hyperchunk::select::Selection;
use hyperchunk::write::{CreateOptions, DatasetOptions, NewLayout, NodeId, Target, Writer};
use hyperchunk::{Error, Result};
use std::ffi::{c_char, c_int, c_uint, c_void};

/// Maximum number of dimensions of a dataset.
const MAX_DIMENSIONS: usize = 32;
/// Marks an unlimited dimension.
const UNLIMITED: u64 = u64::MAX;
/// `HC_EXCL`: the file must not exist.
const EXCLUSIVE: c_uint = 1;

const SHUFFLE: u16 = 2;
const DEFLATE: u16 = 1;

fn rank(rank: c_int) -> Result<usize> {
    let found = usize::try_from(rank).ok().filter(|rank| *rank <= MAX_DIMENSIONS);
    let message = || format!("cannot create a dataset of {rank} dimensions: expected 0 to {MAX_DIMENSIONS}");
    found.ok_or_else(|| Error::invalid(message()))
}

/// Returns the last error on this thread.
#[unsafe(no_mangle)]
pub extern "C" fn hc_error() -> *const c_char {
    guard::last()
}

/// Creates a file.
///
/// # Safety
/// `name` is a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hc_create(name: *const c_char, flags: c_uint) -> i64 {
    guard(|| {
        // SAFETY: the program's promise.
        let name = unsafe { foreign::text(name, "the name") }?;
        if flags & !EXCLUSIVE != 0 {
            return Err(Error::invalid(format!("unknown flags {flags}: expected HC_TRUNC or HC_EXCL")));
        }
        let mut options = CreateOptions::default();
        options.replace = flags & EXCLUSIVE == 0;
        let name = std::str::from_utf8(name).map_err(|_| Error::invalid("the file name is not UTF-8"))?;
        Writer::create_url(name, &options, &RemoteOptions::default()).map(|file| Handle::File(file).open())
    })
}

/// Opens an existing file for changes.
///
/// # Safety
/// `name` is a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hc_open_rw(name: *const c_char) -> i64 {
    guard(|| {
        // SAFETY: the program's promise.
        let name = unsafe { foreign::text(name, "the name") }?;
        let name = std::str::from_utf8(name).map_err(|_| Error::invalid("the file name is not UTF-8"))?;
        let path = hyperchunk::io::local_path(name);
        let path = path.ok_or_else(|| {
            Error::unsupported(format!("cannot edit {name}: expected a local file, got a URL"))
        })?;
        Writer::edit(path, &CreateOptions::default()).map(|file| Handle::File(file).open())
    })
}

/// Opens a dataset of a file or group by its path.
///
/// # Safety
/// `path` is a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hc_open_dataset(parent: i64, path: *const c_char) -> i64 {
    guard(|| {
        let parent = Handle::get(parent)?;
        if let Handle::Read(parent) = &parent {
            // SAFETY: the program's promise.
            let path = unsafe { foreign::text(path, "the path") }?;
            return Ok(Handle::Read(parent.dataset_at(path)?.into()).open());
        }
        // SAFETY: the program's promise.
        let (file, id) = unsafe { existing(&parent, path) }?;
        Ok(Handle::Dataset(file.clone(), file.dataset(id)?).open())
    })
}

/// Opens a group of a file or group by its path.
///
/// # Safety
/// `path` is a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hc_open_group(parent: i64, path: *const c_char) -> i64 {
    guard(|| {
        let parent = Handle::get(parent)?;
        if let Handle::Read(parent) = &parent {
            // SAFETY: the program's promise.
            let path = unsafe { foreign::text(path, "the path") }?;
            return Ok(Handle::Read(parent.group_at(path)?.into()).open());
        }
        // SAFETY: the program's promise.
        let (file, id) = unsafe { existing(&parent, path) }?;
        if file.kind(id)? != ObjectKind::Group {
            return Err(Error::invalid("cannot open a group: the object at the path is no group"));
        }
        Ok(Handle::Group(file.clone(), id).open())
    })
}

/// Returns the object at a path of a file that is open for writing.
///
/// # Safety
/// As [`foreign::text`].
unsafe fn existing(parent: &Handle, path: *const c_char) -> Result<(Writer, NodeId)> {
    // SAFETY: the caller's promise.
    let path = unsafe { foreign::text(path, "the path") }?;
    let (writer, node) = parent.writer()?;
    match writer.resolve(node, path)? {
        Target::Here(id) => Ok((writer.clone(), id)),
        Target::Elsewhere { file, .. } => {
            Err(Error::unsupported(format!("the path leads to another file, {file}: open that file")))
        }
    }
}

/// Returns the number of a dataset's dimensions, and its extent.
///
/// # Safety
/// `dims` is NULL or has room for `room` values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hc_dims(dset: i64, room: c_int, dims: *mut u64) -> c_int {
    guard(|| {
        let found = match Handle::get(dset)? {
            Handle::Read(object) => object.dataset()?.dims().to_vec(),
            _ => Handle::dataset(dset)?.dims(),
        };
        // SAFETY: the program's promise.
        unsafe { put_dims(&found, room, dims) }
    })
}

/// Copies extents to the program; returns their number.
///
/// # Safety
/// `dims` is NULL or has room for `room` values.
unsafe fn put_dims(found: &[u64], room: c_int, dims: *mut u64) -> Result<c_int> {
    let count = c_int::try_from(found.len()).map_err(|_| Error::limit("too many dimensions for an int"))?;
    if !dims.is_null() {
        if room < count {
            return Err(Error::invalid(format!("`dims` has room for {room} values, expected {count}")));
        }
        for (number, dim) in found.iter().enumerate() {
            // SAFETY: there is room for all of them.
            unsafe { foreign::write_out(dims.add(number), *dim) };
        }
    }
    Ok(count)
}

/// Commits all written data.
#[unsafe(no_mangle)]
pub extern "C" fn hc_flush(id: i64) -> c_int {
    guard(|| Handle::get(id)?.writer()?.0.flush().map(|()| 0))
}

/// Closes a file, or releases a group or dataset.
#[unsafe(no_mangle)]
pub extern "C" fn hc_close(id: i64) -> c_int {
    guard(|| {
        match Handle::get(id)? {
            Handle::File(file) => file.close()?,
            Handle::Read(object) => object.close(),
            _ => {}
        }
        Handle::forget(id);
        Ok(0)
    })
}

/// Discards a file.
#[unsafe(no_mangle)]
pub extern "C" fn hc_discard(id: i64) -> c_int {
    guard(|| {
        let handle = Handle::get(id)?;
        let (writer, _) = handle.writer()?;
        Handle::forget(id);
        writer.discard().map(|()| 0)
    })
}

/// Creates a group.
///
/// # Safety
/// `name` is a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hc_create_group(parent: i64, name: *const c_char) -> i64 {
    guard(|| {
        let parent = Handle::get(parent)?;
        // SAFETY: the program's promise.
        let name = unsafe { named(name) }?;
        let (writer, node) = parent.writer()?;
        let group = writer.create_group(node, name, false)?;
        Ok(Handle::Group(writer.clone(), group).open())
    })
}

/// Returns the name of a new object or attribute. An empty name is an error: it would create an object
/// without a link.
///
/// # Safety
/// As [`foreign::text`].
unsafe fn named<'a>(name: *const c_char) -> Result<&'a [u8]> {
    // SAFETY: the caller's promise.
    let name = unsafe { foreign::text(name, "the name") }?;
    if name.is_empty() { Err(Error::invalid("the name is empty")) } else { Ok(name) }
}

/// Creates a dataset.
///
/// # Safety
/// `name` is a string; `dims`, and `max_dims` and `chunk_dims` unless they are NULL, have `rank` values.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hc_create_dataset(
    parent: i64,
    name: *const c_char,
    number: c_int,
    dimensions: c_int,
    dims: *const u64,
    max_dims: *const u64,
    chunk_dims: *const u64,
    shuffle: c_int,
    deflate_level: c_int,
) -> i64 {
    guard(|| {
        let (parent, rank, datatype) = (Handle::get(parent)?, rank(dimensions)?, types::datatype(number)?);
        // SAFETY: the program's promise.
        let (name, dims) = unsafe { (named(name)?, foreign::required_array(dims, rank, "dims")?) };
        // SAFETY: the program's promise.
        let (max, chunk) = unsafe { (foreign::array(max_dims, rank)?, foreign::array(chunk_dims, rank)?) };
        let max = max.unwrap_or(dims).iter().map(|max| Some(*max).filter(|max| *max != UNLIMITED)).collect();
        let dataspace = match rank {
            0 => Dataspace::Scalar,
            _ => Dataspace::Simple { dims: dims.to_vec(), max },
        };
        let mut options = DatasetOptions::new(datatype, dataspace);
        if let Some(chunk) = chunk {
            options.layout = NewLayout::Chunked(chunk.to_vec());
        }
        let level = u32::try_from(deflate_level).ok();
        let wanted = [(SHUFFLE, (shuffle != 0).then(Vec::new)), (DEFLATE, level.map(|level| vec![level]))];
        for (id, values) in wanted {
            let Some(values) = values else { continue };
            let target = codec::Target {
                datatype: &options.datatype,
                chunk: chunk.unwrap_or_default(),
                fill: &options.fill.value,
            };
            options.pipeline.push(codec::filter(id, &values, &target)?);
        }
        let (writer, node) = parent.writer()?;
        let dataset = writer.create_dataset(node, name, options)?;
        Ok(Handle::Dataset(writer.clone(), dataset).open())
    })
}

/// Writes a chunk in its stored form.
///
/// # Safety
/// `offset` has a value for each dimension, `buf` has `data_size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hc_write_chunk(
    dset: i64,
    _dxpl: i64,
    filter_mask: u32,
    offset: *const u64,
    data_size: usize,
    buf: *const c_void,
) -> c_int {
    guard(|| {
        let dataset = Handle::dataset(dset)?;
        // SAFETY: the program's promise.
        let offset = unsafe { foreign::required_array(offset, dataset.dims().len(), "offset") }?;
        // SAFETY: the program's promise.
        let bytes = unsafe { foreign::required_array(buf.cast::<u8>(), data_size, "buf") }?;
        dataset.write_chunk(offset, bytes, filter_mask).map(|()| 0)
    })
}

/// Reads a chunk in its stored form.
///
/// # Safety
/// `offset` has a value for each dimension; `filter_mask` is NULL or has room for a value; `buf_size` points
/// to a value that can be replaced; `buf` is NULL or has room for that number of bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hc_read_chunk(
    dset: i64,
    _dxpl: i64,
    offset: *const u64,
    filter_mask: *mut u32,
    buf: *mut c_void,
    buf_size: *mut usize,
) -> c_int {
    guard(|| {
        // SAFETY: the program's promise.
        let start = |rank| unsafe { foreign::required_array(offset, rank, "offset") };
        let found = match Handle::get(dset)? {
            Handle::Read(object) => object.chunk(start(object.dataset()?.dims().len())?)?,
            _ => {
                let dataset = Handle::dataset(dset)?;
                dataset.read_chunk(start(dataset.dims().len())?)?
            }
        };
        // SAFETY: the program's promise.
        let room = unsafe { foreign::required_array(buf_size, 1, "buf_size") }?.first().copied().unwrap_or(0);
        let Some((bytes, mask)) = found else {
            return Err(Error::invalid("cannot read the chunk: no chunk is stored at the offset"));
        };
        if !buf.is_null() && room < bytes.len() {
            let message =
                format!("cannot read the chunk: buffer of {room} bytes for a chunk of {}", bytes.len());
            return Err(Error::invalid(message));
        }
        // SAFETY: the program's promise.
        unsafe { foreign::write_out(filter_mask, mask) };
        // SAFETY: the program's promise.
        unsafe { foreign::write_out(buf_size, bytes.len()) };
        if !buf.is_null() {
            // SAFETY: there is room for `room` bytes, and the chunk is not longer.
            unsafe { foreign::write_all(buf.cast(), &bytes) };
        }
        Ok(0)
    })
}

/// Writes a whole dataset.
///
/// # Safety
/// `buf` has the number of the dataset's elements, of that type.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hc_write(dset: i64, number: c_int, buf: *const c_void) -> c_int {
    guard(|| {
        let (dataset, datatype) = (Handle::dataset(dset)?, types::datatype(number)?);
        let count = dataset.dims().iter().try_fold(datatype.size, |count, dim| count.checked_mul(*dim));
        let size = count.and_then(|count| usize::try_from(count).ok());
        let size = size.ok_or_else(|| Error::limit("the dataset is larger than the address space"))?;
        // SAFETY: the program's promise.
        let bytes = unsafe { foreign::required_array(buf.cast::<u8>(), size, "buf") }?;
        dataset.write_as(&Selection::All, &datatype, bytes).map(|()| 0)
    })
}

/// Changes a dataset's extent.
///
/// # Safety
/// `dims` has a value for each dimension.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hc_resize(dset: i64, dims: *const u64) -> c_int {
    guard(|| {
        let dataset = Handle::dataset(dset)?;
        // SAFETY: the program's promise.
        let dims = unsafe { foreign::required_array(dims, dataset.dims().len(), "dims") }?;
        dataset.resize(dims).map(|()| 0)
    })
}

/// Sets an attribute.
///
/// # Safety
/// As [`foreign::text`].
unsafe fn set(
    object: &Handle,
    name: *const c_char,
    datatype: Datatype,
    dataspace: Dataspace,
    data: Vec<u8>,
) -> Result<c_int> {
    // SAFETY: the caller's promise.
    let name = Name::from(unsafe { named(name) }?);
    let charset = if name.as_bytes().is_ascii() { CharacterSet::Ascii } else { CharacterSet::Utf8 };
    let attribute =
        Attribute { name, charset, datatype, committed: None, dataspace, data, creation_order: None };
    let (writer, node) = object.writer()?;
    writer.set_attribute(node, attribute).map(|()| 0)
}

/// Sets an attribute to an array of numbers; to a scalar if `count` is 0.
///
/// # Safety
/// `name` is a string, `values` has `count` values of that type, or one if `count` is 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hc_set_numbers(
    object: i64,
    name: *const c_char,
    number: c_int,
    count: usize,
    values: *const c_void,
) -> c_int {
    guard(|| {
        let (object, datatype) = (Handle::get(object)?, types::datatype(number)?);
        let element = usize::try_from(datatype.size).unwrap_or(usize::MAX);
        let size = count.max(1).checked_mul(element).ok_or_else(|| Error::limit("too many values"))?;
        // SAFETY: the program's promise.
        let data = unsafe { foreign::required_array(values.cast::<u8>(), size, "values") }?.to_vec();
        let dataspace = match count as u64 {
            0 => Dataspace::Scalar,
            count => Dataspace::Simple { dims: vec![count], max: vec![Some(count)] },
        };
        // SAFETY: the program's promise.
        unsafe { set(&object, name, datatype, dataspace, data) }
    })
}

/// Sets an attribute to a string.
///
/// # Safety
/// `name` and `text` are strings.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hc_set_string(object: i64, name: *const c_char, text: *const c_char) -> c_int {
    guard(|| {
        let object = Handle::get(object)?;
        // SAFETY: the program's promise.
        let text = unsafe { foreign::text(text, "the text") }?;
        if std::str::from_utf8(text).is_err() {
            return Err(Error::invalid("the text is not UTF-8"));
        }
        let element = object.writer()?.0.store_sequence(text.len(), text)?;
        let class = Class::VlenString { padding: StringPadding::NullTerminated, charset: CharacterSet::Utf8 };
        // SAFETY: the program's promise.
        unsafe { set(&object, name, Datatype { size: 16, class }, Dataspace::Scalar, element.to_vec()) }
    })
}
