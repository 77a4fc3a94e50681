//! Steps that compute narrower values in `float64` and convert the result: fewer passes, and less memory
//! traffic.

use super::kernels::{OutputBytes, map2, map2_by, unsupported_step};
use super::lanes::Lane;
use super::plan::{Basic, Step};
use super::quotient::quotients;
use crate::error::Result;

/// Returns the nearest `float32`, with a canonical NaN: LuaJIT would mistake other NaNs for its own values.
pub(super) fn plain_float(value: f64) -> f32 {
    const SIGN: u32 = 1 << 31;
    #[expect(clippy::cast_possible_truncation, reason = "rounds to the nearest")]
    let near = value as f32;
    if near.is_nan() { f32::from_bits(near.to_bits() & SIGN | 0x7fc0_0000) } else { near }
}

/// Returns the same value, with a canonical NaN.
pub(super) fn plain_double(value: f64) -> f64 {
    const SIGN: u64 = 1 << 63;
    if value.is_nan() { f64::from_bits(value.to_bits() & SIGN | 0x7ff8 << 48) } else { value }
}

fn basic(operator: Basic, a: f64, b: f64) -> f64 {
    match operator {
        Basic::Add => a + b,
        Basic::Subtract => a - b,
        Basic::Multiply => a * b,
    }
}

pub(super) fn wide<T: Lane + Into<f64>>(step: Step, a: &[u8], b: &[u8], out: &mut OutputBytes) -> Result<()> {
    macro_rules! ratio {
        ($over:ident, $under:ident) => {
            quotients(a, b, out, |a: T, b: T| {
                let (a, b) = (a.into(), b.into());
                (basic(Basic::$over, a, b), basic(Basic::$under, a, b))
            })
        };
    }
    use Basic::{Add, Multiply, Subtract};
    match step {
        Step::Wide(Add) => map2(a, b, out, |a: T, b: T| basic(Add, a.into(), b.into())),
        Step::Wide(Subtract) => map2(a, b, out, |a: T, b: T| basic(Subtract, a.into(), b.into())),
        Step::Wide(Multiply) => map2(a, b, out, |a: T, b: T| basic(Multiply, a.into(), b.into())),
        Step::WideDivide => map2_by::<true, _, _, _>(a, b, out, |a: T, b: T| a.into() / b.into()),
        Step::WideRatio(Add, Add) => ratio!(Add, Add),
        Step::WideRatio(Add, Subtract) => ratio!(Add, Subtract),
        Step::WideRatio(Add, Multiply) => ratio!(Add, Multiply),
        Step::WideRatio(Subtract, Add) => ratio!(Subtract, Add),
        Step::WideRatio(Subtract, Subtract) => ratio!(Subtract, Subtract),
        Step::WideRatio(Subtract, Multiply) => ratio!(Subtract, Multiply),
        Step::WideRatio(Multiply, Add) => ratio!(Multiply, Add),
        Step::WideRatio(Multiply, Subtract) => ratio!(Multiply, Subtract),
        Step::WideRatio(Multiply, Multiply) => ratio!(Multiply, Multiply),
        _ => unsupported_step(step),
    }
}
