//! Element types of live datasets and of their inputs, as functions see them in memory.

mod declare;
mod notation;
mod stored;
#[cfg(test)]
mod tests;

pub use declare::declarations;
pub(crate) use declare::declarations_for_wasm;
pub use notation::identifiers;
pub use stored::Enumeration;

use crate::error::{Result, fail};
use std::sync::Arc;

/// Maximum size of an element in bytes.
pub const MAX_ELEMENT_BYTES: usize = 16 << 20;
/// Maximum number of members of a compound, including nested ones.
pub const MAX_MEMBERS: usize = 1024;
/// Maximum nesting of compounds and arrays.
pub const MAX_DEPTH: usize = 8;
/// Default size of a string in bytes, as in HDF5-UDF.
pub const DEFAULT_STRING_BYTES: usize = 32;
/// Maximum number of variable-length strings in an element.
const MAX_POINTERS: usize = 4096;
/// Maximum length of a type's text notation.
const MAX_TEXT_BYTES: usize = 1 << 18;

/// Numeric element type, in the machine's byte order in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ElementType {
    /// 8-bit signed integer.
    Int8,
    /// 16-bit signed integer.
    Int16,
    /// 32-bit signed integer.
    Int32,
    /// 64-bit signed integer.
    Int64,
    /// 8-bit unsigned integer.
    UInt8,
    /// 16-bit unsigned integer.
    UInt16,
    /// 32-bit unsigned integer.
    UInt32,
    /// 64-bit unsigned integer.
    UInt64,
    /// IEEE 754 binary32.
    Float32,
    /// IEEE 754 binary64.
    Float64,
}

struct Row(ElementType, &'static str, usize, &'static str, &'static str);

/// type, name in dataset descriptions (as in HDF5-UDF), size in bytes, C type, `struct` format
const ROWS: [Row; 10] = [
    Row(ElementType::Int8, "int8", 1, "int8_t", "b"),
    Row(ElementType::Int16, "int16", 2, "int16_t", "h"),
    Row(ElementType::Int32, "int32", 4, "int32_t", "i"),
    Row(ElementType::Int64, "int64", 8, "int64_t", "q"),
    Row(ElementType::UInt8, "uint8", 1, "uint8_t", "B"),
    Row(ElementType::UInt16, "uint16", 2, "uint16_t", "H"),
    Row(ElementType::UInt32, "uint32", 4, "uint32_t", "I"),
    Row(ElementType::UInt64, "uint64", 8, "uint64_t", "Q"),
    Row(ElementType::Float32, "float", 4, "float", "f"),
    Row(ElementType::Float64, "double", 8, "double", "d"),
];

impl ElementType {
    /// Returns every element type.
    pub fn all() -> impl Iterator<Item = ElementType> {
        ROWS.iter().map(|r| r.0)
    }

    fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// Returns the name used in dataset descriptions and by `lib.getType`: `float`, `int32`, …
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Returns the size of an element in bytes.
    pub fn size(self) -> usize {
        self.row().2
    }

    /// Returns the C type: `float`, `int32_t`, …
    pub fn c_type(self) -> &'static str {
        self.row().3
    }

    /// Returns the format character of Python's `struct` module, for buffers.
    pub fn struct_format(self) -> &'static str {
        self.row().4
    }

    /// Returns the type called `name`.
    pub fn from_name(name: &str) -> Option<Self> {
        ROWS.iter().find(|r| r.1 == name).map(|r| r.0)
    }
}

/// Datatype of an element in the machine's memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Datatype {
    /// Number.
    Number(ElementType),
    /// `float` with 16 bits in the file. Like the next two, only for outputs.
    Half,
    /// `int8` that is 0 or 1 in the file, with h5py's enumeration for bools.
    Bool,
    /// Integer with an enumeration in the file.
    Enum(Arc<Enumeration>),
    /// String of this size in bytes, padded with zeros, without a required terminator. In the file it is
    /// ASCII.
    Text(usize),
    /// [`Datatype::Text`] that is UTF-8 in the file. Only for outputs.
    Utf8(usize),
    /// Address of a zero-terminated string.
    Pointer,
    /// Named members.
    Compound(Arc<Compound>),
    /// Array with a shape, row-major.
    Array(Arc<Datatype>, Vec<u64>),
}

