//! Huffman codes of SZ and SZ3: a tree stored as arrays of its nodes in preorder, and bits from the highest
//! of each byte.

use crate::codec::filled;
use crate::{Cursor, Error, ErrorKind, Result};

/// Maximum length of codes decoded by table lookup; longer ones continue in the tree.
const TABLE_BITS: u32 = 11;

/// Code tree.
#[derive(Debug)]
pub(crate) struct Tree {
    nodes: Vec<Node>,
    /// Entry for each combination of the next `TABLE_BITS` bits.
    table: Vec<Entry>,
}

#[derive(Debug, Clone, Copy)]
enum Node {
    Leaf(i32),
    /// Numbers of the children, which are larger than the node's own.
    Inner(u32, u32),
}

#[derive(Debug, Clone, Copy)]
enum Entry {
    /// Value of a complete code, and its length.
    Value(i32, u8),
    /// Inner node reached after all the bits.
    Node(u32),
}

impl Tree {
    /// Reads a tree of `count` nodes. Only SZ (`swappable`) respects the byte order of the machine that wrote
    /// it.
    pub(crate) fn read(cursor: &mut Cursor<'_>, count: u32, swappable: bool) -> Result<Self> {
        let big = cursor.u8()? != 0 && swappable;
        let width: usize = match count {
            0 => return Err(damaged("has no nodes")),
            1..=256 => 1,
            257..=65536 => 2,
            _ => 4,
        };
        let count = count as usize;
        let mut array = |width: usize| -> Result<Vec<u32>> {
            let bytes = cursor.take(count.checked_mul(width).ok_or_else(|| damaged("is too large"))?)?;
            let number = |bytes: &[u8]| match big {
                true => bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte)),
                false => bytes.iter().rev().fold(0, |number, byte| number << 8 | u32::from(*byte)),
            };
            Ok(bytes.chunks_exact(width).map(number).collect())
        };
        let (left, right, values, leaves) = (array(width)?, array(width)?, array(4)?, array(1)?);
        let mut nodes = Vec::with_capacity(count);
        for (number, (((left, right), value), leaf)) in
            (0_u32..).zip(left.iter().zip(&right).zip(&values).zip(&leaves))
        {
            // The root of a large tree has no mark.
            let leaf = *leaf != 0 && (number != 0 || width == 1);
            let inside = |child: u32| child > number && (child as usize) < count;
            nodes.push(match leaf {
                true => Node::Leaf(value.cast_signed()),
                false if inside(*left) && inside(*right) => Node::Inner(*left, *right),
                false => return Err(damaged("has an inner node without children")),
            });
        }
        let mut tree = Self { nodes, table: Vec::new() };
        tree.table = (0..1_u32 << TABLE_BITS).map(|bits| tree.entry(bits)).collect();
        Ok(tree)
    }

    fn node(&self, number: u32) -> Node {
        self.nodes.get(number as usize).copied().unwrap_or(Node::Leaf(0))
    }

    fn entry(&self, bits: u32) -> Entry {
        let mut number = 0;
        for length in 0..TABLE_BITS {
            match self.node(number) {
                Node::Leaf(value) => return Entry::Value(value, u8::try_from(length).unwrap_or(u8::MAX)),
                Node::Inner(left, right) => {
                    let bit = bits.unbounded_shr(TABLE_BITS.wrapping_sub(1).wrapping_sub(length)) & 1;
                    number = if bit == 0 { left } else { right };
                }
            }
        }
        match self.node(number) {
            Node::Leaf(value) => Entry::Value(value, u8::try_from(TABLE_BITS).unwrap_or(u8::MAX)),
            Node::Inner(..) => Entry::Node(number),
        }
    }

    /// True if there is only one value, whose code has no bits.
    pub(crate) fn is_constant(&self) -> bool {
        matches!(self.nodes.first(), Some(Node::Leaf(_)))
    }

    /// Decodes `count` values. The caller has checked that `count` is plausible.
    pub(crate) fn decode(&self, bytes: &[u8], count: usize) -> Result<Vec<i32>> {
        if let Some(Node::Leaf(value)) = self.nodes.first() {
            return filled(*value, count);
        }
        // Each code has at least one bit.
        if count > bytes.len().saturating_mul(8) {
            return Err(damaged("has too few bits"));
        }
        let mut values = filled(0, count)?;
        let mut bits = Bits { bytes, buffer: 0, left: 0 };
        for pair in values.chunks_mut(2) {
            bits.refill();
            for to in pair {
                *to = match self.table.get(bits.peek(TABLE_BITS)) {
                    Some(Entry::Value(value, length)) => {
                        bits.consume((*length).into())?;
                        *value
                    }
                    Some(Entry::Node(node)) => {
                        bits.consume(TABLE_BITS)?;
                        let value = self.walk(*node, &mut bits)?;
                        bits.refill();
                        value
                    }
                    None => return Err(damaged("has no table")),
                };
            }
        }
        Ok(values)
    }

    #[cold]
    fn walk(&self, mut number: u32, bits: &mut Bits<'_>) -> Result<i32> {
        loop {
            match self.node(number) {
                Node::Leaf(value) => return Ok(value),
                Node::Inner(left, right) => {
                    bits.refill();
                    number = if bits.peek(1) == 0 { left } else { right };
                    bits.consume(1)?;
                }
            }
        }
    }
}

/// Bit reader, highest bit of each byte first.
struct Bits<'a> {
    bytes: &'a [u8],
    /// Next bits, from the top.
    buffer: u64,
    left: u32,
}

impl Bits<'_> {
    /// Fills the buffer to at least 32 bits, if available.
    fn refill(&mut self) {
        if self.left > 32 {
            return;
        }
        let (next, rest) = match self.bytes.split_first_chunk::<4>() {
            Some((next, rest)) => (*next, rest),
            None => {
                while let Some((byte, rest)) = self.bytes.split_first()
                    && self.left <= 56
                {
                    self.buffer |= u64::from(*byte).unbounded_shl(56_u32.wrapping_sub(self.left));
                    self.left = self.left.wrapping_add(8);
                    self.bytes = rest;
                }
                return;
            }
        };
        self.buffer |= u64::from(u32::from_be_bytes(next)).unbounded_shl(32_u32.wrapping_sub(self.left));
        self.left = self.left.wrapping_add(32);
        self.bytes = rest;
    }

    /// Returns the next `count` bits (1 to 32); zeros after the end.
    fn peek(&self, count: u32) -> usize {
        usize::try_from(self.buffer.unbounded_shr(64_u32.wrapping_sub(count))).unwrap_or_default()
    }

    fn consume(&mut self, count: u32) -> Result<()> {
        self.left = self.left.checked_sub(count).ok_or_else(|| damaged("is used with too few bits"))?;
        self.buffer = self.buffer.unbounded_shl(count);
        Ok(())
    }
}

#[cold]
fn damaged(what: &str) -> Error {
    Error::new(ErrorKind::Filter, format!("a damaged SZ chunk: a Huffman tree {what}"))
}
