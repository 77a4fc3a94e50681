//! Streams: encoding of elements without a fixed form, independent of an HDF5 file.
//!
//! Types of fixed form are stored unchanged. Otherwise elements are concatenated. A compound is its
//! members in declared order, without gaps; an array is its elements. A sequence or string of
//! variable length is the number of its elements in 8 bytes, followed by these; the number is 2⁶⁴ -
//! 1 for a null one. A reference is the length of its target's path in 8 bytes, followed by the
//! path, which is empty for a null one. A reference to a part of a dataset is the same, followed by
//! the length of its selection in 8 bytes, and the selection as HDF5 stores it in the global heap
//! after the address.

use hyperchunk::Sequences;
use hyperchunk::internal::pack::Contents;
use hyperchunk::write::{NodeId, Writer};
use hyperchunk::{Error, Result};
use hyperchunk_format::model::{Class, Datatype, ReferenceKind};

/// Returns whether a type has no fixed form.
pub(super) fn is_stream(datatype: &Datatype) -> bool {
    datatype.has_vlen() || datatype.has_reference()
}

fn narrow(size: u64) -> Result<usize> {
    usize::try_from(size).map_err(|_| Error::limit("larger than memory"))
}

fn byte() -> Datatype {
    Datatype { size: 1, class: Class::Opaque { tag: Default::default() } }
}

/// Encodes elements of a file as a stream.
pub(super) fn write(
    contents: &Contents,
    input: usize,
    datatype: &Datatype,
    elements: &[u8],
) -> Result<Vec<u8>> {
    if !is_stream(datatype) {
        return hyperchunk::room::copy(elements);
    }
    let Some(source) = contents.inputs.get(input) else { return Err(Error::invalid("no such file")) };
    let mut out = Vec::new();
    let mut sequences = source.file.sequences();
    let from = Source { contents, input };
    for element in elements.chunks_exact(narrow(datatype.size)?.max(1)) {
        from.put(datatype, element, &mut sequences, &mut out)?;
    }
    Ok(out)
}

/// Origin of elements.
struct Source<'a> {
    contents: &'a Contents,
    input: usize,
}

impl Source<'_> {
    /// Returns the path of the object at an address; empty if there is no object.
    fn path(&self, address: Option<u64>) -> &[u8] {
        let item = address.and_then(|address| self.contents.find(self.input, address));
        item.and_then(|item| self.contents.items.get(item)).map_or(&[][..], |item| &item.path)
    }

    fn put(
        &self,
        datatype: &Datatype,
        element: &[u8],
        sequences: &mut Sequences<'_>,
        out: &mut Vec<u8>,
    ) -> Result<()> {
        let short = || Error::corrupt("an element that is too short");
        match &datatype.class {
            _ if !is_stream(datatype) => out.extend_from_slice(element),
            Class::Compound { members } => {
                for member in members {
                    let start = narrow(member.offset)?;
                    let end = start.saturating_add(narrow(member.datatype.size)?);
                    self.put(&member.datatype, element.get(start..end).ok_or_else(short)?, sequences, out)?;
                }
            }
            Class::Array { base, .. } => {
                for element in element.chunks_exact(narrow(base.size)?.max(1)) {
                    self.put(base, element, sequences, out)?;
                }
            }
            Class::Vlen { .. } | Class::VlenString { .. } => {
                let base = match &datatype.class {
                    Class::Vlen { base } => (**base).clone(),
                    _ => byte(),
                };
                let Some((count, bytes)) = sequences.get(element, &base)? else {
                    out.extend_from_slice(&u64::MAX.to_le_bytes());
                    return Ok(());
                };
                out.extend_from_slice(&count.to_le_bytes());
                let bytes = bytes.to_vec();
                if !is_stream(&base) {
                    out.extend_from_slice(&bytes);
                    return Ok(());
                }
                for element in bytes.chunks_exact(narrow(base.size)?.max(1)) {
                    self.put(&base, element, sequences, out)?;
                }
            }
            Class::Reference(ReferenceKind::Object1) => {
                counted(self.path(address(element)), out);
            }
            Class::Reference(ReferenceKind::Region1) => {
                // The address of a collection, and a number of 4 bytes.
                let width = element.len().checked_sub(4).ok_or_else(short)?;
                let (place, number) = element.split_at(width);
                let number = number.first_chunk().copied().ok_or_else(short)?;
                let (to, selection) = match address(place) {
                    Some(place) => {
                        let object = sequences.object(place, u32::from_le_bytes(number))?;
                        let (to, selection) = object.split_at_checked(width).ok_or_else(short)?;
                        (address(to), selection)
                    }
                    None => (None, &[][..]),
                };
                counted(self.path(to), out);
                counted(selection, out);
            }
            _ => {
                let message = "cannot export references of HDF5 1.12 (`H5T_STD_REF`)";
                return Err(Error::unsupported(message));
            }
        }
        Ok(())
    }
}

