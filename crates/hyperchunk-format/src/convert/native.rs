//! Conversions of native numbers: one loop for each pair of types.
//!
//! Floating-point numbers become integers by truncation; out-of-range values saturate, and NaN becomes 0.
//! HDF5 leaves NaN, and a value that rounds to one more than the largest, to the compiler, which returns the
//! least integer on some processors.

use super::elements::each;
use crate::model::{ByteOrder, Class, Datatype};

/// Loop that converts packed little-endian elements.
pub(super) type Kernel = fn(&[u8], &mut [u8]);

/// Number of elements buffered at a time.
const BLOCK_ELEMENTS: usize = 128;

/// Number type of the processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Native {
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F32,
    F64,
}

impl Native {
    /// Returns the native type of a datatype, and whether its bytes are big-endian.
    pub(super) fn of(datatype: &Datatype) -> Option<(Self, bool)> {
        let size = u16::try_from(datatype.size).ok()?;
        let order = match &datatype.class {
            Class::Integer { order, .. } => *order,
            Class::Float(float) => float.order,
            _ => return None,
        };
        let all = [
            Self::I8,
            Self::I16,
            Self::I32,
            Self::I64,
            Self::U8,
            Self::U16,
            Self::U32,
            Self::U64,
            Self::F32,
            Self::F64,
        ];
        let native = all.into_iter().find(|native| native.datatype(order) == *datatype)?;
        let big = match order {
            ByteOrder::Little => false,
            ByteOrder::Big => size > 1,
            ByteOrder::Vax => return None,
        };
        Some((native, big))
    }

    fn datatype(self, order: ByteOrder) -> Datatype {
        let size = u16::try_from(self.size()).unwrap_or(8);
        match self {
            Self::F32 | Self::F64 => Datatype::ieee(size, order),
            _ => Datatype::integer(size, matches!(self, Self::I8 | Self::I16 | Self::I32 | Self::I64), order),
        }
    }

    pub(super) fn size(self) -> usize {
        match self {
            Self::I8 | Self::U8 => 1,
            Self::I16 | Self::U16 => 2,
            Self::I32 | Self::U32 | Self::F32 => 4,
            Self::I64 | Self::U64 | Self::F64 => 8,
        }
    }

    pub(super) fn is_float(self) -> bool {
        matches!(self, Self::F32 | Self::F64)
    }

    pub(super) fn kernel(self, to: Self) -> Kernel {
        match self {
            Self::I8 => from::<i8, 1>(to),
            Self::I16 => from::<i16, 2>(to),
            Self::I32 => from::<i32, 4>(to),
            Self::I64 => from::<i64, 8>(to),
            Self::U8 => from::<u8, 1>(to),
            Self::U16 => from::<u16, 2>(to),
            Self::U32 => from::<u32, 4>(to),
            Self::U64 => from::<u64, 8>(to),
            Self::F32 => from::<f32, 4>(to),
            Self::F64 => from::<f64, 8>(to),
        }
    }
}

fn from<S: Load<N>, const N: usize>(to: Native) -> Kernel {
    match to {
        Native::I8 => kernel::<S, i8, N, 1>,
        Native::I16 => kernel::<S, i16, N, 2>,
        Native::I32 => kernel::<S, i32, N, 4>,
        Native::I64 => kernel::<S, i64, N, 8>,
        Native::U8 => kernel::<S, u8, N, 1>,
        Native::U16 => kernel::<S, u16, N, 2>,
        Native::U32 => kernel::<S, u32, N, 4>,
        Native::U64 => kernel::<S, u64, N, 8>,
        Native::F32 => kernel::<S, f32, N, 4>,
        Native::F64 => kernel::<S, f64, N, 8>,
    }
}

fn kernel<S: Load<N>, T: Store<M>, const N: usize, const M: usize>(from: &[u8], to: &mut [u8]) {
    let (from, _) = from.as_chunks::<N>();
    let (to, _) = to.as_chunks_mut::<M>();
    for (to, from) in to.iter_mut().zip(from) {
        *to = T::store(S::load(*from));
    }
}

/// Source number of `N` bytes, read as the widest type of its kind: `i64`, `u64` or `f64`.
trait Load<const N: usize> {
    type WideNumber: WideNumber;
    fn load(bytes: [u8; N]) -> Self::WideNumber;
}