/// Members of a compound, with the memory layout of a C structure.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Compound {
    members: Vec<Member>,
    size: usize,
    align: usize,
}

/// Member of a compound.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Member {
    /// Name, as in the file.
    pub name: String,
    /// Datatype.
    pub datatype: Datatype,
    /// Byte offset in the element.
    pub offset: usize,
}

impl Compound {
    /// Returns the members in their order.
    pub fn members(&self) -> &[Member] {
        &self.members
    }
}

impl From<ElementType> for Datatype {
    fn from(number: ElementType) -> Self {
        Datatype::Number(number)
    }
}

impl Datatype {
    /// Creates a compound of named members.
    ///
    /// # Errors
    /// `Unsupported`: no members, an empty or duplicate name, too many, too deep or too large.
    pub fn compound(list: impl IntoIterator<Item = (String, Datatype)>) -> Result<Self> {
        let (mut members, mut end, mut align): (Vec<Member>, usize, usize) = (Vec::new(), 0, 1);
        for (name, datatype) in list {
            let shown = crate::escape::escape(&name, 80);
            if name.is_empty() || name.contains('\0') || name.len() > 4096 {
                fail!(Unsupported, "a compound cannot have a member called {shown:?}")
            }
            if members.iter().any(|m| m.name == name) {
                fail!(Unsupported, "a compound has two members called {shown:?}")
            }
            let offset = end.next_multiple_of(datatype.align());
            // Both are small: every type was checked when it was created.
            end = offset.saturating_add(datatype.size());
            align = align.max(datatype.align());
            if end > MAX_ELEMENT_BYTES || members.len() >= MAX_MEMBERS {
                fail!(
                    Unsupported,
                    "an element has more than {MAX_ELEMENT_BYTES} bytes or {MAX_MEMBERS} members"
                )
            }
            members.push(Member { name, datatype, offset });
        }
        if members.is_empty() {
            fail!(Unsupported, "a compound has no members")
        }
        let size = end.next_multiple_of(align);
        Datatype::Compound(Arc::new(Compound { members, size, align })).checked()
    }

    /// Creates an array of `dims` elements of type `base`.
    ///
    /// # Errors
    /// `Unsupported`: an impossible shape, too deep or too large.
    pub fn array(base: Datatype, dims: Vec<u64>) -> Result<Self> {
        let bytes = dims.iter().try_fold(base.size() as u64, |a, &d| a.checked_mul(d));
        if dims.is_empty() || dims.len() > 32 || dims.contains(&0) {
            fail!(Unsupported, "an array cannot have the shape {dims:?}")
        }
        if bytes.is_none_or(|b| b > MAX_ELEMENT_BYTES as u64) {
            fail!(Unsupported, "an array of shape {dims:?} has more than {MAX_ELEMENT_BYTES} bytes")
        }
        Datatype::Array(Arc::new(base), dims).checked()
    }

    /// Creates a string of `size` bytes.
    ///
    /// # Errors
    /// `Unsupported`: no bytes, or too many.
    pub fn text(size: usize) -> Result<Self> {
        if size == 0 || size > MAX_ELEMENT_BYTES {
            fail!(Unsupported, "a string of {size} bytes: expected 1 to {MAX_ELEMENT_BYTES}")
        }
        Ok(Datatype::Text(size))
    }

    /// Creates a string of `size` bytes that is UTF-8 in the file.
    ///
    /// # Errors
    /// The errors of [`Datatype::text`].
    pub fn utf8(size: usize) -> Result<Self> {
        Datatype::text(size).map(|_| Datatype::Utf8(size))
    }

    fn checked(self) -> Result<Self> {
        if self.depth() > MAX_DEPTH || self.nodes() > MAX_MEMBERS {
            fail!(Unsupported, "the type has more than {MAX_DEPTH} levels or {MAX_MEMBERS} members")
        }
        if self.pointer_count() > MAX_POINTERS {
            fail!(Unsupported, "an element has more than {MAX_POINTERS} variable-length strings")
        }
        Ok(self)
    }

