//! FlatBuffers for Arrow's metadata: written by the crate `flatbuffers`, and read with all offsets
//! checked, because that crate's safe reader needs types generated from a schema.
//!
//! Source: *FlatBuffers Internals*.

use flatbuffers::{FlatBufferBuilder, UnionWIPOffset, VOffsetT, WIPOffset, field_index_to_field_offset};
use hyperchunk::{Error, Result};

/// Reference to a written object, of any type.
pub(super) type ObjectRef = WIPOffset<UnionWIPOffset>;

/// Builder of a flatbuffer. An object must be written before references to it.
#[derive(Default)]
pub(super) struct Builder(FlatBufferBuilder<'static>);

/// Value of a table's field.
#[derive(Clone, Copy)]
pub(super) enum Value {
    Byte(u8),
    Short(i16),
    Int(i32),
    Long(i64),
    Is(ObjectRef),
}

impl Builder {
    pub(super) fn text(&mut self, text: &str) -> ObjectRef {
        self.0.create_string(text).as_union_value()
    }

    /// Writes a vector of references.
    pub(super) fn list(&mut self, items: &[ObjectRef]) -> ObjectRef {
        self.0.create_vector(items).as_union_value()
    }

    /// Writes a vector of structs, each of `N` numbers of 64 bits.
    pub(super) fn structs<const N: usize>(&mut self, items: &[[i64; N]]) -> ObjectRef {
        self.0.start_vector::<i64>(N * items.len());
        for number in items.iter().flatten().rev() {
            self.0.push(number);
        }
        self.0.end_vector::<i64>(items.len()).as_union_value()
    }

    /// Writes a table with the given fields.
    pub(super) fn table(&mut self, fields: &[(VOffsetT, Value)]) -> ObjectRef {
        let table = self.0.start_table();
        for (field, value) in fields {
            let slot = field_index_to_field_offset(*field);
            match value {
                Value::Byte(value) => self.0.push_slot_always(slot, value),
                Value::Short(value) => self.0.push_slot_always(slot, value),
                Value::Int(value) => self.0.push_slot_always(slot, value),
                Value::Long(value) => self.0.push_slot_always(slot, value),
                Value::Is(object) => self.0.push_slot_always(slot, object),
            }
        }
        self.0.end_table(table).as_union_value()
    }

    /// Finishes the buffer; its length is a multiple of 8 bytes if it has a number of 64 bits.
    pub(super) fn finish(mut self, root: ObjectRef) -> Vec<u8> {
        self.0.finish_minimal(root);
        self.0.finished_data().to_vec()
    }
}

/// A table in a flatbuffer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Table<'a> {
    bytes: &'a [u8],
    at: usize,
}

