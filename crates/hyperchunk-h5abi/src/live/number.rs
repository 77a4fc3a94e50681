//! Datatypes of inputs. Expressions accept every kind of number; programs, only the types that every language
//! has.

use crate::handles::Handle;
use crate::library::Library;
use crate::symbols::{CLASS_ENUM, CLASS_INTEGER, Hid};
use crate::{Result, fail};
use hyperchunk_expression::Kind;
use hyperchunk_udf::backend::Backend;
use hyperchunk_udf::datatype::{Datatype, ElementType};
use std::ffi::{CStr, c_char, c_int, c_void};

impl Library {
    /// Returns the memory type of an input, its type in the record, and for an expression its kind.
    pub(crate) fn input_type(
        &'static self,
        backend: Backend,
        file_type: Hid,
    ) -> Result<(Handle, Datatype, Option<Kind>)> {
        if backend != Backend::Expression {
            let (memory, datatype) = self.memory_type(file_type)?;
            return Ok((memory, datatype, None));
        }
        let (memory, number, kind) = self.number(file_type)?;
        Ok((memory, number.into(), Some(kind)))
    }

    /// Returns the types of any number: half floats become floats, enumerations their integers, and
    /// enumerations of FALSE and TRUE bools.
    fn number(&'static self, file_type: Hid) -> Result<(Handle, ElementType, Kind)> {
        // SAFETY: any identifier may be asked.
        if unsafe { (self.f.type_class)(file_type) } == CLASS_ENUM {
            return self.enumeration(file_type);
        }
        let (native, datatype) = self.plain_number(file_type)?;
        Ok((native, datatype, datatype.into()))
    }

    fn enumeration(&'static self, file_type: Hid) -> Result<(Handle, ElementType, Kind)> {
        type Super = unsafe extern "C" fn(Hid) -> Hid;
        let symbol = self.optional(c"H5Tget_super");
        if symbol.is_null() {
            fail!(
                Unsupported,
                "cannot read the base type of its enumeration: this statically linked program lacks H5Tget_super"
            )
        }
        // SAFETY: H5Tget_super has had this signature since 1.4.
        let base = unsafe { std::mem::transmute::<*mut c_void, Super>(symbol)(file_type) };
        let base = self.wrap_type(base, "the integers of its enumeration")?;
        // SAFETY: an open type.
        let (class, size) = unsafe { ((self.f.type_class)(base.id), (self.f.type_size)(base.id)) };
        if class != CLASS_INTEGER {
            fail!(Unsupported, "the base type of its enumeration is not an integer")
        }
        let bools = size == 1 && self.member(file_type, 0) == "FALSE" && self.member(file_type, 1) == "TRUE";
        let (native, datatype) = self.plain_number(base.id)?;
        Ok((native, datatype, if bools { Kind::Bool } else { datatype.into() }))
    }

    /// Returns the name of the member with this value in a one-byte enumeration; empty if there is none.
    fn member(&self, datatype: Hid, value: u8) -> String {
        type NameOf = unsafe extern "C" fn(Hid, *const c_void, *mut c_char, usize) -> c_int;
        let symbol = self.optional(c"H5Tenum_nameof");
        let mut name: [c_char; 16] = [0; 16];
        if symbol.is_null() {
            return String::new();
        }
        // SAFETY: H5Tenum_nameof has had this signature since 1.4; the value has the type's one byte, and the
        // size of the name's buffer is passed.
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
