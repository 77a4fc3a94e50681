//! Nearest `float32` of the quotient of two `float64`, eight at once and without a division where the
//! processor permits.
//!
//! Processors divide eight `f64` in 16 to 24 cycles, unpipelined; an estimate of the divisor's reciprocal and
//! five multiplications take half as long. Their result differs from the true division by at most two units
//! in the last, the 53rd, place. Both round to the same `float32`, with 24 places, unless a midpoint of two
//! of these is that near: then, and if any of them is not a normal number, all eight are divided. The results
//! are thus bit-identical to a division, for sums, differences and products of `f32` and of 16-bit integers;
//! for arbitrary `f64` intermediate values may underflow.

use super::kernels::{OutputBytes, map2_by};
use super::lanes::Lane;
use super::widened::plain_float;
use crate::error::Result;

/// Writes to `out`, for each pair of elements, the quotient of the two terms that `terms` computes.
///
/// # Errors
/// `Worker` when the memory has the wrong size.
pub(super) fn quotients<T: Lane>(
    a: &[u8],
    b: &[u8],
    out: &mut OutputBytes,
    terms: impl Fn(T, T) -> (f64, f64),
) -> Result<()> {
    let done = wide::by_multiplying(a, b, out, &terms);
    let (inputs, outputs) = (done * size_of::<T>(), done * size_of::<f32>());
    let rest = |bytes: &'_ [u8]| inputs..bytes.len();
    let (a, b) = (a.get(rest(a)).unwrap_or_default(), b.get(rest(b)).unwrap_or_default());
    let out = out.get_mut(outputs..).unwrap_or_default();
    map2_by::<true, T, T, f32>(a, b, out, |a, b| {
        let (over, under) = terms(a, b);
        plain_float(over / under)
    })
}

#[cfg(not(target_arch = "x86_64"))]
mod wide {
    use super::{Lane, OutputBytes};

    /// Not available on this architecture.
    pub(super) fn by_multiplying<T: Lane>(
        _: &[u8],
        _: &[u8],
        _: &OutputBytes,
        _: &impl Fn(T, T) -> (f64, f64),
    ) -> usize {
        0
    }
}

#[cfg(target_arch = "x86_64")]
mod wide {
    use super::{Lane, OutputBytes, plain_float};
    use crate::expression::lanes::{view, view_mut};
    use crate::expression::wide::has_avx512;
    use std::arch::x86_64::{
        _CMP_EQ_OQ, _CMP_GE_OQ, _MM_HINT_T0, _mm_prefetch, _mm256_storeu_ps, _mm512_abs_pd, _mm512_and_si512,
        _mm512_castpd_si512, _mm512_cmp_pd_mask, _mm512_cmpgt_epu64_mask, _mm512_cvtpd_ps, _mm512_fmadd_pd,
        _mm512_fnmadd_pd, _mm512_loadu_pd, _mm512_mask_mov_pd, _mm512_mul_pd, _mm512_rcp14_pd,
        _mm512_set1_epi64, _mm512_set1_pd, _mm512_setzero_pd, _mm512_sub_epi64,
    };
    use std::mem::MaybeUninit;

    /// Elements at a time.
    const LANE_COUNT: usize = 8;
    /// Mantissa bits of an `f64` that an `f32` lacks, and their value at a midpoint of two `f32`.
    const DROPPED_BITS_MASK: i64 = (1 << 29) - 1;
    const MIDPOINT_BITS: i64 = 1 << 28;
    /// Distance from a midpoint within which quotients are divided: four times the maximum error.
    const MIDPOINT_MARGIN: i64 = 8;
    /// Prefetch distance of inputs in bytes. The processor does not look that far ahead in a loop this long,
    /// and its own prefetcher stops at the end of a page of 4 KiB.
    const PREFETCH_BYTES: usize = 2048;

