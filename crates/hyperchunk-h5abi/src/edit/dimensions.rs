//! Dimension scales, as netCDF and h5py use them: a live dataset has the scales of its inputs.
//!
//! A dataset lists its scales in the attribute `DIMENSION_LIST`, and each scale its datasets in
//! `REFERENCE_LIST` (HDF5's dimension scale specification). Both are plain attributes, so this does not need
//! libhdf5's high-level library, which readers may lack.

use crate::errors::failure;
use crate::handles::{Handle, c_name};
use crate::library::Library;
use crate::live::absolute;
use crate::symbols::Hid;
use crate::{Result, fail};
use std::ffi::{CStr, c_char, c_int, c_void};

const LIST: &CStr = c"DIMENSION_LIST";
const USERS: &CStr = c"REFERENCE_LIST";
const CLASS: &CStr = c"CLASS";
/// `H5T_REFERENCE`, `H5T_VLEN`.
const CLASS_REFERENCE: c_int = 7;
const CLASS_SEQUENCE: c_int = 9;
/// `H5R_OBJECT`.
const OBJECT: c_int = 0;
/// Maximum number of entries in one list.
const MAX_REFERENCES: u64 = 1 << 20;

/// `hobj_ref_t`.
type Reference = u64;
/// The scales of each dimension.
pub(super) type Scales = Vec<Vec<Reference>>;

/// `hvl_t`.
#[repr(C)]
struct Sequence {
    length: usize,
    pointer: *mut c_void,
}

/// An element of `REFERENCE_LIST`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct User {
    dataset: Reference,
    dimension: c_int,
}

type Create = unsafe extern "C" fn(*mut c_void, Hid, *const c_char, c_int, Hid) -> c_int;
type Dereference = unsafe extern "C" fn(Hid, Hid, c_int, *const c_void) -> Hid;
type SequenceOf = unsafe extern "C" fn(Hid) -> Hid;

/// Functions that only this module needs.
struct Functions {
    create: Create,
    dereference: Dereference,
    sequence_of: SequenceOf,
    reference: Hid,
}

impl Functions {
    fn load(library: &'static Library) -> Result<Self> {
        let find = |name: &CStr| match library.optional(name) {
            pointer if pointer.is_null() => {
                fail!(Unsupported, "this libhdf5 has no {}", name.to_string_lossy())
            }
            pointer => Ok(pointer),
        };
        let (create, dereference) = (find(c"H5Rcreate")?, find(c"H5Rdereference2")?);
        let sequence_of = find(c"H5Tvlen_create")?;
        let reference = library.global(c"H5T_STD_REF_OBJ_g")?;
        // SAFETY: these functions have had these signatures since 1.10.
        unsafe {
            Ok(Functions {
                create: std::mem::transmute::<*mut c_void, Create>(create),
                dereference: std::mem::transmute::<*mut c_void, Dereference>(dereference),
                sequence_of: std::mem::transmute::<*mut c_void, SequenceOf>(sequence_of),
                reference,
            })
        }
    }

    fn reference_to(&self, library: &'static Library, object: Hid) -> Result<Reference> {
        let mut reference: Reference = 0;
        // SAFETY: room for one reference, an open object and a NUL-terminated name.
        if unsafe { (self.create)((&raw mut reference).cast(), object, c".".as_ptr(), OBJECT, -1) } < 0 {
            return Err(failure(library, "cannot refer to it"));
        }
        Ok(reference)
    }

    /// Creates the type of an element of `REFERENCE_LIST`.
    fn user_type(&self, library: &'static Library) -> Result<Handle> {
        const COMPOUND: c_int = 6;
        let integer = library.global(c"H5T_NATIVE_INT_g")?;
        // SAFETY: no pointers; closed by its handle.
        let datatype = library
            .wrap_type(unsafe { (library.f.type_create)(COMPOUND, size_of::<User>()) }, "a type of ours")?;
        // SAFETY: members inside the type, with NUL-terminated names.
        let made = unsafe {
            (library.f.type_insert)(datatype.id, c"dataset".as_ptr(), 0, self.reference) >= 0
                && (library.f.type_insert)(
                    datatype.id,
                    c"dimension".as_ptr(),
                    size_of::<Reference>(),
                    integer,
                ) >= 0
        };
        if made { Ok(datatype) } else { Err(failure(library, "a type of ours")) }
    }
}

