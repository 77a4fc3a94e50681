//! What the elements of a write are like, found in the same pass over them as their checksum.

use super::bytes::Out;
use crate::Result;
use hyperchunk_format::Cursor;
use hyperchunk_format::model::{ByteOrder, Class, Datatype};
use twox_hash::XxHash3_64;

/// The smallest or largest value, exact for every type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Extreme {
    /// Of floating-point numbers.
    Float(f64),
    /// Of integers with a sign.
    Signed(i64),
    /// Of integers without.
    Unsigned(u64),
}

impl Extreme {
    /// As a floating-point number; large integers are rounded.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "what the function is for")]
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Float(value) => value,
            Self::Signed(value) => value as f64,
            Self::Unsigned(value) => value as f64,
        }
    }

    fn less(self, other: Self) -> bool {
        match (self, other) {
            (Self::Float(a), Self::Float(b)) => a < b,
            (Self::Signed(a), Self::Signed(b)) => a < b,
            (Self::Unsigned(a), Self::Unsigned(b)) => a < b,
            _ => false,
        }
    }

    fn bits(self) -> (u8, u64) {
        match self {
            Self::Float(value) => (0, value.to_bits()),
            Self::Signed(value) => (1, value.cast_unsigned()),
            Self::Unsigned(value) => (2, value),
        }
    }

    fn from_bits(kind: u8, bits: u64) -> Self {
        match kind {
            0 => Self::Float(f64::from_bits(bits)),
            1 => Self::Signed(bits.cast_signed()),
            _ => Self::Unsigned(bits),
        }
    }
}

/// What elements are like. Statistics of parts give those of the whole.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Statistics {
    /// How many elements.
    pub count: u64,
    /// How many of them are not a number.
    pub nan: u64,
    /// The smallest of the others, and its place in C order of what was written; `None` if there are no others.
    pub min: Option<(Extreme, u64)>,
    /// The largest of the others, and its place.
    pub max: Option<(Extreme, u64)>,
    /// The sum of the others.
    pub sum: f64,
}

impl Statistics {
    /// No statistics are longer as bytes.
    pub(super) const SIZE: usize = 57;

    /// Of no elements.
    pub const NONE: Self = Self { count: 0, nan: 0, min: None, max: None, sum: 0.0 };

    /// Takes in those of elements that lie behind.
    pub fn merge(&mut self, behind: &Self) {
        let moved =
            |extreme: Option<(Extreme, u64)>| extreme.map(|(value, place)| (value, place + self.count));
        let (min, max) = (moved(behind.min), moved(behind.max));
        match (self.min, min) {
            (Some((old, _)), Some((new, _))) if !new.less(old) => {}
            (_, None) => {}
            _ => self.min = min,
        }
        match (self.max, max) {
            (Some((old, _)), Some((new, _))) if !old.less(new) => {}
            (_, None) => {}
            _ => self.max = max,
        }
        self.count += behind.count;
        self.nan += behind.nan;
        self.sum += behind.sum;
    }

    pub(super) fn encode(&self, out: &mut Out) {
        out.u64(self.count);
        out.u64(self.nan);
        let kind = self.min.map_or(3, |(value, _)| value.bits().0);
        out.u8(kind);
        for (value, place) in [self.min, self.max].into_iter().flatten() {
            out.u64(value.bits().1);
            out.u64(place);
        }
        out.u64(self.sum.to_bits());
    }

    pub(super) fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        let (count, nan, kind) = (cursor.u64()?, cursor.u64()?, cursor.u8()?);
        let mut extreme = || -> Result<Option<(Extreme, u64)>> {
            Ok(if kind < 3 { Some((Extreme::from_bits(kind, cursor.u64()?), cursor.u64()?)) } else { None })
        };
        let (min, max) = (extreme()?, extreme()?);
        let sum = f64::from_bits(cursor.u64()?);
        Ok(Self { count, nan, min, max, sum })
    }
}

