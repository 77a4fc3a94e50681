//! Conversion of datasets that HDF5-UDF wrote, with their source, to live datasets.

use super::attach::{AttachedDataset, Options, SourceText, attach_source};
use super::list::find;
use super::open::open;
use crate::errors::failure;
use crate::handles::c_name;
use crate::library::Library;
use crate::symbols::{Hid, SPACE_NULL};
use crate::{Error, ErrorKind, Result, fail};
use hyperchunk_udf::escape::escape;
use hyperchunk_udf::legacy::LegacyDataset;
use hyperchunk_udf::record::ATTRIBUTE;
use hyperchunk_udf::spec::OutputSpec;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::Path;

/// Attaches the source that HDF5-UDF stored with the dataset at `dataset`, signed with the user's key.
/// Replaces the dataset and the function's other outputs; their attributes stay.
///
/// # Errors
/// `NotFound` when there is no source, `Unsupported` for a dataset that was renamed or was not written by
/// HDF5-UDF, and the errors of attaching. Nothing is changed then.
pub fn convert(
    library: &'static Library,
    path: &Path,
    dataset: &str,
    options: &Options,
) -> Result<Vec<AttachedDataset>> {
    let about = |e: Error| e.about(format!("{}:{dataset}", path.display()));
    let first = legacy(library, path, dataset).map_err(about)?;
    let text = first.own_source().map_err(about)?.to_owned();
    let bare = |name: &str| name.trim_start_matches('/').to_owned();
    if bare(dataset) != bare(&first.output) {
        let message = format!(
            "its source computes {:?}, and it was renamed since: give it that name again, convert it, and rename it then",
            escape(&first.output, 80)
        );
        return Err(about(Error::new(ErrorKind::Unsupported, message)));
    }
    let mut specs = Vec::new();
    for name in std::iter::once(&first.output).chain(&first.scratch) {
        let other = legacy(library, path, name)
            .map_err(|e| {
                Error::new(
                    e.kind(),
                    format!("its function computes {:?}, too: {}", escape(name, 80), e.message()),
                )
            })
            .map_err(about)?;
        if other.source != first.source {
            let message =
                format!("its function computes {:?}, too, which has another source", escape(name, 80));
            return Err(about(Error::new(ErrorKind::Unsupported, message)));
        }
        specs.push(described(library, path, name).map_err(about)?);
    }
    let program = SourceText {
        backend: first.language()?,
        text,
        module: None,
        shown: "the stored source".to_owned(),
        keep_attributes: true,
    };
    attach_source(library, path, program, &specs, &Options { overwrite: true, ..options.clone() })
}

fn legacy(library: &'static Library, path: &Path, dataset: &str) -> Result<LegacyDataset> {
    match find(library, path, dataset)?.legacy {
        Some(legacy) => Ok(legacy),
        None => {
            fail!(Unsupported, "it was not written by HDF5-UDF; for live datasets of ours there is `rebuild`")
        }
    }
}

/// Returns the name, shape and type of a dataset.
fn described(library: &'static Library, path: &Path, dataset: &str) -> Result<OutputSpec> {
    let file = open(library, path, false)?;
    let handle = library.open_dataset(file.handle.id, &c_name(dataset)?)?;
    let dims = library.dims(library.dataset_space(handle.id)?.id)?;
    let (_, datatype) = library.memory_type(library.dataset_type(handle.id)?.id)?;
    Ok(OutputSpec { name: dataset.to_owned(), dims: Some(dims), datatype: Some(datatype) })
}

/// Maximum size of an attribute, in bytes.
const MAX_ATTRIBUTE_VALUE_BYTES: usize = 64 << 20;

/// `H5Aiterate2`.
type Iterate = unsafe extern "C" fn(Hid, c_int, c_int, *mut u64, Visitor, *mut c_void) -> c_int;
/// `H5A_operator2_t`.
type Visitor = unsafe extern "C" fn(Hid, *const c_char, *const c_void, *mut c_void) -> c_int;

