//! Shared objects of HDF5-UDF. They contain variables of the C++ library's types, which the program that
//! loads them has to fill.
//!
//! A `std::vector` of libstdc++ is three addresses: the first element, the end, and the end of the capacity.

use crate::fail;
use hyperchunk_udf::error::Result;
use hyperchunk_udf::worker::CallSlot;
use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr::null_mut;

#[repr(C)]
struct Vector {
    first: *mut c_void,
    end: *mut c_void,
    room: *mut c_void,
}

/// Loaded shared object.
#[derive(Debug)]
pub(super) struct LegacyObject {
    run: unsafe extern "C" fn(),
    data: *mut Vector,
    names: *mut Vector,
    types: *mut Vector,
    dims: *mut Vector,
    /// Missing in HDF5-UDF 2.1.
    file_path: *mut *const c_char,
}

impl LegacyObject {
    /// Looks up the symbols that HDF5-UDF puts into an object.
    pub(super) fn new(handle: *mut c_void) -> Result<Self> {
        // SAFETY: a live handle and a NUL-terminated name.
        let find = |name: &CStr| unsafe { libc::dlsym(handle, name.as_ptr()) };
        let [run, data, names, types, dims] =
            [c"dynamic_dataset", c"hdf5_udf_data", c"hdf5_udf_names", c"hdf5_udf_types", c"hdf5_udf_dims"]
                .map(find);
        if [run, data, names, types, dims].iter().any(|symbol| symbol.is_null()) {
            fail!(Failed, "the compiled form is not a function of HDF5-UDF 2; attach its source again")
        }
        Ok(LegacyObject {
            // SAFETY: HDF5-UDF calls this symbol in the same way. A false object harms only this locked-down
            // process.
            run: unsafe { std::mem::transmute::<*mut c_void, unsafe extern "C" fn()>(run) },
            data: data.cast(),
            names: names.cast(),
            types: types.cast(),
            dims: dims.cast(),
            file_path: find(c"hdf5_file_path").cast(),
        })
    }

    /// Runs the function once.
    pub(super) fn call(&mut self, slots: &[CallSlot<'_>], names: &[(CString, CString)], file_path: &CStr) {
        let shapes = slots.iter().map(|slot| {
            Vector::from_elements(slot.dims.iter().map(|&n| usize::try_from(n).unwrap_or(usize::MAX)))
        });
        // SAFETY: the object's own variables, which are vectors; there is no other access now.
        unsafe {
            (*self.data).set(slots.iter().map(|slot| slot.data.cast::<c_void>()));
            (*self.names).set(names.iter().map(|(name, _)| name.as_ptr()));
            (*self.types).set(names.iter().map(|(_, datatype)| datatype.as_ptr()));
            for old in (*self.dims).take::<Vector>() {
                libc::free(old.first);
            }
            (*self.dims).set(shapes);
            if !self.file_path.is_null() {
                *self.file_path = file_path.as_ptr();
            }
            (self.run)();
        }
    }
}

impl Vector {
    const EMPTY: Vector = Vector { first: null_mut(), end: null_mut(), room: null_mut() };

    /// Allocates elements with `malloc`, like the C++ library's `new`: the object may free them.
    fn from_elements<T>(elements: impl ExactSizeIterator<Item = T>) -> Self {
        let count = elements.len();
        // SAFETY: room for all elements, each of which is written before the next call looks at it.
        unsafe {
            let first: *mut T = libc::malloc(count.saturating_mul(size_of::<T>()).max(1)).cast();
            if first.is_null() {
                libc::abort();
            }
            for (n, element) in elements.enumerate().take(count) {
                first.add(n).write(element);
            }
            let end = first.add(count).cast();
            Vector { first: first.cast(), end, room: end }
        }
    }

    /// Replaces the elements, whose type must not need a destructor.
    fn set<T>(&mut self, elements: impl ExactSizeIterator<Item = T>) {
        let old = std::mem::replace(self, Vector::from_elements(elements));
        // SAFETY: null, or memory of the C++ library's `new` or of ours.
        unsafe { libc::free(old.first) };
    }

    /// Takes the elements out.
    fn take<T>(&mut self) -> Vec<T> {
        let old = std::mem::replace(self, Vector::EMPTY);
        let (first, end) = (old.first.cast_const().cast::<T>(), old.end.cast_const().cast::<T>());
        if first.is_null() {
            return Vec::new();
        }
        // SAFETY: a vector's addresses are within one allocation, with the elements between them.
        unsafe {
            let count = usize::try_from(end.offset_from(first)).unwrap_or(0);
            let elements = (0..count).map(|n| first.add(n).read()).collect();
            libc::free(old.first);
            elements
        }
    }
}
