//! Padding and character set of fixed-length string types.

use crate::errors::failure;
use crate::handles::Handle;
use crate::library::Library;
use crate::static_symbols::is_absent;
use crate::symbols::Hid;
use crate::{Result, fail};
use std::ffi::{c_int, c_void};

/// Layout of an encoded string type: the first bytes, the offset of the class, and the offset of the byte
/// with the padding (its lower half) and the character set.
const HEADER: [u8; 2] = [3, 0];
const CLASS_AT: usize = 2;
const FLAGS_AT: usize = 3;
const STRING: u8 = 3;

type Encode = unsafe extern "C" fn(Hid, *mut c_void, *mut usize) -> c_int;
type Decode = unsafe extern "C" fn(*const c_void) -> Hid;

impl Library {
    /// Sets the character set and the padding of a string type of ours.
    ///
    /// A statically linked program may lack the functions for this if it does not use them, but always has
    /// the functions that encode types: the type is then created from a modified encoded form.
    pub(crate) fn set_text(
        &'static self,
        text: &mut Handle,
        cset: Option<c_int>,
        padding: Option<c_int>,
    ) -> Result<()> {
        let lacks = |wanted: bool, function: *const c_void| wanted && is_absent(function);
        if lacks(cset.is_some(), self.f.type_set_cset as *const c_void)
            || lacks(padding.is_some(), self.f.type_set_strpad as *const c_void)
        {
            *text = self.recreate(text, cset, padding)?;
            return Ok(());
        }
        // SAFETY: an open type that is ours.
        let set = unsafe {
            cset.is_none_or(|cset| (self.f.type_set_cset)(text.id, cset) >= 0)
                && padding.is_none_or(|padding| (self.f.type_set_strpad)(text.id, padding) >= 0)
        };
        if set { Ok(()) } else { Err(failure(self, "a string type")) }
    }

    fn recreate(&'static self, text: &Handle, cset: Option<c_int>, padding: Option<c_int>) -> Result<Handle> {
        let (encode, decode) = (self.optional(c"H5Tencode"), self.optional(c"H5Tdecode"));
        // In newer releases, `H5Tdecode` is a function with another signature.
        let decode = if decode.is_null() { self.optional(c"H5Tdecode1") } else { decode };
        if encode.is_null() || decode.is_null() {
            fail!(
                Unsupported,
                "cannot set the padding of strings in this statically linked program: expected the functions H5Tset_strpad and H5Tset_cset, or H5Tencode and H5Tdecode, got none; link it with the shared libhdf5 (h5cc -shlib)"
            )
        }
        // SAFETY: both have had these signatures since 1.8.
        let (encode, decode) = unsafe {
            (
                std::mem::transmute::<*mut c_void, Encode>(encode),
                std::mem::transmute::<*mut c_void, Decode>(decode),
            )
        };
        let mut size = 0_usize;
        // SAFETY: an open type; a null buffer asks for the size.
        if unsafe { encode(text.id, std::ptr::null_mut(), &raw mut size) } < 0 {
            return Err(failure(self, "encoding a string type"));
        }
        let mut bytes = vec![0_u8; size];
        // SAFETY: the buffer has the size that the call above returned.
        if unsafe { encode(text.id, bytes.as_mut_ptr().cast(), &raw mut size) } < 0 {
            return Err(failure(self, "encoding a string type"));
        }
        let is_string = bytes.starts_with(&HEADER) && bytes.get(CLASS_AT).is_some_and(|b| b & 0x0f == STRING);
        let Some(flags) = bytes.get_mut(FLAGS_AT).filter(|_| is_string) else {
            fail!(
                Unsupported,
                "cannot set the padding of strings in this statically linked program: expected the encoded form of a string, got another; link it with the shared libhdf5"
            )
        };
        let half =
            |value: Option<c_int>, now: u8| value.and_then(|v| u8::try_from(v).ok()).unwrap_or(now) & 0x0f;
        *flags = half(padding, *flags) | half(cset, *flags >> 4) << 4;
        // SAFETY: bytes from H5Tencode, with one changed to a valid value for a string type.
        self.wrap_type(unsafe { decode(bytes.as_ptr().cast()) }, "a string type")
    }
}
