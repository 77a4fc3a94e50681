//! Element types, with the arithmetic of SZ for each.

use crate::codec::error_bounded::value::Value;

/// Element type.
pub(super) trait Element: Value {
    /// Type of predictions.
    type Sum: Value;

    /// Converts big-endian bytes; missing trailing bytes count as zeros.
    fn from_big_endian(bytes: &[u8]) -> Self;

    fn widen(self) -> Self::Sum;

    /// Returns the prediction plus `count` times `width`.
    fn stepped(prediction: Self::Sum, count: i32, width: f64) -> Self;
}

/// Integer type.
pub(super) trait Integer: Element {
    /// Returns the lowest value plus the stored difference: the first `stored` bytes of `bytes`, big-endian.
    fn restored(bytes: [u8; 8], stored: usize, lowest: i64) -> Self;
}

/// Floating-point type.
pub(super) trait Real: Element<Sum = Self> + PartialOrd {
    /// Size in bytes of the parameters at the start of a stream.
    const PARAMETER_BYTES: usize;

    fn from_i32(value: i32) -> Self;

    fn sum(self, other: Self) -> Self;

    fn product(self, other: Self) -> Self;

    fn quotient(self, other: Self) -> Self;

    fn absolute(self) -> Self;

    /// Negates the value.
    fn opposite(self) -> Self;

    /// Returns the negative of the absolute value.
    fn negative(self) -> Self;
}

macro_rules! real {
    ($type:ty, $parameters:expr) => {
        impl Element for $type {
            type Sum = Self;

            fn from_big_endian(bytes: &[u8]) -> Self {
                Self::from_be_bytes(padded(bytes))
            }

            fn widen(self) -> Self {
                self
            }

            fn stepped(prediction: Self, count: i32, width: f64) -> Self {
                prediction + Self::from_i32(count) * Self::from_f64(width)
            }
        }

        impl Real for $type {
            const PARAMETER_BYTES: usize = $parameters;

            fn from_i32(value: i32) -> Self {
                value as Self
            }

            fn sum(self, other: Self) -> Self {
                self + other
            }

            fn product(self, other: Self) -> Self {
                self * other
            }

            fn quotient(self, other: Self) -> Self {
                self / other
            }

            fn absolute(self) -> Self {
                self.abs()
            }

            fn opposite(self) -> Self {
                -self
            }

            fn negative(self) -> Self {
                -self.abs()
            }
        }
    };
}

macro_rules! integer {
    ($type:ty, $sum:ty, $unsigned:ty, $stepped:expr) => {
        #[expect(clippy::allow_attributes, reason = "these lints are about some of the types only")]
        #[allow(clippy::cast_possible_truncation, clippy::cast_lossless, reason = "as C converts")]
        impl Element for $type {
            type Sum = $sum;

            fn from_big_endian(bytes: &[u8]) -> Self {
                Self::from_be_bytes(padded(bytes))
            }

            fn widen(self) -> $sum {
                self as $sum
            }

            fn stepped(prediction: $sum, count: i32, width: f64) -> Self {
                let value = <$sum>::from_f64(prediction.to_f64() + f64::from(count) * width);
                $stepped(value)
            }
        }

        #[expect(clippy::allow_attributes, reason = "these lints are about some of the types only")]
        #[allow(clippy::cast_possible_truncation, clippy::cast_lossless, reason = "as C converts")]
        impl Integer for $type {
            fn restored(bytes: [u8; 8], stored: usize, lowest: i64) -> Self {
                let unused = size_of::<Self>().saturating_sub(stored).saturating_mul(8);
                let above = <$unsigned>::from_be_bytes(padded(&bytes)).unbounded_shr(unused as u32);
                (above as Self).wrapping_add(lowest as Self)
            }
        }
    };
}

real!(f32, 28);
real!(f64, 36);
integer!(i8, i64, u8, |value: i64| value.clamp(i8::MIN.into(), i8::MAX.into()) as i8);
integer!(u8, i64, u8, |value: i64| value.clamp(0, u8::MAX.into()) as u8);
integer!(i16, i64, u16, |value: i64| value.clamp(i16::MIN.into(), i16::MAX.into()) as i16);
integer!(u16, i64, u16, |value: i64| value.clamp(0, u16::MAX.into()) as u16);
integer!(i32, i32, u32, |value| value);
integer!(u32, u32, u32, |value| value);
integer!(i64, i64, u64, |value| value);
integer!(u64, u64, u64, |value| value);

/// Returns the first bytes, padded with zeros.
fn padded<const N: usize>(bytes: &[u8]) -> [u8; N] {
    let mut padded = [0; N];
    padded.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    padded
}
