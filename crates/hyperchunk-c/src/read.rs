//! Functions for files that are open for reading.

use crate::handles::Handle;
use crate::{foreign, guard::guard, guard::guard_with, types};
use hyperchunk::convert::Conversion;
use hyperchunk::model::{Chunk, Dataspace, Datatype, Name, ObjectKind};
use hyperchunk::select::{Axis, Selection};
use hyperchunk::values::strings;
use hyperchunk::{Dataset, Error, ErrorKind, File, Group, Object, OpenOptions, Read, Result, read_many};
use std::collections::HashMap;
use std::ffi::{c_char, c_int, c_void};
use std::sync::{Once, OnceLock};

/// An object that is open for reading.
pub(crate) struct ReadObject {
    object: Object,
    dataset: Option<Dataset>,
    is_file: bool,
    members: OnceLock<Vec<Name>>,
    attributes: OnceLock<Vec<Name>>,
    chunks: OnceLock<HashMap<Vec<u64>, Chunk>>,
}

impl ReadObject {
    fn new(object: Object, dataset: Option<Dataset>, is_file: bool) -> Self {
        let (members, attributes, chunks) = (OnceLock::new(), OnceLock::new(), OnceLock::new());
        Self { object, dataset, is_file, members, attributes, chunks }
    }

    pub(crate) fn object(&self) -> &Object {
        &self.object
    }

    pub(crate) fn dataset(&self) -> Result<&Dataset> {
        self.dataset.as_ref().ok_or_else(|| Error::invalid("expected a dataset, got a file or group"))
    }

    fn group(&self) -> Result<Group> {
        self.object.group()
    }

    /// Returns the object at a path. Its name in messages is its path from the root.
    fn at(&self, path: &[u8]) -> Result<Object> {
        let object = self.group()?.get(path)?;
        if !object.file().same(self.object.file()) {
            return Ok(object);
        }
        let path = String::from_utf8_lossy(path);
        if path.starts_with('/') {
            return Ok(object.named(&path));
        }
        let parent = self.object.asked_path().unwrap_or_default().trim_end_matches('/').to_owned();
        Ok(object.named(&format!("{parent}/{path}")))
    }

    pub(crate) fn dataset_at(&self, path: &[u8]) -> Result<Self> {
        let object = self.at(path)?;
        let dataset = object.dataset()?;
        Ok(Self::new(object, Some(dataset), false))
    }

    pub(crate) fn group_at(&self, path: &[u8]) -> Result<Self> {
        let object = self.at(path)?;
        object.group()?;
        Ok(Self::new(object, None, false))
    }

    /// Releases the locks of a file; its open objects stay usable.
    pub(crate) fn close(&self) {
        if self.is_file {
            self.object.file().release_locks();
        }
    }

    /// Returns the names of the members, sorted.
    fn members(&self) -> Result<&[Name]> {
        if let Some(names) = self.members.get() {
            return Ok(names);
        }
        let mut names: Vec<Name> = self.group()?.links()?.into_iter().map(|link| link.name).collect();
        names.sort_by(|one, other| one.as_bytes().cmp(other.as_bytes()));
        Ok(self.members.get_or_init(|| names))
    }

    /// Returns the names of the attributes, sorted.
    pub(crate) fn attributes(&self) -> Result<&[Name]> {
        if let Some(names) = self.attributes.get() {
            return Ok(names);
        }
        let mut names = self.object.attribute_names()?;
        names.sort_by(|one, other| one.as_bytes().cmp(other.as_bytes()));
        Ok(self.attributes.get_or_init(|| names))
    }

