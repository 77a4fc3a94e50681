//! Compaction of selected values, with the widest vector registers of the processor.
//!
//! With plain loops here, in the predicates' kernels and without the pool of buffers, a query that selects half the
//! rows costs 1.4 times as much (`bench/arrow/query.py`).

use std::mem::MaybeUninit;

/// Number of bits in a word.
const WORD_BITS: usize = 64;
/// Extra capacity in values that the output needs, since whole registers are written.
pub(super) const SLACK_VALUES: usize = 64;

/// Values that are copied as bytes.
pub(super) trait Compressible: Copy + 'static {
    /// Copies the values whose bits are set in `words`, one word for each line of 64 values; returns their number.
    ///
    /// # Safety
    /// `to` has room for as many values as bits are set, and for [`SLACK_VALUES`] more.
    #[cfg(target_arch = "x86_64")]
    unsafe fn compress_words(lines: &[[Self; WORD_BITS]], words: &[u64], to: *mut Self) -> usize;
}

/// Moves the values whose bits are set to the beginning of `out`; returns their number. Returns `None`
/// and copies nothing, if `words` is too short or there is no room for [`SLACK_VALUES`] more.
pub(super) fn compress<T: Compressible>(
    values: &[T],
    words: &[u64],
    out: &mut [MaybeUninit<T>],
) -> Option<usize> {
    let (lines, rest) = values.as_chunks::<WORD_BITS>();
    let (whole, last) = words.split_at_checked(lines.len())?;
    let last = last.first().copied().unwrap_or(0);
    let count = whole.iter().chain([&last]).map(|word| word.count_ones() as usize).sum::<usize>();
    if out.len() < count.checked_add(SLACK_VALUES)? {
        return None;
    }
    #[cfg(target_arch = "x86_64")]
    // SAFETY: there is room, as has just been checked.
    let mut done = unsafe { T::compress_words(lines, whole, out.as_mut_ptr().cast()) };
    #[cfg(not(target_arch = "x86_64"))]
    let mut done = compress_portable(lines, whole, out);
    for (at, value) in rest.iter().enumerate() {
        if last >> at & 1 == 1
            && let Some(to) = out.get_mut(done)
        {
            to.write(*value);
            done += 1;
        }
    }
    Some(done)
}