/// Target number of `N` bytes.
trait Store<const N: usize> {
    fn store<W: WideNumber>(value: W) -> [u8; N];
}

/// Type to which elements are widened on reading.
trait WideNumber:
    Cast<i8>
    + Cast<i16>
    + Cast<i32>
    + Cast<i64>
    + Cast<u8>
    + Cast<u16>
    + Cast<u32>
    + Cast<u64>
    + Cast<f32>
    + Cast<f64>
{
}

impl WideNumber for i64 {}
impl WideNumber for u64 {}
impl WideNumber for f64 {}

/// Conversion by HDF5's rules.
trait Cast<T> {
    fn cast(self) -> T;
}

macro_rules! number {
    ($($number:ident, $size:literal, $wide:ident;)*) => { $(
        impl Load<$size> for $number {
            type WideNumber = $wide;
            #[inline]
            fn load(bytes: [u8; $size]) -> $wide {
                $wide::from($number::from_le_bytes(bytes))
            }
        }
        impl Store<$size> for $number {
            #[inline]
            fn store<W: WideNumber>(value: W) -> [u8; $size] {
                Cast::<$number>::cast(value).to_le_bytes()
            }
        }
    )* };
}

number! {
    i8, 1, i64;
    i16, 2, i64;
    i32, 4, i64;
    i64, 8, i64;
    u8, 1, u64;
    u16, 2, u64;
    u32, 4, u64;
    u64, 8, u64;
    f32, 4, f64;
    f64, 8, f64;
}

macro_rules! integer {
    ($($number:ident)*) => { $(
        impl Cast<$number> for i64 {
            #[inline]
            fn cast(self) -> $number {
                $number::try_from(self).unwrap_or(if self < 0 { $number::MIN } else { $number::MAX })
            }
        }
        impl Cast<$number> for u64 {
            #[inline]
            fn cast(self) -> $number {
                $number::try_from(self).unwrap_or($number::MAX)
            }
        }
        impl Cast<$number> for f64 {
            #[inline]
            #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "saturating is what is wanted")]
            fn cast(self) -> $number {
                self as $number
            }
        }
    )* };
}

integer! { i8 i16 i32 i64 u8 u16 u32 u64 }

macro_rules! float {
    ($($wide:ident $number:ident;)*) => { $(
        impl Cast<$number> for $wide {
            #[inline]
            #[allow(clippy::cast_precision_loss, reason = "rounding is what is wanted")]
            fn cast(self) -> $number {
                self as $number
            }
        }
    )* };
}

float! { i64 f32; i64 f64; u64 f32; u64 f64; f64 f64; }

impl Cast<f32> for f64 {
    #[inline]
    #[expect(clippy::cast_possible_truncation, reason = "rounding is what is wanted")]
    fn cast(self) -> f32 {
        // Every value beyond the largest number becomes infinite, even one that would round down to it.
        let over = self.abs() > f64::from(f32::MAX);
        if over { f32::INFINITY.copysign(self as f32) } else { self as f32 }
    }
}

/// Conversion between two native numbers, each in either byte order.
#[derive(Debug, Clone, Copy)]
pub(super) struct Pair {
    pub(super) from: Native,
    pub(super) from_big: bool,
    pub(super) to: Native,
    pub(super) to_big: bool,
    pub(super) kernel: Kernel,
}

