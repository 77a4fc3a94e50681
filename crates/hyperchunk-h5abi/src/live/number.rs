//! The types of inputs. Expressions take every kind of number; programs, those that every language has.

use crate::handles::Handle;
use crate::library::Library;
use crate::symbols::{CLASS_FLOAT, CLASS_INTEGER, Hid};
use crate::{Result, fail};
use hyperchunk_udf::backend::Backend;
use hyperchunk_udf::datatype::ElementType;
use hyperchunk_udf::expression::Kind;
use std::ffi::{CStr, c_char, c_int, c_void};

/// `H5T_ENUM`.
const CLASS_ENUM: c_int = 8;

impl Library {
    /// For an input of this type in the file: its type in memory, what its record calls that, and what it is for an
    /// expression.
    pub(crate) fn input_type(
        &'static self,
        backend: Backend,
        file_type: Hid,
    ) -> Result<(Handle, ElementType, Kind)> {
        if backend != Backend::Expression {
            let (native, datatype) = self.native(file_type)?;
            return Ok((native, datatype, Kind::of(datatype)));
        }
        self.number(file_type)
    }

    /// Any number: half floats become floats, enumerations their integers, and those of FALSE and TRUE bools.
    fn number(&'static self, file_type: Hid) -> Result<(Handle, ElementType, Kind)> {
        // SAFETY: any identifier may be asked.
        let (class, size) = unsafe { ((self.f.type_class)(file_type), (self.f.type_size)(file_type)) };
        if class == CLASS_FLOAT && size == 2 {
            // SAFETY: a copy of a constant type, closed by its handle.
            let float = unsafe { (self.f.type_copy)(self.global(c"H5T_NATIVE_FLOAT_g")?) };
            return Ok((self.wrap_type(float, "a float")?, ElementType::Float32, Kind::Float32));
        }
        if class == CLASS_ENUM {
            return self.enumeration(file_type);
        }
        let (native, datatype) = self.native(file_type)?;
        Ok((native, datatype, Kind::of(datatype)))
    }

    fn enumeration(&'static self, file_type: Hid) -> Result<(Handle, ElementType, Kind)> {
        type Super = unsafe extern "C" fn(Hid) -> Hid;
        let symbol = self.optional(c"H5Tget_super");
        if symbol.is_null() {
            fail!(Unsupported, "it is an enumeration, and this program's libhdf5 cannot tell of what")
        }
        // SAFETY: H5Tget_super has had this signature since 1.4.
        let base = unsafe { std::mem::transmute::<*mut c_void, Super>(symbol)(file_type) };
        let base = self.wrap_type(base, "the integers of its enumeration")?;
        // SAFETY: an open type.
        let (class, size) = unsafe { ((self.f.type_class)(base.id), (self.f.type_size)(base.id)) };
        if class != CLASS_INTEGER {
            fail!(Unsupported, "its enumeration is not one of integers")
        }
        let bools = size == 1 && self.member(file_type, 0) == "FALSE" && self.member(file_type, 1) == "TRUE";
        let (native, datatype) = self.native(base.id)?;
        Ok((native, datatype, if bools { Kind::Bool } else { Kind::of(datatype) }))
    }

    /// The name of a member of an enumeration of bytes; empty when it has none of this value.
    fn member(&self, datatype: Hid, value: u8) -> String {
        type NameOf = unsafe extern "C" fn(Hid, *const c_void, *mut c_char, usize) -> c_int;
        let symbol = self.optional(c"H5Tenum_nameof");
        let mut name: [c_char; 16] = [0; 16];
        if symbol.is_null() {
            return String::new();
        }
        // SAFETY: H5Tenum_nameof has had this signature since 1.4; the value has the type's one byte, and the name's room is
        // told.
        let found = unsafe {
            std::mem::transmute::<*mut c_void, NameOf>(symbol)(
                datatype,
                (&raw const value).cast(),
                name.as_mut_ptr(),
                name.len() - 1,
            )
        };
        if found < 0 {
            return String::new();
        }
        // SAFETY: the last byte is never written, so there is an end.
        unsafe { CStr::from_ptr(name.as_ptr()) }.to_string_lossy().into_owned()
    }
}
