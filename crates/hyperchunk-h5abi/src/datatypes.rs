//! Conversions between HDF5 datatypes and ours: the memory type of an input and the file type of an output.

use crate::errors::failure;
use crate::handles::{Handle, c_name};
use crate::library::Library;
use crate::static_symbols::is_absent;
use crate::symbols::{
    ASCII, CLASS_ARRAY, CLASS_COMPOUND, CLASS_ENUM, CLASS_FLOAT, CLASS_INTEGER, CLASS_STRING, DIR_ASCEND,
    Hid, NULL_PADDED, NULL_TERMINATED, UTF8,
};
use crate::{Error, ErrorKind, Result, fail};
use hyperchunk_udf::datatype::{Datatype, ElementType, MAX_DEPTH, MAX_MEMBERS};
use hyperchunk_udf::escape::escape;
use std::ffi::{CStr, c_void};

/// Names of the HDF5 type classes, indexed by class number.
const CLASSES: [&str; 12] = [
    "an integer",
    "a float",
    "a time",
    "a string",
    "a bitfield",
    "opaque",
    "a compound",
    "a reference",
    "an enumeration",
    "a sequence of variable length",
    "an array",
    "a complex number",
];

impl Library {
    /// Returns the memory type for a file type, as an HDF5 type and as a [`Datatype`].
    ///
    /// Numbers get the machine's byte order. Floats of fewer than 32 bits become `float`, and enumerations
    /// become their base integers: HDF5 converts both without loss. Fixed-length strings keep their size and
    /// are padded with zeros. Compounds get the layout of a C structure.
    pub(crate) fn memory_type(&'static self, file_type: Hid) -> Result<(Handle, Datatype)> {
        self.memory_type_at(file_type, 0, true)
    }

    /// Like [`Self::memory_type`], but strings keep the file's padding. The result equals the file type if
    /// that already has the memory layout.
    pub(crate) fn unpadded_type(&'static self, file_type: Hid) -> Result<(Handle, Datatype)> {
        self.memory_type_at(file_type, 0, false)
    }

    fn memory_type_at(&'static self, file_type: Hid, depth: usize, pad: bool) -> Result<(Handle, Datatype)> {
        if depth > MAX_DEPTH {
            fail!(Unsupported, "its datatype has more than {MAX_DEPTH} levels")
        }
        // SAFETY: any identifier may be asked.
        match unsafe { (self.f.type_class)(file_type) } {
            CLASS_INTEGER | CLASS_FLOAT => {
                let (number, element) = self.plain_number(file_type)?;
                Ok((number, element.into()))
            }
            CLASS_ENUM => {
                // SAFETY: an enumeration has a base type.
                let base = self.wrap_type(unsafe { (self.f.type_super)(file_type) }, "its integers")?;
                let (number, element) = self.plain_number(base.id)?;
                Ok((number, element.into()))
            }
            CLASS_STRING => self.string(file_type, pad),
            CLASS_COMPOUND => self.compound(file_type, depth, pad),
            CLASS_ARRAY => self.array(file_type, depth, pad),
            class => {
                let what = usize::try_from(class).ok().and_then(|c| CLASSES.get(c)).unwrap_or(&"unknown");
                fail!(
                    Unsupported,
                    "its datatype is {what}, which functions cannot use yet: they use numbers, enumerations, strings, and compounds and arrays of them"
                )
            }
        }
    }