    /// Returns the chunk that begins at an element, as it is stored, and its filter mask; `None` if it was
    /// never written.
    pub(crate) fn chunk(&self, offset: &[u64]) -> Result<Option<(Vec<u8>, u32)>> {
        let dataset = self.dataset()?;
        let chunked = dataset.chunked();
        let chunked =
            chunked.ok_or_else(|| dataset.with_context(Error::invalid("the dataset has no chunks")))?;
        let quotient =
            |(offset, length): (&u64, &u64)| (*length > 0 && offset % length == 0).then(|| offset / length);
        let scaled: Option<Vec<u64>> = offset.iter().zip(&chunked.dims).map(quotient).collect();
        let scaled =
            scaled.ok_or_else(|| dataset.with_context(Error::invalid("no chunk begins at the offset")))?;
        let chunks = match self.chunks.get() {
            Some(chunks) => chunks,
            None => {
                let all = dataset.chunks()?.into_iter().map(|chunk| (chunk.scaled.clone(), chunk)).collect();
                self.chunks.get_or_init(|| all)
            }
        };
        let Some(chunk) = chunks.get(&scaled) else { return Ok(None) };
        Ok(Some((dataset.read_chunk_raw(chunk)?, chunk.filter_mask)))
    }
}

/// One read of `hc_read_many`, as in `hyperchunk.h`.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct ReadRequest {
    dset: i64,
    r#type: c_int,
    start: *const u64,
    count: *const u64,
    stride: *const u64,
    buf: *mut c_void,
}

/// Elements that the program selected, and their conversion to its type.
struct ReadSelection {
    selection: Selection,
    conversion: Option<Conversion>,
    /// Size of an element in the buffer.
    element: usize,
    /// Size of the buffer.
    bytes: usize,
}

impl ReadSelection {
    /// # Safety
    /// `start`, `count` and `stride` are NULL or have a value for each dimension.
    unsafe fn new(
        dataset: &Dataset,
        number: c_int,
        (start, count, stride): (*const u64, *const u64, *const u64),
    ) -> Result<Self> {
        let rank = dataset.dims().len();
        // SAFETY: the caller's promise.
        let [start, count, stride] = unsafe {
            [foreign::array(start, rank)?, foreign::array(count, rank)?, foreign::array(stride, rank)?]
        };
        let selection = selection(dataset.dims(), start, count, stride)?;
        let (conversion, size) = match number {
            types::STORED => (None, dataset.datatype().size),
            number => {
                let memory = types::datatype(number)?;
                (Some(Conversion::new(dataset.datatype(), &memory)?), memory.size)
            }
        };
        let elements = match dataset.dataspace() {
            Dataspace::Null => 0,
            _ => selection.count(dataset.dims())?,
        };
        let too_large = || Error::limit("the selection is larger than the address space");
        let element = usize::try_from(size).map_err(|_| too_large())?;
        let bytes = usize::try_from(elements).ok().and_then(|elements| elements.checked_mul(element));
        Ok(Self { selection, conversion, element, bytes: bytes.ok_or_else(too_large)? })
    }
}

fn selection(
    dims: &[u64],
    start: Option<&[u64]>,
    count: Option<&[u64]>,
    stride: Option<&[u64]>,
) -> Result<Selection> {
    if dims.is_empty() || (start.is_none() && count.is_none() && stride.is_none()) {
        return Ok(Selection::All);
    }
    let mut axes = Vec::with_capacity(dims.len());
    for (axis, dim) in dims.iter().enumerate() {
        let value = |values: Option<&[u64]>| values.and_then(|values| values.get(axis).copied());
        let (start, stride) = (value(start).unwrap_or(0), value(stride).unwrap_or(1));
        if stride == 0 {
            return Err(Error::invalid(format!(
                "cannot read: expected a stride of at least 1, got 0 (dimension {axis})"
            )));
        }
        let rest = dim.checked_sub(start).ok_or_else(|| {
            Error::invalid(format!(
                "cannot read: expected a start of at most {dim}, got {start} (dimension {axis})"
            ))
        })?;
        let count = value(count).unwrap_or_else(|| rest.div_ceil(stride));
        axes.push(Axis::Range { start, stride, count, block: 1 });
    }
    Ok(Selection::Axes(axes))
}

/// Opens a file for reading.
///
/// # Safety
/// `name` is a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hc_open(name: *const c_char) -> i64 {
    static ENABLED: Once = Once::new();
    guard(|| {
        // SAFETY: the program's promise.
        let name = unsafe { foreign::text(name, "the name") }?;
        let name = std::str::from_utf8(name).map_err(|_| Error::invalid("the file name is not UTF-8"))?;
        ENABLED.call_once(hyperchunk_live::enable);
        let file = File::open_url(name, &OpenOptions::default())?;
        Ok(Handle::Read(ReadObject::new(file.root()?, None, true).into()).open())
    })
}

