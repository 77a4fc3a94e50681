//! Types of intermediate values, and NumPy's promotion rules.

/// Type of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Kind {
    Bool,
    Int8,
    Int16,
    Int32,
    Int64,
    UInt8,
    UInt16,
    UInt32,
    UInt64,
    Float32,
    Float64,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 11] = [
        Kind::Bool,
        Kind::Int8,
        Kind::Int16,
        Kind::Int32,
        Kind::Int64,
        Kind::UInt8,
        Kind::UInt16,
        Kind::UInt32,
        Kind::UInt64,
        Kind::Float32,
        Kind::Float64,
    ];

    /// Returns the name in expressions: `float32`, `bool`, …
    pub fn name(self) -> &'static str {
        match self {
            Kind::Bool => "bool",
            Kind::Int8 => "int8",
            Kind::Int16 => "int16",
            Kind::Int32 => "int32",
            Kind::Int64 => "int64",
            Kind::UInt8 => "uint8",
            Kind::UInt16 => "uint16",
            Kind::UInt32 => "uint32",
            Kind::UInt64 => "uint64",
            Kind::Float32 => "float32",
            Kind::Float64 => "float64",
        }
    }

    /// Returns the size of an element in bytes.
    pub fn size(self) -> usize {
        match self {
            Kind::Bool | Kind::Int8 | Kind::UInt8 => 1,
            Kind::Int16 | Kind::UInt16 => 2,
            Kind::Int32 | Kind::UInt32 | Kind::Float32 => 4,
            Kind::Int64 | Kind::UInt64 | Kind::Float64 => 8,
        }
    }

    /// Returns whether it is `float32` or `float64`.
    pub fn is_float(self) -> bool {
        matches!(self, Kind::Float32 | Kind::Float64)
    }

    /// Returns whether it is a signed integer.
    pub fn is_signed(self) -> bool {
        matches!(self, Kind::Int8 | Kind::Int16 | Kind::Int32 | Kind::Int64)
    }

    /// Returns whether it is an unsigned integer.
    pub fn is_unsigned(self) -> bool {
        matches!(self, Kind::UInt8 | Kind::UInt16 | Kind::UInt32 | Kind::UInt64)
    }

    /// Returns the smallest and largest value of an integer type.
    pub(crate) fn range(self) -> Option<(i128, i128)> {
        let bits = u32::try_from(self.size()).ok()?.checked_mul(8)?;
        if self.is_signed() {
            return Some((-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1));
        }
        self.is_unsigned().then(|| (0, (1i128 << bits) - 1))
    }

    /// Returns the common type of both, like `numpy.promote_types`.
    pub fn promote(self, other: Kind) -> Kind {
        let (small, large) = if self.size() <= other.size() { (self, other) } else { (other, self) };
        match (small, large) {
            (a, b) if a == b => a,
            (Kind::Bool, other) | (other, Kind::Bool) => other,
            (Kind::Float64, _) | (_, Kind::Float64) => Kind::Float64,
            (Kind::Float32, other) | (other, Kind::Float32) => {
                if other.size() <= 2 {
                    Kind::Float32
                } else {
                    Kind::Float64
                }
            }
            (a, b) if a.is_signed() == b.is_signed() => b,
            // One is signed, the other is not: the signed one has to be larger.
            (a, b) if a.size() < b.size() && b.is_signed() => b,
            (_, Kind::UInt8 | Kind::Int8) => Kind::Int16,
            (_, Kind::UInt16 | Kind::Int16) => Kind::Int32,
            (_, Kind::UInt32 | Kind::Int32) => Kind::Int64,
            _ => Kind::Float64,
        }
    }
}
