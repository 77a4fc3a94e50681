//! Element types with the arithmetic of C++ on x86-64, which SZ3's compressor used to check its errors.

use crate::Result;
use crate::codec::resize;

/// Element type.
pub(crate) trait Value: Copy + Default {
    /// Size in bytes.
    const SIZE_BYTES: usize;

    /// Converts `SIZE_BYTES` little-endian bytes.
    fn read(bytes: &[u8]) -> Self;

    /// Appends the values, little-endian.
    ///
    /// # Errors
    /// Limit if there is no memory.
    fn write(values: &[Self], to: &mut Vec<u8>) -> Result<()>;

    fn to_f64(self) -> f64;

    /// Converts from `f64`; integer types truncate.
    fn from_f64(value: f64) -> Self;

    fn from_f32(value: f32) -> Self;

    /// Returns `self · factor`.
    fn times(self, factor: i8) -> Self;

    /// Returns `self + other · factor`.
    fn plus(self, other: Self, factor: i8) -> Self;

    /// Returns `self + other · index`.
    fn plus_product(self, other: Self, index: usize) -> Self;

    /// Returns the sum of values times factors, from left to right, divided by `divisor`, computed in the
    /// type to which C promotes this one.
    fn mean<const N: usize>(terms: [(Self, i8); N], divisor: u8) -> Self;
}

macro_rules! float {
    ($type:ty) => {
        impl Value for $type {
            const SIZE_BYTES: usize = size_of::<Self>();

            fn read(bytes: &[u8]) -> Self {
                bytes.try_into().map_or(0.0, Self::from_le_bytes)
            }

            fn write(values: &[Self], to: &mut Vec<u8>) -> Result<()> {
                let start = to.len();
                resize(to, start.saturating_add(size_of_val(values)))?;
                let (to, _) = to.get_mut(start..).unwrap_or_default().as_chunks_mut();
                to.iter_mut().zip(values).for_each(|(to, value)| *to = value.to_le_bytes());
                Ok(())
            }

            fn to_f64(self) -> f64 {
                self.into()
            }

            #[expect(clippy::allow_attributes, reason = "f64 is not narrowed, f32 is")]
            #[allow(clippy::cast_possible_truncation, reason = "rounded to the nearest")]
            fn from_f64(value: f64) -> Self {
                value as Self
            }

            fn from_f32(value: f32) -> Self {
                value.into()
            }

            fn times(self, factor: i8) -> Self {
                self * Self::from(factor)
            }

            fn plus(self, other: Self, factor: i8) -> Self {
                self + other * Self::from(factor)
            }

            fn plus_product(self, other: Self, index: usize) -> Self {
                self + other * (index as Self)
            }

            fn mean<const N: usize>(terms: [(Self, i8); N], divisor: u8) -> Self {
                let products = terms.into_iter().map(|(value, factor)| value * Self::from(factor));
                products.reduce(|sum, product| sum + product).unwrap_or_default() / Self::from(divisor)
            }
        }
    };
}

macro_rules! integer {
    ($type:ty, $promoted:ty, $from_f64:expr) => {
        #[expect(clippy::allow_attributes, reason = "these lints are about some of the types only")]
        #[allow(clippy::cast_possible_truncation, clippy::cast_lossless, reason = "as C converts")]
        impl Value for $type {
            const SIZE_BYTES: usize = size_of::<Self>();

            fn read(bytes: &[u8]) -> Self {
                bytes.try_into().map_or(0, Self::from_le_bytes)
            }

            fn write(values: &[Self], to: &mut Vec<u8>) -> Result<()> {
                let start = to.len();
                resize(to, start.saturating_add(size_of_val(values)))?;
                let (to, _) = to.get_mut(start..).unwrap_or_default().as_chunks_mut();
                to.iter_mut().zip(values).for_each(|(to, value)| *to = value.to_le_bytes());
                Ok(())
            }

            fn to_f64(self) -> f64 {
                self as f64
            }

            fn from_f64(value: f64) -> Self {
                $from_f64(value) as Self
            }

            fn from_f32(value: f32) -> Self {
                Self::from_f64(value.into())
            }

            fn times(self, factor: i8) -> Self {
                self.wrapping_mul(factor as Self)
            }

            fn plus(self, other: Self, factor: i8) -> Self {
                self.wrapping_add(other.wrapping_mul(factor as Self))
            }

            fn plus_product(self, other: Self, index: usize) -> Self {
                self.wrapping_add(other.wrapping_mul(index as Self))
            }

            fn mean<const N: usize>(terms: [(Self, i8); N], divisor: u8) -> Self {
                let products =
                    terms.map(|(value, factor)| (value as $promoted).wrapping_mul(factor as $promoted));
                let sum = products.into_iter().fold(0, <$promoted>::wrapping_add);
                sum.checked_div(divisor as $promoted).unwrap_or_default() as Self
            }
        }
    };
}

float!(f32);
float!(f64);
integer!(i8, i32, to_i32);
integer!(u8, i32, to_i32);
integer!(i16, i32, to_i32);
integer!(u16, i32, to_i32);
integer!(i32, i32, to_i32);
integer!(u32, u32, to_i64);
integer!(i64, i64, to_i64);
integer!(u64, u64, to_u64);

/// Converts as the instruction `cvttsd2si` does: out-of-range values become the smallest number.
#[expect(clippy::cast_possible_truncation, reason = "checked")]
fn to_i32(value: f64) -> i32 {
    if value > -2_147_483_649.0 && value < 2_147_483_648.0 { value as i32 } else { i32::MIN }
}

/// Converts to 64 bits as [`to_i32`] does to 32.
#[expect(clippy::cast_possible_truncation, reason = "checked")]
fn to_i64(value: f64) -> i64 {
    const END: f64 = 9_223_372_036_854_775_808.0;
    if (-END..END).contains(&value) { value as i64 } else { i64::MIN }
}

/// Converts as compilers do, in the absence of an instruction.
fn to_u64(value: f64) -> u64 {
    const HALF: f64 = 9_223_372_036_854_775_808.0;
    if value >= HALF {
        to_i64(value - HALF).cast_unsigned() ^ (1 << 63)
    } else {
        to_i64(value).cast_unsigned()
    }
}