    /// Returns the nesting of compounds and arrays.
    fn depth(&self) -> usize {
        match self {
            Datatype::Compound(c) => 1 + c.members.iter().map(|m| m.datatype.depth()).max().unwrap_or(0),
            Datatype::Array(base, _) => 1 + base.depth(),
            _ => 0,
        }
    }

    fn nodes(&self) -> usize {
        match self {
            Datatype::Compound(c) => c.members.iter().map(|m| 1 + m.datatype.nodes()).sum(),
            Datatype::Array(base, _) => base.nodes(),
            _ => 0,
        }
    }

    fn pointer_count(&self) -> usize {
        match self {
            Datatype::Pointer => 1,
            Datatype::Compound(c) => {
                c.members.iter().fold(0, |n, m| n.saturating_add(m.datatype.pointer_count()))
            }
            Datatype::Array(base, _) => base.pointer_count().saturating_mul(self.elements()),
            _ => 0,
        }
    }

    /// Returns whether it is an integer without an enumeration.
    #[must_use]
    pub fn is_integer(&self) -> bool {
        matches!(self, Datatype::Number(number) if !matches!(number, ElementType::Float32 | ElementType::Float64))
    }

    /// Returns the number of elements of an array; 1 for other types.
    pub fn elements(&self) -> usize {
        match self {
            Datatype::Array(_, dims) => {
                dims.iter().fold(1, |a, &d| a.saturating_mul(usize::try_from(d).unwrap_or(usize::MAX)))
            }
            _ => 1,
        }
    }

    /// Returns the size of an element in bytes.
    pub fn size(&self) -> usize {
        match self {
            Datatype::Text(size) | Datatype::Utf8(size) => *size,
            Datatype::Pointer => size_of::<u64>(),
            Datatype::Compound(c) => c.size,
            Datatype::Array(base, _) => base.size().saturating_mul(self.elements()),
            _ => self.number().map_or(1, ElementType::size),
        }
    }

    /// Returns the alignment of an element.
    pub fn align(&self) -> usize {
        match self {
            Datatype::Text(_) | Datatype::Utf8(_) => 1,
            Datatype::Pointer => size_of::<u64>(),
            Datatype::Compound(c) => c.align,
            Datatype::Array(base, _) => base.align(),
            _ => self.number().map_or(1, ElementType::size),
        }
    }

    /// Returns the type of the number in memory, if it is a number.
    pub fn number(&self) -> Option<ElementType> {
        match self {
            Datatype::Number(number) => Some(*number),
            Datatype::Half => Some(ElementType::Float32),
            Datatype::Bool => Some(ElementType::Int8),
            Datatype::Enum(names) => Some(names.base()),
            _ => None,
        }
    }

    /// Returns the number type of a number or of an array of numbers, as a function sees it.
    pub fn flat_number(&self) -> Option<ElementType> {
        match self {
            Datatype::Array(base, _) => base.flat_number(),
            _ => self.number(),
        }
    }

    /// Returns the name for `lib.getType`: `float`, `string`, `compound`, …
    pub fn type_name_for_lib(&self) -> &'static str {
        match self {
            Datatype::Text(_) | Datatype::Utf8(_) | Datatype::Pointer => "string",
            Datatype::Compound(_) => "compound",
            Datatype::Array(base, _) => base.type_name_for_lib(),
            _ => self.number().map_or("", ElementType::name),
        }
    }

    /// Returns the byte offsets of string addresses in an element.
    pub fn pointers(&self) -> Vec<usize> {
        let mut found = Vec::new();
        self.add_pointers(0, &mut found);
        found
    }

    fn add_pointers(&self, at: usize, found: &mut Vec<usize>) {
        match self {
            Datatype::Pointer => found.push(at),
            Datatype::Compound(c) => {
                for member in &c.members {
                    member.datatype.add_pointers(at.saturating_add(member.offset), found);
                }
            }
            Datatype::Array(base, _) if base.pointer_count() > 0 => {
                for n in 0..self.elements() {
                    base.add_pointers(at.saturating_add(n.saturating_mul(base.size())), found);
                }
            }
            _ => {}
        }
    }

    /// Returns whether an element has variable-length strings, which a function can read but not produce.
    pub fn has_pointers(&self) -> bool {
        self.pointer_count() > 0
    }
}