    /// Returns the memory type of an integer or a float; a float of fewer than 32 bits becomes a `float`.
    pub(crate) fn plain_number(&'static self, file_type: Hid) -> Result<(Handle, ElementType)> {
        // SAFETY: any identifier may be asked.
        let (class, size) = unsafe { ((self.f.type_class)(file_type), (self.f.type_size)(file_type)) };
        if class == CLASS_FLOAT && size < 4 {
            return Ok((self.file_type(&ElementType::Float32.into())?, ElementType::Float32));
        }
        // SAFETY: as above.
        let native = unsafe {
            if is_absent(self.f.type_native as *const c_void) {
                self.in_machine_order(file_type)
            } else {
                (self.f.type_native)(file_type, DIR_ASCEND)
            }
        };
        if native < 0 {
            fail!(Unsupported, "its datatype has no equivalent among this machine's numbers")
        }
        let native = self.wrap_type(native, "its datatype")?;
        // SAFETY: as above.
        let (size, sign) = unsafe { ((self.f.type_size)(native.id), (self.f.type_sign)(native.id)) };
        let element = match (class, size, sign) {
            (CLASS_FLOAT, 4, _) => ElementType::Float32,
            (CLASS_FLOAT, 8, _) => ElementType::Float64,
            (CLASS_INTEGER, 1, 0) => ElementType::UInt8,
            (CLASS_INTEGER, 2, 0) => ElementType::UInt16,
            (CLASS_INTEGER, 4, 0) => ElementType::UInt32,
            (CLASS_INTEGER, 8, 0) => ElementType::UInt64,
            (CLASS_INTEGER, 1, 1) => ElementType::Int8,
            (CLASS_INTEGER, 2, 1) => ElementType::Int16,
            (CLASS_INTEGER, 4, 1) => ElementType::Int32,
            (CLASS_INTEGER, 8, 1) => ElementType::Int64,
            _ => {
                let what = usize::try_from(class).ok().and_then(|c| CLASSES.get(c)).unwrap_or(&"unknown");
                fail!(
                    Unsupported,
                    "its datatype is {what} of {size} bytes; functions use integers of 1 to 8 bytes and floats of up to 8"
                )
            }
        };
        Ok((native, element))
    }

    /// Returns a number type in the machine's byte order, for a program without `H5Tget_native_type`.
    unsafe fn in_machine_order(&self, file_type: Hid) -> Hid {
        const LITTLE_ENDIAN: i32 = 0;
        // SAFETY: any identifier may be asked; the copy is the caller's.
        unsafe {
            let whole = (self.f.type_precision)(file_type) == (self.f.type_size)(file_type).saturating_mul(8);
            let copy = (self.f.type_copy)(file_type);
            let order = (self.f.type_order)(copy) == LITTLE_ENDIAN
                || (self.f.type_set_order)(copy, LITTLE_ENDIAN) >= 0;
            if whole && order { copy } else { -1 }
        }
    }

    /// Returns the memory type of a string. It keeps the file's character set, because HDF5 does not convert
    /// between character sets.
    fn string(&'static self, file_type: Hid, pad: bool) -> Result<(Handle, Datatype)> {
        // SAFETY: an open type; the copy is ours.
        let mut copy = self.wrap_type(unsafe { (self.f.type_copy)(file_type) }, "its string type")?;
        // SAFETY: an open type.
        let variable = unsafe { (self.f.type_is_variable_string)(file_type) };
        if variable > 0 {
            return Ok((copy, Datatype::Pointer));
        }
        // SAFETY: as above.
        let size = unsafe { (self.f.type_size)(file_type) };
        if variable < 0 {
            return Err(failure(self, "its string type"));
        }
        if pad {
            self.set_text(&mut copy, None, Some(NULL_PADDED))?;
        }
        Ok((copy, Datatype::text(size)?))
    }

    fn compound(&'static self, file_type: Hid, depth: usize, pad: bool) -> Result<(Handle, Datatype)> {
        // SAFETY: any identifier may be asked.
        let count = unsafe { (self.f.type_members)(file_type) };
        let Some(count) = u32::try_from(count).ok().filter(|&n| n as usize <= MAX_MEMBERS) else {
            fail!(Unsupported, "its datatype has {count} members; up to {MAX_MEMBERS} are possible")
        };
        let (mut list, mut handles) = (Vec::new(), Vec::new());
        for n in 0..count {
            let name = self.member_name(file_type, n)?;
            // SAFETY: a member that exists; the type is ours.
            let id = unsafe { (self.f.type_member_type)(file_type, n) };
            let (handle, datatype) = self
                .wrap_type(id, "the type of a member")
                .and_then(|member| self.memory_type_at(member.id, depth + 1, pad))
                .map_err(|e| Error::new(e.kind(), format!("member {:?}: {e}", escape(&name, 80))))?;
            list.push((name, datatype));
            handles.push(handle);
        }
        let datatype = Datatype::compound(list)?;
        Ok((self.structure(&datatype, &handles)?, datatype))
    }

