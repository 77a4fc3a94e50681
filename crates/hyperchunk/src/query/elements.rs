//! Elements as numbers.

use crate::store::{Looks, Machine, Pass, Statistics};
use crate::{Error, Result};
use hyperchunk_format::model::Datatype;

/// How the elements of a dataset are read as numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Elements {
    looks: Looks,
    machine: Machine,
    swapped: bool,
}

/// Elements as numbers, without rounding.
#[derive(Debug)]
pub(crate) enum Values {
    /// Of floating-point numbers of so many bytes.
    Floats(Vec<f64>, usize),
    Integers(Vec<i128>),
}

impl Values {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Floats(values, _) => values.len(),
            Self::Integers(values) => values.len(),
        }
    }
}

impl Elements {
    /// Those of a datatype: plain integers and floating-point numbers of machines, in either byte order.
    pub(crate) fn of(datatype: &Datatype) -> Result<Self> {
        let looks = Looks::of(datatype);
        let (machine, swapped) = looks.machine().ok_or_else(|| {
            Error::unsupported(
                "only integers of 8 to 64 bits and floating-point numbers of 32 and 64 bits can be queried",
            )
        })?;
        Ok(Self { looks, machine, swapped })
    }

    /// How many bytes one has.
    pub(crate) fn size(self) -> usize {
        self.machine.size()
    }

    /// What whole elements are like.
    pub(crate) fn statistics(self, bytes: &[u8]) -> Statistics {
        let mut pass = Pass::new(false, Some(self.looks));
        pass.look(bytes);
        pass.end().1.unwrap_or(Statistics::NONE)
    }

    /// Whole elements as numbers.
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
