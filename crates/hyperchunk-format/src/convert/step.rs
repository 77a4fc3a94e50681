//! Steps of a conversion.

use super::elements::each;
use super::enumeration::Names;
use super::native::{self, Pair};
use super::number::{Format, Rounding};
use super::text;
use super::widen::Widening;
use crate::model::StringPadding;

/// Approximate number of bytes of multi-member elements to convert before the next member.
const BLOCK_BYTES: usize = 16 << 10;

/// Conversion of one part of an element.
#[derive(Debug, Clone)]
pub(super) enum Step {
    /// Copies a number of bytes.
    Copy(usize),
    /// Copies a number of bytes in reverse order.
    Reverse(usize),
    /// Sets a number of bytes to 0.
    Zero(usize),
    Native(Pair),
    Widening(Widening),
    Number(Format, Format, Rounding),
    Bits(Format, Format),
    Text {
        from_size: usize,
        from: StringPadding,
        to_size: usize,
        to: StringPadding,
    },
    Names {
        names: Names,
        size: usize,
    },
    Fields(Vec<Field>),
    /// Converts `count` adjacent elements.
    Array {
        count: usize,
        from_size: usize,
        to_size: usize,
        step: Box<Step>,
    },
}

/// Part of an element.
#[derive(Debug, Clone)]
pub(super) struct Field {
    pub(super) from: usize,
    pub(super) to: usize,
    pub(super) step: Step,
}

impl Step {
    /// Converts `count` parts, `from_step` and `to_step` bytes apart. The slices start at the first part.
    pub(super) fn run(&self, from: &[u8], from_step: usize, to: &mut [u8], to_step: usize, count: usize) {
        match self {
            Self::Copy(size) if *size == from_step && *size == to_step => {
                let size = size.saturating_mul(count);
                if let (Some(from), Some(to)) = (from.get(..size), to.get_mut(..size)) {
                    to.copy_from_slice(from);
                }
            }
            Self::Copy(size) => native::copy(from, from_step, to, to_step, count, *size, false),
            Self::Reverse(size) => native::copy(from, from_step, to, to_step, count, *size, true),
            Self::Zero(size) => each(from, from_step, to, to_step, count, |_, to| {
                to.iter_mut().take(*size).for_each(|byte| *byte = 0);
            }),
            Self::Native(pair) => pair.run(from, from_step, to, to_step, count),
            Self::Widening(widen) => widen.run(from, from_step, to, to_step, count),
            Self::Number(format, to_format, rounding) => {
                each(from, from_step, to, to_step, count, |from, to| {
                    format.convert(from, to_format, *rounding, to);
                })
            }
            Self::Bits(format, to_format) => each(from, from_step, to, to_step, count, |from, to| {
                format.convert_bits(from, to_format, to);
            }),
            Self::Text { from_size, from: padding, to_size, to: to_padding } => {
                each(from, from_step, to, to_step, count, |from, to| {
                    if let (Some(from), Some(to)) = (from.get(..*from_size), to.get_mut(..*to_size)) {
                        text::convert(from, *padding, to, *to_padding);
                    }
                });
            }
            Self::Names { names, size } => each(from, from_step, to, to_step, count, |from, to| {
                if let Some(to) = to.get_mut(..*size) {
                    names.convert(from, to);
                }
            }),
            Self::Fields(fields) => run_fields(fields, from, from_step, to, to_step, count),
            Self::Array { count: inner, from_size, to_size, step } => {
                let (from_whole, to_whole) =
                    (inner.saturating_mul(*from_size), inner.saturating_mul(*to_size));
                if from_whole == from_step && to_whole == to_step {
                    return step.run(from, *from_size, to, *to_size, count.saturating_mul(*inner));
                }
                each(from, from_step, to, to_step, count, |from, to| {
                    if let (Some(from), Some(to)) = (from.get(..from_whole), to.get_mut(..to_whole)) {
                        step.run(from, *from_size, to, *to_size, *inner);
                    }
                });
            }
        }
    }

    /// True if the conversion only reverses bytes in place.
    pub(super) fn stays(&self) -> bool {
        match self {
            Self::Copy(_) | Self::Reverse(_) => true,
            Self::Array { from_size, to_size, step, .. } => from_size == to_size && step.stays(),
            Self::Fields(fields) => fields.iter().all(|field| field.from == field.to && field.step.stays()),
            _ => false,
        }
    }

    /// Reverses bytes of parts that are `step` bytes apart.
    pub(super) fn in_place(&self, elements: &mut [u8], step: usize) {
        match self {
            Self::Reverse(size) => native::reverse(elements, step, *size),
            Self::Array { count, from_size, step: inner, .. }
                if count.checked_mul(*from_size) == Some(step) =>
            {
                inner.in_place(elements, *from_size);
            }
            Self::Array { count, from_size, step: inner, .. } => {
                let whole = count.saturating_mul(*from_size);
                elements.chunks_mut(step.max(1)).filter_map(|element| element.get_mut(..whole)).for_each(
                    |array| {
                        inner.in_place(array, *from_size);
                    },
                );
            }
            Self::Fields(fields) => {
                let block = BLOCK_BYTES.checked_div(step).unwrap_or(1).max(1).saturating_mul(step).max(1);
                for elements in elements.chunks_mut(block) {
                    for field in fields {
                        field.step.in_place(elements.get_mut(field.from..).unwrap_or_default(), step);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Converts elements member by member, in blocks.
fn run_fields(fields: &[Field], from: &[u8], from_step: usize, to: &mut [u8], to_step: usize, count: usize) {
    let element = from_step.saturating_add(to_step).max(1);
    let block = BLOCK_BYTES.checked_div(element).unwrap_or(1).max(1);
    let mut done = 0_usize;
    while done < count {
        let block = block.min(count.saturating_sub(done));
        let Some(from) = from.get(done.saturating_mul(from_step)..) else { return };
        let Some(to) = to.get_mut(done.saturating_mul(to_step)..) else { return };
        for field in fields {
            if let (Some(from), Some(to)) = (from.get(field.from..), to.get_mut(field.to..)) {
                field.step.run(from, from_step, to, to_step, block);
            }
        }
        done = done.saturating_add(block);
    }
}
