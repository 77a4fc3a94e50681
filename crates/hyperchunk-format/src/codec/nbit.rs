//! N-bit (5): only the significant bits of each number, without padding. Source: the comments of HDF5's
//! H5Znbit.c.

mod encode;

use super::bits::{Order, check_length, number, store_one, unpack};
use super::{Codec, Context, EncodeContext, EncodeOutcome};
use crate::{Error, ErrorKind, Result};

/// Maximum nesting depth of a datatype.
const MAX_DEPTH: u32 = 64;
/// Maximum number of parts of a datatype. Since parts may be read repeatedly, their number could otherwise
/// explode.
const MAX_NODES: u32 = 1 << 17;

/// N-bit codec. Its parameters describe the datatype, as a tree in depth-first order.
#[derive(Debug)]
pub(super) struct NBit;

impl Codec for NBit {
    fn id(&self) -> u16 {
        5
    }

    fn name(&self) -> &'static str {
        "nbit"
    }

    fn decode(&self, input: &[u8], output: &mut Vec<u8>, context: &Context<'_>) -> Result<()> {
        self.decode_over(input, output, context)
    }

    fn decode_over(&self, input: &[u8], output: &mut Vec<u8>, context: &Context<'_>) -> Result<()> {
        if is_untouched(context.parameters)? {
            context.room(output, input.len() as u64)?.copy_from_slice(input);
            return Ok(());
        }
        let (count, node, _) = Tree::parse(context.parameters)?;
        check_length(input, count, node.bits)?;
        let output = context.room(output, u64::from(count).wrapping_mul(node.size.into()))?;
        let mut node = &node;
        while let Kind::Array(base) = &node.kind
            && node.size.checked_rem(base.size) == Some(0)
        {
            node = base;
        }
        if let Kind::Field { order, precision, offset } = node.kind
            && node.size <= 8
        {
            let elements = (output, bytes(node.size), order);
            unpack((input, 0, precision), elements, |value| value.wrapping_shl(offset));
            return Ok(());
        }
        // Padding of fields and members is zero.
        output.fill(0);
        let mut at = 0;
        for element in output.chunks_exact_mut(bytes(node.size)) {
            node.fill(input, &mut at, element);
        }
        Ok(())
    }

    fn kept(&self, input: &[u8], context: &Context<'_>) -> Result<Option<usize>> {
        Ok(is_untouched(context.parameters)?.then_some(input.len()))
    }

    fn encode(
        &self,
        input: &[u8],
        output: &mut Vec<u8>,
        context: &EncodeContext<'_>,
    ) -> Result<EncodeOutcome> {
        if is_untouched(context.parameters)? {
            Ok(EncodeOutcome::Same)
        } else {
            encode::encode(input, output, context)
        }
    }
}

/// True if the flag marks the datatype as free of padding.
fn is_untouched(parameters: &[u32]) -> Result<bool> {
    match parameters {
        [count, untouched, _, ..] if bytes(*count) == parameters.len() => Ok(*untouched != 0),
        _ => Err(wrong("their number does not match")),
    }
}

#[cold]
fn wrong(what: &str) -> Error {
    Error::new(ErrorKind::Filter, format!("invalid filter parameters: {what}"))
}

fn bytes(size: u32) -> usize {
    usize::try_from(size).unwrap_or(usize::MAX)
}

/// Datatype, or part of one.
#[derive(Debug)]
struct Node {
    /// Size in bytes; never 0.
    size: u32,
    /// Number of stored bits.
    bits: u64,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// Number with `precision` significant bits above `offset` others.
    Field { order: Order, precision: u32, offset: u32 },
    /// Other datatypes: all bytes are stored.
    Bytes,
    /// Array of a base type.
    Array(Box<Node>),
    /// Compound: offsets and members.
    Compound(Vec<(u32, Node)>),
}

/// Parser of nodes from the parameters.
#[derive(Debug)]
struct Tree<'a> {
    parameters: &'a [u32],
    next: usize,
    /// Remaining number of nodes.
    left: u32,
    /// `went_back`: libhdf5 would read a description a second time. `misread`: it would then take it for the
    /// description of another member.
    went_back: bool,
    misread: bool,
}

impl<'a> Tree<'a> {
    /// Parses the number of elements and their datatype; also returns whether libhdf5 misreads the datatype,
    /// so that it loses members.
    fn parse(parameters: &'a [u32]) -> Result<(u32, Node, bool)> {
        let mut tree = Self { parameters, next: 2, left: MAX_NODES, went_back: false, misread: false };
        let (count, class) = (tree.take()?, tree.take()?);
        let node = tree.node(class, 0)?;
        Ok((count, node, tree.misread))
    }

    fn take(&mut self) -> Result<u32> {
        let value = self.parameters.get(self.next).copied().ok_or_else(|| wrong("they end early"))?;
        self.next = self.next.saturating_add(1);
        Ok(value)
    }

    /// Parses a node of a class (1 to 4).
    fn node(&mut self, class: u32, depth: u32) -> Result<Node> {
        if depth > MAX_DEPTH {
            return Err(Error::limit(format!("a datatype that nests deeper than {MAX_DEPTH}")));
        }
        self.left = self
            .left
            .checked_sub(1)
            .ok_or_else(|| Error::limit(format!("a datatype of more than {MAX_NODES} parts")))?;
        let size = self.take()?;
        if size == 0 {
            return Err(wrong("a size of 0"));
        }
        let whole = u64::from(size).wrapping_mul(8);
        match class {
            1 => {
                let order = if self.take()? == 0 { Order::Little } else { Order::Big };
                let (precision, offset) = (self.take()?, self.take()?);
                if u64::from(precision).wrapping_add(offset.into()) > whole {
                    return Err(wrong("precision and offset are larger than the type"));
                }
                Ok(Node { size, bits: precision.into(), kind: Kind::Field { order, precision, offset } })
            }
            2 => self.array(size, depth),
            3 => self.compound(size, depth),
            4 => Ok(Node { size, bits: whole, kind: Kind::Bytes }),
            _ => Err(wrong("an unknown class of types")),
        }
    }

