//! N-bit encoder.

use super::super::bits::{Order, Packer, load_one, pack};
use super::{EncodeContext, EncodeOutcome, Kind, Node, Tree, bytes};
use crate::{Error, Result};

/// Writes the significant bits of all elements. Like libhdf5, it always adds a byte after the last whole one.
pub(super) fn encode(
    input: &[u8],
    output: &mut Vec<u8>,
    context: &EncodeContext<'_>,
) -> Result<EncodeOutcome> {
    let (count, node, misread) = Tree::parse(context.parameters)?;
    if misread {
        let message = "members after an array of arrays or compounds, which libhdf5 loses with this filter";
        return Err(Error::unsupported(message));
    }
    if u64::from(count).checked_mul(node.size.into()) != Some(input.len() as u64) {
        let message = format!("{} bytes do not form {count} elements of {} bytes", input.len(), node.size);
        return Err(Error::invalid(message));
    }
    let bits = u128::from(count).saturating_mul(node.bits.into());
    let size = usize::try_from(bits / 8).unwrap_or(usize::MAX).saturating_add(1);
    let mut packer = Packer::new(context.room(output, size)?);
    let mut base = &node;
    while let Kind::Array(inner) = &base.kind
        && base.size.checked_rem(inner.size) == Some(0)
    {
        base = inner;
    }
    if let Kind::Field { order, precision, offset } = base.kind
        && base.size <= 8
    {
        let elements = (input, bytes(base.size), order);
        pack(elements, (&mut packer, precision), |value| value.wrapping_shr(offset));
    } else {
        input.chunks_exact(bytes(node.size)).for_each(|element| node.pack(element, &mut packer));
    }
    packer.finish();
    Ok(EncodeOutcome::Written(size))
}

impl Node {
    /// Writes the significant bits of one element.
    fn pack(&self, element: &[u8], packer: &mut Packer<'_>) {
        match &self.kind {
            Kind::Field { order, precision, offset } => field(element, packer, *order, *precision, *offset),
            Kind::Bytes => {
                let (words, rest) = element.as_chunks::<8>();
                words.iter().for_each(|word| packer.put(u64::from_be_bytes(*word), 64));
                rest.iter().for_each(|byte| packer.put((*byte).into(), 8));
            }
            Kind::Array(base) => {
                element.chunks_exact(bytes(base.size)).for_each(|part| base.pack(part, packer));
            }
            Kind::Compound(members) => {
                for (offset, member) in members {
                    let start = bytes(*offset);
                    let end = start.wrapping_add(bytes(member.size));
                    member.pack(element.get(start..end).unwrap_or_default(), packer);
                }
            }
        }
    }
}

/// Writes a number of any size, from the bytes of an element that hold its bits.
fn field(element: &[u8], packer: &mut Packer<'_>, order: Order, precision: u32, offset: u32) {
    let end = precision.wrapping_add(offset);
    let (first, last) = (bytes(offset / 8), bytes(end.div_ceil(8)));
    let length = element.len();
    let element = match order {
        Order::Little => element.get(first..last),
        Order::Big => element.get(length.wrapping_sub(last)..length.wrapping_sub(first)),
    };
    let (element, offset) = (element.unwrap_or_default(), offset % 8);
    if element.len() <= 8 {
        packer.put(load_one(element, order).wrapping_shr(offset), precision);
        return;
    }
    // Byte by byte, from the most significant one.
    let end = precision.wrapping_add(offset);
    let mut put = |number: usize, byte: u8| {
        let low = u32::try_from(number.wrapping_mul(8)).unwrap_or(u32::MAX);
        let (from, to) = (low.max(offset), low.saturating_add(8).min(end));
        packer.put(u64::from(byte).wrapping_shr(from.wrapping_sub(low)), to.saturating_sub(from));
    };
    match order {
        Order::Little => element.iter().enumerate().rev().for_each(|(number, byte)| put(number, *byte)),
        Order::Big => {
            let last = element.len().saturating_sub(1);
            element.iter().enumerate().for_each(|(place, byte)| put(last.wrapping_sub(place), *byte));
        }
    }
}