/// Returns the number of members of a group.
#[unsafe(no_mangle)]
pub extern "C" fn hc_member_count(group: i64) -> i64 {
    guard(|| length(Handle::to_read(group)?.members()?.len()))
}

pub(crate) fn length(count: usize) -> Result<i64> {
    i64::try_from(count).map_err(|_| Error::limit(format!("the count {count} exceeds an int64_t")))
}

pub(crate) fn numbered<'a>(names: &'a [Name], number: i64, what: &str) -> Result<&'a Name> {
    let found = usize::try_from(number).ok().and_then(|number| names.get(number));
    found.ok_or_else(|| Error::invalid(format!("there is no {what} {number}: there are {}", names.len())))
}

/// Returns the name of a member of a group.
///
/// # Safety
/// `buf` is NULL or has room for `size` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hc_member_name(group: i64, number: i64, buf: *mut c_char, size: usize) -> i64 {
    guard(|| {
        let group = Handle::to_read(group)?;
        let name = numbered(group.members()?, number, "member")?;
        // SAFETY: the program's promise.
        unsafe { foreign::copy_text(name.as_bytes(), buf, size) }
    })
}

/// Returns the kind of the object at a path.
///
/// # Safety
/// `path` is a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hc_kind(parent: i64, path: *const c_char) -> c_int {
    guard(|| {
        let parent = Handle::to_read(parent)?;
        // SAFETY: the program's promise.
        let path = unsafe { foreign::text(path, "the path") }?;
        match parent.group()?.get(path) {
            Ok(object) => Ok(match object.kind() {
                ObjectKind::Group => 1,
                ObjectKind::Dataset => 2,
                ObjectKind::Datatype => 3,
            }),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(0),
            Err(error) => Err(error),
        }
    })
}

/// Calls a function with the datatype of an attribute, or of the dataset if `attribute` is NULL.
///
/// # Safety
/// `attribute` is NULL or a string.
unsafe fn with_datatype<T>(
    object: i64,
    attribute: *const c_char,
    then: impl FnOnce(&Datatype) -> Result<T>,
) -> Result<T> {
    let object = Handle::to_read(object)?;
    if attribute.is_null() {
        return then(object.dataset()?.datatype());
    }
    // SAFETY: the caller's promise.
    then(&unsafe { crate::read_attributes::attribute(&object, attribute) }?.datatype)
}

/// Returns the class of a dataset's or an attribute's elements.
///
/// # Safety
/// `attribute` is NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hc_class_of(object: i64, attribute: *const c_char) -> c_int {
    // SAFETY: the program's promise.
    guard(|| unsafe { with_datatype(object, attribute, |datatype| Ok(types::class(datatype))) })
}

/// Returns the `hc_type` that holds all values of a dataset or attribute.
///
/// # Safety
/// `attribute` is NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hc_type_of(object: i64, attribute: *const c_char) -> c_int {
    // SAFETY: the program's promise.
    guard(|| unsafe { with_datatype(object, attribute, |datatype| Ok(types::number(datatype))) })
}

/// Returns the size of a stored element of a dataset or attribute.
///
/// # Safety
/// `attribute` is NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hc_element_size(object: i64, attribute: *const c_char) -> i64 {
    let size = |datatype: &Datatype| {
        i64::try_from(datatype.size).map_err(|_| Error::limit("the size of an element exceeds an int64_t"))
    };
    // SAFETY: the program's promise.
    guard(|| unsafe { with_datatype(object, attribute, size) })
}

/// Returns the number of elements of a dataset, or of an attribute.
///
/// # Safety
/// `attribute` is NULL or a string.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hc_element_count(object: i64, attribute: *const c_char) -> i64 {
    guard(|| {
        let object = Handle::to_read(object)?;
        let elements = if attribute.is_null() {
            object.dataset()?.dataspace().elements()
        } else {
            // SAFETY: the program's promise.
            unsafe { crate::read_attributes::attribute(&object, attribute) }?.dataspace.elements()
        };
        let count = elements.and_then(|elements| i64::try_from(elements).ok());
        count.ok_or_else(|| Error::limit("the number of elements exceeds an int64_t"))
    })
}