fn compress_portable<T: Copy>(lines: &[[T; WORD_BITS]], words: &[u64], out: &mut [MaybeUninit<T>]) -> usize {
    let mut done = 0;
    for (line, word) in lines.iter().zip(words) {
        let mut word = *word;
        let Some(to) = out.get_mut(done..done + word.count_ones() as usize) else { return done };
        done += to.len();
        if word == u64::MAX {
            for (to, value) in to.iter_mut().zip(line) {
                to.write(*value);
            }
            continue;
        }
        for to in to {
            if let Some(value) = line.get(word.trailing_zeros() as usize) {
                to.write(*value);
            }
            word &= word.wrapping_sub(1);
        }
    }
    done
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Compressible, SLACK_VALUES, WORD_BITS, compress_portable};
    use std::arch::x86_64::{
        _mm256_loadu_si256, _mm256_permutevar8x32_epi32, _mm256_storeu_si256, _mm512_loadu_epi8,
        _mm512_loadu_epi16, _mm512_loadu_epi32, _mm512_loadu_epi64, _mm512_maskz_compress_epi8,
        _mm512_maskz_compress_epi16, _mm512_maskz_compress_epi32, _mm512_maskz_compress_epi64,
        _mm512_storeu_epi8, _mm512_storeu_epi16, _mm512_storeu_epi32, _mm512_storeu_epi64,
    };
    use std::mem::MaybeUninit;

    /// Permutations of a register of eight elements that move those with set bits to the front.
    static PERMUTATIONS: [[u32; 8]; 256] = permutations();

    const fn permutations() -> [[u32; 8]; 256] {
        let mut all = [[0; 8]; 256];
        let mut bits = 0;
        while bits < 256 {
            let (mut at, mut done) = (0_u32, 0);
            while at < 8 {
                if bits >> at & 1 == 1 {
                    all[bits][done] = at;
                    done += 1;
                }
                at += 1;
            }
            bits += 1;
        }
        all
    }

    /// The same for a register of four elements of twice the size.
    static WIDE_PERMUTATIONS: [[u32; 8]; 16] = wide_permutations();

    const fn wide_permutations() -> [[u32; 8]; 16] {
        let mut all = [[0; 8]; 16];
        let mut bits = 0;
        while bits < 16 {
            let (mut at, mut done) = (0_u32, 0);
            while at < 4 {
                if bits >> at & 1 == 1 {
                    all[bits][2 * done] = 2 * at;
                    all[bits][2 * done + 1] = 2 * at + 1;
                    done += 1;
                }
                at += 1;
            }
            bits += 1;
        }
        all
    }

    macro_rules! avx512 {
        ($name:ident of $type:ty, $mask:ty as $features:literal: $load:ident, $compress:ident, $store:ident) => {
            /// Moves lines with AVX-512.
            ///
            /// # Safety
            /// As [`Compressible::compress_words`], and the processor has the target features.
            #[target_feature(enable = $features)]
            unsafe fn $name(lines: &[[$type; WORD_BITS]], words: &[u64], to: *mut $type) -> usize {
                const REGISTER_VALUES: usize = 64 / size_of::<$type>();
                let mut done = 0;
                for (line, word) in lines.iter().zip(words) {
                    let mut word = *word;
                    if word == 0 {
                        continue;
                    }
                    let (parts, _) = line.as_chunks::<REGISTER_VALUES>();
                    for part in parts {
                        #[allow(clippy::cast_possible_truncation, reason = "the bits of this register")]
                        let mask = word as $mask;
                        // SAFETY: a register's elements, which need no alignment; after the values moved so
                        // far there is room for one more register.
                        unsafe {
                            let compressed = $compress(mask, $load(part.as_ptr().cast()));
                            $store(to.add(done).cast(), compressed);
                        }
                        done += mask.count_ones() as usize;
                        word = word.checked_shr(<$mask>::BITS).unwrap_or(0);
                    }
                }
                done
            }
        };
    }

    avx512!(bytes of u8, u64 as "avx512f,avx512bw,avx512vbmi2": _mm512_loadu_epi8, _mm512_maskz_compress_epi8, _mm512_storeu_epi8);
    avx512!(pairs of u16, u32 as "avx512f,avx512bw,avx512vbmi2": _mm512_loadu_epi16, _mm512_maskz_compress_epi16, _mm512_storeu_epi16);
    avx512!(fours of u32, u16 as "avx512f": _mm512_loadu_epi32, _mm512_maskz_compress_epi32, _mm512_storeu_epi32);
    avx512!(eights of u64, u8 as "avx512f": _mm512_loadu_epi64, _mm512_maskz_compress_epi64, _mm512_storeu_epi64);

    macro_rules! avx2 {
        ($name:ident of $type:ty: $permutations:ident) => {
            /// Moves lines with AVX2.
            ///
            /// # Safety
            /// As [`Compressible::compress_words`], and the processor has the target features.
            #[target_feature(enable = "avx2,popcnt")]
            unsafe fn $name(lines: &[[$type; WORD_BITS]], words: &[u64], to: *mut $type) -> usize {
                const REGISTER_VALUES: usize = 32 / size_of::<$type>();
                let mut done = 0;
                for (line, word) in lines.iter().zip(words) {
                    let mut word = *word;
                    if word == 0 {
                        continue;
                    }
                    let (parts, _) = line.as_chunks::<REGISTER_VALUES>();
                    for part in parts {
                        let bits = word & ((1 << REGISTER_VALUES) - 1);
                        #[allow(clippy::cast_possible_truncation, reason = "eight bits at most")]
                        if let Some(permutations) = $permutations.get(bits as usize) {
                            // SAFETY: a register's elements, which need no alignment; after the values moved
                            // so far there is room for one more register.
                            unsafe {
                                let permutations = _mm256_loadu_si256(permutations.as_ptr().cast());
                                let values = _mm256_loadu_si256(part.as_ptr().cast());
                                let compressed = _mm256_permutevar8x32_epi32(values, permutations);
                                _mm256_storeu_si256(to.add(done).cast(), compressed);
                            }
                        }
                        done += bits.count_ones() as usize;
                        word >>= REGISTER_VALUES;
                    }
                }
                done
            }
        };
    }

    avx2!(fours_avx2 of u32: PERMUTATIONS);
    avx2!(eights_avx2 of u64: WIDE_PERMUTATIONS);

    /// Moves lines without vector instructions.
    ///
    /// # Safety
    /// As [`Compressible::compress_words`].
    unsafe fn plain<T: Copy>(lines: &[[T; WORD_BITS]], words: &[u64], to: *mut T) -> usize {
        let count: usize = words.iter().map(|word| word.count_ones() as usize).sum();
        // SAFETY: there is room for `count + SLACK_VALUES` values.
        let out =
            unsafe { std::slice::from_raw_parts_mut(to.cast::<MaybeUninit<T>>(), count + SLACK_VALUES) };
        compress_portable(lines, words, out)
    }

    macro_rules! moved {
        ($type:ty: $($name:ident if $($feature:tt)&+),*) => {
            impl Compressible for $type {
                unsafe fn compress_words(lines: &[[Self; WORD_BITS]], words: &[u64], to: *mut Self) -> usize {
                    $(if $(std::is_x86_feature_detected!($feature))&&+ {
                        // SAFETY: by this function's contract, and the processor has the features.
                        return unsafe { $name(lines, words, to) };
                    })*
                    // SAFETY: by this function's contract.
                    unsafe { plain(lines, words, to) }
                }
            }
        };
    }

    moved!(u8: bytes if "avx512bw" & "avx512vbmi2");
    moved!(u16: pairs if "avx512bw" & "avx512vbmi2");
    moved!(u32: fours if "avx512f", fours_avx2 if "avx2" & "popcnt");
    moved!(u64: eights if "avx512f", eights_avx2 if "avx2" & "popcnt");

    #[cfg(test)]
    mod tests {
        use super::super::tests::{check, sample};
        use super::*;

        #[test]
        fn every_way() {
            check(sample::<u8>(), plain);
            check(sample::<u64>(), plain);
            if std::is_x86_feature_detected!("avx2") && std::is_x86_feature_detected!("popcnt") {
                check(sample::<u32>(), fours_avx2);
                check(sample::<u64>(), eights_avx2);
            }
            if std::is_x86_feature_detected!("avx512f") {
                check(sample::<u32>(), fours);
                check(sample::<u64>(), eights);
            }
            if std::is_x86_feature_detected!("avx512bw") && std::is_x86_feature_detected!("avx512vbmi2") {
                check(sample::<u8>(), bytes);
                check(sample::<u16>(), pairs);
            }
        }
    }
}

