//! Datatypes. Source: specification §IV.A.2.d, "The Datatype Message".

use super::Name;

/// Datatype: the size and the meaning of an element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Datatype {
    /// Size of an element in bytes; 0 only for a string of 0 bytes or an array with a dimension of 0.
    pub size: u64,
    /// Meaning of the bytes.
    pub class: Class,
}

/// Datatype class: the meaning of the bytes of an element.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Class {
    /// Fixed-point number of `precision` bits, from bit `offset` on.
    Integer {
        /// Byte order.
        order: ByteOrder,
        /// True for two's complement.
        signed: bool,
        /// Bit offset of the first significant bit.
        offset: u16,
        /// Number of significant bits.
        precision: u16,
    },
    /// Floating-point number.
    Float(Float),
    /// Time of `precision` bits; unused in practice, and without a conversion.
    Time {
        /// Byte order.
        order: ByteOrder,
        /// Number of significant bits.
        precision: u16,
    },
    /// String of fixed length.
    String {
        /// Padding of short strings.
        padding: StringPadding,
        /// Character set.
        charset: CharacterSet,
    },
    /// Bits without a numeric meaning.
    Bitfield {
        /// Byte order.
        order: ByteOrder,
        /// Bit offset of the first significant bit.
        offset: u16,
        /// Number of significant bits.
        precision: u16,
    },
    /// Bytes with a meaning known only to the application.
    Opaque {
        /// Application's name for the type of the bytes.
        tag: Name,
    },
    /// Members side by side, possibly with gaps.
    Compound {
        /// Members in declared order.
        members: Vec<Member>,
    },
    /// Reference to an object, to a part of a dataset or to an attribute.
    Reference(ReferenceKind),
    /// Names for some values of an integer type.
    Enum {
        /// Datatype of the values.
        base: Box<Datatype>,
        /// Members in declared order.
        members: Vec<EnumMember>,
    },
    /// Variable-length sequence, in the global heap.
    Vlen {
        /// Datatype of the elements.
        base: Box<Datatype>,
    },
    /// Variable-length string, in the global heap.
    VlenString {
        /// Padding at the end.
        padding: StringPadding,
        /// Character set.
        charset: CharacterSet,
    },
    /// Fixed-size array as one element.
    Array {
        /// Extent, slowest dimension first; at least one dimension.
        dims: Vec<u64>,
        /// Datatype of the elements.
        base: Box<Datatype>,
    },
    /// Complex number: two numbers of the base type, real part first.
    Complex {
        /// Floating-point datatype of both parts.
        base: Box<Datatype>,
    },
}

/// Byte order of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
    /// VAX: pairs of bytes, little-endian inside the pair, most significant pair first.
    Vax,
}

/// Bit layout of a floating-point number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Float {
    /// Byte order.
    pub order: ByteOrder,
    /// Bit offset of the first significant bit.
    pub offset: u16,
    /// Number of significant bits.
    pub precision: u16,
    /// Bit position of the sign.
    pub sign: u16,
    /// First bit of the exponent.
    pub exponent_at: u16,
    /// Number of bits of the exponent.
    pub exponent_bits: u16,
    /// Bias of the exponent.
    pub exponent_bias: u64,
    /// First bit of the mantissa.
    pub mantissa_at: u16,
    /// Number of bits of the mantissa.
    pub mantissa_bits: u16,
    /// Normalization of the mantissa.
    pub normalization: Normalization,
}

/// Normalization of a mantissa: the state of its most significant bit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Normalization {
    /// Not normalized.
    None,
    /// Always set, and stored.
    Set,
    /// Always set, and not stored.
    Implied,
}

/// Padding of a string that is shorter than its field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StringPadding {
    /// Terminated by a NUL.
    NullTerminated,
    /// Padded with NULs.
    NullPadded,
    /// Padded with spaces.
    SpacePadded,
}

/// Character set of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CharacterSet {
    /// ASCII.
    #[default]
    Ascii,
    /// UTF-8.
    Utf8,
}

/// Kind of a reference.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReferenceKind {
    /// Object, by the address of its header (`H5R_OBJECT1`).
    Object1,
    /// Part of a dataset, by a global heap object (`H5R_DATASET_REGION1`).
    Region1,
    /// Object (`H5R_OBJECT2`).
    Object2,
    /// Part of a dataset (`H5R_DATASET_REGION2`).
    Region2,
    /// Attribute (`H5R_ATTR`).
    Attribute,
}

/// Member of a compound datatype.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Name.
    pub name: Name,
    /// Byte offset in the element. Members never overlap and never exceed the element.
    pub offset: u64,
    /// Datatype.
    pub datatype: Datatype,
}

/// Named value of an enumeration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnumMember {
    /// Name.
    pub name: Name,
    /// Value in the representation of the base type.
    pub value: Vec<u8>,
}

impl Datatype {
    /// Creates an integer datatype that uses all bits of its `size` bytes.
    #[must_use]
    pub fn integer(size: u16, signed: bool, order: ByteOrder) -> Self {
        let class = Class::Integer { order, signed, offset: 0, precision: size.saturating_mul(8) };
        Self { size: size.into(), class }
    }

    /// Creates an IEEE 754 datatype of 2, 4 or 8 bytes; other sizes give 8.
    #[must_use]
    pub fn ieee(size: u16, order: ByteOrder) -> Self {
        let (size, exponent_bits, bias) = match size {
            2 => (2, 5, 15),
            4 => (4, 8, 127),
            _ => (8, 11, 1023),
        };
        let precision: u16 = u16::saturating_mul(size, 8);
        let mantissa_bits = precision.saturating_sub(exponent_bits).saturating_sub(1);
        let float = Float {
            order,
            offset: 0,
            precision,
            sign: precision.saturating_sub(1),
            exponent_at: mantissa_bits,
            exponent_bits,
            exponent_bias: bias,
            mantissa_at: 0,
            mantissa_bits,
            normalization: Normalization::Implied,
        };
        Self { size: size.into(), class: Class::Float(float) }
    }

    /// True if `test` holds for this datatype or one nested in it.
    pub fn any(&self, test: &mut dyn FnMut(&Self) -> bool) -> bool {
        if test(self) {
            return true;
        }
        match &self.class {
            Class::Compound { members } => members.iter().any(|member| member.datatype.any(test)),
            Class::Enum { base, .. }
            | Class::Vlen { base }
            | Class::Array { base, .. }
            | Class::Complex { base } => base.any(test),
            _ => false,
        }
    }

    /// True if an element has parts in the global heap: variable-length sequences or strings.
    #[must_use]
    pub fn has_vlen(&self) -> bool {
        self.any(&mut |part| matches!(part.class, Class::Vlen { .. } | Class::VlenString { .. }))
    }

    /// True if an element contains references.
    #[must_use]
    pub fn has_reference(&self) -> bool {
        self.any(&mut |part| matches!(part.class, Class::Reference(_)))
    }

    /// Returns the number of base elements in an array datatype; 1 for other datatypes. Saturates.
    #[must_use]
    pub fn array_length(&self) -> u64 {
        match &self.class {
            Class::Array { dims, .. } => {
                dims.iter().fold(1, |product: u64, dim| product.saturating_mul(*dim))
            }
            _ => 1,
        }
    }
}