fn has(library: &'static Library, object: Hid, name: &CStr) -> bool {
    // SAFETY: an open object and a NUL-terminated name.
    unsafe { (library.f.attr_exists)(object, name.as_ptr()) > 0 }
}

/// Opens an attribute; returns it with its type and its number of elements.
fn open(library: &'static Library, object: Hid, name: &CStr) -> Result<(Handle, Handle, u64)> {
    // SAFETY: an open object and a NUL-terminated name; 0 is the default access list.
    let id = unsafe { (library.f.attr_open)(object, name.as_ptr(), 0) };
    let attribute = library.wrap_attribute(id, "its dimensions")?;
    // SAFETY: an open attribute; type and space are ours then.
    let (datatype, space) =
        unsafe { ((library.f.attr_type)(attribute.id), (library.f.attr_space)(attribute.id)) };
    let (datatype, space) =
        (library.wrap_type(datatype, "its type")?, library.wrap_space(space, "its shape")?);
    let elements = library.dims(space.id)?.iter().fold(1u64, |n, d| n.saturating_mul(*d));
    Ok((attribute, datatype, elements))
}

/// Returns the scales of the first of these datasets that has any.
pub(super) fn input_scales<'a>(
    library: &'static Library,
    file: Hid,
    names: impl Iterator<Item = &'a str>,
    rank: usize,
) -> Result<Option<Scales>> {
    for name in names {
        let dataset = library.open_dataset(file, &c_name(&absolute(name))?)?;
        // References point to objects of their own file.
        let elsewhere = library.instance(&library.object_file(dataset.id)?)? != {
            let root = library.object_file(file)?;
            library.instance(&root)?
        };
        if elsewhere {
            continue;
        }
        if let Some(scales) = read_scales(library, dataset.id)?.filter(|scales| scales.len() == rank) {
            return Ok(Some(scales));
        }
        if rank == 1 && has(library, dataset.id, CLASS) {
            // The dataset is itself a scale.
            let reference = Functions::load(library)?.reference_to(library, dataset.id)?;
            return Ok(Some(vec![vec![reference]]));
        }
    }
    Ok(None)
}

/// Reads the scales of a dataset.
fn read_scales(library: &'static Library, dataset: Hid) -> Result<Option<Scales>> {
    if !has(library, dataset, LIST) {
        return Ok(None);
    }
    let (attribute, datatype, elements) = open(library, dataset, LIST)?;
    // SAFETY: open types; the inner one is closed by its handle.
    let (class, inner) = unsafe {
        let class = (library.f.type_class)(datatype.id);
        (class, if class == CLASS_SEQUENCE { (library.f.type_super)(datatype.id) } else { -1 })
    };
    let Ok(inner) = library.wrap_type(inner, "its type") else { return Ok(None) };
    // SAFETY: an open type.
    let references = unsafe {
        (library.f.type_class)(inner.id) == CLASS_REFERENCE
            && (library.f.type_size)(inner.id) == size_of::<Reference>()
    };
    if class != CLASS_SEQUENCE || !references || elements > 32 {
        return Ok(None);
    }
    let mut rows: Vec<Sequence> =
        (0..elements).map(|_| Sequence { length: 0, pointer: std::ptr::null_mut() }).collect();
    // SAFETY: as many sequences as the attribute has, in its own type.
    if unsafe { (library.f.attr_read)(attribute.id, datatype.id, rows.as_mut_ptr().cast()) } < 0 {
        return Err(failure(library, "its dimensions"));
    }
    let scales = rows.iter().map(|row| match row.pointer.is_null() {
        true => Vec::new(),
        // SAFETY: HDF5 read `length` references there.
        false => unsafe { std::slice::from_raw_parts(row.pointer.cast::<Reference>(), row.length) }.to_vec(),
    });
    let scales = scales.collect();
    let space = library.space(&[rows.len() as u64])?;
    // SAFETY: allocated by attr_read for this type and number of elements.
    unsafe { (library.f.vlen_reclaim)(datatype.id, space.id, 0, rows.as_mut_ptr().cast()) };
    Ok(Some(scales))
}

