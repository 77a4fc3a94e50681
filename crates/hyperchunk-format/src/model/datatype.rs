//! Datatypes. Source: specification §IV.A.2.d, "The Datatype Message".

use super::Name;

/// A datatype: how many bytes an element has and what they mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Datatype {
    /// The size of an element in bytes, never 0 (but of a string of 0 bytes, or an array with a dimension of 0).
    pub size: u64,
    /// What the bytes mean.
    pub class: Class,
}

/// What the bytes of an element mean.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Class {
    /// A fixed-point number: `precision` bits from bit `offset` of its bytes on.
    Integer {
        /// The order of the bytes.
        order: ByteOrder,
        /// Whether it is in two's complement.
        signed: bool,
        /// The first significant bit.
        offset: u16,
        /// How many bits are significant.
        precision: u16,
    },
    /// A floating-point number.
    Float(Float),
    /// A time of `precision` bits: in no use, with no conversion.
    Time {
        /// The order of the bytes.
        order: ByteOrder,
        /// How many bits are significant.
        precision: u16,
    },
    /// A string of fixed length.
    String {
        /// How a short string is filled up.
        padding: StringPadding,
        /// How characters are encoded.
        charset: CharacterSet,
    },
    /// Bits without a meaning as a number.
    Bitfield {
        /// The order of the bytes.
        order: ByteOrder,
        /// The first significant bit.
        offset: u16,
        /// How many bits are significant.
        precision: u16,
    },
    /// Bytes that only the application understands.
    Opaque {
        /// The application's name for them.
        tag: Name,
    },
    /// Members side by side, maybe with gaps.
    Compound {
        /// In declared order.
        members: Vec<Member>,
    },
    /// A reference to an object, to a part of a dataset or to an attribute.
    Reference(ReferenceKind),
    /// Names for some values of an integer.
    Enum {
        /// The type of the values.
        base: Box<Datatype>,
        /// In declared order.
        members: Vec<EnumMember>,
    },
    /// A sequence of any length, in the global heap.
    Vlen {
        /// The type of its elements.
        base: Box<Datatype>,
    },
    /// A string of any length, in the global heap.
    VlenString {
        /// How it ends.
        padding: StringPadding,
        /// How characters are encoded.
        charset: CharacterSet,
    },
    /// Elements side by side, as one.
    Array {
        /// Its extent, slowest first; at least one dimension.
        dims: Vec<u64>,
        /// The type of its elements.
        base: Box<Datatype>,
    },
    /// A complex number: two numbers of the base type, real part first.
    Complex {
        /// A floating-point type.
        base: Box<Datatype>,
    },
}

/// The order of the bytes of a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ByteOrder {
    /// Least significant byte first.
    Little,
    /// Most significant byte first.
    Big,
    /// VAX: pairs of bytes, little-endian inside the pair, most significant pair first.
    Vax,
}

/// How a floating-point number lies in its bits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Float {
    /// The order of the bytes.
    pub order: ByteOrder,
    /// The first significant bit.
    pub offset: u16,
    /// How many bits are significant.
    pub precision: u16,
    /// The bit of the sign.
    pub sign: u16,
    /// The first bit of the exponent.
    pub exponent_at: u16,
    /// How many bits it has.
    pub exponent_bits: u16,
    /// What is added to it.
    pub exponent_bias: u64,
    /// The first bit of the mantissa.
    pub mantissa_at: u16,
    /// How many bits it has.
    pub mantissa_bits: u16,
    /// What its first bit is.
    pub normalization: Normalization,
}

/// What the most significant bit of a mantissa is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Normalization {
    /// Anything.
    None,
    /// Always set, and stored.
    Set,
    /// Always set, and not stored.
    Implied,
}

/// How a string that is shorter than its field is filled up.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum StringPadding {
    /// It ends with a NUL.
    NullTerminated,
    /// NULs.
    NullPadded,
    /// Spaces.
    SpacePadded,
}

/// How characters are encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum CharacterSet {
    /// ASCII.
    #[default]
    Ascii,
    /// UTF-8.
    Utf8,
}

/// What a reference refers to, and how.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ReferenceKind {
    /// An object, by the address of its header (`H5R_OBJECT1`).
    Object1,
    /// A part of a dataset, by a global heap object (`H5R_DATASET_REGION1`).
    Region1,
    /// An object (`H5R_OBJECT2`).
    Object2,
    /// A part of a dataset (`H5R_DATASET_REGION2`).
    Region2,
    /// An attribute (`H5R_ATTR`).
    Attribute,
}

/// A member of a compound type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Member {
    /// Its name.
    pub name: Name,
    /// Where it starts in the element, in bytes. Members never overlap and never leave the element.
    pub offset: u64,
    /// Its type.
    pub datatype: Datatype,
}

/// A name for a value of an enumeration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EnumMember {
    /// The name.
    pub name: Name,
    /// The value, in the bytes of the base type.
    pub value: Vec<u8>,
}

impl Datatype {
    /// An integer that fills its bytes.
    #[must_use]
    pub fn integer(size: u16, signed: bool, order: ByteOrder) -> Self {
        let class = Class::Integer { order, signed, offset: 0, precision: size.saturating_mul(8) };
        Self { size: size.into(), class }
    }

    /// An IEEE 754 number of 2, 4 or 8 bytes; other sizes give 8.
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

    /// Whether `test` holds for this type or one inside it.
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

    /// Whether an element has parts in the global heap: sequences and strings of any length.
    #[must_use]
    pub fn has_vlen(&self) -> bool {
        self.any(&mut |part| matches!(part.class, Class::Vlen { .. } | Class::VlenString { .. }))
    }

    /// Whether an element has references.
    #[must_use]
    pub fn has_reference(&self) -> bool {
        self.any(&mut |part| matches!(part.class, Class::Reference(_)))
    }

    /// How many elements of the base type an array type holds; 1 for other types. Saturates.
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
