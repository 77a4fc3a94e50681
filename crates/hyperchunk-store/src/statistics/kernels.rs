//! Loops that compute statistics of the elements of a write.

#[cfg(target_arch = "x86_64")]
mod avx2;

use super::{Extreme, Machine, Statistics};

/// Number of elements that are byte-swapped or aligned at a time.
const TILE_ELEMENTS: usize = 2048;
/// Number of elements compared at a time.
const COMPARED_ELEMENTS: usize = 64;

/// Calls a function that is generic over the number type.
macro_rules! typed {
    ($number:expr, $name:ident($($given:expr),*)) => {
        match $number {
            Machine::F32 => $name::<f32>($($given),*),
            Machine::F64 => $name::<f64>($($given),*),
            Machine::I8 => $name::<i8>($($given),*),
            Machine::I16 => $name::<i16>($($given),*),
            Machine::I32 => $name::<i32>($($given),*),
            Machine::I64 => $name::<i64>($($given),*),
            Machine::U8 => $name::<u8>($($given),*),
            Machine::U16 => $name::<u16>($($given),*),
            Machine::U32 => $name::<u32>($($given),*),
            Machine::U64 => $name::<u64>($($given),*),
        }
    };
}

/// Computes statistics without the positions of the extremes.
pub(super) fn compute_statistics(number: Machine, swapped: bool, bytes: &[u8]) -> Statistics {
    typed!(number, compute(swapped, bytes))
}

/// Returns the position of the first element with a given value.
pub(super) fn find_position(number: Machine, swapped: bool, bytes: &[u8], value: Extreme) -> u64 {
    typed!(number, find_first(swapped, bytes, value))
}

/// A machine number type.
trait Element: Copy + PartialEq + PartialOrd + Default {
    /// Returns minimum and maximum ignoring NaNs, and the sum, which is NaN if any element is.
    fn min_max_sum(values: &[Self]) -> (Self, Self, f64);
    /// Portable version of `min_max_sum`.
    fn min_max_sum_portable(values: &[Self]) -> (Self, Self, f64);
    /// Returns the count and the sum of the elements that are not NaN.
    fn numbers(values: &[Self]) -> (u64, f64);
    /// Loads elements from bytes, swapping the byte order if `swapped`.
    fn load(bytes: &[u8], swapped: bool, values: &mut [Self]);
    fn extreme(self) -> Extreme;
    fn from_extreme(extreme: Extreme) -> Self;
    #[cfg(test)]
    fn float(self) -> f64;
}

macro_rules! element {
    ($type:ty as $bits:ty, $extreme:ident($as:ty), from $low:expr, $high:expr, $kernel:ident) => {
        #[allow(
            clippy::cast_precision_loss,
            clippy::cast_lossless,
            reason = "sums are floating-point numbers"
        )]
        impl Element for $type {
            fn min_max_sum(values: &[Self]) -> (Self, Self, f64) {
                #[cfg(target_arch = "x86_64")]
                if std::is_x86_feature_detected!("avx2") {
                    // SAFETY: the processor has the features that the function was compiled for.
                    return unsafe { avx2::$kernel(values) };
                }
                Self::min_max_sum_portable(values)
            }

            fn min_max_sum_portable(values: &[Self]) -> (Self, Self, f64) {
                const LANES: usize = 16;
                let (mut low, mut high, mut sums) = ([$high; LANES], [$low; LANES], [0.0; LANES]);
                let (lines, rest) = values.as_chunks::<LANES>();
                for line in lines {
                    for lane in 0..LANES {
                        low[lane] = if line[lane] < low[lane] { line[lane] } else { low[lane] };
                        high[lane] = if line[lane] > high[lane] { line[lane] } else { high[lane] };
                        sums[lane] += line[lane] as f64;
                    }
                }
                let (mut least, mut most) = ($high, $low);
                for value in low.iter().chain(rest) {
                    least = if *value < least { *value } else { least };
                }
                for value in high.iter().chain(rest) {
                    most = if *value > most { *value } else { most };
                }
                (least, most, sums.iter().sum::<f64>() + rest.iter().map(|value| *value as f64).sum::<f64>())
            }

            fn numbers(values: &[Self]) -> (u64, f64) {
                #[inline(always)]
                #[allow(clippy::eq_op, reason = "NaN is not equal to itself")]
                fn add(values: &[$type]) -> (u64, f64) {
                    const LANES: usize = 16;
                    let (mut count, mut total) = (0, 0.0);
                    // Maximum count that lanes of 8 bits can hold.
                    for values in values.chunks(LANES * 255) {
                        let (mut counts, mut sums) = ([0 as $bits; LANES], [0.0; LANES]);
                        let (lines, rest) = values.as_chunks::<LANES>();
                        for line in lines {
                            for lane in 0..LANES {
                                let known = line[lane] == line[lane];
                                counts[lane] += known as $bits;
                                sums[lane] += if known { line[lane] as f64 } else { 0.0 };
                            }
                        }
                        for value in rest.iter().filter(|value| *value == *value) {
                            count += 1;
                            total += *value as f64;
                        }
                        count += counts.iter().map(|count| *count as u64).sum::<u64>();
                        total += sums.iter().sum::<f64>();
                    }
                    (count, total)
                }
                #[cfg(target_arch = "x86_64")]
                #[target_feature(enable = "avx2")]
                fn add_avx2(values: &[$type]) -> (u64, f64) {
                    add(values)
                }
                #[cfg(target_arch = "x86_64")]
                if std::is_x86_feature_detected!("avx2") {
                    // SAFETY: the processor has the features that the function was compiled for.
                    return unsafe { add_avx2(values) };
                }
                add(values)
            }

            fn load(bytes: &[u8], swapped: bool, values: &mut [Self]) {
                #[cfg(target_arch = "x86_64")]
                if swapped && std::is_x86_feature_detected!("avx2") {
                    // SAFETY: the bytes of numbers, which may have any value, and a processor with
                    // the features that the function needs.
                    unsafe {
                        let swapped_values =
                            std::slice::from_raw_parts_mut(values.as_mut_ptr().cast(), size_of_val(values));
                        avx2::swap_bytes(bytes, size_of::<$type>(), swapped_values);
                    }
                    return;
                }
                for (value, bytes) in values.iter_mut().zip(bytes.as_chunks().0) {
                    let bits = <$bits>::from_ne_bytes(*bytes);
                    let bits = if swapped { bits.swap_bytes() } else { bits };
                    *value = <$type>::from_ne_bytes(bits.to_ne_bytes());
                }
            }

            fn extreme(self) -> Extreme {
                Extreme::$extreme(self as $as)
            }

            #[allow(
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "an extreme of this type is exact in it; there are no others"
            )]
            fn from_extreme(extreme: Extreme) -> Self {
                match extreme {
                    Extreme::Float(value) => value as Self,
                    Extreme::Signed(value) => value as Self,
                    Extreme::Unsigned(value) => value as Self,
                }
            }

            #[cfg(test)]
            fn float(self) -> f64 {
                self as f64
            }
        }
    };
}

