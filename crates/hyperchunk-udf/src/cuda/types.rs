//! Number types of C++ as in CUDA on Linux, and their conversions.

use crate::datatype::ElementType;

/// Number type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Number {
    Bool,
    Char,
    SignedChar,
    UnsignedChar,
    Short,
    UnsignedShort,
    Int,
    Unsigned,
    Long,
    UnsignedLong,
    LongLong,
    UnsignedLongLong,
    Float,
    Double,
}

use Number::{
    Bool, Char, Double, Float, Int, Long, LongLong, Short, SignedChar, Unsigned, UnsignedChar, UnsignedLong,
    UnsignedLongLong, UnsignedShort,
};

/// Types that are named by one word.
const NAMES: [(&str, Number); 17] = [
    ("bool", Bool),
    ("int8_t", SignedChar),
    ("uint8_t", UnsignedChar),
    ("int16_t", Short),
    ("uint16_t", UnsignedShort),
    ("int32_t", Int),
    ("uint32_t", Unsigned),
    ("int64_t", Long),
    ("uint64_t", UnsignedLong),
    ("size_t", UnsignedLong),
    ("ptrdiff_t", Long),
    ("intptr_t", Long),
    ("uintptr_t", UnsignedLong),
    ("uint", Unsigned),
    ("uchar", UnsignedChar),
    ("float", Float),
    ("double", Double),
];
/// Words that are combined to the name of a type.
const PARTS: [&str; 6] = ["unsigned", "signed", "char", "short", "int", "long"];

impl Number {
    /// Returns whether `word` is a type or a part of one.
    pub(super) fn is_word(word: &str) -> bool {
        PARTS.contains(&word) || NAMES.iter().any(|(name, _)| *name == word)
    }

    /// Returns the type that these words denote.
    pub(super) fn from_words(words: &[&str]) -> Option<Number> {
        if let [word] = words
            && let Some((_, number)) = NAMES.iter().find(|(name, _)| name == word)
        {
            return Some(*number);
        }
        let count = |part: &str| words.iter().filter(|w| **w == part).count();
        if words.is_empty() || words.iter().any(|w| !PARTS.contains(w)) {
            return None;
        }
        let (unsigned, signed) = (count("unsigned"), count("signed"));
        let rest = (count("char"), count("short"), count("long"), count("int"));
        if unsigned + signed > 1 {
            return None;
        }
        Some(match (rest, unsigned == 1) {
            ((1, 0, 0, 0), true) => UnsignedChar,
            ((1, 0, 0, 0), false) => {
                if signed == 1 {
                    SignedChar
                } else {
                    Char
                }
            }
            ((0, 1, 0, 0 | 1), true) => UnsignedShort,
            ((0, 1, 0, 0 | 1), false) => Short,
            ((0, 0, 0, 0 | 1), true) => Unsigned,
            ((0, 0, 0, 0 | 1), false) => Int,
            ((0, 0, 1, 0 | 1), true) => UnsignedLong,
            ((0, 0, 1, 0 | 1), false) => Long,
            ((0, 0, 2, 0 | 1), true) => UnsignedLongLong,
            ((0, 0, 2, 0 | 1), false) => LongLong,
            _ => return None,
        })
    }

    /// Returns its C++ spelling.
    pub(super) fn spelling(self) -> &'static str {
        match self {
            Bool => "bool",
            Char => "char",
            SignedChar => "signed char",
            UnsignedChar => "unsigned char",
            Short => "short",
            UnsignedShort => "unsigned short",
            Int => "int",
            Unsigned => "unsigned int",
            Long => "long",
            UnsignedLong => "unsigned long",
            LongLong => "long long",
            UnsignedLongLong => "unsigned long long",
            Float => "float",
            Double => "double",
        }
    }

    /// Returns its size in bytes.
    pub(super) fn size(self) -> usize {
        match self {
            Bool | Char | SignedChar | UnsignedChar => 1,
            Short | UnsignedShort => 2,
            Int | Unsigned | Float => 4,
            Long | UnsignedLong | LongLong | UnsignedLongLong | Double => 8,
        }
    }

    /// Returns whether it is a float.
    pub(super) fn is_float(self) -> bool {
        matches!(self, Float | Double)
    }

    /// Returns whether it has negative values.
    pub(super) fn is_signed(self) -> bool {
        !matches!(self, Bool | UnsignedChar | UnsignedShort | Unsigned | UnsignedLong | UnsignedLongLong)
    }

    /// Returns the element type with the same representation; `None` for bool.
    pub(super) fn element(self) -> Option<ElementType> {
        Some(match self {
            Bool => return None,
            Char | SignedChar => ElementType::Int8,
            UnsignedChar => ElementType::UInt8,
            Short => ElementType::Int16,
            UnsignedShort => ElementType::UInt16,
            Int => ElementType::Int32,
            Unsigned => ElementType::UInt32,
            Long | LongLong => ElementType::Int64,
            UnsignedLong | UnsignedLongLong => ElementType::UInt64,
            Float => ElementType::Float32,
            Double => ElementType::Float64,
        })
    }

    /// Returns the type after integral promotion.
    pub(super) fn promoted(self) -> Number {
        match self {
            Bool | Char | SignedChar | UnsignedChar | Short | UnsignedShort => Int,
            other => other,
        }
    }

    fn rank(self) -> u8 {
        match self {
            Long | UnsignedLong => 1,
            LongLong | UnsignedLongLong => 2,
            _ => 0,
        }
    }

    fn unsigned(self) -> Number {
        match self {
            Int => Unsigned,
            Long => UnsignedLong,
            LongLong => UnsignedLongLong,
            other => other,
        }
    }

    /// Returns the type of an operation on two types (usual arithmetic conversions).
    pub(super) fn common(self, other: Number) -> Number {
        for float in [Double, Float] {
            if self == float || other == float {
                return float;
            }
        }
        let (a, b) = (self.promoted(), other.promoted());
        if a.is_signed() == b.is_signed() {
            return if a.rank() >= b.rank() { a } else { b };
        }
        let (signed, unsigned) = if a.is_signed() { (a, b) } else { (b, a) };
        if unsigned.rank() >= signed.rank() {
            unsigned
        } else if signed.size() > unsigned.size() {
            signed
        } else {
            signed.unsigned()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_make_types() {
        let check = |text: &str, expected: Option<Number>| {
            let words: Vec<_> = text.split(' ').collect();
            assert_eq!(Number::from_words(&words), expected, "{text}");
        };
        check("int", Some(Int));
        check("unsigned", Some(Unsigned));
        check("long unsigned int", Some(UnsignedLong));
        check("long long", Some(LongLong));
        check("char", Some(Char));
        check("signed char", Some(SignedChar));
        check("size_t", Some(UnsignedLong));
        check("unsigned float", None);
        check("short long", None);
        check("unsigned signed", None);
        check("float3", None);
    }

    #[test]
    fn arithmetic_is_that_of_c() {
        let check = |a: Number, b: Number, expected: Number| {
            assert_eq!((a.common(b), b.common(a)), (expected, expected), "{a:?} {b:?}");
        };
        check(Bool, Char, Int);
        check(Int, Unsigned, Unsigned);
        check(Unsigned, Long, Long);
        check(UnsignedLong, Int, UnsignedLong);
        check(UnsignedLong, LongLong, UnsignedLongLong);
        check(Float, UnsignedLong, Float);
        check(Float, Double, Double);
    }
}