fn wrong() -> Error {
    Error::corrupt("the Arrow metadata are cut off, or have an offset out of range").within("fragment")
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Result<[u8; N]> {
    let end = at.checked_add(N).ok_or_else(wrong)?;
    bytes.get(at..end).and_then(|part| part.try_into().ok()).ok_or_else(wrong)
}

fn u32_at(bytes: &[u8], at: usize) -> Result<usize> {
    usize::try_from(u32::from_le_bytes(array(bytes, at)?)).map_err(|_| wrong())
}

impl<'a> Table<'a> {
    pub(super) fn root(bytes: &'a [u8]) -> Result<Self> {
        Ok(Self { bytes, at: u32_at(bytes, 0)? })
    }

    /// Returns the position of a field; `None` if it has its default value.
    fn field(&self, number: usize) -> Result<Option<usize>> {
        let back = i32::from_le_bytes(array(self.bytes, self.at)?);
        let at = i64::try_from(self.at).map_err(|_| wrong())? - i64::from(back);
        let virtuals = usize::try_from(at).map_err(|_| wrong())?;
        let short = |at: usize| Ok::<_, Error>(usize::from(u16::from_le_bytes(array(self.bytes, at)?)));
        let place = 4 + 2 * number;
        if place + 2 > short(virtuals)? {
            return Ok(None);
        }
        let offset = short(virtuals.checked_add(place).ok_or_else(wrong)?)?;
        Ok((offset != 0).then_some(self.at.saturating_add(offset)))
    }

    fn referred(&self, number: usize) -> Result<Option<usize>> {
        let Some(at) = self.field(number)? else { return Ok(None) };
        at.checked_add(u32_at(self.bytes, at)?).map(Some).ok_or_else(wrong)
    }

    pub(super) fn byte(&self, number: usize) -> Result<u8> {
        self.field(number)?.map_or(Ok(0), |at| Ok(array::<1>(self.bytes, at)?[0]))
    }

    pub(super) fn long(&self, number: usize) -> Result<i64> {
        self.field(number)?.map_or(Ok(0), |at| Ok(i64::from_le_bytes(array(self.bytes, at)?)))
    }

    pub(super) fn table(&self, number: usize) -> Result<Option<Self>> {
        Ok(self.referred(number)?.map(|at| Self { bytes: self.bytes, at }))
    }

    pub(super) fn text(&self, number: usize) -> Result<Option<&'a str>> {
        let Some(at) = self.referred(number)? else { return Ok(None) };
        let length = u32_at(self.bytes, at)?;
        let end = (at + 4).checked_add(length).ok_or_else(wrong)?;
        let text = self.bytes.get(at + 4..end).ok_or_else(wrong)?;
        std::str::from_utf8(text).map(Some).map_err(|_| wrong())
    }

    pub(super) fn list(&self, number: usize) -> Result<Vec<Self>> {
        let Some(at) = self.referred(number)? else { return Ok(Vec::new()) };
        let count = u32_at(self.bytes, at)?;
        if count > self.bytes.len() / 4 {
            return Err(wrong());
        }
        let place = |item: usize| {
            let at = at + 4 + 4 * item;
            Ok(Self { bytes: self.bytes, at: at.checked_add(u32_at(self.bytes, at)?).ok_or_else(wrong)? })
        };
        (0..count).map(place).collect()
    }

    pub(super) fn structs<const N: usize>(&self, number: usize) -> Result<Vec<[i64; N]>> {
        let Some(at) = self.referred(number)? else { return Ok(Vec::new()) };
        let count = u32_at(self.bytes, at)?;
        if count > self.bytes.len() / (8 * N) {
            return Err(wrong());
        }
        let mut items = vec![[0; N]; count];
        for (place, number) in items.iter_mut().flatten().enumerate() {
            *number = i64::from_le_bytes(array(self.bytes, at + 4 + 8 * place)?);
        }
        Ok(items)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_made_is_read_and_damage_does_no_harm() {
        let mut builder = Builder::default();
        let text = builder.text("a name");
        let empty = builder.list(&[]);
        let inner = builder.table(&[
            (0, Value::Is(text)),
            (3, Value::Byte(7)),
            (1, Value::Short(-2)),
            (5, Value::Is(empty)),
        ]);
        let list = builder.list(&[inner, inner]);
        let structs = builder.structs(&[[1, 2], [3, -4]]);
        let root = builder.table(&[
            (1, Value::Long(-5)),
            (0, Value::Is(list)),
            (2, Value::Is(structs)),
            (4, Value::Int(9)),
            (3, Value::Is(inner)),
        ]);
        let bytes = builder.finish(root);
        assert!(bytes.len().is_multiple_of(8));
        fn read(bytes: &[u8]) -> Result<()> {
            let root = Table::root(bytes)?;
            root.long(1)?;
            root.long(9)?;
            root.structs::<2>(2)?;
            for table in root.list(0)?.into_iter().chain(root.table(3)?) {
                table.text(0)?;
                table.byte(3)?;
                table.list(5)?;
                table.byte(4)?;
            }
            Ok(())
        }
        read(&bytes).unwrap();
        let root = Table::root(&bytes).unwrap();
        assert_eq!(root.long(1).unwrap(), -5);
        assert_eq!(root.structs::<2>(2).unwrap(), [[1, 2], [3, -4]]);
        let all = root.list(0).unwrap();
        assert_eq!((all.len(), all[1].text(0).unwrap(), all[0].byte(3).unwrap()), (2, Some("a name"), 7));
        for at in 0..bytes.len() {
            for bit in [1, 0x80] {
                let mut damaged = bytes.clone();
                damaged[at] ^= bit;
                drop(read(&damaged));
            }
            drop(read(&bytes[..at]));
        }
    }
}