element!(f32 as u32, Float(f64), from f32::NEG_INFINITY, f32::INFINITY, f32s);
element!(f64 as u64, Float(f64), from f64::NEG_INFINITY, f64::INFINITY, f64s);
element!(i8 as u8, Signed(i64), from i8::MIN, i8::MAX, i8s);
element!(i16 as u16, Signed(i64), from i16::MIN, i16::MAX, i16s);
element!(i32 as u32, Signed(i64), from i32::MIN, i32::MAX, i32s);
element!(i64 as u64, Signed(i64), from i64::MIN, i64::MAX, i64s);
element!(u8 as u8, Unsigned(u64), from u8::MIN, u8::MAX, u8s);
element!(u16 as u16, Unsigned(u64), from u16::MIN, u16::MAX, u16s);
element!(u32 as u32, Unsigned(u64), from u32::MIN, u32::MAX, u32s);
element!(u64 as u64, Unsigned(u64), from u64::MIN, u64::MAX, u64s);

/// Calls `each` with the elements, in place or tile by tile, until it returns true.
fn tiles<E: Element>(swapped: bool, bytes: &[u8], each: &mut dyn FnMut(&[E]) -> bool) {
    if !swapped {
        // SAFETY: every pattern of bits is a number of these types; `align_to` checks alignment.
        let (before, values, after) = unsafe { bytes.align_to::<E>() };
        if before.is_empty() && after.is_empty() {
            each(values);
            return;
        }
    }
    let mut tile = [E::default(); TILE_ELEMENTS];
    for bytes in bytes.chunks(size_of_val(&tile)) {
        let values = &mut tile[..bytes.len() / size_of::<E>()];
        E::load(bytes, swapped, values);
        if each(values) {
            return;
        }
    }
}

fn compute<E: Element>(swapped: bool, bytes: &[u8]) -> Statistics {
    let mut all = Statistics::NONE;
    tiles::<E>(swapped, bytes, &mut |values| {
        all.merge(&compute_values(values));
        false
    });
    all
}

fn compute_values<E: Element>(values: &[E]) -> Statistics {
    let (low, high, mut sum) = E::min_max_sum(values);
    let count = values.len() as u64;
    let mut nan = 0;
    if sum.is_nan() {
        let (numbers, total) = E::numbers(values);
        (nan, sum) = (count - numbers, total);
    }
    let (lowest, highest) = (low.extreme(), high.extreme());
    let some = nan < count;
    Statistics { count, nan, min: some.then_some((lowest, 0)), max: some.then_some((highest, 0)), sum }
}

