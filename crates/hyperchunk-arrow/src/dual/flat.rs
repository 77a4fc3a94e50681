//! A writer of FlatBuffers for the footer, with control over the location of each table: some of its tables
//! are inside HDF5's object headers. The crate `flatbuffers`, which writes everything else, chooses locations
//! itself, from the end to the front.
//!
//! Tables are written front to back: the targets of a table's offsets follow it. Source: FlatBuffers'
//! internals, "Tables", "Vectors", "Strings"; Arrow's `Schema.fbs`, `File.fbs`.

use crate::{Error, Result};

/// A field of a table: its number in the table's type, and its value.
#[derive(Debug, Clone, Copy)]
pub(super) enum Slot {
    I16(u16, i16),
    /// An offset, which is set by [`FlatBuffer::set_offset`].
    Offset(u16),
}

impl Slot {
    fn number(self) -> u16 {
        match self {
            Self::I16(number, _) | Self::Offset(number) => number,
        }
    }
}

/// A growing buffer. Its first byte must be at a file offset that is a multiple of eight.
#[derive(Debug, Default, Clone)]
pub(super) struct FlatBuffer {
    pub(super) bytes: Vec<u8>,
}

impl FlatBuffer {
    /// Makes a buffer with room for the offset of the root table.
    pub(super) fn new() -> Self {
        Self { bytes: vec![0; 4] }
    }

    fn align(&mut self, alignment: usize) {
        self.bytes.resize(self.bytes.len().next_multiple_of(alignment), 0);
    }

    /// Overwrites bytes; ignores a range past the end.
    fn put(&mut self, at: usize, bytes: &[u8]) {
        if let Some(place) = self.bytes.get_mut(at..).and_then(|rest| rest.get_mut(..bytes.len())) {
            place.copy_from_slice(bytes);
        }
    }

    /// Sets the offset at `at` to point to `to`, which must follow it.
    pub(super) fn set_offset(&mut self, at: usize, to: usize) -> Result<()> {
        let distance = to.checked_sub(at).and_then(|distance| u32::try_from(distance).ok());
        let distance =
            distance.ok_or_else(|| Error::limit("the target is not within 4 GiB after the offset"))?;
        self.put(at, &distance.to_le_bytes());
        Ok(())
    }

    /// Writes a table preceded by its vtable; returns its position, and the positions of its offsets in the
    /// order of `slots`.
    pub(super) fn table(&mut self, slots: &[Slot]) -> (usize, Vec<usize>) {
        let count = slots.iter().map(|slot| usize::from(slot.number()) + 1).max().unwrap_or(0);
        self.align(2);
        let table = (self.bytes.len() + 4 + 2 * count).next_multiple_of(4);
        let vtable = table - (4 + 2 * count);
        let mut field_offsets = vec![0_u16; count];
        // After the table's own 4-byte offset to its vtable, the largest fields first.
        let mut next = 4_u16;
        let mut offsets = Vec::new();
        self.bytes.resize(table + 4, 0);
        let (offset_slots, number_slots): (Vec<Slot>, Vec<Slot>) =
            slots.iter().partition(|slot| matches!(slot, Slot::Offset(_)));
        for slot in offset_slots.into_iter().chain(number_slots) {
            if let Some(field_offset) = field_offsets.get_mut(usize::from(slot.number())) {
                *field_offset = next;
            }
            match slot {
                Slot::Offset(_) => {
                    offsets.push(self.bytes.len());
                    self.bytes.extend([0; 4]);
                    next += 4;
                }
                Slot::I16(_, value) => {
                    self.bytes.extend(value.to_le_bytes());
                    next += 2;
                }
            }
        }
        let mut vtable_bytes = Vec::with_capacity(4 + 2 * count);
        vtable_bytes.extend(u16::try_from(4 + 2 * count).unwrap_or(u16::MAX).to_le_bytes());
        vtable_bytes.extend(next.to_le_bytes());
        field_offsets.iter().for_each(|offset| vtable_bytes.extend(offset.to_le_bytes()));
        self.put(vtable, &vtable_bytes);
        let back = i32::try_from(table - vtable).unwrap_or(i32::MAX);
        self.put(table, &back.to_le_bytes());
        (table, offsets)
    }

    /// Sets the root table.
    pub(super) fn root(&mut self, table: usize) -> Result<()> {
        self.set_offset(0, table)
    }

    /// Writes a vector of `count` structs of eight-byte numbers, encoded in `bytes`; returns its position.
    pub(super) fn structs(&mut self, count: usize, bytes: &[u8]) -> usize {
        // The structs after the 4-byte length start at a multiple of eight.
        self.align(4);
        if self.bytes.len() % 8 != 4 {
            self.bytes.extend([0; 4]);
        }
        let at = self.bytes.len();
        self.bytes.extend(u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
        self.bytes.extend_from_slice(bytes);
        at
    }

    /// Writes a vector of offsets; returns its position. The offsets follow its length.
    pub(super) fn offset_vector(&mut self, count: usize) -> usize {
        self.align(4);
        let at = self.bytes.len();
        self.bytes.extend(u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
        self.bytes.resize(at + 4 + 4 * count, 0);
        at
    }

    /// Writes a string; returns its position.
    pub(super) fn text(&mut self, text: &str) -> usize {
        self.align(4);
        let at = self.bytes.len();
        self.bytes.extend(u32::try_from(text.len()).unwrap_or(u32::MAX).to_le_bytes());
        self.bytes.extend_from_slice(text.as_bytes());
        self.bytes.push(0);
        at
    }

    /// Writes a vector of pairs of keys and values; returns its position.
    pub(super) fn pairs(&mut self, pairs: &[(String, String)]) -> Result<usize> {
        let vector = self.offset_vector(pairs.len());
        for (number, pair) in pairs.iter().enumerate() {
            let table = self.pair(pair)?;
            self.set_offset(vector + 4 + 4 * number, table)?;
        }
        Ok(vector)
    }

    /// Writes one pair; returns its position.
    pub(super) fn pair(&mut self, (key, value): &(String, String)) -> Result<usize> {
        let (table, offsets) = self.table(&[Slot::Offset(0), Slot::Offset(1)]);
        for (offset, text) in offsets.into_iter().zip([key, value]) {
            let at = self.text(text);
            self.set_offset(offset, at)?;
        }
        Ok(table)
    }
}

/// Reads a little-endian number.
pub(super) fn u32_at(bytes: &[u8], at: usize) -> Result<usize> {
    let four = bytes.get(at..).and_then(|rest| rest.first_chunk::<4>());
    let four = four.ok_or_else(|| Error::corrupt("truncated Arrow metadata"))?;
    usize::try_from(u32::from_le_bytes(*four)).map_err(|_| Error::limit("Arrow metadata larger than memory"))
}

pub(super) fn u16_at(bytes: &[u8], at: usize) -> Result<usize> {
    let two = bytes.get(at..).and_then(|rest| rest.first_chunk::<2>());
    two.map(|two| u16::from_le_bytes(*two).into()).ok_or_else(|| Error::corrupt("truncated Arrow metadata"))
}