    pub(crate) fn member_name(&'static self, file_type: Hid, n: u32) -> Result<String> {
        if is_absent(self.f.type_member_name as *const c_void) {
            fail!(
                Unsupported,
                "cannot read compounds: this statically linked program lacks H5Tget_member_name"
            )
        }
        // SAFETY: a member that exists; HDF5 gives a terminated string or null.
        let pointer = unsafe { (self.f.type_member_name)(file_type, n) };
        if pointer.is_null() {
            return Err(failure(self, "the name of a member"));
        }
        // SAFETY: as above; it is ours to free.
        let name = unsafe {
            let name = CStr::from_ptr(pointer).to_str().map(str::to_owned);
            (self.f.free)(pointer.cast());
            name
        };
        name.map_err(|_| {
            Error::new(ErrorKind::Unsupported, "a member has a name that is not UTF-8".to_owned())
        })
    }

    fn array(&'static self, file_type: Hid, depth: usize, pad: bool) -> Result<(Handle, Datatype)> {
        let mut dims = [0; 32];
        // SAFETY: an open type; HDF5 has no more than 32 dimensions.
        let (base, rank) = unsafe { ((self.f.type_super)(file_type), (self.f.type_array_rank)(file_type)) };
        let base = self.wrap_type(base, "the type of an array's elements")?;
        let Some(dims) = usize::try_from(rank).ok().and_then(|r| dims.get_mut(..r)) else {
            fail!(Unsupported, "its datatype is an array without a shape")
        };
        // SAFETY: room for `rank` dimensions.
        if unsafe { (self.f.type_array_dims)(file_type, dims.as_mut_ptr()) } < 0 {
            return Err(failure(self, "the shape of an array"));
        }
        let (handle, element) = self.memory_type_at(base.id, depth + 1, pad)?;
        Ok((self.create_array(&handle, dims)?, Datatype::array(element, dims.to_vec())?))
    }

    fn create_array(&'static self, base: &Handle, dims: &[u64]) -> Result<Handle> {
        let rank = u32::try_from(dims.len()).unwrap_or(u32::MAX);
        // SAFETY: an open type and `rank` dimensions.
        let id = unsafe { (self.f.type_array_create)(base.id, rank, dims.as_ptr()) };
        self.wrap_type(id, "the type of an array")
    }

    /// Creates the HDF5 compound type with the layout of `datatype`, whose members have the HDF5 types
    /// `members`.
    fn structure(&'static self, datatype: &Datatype, members: &[Handle]) -> Result<Handle> {
        let Datatype::Compound(compound) = datatype else { fail!(Worker, "expected a compound datatype") };
        // SAFETY: no pointers; the type is ours.
        let id = unsafe { (self.f.type_create)(CLASS_COMPOUND, datatype.size()) };
        let made = self.wrap_type(id, "the type of a compound")?;
        for (member, handle) in compound.members().iter().zip(members) {
            let name = c_name(&member.name)?;
            // SAFETY: open types and a NUL-terminated name.
            if unsafe { (self.f.type_insert)(made.id, name.as_ptr(), member.offset, handle.id) } < 0 {
                return Err(failure(self, "the type of a compound"));
            }
        }
        Ok(made)
    }