/// Elements whose statistics are taken: the plain numbers of machines, in either byte order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Number {
    F32,
    F64,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
}

/// How elements of a datatype are looked at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Looks(Option<(Number, bool)>);

impl Looks {
    /// How elements of that type are; of other types than plain numbers no statistics are taken.
    pub(super) fn of(datatype: &Datatype) -> Self {
        let (number, order) = match &datatype.class {
            Class::Float(float) => match datatype.size {
                4 if *datatype == Datatype::ieee(4, float.order) => (Number::F32, float.order),
                8 if *datatype == Datatype::ieee(8, float.order) => (Number::F64, float.order),
                _ => return Self(None),
            },
            Class::Integer { order, signed, offset: 0, precision }
                if u64::from(*precision) == datatype.size.saturating_mul(8) =>
            {
                let number = match (datatype.size, signed) {
                    (1, true) => Number::I8,
                    (2, true) => Number::I16,
                    (4, true) => Number::I32,
                    (8, true) => Number::I64,
                    (1, false) => Number::U8,
                    (2, false) => Number::U16,
                    (4, false) => Number::U32,
                    (8, false) => Number::U64,
                    _ => return Self(None),
                };
                (number, *order)
            }
            _ => return Self(None),
        };
        match order {
            ByteOrder::Little | ByteOrder::Big => {
                Self(Some((number, (order == ByteOrder::Big) == cfg!(target_endian = "little"))))
            }
            _ => Self(None),
        }
    }
}

impl Looks {
    /// Whether there are statistics of such elements.
    pub(super) fn any(self) -> bool {
        self.0.is_some()
    }
}

/// A checksum and statistics, found in one pass.
pub(super) struct Pass {
    /// What the blocks' checksums are, one behind the other.
    blocks: Option<Vec<u8>>,
    looks: Option<(Number, bool)>,
    statistics: Statistics,
}

/// So much is looked at while it is in the processor's cache. A multiple of every element's size.
pub(super) const BLOCK: usize = 128 << 10;

impl Pass {
    pub(super) fn new(checksum: bool, statistics: Option<Looks>) -> Self {
        let blocks = checksum.then(Vec::new);
        Self { blocks, looks: statistics.and_then(|looks| looks.0), statistics: Statistics::NONE }
    }

    /// Whether there is anything to find.
    pub(super) fn is_idle(&self) -> bool {
        self.blocks.is_none() && self.looks.is_none()
    }

    /// Looks at the next bytes: whole elements, and whole blocks unless they are the last.
    pub(super) fn look(&mut self, bytes: &[u8]) {
        for block in bytes.chunks(BLOCK) {
            if let Some(blocks) = &mut self.blocks {
                blocks.extend_from_slice(&XxHash3_64::oneshot(block).to_le_bytes());
            }
            if let Some((number, swapped)) = self.looks {
                let found = summary(number, swapped, block, &self.statistics);
                self.statistics.merge(&found);
            }
        }
    }

    /// The checksum, 0 where none was wanted, and the statistics.
    pub(super) fn end(self) -> (u64, Option<Statistics>) {
        let checksum = self.blocks.map_or(0, |blocks| of_blocks(&blocks));
        (checksum, self.looks.map(|_| self.statistics))
    }
}

/// The checksum of a payload: xxh3 of its only block, or of those of its blocks.
pub(super) fn checksum(bytes: &[u8]) -> u64 {
    let mut pass = Pass::new(true, None);
    pass.look(bytes);
    pass.end().0
}

/// 0 stands for no checksum.
fn of_blocks(blocks: &[u8]) -> u64 {
    let checksum = match blocks.first_chunk() {
        Some(only) if blocks.len() == 8 => u64::from_le_bytes(*only),
        _ => XxHash3_64::oneshot(blocks),
    };
    checksum.max(1)
}