    /// Computes as many as possible, from the first on, and returns their number.
    pub(super) fn by_multiplying<T: Lane>(
        a: &[u8],
        b: &[u8],
        out: &mut OutputBytes,
        terms: &impl Fn(T, T) -> (f64, f64),
    ) -> usize {
        let (Some(a), Some(b), Some(out)) = (view::<T>(a), view::<T>(b), view_mut::<f32>(out)) else {
            return 0;
        };
        if !has_avx512() || a.len() != out.len() || b.len() != out.len() {
            return 0;
        }
        // SAFETY: this processor has these instructions.
        unsafe { all(a, b, out, terms) }
    }

    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn all<T: Lane>(
        a: &[T],
        b: &[T],
        out: &mut [MaybeUninit<f32>],
        terms: &impl Fn(T, T) -> (f64, f64),
    ) -> usize {
        let (a, _) = a.as_chunks::<LANE_COUNT>();
        let (b, _) = b.as_chunks::<LANE_COUNT>();
        let (out, _) = out.as_chunks_mut::<LANE_COUNT>();
        let mut done = 0;
        for ((a, b), out) in a.iter().zip(b).zip(out) {
            _mm_prefetch::<_MM_HINT_T0>(a.as_ptr().cast::<i8>().wrapping_add(PREFETCH_BYTES));
            _mm_prefetch::<_MM_HINT_T0>(b.as_ptr().cast::<i8>().wrapping_add(PREFETCH_BYTES));
            let (mut over, mut under) = ([0.0; LANE_COUNT], [0.0; LANE_COUNT]);
            for (((over, under), &a), &b) in over.iter_mut().zip(&mut under).zip(a).zip(b) {
                (*over, *under) = terms(a, b);
            }
            let quotients = divide_lanes(over, under);
            for (out, quotient) in out.iter_mut().zip(quotients) {
                out.write(quotient);
            }
            done += LANE_COUNT;
        }
        done
    }

    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl")]
    fn divide_lanes(over: [f64; LANE_COUNT], under: [f64; LANE_COUNT]) -> [f32; LANE_COUNT] {
        // SAFETY: eight values each.
        let (n, d) = unsafe { (_mm512_loadu_pd(over.as_ptr()), _mm512_loadu_pd(under.as_ptr())) };
        // A reciprocal with an error of 2^-14, then 2^-28; a quotient with 2^-28, then 2^-56 and a rounding.
        let inverse = _mm512_rcp14_pd(d);
        let error = _mm512_fnmadd_pd(d, inverse, _mm512_set1_pd(1.0));
        let inverse = _mm512_fmadd_pd(inverse, error, inverse);
        let nearly = _mm512_mul_pd(n, inverse);
        let rest = _mm512_fnmadd_pd(nearly, d, n);
        // A zero gets its sign from the product.
        let is_zero = _mm512_cmp_pd_mask::<_CMP_EQ_OQ>(nearly, _mm512_setzero_pd());
        let quotient = _mm512_mask_mov_pd(_mm512_fmadd_pd(rest, inverse, nearly), is_zero, nearly);

        let bits = _mm512_castpd_si512(quotient);
        let past = _mm512_sub_epi64(bits, _mm512_set1_epi64(MIDPOINT_BITS - MIDPOINT_MARGIN));
        let past = _mm512_and_si512(past, _mm512_set1_epi64(DROPPED_BITS_MASK));
        let is_far = _mm512_cmpgt_epu64_mask(past, _mm512_set1_epi64(2 * MIDPOINT_MARGIN));
        // Neither NaN nor a subnormal `float32`.
        let usual = _mm512_set1_pd(f64::from(f32::MIN_POSITIVE));
        let is_usual = _mm512_cmp_pd_mask::<_CMP_GE_OQ>(_mm512_abs_pd(quotient), usual);
        let mut all = [0.0; LANE_COUNT];
        if is_far & (is_usual | is_zero) == u8::MAX {
            // SAFETY: room for eight.
            unsafe { _mm256_storeu_ps(all.as_mut_ptr(), _mm512_cvtpd_ps(quotient)) };
        } else {
            for ((quotient, over), under) in all.iter_mut().zip(over).zip(under) {
                *quotient = plain_float(over / under);
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expression::lanes::{bytes, bytes_mut};

    /// Checks that quotients of these pairs are bit-identical to a division.
    fn check(pairs: &[(f64, f64)]) {
        // Elements are indices of pairs, so that any two doubles can be divided.
        let numbers: Vec<u64> = (0..pairs.len() as u64).collect();
        let mut room = vec![0_u64; pairs.len().div_ceil(2)];
        let input = bytes(&numbers, numbers.len() * 8).unwrap();
        let output = bytes_mut(&mut room, pairs.len() * 4).unwrap();
        let pair = |n: u64| pairs[usize::try_from(n).unwrap()];
        quotients(input, input, output, |n: u64, _: u64| pair(n)).unwrap();
        for (n, &(over, under)) in pairs.iter().enumerate() {
            #[expect(clippy::cast_possible_truncation, reason = "one half of the word")]
            let got = (room[n / 2] >> (n % 2 * 32)) as u32;
            let want = plain_float(over / under);
            assert_eq!(got, want.to_bits(), "{over:e} / {under:e}: {} for {want}", f32::from_bits(got));
        }
    }

    /// Returns random bits.
    fn bits(state: &mut u64) -> u64 {
        *state ^= *state << 13;
        *state ^= *state >> 7;
        *state ^= *state << 17;
        *state
    }

    const SEED: u64 = 0x9e37_79b9_7f4a_7c15;
    const RANDOM_COUNT: usize = 200_000;

    #[test]
    fn sums_of_floats_are_divided() {
        let mut state = SEED;
        let mut float = |mask: u32, bias: u32| {
            let bits = bits(&mut state).to_le_bytes();
            let bits = u32::from_le_bytes([bits[0], bits[1], bits[2], bits[3]]);
            f64::from(f32::from_bits(bits & mask | bias))
        };
        for (mask, bias) in
            [(u32::MAX, 0), (0x007f_ffff, 0x3f80_0000), (0x01ff_ffff, 0x3e80_0000), (0x807f_ffff, 0)]
        {
            let mut pair = || (float(mask, bias), float(mask, bias));
            let sums: Vec<_> = (0..RANDOM_COUNT).map(|_| pair()).map(|(a, b)| (a - b, a + b)).collect();
            check(&sums);
        }
    }

    #[test]
    fn any_doubles_are_divided() {
        let mut state = SEED;
        let pairs: Vec<_> = (0..RANDOM_COUNT)
            .map(|_| (f64::from_bits(bits(&mut state)), f64::from_bits(bits(&mut state))))
            .collect();
        check(&pairs);
    }

    /// Divides products of a divisor and a midpoint of two `float32`, and their neighbours, where an error in
    /// the last place would show.
    #[test]
    fn quotients_near_a_middle_are_divided() {
        let mut state = SEED;
        let mut pairs = Vec::new();
        for _ in 0..RANDOM_COUNT / 8 {
            let under = f64::from_bits(bits(&mut state) & ((1 << 52) - 1) | 1023 << 52);
            let middle = f64::from_bits(bits(&mut state) & ((1 << 52) - (1 << 29)) | 1023 << 52 | 1 << 28);
            let over = (middle * under).to_bits();
            pairs.extend((0..9).map(|n| (f64::from_bits(over - 4 + n), under)));
            // A divisor with few significant bits, so that the quotient is the midpoint itself.
            pairs.push((middle * 3.0, 3.0));
            pairs.push((middle * -8.0, 8.0));
        }
        check(&pairs);
    }

    #[test]
    fn odd_values_are_divided() {
        let odd = [
            0.0,
            -0.0,
            1.0,
            -3.0,
            f64::NAN,
            -f64::NAN,
            f64::INFINITY,
            f64::NEG_INFINITY,
            f64::MAX,
            f64::MIN_POSITIVE,
            5e-324,
            f64::from(f32::MAX),
            f64::from(f32::MIN_POSITIVE),
            1e-45,
            1.5e-45,
        ];
        let pairs: Vec<_> = odd.iter().flat_map(|&over| odd.map(|under| (over, under))).collect();
        check(&pairs);
        // Also each alone among normal values: the others of its eight are divided with it.
        for &pair in &pairs {
            let mut eight = [(1.0, 3.0); 8];
            eight[5] = pair;
            check(&eight);
        }
    }

    #[test]
    fn what_is_left_over_is_divided() {
        for length in 0..40 {
            check(&vec![(2.0, 7.0); length]);
        }
        let (words, mut room) = ([0_u64; 3], [0_u64; 1]);
        let mut given = |a: usize, b: usize| {
            let out = bytes_mut(&mut room, 8).unwrap();
            quotients(bytes(&words, a).unwrap(), bytes(&words, b).unwrap(), out, |_: u64, _: u64| (1.0, 1.0))
        };
        assert!(given(16, 16).is_ok());
        assert!(given(24, 16).is_err() && given(16, 8).is_err());
    }
}
