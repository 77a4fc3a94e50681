//! Minimum, maximum and sum of numbers in one pass, and byte swapping, with AVX2 and later
//! instructions. Compilers vectorize such loops for some types only, and for different ones in each
//! version.

#[allow(clippy::wildcard_imports, reason = "processor intrinsics have a module of their own")]
use std::arch::x86_64::*;

/// Number of accumulator registers that are used in turn, to hide the latency of each result.
const ACCUMULATOR_COUNT: usize = 4;

/// Returns the numbers in a register.
fn held<V: Copy, N: Copy, const COUNT: usize>(register: V) -> [N; COUNT] {
    const { assert!(size_of::<V>() == size_of::<[N; COUNT]>()) };
    // SAFETY: the sizes are equal, and the numbers are plain; only functions of this file call it.
    unsafe { std::mem::transmute_copy(&register) }
}

/// Combines several registers into one, pairwise.
macro_rules! joined {
    ($join:ident, $registers:expr) => {
        $join($join($registers[0], $registers[1]), $join($registers[2], $registers[3]))
    };
}

/// Defines a function that returns minimum, maximum and sum; for no elements, the extremes are the
/// opposite ends of the type. `$min` and `$max` must return their second argument, the previous
/// extreme, if the first is NaN.
macro_rules! kernel {
    (
        $name:ident of $type:ty: $fill:ident, $load:ident, $min:ident, $max:ident, from $low:expr, $high:expr;
        sums of $lane:ty: $zero:expr, $join:ident, |$sums:ident, $at:ident, $value:ident, $place:ident| $add:expr; each less by $less:expr
    ) => {
        #[target_feature(enable = "avx2")]
        #[allow(
            clippy::cast_precision_loss,
            clippy::cast_lossless,
            clippy::cast_possible_wrap,
            clippy::cast_ptr_alignment,
            reason = "sums are floating-point numbers; loads need no alignment"
        )]
        pub(super) fn $name(values: &[$type]) -> ($type, $type, f64) {
            const LANES: usize = 32 / size_of::<$type>();
            let (mut low, mut high) =
                ([$fill($high as _); ACCUMULATOR_COUNT], [$fill($low as _); ACCUMULATOR_COUNT]);
            let (mut least, mut most, mut total) = ($high, $low, 0.0);
            // Number of elements whose sums fit into the lanes for small integers.
            for values in values.chunks(1 << 14) {
                let mut $sums = [$zero; ACCUMULATOR_COUNT];
                let (lines, rest) = values.as_chunks::<{ ACCUMULATOR_COUNT * LANES }>();
                for line in lines {
                    for $at in 0..ACCUMULATOR_COUNT {
                        let $place = line[$at * LANES..].as_ptr();
                        // SAFETY: a line has ACCUMULATOR_COUNT times LANES elements, and loads need no
                        // alignment.
                        let $value = unsafe { $load($place.cast()) };
                        low[$at] = $min($value, low[$at]);
                        high[$at] = $max($value, high[$at]);
                        $add;
                    }
                }
                let sums: [$lane; 32 / size_of::<$lane>()] = held(joined!($join, $sums));
                total += sums.iter().map(|sum| *sum as f64).sum::<f64>();
                total += lines.as_flattened().len() as f64 * $less;
                for value in rest {
                    least = if *value < least { *value } else { least };
                    most = if *value > most { *value } else { most };
                    total += *value as f64;
                }
            }
            let (low, high): ([$type; LANES], [$type; LANES]) =
                (held(joined!($min, low)), held(joined!($max, high)));
            for (low, high) in low.into_iter().zip(high) {
                least = if low < least { low } else { least };
                most = if high > most { high } else { most };
            }
            (least, most, total)
        }
    };
}

/// Widens the two halves of a register's elements and adds them to two sums.
macro_rules! halves {
    ($sums:ident, $at:ident, $place:ident, $half:expr, $load:ident, $widen:ident, $add:ident) => {{
        // SAFETY: all of the register's elements can be read, so each half of them can; loads need
        // no alignment.
        let (first, second) = unsafe { ($load($place.cast()), $load($place.add($half).cast())) };
        let (one, other) = (2 * $at % ACCUMULATOR_COUNT, (2 * $at + 1) % ACCUMULATOR_COUNT);
        $sums[one] = $add($sums[one], $widen(first));
        $sums[other] = $add($sums[other], $widen(second));
    }};
}

