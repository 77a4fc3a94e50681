//! File types of outputs for which functions use other types in memory: 16-bit floats, booleans, and
//! enumerations.

use crate::errors::failure;
use crate::handles::{Handle, c_name};
use crate::library::Library;
use crate::symbols::{CLASS_ARRAY, CLASS_COMPOUND, CLASS_ENUM, CLASS_FLOAT, CLASS_INTEGER, Hid, UTF8};
use crate::{Result, fail};
use hyperchunk_udf::datatype::{Datatype, ElementType, MAX_MEMBERS};
use std::ffi::{CStr, c_char, c_int, c_uint, c_void};

type FromType = unsafe extern "C" fn(Hid) -> Hid;
type OfType = unsafe extern "C" fn(Hid) -> c_int;
type Insert = unsafe extern "C" fn(Hid, *const c_char, *const c_void) -> c_int;
type ValueOf = unsafe extern "C" fn(Hid, c_uint, *mut c_void) -> c_int;
type SetFields = unsafe extern "C" fn(Hid, usize, usize, usize, usize, usize) -> c_int;
type SetBias = unsafe extern "C" fn(Hid, usize) -> c_int;

/// `H5T_ORDER_BE`.
const BIG_ENDIAN: c_int = 1;

impl Library {
    /// Looks up a function by its name; statically linked programs may lack it.
    fn function(&self, name: &CStr) -> Result<*mut c_void> {
        let symbol = self.optional(name);
        if symbol.is_null() {
            fail!(Unsupported, "this statically linked program lacks {}", name.to_string_lossy())
        }
        Ok(symbol)
    }

    /// Creates the little-endian float of 16 bits, which only the newest libraries have as a predefined type.
    pub(crate) fn half_type(&'static self) -> Result<Handle> {
        let made = self.file_type(&ElementType::Float32.into())?;
        let (fields, bias) = (self.function(c"H5Tset_fields")?, self.function(c"H5Tset_ebias")?);
        // SAFETY: H5Tset_fields and H5Tset_ebias have had these signatures since 1.4; the type is ours.
        let set = unsafe {
            std::mem::transmute::<*mut c_void, SetFields>(fields)(made.id, 15, 10, 5, 0, 10) >= 0
                && (self.f.type_set_size)(made.id, 2) >= 0
                && std::mem::transmute::<*mut c_void, SetBias>(bias)(made.id, 15) >= 0
        };
        if set { Ok(made) } else { Err(failure(self, "a float of 16 bits")) }
    }

    /// Creates the little-endian enumeration with these names.
    pub(crate) fn enumeration_type(
        &'static self,
        base: ElementType,
        names: &[(&str, i128)],
    ) -> Result<Handle> {
        let of = self.file_type(&base.into())?;
        let (create, insert) = (self.function(c"H5Tenum_create")?, self.function(c"H5Tenum_insert")?);
        // SAFETY: H5Tenum_create has had this signature since 1.4; an open type.
        let id = unsafe { std::mem::transmute::<*mut c_void, FromType>(create)(of.id) };
        let made = self.wrap_type(id, "an enumeration")?;
        for (name, value) in names {
            let (name, value) = (c_name(name)?, value.to_le_bytes());
            // SAFETY: H5Tenum_insert has had this signature since 1.4; a terminated name, and as many bytes
            // as the largest integer has, in little-endian order as the base type.
            let done = unsafe {
                std::mem::transmute::<*mut c_void, Insert>(insert)(
                    made.id,
                    name.as_ptr(),
                    value.as_ptr().cast(),
                )
            };
            if done < 0 {
                return Err(failure(self, "an enumeration"));
            }
        }
        Ok(made)
    }

