//! Elements as numbers.

use crate::{Extreme, Machine, NumberFormat, Pass, Statistics};
use hyperchunk::{Error, Result};
use hyperchunk_format::model::Datatype;

/// Number type of a dataset's elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Elements {
    format: NumberFormat,
    machine: Machine,
    swapped: bool,
}

/// Elements as numbers, without rounding.
#[derive(Debug)]
pub(crate) enum Values {
    /// Floating-point numbers, and their size in the dataset in bytes.
    Floats(Vec<f64>, usize),
    Integers(Vec<i128>),
}

impl Values {
    /// Returns each value as a number.
    pub(crate) fn numbers(self) -> Vec<Extreme> {
        match self {
            Self::Floats(values, _) => values.into_iter().map(Extreme::Float).collect(),
            Self::Integers(values) => {
                let number = |value: i128| match (i64::try_from(value), u64::try_from(value)) {
                    (Ok(value), _) => Extreme::Signed(value),
                    (_, Ok(value)) => Extreme::Unsigned(value),
                    _ => Extreme::Signed(0),
                };
                values.into_iter().map(number).collect()
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Floats(values, _) => values.len(),
            Self::Integers(values) => values.len(),
        }
    }
}

impl Elements {
    /// Returns the number type of a datatype: plain integers and floating-point numbers, in either
    /// byte order.
    pub(crate) fn from_datatype(datatype: &Datatype) -> Result<Self> {
        let format = NumberFormat::from_datatype(datatype);
        let (machine, swapped) = format.machine().ok_or_else(|| {
            Error::unsupported(
                "only integers of 8 to 64 bits and floating-point numbers of 32 and 64 bits can be queried",
            )
        })?;
        Ok(Self { format, machine, swapped })
    }

    /// Returns the size of an element in bytes.
    pub(crate) fn size(self) -> usize {
        self.machine.size()
    }

    /// Returns whether the type has NaNs.
    pub(crate) fn may_be_nan(self) -> bool {
        matches!(self.machine, Machine::F32 | Machine::F64)
    }

    /// Returns whether the type can represent exactly this value.
    pub(crate) fn has(self, value: Extreme) -> bool {
        let signed =
            |low: i64, high: i64| matches!(value, Extreme::Signed(value) if (low..=high).contains(&value));
        let unsigned = |high: u64| matches!(value, Extreme::Unsigned(value) if value <= high);
        match self.machine {
            #[expect(clippy::cast_possible_truncation, reason = "inexact values are refused")]
            Machine::F32 => {
                matches!(value, Extreme::Float(value) if f64::from(value as f32).to_bits() == value.to_bits() && !value.is_nan())
            }
            Machine::F64 => matches!(value, Extreme::Float(value) if !value.is_nan()),
            Machine::I8 => signed(i8::MIN.into(), i8::MAX.into()),
            Machine::I16 => signed(i16::MIN.into(), i16::MAX.into()),
            Machine::I32 => signed(i32::MIN.into(), i32::MAX.into()),
            Machine::I64 => signed(i64::MIN, i64::MAX),
            Machine::U8 => unsigned(u8::MAX.into()),
            Machine::U16 => unsigned(u16::MAX.into()),
            Machine::U32 => unsigned(u32::MAX.into()),
            Machine::U64 => unsigned(u64::MAX),
        }
    }

    /// Returns the number of the elements' kind that has these bits.
    pub(crate) fn extreme(self, bits: u64) -> Extreme {
        match self.machine {
            Machine::F32 | Machine::F64 => Extreme::Float(f64::from_bits(bits)),
            Machine::I8 | Machine::I16 | Machine::I32 | Machine::I64 => Extreme::Signed(bits.cast_signed()),
            Machine::U8 | Machine::U16 | Machine::U32 | Machine::U64 => Extreme::Unsigned(bits),
        }
    }

    /// Computes statistics of whole elements.
    pub(crate) fn statistics(self, bytes: &[u8]) -> Statistics {
        let mut pass = Pass::new(false, Some(self.format));
        pass.update(bytes);
        pass.finish().1.unwrap_or(Statistics::NONE)
    }

    /// Decodes whole elements.
    pub(crate) fn values(self, bytes: &[u8]) -> Values {
        macro_rules! values {
            ($type:ty, $wide:ty) => {{
                let (elements, _) = bytes.as_chunks::<{ size_of::<$type>() }>();
                let swapped = self.swapped;
                let load = |element: &[u8; size_of::<$type>()]| {
                    let mut element = *element;
                    if swapped {
                        element.reverse();
                    }
                    <$wide>::from(<$type>::from_ne_bytes(element))
                };
                elements.iter().map(load).collect()
            }};
        }
        match self.machine {
            Machine::F32 => Values::Floats(values!(f32, f64), 4),
            Machine::F64 => Values::Floats(values!(f64, f64), 8),
            Machine::I8 => Values::Integers(values!(i8, i128)),
            Machine::I16 => Values::Integers(values!(i16, i128)),
            Machine::I32 => Values::Integers(values!(i32, i128)),
            Machine::I64 => Values::Integers(values!(i64, i128)),
            Machine::U8 => Values::Integers(values!(u8, i128)),
            Machine::U16 => Values::Integers(values!(u16, i128)),
            Machine::U32 => Values::Integers(values!(u32, i128)),
            Machine::U64 => Values::Integers(values!(u64, i128)),
        }
    }
}
