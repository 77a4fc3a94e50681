//! Statistics of written elements, computed in the same pass as their checksum.

mod kernels;
pub(crate) mod zones;

use crate::format::varint::Out;
use crate::statistics::zones::ZonePattern;
use hyperchunk::Result;
use hyperchunk_format::Cursor;
use hyperchunk_format::model::{ByteOrder, Class, Datatype};
use twox_hash::XxHash3_64;

/// A minimum or maximum, exact for every type.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Extreme {
    /// A floating-point number.
    Float(f64),
    /// A signed integer.
    Signed(i64),
    /// An unsigned integer.
    Unsigned(u64),
}

impl Extreme {
    /// Returns the value as a floating-point number; large integers are rounded.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "the documented rounding")]
    pub fn as_f64(self) -> f64 {
        match self {
            Self::Float(value) => value,
            Self::Signed(value) => value as f64,
            Self::Unsigned(value) => value as f64,
        }
    }

    /// Returns whether it is less than another value of the same type.
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

/// Statistics of elements. Statistics of parts can be merged.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Statistics {
    /// Number of elements.
    pub count: u64,
    /// Number of NaNs among them.
    pub nan: u64,
    /// Minimum of the others, and its position in C order of the written elements; `None` if there
    /// are no others.
    pub min: Option<(Extreme, u64)>,
    /// Maximum of the others, and its position.
    pub max: Option<(Extreme, u64)>,
    /// Sum of the others.
    pub sum: f64,
}

impl Statistics {
    /// Maximum encoded size in bytes.
    pub(crate) const MAX_ENCODED_BYTES: usize = 57;
    /// Minimum encoded size in bytes.
    pub(crate) const MIN_ENCODED_BYTES: usize = 25;

    /// Statistics of zero elements.
    pub const NONE: Self = Self { count: 0, nan: 0, min: None, max: None, sum: 0.0 };

    /// Merges the statistics of the elements that follow.
    pub fn merge(&mut self, later: &Self) {
        let moved = |extreme: Option<(Extreme, u64)>| {
            extreme.map(|(value, place)| (value, place.saturating_add(self.count)))
        };
        let (min, max) = (moved(later.min), moved(later.max));
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
        // Saturating, since statistics from a damaged page can have any value.
        self.count = self.count.saturating_add(later.count);
        self.nan = self.nan.saturating_add(later.nan);
        self.sum += later.sum;
    }

    /// Appends the encoding.
    pub(crate) fn write_to(&self, bytes: &mut Vec<u8>) {
        let mut out = Out::default();
        self.encode(&mut out);
        bytes.extend_from_slice(&out.0);
    }

    pub(crate) fn encode(&self, out: &mut Out) {
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

/// Type of elements that have statistics: plain machine numbers, in either byte order.
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
    /// Returns the size of a number in bytes.
    pub(crate) fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::F32 | Self::I32 | Self::U32 => 4,
            Self::F64 | Self::I64 | Self::U64 => 8,
        }
    }
}

/// Number type of a datatype's elements, and whether their bytes are swapped; `None` for other
/// types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NumberFormat(Option<(Machine, bool)>);

