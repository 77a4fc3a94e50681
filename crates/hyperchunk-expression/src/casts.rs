//! Conversions between kinds: integers saturate as in HDF5, floats are truncated towards 0, and NaN has no
//! integer value.

use super::kernels::{OutputBytes, map1};
use super::lanes::{Lane, view};
use super::{Kind, wide};
use crate::error::{Result, fail};

/// Conversion to another type: integers saturate, floats are truncated and saturate.
trait CastTo<T> {
    fn to(self) -> T;
}

macro_rules! whole_to {
    ($a:ty: $($b:ty)*) => {$(
        impl CastTo<$b> for $a {
            #[allow(clippy::cast_possible_truncation, reason = "clamped before")]
            fn to(self) -> $b {
                const LOW: $a = {
                    let (a, b) = (<$a>::MIN as i128, <$b>::MIN as i128);
                    (if a > b { a } else { b }) as $a
                };
                const HIGH: $a = {
                    let (a, b) = (<$a>::MAX as i128, <$b>::MAX as i128);
                    (if a < b { a } else { b }) as $a
                };
                self.clamp(LOW, HIGH) as $b
            }
        }
    )*};
}
macro_rules! as_is {
    ($a:ty: $($b:ty)*) => {$(
        impl CastTo<$b> for $a {
            #[allow(clippy::cast_possible_truncation, reason = "floats saturate, and round to the nearest float")]
            #[allow(clippy::unnecessary_cast, reason = "the same text for one type as both")]
            fn to(self) -> $b {
                self as $b
            }
        }
    )*};
}
whole_to!(i8: i8 i16 i32 i64 u8 u16 u32 u64);
whole_to!(i16: i8 i16 i32 i64 u8 u16 u32 u64);
whole_to!(i32: i8 i16 i32 i64 u8 u16 u32 u64);
whole_to!(i64: i8 i16 i32 i64 u8 u16 u32 u64);
whole_to!(u8: i8 i16 i32 i64 u8 u16 u32 u64);
whole_to!(u16: i8 i16 i32 i64 u8 u16 u32 u64);
whole_to!(u32: i8 i16 i32 i64 u8 u16 u32 u64);
whole_to!(u64: i8 i16 i32 i64 u8 u16 u32 u64);
as_is!(i8: f32 f64);
as_is!(i16: f32 f64);
as_is!(i32: f32 f64);
as_is!(i64: f32 f64);
as_is!(u8: f32 f64);
as_is!(u16: f32 f64);
as_is!(u32: f32 f64);
as_is!(u64: f32 f64);
as_is!(f32: i8 i16 i32 i64 u8 u16 u32 u64 f32 f64);
as_is!(f64: i8 i16 i32 i64 u8 u16 u32 u64 f32 f64);

/// Rounds a double to odd: to the equal float if there is one, otherwise to the adjacent float whose last bit
/// is 1. Rounding the result to at most 22 bits then gives the same as rounding the double directly.
/// With the nearest float it might not: that one can be a tie although the double is not.
pub(crate) fn round_to_odd(value: f64) -> f32 {
    #[expect(clippy::cast_possible_truncation, reason = "what is lost is looked at")]
    let near = value as f32;
    let (bits, back) = (near.to_bits(), f64::from(near));
    if back == value || near.is_nan() || bits & 1 == 1 {
        return near;
    }
    f32::from_bits(if back.abs() > value.abs() { bits - 1 } else { bits + 1 })
}

pub(crate) fn cast(from: Kind, to: Kind, a: &[u8], out: &mut OutputBytes) -> Result<()> {
    if to == Kind::Bool {
        return match from {
            Kind::Float32 => map1(a, out, |a: f32| u8::from(a != 0.0)),
            Kind::Float64 => map1(a, out, |a: f64| u8::from(a != 0.0)),
            other => match other.size() {
                1 => map1(a, out, |a: u8| u8::from(a != 0)),
                2 => map1(a, out, |a: u16| u8::from(a != 0)),
                4 => map1(a, out, |a: u32| u8::from(a != 0)),
                _ => map1(a, out, |a: u64| u8::from(a != 0)),
            },
        };
    }
    let nan = !to.is_float()
        && match from {
            Kind::Float32 => any::<f32>(a, f32::is_nan),
            Kind::Float64 => any::<f64>(a, f64::is_nan),
            _ => false,
        };
    if nan {
        fail!(
            Failed,
            "a value is NaN, which {} cannot represent; replace it, as in where(isnan(x), -1, x)",
            to.name()
        )
    }
    match from {
        Kind::Bool | Kind::UInt8 => cast_from::<u8>(to, a, out),
        Kind::Int8 => cast_from::<i8>(to, a, out),
        Kind::Int16 => cast_from::<i16>(to, a, out),
        Kind::Int32 => cast_from::<i32>(to, a, out),
        Kind::Int64 => cast_from::<i64>(to, a, out),
        Kind::UInt16 => cast_from::<u16>(to, a, out),
        Kind::UInt32 => cast_from::<u32>(to, a, out),
        Kind::UInt64 => cast_from::<u64>(to, a, out),
        Kind::Float32 => cast_from::<f32>(to, a, out),
        Kind::Float64 => cast_from::<f64>(to, a, out),
    }
}

/// Tests all elements without an early exit, so that it is vectorised.
fn any<T: Lane>(a: &[u8], test: impl Fn(T) -> bool) -> bool {
    let mut found = false;
    wide::each(view::<T>(a).unwrap_or_default().iter(), |&a| found |= test(a));
    found
}

fn cast_from<T>(to: Kind, a: &[u8], out: &mut OutputBytes) -> Result<()>
where
    T: Lane
        + CastTo<i8>
        + CastTo<i16>
        + CastTo<i32>
        + CastTo<i64>
        + CastTo<u8>
        + CastTo<u16>
        + CastTo<u32>
        + CastTo<u64>
        + CastTo<f32>
        + CastTo<f64>,
{
    match to {
        Kind::Int8 => map1(a, out, <T as CastTo<i8>>::to),
        Kind::Int16 => map1(a, out, <T as CastTo<i16>>::to),
        Kind::Int32 => map1(a, out, <T as CastTo<i32>>::to),
        Kind::Int64 => map1(a, out, <T as CastTo<i64>>::to),
        Kind::Bool | Kind::UInt8 => map1(a, out, <T as CastTo<u8>>::to),
        Kind::UInt16 => map1(a, out, <T as CastTo<u16>>::to),
        Kind::UInt32 => map1(a, out, <T as CastTo<u32>>::to),
        Kind::UInt64 => map1(a, out, <T as CastTo<u64>>::to),
        Kind::Float32 => map1(a, out, <T as CastTo<f32>>::to),
        Kind::Float64 => map1(a, out, <T as CastTo<f64>>::to),
    }
}