impl Pair {
    /// Converts `count` elements, `from_step` and `to_step` bytes apart.
    pub(super) fn run(&self, from: &[u8], from_step: usize, to: &mut [u8], to_step: usize, count: usize) {
        let (n, m) = (self.from.size(), self.to.size());
        let direct_from = from_step == n && !self.from_big;
        let direct_to = to_step == m && !self.to_big;
        if direct_from && direct_to {
            let Some(from) = from.get(..count.saturating_mul(n)) else { return };
            return (self.kernel)(from, to);
        }
        let (mut loaded, mut stored) = ([0; BLOCK_ELEMENTS * 8], [0; BLOCK_ELEMENTS * 8]);
        let mut done = 0_usize;
        while done < count {
            let block = count.saturating_sub(done).min(BLOCK_ELEMENTS);
            let Some(from) = from.get(done.saturating_mul(from_step)..) else { return };
            let Some(to) = to.get_mut(done.saturating_mul(to_step)..) else { return };
            let from = if direct_from {
                from
            } else {
                copy(from, from_step, &mut loaded, n, block, n, self.from_big);
                &loaded
            };
            let Some(from) = from.get(..block.saturating_mul(n)) else { return };
            if direct_to {
                let Some(to) = to.get_mut(..block.saturating_mul(m)) else { return };
                (self.kernel)(from, to);
            } else {
                let Some(stored) = stored.get_mut(..block.saturating_mul(m)) else { return };
                (self.kernel)(from, stored);
                copy(stored, m, to, to_step, block, m, self.to_big);
            }
            done = done.saturating_add(block);
        }
    }
}

/// Copies `count` elements of `size` bytes, optionally reversing their bytes.
pub(super) fn copy(
    from: &[u8],
    from_step: usize,
    to: &mut [u8],
    to_step: usize,
    count: usize,
    size: usize,
    reverse: bool,
) {
    match (size, reverse) {
        (2, true) => {
            map(from, from_step, to, to_step, count, |bytes| u16::from_be_bytes(bytes).to_le_bytes())
        }
        (4, true) => {
            map(from, from_step, to, to_step, count, |bytes| u32::from_be_bytes(bytes).to_le_bytes())
        }
        (8, true) => {
            map(from, from_step, to, to_step, count, |bytes| u64::from_be_bytes(bytes).to_le_bytes())
        }
        (16, true) => {
            map(from, from_step, to, to_step, count, |bytes| u128::from_be_bytes(bytes).to_le_bytes())
        }
        (1, _) => map::<1>(from, from_step, to, to_step, count, |bytes| bytes),
        (2, false) => map::<2>(from, from_step, to, to_step, count, |bytes| bytes),
        (4, false) => map::<4>(from, from_step, to, to_step, count, |bytes| bytes),
        (8, false) => map::<8>(from, from_step, to, to_step, count, |bytes| bytes),
        (16, false) => map::<16>(from, from_step, to, to_step, count, |bytes| bytes),
        _ => each(from, from_step, to, to_step, count, |from, to| {
            let (Some(from), Some(to)) = (from.get(..size), to.get_mut(..size)) else { return };
            to.copy_from_slice(from);
            if reverse {
                to.reverse();
            }
        }),
    }
}

#[inline]
fn map<const N: usize>(
    from: &[u8],
    from_step: usize,
    to: &mut [u8],
    to_step: usize,
    count: usize,
    f: impl Fn([u8; N]) -> [u8; N],
) {
    if from_step == N && to_step == N {
        let pairs = to.as_chunks_mut::<N>().0.iter_mut().zip(from.as_chunks::<N>().0);
        pairs.take(count).for_each(|(to, from)| *to = f(*from));
    } else {
        each(from, from_step, to, to_step, count, |from, to| {
            if let (Some(from), Some(to)) = (from.first_chunk(), to.first_chunk_mut()) {
                *to = f(*from);
            }
        });
    }
}

/// Reverses the first `size` bytes of each element in place.
pub(super) fn reverse(elements: &mut [u8], step: usize, size: usize) {
    match size {
        2 => change(elements, step, |bytes| u16::from_be_bytes(bytes).to_le_bytes()),
        4 => change(elements, step, |bytes| u32::from_be_bytes(bytes).to_le_bytes()),
        8 => change(elements, step, |bytes| u64::from_be_bytes(bytes).to_le_bytes()),
        _ => elements.chunks_mut(step.max(1)).for_each(|element| {
            element.get_mut(..size).unwrap_or_default().reverse();
        }),
    }
}

#[inline]
fn change<const N: usize>(elements: &mut [u8], step: usize, f: impl Fn([u8; N]) -> [u8; N]) {
    if step == N {
        elements.as_chunks_mut().0.iter_mut().for_each(|to| *to = f(*to));
    } else {
        elements.chunks_mut(step.max(1)).filter_map(<[u8]>::first_chunk_mut).for_each(|to| *to = f(*to));
    }
}