impl NumberFormat {
    /// Returns the number type of a datatype. Types that are not plain numbers have no statistics.
    pub(crate) fn from_datatype(datatype: &Datatype) -> Self {
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

impl NumberFormat {
    /// Returns whether such elements have statistics.
    pub(crate) fn is_supported(self) -> bool {
        self.0.is_some()
    }

    /// Returns the number type, and whether the bytes are swapped.
    pub(crate) fn machine(self) -> Option<(Machine, bool)> {
        self.0
    }
}

/// Computation of a checksum and statistics in one pass.
pub(crate) struct Pass<'a> {
    /// Concatenated checksums of the blocks.
    blocks: Option<Vec<u8>>,
    format: Option<(Machine, bool)>,
    /// Statistics of the current zone; the positions of its extremes are only in `low` and `high`.
    statistics: Statistics,
    /// Parts that contain the minimum and the maximum, and the number of elements before them. The
    /// exact positions are searched once, when the zone ends, since in rising data each block has a
    /// new maximum.
    low: Option<(&'a [u8], u64)>,
    high: Option<(&'a [u8], u64)>,
    cut: Option<ZonePattern>,
    zones: Vec<Statistics>,
    /// Number of elements until the zone ends, and until the cutting pattern repeats.
    left: (u64, u64),
}

/// Number of bytes processed while they are in the processor's cache. A multiple of every element's
/// size.
pub(crate) const BLOCK_BYTES: usize = 128 << 10;
/// Number of bytes whose extremes are computed together. It bounds the second pass over data that
/// have left the cache, which finds the positions. Also a multiple of every element's size.
const PART_BYTES: usize = 16 << 10;

impl<'a> Pass<'a> {
    pub(crate) fn new(checksum: bool, statistics: Option<NumberFormat>) -> Self {
        let blocks = checksum.then(Vec::new);
        let format = statistics.and_then(|format| format.0);
        let (statistics, zones) = (Statistics::NONE, Vec::new());
        let left = (u64::MAX, u64::MAX);
        Self { blocks, format, statistics, low: None, high: None, cut: None, zones, left }
    }

    /// Also computes statistics of zones.
    pub(crate) fn with_zones(mut self, cut: Option<ZonePattern>) -> Self {
        self.left = cut.map_or((u64::MAX, u64::MAX), |cut| (cut.step.min(cut.of), cut.of));
        self.cut = cut;
        self
    }

    /// Returns whether there is nothing to compute.
    pub(crate) fn is_idle(&self) -> bool {
        self.blocks.is_none() && self.format.is_none()
    }

    /// Processes the next bytes: whole elements, and whole blocks unless they are the last.
    pub(crate) fn update(&mut self, bytes: &'a [u8]) {
        for block in bytes.chunks(BLOCK_BYTES) {
            self.update_checksum(block);
            let Some((number, swapped)) = self.format else { continue };
            let mut rest = block;
            while !rest.is_empty() {
                let room = usize::try_from(self.left.0).unwrap_or(usize::MAX).saturating_mul(number.size());
                let (part, after) = rest.split_at(room.min(rest.len()).min(PART_BYTES));
                let count = self.add(number, swapped, part);
                rest = after;
                if let Some(cut) = self.cut {
                    let (zone, all) = (self.left.0 - count, self.left.1 - count);
                    let all = if all == 0 { cut.of } else { all };
                    self.left = (if zone == 0 { cut.step.min(all) } else { zone }, all);
                    if zone == 0 {
                        let zone = self.end_zone();
                        self.zones.push(zone);
                    }
                }
            }
        }
    }

    /// As `update`, for the checksum only.
    pub(crate) fn update_checksum(&mut self, bytes: &[u8]) {
        if let Some(blocks) = &mut self.blocks {
            for block in bytes.chunks(BLOCK_BYTES) {
                blocks.extend_from_slice(&XxHash3_64::oneshot(block).to_le_bytes());
            }
        }
    }

    /// Adds elements to the zone; returns their number.
    fn add(&mut self, number: Machine, swapped: bool, part: &'a [u8]) -> u64 {
        let found = kernels::compute_statistics(number, swapped, part);
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

    /// Ends the current zone: returns its statistics with the positions of its extremes, and begins
    /// the next one.
    fn end_zone(&mut self) -> Statistics {
        let mut zone = std::mem::replace(&mut self.statistics, Statistics::NONE);
        let Some((number, swapped)) = self.format else { return zone };
        for (extreme, part) in [(&mut zone.min, self.low.take()), (&mut zone.max, self.high.take())] {
            if let (Some((value, place)), Some((part, before))) = (extreme, part) {
                *place = before + kernels::find_position(number, swapped, part, *value);
            }
        }
        zone
    }

    /// Returns the statistics of the zones, if there are zones.
    pub(crate) fn zones(&mut self) -> Option<Vec<Statistics>> {
        self.cut?;
        if self.statistics.count > 0 {
            let zone = self.end_zone();
            self.zones.push(zone);
        }
        Some(self.zones.clone())
    }

    /// Returns the checksum, 0 if none was requested, and the statistics.
    pub(crate) fn finish(mut self) -> (u64, Option<Statistics>) {
        let last = self.end_zone();
        let checksum = self.blocks.map_or(0, |blocks| checksum_blocks(&blocks));
        let mut all = Statistics::NONE;
        self.zones.iter().chain([&last]).for_each(|zone| all.merge(zone));
        (checksum, self.format.map(|_| all))
    }
}

/// Returns the checksum of a payload: xxh3 of its only block, or xxh3 of the blocks' checksums.
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    let mut pass = Pass::new(true, None);
    pass.update_checksum(bytes);
    pass.finish().0
}

/// Returns a nonzero checksum; 0 means that a record has no checksum.
fn checksum_blocks(blocks: &[u8]) -> u64 {
    let checksum = match blocks.first_chunk() {
        Some(only) if blocks.len() == 8 => u64::from_le_bytes(*only),
        _ => XxHash3_64::oneshot(blocks),
    };
    checksum.max(1)
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
        let format = NumberFormat::from_datatype(&Datatype::ieee(8, order));
        let mut pass = Pass::new(true, Some(format));
        pass.update(&bytes);
        let (checksum, statistics) = pass.finish();
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
        let mut pass = Pass::new(
            false,
            Some(NumberFormat::from_datatype(&Datatype::integer(8, true, ByteOrder::Little))),
        );
        pass.update(&bytes);
        let found = pass.finish().1.unwrap();
        assert_eq!(found.min, Some((Extreme::Signed(i64::MIN), 0)));
        assert_eq!(found.max, Some((Extreme::Signed(i64::MAX), 3)));
    }

    #[test]
    #[ignore = "a measurement"]
    fn speed_pass() {
        let block: Vec<u8> = (0..u32::try_from(BLOCK_BYTES / 4).unwrap())
            .flat_map(|at| ((at.wrapping_mul(2_654_435_761) >> 8) as f32).to_le_bytes())
            .collect();
        let format = NumberFormat::from_datatype(&Datatype::ieee(4, ByteOrder::Little));
        for (name, format, cut) in
            [("check", None, false), ("format", Some(format), false), ("cut", Some(format), true)]
        {
            let mut best = f64::MAX;
            for _ in 0..300 {
                let clock = std::time::Instant::now();
                let cut = cut.then_some(ZonePattern { step: 1 << 18, of: 1 << 40 });
                let mut pass = Pass::new(true, format).with_zones(cut);
                for _ in 0..64 {
                    pass.update(std::hint::black_box(&block));
                }
                std::hint::black_box(pass.zones());
                std::hint::black_box(pass.finish());
                best = best.min(clock.elapsed().as_secs_f64());
            }
            println!(
                "{name}: {:.2} us/MiB, {:.1} GB/s",
                best / 8.0 * 1e6,
                64.0 * BLOCK_BYTES as f64 / best / 1e9
            );
        }
    }
}