/// Reads elements.
///
/// # Safety
/// `start`, `count` and `stride` are NULL or have a value for each dimension; `buf` has room for the
/// elements.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hc_read(
    dset: i64,
    number: c_int,
    start: *const u64,
    count: *const u64,
    stride: *const u64,
    buf: *mut c_void,
) -> c_int {
    guard(|| {
        let object = Handle::to_read(dset)?;
        let dataset = object.dataset()?;
        // SAFETY: the program's promise.
        let wanted = unsafe { ReadSelection::new(dataset, number, (start, count, stride)) };
        let wanted = wanted.map_err(|error| dataset.with_context(error))?;
        // SAFETY: the program's promise.
        let out = unsafe { foreign::room(buf, wanted.bytes, "buf") }?;
        match &wanted.conversion {
            Some(conversion) => dataset.read_converted(&wanted.selection, conversion, wanted.element, out)?,
            None => dataset.read(&wanted.selection, out)?,
        }
        Ok(0)
    })
}

/// Runs several reads, which share requests.
///
/// # Safety
/// `requests` has `number` of them, each as for [`hc_read`]; their buffers do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hc_read_many(number: usize, requests: *const ReadRequest) -> c_int {
    guard(|| {
        // SAFETY: the program's promise.
        let requests = unsafe { foreign::required_array(requests, number, "requests") }?;
        let objects =
            requests.iter().map(|request| Handle::to_read(request.dset)).collect::<Result<Vec<_>>>()?;
        let mut selections = Vec::with_capacity(number);
        for (request, object) in requests.iter().zip(&objects) {
            let dataset = object.dataset()?;
            let hyperslab = (request.start, request.count, request.stride);
            // SAFETY: the program's promise.
            let wanted = unsafe { ReadSelection::new(dataset, request.r#type, hyperslab) };
            selections.push((dataset, wanted.map_err(|error| dataset.with_context(error))?));
        }
        let mut reads = Vec::with_capacity(number);
        for (request, (dataset, wanted)) in requests.iter().zip(&selections) {
            // SAFETY: the program's promise: the buffers do not overlap.
            let out = unsafe { foreign::room(request.buf, wanted.bytes, "buf") }?;
            let conversion = wanted.conversion.as_ref().map(|conversion| (conversion, wanted.element));
            reads.push(Read { dataset, selection: &wanted.selection, conversion, out });
        }
        read_many(reads).map(|()| 0)
    })
}

/// Reads strings.
///
/// # Safety
/// `start`, `count` and `stride` are NULL or have a value for each dimension; `number` is NULL or has room
/// for a value.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hc_read_strings(
    dset: i64,
    start: *const u64,
    count: *const u64,
    stride: *const u64,
    number: *mut usize,
) -> *mut *mut c_char {
    guard_with(std::ptr::null_mut(), || {
        let object = Handle::to_read(dset)?;
        let dataset = object.dataset()?;
        // SAFETY: the program's promise.
        let wanted = unsafe { ReadSelection::new(dataset, types::STORED, (start, count, stride)) };
        let wanted = wanted.map_err(|error| dataset.with_context(error))?;
        let mut elements = Vec::new();
        elements
            .try_reserve_exact(wanted.bytes)
            .map_err(|_| Error::limit("out of memory: cannot allocate a buffer for the selection"))?;
        elements.resize(wanted.bytes, 0);
        dataset.read(&wanted.selection, &mut elements)?;
        let file = object.object().file();
        let found =
            strings(file, dataset.datatype(), &elements).map_err(|error| dataset.with_context(error))?;
        // SAFETY: the program's promise.
        unsafe { foreign::write_out(number, found.len()) };
        Ok(foreign::give_strings(&found))
    })
}

/// Frees strings.
///
/// # Safety
/// `strings` is NULL, or from this library and not freed yet.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hc_free(strings: *mut *mut c_char) {
    // SAFETY: the program's promise.
    unsafe { foreign::take_strings(strings) }
}
