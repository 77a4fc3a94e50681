//! Compaction of selected values.

use arrow_buffer::{ArrowNativeType, MutableBuffer};

/// Number of bits in a word.
const WORD_BITS: usize = 64;

/// Appends the values whose bits are set in `words`, one word for 64 values, the lowest bit first. Bits after
/// the last value must not be set.
pub(super) fn compress<T: ArrowNativeType>(values: &[T], words: &[u64], out: &mut MutableBuffer) {
    for (line, word) in values.chunks(WORD_BITS).zip(words) {
        let mut word = *word;
        if word == u64::MAX {
            out.extend_from_slice(line);
            continue;
        }
        out.extend((0..word.count_ones()).map(|_| {
            let at = word.trailing_zeros() as usize;
            word &= word.wrapping_sub(1);
            line.get(at).copied().unwrap_or_default()
        }));
    }
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

    #[track_caller]
    fn check<T: ArrowNativeType>() {
        let values: Vec<T> = (0..6400).map(|at| T::usize_as(at % 251)).collect();
        for rows in [0_usize, 1, 63, 64, 65, 1000, 6400] {
            let mut words = words(rows.div_ceil(WORD_BITS));
            if rows % WORD_BITS > 0 {
                *words.last_mut().unwrap() &= (1 << (rows % WORD_BITS)) - 1;
            }
            let is_set = |at: &usize| words[at / WORD_BITS] >> (at % WORD_BITS) & 1 == 1;
            let expected: Vec<T> = (0..rows).filter(is_set).map(|at| values[at]).collect();
            let mut out = MutableBuffer::new(0);
            out.push(T::usize_as(7));
            compress(&values[..rows], &words, &mut out);
            assert_eq!(out.typed_data::<T>()[1..], expected, "{rows}");
        }
    }

    #[test]
    fn test_compress_any_number_of_rows() {
        check::<u8>();
        check::<u16>();
        check::<u32>();
        check::<u64>();
    }
}