/// Attaches scales to a dataset.
pub(super) fn attach(library: &'static Library, file: Hid, dataset: Hid, scales: &Scales) -> Result<()> {
    let functions = Functions::load(library)?;
    // SAFETY: an open type, and one that is closed by its handle.
    let datatype =
        library.wrap_type(unsafe { (functions.sequence_of)(functions.reference) }, "a type of ours")?;
    let space = library.space(&[scales.len() as u64])?;
    // SAFETY: open identifiers and a NUL-terminated name; 0 are default lists.
    let id = unsafe { (library.f.attr_create)(dataset, LIST.as_ptr(), datatype.id, space.id, 0, 0) };
    let attribute = library.wrap_attribute(id, "cannot give it dimensions")?;
    let rows: Vec<Sequence> = scales
        .iter()
        .map(|row| Sequence { length: row.len(), pointer: row.as_ptr().cast_mut().cast() })
        .collect();
    // SAFETY: as many sequences as the attribute has, of references that are live.
    if unsafe { (library.f.attr_write)(attribute.id, datatype.id, rows.as_ptr().cast()) } < 0 {
        return Err(failure(library, "cannot give it dimensions"));
    }
    let own = functions.reference_to(library, dataset)?;
    for (dimension, row) in scales.iter().enumerate() {
        let dimension = c_int::try_from(dimension).unwrap_or(c_int::MAX);
        for scale in row {
            change(library, &functions, file, *scale, |users| users.push(User { dataset: own, dimension }))?;
        }
    }
    Ok(())
}

/// Removes a dataset from the lists of its scales, before it is deleted.
pub(super) fn forget(library: &'static Library, file: Hid, dataset: Hid) -> Result<()> {
    let Some(scales) = read_scales(library, dataset)? else { return Ok(()) };
    let functions = Functions::load(library)?;
    let own = functions.reference_to(library, dataset)?;
    for scale in scales.iter().flatten() {
        change(library, &functions, file, *scale, |users| users.retain(|user| user.dataset != own))?;
    }
    Ok(())
}

/// Changes the list of datasets in a scale.
fn change(
    library: &'static Library,
    functions: &Functions,
    file: Hid,
    scale: Reference,
    with: impl FnOnce(&mut Vec<User>),
) -> Result<()> {
    // SAFETY: an open file and one reference; 0 is the default access list.
    let id = unsafe { (functions.dereference)(file, 0, OBJECT, (&raw const scale).cast()) };
    let scale = library.wrap_object(id, "a dimension scale")?;
    let datatype = functions.user_type(library)?;
    let mut users = Vec::new();
    let there = has(library, scale.id, USERS);
    if there {
        let (attribute, _, elements) = open(library, scale.id, USERS)?;
        let Some(count) = usize::try_from(elements).ok().filter(|_| elements <= MAX_REFERENCES) else {
            fail!(Limit, "a dimension scale of {elements} datasets")
        };
        users.resize(count, User::default());
        // SAFETY: as many elements as the attribute has, in a type of ours that is laid out as `User`.
        if unsafe { (library.f.attr_read)(attribute.id, datatype.id, users.as_mut_ptr().cast()) } < 0 {
            return Err(failure(library, "a dimension scale"));
        }
    }
    with(&mut users);
    // SAFETY: an open object and a NUL-terminated name.
    if there && unsafe { (library.f.attr_delete)(scale.id, USERS.as_ptr()) } < 0 {
        return Err(failure(library, "a dimension scale"));
    }
    if users.is_empty() {
        return Ok(());
    }
    let space = library.space(&[users.len() as u64])?;
    // SAFETY: open identifiers and a NUL-terminated name; 0 are default lists.
    let id = unsafe { (library.f.attr_create)(scale.id, USERS.as_ptr(), datatype.id, space.id, 0, 0) };
    let attribute = library.wrap_attribute(id, "a dimension scale")?;
    // SAFETY: as many elements as the attribute has, in its type.
    if unsafe { (library.f.attr_write)(attribute.id, datatype.id, users.as_ptr().cast()) } < 0 {
        return Err(failure(library, "a dimension scale"));
    }
    Ok(())
}