fn find_first<E: Element>(swapped: bool, bytes: &[u8], value: Extreme) -> u64 {
    let (wanted, mut place) = (E::from_extreme(value), 0);
    tiles::<E>(swapped, bytes, &mut |values| {
        for few in values.chunks(COMPARED_ELEMENTS) {
            if few.iter().fold(false, |any, value| any | (*value == wanted)) {
                place += few.iter().position(|value| *value == wanted).unwrap_or_default() as u64;
                return true;
            }
            place += few.len() as u64;
        }
        false
    });
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares the vectorized loops with plain ones, for many lengths and values.
    fn check<E: Element + std::fmt::Debug>(from: impl Fn(u64) -> E) {
        let mut state = 7_u64;
        for length in (0..140).chain([16_383, 16_384, 16_385, 50_001]) {
            let values: Vec<E> = (0..length)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
                    from(state >> 7)
                })
                .collect();
            let ((low, high, sum), (least, most, total)) =
                (E::min_max_sum(&values), E::min_max_sum_portable(&values));
            assert_eq!((low, high), (least, most), "of {length}");
            let room = 1e-12
                * values.iter().map(|value| value.float().abs()).filter(|value| *value >= 0.0).sum::<f64>();
            let numbers = values.iter().filter(|value| !value.float().is_nan());
            let (count, known) = E::numbers(&values);
            assert_eq!(count, numbers.clone().count() as u64);
            let expected: f64 = numbers.map(|value| value.float()).sum();
            let same = |sum: f64, total: f64| {
                sum == total || (sum - total).abs() <= room || (sum.is_nan() && total.is_nan())
            };
            assert!(same(known, expected), "{known} is not {expected}");
            assert!(same(sum, total), "{sum} is not {total}");
        }
    }

    #[test]
    #[expect(clippy::cast_possible_truncation, clippy::cast_precision_loss, reason = "any numbers will do")]
    fn processors_find_the_same() {
        check(|bits| f32::from_bits(bits as u32 & 0xc0ff_ffff));
        check(|bits| (bits as f64 - 1e17) * 1e100);
        check(|bits| if bits % 97 == 0 { f32::NAN } else { bits as f32 });
        check(|bits| if bits % 97 == 0 { f64::NAN } else { -(bits as f64) });
        check(|_| f32::NAN);
        check(|bits| if bits % 2 == 0 { f64::NEG_INFINITY } else { 1.0 });
        check(|bits| if bits % 2 == 0 { 0.0_f32 } else { -0.0 });
        check(|bits| bits as i8);
        check(|bits| bits as u8);
        check(|bits| bits as i16);
        check(|bits| bits as u16);
        check(|bits| bits as i32);
        check(|bits| bits as u32);
        check(|bits| bits as i64);
        check(|bits| bits);
        // Extreme values of the types, to check that intermediate sums do not overflow.
        check(|_| i8::MIN);
        check(|_| u8::MAX);
        check(|_| i16::MIN);
        check(|_| i16::MAX);
        check(|_| u16::MAX);
        check(|_| u16::MIN);
        check(|_| i32::MIN);
        check(|_| u32::MAX);
    }

    #[test]
    #[ignore = "a measurement"]
    fn speed() {
        use super::super::PART_BYTES as LENGTH;
        use std::time::Instant;
        let bytes: Vec<u8> = (0..u32::try_from(LENGTH / 4).unwrap())
            .flat_map(|at| ((at.wrapping_mul(2_654_435_761) >> 8) as f32).to_le_bytes())
            .collect();
        let time = |name: &str, work: &mut dyn FnMut()| {
            let mut best = f64::MAX;
            for _ in 0..50 {
                let clock = Instant::now();
                for _ in 0..20 {
                    work();
                }
                best = best.min(clock.elapsed().as_secs_f64() / 20.0);
            }
            println!("{name}: {:.1} GB/s", LENGTH as f64 / best / 1e9);
        };
        let mut target = bytes.clone();
        time("copy", &mut || target.copy_from_slice(std::hint::black_box(&bytes)));
        time("xxh3", &mut || {
            std::hint::black_box(twox_hash::XxHash3_64::oneshot(std::hint::black_box(&bytes)));
        });
        for number in [Machine::F32, Machine::F64, Machine::U8, Machine::U16, Machine::I32, Machine::I64] {
            time(&format!("{number:?}"), &mut || {
                std::hint::black_box(compute_statistics(number, false, std::hint::black_box(&bytes)));
            });
        }
        let mut other = vec![0_f32; LENGTH / 4];
        f32::load(&bytes, true, &mut other);
        let other: Vec<u8> = other.iter().flat_map(|value| value.to_ne_bytes()).collect();
        time("F32 swapped", &mut || {
            std::hint::black_box(compute_statistics(Machine::F32, true, std::hint::black_box(&other)));
        });
        let holes: Vec<u8> = (0..LENGTH / 4)
            .flat_map(|at| if at % 3 == 0 { f32::NAN } else { at as f32 }.to_ne_bytes())
            .collect();
        time("F32 with holes", &mut || {
            std::hint::black_box(compute_statistics(Machine::F32, false, std::hint::black_box(&holes)));
        });
    }
}
