//! Evaluation kernels of tests: one result bit for each value, computed with the widest vector registers of
//! the processor.

use super::bound::{Half, Op, Test};
use arrow_array::types::{
    ArrowPrimitiveType, Float16Type, Float32Type, Float64Type, Int8Type, Int16Type, Int32Type, Int64Type,
    UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{Array, PrimitiveArray};
use arrow_buffer::ScalarBuffer;
use std::ops::Range;

/// Number of result bits in a word.
pub(super) const WORD_BITS: usize = 64;

/// Returns the number of words for the result bits of rows.
pub(super) fn count_words(rows: usize) -> usize {
    rows.div_ceil(WORD_BITS)
}

/// The values of a column, by type.
#[derive(Debug, Clone)]
pub(super) enum Values {
    /// For tests that use no values.
    Any,
    I8(ScalarBuffer<i8>),
    I16(ScalarBuffer<i16>),
    I32(ScalarBuffer<i32>),
    I64(ScalarBuffer<i64>),
    U8(ScalarBuffer<u8>),
    U16(ScalarBuffer<u16>),
    U32(ScalarBuffer<u32>),
    U64(ScalarBuffer<u64>),
    F16(ScalarBuffer<Half>),
    F32(ScalarBuffer<f32>),
    F64(ScalarBuffer<f64>),
}

impl Values {
    /// Returns the values of a column for a test; `None` if its type does not match.
    pub(super) fn new(column: &dyn Array, test: Test) -> Option<Self> {
        fn of<T: ArrowPrimitiveType>(column: &dyn Array) -> Option<ScalarBuffer<T::Native>> {
            // Dates and times are treated as their underlying integers.
            let data = column.to_data();
            if data.data_type().primitive_width()? != size_of::<T::Native>() {
                return None;
            }
            let data = data.into_builder().data_type(T::DATA_TYPE).build().ok()?;
            Some(PrimitiveArray::<T>::from(data).values().clone())
        }
        Some(match test {
            Test::Always(_) => Self::Any,
            Test::I8(..) => Self::I8(of::<Int8Type>(column)?),
            Test::I16(..) => Self::I16(of::<Int16Type>(column)?),
            Test::I32(..) => Self::I32(of::<Int32Type>(column)?),
            Test::I64(..) => Self::I64(of::<Int64Type>(column)?),
            Test::U8(..) => Self::U8(of::<UInt8Type>(column)?),
            Test::U16(..) => Self::U16(of::<UInt16Type>(column)?),
            Test::U32(..) => Self::U32(of::<UInt32Type>(column)?),
            Test::U64(..) => Self::U64(of::<UInt64Type>(column)?),
            Test::F16(..) => Self::F16(of::<Float16Type>(column)?),
            Test::F32(..) => Self::F32(of::<Float32Type>(column)?),
            Test::F64(..) => Self::F64(of::<Float64Type>(column)?),
        })
    }

    /// Evaluates a test of rows; bits after the last row are false. All are false if the values do not match
    /// the test.
    pub(super) fn test(&self, test: Test, rows: Range<usize>, out: &mut [u64]) {
        let out = out.get_mut(..count_words(rows.len())).unwrap_or_default();
        macro_rules! with {
            ($($kind:ident),*) => {
                match (self, test) {
                    (_, Test::Always(true)) => all(rows.len(), out),
                    $((Self::$kind(values), Test::$kind(op, bound)) => {
                        compare(values.get(rows).unwrap_or_default(), op, bound, out);
                    })*
                    _ => out.fill(0),
                }
            };
        }
        with!(I8, I16, I32, I64, U8, U16, U32, U64, F16, F32, F64);
    }
}

/// Sets the bits of rows to true, and the remaining bits to false.
pub(super) fn all(rows: usize, out: &mut [u64]) {
    out.fill(u64::MAX);
    if let Some(last) = out.last_mut()
        && !rows.is_multiple_of(WORD_BITS)
    {
        *last = (1 << (rows % WORD_BITS)) - 1;
    }
}

/// The vector instruction sets of the processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Any,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

impl Level {
    fn best() -> Self {
        #[cfg(target_arch = "x86_64")]
        {
            if std::is_x86_feature_detected!("avx512bw") && std::is_x86_feature_detected!("avx512vl") {
                return Self::Avx512;
            }
            if std::is_x86_feature_detected!("avx2") {
                return Self::Avx2;
            }
        }
        Self::Any
    }
}

fn compare<T: Copy + PartialOrd>(values: &[T], op: Op, bound: T, out: &mut [u64]) {
    compare_at(Level::best(), values, op, bound, out);
}

fn compare_at<T: Copy + PartialOrd>(level: Level, values: &[T], op: Op, bound: T, out: &mut [u64]) {
    match level {
        Level::Any => by_op(values, op, bound, out, packed),
        #[cfg(target_arch = "x86_64")]
        // SAFETY: this level is returned only on a processor that has it.
        Level::Avx2 => unsafe { avx2(values, op, bound, out) },
        #[cfg(target_arch = "x86_64")]
        // SAFETY: as above.
        Level::Avx512 => unsafe { avx512(values, op, bound, out) },
    }
}

/// Packs 64 bytes, each 0 or 255, into the bits of a word.
#[inline(always)]
fn packed(boolean_buffer: &[u8; WORD_BITS]) -> u64 {
    let (parts, _) = boolean_buffer.as_chunks::<8>();
    parts.iter().enumerate().fold(0, |word, (place, part)| {
        let lowest = u64::from_le_bytes(*part) & 0x0101_0101_0101_0101;
        word | (lowest.wrapping_mul(0x0102_0408_1020_4080) >> 56) << (8 * place)
    })
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn avx2<T: Copy + PartialOrd>(values: &[T], op: Op, bound: T, out: &mut [u64]) {
    use std::arch::x86_64::{__m256i, _mm256_loadu_si256, _mm256_movemask_epi8};
    by_op(values, op, bound, out, |boolean_buffer| {
        let (halves, _) = boolean_buffer.as_chunks::<32>();
        halves.iter().enumerate().fold(0, |word, (place, half)| {
            // SAFETY: 32 bytes, and the load needs no alignment.
            let register = unsafe { _mm256_loadu_si256(half.as_ptr().cast::<__m256i>()) };
            let bits = _mm256_movemask_epi8(register).cast_unsigned();
            word | u64::from(bits) << (32 * place)
        })
    });
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,avx512f,avx512bw,avx512vl")]
fn avx512<T: Copy + PartialOrd>(values: &[T], op: Op, bound: T, out: &mut [u64]) {
    use std::arch::x86_64::{_mm512_loadu_epi8, _mm512_movepi8_mask};
    by_op(values, op, bound, out, |boolean_buffer| {
        // SAFETY: 64 bytes, and the load needs no alignment.
        let register = unsafe { _mm512_loadu_epi8(boolean_buffer.as_ptr().cast()) };
        _mm512_movepi8_mask(register)
    });
}

#[inline(always)]
fn by_op<T: Copy + PartialOrd>(
    values: &[T],
    op: Op,
    bound: T,
    out: &mut [u64],
    pack: impl Fn(&[u8; WORD_BITS]) -> u64,
) {
    match op {
        Op::Equal => each(values, out, |value| value == bound, pack),
        Op::NotEqual => each(values, out, |value| value != bound, pack),
        Op::Less => each(values, out, |value| value < bound, pack),
        Op::LessOrEqual => each(values, out, |value| value <= bound, pack),
        Op::Greater => each(values, out, |value| value > bound, pack),
        Op::GreaterOrEqual => each(values, out, |value| value >= bound, pack),
        #[expect(clippy::neg_cmp_op_on_partial_ord, reason = "true of what is not a number")]
        Op::NotLessOrEqual => each(values, out, |value| !(value <= bound), pack),
        #[expect(clippy::neg_cmp_op_on_partial_ord, reason = "true of what is not a number")]
        Op::NotLess => each(values, out, |value| !(value < bound), pack),
    }
}

#[inline(always)]
fn each<T: Copy>(
    values: &[T],
    out: &mut [u64],
    holds: impl Fn(T) -> bool,
    pack: impl Fn(&[u8; WORD_BITS]) -> u64,
) {
    let (lines, rest) = values.as_chunks::<WORD_BITS>();
    let mut out = out.iter_mut();
    for (line, word) in lines.iter().zip(&mut out) {
        let mut boolean_buffer = [0_u8; WORD_BITS];
        for (truth, value) in boolean_buffer.iter_mut().zip(line) {
            *truth = 0_u8.wrapping_sub(u8::from(holds(*value)));
        }
        *word = pack(&boolean_buffer);
    }
    if let Some(word) = out.next() {
        *word = rest.iter().rev().fold(0, |word, value| word << 1 | u64::from(holds(*value)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OPS: [Op; 8] = [
        Op::Equal,
        Op::NotEqual,
        Op::Less,
        Op::LessOrEqual,
        Op::Greater,
        Op::GreaterOrEqual,
        Op::NotLessOrEqual,
        Op::NotLess,
    ];

    fn levels() -> Vec<Level> {
        #[cfg(target_arch = "x86_64")]
        let all = vec![Level::Any, Level::Avx2, Level::Avx512];
        #[cfg(not(target_arch = "x86_64"))]
        let all = vec![Level::Any];
        all.into_iter().filter(|level| *level <= Level::best()).collect()
    }

    #[expect(clippy::neg_cmp_op_on_partial_ord, reason = "true of what is not a number")]
    fn holds<T: PartialOrd>(op: Op, value: T, bound: T) -> bool {
        match op {
            Op::Equal => value == bound,
            Op::NotEqual => value != bound,
            Op::Less => value < bound,
            Op::LessOrEqual => value <= bound,
            Op::Greater => value > bound,
            Op::GreaterOrEqual => value >= bound,
            Op::NotLessOrEqual => !(value <= bound),
            Op::NotLess => !(value < bound),
        }
    }

    #[track_caller]
    fn check<T: Copy + PartialOrd>(few: &[T]) {
        let values: Vec<T> = (0..1000).map(|at| few[(at * at + at / 7) % few.len()]).collect();
        for level in levels() {
            for bound in few {
                for op in OPS {
                    for count in [0, 1, 63, 64, 65, 128, 999, 1000] {
                        let mut out = vec![u64::MAX; count_words(count)];
                        compare_at(level, &values[..count], op, *bound, &mut out);
                        for (at, value) in values[..count].iter().enumerate() {
                            let found = out[at / WORD_BITS] >> (at % WORD_BITS) & 1 == 1;
                            assert_eq!(found, holds(op, *value, *bound), "{level:?} {op:?} {at}");
                        }
                        let set: usize = out.iter().map(|word| word.count_ones() as usize).sum();
                        let expected =
                            values[..count].iter().filter(|value| holds(op, **value, *bound)).count();
                        assert_eq!(set, expected, "{level:?} {op:?} {count}");
                    }
                }
            }
        }
    }

    #[test]
    fn every_type_op_and_level() {
        check(&[i8::MIN, -1, 0, 1, i8::MAX]);
        check(&[i16::MIN, -1, 0, 1, i16::MAX]);
        check(&[i32::MIN, -1, 0, 1, i32::MAX]);
        check(&[i64::MIN, -1, 0, 1, i64::MAX]);
        check(&[0, 1, 127, 128, u8::MAX]);
        check(&[0, 1, 1 << 15, u16::MAX]);
        check(&[0, 1, 1 << 31, u32::MAX]);
        check(&[0, 1, 1 << 63, u64::MAX]);
        check(&[
            f32::NEG_INFINITY,
            -1.5,
            -0.0,
            0.0,
            f32::MIN_POSITIVE,
            1e-45,
            f32::MAX,
            f32::INFINITY,
            f32::NAN,
        ]);
        check(&[f64::NEG_INFINITY, -1.5, -0.0, 0.0, f64::MIN_POSITIVE, 5e-324, f64::INFINITY, f64::NAN]);
        check(&[-1.5, 0.0, -0.0, 65504.0, f64::NAN].map(Half::from_f64));
    }

    #[test]
    fn all_rows() {
        let mut out = [7; 3];
        all(130, &mut out);
        assert_eq!(out, [u64::MAX, u64::MAX, 3]);
        all(192, &mut out);
        assert_eq!(out, [u64::MAX; 3]);
        all(0, &mut []);
    }
}
