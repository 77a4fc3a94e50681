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
    /// The sum of their squares.
    pub squares: f64,
}

impl Statistics {
    /// No statistics are longer as bytes.
    pub(super) const SIZE: usize = 65;

    /// Of no elements.
    pub const NONE: Self = Self { count: 0, nan: 0, min: None, max: None, sum: 0.0, squares: 0.0 };

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
        self.squares += behind.squares;
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
        out.u64(self.squares.to_bits());
    }

    pub(super) fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
        let (count, nan, kind) = (cursor.u64()?, cursor.u64()?, cursor.u8()?);
        let mut extreme = || -> Result<Option<(Extreme, u64)>> {
            Ok(if kind < 3 { Some((Extreme::from_bits(kind, cursor.u64()?), cursor.u64()?)) } else { None })
        };
        let (min, max) = (extreme()?, extreme()?);
        let (sum, squares) = (f64::from_bits(cursor.u64()?), f64::from_bits(cursor.u64()?));
        Ok(Self { count, nan, min, max, sum, squares })
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
    hash: Option<XxHash3_64>,
    looks: Option<(Number, bool)>,
    statistics: Statistics,
}

/// So much is looked at while it is in the processor's cache. A multiple of every element's size.
pub(super) const BLOCK: usize = 128 << 10;

impl Pass {
    pub(super) fn new(checksum: bool, statistics: Option<Looks>) -> Self {
        let hash = checksum.then(XxHash3_64::new);
        Self { hash, looks: statistics.and_then(|looks| looks.0), statistics: Statistics::NONE }
    }

    /// Whether there is anything to find.
    pub(super) fn is_idle(&self) -> bool {
        self.hash.is_none() && self.looks.is_none()
    }

    /// Looks at the next bytes: whole elements.
    pub(super) fn look(&mut self, bytes: &[u8]) {
        for block in bytes.chunks(BLOCK) {
            if let Some(hash) = &mut self.hash {
                std::hash::Hasher::write(hash, block);
            }
            if let Some((number, swapped)) = self.looks {
                let found = summary(number, swapped, block, &self.statistics);
                self.statistics.merge(&found);
            }
        }
    }

    /// The checksum, 0 where none was wanted, and the statistics.
    pub(super) fn end(self) -> (u64, Option<Statistics>) {
        let checksum = self.hash.map_or(0, |hash| std::hash::Hasher::finish(&hash));
        (checksum, self.looks.map(|_| self.statistics))
    }
}

/// The checksum of a payload.
pub(super) fn checksum(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
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

/// How many elements are looked at side by side.
const LANES: usize = 16;

macro_rules! kernel {
    ($type:ty, $bits:ty, $extreme:ident, $wide:ty, $swapped:expr, $bytes:expr, $known:expr, $is_nan:expr, $low:expr, $high:expr) => {{
        const SIZE: usize = size_of::<$type>();
        let swapped: bool = $swapped;
        let load = |bytes: &[u8]| -> $type {
            let mut array = [0; SIZE];
            array.copy_from_slice(bytes);
            let bits = <$bits>::from_ne_bytes(array);
            <$type>::from_ne_bytes((if swapped { bits.swap_bytes() } else { bits }).to_ne_bytes())
        };
        let (mut low, mut high) = ([$low; LANES], [$high; LANES]);
        let (mut sums, mut squares, mut nans) = ([0.0_f64; LANES], [0.0_f64; LANES], [0_u32; LANES]);
        let (lines, rest) = $bytes.as_chunks::<{ SIZE * LANES }>();
        for line in lines {
            let mut values = [<$type>::default(); LANES];
            for (value, bytes) in values.iter_mut().zip(line.chunks_exact(SIZE)) {
                *value = load(bytes);
            }
            for lane in 0..LANES {
                let value = values[lane];
                low[lane] = if value < low[lane] { value } else { low[lane] };
                high[lane] = if value > high[lane] { value } else { high[lane] };
                let nan: bool = $is_nan(value);
                nans[lane] += u32::from(nan);
                let wide = if nan { 0.0 } else { value as f64 };
                sums[lane] += wide;
                squares[lane] += wide * wide;
            }
        }
        for (lane, bytes) in rest.chunks_exact(SIZE).enumerate() {
            let value = load(bytes);
            low[lane % LANES] = if value < low[lane % LANES] { value } else { low[lane % LANES] };
            high[lane % LANES] = if value > high[lane % LANES] { value } else { high[lane % LANES] };
            let nan: bool = $is_nan(value);
            nans[lane % LANES] += u32::from(nan);
            let wide = if nan { 0.0 } else { value as f64 };
            sums[lane % LANES] += wide;
            squares[lane % LANES] += wide * wide;
        }
        let least = low.iter().fold($low, |a, b| if *b < a { *b } else { a });
        let most = high.iter().fold($high, |a, b| if *b > a { *b } else { a });
        let count = ($bytes.len() / SIZE) as u64;
        let nan: u64 = nans.iter().map(|count| u64::from(*count)).sum();
        let place = |wanted: $type, better: bool| {
            if !better {
                return 0;
            }
            let found = $bytes.chunks_exact(SIZE).position(|bytes| load(bytes) == wanted);
            found.unwrap_or_default() as u64
        };
        let some = nan < count;
        Statistics {
            count,
            nan,
            min: some.then(|| {
                let value = Extreme::$extreme(least as $wide);
                (value, place(least, $known.min.is_none_or(|(known, _)| value.less(known))))
            }),
            max: some.then(|| {
                let value = Extreme::$extreme(most as $wide);
                (value, place(most, $known.max.is_none_or(|(known, _)| known.less(value))))
            }),
            sum: sums.iter().sum(),
            squares: squares.iter().sum(),
        }
    }};
}

macro_rules! integer {
    ($type:ty, $bits:ty, $extreme:ident, $wide:ty, $swapped:expr, $bytes:expr, $known:expr) => {
        kernel!(
            $type,
            $bits,
            $extreme,
            $wide,
            $swapped,
            $bytes,
            $known,
            |_: $type| false,
            <$type>::MAX,
            <$type>::MIN
        )
    };
}

#[inline(always)]
#[expect(clippy::cast_precision_loss, clippy::cast_lossless, reason = "sums are of floating-point numbers")]
fn summary_of(number: Number, swapped: bool, bytes: &[u8], known: &Statistics) -> Statistics {
    match number {
        Number::F32 => {
            kernel!(
                f32,
                u32,
                Float,
                f64,
                swapped,
                bytes,
                known,
                f32::is_nan,
                f32::INFINITY,
                f32::NEG_INFINITY
            )
        }
        Number::F64 => {
            kernel!(
                f64,
                u64,
                Float,
                f64,
                swapped,
                bytes,
                known,
                f64::is_nan,
                f64::INFINITY,
                f64::NEG_INFINITY
            )
        }
        Number::I8 => integer!(i8, u8, Signed, i64, swapped, bytes, known),
        Number::I16 => integer!(i16, u16, Signed, i64, swapped, bytes, known),
        Number::I32 => integer!(i32, u32, Signed, i64, swapped, bytes, known),
        Number::I64 => integer!(i64, u64, Signed, i64, swapped, bytes, known),
        Number::U8 => integer!(u8, u8, Unsigned, u64, swapped, bytes, known),
        Number::U16 => integer!(u16, u16, Unsigned, u64, swapped, bytes, known),
        Number::U32 => integer!(u32, u32, Unsigned, u64, swapped, bytes, known),
        Number::U64 => integer!(u64, u64, Unsigned, u64, swapped, bytes, known),
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
        assert_eq!(checksum, XxHash3_64::oneshot(&bytes));
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
