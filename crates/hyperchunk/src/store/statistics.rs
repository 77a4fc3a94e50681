//! What the elements of a write are like, found in the same pass over them as their checksum.

use super::bytes::Out;
use super::zones::Cut;
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

    /// Whether it is smaller than another one of the same type.
    pub(crate) fn less(self, other: Self) -> bool {
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
    pub(crate) const SIZE: usize = 57;
    /// None are shorter.
    pub(crate) const LEAST: usize = 25;

    /// Of no elements.
    pub const NONE: Self = Self { count: 0, nan: 0, min: None, max: None, sum: 0.0 };

    /// Takes in those of elements that lie behind.
    pub fn merge(&mut self, behind: &Self) {
        let moved = |extreme: Option<(Extreme, u64)>| {
            extreme.map(|(value, place)| (value, place.saturating_add(self.count)))
        };
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
        // Those of a damaged page may be anything.
        self.count = self.count.saturating_add(behind.count);
        self.nan = self.nan.saturating_add(behind.nan);
        self.sum += behind.sum;
    }

    /// Appends its bytes.
    pub(crate) fn write_to(&self, bytes: &mut Vec<u8>) {
        let mut out = Out::default();
        self.encode(&mut out);
        bytes.extend_from_slice(&out.0);
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

    pub(crate) fn decode(cursor: &mut Cursor<'_>) -> Result<Self> {
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
pub(crate) enum Machine {
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

impl Machine {
    /// How many bytes a number has.
    pub(crate) fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F64 | Self::I64 | Self::U64 => 8,
        }
    }
}

/// How elements of a datatype are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Looks(Option<(Machine, bool)>);

impl Looks {
    /// How elements of that type are; of other types than plain numbers no statistics are taken.
    pub(crate) fn of(datatype: &Datatype) -> Self {
        let (number, order) = match &datatype.class {
            Class::Float(float) => match datatype.size {
                4 if *datatype == Datatype::ieee(4, float.order) => (Machine::F32, float.order),
                8 if *datatype == Datatype::ieee(8, float.order) => (Machine::F64, float.order),
                _ => return Self(None),
            },
            Class::Integer { order, signed, offset: 0, precision }
                if u64::from(*precision) == datatype.size.saturating_mul(8) =>
            {
                let number = match (datatype.size, signed) {
                    (1, true) => Machine::I8,
                    (2, true) => Machine::I16,
                    (4, true) => Machine::I32,
                    (8, true) => Machine::I64,
                    (1, false) => Machine::U8,
                    (2, false) => Machine::U16,
                    (4, false) => Machine::U32,
                    (8, false) => Machine::U64,
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

    /// What numbers they are, and whether their bytes are in the other order.
    pub(crate) fn machine(self) -> Option<(Machine, bool)> {
        self.0
    }
}

/// A checksum and statistics, found in one pass.
pub(crate) struct Pass<'a> {
    /// What the blocks' checksums are, one behind the other.
    blocks: Option<Vec<u8>>,
    looks: Option<(Machine, bool)>,
    /// Those of the zone that was begun; of extremes, only `low` and `high` tell where they are.
    statistics: Statistics,
    /// In which bytes the smallest and the largest value are, and how many elements are before those. They are looked for
    /// once, when the zone ends: where values rise, each block has a new largest one.
    low: Option<(&'a [u8], u64)>,
    high: Option<(&'a [u8], u64)>,
    cut: Option<Cut>,
    zones: Vec<Statistics>,
    /// How many elements come until the zone ends, and until counting begins anew.
    left: (u64, u64),
}

/// So much is looked at while it is in the processor's cache. A multiple of every element's size.
pub(super) const BLOCK: usize = 128 << 10;

impl<'a> Pass<'a> {
    pub(crate) fn new(checksum: bool, statistics: Option<Looks>) -> Self {
        let blocks = checksum.then(Vec::new);
        let looks = statistics.and_then(|looks| looks.0);
        let (statistics, zones) = (Statistics::NONE, Vec::new());
        let left = (u64::MAX, u64::MAX);
        Self { blocks, looks, statistics, low: None, high: None, cut: None, zones, left }
    }

    /// With statistics of zones, too.
    pub(super) fn cut(mut self, cut: Option<Cut>) -> Self {
        self.left = cut.map_or((u64::MAX, u64::MAX), |cut| (cut.step.min(cut.of), cut.of));
        self.cut = cut;
        self
    }

    /// Whether there is anything to find.
    pub(super) fn is_idle(&self) -> bool {
        self.blocks.is_none() && self.looks.is_none()
    }

    /// Looks at the next bytes: whole elements, and whole blocks unless they are the last.
    pub(crate) fn look(&mut self, bytes: &'a [u8]) {
        for block in bytes.chunks(BLOCK) {
            self.check(block);
            let Some((number, swapped)) = self.looks else { continue };
            let mut rest = block;
            while !rest.is_empty() {
                let room = usize::try_from(self.left.0).unwrap_or(usize::MAX).saturating_mul(number.size());
                let (part, behind) = rest.split_at(room.min(rest.len()));
                let count = self.add(number, swapped, part);
                rest = behind;
                if let Some(cut) = self.cut {
                    let (zone, all) = (self.left.0 - count, self.left.1 - count);
                    let all = if all == 0 { cut.of } else { all };
                    self.left = (if zone == 0 { cut.step.min(all) } else { zone }, all);
                    if zone == 0 {
                        let zone = self.settle();
                        self.zones.push(zone);
                    }
                }
            }
        }
    }

    /// As `look`, for the checksum alone.
    pub(super) fn check(&mut self, bytes: &[u8]) {
        if let Some(blocks) = &mut self.blocks {
            for block in bytes.chunks(BLOCK) {
                blocks.extend_from_slice(&XxHash3_64::oneshot(block).to_le_bytes());
            }
        }
    }

    /// Takes elements into the zone; returns how many there are.
    fn add(&mut self, number: Machine, swapped: bool, part: &'a [u8]) -> u64 {
        let found = summary(number, swapped, part);
        let before = self.statistics.count;
        if let Some((low, _)) = found.min
            && self.statistics.min.is_none_or(|(known, _)| low.less(known))
        {
            self.low = Some((part, before));
        }
        if let Some((high, _)) = found.max
            && self.statistics.max.is_none_or(|(known, _)| known.less(high))
        {
            self.high = Some((part, before));
        }
        self.statistics.merge(&found);
        found.count
    }

    /// The statistics of the zone that was begun, with the places of its extremes; the next one begins.
    fn settle(&mut self) -> Statistics {
        let mut zone = std::mem::replace(&mut self.statistics, Statistics::NONE);
        let Some((number, swapped)) = self.looks else { return zone };
        for (extreme, part) in [(&mut zone.min, self.low.take()), (&mut zone.max, self.high.take())] {
            if let (Some((value, place)), Some((part, before))) = (extreme, part) {
                *place = before + place_of(number, swapped, part, *value);
            }
        }
        zone
    }

    /// What the zones are like, if it was cut into any.
    pub(super) fn zones(&mut self) -> Option<Vec<Statistics>> {
        self.cut?;
        if self.statistics.count > 0 {
            let zone = self.settle();
            self.zones.push(zone);
        }
        Some(self.zones.clone())
    }

    /// The checksum, 0 where none was wanted, and the statistics.
    pub(crate) fn end(mut self) -> (u64, Option<Statistics>) {
        let last = self.settle();
        let checksum = self.blocks.map_or(0, |blocks| of_blocks(&blocks));
        let mut all = Statistics::NONE;
        self.zones.iter().chain([&last]).for_each(|zone| all.merge(zone));
        (checksum, self.looks.map(|_| all))
    }
}

/// The checksum of a payload: xxh3 of its only block, or of those of its blocks.
pub(super) fn checksum(bytes: &[u8]) -> u64 {
    let mut pass = Pass::new(true, None);
    pass.check(bytes);
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

/// What a block is like, but for the places of its extremes.
fn summary(number: Machine, swapped: bool, bytes: &[u8]) -> Statistics {
    match number {
        Machine::F32 => look::<f32>(swapped, bytes),
        Machine::F64 => look::<f64>(swapped, bytes),
        Machine::I8 => look::<i8>(false, bytes),
        Machine::I16 => look::<i16>(swapped, bytes),
        Machine::I32 => look::<i32>(swapped, bytes),
        Machine::I64 => look::<i64>(swapped, bytes),
        Machine::U8 => look::<u8>(false, bytes),
        Machine::U16 => look::<u16>(swapped, bytes),
        Machine::U32 => look::<u32>(swapped, bytes),
        Machine::U64 => look::<u64>(swapped, bytes),
    }
}

/// Where a value is first among elements that have it.
fn place_of(number: Machine, swapped: bool, bytes: &[u8], value: Extreme) -> u64 {
    match number {
        Machine::F32 => first::<f32>(swapped, bytes, value),
        Machine::F64 => first::<f64>(swapped, bytes, value),
        Machine::I8 => first::<i8>(false, bytes, value),
        Machine::I16 => first::<i16>(swapped, bytes, value),
        Machine::I32 => first::<i32>(swapped, bytes, value),
        Machine::I64 => first::<i64>(swapped, bytes, value),
        Machine::U8 => first::<u8>(false, bytes, value),
        Machine::U16 => first::<u16>(swapped, bytes, value),
        Machine::U32 => first::<u32>(swapped, bytes, value),
        Machine::U64 => first::<u64>(swapped, bytes, value),
    }
}

/// So many bytes are turned round or aligned at a time.
const TILE: usize = 8192;

/// Elements as the machine has them. Each of these is one short loop in a function of its own: so compilers make the best of it.
trait Element: Copy + PartialEq + PartialOrd + Default + 'static {
    /// The smallest and the largest; what is not a number is passed over.
    fn extremes(values: &[Self]) -> (Self, Self);
    /// Not a number if one of them is not.
    fn sum(values: &[Self]) -> f64;
    /// Turned round, from bytes in the other order.
    fn load(bytes: &[u8], swapped: bool, values: &mut [Self]);
    fn extreme(self) -> Extreme;
    fn of(extreme: Extreme) -> Self;
    fn float(self) -> f64;
}

macro_rules! element {
    ($type:ty, $bits:ty, $extreme:ident, $as:ty, $low:expr, $high:expr, $sum:ty, $lanes:literal, $summed:expr) => {
        impl Element for $type {
            fn extremes(values: &[Self]) -> (Self, Self) {
                #[inline(always)]
                fn find(values: &[$type]) -> ($type, $type) {
                    const LANES: usize = 128 / size_of::<$type>();
                    let (mut low, mut high) = ([$high; LANES], [$low; LANES]);
                    let (lines, rest) = values.as_chunks::<LANES>();
                    for line in lines {
                        for lane in 0..LANES {
                            low[lane] = if line[lane] < low[lane] { line[lane] } else { low[lane] };
                            high[lane] = if line[lane] > high[lane] { line[lane] } else { high[lane] };
                        }
                    }
                    let (mut least, mut most) = ($high, $low);
                    for value in low.iter().chain(rest) {
                        least = if *value < least { *value } else { least };
                    }
                    for value in high.iter().chain(rest) {
                        most = if *value > most { *value } else { most };
                    }
                    (least, most)
                }
                #[cfg(target_arch = "x86_64")]
                #[target_feature(enable = "avx2")]
                fn find_avx2(values: &[$type]) -> ($type, $type) {
                    find(values)
                }
                #[cfg(target_arch = "x86_64")]
                if std::is_x86_feature_detected!("avx2") {
                    // SAFETY: the processor has what the function was compiled for.
                    return unsafe { find_avx2(values) };
                }
                find(values)
            }

            fn sum(values: &[Self]) -> f64 {
                #[inline(always)]
                #[allow(
                    clippy::cast_precision_loss,
                    clippy::cast_lossless,
                    reason = "sums are of floating-point numbers"
                )]
                fn add(values: &[$type]) -> f64 {
                    let mut total = 0.0;
                    // So many of the largest do not leave what they are summed in.
                    for values in values.chunks($summed) {
                        let mut sums = [<$sum>::default(); $lanes];
                        let (lines, rest) = values.as_chunks::<$lanes>();
                        for line in lines {
                            for lane in 0..$lanes {
                                sums[lane] += line[lane] as $sum;
                            }
                        }
                        total += sums.iter().map(|sum| *sum as f64).sum::<f64>();
                        total += rest.iter().map(|value| *value as f64).sum::<f64>();
                    }
                    total
                }
                #[cfg(target_arch = "x86_64")]
                #[target_feature(enable = "avx2")]
                fn add_avx2(values: &[$type]) -> f64 {
                    add(values)
                }
                #[cfg(target_arch = "x86_64")]
                if std::is_x86_feature_detected!("avx2") {
                    // SAFETY: the processor has what the function was compiled for.
                    return unsafe { add_avx2(values) };
                }
                add(values)
            }

            fn load(bytes: &[u8], swapped: bool, values: &mut [Self]) {
                #[inline(always)]
                fn turn(bytes: &[u8], swapped: bool, values: &mut [$type]) {
                    for (value, bytes) in values.iter_mut().zip(bytes.as_chunks().0) {
                        let bits = <$bits>::from_ne_bytes(*bytes);
                        let bits = if swapped { bits.swap_bytes() } else { bits };
                        *value = <$type>::from_ne_bytes(bits.to_ne_bytes());
                    }
                }
                #[cfg(target_arch = "x86_64")]
                #[target_feature(enable = "avx2")]
                fn turn_avx2(bytes: &[u8], swapped: bool, values: &mut [$type]) {
                    turn(bytes, swapped, values);
                }
                #[cfg(target_arch = "x86_64")]
                if std::is_x86_feature_detected!("avx2") {
                    // SAFETY: the processor has what the function was compiled for.
                    unsafe { turn_avx2(bytes, swapped, values) };
                    return;
                }
                turn(bytes, swapped, values);
            }

            fn extreme(self) -> Extreme {
                Extreme::$extreme(self as $as)
            }

            #[allow(
                clippy::cast_precision_loss,
                clippy::cast_possible_truncation,
                clippy::cast_sign_loss,
                reason = "an extreme of this type is exact in it; there are no others"
            )]
            fn of(extreme: Extreme) -> Self {
                match extreme {
                    Extreme::Float(value) => value as Self,
                    Extreme::Signed(value) => value as Self,
                    Extreme::Unsigned(value) => value as Self,
                }
            }

            #[allow(
                clippy::cast_precision_loss,
                clippy::cast_lossless,
                reason = "sums are of floating-point numbers"
            )]
            fn float(self) -> f64 {
                self as f64
            }
        }
    };
}

element!(f32, u32, Float, f64, f32::NEG_INFINITY, f32::INFINITY, f64, 16, usize::MAX);
element!(f64, u64, Float, f64, f64::NEG_INFINITY, f64::INFINITY, f64, 16, usize::MAX);
element!(i8, u8, Signed, i64, i8::MIN, i8::MAX, i16, 16, 16 * 256);
element!(u8, u8, Unsigned, u64, u8::MIN, u8::MAX, u16, 16, 16 * 256);
element!(i16, u16, Signed, i64, i16::MIN, i16::MAX, i32, 16, 16 << 15);
element!(u16, u16, Unsigned, u64, u16::MIN, u16::MAX, u32, 16, 16 << 15);
// Sums of so few elements as a block has are exact as floating-point numbers, too, and quicker.
element!(i32, u32, Signed, i64, i32::MIN, i32::MAX, f64, 16, 1 << 20);
element!(u32, u32, Unsigned, u64, u32::MIN, u32::MAX, u64, 16, usize::MAX);
element!(i64, u64, Signed, i64, i64::MIN, i64::MAX, f64, 16, usize::MAX);
element!(u64, u64, Unsigned, u64, u64::MIN, u64::MAX, f64, 16, usize::MAX);

/// Calls `each` with the elements, as they lie or tile by tile, until it says that it is enough.
fn tiles<E: Element>(swapped: bool, bytes: &[u8], each: &mut dyn FnMut(&[E]) -> bool) {
    if !swapped {
        // SAFETY: every pattern of bits is a number of these types; `align_to` looks at alignment.
        let (before, values, behind) = unsafe { bytes.align_to::<E>() };
        if before.is_empty() && behind.is_empty() {
            each(values);
            return;
        }
    }
    let mut tile = vec![E::default(); TILE / size_of::<E>()];
    for bytes in bytes.chunks(TILE) {
        let values = &mut tile[..bytes.len() / size_of::<E>()];
        E::load(bytes, swapped, values);
        if each(values) {
            return;
        }
    }
}

fn look<E: Element>(swapped: bool, bytes: &[u8]) -> Statistics {
    let mut all = Statistics::NONE;
    tiles::<E>(swapped, bytes, &mut |values| {
        all.merge(&look_at(values));
        false
    });
    all
}

/// So many elements are compared at once.
const COMPARED: usize = 64;

fn first<E: Element>(swapped: bool, bytes: &[u8], value: Extreme) -> u64 {
    let (wanted, mut place) = (E::of(value), 0);
    tiles::<E>(swapped, bytes, &mut |values| {
        for few in values.chunks(COMPARED) {
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

fn look_at<E: Element>(values: &[E]) -> Statistics {
    let (low, high) = E::extremes(values);
    let mut sum = E::sum(values);
    let mut nan = 0;
    #[expect(clippy::eq_op, reason = "what is not a number is not equal to itself")]
    if sum.is_nan() {
        sum = 0.0;
        for value in values {
            if value != value {
                nan += 1;
            } else {
                sum += value.float();
            }
        }
    }
    let count = values.len() as u64;
    let (lowest, highest) = (low.extreme(), high.extreme());
    let some = nan < count;
    Statistics { count, nan, min: some.then_some((lowest, 0)), max: some.then_some((highest, 0)), sum }
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
        let mut pass = Pass::new(false, Some(Looks::of(&Datatype::integer(8, true, ByteOrder::Little))));
        pass.look(&bytes);
        let found = pass.end().1.unwrap();
        assert_eq!(found.min, Some((Extreme::Signed(i64::MIN), 0)));
        assert_eq!(found.max, Some((Extreme::Signed(i64::MAX), 3)));
    }

    #[test]
    #[ignore = "a measurement"]
    fn speed() {
        use std::time::Instant;
        let bytes: Vec<u8> = (0..u32::try_from(BLOCK / 4).unwrap())
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
        for number in [Machine::F32, Machine::F64, Machine::U8, Machine::U16, Machine::I32, Machine::I64] {
            time(&format!("{number:?}"), &mut || {
                std::hint::black_box(summary(number, false, std::hint::black_box(&bytes)));
            });
        }
        time("F32 swapped", &mut || {
            std::hint::black_box(summary(Machine::F32, true, std::hint::black_box(&bytes)));
        });
    }
}