kernel!(
    f32s of f32: _mm256_set1_ps, _mm256_loadu_ps, _mm256_min_ps, _mm256_max_ps, from f32::NEG_INFINITY, f32::INFINITY;
    sums of f64: _mm256_setzero_pd(), _mm256_add_pd,
    |sums, at, value, place| halves!(sums, at, place, 4, _mm_loadu_ps, _mm256_cvtps_pd, _mm256_add_pd);
    each less by 0.0
);
kernel!(
    f64s of f64: _mm256_set1_pd, _mm256_loadu_pd, _mm256_min_pd, _mm256_max_pd, from f64::NEG_INFINITY, f64::INFINITY;
    sums of f64: _mm256_setzero_pd(), _mm256_add_pd, |sums, at, value, place| sums[at] = _mm256_add_pd(sums[at], value);
    each less by 0.0
);
kernel!(
    i8s of i8: _mm256_set1_epi8, _mm256_loadu_si256, _mm256_min_epi8, _mm256_max_epi8, from i8::MIN, i8::MAX;
    sums of i64: _mm256_setzero_si256(), _mm256_add_epi64,
    |sums, at, value, place| {
        let moved = _mm256_xor_si256(value, _mm256_set1_epi8(i8::MIN));
        sums[at] = _mm256_add_epi64(sums[at], _mm256_sad_epu8(moved, _mm256_setzero_si256()));
    };
    each less by -128.0
);
kernel!(
    u8s of u8: _mm256_set1_epi8, _mm256_loadu_si256, _mm256_min_epu8, _mm256_max_epu8, from u8::MIN, u8::MAX;
    sums of i64: _mm256_setzero_si256(), _mm256_add_epi64,
    |sums, at, value, place| {
        sums[at] = _mm256_add_epi64(sums[at], _mm256_sad_epu8(value, _mm256_setzero_si256()));
    };
    each less by 0.0
);
kernel!(
    i16s of i16: _mm256_set1_epi16, _mm256_loadu_si256, _mm256_min_epi16, _mm256_max_epi16, from i16::MIN, i16::MAX;
    sums of i32: _mm256_setzero_si256(), _mm256_add_epi32,
    |sums, at, value, place| {
        sums[at] = _mm256_add_epi32(sums[at], _mm256_madd_epi16(value, _mm256_set1_epi16(1)));
    };
    each less by 0.0
);
kernel!(
    u16s of u16: _mm256_set1_epi16, _mm256_loadu_si256, _mm256_min_epu16, _mm256_max_epu16, from u16::MIN, u16::MAX;
    sums of i32: _mm256_setzero_si256(), _mm256_add_epi32,
    |sums, at, value, place| {
        let moved = _mm256_xor_si256(value, _mm256_set1_epi16(i16::MIN));
        sums[at] = _mm256_add_epi32(sums[at], _mm256_madd_epi16(moved, _mm256_set1_epi16(1)));
    };
    each less by 32768.0
);
kernel!(
    i32s of i32: _mm256_set1_epi32, _mm256_loadu_si256, _mm256_min_epi32, _mm256_max_epi32, from i32::MIN, i32::MAX;
    sums of i64: _mm256_setzero_si256(), _mm256_add_epi64,
    |sums, at, value, place| halves!(sums, at, place, 4, _mm_loadu_si128, _mm256_cvtepi32_epi64, _mm256_add_epi64);
    each less by 0.0
);
kernel!(
    u32s of u32: _mm256_set1_epi32, _mm256_loadu_si256, _mm256_min_epu32, _mm256_max_epu32, from u32::MIN, u32::MAX;
    sums of i64: _mm256_setzero_si256(), _mm256_add_epi64,
    |sums, at, value, place| halves!(sums, at, place, 4, _mm_loadu_si128, _mm256_cvtepu32_epi64, _mm256_add_epi64);
    each less by 0.0
);

/// As `kernel`, for integers of 64 bits: upper and lower halves are summed separately, as unsigned
/// numbers.
macro_rules! wide {
    ($name:ident of $type:ty as $features:literal: $min:ident, $max:ident; flipped by $flipped:expr) => {
        #[target_feature(enable = $features)]
        #[allow(
            clippy::cast_precision_loss,
            clippy::cast_possible_wrap,
            reason = "sums are floating-point numbers; bits stay what they are"
        )]
        pub(super) fn $name(values: &[$type]) -> ($type, $type, f64) {
            const LANES: usize = 4;
            let mut low = [_mm256_set1_epi64x(<$type>::MAX as i64); ACCUMULATOR_COUNT];
            let mut high = [_mm256_set1_epi64x(<$type>::MIN as i64); ACCUMULATOR_COUNT];
            let (mut least, mut most, mut total) = (<$type>::MAX, <$type>::MIN, 0_i128);
            let (lines, rest) = values.as_chunks::<{ ACCUMULATOR_COUNT * LANES }>();
            // Number of lines whose halves fit into the sums.
            for lines in lines.chunks(1 << 28) {
                let (mut lower, mut upper) = (
                    [_mm256_setzero_si256(); ACCUMULATOR_COUNT],
                    [_mm256_setzero_si256(); ACCUMULATOR_COUNT],
                );
                for line in lines {
                    for at in 0..ACCUMULATOR_COUNT {
                        // SAFETY: a line has ACCUMULATOR_COUNT times LANES elements, and loads need no
                        // alignment.
                        let value = unsafe { _mm256_loadu_si256(line[at * LANES..].as_ptr().cast()) };
                        low[at] = $min(value, low[at]);
                        high[at] = $max(value, high[at]);
                        let bits = _mm256_xor_si256(value, _mm256_set1_epi64x($flipped));
                        upper[at] = _mm256_add_epi64(upper[at], _mm256_srli_epi64::<32>(bits));
                        let half = _mm256_blend_epi32::<0b1010_1010>(bits, _mm256_setzero_si256());
                        lower[at] = _mm256_add_epi64(lower[at], half);
                    }
                }
                let sum = |halves: [i64; LANES]| halves.iter().map(|half| i128::from(*half)).sum::<i128>();
                let upper = sum(held(joined!(_mm256_add_epi64, upper)));
                total += (upper << 32) + sum(held(joined!(_mm256_add_epi64, lower)));
                // Flipping the first bit added this amount to each number.
                total -= lines.as_flattened().len() as i128 * i128::from($flipped as u64);
            }
            for value in rest {
                (least, most) = (least.min(*value), most.max(*value));
                total += i128::from(*value);
            }
            let (low, high): ([$type; LANES], [$type; LANES]) =
                (held(joined!($min, low)), held(joined!($max, high)));
            for (low, high) in low.into_iter().zip(high) {
                (least, most) = (least.min(low), most.max(high));
            }
            (least, most, total as f64)
        }
    };
}

