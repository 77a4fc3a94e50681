//! The element types of live datasets and of their inputs.

use crate::error::{Result, fail};

/// A numeric element type, in the machine's byte order when it is in memory.
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

/// type, name in dataset descriptions (those of HDF5-UDF), size in bytes, C type, `struct` format
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
    /// Every element type.
    pub fn all() -> impl Iterator<Item = ElementType> {
        ROWS.iter().map(|r| r.0)
    }

    fn row(self) -> &'static Row {
        &ROWS[self as usize]
    }

    /// The name used in dataset descriptions and returned by `lib.getType`: `float`, `int32`, …
    pub fn name(self) -> &'static str {
        self.row().1
    }

    /// Bytes of one element.
    pub fn size(self) -> usize {
        self.row().2
    }

    /// The C type: `float`, `int32_t`, …
    pub fn c_type(self) -> &'static str {
        self.row().3
    }

    /// The format character of Python's `struct` module, for buffers.
    pub fn struct_format(self) -> &'static str {
        self.row().4
    }

    /// The type called `name`.
    ///
    /// # Errors
    /// `Unsupported` for the strings and compounds of HDF5-UDF, `Syntax` for anything else.
    pub fn from_name(name: &str) -> Result<Self> {
        if let Some(row) = ROWS.iter().find(|r| r.1 == name) {
            return Ok(row.0);
        }
        let shown = crate::escape::escape(name, 40);
        if name == "string" || name.starts_with("string(") || name.starts_with('{') {
            fail!(Unsupported, "output type {shown:?}: strings and compounds cannot be computed yet")
        }
        let known: Vec<_> = ROWS.iter().map(|r| r.1).collect();
        fail!(Syntax, "unknown type {shown:?}; the types are {}", known.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_in_the_order_of_the_enum() {
        for t in ElementType::all() {
            assert_eq!(t.row().0, t);
            assert_eq!(ElementType::from_name(t.name()).unwrap(), t);
        }
        assert!(ElementType::from_name("string(80)").is_err());
        assert!(ElementType::from_name("float32").is_err());
    }
}