    fn array(&mut self, size: u32, depth: u32) -> Result<Node> {
        let class = self.take()?;
        let start = self.next;
        let base = self.node(class, depth.wrapping_add(1))?;
        match class {
            // In both directions, libhdf5 then reads the description of the base a second time, as if it
            // belonged to the next member. Members after such an array are lost. This code reproduces its
            // result byte for byte.
            2 | 3 => (self.next, self.went_back) = (start, true),
            // For the bits, the base is treated as large as the array.
            4 => return Ok(Node { size, bits: u64::from(size).wrapping_mul(8), kind: Kind::Bytes }),
            _ => {}
        }
        let count = size.checked_div(base.size).unwrap_or(0);
        let bits = u64::from(count).saturating_mul(base.bits);
        Ok(Node { size, bits, kind: Kind::Array(Box::new(base)) })
    }

    fn compound(&mut self, size: u32, depth: u32) -> Result<Node> {
        let count = self.take()?;
        let (mut used, mut bits) = (0_u64, 0_u64);
        let mut members = Vec::new();
        for _ in 0..count {
            self.misread |= self.went_back;
            let (offset, class) = (self.take()?, self.take()?);
            let start = self.next;
            let length = self.take()?;
            used = used.saturating_add(length.into());
            let end = u64::from(offset).saturating_add(length.into());
            if length == 0 || used > size.into() || end > size.into() {
                return Err(wrong("a member is outside its compound"));
            }
            self.next = start;
            // Other classes result from the misreading in `array`; libhdf5 skips such a member.
            if (1..=4).contains(&class) {
                let member = self.node(class, depth.wrapping_add(1))?;
                bits = bits.saturating_add(member.bits);
                members.push((offset, member));
            }
        }
        Ok(Node { size, bits, kind: Kind::Compound(members) })
    }
}

impl Node {
    /// Decodes the significant bits of one element, which is zeroed, and advances in the input.
    fn fill(&self, input: &[u8], at: &mut usize, element: &mut [u8]) {
        match &self.kind {
            Kind::Field { order, precision, offset } => {
                field(input, *at, element, *order, *precision, *offset);
                *at = at.wrapping_add(bytes(*precision));
            }
            Kind::Bytes => {
                let (words, rest) = element.as_chunks_mut::<8>();
                for word in words {
                    *word = number(input, *at, 64).to_be_bytes();
                    *at = at.wrapping_add(64);
                }
                for byte in rest {
                    *byte = number(input, *at, 8).to_le_bytes()[0];
                    *at = at.wrapping_add(8);
                }
            }
            Kind::Array(base) => {
                let size = bytes(base.size);
                let parts = element.chunks_exact_mut(size);
                match base.kind {
                    // Writes all bytes, so all of them must have significant bits.
                    Kind::Field { order, precision, offset }
                        if size <= 8
                            && offset < 8
                            && bytes(precision.wrapping_add(offset).div_ceil(8)) == size =>
                    {
                        let count = parts.len();
                        let parts = element.get_mut(..count.wrapping_mul(size)).unwrap_or_default();
                        let value = |value: u64| value.wrapping_shl(offset);
                        unpack((input, *at, precision), (parts, size, order), value);
                        *at = at.wrapping_add(count.wrapping_mul(bytes(precision)));
                    }
                    _ => parts.for_each(|part| base.fill(input, at, part)),
                }
            }
            Kind::Compound(members) => {
                for (offset, member) in members {
                    let start = bytes(*offset);
                    let end = start.wrapping_add(bytes(member.size));
                    member.fill(input, at, element.get_mut(start..end).unwrap_or_default());
                }
            }
        }
    }
}

/// Decodes a number of any size into the bytes of an element that hold its bits.
fn field(input: &[u8], at: usize, element: &mut [u8], order: Order, precision: u32, offset: u32) {
    let (first, end) = (bytes(offset / 8), bytes(precision.wrapping_add(offset).div_ceil(8)));
    let length = element.len();
    let element = match order {
        Order::Little => element.get_mut(first..end),
        Order::Big => element.get_mut(length.wrapping_sub(end)..length.wrapping_sub(first)),
    };
    let (element, offset) = (element.unwrap_or_default(), offset % 8);
    if element.len() <= 8 {
        store_one(number(input, at, precision).wrapping_shl(offset), element, order);
        return;
    }
    // Byte by byte, from the least significant one; `end` is the end of the significant bits.
    let end = precision.wrapping_add(offset);
    let byte = |low: u32| {
        let (from, to) = (low.max(offset), low.saturating_add(8).min(end));
        let bits = number(input, at.wrapping_add(bytes(end.wrapping_sub(to))), to.saturating_sub(from));
        bits.wrapping_shl(from.wrapping_sub(low)).to_le_bytes()[0]
    };
    let lows = (0..end).step_by(8);
    match order {
        Order::Little => element.iter_mut().zip(lows).for_each(|(to, low)| *to = byte(low)),
        Order::Big => element.iter_mut().rev().zip(lows).for_each(|(to, low)| *to = byte(low)),
    }
}

#[cfg(test)]
mod tests;