/// Decodes an address of any width; `None` for a null one, or one beyond 2⁶⁴.
fn address(bytes: &[u8]) -> Option<u64> {
    let narrow = bytes.iter().skip(8).all(|byte| *byte == 0);
    let address = bytes.iter().take(8).rev().fold(0, |address, byte| address << 8 | u64::from(*byte));
    Some(address).filter(|address| *address != 0 && narrow)
}

/// Appends bytes after their length.
fn counted(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(&(bytes.len() as u64).to_le_bytes());
    out.extend_from_slice(bytes);
}

/// Decoder of a stream to elements of a new file, in the datatypes of `new_type` there.
pub(super) struct Reader<'a> {
    pub(super) writer: &'a Writer,
    /// Returns the object at a path.
    pub(super) find: &'a dyn Fn(&[u8]) -> Option<NodeId>,
    /// True for values of attributes, false for elements of datasets.
    pub(super) attribute: bool,
}

impl Reader<'_> {
    /// Decodes a whole stream.
    pub(super) fn all(&self, datatype: &Datatype, mut stream: &[u8]) -> Result<Vec<u8>> {
        if !is_stream(datatype) {
            return hyperchunk::room::copy(stream);
        }
        let mut out = Vec::new();
        while !stream.is_empty() {
            self.get(datatype, &mut stream, &mut out)?;
        }
        Ok(out)
    }

    fn store(&self, count: usize, bytes: &[u8]) -> Result<[u8; 16]> {
        if self.attribute {
            self.writer.store_attribute_sequence(count, bytes)
        } else {
            self.writer.store_sequence(count, bytes)
        }
    }

    /// Reads a path and returns the address of its object; 0 for none.
    fn address(&self, stream: &mut &[u8]) -> Result<u64> {
        let length = number(stream)?;
        let path = take(stream, length)?;
        let node = (self.find)(path).filter(|_| !path.is_empty());
        node.map_or(Ok(0), |node| self.writer.address(node))
    }

    fn get(&self, datatype: &Datatype, stream: &mut &[u8], out: &mut Vec<u8>) -> Result<()> {
        match &datatype.class {
            _ if !is_stream(datatype) => out.extend_from_slice(take(stream, datatype.size)?),
            Class::Compound { members } => {
                let start = out.len();
                let mut element = hyperchunk::room::zeros(narrow(datatype.size)?)?;
                for member in members {
                    self.get(&member.datatype, stream, out)?;
                    let bytes = out.split_off(start);
                    let at = narrow(member.offset)?;
                    let place = element.get_mut(at..at.saturating_add(bytes.len()));
                    place
                        .ok_or_else(|| Error::corrupt("a member outside its element"))?
                        .copy_from_slice(&bytes);
                }
                out.extend_from_slice(&element);
            }
            Class::Array { base, .. } => {
                for _ in 0..datatype.array_length() {
                    self.get(base, stream, out)?;
                }
            }
            Class::Vlen { .. } | Class::VlenString { .. } => {
                let count = number(stream)?;
                if count == u64::MAX {
                    out.extend_from_slice(&[0; 16]);
                    return Ok(());
                }
                let mut bytes = Vec::new();
                match &datatype.class {
                    Class::Vlen { base } if is_stream(base) => {
                        for _ in 0..count {
                            self.get(base, stream, &mut bytes)?;
                        }
                    }
                    Class::Vlen { base } => {
                        let size = count
                            .checked_mul(base.size)
                            .ok_or_else(|| Error::corrupt("a sequence of 2^64 bytes or more"))?;
                        bytes.extend_from_slice(take(stream, size)?);
                    }
                    _ => bytes.extend_from_slice(take(stream, count)?),
                }
                let count = narrow(count)?;
                out.extend_from_slice(&self.store(count, &bytes)?);
            }
            Class::Reference(ReferenceKind::Object1) => {
                out.extend_from_slice(&self.address(stream)?.to_le_bytes());
            }
            Class::Reference(ReferenceKind::Region1) => {
                let address = self.address(stream)?;
                let length = number(stream)?;
                let selection = take(stream, length)?;
                if address == 0 {
                    out.extend_from_slice(&[0; 12]);
                    return Ok(());
                }
                // The handle of a sequence, without the count.
                let object = [&address.to_le_bytes(), selection].concat();
                let handle = self.store(object.len(), &object)?;
                out.extend_from_slice(handle.get(4..).unwrap_or_default());
            }
            _ => return Err(Error::unsupported("cannot import references of HDF5 1.12 (`H5T_STD_REF`)")),
        }
        Ok(())
    }
}

fn take<'s>(stream: &mut &'s [u8], length: u64) -> Result<&'s [u8]> {
    let length = usize::try_from(length).ok().filter(|length| *length <= stream.len());
    let Some((taken, rest)) = length.and_then(|length| stream.split_at_checked(length)) else {
        return Err(Error::corrupt("a stream that ends in the middle of an element"));
    };
    *stream = rest;
    Ok(taken)
}

fn number(stream: &mut &[u8]) -> Result<u64> {
    let bytes = take(stream, 8)?.first_chunk().copied();
    bytes.map(u64::from_le_bytes).ok_or_else(|| Error::corrupt("a number that is cut short"))
}