#[cfg(not(target_arch = "x86_64"))]
mod others {
    macro_rules! moved {
        ($($type:ty),*) => { $(impl super::Compressible for $type {})* };
    }
    moved!(u8, u16, u32, u64);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words with few bits, many, none, all.
    fn words(count: usize) -> Vec<u64> {
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let next = |at: usize| {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            match at % 5 {
                0 => 0,
                1 => u64::MAX,
                2 => state,
                3 => state & state.rotate_left(9) & state.rotate_left(23),
                _ => state | state.rotate_left(9) | state.rotate_left(23),
            }
        };
        (0..count).map(next).collect()
    }

    pub(super) fn sample<T: TryFrom<usize>>() -> Vec<T> {
        (0..64 * 100).map(|at: usize| T::try_from(at % 251).ok().unwrap()).collect()
    }

    pub(super) fn check<T: Copy + PartialEq + std::fmt::Debug + TryFrom<usize>>(
        values: Vec<T>,
        moves: unsafe fn(&[[T; WORD_BITS]], &[u64], *mut T) -> usize,
    ) {
        let (lines, _) = values.as_chunks::<WORD_BITS>();
        let words = words(lines.len());
        let expected: Vec<T> = compressed(&values, &words);
        let end = T::try_from(255).ok().unwrap();
        let mut out = vec![end; expected.len() + SLACK_VALUES];
        // SAFETY: there is room, and the caller has checked the processor's features.
        let done = unsafe { moves(lines, &words, out.as_mut_ptr()) };
        assert_eq!(done, expected.len());
        assert_eq!(out[..expected.len()], expected);
    }

    fn compressed<T: Copy>(values: &[T], words: &[u64]) -> Vec<T> {
        let compressed =
            values.iter().enumerate().filter(|(at, _)| words[at / WORD_BITS] >> (at % WORD_BITS) & 1 == 1);
        compressed.map(|(_, value)| *value).collect()
    }

    #[test]
    fn any_number_of_rows() {
        let values = sample::<u32>();
        for rows in [0_usize, 1, 63, 64, 65, 1000, 6400] {
            let mut words = words(rows.div_ceil(WORD_BITS));
            if rows % WORD_BITS > 0 {
                *words.last_mut().unwrap() &= (1 << (rows % WORD_BITS)) - 1;
            }
            let expected = compressed(&values[..rows], &words);
            let mut out = vec![MaybeUninit::new(7); expected.len() + SLACK_VALUES];
            assert_eq!(compress(&values[..rows], &words, &mut out), Some(expected.len()));
            // SAFETY: these values were written.
            let found = out[..expected.len()].iter().map(|value| unsafe { value.assume_init() });
            let found: Vec<u32> = found.collect();
            assert_eq!(found, expected);
            if rows > 0 {
                assert_eq!(compress(&values[..rows], &words, &mut out[1..]), None);
            }
        }
    }
}