    /// Returns the output type that is stored like a dataset of this type, except for byte order and layout.
    /// `None` for types that outputs cannot have.
    pub(crate) fn stored_type(&'static self, file_type: Hid) -> Option<Datatype> {
        // SAFETY: any identifier may be asked.
        let (class, size) = unsafe { ((self.f.type_class)(file_type), (self.f.type_size)(file_type)) };
        match class {
            CLASS_FLOAT if size == 2 => self.is_half(file_type).then_some(Datatype::Half),
            CLASS_ENUM => self.named_values(file_type),
            CLASS_COMPOUND => {
                // SAFETY: as above.
                let count = u32::try_from(unsafe { (self.f.type_members)(file_type) }).ok()?;
                let members = (0..count.min(u32::try_from(MAX_MEMBERS).unwrap_or(0) + 1)).map(|n| {
                    // SAFETY: a member that exists; the type is ours.
                    let member =
                        self.wrap_type(unsafe { (self.f.type_member_type)(file_type, n) }, "a member");
                    Some((self.member_name(file_type, n).ok()?, self.stored_type(member.ok()?.id)?))
                });
                Datatype::compound(members.collect::<Option<Vec<_>>>()?).ok()
            }
            CLASS_ARRAY => {
                let (_, Datatype::Array(_, dims)) = self.memory_type(file_type).ok()? else { return None };
                // SAFETY: an array has a base type.
                let base = self.wrap_type(unsafe { (self.f.type_super)(file_type) }, "its elements").ok()?;
                Datatype::array(self.stored_type(base.id)?, dims).ok()
            }
            _ => match self.memory_type(file_type).ok()?.1 {
                Datatype::Text(size) if self.is_utf8(file_type) => Datatype::utf8(size).ok(),
                other => Some(other),
            },
        }
    }

    fn is_utf8(&'static self, file_type: Hid) -> bool {
        let Ok(cset) = self.function(c"H5Tget_cset") else { return false };
        // SAFETY: H5Tget_cset has had this signature since 1.4.
        unsafe { std::mem::transmute::<*mut c_void, OfType>(cset)(file_type) == UTF8 }
    }

    fn is_half(&'static self, file_type: Hid) -> bool {
        let Ok(half) = self.half_type() else { return false };
        // SAFETY: open types; the byte order of our type is set to the other's.
        unsafe {
            let order = (self.f.type_order)(file_type);
            (self.f.type_set_order)(half.id, order) >= 0 && (self.f.type_equal)(half.id, file_type) > 0
        }
    }

    /// Returns the names and values of an enumeration.
    fn named_values(&'static self, file_type: Hid) -> Option<Datatype> {
        let value_of = self.function(c"H5Tget_member_value").ok()?;
        // SAFETY: H5Tget_member_value has had this signature since 1.4.
        let value_of = unsafe { std::mem::transmute::<*mut c_void, ValueOf>(value_of) };
        // SAFETY: an enumeration has a base type and members.
        let (base, count) = unsafe { ((self.f.type_super)(file_type), (self.f.type_members)(file_type)) };
        let base = self.wrap_type(base, "its integers").ok()?;
        // SAFETY: an open type.
        let (class, size, order) = unsafe {
            ((self.f.type_class)(base.id), (self.f.type_size)(base.id), (self.f.type_order)(base.id))
        };
        if class != CLASS_INTEGER || size > 8 {
            return None;
        }
        let (_, element) = self.plain_number(base.id).ok()?;
        let names = (0..c_uint::try_from(count).ok()?).map(|n| {
            let mut bytes = [0u8; 8];
            // SAFETY: a member that exists, and room for its value: as many bytes as the base type has, 8 at most.
            if unsafe { value_of(file_type, n, bytes.as_mut_ptr().cast()) } < 0 {
                return None;
            }
            let bytes = bytes.get_mut(..element.size())?;
            if order == BIG_ENDIAN {
                bytes.reverse();
            }
            let value = bytes.iter().rev().fold(0i128, |value, &byte| value << 8 | i128::from(byte));
            let (_, most) = element.range()?;
            let value = if value > most { value - (1 << (8 * element.size())) } else { value };
            Some((self.member_name(file_type, n).ok()?, value))
        });
        // Members beyond the maximum number are ignored.
        Datatype::enumeration(element, names.take(1 << 16).collect::<Option<Vec<_>>>()?).ok()
    }
}