/// Defines the minimum or maximum of 64-bit integers, which AVX2 lacks. The first bits of unsigned
/// numbers are flipped before a signed comparison.
macro_rules! chosen {
    ($name:ident, $first:expr, $larger:literal) => {
        #[target_feature(enable = "avx2")]
        fn $name(one: __m256i, other: __m256i) -> __m256i {
            let flipped = _mm256_set1_epi64x($first);
            let (a, b) = (_mm256_xor_si256(one, flipped), _mm256_xor_si256(other, flipped));
            let larger = if $larger { _mm256_cmpgt_epi64(a, b) } else { _mm256_cmpgt_epi64(b, a) };
            _mm256_blendv_epi8(other, one, larger)
        }
    };
}

chosen!(smaller_i64, 0, false);
chosen!(larger_i64, 0, true);
chosen!(smaller_u64, i64::MIN, false);
chosen!(larger_u64, i64::MIN, true);
wide!(i64s_avx2 of i64 as "avx2": smaller_i64, larger_i64; flipped by i64::MIN);
wide!(u64s_avx2 of u64 as "avx2": smaller_u64, larger_u64; flipped by 0_i64);
wide!(i64s_avx512 of i64 as "avx512f,avx512vl": _mm256_min_epi64, _mm256_max_epi64; flipped by i64::MIN);
wide!(u64s_avx512 of u64 as "avx512f,avx512vl": _mm256_min_epu64, _mm256_max_epu64; flipped by 0_i64);

#[target_feature(enable = "avx2")]
pub(super) fn i64s(values: &[i64]) -> (i64, i64, f64) {
    if std::is_x86_feature_detected!("avx512vl") {
        // SAFETY: the processor has the features that the function was compiled for.
        return unsafe { i64s_avx512(values) };
    }
    i64s_avx2(values)
}

#[target_feature(enable = "avx2")]
pub(super) fn u64s(values: &[u64]) -> (u64, u64, f64) {
    if std::is_x86_feature_detected!("avx512vl") {
        // SAFETY: the processor has the features that the function was compiled for.
        return unsafe { u64s_avx512(values) };
    }
    u64s_avx2(values)
}

/// Reverses the bytes of each number of 1, 2, 4, 8 or 16 bytes.
#[target_feature(enable = "avx2")]
#[expect(clippy::cast_possible_truncation, reason = "positions are less than 16")]
pub(super) fn swap_bytes(bytes: &[u8], size: usize, out: &mut [u8]) {
    let places: [u8; 32] = std::array::from_fn(|at| ((at % 16) ^ (size - 1)) as u8);
    // SAFETY: an array of 32 bytes.
    let places = unsafe { _mm256_loadu_si256(places.as_ptr().cast()) };
    let ((lines, rest), (to, tail)) = (bytes.as_chunks::<32>(), out.as_chunks_mut::<32>());
    for (line, to) in lines.iter().zip(to) {
        // SAFETY: both arrays have 32 bytes, and neither need be aligned.
        unsafe {
            let line = _mm256_loadu_si256(line.as_ptr().cast());
            _mm256_storeu_si256(to.as_mut_ptr().cast(), _mm256_shuffle_epi8(line, places));
        }
    }
    for (from, to) in rest.chunks_exact(size).zip(tail.chunks_exact_mut(size)) {
        to.copy_from_slice(from);
        to.reverse();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the two implementations for integers of 64 bits, if the processor supports both.
    #[test]
    fn wide_integers_are_found_either_way() {
        if !std::is_x86_feature_detected!("avx512vl") {
            return;
        }
        let mut state = 3_u64;
        for length in [0, 1, 15, 16, 17, 1000] {
            let values: Vec<u64> = (0..length)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
                    state
                })
                .collect();
            let signed: Vec<i64> = values.iter().map(|value| value.cast_signed()).collect();
            // SAFETY: the processor has the features that the functions were compiled for.
            unsafe {
                assert_eq!(u64s_avx2(&values), u64s_avx512(&values));
                assert_eq!(i64s_avx2(&signed), i64s_avx512(&signed));
            }
        }
    }
}