/// Copies the attributes that `to` lacks from `from`.
pub(super) fn copy_attributes(library: &'static Library, from: Hid, to: Hid) -> Result<()> {
    let symbol = library.optional(c"H5Aiterate2");
    if symbol.is_null() {
        fail!(Unsupported, "this libhdf5 cannot list attributes")
    }
    // SAFETY: H5Aiterate2 has had this signature since 1.8.
    let iterate = unsafe { std::mem::transmute::<*mut c_void, Iterate>(symbol) };
    let mut names: Vec<CString> = Vec::new();
    const BY_NAME: c_int = 0;
    const INCREASING: c_int = 0;
    // SAFETY: the visitor gets the list, which outlives the call; null begins at the first.
    let rc =
        unsafe { iterate(from, BY_NAME, INCREASING, std::ptr::null_mut(), collect, (&raw mut names).cast()) };
    if rc < 0 {
        return Err(failure(library, "cannot list its attributes"));
    }
    // The record belongs to the replaced function.
    for name in names.iter().filter(|name| name.to_bytes() != ATTRIBUTE.as_bytes()) {
        copy_attribute(library, from, to, name).map_err(|e| {
            let name = escape(&name.to_string_lossy(), 80);
            Error::new(e.kind(), format!("its attribute {name:?} cannot be kept: {e}"))
        })?;
    }
    Ok(())
}

unsafe extern "C" fn collect(_: Hid, name: *const c_char, _: *const c_void, list: *mut c_void) -> c_int {
    // SAFETY: HDF5 passes a NUL-terminated name, and the list is ours.
    unsafe { (*list.cast::<Vec<CString>>()).push(CStr::from_ptr(name).to_owned()) };
    0
}

fn copy_attribute(library: &'static Library, from: Hid, to: Hid, name: &CStr) -> Result<()> {
    // SAFETY: open objects and a NUL-terminated name; 0 is the default access list.
    let (there, old) = unsafe {
        ((library.f.attr_exists)(to, name.as_ptr()), (library.f.attr_open)(from, name.as_ptr(), 0))
    };
    let old = library.wrap_attribute(old, "cannot open it")?;
    if there > 0 {
        return Ok(());
    }
    // SAFETY: an open attribute; type and space are ours then.
    let (datatype, space) = unsafe { ((library.f.attr_type)(old.id), (library.f.attr_space)(old.id)) };
    let (datatype, space) =
        (library.wrap_type(datatype, "its type")?, library.wrap_space(space, "its shape")?);
    // SAFETY: an open dataspace.
    let elements = match unsafe { (library.f.space_class)(space.id) } {
        // Nothing is read or written, but HDF5 requires a buffer.
        SPACE_NULL => 1,
        _ => library.dims(space.id)?.iter().fold(1u64, |n, d| n.saturating_mul(*d)),
    };
    // SAFETY: an open type.
    let size = unsafe { (library.f.type_size)(datatype.id) };
    let bytes = usize::try_from(elements)
        .ok()
        .and_then(|n| n.checked_mul(size))
        .filter(|&n| n <= MAX_ATTRIBUTE_VALUE_BYTES);
    let Some(bytes) = bytes else { fail!(Limit, "it has {elements} elements") };
    let mut buffer = vec![0u8; bytes];
    // SAFETY: open identifiers and a NUL-terminated name; 0 are default lists. The buffer has room for the
    // elements in their own type; strings in them are freed after they were written.
    let done = unsafe {
        let new = (library.f.attr_create)(to, name.as_ptr(), datatype.id, space.id, 0, 0);
        let new = library.wrap_attribute(new, "cannot make it")?;
        let read = (library.f.attr_read)(old.id, datatype.id, buffer.as_mut_ptr().cast()) >= 0;
        let written = read && (library.f.attr_write)(new.id, datatype.id, buffer.as_ptr().cast()) >= 0;
        if read {
            (library.f.vlen_reclaim)(datatype.id, space.id, 0, buffer.as_mut_ptr().cast());
        }
        written
    };
    if done { Ok(()) } else { Err(failure(library, "cannot copy it")) }
}