    /// Returns the type of an output in an existing file: the result of [`Library::file_type`], except that
    /// strings that need not be UTF-8 may have the existing type's character set and padding, because earlier
    /// versions wrote UTF-8 and null-padded strings.
    pub(crate) fn output_type(&'static self, datatype: &Datatype, file_type: Hid) -> Result<Handle> {
        match datatype {
            Datatype::Text(_) => {
                let made = self.file_type(datatype)?;
                let existing = |cset, padding| -> Result<_> {
                    let mut text = self.file_type(datatype)?;
                    self.set_text(&mut text, Some(cset), Some(padding))?;
                    // SAFETY: open types.
                    let is_equal = unsafe { (self.f.type_equal)(text.id, file_type) } > 0;
                    Ok(is_equal.then_some(text))
                };
                // SAFETY: open types.
                if unsafe { (self.f.type_equal)(made.id, file_type) } > 0 {
                    return Ok(made);
                }
                for (cset, padding) in [(UTF8, NULL_PADDED), (UTF8, NULL_TERMINATED), (ASCII, NULL_PADDED)] {
                    if let Some(found) = existing(cset, padding)? {
                        return Ok(found);
                    }
                }
                Ok(made)
            }
            // SAFETY: any identifier may be asked.
            Datatype::Compound(compound) if unsafe { (self.f.type_class)(file_type) } == CLASS_COMPOUND => {
                // SAFETY: as above.
                let count = unsafe { (self.f.type_members)(file_type) };
                let members = compound.members().iter().zip(0u32..).map(|(member, n)| {
                    if i64::from(n) >= i64::from(count) {
                        return self.file_type(&member.datatype);
                    }
                    // SAFETY: a member that exists; the type is ours.
                    let id = unsafe { (self.f.type_member_type)(file_type, n) };
                    self.output_type(&member.datatype, self.wrap_type(id, "the type of a member")?.id)
                });
                self.structure(datatype, &members.collect::<Result<Vec<_>>>()?)
            }
            // SAFETY: as above.
            Datatype::Array(base, dims) if unsafe { (self.f.type_class)(file_type) } == CLASS_ARRAY => {
                // SAFETY: an array has a base type.
                let id = unsafe { (self.f.type_super)(file_type) };
                let existing = self.wrap_type(id, "the type of an array's elements")?;
                self.create_array(&self.output_type(base, existing.id)?, dims)
            }
            _ => self.file_type(datatype),
        }
    }

    /// Returns the file type of an output, equal to its memory type. Strings are null-terminated, as in C and
    /// HDF5-UDF, unless the text fills the whole size.
    pub(crate) fn file_type(&'static self, datatype: &Datatype) -> Result<Handle> {
        let copy = |name: &CStr| {
            // SAFETY: a copy of a constant type is ours.
            self.wrap_type(unsafe { (self.f.type_copy)(self.global(name)?) }, "a type")
        };
        match datatype {
            Datatype::Number(number) => copy(number_global(*number)),
            Datatype::Half => self.half_type(),
            Datatype::Bool | Datatype::Enum(_) => {
                let Some((base, names)) = datatype.names() else {
                    fail!(Worker, "expected an enumeration datatype")
                };
                self.enumeration_type(base, &names)
            }
            Datatype::Text(size) | Datatype::Utf8(size) => {
                let mut text = copy(c"H5T_C_S1_g")?;
                // SAFETY: an open type that is ours.
                if unsafe { (self.f.type_set_size)(text.id, *size) } < 0 {
                    return Err(failure(self, "a string type"));
                }
                if matches!(datatype, Datatype::Utf8(_)) {
                    self.set_text(&mut text, Some(UTF8), None)?;
                }
                Ok(text)
            }
            Datatype::Pointer => fail!(Unsupported, "strings of variable length cannot be computed"),
            Datatype::Compound(compound) => {
                let members = compound
                    .members()
                    .iter()
                    .map(|m| self.file_type(&m.datatype))
                    .collect::<Result<Vec<_>>>()?;
                self.structure(datatype, &members)
            }
            Datatype::Array(base, dims) => self.create_array(&self.file_type(base)?, dims),
        }
    }
}

fn number_global(number: ElementType) -> &'static CStr {
    match number {
        ElementType::Int8 => c"H5T_STD_I8LE_g",
        ElementType::Int16 => c"H5T_STD_I16LE_g",
        ElementType::Int32 => c"H5T_STD_I32LE_g",
        ElementType::Int64 => c"H5T_STD_I64LE_g",
        ElementType::UInt8 => c"H5T_STD_U8LE_g",
        ElementType::UInt16 => c"H5T_STD_U16LE_g",
        ElementType::UInt32 => c"H5T_STD_U32LE_g",
        ElementType::UInt64 => c"H5T_STD_U64LE_g",
        ElementType::Float32 => c"H5T_IEEE_F32LE_g",
        ElementType::Float64 => c"H5T_IEEE_F64LE_g",
    }
}