/// What a block is like. The places of its extremes are looked for only where they go beyond those that are known.
fn summary(number: Number, swapped: bool, bytes: &[u8], known: &Statistics) -> Statistics {
    #[cfg(target_arch = "x86_64")]
    if std::is_x86_feature_detected!("avx2") {
        // SAFETY: the processor has what the function was compiled for.
        return unsafe { summary_avx2(number, swapped, bytes, known) };
    }
    summary_of(number, swapped, bytes, known)
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn summary_avx2(number: Number, swapped: bool, bytes: &[u8], known: &Statistics) -> Statistics {
    summary_of(number, swapped, bytes, known)
}

/// Elements side by side, as the machine has them.
trait Element: Copy + PartialOrd + Default {
    /// What sums are of, over a few thousand elements.
    type Sum: Copy + Default + std::ops::Add<Output = Self::Sum>;
    const SIZE: usize;
    const LOWEST: Self;
    const HIGHEST: Self;
    /// So many of the largest can be summed.
    const SUMMED: usize;
    fn load(bytes: &[u8], swapped: bool) -> Self;
    fn wide(self) -> Self::Sum;
    fn float(sum: Self::Sum) -> f64;
    fn extreme(self) -> Extreme;
    fn is_nan(self) -> bool;
}

macro_rules! element {
    ($type:ty, $bits:ty, $sum:ty, $summed:expr, $extreme:ident, $as:ty, $low:expr, $high:expr, $nan:expr) => {
        impl Element for $type {
            type Sum = $sum;
            const SIZE: usize = size_of::<$type>();
            const LOWEST: Self = $low;
            const HIGHEST: Self = $high;
            const SUMMED: usize = $summed;

            #[inline(always)]
            fn load(bytes: &[u8], swapped: bool) -> Self {
                let mut array = [0; Self::SIZE];
                array.copy_from_slice(bytes);
                let bits = <$bits>::from_ne_bytes(array);
                Self::from_ne_bytes((if swapped { bits.swap_bytes() } else { bits }).to_ne_bytes())
            }

            #[inline(always)]
            fn wide(self) -> $sum {
                self as $sum
            }

            #[inline(always)]
            fn float(sum: $sum) -> f64 {
                sum as f64
            }

            #[inline(always)]
            fn extreme(self) -> Extreme {
                Extreme::$extreme(self as $as)
            }

            #[inline(always)]
            fn is_nan(self) -> bool {
                $nan(self)
            }
        }
    };
}

macro_rules! elements {
    ($($type:ty, $bits:ty, $sum:ty, $summed:expr, $extreme:ident, $as:ty;)*) => {
        $(element!($type, $bits, $sum, $summed, $extreme, $as, <$type>::MIN, <$type>::MAX, |_| false);)*
    };
}

element!(f32, u32, f64, usize::MAX, Float, f64, f32::NEG_INFINITY, f32::INFINITY, f32::is_nan);
element!(f64, u64, f64, usize::MAX, Float, f64, f64::NEG_INFINITY, f64::INFINITY, f64::is_nan);
elements! {
    i8, u8, i16, 256, Signed, i64;
    u8, u8, u16, 257, Unsigned, u64;
    i16, u16, i32, 1 << 16, Signed, i64;
    u16, u16, u32, 1 << 16, Unsigned, u64;
    i32, u32, i64, 1 << 30, Signed, i64;
    u32, u32, u64, 1 << 30, Unsigned, u64;
    i64, u64, f64, usize::MAX, Signed, i64;
    u64, u64, f64, usize::MAX, Unsigned, u64;
}

#[inline(always)]
fn summary_of(number: Number, swapped: bool, bytes: &[u8], known: &Statistics) -> Statistics {
    #[inline(always)]
    fn of<E: Element, const LANES: usize, const TILED: usize>(
        swapped: bool,
        bytes: &[u8],
        known: &Statistics,
    ) -> Statistics {
        // Known when it is compiled: no question inside the loop.
        if swapped {
            look::<E, LANES, TILED>(true, bytes, known)
        } else {
            look::<E, LANES, TILED>(false, bytes, known)
        }
    }
    match number {
        Number::F32 => of::<f32, 32, 1024>(swapped, bytes, known),
        Number::F64 => of::<f64, 16, 512>(swapped, bytes, known),
        Number::I8 => of::<i8, 64, 4096>(false, bytes, known),
        Number::I16 => of::<i16, 32, 2048>(swapped, bytes, known),
        Number::I32 => of::<i32, 16, 1024>(swapped, bytes, known),
        Number::I64 => of::<i64, 8, 512>(swapped, bytes, known),
        Number::U8 => of::<u8, 64, 4096>(false, bytes, known),
        Number::U16 => of::<u16, 32, 2048>(swapped, bytes, known),
        Number::U32 => of::<u32, 16, 1024>(swapped, bytes, known),
        Number::U64 => of::<u64, 8, 512>(swapped, bytes, known),
    }
}

/// So many bytes are copied to where they are aligned, and looked at there: three short loops over what is in the nearest cache
/// are faster than one long one over what is not aligned.
const TILE: usize = 4096;

#[inline(always)]
fn look<E: Element, const LANES: usize, const TILED: usize>(
    swapped: bool,
    bytes: &[u8],
    known: &Statistics,
) -> Statistics {
    let (mut low, mut high) = ([E::HIGHEST; LANES], [E::LOWEST; LANES]);
    let mut sum = 0.0;
    let mut values = [E::default(); TILED];
    let (tiles, rest) = bytes.as_chunks::<TILE>();
    for tile in tiles {
        for (value, bytes) in values.iter_mut().zip(tile.chunks_exact(E::SIZE)) {
            *value = E::load(bytes, swapped);
        }
        let (lines, _) = values.as_chunks::<LANES>();
        for line in lines {
            for (low, value) in low.iter_mut().zip(line) {
                *low = if value < low { *value } else { *low };
            }
        }
        for line in lines {
            for (high, value) in high.iter_mut().zip(line) {
                *high = if value > high { *value } else { *high };
            }
        }
        for lines in lines.chunks(E::SUMMED) {
            let mut sums = [E::Sum::default(); LANES];
            for line in lines {
                for (sum, value) in sums.iter_mut().zip(line) {
                    *sum = *sum + value.wide();
                }
            }
            sum += sums.into_iter().map(E::float).sum::<f64>();
        }
    }
    let (mut least, mut most) = (E::HIGHEST, E::LOWEST);
    for lane in 0..LANES {
        least = if low[lane] < least { low[lane] } else { least };
        most = if high[lane] > most { high[lane] } else { most };
    }
    for bytes in rest.chunks_exact(E::SIZE) {
        let value = E::load(bytes, swapped);
        least = if value < least { value } else { least };
        most = if value > most { value } else { most };
        sum += E::float(value.wide());
    }
    let mut nan = 0;
    if sum.is_nan() {
        // Some are not numbers; comparisons passed over them, the sum did not.
        sum = 0.0;
        for bytes in bytes.chunks_exact(E::SIZE) {
            let value = E::load(bytes, swapped);
            if value.is_nan() {
                nan += 1;
            } else {
                sum += E::float(value.wide());
            }
        }
    }
    let count = (bytes.len() / E::SIZE) as u64;
    let place = |wanted: E| {
        let found = bytes.chunks_exact(E::SIZE).position(|bytes| E::load(bytes, swapped) == wanted);
        found.unwrap_or_default() as u64
    };
    // Looked for only where it goes beyond what is known.
    let (lowest, highest) = (least.extreme(), most.extreme());
    let lower = known.min.is_none_or(|(known, _)| lowest.less(known));
    let higher = known.max.is_none_or(|(known, _)| known.less(highest));
    let some = nan < count;
    Statistics {
        count,
        nan,
        min: some.then(|| (lowest, if lower { place(least) } else { 0 })),
        max: some.then(|| (highest, if higher { place(most) } else { 0 })),
        sum,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyperchunk_format::model::ByteOrder;

    fn check(values: &[f64], order: ByteOrder) {
        let mut bytes = Vec::new();
        for value in values {
            bytes.extend_from_slice(&if order == ByteOrder::Big {
                value.to_be_bytes()
            } else {
                value.to_le_bytes()
            });
        }
        let looks = Looks::of(&Datatype::ieee(8, order));
        let mut pass = Pass::new(true, Some(looks));
        pass.look(&bytes);
        let (checksum, statistics) = pass.end();
        assert_eq!(checksum, super::checksum(&bytes));
        let statistics = statistics.unwrap();
        let numbers = || values.iter().copied().filter(|value| !value.is_nan());
        assert_eq!(statistics.count, values.len() as u64);
        assert_eq!(statistics.nan, (values.len() - numbers().count()) as u64);
        let first = |wanted: f64| values.iter().position(|value| *value == wanted).map(|at| at as u64);
        let min = numbers().fold(f64::INFINITY, f64::min);
        let max = numbers().fold(f64::NEG_INFINITY, f64::max);
        assert_eq!(statistics.min.map(|(_, place)| place), first(min));
        assert_eq!(
            statistics.max.map(|(value, place)| (value.as_f64(), Some(place))),
            first(max).map(|at| (max, Some(at)))
        );
        let sum: f64 = numbers().sum();
        assert!((statistics.sum - sum).abs() <= 1e-9 * numbers().map(f64::abs).sum::<f64>());
        let mut out = Out::default();
        statistics.encode(&mut out);
        assert_eq!(Statistics::decode(&mut Cursor::new(&out.0, "test", 0)).unwrap(), statistics);
    }

    #[test]
    fn one_pass_finds_what_a_plain_loop_finds() {
        let mut state = 1_u64;
        for length in [0, 1, 3, 15, 16, 17, 100, 20_000, 50_001] {
            let values: Vec<f64> = (0..length)
                .map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(99);
                    if state >> 60 == 0 { f64::NAN } else { (state >> 33) as f64 - 1e9 }
                })
                .collect();
            check(&values, ByteOrder::Little);
            check(&values, ByteOrder::Big);
        }
        check(&[f64::NAN; 40], ByteOrder::Little);
    }

    #[test]
    fn large_integers_are_exact() {
        let values = [i64::MIN, -1, i64::MAX - 1, i64::MAX];
        let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
        let found = summary(Number::I64, false, &bytes, &Statistics::NONE);
        assert_eq!(found.min, Some((Extreme::Signed(i64::MIN), 0)));
        assert_eq!(found.max, Some((Extreme::Signed(i64::MAX), 3)));
    }
}

#[cfg(test)]
#[test]
#[ignore = "a measurement"]
fn speed() {
    use std::time::Instant;
    let bytes: Vec<u8> = (0..BLOCK as u32 / 4)
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
        println!("{name}: {:.1} GB/s", BLOCK as f64 / best / 1e9);
    };
    let mut target = bytes.clone();
    time("copy", &mut || target.copy_from_slice(std::hint::black_box(&bytes)));
    time("xxh3", &mut || {
        std::hint::black_box(XxHash3_64::oneshot(std::hint::black_box(&bytes)));
    });
    for number in [Number::F32, Number::F64, Number::U8, Number::U16, Number::I32, Number::I64] {
        let known = summary(number, false, &bytes, &Statistics::NONE);
        time(&format!("{number:?}"), &mut || {
            std::hint::black_box(summary(number, false, std::hint::black_box(&bytes), &known));
        });
    }
    let known = summary(Number::F32, true, &bytes, &Statistics::NONE);
    time("F32 swapped", &mut || {
        std::hint::black_box(summary(Number::F32, true, std::hint::black_box(&bytes), &known));
    });
}
